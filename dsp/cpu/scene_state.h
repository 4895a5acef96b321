/* scene_state - the state of the moving sources on the CPU. scene_cpu.c makes it, and computes the head
 * inside the call. scene_tail.c computes the tail levels before they are due. */
#ifndef HALOCONV_SCENE_STATE_H
#define HALOCONV_SCENE_STATE_H

#include "input_ring.h"
#include "scene_bank.h"

struct scene_level_cpu {
    const struct scene_level *plan;
    struct scene_cut cut;
    const struct fft *fft;
    float *fdl; /* scene_bank.h describes the layout                                                    */
    struct scene_list lists[2]; /* a tail level uses [0], the hop's list; the head uses `to` and `from`         */
    size_t n_sums; /* floats of the sums of all outputs                                                    */
};

struct scene_head { /* the sums of a block, [n_out][fft]                                                    */
    float *to, *from;
    float *next; /* partitions from 1 on of the next block's `from`, computed with this block's `to`     */
    bool has_next;
    struct scene_mix last; /* `to` of the block before; only its address and length are read                      */
    float *rest_to, *rest_from; /* sums of partitions from 1 on, for a block that comes in several calls          */
    float *scratch;
};

struct scene_tail;

struct scene_state {
    struct scene_plan plan;
    struct scene_shape shape;
    const struct simd *simd;
    struct scene_level_cpu levels[HC_MAX_STEER_LEVELS];
    struct input_ring history;
    float *due; /* [n_out][due_length]: a ring of the output of the tail levels                         */
    int due_length;
    struct piece_maker maker; /* used by the engine thread only                                                  */
    struct scene_head head;
    struct scene_tail *tail; /* NULL: the plan has no tail levels                                                 */
};

/* Returns the floats of scratch that a thread needs for jobs of this level. */
static inline size_t scene_scratch_floats(const struct scene_cut *cut)
{
    size_t transform = 2 * (size_t)cut->frames, mixed = (size_t)(cut->n_partitions * cut->chunk);
    return transform > mixed ? transform : mixed;
}

/* Transforms the last frames of a source before frame `end`, then n_zeros zeros, together cut.frames frames. The
 * spectrum goes into the entry of hop `hop` of its FDL. [rt] */
void scene_source_transform(const struct scene_state *s, int level, int source, int64_t end, int n_zeros, int64_t hop,
                            float *scratch);

/* ---- tail levels: scene_tail.c ----------------------------------------------------------------------------------- */

/* n_threads does not count the engine thread. NULL: no memory. [setup] */
struct scene_tail *scene_tail_open(struct scene_state *s, int n_threads);
void scene_tail_close(struct scene_tail *tail);
double scene_tail_floats(const struct scene_plan *plan, const struct scene_shape *shape, int n_threads);
/* Forgets the hops under way. [setup] */
void scene_tail_reset(struct scene_tail *tail);
/* Call it before the head: completes the hops that are due, and begins the hops of this call. [rt] */
void scene_tail_begin(struct scene_tail *tail, const struct scene_call *call);
/* Call it after the head: does the engine thread's share of the tail work in this call. [rt] */
void scene_tail_advance(struct scene_tail *tail, const struct scene_call *call);
/* Returns the engine thread's work for the tail levels since open, in estimated picoseconds. [rt], engine thread */
int64_t scene_tail_work(const struct scene_tail *tail);

#endif
