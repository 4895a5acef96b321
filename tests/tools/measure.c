/* measure - runs a command and writes its "wall_s cpu_s peak_mb", children included, to a file.
 *
 *   measure FILE COMMAND ...
 *
 * A process inherits the peak memory of the process that started it: this one is small, Python has 60 MB. Processes
 * that the command forks and does not wait for (as BruteFIR does) are counted too. Exits as the command does.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double seconds(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec * 1e-6;
}

int main(int argc, char **argv)
{
    if (argc < 3) return 2;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    double start = now(), wall = 0, cpu = 0, peak = 0;
    pid_t child = fork();
    if (child == 0) {
        execvp(argv[2], argv + 2);
        perror(argv[2]);
        _exit(127);
    }
    int status, exit_status = 1;
    struct rusage usage;
    for (pid_t pid; (pid = wait4(-1, &status, 0, &usage)) > 0;) {
        wall = now() - start;
        cpu += seconds(usage.ru_utime) + seconds(usage.ru_stime);
        if ((double)usage.ru_maxrss / 1024 > peak) peak = (double)usage.ru_maxrss / 1024;
        if (pid == child) exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    FILE *file = fopen(argv[1], "w");
    if (!file) return 2;
    fprintf(file, "%.4f %.4f %.1f\n", wall, cpu, peak);
    fclose(file);
    return exit_status;
}
