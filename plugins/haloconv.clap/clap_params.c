/* clap_params - the controls as CLAP's parameters. Their ids are control_id. "Enabled" is there the bypass
 * (control_swap_bypass).
 */
#include "face.h"

#include <stdio.h>
#include <string.h>

static int params_find(const struct face *face, clap_id id)
{
    int control = control_with_id(id);
    return control < N_CONTROLS && variant_has_setting(core_variant(face->core), control) ? control : N_CONTROLS;
}

static uint32_t CLAP_ABI params_count(const clap_plugin_t *plugin)
{
    uint32_t n = 0;
    for (int c = 0; c < N_CONTROLS; c++) n += variant_has_setting(core_variant(face_of(plugin)->core), c);
    return n;
}

static bool CLAP_ABI params_get_info(const clap_plugin_t *plugin, uint32_t index, clap_param_info_t *info)
{
    const struct variant *variant = core_variant(face_of(plugin)->core);
    int control = 0;
    while (control < N_CONTROLS && (!variant_has_setting(variant, control) || index-- > 0)) control++;
    if (control == N_CONTROLS) return false;
    const struct control_spec *c = &controls[control];
    bool is_stepped = c->kind >= CONTROL_INTEGER, is_expensive = c->flags & CONTROL_EXPENSIVE;
    memset(info, 0, sizeof *info);
    info->id = control_id(control);
    info->flags = (is_expensive ? 0 : CLAP_PARAM_IS_AUTOMATABLE) | (is_stepped ? CLAP_PARAM_IS_STEPPED : 0) |
                  (is_stepped || is_expensive ? 0 : CLAP_PARAM_IS_MODULATABLE) |
                  (c->kind == CONTROL_CHOICE ? MORE_PARAM_IS_ENUM : 0) |
                  (control == ENABLED ? CLAP_PARAM_IS_BYPASS : 0);
    snprintf(info->name, sizeof info->name, "%s", control == ENABLED ? "Bypass" : c->name);
    info->min_value = (double)c->min;
    info->max_value = (double)c->max;
    info->default_value = control_swap_bypass(control, (double)c->initial);
    return true;
}

static bool CLAP_ABI params_get_value(const clap_plugin_t *plugin, clap_id id, double *value)
{
    int control = params_find(face_of(plugin), id);
    if (control == N_CONTROLS) return false;
    *value = control_swap_bypass(control, (double)core_get(face_of(plugin)->core, control));
    return true;
}

static bool CLAP_ABI value_to_text(const clap_plugin_t *plugin, clap_id id, double value, char *text, uint32_t cap)
{
    int control = params_find(face_of(plugin), id);
    if (control == N_CONTROLS || cap == 0) return false;
    control_text(control, value, text, cap); /* "On" is a bypass */
    return true;
}

static bool CLAP_ABI text_to_value(const clap_plugin_t *plugin, clap_id id, const char *text, double *value)
{
    int control = params_find(face_of(plugin), id);
    return control < N_CONTROLS && control_read(control, text, value);
}

void face_apply_event(struct face *face, const clap_event_header_t *event)
{
    if (!event || event->space_id != CLAP_CORE_EVENT_SPACE_ID) return;
    if (event->type == CLAP_EVENT_PARAM_VALUE && event->size >= sizeof(clap_event_param_value_t)) {
        const clap_event_param_value_t *e = (const clap_event_param_value_t *)(const void *)event;
        int control = params_find(face, e->param_id);
        if (control < N_CONTROLS) core_set(face->core, control, control_swap_bypass(control, e->value));
    } else if (event->type == CLAP_EVENT_PARAM_MOD && event->size >= sizeof(clap_event_param_mod_t)) {
        const clap_event_param_mod_t *e = (const clap_event_param_mod_t *)(const void *)event;
        int control = params_find(face, e->param_id);
        if (control < N_CONTROLS && controls[control].kind < CONTROL_INTEGER &&
            !(controls[control].flags & CONTROL_EXPENSIVE))
            core_modulate(face->core, control, e->amount);
    }
}

