/* mailbox - the last request for a source, put by any thread and taken by the engine thread.
 *
 * A writer fills in a record that nobody uses and exchanges it with the pending one. So no thread ever waits, and the
 * engine thread never sees half a request.
 */
#ifndef HALOCONV_MAILBOX_H
#define HALOCONV_MAILBOX_H

#include "bank.h"

#include <stdbool.h>

struct steer_request {
    hc_bank *bank; /* counted in its uses; NULL if n is 0 */
    int n;
    int entry[HC_MAX_MIX];
    float weight[HC_MAX_MIX];
};

struct mailbox_record {
    atomic_bool is_taken; /* pending, or in the hands of a thread */
    struct steer_request request;
};

enum { MAILBOX_RECORDS = 4, CACHE_LINE = 64 };

struct mailbox { /* the first record, which is nearly always the one in use, shares a cache line with `pending` */
    _Alignas(CACHE_LINE) _Atomic(struct mailbox_record *) pending;
    struct mailbox_record records[MAILBOX_RECORDS];
};

/* Puts a request, whose use of the bank goes to the mailbox. If several threads put requests at the same moment, one
 * of these requests wins. [rt], any thread */
void mailbox_put(struct mailbox *mailbox, const struct steer_request *request);

/* Takes the last request with its use of the bank. false: there is none. [rt], one thread */
bool mailbox_take(struct mailbox *mailbox, struct steer_request *request);

#endif
