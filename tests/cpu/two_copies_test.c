/* Two copies of the library in one process, as a host program and a plugin may have them: the program's own, and
 * libhaloconv.so. */
#include "check.h"
#include "haloconv.h"

#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 64, TAPS = 20000, FRAMES = 500 * BLOCK };

struct copy {
    hc_engine *engine;
    hc_mask *mask;
    void (*config_init)(hc_config *);
    int (*open)(const hc_config *, hc_engine **, char *, size_t);
    int (*mask_make)(hc_engine *, const hc_route *, size_t, int, hc_mask **, char *, size_t);
    int (*mask_swap)(hc_engine *, hc_mask *);
    int (*process)(hc_engine *, const float *const *, float *const *, int);
    void (*mask_free)(hc_engine *, hc_mask *);
    void (*close)(hc_engine *);
};

static void copy_open(struct copy *copy, const hc_route *route)
{
    hc_config c;
    char why[400] = "";
    copy->config_init(&c);
    c.backend = "cpu";
    c.method = "fft";
    c.n_in = c.n_out = 1;
    c.max_taps = TAPS;
    c.block = BLOCK;
    c.n_threads = 2;
    check(copy->open(&c, &copy->engine, why, sizeof why) == HC_OK, "%s", why);
    check(copy->mask_make(copy->engine, route, sizeof *route, 1, &copy->mask, why, sizeof why) == HC_OK, "%s", why);
    copy->mask_swap(copy->engine, copy->mask);
}

static void two_copies_in_a_process_play_the_same(const char *unused)
{
    struct random r = random_seeded(1);
    float *taps = noise(&r, TAPS), *x = noise(&r, FRAMES), y[2][BLOCK];
    const hc_route route = {.taps = taps, .n_taps = TAPS, .gain = 1};
    struct copy copies[2] = {
        {NULL, NULL, hc_config_init, hc_open, hc_mask_make, hc_mask_swap, hc_process, hc_mask_free, hc_close}};
    char path[PATH_MAX + 32] = "";
    check(readlink("/proc/self/exe", path, PATH_MAX) > 0, "the program has no name");
    strcat(dirname(path), "/../libhaloconv.so");
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    check(library, "%s", dlerror());
#define FIND(name) (*(void **)&copies[1].name = dlsym(library, "hc_" #name))
    check(FIND(config_init) && FIND(open) && FIND(mask_make) && FIND(mask_swap) && FIND(process) && FIND(mask_free) &&
              FIND(close),
          "%s", dlerror());
    check(copies[0].open != copies[1].open, "this is one copy");
    for (int i = 0; i < 2; i++) copy_open(&copies[i], &route);
    for (int at = 0; at < FRAMES; at += BLOCK) {
        for (int i = 0; i < 2; i++)
            check(copies[i].process(copies[i].engine, &(const float *){x + at}, &(float *){y[i]}, BLOCK) == HC_OK,
                  "copy %d, frame %d: no block", i, at);
        check(memcmp(y[0], y[1], sizeof y[0]) == 0, "frames %d to %d differ", at, at + BLOCK);
        check(at < FRAMES / 2 || y[0][0] != 0, "frame %d is silence", at);
    }
    for (int i = 0; i < 2; i++) {
        copies[i].mask_free(copies[i].engine, copies[i].mask);
        copies[i].close(copies[i].engine);
    }
    dlclose(library);
    free(taps);
    free(x);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(two_copies_in_a_process_play_the_same, false),
    };
    return check_main("two_copies", tests, sizeof tests / sizeof *tests);
}
