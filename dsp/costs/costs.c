#include "costs.h"

#include "dsp/engine/c_locale.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define HEAD "haloconv costs 2 " HC_VERSION

enum { N_NUMBERS = 9, MOST_LINES = 64, LINE_CAP = 512, PATH_CAP = 4096 };
enum { LOCK_TRIES = 100, LOCK_TRY_MS = 10 };
/* Times more or less than the backend was built with: no measurement. Processors differ less than GPUs do. */
static const double most_off_in_place = 30, most_off_on_device = 1000;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* What this process has read or measured. Under lock. */
static struct line {
    char backend[16], device[256];
    double numbers[N_NUMBERS];
} lines[MOST_LINES];
static int n_lines;
static bool is_read;

static void numbers_of(struct plan_costs *c, double *numbers[N_NUMBERS])
{
    double *all[N_NUMBERS] = {&c->mac_ns,      &c->cmac_ns,   &c->live_cmac_ns, &c->fft_ns, &c->far_fft_ns,
                              &c->far_cmac_ns, &c->launch_ns, &c->slice_ns,     &c->call_ns};
    memcpy(numbers, all, sizeof all);
}

static bool is_off(void)
{
    const char *set = getenv("HALOCONV_COSTS");
    return set && strcmp(set, "builtin") == 0;
}

/* "FOLDER/haloconv/name". */
static bool path_make(char path[PATH_CAP], const char *name)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n = cache && cache[0] == '/' ? snprintf(path, PATH_CAP, "%s/haloconv/%s", cache, name)
            : home && home[0] == '/' ? snprintf(path, PATH_CAP, "%s/.cache/haloconv/%s", home, name)
                                     : -1;
    return n > 0 && n < PATH_CAP;
}

/* The folder of this path, and the one that contains it. */
static bool folder_make(char *path)
{
    char *last = strrchr(path, '/');
    *last = '\0';
    char *first = strrchr(path, '/');
    *first = '\0';
    bool good = mkdir(path, 0700) == 0 || errno == EEXIST;
    *first = '/';
    good = good && (mkdir(path, 0700) == 0 || errno == EEXIST);
    *last = '/';
    return good;
}

/* The model of the processor, which the backend's own description does not tell. */
static void processor_name(char *name, size_t cap)
{
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "r");
    snprintf(name, cap, "unknown processor");
    while (file && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon) continue;
        line[strcspn(line, "\n")] = '\0';
        snprintf(name, cap, "%.100s", colon + 2);
        break;
    }
    if (file) fclose(file);
}

static bool device_name(const struct backend *backend, int device, char *name, size_t cap)
{
    char text[128], processor[128] = "";
    if (backend->describe(device, text, sizeof text) != HC_OK) return false;
    if (backend->in_place) processor_name(processor, sizeof processor);
    snprintf(name, cap, "%s%s%s", processor, processor[0] ? ", " : "", text);
    name[strcspn(name, "\t\n")] = '\0';
    return true;
}

static bool line_read(const char *text, struct line *l)
{
    int at = 0;
    if (sscanf(text, "%15[^\t]\t%255[^\t]\t%n", l->backend, l->device, &at) != 2 || at == 0) return false;
    for (int k = 0; k < N_NUMBERS; k++) {
        char *end;
        l->numbers[k] = strtod(text + at, &end);
        if (end == text + at) return false;
        at = (int)(end - text);
    }
    return true;
}

static void line_write(FILE *file, const struct line *l)
{
    char text[LINE_CAP];
    int n = snprintf(text, sizeof text, "%s\t%s\t", l->backend, l->device);
    for (int k = 0; k < N_NUMBERS; k++)
        n += snprintf(text + n, sizeof text - (size_t)n, k + 1 < N_NUMBERS ? "%.6g " : "%.6g\n", l->numbers[k]);
    fwrite(text, 1, (size_t)n, file);
}

static struct line *line_of(const char *backend, const char *device)
{
    for (int i = 0; i < n_lines; i++)
        if (strcmp(lines[i].backend, backend) == 0 && (!device || strcmp(lines[i].device, device) == 0))
            return &lines[i];
    return NULL;
}

/* NULL: there is none, or something else has its name (a FIFO, which would block, or a link). */
static FILE *file_open(void)
{
    char path[PATH_CAP];
    struct stat is;
    if (!path_make(path, "costs")) return NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    FILE *file = fd >= 0 && fstat(fd, &is) == 0 && S_ISREG(is.st_mode) ? fdopen(fd, "r") : NULL;
    if (!file && fd >= 0) close(fd);
    return file;
}

/* The lines of the file, then those that only this process knows. */
static void file_read(void)
{
    static struct line known[MOST_LINES];
    char text[LINE_CAP];
    int n_known = n_lines;
    memcpy(known, lines, sizeof known);
    n_lines = 0;
    is_read = true;
    locale_t was = c_locale_enter();
    FILE *file = file_open();
    bool good = file && fgets(text, sizeof text, file) && strcmp(text, HEAD "\n") == 0;
    while (good && n_lines < MOST_LINES && fgets(text, sizeof text, file)) {
        struct line l;
        if (line_read(text, &l)) lines[n_lines++] = l;
    }
    if (file) fclose(file);
    c_locale_leave(was);
    for (int i = 0; i < n_known && n_lines < MOST_LINES; i++)
        if (!line_of(known[i].backend, known[i].device)) lines[n_lines++] = known[i];
}

