#include "plugin_driver.h"
#include "lv2_host.h"
#ifdef HC_WITH_CLAP
#include "clap_host.h"
#include "plugins/haloconv.clap/clap_meters.h"
#endif
#ifdef HC_WITH_VST3
#include "plugins/haloconv.vst3/vst3_classes.h"
#include "vst3_host.h"
#endif

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAX_FRAMES = 8192 };

void plugin_make(struct plugin *p, const struct plugin_driver *driver, const struct plugin_setup *setup)
{
    if (driver->missing) check_skip(driver->missing);
    *p = (struct plugin){.driver = driver, .setup = *setup};
    for (int v = 0; v < N_VARIANTS; v++)
        if (strcmp(variants[v].symbol, setup->variant) == 0) p->variant = &variants[v];
    check(p->variant, "there is no plugin %s", setup->variant);
    driver->open(p);
    driver->set_now(p, FREEWHEEL, !setup->is_live);
    driver->set_now(p, BACKEND, setup->backend);
}

void plugin_open(struct plugin *p, const struct plugin_driver *driver, const struct plugin_setup *setup)
{
    plugin_make(p, driver, setup);
    driver->activate(p, false);
    p->is_active = true;
}

void plugin_close(struct plugin *p)
{
    if (p->host) p->driver->close(p);
    p->host = NULL;
}

void plugin_deactivate(struct plugin *p)
{
    p->driver->deactivate(p);
    p->is_active = false;
}

void plugin_activate(struct plugin *p, int rate, int max_frames)
{
    const bool is_other = rate != p->setup.rate || max_frames != p->setup.max_frames;
    p->setup.rate = rate, p->setup.max_frames = max_frames;
    p->driver->activate(p, is_other);
    p->is_active = true;
}

const char *shipped_mask(const char *name)
{
    static char path[4200];
    snprintf(path, sizeof path, "%s%s", lv2_host_bundle(), name);
    return path;
}

/* Calls of the driver that are calls of the host. */
#define ACT(name, call)                                                                                                \
    static void name(struct plugin *p)                                                                                 \
    {                                                                                                                  \
        call(p->host);                                                                                                 \
    }
#define ASK(type, name, call)                                                                                          \
    static type name(struct plugin *p)                                                                                 \
    {                                                                                                                  \
        return call(p->host);                                                                                          \
    }

#define CALLS(standard)                                                                                                \
    .name = #standard, .open = open_##standard, .close = close_##standard, .activate = activate_##standard,            \
    .deactivate = deactivate_##standard, .reset = reset_##standard, .set = set_##standard,                             \
    .set_now = set_now_##standard, .choose = choose_##standard, .play = play_##standard, .save = save_##standard,      \
    .load = load_##standard, .log = log_##standard, .caught = caught_##standard, .meter = meter_##standard,            \
    .latency = latency_##standard
#define VALUES(standard)                                                                                               \
    .value = value_##standard, .text = text_##standard, .read = read_##standard,                                       \
    .choose_preset = choose_preset_##standard, .tail = tail_##standard, .n_told = n_told_##standard

/* ---- LV2 ---------------------------------------------------------------------------------------- */

ACT(close_lv2, lv2_host_close)
ACT(deactivate_lv2, lv2_host_deactivate)
ASK(const char *, log_lv2, lv2_host_log)
ASK(const char *, caught_lv2, lv2_host_caught)
ASK(bool, is_busy_lv2, lv2_host_busy)
ASK(const char *, status_lv2, lv2_host_status)
ASK(const char *, notified_lv2, lv2_host_notified)

static enum lv2_host_worker worker_of(const struct plugin *p)
{
    return (enum lv2_host_worker)(p->setup.way % N_WORKERS);
}

static void restore_lv2(struct plugin *p, const struct lv2_host_state *state)
{
    const bool with_worker = p->setup.way < WORKER_NONE;
    check(lv2_host_restore(p->host, state, false, with_worker) == 0, "the state cannot be restored");
}

static void choose_before_lv2(struct plugin *p, const char *path)
{
    struct lv2_host_state state = {0};
    check(lv2_host_save(p->host, &state, false) == 0, "the state cannot be saved");
    state.size = (size_t)snprintf(state.value, sizeof state.value, "%s", path) + 1;
    restore_lv2(p, &state);
}

