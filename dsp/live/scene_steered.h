/* steered - the sources of a failover: the banks in the memory of its engines' devices, and the positions that were
 * sent to both engines.
 *
 *   worker: engine_banks_make --> next --> playing --> former --> the worker frees them
 *                                       steered_move sends an engine each source that has moved, by glide.h
 *
 * A change of the bank is a change of every position: all sources fade to entries of the next bank. The standby engine
 * gets the positions after the main engine has played a block, because it plays that block later.
 */
#ifndef STEERED_H
#define STEERED_H

#include "bank_set.h"
#include "dsp/base/mailbox.h"
#include "dsp/base/error.h"
#include "scene_glide.h"
#include "haloconv.h"

#include <stdatomic.h>
#include <stdbool.h>

struct positions {                           /* last requested position of each source                          */
    int n;                                   /* sources                                                         */
    bool mixes;                              /* hc_live_config.mix_entries                                      */
    double glide_ms;                         /* hc_live_config.glide_ms                                         */
    struct mailboxes targets;                /* [n]: struct steer_target; every engine reads them               */
};

struct engine_banks {
    struct bank_set *set;
    hc_bank **main, **standby;               /* [set->n_banks]; NULL: the standby engine does not play the bank */
};

struct sent {                                /* the last mix of a source sent to the main engine                 */
    unsigned stamp;                          /* stamp of the target; NO_STAMP: nothing was sent                  */
    unsigned number;                         /* counts changes of the fields below                              */
    int n, entry[HC_MAX_MIX];
    float weight[HC_MAX_MIX];
    bool glides;                             /* the source has not reached its target                           */
};

struct steered {
    struct positions *positions;
    int n_sources;                           /* sources of the engines; 0: the calls below do nothing           */
    _Atomic(struct engine_banks *) next;     /* worker -> thread that uses the failover                         */
    _Atomic(struct engine_banks *) former;   /* thread that uses the failover -> worker                         */
    /* used by the thread that uses the failover: */
    struct engine_banks *playing;            /* NULL: silence                                                   */
    struct sent *sent;                       /* [n_sources]                                                     */
    struct glide *glides;                    /* [n_sources]                                                     */
    struct glide_clock clock;
    unsigned *standby_numbers;               /* [n_sources]: sent.number of the standby engine's entries        */
    bool has_former;                         /* a worker should free `former`                                   */
};

/* false: no memory. [setup] */
bool steered_open(struct steered *steered, const hc_config *config, struct positions *positions);
void steered_close(struct steered *steered);

/* Makes the banks of a set for an engine, or for a standby engine. [setup] */
int engine_banks_make(struct bank_set *set, hc_engine *main, struct engine_banks **banks, struct reason *why);
int engine_banks_make_standby(struct engine_banks *banks, hc_engine *standby, struct reason *why);
void engine_banks_free_standby(struct engine_banks *banks);
void engine_banks_free(struct engine_banks *banks);

/* Hands over banks, which play from the next steered_move on. [setup] */
void steered_load(struct steered *steered, struct engine_banks *banks);
/* Frees banks that no longer play. [setup] */
void steered_sweep(struct steered *steered);

/* Switches to the next banks, and sends the main engine the positions that the sources have after the next n frames. n
 * = 0: the engine is not active, and its sources jump to their last targets. now_us: the time of the
 * block (await.h); 0: the session freewheels, and times are ignored. [rt], the thread that uses the failover */
void steered_move(struct steered *steered, hc_engine *main, int n, int64_t now_us);
/* Ends all glides and reads every position again at the next steered_move. [rt], the thread that uses the failover */
void steered_reset(struct steered *steered);
/* Sends the standby engine the entries that the main engine has; NULL is allowed. */
void steered_move_standby(struct steered *steered, hc_engine *standby);

#endif
