/* take_driver - the data that a take and the callbacks of its driver share: JACK or PortAudio. */
#ifndef TAKE_DRIVER_H
#define TAKE_DRIVER_H

#include "host/message.h"
#include "take.h"

#include <signal.h>
#include <stdatomic.h>

struct take_job {                /* one take; the control thread sets it up, and frees it when no callback has it  */
    int output;
    const float *play;           /* [n_play]                                                                       */
    float *const *record;        /* [n_inputs][n_record]                                                           */
    int64_t n_play, n_record;
    int gaps_before;             /* take.gaps when the take began                                                  */
    atomic_bool has_start;
    atomic_uint start;           /* frame 0 on the driver's clock; set before has_start                            */
    atomic_int_fast64_t played, recorded; /* frames                                                                */
};

struct take_side {               /* one callback                                                                   */
    bool is_new;                 /* true before the first cycle                                                    */
    uint32_t next;               /* time of the next cycle, if no frame is lost                                    */
    atomic_int_fast64_t passed;  /* frames since the driver began                                                  */
};

struct take {
    struct take_settings settings;
    const struct take_driver *driver;
    void *card;                  /* the driver's struct                                                            */
    int rate;
    sigset_t signals;            /* the caller's                                                                   */
    bool is_closed;              /* a take failed for good: no callback runs any more                              */
    bool is_stuck;               /* a call of the library hangs: it may still use this struct                      */
    bool is_open;
    char why[MESSAGE_CAP];       /* why the card is not open, or is closed                                         */
    struct take_side player, recorder;
    _Atomic(struct take_job *) job; /* NULL: silence                                                               */
    atomic_int gaps;             /* interruptions of the sound since take_open                                     */
    atomic_bool is_down;         /* the server or the device ended                                                 */
};

struct take_driver {
    const char *gap;             /* remedy for gaps, as a text                                                     */
    /* Sets card and rate, and starts the callbacks. false: why has the reason; close undoes the rest. */
    bool (*open)(struct take *take, char *why, size_t cap);
    void (*name_output)(const struct take *take, int output, char *name, size_t cap);
    void (*close)(struct take *take); /* no callback runs afterwards                                               */
};

extern const struct take_driver take_jack, take_portaudio; /* open fails in a build without the library            */

/* Handle one cycle of n frames: the callbacks call both, in two threads or in one. time: the first frame's, on the
 * driver's clock of frames, which wraps round. take_play_cycle writes all of out[n_outputs][n]. Neither waits or
 * allocates. */
void take_play_cycle(struct take *take, uint32_t time, float *const *out, int n);
void take_record_cycle(struct take *take, uint32_t time, const float *const *in, int n);

#endif
