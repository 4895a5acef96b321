/* The promises of the public structs and calls: size, defaults, NULL, texts, threads. */
#include "dsp/backends/backends.h"
#include "dsp/bench.h"
#include "dsp/device/backend.h"
#include "dsp/engine/engine.h"
#include "haloconv_files.h"
#include "haloconv_masks.h"
#include "player.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static hc_info info_of(const hc_config *config)
{
    char why[256] = "";
    hc_engine *e = NULL;
    hc_info info = {.size = sizeof info};
    int code = hc_open(config, &e, why, sizeof why);
    check(code == HC_OK, "hc_open: %d, %s", code, why);
    code = hc_get_info(e, &info);
    hc_close(e);
    check(code == HC_OK, "hc_get_info: %d", code);
    return info;
}

/* The name ends with how kernels run, "; resident" or "; launched: why": beside another process they are launched. */
static bool is_same_device(const char *a, const char *b)
{
    const char *end = strrchr(a, ';');
    size_t n = end ? (size_t)(end - a) : strlen(a);
    return strncmp(a, b, n) == 0 && b[n] == (end ? ';' : 0);
}

static void check_same_engine(const hc_info *a, const hc_info *b, const char *what)
{
    check(a->block == b->block && a->partition == b->partition && a->n_partitions == b->n_partitions &&
              a->queue_depth == b->queue_depth && a->hop == b->hop && a->n_levels == b->n_levels &&
              a->memory == b->memory && strcmp(a->method, b->method) == 0 && is_same_device(a->device, b->device) &&
              memcmp(a->levels, b->levels, sizeof a->levels) == 0,
          "%s: block %d, partition %d, %d levels, %s on %s; want block %d, partition %d, %d levels, %s on %s", what,
          a->block, a->partition, a->n_levels, a->method, a->device, b->block, b->partition, b->n_levels, b->method,
          b->device);
}

/* The struct is as short as that of an older program: a sanitizer reports a read beyond its end. */
static void a_shorter_config_of_an_older_program_works(const char *backend)
{
    static const size_t sizes[] = {offsetof(hc_config, n_in), offsetof(hc_config, n_frames),
                                   offsetof(hc_config, in_samples), offsetof(hc_config, queue_depth)};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        hc_config whole;
        hc_config_init(&whole);
        whole.block = 128;
        bool has_backend = sizes[i] > offsetof(hc_config, backend);
        if (has_backend) whole.backend = backend;
        hc_config *old = must_alloc(1, sizes[i]);
        memcpy(old, &whole, sizes[i]);
        old->size = sizes[i];
        hc_info got = info_of(old), want = info_of(&whole);
        check_same_engine(&got, &want, "a shorter config");
        check(got.block == 128, "block %d", got.block);
        hc_info plan = {.size = sizeof plan};
        check(hc_plan(old, &plan, NULL, 0) == HC_OK && plan.block == 128, "hc_plan: block %d", plan.block);
        free(old);
    }
}

static void a_longer_config_of_a_newer_program_works_until_it_asks_for_more(const char *backend)
{
    struct {
        hc_config config;
        int64_t later;
    } newer = {.later = 0};
    char why[256] = "";
    hc_engine *e;
    hc_config_init(&newer.config);
    newer.config.size = sizeof newer;
    newer.config.backend = backend;
    int code = hc_open(&newer.config, &e, why, sizeof why);
    check(code == HC_OK, "its new field has the default: %d, %s", code, why);
    hc_close(e);
    newer.later = 1;
    code = hc_open(&newer.config, &e, why, sizeof why);
    check(code == HC_EINVAL && strstr(why, "newer library") && !e, "its new field is set: %d, %s", code, why);
}

