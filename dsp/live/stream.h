/* stream - the input of a session as its engines read it: the history, its rate and its usual block. */
#ifndef STREAM_H
#define STREAM_H

#include "input_history.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct stream {
    struct input_history history;
    atomic_int_fast64_t begin;           /* the first frame of the history at the present rate                 */
    atomic_int_fast64_t forgotten;       /* no engine that plays knows frames before this one (hc_live_forget) */
    atomic_uint_fast64_t format;         /* rate << 32 | block, as last requested                              */
    atomic_bool freewheels;              /* true: blocks have no deadlines                                     */
    bool has_hung;                       /* a device hung when its engine was closed; for workers              */
};

static inline int format_rate(uint64_t format)
{
    return (int)(format >> 32);
}

static inline int format_block(uint64_t format)
{
    return (int)(uint32_t)format;
}

/* Returns the requested rate. [rt], any thread, as all calls below */
static inline int stream_rate(const struct stream *stream)
{
    return format_rate(atomic_load_explicit(&stream->format, memory_order_relaxed));
}

static inline int stream_block(const struct stream *stream)
{
    return format_block(atomic_load_explicit(&stream->format, memory_order_relaxed));
}

static inline bool stream_freewheels(const struct stream *stream)
{
    return atomic_load_explicit(&stream->freewheels, memory_order_relaxed);
}

#endif
