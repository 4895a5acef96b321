/* clap_plugin - the life of an instance, its ports, its state, and what it says to the host. */
#include "clap_meters.h"
#include "face.h"
#include "haloconv_live.h"

#include <clap/ext/audio-ports.h>
#include <clap/ext/latency.h>
#include <clap/ext/state.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the host ----------------------------------------------------------------------------------- */

void face_report(void *data, int level, const char *text)
{
    static const int32_t severities[] = {
        [HC_LIVE_NOTE] = MORE_LOG_INFO, [HC_LIVE_WARNING] = MORE_LOG_WARNING, [HC_LIVE_ERROR] = MORE_LOG_ERROR};
    const struct face *f = data;
    if (f->log)
        f->log->log(f->host, severities[level], text);
    else if (level != HC_LIVE_NOTE)
        fprintf(stderr, "haloconv: %s\n", text);
}

/* The worker calls it after a load, for a lost GPU, or if it noted a path for the side that does not play. */
static void changed(void *data)
{
    struct face *f = data;
    atomic_store(&f->has_news, true);
    f->host->request_callback(f->host);
}

static void CLAP_ABI on_main_thread(const clap_plugin_t *plugin)
{
    struct face *f = face_of(plugin);
    if (!atomic_exchange(&f->has_news, false)) return;
    face_answer_preset(f);
#ifdef HC_WITH_WINDOW
    face_answer_window(f);
#endif
}

bool face_is_on_main(const struct face *f, const char *call)
{
    char text[128];
    if (!f->threads || f->threads->is_main_thread(f->host)) return true;
    snprintf(text, sizeof text, "the host calls %s outside of its main thread", call);
    face_report((void *)(uintptr_t)f, HC_LIVE_WARNING, text);
    return false;
}

/* ---- ports -------------------------------------------------------------------------------------- */

static uint32_t CLAP_ABI port_count(const clap_plugin_t *plugin, bool is_input)
{
    (void)plugin, (void)is_input;
    return 1;
}

static bool CLAP_ABI port_get(const clap_plugin_t *plugin, uint32_t index, bool is_input, clap_audio_port_info_t *info)
{
    const struct variant *v = core_variant(face_of(plugin)->core);
    static const char *const kinds[] = {[1] = CLAP_PORT_MONO, [2] = CLAP_PORT_STEREO};
    int n = is_input ? v->n_in : v->n_out;
    if (index != 0) return false;
    *info = (clap_audio_port_info_t){.flags = CLAP_AUDIO_PORT_IS_MAIN | CLAP_AUDIO_PORT_SUPPORTS_64BITS |
                                              CLAP_AUDIO_PORT_REQUIRES_COMMON_SAMPLE_SIZE,
                                     .channel_count = (uint32_t)n,
                                     .port_type = n <= 2 ? kinds[n] : NULL,
                                     .in_place_pair = v->n_in == v->n_out ? 0 : CLAP_INVALID_ID};
    snprintf(info->name, sizeof info->name, "%s", is_input ? "In" : "Out");
    return true;
}

static const clap_plugin_audio_ports_t ports = {port_count, port_get};

/* ---- latency, tail, render ---------------------------------------------------------------------- */

static uint32_t CLAP_ABI latency_get(const clap_plugin_t *plugin)
{
    (void)plugin;
    return 0;
}

static const clap_plugin_latency_t latency = {latency_get};

static uint32_t CLAP_ABI tail_get(const clap_plugin_t *plugin)
{
    return core_tail(face_of(plugin)->core);
}

static const struct more_tail tail = {tail_get};

static bool CLAP_ABI has_hard_realtime_requirement(const clap_plugin_t *plugin)
{
    (void)plugin;
    return false;
}

static bool CLAP_ABI render_set(const clap_plugin_t *plugin, int32_t mode)
{
    if (mode != MORE_RENDER_REALTIME && mode != MORE_RENDER_OFFLINE) return false;
    core_set_offline(face_of(plugin)->core, mode == MORE_RENDER_OFFLINE);
    return true;
}

static const struct more_render render = {has_hard_realtime_requirement, render_set};

static float CLAP_ABI meter_get(const clap_plugin_t *plugin, const char *symbol)
{
    int control = control_find(symbol);
    bool has_it = control < N_CONTROLS && controls[control].flags & CONTROL_OUTPUT;
    return has_it ? core_get(face_of(plugin)->core, control) : -1;
}

static const struct clap_meters meters = {meter_get};

/* ---- state -------------------------------------------------------------------------------------- */

static bool CLAP_ABI face_save(const clap_plugin_t *plugin, const clap_ostream_t *stream)
{
    struct face *f = face_of(plugin);
    if (!stream || !face_is_on_main(f, "state.save")) return false;
    char *text = malloc(CORE_STATE_BYTES);
    bool good = text != NULL;
    size_t length = good ? core_save(f->core, text) : 0;
    for (size_t done = 0; done < length && good;) {
        int64_t n = stream->write(stream, text + done, length - done);
        good = n > 0 && (uint64_t)n <= length - done;
        done += good ? (size_t)n : 0;
    }
    free(text);
    return good;
}

