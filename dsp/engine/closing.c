#include "closing.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct closing {
    void (*close)(hc_engine *engine);
    hc_engine *engine;
    const char *name;
    int device;
    pthread_t thread;
    sem_t done;
    struct closing *next;
};

static pthread_mutex_t late_lock = PTHREAD_MUTEX_INITIALIZER;
static struct closing *late; /* whose time has passed */

static void *closing_thread(void *arg)
{
    struct closing *c = arg;
    c->close(c->engine);
    sem_post(&c->done);
    return NULL;
}

static void closing_free(struct closing *c)
{
    pthread_join(c->thread, NULL);
    sem_destroy(&c->done);
    free(c);
}

bool closing_run(void (*close)(hc_engine *engine), hc_engine *engine, const char *name, int device, int64_t until_us)
{
    const struct timespec until = {.tv_sec = until_us / 1000000, .tv_nsec = until_us % 1000000 * 1000};
    struct closing *c = calloc(1, sizeof *c);
    if (c) {
        *c = (struct closing){.close = close, .engine = engine, .name = name, .device = device};
        sem_init(&c->done, 0, 0);
    }
    if (!c || pthread_create(&c->thread, NULL, closing_thread, c) != 0) {
        free(c);
        close(engine);
        return true;
    }
    int error;
    while ((error = sem_clockwait(&c->done, CLOCK_MONOTONIC, &until)) != 0 && errno == EINTR) continue;
    if (error == 0) return closing_free(c), true;
    pthread_mutex_lock(&late_lock);
    c->next = late;
    late = c;
    pthread_mutex_unlock(&late_lock);
    return false;
}

int closing_check(const char *name, int device, struct reason *why)
{
    int error = HC_OK;
    pthread_mutex_lock(&late_lock);
    for (struct closing **at = &late; *at;) {
        struct closing *c = *at;
        if (sem_trywait(&c->done) == 0) {
            *at = c->next;
            closing_free(c);
            continue;
        }
        if (strcmp(c->name, name) == 0 && c->device == device)
            error = fail(HC_EDEVICE, why, "%s:%d does not answer: an engine that was closed still waits for it; use "
                         "the CPU", name, device);
        at = &c->next;
    }
    pthread_mutex_unlock(&late_lock);
    return error;
}
