#include "files_read.h"

#include "dsp/haloconv_masks.h"
#include "host/message.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* standard: the descriptor that "-" stands for. */
static bool identify(const char *path, int standard, struct file_identity *identity)
{
    struct stat status;
    int failed = strcmp(path, "-") == 0 ? fstat(standard, &status) : stat(path, &status);
    if (failed || !S_ISREG(status.st_mode)) return false;
    *identity = (struct file_identity){status.st_dev, status.st_ino};
    return true;
}

bool files_read_add(struct files_read *read, const char *path)
{
    struct file_identity identity;
    if (!identify(path, STDIN_FILENO, &identity)) return true;
    if (read->n == read->capacity) {
        size_t capacity = read->capacity ? 2 * read->capacity : 16;
        struct file_identity *files = realloc(read->files, capacity * sizeof *files);
        if (!files) return false;
        read->files = files;
        read->capacity = capacity;
    }
    read->files[read->n++] = identity;
    read->is_sorted = false;
    return true;
}

/* Adds a path, and the file of every rate that a path with %r stands for. */
static bool add_rates(struct files_read *read, const char *path, bool (*add)(struct files_read *, const char *))
{
    if (!add(read, path)) return false;
    if (!strstr(path, "%r")) return true;
    char *pattern = malloc(3 * strlen(path) + 1), *to = pattern;
    if (!pattern) return false;
    for (const char *at = path; *at; at++) {
        if (strncmp(at, "%r", 2) == 0) {
            to = stpcpy(to, "[0-9]*");
            at++;
            continue;
        }
        if (strchr("*?[\\", *at)) *to++ = '\\';
        *to++ = *at;
    }
    *to = '\0';
    glob_t found;
    int error = glob(pattern, GLOB_NOSORT, NULL, &found);
    bool good = error != GLOB_NOSPACE;
    if (!error) {
        for (size_t i = 0; i < found.gl_pathc && good; i++) good = add(read, found.gl_pathv[i]);
        globfree(&found);
    }
    free(pattern);
    return good;
}

static bool add_mask_of_a_rate(struct files_read *read, const char *path)
{
    const char *file;
    hc_responses names;
    if (!files_read_add(read, path)) return false;
    bool good = hc_responses_load(path, 0, 0, HC_NAMES_ONLY, &names, NULL, 0) != HC_ENOMEM;
    for (int i = 0; good && (file = hc_responses_file(&names, i)); i++) good = add_rates(read, file, files_read_add);
    hc_responses_free(&names);
    return good;
}

bool files_read_add_mask(struct files_read *read, const char *path)
{
    return add_rates(read, path, add_mask_of_a_rate);
}

int file_identity_order(const void *a, const void *b)
{
    const struct file_identity *p = a, *q = b;
    if (p->device != q->device) return p->device < q->device ? -1 : 1;
    return p->number < q->number ? -1 : p->number > q->number;
}

bool files_read_spare(struct files_read *read, const char *output, char *why, size_t cap)
{
    struct file_identity one;
    if (!read->is_sorted && read->n) qsort(read->files, read->n, sizeof *read->files, file_identity_order);
    read->is_sorted = true;
    bool is_read = read->n && identify(output, STDOUT_FILENO, &one) &&
                   bsearch(&one, read->files, read->n, sizeof *read->files, file_identity_order);
    return !is_read || message_write(why, cap,
                                     "%s: is a file that this run reads, and would be overwritten; choose another "
                                     "output",
                                     output);
}

void files_read_free(struct files_read *read)
{
    free(read->files);
    *read = (struct files_read){0};
}
