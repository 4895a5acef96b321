/* controls - tables of the plugins: their names, channels, controls, presets; and the values of controls as texts. No
 * table knows a plugin standard.
 */
#ifndef CONTROLS_H
#define CONTROLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MAX_CHANNELS = 64, MAX_PREDELAY_MS = 500, NO_TRIM_DB = 150 };

/* symbol, name, inputs, outputs, moving sources, mask of a new instance (a file of the folder of masks; with sources a
 * bank, which is a folder in it) */
#define VARIANTS(V)                                                                                                    \
    V(mono, "haloconv Mono", 1, 1, 0, "cabinet.wav")                                                                   \
    V(mono_to_stereo, "haloconv Mono to Stereo", 1, 2, 0, "hall.wav")                                                  \
    V(stereo, "haloconv Stereo", 2, 2, 0, "hall.wav")                                                                  \
    V(true_stereo, "haloconv True Stereo", 2, 2, 0, "chamber.wav")                                                     \
    V(matrix_4, "haloconv Matrix 4x4", 4, 4, 0, "through.txt")                                                         \
    V(matrix_8, "haloconv Matrix 8x8", 8, 8, 0, "through.txt")                                                         \
    V(matrix_16, "haloconv Matrix 16x16", 16, 16, 0, "through.txt")                                                    \
    V(matrix_32, "haloconv Matrix 32x32", 32, 32, 0, "through.txt")                                                    \
    V(matrix_64, "haloconv Matrix 64x64", 64, 64, 0, "through.txt")                                                    \
    V(binaural, "haloconv Binaural", 1, 2, 1, "head")

/* A plugin: a layout of channels, with or without a moving source. */
struct variant {
    const char *symbol, *name;
    int n_in, n_out, n_sources;
    const char *mask;
};

#define VARIANT_ONE(symbol, name, n_in, n_out, n_sources, mask) +1
enum { N_VARIANTS = 0 VARIANTS(VARIANT_ONE) };
extern const struct variant variants[N_VARIANTS];

/* One sentence for the lists of hosts: the use of a plugin without and with sources. */
extern const char variant_comments[2][128];

/* Does a new instance pass the input, or shape it like a room? With sources neither. */
bool variant_is_filter(const struct variant *variant);

enum control {
    AZIMUTH,
    ELEVATION,
    DISTANCE,
    DRY,
    WET,
    GAIN,
    PREDELAY,
    ENABLED,
    BACKEND,
    FREEWHEEL,
    LATENCY,
    LOAD,
    LATE,
    LOST,
    OVERRUNS,
    TRIM,
    A_B,
    N_CONTROLS
};
enum backend { BACKEND_AUTO, BACKEND_CPU, BACKEND_GPU, N_BACKENDS };

enum control_unit { UNIT_NONE, UNIT_DEGREE, UNIT_M, UNIT_DB, UNIT_MS, UNIT_FRAME, UNIT_PERCENT, N_UNITS };
enum control_kind {
    CONTROL_NUMBER,
    CONTROL_GAIN,        /* in dB; the minimum means silence                                                        */
    CONTROL_LIMIT,       /* the maximum means: no limit                                                             */
    CONTROL_LOGARITHMIC, /* a knob has equal steps for equal ratios                                                 */
    CONTROL_INTEGER,
    CONTROL_TOGGLE,      /* 0 or 1                                                                                  */
    CONTROL_CHOICE       /* a number of `labels`, from 0                                                            */
};
enum side { SIDE_A, SIDE_B, N_SIDES }; /* values of A_B: the mask that plays                                        */
enum control_flag {
    CONTROL_OUTPUT = 1,  /* the plugin sets it                                                                      */
    CONTROL_HIDDEN = 2,  /* for hosts, not for users                                                                */
    CONTROL_EXPENSIVE = 4 /* a change makes a new engine: not for automation                                        */
};

struct control_spec {
    const char *symbol, *name;
    enum control_unit unit;
    float min, initial, max;
    enum control_kind kind;
    unsigned flags;              /* enum control_flag                                                               */
    const char *comment;         /* NULL: the name says it                                                          */
    const char *const *labels;   /* of a choice, max + 1 of them and NULL                                           */
};
extern const struct control_spec controls[N_CONTROLS];

/* Has the plugin this control? A plugin with sources has their directions, and a source has no dry signal. */
bool variant_has(const struct variant *variant, int control);

/* Returns control i of a plugin, from 0; N_CONTROLS: the plugin has fewer. */
int variant_control(const struct variant *variant, int i);

/* Has the plugin this control, and do users set it? States contain these. */
bool variant_has_setting(const struct variant *variant, int control);

/* Returns the control with this symbol, or N_CONTROLS. */
int control_find(const char *symbol);

/* A number below 2^31 for standards whose hosts know a control by a number: the first four letters of the symbol. It
 * stays when controls are added. control_with_id finds no hidden control, which may have the number of another one;
 * N_CONTROLS: no control has this number. */
uint32_t control_id(int control);
int control_with_id(uint32_t id);

/* Returns the value inside the control's range, NaN as the minimum, and rounded if the control has steps. */
float control_limit(int control, double value);

/* Returns the side that a value of A_B chooses. */
static inline int control_side(float value)
{
    return value > 0.5f ? SIDE_B : SIDE_A;
}

/* Between the value of a control and that of a standard's parameter: for ENABLED hosts have the bypass, which is 1 while
 * the control is 0. */
static inline double control_swap_bypass(int control, double value)
{
    return control == ENABLED ? 1 - value : value;
}

/* Writes the value as users read it: "-6.0 dB", "Off", "GPU", "On". */
void control_text(int control, double value, char *text, size_t cap);

/* Returns the unit of such a text, "" without one. */
const char *control_unit(int control);

/* Reads such a text, with or without its unit, upper or lower case. false: it is not a value of this control. */
bool control_read(int control, const char *text, double *value);

enum { N_PRESET_CONTROLS = 3 };
extern const int preset_controls[N_PRESET_CONTROLS]; /* enum control: dry, wet, predelay */

/* The masks that ship, with the gains of their presets. A mask without a direct sound is mixed with the dry signal. */
struct plugin_preset {
    const char *file, *symbol, *label;
    int n_channels;
    float values[N_PRESET_CONTROLS]; /* of preset_controls */
};
enum { N_PRESETS = 12 };
extern const struct plugin_preset plugin_presets[N_PRESETS];

/* Does the mask fit the plugin by the channel rule of haloconv_masks.h? The mono plugin plays a stereo mask's left
 * channel. */
bool preset_fits(const struct plugin_preset *preset, const struct variant *variant);

#endif