static bool CLAP_ABI face_load(const clap_plugin_t *plugin, const clap_istream_t *stream)
{
    struct face *f = face_of(plugin);
    char why[256];
    size_t length = 0;
    if (!stream || !face_is_on_main(f, "state.load")) return false;
    char *text = malloc(CORE_STATE_BYTES);
    bool is_read = text != NULL;
    for (int64_t n = 1; is_read && n > 0 && length < CORE_STATE_BYTES;) {
        n = stream->read(stream, text + length, CORE_STATE_BYTES - length);
        is_read = n >= 0 && (uint64_t)n <= CORE_STATE_BYTES - length;
        length += is_read ? (size_t)n : 0;
    }
    bool good = is_read && core_restore(f->core, text, length, why, sizeof why);
    free(text);
    if (good)
        face_rescan(f);
    else if (is_read)
        face_report(f, HC_LIVE_ERROR, why);
    return good;
}

static const clap_plugin_state_t state = {face_save, face_load};

static const void *CLAP_ABI get_extension(const clap_plugin_t *plugin, const char *id)
{
    static const struct {
        const char *id;
        const void *extension;
    } all[] = {{CLAP_EXT_AUDIO_PORTS, &ports},
               {CLAP_EXT_PARAMS, &face_params},
               {CLAP_EXT_STATE, &state},
               {CLAP_EXT_LATENCY, &latency},
#ifdef HC_WITH_WINDOW
               {CLAP_EXT_GUI, &face_gui},
               {CLAP_EXT_TIMER_SUPPORT, &face_timer},
               {MORE_POSIX_FD, &face_posix_fd},
#endif
               {MORE_TAIL, &tail},
               {MORE_RENDER, &render},
               {CLAP_METERS, &meters},
               {MORE_PRESET_LOAD, &face_preset_load},
               {MORE_PRESET_LOAD_DRAFT, &face_preset_load}};
    (void)plugin;
    for (size_t i = 0; id && i < sizeof all / sizeof *all; i++)
        if (strcmp(id, all[i].id) == 0) return all[i].extension;
    return NULL;
}

/* ---- life --------------------------------------------------------------------------------------- */

static bool CLAP_ABI face_init(const clap_plugin_t *plugin)
{
    struct face *f = face_of(plugin);
    const clap_host_t *host = f->host;
    f->threads = host->get_extension(host, CLAP_EXT_THREAD_CHECK);
    f->params = host->get_extension(host, CLAP_EXT_PARAMS);
    f->log = host->get_extension(host, MORE_LOG);
    f->tail = host->get_extension(host, MORE_TAIL);
    f->presets = host->get_extension(host, MORE_PRESET_LOAD);
    if (!f->presets) f->presets = host->get_extension(host, MORE_PRESET_LOAD_DRAFT);
    return true;
}

static void CLAP_ABI face_deactivate(const clap_plugin_t *plugin)
{
    struct face *f = face_of(plugin);
    if (!f->is_active) return;
    face_is_on_main(f, "deactivate"); /* the call has no result, so that it is obeyed on any thread */
    core_deactivate(f->core);
    f->is_active = false;
}

static void CLAP_ABI face_destroy(const clap_plugin_t *plugin)
{
    struct face *f = face_of(plugin);
#ifdef HC_WITH_WINDOW
    f->params = NULL; /* the end of a drag asks for no flush */
    if (f->gui) face_close_gui(f);
#endif
    core_free(f->core);
    free(f->pieces);
    free(f);
}

static bool CLAP_ABI face_activate(const clap_plugin_t *plugin, double rate, uint32_t min_frames, uint32_t max_frames)
{
    struct face *f = face_of(plugin);
    char why[400];
    if (f->is_active || !face_is_on_main(f, "activate")) return false;
    if (!(rate >= 1 && rate <= 1 << 24) || min_frames > max_frames || max_frames < 1) return false;
    int block = max_frames < CORE_MAX_BLOCK ? (int)max_frames : CORE_MAX_BLOCK;
    if (!core_open(f->core, (int)lrint(rate), block, why, sizeof why)) {
        face_report(f, HC_LIVE_ERROR, why);
        return false;
    }
    core_activate(f->core);
    return f->is_active = true;
}

static bool CLAP_ABI start_processing(const clap_plugin_t *plugin)
{
    return face_of(plugin)->is_active;
}

static void CLAP_ABI stop_processing(const clap_plugin_t *plugin)
{
    (void)plugin;
}

static void CLAP_ABI reset(const clap_plugin_t *plugin)
{
    if (face_of(plugin)->is_active) core_reset(face_of(plugin)->core);
}

const clap_plugin_t *face_create(const clap_plugin_descriptor_t *descriptor, const struct variant *variant,
                                 const char *folder, const clap_host_t *host)
{
    struct face *f = calloc(1, sizeof *f);
    if (!f) return NULL;
    f->core = core_new(variant, folder, &(struct core_host){f, CORE_LOADER, face_report, changed});
    f->pieces = calloc((size_t)variant->n_in + (size_t)variant->n_out, sizeof *f->pieces);
    if (!f->core || !f->pieces) {
        core_free(f->core);
        free(f->pieces);
        free(f);
        return NULL;
    }
    f->host = host;
    f->plugin = (clap_plugin_t){.desc = descriptor,
                                .plugin_data = f,
                                .init = face_init,
                                .destroy = face_destroy,
                                .activate = face_activate,
                                .deactivate = face_deactivate,
                                .start_processing = start_processing,
                                .stop_processing = stop_processing,
                                .reset = reset,
                                .process = face_process,
                                .get_extension = get_extension,
                                .on_main_thread = on_main_thread};
    return &f->plugin;
}
