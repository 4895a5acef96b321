/* cuda_crossing - a call's frames on their way between a slot in the host's memory and the device. Picture in
 * cuda_crossing.cu. They go to the ring from s->total on, and who makes the call counts them there. */
#ifndef HALOCONV_CUDA_CROSSING_H
#define HALOCONV_CUDA_CROSSING_H

#include "cuda_state.h"

size_t cuda_inbox_bytes(const struct state *s); /* 0: the plan needs none                                     */
cudaError_t cuda_crossing_load(void);           /* kernels                                                    */
/* Events, s->out_beside and, beside the far levels, the streams up and down; s->inbox is known. */
int cuda_crossing_open(struct state *s, char *why, size_t cap);
void cuda_crossing_close(struct state *s);      /* all but the streams                                        */

int cuda_slot_make(void *state, struct slot *slot, char *why, size_t cap);
void cuda_slot_free(void *state, struct slot *slot);

/* Few frames: a copy engine's start costs more than they do. The device reads them from pinned memory and writes the
 * output there. */
bool cuda_is_live(const struct state *s, int n);
/* All inputs, on the stream; live: by a kernel. */
int cuda_upload(struct state *s, const struct slot *slot, int n, bool live, cudaStream_t stream, char *why, size_t cap);
/* An output from rows `block` frames apart to the host: `down` copies what `audio` has made. */
int cuda_download(struct state *s, const struct slot *slot, const float *wet, int n, cudaStream_t down, char *why,
                  size_t cap);
/* What was seen of the block; behind its last kernel. */
int cuda_seen_download(struct state *s, const struct slot *slot, cudaStream_t down, char *why, size_t cap);
/* Silence, by the host. */
void cuda_rows_clear(float *rows, int n_rows, size_t pitch, int n);

/* How far a large block has come on its way up and, in pieces, down. */
struct crossing {
    int part;               /* of the ferry's: loaded                                                      */
    int up;                 /* pieces under way to the ring                                                */
    int n_channels;         /* that are in the ring for whoever comes next in `audio`                      */
    int down, told;         /* pieces of the output under way; the ferry knows that they have landed       */
};

/* Of a block of so many channels: how many pieces are worth their launches. */
int cuda_pieces_of(const struct state *s, int n_channels);
/* With an inbox: the next piece, or all. */
int cuda_upload_piece(struct state *s, const struct slot *slot, int n, struct crossing *c, char *why, size_t cap);
int cuda_upload_beside(struct state *s, const struct slot *slot, int n, char *why, size_t cap);
/* Where s->out_beside: outputs [ch, end) of n frames, whose work stands in `audio`, from wet[0] to the slot; `there`
 * tells when they are. */
int cuda_download_beside(struct state *s, struct slot *slot, int n, int ch, int end, cudaEvent_t there, char *why,
                         size_t cap);

#endif
