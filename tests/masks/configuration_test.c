/* Configurations as the library's callers see them: routes that share, ports, diagnostics, and the refusal of a wrong
 * count. */
#include "check.h"
#include "dsp/import/arena.h"
#include "haloconv_masks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static char path[64];

/* A new temporary file at `path`, open for writing; the caller removes it. */
static FILE *opened(void)
{
    const char *dir = getenv("TMPDIR");
    snprintf(path, sizeof path, "%.30s/hc_XXXXXX.conf", dir ? dir : "/tmp");
    int fd = mkstemps(path, 5);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    check(file, "no temporary file at %s", path);
    return file;
}

static int load(const char *text, int n_in, int rate, hc_responses *r, char *why, size_t cap)
{
    FILE *file = opened();
    check(fputs(text, file) >= 0 && fclose(file) == 0, "cannot write %s", path);
    memset(r, 0xa5, sizeof *r);
    why[0] = 0;
    int code = hc_responses_load(path, n_in, rate, 0, r, why, cap);
    unlink(path);
    return code;
}

static void loaded(const char *text, hc_responses *r)
{
    char why[400];
    int code = load(text, 0, 48000, r, why, sizeof why);
    check(code == HC_OK, "'%s': %d, %s", text, code, why);
}

static const hc_route *route(const hc_responses *r, int in, int out)
{
    for (int i = 0; i < r->n_routes; i++)
        if (r->routes[i].in == in && r->routes[i].out == out) return &r->routes[i];
    check(false, "no route from %d to %d of %d", in, out, r->n_routes);
    return NULL;
}

static bool same(const hc_route *a, const hc_route *b)
{
    return a->taps == b->taps && a->n_taps == b->n_taps && a->gain == b->gain && a->delay == b->delay;
}

static void pairs_with_the_same_data_share_it(const char *backend)
{
    hc_responses r;
    loaded("/convolver/new 4 4 256 4096\n"
           "/impulse/hilbert 1 1 0.5 100 200\n"
           "/impulse/hilbert 2 2 0.5 100 200\n"  /* the same again   */
           "/impulse/hilbert 3 3 0.25 100 200\n" /* another gain     */
           "/impulse/dirac 1 2 1 3\n"
           "/impulse/dirac 1 2 1 9\n" /* a sum            */
           "/impulse/copy 2 1 1 2\n"
           "/impulse/copy 4 4 2 1\n" /* of a copy        */
           "/impulse/copy 4 1 1 1\n",
           &r);
    check(r.n_routes == 7, "%d routes, want 7", r.n_routes);
    check(same(route(&r, 0, 0), route(&r, 1, 1)), "equal Hilbert transformers do not share");
    check(same(route(&r, 0, 0), route(&r, 3, 0)), "a copy does not share");
    check(route(&r, 0, 0)->taps == route(&r, 2, 2)->taps, "a gain costs taps of its own");
    check(same(route(&r, 0, 1), route(&r, 1, 0)) && same(route(&r, 0, 1), route(&r, 3, 3)),
          "copies of a sum do not share");
    check(r.n_distinct == 3, "%d distinct responses, want 3", r.n_distinct);
    check(r.distinct_frames == 200 + 200 + 10, "%lld frames of them, want 410", (long long)r.distinct_frames);
    check(r.n_frames == 200, "the longest has %d frames, want 200", r.n_frames);
    check(r.channel == NULL && r.n_channels == 0, "a configuration has channels");
    hc_responses_free(&r);
    hc_responses_free(&r);
}

