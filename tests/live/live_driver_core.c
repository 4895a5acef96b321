/* live_driver_core - drives haloconv_live.h directly, with a worker thread. */
#include "haloconv_live.h"
#include "live_driver.h"
#include "trap.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static hc_live *live;
static pthread_t worker;
static atomic_bool end;

static void *work(void *arg)
{
    while (!atomic_load(&end))
        if (hc_live_has_work(live))
            hc_live_work(live);
        else
            pause_us(200);
    return NULL;
}

static void request(const hc_live_change *change)
{
    check(hc_live_request(live, change) == HC_OK, "the request was refused");
}

static void ask_mask(const char *path)
{
    request(&(hc_live_change){.size = sizeof(hc_live_change), .mask = path});
}

static void ask_block(int block)
{
    request(&(hc_live_change){.size = sizeof(hc_live_change), .block = block});
}

static void ask_rate(int rate)
{
    request(&(hc_live_change){.size = sizeof(hc_live_change), .rate = rate});
}

static void close_core(void)
{
    if (!live) return;
    atomic_store(&end, true);
    pthread_join(worker, NULL);
    hc_live_close(live);
    live = NULL;
}

static void open_core(const struct live_setup *setup)
{
    hc_live_config config;
    char why[400] = "";
    hc_live_config_init(&config);
    if (!setup->is_default) {
        config.fade_ms = LIVE_FADE_MS;
        config.standby_share = 1e9;
        if (setup->wait_us) config.wait_us = setup->wait_us;
    }
    if (setup->fault) {
        setenv("HC_FAULT", setup->fault, 1);
        config.backend = "cuda";
    }
    check(hc_live_open(&config, &live, why, sizeof why) == HC_OK, "%s", why);
    ask_mask(setup->mask);
    int error = hc_live_work(live);
    unsetenv("HC_FAULT");
    check(error == HC_OK, "%s cannot be played: %d", setup->mask, error);
    atomic_store(&end, false);
    check(pthread_create(&worker, NULL, work, NULL) == 0, "no thread");
}

static const char *process(const float *const *in, float *const *out, int n)
{
    if (!SANITIZED) trap_arm();
    hc_live_process(live, in, out, n);
    return SANITIZED ? NULL : trap_disarm();
}

static void set_freewheel(bool on)
{
    hc_live_set_freewheel(live, on);
}

static void set_bypass(bool on)
{
    hc_live_set(live, HC_BYPASS, on);
}

static void reset(void)
{
    hc_live_forget(live);
}

static struct live_counts counts(void)
{
    hc_live_stats stats = {.size = sizeof stats};
    hc_live_info info = {.size = sizeof info};
    struct live_counts counts = {0};
    hc_live_get_stats(live, &stats);
    hc_live_get_info(live, &info);
    counts.masks = (int)stats.masks;
    counts.rebuilds = (int)stats.rebuilds;
    counts.late = (int)stats.late + (int)stats.lost;
    counts.on_standby = stats.state == HC_LIVE_STANDBY;
    strncpy(counts.backend, info.backend ? info.backend : "", sizeof counts.backend - 1);
    return counts;
}

const struct live_driver live_core = {.name = "core",
                                      .block = 64,
                                      .other_block = 256,
                                      .has_standby = true,
                                      .open = open_core,
                                      .close = close_core,
                                      .process = process,
                                      .ask_mask = ask_mask,
                                      .ask_block = ask_block,
                                      .ask_rate = ask_rate,
                                      .set_freewheel = set_freewheel,
                                      .set_bypass = set_bypass,
                                      .reset = reset,
                                      .counts = counts};
