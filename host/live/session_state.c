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

/* A path as a text, or as an array of its bytes if it is not UTF-8: the mask has to be found again. NULL: "". */
static json_t *write_path(const char *path)
{
    if (!*path) return NULL;
    json_t *json = json_string(path);
    if (json) return json;
    json = json_array();
    for (const char *at = path; *at; at++) json_array_append_new(json, json_integer((unsigned char)*at));
    return json;
}

/* A path that is too long, or no path, leaves `path` as it is. */
static void read_path(const json_t *json, char *path, size_t cap)
{
    char bytes[4096];
    const char *text = json_is_array(json) ? bytes : json_string_value(json);
    size_t n = json_array_size(json);
    if (n >= sizeof bytes) return;
    for (size_t i = 0; i < n; i++) {
        json_int_t byte = json_integer_value(json_array_get(json, i));
        if (byte < 1 || byte > 255) return;
        bytes[i] = (char)byte;
    }
    bytes[n] = 0;
    if (text && strlen(text) < cap) memcpy(path, text, strlen(text) + 1);
}

json_t *session_state_json(const struct session_state *state)
{
    return json_pack("{s:o*, s:f, s:f, s:f, s:b}", "mask", write_path(state->mask), "wet", (double)state->wet, "dry",
                     (double)state->dry, "gain", (double)state->gain, "bypass", state->bypass);
}

static void read_gain(const json_t *json, const char *name, float *gain)
{
    const json_t *value = json_object_get(json, name);
    double number = json_number_value(value);
    if (json_is_number(value) && number >= 0 && number <= 1e6) *gain = (float)number;
}

void session_state_read(const json_t *json, struct session_state *state)
{
    const json_t *bypass = json_object_get(json, "bypass");
    read_path(json_object_get(json, "mask"), state->mask, sizeof state->mask);
    read_gain(json, "wet", &state->wet);
    read_gain(json, "dry", &state->dry);
    read_gain(json, "gain", &state->gain);
    if (json_is_boolean(bypass)) state->bypass = json_is_true(bypass);
}
