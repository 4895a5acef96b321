#include "delayed_tail.h"

#include "dsp/base/await.h"

#include <string.h>

static int tail_job_play(void *data, int64_t job, int n, struct reason *why)
{
    struct delayed_tail *t = data;
    const struct delayed_tail_setup *setup = &t->setup;
    const char *lost;
    bool is_silence = job == DEVICE_QUEUE_SILENCE;
    int error = HC_EDEVICE;
    if (device_queue_failed(t->queue, &lost) < 0)
        error = setup->play(setup->data, job, is_silence ? &t->silence : &t->buffers[job % TAIL_JOBS], n, why);
    if (!is_silence && setup->job_end) setup->job_end(setup->data, job);
    return error;
}

static void tail_job_behind(void *data)
{
    struct delayed_tail *t = data;
    const struct delayed_tail_setup *setup = &t->setup;
    const char *lost;
    if (setup->backend->process_behind && device_queue_failed(t->queue, &lost) < 0)
        setup->backend->process_behind(setup->state);
}

static int tail_buffer_make(struct delayed_tail *t, struct io_buffer *buffer, struct reason *why)
{
    const struct delayed_tail_setup *setup = &t->setup;
    return io_buffer_make(setup->backend, setup->state, setup->n_in, setup->n_out, setup->hop, buffer, why);
}

int delayed_tail_open(struct delayed_tail *t, const struct delayed_tail_setup *setup, struct reason *why)
{
    t->setup = *setup;
    int error = tail_buffer_make(t, &t->silence, why);
    for (int i = 0; i < TAIL_JOBS && !error; i++) error = tail_buffer_make(t, &t->buffers[i], why);
    if (error) return error;
    /* The device thread has S frames of time: it need not spin, and many engines share the processors. */
    struct device_queue_setup queue = {
        .n_blocks = TAIL_JOBS, .block = setup->hop, .play = tail_job_play, .behind = tail_job_behind, .data = t};
    delayed_tail_restart(t);
    t->queue = device_queue_open(&queue, why);
    return t->queue ? HC_OK : HC_ENOMEM;
}

void delayed_tail_close(struct delayed_tail *t)
{
    const struct delayed_tail_setup *setup = &t->setup;
    device_queue_close(t->queue);
    for (int i = 0; i < TAIL_JOBS; i++) io_buffer_free(setup->backend, setup->state, &t->buffers[i]);
    io_buffer_free(setup->backend, setup->state, &t->silence);
    t->queue = NULL;
}

void delayed_tail_restart(struct delayed_tail *t)
{
    for (int i = 0; i < TAIL_JOBS; i++) t->hops[i] = -1;
    t->hop = t->pos = 0;
}

double delayed_tail_memory(int n_in, int n_out, int hop)
{
    return (double)sizeof(float) * (TAIL_JOBS + 1) * hop * (n_in + n_out);
}

/* ---- the audio thread -------------------------------------------------------------------------------------------- */

void delayed_tail_begin(struct delayed_tail *t, int64_t until_us)
{
    t->has_waited = false;
    t->has_job = device_queue_has_capacity(t->queue, until_us == AWAIT_FOREVER ? AWAIT_FOREVER : 0);
}

int64_t delayed_tail_due(const struct delayed_tail *t)
{
    int64_t next = device_queue_next(t->queue);
    for (int64_t job = next - 1; t->hop >= 2 && job >= 0 && job > next - TAIL_JOBS; job--)
        if (t->hops[job % TAIL_JOBS] == t->hop - 2) return job;
    return -1;
}

int delayed_tail_await(struct delayed_tail *t, int64_t due, bool is_wanted, int64_t until_us, struct reason *why)
{
    if (t->hop < 2) return HC_OK;
    if (due >= 0 && is_wanted && !t->has_waited) {
        device_queue_await(t->queue, due, until_us);
        t->has_waited = true;
    }
    const char *lost;
    int64_t failed = device_queue_failed(t->queue, &lost);
    if (failed >= 0 && (due < 0 || due >= failed)) return fail(HC_EDEVICE, why, "%s", lost);
    return is_wanted && (due < 0 || !device_queue_is_done(t->queue, due)) ? HC_LATE : HC_OK;
}

void delayed_tail_input(struct delayed_tail *t, const float *const *in, int at, int n)
{
    const struct delayed_tail_setup *setup = &t->setup;
    float *to = t->buffers[delayed_tail_next(t) % TAIL_JOBS].in + t->pos;
    for (int ch = 0; ch < setup->n_in && t->has_job; ch++)
        memcpy(to + (size_t)ch * (size_t)setup->hop, in[ch] + at, (size_t)n * sizeof *to);
    t->pos += n;
}

int64_t delayed_tail_next(const struct delayed_tail *t)
{
    return device_queue_next(t->queue);
}

void delayed_tail_end(struct delayed_tail *t)
{
    if (t->has_job) {
        t->hops[delayed_tail_next(t) % TAIL_JOBS] = t->hop;
        device_queue_post(t->queue, t->setup.hop, 0);
    } else {
        device_queue_skip(t->queue, t->setup.hop);
    }
    t->hop++;
    t->pos = 0;
}
