#include "midi.h"

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
