#include "closing.h"

#include "dsp/base/await.h"
#include "dsp/base/fork_safety.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PATIENCE_US = 1000000 }; /* from the start of a close */

struct closing {
    void (*close)(hc_engine *engine);
    hc_engine *engine;
    const char *name;
    int device;
    int64_t start_us;
    pthread_t thread;
    sem_t done;
    struct closing *next;
};

/* Under LOCK_CLOSING. */
static struct closing *late; /* closes that outlived their bound */
static unsigned late_forks;  /* fork_count() of the process whose threads these are */

static void late_lock(void)
{
    global_lock(LOCK_CLOSING);
    if (late_forks != fork_count()) late = NULL; /* a child of fork() has none of these threads */
    late_forks = fork_count();
}

static void *closing_thread(void *arg)
{
    struct closing *c = arg;
    c->close(c->engine);
    sem_post(&c->done);
    return NULL;
}

static void closing_free(struct closing *c)
{
    sem_destroy(&c->done);
    free(c);
}

bool closing_run(void (*close)(hc_engine *engine), hc_engine *engine, const char *name, int device, int64_t until_us)
{
    const struct timespec until = {.tv_sec = until_us / 1000000, .tv_nsec = until_us % 1000000 * 1000};
    struct closing *c = calloc(1, sizeof *c);
    if (!c) return close(engine), true;
    *c = (struct closing){.close = close, .engine = engine, .name = name, .device = device, .start_us = now_us()};
    sem_init(&c->done, 0, 0);
    pthread_attr_t normal; /* the thread may wait for long, and the caller may have real-time priority */
    pthread_attr_init(&normal);
    pthread_attr_setinheritsched(&normal, PTHREAD_EXPLICIT_SCHED);
    int error = pthread_create(&c->thread, &normal, closing_thread, c);
    pthread_attr_destroy(&normal);
    if (error) return closing_free(c), close(engine), true;
    while ((error = sem_clockwait(&c->done, CLOCK_MONOTONIC, &until)) != 0 && errno == EINTR) continue;
    if (error == 0) return pthread_join(c->thread, NULL), closing_free(c), true;
    late_lock();
    c->next = late;
    late = c;
    global_unlock(LOCK_CLOSING);
    return false;
}

/* Returns the time until which another engine waits for the late closes of a device; 0: there are none. Frees those
 * that have ended. */
static int64_t late_until(const char *name, int device)
{
    int64_t until = 0;
    late_lock();
    for (struct closing **at = &late; *at;) {
        struct closing *c = *at;
        if (sem_trywait(&c->done) == 0) {
            *at = c->next;
            pthread_join(c->thread, NULL);
            closing_free(c);
            continue;
        }
        if (strcmp(c->name, name) == 0 && c->device == device && (!until || c->start_us + PATIENCE_US < until))
            until = c->start_us + PATIENCE_US;
        at = &c->next;
    }
    global_unlock(LOCK_CLOSING);
    return until;
}

int closing_check(const char *name, int device, struct reason *why)
{
    const struct timespec pause = {.tv_nsec = 10000000};
    for (int64_t until; (until = late_until(name, device)) != 0; nanosleep(&pause, NULL))
        if (now_us() >= until)
            return fail(HC_EDEVICE, why,
                        "%s:%d does not answer: an engine that was closed still waits for it; use "
                        "the CPU",
                        name, device);
    return HC_OK;
}
