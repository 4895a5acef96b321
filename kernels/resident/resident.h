/* resident - a kernel that stays on the GPU and answers the audio thread: no launch, no lock and no other thread is on
 * the way of a block. There is one for each GPU and process; it serves all engines whose head it convolves.
 *
 *   audio thread   request: words in pinned host memory ............ spins for the answer's words
 *   worker         polls the request ---- FIR of the head ---- answer: words in pinned host memory
 *
 *   word      a value and the number of its block, 8 bytes, written and read at once. A reader waits for each word
 *             until it has the block's number: words may arrive in any order, and no fence is needed
 *   worker    a thread block that computes some outputs of one engine, for all or some inputs. Its input history stays
 *             in shared memory. The first worker of an engine polls host memory and copies each request to device
 *             memory for the others: polls of one address by several multiprocessors take turns, 2.4 us each
 *   group     the workers of the same outputs, a part of the inputs each (dsp/device/resident_split.h). The others send
 *             their sums as words in device memory to the first one, which adds them up and answers. The first one
 *             sends no word of the answer before it has all sums. If it leaves earlier, its successor begins the block
 *             again
 *   seat      a worker's index in the grid, the same in all generations. A launch contains the table of their jobs: a
 *             worker that started would read it from host memory behind the polls of the others, and delay them
 *   generation  a launch of the kernel. Every 5 ms the next one starts beside it, and each worker hands its seat over
 *             right after an answer. cudaDeviceSynchronize therefore waits for at most two
 *             generations, and no run-time limit of a kernel is reached. While cudaFree waits, it holds the driver's
 *             lock, and the next generation cannot start. A worker then leaves 10 ms after its time, so that cudaFree
 *             returns. Requests stay in memory until the next generation
 *   manager   a thread that launches the generations. When no block comes for IDLE_US, it stops; the
 *             next block wakes it up
 *   on demand   beside another process the kernel does not stay: the GPU runs the two in turns, and a kernel that polls
 *             would use up half of the time. Each block then wakes the manager, which launches a generation that
 *             answers and leaves. A polling worker detects the other process: the worker itself is interrupted for
 *             STALL_NS or more
 *
 * resident_service.cu   the manager, and the table of the workers
 * resident_kernel.cu    the workers
 * resident_head.cu      the backend: a head in the time domain, for backend "cuda" (dsp/backends/hybrid.c)
 */
#ifndef HALOCONV_RESIDENT_H
#define HALOCONV_RESIDENT_H

#include "dsp/base/error.h"
#include "dsp/device/resident_split.h"

#include <cuda_runtime.h>
#include <stddef.h>
#include <stdint.h>

enum {
    RESIDENT_RING = 16,          /* requests of an engine that are posted and not answered yet; input of more is lost */
    RESIDENT_HEADER = 10,        /* words of a request before its frames: enum resident_header                        */
    RESIDENT_THREADS = 512,      /* threads of a worker                                                               */
    CHECKPOINT_WORDS = 6,        /* numbers that a worker hands over: last block, position of its end, two words: the
                                    mask's address, with the number of its making                             */
    RESIDENT_SEATS = 256         /* max. workers of all engines                                                       */
};

#ifdef __CUDACC__
#define RESIDENT_INLINE __host__ __device__ static inline
#else
#define RESIDENT_INLINE static inline
#endif

struct resident_word { uint32_t value, number; } __attribute__((aligned(8)));

enum resident_header {
    HEADER_N,                    /* frames of the block; 0: the engine closes, and the workers leave                  */
    HEADER_AT,                   /* position of its first frame in the stream, modulo 2^32                            */
    HEADER_TO,                   /* a mask: its device address (two words; 0: silence) and the number of its making   */
    HEADER_FROM = 5,             /* the same of the mask that fades out                                               */
    HEADER_FADE_POS = 8,         /* as in struct fade                                                                 */
    HEADER_FADE_LEN = 9          /* 0: no fade                                                                        */
};

/* A mask on the device, at the address in the request: this struct, then the tables of resident_tables. A row is an
 * output of a part. All rows of part 0 come first. */
struct resident_mask {
    int n_taps;                  /* of every response: a multiple of 4, at most `history`                             */
    int n_cells;
    int pad[2];
};

/* The positions of a mask's tables, in 4-byte units. The device has the tables of all rows, shared memory those of a
 * worker's rows. */
struct resident_tables {
    int first_cell;              /* int [n_rows + 1]: row r has the cells first_cell[r] ... [r + 1]                   */
    int in_of;                   /* int [n_cells]: the input, counted from the first one of the part                  */
    int taps;                    /* float [n_cells][n_taps], 16-byte aligned                                          */
};

/* Returns the tables from unit `at` on, a multiple of 4. */
RESIDENT_INLINE struct resident_tables resident_tables_at(int at, int n_rows, int n_cells)
{
    const int in_of = at + (n_rows + 1 + 3) / 4 * 4;
    return {at, in_of, in_of + (n_cells + 3) / 4 * 4};
}

