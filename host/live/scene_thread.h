/* scene_thread - a thread that obeys OSC messages about a scene as soon as they arrive: the next block has the change.
 * The control thread, which does all else, may be busy for many blocks: with JACK's server, a terminal or a lock of the
 * loader. Messages that fail, ask for something or are about something else go on to osc_receive. */
#ifndef SCENE_THREAD_H
#define SCENE_THREAD_H

#include "live_scene.h"
#include "osc.h"

#include <stddef.h>

struct scene_thread;

/* osc and scene outlive the thread. The thread has real-time priority if the user may have it, the lowest one: the
 * audio comes first. NULL: why has the reason, and osc_receive gets all messages. */
struct scene_thread *scene_thread_start(struct osc *osc, struct live_scene *scene, char *why, size_t cap);

/* NULL is allowed. */
void scene_thread_end(struct scene_thread *thread);

#endif
