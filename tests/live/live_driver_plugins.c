/* live_driver_plugins - drives the LV2, the CLAP and the VST3 plugin in small hosts (lv2_host.h, clap_host.h,
 * vst3_host.h). A table has the calls of each host; one driver over it serves the three.
 */
#include "live_driver.h"
#include "live_log.h"
#include "lv2_host.h"
#ifdef HC_WITH_CLAP
#include "clap_host.h"
#include "plugins/haloconv.clap/clap_meters.h"
#endif
#ifdef HC_WITH_VST3
#include "vst3_host.h"
#endif

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BLOCK = 64, OTHER_BLOCK = 256 };

struct plugin_host {                /* of one instance of the stereo plugin                                 */
    void (*open)(const char *mask); /* active, with this mask                                               */
    void (*close)(void);
    void (*process)(const float *const *in, float *const *out, int n);
    void (*ask_mask)(const char *path);
    void (*set)(enum control control, double value); /* FREEWHEEL, ENABLED, BACKEND, before the next block       */
    void (*reset)(void);
    const char *(*caught)(void); /* in blocks since the last call; the first call sets the trap          */
    const char *(*log)(void);    /* since the last call                                                  */
    double (*late)(void);
};

/* ---- LV2: a worker that is a thread ------------------------------------------------------------- */

static struct lv2_host *lv2;

/* A saved session restores the mask. */
static void lv2_open(const char *mask)
{
    struct lv2_host_state state = {0};
    lv2 = lv2_host_open("stereo", LIVE_RATE, OTHER_BLOCK, BLOCK, WORKER_THREAD);
    check(lv2_host_save(lv2, &state, false) == 0, "the state cannot be saved");
    state.size = (size_t)snprintf(state.value, sizeof state.value, "%s", mask) + 1;
    check(lv2_host_restore(lv2, &state, false, false) == 0, "the state cannot be restored");
    lv2_host_activate(lv2);
}

static void lv2_close(void)
{
    lv2_host_close(lv2);
}

static void lv2_process(const float *const *in, float *const *out, int n)
{
    lv2_host_connect_audio(lv2, (float *const *)in, out);
    lv2_host_run(lv2, n);
}

static void lv2_ask_mask(const char *path)
{
    lv2_host_send_mask(lv2, path, 0);
}

static void lv2_set(enum control control, double value)
{
    *lv2_host_control(lv2, control) = (float)value;
}

static void lv2_reset(void)
{
    lv2_host_deactivate(lv2);
    lv2_host_activate(lv2);
}

static const char *lv2_caught(void)
{
    return lv2_host_caught(lv2);
}

static const char *lv2_log(void)
{
    return lv2_host_log(lv2);
}

static double lv2_late(void)
{
    return (double)*lv2_host_control(lv2, LATE);
}

static const struct plugin_host lv2_calls = {lv2_open,  lv2_close,  lv2_process, lv2_ask_mask, lv2_set,
                                             lv2_reset, lv2_caught, lv2_log,     lv2_late};

/* ---- CLAP --------------------------------------------------------------------------------------- */

#ifdef HC_WITH_CLAP
#define CLAP_HOST &clap_calls
#define CLAP_MISSING NULL
static struct clap_session *clap;

static void clap_ask_mask(const char *path)
{
    clap->presets->from_location(clap->plugin, MORE_LOCATION_FILE, path, NULL);
}

static void clap_open_stereo(const char *mask)
{
    clap = clap_open("stereo", true);
    clap_ask_mask(mask);
    clap_activate(clap, LIVE_RATE, OTHER_BLOCK);
}

static void clap_close_stereo(void)
{
    clap_close(clap);
}

static void clap_process(const float *const *in, float *const *out, int n)
{
    check(clap_play(clap, (float *const *)in, out, (uint32_t)n) != CLAP_PROCESS_ERROR, "a block is refused");
}

static void clap_set_control(enum control control, double value)
{
    if (control == FREEWHEEL)
        clap_set_offline(clap, value > 0);
    else
        clap_set(clap, control, control_swap_bypass(control, value), 0);
}

static void clap_reset_stereo(void)
{
    clap_reset(clap);
}

static const char *clap_caught_call(void)
{
    return clap_caught(clap);
}

static const char *clap_log_text(void)
{
    return clap_log(clap);
}

static double clap_late(void)
{
    const struct clap_meters *meters = clap->plugin->get_extension(clap->plugin, CLAP_METERS);
    return (double)meters->get(clap->plugin, "late");
}

static const struct plugin_host clap_calls = {clap_open_stereo, clap_close_stereo, clap_process,
                                              clap_ask_mask,    clap_set_control,  clap_reset_stereo,
                                              clap_caught_call, clap_log_text,     clap_late};
#else
#define CLAP_HOST NULL
#define CLAP_MISSING "built without CLAP"
#endif

/* ---- VST3 --------------------------------------------------------------------------------------- */

#ifdef HC_WITH_VST3
#define VST3_HOST &vst3_calls
#define VST3_MISSING NULL
static struct vst3_session *vst3;
static int vst3_log_file; /* in memory */
static off_t vst3_log_read;

