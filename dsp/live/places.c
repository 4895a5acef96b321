#include "places.h"

#include <string.h>

enum { MAX_READS = 8 };

void place_put(struct place_mailbox *m, const struct steer_target *place)
{
    struct place_record *record = NULL;
    unsigned words[PLACE_WORDS], i = 0;
    for (; i < PLACE_RECORDS && !record; i++)
        if (!atomic_exchange_explicit(&m->records[i].is_taken, true, memory_order_acquire)) record = &m->records[i];
    if (!record) return; /* other threads hold all of them: the place of one of these threads wins */
    memcpy(words, place, sizeof words);
    for (int k = 0; k < PLACE_WORDS; k++) atomic_store_explicit(&record->words[k], words[k], memory_order_release);
    record->version = record->version % (UINT_MAX / PLACE_RECORDS - 1) + 1; /* never 0 */
    unsigned stamp = record->version * PLACE_RECORDS + (i - 1);
    unsigned replaced = atomic_exchange_explicit(&m->newest, stamp, memory_order_acq_rel);
    if (replaced) atomic_store_explicit(&m->records[replaced % PLACE_RECORDS].is_taken, false, memory_order_release);
}

bool place_read(struct place_mailbox *m, unsigned *stamp, struct steer_target *place)
{
    unsigned words[PLACE_WORDS], newest = atomic_load_explicit(&m->newest, memory_order_acquire);
    for (int i = 0; i < MAX_READS && newest != *stamp; i++) {
        if (newest == 0) {
            *stamp = 0;
            return true;
        }
        struct place_record *record = &m->records[newest % PLACE_RECORDS];
        /* A word of a later writer comes with the stamp that this writer has seen, or a later one. */
        for (int k = 0; k < PLACE_WORDS; k++) words[k] = atomic_load_explicit(&record->words[k], memory_order_acquire);
        unsigned now = atomic_load_explicit(&m->newest, memory_order_acquire);
        if (now == newest) {
            memcpy(place, words, sizeof words);
            *stamp = now;
            return true;
        }
        newest = now;
    }
    return false;
}
