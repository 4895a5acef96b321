/* The calls of the public headers at their limits and beyond: each ends as its header says, in a child process of its
 * own, so that a crash, a leak or a hang is one wrong line. api_test.c has the NULL pointers and the sizes of structs,
 * refusals_test.c the fields and routes that are out of range. */
#include "check.h"
#include "dsp/engine/engine.h"
#include "haloconv_files.h"
#include "haloconv_live.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    BLOCK = 64,
    TAPS = 300,
    ANY_ERROR = -100,
    SECONDS = 100,     /* of a call that hangs */
    MEMORY_MIB = 4096, /* of a child: more is refused */
    WRONG_RESULT = 10, /* exit statuses of a child */
    NO_TEXT,
    LEAK,
};
#define S sizeof(hc_config)
#define L sizeof(hc_live_config)
#define W why, sizeof why

/* A sanitizer refuses memory as the system does. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1:max_allocation_size_mb=4096";
}
int __lsan_do_recoverable_leak_check(void) __attribute__((weak));

/* The result of a call that must succeed, else of the next one. */
#define THEN(call, next) ((first = (call)) ? first : (next))
static int first;

static char folder[] = "/tmp/haloconv-contract-XXXXXX";
static char why[256];
static float taps[TAPS] = {1}, frames[2][BLOCK];
static const float *in[] = {frames[0], frames[1]};
static float *out[] = {frames[0], frames[1]};

/* ---- engines, masks and live convolvers of a child --------------------------------------------------------------- */

static hc_engine *engine, *other;
static hc_mask *mask;
static hc_live *live;
static hc_responses responses;

static int engine_open(hc_engine **e, int block)
{
    hc_config c = {.size = S, .backend = "cpu", .block = block, .max_taps = TAPS, .n_threads = 1};
    return hc_open(&c, e, W);
}

static hc_engine *playing(void) /* an engine that plays */
{
    hc_route route = {0, 1, taps, TAPS, 1, 0};
    if (engine) return engine;
    if (engine_open(&engine, BLOCK) || hc_mask_make(engine, &route, sizeof route, 1, &mask, W)) return NULL;
    hc_mask_swap(engine, mask);
    return hc_process(engine, in, out, BLOCK) ? NULL : engine;
}

static hc_engine *files(void) /* with a block of 64 frames that is not collected */
{
    if (!engine && engine_open(&engine, HC_BLOCK_FILES)) return NULL;
    return hc_submit(engine, in, BLOCK) ? NULL : engine;
}

static const char *file_of(const char *name, const char *text)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    if (file) fputs(text, file), fclose(file);
    return path;
}

static int work(void)
{
    int worst = HC_OK;
    for (int i = 0; i < 4 && hc_live_has_work(live); i++) {
        int result = hc_live_work(live);
        if (result < worst) worst = result;
    }
    return worst;
}

static int request(hc_live_change change)
{
    change.size = sizeof change;
    return hc_live_request(live, &change);
}

static hc_live *core(void) /* a live convolver with a mask */
{
    if (!live && hc_live_open(NULL, &live, W)) return NULL;
    if (request((hc_live_change){.mask = file_of("two.txt", "2\n"), .backend = "cpu"}) || work()) return NULL;
    return hc_live_process(live, in, out, BLOCK) ? NULL : live;
}

static void all_closed(void)
{
    hc_mask_free(engine, mask);
    hc_close(engine);
    hc_close(other);
    hc_live_close(live);
    hc_responses_free(&responses);
}

/* hc_open, and if it succeeds a mask, blocks and a swap. */
static int opens(hc_config c)
{
    if (!c.backend) c.backend = "cpu";
    int error = hc_open(&c, &engine, W), n_out = c.n_out ? c.n_out : 2, n_in = c.n_in ? c.n_in : 2;
    if (error) return engine ? 1 : error;
    hc_info info = {.size = sizeof info};
    hc_route route = {n_in - 1, n_out - 1, taps, 1, 1, 0};
    error = hc_get_info(engine, &info);
    if (!error) error = hc_mask_make(engine, &route, sizeof route, 1, &mask, W);
    const float **rows_in = must_alloc((size_t)n_in, sizeof *rows_in);
    float **rows_out = must_alloc((size_t)n_out, sizeof *rows_out);
    for (int i = 0; i < n_in; i++) rows_in[i] = frames[0];
    for (int i = 0; i < n_out; i++) rows_out[i] = frames[1];
    frames[0][0] = 1;
    for (int i = 0; i < 4 && error >= 0; i++) {
        hc_mask_swap(engine, i % 2 ? NULL : mask);
        error = hc_process(engine, rows_in, rows_out, info.block < BLOCK ? info.block : BLOCK);
        if (i == 0 && error == HC_OK && frames[1][0] != 1) error = 2;
    }
    free(rows_in);
    free(rows_out);
    return error;
}

