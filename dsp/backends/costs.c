#include "costs.h"

#include "dsp/base/c_locale.h"
#include "dsp/base/cache.h"
#include "dsp/base/fork_safety.h"
#include "dsp/base/number.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FIRST_LINE "haloconv costs 4 " HC_VERSION

/* The costs that a line of the file contains, in this order. */
#define AT(cost) offsetof(struct plan_costs, cost)
static const size_t number_at[] = {AT(mac_ns),      AT(cmac_ns),      AT(live_cmac_ns), AT(fft_ns),
                                   AT(tail_fft_ns), AT(tail_cmac_ns), AT(launch_ns),    AT(slice_ns),
                                   AT(call_ns),     AT(hop_ns),       AT(word_ns),      AT(far_mac_ns)};

enum {
    N_NUMBERS = sizeof number_at / sizeof *number_at,
    MAX_LINES = 64,
    LINE_CAP = 512,
    LOCK_TRIES = 100,
    LOCK_TRY_MS = 10,
};

/* A cost is implausible if it differs from the built-in cost by a larger factor. Processors vary less than GPUs. */
static const double max_factor_on_device = 1000;
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__ /* sanitizers slow code 10 to 40 times */
static const double max_factor_in_place = 1000;
#else
static const double max_factor_in_place = 30;
#endif

/* The lines that this process has read or measured. Under LOCK_COSTS. */
static struct costs_line {
    char backend[16], device[256];
    double numbers[N_NUMBERS];
} lines[MAX_LINES];
static int n_lines;
static bool is_read;

static double *costs_number(struct plan_costs *costs, int k)
{
    return (void *)((char *)costs + number_at[k]);
}

static bool is_off(void)
{
    const char *set = secure_getenv("HALOCONV_COSTS");
    return set && strcmp(set, "builtin") == 0;
}

/* Writes the model name of the processor, which a backend's description does not contain. */
static void processor_name(char *name, size_t cap)
{
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "re");
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

/* Adds a text to a 64-bit FNV-1a hash. */
static uint64_t hash_add(uint64_t hash, const char *text)
{
    for (; *text; text++) hash = (hash ^ (unsigned char)*text) * 0x100000001b3;
    return hash;
}

/* Returns "machine 0123456789abcdef, ", a hash of the machine's id and name. Machines of one image may share the id,
 * and unnamed machines the name. The id itself is confidential (machine-id(5)). Under LOCK_COSTS. */
static const char *machine_name(void)
{
    static char name[32];
    char id[64] = "", host[256] = "";
    if (name[0]) return name;
    FILE *file = fopen("/etc/machine-id", "re");
    if (file && !fgets(id, sizeof id, file)) id[0] = '\0';
    if (file) fclose(file);
    if (gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
    uint64_t hash = hash_add(hash_add(hash_add(0xcbf29ce484222325, "haloconv "), id), host);
    snprintf(name, sizeof name, "machine %016" PRIx64 ", ", hash);
    return name;
}

/* Writes the machine, the processor if the backend runs on it, and the backend's description of the device. */
static bool device_name(const struct backend *backend, int device, char *name, size_t cap)
{
    char text[128], processor[128] = "";
    if (backend->describe(device, text, sizeof text) != HC_OK) return false;
    if (backend->in_place) processor_name(processor, sizeof processor);
    global_lock(LOCK_COSTS);
    snprintf(name, cap, "%s%s%s%s", machine_name(), processor, processor[0] ? ", " : "", text);
    global_unlock(LOCK_COSTS);
    name[strcspn(name, "\t\n")] = '\0';
    return true;
}

static bool costs_line_read(const char *text, struct costs_line *l)
{
    int at = 0;
    if (sscanf(text, "%15[^\t]\t%255[^\t]\t%n", l->backend, l->device, &at) != 2 || at == 0) return false;
    for (int k = 0; k < N_NUMBERS; k++) {
        const char *end = number_read(text + at, NAN, NAN, &l->numbers[k]);
        if (!end) return false;
        at = (int)(end - text);
    }
    return true;
}

static void line_write(FILE *file, const struct costs_line *l)
{
    char text[LINE_CAP];
    int n = snprintf(text, sizeof text, "%s\t%s\t", l->backend, l->device);
    for (int k = 0; k < N_NUMBERS; k++)
        n += snprintf(text + n, sizeof text - (size_t)n, k + 1 < N_NUMBERS ? "%.6g " : "%.6g\n", l->numbers[k]);
    fwrite(text, 1, (size_t)n, file);
}

/* Finds a device's line. If device is NULL, finds the first line of any device of this machine. */
static struct costs_line *costs_line_of(const char *backend, const char *device)
{
    const char *machine = machine_name();
    for (int i = 0; i < n_lines; i++)
        if (strcmp(lines[i].backend, backend) == 0 &&
            (device ? strcmp(lines[i].device, device) == 0 : strncmp(lines[i].device, machine, strlen(machine)) == 0))
            return &lines[i];
    return NULL;
}

/* Opens the costs file. NULL: the file is absent, a link, or a FIFO, which would block. */
static FILE *file_open(void)
{
    char path[CACHE_PATH];
    struct stat is;
    if (!cache_path(path, "costs")) return NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    FILE *file = fd >= 0 && fstat(fd, &is) == 0 && S_ISREG(is.st_mode) ? fdopen(fd, "r") : NULL;
    if (!file && fd >= 0) close(fd);
    return file;
}

/* Reads the lines of the file, and puts the lines that only this process has behind them. Under LOCK_COSTS. */
static void costs_file_read(void)
{
    static struct costs_line known[MAX_LINES];
    char text[LINE_CAP];
    int n_known = n_lines;
    memcpy(known, lines, sizeof known);
    n_lines = 0;
    is_read = true;
    FILE *file = file_open();
    bool good = file && fgets(text, sizeof text, file) && strcmp(text, FIRST_LINE "\n") == 0;
    for (int i = 0; good && i < MAX_LINES && fgets(text, sizeof text, file); i++) {
        struct costs_line l;
        if (costs_line_read(text, &l)) lines[n_lines++] = l;
    }
    if (file) fclose(file);
    for (int i = 0; i < n_known && n_lines < MAX_LINES; i++)
        if (!costs_line_of(known[i].backend, known[i].device)) lines[n_lines++] = known[i];
}

static void costs_file_write(void)
{
    char path[CACHE_PATH], temporary[CACHE_PATH];
    if (!cache_path(path, "costs") || !cache_path(temporary, "costs.XXXXXX") || !cache_make(path)) return;
    int fd = mkostemp(temporary, O_CLOEXEC);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (file) {
        locale_t was = c_locale_enter();
        fwrite(FIRST_LINE "\n", 1, sizeof FIRST_LINE, file); /* sizeof also counts the 0, here for the newline */
        for (int i = 0; i < n_lines; i++) line_write(file, &lines[i]);
        c_locale_leave(was);
        bool good = !ferror(file);
        good = fclose(file) == 0 && good;
        if (good && rename(temporary, path) == 0) return;
    } else if (fd >= 0) {
        close(fd);
    }
    if (fd >= 0) unlink(temporary);
}

/* Locks the cache against other processes and threads that measure or write. -1: another one held the lock for a whole
 * second, or the lock file cannot be made. */
static int cache_lock(void)
{
    char path[CACHE_PATH];
    if (!cache_path(path, "costs.lock") || !cache_make(path)) return -1;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    for (int i = 0; fd >= 0 && i < LOCK_TRIES; i++) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
        if (errno != EWOULDBLOCK && errno != EINTR) break;
        nanosleep(&(struct timespec){.tv_nsec = LOCK_TRY_MS * 1000000L}, NULL);
    }
    if (fd >= 0) close(fd);
    return -1;
}

