/* MIDI: maps, the commands that messages give, the ring between two threads, and events of ALSA's sequencer, with
 * stand-ins for the calls that need the device. test_live.py sends messages through a JACK server. */
#include "check.h"
#include "host/live/remotes/alsa_midi.h"
#include "host/live/remotes/midi.h"
#include "host/message.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[] = "/tmp/hc_midi_XXXXXX";
static char why[MESSAGE_CAP], refusals[MIDI_MAP_REFUSALS * MESSAGE_CAP];
static struct midi_map map;

static void keep_refusal(const char *text)
{
    strcat(strcat(refusals, text), "\n");
}

/* `why` has all refusals afterwards, a line each, without the path. */
static bool read_map(const char *text, size_t n)
{
    refusals[0] = 0;
    FILE *file = fopen(path, "we");
    check(file && fwrite(text, 1, n, file) == n && fclose(file) == 0, "%s cannot be written", path);
    bool good = midi_map_read(&map, path, keep_refusal, why, sizeof why);
    if (!good) keep_refusal(why);
    return good;
}

static struct midi_message message_of(int status, int number, int value)
{
    return (struct midi_message){{(uint8_t)status, (uint8_t)number, (uint8_t)value}};
}

static bool same(const struct command *a, const struct command *b)
{
    bool same_db = a->act != COMMAND_GAIN || a->db == b->db || fabs(a->db - b->db) < 1e-9;
    return a->act == b->act && a->gain == b->gain && a->number == b->number && a->on == b->on && same_db;
}

