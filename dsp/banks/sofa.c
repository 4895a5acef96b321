/* sofa - reads a SOFA file (AES69-2022) as a bank: its entries, and the direction of each.
 *
 *   DataType FIR    Data.IR [M][R][N]       an entry for each measurement m; output r is receiver r
 *   FIRE            Data.IR [M][R][E][N]    an entry for each pair of measurement m and emitter e, at m * E + e
 *   FIR-E           Data.IR [M][R][N][E]    as FIRE
 *   TF              Data.Real, Data.Imag [M][R][N] at the frequencies N, in equal steps: as FIR
 *
 * The position of an entry is that of the source or emitter, relative to the measurement's listener: x along
 * ListenerView, z along ListenerUp. ReceiverPosition tells which of two receivers is the left ear, output 0.
 */
#include "bank.h"
#include "dsp/base/error.h"
#include "dsp/base/memory.h"
#include "dsp/masks/mask_file.h"
#include "dsp/signal/transform.h"
#include "sofa_reader.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MAX_DELAY = 1 << 20, MAX_RATE = 100000000 };

struct sofa {
    struct sofa_reader reader;
    const char *path;
    char convention[SOFA_TEXT];
    char lacks[240]; /* names that AES69 requires and the file lacks, for a note */
    size_t n_measurements, n_receivers, n_emitters, n_taps;
    bool has_emitters;         /* FIRE, FIR-E: an entry is a pair of measurement and emitter */
    bool taps_before_emitters; /* FIR-E: [N][E]                                              */
    bool is_spectra;           /* TF: bins first_bin ... first_bin + n_bins - 1, step_hz apart, of n_taps / 2 + 1 */
    size_t n_bins, first_bin;  /* first_bin: 0 or 1                                          */
    double step_hz;
};

/* ---- units, as AES69 and the programs that write such files spell them ------------------------------------------- */

enum sofa_quantity { SOFA_ANGLE, SOFA_LENGTH, SOFA_FREQUENCY, SOFA_TIME, SOFA_FRAMES };

struct sofa_unit {
    const char *name;
    enum sofa_quantity quantity;
    double scale; /* factor that converts a value to degrees, metres, hertz, seconds or frames */
};

/* Names are in the singular: a final s in a file is ignored. */
static const struct sofa_unit unit_names[] = {
    {"degree", SOFA_ANGLE, 1},
    {"deg", SOFA_ANGLE, 1},
    {"\xc2\xb0", SOFA_ANGLE, 1},
    {"radian", SOFA_ANGLE, 180 / M_PI},
    {"rad", SOFA_ANGLE, 180 / M_PI},
    {"metre", SOFA_LENGTH, 1},
    {"meter", SOFA_LENGTH, 1},
    {"m", SOFA_LENGTH, 1},
    {"centimetre", SOFA_LENGTH, 1e-2},
    {"centimeter", SOFA_LENGTH, 1e-2},
    {"cm", SOFA_LENGTH, 1e-2},
    {"millimetre", SOFA_LENGTH, 1e-3},
    {"millimeter", SOFA_LENGTH, 1e-3},
    {"mm", SOFA_LENGTH, 1e-3},
    {"hertz", SOFA_FREQUENCY, 1},
    {"hz", SOFA_FREQUENCY, 1},
    {"kilohertz", SOFA_FREQUENCY, 1e3},
    {"khz", SOFA_FREQUENCY, 1e3},
    {"second", SOFA_TIME, 1},
    {"sec", SOFA_TIME, 1},
    {"s", SOFA_TIME, 1},
    {"millisecond", SOFA_TIME, 1e-3},
    {"ms", SOFA_TIME, 1e-3},
    {"microsecond", SOFA_TIME, 1e-6},
    {"us", SOFA_TIME, 1e-6},
    {"sample", SOFA_FRAMES, 1},
    {"frame", SOFA_FRAMES, 1},
};

/* Finds the unit name[length], which has no blanks around it. NULL: unknown. */
static const struct sofa_unit *sofa_unit_find(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof unit_names / sizeof *unit_names; i++) {
        size_t n = strlen(unit_names[i].name);
        bool is_plural = length == n + 1 && n > 2 && (name[n] | 32) == 's';
        if ((length == n || is_plural) && strncasecmp(name, unit_names[i].name, n) == 0) return &unit_names[i];
    }
    return NULL;
}

/* Reads the attribute Units, up to three names separated by commas. Returns their number; -1: a name is unknown, or
 * more than three. */
static int sofa_units_read(const char *text, const struct sofa_unit *units[3])
{
    int n = 0;
    text += strspn(text, " ");
    while (*text) {
        size_t length = strcspn(text, ","), end = length;
        while (end > 0 && text[end - 1] == ' ') end--;
        if (n == 3 || !(units[n++] = sofa_unit_find(text, end))) return -1;
        text += length;
        if (*text == ',') text += 1 + strspn(text + 1, " ");
    }
    return n;
}

/* ---- variables --------------------------------------------------------------------------------------------------- */