static int plans(hc_config c)
{
    hc_info info = {.size = sizeof info};
    if (!c.backend) c.backend = "cpu";
    int error = hc_plan(&c, &info, W);
    bool sound = info.block > 0 && info.n_levels > 0 && isfinite(info.cost_ns) && info.cost_ns > 0 && info.memory > 0;
    return error ? error : sound ? HC_OK : 1;
}

static void keep_text(void *data, int level, const char *text)
{
    if (level == HC_LIVE_ERROR) snprintf(why, sizeof why, "%s", text);
}

static int lives(hc_live_config c)
{
    if (!c.backend) c.backend = "cpu";
    c.say = keep_text;
    int error = hc_live_open(&c, &live, W);
    if (error) return live ? 1 : error;
    if (!error) error = request((hc_live_change){.mask = file_of("one.txt", "1\n")});
    if (!error) error = work();
    for (int i = 0; i < 4 && !error; i++) error = hc_live_process(live, in, out, BLOCK);
    return error;
}

static int plays_at(enum hc_live_knob knob, float value)
{
    hc_live_set(core(), knob, value);
    return hc_live_process(live, in, out, BLOCK);
}

static int requests(hc_live_change change)
{
    int error = core() ? request(change) : 1;
    if (!error) error = work();
    return error ? error : hc_live_process(live, in, out, BLOCK);
}

/* Keeps n masks, `odd` first, and goes through them. */
static int keeps(const char *odd, int n)
{
    char names[HC_LIVE_MAX_KEPT + 1][160];
    const char *list[HC_LIVE_MAX_KEPT + 1] = {odd};
    for (int i = 1; i <= HC_LIVE_MAX_KEPT; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d.txt", i % 4);
        snprintf(names[i], sizeof names[i], "%s", file_of(name, "1\n"));
        list[i] = names[i];
    }
    if (!core()) return 1;
    int error = hc_live_keep(live, list, n);
    for (int i = 0; i < 8 && !error; i++) {
        if (i > 0 && i < n) error = request((hc_live_change){.mask = list[i]});
        for (int k = 0; k < 9 && !error && hc_live_has_work(live); k++) error = hc_live_work(live);
        if (!error) error = hc_live_process(live, in, out, BLOCK);
    }
    return error;
}

static int compares(const char *a, const char *b)
{
    return keeps(a ? a : file_of("two.txt", "2\n"), 3) ? 1 : hc_live_compare(live, a, b);
}

static int reaches(int i, int o)
{
    unsigned char all[2][2] = {{9, 9}, {9, 9}};
    hc_live_info info = {.size = sizeof info, .reaches = all[0]};
    hc_live_get_info(core(), &info);
    return info.reaches == all[0] && all[i][o] == 1 ? 1 : all[i][o] != 0;
}

/* A program built with an older header has a smaller hc_live_info: memory behind it is neither read nor written. */
static int reads_smaller_info(void)
{
    union {
        hc_live_info info;
        unsigned char bytes[sizeof(hc_live_info)];
    } of;
    const size_t size = offsetof(hc_live_info, reaches);
    memset(&of, 0xa5, sizeof of);
    of.info.size = size;
    hc_live_get_info(core(), &of.info);
    for (size_t i = size; i < sizeof of; i++)
        if (of.bytes[i] != 0xa5) return HC_EINVAL;
    return of.info.device[0] ? HC_OK : HC_EINVAL;
}

static int plays(int n_in, bool is_there)
{
    core();
    int error = hc_responses_load(file_of("three.txt", "3\n4\n"), n_in, 0, 0, &responses, W);
    return error ? error : hc_live_play(is_there ? live : NULL, is_there ? "three" : NULL, &responses, W);
}

static int loads(const char *name, const char *text, int n_in, int rate)
{
    return hc_responses_load(file_of(name, text), n_in, rate, ~0u & ~(unsigned)(HC_KEEP_RATE | HC_NAMES_ONLY),
                             &responses, W);
}

static int reads_names(const char *name, const char *text)
{
    return hc_responses_load(file_of(name, text), 0, 0, ~0u, &responses, W);
}

static int makes(hc_route route, int n)
{
    hc_route routes[] = {route, route};
    if (engine_open(&other, BLOCK)) return 1;
    return hc_mask_make(other, routes, sizeof *routes, n, &mask, W);
}

/* ---- the calls --------------------------------------------------------------------------------------------------- */