static void a_message_gives_the_command_of_its_line(const char *backend)
{
    static const struct {
        const char *line;
        int status, number, value;
        struct command want; /* COMMAND_NONE: the message gives none */
    } rows[] = {
#define GAIN(index, value_db) {.act = COMMAND_GAIN, .gain = &command_gains[index], .db = value_db}
        {"cc 20 wet -57 6", 0xb0, 20, 0, GAIN(1, -INFINITY)},
        {"cc 20 wet -57 6", 0xb0, 20, 1, GAIN(1, -57)},
        {"cc 20 wet -57 6", 0xbf, 20, 115, GAIN(1, 0)},
        {"cc 20 wet -57 6", 0xb0, 20, 127, GAIN(1, 6)},
        {"cc 20 wet -57 6", 0xb0, 21, 127, {0}},
        {"cc 20 wet -57 6", 0xb0, 20, 128, {0}}, /* not a data byte */
        {"cc 20 wet -57 6", 0x90, 20, 127, {0}},
        {"cc 0\tgain -120 60\r", 0xb0, 0, 127, GAIN(0, 60)},
        {" cc 127 dry -0.5 0 # a comment", 0xb3, 127, 64, GAIN(2, -0.25)},
#undef GAIN
        {"cc 64 bypass", 0xb0, 64, 63, {.act = COMMAND_BYPASS}},
        {"\ufeffcc 64 bypass", 0xb0, 64, 64, {.act = COMMAND_BYPASS, .on = true}}, /* byte order mark */
        {"note 64 bypass", 0x90, 64, 1, {.act = COMMAND_BYPASS_TOGGLE}},
        {"note 64 bypass", 0x90, 64, 0, {0}}, /* the key is released */
        {"note 64 bypass", 0x80, 64, 64, {0}},
        {"note 64 bypass", 0xb0, 64, 64, {0}},
        {"note 60 next", 0x95, 60, 100, {.act = COMMAND_MASK_STEP, .number = 1}},
        {"cc 81 previous", 0xb0, 81, 127, {.act = COMMAND_MASK_STEP, .number = -1}},
        {"cc 81 previous", 0xb0, 81, 63, {0}},
        {"cc 83 reload", 0xb0, 83, 127, {.act = COMMAND_RELOAD}},
        {"note 61 ab", 0x90, 61, 1, {.act = COMMAND_COMPARE_SWITCH}},
        {"cc 84 mask 3", 0xb0, 84, 127, {.act = COMMAND_MASK_NUMBER, .number = 3}},
        {"note 0 mask 1000", 0x90, 0, 1, {.act = COMMAND_MASK_NUMBER, .number = 1000}},
        {"program mask", 0xc0, 0, 0, {.act = COMMAND_MASK_NUMBER, .number = 1}},
        {"program mask", 0xcf, 127, 0, {.act = COMMAND_MASK_NUMBER, .number = 128}},
        {"program mask", 0xe0, 0, 0, {0}}, /* pitch bend */
        {"", 0xc0, 0, 0, {0}},
        {"# nothing", 0xb0, 20, 127, {0}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct command got = {0};
        struct midi_message message = message_of(rows[i].status, rows[i].number, rows[i].value);
        check(read_map(rows[i].line, strlen(rows[i].line)), "\"%s\": %s", rows[i].line, refusals);
        bool gives = midi_map_find(&map, &message, &got);
        check(gives == (rows[i].want.act != COMMAND_NONE) && (!gives || same(&got, &rows[i].want)),
              "row %zu, \"%s\": %d, act %d, number %d, %g dB", i, rows[i].line, gives, got.act, got.number, got.db);
    }
}

static void every_wrong_line_is_named(const char *backend)
{
    static const struct {
        const char *text, *says[3]; /* a line for each wrong line of the text */
        size_t n;
    } rows[] = {
#define TEXT(text, ...) {text, {__VA_ARGS__}, sizeof text - 1}
        TEXT("volume 3\n", ":1: does not begin with a message; begin with cc"),
        TEXT("cc\n\ncc 128 next\ncc 1.5 next", ":1: does not begin", ":3: does not begin", ":4: does not begin"),
        TEXT("note -1 next\nnote nan next", ":1: does not begin", ":2: does not begin"),
        TEXT("program 3 next\nprogram", ":1: \"3\" is not an action; give wet", ":2: \"\" is not an action"),
        TEXT("cc 7 volume", ":1: \"volume\" is not an action; give wet, dry"),
        TEXT("cc 7 wet\ncc 7 wet -60\ncc 7 wet 6 -60", ":1: has no range; give two", ":2: has no", ":3: has no"),
        TEXT("cc 7 wet -121 0\ncc 7 wet 0 61\ncc 7 wet nan 0", ":1: has no", ":2: has no", ":3: has no"),
        TEXT("cc 7 wet -60 6 1\ncc 7 next next", ":1: \"1\" is one word too many; delete", ":2: \"next\" is one"),
        TEXT("cc 7 wet -60 6 1 2 3 4 5", ":1: \"1\" is one word too many"),
        TEXT("program bypass", ":1: a program selects a mask"),
        TEXT("program mask 2", ":1: \"2\" is one word too many"),
        TEXT("note 7 wet -60 6", ":1: a note has no value"),
        TEXT("note 7 mask\nnote 7 mask 0\ncc 7 mask x", ":1: has no number of a mask; give", ":2: has no",
             ":3: has no"),
        TEXT("cc 7 next\nnote 7 next\ncc 7 next", ":3: this message has an action in line 1; leave"),
        TEXT("cc 7 next\0\ncc 8 no", ":1: is not text", ":2: \"no\" is not an action"),
#undef TEXT
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        check(!read_map(rows[i].text, rows[i].n), "row %zu is taken", i);
        char *rest = refusals;
        for (int k = 0; k < 3 && rows[i].says[k]; k++) {
            char *line = strsep(&rest, "\n");
            check(strncmp(line, path, strlen(path)) == 0, "row %zu: %s", i, line);
            line += strlen(path);
            check(strncmp(line, rows[i].says[k], strlen(rows[i].says[k])) == 0, "row %zu: %s", i, line);
            check(strchr(line, ';'), "no remedy: %s", line);
        }
        check(*rest == 0, "row %zu: %s", i, rest);
    }
}

static void refusals_are_few(const char *backend)
{
    static char text[1000 * 5];
    for (size_t i = 0; i < 1000; i++) memcpy(text + 5 * i, "cc 7\n", 5);
    check(!read_map(text, sizeof text), "the map is taken");
    int n = 0;
    for (const char *at = refusals; (at = strchr(at, '\n')); at++) n++;
    check(n == MIDI_MAP_REFUSALS, "%d lines", n);
    remove(path);
    check(!midi_map_read(&map, path, keep_refusal, why, sizeof why) && strstr(why, "--midi-map"), "%s", why);
}

/* Its section MIDI shows the lines of the default map. */
static void the_manual_has_the_default_map(const char *backend)
{
    static char text[200000], lines[4000];
    FILE *file = fopen("host/man/haloconv-run.1.in", "re");
    check(file, "no manual");
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    char *at = strstr(text, ".SH MIDI"), *end = at && (at = strstr(at, ".nf\n")) ? strstr(at, ".fi\n") : NULL;
    check(end && end - at < (ptrdiff_t)sizeof lines, "the manual has no map");
    size_t n = 0;
    for (at += 4; at < end; at++)
        if (*at != '\\') lines[n++] = *at;
    check(read_map(lines, n), "%s", refusals);
    struct midi_map defaults;
    midi_map_default(&defaults);
    int n_found = 0;
    for (int status = 0x80; status < 0x100; status += 0x10)
        for (int number = 0; number < 128; number++) {
            struct midi_message message = message_of(status, number, 127);
            struct command ours = {0}, manual = {0};
            bool finds = midi_map_find(&defaults, &message, &ours);
            check(finds == midi_map_find(&map, &message, &manual) && same(&ours, &manual), "%02x %d", status, number);
            n_found += finds;
        }
    check(n_found == 128 + 7, "%d messages", n_found);
}

/* ---- the ring ---------------------------------------------------------------------------------- */

static struct midi_ring ring;

static void only_whole_channel_messages_pass_the_ring(const char *backend)
{
    static const struct {
        uint8_t bytes[4];
        size_t n;
        bool passes;
    } rows[] = {
        {{0xc3, 5}, 2, true},        {{0xb0, 1, 2}, 3, true}, {{0x80, 1, 2}, 3, true}, {{0xf8}, 1, false},
        {{0xf0, 1, 0xf7}, 3, false}, {{0xf3, 1}, 2, false},   {{0x01, 2}, 2, false}, /* of an exclusive message */
        {{0xb0, 1, 2, 3}, 4, false}, {{0xc3}, 1, false},      {{0}, 0, false},
    };
    struct midi_message message;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        midi_ring_put(&ring, rows[i].bytes, rows[i].n);
        check(midi_ring_read(&ring, &message) == rows[i].passes, "row %zu", i);
        check(!rows[i].passes || memcmp(message.bytes, rows[i].bytes, 3) == 0, "row %zu", i);
    }
}