struct resident_job {            /* what the workers of an engine need; constant                                      */
    struct resident_job *on_device; /* this struct in device memory, from resident_enter on                           */
    struct resident_word *request; /* [RESIDENT_RING][request_words], pinned host memory                              */
    struct resident_word *copy;  /* the same in device memory; NULL: one worker                                       */
    struct resident_word *answer; /* [n_out][block], pinned host memory                                               */
    struct resident_word *sums;  /* [n_workers][RESIDENT_RING][outs * block], device memory; NULL: one part          */
    float *histories;            /* [n_workers][ins][history], device memory: between two generations                 */
    uint32_t *checkpoints;       /* [n_workers][CHECKPOINT_WORDS], device memory                                      */
    int n_in, n_out, block;
    int history;                 /* frames before a block that its output depends on; a multiple of 4                 */
    int row, block_span;         /* floats of an input in shared memory; of these, those that a block may touch       */
    int sums_at, views_at;       /* where a worker's shared memory has the sums of its group, and masks, in floats    */
    int n_groups, n_parts;       /* worker w is part w % n_parts of group w / n_parts                                 */
    int outs, ins;               /* max. of a worker                                                                  */
    int n_cached;                /* masks of which a worker has the taps in shared memory: 1, or 2 for crossfades     */
    int cache_taps;              /* floats for the taps of each; a multiple of 4                                      */
    int request_words;           /* RESIDENT_HEADER + n_in * block                                                    */
    int first_seat, n_workers;
    size_t shared_bytes;         /* resident_shared_bytes                                                             */
};

/* Returns the first output of a group, and the first input of a part. */
RESIDENT_INLINE int resident_first_out(const struct resident_job *job, int group)
{
    return job->n_out * group / job->n_groups;
}

RESIDENT_INLINE int resident_first_in(const struct resident_job *job, int part)
{
    return job->n_in * part / job->n_parts;
}

/* ---- the kernel -------------------------------------------------------------------------------------------------- */

struct resident_seat {
    uint32_t newest_generation;  /* of the workers that have come to the seat                                         */
    uint32_t is_held;            /* 1: a worker serves here                                                           */
};

struct resident_launch {
    struct resident_seat *seats; /* [n_seats], device memory                                                          */
    uint32_t *started;           /* pinned host memory: the generation that has started                               */
    uint32_t *stalls;            /* [n_seats], pinned host memory: how often a worker stood still for STALL_NS        */
    uint64_t idle_ns, max_ns;    /* after idle_ns without a block a worker hands over, too; after max_ns it leaves    */
    bool on_demand;              /* a first worker leaves when no request is there, the others after idle_ns          */
    size_t shared_bytes;         /* of the largest worker                                                             */
    int n_seats;
    uint32_t generation;
    const struct resident_job *jobs[RESIDENT_SEATS]; /* on the device, or NULL; last: else registers spill            */
};

/* Returns the bytes of shared memory of a worker of this job. */
size_t resident_shared_bytes(const struct resident_job *job);
cudaError_t resident_start(const struct resident_launch *launch, cudaStream_t stream);
/* Loads the kernel on the current device. *shared_max: the shared memory that a worker can have. */
cudaError_t resident_load(size_t *shared_max);
/* Returns how many workers fit on a multiprocessor. */
int resident_workers_per_sm(size_t shared_bytes);

/* ---- the service: one for each device ---------------------------------------------------------------------------- */

struct resident_service;

/* Enters a job, with job->n_workers set, and starts the service if it is the first one. Returns when a generation
 * that was launched after this call has started. HC_EUNSUPPORTED: the GPU cannot serve it; `why` says why. *service is
 * NULL if the job is not entered; else the caller calls resident_leave, even after an error. [setup] */
int resident_enter(int device, struct resident_job *job, struct resident_service **service, struct reason *why);
/* Takes a job out: generations that are launched from now on do not see it. Then the owner posts a request of 0 frames,
 * and calls resident_follow. [setup] */
void resident_leave(struct resident_service *service, struct resident_job *job);
/* Work that is put into the stream from now on waits until all generations launched so far have left. [setup] */
void resident_follow(struct resident_service *service, cudaStream_t stream);
/* Reports a request: the kernel stays, or comes back. [rt] */
void resident_posted(struct resident_service *service, int64_t now_us);
/* Lets the manager have the priority right below the calling audio thread's. The audio thread that
 * called last counts. [rt] */
void resident_lead(struct resident_service *service);
/* Returns the reason why the device is lost; NULL: it works. [rt] */
const char *resident_lost(const struct resident_service *service);
/* Says whether the kernel stays on the GPU, and if not, why. [rt], any thread */
const char *resident_mode(const struct resident_service *service);

#endif
