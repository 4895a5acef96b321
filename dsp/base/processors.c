/* These functions have a separate file, so that a test can replace them. */
#include "processors.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Counts the affinity mask. A kernel for more processors than a cpu_set_t has (1024) refuses a short mask. */
static long count_affinity(void)
{
    enum { MAX_BITS = 1 << 20 };
    cpu_set_t few;
    if (sched_getaffinity(0, sizeof few, &few) == 0) return CPU_COUNT(&few);
    for (int max = 2 * CPU_SETSIZE; errno == EINVAL && max <= MAX_BITS; max *= 2) {
        cpu_set_t *many = CPU_ALLOC(max);
        if (!many) break;
        int n = sched_getaffinity(0, CPU_ALLOC_SIZE(max), many) == 0 ? CPU_COUNT_S(CPU_ALLOC_SIZE(max), many) : 0;
        int error = errno;
        CPU_FREE(many);
        if (n > 0) return n;
        errno = error;
    }
    return sysconf(_SC_NPROCESSORS_ONLN);
}

static long quota = LONG_MAX; /* processors whose time the control groups grant */

/* Reads the limits of the process's control group and of all groups above it (cgroup v2), as containers and systemd set
 * them: "QUOTA PERIOD" in microseconds, or "max PERIOD". */
static void read_quota(void)
{
    char line[PATH_MAX] = "", path[PATH_MAX + 32];
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file && fgets(line, sizeof line, file) && strncmp(line, "0::/", 4) != 0) continue;
    if (file) fclose(file);
    if (strncmp(line, "0::/", 4) != 0) return;
    line[strcspn(line, "\n")] = 0;
    for (char *end = strchr(line, 0); end; end = strrchr(line + 3, '/')) {
        long granted_us, period_us;
        *end = 0;
        snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", line + 3);
        if (!(file = fopen(path, "re"))) continue;
        if (fscanf(file, "%ld %ld", &granted_us, &period_us) == 2 && granted_us > 0 && period_us > 0) {
            long n = (granted_us - 1) / period_us + 1;
            if (n < quota) quota = n;
        }
        fclose(file);
    }
}

int processors_usable(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    long n = count_affinity();
    pthread_once(&once, read_quota);
    if (n > quota) n = quota;
    return n < 1 ? 1 : n > INT_MAX ? INT_MAX : (int)n;
}
