/* What convolution costs on this machine: measured when asked for, kept, and read by the next process. This program
 * starts itself anew for each question, with a cache folder of its own: a process reads the file once. */
#include "check.h"
#include "dsp/bench.h"
#include "dsp/engine/backend.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef CUDA_ON_CPU
#include <cuda_runtime.h>
#endif

static char folder[] = "/tmp/haloconv-costs-XXXXXX", file[64];

static void folder_make(void)
{
    strcpy(folder + strlen(folder) - 6, "XXXXXX");
    check(mkdtemp(folder), "%s cannot be made", folder);
    snprintf(file, sizeof file, "%s/haloconv/costs", folder);
}

static void folder_drop(void)
{
    unlink(file);
    *strrchr(file, '/') = '\0';
    rmdir(file);
    rmdir(folder);
}

struct answer {
    int code;
    char why[256];
    hc_costs costs;
    hc_info plan; /* of a live matrix */
    size_t taken; /* bytes of the device's memory, afterwards */
};

static void measure(const char *backend, struct answer *answer)
{
#ifdef CUDA_ON_CPU
    size_t before, after, all;
    cudaMemGetInfo(&before, &all);
#endif
    answer->code = hc_measure(backend, &answer->costs, answer->why, sizeof answer->why);
#ifdef CUDA_ON_CPU
    cudaMemGetInfo(&after, &all);
    answer->taken = before - after;
#endif
}

static void plan(const char *backend, struct answer *answer)
{
    hc_config c;
    hc_config_init(&c);
    c.backend = backend;
    c.n_in = c.n_out = 16;
    c.n_routes = 256;
    answer->plan.size = sizeof answer->plan;
    answer->code = hc_plan(&c, &answer->plan, answer->why, sizeof answer->why);
}

