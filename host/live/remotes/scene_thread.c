#include "scene_thread.h"

#include "host/message.h"
#include "host/stopwatch.h"
#include "scene_messages.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

/* Limits: this thread may have real-time priority, and a flood of messages gets a third of a processor. */
static const double MAX_BUSY_S = 0.003, WINDOW_S = 0.01;

struct scene_thread {
    struct osc *osc;
    struct live_scene *scene;
    pthread_t thread;
    atomic_bool end;
    struct processor_share share;
};

static bool handle(void *data, const struct osc_message *message)
{
    struct scene_thread *t = data;
    struct scene_change change;
    bool good = scene_message_is(message->path) && scene_message_read(message, &change, NULL, 0) &&
                live_scene_change(t->scene, &change, NULL, 0);
    processor_share_keep(&t->share); /* one packet may hold thousands of messages */
    return good;
}

static void *scene_thread_run(void *data)
{
    struct scene_thread *t = data;
    t->share = processor_share_begin(WINDOW_S, MAX_BUSY_S);
    while (!atomic_load(&t->end)) {
        osc_handle_first(t->osc, handle, t);
        processor_share_keep(&t->share);
    }
    return NULL;
}

static bool scene_thread_create(struct scene_thread *t, int policy)
{
    struct sched_param lowest = {.sched_priority = sched_get_priority_min(policy)};
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
    pthread_attr_setschedpolicy(&attributes, policy);
    pthread_attr_setschedparam(&attributes, &lowest);
    bool good = pthread_create(&t->thread, &attributes, scene_thread_run, t) == 0;
    pthread_attr_destroy(&attributes);
    return good;
}

struct scene_thread *scene_thread_start(struct osc *osc, struct live_scene *scene, char *why, size_t cap)
{
    struct scene_thread *t = calloc(1, sizeof *t);
    if (!t) return (void)message_write(why, cap, "no memory for a thread of --osc; free some memory"), NULL;
    t->osc = osc;
    t->scene = scene;
    if (!osc_split(osc, why, cap)) {
        free(t);
        return NULL;
    }
    if (scene_thread_create(t, SCHED_FIFO) || scene_thread_create(t, SCHED_OTHER)) return t;
    osc_join(osc);
    free(t);
    return (void)message_write(why, cap, "--osc: a thread cannot be started; raise the limit on processes (ulimit -u)"),
           NULL;
}

void scene_thread_end(struct scene_thread *t)
{
    if (!t) return;
    atomic_store(&t->end, true);
    osc_wake_first(t->osc);
    pthread_join(t->thread, NULL);
    osc_join(t->osc);
    free(t);
}
