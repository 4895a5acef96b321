/* glide - moves a source steadily from one target to the next: trackers send 20 to 150 positions a second, and jumps
 * between them would be audible as steps.
 *
 *   target at each message the source leaves the place where it is then, and arrives at the frame `end`
 *   end    the time of the message + the length of the glide. While messages come regularly, ends are an interval apart
 *          and follow jitter by an eighth only: a source that turns steadily keeps a steady speed
 *   way    the short way on the sphere for the direction; linear for distance and gain
 */
#ifndef GLIDE_H
#define GLIDE_H

#include <stdbool.h>
#include <stdint.h>

struct steer_target {
    float position[3];           /* metres: x ahead, y left, z up of the listener                  */
    float gain;                  /* linear                                                         */
    int entry;                   /* an entry of the bank; -1: the entry at the position            */
    unsigned put_us;             /* time of the request by the clock of await.h, modulo 2^32       */
};

struct glide {
    struct steer_target to;      /* the end of the glide                                           */
    int64_t start, end;          /* frames of the stream                                           */
    double from[3], across[3];   /* unit vectors at right angles: the great circle of the way      */
    double angle;                /* radians between start and end                                  */
    double distance;             /* distance at the start, metres                                  */
    float gain;                  /* gain at the start                                              */
    double message;              /* frame of the last message                                      */
    double interval;             /* frames between two messages, smoothed; 0: not known            */
    bool was_long;               /* the last interval was too long, and did not count              */
};

struct glide_clock {
    int64_t frame;               /* the frame of the stream at which the block begins                  */
    int n;                       /* frames of that block                                               */
    int rate;                    /* Hz                                                                 */
    double glide_ms;             /* length of a glide; 0: by the rate of messages; below 0: no glide   */
};

/* Jumps to the target. [rt], as all calls here */
void glide_jump(struct glide *glide, const struct steer_target *target);

/* Begins a glide to a target that was put `age` frames before the block; age < 0: at an unknown time since the block
 * before. The source jumps to or from an entry; a silent source begins at the new position. A repeated position changes
 * nothing: a tracker repeats it while the head is still. */
void glide_to(struct glide *glide, const struct steer_target *target, double age, const struct glide_clock *clock);

/* Stores the source's position at a frame. false: the glide has ended before that frame. */
bool glide_at(const struct glide *glide, int64_t frame, struct steer_target *target);

#endif