/* Only a state brings a mask; the controls stay. */
static void vst3_ask_mask(const char *path)
{
    char text[32768], state[sizeof text + 4200];
    check(vst3_save(vst3, text, sizeof text), "the state cannot be saved");
    const char *mask = strstr(text, "\nshipped ");
    if (!mask) mask = strstr(text, "\nmask ");
    int n = snprintf(state, sizeof state, "%.*s\nmask %s%s", (int)(mask - text), text, path, strchr(mask + 1, '\n'));
    check(vst3_load(vst3, state, (size_t)n, n), "%s is refused", path);
}

static void vst3_open_stereo(const char *mask)
{
    char path[40];
    vst3_log_file = memfd_create("haloconv-log", MFD_CLOEXEC);
    vst3_log_read = 0;
    snprintf(path, sizeof path, "/proc/self/fd/%d", vst3_log_file);
    setenv("HALOCONV_LOG", path, 1);
    vst3 = vst3_open("stereo");
    vst3->setup.process_mode = V3_REALTIME;
    vst3_ask_mask(mask);
    vst3_activate(vst3, OTHER_BLOCK);
}

static void vst3_close_stereo(void)
{
    vst3_close(vst3);
    unsetenv("HALOCONV_LOG");
    close(vst3_log_file);
}

static void vst3_process_block(const float *const *in, float *const *out, int n)
{
    check(vst3_play(vst3, (void *const *)in, (void *const *)out, n) == V3_OK, "a block is refused");
}

static void vst3_set(enum control control, double value)
{
    if (control == FREEWHEEL)
        vst3->setup.process_mode = value > 0 ? V3_OFFLINE : V3_REALTIME;
    else
        vst3_point(vst3, control, control_swap_bypass(control, value), 0);
}

static void vst3_reset(void)
{
    (*vst3->processor)->set_processing(vst3->processor, false);
    (*vst3->processor)->set_processing(vst3->processor, true);
}

static const char *vst3_caught(void)
{
    const char *caught = vst3->caught;
    vst3->caught = NULL;
    vst3->is_trapped = true;
    return caught;
}

static const char *vst3_log(void)
{
    static char text[1 << 14];
    ssize_t n = pread(vst3_log_file, text, sizeof text - 1, vst3_log_read);
    check(n >= 0, "the log cannot be read");
    text[n] = '\0';
    vst3_log_read += n;
    return text;
}

static double vst3_late(void)
{
    return vst3_get(vst3, LATE);
}

static const struct plugin_host vst3_calls = {vst3_open_stereo, vst3_close_stereo, vst3_process_block,
                                              vst3_ask_mask,    vst3_set,          vst3_reset,
                                              vst3_caught,      vst3_log,          vst3_late};
#else
#define VST3_HOST NULL
#define VST3_MISSING "built without VST3"
#endif

/* ---- the driver --------------------------------------------------------------------------------- */

static const struct plugin_host *driven; /* NULL: nothing is open */
static struct live_log seen;
static enum backend backend;

static void read_log(void)
{
    live_log_read(&seen, driven->log());
}

static struct live_counts counts(void)
{
    read_log();
    seen.counts.late = (int)lrint(driven->late());
    return seen.counts;
}

static void close_plugin(void)
{
    if (driven) driven->close();
    driven = NULL;
}

static const char *process(const float *const *in, float *const *out, int n)
{
    driven->process(in, out, n);
    return SANITIZED ? NULL : driven->caught();
}

static void ask_mask(const char *path)
{
    driven->ask_mask(path);
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
    driven->set(FREEWHEEL, 1);
    driven->set(BACKEND, backend = BACKEND_GPU);
    for (int ms = 0; seen.counts.rebuilds == 0; ms++) {
        check(now_s() < give_up, "the device does not play: %s", seen.text);
        if (ms % 200 == 0) run_silence();
        pause_us(1000);
        read_log();
    }
    unsetenv("HC_FAULT");
    for (int i = 0; i < 40; i++) run_silence(); /* to the end of the fade */
}

static void open_plugin(const struct plugin_host *with, const struct live_setup *setup)
{
    seen = (struct live_log){.text = ""};
    backend = BACKEND_AUTO;
    with->open(setup->mask);
    driven = with;
    read_log();
    check(seen.counts.masks == 1, "%s cannot be played: %s", setup->mask, seen.text);
    if (!SANITIZED) driven->caught(); /* sets the trap */
    if (setup->fault) choose_device(setup->fault);
    seen.counts.masks = seen.counts.rebuilds = 0;
}

static void set_freewheel(bool on)
{
    driven->set(FREEWHEEL, on);
}

static void set_bypass(bool on)
{
    driven->set(ENABLED, !on);
}

static void reset(void)
{
    driven->reset();
}

static void ask_device_again(void)
{
    driven->set(BACKEND, backend = backend == BACKEND_GPU ? BACKEND_AUTO : BACKEND_GPU);
}

/* A block has any number of frames. */
static void ask_block(int block) {}

static void open_lv2(const struct live_setup *setup)
{
    open_plugin(&lv2_calls, setup);
}

static void open_clap(const struct live_setup *setup)
{
    open_plugin(CLAP_HOST, setup);
}

static void open_vst3(const struct live_setup *setup)
{
    open_plugin(VST3_HOST, setup);
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
