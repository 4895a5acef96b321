#include "controls.h"

#include <string.h>

#define VARIANT_ROW(symbol, name, n_in, n_out, n_sources, mask) {#symbol, name, n_in, n_out, n_sources, mask},
const struct variant variants[N_VARIANTS] = {VARIANTS(VARIANT_ROW)};

static const char *const backend_labels[] = {
    [BACKEND_AUTO] = "Auto", [BACKEND_CPU] = "CPU", [BACKEND_GPU] = "GPU", [N_BACKENDS] = NULL};

static const char *const side_labels[] = {[SIDE_A] = "A", [SIDE_B] = "B", [N_SIDES] = NULL};

/* Azimuth: counter-clockwise from straight ahead. */
const struct control_spec controls[N_CONTROLS] = {
    [AZIMUTH] = {"azimuth", "Azimuth", UNIT_DEGREE, -180, 0, 180, .comment = "Left is positive, right is negative."},
    [ELEVATION] = {"elevation", "Elevation", UNIT_DEGREE, -90, 0, 90, .comment = "Above is positive."},
    [DISTANCE] = {"distance", "Distance", UNIT_M, 0.1f, 1, 20, CONTROL_LOGARITHMIC,
                  .comment = "From 1 to 2 m the level falls by 6 dB."},
    [DRY] = {"dry", "Dry", UNIT_DB, -90, -90, 12, .kind = CONTROL_GAIN},
    [WET] = {"wet", "Wet", UNIT_DB, -90, 0, 12, .kind = CONTROL_GAIN},
    [GAIN] = {"gain", "Output gain", UNIT_DB, -90, 0, 24, .kind = CONTROL_GAIN},
    [PREDELAY] = {"predelay", "Predelay", UNIT_MS, 0, 0, .max = MAX_PREDELAY_MS},
    [ENABLED] = {"enabled", "Enabled", UNIT_NONE, 0, 1, 1, .kind = CONTROL_TOGGLE},
    [BACKEND] = {"backend", "Backend", UNIT_NONE, 0, 0, N_BACKENDS - 1, CONTROL_CHOICE, CONTROL_EXPENSIVE,
                 .labels = backend_labels},
    [FREEWHEEL] = {"freewheel", "Freewheel", UNIT_NONE, 0, 0, 1, CONTROL_TOGGLE, .flags = CONTROL_HIDDEN},
    [LATENCY] = {"latency", "Latency", UNIT_FRAME, 0, 0, 8192, CONTROL_INTEGER,
                 .flags = CONTROL_OUTPUT | CONTROL_HIDDEN},
    [LOAD] = {"load", "Load", UNIT_PERCENT, 0, 0, 1000, CONTROL_NUMBER, CONTROL_OUTPUT,
              .comment = "Time for a block, in percent of its duration."},
    [LATE] = {"late", "Late blocks", UNIT_NONE, 0, 0, 1e9f, CONTROL_INTEGER, CONTROL_OUTPUT,
              .comment = "Blocks that the GPU finished late: silent or tailless."},
    [LOST] = {"lost", "Lost blocks", UNIT_NONE, 0, 0, 1e9f, CONTROL_INTEGER, CONTROL_OUTPUT,
              .comment = "Blocks not convolved, because the GPU is lost."},
    [OVERRUNS] = {"overruns", "Overruns", UNIT_NONE, 0, 0, 1e9f, CONTROL_INTEGER, CONTROL_OUTPUT,
                  .comment = "Calls that took longer than their frames last."},
    [TRIM] = {"trim", "Trim", UNIT_DB, 10, NO_TRIM_DB, NO_TRIM_DB, CONTROL_LIMIT, CONTROL_EXPENSIVE,
              .comment = "Cuts the mask behind its last frame within this level below its peak."},
    [A_B] = {"ab", "A/B", UNIT_NONE, 0, SIDE_A, N_SIDES - 1, .kind = CONTROL_CHOICE,
             .comment = "The mask that plays, of two at equal loudness.", .labels = side_labels},
};

const int preset_controls[N_PRESET_CONTROLS] = {DRY, WET, PREDELAY};

const struct plugin_preset plugin_presets[N_PRESETS] = {
    {"hall.wav", "hall", "Hall", 2, {-90, 0, 0}},
    {"room.wav", "room", "Room", 2, {-90, 0, 0}},
    {"chamber.wav", "chamber", "Chamber", 4, {-90, 0, 0}},
    {"plate.wav", "plate", "Plate", 2, {0, -12, 0}},
    {"plate.wav", "plate_vocal", "Plate, vocal", 2, {0, -15, 30}},
    {"plate.wav", "plate_drums", "Plate, drums", 2, {0, -8, 0}},
    {"plate.wav", "plate_send", "Plate, for a send", 2, {-90, 0, 0}},
    {"spring.wav", "spring", "Spring", 1, {0, -12, 0}},
    {"spring.wav", "spring_surf", "Spring, surf", 1, {0, -6, 0}},
    {"spring.wav", "spring_send", "Spring, for a send", 1, {-90, 0, 0}},
    {"cabinet.wav", "cabinet", "Guitar cabinet", 1, {-90, 0, 0}},
    {"through.txt", "through", "Through", 1, {-90, 0, 0}},
};

bool preset_fits(const struct plugin_preset *s, const struct variant *v)
{
    if (v->n_sources > 0) return false;
    if (v->n_in == 1) return s->n_channels == 1 || s->n_channels == 2;
    return s->n_channels == 1 || (v->n_in == 2 && (s->n_channels == 2 || s->n_channels == 4));
}

const char variant_comments[2][128] = {
    "Convolution with impulse responses of any length and no latency, on the CPU or an NVIDIA GPU.",
    "Places a mono source around the head, for headphones: azimuth, elevation and distance move it without latency."};

bool variant_is_filter(const struct variant *v)
{
    return strncmp(v->mask, "through", 7) == 0;
}

bool variant_has(const struct variant *variant, int control)
{
    if (control <= DISTANCE) return variant->n_sources > 0;
    if (control == DRY || control == WET || control == PREDELAY || control == TRIM) return variant->n_sources == 0;
    return true;
}

int variant_control(const struct variant *variant, int i)
{
    int control = 0;
    while (control < N_CONTROLS && (!variant_has(variant, control) || i-- > 0)) control++;
    return control;
}

bool variant_has_setting(const struct variant *variant, int control)
{
    return variant_has(variant, control) && !(controls[control].flags & (CONTROL_OUTPUT | CONTROL_HIDDEN));
}

uint32_t control_id(int control)
{
    uint32_t id = 0;
    for (int i = 0; i < 4 && controls[control].symbol[i]; i++) id = id << 8 | (uint32_t)controls[control].symbol[i];
    return id;
}

int control_with_id(uint32_t id)
{
    int control = 0;
    while (control < N_CONTROLS && (control_id(control) != id || controls[control].flags & CONTROL_HIDDEN)) control++;
    return control;
}

int control_find(const char *symbol)
{
    int control = 0;
    while (control < N_CONTROLS && strcmp(controls[control].symbol, symbol) != 0) control++;
    return control;
}
