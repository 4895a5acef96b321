#include "text_mailbox.h"

#include <string.h>

void text_mailbox_open(struct text_mailbox *m)
{
    atomic_init(&m->full, -1);
    for (int i = 0; i < N_TEXTS; i++) atomic_init(&m->buffers[i].taken, false);
}

static void let_go(struct text_mailbox *m, int i)
{
    if (i >= 0) atomic_store_explicit(&m->buffers[i].taken, false, memory_order_release);
}

bool text_mailbox_put(struct text_mailbox *m, const char *text)
{
    size_t bytes = strlen(text) + 1;
    if (bytes > TEXT_CAP) return false;
    for (int i = 0; i < N_TEXTS; i++) {
        if (atomic_exchange_explicit(&m->buffers[i].taken, true, memory_order_acquire)) continue;
        memcpy(m->buffers[i].text, text, bytes);
        let_go(m, atomic_exchange_explicit(&m->full, i, memory_order_acq_rel));
        return true;
    }
    return false;
}

bool text_mailbox_take(struct text_mailbox *m, char *text)
{
    int i = atomic_exchange_explicit(&m->full, -1, memory_order_acq_rel);
    if (i >= 0) memcpy(text, m->buffers[i].text, TEXT_CAP);
    let_go(m, i);
    return i >= 0;
}
