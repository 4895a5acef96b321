#include "alsa_midi.h"

#include "host/message.h"

#ifdef HC_WITH_ALSA
#include <alsa/asoundlib.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>

struct alsa_midi {
    snd_seq_t *seq;
    int port;
    const char *connect; /* output to connect the port to; NULL: none */
    double next_check_s;
    bool has_output; /* the output `connect` existed at the last check */
    uint64_t overruns;
};

/* Converts the event of a controller, a program change or a pressed key. false: another kind of event. */
static bool alsa_midi_decode(const snd_seq_event_t *event, struct midi_message *message)
{
    const snd_seq_ev_ctrl_t *control = &event->data.control;
    const snd_seq_ev_note_t *note = &event->data.note;
    unsigned status, number, value = 0, channel = control->channel;
    switch (event->type) {
    case SND_SEQ_EVENT_CONTROLLER:
        status = 0xb0, number = control->param, value = (unsigned)control->value;
        break;
    case SND_SEQ_EVENT_PGMCHANGE:
        status = 0xc0, number = (unsigned)control->value;
        break;
    case SND_SEQ_EVENT_NOTEON:
        status = 0x90, number = note->note, value = note->velocity, channel = note->channel;
        break;
    default:
        return false;
    }
    if (channel > 15 || number > 127 || value > 127) return false; /* any program may send any event */
    *message = (struct midi_message){{(uint8_t)(status | channel), (uint8_t)number, (uint8_t)value}};
    return true;
}

static bool alsa_next(void *data, struct midi_message *message)
{
    struct alsa_midi *m = data;
    snd_seq_event_t *event;
    int got;
    while ((got = snd_seq_event_input(m->seq, &event)) >= 0)
        if (alsa_midi_decode(event, message)) return true;
    if (got == -ENOSPC) m->overruns++;
    return false;
}

static uint64_t alsa_lost(void *data)
{
    const struct alsa_midi *m = data;
    return m->overruns;
}

struct midi_source alsa_midi_source(struct alsa_midi *m)
{
    struct pollfd fd = {.fd = -1};
    snd_seq_poll_descriptors(m->seq, &fd, 1, POLLIN);
    return (struct midi_source){.data = m, .next = alsa_next, .lost = alsa_lost, .fd = fd.fd};
}

static void alsa_connect_port(struct alsa_midi *m)
{
    snd_seq_addr_t from;
    snd_seq_port_info_t *info;
    snd_seq_port_info_alloca(&info);
    bool is_there =
        snd_seq_parse_address(m->seq, &from, m->connect) == 0 && /* accepts any number: the client may be absent */
        snd_seq_get_any_port_info(m->seq, from.client, from.port, info) == 0;
    if (is_there && !m->has_output && snd_seq_connect_from(m->seq, m->port, from.client, from.port) == 0)
        message_note("MIDI: connected to %s", m->connect);
    m->has_output = is_there;
}

void alsa_midi_tend(struct alsa_midi *m, double now_s)
{
    if (!m->connect || now_s < m->next_check_s) return;
    m->next_check_s = now_s + 1;
    alsa_connect_port(m);
}

/* libasound prints every failure on standard error. */
static void ignore_error(const char *file, int line, const char *function, int error, const char *format, ...)
{
    (void)file, (void)line, (void)function, (void)error, (void)format;
}

struct alsa_midi *alsa_midi_open(const char *connect, char *why, size_t cap)
{
    struct alsa_midi *m = calloc(1, sizeof *m);
    if (!m) {
        message_write(why, cap, "MIDI: no memory; free some memory");
        return NULL;
    }
    m->connect = connect;
    snd_lib_error_set_handler(ignore_error);
    int error = snd_seq_open(&m->seq, "default", SND_SEQ_OPEN_INPUT, SND_SEQ_NONBLOCK);
    if (error < 0) m->seq = NULL;
    if (m->seq) error = snd_seq_set_client_name(m->seq, "haloconv");
    if (error >= 0)
        error = m->port =
            snd_seq_create_simple_port(m->seq, "midi-in", SND_SEQ_PORT_CAP_WRITE | SND_SEQ_PORT_CAP_SUBS_WRITE,
                                       SND_SEQ_PORT_TYPE_MIDI_GENERIC | SND_SEQ_PORT_TYPE_APPLICATION);
    if (error < 0) {
        message_write(why, cap,
                      "MIDI: ALSA's sequencer cannot be used: %s; load it with `modprobe snd-seq`, or omit --midi",
                      snd_strerror(error));
        alsa_midi_close(m);
        return NULL;
    }
    message_note("MIDI on %d:%d of ALSA's sequencer", snd_seq_client_id(m->seq), m->port);
    if (connect) alsa_connect_port(m);
    if (connect && !m->has_output)
        message_note("--midi-connect %s: this output does not exist; it is connected when it appears (`aconnect -i` "
                     "lists them)",
                     connect);
    return m;
}

void alsa_midi_close(struct alsa_midi *m)
{
    if (m && m->seq) snd_seq_close(m->seq);
    free(m);
}

#else

struct alsa_midi *alsa_midi_open(const char *connect, char *why, size_t cap)
{
    (void)connect;
    message_write(why, cap, "live: " MESSAGE_NO_PART("ALSA", "libasound2-dev"));
    return NULL;
}

void alsa_midi_close(struct alsa_midi *midi)
{
    (void)midi;
}

struct midi_source alsa_midi_source(struct alsa_midi *midi)
{
    (void)midi;
    return (struct midi_source){.fd = -1};
}

void alsa_midi_tend(struct alsa_midi *midi, double now_s)
{
    (void)midi, (void)now_s;
}

#endif
