/* How many processors a process may use: those of its affinity mask, on kernels of any size, within the time that its
 * control groups grant. */
#include "check.h"
#include "dsp/base/processors.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct {
    int n_kernel, n_affinity, error; /* error: of every sched_getaffinity */
    const char *cgroup;              /* /proc/self/cgroup; NULL: not there */
    const char *max[2][2];           /* path of a cpu.max, and its text */
} machine;

/* These stand in for libc's. */
int sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *set)
{
    errno = machine.error ? machine.error : EINVAL;
    if (machine.error || 8 * bytes < (size_t)machine.n_kernel) return -1;
    memset(set, 0, bytes);
    for (int i = 0; i < machine.n_affinity; i++) CPU_SET_S(machine.n_kernel - 1 - i, bytes, set);
    return 0;
}

FILE *fopen(const char *path, const char *mode)
{
    const char *text = strcmp(path, "/proc/self/cgroup") == 0 ? machine.cgroup : NULL;
    for (int i = 0; i < 2; i++)
        if (machine.max[i][0] && strcmp(path, machine.max[i][0]) == 0) text = machine.max[i][1];
    errno = ENOENT;
    return text ? fmemopen((char *)text, strlen(text), "r") : NULL;
}

/* Counts in a child, because a process reads its groups once. */
static void usable_is(int want)
{
    fflush(stdout);
    int status;
    pid_t child = fork();
    if (child == 0) _exit(processors_usable());
    check(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == want, "%d of %d: 0x%x",
          want, machine.n_kernel, (unsigned)status);
}

static void any_number_of_processors_is_counted(const char *backend)
{
    static const int kernels[] = {1, 2, 64, 1024, 1025, 4096, 1 << 17};
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        for (int n = 1; n <= kernels[i] && n <= 200; n += 66) {
            machine.n_kernel = kernels[i];
            machine.n_affinity = n;
            usable_is(n);
        }
    machine.error = ENOSYS; /* a sandbox without the call */
    usable_is((int)sysconf(_SC_NPROCESSORS_ONLN));
    memset(&machine, 0, sizeof machine);
}

static void the_quotas_of_all_groups_hold(const char *backend)
{
    static const struct {
        const char *cgroup, *own, *above;
        int want;
    } cases[] = {
        {"0::/a b/c\n", "200000 100000\n", NULL, 2},
        {"0::/a b/c\n", "250000 100000\n", "max 100000\n", 3},
        {"0::/a b/c\n", "max 100000\n", "50000 100000\n", 1},
        {"0::/a b/c\n", "6400000 100000\n", "400000 100000\n", 4},
        {"0::/a b/c\n", "9900000 100000\n", NULL, 64},
        {"0::/a b/c\n", "", "x", 64},
        {"9:cpu:/\n", "100000 100000\n", NULL, 64},
        {NULL, "100000 100000\n", NULL, 64},
        {"0::/\n", "100000 100000\n", NULL, 64},
        {"0::/\n", "100000 100000\n", "300000 100000\n", 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        machine.n_kernel = machine.n_affinity = 64;
        machine.cgroup = cases[i].cgroup;
        machine.max[0][0] = "/sys/fs/cgroup/a b/c/cpu.max";
        machine.max[0][1] = cases[i].own;
        machine.max[1][0] = "/sys/fs/cgroup/cpu.max";
        machine.max[1][1] = cases[i].above;
        usable_is(cases[i].want);
    }
    memset(&machine, 0, sizeof machine);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(any_number_of_processors_is_counted, false),
        TEST(the_quotas_of_all_groups_hold, false),
    };
    return check_main("processors", tests, sizeof tests / sizeof *tests);
}