/* A copy follows its source, even if the source becomes a copy later. */
static void links_are_followed_to_their_end(const char *backend)
{
    hc_responses r;
    loaded("/convolver/new 1 5 256 4096\n"
           "/impulse/dirac 1 1 1 1\n"
           "/impulse/dirac 1 2 1 2\n"
           "/impulse/dirac 1 3 1 3\n"
           "/impulse/dirac 1 4 1 4\n"
           "/impulse/copy 1 5 1 1\n"
           "/impulse/copy 1 1 1 2\n"
           "/impulse/copy 1 2 1 3\n"
           "/impulse/copy 1 3 1 4\n"
           "/impulse/dirac 1 4 1 40\n",
           &r);
    check(r.n_routes == 5 && r.n_distinct == 1, "%d routes, %d distinct", r.n_routes, r.n_distinct);
    for (int out = 0; out < 5; out++) {
        const hc_route *all = route(&r, 0, out);
        check(all->delay == 4 && all->n_taps == 37 && all->taps[0] == 1 && all->taps[36] == 1,
              "output %d: delay %d, %d taps", out, all->delay, all->n_taps);
    }
    hc_responses_free(&r);
    char why[400];
    int code =
        load("/convolver/new 1 3 256 4096\n/impulse/dirac 1 1 1 1\n/impulse/copy 1 2 1 1\n/impulse/copy 1 3 1 2\n"
             "/impulse/copy 1 1 1 3\n",
             0, 48000, &r, why, sizeof why);
    check(code == HC_EINVAL && strstr(why, ":5: /impulse/copy: input 1, output 3 is itself a copy"), "%d, '%s'", code,
          why);
    hc_responses_free(&r);
}

static void ports_have_names(const char *backend)
{
    hc_responses r;
    loaded("/jack/client hall\n/convolver/new 2 1 512 100\n/input/name 2 'in b' system:capture_2\n/impulse/dirac 1 1 1 "
           "0\n",
           &r);
    check(strcmp(r.in_port[0].name, "in-1") == 0 && !r.in_port[0].connect, "'%s'", r.in_port[0].name);
    check(strcmp(r.in_port[1].name, "in b") == 0 && strcmp(r.in_port[1].connect, "system:capture_2") == 0, "'%s' '%s'",
          r.in_port[1].name, r.in_port[1].connect);
    check(strcmp(r.out_port[0].name, "out-1") == 0, "'%s'", r.out_port[0].name);
    check(strcmp(r.client, "hall") == 0 && !r.server && r.partition == 512, "client, server or partition");
    hc_responses_free(&r);
}

static void counts_are_the_configurations_own(const char *backend)
{
    static const char text[] = "/convolver/new 3 5 256 100\n/impulse/dirac 1 1 1 0\n";
    hc_responses r;
    char why[400];
    for (int n_in = 0; n_in <= 4; n_in++) {
        int code = load(text, n_in, 48000, &r, why, sizeof why);
        bool fits = n_in == 0 || n_in == 3;
        check(code == (fits ? HC_OK : HC_EINVAL), "%d inputs: %d, %s", n_in, code, why);
        if (fits) check(r.n_in == 3 && r.n_out == 5 && r.n_routes == 1, "%d in, %d out", r.n_in, r.n_out);
        if (!fits) check(strstr(why, ":1: /convolver/new: has 3 input channels"), "'%s'", why);
        hc_responses_free(&r);
    }
}

static void diagnostics_outlive_a_failure(const char *backend)
{
    hc_responses r;
    char why[400];
    int code = load("/convolver/new 2 2 100 100\nfoo\n/impulse/dirac 1 9 1 0\n", 0, 48000, &r, why, sizeof why);
    check(code == HC_EINVAL, "%d", code);
    check(strstr(why, ":2: ") && strstr(why, "(and 1 more: haloconv check "), "'%s'", why);
    check(r.n_errors == 2 && r.n_warnings == 1 && r.n_diagnostics == 3, "%d errors, %d warnings, %d diagnostics",
          r.n_errors, r.n_warnings, r.n_diagnostics);
    for (int i = 0; i < 3; i++)
        check(r.diagnostics[i].line == i + 1 && (r.diagnostics[i].code != HC_OK) == (i > 0),
              "diagnostic %d: line %d, '%s'", i, r.diagnostics[i].line, r.diagnostics[i].text);
    check(r.n_routes == 0 && !r.routes, "routes after a failure");
    hc_responses_free(&r);
    char small[20];
    code = load("foo\n", 0, 48000, &r, small, sizeof small);
    check(code == HC_EINVAL && strlen(small) < sizeof small, "%d", code);
    hc_responses_free(&r);
    code = hc_responses_load("/nonexistent/t.conf", 0, 48000, 0, &r, NULL, 0);
    check(code == HC_EFILE && r.n_errors == 1, "a missing file: %d, %d errors", code, r.n_errors);
    hc_responses_free(&r);
}

