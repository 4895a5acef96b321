/* vst3_params - the controls as VST3's parameters, from 0 to 1. Their ids are control_id. "Enabled" is there the
 * bypass, which hosts know: its value is 1 while the control is 0.
 */
#include "vst3_face.h"

#include <math.h>
#include <string.h>

/* ---- values ------------------------------------------------------------------------------------- */

bool vst3_is_meter(int control)
{
    return controls[control].flags & CONTROL_OUTPUT && !(controls[control].flags & CONTROL_HIDDEN);
}

/* A meter has none: a host would list 1e9 values. */
static int n_steps(int control)
{
    const struct control_spec *c = &controls[control];
    return c->kind >= CONTROL_INTEGER && !vst3_is_meter(control) ? (int)(c->max - c->min) : 0;
}

static double to_plain(int control, double x)
{
    const struct control_spec *c = &controls[control];
    double min = (double)c->min, max = (double)c->max, n = n_steps(control);
    x = x >= 0 ? fmin(x, 1) : 0; /* NaN too */
    if (n > 0) return min + fmin(floor(x * (n + 1)), n);
    return c->kind == CONTROL_LOGARITHMIC ? min * pow(max / min, x) : min + x * (max - min);
}

static double from_plain(int control, double plain)
{
    const struct control_spec *c = &controls[control];
    double min = (double)c->min, max = (double)c->max, x = (double)control_limit(control, plain);
    return c->kind == CONTROL_LOGARITHMIC ? log(x / min) / log(max / min) : (x - min) / (max - min);
}

double vst3_from_normalised(int control, double normalised)
{
    return control_swap_bypass(control, to_plain(control, normalised));
}

double vst3_to_normalised(int control, double value)
{
    return from_plain(control, control_swap_bypass(control, value));
}

/* Is the control a parameter: one that users set, or a meter? */
static bool is_param(const struct vst3 *face, int control)
{
    return variant_has(core_variant(face->core), control) && !(controls[control].flags & CONTROL_HIDDEN);
}

int vst3_find(const struct vst3 *face, v3_param_id id)
{
    int control = control_with_id(id);
    return control < N_CONTROLS && is_param(face, control) ? control : N_CONTROLS;
}

void vst3_show(struct vst3 *face)
{
    for (int c = 0; c < N_CONTROLS; c++) atomic_store(&face->shown[c], (double)core_get(face->core, c));
}

void vst3_notify_of_values(struct vst3 *face)
{
    struct v3_component_handler **host = face->handler;
    if (host) (*host)->restart_component(host, V3_RESTART_PARAM_VALUES_CHANGED);
}

/* ---- texts -------------------------------------------------------------------------------------- */

/* Ours have no character above U+07FF. */
void vst3_text(const char *text, int16_t *to, size_t cap)
{
    size_t n = 0;
    for (const unsigned char *at = (const unsigned char *)text; *at && n + 1 < cap; at++)
        to[n++] = (int16_t)(*at >= 0xc0 && at[1] ? (at++, (at[-1] & 0x1f) << 6 | (*at & 0x3f)) : *at);
    to[n] = 0;
}

/* A character above U+07FF becomes '?': no value has one. */
static void from_utf16(const int16_t *text, char *to, size_t cap)
{
    size_t n = 0;
    for (; *text && n + 2 < cap; text++) {
        unsigned c = (uint16_t)*text;
        if (c >= 0x80 && c < 0x800) to[n++] = (char)(0xc0 | c >> 6);
        to[n++] = (char)(c < 0x80 ? c : c < 0x800 ? 0x80 | (c & 0x3f) : '?');
    }
    to[n] = '\0';
}

/* ---- the controller ----------------------------------------------------------------------------- */

static struct vst3 *of(void *self)
{
    return VST3_OF(self, controller);
}

VST3_COUNTED(struct vst3, vst3, controller)

static v3_result V3_API controller_initialize(void *self, struct v3_funknown **context)
{
    (void)self, (void)context;
    return V3_OK;
}

