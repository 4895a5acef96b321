#include "text_mailbox.h"

#include <string.h>

static void buffer_release(struct text_mailbox *m, int buffer)
{
    if (buffer > 0) atomic_store_explicit(&m->buffers[buffer - 1].taken, false, memory_order_release);
}

bool text_mailbox_put(struct text_mailbox *m, const char *text, uint64_t number)
{
    size_t bytes = strlen(text) + 1;
    if (bytes > TEXT_CAP) return false;
    for (int i = 0; i < N_TEXTS; i++) {
        if (atomic_exchange_explicit(&m->buffers[i].taken, true, memory_order_acquire)) continue;
        memcpy(m->buffers[i].text, text, bytes);
        m->buffers[i].number = number;
        buffer_release(m, atomic_exchange_explicit(&m->full, i + 1, memory_order_acq_rel));
        return true;
    }
    return false;
}

void text_mailbox_clear(struct text_mailbox *m)
{
    buffer_release(m, atomic_exchange_explicit(&m->full, 0, memory_order_acq_rel));
}

bool text_mailbox_take(struct text_mailbox *m, char *text, uint64_t *number)
{
    int buffer = atomic_exchange_explicit(&m->full, 0, memory_order_acq_rel);
    if (buffer == 0) return false;
    memcpy(text, m->buffers[buffer - 1].text, TEXT_CAP);
    *number = m->buffers[buffer - 1].number;
    buffer_release(m, buffer);
    return true;
}
