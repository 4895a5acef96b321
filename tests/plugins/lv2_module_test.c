/* A host unloads the plugin while its own copy of the library plays on the GPU module that both have loaded. The module is
 * a fake (fake_gpu.c). */
#include "haloconv.h"
#include "lv2_host.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RATE = 48000, CALL = 64, CHANNELS = 2 };

/* Does this process map a file whose path ends in `name`? */
static bool is_mapped(const char *name)
{
    char line[4400];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "r");
    check(maps, "/proc/self/maps cannot be read");
    while (!found && fgets(line, sizeof line, maps)) {
        line[strcspn(line, "\n")] = '\0';
        found = strlen(line) >= strlen(name) && strcmp(line + strlen(line) - strlen(name), name) == 0;
    }
    fclose(maps);
    return found;
}

static hc_engine *own_engine(void)
{
    hc_config c;
    hc_engine *engine = NULL;
    hc_mask *mask = NULL;
    char why[400] = "";
    float tap = 1;
    const hc_route route = {0, 0, &tap, 1, 1, 0};
    hc_config_init(&c);
    c.backend = "cuda";
    c.n_in = c.n_out = 1;
    c.max_taps = 1;
    c.wait_us = HC_WAIT_FOREVER;
    check(hc_open(&c, &engine, why, sizeof why) == HC_OK, "%s", why);
    check(hc_mask_make(engine, &route, sizeof route, 1, &mask, why, sizeof why) == HC_OK &&
              hc_mask_swap(engine, mask) == HC_OK,
          "%s", why);
    return engine;
}

static void own_engine_plays(hc_engine *engine)
{
    float x[CALL], y[CALL] = {0};
    for (int i = 0; i < CALL; i++) x[i] = (float)i;
    check(hc_process(engine, &(const float *){x}, &(float *){y}, CALL) == HC_OK && memcmp(x, y, sizeof x) == 0,
          "y[1] is %g", (double)y[1]);
}

/* An instance with the tail of its mask on the GPU. */
static struct lv2_host *instance_open(const char *mask)
{
    float in[CHANNELS][CALL] = {{0}}, out[CHANNELS][CALL];
    char log[8192] = "";
    struct lv2_host *host = lv2_host_open("stereo", RATE, CALL, CALL, WORKER_THREAD);
    lv2_host_activate(host);
    lv2_host_connect_audio(host, (float *[]){in[0], in[1]}, (float *[]){out[0], out[1]});
    *lv2_host_control(host, BACKEND) = BACKEND_GPU;
    lv2_host_send_mask(host, mask, 0);
    for (time_t start = time(NULL); !strstr(log, "on cuda:0 a fake"); pause_us(500)) {
        check(time(NULL) - start < 60, "the log does not name the fake: %s", log);
        lv2_host_run(host, CALL);
        const char *more = lv2_host_log(host);
        if (strlen(log) + strlen(more) < sizeof log) strcat(log, more);
    }
    return host;
}

static void an_unloaded_plugin_leaves_the_module_to_its_host(const char *unused)
{
    const char *build = getenv("BUILD");
    char module[4200], plugin[4200], mask[4200];
    snprintf(module, sizeof module, "%s/tests/module/libhaloconv_cuda.so", build ? build : "build");
    snprintf(plugin, sizeof plugin, "%shaloconv.so", lv2_host_bundle());
    snprintf(mask, sizeof mask, "%shall.wav", lv2_host_bundle());
    setenv("HALOCONV_CUDA", module, 1);
    struct lv2_host *idle = lv2_host_open("stereo", RATE, CALL, CALL, WORKER_THREAD);
    check(!is_mapped("/libhaloconv_cuda.so"), "an instance without a GPU has loaded the module");
    lv2_host_close(idle);
    struct lv2_host *instance = instance_open(mask);
    hc_engine *engine = own_engine();
    own_engine_plays(engine);
    lv2_host_close(instance);
    void *library = dlopen(plugin, RTLD_NOW | RTLD_NOLOAD);
    check(library && is_mapped("/haloconv.lv2/haloconv.so"), "%s is not loaded", plugin);
    dlclose(library);
    dlclose(library); /* for lv2_host.c */
#if !SANITIZED        /* a sanitizer's runtime may keep it */
    check(!is_mapped("/haloconv.lv2/haloconv.so"), "the plugin is still mapped");
#endif
    check(is_mapped("/libhaloconv_cuda.so"), "the module is gone");
    own_engine_plays(engine);
    hc_close(engine);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(an_unloaded_plugin_leaves_the_module_to_its_host, false),
    };
    return check_main("lv2_module", tests, sizeof tests / sizeof *tests);
}
