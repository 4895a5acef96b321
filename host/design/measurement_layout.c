#include "measurement_layout.h"

#include "host/message.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOUDSPEAKER_CAP = 64, LINE_CAP = 400 };

/* Words for loudspeakers in names of files, and their short forms. */
static const char *const words[][2] = {
    {"l", "l"},   {"left", "l"},  {"r", "r"},     {"right", "r"}, {"c", "c"},          {"center", "c"}, {"centre", "c"},
    {"fl", "fl"}, {"fr", "fr"},   {"fc", "fc"},   {"lf", "fl"},   {"rf", "fr"},        {"sl", "sl"},    {"sr", "sr"},
    {"ls", "sl"}, {"rs", "sr"},   {"bl", "bl"},   {"br", "br"},   {"lb", "bl"},        {"rb", "br"},    {"rl", "bl"},
    {"rr", "br"}, {"lfe", "sub"}, {"sub", "sub"}, {"sw", "sub"},  {"subwoofer", "sub"}};

static const char *loudspeaker_word(const char *word, size_t length)
{
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i][0]) == length && strncasecmp(words[i][0], word, length) == 0) return words[i][1];
    return NULL;
}

/* The words of loudspeakers in the name of a file, without folder and extension: "l" for "room/Left seat 2.wav". */
static void find_loudspeaker(const char *path, char *loudspeaker, size_t cap)
{
    const char *slash = strrchr(path, '/'), *at = slash ? slash + 1 : path, *dot = strrchr(at, '.');
    const char *end = dot ? dot : at + strlen(at);
    size_t n = 0;
    *loudspeaker = 0;
    while (at < end) {
        const char *start = at;
        while (at < end && isalnum((unsigned char)*at)) at++;
        const char *word = loudspeaker_word(start, (size_t)(at - start));
        if (word && n < cap) n += (size_t)snprintf(loudspeaker + n, cap - n, "%s ", word);
        while (at < end && !isalnum((unsigned char)*at)) at++;
    }
}

/* Writes the loudspeaker of each file to channel[n]. Returns the number of loudspeakers; 0: a name has none. */
static int channels_by_name(char *const *names, int n, int *channel)
{
    int n_channels = 0;
    char mine[LOUDSPEAKER_CAP], other[LOUDSPEAKER_CAP];
    for (int i = 0; i < n; i++) {
        find_loudspeaker(names[i], mine, sizeof mine);
        if (!*mine) return 0;
        channel[i] = n_channels;
        for (int k = 0; k < i && channel[i] == n_channels; k++) {
            find_loudspeaker(names[k], other, sizeof other);
            if (strcmp(mine, other) == 0) channel[i] = channel[k];
        }
        n_channels += channel[i] == n_channels;
    }
    return n_channels;
}

/* Fills in the loudspeakers of files with one channel each. false: why has the reason. */
static bool assign_channels(struct measurement_layout *l, const hc_responses *files, char *const *names, int n,
                            const int *channel, char *why, size_t cap)
{
    char line[LINE_CAP] = "";
    size_t at = 0;
    for (int ch = 0; ch < l->n_channels; ch++) {
        int position = 0;
        if (at < sizeof line)
            at += (size_t)snprintf(line + at, sizeof line - at, "%schannel %d:", ch ? ", " : "", ch + 1);
        for (int i = 0; i < n; i++) {
            if (channel[i] != ch) continue;
            if (at < sizeof line) at += (size_t)snprintf(line + at, sizeof line - at, " %s", names[i]);
            if (position < l->n_positions)
                l->responses[position * l->n_channels + ch] =
                    (struct correction_response){files[i].channel[0], files[i].n_frames, names[i], 1, files[i].start};
            position++;
        }
        if (position != l->n_positions)
            return message_write(
                why, cap,
                "%s: its loudspeaker has %d file%s, but that of %s has %d; measure each loudspeaker at every "
                "position, or give --positions",
                l->responses[ch].name, position, message_s(position), l->responses[0].name, l->n_positions);
    }
    message_note("the files are loudspeakers, %s%s; --positions would read them as positions of the microphone", line,
                 at < sizeof line ? "" : " ...");
    return true;
}

/* Each file is a position. */
static bool assign_positions(struct measurement_layout *l, const hc_responses *files, char *const *names, int n,
                             char *why, size_t cap)
{
    for (int i = 0; i < n; i++) {
        if (files[i].n_channels != l->n_channels)
            return message_write(why, cap, "%s: has %d channel%s, and %s has %d; measure every position alike",
                                 names[i], files[i].n_channels, message_s(files[i].n_channels), names[0],
                                 l->n_channels);
        for (int ch = 0; ch < l->n_channels; ch++)
            l->responses[i * l->n_channels + ch] =
                (struct correction_response){files[i].channel[ch], files[i].n_frames, names[i], ch + 1, files[i].start};
    }
    if (n > 1)
        message_note("the files are %d positions of the microphone%s", n,
                     l->n_channels == 1 ? "; --channels would read them as loudspeakers" : "");
    return true;
}

static bool lay_out(struct measurement_layout *l, enum layout_choice choice, const hc_responses *files,
                    char *const *names, int n, int *channel, char *why, size_t cap)
{
    int others = 0, n_named = choice == LAYOUT_POSITIONS ? 0 : channels_by_name(names, n, channel);
    for (int i = 0; i < n; i++)
        if (files[i].n_channels != 1) others = i + 1;
    if (others && choice == LAYOUT_CHANNELS)
        return message_write(why, cap, "--channels: %s has %d channels; give files of one channel each",
                             names[others - 1], files[others - 1].n_channels);
    bool by_name = n_named > 1 && !others;
    for (int i = 0; i < n && !by_name; i++) channel[i] = i;
    bool as_channels = by_name || choice == LAYOUT_CHANNELS;
    l->n_channels = by_name ? n_named : as_channels ? n : files[0].n_channels;
    l->n_positions = 0;
    for (int i = 0; i < n; i++) l->n_positions += !as_channels || channel[i] == 0;
    l->responses = calloc((size_t)l->n_positions * (size_t)l->n_channels, sizeof *l->responses);
    if (!l->responses)
        return message_write(why, cap, "design correct: no memory for %d measurements; free some memory", n);
    return as_channels ? assign_channels(l, files, names, n, channel, why, cap)
                       : assign_positions(l, files, names, n, why, cap);
}

bool measurement_layout_make(struct measurement_layout *l, enum layout_choice choice, const hc_responses *files,
                             char *const *names, int n, char *why, size_t cap)
{
    *l = (struct measurement_layout){0};
    int *channel = calloc((size_t)n, sizeof *channel);
    bool good = channel ? lay_out(l, choice, files, names, n, channel, why, cap)
                        : message_write(why, cap, "design correct: no memory for %d measurements; free some memory", n);
    free(channel);
    if (!good) measurement_layout_free(l);
    return good;
}

void measurement_layout_free(struct measurement_layout *l)
{
    free(l->responses);
    l->responses = NULL;
}
