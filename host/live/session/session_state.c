#include "session_state.h"

#include <math.h>
#include <string.h>

void session_state_record(struct session *session, struct session_state *state)
{
    hc_live *live = session_live(session);
    *state = (struct session_state){.wet = session_get(session, HC_WET),
                                    .dry = session_get(session, HC_DRY),
                                    .gain = session_get(session, HC_GAIN),
                                    .bypass = session_get(session, HC_BYPASS) != 0};
    hc_live_mask(live, state->mask, sizeof state->mask);
    if (session_scene(session)) live_scene_record(session_scene(session), &state->scene);
}

void session_state_settings(const struct session_state *state, struct session_settings *settings)
{
    settings->wet = state->wet;
    settings->dry = state->dry;
    settings->gain = state->gain;
    settings->bypass = state->bypass;
    if (state->scene.n_positions == 0) return;
    settings->scene = &state->scene;
    settings->live.n_sources = state->scene.n_positions;
}

bool session_state_same(const struct session_state *a, const struct session_state *b)
{
    return strcmp(a->mask, b->mask) == 0 && a->wet == b->wet && a->dry == b->dry && a->gain == b->gain &&
           a->bypass == b->bypass && live_scene_same(&a->scene, &b->scene);
}

json_t *session_state_path_json(const char *path)
{
    if (!*path) return NULL;
    json_t *json = json_string(path);
    if (json) return json;
    json = json_array();
    for (const char *at = path; *at; at++) json_array_append_new(json, json_integer((unsigned char)*at));
    return json;
}

bool session_state_read_path(const json_t *json, char *path, size_t cap)
{
    char bytes[4096];
    const char *text = json_is_array(json) ? bytes : json_string_value(json);
    size_t n = json_array_size(json);
    if (!json || json_is_null(json)) return true;
    if (n >= sizeof bytes) return false;
    for (size_t i = 0; i < n; i++) {
        json_int_t byte = json_integer_value(json_array_get(json, i));
        if (byte < 1 || byte > 255) return false;
        bytes[i] = (char)byte;
    }
    bytes[n] = 0;
    if (!text || strlen(text) >= cap) return false;
    memcpy(path, text, strlen(text) + 1);
    return true;
}

/* Writes a scene. A source is [azimuth, elevation, distance, gain, entry, muted]; gain in dB, or null. NULL: no
 * sources. */
static json_t *write_scene(const struct live_scene_settings *scene)
{
    const double *at = scene->listener_at;
    const struct quaternion *front = &scene->front;
    if (scene->n_positions == 0) return NULL;
    json_t *sources = json_array();
    for (int i = 0; i < scene->n_positions; i++) {
        const struct live_scene_position *p = &scene->positions[i];
        json_t *gain = isfinite(p->gain_db) ? json_real(p->gain_db) : json_null();
        json_array_append_new(
            sources, json_pack("[f, f, f, o, i, b]", p->aed[0], p->aed[1], p->aed[2], gain, p->entry, p->is_muted));
    }
    return json_pack("{s:o, s:[f, f], s:[f, f, f], s:[f, f, f, f]}", "sources", sources, "distance_gain",
                     scene->reference, scene->min_m, "listener", at[0], at[1], at[2], "front", front->w, front->x,
                     front->y, front->z);
}

/* Reads n numbers from -max to max, as floats: nine digits in a file are enough for these. */
static bool session_read_numbers(const json_t *json, size_t n, double max, double *numbers)
{
    for (size_t i = 0; i < n; i++) {
        const json_t *number = json_array_get(json, i);
        numbers[i] = (double)(float)json_number_value(number);
        if (!json_is_number(number) || !(fabs(numbers[i]) <= max)) return false;
    }
    return true;
}