static v3_result V3_API controller_terminate(void *self)
{
    (void)self;
    return V3_OK;
}

static bool controller_is_preset(const struct vst3 *face, v3_param_id id)
{
    return id == VST3_PRESET && vst3_n_presets(face) > 0;
}

static double preset_share(const struct vst3 *face, double choice)
{
    double n = vst3_n_presets(face);
    return choice >= 0 ? fmin(choice, n) / n : 0; /* NaN too */
}

/* The component's set_state has set the controls; the controller has no separate state. */
static v3_result V3_API set_component_state(void *self, struct v3_bstream **stream)
{
    (void)self, (void)stream;
    return V3_OK;
}

static v3_result V3_API no_state(void *self, struct v3_bstream **stream)
{
    (void)self, (void)stream;
    return V3_NOT_IMPLEMENTED;
}

static int32_t V3_API controller_count(void *self)
{
    const struct vst3 *face = of(self);
    int32_t n = 0;
    for (int c = 0; c < N_CONTROLS; c++) n += is_param(face, c);
    return n + controller_is_preset(face, VST3_PRESET);
}

/* Returns the control of parameter `index`, from 0; N_CONTROLS: it is Preset, the last one. */
static int param_at(const struct vst3 *face, int32_t index)
{
    int control = 0;
    while (control < N_CONTROLS && (!is_param(face, control) || index-- > 0)) control++;
    return control;
}

static v3_result V3_API controller_get_info(void *self, int32_t index, struct v3_param_info *info)
{
    const struct vst3 *face = of(self);
    if (index < 0 || index >= controller_count(self) || !info) return V3_INVALID_ARG;
    int control = param_at(face, index);
    if (control == N_CONTROLS) {
        *info = (struct v3_param_info){.param_id = VST3_PRESET,
                                       .step_count = vst3_n_presets(face),
                                       .default_normalised_value = preset_share(face, vst3_preset_default(face)),
                                       .flags = V3_PARAM_IS_LIST};
        vst3_text("Preset", info->title, 128);
        vst3_text("Preset", info->short_title, 128);
        return V3_OK;
    }
    const struct control_spec *c = &controls[control];
    const char *name = control == ENABLED ? "Bypass" : c->name;
    *info = (struct v3_param_info){.param_id = control_id(control),
                                   .step_count = n_steps(control),
                                   .default_normalised_value = vst3_to_normalised(control, (double)c->initial),
                                   .flags = (vst3_is_meter(control)         ? V3_PARAM_READ_ONLY
                                             : c->flags & CONTROL_EXPENSIVE ? 0
                                                                            : V3_PARAM_CAN_AUTOMATE) |
                                            (c->kind == CONTROL_CHOICE ? V3_PARAM_IS_LIST : 0) |
                                            (control == ENABLED ? V3_PARAM_IS_BYPASS : 0)};
    vst3_text(name, info->title, 128);
    vst3_text(name, info->short_title, 128);
    vst3_text(control_unit(control), info->units, 128);
    return V3_OK;
}

/* The host writes the unit behind it. */
static v3_result V3_API get_text(void *self, v3_param_id id, double normalised, v3_str_128 to)
{
    const struct vst3 *face = of(self);
    char text[64];
    int control = vst3_find(face, id);
    if (controller_is_preset(face, id) && to)
        return vst3_text(vst3_preset_text(face, vst3_preset_choice(face, normalised)), to, 128), V3_OK;
    if (control == N_CONTROLS || !to) return V3_INVALID_ARG;
    control_text(control, to_plain(control, normalised), text, sizeof text);
    const char *unit = control_unit(control);
    size_t length = strlen(text), n = strlen(unit);
    if (n > 0 && length > n && strcmp(text + length - n, unit) == 0) /* "Off" has none */
        text[length - n - (text[length - n - 1] == ' ')] = '\0';
    vst3_text(text, to, 128);
    return V3_OK;
}

