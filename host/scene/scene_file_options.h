/* scene_file_options - the options of `convolve` and `batch` for moving sources. */
#ifndef MOVING_OPTIONS_H
#define MOVING_OPTIONS_H

#include "dsp/haloconv_scenes.h"
#include "host/option.h"
#include "scene_file_stream.h"

enum { MOVING_STEP = 256 }; /* path_options.step without --step */

struct scene_file_bank_options {
    double grid_deg;    /* 0: the directions of the file */
    bool normalise;
    bool keeps_rate;    /* the bank is not resampled: its samples count as samples of `rate` */
};

struct scene_file_settings {
    const char *path;    /* a CSV file, or random:...; NULL: no source moves */
    bool holds;
    struct scene_file_bank_options bank;
    struct path_options path_options;
};

/* Rows for settings that have a field `moving`. */
#define OPTION_MOVING(type)                                                                                            \
    {"step", 0, "N", "Frames between two changes of a moving source; each is a fade of N frames [256]", option_int,    \
     OPTION_TO(type, moving.path_options.step), .min = 16, .max = 65536},                                              \
    {"nearest", 0, NULL,                                                                                               \
     "Play the entry nearest to a position: faster, and with steps between the entries", option_set,                   \
     OPTION_TO(type, moving.path_options.mix), .min = HC_MIX_NONE},                                                    \
    {"mix", 0, NULL,                                                                                                   \
     "Play the entries around a position with weights. Entries that begin more than 20 us apart are not mixed; "       \
     "without --grid a bank is interpolated to 2 degrees if it needs it [the default]", option_set,                    \
     OPTION_TO(type, moving.path_options.mix), .min = 1},                                                              \
    {"hold", 0, NULL, "Jump from row to row of the path; without it a source moves steadily between them",             \
     option_flag, OPTION_TO(type, moving.holds)},                                                                      \
    {"distance-gain", 0, "M",                                                                                          \
     "Gain by distance: M metres divided by the distance, at most 20 dB [no gain by distance]",                        \
     option_number, OPTION_TO(type, moving.path_options.reference_m), .min = 0.001, .max = 1e6},                       \
    {"grid", 0, "DEG|off",                                                                                             \
     "Interpolate the bank to directions that are DEG degrees apart [2 if a mix needs them]",                          \
     option_grid, OPTION_TO(type, moving.bank.grid_deg), .min = 0.5, .max = 45},                                       \
    {"normalise-bank", 0, NULL, "Scale the bank to a largest gain of 0 dB", option_flag,                               \
     OPTION_TO(type, moving.bank.normalise), .old_name = "normalize-bank"}

/* Returns the name of an option that is set but has no effect without a path; NULL: none. */
const char *scene_file_options_given(const struct scene_file_settings *settings);

/* Checks the path. false: why has the reason. */
bool scene_file_options_check(const struct scene_file_settings *settings, char *why, size_t cap);

/* Reads the CSV file of a path; a random path stays empty. *mixes: the path needs a bank that is loaded for mixes. false:
 * why has the reason; *path is empty. */
bool scene_file_path_read(struct path *path, const char *text, const struct scene_file_settings *settings, int rate,
                      int n_sources, bool *mixes, char *why, size_t cap);

/* Checks the path beside its bank, or draws the random path for a sound of n_frames (below 0: unknown). seed: seed of a
 * random path, unless the text has one. false: why has the reason. */
bool scene_file_path_finish(struct path *path, const char *text, uint64_t seed, const struct scene_file_settings *settings,
                        const hc_bank_data *bank, int rate, int n_sources, int64_t n_frames, char *why, size_t cap);

/* Loads a bank. rate: rate of the sounds. mixes: sources will play mixes of entries. Free *data with hc_bank_data_free.
 * false: why has the reason. */
bool scene_file_bank_load(hc_bank_data *data, const char *path, int rate, const struct scene_file_bank_options *options,
                      bool mixes, char *why, size_t cap);

/* Prints the library's notes, the size of the bank and its largest gain. */
void scene_file_bank_print(const hc_bank_data *data, const char *path);

#endif