/* In a process of its own; mib: of the device's memory where it is CUDA on the CPU. */
enum { ANSWER = 3 }; /* the file that it writes to */
static struct answer ask(const char *what, const char *backend, const char *mib)
{
    struct answer answer = {0};
    int ends[2], status;
    check(pipe(ends) == 0, "no pipe");
    fflush(NULL);
    pid_t child = fork();
    check(child >= 0, "no child");
    if (child == 0) {
        setenv("XDG_CACHE_HOME", folder, 1);
        setenv("HALOCONV_COSTS", "", 1);
        setenv("CUDA_ON_CPU_HASTE", "200", 1); /* its times then lie about where a GPU's do */
        if (mib) setenv("CUDA_ON_CPU_MIB", mib, 1);
        dup2(ends[1], ANSWER);
        execl("/proc/self/exe", "costs_test", what, backend, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    bool whole = read(ends[0], &answer, sizeof answer) == sizeof answer;
    close(ends[0]);
    waitpid(child, &status, 0);
    check(whole && WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s %s ended with status %d", what, backend, status);
    return answer;
}

static int answer(const char *what, const char *backend)
{
    struct answer answer = {0};
    (strcmp(what, "measure") == 0 ? measure : plan)(backend, &answer);
    return write(ANSWER, &answer, sizeof answer) == sizeof answer ? 0 : 1;
}

enum { N_COSTS = 9 };
static void costs_list(const hc_costs *c, double list[N_COSTS])
{
    double all[N_COSTS] = {c->mac_ns,      c->cmac_ns,   c->live_cmac_ns, c->fft_ns, c->far_fft_ns,
                           c->far_cmac_ns, c->launch_ns, c->slice_ns,     c->call_ns};
    memcpy(list, all, sizeof all);
}
static void built_list(const char *backend, double list[N_COSTS])
{
    const struct plan_costs *c = backend_cpu.costs;
#ifdef HC_WITH_CUDA
    if (strcmp(backend, "cuda") == 0) c = backend_cuda.costs;
#else
    (void)backend;
#endif
    double all[N_COSTS] = {c->mac_ns,      c->cmac_ns,   c->live_cmac_ns, c->fft_ns, c->far_fft_ns,
                           c->far_cmac_ns, c->launch_ns, c->slice_ns,     c->call_ns};
    memcpy(list, all, sizeof all);
}

static bool file_has(const char *part, char *text, size_t cap)
{
    FILE *f = fopen(file, "r");
    check(f, "%s is not there", file);
    size_t n = fread(text, 1, cap - 1, f);
    fclose(f);
    text[n] = '\0';
    return strstr(text, part) != NULL;
}

static void file_says(const char *want)
{
    char text[4096];
    check(file_has(want, text, sizeof text), "the cache has no \"%s\":\n%s", want, text);
}

static void file_write(const char *text)
{
    FILE *f = fopen(file, "w");
    check(f, "%s cannot be written", file);
    fputs(text, f);
    fclose(f);
}

/* Every cost that there is, and kept: a new process goes by it. */
static void measured_costs_are_kept(const char *backend)
{
    static const char *const names[N_COSTS] = {"mac",      "cmac",   "live_cmac", "fft", "far_fft",
                                               "far_cmac", "launch", "slice",     "call"};
    bool on_cpu = strcmp(backend, "cpu") == 0;
    double found[N_COSTS], built[N_COSTS];
    folder_make();
    struct answer before = ask("plan", backend, NULL), made = ask("measure", backend, NULL);
    check(before.code == HC_OK && !before.plan.measured, "%s: measured before anyone did: %s", backend, before.why);
    check(made.code == HC_OK, "%s: hc_measure gave %d (%s)", backend, made.code, made.why);
    costs_list(&made.costs, found);
    built_list(backend, built);
    int same = 0;
    for (int k = 0; k < N_COSTS; k++) {
        check(isfinite(found[k]) && (built[k] > 0 ? found[k] > 0 : found[k] == 0), "%s: %s_ns is %g, built in %g",
              backend, names[k], found[k], built[k]);
        same += built[k] > 0 && found[k] == built[k];
    }
    /* The CPU's ticks, slices and calls are not measured. */
    check(same <= (on_cpu ? 3 : 0) + made.costs.n_built_in, "%s: %d costs are as built in, and %d were absurd", backend,
          same, made.costs.n_built_in);
#ifdef CUDA_ON_CPU
    if (!on_cpu) check(made.costs.n_built_in == 0, "%d costs were absurd", made.costs.n_built_in);
#endif
    check(made.taken == 0, "%s: %zu bytes of the device are still taken", backend, made.taken);
    char line[64];
    snprintf(line, sizeof line, "\n%s\t", backend);
    file_says(line);
    snprintf(line, sizeof line, "\t%.6g %.6g ", found[0], found[1]);
    file_says(line);
    struct answer after = ask("plan", backend, NULL);
    check(after.code == HC_OK && after.plan.measured, "%s: what was kept is not found", backend);
    check(after.plan.cost_ns != before.plan.cost_ns, "%s: the plan still costs %g ns a frame", backend,
          after.plan.cost_ns);
    folder_drop();
}

/* Another device's, another version's, absurd ones. */
static void broken_costs_are_ignored(const char *backend)
{
    folder_make();
    struct answer made = ask("measure", backend, NULL);
    check(made.code == HC_OK, "%s: hc_measure gave %d (%s)", backend, made.code, made.why);
    const char *const numbers[] = {"1 1",
                                   "nan nan nan nan nan nan nan nan nan",
                                   "1 1 1 1 1 1 1 1 1e9",
                                   "-1 -1 -1 -1 -1 -1 -1 -1 -1",
                                   "0 0 0 0 0 0 0 0 0",
                                   ""};
    for (int i = 0; i < 6; i++) {
        char text[256];
        snprintf(text, sizeof text, "haloconv costs 2 %s\n%s\ta device\t%s\n", HC_VERSION, backend, numbers[i]);
        file_write(text);
        check(!ask("plan", backend, NULL).plan.measured, "%s: the plan goes by \"%s\"", backend, numbers[i]);
    }
    double built[N_COSTS];
    char text[512];
    built_list(backend, built);
    for (int version = 1; version <= 2; version++) { /* the format before this one had eight numbers; this one, nine */
        int n = snprintf(text, sizeof text, "haloconv costs %d %s\n%s\ta device\t", version, HC_VERSION, backend);
        for (int k = 0; k < N_COSTS; k++)
            n += snprintf(text + n, sizeof text - (size_t)n, "%g%c", built[k], k + 1 < N_COSTS ? ' ' : '\n');
        file_write(text);
        bool goes_by_it = strcmp(backend, "cuda") == 0 && version == 2; /* no device is touched: the one there is */
        check(ask("plan", backend, NULL).plan.measured == goes_by_it, "%s: version %d", backend, version);
    }
    made = ask("measure", backend, NULL); /* and the device that was measured last is the one that plans go by */
    check(ask("plan", backend, NULL).plan.measured && made.code == HC_OK, "%s: not whole again", backend);
    struct answer after = ask("plan", backend, NULL);
    char first[64];
    double found[N_COSTS];
    costs_list(&made.costs, found);
    snprintf(first, sizeof first, "%s\n%s\t", HC_VERSION, backend);
    file_says(first);
    file_says("a device");
    file_write("haloconv costs 1\n");
    double without = ask("plan", backend, NULL).plan.cost_ns;
    check(after.plan.cost_ns != without, "%s: the plan goes by the older line", backend);
    folder_drop();
}

static void a_full_device_is_said(const char *backend)
{
#ifndef CUDA_ON_CPU
    check_skip("it needs CUDA on the CPU, whose memory can be made small");
#endif
    if (strcmp(backend, "cuda") != 0) check_skip("the CPU measures in its caches");
    folder_make();
    struct answer made = ask("measure", backend, "24");
    check(made.code == HC_ENOMEM && strstr(made.why, "measuring the costs needs"), "hc_measure gave %d (%s)", made.code,
          made.why);
    check(made.taken == 0, "%zu bytes of the device are still taken", made.taken);
    char text[4096];
    check(!file_has("\ncuda\t", text, sizeof text), "there are costs of the device in the cache:\n%s", text);
    folder_drop();
}

int main(int argc, char **argv)
{
    if (argc == 3) return answer(argv[1], argv[2]);
    static const struct test tests[] = {
        {"measured_costs_are_kept", measured_costs_are_kept, ONCE_A_DEVICE},
        {"broken_costs_are_ignored", broken_costs_are_ignored, ONCE_A_DEVICE},
        {"a_full_device_is_said", a_full_device_is_said, ONCE_A_DEVICE},
    };
    return check_main("costs", tests, sizeof tests / sizeof *tests);
}