static void open_lv2(struct plugin *p)
{
    p->host = lv2_host_open(p->setup.variant, p->setup.rate, MAX_FRAMES, p->setup.max_frames, worker_of(p));
    if (p->setup.mask) choose_before_lv2(p, p->setup.mask);
}

/* An instance has one rate and one usual block: the host makes another one, which gets the state. */
static void activate_lv2(struct plugin *p, bool is_other)
{
    char text[PLUGIN_STATE_BYTES];
    if (is_other) {
        p->driver->save(p, text, sizeof text);
        lv2_host_close(p->host);
        p->setup.mask = NULL;
        open_lv2(p);
        p->driver->load(p, text, strlen(text), sizeof text);
        p->driver->set_now(p, FREEWHEEL, !p->setup.is_live);
    }
    lv2_host_activate(p->host);
}

static void reset_lv2(struct plugin *p)
{
    lv2_host_deactivate(p->host);
    lv2_host_activate(p->host);
}

static void set_now_lv2(struct plugin *p, enum control control, double value)
{
    *lv2_host_control(p->host, control) = (float)value;
}

static void set_lv2(struct plugin *p, enum control control, double value, int frame)
{
    set_now_lv2(p, control, value);
}

static void choose_lv2(struct plugin *p, const char *path, int frame)
{
    if (!p->is_active)
        choose_before_lv2(p, path);
    else
        lv2_host_send_mask(p->host, path, frame);
}

static void play_lv2(struct plugin *p, void *const *in, void *const *out, int n)
{
    lv2_host_connect_audio(p->host, (float *const *)in, (float *const *)out);
    lv2_host_run(p->host, n);
}

static void send_odd_lv2(struct plugin *p, unsigned kind)
{
    lv2_host_send_get(p->host);
    lv2_host_send_junk(p->host, kind);
}

static bool save_lv2(struct plugin *p, char *text, int chunk)
{
    struct lv2_host_state second = {0}, state = {.second = &second};
    check(lv2_host_save(p->host, &state, false) == 0, "the state cannot be saved");
    int n = sprintf(text, "haloconv plugin 1\nmask %s\n", state.value);
    if (second.size > 1) n += sprintf(text + n, "mask_b %s\n", second.value);
    for (int c = 0; c < N_CONTROLS; c++)
        if (variant_has_setting(p->variant, c))
            n += sprintf(text + n, "%s %.9g\n", controls[c].symbol, (double)*lv2_host_control(p->host, c));
    sprintf(text + n, "end\n");
    return true;
}

static bool load_lv2(struct plugin *p, const char *text, size_t length, int chunk)
{
    struct lv2_host_state second = {0}, state = {.second = &second};
    check(lv2_host_save(p->host, &state, false) == 0, "the state cannot be saved"); /* for its keys */
    state.size = second.size = 0;
    for (const char *line = text; line < text + length; line += strcspn(line, "\n") + 1) {
        char key[32];
        int at = 0;
        if (sscanf(line, "%31s %n", key, &at) < 1 || at == 0) continue;
        const int c = control_find(key), n = (int)strcspn(line + at, "\n");
        const bool ships = strncmp(key, "shipped", 7) == 0;
        struct lv2_host_state *side = strstr(key, "_b") ? &second : &state;
        if (c < N_CONTROLS) *lv2_host_control(p->host, c) = strtof(line + at, NULL);
        if (ships || strncmp(key, "mask", 4) == 0)
            side->size = 1 + (size_t)snprintf(side->value, sizeof side->value, "%s%.*s", ships ? shipped_mask("") : "",
                                              n, line + at);
    }
    restore_lv2(p, &state);
    return true;
}

static double meter_lv2(struct plugin *p, enum control control)
{
    return (double)*lv2_host_control(p->host, control);
}

static unsigned latency_lv2(struct plugin *p)
{
    return (unsigned)lrintf(*lv2_host_control(p->host, LATENCY));
}

const struct plugin_driver plugin_lv2 = {CALLS(lv2),
                                         .is_busy = is_busy_lv2,
                                         .send_odd = send_odd_lv2,
                                         .status = status_lv2,
                                         .notified = notified_lv2,
                                         .keeps_its_mask = true,
                                         .n_ways = N_WORKERS + WORKER_NONE,
                                         .n_workers = WORKER_NONE};

