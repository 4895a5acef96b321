/* tail_state - structs and functions that the files of the tail levels share. Other files include tail_levels.h.
 *
 *   tail_levels.c    a level's FDL (frequency-domain delay line): layout, filling, products with a mask's partitions;
 *                    a mask's partitions: memory layout, spectra; a hop: the output that is due, the input history, masks
 *                    that are prepared and retired
 *   tail_slices.c    the scheduler without threads: every hop does an equal slice of the work, step by step
 *   tail_pool.c      the scheduler with a real-time pool: threads do whole jobs as soon as a block is complete
 *
 * Words: a block is S input frames of a level (tail_levels.h). A partition is S taps of a response. An entry of the FDL
 * has the spectrum of one block. A step is the smallest unit of work (dsp/fft/fft.h). A slice is the steps of one hop.
 * A job is the steps that a pool thread does at once. A group is the outputs that are computed together.
 */
#ifndef HALOCONV_TAIL_STATE_H
#define HALOCONV_TAIL_STATE_H

#include "dsp/fft/fft.h"
#include "input_ring.h"
#include "mask_partitions.h"
#include "tail_levels.h"

#include <stdatomic.h>
#include <stdint.h>

struct tail_level {
    const struct fft *fft;
    int size;                       /* S */
    int fdl_entries;                /* entries of the FDL, one for each partition */
    int group;                      /* outputs that are computed together, chunk by chunk */
    float *fdl;                     /* [fdl_entries][FFT_CHUNK] for each input and each chunk */
    size_t in_stride, chunk_stride; /* floats from one input, and from one chunk, to the next in fdl */
    float *
        oldest; /* [n_in][2S]: spectra of the oldest input block for a block that a mask catches up on; the FDL may no
                       longer have them */
    int64_t newest; /* the block that began last; -1: no block yet */
    int64_t due;    /* the block whose output is due in this hop */
    int due_at;     /* index of this hop's first frame in the output of block `due` */
};

struct tail_response { /* a response in a level: the spectra of partitions [first, end) */
    float *chunks;     /* [n_chunks][end - first][FFT_CHUNK], chunks `stride` floats apart; scaled by 1/S */
    size_t stride;
    int first, end;
};

struct tail_mask_level {
    int64_t first_block; /* the first block whose due output contains this mask */
    struct tail_response *responses;
    float *chunks;   /* memory of all responses' chunks, in the order in which products read them */
    float *frames;   /* memory of `out` */
    float **out;     /* [n_out]: [2][S], even and odd blocks; NULL: this level adds nothing to the output */
    double products; /* number of products for each bin, of all outputs together */
    int n_outs;      /* outputs to which this level adds something */
};

struct tail_mask {
    int n_levels, n_responses;
    const struct routing *routing;
    struct tail_mask_level levels[PLAN_MAX_TAIL_LEVELS];
};

struct tail {
    int n_in, n_out, n_levels;
    int hop;       /* frames */
    int pos;       /* frames of the current hop that have arrived */
    int64_t frame; /* first frame of the current hop */
    struct input_ring history;
    struct tail_mask *prepared[MAX_PREPARED]; /* masks that prepare, play or fade out; NULL: free */
    atomic_bool waits;                        /* tail_wait_set: any thread */
    const struct tail_scheduler *scheduler;
    void *schedule; /* the scheduler's state */
    struct tail_level levels[PLAN_MAX_TAIL_LEVELS];
};

/* Decides when the work on a block is done, and by which thread. The engine thread calls all except open and close. */
struct tail_scheduler {
    bool (*open)(struct tail *tail, int n_threads);
    void (*close)(struct tail *tail);
    void (*reset)(struct tail *tail);   /* before the FDLs are cleared: drops all work */
    void (*prepare)(struct tail *tail); /* before a mask is added to `prepared` */
    /* Adds the mask at prepared[m] to the block `newest`. false: it is too late for that block. */
    bool (*include)(struct tail *tail, int level, struct tail_mask *mask, int m);
    void (*retire)(struct tail *tail, const struct tail_mask *mask);
    bool (*released)(const struct tail *tail, const struct tail_mask *mask); /* NULL: always */
    /* Are the inputs' spectra of the block `newest` complete? */
    bool (*has_inputs)(const struct tail *tail, int level);
    void (*finish)(struct tail *tail, int level); /* completes `newest`, whose output is due; NULL: always complete */
    void (*advance)(struct tail *tail);           /* at the end of a hop; `frame` and `due` belong to the next hop */
    void (*get_load)(const struct tail *tail, struct tail_load *load); /* NULL: the load is not counted */
};
extern const struct tail_scheduler tail_slices, tail_pool;

/* ---- tail_levels.c ---- */
/* Does this block of a level contain the mask? */
static inline bool tail_mask_plays(const struct tail_mask *mask, int level, int64_t block)
{
    return mask && mask->levels[level].first_block <= block && mask->levels[level].n_outs > 0;
}
/* Finds a prepared mask that lacks a block of a level, *block, whose input spectra are complete. NULL: none. */
struct tail_mask *tail_find_missing(const struct tail *tail, int level, int64_t *block);
/* Is any prepared mask not ready yet? */
bool tail_is_preparing(const struct tail *tail);

/* Does a step of an input's transform over columns: blocks `block` - 1 and `block` -> work[2S]. */
void tail_columns_in(const struct tail *tail, const struct tail_level *l, int64_t block, int in, float *work, int step);
/* Does a step over rows: work[2S] -> the FDL entry of the block `newest` or, if is_oldest, `oldest`. */
void tail_rows_in(const struct tail_level *l, bool is_oldest, int in, float *work, int step);
/* Returns the oldest input block that the output of `block` depends on. */
int64_t tail_oldest_block(const struct tail_level *l, int64_t block);
/* Writes the sum in a chunk of an output's bins to y[FFT_CHUNK]. oldest: tail_level.oldest, used instead of the oldest
 * FDL entry; NULL: the FDL has the oldest spectra. Returns the number of partitions that were multiplied. */
int tail_sum_chunk(const struct tail *tail, int level, int64_t block, const float *oldest, const struct tail_mask *mask,
                   int out, int chunk, float *y);

#endif
