/* delayed_tail - the tail of backend hybrid, of masks and of moving sources: a device computes it hop by hop, behind a
 * queue.
 *
 *   frames   ... kS ......... (k+1)S ......... (k+2)S ......... (k+3)S
 *   input        [=== hop k ====)
 *   device                      [ S frames of time )
 *   output                                        [=== hop k ====)
 *
 * A complete hop of input goes to the device thread as a job (device_queue.h). S frames later the job's output is due.
 * If it is not complete then, one call in the hop waits for it until the call's deadline. If it is still not complete,
 * the hop has no tail: HC_LATE. The thread plays jobs in order: the device's input history contains a late hop too. If
 * all jobs are in use, a hop is skipped, and the device's history contains silence instead.
 *
 * Every engine has a separate device thread, so that a device that stalls delays only its own engines. Hops are counted
 * from the start of the stream. A host that runs fifty engines can start their streams in different calls, so that they
 * do not use the device at the same moment. The output of an engine does not depend on other engines.
 */
#ifndef HALOCONV_DELAYED_TAIL_H
#define HALOCONV_DELAYED_TAIL_H

#include "backend.h"
#include "device_queue.h"

enum { TAIL_JOBS = 4 }; /* one is filled, one is due, and two may be late */

struct delayed_tail_setup {
    const struct backend *backend; /* makes the buffers with `state` */
    void *state;
    int n_in, n_out, hop;
    /* Plays a job, as `play` of device_queue.h, but not after the device is lost. The buffer contains the input. */
    int (*play)(void *data, int64_t job, struct io_buffer *buffer, int n, struct reason *why);
    /* Is called after each job, even if the device is lost. May be NULL. [device thread] */
    void (*job_end)(void *data, int64_t job);
    void *data;
};

struct delayed_tail {
    struct delayed_tail_setup setup;
    struct device_queue *queue;
    struct io_buffer buffers[TAIL_JOBS], silence; /* job i has buffer i % TAIL_JOBS */
    /* Only the audio thread uses these: */
    int64_t hops[TAIL_JOBS]; /* the hop that is the input of each job; -1: none */
    int64_t hop;             /* index of the current hop */
    int pos;                 /* frames of the current hop that are complete */
    bool has_job;            /* this hop has a job for its input */
    bool has_waited;         /* delayed_tail_await has waited for the job that is due in this hop */
};

/* After an error the caller must still call delayed_tail_close. [setup] */
int delayed_tail_open(struct delayed_tail *tail, const struct delayed_tail_setup *setup, struct reason *why);
/* Call it before the state of the tail's backend is closed. A tail that is all 0 is allowed. [setup] */
void delayed_tail_close(struct delayed_tail *tail);
/* Begins a new stream. Every job must have ended: device_queue_drain. [setup] */
void delayed_tail_restart(struct delayed_tail *tail);
/* Returns the bytes of the buffers. */
double delayed_tail_memory(int n_in, int n_out, int hop);

/* ---- for the audio thread, all [rt] except a wait without bound -------------------------------------------------- */

/* Begins a hop. */
void delayed_tail_begin(struct delayed_tail *tail, int64_t until_us);
/* Finds the job whose output is due in this hop. -1: its hop was skipped, or the stream has not reached it. */
int64_t delayed_tail_due(const struct delayed_tail *tail);
/* Waits for the job `due` (-1: there is none) if its output is wanted. HC_LATE: the output is not complete.
 * HC_EDEVICE: it will never be complete. Jobs that ended before the device was lost are still used. */
int delayed_tail_await(struct delayed_tail *tail, int64_t due, bool is_wanted, int64_t until_us, struct reason *why);
/* Appends frames [at, at + n) of the rows to the input of this hop. */
void delayed_tail_input(struct delayed_tail *tail, const float *const *in, int at, int n);
/* Returns the number of the next job: this hop's, if it has one. */
int64_t delayed_tail_next(const struct delayed_tail *tail);
/* Ends a hop: posts its job, or skips it. */
void delayed_tail_end(struct delayed_tail *tail);

#endif