/* ---- CLAP --------------------------------------------------------------------------------------- */

#ifdef HC_WITH_CLAP
ACT(close_clap, clap_close)
ACT(deactivate_clap, clap_deactivate)
ASK(const char *, log_clap, clap_log)
ASK(const char *, caught_clap, clap_caught)
ACT(reset_clap, clap_reset)

static void choose_clap(struct plugin *p, const char *path, int frame)
{
    const struct clap_session *s = p->host;
    s->presets->from_location(s->plugin, MORE_LOCATION_FILE, path, NULL);
}

static void open_clap(struct plugin *p)
{
    p->host = clap_open(p->setup.variant, true);
    if (p->setup.mask) choose_clap(p, p->setup.mask, 0);
}

static void activate_clap(struct plugin *p, bool is_other)
{
    clap_activate(p->host, p->setup.rate, (uint32_t)p->setup.max_frames);
}

static void set_clap(struct plugin *p, enum control control, double value, int frame)
{
    if (control == FREEWHEEL)
        clap_set_offline(p->host, value > 0);
    else
        clap_set(p->host, control, control_swap_bypass(control, value), (uint32_t)frame);
}

static void set_now_clap(struct plugin *p, enum control control, double value)
{
    set_clap(p, control, value, 0);
    if (control != FREEWHEEL) clap_flush(p->host);
}

static void play_clap(struct plugin *p, void *const *in, void *const *out, int n)
{
    clap_process_status status;
    if (p->setup.is_double) {
        const clap_audio_buffer_t from = {.data64 = (double **)(uintptr_t)in,
                                          .channel_count = (uint32_t)p->variant->n_in};
        clap_audio_buffer_t to = {.data64 = (double **)(uintptr_t)out, .channel_count = (uint32_t)p->variant->n_out};
        status = clap_process_block(p->host, &(clap_process_t){.frames_count = (uint32_t)n,
                                                               .audio_inputs = &from,
                                                               .audio_outputs = &to,
                                                               .audio_inputs_count = 1,
                                                               .audio_outputs_count = 1,
                                                               .in_events = clap_events(p->host)});
    } else {
        status = clap_play(p->host, (float *const *)in, (float *const *)out, (uint32_t)n);
    }
    check(status != CLAP_PROCESS_ERROR, "a block of %d frames is refused", n);
    p->is_silent = status == CLAP_PROCESS_SLEEP;
}

static bool save_clap(struct plugin *p, char *text, int chunk)
{
    return clap_save(p->host, text, (size_t)chunk);
}

static bool load_clap(struct plugin *p, const char *text, size_t length, int chunk)
{
    const struct clap_session *s = p->host;
    const int n_rescans = s->n_rescans;
    const bool is_read = clap_load(p->host, text, length, (size_t)chunk);
    check(s->n_rescans == n_rescans + is_read, "the host is told %d times of new values", s->n_rescans - n_rescans);
    return is_read;
}

static double meter_clap(struct plugin *p, enum control control)
{
    const struct clap_session *s = p->host;
    const struct clap_meters *meters = s->plugin->get_extension(s->plugin, CLAP_METERS);
    return (double)meters->get(s->plugin, controls[control].symbol);
}

static unsigned latency_clap(struct plugin *p)
{
    const struct clap_session *s = p->host;
    const clap_plugin_latency_t *latency = s->plugin->get_extension(s->plugin, CLAP_EXT_LATENCY);
    check(latency, "the plugin tells no latency");
    return latency->get(s->plugin);
}

static double value_clap(struct plugin *p, enum control control)
{
    const struct clap_session *s = p->host;
    double value = NAN;
    check(s->params->get_value(s->plugin, control_id(control), &value), "%s has no value", controls[control].name);
    return control_swap_bypass(control, value);
}

static void text_clap(struct plugin *p, enum control control, double value, char text[128])
{
    const struct clap_session *s = p->host;
    value = control_swap_bypass(control, value);
    check(s->params->value_to_text(s->plugin, control_id(control), value, text, 128), "%s has no text",
          controls[control].name);
}

static bool read_clap(struct plugin *p, enum control control, const char *text, double *value)
{
    const struct clap_session *s = p->host;
    const bool is_read = s->params->text_to_value(s->plugin, control_id(control), text, value);
    *value = control_swap_bypass(control, *value);
    return is_read;
}