/* Finds a variable. *is_there becomes false if the file lacks it. */
static int variable_look(const struct sofa *sofa, const char *name, struct sofa_variable *variable, bool *is_there,
                         struct reason *why)
{
    *is_there = sofa->reader.look(sofa->reader.file, name, variable);
    if (!*is_there || !variable->is_elsewhere) return HC_OK;
    return fail(HC_EUNSUPPORTED, why,
                "%s: the values of %s are in another file, which haloconv does not read; copy them into this file",
                sofa->path, name);
}

/* Records that a variable, or an attribute of it, is missing, so that its default counts: its name may be misspelt. */
static void lacks(struct sofa *sofa, const char *name, const char *attribute)
{
    size_t used = strlen(sofa->lacks);
    snprintf(sofa->lacks + used, sizeof sofa->lacks - used, "%s%s%s%s", used ? ", " : "", name, *attribute ? ":" : "",
             attribute);
}

static int refuse_values(const struct sofa *sofa, const char *name, struct reason *why)
{
    return fail(HC_EFILE, why,
                "%s: %s cannot be read: the file is damaged or cut short; download it again, or restore it", sofa->path,
                name);
}

/* Reads a variable of n values into *values. */
static int values_read(const struct sofa *sofa, const char *name, size_t n, float **values, struct reason *why)
{
    *values = malloc((n ? n : 1) * sizeof **values);
    if (!*values)
        return fail(HC_ENOMEM, why, "%s: no memory for the %zu values of %s; free some memory", sofa->path, n, name);
    if (sofa->reader.read(sofa->reader.file, name, n, *values)) return HC_OK;
    free(*values);
    *values = NULL;
    return refuse_values(sofa, name, why);
}

/* Reads the unit of a variable, which must be of quantity a or b. *unit NULL: no unit. The message names `known`. */
static int unit_read(struct sofa *sofa, const char *name, struct sofa_variable *v, enum sofa_quantity a,
                     enum sofa_quantity b, const char *known, const struct sofa_unit **unit, struct reason *why)
{
    const struct sofa_unit *units[3];
    int n = sofa_units_read(v->units, units);
    *unit = n == 1 ? units[0] : NULL;
    if (n == 0) lacks(sofa, name, "Units");
    if (n == 0 || (*unit && ((*unit)->quantity == a || (*unit)->quantity == b))) return HC_OK;
    return fail(HC_EINVAL, why, "%s: %s is in the unit \"%s\", and only %s can be read; repair its attribute Units",
                sofa->path, name, v->units, known);
}

struct triplets {      /* coordinates for each measurement or for all */
    float *values;     /* [n][3]; those of emitters [n_items][3][n]              */
    size_t n;          /* 1 or n_measurements; 0: the default                   */
    bool is_spherical; /* values are azimuth, elevation, distance               */
    double scale[3];   /* factors that convert values to degrees and metres     */
};

/* Finds the coordinates and units of a variable by its attributes. The default is cartesian, in metres. */
static int coordinates_read(struct sofa *sofa, const char *name, struct sofa_variable *v, struct triplets *triplets,
                            struct reason *why)
{
    const struct sofa_unit *units[3];
    int n = sofa_units_read(v->units, units);
    if (!*v->type) lacks(sofa, name, "Type");
    if (n == 0) lacks(sofa, name, "Units");
    if (strncmp(v->type, "spherical h", 11) == 0)
        return fail(HC_EUNSUPPORTED, why,
                    "%s: %s are spherical harmonics, which are not directions; use a file with positions", sofa->path,
                    name);
    if (*v->type && strcmp(v->type, "spherical") != 0 && strcmp(v->type, "cartesian") != 0)
        return fail(HC_EINVAL, why, "%s: %s is in \"%s\" coordinates; use a file with spherical or cartesian ones",
                    sofa->path, name, v->type);
    /* Files without the attribute Type may still have units. */
    triplets->is_spherical = *v->type ? strcmp(v->type, "spherical") == 0 : n > 0 && units[0]->quantity == SOFA_ANGLE;
    bool good = n == 0 || n == 1 || n == 3;
    for (int c = 0; c < 3 && n > 0 && good; c++) {
        bool is_angle = triplets->is_spherical && c < 2;
        if (n == 1 && triplets->is_spherical && c == 2) continue; /* a single "degree" does not apply to the distance */
        const struct sofa_unit *unit = units[n == 1 ? 0 : c];
        good = good && unit->quantity == (is_angle ? SOFA_ANGLE : SOFA_LENGTH);
        triplets->scale[c] = unit->scale;
    }
    if (good) return HC_OK;
    return fail(
        HC_EINVAL, why,
        "%s: %s has %s coordinates in the units \"%s\", and only %s can be read; repair its attributes Type and Units",
        sofa->path, name, triplets->is_spherical ? "spherical" : "cartesian", v->units,
        triplets->is_spherical ? "degree or radian, and metre for distances" : "metre, centimetre, millimetre");
}

static int check_finite(const struct sofa *sofa, const char *name, const float *values, size_t n, struct reason *why)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(values[i]))
            return fail(HC_EINVAL, why, "%s: value %zu of %s is %s; repair the file", sofa->path, i + 1, name,
                        isnan(values[i]) ? "NaN" : "infinite");
    return HC_OK;
}