/* X(what it returns, call) */
#define ENGINES(X)                                                                                                     \
    X(HC_OK, opens((hc_config){.size = S, .rate = 1}))                                                                 \
    X(HC_OK, opens((hc_config){.size = S, .rate = INT_MAX}))                                                           \
    X(HC_EINVAL, opens((hc_config){.size = S, .rate = INT_MIN}))                                                       \
    X(HC_OK, opens((hc_config){.size = S, .block = 1}))                                                                \
    X(HC_OK, opens((hc_config){.size = S, .block = 1, .rate = INT_MAX}))                                               \
    X(HC_OK, opens((hc_config){.size = S, .block = 1 << 20, .rate = 1}))                                               \
    X(HC_OK, opens((hc_config){.size = S, .block = 12345}))                                                            \
    X(HC_EINVAL, opens((hc_config){.size = S, .block = INT_MAX}))                                                      \
    X(HC_OK, opens((hc_config){.size = S, .n_in = 65536, .n_out = 1, .max_taps = 1}))                                  \
    X(HC_OK, opens((hc_config){.size = S, .n_in = 1, .n_out = 65536, .max_taps = 1}))                                  \
    X(HC_EINVAL, opens((hc_config){.size = S, .n_in = INT_MIN}))                                                       \
    X(HC_ENOMEM, opens((hc_config){.size = S, .n_in = 65536, .n_out = 65536, .max_taps = 1 << 28}))                    \
    X(HC_OK, opens((hc_config){.size = S, .max_taps = 1}))                                                             \
    X(HC_OK, opens((hc_config){.size = S, .max_taps = 1, .method = "fft"}))                                            \
    X(HC_OK, opens((hc_config){.size = S, .max_taps = 1 << 20, .method = "direct"}))                                   \
    X(HC_OK, opens((hc_config){.size = S, .n_routes = INT_MAX}))                                                       \
    X(HC_OK, opens((hc_config){.size = S, .wait_us = INT_MAX}))                                                        \
    X(HC_OK, opens((hc_config){.size = S, .wait_us = HC_WAIT_FOREVER}))                                                \
    X(HC_OK, opens((hc_config){.size = S, .wait_us = HC_WAIT_NONE}))                                                   \
    X(HC_EINVAL, opens((hc_config){.size = S, .wait_us = INT_MIN}))                                                    \
    X(HC_OK, opens((hc_config){.size = S, .fade_frames = 1}))                                                          \
    X(HC_OK, opens((hc_config){.size = S, .fade_frames = INT_MAX}))                                                    \
    X(HC_EINVAL, opens((hc_config){.size = S, .fade_frames = INT_MIN}))                                                \
    X(HC_OK, opens((hc_config){.size = S, .n_frames = INT64_MAX}))                                                     \
    X(HC_OK, opens((hc_config){.size = S, .n_frames = INT64_MIN}))                                                     \
    X(HC_OK, opens((hc_config){.size = S, .n_threads = 1}))                                                            \
    X(HC_OK, opens((hc_config){.size = S, .n_threads = INT_MAX}))                                                      \
    X(HC_OK, opens((hc_config){.size = S, .n_threads = INT_MAX, .block = HC_BLOCK_FILES}))                             \
    X(HC_EINVAL, opens((hc_config){.size = S, .n_threads = INT_MIN}))                                                  \
    X(HC_OK, opens((hc_config){.size = S, .spin = INT_MIN}))                                                           \
    X(HC_OK, opens((hc_config){.size = S, .queue_depth = 16, .block = HC_BLOCK_FILES}))                                \
    X(HC_OK, opens((hc_config){.size = S, .queue_depth = 1, .block = HC_BLOCK_FILES}))                                 \
    X(HC_OK, opens((hc_config){.size = S, .in_samples = HC_FLOAT | HC_BIG_ENDIAN}))                                    \
    X(HC_OK, opens((hc_config){.size = S, .out_samples = HC_S24, .block = HC_BLOCK_FILES}))                            \
    X(HC_EINVAL, opens((hc_config){.size = S, .in_samples = INT_MIN}))                                                 \
    X(HC_EINVAL, opens((hc_config){.size = S, .out_samples = 16}))                                                     \
    X(HC_EINVAL, opens((hc_config){.size = S, .method = ""}))                                                          \
    X(HC_EINVAL, opens((hc_config){.size = S, .backend = ""}))                                                         \
    X(HC_EINVAL, opens((hc_config){.size = S, .backend = "CPU"}))                                                      \
    X(HC_EINVAL, opens((hc_config){.size = S, .backend = "cpu "}))                                                     \
    X(ANY_ERROR, opens((hc_config){.size = S, .backend = "cpu:1"}))                                                    \
    X(ANY_ERROR, opens((hc_config){.size = S, .backend = "cuda:"}))                                                    \
    X(ANY_ERROR, opens((hc_config){.size = S, .backend = "cuda:-1"}))                                                  \
    X(ANY_ERROR, opens((hc_config){.size = S, .backend = "cuda:1x"}))                                                  \
    X(ANY_ERROR, opens((hc_config){.size = S, .backend = "cuda:99999999999999999999"}))                                \
    X(ANY_ERROR, opens((hc_config){.size = S, .backend = "hybrid:cpu:1"}))                                             \
    X(HC_OK, opens((hc_config){.size = S, .backend = "hybrid:cpu", .block = 1, .max_taps = 1}))                        \
    X(HC_OK, opens((hc_config){.size = S, .backend = "hybrid:cpu", .block = 8192, .rate = 1}))                         \
    X(HC_OK, opens((hc_config){.size = S, .backend = "hybrid:cpu", .rate = 1 << 22, .n_threads = INT_MAX}))            \
    X(HC_OK, plans((hc_config){.size = S, .max_taps = 1 << 28}))                                                       \
    X(HC_OK, plans((hc_config){.size = S, .max_taps = 1 << 28, .block = HC_BLOCK_FILES}))                              \
    X(HC_OK, plans((hc_config){.size = S, .max_taps = 1 << 28, .method = "direct", .n_routes = INT_MAX}))              \
    X(HC_OK, plans((hc_config){.size = S, .max_taps = 1 << 28, .n_in = 65536, .n_out = 65536, .block = 1}))            \
    X(HC_OK, plans((hc_config){.size = S, .block = 1 << 20, .n_in = 65536, .n_out = 65536, .n_routes = INT_MAX}))      \
    X(HC_OK, plans((hc_config){.size = S, .rate = INT_MAX, .backend = "hybrid:cpu"}))                                  \
    X(HC_EINVAL, plans((hc_config){.size = S, .rate = -1}))                                                            \
    X(HC_EINVAL, plans((hc_config){.size = S, .backend = "tpu"}))                                                      \
    X(HC_OK, makes((hc_route){0, 0, taps, 1, 1, TAPS - 1}, 1))                                                         \
    X(HC_OK, makes((hc_route){1, 1, taps, TAPS, 1, 0}, 2))                                                             \
    X(HC_OK, makes((hc_route){0, 0, taps, 1, 0, 0}, 1))                                                                \
    X(HC_OK, makes((hc_route){0, 0, taps, 1, FLT_MAX, 0}, 1))                                                          \
    X(HC_EINVAL, makes((hc_route){0, 0, taps, 1, -INFINITY, 0}, 1))                                                    \
    X(HC_EINVAL, makes((hc_route){INT_MAX, 0, taps, 1, 1, 0}, 1))                                                      \
    X(HC_EINVAL, makes((hc_route){0, INT_MIN, taps, 1, 1, 0}, 1))                                                      \
    X(HC_EINVAL, makes((hc_route){0, 0, taps, INT_MAX, 1, 0}, 1))                                                      \
    X(HC_EINVAL, makes((hc_route){0, 0, taps, 1, 1, INT_MIN}, 1))                                                      \
    X(HC_EINVAL, makes((hc_route){0, 0, taps, 1, 1, 0}, INT_MIN))                                                      \
    X(HC_EINVAL, hc_process(playing(), in, out, BLOCK + 1))                                                            \
    X(HC_EINVAL, THEN((playing(), engine_open(&other, BLOCK)), hc_mask_swap(other, mask)))                             \
    X(HC_OK, THEN(engine_wait_set(playing(), INT_MAX), hc_process(engine, in, out, BLOCK)))                            \
    X(HC_OK, THEN(engine_wait_set(playing(), HC_WAIT_NONE), hc_process(engine, in, out, BLOCK)))                       \
    X(HC_EINVAL, engine_wait_set(playing(), HC_WAIT_NONE - 1))                                                         \
    X(HC_EINVAL, engine_wait_set(playing(), INT_MIN))                                                                  \
    X(HC_OK, (hc_reset(playing()), hc_reset(engine), hc_process(engine, in, out, 1)))                                  \
    X(HC_EINVAL, hc_list_devices(INT_MAX, why, 9))                                                                     \
    X(HC_EINVAL, hc_list_devices(INT_MIN, why, 9))                                                                     \
    X(HC_OK, hc_list_devices(0, why, 0))                                                                               \
    X(HC_OK, THEN(hc_list_devices(0, why, 1), why[0]))                                                                 \
    X(1, hc_strerror(INT_MIN) && hc_strerror(INT_MAX))

