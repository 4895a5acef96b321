/* live_engine - an engine of a session, with its standby engine (a failover), and what the session knows about it. */
#ifndef LIVE_ENGINE_H
#define LIVE_ENGINE_H

#include "compare.h"
#include "failover.h"
#include "live_mask.h"
#include "stream.h"

enum {
    MAX_BLOCK = 8192,                    /* frames of an engine's block; a longer call is cut into chunks      */
    HISTORY_SLACK_S = 2                  /* oldest seconds, which a new engine does not read: they may soon
                                            be overwritten. They count at the first rate, as history_s does:
                                            at a higher rate a new engine would find too few frames            */
};

struct engine_format {
    int rate, block;
    char backend[64];                    /* the requested backend, or "cpu" after a loss                       */
    float trim_db;                       /* hc_live_change.trim_db; INFINITY: masks are whole                  */
};

struct live_engine {
    struct failover *failover;
    struct stream *stream;
    int64_t begin;                       /* stream.begin when the engine was made                              */
    int64_t forgotten;                   /* stream.forgotten when the engine was made or forgot it; for the thread
                                            that has the engine                                                */
    atomic_int number;                   /* the ready mask where it waits when it does not play (ready.h);
                                            0: it is closed when it does not play                              */
    uint64_t order;                      /* ready.noted when the engine was handed over                        */
    struct meter meter;
};

/* Makes an engine that plays a mask and has processed the history; positions: those of the sources. If its device
 * cannot be opened and the host allows that, the engine is on the CPU; `reports`: config.say gets a warning then. Fails
 * as hc_open and hc_mask_make do. [setup], as all calls here */
int live_engine_make(const hc_live_config *config, struct stream *stream, struct positions *positions,
                     const struct engine_format *format, const struct live_mask *mask, bool reports,
                     struct live_engine **engine, struct reason *why);

/* Forgets what the session has forgotten since the engine was made. [rt], the thread that has the engine */
void live_engine_forget(struct live_engine *engine);

/* Closes an engine. If its device hangs, a thread frees it later, and stream->has_hung is set. NULL is allowed. */
void live_engine_close(struct live_engine *engine);

/* Can the engine fade to a mask and its banks without a new engine? */
bool live_engine_fits(const struct live_engine *engine, const struct live_mask *mask);

#endif