/* Reads [n_items][3] or [n_items][3][M] values, or if n_items is 0, [1 or M][3]. usual: default for a missing variable;
 * NULL: the variable is required. */
static int triplets_read(struct sofa *sofa, const char *name, size_t n_items, const float usual[3],
                         struct triplets *triplets, struct reason *why)
{
    struct sofa_variable v;
    size_t m = sofa->n_measurements, items = n_items ? n_items : 1;
    bool is_there;
    *triplets = (struct triplets){.scale = {1, 1, 1}};
    int error = variable_look(sofa, name, &v, &is_there, why);
    if (error) return error;
    if (!is_there) {
        if (!usual)
            return fail(HC_EINVAL, why, "%s: has no %s, so that its responses have no positions; repair the file",
                        sofa->path, name);
        triplets->values = malloc(3 * sizeof *triplets->values);
        if (!triplets->values) return fail(HC_ENOMEM, why, "%s: no memory for %s; free some memory", sofa->path, name);
        memcpy(triplets->values, usual, 3 * sizeof *usual);
        if (strncmp(name, "Listener", 8) == 0) lacks(sofa, name, "");
        return HC_OK;
    }
    if (v.n != 3 * items && v.n != 3 * items * m)
        return fail(HC_EINVAL, why, "%s: %s has %zu values, but needs %zu or %zu; repair the file", sofa->path, name,
                    v.n, 3 * items, 3 * items * m);
    error = coordinates_read(sofa, name, &v, triplets, why);
    if (error) return error;
    triplets->n = v.n / (3 * items);
    error = values_read(sofa, name, v.n, &triplets->values, why);
    if (!error) error = check_finite(sofa, name, triplets->values, v.n, why);
    if (error) {
        free(triplets->values);
        triplets->values = NULL;
    }
    return error;
}

/* Converts triplet `item` of measurement m to x, y, z. */
static void triplet_get(const struct triplets *triplets, size_t item, bool is_of_items, size_t m, double xyz[3])
{
    double v[3];
    size_t n = triplets->n > 1 ? triplets->n : 1;
    if (n == 1) m = 0;
    for (size_t c = 0; c < 3; c++)
        v[c] = triplets->scale[c] *
               (double)(is_of_items ? triplets->values[(item * 3 + c) * n + m] : triplets->values[m * 3 + c]);
    if (triplets->is_spherical)
        position_from_angles(v[0], v[1], v[2], xyz);
    else
        memcpy(xyz, v, sizeof v);
}

/* ---- views ------------------------------------------------------------------------------------------------------- */

static double dot(const double a[3], const double b[3])
{
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

static bool vector_normalise(double v[3])
{
    double length = sqrt(dot(v, v));
    if (!(length > 1e-9)) return false;
    for (int c = 0; c < 3; c++) v[c] /= length;
    return true;
}

/* Computes the axes of a listener who looks along `view`: ahead, left, up. false: vectors are zero or parallel. */
static bool axes_make(const double view[3], const double up[3], double axes[3][3])
{
    memcpy(axes[0], view, sizeof axes[0]);
    memcpy(axes[2], up, sizeof axes[2]);
    if (!vector_normalise(axes[0])) return false;
    double along = dot(axes[0], axes[2]);
    for (int c = 0; c < 3; c++) axes[2][c] -= along * axes[0][c];
    if (!vector_normalise(axes[2])) return false;
    for (int c = 0; c < 3; c++)
        axes[1][c] = axes[2][(c + 1) % 3] * axes[0][(c + 2) % 3] - axes[2][(c + 2) % 3] * axes[0][(c + 1) % 3];
    return true;
}

struct geometry {
    struct triplets source, source_view, source_up, emitter, listener, view, up;
};

static void geometry_free(struct geometry *g)
{
    struct triplets *all[] = {&g->source, &g->source_view, &g->source_up, &g->emitter, &g->listener, &g->view, &g->up};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]->values);
}

static int geometry_read(struct sofa *sofa, struct geometry *g, struct reason *why)
{
    static const float zero[3] = {0, 0, 0}, ahead[3] = {1, 0, 0}, above[3] = {0, 0, 1};
    int error = triplets_read(sofa, "SourcePosition", 0, sofa->has_emitters ? zero : NULL, &g->source, why);
    if (!error) error = triplets_read(sofa, "ListenerPosition", 0, zero, &g->listener, why);
    if (!error) error = triplets_read(sofa, "ListenerView", 0, ahead, &g->view, why);
    if (!error) error = triplets_read(sofa, "ListenerUp", 0, above, &g->up, why);
    struct sofa_variable v = {0};
    bool is_there;
    if (!error) error = variable_look(sofa, "EmitterPosition", &v, &is_there, why);
    /* Several emitters of a FIR, as those of headphones, have no responses of their own. */
    bool is_one = v.n == 3 || (v.n == 3 * sofa->n_measurements && (v.n_dims != 3 || v.dim[0] == 1));
    if (error || !(sofa->has_emitters || is_one)) return error;
    error = triplets_read(sofa, "EmitterPosition", sofa->n_emitters, NULL, &g->emitter, why);
    bool is_at_source = true;
    for (size_t i = 0; i < 3 * sofa->n_emitters * g->emitter.n && !error; i++)
        is_at_source &= g->emitter.values[i] == 0;
    if (error || is_at_source) return error;
    error = triplets_read(sofa, "SourceView", 0, ahead, &g->source_view, why);
    if (!error) error = triplets_read(sofa, "SourceUp", 0, above, &g->source_up, why);
    return error;
}

