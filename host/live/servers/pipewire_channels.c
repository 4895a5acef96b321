#include "pipewire_channels.h"

#ifdef HC_WITH_PIPEWIRE
#include <spa/param/audio/raw-types.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The usual layouts, in the order of WAV; RL and RR are its back left and back right. */
static const char *const layouts[] = {"MONO",
                                      "FL,FR",
                                      "FL,FR,LFE",
                                      "FL,FR,RL,RR",
                                      "FL,FR,FC,RL,RR",
                                      "FL,FR,FC,LFE,RL,RR",
                                      "FL,FR,FC,RL,RR,SL,SR",
                                      "FL,FR,FC,LFE,RL,RR,SL,SR"};
enum { N_LAYOUTS = sizeof layouts / sizeof *layouts };

static const char *channel_name_of(const struct spa_type_info *type)
{
    return strrchr(type->name, ':') + 1;
}

/* Returns the position of a name of `length` bytes; SPA_AUDIO_CHANNEL_UNKNOWN: it is not a position. BL and BR are
 * other names of RL and RR. */
static uint32_t find_position(const char *name, size_t length)
{
    char known[8];
    if (length >= sizeof known) return SPA_AUDIO_CHANNEL_UNKNOWN;
    snprintf(known, sizeof known, "%.*s", (int)length, name);
    if (strcmp(known, "BL") == 0 || strcmp(known, "BR") == 0) known[0] = 'R';
    for (const struct spa_type_info *type = spa_type_audio_channel; type->name; type++)
        if (type->type > SPA_AUDIO_CHANNEL_NA && strcmp(known, channel_name_of(type)) == 0) return type->type;
    return SPA_AUDIO_CHANNEL_UNKNOWN;
}

/* false: the position is unknown or there already, or there is no room. */
static bool channel_add_position(struct pipewire_channels *channels, uint32_t position)
{
    for (int i = 0; i < channels->n; i++)
        if (channels->position[i] == position) return false;
    if (position == SPA_AUDIO_CHANNEL_UNKNOWN || channels->n == PIPEWIRE_CHANNELS) return false;
    channels->position[channels->n++] = position;
    return true;
}

static int channels_read_list(const char *text, struct pipewire_channels *channels)
{
    channels->n = 0;
    for (size_t length;; text += length + 1) {
        length = strcspn(text, ",");
        if (!channel_add_position(channels, find_position(text, length))) return channels->n = 0;
        if (!text[length]) return channels->n;
    }
}

static int set_usual(int n, struct pipewire_channels *channels)
{
    if (n >= 1 && n <= N_LAYOUTS) return channels_read_list(layouts[n - 1], channels);
    channels->n = n >= 1 && n <= PIPEWIRE_CHANNELS ? n : 0;
    for (int i = 0; i < channels->n; i++) channels->position[i] = SPA_AUDIO_CHANNEL_AUX0 + (uint32_t)i;
    return channels->n;
}

int pipewire_channels_read(const char *text, struct pipewire_channels *channels)
{
    char *end;
    long n = strtol(text, &end, 10);
    if (end == text) return channels_read_list(text, channels);
    return *end || n < 1 || n > PIPEWIRE_CHANNELS ? 0 : set_usual((int)n, channels);
}

void pipewire_channels_of_ports(char *const *names, int n, struct pipewire_channels *channels)
{
    channels->n = 0;
    for (int i = 0; i < n; i++) {
        if (channel_add_position(channels, find_position(names[i], strlen(names[i])))) continue;
        set_usual(n, channels);
        return;
    }
}

void pipewire_channels_write(const struct pipewire_channels *channels, char *text, size_t cap)
{
    size_t used = 0;
    *text = 0;
    for (int i = 0; i < channels->n && used < cap; i++)
        for (const struct spa_type_info *type = spa_type_audio_channel; type->name; type++)
            if (type->type == channels->position[i])
                used += (size_t)snprintf(text + used, cap - used, "%s%s", i ? "," : "", channel_name_of(type));
}
#endif