/* A configuration may have distances of up to 1e6 m. */
static bool session_read_position(const json_t *json, struct live_scene_position *p)
{
    const json_t *gain = json_array_get(json, 3), *entry = json_array_get(json, 4);
    bool good = session_read_numbers(json, 3, 2e6, p->aed) && fabs(p->aed[0]) <= 360 && fabs(p->aed[1]) <= 90 &&
                p->aed[2] >= 0 && (json_is_number(gain) || json_is_null(gain)) && json_is_integer(entry);
    p->gain_db = json_is_null(gain) ? -INFINITY : (double)(float)json_number_value(gain);
    p->entry = (int)json_integer_value(entry);
    p->is_muted = json_is_true(json_array_get(json, 5)); /* absent in sessions of earlier versions */
    return good && p->gain_db <= LIVE_SCENE_MAX_DB && json_integer_value(entry) >= -1 &&
           json_integer_value(entry) < 1 << 30;
}

/* Reads all of a scene, or nothing. false: it is wrong. */
static bool read_scene(const json_t *json, struct live_scene_settings *scene)
{
    const json_t *sources = json_object_get(json, "sources");
    double front[4], gain[2], at[3];
    size_t n = json_array_size(sources);
    bool good = n > 0 && n <= LIVE_SCENE_MAX_SOURCES &&
                session_read_numbers(json_object_get(json, "distance_gain"), 2, LIVE_SCENE_MAX_METRES, gain) &&
                gain[0] >= 0 && gain[1] >= 0 && (gain[0] == 0 || gain[1] > 0) &&
                session_read_numbers(json_object_get(json, "listener"), 3, LIVE_SCENE_MAX_METRES, at) &&
                session_read_numbers(json_object_get(json, "front"), 4, 1, front);
    struct live_scene_position p;
    for (size_t i = 0; i < n && good; i++) good = session_read_position(json_array_get(sources, i), &p);
    if (!good) return !json || json_is_null(json);
    *scene = (struct live_scene_settings){
        .n_positions = (int)n, .reference = gain[0], .min_m = gain[1], .is_restored = true};
    for (int i = 0; i < (int)n; i++) {
        session_read_position(json_array_get(sources, (size_t)i), &scene->positions[i]);
        scene->positions[i].source = i;
    }
    memcpy(scene->listener_at, at, sizeof at);
    scene->front = (struct quaternion){front[0], front[1], front[2], front[3]};
    return true;
}

json_t *session_state_json(const struct session_state *state)
{
    return json_pack("{s:o*, s:f, s:f, s:f, s:b, s:o*}", "mask", session_state_path_json(state->mask), "wet",
                     (double)state->wet, "dry", (double)state->dry, "gain", (double)state->gain, "bypass",
                     state->bypass, "scene", write_scene(&state->scene));
}

static bool session_read_gain(const json_t *json, const char *name, float *gain)
{
    const json_t *value = json_object_get(json, name);
    double number = json_number_value(value);
    bool good = json_is_number(value) && number >= 0 && number <= 1e6;
    if (good) *gain = (float)number;
    return good || !value;
}

const char *session_state_read(const json_t *json, struct session_state *state)
{
    const json_t *bypass = json_object_get(json, "bypass");
    const char *wrong = json_is_object(json) ? NULL : "is not an object of JSON";
    if (!session_state_read_path(json_object_get(json, "mask"), state->mask, sizeof state->mask))
        wrong = "mask is not a path, or a list of its bytes";
    if (!session_read_gain(json, "wet", &state->wet)) wrong = "wet is not a number from 0 to 1000000";
    if (!session_read_gain(json, "dry", &state->dry)) wrong = "dry is not a number from 0 to 1000000";
    if (!session_read_gain(json, "gain", &state->gain)) wrong = "gain is not a number from 0 to 1000000";
    if (bypass && !json_is_boolean(bypass)) wrong = "bypass is not true or false";
    if (json_is_boolean(bypass)) state->bypass = json_is_true(bypass);
    if (!read_scene(json_object_get(json, "scene"), &state->scene))
        wrong = "scene is not one that haloconv has written";
    return wrong;
}