static int axes_of(const struct sofa *sofa, const struct triplets *view, const struct triplets *up, size_t m,
                   const char *whose, double axes[3][3], struct reason *why)
{
    double ahead[3], above[3];
    triplet_get(view, 0, false, m, ahead);
    triplet_get(up, 0, false, m, above);
    if (axes_make(ahead, above, axes)) return HC_OK;
    return fail(HC_EINVAL, why,
                "%s: %sView and %sUp of measurement %zu are zero or point the same way; repair the file", sofa->path,
                whose, whose, m + 1);
}

/* Computes the positions of all entries. */
static int positions_make(const struct sofa *sofa, const struct geometry *g, float (*position)[3], struct reason *why)
{
    for (size_t m = 0; m < sofa->n_measurements; m++) {
        double source[3], listener[3], emitter[3] = {0}, listener_axes[3][3];
        double source_axes[3][3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
        int error = axes_of(sofa, &g->view, &g->up, m, "Listener", listener_axes, why);
        if (!error && g->source_view.values)
            error = axes_of(sofa, &g->source_view, &g->source_up, m, "Source", source_axes, why);
        if (error) return error;
        triplet_get(&g->source, 0, false, m, source);
        triplet_get(&g->listener, 0, false, m, listener);
        for (size_t e = 0; e < sofa->n_emitters; e++) {
            double relative[3];
            if (g->emitter.values) triplet_get(&g->emitter, e, true, m, emitter);
            for (int c = 0; c < 3; c++)
                relative[c] = source[c] - listener[c] + emitter[0] * source_axes[0][c] +
                              emitter[1] * source_axes[1][c] + emitter[2] * source_axes[2][c];
            for (int c = 0; c < 3; c++) (*position)[c] = (float)dot(relative, listener_axes[c]);
            for (int c = 0; c < 3; c++)
                if (!isfinite((*position)[c]))
                    return fail(HC_EINVAL, why, "%s: the position of measurement %zu is too far away; repair the file",
                                sofa->path, m + 1);
            position++;
        }
    }
    return HC_OK;
}

/* ---- kind of the file -------------------------------------------------------------------------------------------- */

static int refuse_convention(const struct sofa *sofa, const char *data_type, struct reason *why)
{
    const char *reason = "has no impulse responses";
    if (strcmp(data_type, "SOS") == 0 || strcmp(data_type, "SOS-E") == 0)
        reason = "has filters of second order, not impulse responses";
    if (strcmp(data_type, "TF-E") == 0) reason = "has spectra for each emitter, not impulse responses";
    return fail(HC_EUNSUPPORTED, why,
                "%s: the convention %s with data of type \"%s\" %s; use a file of type FIR (SimpleFreeFieldHRIR, "
                "MultiSpeakerBRIR, SingleRoomSRIR)",
                sofa->path, *sofa->convention ? sofa->convention : "(none)", data_type, reason);
}

static int kind_read(struct sofa *sofa, struct reason *why)
{
    char conventions[SOFA_TEXT], data_type[SOFA_TEXT];
    sofa->reader.text(sofa->reader.file, "Conventions", conventions);
    sofa->reader.text(sofa->reader.file, "SOFAConventions", sofa->convention);
    sofa->reader.text(sofa->reader.file, "DataType", data_type);
    text_clean(sofa->convention);
    text_clean(data_type);
    if (strcmp(conventions, "SOFA") != 0)
        return fail(HC_EINVAL, why, "%s: its attribute Conventions is not SOFA; give a SOFA file", sofa->path);
    sofa->taps_before_emitters = strcmp(data_type, "FIR-E") == 0;
    sofa->has_emitters = sofa->taps_before_emitters || strcmp(data_type, "FIRE") == 0;
    sofa->is_spectra = strcmp(data_type, "TF") == 0;
    if (!sofa->has_emitters && !sofa->is_spectra && strcmp(data_type, "FIR") != 0)
        return refuse_convention(sofa, data_type, why);
    return HC_OK;
}

/* Reads the frequencies of spectra. The responses get a power of two of taps, over a period of the steps. */
static int frequencies_read(struct sofa *sofa, size_t n, struct reason *why)
{
    struct sofa_variable v;
    const struct sofa_unit *unit;
    float *hz;
    bool is_there;
    int error = variable_look(sofa, "N", &v, &is_there, why);
    if (error) return error;
    if (!is_there || v.n != n || n < 2)
        return fail(HC_EINVAL, why, "%s: N has %zu frequencies for spectra of %zu values; repair the file", sofa->path,
                    v.n, n);
    error = unit_read(sofa, "N", &v, SOFA_FREQUENCY, SOFA_FREQUENCY, "hertz and kilohertz", &unit, why);
    if (!error) error = values_read(sofa, "N", n, &hz, why);
    if (error) return error;
    double first = hz[0], last = hz[n - 1], step = (last - first) / (double)(n - 1);
    double near = fmax(1e-3 * step, 2e-7 * last); /* the digits of a float */
    bool good = step > 0 && isfinite(step) && fmin(fabs(first), fabs(first - step)) <= near;
    for (size_t i = 0; i < n && good; i++) good = fabs(hz[i] - (first + (double)i * step)) <= near;
    free(hz);
    if (!good)
        return fail(
            HC_EUNSUPPORTED, why,
            "%s: its frequencies N are not at equal steps from 0 Hz or one step on, so that its spectra have no "
            "impulse responses; use a file of type FIR",
            sofa->path);
    sofa->n_bins = n;
    sofa->first_bin = fabs(first) > near;
    sofa->step_hz = (unit ? unit->scale : 1) * last / (double)(n - 1 + sofa->first_bin);
    sofa->n_taps = transform_size(2 * (n - 1 + sofa->first_bin));
    return HC_OK;
}

static int sofa_shape_read(struct sofa *sofa, struct reason *why)
{
    const char *name = sofa->is_spectra ? "Data.Real" : "Data.IR";
    struct sofa_variable ir;
    int n_dims = sofa->has_emitters ? 4 : 3;
    bool is_there;
    int error = variable_look(sofa, name, &ir, &is_there, why);
    if (error) return error;
    if (!is_there)
        return fail(HC_EINVAL, why,
                    "%s: %s is missing, is not an array of numbers, or is too short for its shape; download the "
                    "file again, or restore it",
                    sofa->path, name);
    if (ir.n_dims != n_dims)
        return fail(HC_EINVAL, why, "%s: %s has %d dimensions, but this type of data has %d; repair the file",
                    sofa->path, name, ir.n_dims, n_dims);
    for (int i = 0; i < n_dims; i++)
        if (ir.dim[i] == 0)
            return fail(HC_EINVAL, why, "%s: dimension %d of %s is 0; repair the file", sofa->path, i + 1, name);
    sofa->n_measurements = ir.dim[0];
    sofa->n_receivers = ir.dim[1];
    sofa->n_taps = ir.dim[sofa->has_emitters && !sofa->taps_before_emitters ? 3 : 2];
    sofa->n_emitters = sofa->has_emitters ? ir.dim[sofa->taps_before_emitters ? 3 : 2] : 1;
    if (sofa->n_measurements > BANK_MAX_ENTRIES || sofa->n_emitters > BANK_MAX_ENTRIES)
        return fail(HC_EINVAL, why,
                    "%s: has %zu measurements with %zu emitters, more than the %d entries of a bank; use fewer",
                    sofa->path, sofa->n_measurements, sofa->n_emitters, BANK_MAX_ENTRIES);
    return sofa->is_spectra ? frequencies_read(sofa, sofa->n_taps, why) : HC_OK;
}

static int rate_read(struct sofa *sofa, int *rate, struct reason *why)
{
    struct sofa_variable v;
    float *values;
    bool is_there;
    if (sofa->is_spectra) {
        double hz = sofa->step_hz * (double)sofa->n_taps;
        *rate = hz >= 1 && hz <= MAX_RATE ? (int)lrint(hz) : 0;
        return *rate ? HC_OK : fail(HC_EINVAL, why, "%s: the rate is %g Hz; repair N", sofa->path, hz);
    }
    int error = variable_look(sofa, "Data.SamplingRate", &v, &is_there, why);
    if (error) return error;
    if (!is_there || v.n == 0) return fail(HC_EINVAL, why, "%s: has no Data.SamplingRate; repair the file", sofa->path);
    if (v.n != 1 && v.n != sofa->n_measurements)
        return fail(HC_EINVAL, why, "%s: Data.SamplingRate has %zu values, but needs 1 or %zu; repair the file",
                    sofa->path, v.n, sofa->n_measurements);
    const struct sofa_unit *unit;
    error = unit_read(sofa, "Data.SamplingRate", &v, SOFA_FREQUENCY, SOFA_FREQUENCY, "hertz and kilohertz", &unit, why);
    if (!error) error = values_read(sofa, "Data.SamplingRate", v.n, &values, why);
    if (error) return error;
    double scale = unit ? unit->scale : 1, first = scale * (double)values[0];
    for (size_t i = 1; i < v.n && !error; i++)
        if (!(values[i] == values[0]))
            error = fail(HC_EINVAL, why, "%s: measurements have different rates, %g and %g Hz; resample them first",
                         sofa->path, first, scale * (double)values[i]);
    free(values);
    if (!error && !(first >= 1 && first <= MAX_RATE))
        error = fail(HC_EINVAL, why, "%s: the rate is %g Hz; repair Data.SamplingRate", sofa->path, first);
    if (!error) *rate = (int)lrint(first);
    return error;
}

/* ---- samples ----------------------------------------------------------------------------------------------------- */

static int samples_check(const struct sofa *sofa, const struct bank *bank, struct reason *why)
{
    for (size_t e = 0; e < (size_t)bank->n_entries; e++)
        for (size_t r = 0; r < sofa->n_receivers; r++) {
            const float *taps = bank_response(bank, e, r);
            for (size_t i = 0; i < sofa->n_taps; i++)
                if (!isfinite(taps[i]))
                    return fail(HC_EINVAL, why,
                                "%s: measurement %zu, receiver %zu, emitter %zu: sample %zu is %s; repair the file",
                                sofa->path, e / sofa->n_emitters + 1, r + 1, e % sofa->n_emitters + 1, i + 1,
                                isnan(taps[i]) ? "NaN" : "infinite");
        }
    return HC_OK;
}

/* Reorders values [M][R][E][N] or [M][R][N][E] to the bank's order, [M][E][R][N]. */
static void samples_order(const struct sofa *sofa, const float *values, struct bank *bank)
{
    size_t n_e = sofa->n_emitters, n = sofa->n_taps;
    for (size_t m = 0; m < sofa->n_measurements; m++)
        for (size_t r = 0; r < sofa->n_receivers; r++) {
            const float *from = values + (m * sofa->n_receivers + r) * n_e * n;
            for (size_t e = 0; e < n_e; e++) {
                float *to = bank_response(bank, m * n_e + e, r);
                for (size_t i = 0; i < n; i++) to[i] = sofa->taps_before_emitters ? from[i * n_e + e] : from[e * n + i];
            }
        }
}

/* Computes the response of a spectrum, in place. */
static void spectrum_invert(const struct sofa *sofa, const struct transform *t, double complex *bins)
{
    size_t last = sofa->first_bin + sofa->n_bins - 1;
    /* The level of 0 Hz, if it is missing, is that of the first frequency. */
    bins[0] = sofa->first_bin ? copysign(cabs(bins[1]), creal(bins[1])) : creal(bins[0]);
    if (2 * last == t->size)
        bins[last] = creal(bins[last]);
    else if (cimag(bins[last]) == 0)
        bins[last] /= 2; /* half the rate of the file, which a longer transform has twice */
    for (size_t k = last + 1; k <= t->size / 2; k++) bins[k] = 0;
    transform_inverse(t, bins);
}

/* Delays all responses if one begins before t = 0, that is at the end of its period, as computed heads do whose origin
 * is between the ears. A peak in the last quarter counts as one before t = 0. */
static void responses_delay(struct bank *bank, size_t rate, void *memory)
{
    float *scratch = memory; /* [n_taps] */
    size_t n = (size_t)bank->n_taps, n_all = (size_t)bank->n_entries * (size_t)bank->n_out, early = 0;
    for (size_t j = 0; j < n_all; j++) {
        const float *h = bank->taps + j * n;
        size_t peak = 0;
        for (size_t i = 1; i < n; i++)
            if (fabsf(h[i]) > fabsf(h[peak])) peak = i;
        if (peak > n - n / 4 && n - peak > early) early = n - peak;
    }
    if (!early) return;
    early = early + rate / 1000 < n / 2 ? early + rate / 1000 : n / 2; /* 1 ms before the peak */
    for (size_t j = 0; j < n_all; j++) {
        float *h = bank->taps + j * n;
        memcpy(scratch, h, n * sizeof *h);
        memcpy(h, scratch + n - early, early * sizeof *h);
        memcpy(h + early, scratch, (n - early) * sizeof *h);
    }
    bank_note(bank, "responses begin before t = 0: all are %zu frames later", early);
}

static int spectra_read(const struct sofa *sofa, struct bank *bank, struct reason *why)
{
    size_t n = sofa->n_bins, n_all = sofa->n_measurements * sofa->n_receivers;
    float *real = NULL, *imag = NULL;
    struct transform t = {0};
    double complex *bins = malloc((sofa->n_taps / 2 + 1) * sizeof *bins);
    int error = values_read(sofa, "Data.Real", n_all * n, &real, why);
    if (!error) error = values_read(sofa, "Data.Imag", n_all * n, &imag, why);
    if (!error && !(bins && transform_open(&t, sofa->n_taps)))
        error = fail(HC_ENOMEM, why, "%s: no memory for its transform; free some memory", sofa->path);
    for (size_t j = 0; j < n_all && !error; j++) {
        for (size_t k = 0; k < n; k++) bins[sofa->first_bin + k] = CMPLX(real[j * n + k], imag[j * n + k]);
        spectrum_invert(sofa, &t, bins);
        const double *h = (const double *)bins;
        for (size_t i = 0; i < t.size; i++) bank->taps[j * t.size + i] = (float)h[i];
    }
    if (!error) {
        bank_note(bank, "spectra in steps of %g Hz became responses of %zu frames", sofa->step_hz, t.size);
        responses_delay(bank, (size_t)(sofa->step_hz * (double)t.size), bins);
        transform_close(&t);
    }
    free(bins);
    free(real);
    free(imag);
    return error;
}

static int sofa_samples_read(const struct sofa *sofa, struct bank *bank, struct reason *why)
{
    size_t n_entries = sofa->n_measurements * sofa->n_emitters;
    double bytes = (double)n_entries * (double)sofa->n_receivers * (double)sofa->n_taps * sizeof(float);
    int error = bank_make(bank, n_entries, sofa->n_receivers, sofa->n_taps, bytes, sofa->path, why);
    if (error || bank->sizes_only) return error;
    size_t n = n_entries * sofa->n_receivers * sofa->n_taps;
    if (sofa->is_spectra) {
        error = spectra_read(sofa, bank, why);
    } else if (!sofa->has_emitters) {
        if (!sofa->reader.read(sofa->reader.file, "Data.IR", n, bank->taps))
            error = refuse_values(sofa, "Data.IR", why);
    } else {
        float *values;
        error = values_read(sofa, "Data.IR", n, &values, why);
        if (!error) samples_order(sofa, values, bank);
        if (!error) free(values);
    }
    return error ? error : samples_check(sofa, bank, why);
}

/* ---- delays ------------------------------------------------------------------------------------------------------ */

/* Reads Data.Delay, [1 or M][R] or [1 or M][R][E], into delays[n_entries * n_out]. *delays is NULL if absent; *max is
 * the longest. */
static int delays_read(struct sofa *sofa, int rate, double **delays, double *max, struct reason *why)
{
    struct sofa_variable v;
    size_t n_r = sofa->n_receivers, n_e = sofa->n_emitters, n_m = sofa->n_measurements;
    float *values;
    *delays = NULL;
    *max = 0;
    bool is_there;
    int error = variable_look(sofa, "Data.Delay", &v, &is_there, why);
    if (!error && !is_there && !sofa->is_spectra) lacks(sofa, "Data.Delay", "");
    if (error || !is_there || v.n == 0) return error;
    /* A file for several emitters may have delays for receivers only. */
    bool is_full = v.n == n_m * n_r * n_e;
    bool is_each = is_full || v.n == n_m * n_r, is_of_emitters = is_full || v.n == n_r * n_e;
    if (is_each && is_of_emitters && !is_full) { /* there are as many measurements as emitters: the shape decides */
        is_of_emitters = v.n_dims == 3 && v.dim[2] == n_e;
        is_each = !is_of_emitters;
    }
    if (!is_each && !is_of_emitters && v.n != n_r)
        return fail(HC_EINVAL, why, "%s: Data.Delay has %zu values, but needs %zu or %zu; repair the file", sofa->path,
                    v.n, n_r * n_e, n_m * n_r * n_e);
    const struct sofa_unit *unit;
    error = unit_read(sofa, "Data.Delay", &v, SOFA_FRAMES, SOFA_TIME, "samples, seconds, milliseconds and microseconds",
                      &unit, why);
    if (!error) error = values_read(sofa, "Data.Delay", v.n, &values, why);
    if (error) return error;
    double to_frames = unit && unit->quantity == SOFA_TIME ? rate * unit->scale : 1;
    *delays = malloc(n_m * n_e * n_r * sizeof **delays);
    if (!*delays) error = fail(HC_ENOMEM, why, "%s: no memory for its delays; free some memory", sofa->path);
    for (size_t i = 0; i < v.n && !error; i++)
        if (!(values[i] >= 0 && to_frames * (double)values[i] <= MAX_DELAY))
            error = fail(HC_EINVAL, why, "%s: value %zu of Data.Delay is %g frames; give 0 to %d", sofa->path, i + 1,
                         to_frames * (double)values[i], MAX_DELAY);
    for (size_t m = 0; m < n_m && !error; m++)
        for (size_t e = 0; e < n_e; e++)
            for (size_t r = 0; r < n_r; r++) {
                size_t at = (is_each ? m : 0) * n_r + r;
                if (is_of_emitters) at = at * n_e + e;
                double delay = to_frames * (double)values[at], whole = rint(delay);
                if (to_frames != 1 && fabs(delay - whole) <= 2e-7 * delay)
                    delay = whole; /* a float has no digits for the fraction */
                (*delays)[(m * n_e + e) * n_r + r] = delay;
                if (delay > *max) *max = delay;
            }
    free(values);
    return error;
}

static int delays_apply(struct sofa *sofa, struct bank *bank, struct reason *why)
{
    double *delays = NULL, max = 0;
    int error = delays_read(sofa, bank->rate, &delays, &max, why);
    if (!error && max > 0) {
        error = bank_delay(bank, delays, sofa->path, why);
        bank_note(bank, "delays of the file are applied: up to %.2f frames", max);
    }
    free(delays);
    return error;
}

/* ---- receivers --------------------------------------------------------------------------------------------------- */

/* Which receiver of a pair is on the left: 1 the first, -1 the second, 0 neither. near_m: how well the two must mirror
 * each other: those of several pairs do, microphones of an array do not. */
static int pair_side(const struct triplets *positions, size_t r, size_t m, double near_m)
{
    double a[3], b[3];
    triplet_get(positions, r, true, m, a);
    triplet_get(positions, r + 1, true, m, b);
    bool mirror = fabs(a[0] - b[0]) <= near_m && fabs(a[1] + b[1]) <= near_m && fabs(a[2] - b[2]) <= near_m;
    return !mirror || fmin(a[1], b[1]) > -1e-6 || fmax(a[1], b[1]) < 1e-6 ? 0 : a[1] > 0 ? 1 : -1;
}

/* Did the API for Matlab write the file, in a version that could name the ears the wrong way round? */
static bool has_wrong_names(const struct sofa *sofa)
{
    char name[SOFA_TEXT], version[SOFA_TEXT];
    sofa->reader.text(sofa->reader.file, "APIName", name);
    sofa->reader.text(sofa->reader.file, "APIVersion", version);
    return strcmp(name, "ARI SOFA API for Matlab/Octave") == 0 && *version && strverscmp(version, "1.1.0") <= 0;
}

/* Puts the left receiver of each pair first. */
static int receivers_order(struct sofa *sofa, struct bank *bank, struct reason *why)
{
    struct sofa_variable v;
    struct triplets positions;
    size_t n_r = sofa->n_receivers, n_e = sofa->n_emitters, n_wrong = 0, n_unclear = 0;
    double near_m = n_r == 2 ? INFINITY : 1e-4;
    bool is_there;
    int error = variable_look(sofa, "ReceiverPosition", &v, &is_there, why);
    if (error || n_r % 2 || strncmp(v.type, "spherical h", 11) == 0) return error;
    if (!is_there && n_r == 2) bank_note(bank, "has no ReceiverPosition: the first receiver counts as the left ear");
    if (is_there && has_wrong_names(sofa)) bank_note(bank, "receivers of the ARI API up to 1.1.0 count as left, right");
    if (!is_there || has_wrong_names(sofa)) return HC_OK;
    error = triplets_read(sofa, "ReceiverPosition", n_r, NULL, &positions, why);
    for (size_t m = 0; m < sofa->n_measurements && !error; m++) {
        size_t n_left = 0, n_right = 0;
        for (size_t r = 0; r < n_r; r += 2) {
            n_left += pair_side(&positions, r, m, near_m) > 0;
            n_right += pair_side(&positions, r, m, near_m) < 0;
        }
        bool is_clear = n_left + n_right == n_r / 2;
        n_unclear += !is_clear;
        n_wrong += is_clear && n_right > 0;
        for (size_t r = 0; r < n_r && is_clear && bank->taps; r += 2)
            for (size_t e = m * n_e; e < (m + 1) * n_e && pair_side(&positions, r, m, near_m) < 0; e++)
                for (int i = 0; i < bank->n_taps; i++) {
                    float *left = &bank_response(bank, e, r)[i], *right = left + bank->n_taps, swap = *left;
                    *left = *right;
                    *right = swap;
                }
    }
    if (n_wrong) bank_note(bank, "the right receiver is stored first: the outputs are left, right");
    if (n_unclear && n_r == 2)
        bank_note(bank, "ReceiverPosition does not tell left from right: the first receiver counts as the left ear");
    free(positions.values);
    return error;
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

static int bank_from(struct sofa *sofa, struct bank *bank, struct reason *why)
{
    struct geometry geometry = {0};
    int rate = 0;
    int error = kind_read(sofa, why);
    if (!error) error = sofa_shape_read(sofa, why);
    if (!error) error = rate_read(sofa, &rate, why);
    if (!error) error = sofa_samples_read(sofa, bank, why);
    if (!error) {
        bank->rate = bank->file_rate = rate;
        bank_note(bank, "SOFA file, convention %s", *sofa->convention ? sofa->convention : "(none)");
        bank->position = malloc((size_t)bank->n_entries * sizeof *bank->position);
        if (!bank->position)
            error = fail(HC_ENOMEM, why, "%s: no memory for its positions; free some memory", sofa->path);
    }
    if (!error) error = geometry_read(sofa, &geometry, why);
    if (!error) error = positions_make(sofa, &geometry, bank->position, why);
    if (!error) error = delays_apply(sofa, bank, why);
    if (!error) error = receivers_order(sofa, bank, why);
    if (!error && *sofa->lacks) bank_note(bank, "has no %s: the defaults count", sofa->lacks);
    geometry_free(&geometry);
    return error;
}

/* Opens a file, first with libmysofa, which withstands damaged files; then, if libmysofa refuses, with HDF5. */
static int reader_open(struct sofa *sofa, struct reason *why)
{
    char refusal[512] = "";
    int first = sofa_mysofa_open(&sofa->reader, sofa->path, REASON(refusal, sizeof refusal));
    if (!first || first == HC_ENOMEM) return first ? fail(first, why, "%s", refusal) : HC_OK;
    int error = sofa_hdf5_open(&sofa->reader, sofa->path, why);
    /* HDF5 is missing: the reason of libmysofa is more precise. */
    if (error == HC_EUNSUPPORTED && first == HC_EFILE) return fail(first, why, "%s", refusal);
    return error;
}

int sofa_bank_read(struct bank *bank, const char *path, struct reason *why)
{
    struct sofa sofa = {.path = path};
    int error = mask_file_check(path, why);
    if (!error) error = reader_open(&sofa, why);
    if (error) return error;
    error = bank_from(&sofa, bank, why);
    sofa.reader.close(sofa.reader.file);
    return error;
}
