#include "costs.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAD "haloconv costs 1 " HC_VERSION

enum { N_NUMBERS = 8, MOST_LINES = 64, LINE_CAP = 512 };
static const double most_off = 30; /* times more or less than the backend was built with: no measurement */

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
    double *all[N_NUMBERS] = {&c->mac_ns,      &c->cmac_ns,   &c->fft_ns,   &c->far_fft_ns,
                              &c->far_cmac_ns, &c->launch_ns, &c->slice_ns, &c->call_ns};
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
        double *n = l.numbers;
        if (sscanf(text, "%15[^\t]\t%255[^\t]\t%lf %lf %lf %lf %lf %lf %lf %lf", l.backend, l.device, n, n + 1, n + 2,
                   n + 3, n + 4, n + 5, n + 6, n + 7) == 2 + N_NUMBERS)
            lines[n_lines++] = l;
    }
    fclose(file);
}

static bool file_write(void)
{
    char path[4096], part[4200], text[LINE_CAP];
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
    int n = snprintf(text, sizeof text, HEAD "\n");
    fwrite(text, 1, (size_t)n, file);
    for (int i = 0; i < n_lines; i++) {
        const double *k = lines[i].numbers;
        n = snprintf(text, sizeof text, "%s\t%s\t%.6g %.6g %.6g %.6g %.6g %.6g %.6g %.6g\n", lines[i].backend,
                     lines[i].device, k[0], k[1], k[2], k[3], k[4], k[5], k[6], k[7]);
        fwrite(text, 1, (size_t)n, file);
    }
    bool good = !ferror(file);
    good = fclose(file) == 0 && good;
    if (good) good = rename(part, path) == 0;
    if (!good) unlink(part);
    return good;
}

/* A line's numbers into costs, unless one of them cannot be. */
static bool take(const struct line *l, const struct backend *backend, struct plan_costs *costs)
{
    struct plan_costs built = *backend->costs, found = *backend->costs;
    double *from[N_NUMBERS], *to[N_NUMBERS];
    numbers_of(&built, from);
    numbers_of(&found, to);
    for (int k = 0; k < N_NUMBERS; k++) {
        double n = l->numbers[k], b = *from[k];
        if (!(n >= b / most_off && n <= b * most_off)) return false; /* 0 stays 0: the backend cannot do it */
        *to[k] = n;
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
    if (!l && n_lines < MOST_LINES) l = &lines[n_lines++];
    if (l) {
        *l = fresh;
        file_write();
    }
    pthread_mutex_unlock(&lock);
}

void costs_measure_once(const struct backend *backend)
{
    struct plan_costs costs;
    if (is_off() || !backend->measure || costs_find(backend, 0, &costs)) return;
    if (backend->measure(0, &costs, NULL, 0) == HC_OK) costs_keep(backend, 0, &costs);
}
