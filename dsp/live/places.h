/* places - where each source is, as last requested. Any thread puts a place; any thread reads it, as often as it likes.
 *
 * A writer fills in a record that nobody else uses, and then lets `newest` name that record. A stamp comes
 * back only after 2^30 uses of its record: a reader that finds the same stamp in `newest` before and after it copies
 * has a whole place. No thread waits.
 */
#ifndef PLACES_H
#define PLACES_H

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>

struct steer_target {
    float position[3]; /* metres: x ahead, y left, z up of the listener     */
    float gain;        /* linear                                            */
    int entry;         /* of the bank; -1: the one at the position          */
    unsigned put_us;   /* the clock of await.h when it was put, modulo 2^32 */
};

enum { PLACE_WORDS = sizeof(struct steer_target) / sizeof(unsigned), PLACE_RECORDS = 4 };

struct place_record {
    atomic_bool is_taken;           /* `newest` names it, or a writer fills it in                   */
    unsigned version;               /* counts its uses; the writer's that has it                    */
    atomic_uint words[PLACE_WORDS];
};

struct place_mailbox {              /* zeroed: nobody has put a place                               */
    atomic_uint newest;             /* its stamp: version * PLACE_RECORDS + record; 0: there is none */
    struct place_record records[PLACE_RECORDS];
};

#define NO_STAMP UINT_MAX            /* of a reader that has not read yet                            */

/* If several threads put places at the same moment, the place of one of them wins. [rt], any thread */
void place_put(struct place_mailbox *mailbox, const struct steer_target *place);

/* Copies the place if *stamp is not its stamp. If nobody has put a place, *stamp becomes 0 and *place stays. false: the
 * stamp is the same, or too many threads put places at this moment; read again later. [rt], any thread */
bool place_read(struct place_mailbox *mailbox, unsigned *stamp, struct steer_target *place);

struct places {
    int n;                          /* sources                                                      */
    bool mixes;                     /* hc_live_config.mix_entries                                   */
    double glide_ms;                /* hc_live_config                                               */
    struct place_mailbox *mailboxes; /* [n]                                                         */
};

#endif
