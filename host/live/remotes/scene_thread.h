/* scene_thread - a thread that applies OSC messages about a scene when they arrive: the next block has the change. The
 * control thread may be busy for many blocks: with JACK's server, a terminal or a lock of the loader. osc_receive gets
 * messages that fail, ask for something or are not about the scene. */
#ifndef SCENE_THREAD_H
#define SCENE_THREAD_H

#include "host/live/session/live_scene.h"
#include "osc.h"

#include <stddef.h>

struct scene_thread;

/* Starts the thread. osc and scene must outlive it. If the user may, the thread has the lowest real-time priority,
 * below the audio. NULL: why has the reason, and osc_receive gets all messages. */
struct scene_thread *scene_thread_start(struct osc *osc, struct live_scene *scene, char *why, size_t cap);

/* NULL is allowed. */
void scene_thread_end(struct scene_thread *thread);

#endif
