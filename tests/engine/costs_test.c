/* The costs of convolution on this machine are measured on request, kept, and read by the next process. A process reads
 * the file of costs once, so this program starts itself anew for each question, with a cache folder of its own. */
#include "check.h"
#include "dsp/backends/backends.h"
#include "dsp/bench.h"
#include "dsp/device/backend.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef CUDA_ON_CPU
#include <cuda_runtime.h>
#endif

/* The library opens its files through these functions, which count the descriptors that a child process would get. */
static int n_inherited;

#define REAL(name, to) (*(void **)&(to) = dlsym(RTLD_NEXT, #name))

int open(const char *path, int flags, ...)
{
    int (*real)(const char *, int, ...);
    va_list more;
    va_start(more, flags);
    int mode = flags & O_CREAT ? va_arg(more, int) : 0;
    va_end(more);
    REAL(open, real);
    n_inherited += !(flags & O_CLOEXEC);
    return real(path, flags, mode);
}

FILE *fopen(const char *path, const char *mode)
{
    FILE *(*real)(const char *, const char *);
    REAL(fopen, real);
    n_inherited += !strchr(mode, 'e');
    return real(path, mode);
}

int mkostemp(char *path, int flags)
{
    int (*real)(char *, int);
    REAL(mkostemp, real);
    n_inherited += !(flags & O_CLOEXEC);
    return real(path, flags);
}

static char folder[] = "/tmp/haloconv-costs-XXXXXX", file[64];

static void folder_make(void)
{
    strcpy(folder + strlen(folder) - 6, "XXXXXX");
    check(mkdtemp(folder), "%s cannot be made", folder);
    snprintf(file, sizeof file, "%s/haloconv/costs", folder);
}

static void folder_drop(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    check(system(command) == 0, "%s cannot be removed", folder);
}

struct answer {
    int code;
    char why[256];
    hc_costs costs;
    hc_info plan;   /* of a live matrix */
    hc_info small;  /* of a live channel, whose head a resident kernel plays */
    size_t taken;   /* bytes of the device's memory, afterwards */
    int inherited;  /* n_inherited */
    bool is_secure; /* the program has another user's rights */
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
    c.n_in = c.n_out = 1;
    answer->small.size = answer->plan.size = sizeof answer->plan;
    answer->code = hc_plan(&c, &answer->small, answer->why, sizeof answer->why);
    c.n_in = c.n_out = 64; /* a GPU launches its head */
    c.n_routes = 4096;
    if (answer->code == HC_OK) answer->code = hc_plan(&c, &answer->plan, answer->why, sizeof answer->why);
}

static struct answer ask(const char *what, const char *backend, const char *mib);

/* Reads the cache, and measures after another process has done so for another build of the inner loops. */
static void measure_late(const char *backend, struct answer *answer)
{
    plan(backend, answer);
    setenv("HALOCONV_SIMD", "baseline", 1);
    check(ask("measure", backend, NULL).code == HC_OK, "the other process measured nothing");
    unsetenv("HALOCONV_SIMD");
    measure(backend, answer);
}

static void open_live(const char *backend, struct answer *answer)
{
    hc_config c;
    hc_engine *engine;
    hc_config_init(&c);
    c.backend = backend;
    answer->code = hc_open(&c, &engine, answer->why, sizeof answer->why);
    if (answer->code == HC_OK) hc_close(engine);
    plan(backend, answer);
}

/* An error that quotes a number. */
static void overflow(const char *backend, struct answer *answer)
{
    static const float tap = 2;
    const hc_route route = {0, 0, &tap, 1, 2.5e38f, 0};
    hc_config c;
    hc_engine *engine;
    hc_mask *mask;
    hc_config_init(&c);
    c.backend = backend;
    check(hc_open(&c, &engine, answer->why, sizeof answer->why) == HC_OK, "no engine: %s", answer->why);
    answer->code = hc_mask_make(engine, &route, sizeof route, 1, &mask, answer->why, sizeof answer->why);
    hc_close(engine);
}

/* A question is put to a child process, which writes a struct answer to file descriptor ANSWER. */
enum { ANSWER = 3 };
struct asked {
    pid_t child;
    int end; /* of the pipe */
};
static bool links_part;  /* the child finds a link at costs.PID, a name of a temporary file */
static bool is_homeless; /* it has neither XDG_CACHE_HOME nor HOME */
static const char *as_program = "/proc/self/exe";

