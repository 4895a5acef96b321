#include "costs.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAD "haloconv costs 2 " HC_VERSION

enum { N_NUMBERS = 9, MOST_LINES = 64, LINE_CAP = 512 };
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

static bool folder_name(char *path, size_t cap)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n = cache && cache[0] == '/' ? snprintf(path, cap, "%s/haloconv", cache)
            : home && home[0] == '/' ? snprintf(path, cap, "%s/.cache/haloconv", home)
                                     : -1;
    return n > 0 && (size_t)n < cap;
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

static void file_read(void)
{
    char path[4096], text[LINE_CAP];
    is_read = true;
    if (!folder_name(path, sizeof path - 8)) return;
    strcat(path, "/costs");
    FILE *file = fopen(path, "r");
    if (!file) return;
    bool good = fgets(text, sizeof text, file) && strcmp(text, HEAD "\n") == 0;
    while (good && n_lines < MOST_LINES && fgets(text, sizeof text, file)) {
        struct line l;
        if (line_read(text, &l)) lines[n_lines++] = l;
    }
    fclose(file);
}

static bool file_write(void)
{
    char path[4096], part[4200];
    if (!folder_name(path, sizeof path - 8)) return false;
    char *slash = strrchr(path, '/');
    *slash = '\0';
    if (mkdir(path, 0700) != 0 && errno != EEXIST) return false;
    *slash = '/';
    if (mkdir(path, 0700) != 0 && errno != EEXIST) return false;
    strcat(path, "/costs");
    snprintf(part, sizeof part, "%s.%ld", path, (long)getpid());
    FILE *file = fopen(part, "w");
    if (!file) return false;
    fwrite(HEAD "\n", 1, sizeof HEAD, file); /* sizeof counts the 0 behind it: the line's end here */
    for (int i = 0; i < n_lines; i++) line_write(file, &lines[i]);
    bool good = !ferror(file);
    good = fclose(file) == 0 && good;
    if (good) good = rename(part, path) == 0;
    if (!good) unlink(part);
    return good;
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

static struct line *line_find(const struct backend *backend, const char *device)
{
    if (!is_read) file_read();
    for (int i = 0; i < n_lines; i++)
        if (strcmp(lines[i].backend, backend->name) == 0 && (!device || strcmp(lines[i].device, device) == 0))
            return &lines[i];
    return NULL;
}

bool costs_find(const struct backend *backend, int device, struct plan_costs *costs)
{
    char name[256];
    *costs = *backend->costs;
    if (backend == &backend_cpu_files || is_off() || (device >= 0 && !device_name(backend, device, name, sizeof name)))
        return false;
    pthread_mutex_lock(&lock);
    struct line *l = line_find(backend, device >= 0 ? name : NULL);
    bool found = l && take(l, backend, costs);
    pthread_mutex_unlock(&lock);
    return found;
}

void costs_keep(const struct backend *backend, int device, const struct plan_costs *costs)
{
    struct line fresh = {0};
    struct plan_costs copy = *costs;
    double *numbers[N_NUMBERS];
    if (is_off() || !device_name(backend, device, fresh.device, sizeof fresh.device)) return;
    snprintf(fresh.backend, sizeof fresh.backend, "%s", backend->name);
    numbers_of(&copy, numbers);
    for (int k = 0; k < N_NUMBERS; k++) fresh.numbers[k] = *numbers[k];
    pthread_mutex_lock(&lock);
    struct line *l = line_find(backend, fresh.device);
    int at = l ? (int)(l - lines) : n_lines < MOST_LINES ? n_lines++ : MOST_LINES - 1; /* the oldest makes room */
    memmove(lines + 1, lines, (size_t)at * sizeof *lines);
    lines[0] = fresh;
    file_write();
    pthread_mutex_unlock(&lock);
}

void costs_measure_once(const struct backend *backend)
{
    struct plan_costs costs;
    if (is_off() || !backend->measure || costs_find(backend, 0, &costs)) return;
    if (backend->measure(0, &costs, NULL, 0) == HC_OK) costs_keep(backend, 0, &costs);
}
