/* compare - A/B: plays two ready masks at equal loudness (hc_live_compare).
 *
 * The threads that use the engines of the two masks measure the engines' outputs, also while an engine is not active.
 * The louder mask gets the gain that makes it as loud as the other mask. Masks have numbers (ready.h): a mask that is
 * not ready has number 0 and is not compared.
 */
#ifndef COMPARE_H
#define COMPARE_H

#include "loudness.h"
#include "mixer.h"
#include "text_request.h"

enum { NUMBER_BITS = 8, NUMBER_MASK = (1 << NUMBER_BITS) - 1 }; /* numbers begin with 1 */

struct meter {                         /* measures an engine's output; for the thread that uses the engine     */
    struct loudness loudness;
    uint64_t comparison;               /* value of compare.masks when loudness was reset                       */
    struct ramp gain;                  /* used by the audio thread                                             */
};

struct compare {
    char paths[2][TEXT_CAP];           /* the paths of A and B; "": none; under ready.paths_lock               */
    atomic_uint_fast64_t masks;        /* count of comparisons, and the numbers of A and B in NUMBER_BITS each */
    atomic_uint_fast64_t loudness[2];  /* count of comparisons << 32 | the bits of a float, LUFS               */
};

/* false: no memory. [setup] */
bool meter_open(struct meter *meter, int n_channels, int rate);
void meter_close(struct meter *meter);

/* Begins to compare masks a and b, if these numbers have changed. Under ready.paths_lock. */
void compare_renew(struct compare *compare, int a, int b);

/* Measures n frames of the output of mask `number`, if it is compared. [rt], the thread that uses the mask's engine */
void compare_measure(struct compare *compare, int number, struct meter *meter, float *const *out, int n);

/* Sets the meter's gain for mask `number`, which is not active yet, without a ramp. [audio thread] */
void compare_jump(const struct compare *compare, int number, struct meter *meter);

/* Measures n frames and makes them as loud as the quieter of the two masks. [audio thread] */
void compare_equalise(struct compare *compare, int number, struct meter *meter, float *const *out, int n_out, int n,
                      int rate);

/* Fills in the fields of the comparison; number: the mask that was requested last. [rt], any thread */
void compare_get_stats(const struct compare *compare, int number, hc_live_stats *stats);

#endif