static void a_full_ring_counts_what_it_loses(const char *backend)
{
    struct midi_message message;
    uint64_t before = atomic_load(&ring.lost);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < MIDI_RING_CAP + 7; i++)
            midi_ring_put(&ring, (const uint8_t[3]){0xb0, (uint8_t)(i / 128), (uint8_t)(i % 128)}, 3);
        for (int i = 0; i < MIDI_RING_CAP; i++)
            check(midi_ring_read(&ring, &message) && message.bytes[1] * 128 + message.bytes[2] == i, "message %d", i);
        check(!midi_ring_read(&ring, &message), "one is too much");
    }
    check(atomic_load(&ring.lost) - before == 21, "%d lost", (int)(atomic_load(&ring.lost) - before));
}

static uint64_t n_lost;

static bool take_nothing(void *data, struct midi_message *message)
{
    return false;
}

static uint64_t count_lost(void *data)
{
    return n_lost;
}

/* The line about the second loss is left out, and counted once. */
static void each_loss_is_said_once(const char *backend)
{
    struct midi midi;
    message_set_quiet(true);
    check(midi_open(&midi, &(struct midi_settings){.on = true}, why, sizeof why), "%s", why);
    midi.source = (struct midi_source){.next = take_nothing, .lost = count_lost, .fd = -1};
    for (int i = 0; i < 20; i++) {
        n_lost = i < 10 ? 3 : 5;
        midi_tend(&midi, NULL);
    }
    check(midi.limit.n == 2, "%d lines", (int)midi.limit.n);
    midi_close(&midi);
}

