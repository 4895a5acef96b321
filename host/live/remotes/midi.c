#include "midi.h"

#include "dsp/base/number.h"
#include "host/line_reader.h"
#include "host/message.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the map ---------------------------------------------------------------------------------- */

enum { VALUES = 128, ON_VALUE = 64, MAX_MASKS = 1 << 20, MAX_WORDS = 6 /* a line has 5 or fewer */ };
enum { PROGRAM_CHANGE = 0xc0, CONTROL_CHANGE = 0xb0, NOTE_ON = 0x90 };
static const double MIN_DB = -120, MAX_DB = 60;

/* The controllers are those that MIDI leaves undefined (20 to 31) or names "general purpose buttons" (80 to 83): a
 * keyboard's volume and pedals do nothing. A range of 63 dB is 126 steps of half a decibel, and value 115 is 0 dB. */
static const char *const defaults[] = {"program mask", "cc 20 wet -57 6", "cc 21 dry -57 6", "cc 22 gain -57 6",
                                       "cc 80 bypass", "cc 81 next",      "cc 82 previous",  "cc 83 reload"};
enum { N_DEFAULTS = sizeof defaults / sizeof *defaults };

static const struct action {
    const char *name;
    struct command command;
} actions[] = {
    {"wet", {.act = COMMAND_GAIN, .gain = &command_gains[1]}},
    {"dry", {.act = COMMAND_GAIN, .gain = &command_gains[2]}},
    {"gain", {.act = COMMAND_GAIN, .gain = &command_gains[0]}},
    {"bypass", {.act = COMMAND_BYPASS}},
    {"mask", {.act = COMMAND_MASK_NUMBER}},
    {"next", {.act = COMMAND_MASK_STEP, .number = 1}},
    {"previous", {.act = COMMAND_MASK_STEP, .number = -1}},
    {"reload", {.act = COMMAND_RELOAD}},
    {"ab", {.act = COMMAND_COMPARE_SWITCH}},
};
enum { N_ACTIONS = sizeof actions / sizeof *actions };
#define ACTION_NAMES "wet, dry, gain, bypass, mask, next, previous, reload or ab"
#define GAIN_EXAMPLE "cc 20 wet -57 6"

/* ---- a line ------------------------------------------------------------------------------------ */

struct words {
    char *list[MAX_WORDS];
    int n, at; /* at: index of the next word to read */
};

static const char *midi_next_word(struct words *words)
{
    return words->at < words->n ? words->list[words->at++] : "";
}

/* Reads a number from low to high; refuses NaN too. */
static bool midi_read_number(struct words *words, double min, double max, double *number)
{
    return number_is(midi_next_word(words), min, max, number);
}

static bool read_index(struct words *words, int min, int max, int *index)
{
    double number;
    if (!midi_read_number(words, min, max, &number) || number != floor(number)) return false;
    *index = (int)number;
    return true;
}

/* Returns the entry of a message in the map; NULL: such a message does not exist. */
static struct midi_assignment *midi_read_message(struct words *words, struct midi_map *map)
{
    const char *kind = midi_next_word(words);
    bool is_cc = strcmp(kind, "cc") == 0;
    int index;
    if (strcmp(kind, "program") == 0) return &map->program;
    if ((!is_cc && strcmp(kind, "note") != 0) || !read_index(words, 0, VALUES - 1, &index)) return NULL;
    return is_cc ? &map->cc[index] : &map->note[index];
}

static bool read_action(struct words *words, struct midi_assignment *to, char *why, size_t cap)
{
    const char *name = midi_next_word(words);
    for (const struct action *action = actions; action < actions + N_ACTIONS; action++)
        if (strcmp(action->name, name) == 0) to->command = action->command;
    return to->command.act != COMMAND_NONE ||
           message_write(why, cap, "\"%.40s\" is not an action; give " ACTION_NAMES, name);
}

/* Reads the numbers of an action. is_program, is_note: kind of the message; else a controller. */
static bool midi_read_numbers(struct words *words, struct midi_assignment *to, bool is_program, bool is_note, char *why,
                              size_t cap)
{
    struct command *command = &to->command;
    if (is_program && command->act != COMMAND_MASK_NUMBER)
        return message_write(why, cap, "a program selects a mask and does nothing else; write: program mask");
    if (is_note && command->act == COMMAND_GAIN)
        return message_write(why, cap, "a note has no value for a gain; give a controller, as in: " GAIN_EXAMPLE);
    if (command->act == COMMAND_GAIN &&
        !(midi_read_number(words, MIN_DB, MAX_DB, &to->low_db) &&
          midi_read_number(words, MIN_DB, MAX_DB, &to->high_db) && to->low_db < to->high_db))
        return message_write(why, cap,
                             "has no range; give two gains from %.0f to %.0f dB, the lower first, as in: " GAIN_EXAMPLE,
                             MIN_DB, MAX_DB);
    if (command->act == COMMAND_MASK_NUMBER && !is_program && !read_index(words, 1, MAX_MASKS, &command->number))
        return message_write(why, cap, "has no number of a mask; give its position in the list, as in: note 60 mask 1");
    /* A key that is released must not switch bypass off. */
    if (is_note && command->act == COMMAND_BYPASS) command->act = COMMAND_BYPASS_TOGGLE;
    return words->at == words->n ||
           message_write(why, cap, "\"%.40s\" is one word too many; delete it, or put # before it",
                         midi_next_word(words));
}