static void absurd_sizes_are_refused(const char *backend)
{
    static const size_t sizes[] = {0, 1, sizeof(size_t), 43, 48000, (size_t)64 << 32 | 48000, SIZE_MAX - 7};
    hc_config c;
    hc_config_init(&c);
    c.backend = backend;
    hc_engine *e = NULL, *good;
    check(hc_open(&c, &good, NULL, 0) == HC_OK, "hc_open");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char why[256] = "";
        c.size = sizes[i];
        int code = hc_open(&c, &e, why, sizeof why);
        check(code == HC_EINVAL && !e && strstr(why, "sizeof(hc_config)"), "size %zu: %d, '%s'", sizes[i], code, why);
        hc_info info = {.size = sizes[i]};
        code = hc_get_info(good, &info);
        check(code == HC_EINVAL && info.block == 0, "hc_get_info, size %zu: %d", sizes[i], code);
        code = hc_plan(NULL, &info, why, sizeof why);
        check(code == HC_EINVAL && info.block == 0 && strstr(why, "sizeof"), "hc_plan, size %zu: %d, '%s'", sizes[i],
              code, why);
    }
    hc_close(good);
}

static void a_shorter_info_is_filled_to_its_size(const char *backend)
{
    hc_config c;
    hc_engine *e;
    hc_config_init(&c);
    c.backend = backend;
    check(hc_open(&c, &e, NULL, 0) == HC_OK, "hc_open");
    hc_info whole = {.size = sizeof whole};
    check(hc_get_info(e, &whole) == HC_OK, "hc_get_info");
    static const size_t sizes[] = {offsetof(hc_info, method), offsetof(hc_info, memory), offsetof(hc_info, swaps)};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        hc_info *old = must_alloc(1, sizes[i]);
        old->size = sizes[i];
        check(hc_get_info(e, old) == HC_OK && old->size == sizes[i], "%zu bytes", sizes[i]);
        check(memcmp(&old->backend, &whole.backend, sizes[i] - sizeof(size_t)) == 0, "%zu bytes differ", sizes[i]);
        free(old);
    }
    struct {
        hc_info info;
        int64_t later, end;
    } newer;
    memset(&newer, 0xa5, sizeof newer);
    newer.info.size = offsetof(__typeof__(newer), end);
    check(hc_get_info(e, &newer.info) == HC_OK && newer.later == 0, "an unknown field is %llx",
          (unsigned long long)newer.later);
    memset(&newer.later, 0xa5, sizeof newer.later);
    check(newer.end == newer.later, "written beyond its size");
    hc_close(e);
}

static void null_and_zero_mean_the_default(const char *backend)
{
    hc_config all, zero = {.size = sizeof zero, .backend = backend, .wait_us = HC_WAIT_FOREVER};
    hc_config_init(&all);
    all.backend = backend;
    hc_info got = info_of(&zero), want = info_of(&all);
    check_same_engine(&got, &want, "a zeroed config");
    check(got.block == 64, "block %d", got.block);
    all.backend = "auto";
    hc_info nothing = info_of(NULL), automatic = info_of(&all);
    check_same_engine(&nothing, &automatic, "no config");
    hc_info plan = {.size = sizeof plan}, same = {.size = sizeof same};
    zero.backend = NULL;
    check(hc_plan(NULL, &plan, NULL, 0) == HC_OK && hc_plan(&zero, &same, NULL, 0) == HC_OK, "hc_plan");
    check_same_engine(&plan, &same, "hc_plan(NULL)");
}

/* Two channels pass, and the fade of a swap lasts 512 frames, or none. */
static void a_zeroed_fade_is_the_default_and_none_must_be_asked_for(const char *backend)
{
    static const float one = 1, two = 2;
    static const int fades[] = {0, HC_NO_FADE};
    for (int f = 0; f < 2; f++) {
        hc_config c = {.size = sizeof c, .max_taps = 1, .fade_frames = fades[f], .backend = backend};
        c.wait_us = HC_WAIT_FOREVER;
        hc_engine *e;
        hc_mask *a, *b;
        hc_route loud[] = {{0, 0, &one, 1, 1, 0}, {1, 1, &one, 1, 1, 0}}, louder[] = {{0, 0, &two, 1, 1, 0}};
        check(hc_open(&c, &e, NULL, 0) == HC_OK, "hc_open");
        check(hc_mask_make(e, loud, sizeof *loud, 2, &a, NULL, 0) == HC_OK, "a mask");
        check(hc_mask_make(e, louder, sizeof *louder, 1, &b, NULL, 0) == HC_OK, "a mask");
        int fading = 0;
        for (int block = 0; block < 20; block++) {
            float x[2][64], y[2][64];
            for (int i = 0; i < 64; i++) x[0][i] = x[1][i] = 1;
            if (block == 0) hc_mask_swap(e, a);
            if (block == 4) hc_mask_swap(e, b);
            check(hc_process(e, (const float *const[]){x[0], x[1]}, (float *const[]){y[0], y[1]}, 64) == HC_OK, "play");
            for (int i = 0; i < 64; i++) fading += y[0][i] > 1.000001f && y[0][i] < 1.999999f;
        }
        hc_close(e);
        check(fades[f] ? fading == 0 : fading > 500 && fading <= 512, "fade_frames %d: %d frames fade", fades[f],
              fading);
    }
}