#define FILES(X)                                                                                                       \
    X(HC_EINVAL, hc_submit(playing(), in, BLOCK))                                                                      \
    X(HC_EINVAL, hc_collect(playing(), out))                                                                           \
    X(HC_EINVAL, hc_block_buffers(playing(), 0, NULL, NULL))                                                           \
    X(HC_EINVAL, hc_process(files(), in, out, BLOCK))                                                                  \
    X(HC_EINVAL, hc_submit(files(), in, BLOCK))                                                                        \
    X(BLOCK, hc_collect(files(), out))                                                                                 \
    X(BLOCK, hc_collect(files(), NULL))                                                                                \
    X(HC_EINVAL, (hc_collect(files(), out), hc_collect(engine, out)))                                                  \
    X(HC_EINVAL, (hc_collect(files(), out), hc_submit(engine, in, 0)))                                                 \
    X(HC_EINVAL, (hc_collect(files(), out), hc_submit(engine, in, INT_MAX)))                                           \
    X(HC_EINVAL, (hc_collect(files(), out), hc_submit(engine, in, INT_MIN)))                                           \
    X(1, THEN((hc_collect(files(), out), hc_submit(engine, NULL, 1)), hc_collect(engine, out)))                        \
    X(HC_OK, (hc_reset(files()), hc_process(engine, in, out, BLOCK)))                                                  \
    X(HC_OK, hc_block_buffers(files(), INT64_MAX, NULL, NULL))                                                         \
    X(HC_EINVAL, hc_block_buffers(files(), -1, NULL, NULL))                                                            \
    X(HC_EINVAL, hc_block_buffers(files(), INT64_MIN, NULL, NULL))                                                     \
    X(BLOCK, (hc_count_set(files(), INT64_MIN, INT64_MAX), hc_collect(engine, out)))                                   \
    X(BLOCK, (hc_count_set(files(), INT64_MAX, INT64_MIN), hc_collect(engine, out)))

