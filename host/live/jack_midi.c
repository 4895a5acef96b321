#include "midi_ring.h"

#ifdef HC_WITH_JACK
#include "jack_midi.h"

#include <errno.h>
#include <jack/midiport.h>
#include <stdio.h>
#include <string.h>

void jack_midi_copy(struct jack_midi *midi, jack_port_t *port, jack_nframes_t n)
{
    void *buffer = jack_port_get_buffer(port, n);
    jack_midi_event_t event;
    for (uint32_t i = 0; jack_midi_event_get(&event, buffer, i) == 0; i++)
        midi_ring_put(&midi->ring, event.buffer, event.size);
}

static bool next(void *data, struct midi_message *message)
{
    return midi_ring_read(data, message);
}

static uint64_t lost(void *data)
{
    const struct midi_ring *ring = data;
    return atomic_load(&ring->lost);
}

struct midi_source jack_midi_source(struct jack_midi *midi)
{
    return (struct midi_source){.data = &midi->ring, .next = next, .lost = lost, .fd = -1};
}

static bool is_called(jack_client_t *client, const char *port, const char *part)
{
    char first[512] = "", second[512] = "";
    char *aliases[2] = {first, second}; /* a sound card's MIDI ports have the device's name in an alias */
    if (jack_port_name_size() <= (int)sizeof first) jack_port_get_aliases(jack_port_by_name(client, port), aliases);
    return strstr(port, part) || strstr(first, part) || strstr(second, part);
}

/* Finds the first MIDI output whose name contains the text. false: not found. */
static bool find_output(jack_client_t *client, const char *part, char *name, size_t cap)
{
    bool is_found = false;
    const char **ports = jack_get_ports(client, NULL, JACK_DEFAULT_MIDI_TYPE, JackPortIsOutput);
    for (int i = 0; ports && ports[i] && !is_found; i++) {
        is_found = is_called(client, ports[i], part);
        snprintf(name, cap, "%s", ports[i]);
    }
    jack_free(ports);
    return is_found;
}

void jack_midi_tend(struct jack_midi *midi, jack_client_t *client, const jack_port_t *port)
{
    char output[512];
    if (!midi->connect || !atomic_exchange(&midi->is_sought, false)) return;
    int error = find_output(client, midi->connect, output, sizeof output)
                    ? jack_connect(client, output, jack_port_name(port))
                    : ENOENT;
    if (error && error != EEXIST)
        atomic_store(&midi->is_sought, true); /* try again: the port's client may not be active yet */
}
#endif
