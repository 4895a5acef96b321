/* vst3_plugin - the life of an instance, its interfaces, its buses and its state. */
#include "haloconv_live.h"
#include "vst3_face.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_LOAD_MS = 1000 }; /* how long a state waits for a mask */

/* VST3 has no log of the host. */
void vst3_report(void *data, int level, const char *text)
{
    const struct vst3 *face = data;
    FILE *file = face->log[0] ? fopen(face->log, "a") : NULL;
    if (file || level != HC_LIVE_NOTE) fprintf(file ? file : stderr, "haloconv: %s\n", text);
    if (file) fclose(file);
}

/* ---- interfaces --------------------------------------------------------------------------------- */

v3_result vst3_query(struct vst3 *face, const v3_tuid iid, void **to)
{
    const struct {
        const v3_tuid *iid;
        void *interface;
    } own[] = {{&v3_funknown_iid, &face->component},         {&v3_plugin_base_iid, &face->component},
               {&v3_component_iid, &face->component},        {&v3_audio_processor_iid, &face->processor},
               {&v3_edit_controller_iid, &face->controller}, {&v3_process_context_requirements_iid, &face->needs}};
    if (!to) return V3_INVALID_ARG;
    *to = NULL;
    for (size_t i = 0; iid && i < sizeof own / sizeof *own; i++)
        if (v3_tuid_match(*own[i].iid, iid)) {
            vst3_ref(face);
            *to = own[i].interface;
            return V3_OK;
        }
    return V3_NO_INTERFACE;
}

uint32_t vst3_ref(struct vst3 *face)
{
    return atomic_fetch_add(&face->n_refs, 1) + 1;
}

uint32_t vst3_unref(struct vst3 *face)
{
    uint32_t left = atomic_fetch_sub(&face->n_refs, 1) - 1;
    if (left > 0) return left;
    core_free(face->core);
    free(face->pieces);
    free(face);
    return 0;
}

VST3_COUNTED(struct vst3, vst3, component)
VST3_COUNTED(struct vst3, vst3, processor)
VST3_COUNTED(struct vst3, vst3, needs)

/* ---- buses: one in, one out --------------------------------------------------------------------- */

static int n_channels(const struct vst3 *face, int32_t direction)
{
    const struct variant *v = core_variant(face->core);
    return direction == V3_INPUT ? v->n_in : v->n_out;
}

static bool is_bus(int32_t media, int32_t direction, int32_t index)
{
    return media == V3_AUDIO && (direction == V3_INPUT || direction == V3_OUTPUT) && index == 0;
}

/* The arrangement of a new instance. Hosts may choose any other of as many speakers, for a mask knows none. 0: VST3 has
 * no arrangement that all hosts know, and they go by the number of channels. */
static v3_speaker_arrangement usual_speakers(int n)
{
    const v3_speaker_arrangement quadro = V3_SPEAKER_L | V3_SPEAKER_R | V3_SPEAKER_LS | V3_SPEAKER_RS;
    const v3_speaker_arrangement third_order_ambisonics = (UINT64_C(0xfff) << 38) | (0xf << 20);
    switch (n) {
    case 1:
        return V3_SPEAKER_M;
    case 2:
        return V3_SPEAKER_L | V3_SPEAKER_R;
    case 4:
        return quadro;
    case 8:
        return quadro | V3_SPEAKER_C | V3_SPEAKER_LFE | V3_SPEAKER_SL | V3_SPEAKER_SR;
    case 16:
        return third_order_ambisonics;
    default:
        return 0;
    }
}

static int32_t V3_API bus_count(void *self, int32_t media, int32_t direction)
{
    (void)self;
    return is_bus(media, direction, 0);
}

static v3_result V3_API bus_info(void *self, int32_t media, int32_t direction, int32_t index, struct v3_bus_info *info)
{
    if (!is_bus(media, direction, index) || !info) return V3_INVALID_ARG;
    *info = (struct v3_bus_info){.media_type = V3_AUDIO,
                                 .direction = direction,
                                 .channel_count = n_channels(VST3_OF(self, component), direction),
                                 .bus_type = V3_MAIN,
                                 .flags = V3_DEFAULT_ACTIVE};
    vst3_text(direction == V3_INPUT ? "In" : "Out", info->bus_name, 128);
    return V3_OK;
}

static v3_result V3_API routing_info(void *self, struct v3_routing_info *in, struct v3_routing_info *out)
{
    (void)self, (void)in, (void)out;
    return V3_NOT_IMPLEMENTED;
}