/* Reads the assignment of a line, if the line has one. */
static bool midi_read_line(struct midi_map *map, char *line, size_t number, char *why, size_t cap)
{
    struct words words = {.n = 0};
    char *rest = line, *word;
    line[strcspn(line, "#")] = 0;
    while (words.n < MAX_WORDS && (word = strtok_r(rest, " \t\r\n", &rest))) words.list[words.n++] = word;
    if (words.n == 0) return true;
    struct midi_assignment *entry = midi_read_message(&words, map), read = {.line = number};
    if (!entry)
        return message_write(why, cap,
                             "does not begin with a message; begin with cc or note and its number from 0 to %d, or "
                             "with program",
                             VALUES - 1);
    bool is_note = entry >= map->note && entry < map->note + VALUES;
    if (!read_action(&words, &read, why, cap) ||
        !midi_read_numbers(&words, &read, entry == &map->program, is_note, why, cap))
        return false;
    if (entry->line)
        return message_write(why, cap, "this message has an action in line %zu; leave one out", entry->line);
    *entry = read;
    return true;
}

/* ---- a map ------------------------------------------------------------------------------------- */

void midi_map_default(struct midi_map *map)
{
    char line[64], why[MESSAGE_CAP];
    *map = (struct midi_map){0};
    for (size_t i = 0; i < N_DEFAULTS; i++) {
        snprintf(line, sizeof line, "%s", defaults[i]);
        midi_read_line(map, line, i + 1, why, sizeof why);
    }
}

bool midi_map_read(struct midi_map *map, const char *path, void (*refuse)(const char *why), char *why, size_t cap)
{
    struct line_reader in;
    enum line_state got;
    char reason[MESSAGE_CAP];
    int n_refused = 0;
    *map = (struct midi_map){0};
    if (!line_reader_open(&in, path, "check the path of --midi-map", reason, sizeof reason))
        return message_write(why, cap, "%s", reason);
    while (n_refused < MIDI_MAP_REFUSALS && (got = line_read(&in)) != LINE_END) {
        if (got == LINE_READ && midi_read_line(map, in.line, in.number, reason, sizeof reason)) continue;
        if (n_refused++ > 0) refuse(why);
        if (got == LINE_READ)
            message_write(why, cap, "%s:%zu: %s", path, in.number, reason);
        else
            message_write(why, cap, "%s", reason);
        if (got == LINE_FAILED) break;
    }
    line_reader_close(&in);
    return n_refused == 0;
}

/* ---- messages ---------------------------------------------------------------------------------- */

/* Returns the gain of a controller's value: equal steps in dB from value 1 on. */
static double gain_db(const struct midi_assignment *to, int value)
{
    return value > 0 ? to->low_db + (to->high_db - to->low_db) * (value - 1) / (VALUES - 2) : -INFINITY;
}

bool midi_map_find(const struct midi_map *map, const struct midi_message *message, struct command *command)
{
    int kind = message->bytes[0] & 0xf0, number = message->bytes[1], value = message->bytes[2];
    if (number >= VALUES || (kind != PROGRAM_CHANGE && value >= VALUES)) return false; /* a data byte has 7 bits */
    const struct midi_assignment *found = kind == PROGRAM_CHANGE   ? &map->program
                                          : kind == CONTROL_CHANGE ? &map->cc[number]
                                          : kind == NOTE_ON        ? &map->note[number]
                                                                   : NULL;
    if (!found || found->command.act == COMMAND_NONE) return false;
    *command = found->command;
    if (kind == NOTE_ON) return value > 0; /* 0 is the release of the key */
    if (kind == PROGRAM_CHANGE)
        command->number = number + 1;
    else if (command->act == COMMAND_GAIN)
        command->db = gain_db(found, value);
    else if (command->act == COMMAND_BYPASS)
        command->on = value >= ON_VALUE;
    else
        return value >= ON_VALUE; /* a button that is released sends 0 */
    return true;
}

/* ---- sources of messages ---------------------------------------------------------------------- */

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