/* Responses whose sum overflows are refused before an engine gets them. */
static void infinite_sums_are_refused(const char *backend)
{
    hc_responses r;
    char why[400];
    int code = load(
        "/convolver/new 1 2 256 100\n/impulse/dirac 1 1 1 0\n/impulse/dirac 1 2 3e38 7\n/impulse/dirac 1 2 3e38 7\n", 0,
        48000, &r, why, sizeof why);
    check(code == HC_EINVAL && strstr(why, ":3: ") && strstr(why, "input 1 to output 2"), "%d, '%s'", code, why);
    hc_responses_free(&r);
}

static void a_million_bad_lines_are_counted(const char *backend)
{
    hc_responses r;
    int n = SANITIZED ? 100000 : 1000000;
    FILE *file = opened();
    fputs("/convolver/new 2 2 256 100\n", file);
    for (int i = 0; i < n; i++) fputs("/impulse/dirac 3 3 x\n", file);
    check(fclose(file) == 0, "cannot write %s", path);
    int code = hc_responses_load(path, 0, 0, 0, &r, NULL, 0);
    unlink(path);
    check(code == HC_EINVAL && r.n_errors == 3 * n && r.n_diagnostics == 10000, "%d, %d errors, %d diagnostics", code,
          r.n_errors, r.n_diagnostics);
    hc_responses_free(&r);
}

/* A short text may list millions of commands. */
static void lists_count_as_memory(const char *backend)
{
    struct arena *arena = arena_make();
    size_t cap = 0;
    arena->limit = 128 * sizeof(int);
    int *list = array_grow(arena, NULL, 0, &cap, sizeof *list);
    check(list && cap == 64, "room for %zu", cap);
    list = array_grow(arena, list, 64, &cap, sizeof *list);
    check(list && cap == 128 && !arena->is_short, "room for %zu", cap);
    check(!array_grow(arena, list, 128, &cap, sizeof *list) && arena->is_short, "room for %zu", cap);
    check(!arena_alloc(arena, 1, 1), "a list took memory that does not count");
    free(list);
    arena_free(arena);
}

/* 1024 x 1024 pairs through one response take memory for their routes, not for their taps. */
static void large_matrices_stay_small(const char *backend)
{
    enum { N = 1024 };
    hc_responses r;
    char why[400];
    FILE *file = opened();
    fprintf(file, "/convolver/new %d %d 256 65536\n", N, N);
    for (int in = 1; in <= N; in++)
        for (int out = 1; out <= N; out++) fprintf(file, "/impulse/hilbert %d %d 1 32768 65536\n", in, out);
    check(fclose(file) == 0, "cannot write %s", path);
    int code = hc_responses_load(path, N, 48000, 0, &r, why, sizeof why);
    unlink(path);
    check(code == HC_OK, "%d, %s", code, why);
    check(r.n_routes == N * N && r.n_distinct == 1, "%d routes, %d distinct", r.n_routes, r.n_distinct);
    for (int i = 0; i < N * N; i++)
        check(r.routes[i].taps == r.routes[0].taps && r.routes[i].in == i / N && r.routes[i].out == i % N, "route %d",
              i);
    hc_responses_free(&r);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    check(SANITIZED || usage.ru_maxrss < 512 << 10, "%ld MB", usage.ru_maxrss >> 10);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(pairs_with_the_same_data_share_it, false),
        TEST(links_are_followed_to_their_end, false),
        TEST(ports_have_names, false),
        TEST(counts_are_the_configurations_own, false),
        TEST(diagnostics_outlive_a_failure, false),
        TEST(infinite_sums_are_refused, false),
        TEST(a_million_bad_lines_are_counted, false),
        TEST(lists_count_as_memory, false),
        TEST(large_matrices_stay_small, false),
    };
    return check_main("configuration", tests, sizeof tests / sizeof *tests);
}