static bool file_write(void)
{
    char path[PATH_CAP], part[PATH_CAP];
    if (!path_make(path, "costs") || !path_make(part, "costs.XXXXXX") || !folder_make(path)) return false;
    int fd = mkostemp(part, O_CLOEXEC);
    if (fd < 0) return false;
    FILE *file = fdopen(fd, "w");
    if (!file) {
        close(fd);
        unlink(part);
        return false;
    }
    locale_t was = c_locale_enter();
    fwrite(HEAD "\n", 1, sizeof HEAD, file); /* sizeof counts the 0 behind it: the line's end here */
    for (int i = 0; i < n_lines; i++) line_write(file, &lines[i]);
    c_locale_leave(was);
    bool good = !ferror(file);
    good = fclose(file) == 0 && good;
    if (good) good = rename(part, path) == 0;
    if (!good) unlink(part);
    return good;
}

/* Keeps other processes and threads from measuring or writing at the same time; -1: without the lock, which another one
 * has kept for a second, or which cannot be made. */
static int cache_lock(void)
{
    char path[PATH_CAP];
    if (!path_make(path, "costs.lock") || !folder_make(path)) return -1;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    for (int i = 0; fd >= 0 && i < LOCK_TRIES; i++) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
        if (errno != EWOULDBLOCK && errno != EINTR) break;
        nanosleep(&(struct timespec){.tv_nsec = LOCK_TRY_MS * 1000000L}, NULL);
    }
    if (fd >= 0) close(fd);
    return -1;
}

static void cache_unlock(int fd)
{
    if (fd >= 0) close(fd);
}

/* 0 stays 0: the backend cannot do it. */
static bool can_be(const struct backend *backend, double found, double built)
{
    const double most_off = backend->in_place ? most_off_in_place : most_off_on_device;
    return found >= built / most_off && found <= built * most_off;
}

int costs_mend(const struct backend *backend, struct plan_costs *costs)
{
    struct plan_costs built = *backend->costs;
    double *from[N_NUMBERS], *to[N_NUMBERS];
    int n = 0;
    numbers_of(&built, from);
    numbers_of(costs, to);
    for (int k = 0; k < N_NUMBERS; k++)
        if (!can_be(backend, *to[k], *from[k])) *to[k] = *from[k], n++;
    return n;
}

/* A line's numbers into costs, unless one of them cannot be. */
static bool take(const struct line *l, const struct backend *backend, struct plan_costs *costs)
{
    struct plan_costs built = *backend->costs, found = *backend->costs;
    double *from[N_NUMBERS], *to[N_NUMBERS];
    numbers_of(&built, from);
    numbers_of(&found, to);
    for (int k = 0; k < N_NUMBERS; k++) {
        if (!can_be(backend, l->numbers[k], *from[k])) return false;
        *to[k] = l->numbers[k];
    }
    *costs = found;
    return true;
}

bool costs_find(const struct backend *backend, int device, struct plan_costs *costs)
{
    char name[256];
    *costs = *backend->costs;
    if (backend == &backend_cpu_files || is_off() || (device >= 0 && !device_name(backend, device, name, sizeof name)))
        return false;
    pthread_mutex_lock(&lock);
    if (!is_read) file_read();
    struct line *l = line_of(backend->name, device >= 0 ? name : NULL);
    bool found = l && take(l, backend, costs);
    pthread_mutex_unlock(&lock);
    return found;
}

/* Under the cache's lock, if that can be had: what other processes have written meanwhile stays. */
static void keep(const struct backend *backend, int device, const struct plan_costs *costs)
{
    struct line fresh = {0};
    struct plan_costs copy = *costs;
    double *numbers[N_NUMBERS];
    if (!device_name(backend, device, fresh.device, sizeof fresh.device)) return;
    snprintf(fresh.backend, sizeof fresh.backend, "%s", backend->name);
    numbers_of(&copy, numbers);
    for (int k = 0; k < N_NUMBERS; k++) fresh.numbers[k] = *numbers[k];
    pthread_mutex_lock(&lock);
    file_read();
    struct line *l = line_of(backend->name, fresh.device);
    int at = l ? (int)(l - lines) : n_lines < MOST_LINES ? n_lines++ : MOST_LINES - 1; /* the oldest makes room */
    memmove(lines + 1, lines, (size_t)at * sizeof *lines);
    lines[0] = fresh;
    file_write();
    pthread_mutex_unlock(&lock);
}

void costs_keep(const struct backend *backend, int device, const struct plan_costs *costs)
{
    if (is_off()) return;
    int fd = cache_lock();
    keep(backend, device, costs);
    cache_unlock(fd);
}

void costs_measure_once(const struct backend *backend)
{
    struct plan_costs costs;
    if (is_off() || !backend->measure || costs_find(backend, 0, &costs)) return;
    int fd = cache_lock();
    pthread_mutex_lock(&lock);
    is_read = false; /* another process may have measured while this one waited */
    pthread_mutex_unlock(&lock);
    if (!costs_find(backend, 0, &costs) && backend->measure(0, &costs, NULL, 0) == HC_OK) keep(backend, 0, &costs);
    cache_unlock(fd);
}
