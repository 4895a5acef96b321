#include "session_state.h"

#include <string.h>

void session_state_take(struct session *session, struct session_state *state)
{
    hc_live *live = session_live(session);
    *state = (struct session_state){.wet = hc_live_get(live, HC_WET),
                                    .dry = hc_live_get(live, HC_DRY),
                                    .gain = hc_live_get(live, HC_GAIN),
                                    .bypass = hc_live_get(live, HC_BYPASS) != 0};
    hc_live_mask(live, state->mask, sizeof state->mask);
}

void session_state_settings(const struct session_state *state, struct session_settings *settings)
{
    settings->wet = state->wet;
    settings->dry = state->dry;
    settings->gain = state->gain;
    settings->bypass = state->bypass;
}

bool session_state_same(const struct session_state *a, const struct session_state *b)
{
    return strcmp(a->mask, b->mask) == 0 && a->wet == b->wet && a->dry == b->dry && a->gain == b->gain &&
           a->bypass == b->bypass;
}

json_t *session_state_json(const struct session_state *state)
{
    return json_pack("{s:s*, s:f, s:f, s:f, s:b}", "mask", *state->mask ? state->mask : NULL, "wet", (double)state->wet,
                     "dry", (double)state->dry, "gain", (double)state->gain, "bypass", state->bypass);
}

static void read_gain(const json_t *json, const char *name, float *gain)
{
    const json_t *value = json_object_get(json, name);
    double number = json_number_value(value);
    if (json_is_number(value) && number >= 0 && number <= 1e6) *gain = (float)number;
}

void session_state_read(const json_t *json, struct session_state *state)
{
    const char *mask = json_string_value(json_object_get(json, "mask"));
    const json_t *bypass = json_object_get(json, "bypass");
    if (mask && strlen(mask) < sizeof state->mask) strcpy(state->mask, mask);
    read_gain(json, "wet", &state->wet);
    read_gain(json, "dry", &state->dry);
    read_gain(json, "gain", &state->gain);
    if (json_is_boolean(bypass)) state->bypass = json_is_true(bypass);
}