enum { N_SENT = SANITIZED ? 100000 : 1000000 };

static void *send_all(void *data)
{
    for (int i = 0; i < N_SENT; i++) {
        struct midi_message message = message_of(0x80 | (i >> 14), (i >> 7) & 127, i & 127);
        midi_ring_put(&ring, message.bytes, 3);
    }
    return NULL;
}

/* Messages arrive whole and in their order; those that are missing were counted. */
static void two_threads_share_the_ring(const char *backend)
{
    pthread_t thread;
    struct midi_message message;
    uint64_t before = atomic_load(&ring.lost);
    int taken = 0, last = -1;
    check(pthread_create(&thread, NULL, send_all, NULL) == 0, "no thread");
    for (double give_up = now_s() + 60; taken + (int)(atomic_load(&ring.lost) - before) < N_SENT;) {
        check(now_s() < give_up, "%d of %d", taken, N_SENT);
        while (midi_ring_read(&ring, &message)) {
            int i = (message.bytes[0] & 0x3f) << 14 | message.bytes[1] << 7 | message.bytes[2];
            check(i > last && i < N_SENT, "%d after %d", i, last);
            last = i;
            taken++;
        }
    }
    pthread_join(thread, NULL);
}

/* ---- ALSA -------------------------------------------------------------------------------------- */

#ifdef HC_WITH_ALSA
#include <alsa/asoundlib.h>

static snd_seq_event_t events[] = {
    {.type = SND_SEQ_EVENT_CONTROLLER, .data.control = {.channel = 15, .param = 20, .value = 127}},
    {.type = SND_SEQ_EVENT_CLOCK},
    {.type = SND_SEQ_EVENT_PGMCHANGE, .data.control = {.channel = 1, .value = 5}},
    {.type = SND_SEQ_EVENT_NOTEOFF, .data.note = {.note = 60}},
    {.type = SND_SEQ_EVENT_NOTEON, .data.note = {.channel = 2, .note = 60, .velocity = 90}},
    {.type = SND_SEQ_EVENT_CONTROLLER, .data.control = {.param = 20, .value = 128}}, /* values of no MIDI message */
    {.type = SND_SEQ_EVENT_CONTROLLER, .data.control = {.param = 200, .value = 1}},
    {.type = SND_SEQ_EVENT_CONTROLLER, .data.control = {.param = 20, .value = -1}},
    {.type = SND_SEQ_EVENT_PGMCHANGE, .data.control = {.channel = 16}},
    {.type = SND_SEQ_EVENT_NOTEON, .data.note = {.note = 128, .velocity = 1}},
    {.type = SND_SEQ_EVENT_CONTROLLER, .data.control = {.param = 1, .value = 2}},
};
enum { N_EVENTS = sizeof events / sizeof *events, OVERRUN_AT = 3 };
static int n_read, n_overruns, n_tries, n_connections, open_error;
static bool has_device, is_closed;

int snd_seq_open(snd_seq_t **seq, const char *name, int streams, int mode)
{
    *seq = open_error ? NULL : (snd_seq_t *)&ring;
    check(mode == SND_SEQ_NONBLOCK, "it would wait");
    return -open_error;
}

int snd_seq_set_client_name(snd_seq_t *seq, const char *name)
{
    return 0;
}

int snd_seq_client_id(snd_seq_t *seq)
{
    return 128;
}

int snd_seq_create_simple_port(snd_seq_t *seq, const char *name, unsigned caps, unsigned type)
{
    check(caps == (SND_SEQ_PORT_CAP_WRITE | SND_SEQ_PORT_CAP_SUBS_WRITE), "caps %x", caps);
    return 0;
}

int snd_seq_poll_descriptors(snd_seq_t *seq, struct pollfd *fds, unsigned space, short ready)
{
    fds->fd = 99;
    return 1;
}

int snd_seq_event_input(snd_seq_t *seq, snd_seq_event_t **event)
{
    if (n_read == OVERRUN_AT && n_overruns++ == 0) return -ENOSPC;
    if (n_read == N_EVENTS) return -EAGAIN;
    *event = &events[n_read++];
    return 0;
}

