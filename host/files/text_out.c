#include "text_out.h"

#include "host/line_reader.h"
#include "host/message.h"
#include "part_file.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct text {
    void (*print)(FILE *file, const void *data);
    const void *data;
    bool is_marked; /* the last line is the mark of a text that a user may edit */
};

#define MARK "# not edited: "
enum { MARK_BYTES = sizeof MARK - 1 + 16 + 1, MAX_BYTES = 1 << 28 };

/* Writes the last line: FNV-1a of the text, which a slip of a user's does not meet. */
static void mark_print(char line[MARK_BYTES + 1], const char *text, size_t n)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++) hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3u;
    snprintf(line, MARK_BYTES + 1, MARK "%016" PRIx64 "\n", hash);
}

static bool print_marked(FILE *file, const struct text *t)
{
    char *text = NULL, mark[MARK_BYTES + 1];
    size_t n = 0;
    FILE *memory = open_memstream(&text, &n);
    if (memory) t->print(memory, t->data);
    bool good = memory && !ferror(memory);
    if (memory && fclose(memory) != 0) good = false;
    if (good) {
        mark_print(mark, text, n);
        good = fwrite(text, 1, n, file) == n && fputs(mark, file) >= 0;
    }
    free(text);
    return good;
}

static bool write_text(const char *path, const struct text *text, char *why, size_t cap)
{
    struct part_file part;
    if (!part_file_open(&part, path, why, cap)) return false;
    int kept = dup(part.fd);
    FILE *file = kept >= 0 ? fdopen(kept, "w") : NULL;
    bool good = file != NULL;
    if (file && text->is_marked)
        good = print_marked(file, text);
    else if (file)
        text->print(file, text->data);
    good = good && !ferror(file);
    int error = errno;
    if (!file && kept >= 0) close(kept);
    if (file && fclose(file) != 0 && good) {
        error = errno;
        good = false;
    }
    if (good) return part_file_commit(&part, path, why, cap);
    part_file_abandon(&part);
    return message_write(why, cap, "%s: cannot be written: %s; free some space or choose another output", path,
                         strerror(error));
}

bool text_out(const char *path, void (*print)(FILE *file, const void *data), const void *data, char *why, size_t cap)
{
    return write_text(path, &(struct text){.print = print, .data = data}, why, cap);
}

bool text_out_marked(const char *path, void (*print)(FILE *file, const void *data), const void *data, char *why,
                     size_t cap)
{
    return write_text(path, &(struct text){.print = print, .data = data, .is_marked = true}, why, cap);
}

bool text_out_folder(const char *path, char *why, size_t cap)
{
    char parent[PATH_MAX];
    snprintf(parent, sizeof parent, "%s", path);
    for (char *slash = parent + 1; *slash; slash++) {
        if (*slash != '/') continue;
        *slash = 0;
        mkdir(parent, 0777); /* a failure shows below */
        *slash = '/';
    }
    struct stat status;
    if (mkdir(parent, 0777) == 0 || (stat(parent, &status) == 0 && S_ISDIR(status.st_mode))) return true;
    return message_write(why, cap, "%s: %s; give a folder that can be made", path, strerror(errno));
}

bool text_out_may_replace(const char *path, const char *words, char *why, size_t cap)
{
    char *text = NULL, mark[MARK_BYTES + 1] = "";
    const char *reason;
    size_t n = 0;
    FILE *file = text_in_open(path, &reason);
    if (!file) return access(path, F_OK) != 0 || message_write(why, cap, "%s: %s; give another -o", path, reason);
    if (getdelim(&text, &n, 0, file) < 0 || (n = strlen(text)) > MAX_BYTES) n = 0;
    fclose(file);
    bool is_ours = n >= MARK_BYTES;
    if (is_ours) {
        mark_print(mark, text, n - MARK_BYTES);
        is_ours = strcmp(text + n - MARK_BYTES, mark) == 0;
    }
    bool has_words = !words || (is_ours && strstr(text, words));
    free(text);
    if (!is_ours)
        return message_write(why, cap,
                             "%s: was edited, or another program made it, and is not replaced; give another "
                             "-o, or move the file",
                             path);
    return has_words ||
           message_write(why, cap, "%s: belongs to another output; give another -o, or move the file", path);
}