static v3_result V3_API controller_read_text(void *self, v3_param_id id, int16_t *input, double *normalised)
{
    const struct vst3 *face = of(self);
    char text[128];
    double plain;
    int control = vst3_find(face, id);
    bool is_list = controller_is_preset(face, id);
    if ((control == N_CONTROLS && !is_list) || !input || !normalised) return V3_INVALID_ARG;
    from_utf16(input, text, sizeof text);
    if (is_list) {
        int choice = vst3_preset_read(face, text);
        if (choice >= 0) *normalised = preset_share(face, choice);
        return choice >= 0 ? V3_OK : V3_FALSE;
    }
    if (!control_read(control, text, &plain)) return V3_FALSE;
    *normalised = from_plain(control, plain);
    return V3_OK;
}

static double V3_API normalised_to_plain(void *self, v3_param_id id, double normalised)
{
    const struct vst3 *face = of(self);
    int control = vst3_find(face, id);
    if (controller_is_preset(face, id)) return vst3_preset_choice(face, normalised);
    return control < N_CONTROLS ? to_plain(control, normalised) : 0;
}

static double V3_API plain_to_normalised(void *self, v3_param_id id, double plain)
{
    const struct vst3 *face = of(self);
    int control = vst3_find(face, id);
    if (controller_is_preset(face, id)) return preset_share(face, plain);
    return control < N_CONTROLS ? from_plain(control, plain) : 0;
}

static double V3_API controller_get_value(void *self, v3_param_id id)
{
    const struct vst3 *face = of(self);
    int control = vst3_find(face, id);
    if (controller_is_preset(face, id)) return preset_share(face, vst3_preset_now(face));
    if (control == N_CONTROLS) return 0;
    return vst3_to_normalised(control, vst3_is_meter(control) ? (double)core_get(face->core, control)
                                                              : atomic_load(&face->shown[control]));
}

/* While active, the core gets the value by the next block's queue. Hosts also return the meters, which the core has. */
static v3_result V3_API set_value(void *self, v3_param_id id, double normalised)
{
    struct vst3 *face = of(self);
    int control = vst3_find(face, id);
    if (controller_is_preset(face, id)) return vst3_preset_load(face, vst3_preset_choice(face, normalised)), V3_OK;
    if (control == N_CONTROLS) return V3_INVALID_ARG;
    if (vst3_is_meter(control)) return V3_OK;
    const double value = vst3_from_normalised(control, normalised);
    const bool is_new = atomic_exchange(&face->shown[control], value) != value;
    if (!atomic_load(&face->is_active)) core_set(face->core, control, value);
    if (control == A_B && is_new) vst3_notify_of_values(face); /* Preset is that of the side */
    return V3_OK;
}

static v3_result V3_API set_handler(void *self, struct v3_component_handler **handler)
{
    struct vst3 *face = of(self);
    if (handler) (*handler)->ref(handler);
    if (face->handler) (*face->handler)->unref(face->handler);
    face->handler = handler;
    return V3_OK;
}

static struct v3_plugin_view **V3_API create_view(void *self, const char *name)
{
#ifdef HC_WITH_WINDOW
    if (name && strcmp(name, "editor") == 0) return vst3_view_create(of(self));
#endif
    (void)self, (void)name;
    return NULL;
}

const struct v3_edit_controller vst3_controller = {VST3_CALLS(controller),
                                                   .initialize = controller_initialize,
                                                   .terminate = controller_terminate,
                                                   .set_component_state = set_component_state,
                                                   .set_state = no_state,
                                                   .get_state = no_state,
                                                   .get_parameter_count = controller_count,
                                                   .get_parameter_info = controller_get_info,
                                                   .get_parameter_string_for_value = get_text,
                                                   .get_parameter_value_for_string = controller_read_text,
                                                   .normalised_parameter_to_plain = normalised_to_plain,
                                                   .plain_parameter_to_normalised = plain_to_normalised,
                                                   .get_parameter_normalised = controller_get_value,
                                                   .set_parameter_normalised = set_value,
                                                   .set_component_handler = set_handler,
                                                   .create_view = create_view};
