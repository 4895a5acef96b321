/* signals - what a host shows of the signals: the peaks of each channel, and the newest frames of input and output. The
 * outputs are recorded only while somebody asks for them. */
#ifndef SIGNALS_H
#define SIGNALS_H

#include "input_history.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct recording {
    struct input_history history;
    atomic_int left;             /* frames to record; each signals_read asks for a second more              */
    const float **rows;          /* [n_out], for the audio thread                                          */
    uint32_t *bits;              /* [n_out], likewise                                                      */
    const float **read_rows;     /* [n_in] or [n_out], for readers                                         */
};

struct signals {
    int n_in, n_out;
    uint32_t *in_bits;           /* [n_in]: peaks of a block, as the bits of floats; audio thread          */
    atomic_uint *peaks;          /* [n_in + n_out]: since they were asked for, as the bits of floats       */
    _Atomic(struct recording *) recording; /* NULL: nobody has asked for frames                            */
};

/* false: no memory. [setup] */
bool signals_open(struct signals *signals, int n_in, int n_out);
void signals_close(struct signals *signals);

/* Raises a peak to these bits. [rt] */
void signals_raise(atomic_uint *peak, uint32_t bits);

/* Returns a peak, and begins anew. [rt], any thread */
float signals_exchange(atomic_uint *peak);

/* Records a block of the output, out[n_out], if somebody wants it. [rt] */
void signals_record(struct signals *signals, float *const *out, int n);

/* As hc_live_get_signals; one thread at a time. false: no memory. [setup] */
bool signals_read(struct signals *signals, struct input_history *input, int rate, float *const *in, float *const *out,
                  int n);

#endif
