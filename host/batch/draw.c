#include "draw.h"

#include "host/message.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static char glob_folder[PATH_MAX]; /* that glob could not search; glob hands its callback no pointer of ours */
static int glob_errno;

/* If this returns 0, glob leaves out the files of a folder that it cannot search. A link to nowhere has none. */
static int glob_failed(const char *folder, int error)
{
    snprintf(glob_folder, sizeof glob_folder, "%s", folder);
    glob_errno = error;
    return error != ENOENT && error != ELOOP;
}

bool find_files(const char *pattern, glob_t *found, char *why, size_t cap)
{
    int error = glob(pattern, GLOB_NOSORT | GLOB_BRACE | GLOB_TILDE, glob_failed, found);
    if (error == GLOB_NOMATCH) return message_write(why, cap, "%s: matches no file; check the pattern", pattern);
    if (error == GLOB_ABORTED)
        return message_write(why, cap, "%s: cannot be searched: %s; choose a pattern without this folder", glob_folder,
                             strerror(glob_errno));
    if (error) return message_write(why, cap, "no memory for the files of %s; choose fewer", pattern);
    qsort(found->gl_pathv, found->gl_pathc, sizeof *found->gl_pathv, by_text);
    return true;
}

static bool is_pattern(const char *text)
{
    return strpbrk(text, "*?[") != NULL;
}

const char *draw_file(struct draw *draw, const char *name, uint64_t number, char *why, size_t cap)
{
    if (!is_pattern(name) || access(name, F_OK) == 0) return name;
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
