/* pipewire_channels - the positions of a stream's channels, as "FL,FR,LFE" names them. */
#ifndef PIPEWIRE_CHANNELS_H
#define PIPEWIRE_CHANNELS_H

#include <stddef.h>
#include <stdint.h>

enum { PIPEWIRE_CHANNELS = 64 }; /* max. channels of a stream of PipeWire */

struct pipewire_channels {
    int n;
    uint32_t position[PIPEWIRE_CHANNELS]; /* enum spa_audio_channel */
};

/* Reads a number of channels, which get their usual positions, or a list of positions. Returns the number; 0: the text
 * is neither. */
int pipewire_channels_read(const char *text, struct pipewire_channels *channels);

/* Makes positions from n names of ports, if all are positions; else the usual positions of n channels. */
void pipewire_channels_of_ports(char *const *names, int n, struct pipewire_channels *channels);

/* Writes the list of positions. */
void pipewire_channels_write(const struct pipewire_channels *channels, char *text, size_t cap);

#endif