/* A gesture that begins before the host knows the end of the former one goes on with it. */
static unsigned gestures_joined(unsigned earlier, unsigned later)
{
    bool goes_on = earlier & GESTURE_END && later & GESTURE_BEGIN;
    return goes_on ? (earlier & ~(unsigned)GESTURE_END) | (later & ~(unsigned)GESTURE_BEGIN) : earlier | later;
}

void face_gesture(struct face *f, int control, enum gesture gesture)
{
    unsigned was = atomic_load(&f->gestures[control]);
    while (!atomic_compare_exchange_weak(&f->gestures[control], &was, gestures_joined(was, gesture))) continue;
    if (f->params && f->params->request_flush) f->params->request_flush(f->host);
}

void face_set_from_window(struct face *f, int control, double value)
{
    core_set(f->core, control, value);
    atomic_store(&f->window_values[control], control_limit(control, value));
    face_gesture(f, control, GESTURE_VALUE);
}

void face_rescan(struct face *f)
{
    for (int c = 0; c < N_CONTROLS; c++) atomic_store(&f->window_values[c], core_get(f->core, c));
    if (f->params) f->params->rescan(f->host, CLAP_PARAM_RESCAN_VALUES);
}

static bool send_gesture(const clap_output_events_t *out, int control, uint16_t type)
{
    clap_event_param_gesture_t e = {.header = {sizeof e, 0, CLAP_CORE_EVENT_SPACE_ID, type, 0},
                                    .param_id = control_id(control)};
    return out->try_push(out, &e.header);
}

/* The host's automation may have set another value since: the last one that the host gets holds. */
static bool send_value(struct face *f, const clap_output_events_t *out, int control)
{
    const double value = (double)atomic_load(&f->window_values[control]);
    core_set(f->core, control, value);
    clap_event_param_value_t e = {.header = {sizeof e, 0, CLAP_CORE_EVENT_SPACE_ID, CLAP_EVENT_PARAM_VALUE, 0},
                                  .param_id = control_id(control),
                                  .note_id = -1,
                                  .port_index = -1,
                                  .channel = -1,
                                  .key = -1,
                                  .value = control_swap_bypass(control, value)};
    return out->try_push(out, &e.header);
}

/* Returns the gestures that a full list does not get. */
static unsigned send(struct face *f, const clap_output_events_t *out, int control, unsigned gestures)
{
    if (gestures & GESTURE_BEGIN && !send_gesture(out, control, CLAP_EVENT_PARAM_GESTURE_BEGIN)) return gestures;
    gestures &= ~(unsigned)GESTURE_BEGIN;
    if (gestures & GESTURE_VALUE && !send_value(f, out, control)) return gestures;
    gestures &= ~(unsigned)GESTURE_VALUE;
    return gestures && !send_gesture(out, control, CLAP_EVENT_PARAM_GESTURE_END) ? gestures : 0;
}

void face_send_gestures(struct face *f, const clap_output_events_t *out)
{
    for (int c = 0; out && c < N_CONTROLS; c++) {
        if (!atomic_load(&f->gestures[c])) continue;
        unsigned left = send(f, out, c, atomic_exchange(&f->gestures[c], 0)), since = 0;
        while (left && !atomic_compare_exchange_weak(&f->gestures[c], &since, gestures_joined(left, since))) continue;
    }
}

static void CLAP_ABI flush(const clap_plugin_t *plugin, const clap_input_events_t *in, const clap_output_events_t *out)
{
    face_send_gestures(face_of(plugin), out);
    uint32_t n = in ? in->size(in) : 0;
    for (uint32_t i = 0; i < n; i++) face_apply_event(face_of(plugin), in->get(in, i));
}

const clap_plugin_params_t face_params = {params_count,  params_get_info, params_get_value,
                                          value_to_text, text_to_value,   flush};
