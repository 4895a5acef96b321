/* scene_bank - cuts a level of moving sources into partitions on the CPU, and lays out their spectra.
 *
 * A tail level computes hop + fade frames of output a hop. Its partitions are `ratio` hops long: a longer partition
 * needs fewer bytes for each tap (2.3 floats with ratio 1, 1.1 with 8), and the products of random entries wait for
 * memory. In return, the transform of each source in each hop is longer, and there are `ratio` FDLs: hop % ratio.
 *
 * In a transform's frames, a partition's taps come first; the newest input frames and the output come last.
 *
 *   spectrum    [chunk][floats of a chunk], of dsp/fft
 *   FDL         [source][chunk][phase: hop % ratio][entry of the FDL][floats]; hop h is in entry
 *               -(h / ratio) % n_partitions, so partition p of a response meets the p-th entry after it
 *   bank        [entry][chunk][pair of outputs][partition][output of the pair][floats]: an entry's products read memory
 *               in order; scaled by 1 / S
 *   sums        [output][chunk][floats]
 */
#ifndef HALOCONV_CPU_SCENE_BANK_H
#define HALOCONV_CPU_SCENE_BANK_H

#include "dsp/base/error.h"
#include "cpu_costs.h"
#include "dsp/device/scene_backend.h"
#include "simd.h"

struct scene_cut { /* the partitions of a level                                                              */
    int hop, ratio;
    int size; /* taps of a partition: ratio hops                                                        */
    int n_partitions;
    int window;          /* frames of output that a product yields                                                 */
    int frames;          /* frames of a transform: 2S                                                           */
    int chunk, n_chunks; /* floats in a chunk; chunks in a spectrum                                              */
};

struct bank_cpu {
    int n_out, n_levels;
    float *spectra[HC_MAX_STEER_LEVELS];   /* NULL: the bank has no taps in the level                            */
    int n_partitions[HC_MAX_STEER_LEVELS]; /* partitions of this bank's responses                                */
    size_t floats[HC_MAX_STEER_LEVELS];     /* floats of an entry                                                 */
};

/* Returns the expected nanoseconds of products that read `floats` floats. */
static inline double scene_products_ns(double floats)
{
    return cpu_scene_costs.float_ns * floats;
}
double scene_transform_ns(const struct scene_cut *cut); /* of a source's transform and its store into the FDL */

void scene_cut_make(struct scene_cut *cut, const struct scene_plan *plan, int level);

/* The functions bank_make and bank_free of struct scene_backend. */
int scene_bank_cpu_make(const struct scene_plan *plan, int device, const hc_bank_data *data, void **impl,
                        uint64_t *bytes, struct reason *why);
void scene_bank_cpu_free(void *impl);

/* Returns how many floats fit into this machine's memory: a longer array is refused before it is written. */
double scene_max_floats(void);

/* Returns HC_ENOMEM if a bank of `floats` floats is larger than the memory of this machine. */
int scene_bank_fits(double floats, const hc_bank_data *data, struct reason *why);

/* Implements piece_responses of scene_pieces.h. [rt] */
bool scene_bank_cpu_responses(const void *bank, int level, int entry, struct scene_piece *piece);

/* Returns the floats of an FDL from one chunk to the next; scene_fdl_source, from one source to the next. */
static inline size_t scene_fdl_chunk(const struct scene_cut *cut)
{
    return (size_t)cut->ratio * (size_t)cut->n_partitions * (size_t)cut->chunk;
}
static inline size_t scene_fdl_source(const struct scene_cut *cut)
{
    return (size_t)cut->n_chunks * scene_fdl_chunk(cut);
}
/* Returns the offset of hop h's phase in the FDL, in floats. scene_fdl_entry returns hop h's entry in this phase. */
static inline size_t scene_fdl_phase(const struct scene_cut *cut, int64_t h)
{
    return (size_t)(h % cut->ratio) * (size_t)cut->n_partitions * (size_t)cut->chunk;
}
static inline int scene_fdl_entry(const struct scene_cut *cut, int64_t h)
{
    return (int)(cut->n_partitions - h / cut->ratio % cut->n_partitions) % cut->n_partitions;
}

#endif