int snd_seq_parse_address(snd_seq_t *seq, snd_seq_addr_t *address, const char *name)
{
    n_tries++;
    check(strcmp(name, "nanoPAD:1") == 0, "%s", name);
    *address = (snd_seq_addr_t){20, 1};
    return 0;
}

int snd_seq_get_any_port_info(snd_seq_t *seq, int client, int port, snd_seq_port_info_t *info)
{
    return has_device ? 0 : -ENOENT;
}

int snd_seq_connect_from(snd_seq_t *seq, int port, int client, int from)
{
    check(port == 0 && client == 20 && from == 1, "%d from %d:%d", port, client, from);
    n_connections++;
    return 0;
}

int snd_seq_close(snd_seq_t *seq)
{
    is_closed = true;
    return 0;
}

static void events_of_the_sequencer_become_messages(const char *backend)
{
    static const uint8_t want[][3] = {{0xbf, 20, 127}, {0xc1, 5, 0}, {0x92, 60, 90}, {0xb0, 1, 2}};
    struct midi_message message;
    message_set_quiet(true);
    struct alsa_midi *midi = alsa_midi_open(NULL, why, sizeof why);
    check(midi, "%s", why);
    struct midi_source source = alsa_midi_source(midi);
    check(source.fd == 99 && source.lost(source.data) == 0, "fd %d", source.fd);
    for (int i = 0; i < 4; i++) {
        bool comes = source.next(source.data, &message);
        if (!comes && i == 2) comes = source.next(source.data, &message); /* after the overrun */
        check(comes && memcmp(message.bytes, want[i], 3) == 0, "message %d: %02x", i, message.bytes[0]);
    }
    check(!source.next(source.data, &message) && source.lost(source.data) == 1, "%02x", message.bytes[0]);
    alsa_midi_tend(midi, 1);
    check(n_tries == 0, "it connects to nothing");
    alsa_midi_close(midi);
}

/* Seconds with the device and without it; a check that is too early; a connection that the user has removed. */
static void the_sequencer_port_is_connected_whenever_its_device_comes(const char *backend)
{
    static const struct {
        double now_s;
        bool has_device;
        int n_connections;
    } steps[] = {{1, false, 0}, {1.5, true, 0}, {2, true, 1}, {3, true, 1}, {4, false, 1}, {5, true, 2}, {6, true, 2}};
    message_set_quiet(true);
    struct alsa_midi *midi = alsa_midi_open("nanoPAD:1", why, sizeof why);
    check(midi && n_tries == 1 && n_connections == 0, "%d tries", n_tries);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        has_device = steps[i].has_device;
        alsa_midi_tend(midi, steps[i].now_s);
        check(n_connections == steps[i].n_connections, "%.1f s: %d connections", steps[i].now_s, n_connections);
    }
    alsa_midi_close(midi);
    check(is_closed, "the port stays");
}

static void no_sequencer_is_an_error_with_a_remedy(const char *backend)
{
    open_error = ENOENT;
    check(!alsa_midi_open(NULL, why, sizeof why) && strstr(why, "modprobe snd-seq"), "%s", why);
    open_error = 0;
}
#endif

int main(void)
{
    static const struct test tests[] = {
        TEST(a_message_gives_the_command_of_its_line, false),
        TEST(every_wrong_line_is_named, false),
        TEST(refusals_are_few, false),
        TEST(the_manual_has_the_default_map, false),
        TEST(only_whole_channel_messages_pass_the_ring, false),
        TEST(a_full_ring_counts_what_it_loses, false),
        TEST(two_threads_share_the_ring, false),
        TEST(each_loss_is_said_once, false),
#ifdef HC_WITH_ALSA
        TEST(events_of_the_sequencer_become_messages, false),
        TEST(the_sequencer_port_is_connected_whenever_its_device_comes, false),
        TEST(no_sequencer_is_an_error_with_a_remedy, false),
#endif
    };
    int fd = mkstemp(path);
    if (fd < 0) return 1;
    close(fd);
    int failed = check_main("midi", tests, sizeof tests / sizeof *tests);
    remove(path);
    return failed;
}
