#include "midi_ring.h"

#include <string.h>

void midi_ring_put(struct midi_ring *ring, const uint8_t *bytes, size_t n)
{
    if (n < 2 || n > 3 || bytes[0] < 0x80 || bytes[0] >= 0xf0) return;
    unsigned written = atomic_load_explicit(&ring->written, memory_order_relaxed);
    if (written - atomic_load_explicit(&ring->dequeued, memory_order_acquire) == MIDI_RING_CAP) {
        atomic_fetch_add_explicit(&ring->lost, 1, memory_order_relaxed);
        return;
    }
    struct midi_message *entry = &ring->message[written % MIDI_RING_CAP];
    *entry = (struct midi_message){0};
    memcpy(entry->bytes, bytes, n);
    atomic_store_explicit(&ring->written, written + 1, memory_order_release);
}

bool midi_ring_read(struct midi_ring *ring, struct midi_message *message)
{
    unsigned dequeued = atomic_load_explicit(&ring->dequeued, memory_order_relaxed);
    if (dequeued == atomic_load_explicit(&ring->written, memory_order_acquire)) return false;
    *message = ring->message[dequeued % MIDI_RING_CAP];
    atomic_store_explicit(&ring->dequeued, dequeued + 1, memory_order_release);
    return true;
}

static bool midi_ring_next(void *data, struct midi_message *message)
{
    return midi_ring_read(data, message);
}

static uint64_t midi_ring_lost(void *data)
{
    const struct midi_ring *ring = data;
    return atomic_load(&ring->lost);
}

struct midi_source midi_ring_source(struct midi_ring *ring)
{
    return (struct midi_source){.data = ring, .next = midi_ring_next, .lost = midi_ring_lost, .fd = -1};
}
