#include "midi_ring.h"

#ifdef HC_WITH_JACK
#include "jack_midi.h"

#include <errno.h>
#include <jack/midiport.h>
#include <stdio.h>
#include <string.h>

void jack_midi_copy(struct midi_ring *ring, jack_port_t *port, jack_nframes_t n)
{
    void *buffer = jack_port_get_buffer(port, n);
    jack_midi_event_t event;
    for (uint32_t i = 0; jack_midi_event_get(&event, buffer, i) == 0; i++)
        midi_ring_put(ring, event.buffer, event.size);
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

bool jack_midi_connect(jack_client_t *client, const char *part, const jack_port_t *port)
{
    char output[512];
    int error =
        find_output(client, part, output, sizeof output) ? jack_connect(client, output, jack_port_name(port)) : ENOENT;
    return !error || error == EEXIST;
}
#endif
