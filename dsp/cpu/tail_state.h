/* tail_state - what the files of the tail levels share. tail_levels.h is the interface for everybody else.
 *
 *   tail_levels.c    the hop: which window is due, the input ring, masks that come and go
 *   tail_spectra.c   the layout of spectra: of a level's inputs, of a mask's responses
 *   tail_work.c      the arithmetic: transforms of inputs, products, for one piece
 *   tail_slices.c    the scheduler without threads: an equal slice of the work in every hop
 *   tail_pool.c      the scheduler with a worker pool: whole jobs, as soon as a window is complete
 */
#ifndef HALOCONV_TAIL_STATE_H
#define HALOCONV_TAIL_STATE_H

#include "long_fft.h"
#include "tail_levels.h"

#include <stdatomic.h>
#include <stdint.h>

enum { MOST_WARM = 2 }; /* masks */

struct tail_level {
    const struct long_fft *fft;
    int size, n_slots;     /* n_slots: windows whose spectra are kept, one a partition */
    int n_columns, n_rows; /* pieces a transform */
    int group;             /* outputs whose pieces take turns */
    float *spectra;        /* of each input and chunk [n_slots][LONG_CHUNK], so many floats apart: */
    size_t in_stride, chunk_stride;
    float *oldest;  /* [n_in][2S]: the oldest spectra of a window that a mask catches up on; `spectra` may lack them */
    int64_t newest; /* hop index of the window that is computed, or was computed last; -1: none yet */
    int64_t due;    /* hop index of the window whose output is due in this hop */
    int due_at;     /* this hop's first frame within that output */
};

struct tail_response { /* the spectra of a response in a level: partitions [first, first + n) */
    float *chunks;     /* [n_chunks][n][LONG_CHUNK], chunks `stride` floats apart; scaled by 1/S */
    size_t stride;
    int first, n;
};

struct tail_mask_level {
    int64_t join; /* windows with this hop index or a later one contain this mask, or will in time */
    struct tail_response *responses;
    float *chunks;   /* of all responses, in the order in which products read them */
    float *frames;   /* of all outputs */
    float **out;     /* [n_out]: [2][S], windows by turns; NULL: this level has nothing for the output */
    double products; /* partitions that a bin is multiplied with, all outputs together */
    int n_outs;      /* outputs that have something */
};

struct tail_mask {
    int n_levels, n_responses, n_out;
    const struct cell *cells;
    const int *first_cell;
    struct tail_mask_level levels[PLAN_MOST_FAR];
};

struct tail {
    const struct simd *simd;
    int n_in, n_out, n_levels;
    int hop;       /* frames */
    int pos;       /* frames of the current hop so far */
    int64_t frame; /* first frame of the current hop */
    int ring_size;
    int ring_at; /* frame % ring_size */
    size_t ring_stride;
    float *ring; /* [n_in][ring_size]: the latest input frames */
    struct tail_mask *warm[MOST_WARM];
    atomic_bool waits; /* tail_wait: any thread */
    const struct tail_scheduler *scheduler;
    void *schedule; /* the scheduler's own state */
    struct tail_level levels[PLAN_MOST_FAR];
};

/* When the work on a window is done, and by which thread. Engine thread, but for open and close. */
struct tail_scheduler {
    bool (*open)(struct tail *tail, int n_threads);
    void (*close)(struct tail *tail);
    void (*reset)(struct tail *tail);               /* before the spectra are cleared: drop all work */
    void (*warm)(struct tail *tail);                /* before a mask is added to `warm` */
    /* Does the window `newest` contain the mask, which has come to place m of `warm`, or can it still? */
    bool (*join)(struct tail *tail, int level, struct tail_mask *mask, int m);
    void (*rest)(struct tail *tail, const struct tail_mask *mask);
    bool (*is_idle)(const struct tail *tail, const struct tail_mask *mask); /* NULL: always */
    /* Are the inputs' spectra of the window `newest` complete? */
    bool (*has_inputs)(const struct tail *tail, int level);
    void (*finish)(struct tail *tail, int level);   /* complete `newest`, whose output is due now; NULL: it is */
    void (*advance)(struct tail *tail);             /* at the end of a hop: `frame` and `due` are those of the next */
    void (*count)(const struct tail *tail, struct tail_work *count); /* NULL: nothing is counted */
};
extern const struct tail_scheduler tail_slices, tail_pool;

/* ---- tail_levels.c ---- */
/* Does the mask take part in the window of a level with this hop index? */
static inline bool tail_mask_plays(const struct tail_mask *mask, int level, int64_t index)
{
    return mask && mask->levels[level].join <= index && mask->levels[level].n_outs > 0;
}
/* A warm mask that lacks a window in a level for which all inputs are there; NULL: none. */
struct tail_mask *tail_lacking(const struct tail *tail, int level, int64_t *index);
/* Is there a warm mask that is not ready? */
bool tail_lacks_something(const struct tail *tail);

/* ---- tail_spectra.c ---- */
bool tail_level_open(const struct tail *tail, struct tail_level *l, const struct plan_level *plan, int n_routes);
void tail_level_close(struct tail_level *l);
void tail_level_clear(const struct tail *tail, struct tail_level *l);

/* ---- tail_work.c ---- */
/* A piece of an input's transform: the columns of the window with this hop index -> work[2S]. */
void tail_columns(const struct tail *tail, const struct tail_level *l, int64_t index, int in, float *work, int piece);
/* work[2S] -> the slot of the window `newest`, or (is_oldest) `oldest`. */
void tail_rows(const struct tail *tail, const struct tail_level *l, bool is_oldest, int in, float *work, int piece);
/* The hop index of the oldest window whose spectra go into a window. */
int64_t tail_oldest(const struct tail_level *l, int64_t index);
/* The sums of one chunk of an output's bins in a window -> y[LONG_CHUNK]. oldest: the oldest window's spectra, laid out
 * as tail_level's; NULL: they are in `spectra`. Returns the partitions that were multiplied. */
int tail_sum_chunk(const struct tail *tail, int level, int64_t index, const float *oldest,
                   const struct tail_mask *mask, int out, int chunk, float *y);

#endif
