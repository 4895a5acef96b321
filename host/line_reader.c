#include "line_reader.h"

#include "message.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Is this the name of a descriptor of this process? */
static bool is_own_descriptor(const char *path)
{
    return strncmp(path, "/dev/fd/", 8) == 0 || strncmp(path, "/proc/self/fd/", 14) == 0 ||
           strcmp(path, "/dev/stdin") == 0;
}

FILE *text_in_open(const char *path, const char **reason)
{
    bool is_own = is_own_descriptor(path);
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | (is_own ? 0 : O_NONBLOCK));
    bool is_odd = fd >= 0 && !is_own && fstat(fd, &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
    bool good = fd >= 0 && !is_odd && fcntl(fd, F_SETFL, 0) == 0; /* O_NONBLOCK is for open only */
    FILE *file = good ? fdopen(fd, "r") : NULL;
    *reason = is_odd ? "it is not a regular file" : strerror(errno);
    if (!file && fd >= 0) close(fd);
    return file;
}

bool line_reader_open(struct line_reader *in, const char *path, const char *remedy, char *why, size_t cap)
{
    *in = (struct line_reader){.path = path, .remedy = remedy, .why = why, .cap = cap};
    const char *reason = NULL;
    in->file = strcmp(path, "-") == 0 ? stdin : text_in_open(path, &reason);
    if (in->file) in->line = malloc(LINE_BYTES + 1);
    if (in->line) return true;
    message_write(why, cap, "%s: cannot be read: %s; %s", path, in->file ? "no memory for a line" : reason, remedy);
    line_reader_close(in);
    return false;
}

enum line_state line_read(struct line_reader *in)
{
    int c = 0;
    while (in->is_rest_unread && c != EOF) in->is_rest_unread = (c = getc_unlocked(in->file)) != '\n';
    in->length = 0;
    while (in->length < LINE_BYTES && (c = getc_unlocked(in->file)) > 0) { /* neither EOF nor NUL */
        in->line[in->length++] = (char)c;
        if (c == '\n') break;
    }
    in->line[in->length] = 0;
    if (c != EOF || in->length > 0) in->number++;
    if (in->number == 1 && strncmp(in->line, "\xef\xbb\xbf", 3) == 0) { /* byte order mark of UTF-8 */
        in->length -= 3;
        memmove(in->line, in->line + 3, in->length + 1);
    }
    if (ferror(in->file)) {
        message_write(in->why, in->cap, "%s: cannot be read: %s; %s", in->path, strerror(errno), in->remedy);
        return LINE_FAILED;
    }
    if (c == '\n' || c == EOF) return in->length ? LINE_READ : LINE_END;
    in->is_rest_unread = true;
    if (c == 0)
        line_refuse(in, "is not text; write the file as UTF-8");
    else
        line_refuse(in, "is longer than %d bytes; cut the line", LINE_BYTES - 1);
    return LINE_BAD;
}

bool line_refuse(const struct line_reader *in, const char *format, ...)
{
    char text[MESSAGE_CAP - 300];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    return message_write(in->why, in->cap, "%s:%zu: %s", in->path, in->number, text);
}

void line_reader_close(struct line_reader *in)
{
    if (in->file && in->file != stdin) fclose(in->file);
    free(in->line);
    *in = (struct line_reader){0};
}

/* ---- fields of CSV ---------------------------------------------------------------------------- */

bool csv_field(struct line_reader *in, char **at, char **field)
{
    char *from = *at, *to = from;
    bool quoted = *from == '"';
    *field = from;
    if (quoted) {
        for (from++; *from != '"' || from[1] == '"'; from++) {
            if (*from == 0) return line_refuse(in, "a quote has no end; write \"\" for a quote inside a field");
            if (*from == '"') from++;
            *to++ = *from;
        }
        from++;
    }
    if (quoted && *from && *from != ',')
        return line_refuse(in, "text follows a quote's end; write \"\" for a quote inside a field");
    while (*from && *from != ',') *to++ = *from++;
    bool more = *from == ',';
    *to = 0;
    *at = more ? from + 1 : NULL;
    return true;
}

/* Does a quoted field continue behind this line? *state: the parser's state, updated from the line's start to its end. */
enum csv_state { FIELD_START, PLAIN, QUOTED, QUOTE_IN_QUOTED };
static bool csv_continues(const char *text, enum csv_state *state)
{
    for (; *text; text++) {
        if (*state == QUOTED)
            *state = *text == '"' ? QUOTE_IN_QUOTED : QUOTED;
        else if (*text == '"' && *state != PLAIN) /* inside a plain field a quote is an ordinary letter */
            *state = QUOTED;
        else
            *state = *text == ',' ? FIELD_START : PLAIN;
    }
    return *state == QUOTED;
}

enum line_state csv_record(struct line_reader *in, char *record)
{
    enum csv_state state = FIELD_START;
    enum line_state got;
    size_t used = 0;
    while ((got = line_read(in)) == LINE_READ) {
        memcpy(record + used, in->line, in->length + 1);
        used += in->length;
        if (!csv_continues(in->line, &state) || used > LINE_BYTES) break; /* csv_field reports the missing quote */
    }
    if (got != LINE_READ && (got != LINE_END || used == 0)) return got;
    while (used > 0 && (record[used - 1] == '\n' || record[used - 1] == '\r')) record[--used] = 0;
    return LINE_READ;
}