#define LIVE(X)                                                                                                        \
    X(HC_OK, lives((hc_live_config){.size = L}))                                                                       \
    X(HC_EINVAL, lives((hc_live_config){.size = sizeof(size_t)}))                                                      \
    X(HC_EINVAL, lives((hc_live_config){.size = sizeof(size_t) - 1}))                                                  \
    X(HC_EINVAL, lives((hc_live_config){.size = SIZE_MAX}))                                                            \
    X(HC_OK, lives((hc_live_config){.size = L, .rate = 1 << 24, .n_in = 1, .n_out = 1}))                               \
    X(HC_EINVAL, lives((hc_live_config){.size = L, .rate = (1 << 24) + 1}))                                            \
    X(HC_OK, lives((hc_live_config){.size = L, .block = INT_MAX}))                                                     \
    X(HC_OK, lives((hc_live_config){.size = L, .block = 1}))                                                           \
    X(HC_EINVAL, lives((hc_live_config){.size = L, .n_in = 65537}))                                                    \
    X(HC_ENOMEM, lives((hc_live_config){.size = L, .n_in = 65536}))                                                    \
    X(HC_ENOMEM, lives((hc_live_config){.size = L, .history_s = 86400}))                                               \
    X(HC_EINVAL, lives((hc_live_config){.size = L, .history_s = 86401}))                                               \
    X(HC_EINVAL, lives((hc_live_config){.size = L, .history_s = -INFINITY}))                                           \
    X(HC_OK, lives((hc_live_config){.size = L, .history_s = 1e-300}))                                                  \
    X(HC_EINVAL, lives((hc_live_config){.size = L, .fade_ms = NAN}))                                                   \
    X(HC_OK, lives((hc_live_config){.size = L, .fade_ms = INFINITY}))                                                  \
    X(HC_OK, lives((hc_live_config){.size = L, .fade_ms = -1}))                                                        \
    X(HC_OK, lives((hc_live_config){.size = L, .fade_ms = 1e-300}))                                                    \
    X(HC_EINVAL, lives((hc_live_config){.size = L, .standby_share = NAN}))                                             \
    X(HC_OK, lives((hc_live_config){.size = L, .standby_share = INFINITY}))                                            \
    X(HC_OK, lives((hc_live_config){.size = L, .standby_share = -1}))                                                  \
    X(HC_OK, lives((hc_live_config){.size = L, .standby_share = 1, .backend = "hybrid:cpu"}))                          \
    X(HC_OK, lives((hc_live_config){.size = L, .max_predelay_ms = 349000}))                                            \
    X(HC_EINVAL, lives((hc_live_config){.size = L, .max_predelay_ms = NAN}))                                           \
    X(HC_OK, lives((hc_live_config){.size = L, .wait_us = INT_MAX}))                                                   \
    X(HC_EINVAL, lives((hc_live_config){.size = L, .wait_us = INT_MIN}))                                               \
    X(HC_EINVAL, lives((hc_live_config){.size = L, .n_threads = -1}))                                                  \
    X(HC_OK, lives((hc_live_config){.size = L, .n_threads = INT_MAX}))                                                 \
    X(HC_OK, lives((hc_live_config){.size = L, .limit_feedback = INT_MIN, .fade_in = INT_MAX}))                        \
    X(HC_EINVAL, lives((hc_live_config){.size = L, .method = "magic"}))                                                \
    X(HC_EINVAL, lives((hc_live_config){.size = L, .backend = "tpu"}))                                                 \
    X(HC_OK, lives((hc_live_config){.size = L, .backend = "tpu", .cpu_if_no_device = 1}))                              \
    X(HC_OK, (hc_live_config_init(NULL), 0))                                                                           \
    X(HC_EINVAL, hc_live_open(NULL, NULL, W))                                                                          \
    X(HC_EINVAL, hc_live_process(core(), in, out, INT_MIN))                                                            \
    X(HC_OK, hc_live_process(core(), in, out, 0))                                                                      \
    X(HC_EINVAL, hc_live_process(core(), in, NULL, BLOCK))                                                             \
    X(HC_OK, plays_at(HC_GAIN, FLT_MAX))                                                                               \
    X(HC_OK, plays_at(HC_GAIN, NAN))                                                                                   \
    X(HC_OK, plays_at(HC_WET, -INFINITY))                                                                              \
    X(HC_OK, plays_at(HC_PREDELAY, FLT_MAX))                                                                           \
    X(HC_OK, plays_at(HC_PREDELAY, -1))                                                                                \
    X(HC_OK, plays_at(HC_N_KNOBS, 1))                                                                                  \
    X(HC_OK, plays_at((enum hc_live_knob)INT_MAX, 1))                                                                  \
    X(HC_OK, (hc_live_set_freewheel(core(), INT_MAX), hc_live_process(live, in, out, BLOCK)))                          \
    X(HC_OK, requests((hc_live_change){0}))                                                                            \
    X(HC_OK, requests((hc_live_change){.rate = 1, .block = 1}))                                                        \
    X(HC_OK, requests((hc_live_change){.rate = 1 << 20, .block = INT_MAX}))                                            \
    X(HC_EINVAL, requests((hc_live_change){.rate = INT_MIN}))                                                          \
    X(HC_EINVAL, requests((hc_live_change){.block = INT_MIN}))                                                         \
    X(HC_OK, requests((hc_live_change){.trim_db = 1}))                                                                 \
    X(HC_OK, requests((hc_live_change){.trim_db = INFINITY}))                                                          \
    X(HC_EINVAL, requests((hc_live_change){.trim_db = 0.5f}))                                                          \
    X(HC_EINVAL, requests((hc_live_change){.trim_db = -40}))                                                           \
    X(HC_EINVAL, requests((hc_live_change){.trim_db = NAN}))                                                           \
    X(HC_EINVAL, requests((hc_live_change){.backend = "tpu"}))                                                         \
    X(HC_EFILE, requests((hc_live_change){.mask = ""}))                                                                \
    X(HC_EFILE, requests((hc_live_change){.mask = "/"}))                                                               \
    X(HC_EFILE, requests((hc_live_change){.mask = "/there/is/none.wav"}))                                              \
    X(HC_EINVAL, hc_live_request(core(), NULL))                                                                        \
    X(HC_EINVAL, hc_live_request(core(), &(hc_live_change){.mask = "x"}))                                              \
    X(HC_EINVAL, request((hc_live_change){.rate = 1}))                                                                 \
    X(HC_OK, keeps(file_of("two.txt", "2\n"), 0))                                                                      \
    X(HC_OK, keeps(file_of("two.txt", "2\n"), 1))                                                                      \
    X(HC_OK, keeps("/there/is/none.wav", 5))                                                                           \
    X(HC_OK, keeps("/there/is/none.wav", HC_LIVE_MAX_KEPT))                                                            \
    X(HC_EINVAL, keeps("x", HC_LIVE_MAX_KEPT + 1))                                                                     \
    X(HC_EINVAL, keeps("x", INT_MIN))                                                                                  \
    X(HC_EINVAL, keeps("", 2))                                                                                         \
    X(HC_EINVAL, keeps(NULL, 2))                                                                                       \
    X(HC_EINVAL, hc_live_keep(NULL, NULL, 0))                                                                          \
    X(HC_EINVAL, hc_live_keep(core(), NULL, 1))                                                                        \
    X(HC_OK, (hc_live_keep(core(), NULL, 0), hc_live_keep(live, NULL, 0)))                                             \
    X(HC_OK, compares(NULL, NULL))                                                                                     \
    X(HC_OK, compares("/there/is/none.wav", "1"))                                                                      \
    X(HC_EINVAL, compares(NULL, "1"))                                                                                  \
    X(HC_EINVAL, compares("1", NULL))                                                                                  \
    X(HC_EINVAL, compares("1", "1"))                                                                                   \
    X(HC_EINVAL, hc_live_compare(NULL, NULL, NULL))                                                                    \
    X(HC_OK, plays(2, true))                                                                                           \
    X(HC_EINVAL, plays(0, true))                                                                                       \
    X(HC_EINVAL, plays(3, true))                                                                                       \
    X(HC_EINVAL, plays(2, false))                                                                                      \
    X(HC_EINVAL, hc_live_play(core(), "none", NULL, W))                                                                \
    X(HC_EINVAL, hc_live_work(NULL))                                                                                   \
    X(0, hc_live_has_work(NULL) + (int)hc_live_mask(NULL, W) + hc_live_n_entries(NULL, 0))                             \
    X(1, hc_live_mask(core(), NULL, 0) == strlen(folder) + strlen("/two.txt"))                                         \
    X(0, hc_live_mask(core(), why, 1) == 0 || why[0])                                                                  \
    X(1, reaches(0, 0) && reaches(1, 1) && !reaches(0, 1) && !reaches(1, 0))                                           \
    X(HC_OK, hc_live_process_changes(core(), in, out, BLOCK, NULL, 0))                                                 \
    X(HC_OK, hc_live_process_changes(core(), in, out, BLOCK, (hc_live_knob_change[]){{INT_MIN, -1, 1}}, 1))            \
    X(HC_OK, hc_live_process_changes(core(), in, out, 0, (hc_live_knob_change[]){{9, HC_N_KNOBS, NAN}}, 1))            \
    X(HC_EINVAL, hc_live_process_changes(core(), in, out, BLOCK, NULL, 1))                                             \
    X(HC_EINVAL, hc_live_process_changes(core(), in, out, BLOCK, (hc_live_knob_change[]){{0, 0, 1}}, -1))              \
    X(HC_EINVAL, hc_live_process_changes(NULL, in, out, BLOCK, NULL, 0))                                               \
    X(HC_OK, (hc_live_forget(core()), hc_live_forget(NULL), hc_live_process(core(), in, out, BLOCK)))                  \
    X(HC_OK, (hc_live_reset(core()), hc_live_reset(NULL), hc_live_process(live, in, out, BLOCK)))                      \
    X(0, (hc_live_take_peaks(core(), NULL, NULL), hc_live_take_peaks(NULL, NULL, NULL), 0))                            \
    X(0, (hc_live_take_channel_peaks(core(), NULL, NULL), hc_live_take_channel_peaks(NULL, NULL, NULL), 0))            \
    X(HC_OK, hc_live_get_signals(core(), out, out, 1))                                                                 \
    X(HC_EINVAL, hc_live_get_signals(core(), out, out, 0))                                                             \
    X(HC_EINVAL, hc_live_get_signals(core(), out, out, HC_LIVE_MAX_SIGNAL + 1))                                        \
    X(HC_EINVAL, hc_live_get_signals(core(), NULL, out, 1))                                                            \
    X(HC_EINVAL, hc_live_get_signals(core(), out, NULL, 1))                                                            \
    X(HC_EINVAL, hc_live_get_signals(NULL, out, out, 1))                                                               \
    X(0, (hc_live_get_stats(core(), NULL), hc_live_get_times(live, NULL), hc_live_get_info(live, NULL), 0))            \
    X(HC_OK, reads_smaller_info())                                                                                     \
    X(0, (hc_live_get_stats(NULL, &(hc_live_stats){0}), hc_live_get_info(NULL, &(hc_live_info){0}), 0))                \
    X(0, (int)hc_times_quantile(&(hc_times){0}, 0.5))                                                                  \
    X(1, hc_times_quantile(&(hc_times){.n = 1, .max_ns = 9, .classes = {[9] = 1}}, NAN) <= 9)                          \
    X(9, (int)hc_times_quantile(&(hc_times){.n = 1, .max_ns = 9, .classes = {[9] = 1}}, 1e300))

