/* live_driver_clap - drives the CLAP plugin in a small host (clap_host.h). */
#include "live_driver.h"

#ifndef HC_WITH_CLAP
static void nothing(void) {}

const struct live_driver live_clap = {.name = "clap", .missing = "built without CLAP", .close = nothing};
#else

#include "clap_host.h"
#include "live_log.h"
#include "plugins/haloconv.clap/clap_meters.h"

#include <math.h>
#include <stdlib.h>

static struct clap_session *session;
static struct live_log seen;
static enum backend backend;

static void read_log(void)
{
    live_log_read(&seen, clap_log(session));
}

static struct live_counts counts(void)
{
    const struct clap_meters *meters = session->plugin->get_extension(session->plugin, CLAP_METERS);
    read_log();
    seen.counts.late = (int)lrintf(meters->get(session->plugin, "late"));
    return seen.counts;
}

static void close_clap(void)
{
    if (session) clap_close(session);
    session = NULL;
}

static const char *process(const float *const *in, float *const *out, int n)
{
    check(clap_play(session, (float *const *)in, out, (uint32_t)n) != CLAP_PROCESS_ERROR, "a block is refused");
    return SANITIZED ? NULL : clap_caught(session);
}

static void ask_mask(const char *path)
{
    session->presets->from_location(session->plugin, MORE_LOCATION_FILE, path, NULL);
}

static void choose(enum backend other)
{
    clap_set(session, BACKEND, backend = other, 0);
}

static void run_silence(void)
{
    static float zeros[64], discarded[LIVE_CHANNELS][64];
    process((const float *const[]){zeros, zeros}, (float *const[]){discarded[0], discarded[1]}, 64);
}

/* The host renders, and goes on to render until set_freewheel: the next block has the device. */
static void choose_device(const char *fault)
{
    setenv("HC_FAULT", fault, 1);
    clap_set_offline(session, true);
    choose(BACKEND_GPU);
    run_silence();
    read_log();
    check(seen.counts.rebuilds > 0, "the device does not play: %s", seen.text);
    unsetenv("HC_FAULT");
    for (int i = 0; i < 40; i++) run_silence(); /* to the end of the fade */
}

static void open_clap(const struct live_setup *setup)
{
    seen = (struct live_log){.text = ""};
    session = clap_open("stereo", true);
    backend = BACKEND_AUTO;
    ask_mask(setup->mask);
    clap_activate(session, LIVE_RATE, 64);
    read_log();
    check(seen.counts.masks == 1, "%s cannot be played: %s", setup->mask, seen.text);
    if (!SANITIZED) clap_caught(session); /* sets the trap */
    if (setup->fault) choose_device(setup->fault);
    seen.counts.masks = seen.counts.rebuilds = 0;
}

static void set_freewheel(bool on)
{
    clap_set_offline(session, on);
}

static void set_bypass(bool on)
{
    clap_set(session, ENABLED, on, 0); /* the bypass */
}

static void reset(void)
{
    clap_reset(session);
}

static void ask_device_again(void)
{
    choose(backend == BACKEND_GPU ? BACKEND_AUTO : BACKEND_GPU);
}

/* process() has any number of frames. */
static void ask_block(int block) {}

const struct live_driver live_clap = {
    .name = "clap",
    .block = 64,
    .other_block = 256,
    .is_plugin = true,
    .lacks = {[LIVE_BLOCK_AT_ONCE] = "one engine plays the calls of any length",
              [LIVE_RATE_CHANGE] = "a CLAP host deactivates the plugin for another rate"},
    .open = open_clap,
    .close = close_clap,
    .process = process,
    .ask_mask = ask_mask,
    .ask_block = ask_block,
    .set_freewheel = set_freewheel,
    .set_bypass = set_bypass,
    .reset = reset,
    .ask_device_again = ask_device_again,
    .counts = counts};
#endif