static void choose_preset_clap(struct plugin *p, const struct plugin_preset *preset)
{
    struct clap_session *s = p->host;
    check(s->presets->from_location(s->plugin, MORE_LOCATION_PLUGIN, NULL, preset->symbol), "%s", preset->symbol);
}

static unsigned tail_clap(struct plugin *p)
{
    const struct clap_session *s = p->host;
    return s->tail->get(s->plugin);
}

static int n_told_clap(struct plugin *p)
{
    return ((const struct clap_session *)p->host)->n_rescans;
}

static const char *notified_clap(struct plugin *p)
{
    return ((const struct clap_session *)p->host)->last;
}

/* A modulation, also of what is not a parameter; its frame may be behind the block. */
static void send_odd_clap(struct plugin *p, unsigned kind)
{
    clap_modulate(p->host, kind % N_CONTROLS, (int)(kind >> 8) % 200, kind >> 16 & 511);
}

const struct plugin_driver plugin_clap = {CALLS(clap),
                                          VALUES(clap),
                                          .send_odd = send_odd_clap,
                                          .notified = notified_clap,
                                          .has_doubles = true,
                                          .keeps_its_mask = true,
                                          .n_ways = 1,
                                          .n_workers = 1};
#else
const struct plugin_driver plugin_clap = {.name = "clap", .missing = "built without CLAP"};
#endif

/* ---- VST3 --------------------------------------------------------------------------------------- */

#ifdef HC_WITH_VST3
ACT(deactivate_vst3, vst3_deactivate)

/* Only a state brings a mask; the values stay. */
static void choose_vst3(struct plugin *p, const char *path, int frame)
{
    char text[PLUGIN_STATE_BYTES], state[sizeof text + 4 * 4096], escaped[4 * 4096] = "";
    for (char *to = escaped; *path; path++)
        to += *path < ' ' || *path == '\\' ? sprintf(to, "\\x%02x", *path) : sprintf(to, "%c", *path);
    check(vst3_save(p->host, text, sizeof text), "the state cannot be saved");
    const char *mask = strstr(text, "\nshipped ");
    if (!mask) mask = strstr(text, "\nmask ");
    int n = snprintf(state, sizeof state, "%.*s\nmask %s%s", (int)(mask - text), text, escaped, strchr(mask + 1, '\n'));
    check(vst3_load(p->host, state, (size_t)n, n), "%s is refused", escaped);
}

static void open_vst3(struct plugin *p)
{
    char path[40];
    p->log_file = memfd_create("haloconv-log", MFD_CLOEXEC);
    snprintf(path, sizeof path, "/proc/self/fd/%d", p->log_file);
    setenv("HALOCONV_LOG", path, 1);
    struct vst3_session *s = p->host = vst3_open(p->setup.variant);
    unsetenv("HALOCONV_LOG");
    for (int c = 0; c < N_CONTROLS; c++) p->values[c] = (double)controls[c].initial;
    s->setup.symbolic_sample_size = p->setup.is_double ? V3_SAMPLE_64 : V3_SAMPLE_32;
    if (p->setup.mask) choose_vst3(p, p->setup.mask, 0);
}

static void close_vst3(struct plugin *p)
{
    vst3_close(p->host);
    close(p->log_file);
}

static void activate_vst3(struct plugin *p, bool is_other)
{
    struct vst3_session *s = p->host;
    s->setup.sample_rate = p->setup.rate;
    vst3_activate(s, p->setup.max_frames);
}

static void reset_vst3(struct plugin *p)
{
    const struct vst3_session *s = p->host;
    (*s->processor)->set_processing(s->processor, false);
    (*s->processor)->set_processing(s->processor, true);
}

/* VST3 has lines between points: a step has two points. Switches have no lines. */
static void set_vst3(struct plugin *p, enum control control, double value, int frame)
{
    struct vst3_session *s = p->host;
    if (control == FREEWHEEL) {
        s->setup.process_mode = value > 0 ? V3_OFFLINE : V3_REALTIME;
        return;
    }
    if (frame > 0 && controls[control].kind < CONTROL_INTEGER) vst3_point(s, control, p->values[control], frame - 1);
    vst3_point(s, control, control_swap_bypass(control, value), frame);
    p->values[control] = value;
}

