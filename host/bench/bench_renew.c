#include "bench_renew.h"

#include "dsp/bench.h"
#include "host/message.h"
#include "host/stopwatch.h"

#include <string.h>
#include <unistd.h>

enum { POLL_US = 10000 }; /* how often the thread checks r->end */

static void *renew(void *arg)
{
    struct renewal *r = arg;
    for (double due = stopwatch_now() + r->period_s; !atomic_load(&r->end);) {
        if (stopwatch_now() < due) {
            usleep(POLL_US);
            continue;
        }
        hc_mask *mask;
        double start = stopwatch_now();
        r->shape.seed++;
        if (hc_mask_make_noise(r->engine, r->shape.diagonal, r->shape.taps, r->shape.taps, r->shape.seed, &mask, r->why,
                               sizeof r->why) != HC_OK)
            return NULL;
        double elapsed = stopwatch_now() - start;
        if (elapsed > r->longest_s) r->longest_s = elapsed;
        r->n_made++;
        hc_mask_swap(r->engine, mask);
        hc_mask_free(r->engine, mask);
        due += r->period_s;
        if (due < stopwatch_now()) due = stopwatch_now();
    }
    return NULL;
}

bool renewal_begin(struct renewal *r, hc_engine *engine, const struct bench_shape *shape, double period_s, char *why,
                   size_t cap)
{
    memset(r, 0, sizeof *r);
    r->engine = engine;
    r->shape = *shape;
    r->period_s = period_s;
    int error = pthread_create(&r->thread, NULL, renew, r);
    return !error || message_write(why, cap, "bench: no thread for new masks: %s; omit --renew", strerror(error));
}

void renewal_end(struct renewal *r)
{
    atomic_store(&r->end, true);
    pthread_join(r->thread, NULL);
}
