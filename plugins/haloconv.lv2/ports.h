/* ports - tables of the plugins: their names, channels, ports and ranges. describe.c writes the Turtle for hosts from
 * them, and plugin.c, the code that hosts load, uses them.
 *
 * Order of a plugin's ports: audio in, audio out, those of `controls` that the plugin has, messages in, messages out.
 */
#ifndef PORTS_H
#define PORTS_H

#include <stddef.h>

#define PLUGIN_URI "urn:haloconv:lv2:" /* followed by the variant's symbol */
#define MASK_URI PLUGIN_URI "mask"     /* the parameter with the mask's path */
#define BANK_URI PLUGIN_URI "bank"     /* for a plugin with sources: the bank's path         */
#define STATUS_URI PLUGIN_URI "status" /* the parameter with the result of the last load: "ok", or the error     */

enum { MAX_CHANNELS = 64, MAX_PREDELAY_MS = 500, MESSAGE_BYTES = 8192 };

/* symbol, name, inputs, outputs, moving sources, mask of a new instance (a file of the bundle; with sources a bank,
 * which is a folder of the bundle) */
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

struct variant {
    const char *symbol, *name;
    int n_in, n_out, n_sources;
    const char *mask;
};

#define VARIANT_ROW(symbol, name, n_in, n_out, n_sources, mask) {#symbol, name, n_in, n_out, n_sources, mask},
static const struct variant variants[] = {VARIANTS(VARIANT_ROW)};
enum { N_VARIANTS = sizeof variants / sizeof *variants };

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
    N_CONTROLS
};
enum backend { BACKEND_AUTO, BACKEND_CPU, BACKEND_GPU };

/* The minimum of a gain means silence. Azimuth: counter-clockwise from straight ahead. */
static const struct port {
    const char *symbol, *name, *unit; /* unit: a name of LV2's units vocabulary, or NULL */
    float min, initial, max;
    const char *turtle; /* further properties */
} controls[N_CONTROLS] = {
    [AZIMUTH] = {"azimuth", "Azimuth", "degree", -180, 0, 180, "rdfs:comment \"Left is positive, right is negative.\""},
    [ELEVATION] = {"elevation", "Elevation", "degree", -90, 0, 90, "rdfs:comment \"Above is positive.\""},
    [DISTANCE] = {"distance", "Distance", "m", 0.1f, 1, 20,
                  "rdfs:comment \"From 1 to 2 m the level falls by 6 dB.\" ;\n"
                  "        lv2:portProperty pprops:logarithmic"},
    [DRY] = {"dry", "Dry", "db", -90, -90, 12, ""},
    [WET] = {"wet", "Wet", "db", -90, 0, 12, ""},
    [GAIN] = {"gain", "Output gain", "db", -90, 0, 24, ""},
    [PREDELAY] = {"predelay", "Predelay", "ms", 0, 0, MAX_PREDELAY_MS, ""},
    [ENABLED] = {"enabled", "Enabled", NULL, 0, 1, 1, "lv2:portProperty lv2:toggled ; lv2:designation lv2:enabled"},
    [BACKEND] = {"backend", "Backend", NULL, 0, 0, 2,
                 "lv2:portProperty lv2:integer , lv2:enumeration , pprops:expensive , pprops:notAutomatic ;\n"
                 "        lv2:scalePoint [ rdfs:label \"Auto\" ; rdf:value 0 ] ,\n"
                 "            [ rdfs:label \"CPU\" ; rdf:value 1 ] , [ rdfs:label \"GPU\" ; rdf:value 2 ]"},
    [FREEWHEEL] = {"freewheel", "Freewheel", NULL, 0, 0, 1,
                   "lv2:portProperty lv2:toggled , lv2:connectionOptional , pprops:notOnGUI ;\n"
                   "        lv2:designation lv2:freeWheeling"},
    [LATENCY] = {"latency", "Latency", "frame", 0, 0, 8192,
                 "lv2:portProperty lv2:integer , lv2:reportsLatency , pprops:notOnGUI ; lv2:designation lv2:latency"},
    [LOAD] = {"load", "Load", "pc", 0, 0, 1000, "rdfs:comment \"Time for a block, in percent of its duration.\""},
    [LATE] = {"late", "Late blocks", NULL, 0, 0, 1e9f,
              "lv2:portProperty lv2:integer ; rdfs:comment \"Blocks that the GPU finished late: silent or tailless.\""},
    [LOST] = {"lost", "Lost blocks", NULL, 0, 0, 1e9f,
              "lv2:portProperty lv2:integer ; rdfs:comment \"Blocks not convolved, because the GPU is lost.\""},
    [OVERRUNS] = {"overruns", "Overruns", NULL, 0, 0, 1e9f,
                  "lv2:portProperty lv2:integer ; rdfs:comment \"Calls that took longer than their frames last.\""},
};

static inline int control_is_output(int control)
{
    return control >= LATENCY;
}

/* A plugin with sources has their directions, and a source has no dry signal. */
static inline int variant_has(const struct variant *variant, int control)
{
    if (control <= DISTANCE) return variant->n_sources > 0;
    if (control == DRY || control == WET || control == PREDELAY) return variant->n_sources == 0;
    return 1;
}

/* Returns the control of control port i of a plugin, from 0; N_CONTROLS: the plugin has fewer. */
static inline int variant_control(const struct variant *variant, int i)
{
    int control = 0;
    while (control < N_CONTROLS && (!variant_has(variant, control) || i-- > 0)) control++;
    return control;
}

static inline int variant_n_controls(const struct variant *variant)
{
    int n = 0;
    while (variant_control(variant, n) < N_CONTROLS) n++;
    return n;
}

static inline const char *variant_file_uri(const struct variant *variant)
{
    return variant->n_sources > 0 ? BANK_URI : MASK_URI;
}

#endif
