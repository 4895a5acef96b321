/* live_driver_lv2 - drives the LV2 bundle in a small host (lv2_host.h) whose worker is a thread. */
#include "live_driver.h"
#include "live_log.h"
#include "lv2_host.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct host *host;
static struct live_log seen;

static void read_log(void)
{
    live_log_read(&seen, host_log(host));
}

static struct live_counts counts(void)
{
    read_log();
    seen.counts.late = (int)lrintf(*host_control(host, LATE));
    return seen.counts;
}

static void close_lv2(void)
{
    if (host) host_close(host);
    host = NULL;
}

static const char *process(const float *const *in, float *const *out, int n)
{
    host_connect_audio(host, (float *const *)in, out);
    host_run(host, n);
    return host_caught(host);
}

static void ask_mask(const char *path)
{
    host_send_mask(host, path, 0);
}

static void run_silence(void)
{
    static float zeros[64], discarded[LIVE_CHANNELS][64];
    const float *in[] = {zeros, zeros};
    float *out[] = {discarded[0], discarded[1]};
    process(in, out, 64);
}

/* Request the device, and wait until it plays. The plugin runs at few of the steps, because the new engine
 * processes these blocks too, and HC_FAULT counts them. */
static void choose_device(const char *fault)
{
    double give_up = now_s() + 120;
    setenv("HC_FAULT", fault, 1);
    *host_control(host, FREEWHEEL) = 1;
    *host_control(host, BACKEND) = BACKEND_GPU;
    for (int ms = 0; seen.counts.rebuilds == 0; ms++) {
        check(now_s() < give_up, "the device does not play: %s", seen.text);
        if (ms % 200 == 0) run_silence();
        pause_us(1000);
        read_log();
    }
    unsetenv("HC_FAULT");
    for (int i = 0; i < 40; i++) run_silence(); /* to the end of the fade */
}

/* A saved session restores the mask. With a device the host is freewheeling. */
static void open_lv2(const struct live_setup *setup)
{
    struct host_state state = {0};
    seen = (struct live_log){.text = ""};
    host = host_open("stereo", LIVE_RATE, 256, 64, WORKER_THREAD);
    check(host_save(host, &state, false) == 0, "the state cannot be saved");
    state.size = (size_t)snprintf(state.value, sizeof state.value, "%s", setup->mask) + 1;
    check(host_restore(host, &state, false, false) == 0, "the state cannot be restored");
    host_activate(host);
    read_log();
    check(seen.counts.masks == 1, "%s cannot be played: %s", setup->mask, seen.text);
    if (!SANITIZED) host_caught(host); /* sets the trap */
    if (setup->fault) choose_device(setup->fault);
    seen.counts.masks = seen.counts.rebuilds = 0;
}

static void set_freewheel(bool on)
{
    *host_control(host, FREEWHEEL) = on;
}

static void set_bypass(bool on)
{
    *host_control(host, ENABLED) = !on;
}

static void reset(void)
{
    host_deactivate(host);
    host_activate(host);
}

static void ask_device_again(void)
{
    *host_control(host, BACKEND) = *host_control(host, BACKEND) == BACKEND_GPU ? BACKEND_AUTO : BACKEND_GPU;
}

/* run() takes any number of frames. */
static void ask_block(int block) {}

const struct live_driver live_lv2 = {
    .name = "lv2",
    .block = 64,
    .other_block = 256,
    .is_plugin = true,
    .asks_in_callback = true,
    .lacks = {[LIVE_BLOCK_AT_ONCE] = "one engine plays an LV2 instance's calls of any length",
              [LIVE_RATE_CHANGE] = "an LV2 instance has one rate"},
    .open = open_lv2,
    .close = close_lv2,
    .process = process,
    .ask_mask = ask_mask,
    .ask_block = ask_block,
    .set_freewheel = set_freewheel,
    .set_bypass = set_bypass,
    .reset = reset,
    .ask_device_again = ask_device_again,
    .counts = counts};
