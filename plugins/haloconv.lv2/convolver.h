/* convolver - an engine and the mask that it plays, read from a file. A new mask comes with an engine of its own, cut
 * for its length, and fades in at the frame where it is wanted; hc_mask_swap would keep the engine, but lets far levels
 * wait.
 *
 * It is made by the worker, which lets it hear the history first, then belongs to the audio thread until that gives it
 * up. */
#ifndef CONVOLVER_H
#define CONVOLVER_H

#include "haloconv_masks.h"
#include "history.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct convolver_shape { int n_in, n_out, rate, block; };

struct convolver {
    struct convolver_shape shape;
    hc_engine *engine;
    char *path;              /* of the mask                                                                 */
    int max_taps, wait_us;
    int64_t heard;           /* the next frame of the history that it must hear                             */
    unsigned epoch;          /* of the history                                                              */
    bool waits;              /* for the device as long as it takes; audio thread                            */
    struct convolver *next;  /* in a list of the audio thread's                                             */
    struct convolver *older; /* in the worker's list of all                                                 */
};

/* A mask file, fit for a plugin of this shape. [setup] */
int responses_fit(const char *path, const struct convolver_shape *shape, hc_responses *responses, char *why,
                  size_t cap);

/* Make a convolver for these responses that plays them. [setup] */
int convolver_open(const struct convolver_shape *shape, const char *backend, const hc_responses *responses,
                   const char *path, struct convolver **convolver, char *why, size_t cap);
void convolver_close(struct convolver *convolver); /* [setup] */

/* Hear the history, up to where it stands at the end or a little before. [setup], beside history_write */
int convolver_hear(struct convolver *convolver, struct history *history, char *why, size_t cap);

/* Hear at most n frames more of it, n at most a block of scratch; true when it has heard all. [rt] */
bool convolver_catch_up(struct convolver *convolver, struct history *history, float *const *scratch, int64_t n);

/* Convolve the n newest frames. HC_LATE and HC_EDEVICE as hc_process. [rt] */
int convolver_play(struct convolver *convolver, const float *const *in, float *const *out, int n);

/* Wait for a device until it is done, or half a block at the most. [rt] */
void convolver_wait(struct convolver *convolver, bool waits);

/* Forget what was heard. [setup] */
void convolver_reset(struct convolver *convolver, const struct history *history);

#endif