static void null_arguments_are_refused(const char *backend)
{
    hc_config c;
    hc_engine *e;
    hc_mask *mask = NULL;
    char why[256] = "";
    float x[64] = {0};
    const float *in[] = {x, x};
    float *out[] = {x, x};
    hc_config_init(NULL);
    hc_config_init(&c);
    c.backend = backend;
    check(hc_open(&c, NULL, why, sizeof why) == HC_EINVAL && why[0], "hc_open");
    check(hc_open(&c, &e, why, sizeof why) == HC_OK, "%s", why);
    hc_route bare = {.taps = NULL, .n_taps = 3, .gain = 1};
    const struct {
        hc_engine *engine;
        const hc_route *routes;
        hc_mask **mask;
        const char *word;
    } makes[] = {{NULL, &bare, &mask, "engine"},
                 {e, &bare, NULL, "mask"},
                 {e, NULL, &mask, "routes"},
                 {e, &bare, &mask, "taps"}};
    for (size_t i = 0; i < sizeof makes / sizeof *makes; i++) {
        why[0] = 0;
        int code = hc_mask_make(makes[i].engine, makes[i].routes, sizeof(hc_route), 1, makes[i].mask, why, sizeof why);
        check(code == HC_EINVAL && strstr(why, makes[i].word), "hc_mask_make, no %s: %d, '%s'", makes[i].word, code,
              why);
    }
    check(hc_mask_make(e, NULL, sizeof(hc_route), 0, &mask, why, sizeof why) == HC_OK, "a mask of silence: %s", why);
    check(hc_mask_make_noise(NULL, 1, 9, 9, 1, &mask, NULL, 0) == HC_EINVAL && !mask, "hc_mask_make_noise");
    hc_info info = {.size = sizeof info};
    check(hc_plan(&c, NULL, why, sizeof why) == HC_EINVAL, "hc_plan");
    check(hc_measure(backend, NULL, why, sizeof why) == HC_EINVAL, "hc_measure");
    check(hc_get_info(NULL, &info) == HC_EINVAL && hc_get_info(e, NULL) == HC_EINVAL, "hc_get_info");
    check(hc_mask_swap(NULL, NULL) == HC_EINVAL && engine_wait_set(NULL, 0) == HC_EINVAL,
          "hc_mask_swap, engine_wait_set");
    check(hc_process(NULL, in, out, 64) == HC_EINVAL && hc_process(e, NULL, out, 64) == HC_EINVAL &&
              hc_process(e, in, NULL, 64) == HC_EINVAL && hc_process(e, NULL, NULL, 0) == HC_OK,
          "hc_process");
    check(hc_submit(NULL, in, 1) == HC_EINVAL && hc_collect(NULL, out) == HC_EINVAL, "hc_submit, hc_collect");
    check(hc_block_buffers(NULL, 0, NULL, NULL) == HC_EINVAL && hc_list_devices(0, NULL, 0) == HC_EINVAL,
          "hc_block_buffers, a device");
    hc_responses r;
    check(hc_responses_load(NULL, 1, 0, 0, &r, why, sizeof why) == HC_EINVAL, "hc_responses_load");
    check(hc_responses_load("h.wav", 1, 0, 0, NULL, why, sizeof why) == HC_EINVAL, "hc_responses_load");
    hc_reset(NULL);
    hc_count_set(NULL, 0, 1);
    hc_mask_free(NULL, NULL);
    hc_mask_free(e, NULL);
    hc_responses_free(NULL);
    hc_close(NULL);
    hc_close(e);
}

