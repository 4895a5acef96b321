/* scene_messages - OSC messages about sources and the listener: ours, and those of head trackers. haloconv-scenes(7)
 * lists them. */
#ifndef SCENE_MESSAGES_H
#define SCENE_MESSAGES_H

#include "osc.h"
#include "host/live/session/live_scene.h"

#include <stdbool.h>
#include <stddef.h>

/* Is this the path of a message about a scene? */
bool scene_message_is(const char *path);

/* Is this an answer whose form no request has? The answer to /source/N/relative is such. */
bool scene_message_is_answer(const struct osc_message *message);

/* Translates a message that scene_message_answer does not answer. false: why has the reason. */
bool scene_message_read(const struct osc_message *message, struct scene_change *change, char *why, size_t cap);

/* Answers a message without arguments that asks for the state of the scene. false: another message. */
bool scene_message_answer(const struct osc_message *message, struct live_scene *scene, struct osc *osc);

/* ---- the thread ------------------------------------------------------------------------------- */

/* A thread that applies OSC messages about a scene when they arrive: the next block has the change. The
 * control thread may be busy for many blocks: with JACK's server, a terminal or a lock of the loader. osc_receive gets
 * messages that fail, ask for something or are not about the scene. */

struct scene_thread;

/* Starts the thread. osc and scene must outlive it. If the user may, the thread has the lowest real-time priority,
 * below the audio. NULL: why has the reason, and osc_receive gets all messages. */
struct scene_thread *scene_thread_start(struct osc *osc, struct live_scene *scene, char *why, size_t cap);

/* NULL is allowed. */
void scene_thread_end(struct scene_thread *thread);

#endif
