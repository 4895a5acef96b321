#include "mailbox.h"

#include "memory.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 64, MAX_READS = 8 };

struct record {
    atomic_bool is_used; /* `newest` names this record, or a thread fills the record in or copies it */
    unsigned version;    /* counts uses of the record; only the thread that set is_used writes it */
    _Atomic uint64_t words[];
};

struct mailbox {
    atomic_uint newest; /* version * MAILBOX_RECORDS + record; 0: empty */
    unsigned unused;
    /* MAILBOX_RECORDS records follow */
};

static struct mailbox *mailbox_at(const struct mailboxes *m, int i)
{
    return (struct mailbox *)(void *)(m->memory + (size_t)i * m->stride);
}

static size_t record_bytes(size_t bytes)
{
    return sizeof(struct record) + bytes;
}

static struct record *record_at(const struct mailboxes *m, struct mailbox *box, unsigned stamp)
{
    return (struct record *)(void *)((char *)(box + 1) + stamp % MAILBOX_RECORDS * record_bytes(m->bytes));
}

bool mailboxes_open(struct mailboxes *m, int n, size_t bytes)
{
    m->n = n;
    m->bytes = bytes;
    m->stride = round_up(sizeof(struct mailbox) + MAILBOX_RECORDS * record_bytes(bytes), LINE);
    m->memory = memory_lines((size_t)n, m->stride);
    return m->memory != NULL;
}

void mailboxes_close(struct mailboxes *m)
{
    free(m->memory);
    m->memory = NULL;
}

static void words_store(const struct mailboxes *m, struct record *record, const char *value)
{
    const size_t n = m->bytes / sizeof(uint64_t); /* read once: C allows the stores below to change m->bytes */
    for (size_t i = 0; i < n; i++) {
        uint64_t word;
        memcpy(&word, value + i * sizeof word, sizeof word);
        atomic_store_explicit(&record->words[i], word, memory_order_release);
    }
}

static void words_load(const struct mailboxes *m, const struct record *record, char *value)
{
    const size_t n = m->bytes / sizeof(uint64_t);
    for (size_t i = 0; i < n; i++) {
        uint64_t word = atomic_load_explicit(&record->words[i], memory_order_acquire);
        memcpy(value + i * sizeof word, &word, sizeof word);
    }
}

/* Copies the value of a record that only this thread uses to *value, unless value is NULL, and ends the use. */
static void record_end(const struct mailboxes *m, struct record *record, void *value)
{
    if (value) memcpy(value, (const void *)record->words, m->bytes);
    atomic_store_explicit(&record->is_used, false, memory_order_release);
}

bool mailbox_put(const struct mailboxes *m, int i, const void *value, void *unread)
{
    struct mailbox *box = mailbox_at(m, i);
    struct record *record = NULL;
    unsigned r = 0;
    for (; r < MAILBOX_RECORDS; r++) {
        record = record_at(m, box, r);
        if (!atomic_exchange_explicit(&record->is_used, true, memory_order_acquire)) break;
    }
    if (r == MAILBOX_RECORDS) { /* other threads use all records: the value of one of these threads wins */
        if (unread) memcpy(unread, value, m->bytes);
        return true;
    }
    words_store(m, record, value);
    record->version = record->version == UINT_MAX / MAILBOX_RECORDS - 1 ? 1 : record->version + 1; /* never 0 */
    unsigned stamp = record->version * MAILBOX_RECORDS + r;
    unsigned replaced = atomic_exchange_explicit(&box->newest, stamp, memory_order_acq_rel);
    if (replaced) record_end(m, record_at(m, box, replaced), unread);
    return replaced != 0;
}

bool mailbox_remove(const struct mailboxes *m, int i, void *value)
{
    struct mailbox *box = mailbox_at(m, i);
    if (!atomic_load_explicit(&box->newest, memory_order_relaxed)) return false;
    unsigned removed = atomic_exchange_explicit(&box->newest, 0, memory_order_acquire);
    if (removed) record_end(m, record_at(m, box, removed), value);
    return removed != 0;
}

bool mailbox_read(const struct mailboxes *m, int i, unsigned *stamp, void *value)
{
    struct mailbox *box = mailbox_at(m, i);
    unsigned before = atomic_load_explicit(&box->newest, memory_order_acquire);
    for (int k = 0; k < MAX_READS && before != *stamp; k++) {
        /* If a later writer stored one of these words, the second read of `newest` returns another stamp. */
        if (before) words_load(m, record_at(m, box, before), value);
        unsigned after = atomic_load_explicit(&box->newest, memory_order_acquire);
        if (after == before) {
            *stamp = after;
            return true;
        }
        before = after;
    }
    return false;
}