static void every_error_has_a_text(const char *backend)
{
    static const int codes[] = {HC_OK, HC_LATE, HC_EINVAL, HC_ENOMEM, HC_EDEVICE, HC_EFILE, HC_EUNSUPPORTED};
    enum { N = sizeof codes / sizeof *codes };
    for (int i = 0; i < N; i++) {
        check(strlen(hc_strerror(codes[i])) > 3, "code %d: '%s'", codes[i], hc_strerror(codes[i]));
        for (int j = 0; j < i; j++) check(strcmp(hc_strerror(codes[i]), hc_strerror(codes[j])) != 0, "%d as %d", i, j);
    }
    for (int code = -1000; code < 1000; code++) check(hc_strerror(code) && hc_strerror(code)[0], "code %d", code);
    check(strcmp(hc_version(), HC_VERSION) == 0, "version %s of %s", hc_version(), HC_VERSION);
}

struct asker {
    hc_engine *engine;
    atomic_bool ends;
    uint64_t asked, frames, clipped;
    bool wrong;
};

static void *ask(void *arg)
{
    struct asker *a = arg;
    while (!atomic_load(&a->ends) || a->asked < 1000) {
        hc_info info = {.size = sizeof info};
        a->wrong = a->wrong || hc_get_info(a->engine, &info) != HC_OK || info.block < 1 || info.n_levels < 1 ||
                   info.frames < a->frames || info.clipped < a->clipped;
        a->frames = info.frames;
        a->clipped = info.clipped;
        a->asked++;
    }
    return NULL;
}

static pthread_t ask_begin(struct asker *a, hc_engine *engine)
{
    pthread_t thread;
    *a = (struct asker){.engine = engine};
    check(pthread_create(&thread, NULL, ask, a) == 0, "pthread_create");
    return thread;
}

static void ask_end(struct asker *a, pthread_t thread, hc_engine *engine)
{
    atomic_store(&a->ends, true);
    pthread_join(thread, NULL);
    hc_info info = {.size = sizeof info};
    hc_get_info(engine, &info);
    check(!a->wrong, "one of %llu answers is wrong", (unsigned long long)a->asked);
    check(info.frames >= a->frames, "frames went back");
}

struct maker {
    hc_engine *engine;
    bool wrong;
};

static void *make_masks(void *arg)
{
    struct maker *m = arg;
    float taps[700];
    for (int i = 0; i < 700; i++) taps[i] = 0.001f;
    hc_route routes[] = {{0, 0, taps, 700, 1, 0}, {1, 1, taps, 600, 1, 100}};
    for (int i = 0; i < 40; i++) {
        hc_mask *mask;
        m->wrong = m->wrong || hc_mask_make(m->engine, routes, sizeof *routes, 2, &mask, NULL, 0) != HC_OK;
        if (m->wrong) return NULL;
        hc_mask_swap(m->engine, mask);
        hc_mask_free(m->engine, mask);
    }
    return NULL;
}

/* One thread calls hc_get_info, one makes, swaps and frees masks, one plays. For ThreadSanitizer. */
static void info_during_mask_make(const char *backend)
{
    struct player p;
    hc_config c;
    hc_config_init(&c);
    c.max_taps = 700;
    player_open(&p, &c, backend, 64, 5);
    struct asker asker;
    struct maker maker = {.engine = p.engine};
    pthread_t making, asking = ask_begin(&asker, p.engine);
    check(pthread_create(&making, NULL, make_masks, &maker) == 0, "pthread_create");
    int bad = 0;
    for (int i = 0; i < 300; i++) bad += hc_process(p.engine, (const float *const *)p.in, p.out, 64) != HC_OK;
    pthread_join(making, NULL);
    ask_end(&asker, asking, p.engine);
    check(!maker.wrong && bad == 0, "a mask failed, or %d blocks", bad);
    player_close(&p);
}

