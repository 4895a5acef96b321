/* live_driver_plugins - drives the LV2, the CLAP and the VST3 plugin in small hosts, through plugin_driver.h.
 */
#include "live_driver.h"
#include "live_log.h"
#include "plugin_driver.h"

#include <math.h>
#include <stdlib.h>

enum { BLOCK = 64, OTHER_BLOCK = 256 };

#ifdef HC_WITH_CLAP
#define CLAP_MISSING NULL
#else
#define CLAP_MISSING "built without CLAP"
#endif
#ifdef HC_WITH_VST3
#define VST3_MISSING NULL
#else
#define VST3_MISSING "built without VST3"
#endif

static struct plugin plugin; /* its host is NULL: nothing is open */
static struct live_log seen;
static enum backend backend;

static void read_log(void)
{
    live_log_read(&seen, plugin.driver->log(&plugin));
}

static struct live_counts counts(void)
{
    read_log();
    seen.counts.late = (int)lrint(plugin.driver->meter(&plugin, LATE));
    return seen.counts;
}

static void close_plugin(void)
{
    plugin_close(&plugin);
}

static const char *process(const float *const *in, float *const *out, int n)
{
    plugin.driver->play(&plugin, (void *const *)in, (void *const *)out, n);
    return SANITIZED ? NULL : plugin.driver->caught(&plugin);
}

static void ask_mask(const char *path)
{
    plugin.driver->choose(&plugin, path, 0);
}

static void set(enum control control, double value)
{
    plugin.driver->set(&plugin, control, value, 0);
}

static void run_silence(void)
{
    static float zeros[BLOCK], discarded[LIVE_CHANNELS][BLOCK];
    process((const float *const[]){zeros, zeros}, (float *const[]){discarded[0], discarded[1]}, BLOCK);
}

/* Request the device, and wait until it plays. The plugin runs at few of the steps, because the new engine processes
 * these blocks too, and HC_FAULT counts them. The host goes on to render until set_freewheel. */
static void choose_device(const char *fault)
{
    double give_up = now_s() + 120;
    setenv("HC_FAULT", fault, 1);
    set(FREEWHEEL, 1);
    set(BACKEND, backend = BACKEND_GPU);
    for (int ms = 0; seen.counts.rebuilds == 0; ms++) {
        check(now_s() < give_up, "the device does not play: %s", seen.text);
        if (ms % 200 == 0) run_silence();
        pause_us(1000);
        read_log();
    }
    unsetenv("HC_FAULT");
    for (int i = 0; i < 40; i++) run_silence(); /* to the end of the fade */
}

static void open_plugin(const struct plugin_driver *driver, const struct live_setup *setup)
{
    seen = (struct live_log){.text = ""};
    backend = BACKEND_AUTO;
    plugin_open(&plugin, driver,
                &(struct plugin_setup){.variant = "stereo",
                                       .mask = setup->mask,
                                       .rate = LIVE_RATE,
                                       .max_frames = OTHER_BLOCK,
                                       .is_live = true,
                                       .way = driver->n_workers - 1});
    read_log();
    check(seen.counts.masks == 1, "%s cannot be played: %s", setup->mask, seen.text);
    if (!SANITIZED) plugin.driver->caught(&plugin); /* sets the trap */
    if (setup->fault) choose_device(setup->fault);
    seen.counts.masks = seen.counts.rebuilds = 0;
}

static void set_freewheel(bool on)
{
    set(FREEWHEEL, on);
}

static void set_bypass(bool on)
{
    set(ENABLED, !on);
}

static void reset(void)
{
    plugin.driver->reset(&plugin);
}

static void ask_device_again(void)
{
    set(BACKEND, backend = backend == BACKEND_GPU ? BACKEND_AUTO : BACKEND_GPU);
}

/* A block has any number of frames. */
static void ask_block(int block) {}

static void open_lv2(const struct live_setup *setup)
{
    open_plugin(&plugin_lv2, setup);
}

static void open_clap(const struct live_setup *setup)
{
    open_plugin(&plugin_clap, setup);
}

static void open_vst3(const struct live_setup *setup)
{
    open_plugin(&plugin_vst3, setup);
}

#define PLUGIN                                                                                                         \
    .block = BLOCK, .other_block = OTHER_BLOCK, .is_plugin = true, .close = close_plugin, .process = process,          \
    .ask_mask = ask_mask, .ask_block = ask_block, .set_freewheel = set_freewheel, .set_bypass = set_bypass,            \
    .reset = reset, .ask_device_again = ask_device_again, .counts = counts
#define AT_ONCE [LIVE_BLOCK_AT_ONCE] = "one engine plays the calls of any length of a plugin"

const struct live_driver live_lv2 = {PLUGIN, .name = "lv2", .asks_in_callback = true,
                                     .lacks = {AT_ONCE, [LIVE_RATE_CHANGE] = "an LV2 instance has one rate"},
                                     .open = open_lv2};
const struct live_driver live_clap = {
    PLUGIN, .name = "clap", .missing = CLAP_MISSING,
    .lacks = {AT_ONCE, [LIVE_RATE_CHANGE] = "a CLAP host deactivates the plugin for another rate"}, .open = open_clap};
const struct live_driver live_vst3 = {
    PLUGIN, .name = "vst3", .missing = VST3_MISSING,
    .lacks = {AT_ONCE, [LIVE_RATE_CHANGE] = "a VST3 host deactivates the plugin for another rate",
              [LIVE_BAD_MASK] = "masks come by states, and the input passes if that of a state cannot be loaded"},
    .open = open_vst3};