int costs_correct(const struct backend *backend, struct plan_costs *costs)
{
    const double max = backend->in_place ? max_factor_in_place : max_factor_on_device;
    struct plan_costs built_in = *backend->costs;
    int n = 0;
    for (int k = 0; k < N_NUMBERS; k++) {
        double *cost = costs_number(costs, k), own = *costs_number(&built_in, k);
        if (*cost >= own / max && *cost <= own * max) continue; /* a built-in 0, for what is not supported, stays 0 */
        *cost = own;
        n++;
    }
    return n;
}

bool costs_find(const struct backend *backend, int device, struct plan_costs *costs)
{
    char name[256];
    *costs = *backend->costs;
    if (device >= 0 && backend->limit) backend->limit(device, costs);
    if (backend == &backend_cpu_files || is_off() || (device >= 0 && !device_name(backend, device, name, sizeof name)))
        return false;
    global_lock(LOCK_COSTS);
    if (!is_read) costs_file_read();
    struct costs_line *l = costs_line_of(backend->name, device >= 0 ? name : NULL);
    struct plan_costs found = *costs;
    for (int k = 0; l && k < N_NUMBERS; k++) *costs_number(&found, k) = l->numbers[k];
    global_unlock(LOCK_COSTS);
    if (!l || costs_correct(backend, &found) > 0) return false;
    *costs = found;
    return true;
}

/* Stores a device's costs in its line. Reads the file again before it writes: lines of other processes stay. */
static void line_keep(const struct backend *backend, int device, const struct plan_costs *costs)
{
    struct costs_line fresh = {0};
    struct plan_costs copy = *costs;
    if (!device_name(backend, device, fresh.device, sizeof fresh.device)) return;
    snprintf(fresh.backend, sizeof fresh.backend, "%s", backend->name);
    for (int k = 0; k < N_NUMBERS; k++) fresh.numbers[k] = *costs_number(&copy, k);
    global_lock(LOCK_COSTS);
    costs_file_read();
    struct costs_line *l = costs_line_of(backend->name, fresh.device);
    int at = l ? (int)(l - lines) : n_lines < MAX_LINES ? n_lines++ : MAX_LINES - 1; /* full: overwrite the last */
    memmove(lines + 1, lines, (size_t)at * sizeof *lines);
    lines[0] = fresh;
    costs_file_write();
    global_unlock(LOCK_COSTS);
}

void costs_keep(const struct backend *backend, int device, const struct plan_costs *costs)
{
    if (is_off()) return;
    int fd = cache_lock();
    line_keep(backend, device, costs);
    if (fd >= 0) close(fd);
}

void costs_measure_once(const struct backend *backend)
{
    struct plan_costs costs;
    if (is_off() || !backend->measure || costs_find(backend, 0, &costs)) return;
    int fd = cache_lock();
    global_lock(LOCK_COSTS);
    is_read = false; /* another process may have measured during the wait for the lock */
    global_unlock(LOCK_COSTS);
    if (!costs_find(backend, 0, &costs) && backend->measure(0, &costs, NULL) == HC_OK) line_keep(backend, 0, &costs);
    if (fd >= 0) close(fd);
}