static struct asked ask_begin(const char *what, const char *backend, const char *mib)
{
    int ends[2];
    check(pipe(ends) == 0, "no pipe");
    fflush(NULL);
    pid_t child = fork();
    check(child >= 0, "no child");
    if (child == 0) {
        if (strstr(folder, "XXXXXX") == NULL) setenv("XDG_CACHE_HOME", folder, 1); /* else the parent's cache */
        if (is_homeless) unsetenv("XDG_CACHE_HOME"), unsetenv("HOME");
        setenv("HALOCONV_COSTS", "", 1);
        setenv("CUDA_ON_CPU_HASTE", "200", 1); /* the emulated device is then about as fast as a GPU */
        if (mib) setenv("CUDA_ON_CPU_MIB", mib, 1);
        char link[128], target[64];
        snprintf(link, sizeof link, "%s.%ld", file, (long)getpid());
        snprintf(target, sizeof target, "%s/target", folder);
        if (links_part && symlink(target, link) != 0) _exit(126);
        dup2(ends[1], ANSWER);
        alarm(60);
        execl(as_program, "costs_test", what, backend, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    return (struct asked){child, ends[0]};
}

static struct answer ask_end(struct asked asked)
{
    struct answer answer = {0};
    int status;
    bool whole = read(asked.end, &answer, sizeof answer) == sizeof answer;
    close(asked.end);
    waitpid(asked.child, &status, 0);
    check(whole && WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ended with status %d", status);
    return answer;
}

/* mib: memory of the emulated device. */
static struct answer ask(const char *what, const char *backend, const char *mib)
{
    return ask_end(ask_begin(what, backend, mib));
}

static int answer(const char *what, const char *backend)
{
    static const struct {
        const char *name;
        void (*give)(const char *backend, struct answer *answer);
    } kinds[] = {{"measure", measure},
                 {"plan", plan},
                 {"measure_late", measure_late},
                 {"open_live", open_live},
                 {"overflow", overflow}};
    struct answer answer = {0};
    const char *locale = getenv("TEST_LOCALE");
    if (locale && (!setlocale(LC_ALL, locale) || strcmp(localeconv()->decimal_point, ",") != 0)) return 1;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(what, kinds[i].name) == 0) kinds[i].give(backend, &answer);
    answer.inherited = n_inherited;
    answer.is_secure = getauxval(AT_SECURE) != 0;
    return write(ANSWER, &answer, sizeof answer) == sizeof answer ? 0 : 1;
}

enum { HOP = 9, WORD, N_COSTS = 14, N_OF_A_LINE = 12 };
static void costs_list(const hc_costs *c, double list[N_COSTS])
{
    double all[N_COSTS] = {c->mac_ns,       c->cmac_ns,          c->live_cmac_ns, c->fft_ns,    c->tail_fft_ns,
                           c->tail_cmac_ns, c->launch_ns,        c->slice_ns,     c->call_ns,   c->hop_ns,
                           c->word_ns,      c->resident_call_ns, c->near_mac_ns,  c->far_mac_ns};
    memcpy(list, all, sizeof all);
}
static void built_list(const char *backend, double list[N_COSTS])
{
    const struct plan_costs *c = backend_cpu.costs, none = {0}, *r = &none;
    if (strcmp(backend, "cuda") == 0) {
        const struct backend *gpu = backend_gpu(NULL);
        c = gpu->costs;
        if (gpu->resident) r = gpu->resident->costs;
    }
    double all[N_COSTS] = {c->mac_ns,       c->cmac_ns,   c->live_cmac_ns, c->fft_ns,    c->tail_fft_ns,
                           c->tail_cmac_ns, c->launch_ns, c->slice_ns,     c->call_ns,   r->hop_ns,
                           r->word_ns,      r->call_ns,   r->mac_ns,       r->far_mac_ns};
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

/* Every cost is measured and kept, and a new process plans with it. */
static void measured_costs_are_kept(const char *backend)
{
    static const char *const names[N_COSTS] = {"mac",      "cmac",          "live_cmac", "fft",    "far_fft",
                                               "far_cmac", "launch",        "slice",     "call",   "hop",
                                               "word",     "resident_call", "near_mac",  "far_mac"};
    bool on_cpu = strcmp(backend, "cpu") == 0;
    double found[N_COSTS], built[N_COSTS];
    folder_make();
    struct answer before = ask("plan", backend, NULL), made = ask("measure", backend, NULL);
    /* On a busy machine the emulated device stands still, as beside another process. */
    for (int i = 0; i < 5 && !on_cpu && made.costs.resident_call_ns == 0; i++) made = ask("measure", backend, NULL);
    check(before.code == HC_OK && !before.plan.measured, "%s: measured before anyone did: %s", backend, before.why);
    check(made.code == HC_OK, "%s: hc_measure gave %d (%s)", backend, made.code, made.why);
    costs_list(&made.costs, found);
    built_list(backend, built);
    if (!on_cpu && made.costs.resident_call_ns == 0) memset(built + HOP, 0, (N_COSTS - HOP) * sizeof *built);
    int same = 0, same_resident = 0;
    for (int k = 0; k < N_COSTS; k++) {
        check(isfinite(found[k]) && (built[k] > 0 ? found[k] > 0 : found[k] == 0), "%s: %s_ns is %g, built in %g",
              backend, names[k], found[k], built[k]);
        same += built[k] > 0 && found[k] == built[k];
        same_resident += k >= HOP && built[k] > 0 && found[k] == built[k];
    }
    /* The CPU's hops, slices and calls are not measured, and the GPU's words. */
    check(same <= (on_cpu ? 3 : 1) + made.costs.n_built_in, "%s: %d costs are as built in, and %d were absurd", backend,
          same, made.costs.n_built_in);
#ifdef CUDA_ON_CPU
    check(on_cpu || made.costs.resident_call_ns > 0, "the resident kernel is not measured");
    /* A trip and a hop to the emulated device take ms. */
    if (!on_cpu) check(made.costs.n_built_in == same_resident - 1, "%d costs were absurd", made.costs.n_built_in);
#endif
    /* The service of the resident kernel keeps its table of workers. */
    check(made.taken <= (on_cpu ? 0 : 2048), "%s: %zu bytes of the device are still taken", backend, made.taken);
    char line[64];
    snprintf(line, sizeof line, "\n%s\t", backend);
    file_says(line);
    snprintf(line, sizeof line, "\t%.6g %.6g ", found[0], found[1]);
    file_says(line);
    struct answer after = ask("plan", backend, NULL);
    check(after.code == HC_OK && after.plan.measured, "%s: what was kept is not found", backend);
    check(after.plan.cost_ns != before.plan.cost_ns, "%s: the plan still costs %g ns a frame", backend,
          after.plan.cost_ns);
    if (!on_cpu && made.costs.resident_call_ns == 0) check_skip("the GPU has no resident kernel");
    bool is_new = on_cpu || memcmp(found + WORD, built + WORD, 3 * sizeof *found) != 0; /* word, call, near_mac */
    check(!before.small.measured && after.small.measured && is_new == (after.small.cost_ns != before.small.cost_ns),
          "%s: a channel costs %g ns a frame, before %g", backend, after.small.cost_ns, before.small.cost_ns);
    check((made.costs.resident_side > 0) == !on_cpu, "%d inputs and outputs", made.costs.resident_side);
    folder_drop();
}

/* "machine 0123456789abcdef, ", as the device of the first line begins. */
static void machine_read(char machine[32])
{
    char text[4096];
    check(file_has("\tmachine ", text, sizeof text), "no machine in the cache:\n%s", text);
    snprintf(machine, 32, "%.26s", strstr(text, "machine "));
    check(strspn(machine + 8, "0123456789abcdef") == 16 && strcmp(machine + 24, ", ") == 0, "the machine is \"%s\"",
          machine);
}

/* Machines of one home share the file and no costs. */
static void costs_of_another_machine_are_ignored(const char *backend)
{
    folder_make();
    char machine[32], text[4096];
    check(ask("measure", backend, NULL).code == HC_OK && ask("plan", backend, NULL).plan.measured, "nothing was kept");
    machine_read(machine);
    file_has("", text, sizeof text);
    char *digit = strstr(text, machine) + 8;
    *digit = *digit == '0' ? '1' : '0';
    file_write(text);
    check(!ask("plan", backend, NULL).plan.measured, "%s: the plan goes by the costs of another machine", backend);
    check(ask("measure", backend, NULL).code == HC_OK && ask("plan", backend, NULL).plan.measured, "nothing was kept");
    file_says(machine);
    char *line = strchr(text, '\n') + 1;
    line[strcspn(line, "\n")] = '\0';
    file_says(line); /* the other machine's line stays */
    folder_drop();
}

/* Costs of another device, of another version, and absurd ones. */
static void broken_costs_are_ignored(const char *backend)
{
    folder_make();
    char machine[32];
    struct answer made = ask("measure", backend, NULL);
    check(made.code == HC_OK, "%s: hc_measure gave %d (%s)", backend, made.code, made.why);
    machine_read(machine);
    const char *const numbers[] = {"1 1",
                                   "nan nan nan nan nan nan nan nan nan 0 0 0",
                                   "1 1 1 1 1 1 1 1 1e9 0 0 0",
                                   "-1 -1 -1 -1 -1 -1 -1 -1 -1 0 0 0",
                                   "0 0 0 0 0 0 0 0 0 0 0 0",
                                   ""};
    for (int i = 0; i < 6; i++) {
        char text[256];
        snprintf(text, sizeof text, "haloconv costs 4 %s\n%s\t%sa device\t%s\n", HC_VERSION, backend, machine,
                 numbers[i]);
        file_write(text);
        check(!ask("plan", backend, NULL).plan.measured, "%s: the plan goes by \"%s\"", backend, numbers[i]);
    }
    double built[N_COSTS];
    char text[512];
    built_list(backend, built);
    for (int version = 3; version <= 4; version++) { /* the format before this one had fewer numbers */
        int n = snprintf(text, sizeof text, "haloconv costs %d %s\n%s\t%sa device\t", version, HC_VERSION, backend,
                         machine);
        for (int k = 0; k < N_OF_A_LINE; k++)
            n += snprintf(text + n, sizeof text - (size_t)n, "%g%c", k < HOP ? built[k] : 0,
                          k + 1 < N_OF_A_LINE ? ' ' : '\n');
        file_write(text);
        bool goes_by_it = strcmp(backend, "cuda") == 0 && version == 4; /* no device is touched: the one there is */
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
    file_write("haloconv costs 2\n");
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

static int lines_of(const char *backend)
{
    char text[4096], start[32];
    int n = 0;
    snprintf(start, sizeof start, "\n%s\t", backend);
    file_has("", text, sizeof text);
    for (const char *at = text; (at = strstr(at, start)); at++) n++;
    return n;
}

static void both_of_two_processes_leave_their_costs(const char *unused)
{
    folder_make();
    setenv("HALOCONV_SIMD", "baseline", 1);
    ask("measure", "cpu", NULL);
    unsetenv("HALOCONV_SIMD");
    ask("measure", "cpu", NULL);
    int n_devices = lines_of("cpu");
    folder_drop();
    if (n_devices < 2) check_skip("this processor has one build of the inner loops");
    folder_make();
    check(ask("measure_late", "cpu", NULL).code == HC_OK, "nothing was measured");
    check(lines_of("cpu") == 2, "%d lines of 2 are there", lines_of("cpu"));
    folder_drop();
}

static int lock_take(void)
{
    char path[80];
    snprintf(path, sizeof path, "%s.lock", file);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    check(fd >= 0 && flock(fd, LOCK_EX) == 0, "%s cannot be locked", path);
    return fd;
}

/* The second process waits for the costs of the first one, and plans with them. */
static void one_process_measures_at_a_time(const char *unused)
{
    char text[4096];
    folder_make();
    ask("measure", "cpu", NULL);
    file_has("", text, sizeof text);
    char *number = strrchr(text, '\t') + 1, rest[4096]; /* the first one: three times as much */
    strcpy(rest, strchr(number, ' '));
    snprintf(number, 2048, "%.6g%.2000s", 3 * backend_cpu.costs->mac_ns, rest);
    file_write(text);
    double cost_ns = ask("plan", "cpu", NULL).plan.cost_ns;
    unlink(file);
    int fd = lock_take();
    struct asked second = ask_begin("open_live", "cpu", NULL);
    pause_us(300000);
    file_write(text);
    close(fd);
    struct answer opened = ask_end(second);
    check(opened.code == HC_OK && opened.plan.measured, "no engine, or no costs: %s", opened.why);
    check(opened.plan.cost_ns == cost_ns, "a frame costs %g ns, by the costs of the other process %g",
          opened.plan.cost_ns, cost_ns);
    folder_drop();
}

static void a_kept_lock_holds_nobody_up(const char *unused)
{
    folder_make();
    ask("measure", "cpu", NULL);
    unlink(file);
    int fd = lock_take();
    double start = now_s();
    struct answer opened = ask("open_live", "cpu", NULL);
    double took_s = now_s() - start;
    check(opened.code == HC_OK, "no engine: %s", opened.why);
    check(took_s < 20, "it took %.1f s", took_s);
    close(fd);
    file_says("\ncpu\t");
    folder_drop();
}

/* Something else stands where the file of costs should be. */
static void only_a_plain_file_is_read(const char *unused)
{
    char target[64];
    folder_make();
    ask("measure", "cpu", NULL);
    snprintf(target, sizeof target, "%s/target", folder);
    check(rename(file, target) == 0 && symlink(target, file) == 0, "no link");
    check(!ask("plan", "cpu", NULL).plan.measured, "the plan goes by a file behind a link");
    check(unlink(file) == 0 && mkfifo(file, 0600) == 0, "no FIFO");
    check(!ask("plan", "cpu", NULL).plan.measured, "the plan goes by a FIFO");
    ask("open_live", "cpu", NULL);
    file_says("\ncpu\t");
    folder_drop();
}

static void a_link_at_a_temporary_name_is_not_followed(const char *unused)
{
    char target[64];
    struct stat is;
    folder_make();
    ask("measure", "cpu", NULL);
    links_part = true;
    ask("measure", "cpu", NULL);
    links_part = false;
    snprintf(target, sizeof target, "%s/target", folder);
    check(stat(target, &is) != 0, "the costs are in the file behind the link");
    check(lstat(file, &is) == 0 && S_ISREG(is.st_mode), "the cache is no plain file any more");
    folder_drop();
}

/* A file that does not end would hold every hc_open up. The child has a minute. */
static void a_cache_without_end_is_not_read_to_it(const char *unused)
{
    folder_make();
    ask("measure", "cpu", NULL);
    file_write("haloconv costs 4 " HC_VERSION "\n");
    check(truncate(file, (off_t)1 << 42) == 0 || truncate(file, (off_t)1 << 37) == 0, "no large file");
    struct answer opened = ask("open_live", "cpu", NULL);
    check(opened.code == HC_OK && opened.plan.measured, "no engine, or no costs: %s", opened.why);
    file_says("\ncpu\t");
    folder_drop();
}

static void a_link_or_a_fifo_in_the_place_of_the_lock_does_no_harm(const char *unused)
{
    char lock[80], target[64];
    struct stat is;
    for (int fifo = 0; fifo < 2; fifo++) {
        folder_make();
        ask("measure", "cpu", NULL);
        snprintf(lock, sizeof lock, "%s.lock", file);
        snprintf(target, sizeof target, "%s/target", folder);
        unlink(lock);
        unlink(file);
        check((fifo ? mkfifo(lock, 0600) : symlink(target, lock)) == 0, "%s cannot be made", lock);
        check(ask("open_live", "cpu", NULL).code == HC_OK, "no engine");
        check(stat(target, &is) != 0, "the file behind the link was made");
        file_says("\ncpu\t");
        folder_drop();
    }
}

/* A folder in /tmp that another user has made, or a link to a folder of ours. */
static void a_folder_of_another_user_is_no_cache(const char *unused)
{
    char ours[64], theirs[64];
    struct stat is;
    if (geteuid() != 0) check_skip("only root can give a folder away");
    for (int link = 0; link < 2; link++) {
        folder_make();
        check(ask("measure", "cpu", NULL).code == HC_OK && ask("plan", "cpu", NULL).plan.measured, "not measured");
        snprintf(theirs, sizeof theirs, "%s/haloconv", folder);
        snprintf(ours, sizeof ours, "%s/ours", folder);
        if (link) check(rename(theirs, ours) == 0 && symlink(ours, theirs) == 0, "no link");
        check(lchown(theirs, 65534, 65534) == 0, "%s cannot be given away", theirs);
        check(!ask("plan", "cpu", NULL).plan.measured, "the plan goes by a file of another user");
        check(unlink(file) == 0 && ask("open_live", "cpu", NULL).code == HC_OK, "no engine");
        check(stat(file, &is) != 0, "a file was written where another user led");
        folder_drop();
    }
}

static void a_set_user_id_program_has_no_cache(const char *unused)
{
    char copy[64], command[160], haloconv[64];
    struct stat is;
#if SANITIZED
    check_skip("a sanitizer does not work with another user's rights");
#endif
    folder_make();
    snprintf(copy, sizeof copy, "%s/copy", folder);
    snprintf(haloconv, sizeof haloconv, "%s/haloconv", folder);
    snprintf(command, sizeof command, "cp /proc/%ld/exe %s", (long)getpid(), copy);
    check(chmod(folder, 0777) == 0 && system(command) == 0, "no copy");
    bool is_set = chown(copy, 65534, 65534) == 0 && chmod(copy, 04755) == 0;
    as_program = copy;
    struct answer opened = ask("open_live", "cpu", NULL);
    as_program = "/proc/self/exe";
    bool is_written = stat(haloconv, &is) == 0;
    folder_drop();
    check(opened.code == HC_OK, "no engine: %s", opened.why);
    if (!is_set || !opened.is_secure) check_skip("set-user-ID has no effect here");
    check(!is_written, "it uses a folder that the environment names");
}

static void without_a_home_nothing_is_kept(const char *unused)
{
    is_homeless = true;
    struct answer opened = ask("open_live", "cpu", NULL);
    is_homeless = false;
    check(opened.code == HC_OK, "no engine: %s", opened.why);
    check(opened.plan.measured, "not measured");
}

static void no_child_process_gets_a_descriptor(const char *unused)
{
    folder_make();
    for (int i = 0; i < 2; i++) { /* the first measures and writes, the second reads */
        struct answer opened = ask("open_live", "cpu", NULL);
        check(opened.code == HC_OK && opened.inherited == 0, "%d descriptors stay open in a child", opened.inherited);
    }
    folder_drop();
}

static void a_decimal_comma_changes_nothing(const char *unused)
{
    char command[128];
    folder_make();
    snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 >%s/said 2>&1", folder, folder);
    if (system(command) != 0) {
        folder_drop();
        check_skip("localedef makes no locale with a decimal comma");
    }
    setenv("LOCPATH", folder, 1);
    setenv("TEST_LOCALE", "de_DE.UTF-8", 1);
    struct answer made = ask("measure", "cpu", NULL), there = ask("plan", "cpu", NULL);
    struct answer refused = ask("overflow", "cpu", NULL);
    unsetenv("TEST_LOCALE");
    unsetenv("LOCPATH");
    struct answer here = ask("plan", "cpu", NULL);
    char line[64];
    snprintf(line, sizeof line, "\t%.6g %.6g ", made.costs.mac_ns, made.costs.cmac_ns);
    file_says(line);
    check(there.plan.measured && here.plan.measured, "measured: with a comma %d, with a point %d", there.plan.measured,
          here.plan.measured);
    check(there.plan.cost_ns == here.plan.cost_ns, "a frame costs %g ns with a comma, %g with a point",
          there.plan.cost_ns, here.plan.cost_ns);
    check(refused.code == HC_EINVAL && strstr(refused.why, "2.5e+38"), "hc_mask_make gave %d (%s)", refused.code,
          refused.why);
    folder_drop();
}

int main(int argc, char **argv)
{
    if (argc == 3) return answer(argv[1], argv[2]);
    static const struct test tests[] = {
        TEST(measured_costs_are_kept, ONCE_A_DEVICE),
        TEST(broken_costs_are_ignored, ONCE_A_DEVICE),
        TEST(costs_of_another_machine_are_ignored, ONCE_A_DEVICE),
        TEST(a_full_device_is_said, ONCE_A_DEVICE),
        TEST(both_of_two_processes_leave_their_costs, false),
        TEST(one_process_measures_at_a_time, false),
        TEST(a_kept_lock_holds_nobody_up, false),
        TEST(only_a_plain_file_is_read, false),
        TEST(a_link_at_a_temporary_name_is_not_followed, false),
        TEST(a_cache_without_end_is_not_read_to_it, false),
        TEST(a_folder_of_another_user_is_no_cache, false),
        TEST(a_set_user_id_program_has_no_cache, false),
        TEST(without_a_home_nothing_is_kept, false),
        TEST(no_child_process_gets_a_descriptor, false),
        TEST(a_link_or_a_fifo_in_the_place_of_the_lock_does_no_harm, false),
        TEST(a_decimal_comma_changes_nothing, false),
    };
    return check_main("costs", tests, sizeof tests / sizeof *tests);
}