#define MASKS(X)                                                                                                       \
    X(HC_OK, loads("a.txt", "1\n", 1024, 0))                                                                           \
    X(HC_EINVAL, loads("a.txt", "1\n", 1025, 0))                                                                       \
    X(HC_EINVAL, loads("a.txt", "1\n", INT_MIN, 0))                                                                    \
    X(HC_EINVAL, loads("a.txt", "1\n", 1, INT_MIN))                                                                    \
    X(HC_OK, loads("a.txt", "1\n", 1, INT_MAX))                                                                        \
    X(HC_EINVAL, loads("a.txt", "# none\n", 1, 0))                                                                     \
    X(HC_EINVAL, loads("a.txt", "nan\n", 1, 0))                                                                        \
    X(HC_EINVAL, loads("a.txt", "1 2 3\n", 2, 0))                                                                      \
    X(HC_EFILE, loads("a.txt", "", 1, 0))                                                                              \
    X(HC_EFILE, loads("a.wav", "RIFF", 1, 0))                                                                          \
    X(ANY_ERROR, loads("a.conf", "/convolver/new 0 0 0 0\n", 0, INT_MAX))                                              \
    X(HC_EFILE, hc_responses_load("", 1, 0, 0, &responses, W))                                                         \
    X(HC_EFILE, hc_responses_load("/", 1, 0, 0, &responses, W))                                                        \
    X(HC_EINVAL, THEN(loads("a.txt", "1\n", 0, 0), hc_responses_route(&responses, "a", 0, W)))                         \
    X(HC_EINVAL, THEN(loads("a.txt", "1\n", 0, 0), hc_responses_route(&responses, "a", INT_MAX, W)))                   \
    X(HC_OK, THEN(loads("a.txt", "1\n", 0, 0), hc_responses_route(&responses, NULL, 1024, W)))                         \
    X(HC_EINVAL, THEN(loads("a.txt", "1\n", 1, 0), hc_responses_route(&responses, NULL, 2, W)))                        \
    X(HC_EINVAL, hc_responses_route(NULL, "a", 1, W))                                                                  \
    X(HC_EINVAL, hc_responses_route(&responses, "a", 1, W))                                                            \
    X(0, hc_responses_file(NULL, 0) || hc_responses_file(&responses, 0))                                               \
    X(0, THEN(loads("a.txt", "1\n", 0, 0), hc_responses_file(&responses, -1) || hc_responses_file(&responses, 0)))     \
    X(0, THEN(reads_names("a.conf", "/impulse/packedmatrix 1 1 0 0 0 b.wav\n") != HC_OK,                               \
              !hc_responses_file(&responses, 0) || hc_responses_file(&responses, 1)))                                  \
    X(0, (loads("a.txt", "1\n", 0, 0), hc_responses_free(&responses), hc_responses_free(&responses), 0))