/* hc_collect counts the clipped samples of a device that encodes. */
static void info_during_collect(const char *backend)
{
    static const float ten = 10;
    enum { N = 64, BLOCKS = 4 }; /* ThreadSanitizer is slow on emulated kernels */
    hc_config c;
    hc_engine *e;
    hc_mask *mask;
    hc_config_init(&c);
    c.block = HC_BLOCK_FILES;
    c.backend = backend_for_files(backend);
    c.max_taps = 1;
    c.method = "direct";
    c.in_samples = c.out_samples = HC_S16;
    check(hc_open(&c, &e, NULL, 0) == HC_OK, "hc_open");
    hc_info info = {.size = sizeof info};
    hc_get_info(e, &info);
    hc_route routes[] = {{0, 0, &ten, 1, 1, 0}, {1, 1, &ten, 1, 1, 0}};
    check(hc_mask_make(e, routes, sizeof *routes, 2, &mask, NULL, 0) == HC_OK && hc_mask_swap(e, mask) == HC_OK,
          "a mask");
    struct asker asker;
    pthread_t asking = ask_begin(&asker, e);
    int bad = 0;
    for (int i = 0; i < BLOCKS; i++) {
        void *in;
        bad += hc_block_buffers(e, i, &in, NULL) != HC_OK;
        if (info.in_samples == HC_S16)
            for (int k = 0; k < 2 * N; k++) ((int16_t *)in)[k] = 20000;
        else
            for (int k = 0; k < N; k++) ((float *)in)[k] = ((float *)in)[info.block + k] = 0.6f;
        bad += hc_submit(e, NULL, N) != HC_OK;
        bad += hc_collect(e, NULL) != N;
    }
    ask_end(&asker, asking, e);
    hc_get_info(e, &info);
    hc_close(e);
    check(bad == 0, "%d calls failed", bad);
    check(info.clipped == (info.out_samples == HC_S16 ? BLOCKS * 2 * N : 0), "%llu clipped",
          (unsigned long long)info.clipped);
}

/* ---- a device that opens, but gives no buffers -------------------------------------------------------------------- */

static pthread_t closer;

static int no_buffer_make(void *state, struct io_buffer *buffer, struct reason *why)
{
    return fail(HC_ENOMEM, why, "no buffer");
}

static void no_buffer_free(void *state, struct io_buffer *buffer) {}

static void close_noted(void *state)
{
    closer = pthread_self();
    backend_cpu.close(state);
}

/* The device may hang, and hc_open must end. */
static void an_engine_that_fails_to_open_is_freed_by_another_thread(const char *backend)
{
    static struct backend device;
    hc_engine *engine;
    hc_config c;
    char why[256] = "";
    device = backend_cpu;
    device.name = device.choice = "device without buffers";
    device.in_place = false;
    device.io_buffer_make = no_buffer_make;
    device.io_buffer_free = no_buffer_free;
    device.close = close_noted;
    backend_add(&device);
    hc_config_init(&c);
    c.backend = device.name;
    closer = pthread_self();
    check(hc_open(&c, &engine, why, sizeof why) == HC_ENOMEM && strcmp(why, "no buffer") == 0, "%s", why);
    check(!pthread_equal(closer, pthread_self()), "hc_open waits for the device itself");
}

int main(void)
{
    static const struct test tests[] = {
        TEST(a_shorter_config_of_an_older_program_works, true),
        TEST(a_longer_config_of_a_newer_program_works_until_it_asks_for_more, true),
        TEST(absurd_sizes_are_refused, true),
        TEST(a_shorter_info_is_filled_to_its_size, true),
        TEST(null_and_zero_mean_the_default, true),
        TEST(a_zeroed_fade_is_the_default_and_none_must_be_asked_for, true),
        TEST(null_arguments_are_refused, true),
        TEST(every_error_has_a_text, false),
        TEST(an_engine_that_fails_to_open_is_freed_by_another_thread, false),
        TEST(info_during_mask_make, true),
        TEST(info_during_collect, true),
    };
    return check_main("api", tests, sizeof tests / sizeof *tests);
}
