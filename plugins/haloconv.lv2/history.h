/* history - the last frames that went in, so that a new convolver can hear what the old one heard.
 *
 * The audio thread writes, the worker reads beside it: `end` is published after the samples, and a reader keeps
 * an eighth of the ring away from the oldest ones, which are overwritten next.
 */
#ifndef HISTORY_H
#define HISTORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct history {
    int n_ch;
    int64_t size;                /* frames, a power of two                                       */
    float *samples;              /* [n_ch][size]; frame i lies at i % size                       */
    atomic_int_fast64_t end;     /* frames written since the last history_clear                  */
    atomic_int_fast64_t heard;   /* where a reader is: orders its reads before what overwrites them */
    atomic_uint epoch;           /* of history_clear: what was heard before one is forgotten     */
};

bool history_make(struct history *history, int n_ch, int64_t frames);          /* false: no memory */
void history_free(struct history *history);
void history_clear(struct history *history);                                   /* not beside history_write */
void history_write(struct history *history, const float *const *in, int n);    /* [rt] */

/* Frames that a reader may count on. */
int64_t history_span(const struct history *history);

/* Point at frames [at, at + *n); *n is cut where the ring wraps. Then history_done. [rt] */
void history_read(const struct history *history, int64_t at, int64_t *n, const float **in);
void history_done(struct history *history, int64_t end);

#endif
