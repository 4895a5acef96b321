#include "rate_pattern.h"

#include "dsp/base/error.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_DIGITS = 9, EXAMPLE_RATE = 48000 };
static const char mark[] = "%r";

/* Writes the pattern with the rate instead of each mark. false: the path is too long. */
static bool fill(const char *pattern, int rate, char path[PATH_MAX])
{
    size_t used = 0;
    for (const char *at = pattern, *next; at; at = next) {
        next = strstr(at, mark);
        int length = next ? (int)(next - at) : (int)strlen(at);
        used += (size_t)snprintf(path + used, PATH_MAX - used, "%.*s", length, at);
        if (next && used < PATH_MAX) used += (size_t)snprintf(path + used, PATH_MAX - used, "%d", rate);
        if (used >= PATH_MAX) return false;
        if (next) next += strlen(mark);
    }
    return true;
}

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

/* Returns the number behind the first `prefix` bytes of a name; 0: it is missing, or does not look like a rate. */
static int rate_in_name(const char *name, size_t prefix)
{
    size_t n = strspn(name + prefix, "0123456789");
    return n > 0 && n <= MAX_DIGITS && name[prefix] != '0' ? atoi(name + prefix) : 0;
}

static bool is_nearer(int rate, int to, int than)
{
    if (than == 0) return true;
    if ((rate >= to) != (than >= to)) return rate >= to;
    return to && rate >= to ? rate < than : rate > than;
}

/* Finds the nearest rate for which the pattern has a file; 0: none. Returns the errno of reading the folder with the
 * first mark. */
static int nearest_rate(const char *pattern, int to, int *rate)
{
    char path[PATH_MAX];
    const char *at = strstr(pattern, mark), *slash = memrchr(pattern, '/', (size_t)(at - pattern));
    const char *name = slash ? slash + 1 : pattern;
    size_t prefix = (size_t)(at - name);
    snprintf(path, sizeof path, "%.*s.", (int)(name - pattern), pattern);
    DIR *folder = opendir(path);
    *rate = 0;
    if (!folder) return errno;
    for (const struct dirent *entry; (entry = readdir(folder));) {
        int here = strncmp(entry->d_name, name, prefix) == 0 ? rate_in_name(entry->d_name, prefix) : 0;
        if (here && is_nearer(here, to, *rate) && fill(pattern, here, path) && exists(path)) *rate = here;
    }
    closedir(folder);
    return 0;
}

static int pattern_refuse_length(const char *path, struct reason *why)
{
    return fail(HC_EFILE, why, "%.200s: the path has %d bytes or more; use a shorter one", path, PATH_MAX);
}

int rate_pattern_find(const char *path, int rate, struct rated_file *file, struct reason *why)
{
    *file = (struct rated_file){0};
    size_t length = strlen(path);
    if (length >= sizeof file->path) return pattern_refuse_length(path, why);
    memcpy(file->path, path, length + 1);
    if (!strstr(path, mark) || exists(path)) return HC_OK;
    if (!fill(path, rate ? rate : EXAMPLE_RATE, file->missing)) return pattern_refuse_length(path, why);
    file->rate = rate;
    int error = rate && exists(file->missing) ? 0 : nearest_rate(path, rate, &file->rate);
    if (error && error != ENOENT)
        return fail(HC_EFILE, why,
                    "%s: its folder cannot be searched for rates: %s; check the path and its permissions", path,
                    strerror(error));
    if (!file->rate || !fill(path, file->rate, file->path))
        return fail(HC_EFILE, why, "%s: no file has a rate in place of %%r, such as %s; check the path", path,
                    file->missing);
    if (!rate || file->rate == rate) file->missing[0] = 0;
    return HC_OK;
}
