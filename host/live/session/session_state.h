/* session_state - the mask, knobs and sources of a session, as JSON and back, so that another process can continue with
 * them. */
#ifndef SESSION_STATE_H
#define SESSION_STATE_H

#include "session.h"

#include <jansson.h>
#include <stdbool.h>

struct session_state {
    char mask[4096];      /* path of the mask that plays; "": none yet */
    float wet, dry, gain; /* linear                                    */
    bool bypass;
    struct live_scene_settings scene; /* positions of all sources; n_positions 0: no sources */
};

/* A path as JSON: a text, or an array of its bytes if it is not UTF-8; NULL for "". Reading one that is absent leaves
 * `path` unchanged, and so does a wrong one. false: it is wrong. */
json_t *session_state_path_json(const char *path);
bool session_state_read_path(const json_t *json, char *path, size_t cap);

/* Copies the state of a session. */
void session_state_record(struct session *session, struct session_state *state);

/* Puts the knobs and sources into the settings of the next session_open. *state must outlive that call. */
void session_state_settings(const struct session_state *state, struct session_settings *settings);

bool session_state_same(const struct session_state *a, const struct session_state *b);

/* Returns the state as JSON; NULL: no memory. */
json_t *session_state_json(const struct session_state *state);

/* Reads from JSON. A field that is missing, has another type or is too long leaves *state as it is. Returns what is wrong,
 * as "gain is not a number ..."; NULL: nothing. */
const char *session_state_read(const json_t *json, struct session_state *state);

#endif
