/* live_options - the command lines of `haloconv jack`, `pipewire` and `live`, and their common options. */
#ifndef LIVE_OPTIONS_H
#define LIVE_OPTIONS_H

#include "host/option.h"
#include "host/panel/panel.h"
#include "preset.h"
#include "session.h"

#include <stdbool.h>

struct midi_settings {
    bool on;
    const char *map, *connect;      /* map NULL: the default map; connect NULL: none                              */
    int channel;                    /* 1 to 16; 0: all                                                            */
};

struct live_settings {
    const struct command_line *line; /* of the command                                                            */
    struct session_settings session;
    struct option_names masks;      /* keys step through them; empty: a session manager has the mask              */
    const char *mask;               /* first mask to play; NULL: none was given                                   */
    int first_mask;                 /* its number in the list, from 1; 0: the first                               */
    int compared[2];                /* numbers of masks A and B to compare from the start; 0: none                */
    const char *preset_name;        /* NULL: not asked for                                                        */
    struct preset *preset;          /* owner of texts of these settings; NULL: none                               */
    const char *stats, *osc;        /* NULL: not asked for                                                        */
    struct panel_settings panel;    /* where NULL: not asked for                                                  */
    struct midi_settings midi;
    struct live_scene_settings scene; /* session.scene points here                                                */
    bool watch, reconnect;
    const char *name, *server;      /* for jack and pipewire; NULL: not asked for                                 */
    const char *description;        /* for pipewire; NULL: the name                                               */
    const char *sink, *source, *channels; /* for pipewire; NULL: not asked for                                    */
    bool is_default;                /* for pipewire: the sink or source becomes the default one                   */
    bool connect;
    const char *input, *output;     /* for live and pipewire; NULL: the default device, or not asked for          */
    int rate, block;                /* for live and pipewire; rate 0: the device's; block 0: any                  */
    double latency_ms;              /* for live; below 0: the device's low latency                                */
    bool one_clock;                 /* for live: input and output run by one clock, whatever their names          */
    struct {
        const struct option_row *row;
        const char *text;           /* NULL: it has no value                                                      */
    } given[64];                    /* [n_given]: the options that were given; the last value of each             */
    int n_given;
};

/* Fills in the settings. The command's groups are its own rows and live_options. Returns -1: continue, and call
 * live_options_free at the end; else the exit status. */
int live_options_parse(const struct command_line *line, int argc, char **argv, bool may_lack_mask,
                       struct live_settings *settings);

void live_options_free(struct live_settings *settings);

/* Reads the preset of a name, without path, into settings for the command of the running session. `others` gets the
 * names of options, except gains, whose values differ from the running ones. false: why has the reason; else call
 * live_options_free. */
bool live_options_read_preset(const struct live_settings *running, const char *name, struct live_settings *settings,
                              char *others, size_t others_cap, char *why, size_t cap);

/* Saves the settings as a preset (see preset_save). mask, if first_mask is behind the list, joins its end. */
bool live_options_save_preset(const struct live_settings *settings, const char *name, bool replace, char *saved,
                              size_t cap);

/* Remembers an option: the note of struct command_line. */
void live_options_note(void *settings, const struct option_row *row, const char *text);

extern const struct command_line jack_line, pipewire_line, portaudio_line;
extern const struct option_row live_options[]; /* rows for struct live_settings */
/* The arguments of the three commands. */
#define LIVE_OPTIONS_MASKS                                                                                             \
    OPTION_NAMES("MASK", 0, INT_MAX, struct live_settings, masks, 1), .note = live_options_note

#define LIVE_OPTION_TO(field) OPTION_TO(struct live_settings, field)
#define LIVE_OPTIONS_TITLE "Options of jack, pipewire and live:"
#define LIVE_OPTIONS_KEYS \
    "Keys: b bypass; + - gain; w W wet and d D dry, down and up by 1 dB; n p next and previous mask; a A/B: compare " \
    "the mask with the next at equal loudness, then switch, and A end that; r load the mask again; c makes the " \
    "orientation of the head the front; S saves the present state as a preset; q quit. All " \
    "changes are faded. Masks load while the audio plays; one that fails to load changes nothing. The CPU " \
    "replaces a GPU that is lost, with the history kept, if the CPU can convolve the mask in real time."

#endif
