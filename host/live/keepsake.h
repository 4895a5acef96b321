/* keepsake - what a session is to have again when another process goes on with it: its mask and its knobs. */
#ifndef KEEPSAKE_H
#define KEEPSAKE_H

#include "session.h"

#include <jansson.h>
#include <stdbool.h>

struct keepsake {
    char mask[4096];      /* path of the one that plays; "" where there is none yet */
    float wet, dry, gain; /* linear                                                 */
    bool bypass;
};

/* As the session is now; a new one is made with the settings, and the rest by keepsake_give. */
void keepsake_take(struct session *session, struct keepsake *kept);
void keepsake_settings(const struct keepsake *kept, struct session_settings *settings);
void keepsake_give(const struct keepsake *kept, struct session *session);

bool keepsake_same(const struct keepsake *a, const struct keepsake *b);

/* As JSON, NULL: no memory; and back. What is not there, or not a number, stays as it is in *kept. */
json_t *keepsake_json(const struct keepsake *kept);
void keepsake_read(const json_t *json, struct keepsake *kept);

#endif