static v3_result V3_API activate_bus(void *self, int32_t media, int32_t direction, int32_t index, v3_bool is_on)
{
    (void)self, (void)is_on;
    return is_bus(media, direction, index) ? V3_OK : V3_INVALID_ARG;
}

static v3_result V3_API set_speakers(void *self, v3_speaker_arrangement *in, int32_t n_in, v3_speaker_arrangement *out,
                                     int32_t n_out)
{
    struct vst3 *face = VST3_OF(self, processor);
    if (atomic_load(&face->is_active) || n_in != 1 || n_out != 1 || !in || !out) return V3_FALSE;
    if (__builtin_popcountll(*in) != n_channels(face, V3_INPUT)) return V3_FALSE;
    if (__builtin_popcountll(*out) != n_channels(face, V3_OUTPUT)) return V3_FALSE;
    face->speakers[V3_INPUT] = *in;
    face->speakers[V3_OUTPUT] = *out;
    return V3_TRUE;
}

static v3_result V3_API get_speakers(void *self, int32_t direction, int32_t index, v3_speaker_arrangement *to)
{
    if (!is_bus(V3_AUDIO, direction, index) || !to) return V3_INVALID_ARG;
    *to = VST3_OF(self, processor)->speakers[direction];
    return *to ? V3_OK : V3_FALSE;
}

/* ---- life --------------------------------------------------------------------------------------- */

static v3_result V3_API component_initialize(void *self, struct v3_funknown **context)
{
    (void)self, (void)context;
    return V3_OK;
}

static v3_result V3_API set_active(void *self, v3_bool is_on)
{
    struct vst3 *face = VST3_OF(self, component);
    const struct v3_process_setup *s = &face->setup;
    char why[400];
    if (!is_on == !atomic_load(&face->is_active)) return V3_OK;
    if (!is_on) {
        atomic_store(&face->is_active, false);
        core_deactivate(face->core);
        return V3_OK;
    }
    if (s->max_block_size < 1) return V3_NOT_INITIALIZED; /* before setup_processing */
    int block = s->max_block_size < CORE_MAX_BLOCK ? s->max_block_size : CORE_MAX_BLOCK;
    if (!core_open(face->core, (int)lrint(s->sample_rate), block, why, sizeof why)) {
        vst3_report(face, HC_LIVE_ERROR, why);
        return V3_INTERNAL_ERR;
    }
    core_set_offline(face->core, s->process_mode == V3_OFFLINE);
    core_activate(face->core);
    atomic_store(&face->is_active, true);
    return V3_OK;
}

static v3_result V3_API component_terminate(void *self)
{
    vst3_controller.set_component_handler(&VST3_OF(self, component)->controller, NULL); /* the host's objects end */
    return set_active(self, false);
}

/* The host queries the controller from the component. */
static v3_result V3_API controller_class(void *self, v3_tuid id)
{
    (void)self, (void)id;
    return V3_NOT_IMPLEMENTED;
}

static v3_result V3_API set_io_mode(void *self, int32_t mode)
{
    (void)self, (void)mode;
    return V3_NOT_IMPLEMENTED;
}

/* ---- state -------------------------------------------------------------------------------------- */

static v3_result V3_API set_state(void *self, struct v3_bstream **stream)
{
    struct vst3 *face = VST3_OF(self, component);
    char why[256];
    size_t length = 0;
    if (!stream) return V3_INVALID_ARG;
    char *text = malloc(CORE_STATE_BYTES);
    bool is_read = text != NULL;
    for (int32_t n = 1; is_read && n > 0 && length < CORE_STATE_BYTES;) {
        int32_t left = (int32_t)(CORE_STATE_BYTES - length);
        n = 0;
        v3_result result = (*stream)->read(stream, text + length, left, &n);
        is_read = n >= 0 && n <= left;
        length += is_read ? (size_t)n : 0;
        if (result != V3_OK) break; /* some hosts report the end so, also with the last bytes */
    }
    bool good = is_read && core_restore(face->core, text, length, why, sizeof why);
    free(text);
    if (!is_read) return V3_INTERNAL_ERR;
    if (!good) {
        vst3_report(face, HC_LIVE_ERROR, why);
        return V3_FALSE;
    }
    face->preset = 0;
    face->chosen = 0;
    vst3_show(face);
    return V3_OK;
}

