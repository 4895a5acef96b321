#include "signals.h"

#include "haloconv_live.h"
#include "live_engine.h"

#include <stdlib.h>
#include <string.h>

bool signals_open(struct signals *s, int n_in, int n_out)
{
    *s = (struct signals){.n_in = n_in,
                          .n_out = n_out,
                          .in_bits = calloc((size_t)n_in, sizeof *s->in_bits),
                          .peaks = calloc((size_t)n_in + (size_t)n_out, sizeof *s->peaks)};
    return s->in_bits && s->peaks;
}

static void recording_close(struct recording *r)
{
    if (!r) return;
    input_history_close(&r->history);
    free(r->rows);
    free(r->bits);
    free(r->read_rows);
    free(r);
}

void signals_close(struct signals *s)
{
    recording_close(atomic_load(&s->recording));
    free(s->in_bits);
    free(s->peaks);
}

void signals_raise(atomic_uint *peak, uint32_t bits)
{
    /* signals_exchange may store 0 between these lines: this peak then belongs to the next signals_exchange. */
    if (bits > atomic_load_explicit(peak, memory_order_relaxed))
        atomic_store_explicit(peak, bits, memory_order_relaxed);
}

float signals_exchange(atomic_uint *peak)
{
    uint32_t bits = atomic_exchange_explicit(peak, 0, memory_order_relaxed);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

void signals_record(struct signals *s, float *const *out, int n)
{
    struct recording *r = atomic_load_explicit(&s->recording, memory_order_acquire);
    if (!r || atomic_load_explicit(&r->left, memory_order_relaxed) <= 0) return;
    input_history_write(&r->history, (const float *const *)out, 0, n, r->rows, r->bits);
    input_history_publish(&r->history, n);
    atomic_fetch_sub_explicit(&r->left, n, memory_order_relaxed);
}

static struct recording *recording_open(int n_in, int n_out)
{
    struct recording *r = calloc(1, sizeof *r);
    if (!r) return NULL;
    r->rows = calloc((size_t)n_out, sizeof *r->rows);
    r->bits = calloc((size_t)n_out, sizeof *r->bits);
    r->read_rows = calloc((size_t)(n_in > n_out ? n_in : n_out), sizeof *r->read_rows);
    if (r->rows && r->bits && r->read_rows &&
        input_history_open(&r->history, n_out, HC_LIVE_MAX_SIGNAL + 4 * MAX_BLOCK, MAX_BLOCK))
        return r;
    recording_close(r);
    return NULL;
}

/* Copies the newest n frames of a history; frames that it does not have are 0. Returns the oldest frame that it read.
 */
static int64_t copy_newest(struct input_history *h, const float **rows, float *const *to, int n)
{
    int64_t from = input_history_end(h) - n, oldest = input_history_oldest(h);
    int at = from < oldest ? (int)(oldest - from < n ? oldest - from : n) : 0;
    for (int ch = 0; ch < h->n_channels; ch++) memset(to[ch], 0, (size_t)at * sizeof(float));
    for (int k; at < n; at += k) {
        k = n - at;
        input_history_read(h, from + at, &k, rows);
        for (int ch = 0; ch < h->n_channels; ch++) memcpy(to[ch] + at, rows[ch], (size_t)k * sizeof(float));
    }
    return from < oldest ? oldest : from;
}

/* Copies again if the audio thread has overwritten frames meanwhile: this thread may have waited for long. */
static void signals_copy_whole(struct input_history *h, const float **rows, float *const *to, int n)
{
    while (!input_history_kept(h, copy_newest(h, rows, to, n))) continue;
}

bool signals_read(struct signals *s, struct input_history *input, int rate, float *const *in, float *const *out, int n)
{
    struct recording *r = atomic_load(&s->recording);
    if (!r && !(r = recording_open(s->n_in, s->n_out))) return false;
    atomic_store_explicit(&r->left, rate, memory_order_relaxed);
    atomic_store_explicit(&s->recording, r, memory_order_release);
    signals_copy_whole(input, r->read_rows, in, n);
    signals_copy_whole(&r->history, r->read_rows, out, n);
    return true;
}
