#include "history.h"

#include <stdlib.h>
#include <string.h>

bool history_make(struct history *h, int n_ch, int64_t frames)
{
    h->n_ch = n_ch;
    h->size = 1;
    while (h->size < frames) h->size *= 2;
    h->samples = calloc((size_t)n_ch * (size_t)h->size, sizeof(float));
    atomic_init(&h->end, 0);
    atomic_init(&h->heard, 0);
    atomic_init(&h->epoch, 0);
    return h->samples != NULL;
}

void history_free(struct history *h)
{
    free(h->samples);
    h->samples = NULL;
}

void history_clear(struct history *h)
{
    /* The samples may stay: frames before 0 are never read. */
    atomic_store_explicit(&h->end, 0, memory_order_relaxed);
    atomic_fetch_add_explicit(&h->epoch, 1, memory_order_release);
}

void history_write(struct history *h, const float *const *in, int n)
{
    int64_t end = atomic_load_explicit(&h->end, memory_order_relaxed);
    (void)atomic_load_explicit(&h->heard, memory_order_acquire);
    for (int done = 0; done < n;) {
        int64_t at = (end + done) & (h->size - 1);
        int part = h->size - at < n - done ? (int)(h->size - at) : n - done;
        for (int ch = 0; ch < h->n_ch; ch++)
            memcpy(h->samples + ch * h->size + at, in[ch] + done, (size_t)part * sizeof(float));
        done += part;
    }
    atomic_store_explicit(&h->end, end + n, memory_order_release);
}

int64_t history_span(const struct history *h)
{
    return h->size - h->size / 8;
}

void history_read(const struct history *h, int64_t at, int64_t *n, const float **in)
{
    int64_t from = at & (h->size - 1);
    if (*n > h->size - from) *n = h->size - from;
    for (int ch = 0; ch < h->n_ch; ch++) in[ch] = h->samples + ch * h->size + from;
}

void history_done(struct history *h, int64_t end)
{
    atomic_store_explicit(&h->heard, end, memory_order_release);
}
