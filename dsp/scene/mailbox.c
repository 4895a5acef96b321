#include "mailbox.h"

static void record_free(struct mailbox_record *record)
{
    atomic_store_explicit(&record->is_taken, false, memory_order_release);
}

void mailbox_put(struct mailbox *m, const struct steer_request *request)
{
    struct mailbox_record *record = NULL;
    for (int i = 0; i < MAILBOX_RECORDS && !record; i++)
        if (!atomic_exchange_explicit(&m->records[i].is_taken, true, memory_order_acquire)) record = &m->records[i];
    if (!record) { /* other threads hold all of them: a request of theirs wins */
        bank_unuse(request->bank, 1);
        return;
    }
    record->request = *request;
    struct mailbox_record *replaced = atomic_exchange_explicit(&m->pending, record, memory_order_acq_rel);
    if (!replaced) return;
    bank_unuse(replaced->request.bank, 1);
    record_free(replaced);
}

bool mailbox_take(struct mailbox *m, struct steer_request *request)
{
    if (!atomic_load_explicit(&m->pending, memory_order_relaxed)) return false;
    struct mailbox_record *record = atomic_exchange_explicit(&m->pending, NULL, memory_order_acquire);
    if (!record) return false;
    *request = record->request;
    record_free(record);
    return true;
}