static void set_now_vst3(struct plugin *p, enum control control, double value)
{
    const struct vst3_session *s = p->host;
    struct v3_edit_controller **c = s->controller;
    const uint32_t id = control_id(control);
    if (control == FREEWHEEL)
        set_vst3(p, control, value, 0);
    else
        (*c)->set_parameter_normalised(c, id,
                                       (*c)->plain_parameter_to_normalised(c, id, control_swap_bypass(control, value)));
    p->values[control] = value;
}

static void play_vst3(struct plugin *p, void *const *in, void *const *out, int n)
{
    struct vst3_session *s = p->host;
    check(vst3_play(s, in, out, n) == V3_OK, "a block of %d frames is refused", n);
    p->is_silent = s->n_silent == p->variant->n_out;
}

static bool save_vst3(struct plugin *p, char *text, int chunk)
{
    return vst3_save(p->host, text, chunk);
}

static bool load_vst3(struct plugin *p, const char *text, size_t length, int chunk)
{
    return vst3_load(p->host, text, length, chunk);
}

static const char *log_vst3(struct plugin *p)
{
    static char text[1 << 14];
    ssize_t n = pread(p->log_file, text, sizeof text - 1, p->log_read);
    check(n >= 0, "the log cannot be read");
    text[n] = '\0';
    p->log_read += n;
    return text;
}

static const char *caught_vst3(struct plugin *p)
{
    struct vst3_session *s = p->host;
    const char *caught = s->caught;
    s->caught = NULL;
    s->is_trapped = true;
    return caught;
}

static double meter_vst3(struct plugin *p, enum control control)
{
    return vst3_get(p->host, control);
}

static double value_vst3(struct plugin *p, enum control control)
{
    return control_swap_bypass(control, vst3_get(p->host, control));
}

static unsigned latency_vst3(struct plugin *p)
{
    const struct vst3_session *s = p->host;
    return (*s->processor)->get_latency_samples(s->processor);
}

static void text_vst3(struct plugin *p, enum control control, double value, char text[128])
{
    struct v3_edit_controller **c = ((const struct vst3_session *)p->host)->controller;
    const uint32_t id = control_id(control);
    v3_str_128 wide;
    value = (*c)->plain_parameter_to_normalised(c, id, control_swap_bypass(control, value));
    check((*c)->get_parameter_string_for_value(c, id, value, wide) == V3_OK, "%s has no text", controls[control].name);
    for (int i = 0; i < 128; i++) text[i] = (char)wide[i];
}

static bool read_vst3(struct plugin *p, enum control control, const char *text, double *value)
{
    struct v3_edit_controller **c = ((const struct vst3_session *)p->host)->controller;
    const uint32_t id = control_id(control);
    v3_str_128 wide = {0};
    for (int i = 0; text[i]; i++) wide[i] = text[i];
    if ((*c)->get_parameter_value_for_string(c, id, wide, value) != V3_OK) return false;
    *value = control_swap_bypass(control, (*c)->normalised_parameter_to_plain(c, id, *value));
    return true;
}

static void choose_preset_vst3(struct plugin *p, const struct plugin_preset *preset)
{
    struct v3_edit_controller **c = ((const struct vst3_session *)p->host)->controller;
    v3_str_128 text = {0};
    double x;
    for (int i = 0; preset->label[i]; i++) text[i] = preset->label[i];
    check((*c)->get_parameter_value_for_string(c, VST3_PRESET, text, &x) == V3_OK, "no %s", preset->label);
    check((*c)->set_parameter_normalised(c, VST3_PRESET, x) == V3_OK, "preset %s", preset->label);
}

static unsigned tail_vst3(struct plugin *p)
{
    const struct vst3_session *s = p->host;
    return (*s->processor)->get_tail_samples(s->processor);
}

static int n_told_vst3(struct plugin *p)
{
    return ((const struct vst3_session *)p->host)->handler.n_restarts;
}

const struct plugin_driver plugin_vst3 = {CALLS(vst3), VALUES(vst3), .has_doubles = true, .n_ways = 1, .n_workers = 1};
#else
const struct plugin_driver plugin_vst3 = {.name = "vst3", .missing = "built without VST3"};
#endif