/* ---- children ---------------------------------------------------------------------------------------------------- */

struct row {
    const char *call;
    int want;
};
#define ROW(want, ...) {#__VA_ARGS__, want},
#define RUN(want, ...)                                                                                                 \
    if (i-- == 0) return (__VA_ARGS__);

/* Runs a call and says what is wrong. Returns the exit status. */
static int judge(const struct row *row, int (*run)(int), int i)
{
    int status = 0, got = run(i);
    bool writes_text = strstr(row->call, "W)") || strncmp(row->call, "opens", 5) == 0 ||
                       strncmp(row->call, "plans", 5) == 0 || strncmp(row->call, "lives", 5) == 0;
    bool is_right = row->want == ANY_ERROR ? got < 0 : got == row->want;
    if (!is_right) {
        printf("    %s: %d (%s), want %d\n", row->call, got, why, row->want);
        status = WRONG_RESULT;
    } else if (got < 0 && writes_text && !live && (!why[0] || strchr(why, '\n'))) {
        printf("    %s: %d, and the text is '%s'\n", row->call, got, why);
        status = NO_TEXT;
    }
    all_closed();
    if (!status && __lsan_do_recoverable_leak_check && __lsan_do_recoverable_leak_check()) status = LEAK;
    return status;
}

static void calls_end_as_their_header_says(const struct row *rows, int n, int (*run)(int))
{
    int n_wrong = 0;
    check(mkdtemp(folder), "%s cannot be made", folder);
    check(engine_open(&engine, BLOCK) == HC_OK, "%s", why); /* its children find the costs that it has measured */
    hc_close(engine);
    engine = NULL;
    for (int i = 0; i < n; i++) {
        int status;
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            struct rlimit most = {(rlim_t)MEMORY_MIB << 20, (rlim_t)MEMORY_MIB << 20};
            if (!SANITIZED) setrlimit(RLIMIT_AS, &most); /* a sanitizer's own limit is above */
            setrlimit(RLIMIT_CORE, &(struct rlimit){0});
            alarm(SECONDS);
            status = judge(&rows[i], run, i);
            fflush(stdout);
            _exit(status);
        }
        check(child > 0 && waitpid(child, &status, 0) == child, "no child process");
        if (status == 0) continue;
        n_wrong++;
        if (WIFSIGNALED(status)) printf("    %s: signal %d\n", rows[i].call, WTERMSIG(status));
        if (WIFEXITED(status) && WEXITSTATUS(status) == LEAK) printf("    %s: a leak\n", rows[i].call);
        if (WIFEXITED(status) && WEXITSTATUS(status) < WRONG_RESULT) printf("    %s: a crash\n", rows[i].call);
    }
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    strcpy(folder + strlen(folder) - 6, system(command) == 0 ? "XXXXXX" : "xxxxxx");
    check(n_wrong == 0, "%d of %d calls are wrong", n_wrong, n);
}

#define TABLE(name, list)                                                                                              \
    static int name##_run(int i)                                                                                       \
    {                                                                                                                  \
        list(RUN) return INT_MIN;                                                                                      \
    }                                                                                                                  \
    static void name(const char *unused)                                                                               \
    {                                                                                                                  \
        static const struct row rows[] = {list(ROW)};                                                                  \
        calls_end_as_their_header_says(rows, sizeof rows / sizeof *rows, name##_run);                                  \
    }
TABLE(calls_of_engines_end_as_the_header_says, ENGINES)
TABLE(calls_of_files_end_as_the_header_says, FILES)
TABLE(calls_of_live_convolvers_end_as_the_header_says, LIVE)
TABLE(calls_of_masks_end_as_the_header_says, MASKS)

int main(void)
{
    static const struct test tests[] = {
        TEST(calls_of_engines_end_as_the_header_says, false),
        TEST(calls_of_files_end_as_the_header_says, false),
        TEST(calls_of_live_convolvers_end_as_the_header_says, false),
        TEST(calls_of_masks_end_as_the_header_says, false),
    };
    return check_main("contract", tests, sizeof tests / sizeof *tests);
}