/* A state has a mask once it is loaded, but the gains of its preset at once: it waits for the mask. */
static v3_result V3_API get_state(void *self, struct v3_bstream **stream)
{
    const struct vst3 *face = VST3_OF(self, component);
    if (!stream) return V3_INVALID_ARG;
    char *text = malloc(CORE_STATE_BYTES);
    if (!text) return V3_INTERNAL_ERR;
    bool good = true;
    for (int ms = 0; ms < MAX_LOAD_MS && vst3_is_loading(face); ms++) nanosleep(&(struct timespec){0, 1000000}, NULL);
    int32_t length = (int32_t)core_save(face->core, text);
    for (int32_t done = 0, n = 0; done < length && good; done += n) {
        v3_result result = (*stream)->write(stream, text + done, length - done, &n);
        good = result == V3_OK && n > 0 && n <= length - done;
    }
    free(text);
    return good ? V3_OK : V3_INTERNAL_ERR;
}

static const struct v3_component component = {VST3_CALLS(component),
                                              .initialize = component_initialize,
                                              .terminate = component_terminate,
                                              .get_controller_class_id = controller_class,
                                              .set_io_mode = set_io_mode,
                                              .get_bus_count = bus_count,
                                              .get_bus_info = bus_info,
                                              .get_routing_info = routing_info,
                                              .activate_bus = activate_bus,
                                              .set_active = set_active,
                                              .set_state = set_state,
                                              .get_state = get_state};

/* ---- processor ---------------------------------------------------------------------------------- */

static v3_result V3_API can_process(void *self, int32_t size)
{
    (void)self;
    return size == V3_SAMPLE_32 || size == V3_SAMPLE_64 ? V3_TRUE : V3_FALSE;
}

static uint32_t V3_API latency(void *self)
{
    (void)self;
    return 0;
}

static uint32_t V3_API tail(void *self)
{
    return core_tail(VST3_OF(self, processor)->core);
}

static v3_result V3_API setup_processing(void *self, struct v3_process_setup *setup)
{
    struct vst3 *face = VST3_OF(self, processor);
    if (!setup || atomic_load(&face->is_active)) return V3_FALSE;
    bool is_rate = setup->sample_rate >= 1 && setup->sample_rate <= 1 << 24;
    if (!is_rate || setup->max_block_size < 1 || can_process(self, setup->symbolic_sample_size) != V3_TRUE)
        return V3_INVALID_ARG;
    face->setup = *setup;
    return V3_OK;
}

/* VST3's reset: a host stops and starts the processing. */
static v3_result V3_API set_processing(void *self, v3_bool is_on)
{
    struct vst3 *face = VST3_OF(self, processor);
    if (!atomic_load(&face->is_active)) return is_on ? V3_NOT_INITIALIZED : V3_OK;
    if (is_on) core_reset(face->core);
    return V3_OK;
}

static const struct v3_audio_processor processor = {VST3_CALLS(processor),
                                                    .set_bus_arrangements = set_speakers,
                                                    .get_bus_arrangement = get_speakers,
                                                    .can_process_sample_size = can_process,
                                                    .get_latency_samples = latency,
                                                    .setup_processing = setup_processing,
                                                    .set_processing = set_processing,
                                                    .process = vst3_process,
                                                    .get_tail_samples = tail};

/* Nothing of the host's transport. */
static uint32_t V3_API no_needs(void *self)
{
    (void)self;
    return 0;
}

static const struct v3_process_context_requirements needs = {VST3_CALLS(needs),
                                                             .get_process_context_requirements = no_needs};

struct vst3 *vst3_create(const struct variant *variant, const char *folder)
{
    struct vst3 *face = calloc(1, sizeof *face);
    if (!face) return NULL;
    face->core = core_new(variant, folder, &(struct core_host){face, CORE_LOADER, vst3_report, NULL});
    face->pieces = calloc((size_t)variant->n_in + (size_t)variant->n_out, sizeof *face->pieces);
    if (!face->core || !face->pieces) {
        core_free(face->core);
        free(face->pieces);
        free(face);
        return NULL;
    }
    const char *log = getenv("HALOCONV_LOG");
    if (log) snprintf(face->log, sizeof face->log, "%s", log);
    face->component = &component;
    face->processor = &processor;
    face->controller = &vst3_controller;
    face->needs = &needs;
    face->n_refs = 1;
    face->speakers[V3_INPUT] = usual_speakers(variant->n_in);
    face->speakers[V3_OUTPUT] = usual_speakers(variant->n_out);
    vst3_show(face);
    return face;
}
