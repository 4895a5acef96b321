/* rig - who convolves in a session: an engine and, where that is a device, an understudy on the CPU.
 *
 * The understudy plays along, to nobody, in a thread of its own: it hears the input off the tape a block later. When
 * the device is lost, or late many times in a row, the audio thread stops that thread, catches up with what it has not
 * heard yet, and plays on in the very block, with the full history and every tail under way: no gap is heard. This
 * costs the CPU's share of the mask on another core all the time. It is engaged only where that share, which is tried
 * out when a mask is loaded, is small enough.
 */
#ifndef RIG_H
#define RIG_H

#include "dsp/haloconv.h"
#include "tape.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum rig_state {
    RIG_WELL,
    RIG_UNDERSTUDY, /* the device is gone, the CPU plays                                    */
    RIG_GONE        /* the device is gone and nobody can play: the output is silence        */
};

enum rig_answer { RIG_PLAYED, RIG_LATE, RIG_SILENT }; /* late, silent: the output is zeros */

struct ear {                  /* an engine that hears the tape */
    hc_engine *engine;
    hc_mask *mask;            /* setup                                                                            */
    int64_t at;               /* frames of the tape that it has heard                                             */
    float *frames;            /* [n_in + n_out][block]                                                            */
    float **heard, **unheard; /* [n_in], [n_out] rows of frames: input off the tape, output to nobody             */
};

struct rig {
    hc_config config;
    hc_info info;             /* of the engine when it was opened                                                 */
    bool is_on_cpu;           /* the main one                                                                     */
    struct tape *tape;
    struct ear main;          /* the builder's until it is offered, then the audio thread's                       */
    struct ear understudy;    /* engine NULL: there is none; else of who has the baton                            */
    pthread_t shadow;         /* the understudy's thread                                                          */
    sem_t wake;               /* of the shadow, once a block                                                      */
    bool has_shadow;
    atomic_bool shadow_end;
    atomic_flag baton;        /* set: somebody plays the understudy now                                           */
    atomic_bool is_able;      /* the CPU can carry the mask                                                       */
    double most_cpu_share;    /* that the understudy may need                                                     */
    bool has_time;            /* freewheeling, or not yet playing: nothing needs to be done in time               */
    int late_in_row;          /* audio                                                                            */
    bool took_over;           /* audio: the baton is ours for good                                                */
    atomic_int state;         /* enum rig_state                                                                   */
    atomic_bool hung;         /* the device has not come back so far: closing the engine could hang as well       */
    int64_t late_us;          /* when late_in_row began; audio                                                    */
    struct rig *abandoned;    /* the next one, of those that hung                                                 */
};

/* Engines for config: where the first is not the CPU's, an understudy as well, which takes over if it needs no more
 * than most_cpu_share of a block's time (0: there is none). Plays silence. NULL: why has the reason. setup: one thread
 * at a time, beside the audio. */
struct rig *rig_open(const hc_config *config, struct tape *tape, double most_cpu_share, char *why, size_t cap);

/* A rig that hung is left as it is, and false is returned: the process must end by _exit. setup */
bool rig_close(struct rig *rig);

/* Make masks of the routes and fade to them. setup */
bool rig_load(struct rig *rig, const hc_route *routes, int n, char *why, size_t cap);

/* Play silence to nobody, so that the first launches are behind us; then frames [from, now) of the tape, so that they
 * are the history. The understudy goes its own way from here on. Once each, before the audio thread has it. setup */
void rig_warm(struct rig *rig);
void rig_follow(struct rig *rig, int64_t from);

/* The same for one that was offered and is too far behind. setup */
void rig_follow_on(struct rig *rig);

/* Does a device that was given up for being late answer again? Then the rig can be closed; it plays on. setup */
bool rig_answers(struct rig *rig);

/* The longest wait for a device from the next block on. [rt] */
void rig_wait(struct rig *rig, int wait_us);

/* Frames that it has not heard yet, and hearing them. [rt], bounded by their number */
int64_t rig_missing(const struct rig *rig);
void rig_catch_up(struct rig *rig);

/* n frames, up to the block; the tape ends with the frame before them. Clean input; in and out do not overlap. [rt] */
enum rig_answer rig_process(struct rig *rig, const float *const *in, float *const *out, int n);

/* Those n frames are on the tape: a wake-up for the understudy. [rt] */
void rig_heard(struct rig *rig);

enum rig_state rig_state(const struct rig *rig);

#endif
