#include "midi.h"

#include <string.h>

enum { MAX_AT_ONCE = 1000 }; /* messages in one call: the control thread has other work */

static void midi_refuse(const char *why)
{
    message_error("%s", why);
}

bool midi_open(struct midi *midi, const struct midi_settings *settings, char *why, size_t cap)
{
    *midi = (struct midi){.source.fd = -1,
                          .channel = settings->channel,
                          .limit = {.topic = "MIDI messages that were refused or lost", .max = 1}};
    midi_map_default(&midi->map);
    return !settings->map || midi_map_read(&midi->map, settings->map, midi_refuse, why, cap);
}

static void midi_apply(struct midi *midi, const struct midi_message *message, struct command_target *target)
{
    struct command command;
    char text[MESSAGE_CAP];
    if (midi->channel && (message->bytes[0] & 0xf) != midi->channel - 1) return;
    if (!midi_map_find(&midi->map, message, &command) || command_apply(target, &command, text, sizeof text)) return;
    if (message_limit_allows(&midi->limit)) message_note("MIDI: %s", text);
}

static void report_lost(struct midi *midi)
{
    uint64_t lost = midi->source.lost(midi->source.data), more = lost - midi->reported_lost;
    midi->reported_lost = lost;
    if (more == 0 || !message_limit_allows(&midi->limit)) return;
    message_note("MIDI: messages were lost %llu time%s, because too many came at once; send fewer",
                 (unsigned long long)more, message_s((int64_t)more));
}

void midi_tend(struct midi *midi, struct command_target *target)
{
    struct midi_message message;
    for (int i = 0; i < MAX_AT_ONCE && midi->source.next(midi->source.data, &message); i++)
        midi_apply(midi, &message, target);
    report_lost(midi);
    message_limit_tend(&midi->limit, false);
}

void midi_close(struct midi *midi)
{
    message_limit_tend(&midi->limit, true);
}

/* ---- the ring of messages --------------------------------------------------------------------- */

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
