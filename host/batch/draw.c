#include "draw.h"

#include "dsp/base/order.h"
#include "host/message.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char glob_folder[PATH_MAX]; /* folder that glob could not search; static, for the callback */
static int glob_errno;

/* Returns 0 to let glob skip the folder: a dangling link has no files to miss. */
static int glob_failed(const char *folder, int error)
{
    snprintf(glob_folder, sizeof glob_folder, "%s", folder);
    glob_errno = error;
    return error != ENOENT && error != ELOOP;
}

/* Appends the files of a pattern without a range. */
static bool find_plain(const char *pattern, glob_t *found, char *why, size_t cap)
{
    int append = found->gl_pathv ? GLOB_APPEND : 0;
    int is_rated = strstr(pattern, "%r") ? GLOB_NOMAGIC : 0; /* room-%r.wav stands for the files of several rates */
    int error = glob(pattern, append | is_rated | GLOB_NOSORT | GLOB_BRACE | GLOB_TILDE, glob_failed, found);
    if (error == GLOB_NOMATCH) return message_write(why, cap, "%s: matches no file; check the pattern", pattern);
    if (error == GLOB_ABORTED)
        return message_write(why, cap, "%s: cannot be searched: %s; choose a pattern without this folder", glob_folder,
                             strerror(glob_errno));
    return !error || message_write(why, cap, "no memory for the files of %s; choose fewer", pattern);
}

struct number_range { /* {FIRST..LAST}, the shell's range of numbers, with leading zeros if the first number has them */
    const char *begin, *end; /* text of the range */
    long first, last;
    int width; /* minimum of digits */
};

/* Finds the first range of a pattern. */
static bool find_range(const char *pattern, struct number_range *range)
{
    for (const char *at = pattern; (at = strchr(at, '{')); at++) {
        char *dots, *end;
        if (!isdigit((unsigned char)at[1])) continue;
        errno = 0;
        *range = (struct number_range){.begin = at, .first = strtol(at + 1, &dots, 10)};
        if (strncmp(dots, "..", 2) != 0 || !isdigit((unsigned char)dots[2])) continue;
        range->last = strtol(dots + 2, &end, 10);
        if (errno || *end != '}' || range->last < range->first) continue;
        range->width = at[1] == '0' ? (int)(dots - at - 1) : 1;
        range->end = end + 1;
        return true;
    }
    return false;
}

/* Every number of a range must have a file: otherwise a missing file would pass unnoticed. */
static bool expand_ranges(const char *pattern, glob_t *found, int depth, char *why, size_t cap)
{
    struct number_range range;
    char one[PATH_MAX];
    if (depth == 0 || !find_range(pattern, &range)) return find_plain(pattern, found, why, cap);
    for (long number = range.first; number <= range.last; number++) {
        int length = snprintf(one, sizeof one, "%.*s%0*ld%s", (int)(range.begin - pattern), pattern, range.width,
                              number, range.end);
        if (length >= PATH_MAX) return message_write(why, cap, "%.60s...: is too long; use a shorter path", pattern);
        if (!expand_ranges(one, found, depth - 1, why, cap)) return false;
    }
    return true;
}

bool find_files(const char *pattern, glob_t *found, char *why, size_t cap)
{
    enum { MAX_RANGES = 2 };
    *found = (glob_t){0};
    bool good = expand_ranges(pattern, found, MAX_RANGES, why, cap);
    if (!good || !found->gl_pathv || found->gl_pathc == 0) { /* glob has found a file, else it would have failed */
        globfree(found);
        return false;
    }
    qsort(found->gl_pathv, found->gl_pathc, sizeof *found->gl_pathv, order_of_texts);
    return true;
}

bool draw_is_pattern(const char *name)
{
    return strpbrk(name, "*?[") != NULL && access(name, F_OK) != 0;
}

const char *draw_file(struct draw *draw, const char *name, uint64_t number, char *why, size_t cap)
{
    if (!draw_is_pattern(name)) return name;
    if (!draw->pattern || strcmp(draw->pattern, name) != 0) {
        draw_free(draw);
        if (!find_files(name, &draw->found, why, cap)) return NULL;
        draw->pattern = strdup(name);
        if (!draw->pattern) {
            globfree(&draw->found);
            message_write(why, cap, "no memory for the files of %s; choose fewer", name);
            return NULL;
        }
    }
    return draw->found.gl_pathv[number % draw->found.gl_pathc];
}

void draw_free(struct draw *draw)
{
    if (draw->pattern) globfree(&draw->found);
    free(draw->pattern);
    *draw = (struct draw){0};
}
