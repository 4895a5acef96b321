/* camilladsp - the state of the reader of a CamillaDSP configuration. */
#ifndef HALOCONV_CAMILLADSP_H
#define HALOCONV_CAMILLADSP_H

#ifdef HC_WITH_YAML

#include "yaml_values.h"

/* Every linear filter of CamillaDSP can be a gain, a delay and a filter of the network in series. */
struct camilladsp_filter {
    bool is_read;
    double gain, delay_s;
    const struct filter *filter; /* NULL: no filter or, if has_filter, the arena is short */
    bool has_filter;
};

struct camilladsp {
    struct yaml yaml;
    int rate, n_captured;              /* devices.samplerate in Hz; capture channels             */
    double volume_limit;               /* factor of a volume control at rest, 1 or less          */
    const yaml_node_t *filters;        /* filters by name; NULL: absent                          */
    struct camilladsp_filter *read;    /* [yaml_pairs(filters)]                                  */
    int64_t n_steps;                   /* steps of lists and recursions so far: aliases repeat them */
};

/* Reads a filter from the mapping behind its name. */
void camilladsp_filter_read(struct camilladsp *d, const yaml_node_t *node, struct camilladsp_filter *filter);

/* Returns the factor of `gain`, `scale`, `inverted` and `mute`. missing_db: dB if `gain` is missing; NAN: an error. */
double camilladsp_gain(struct camilladsp *d, const yaml_node_t *map, double missing_db);

/* Replaces $samplerate$ and $channels$ in a copy in the arena; returns `text` if it has neither. "": no memory. */
const char *camilladsp_name(struct camilladsp *d, const char *text);

/* ---- one filter: camilladsp_filters.c reads it, camilladsp_biquads.c the sections ---- */

struct reading { /* state of reading one filter */
    struct camilladsp *d;
    const yaml_node_t *node; /* the filter                   */
    const yaml_node_t *map;  /* parameters; NULL: none       */
    const char *type;        /* the type of the parameters   */
    struct camilladsp_filter *filter;
    int line;
    const char *command; /* the filter's name in diagnostics */
};

/* Reads a number; reports an error if it is missing. */
#define NUMBER(r, key) yaml_number(&(r)->d->yaml, (r)->map, key, NAN)
#define REFUSE(r, ...) YAML_REFUSE(&(r)->d->yaml, (r)->node, __VA_ARGS__)
#define NOTE(r, ...) IMPORT_NOTE((r)->d->yaml.import, yaml_line((r)->node), (r)->d->yaml.statement, __VA_ARGS__)
#define WARN(r, ...) YAML_WARN(&(r)->d->yaml, (r)->node, __VA_ARGS__)

/* The errors so far: a check of values that were refused would only add a second error. */
#define N_ERRORS(r) (r)->d->yaml.import->c->diagnostics.n_errors

struct network *reading_network(const struct reading *r);
bool reading_has(const struct reading *r, const char *key);
void reading_set_filter(struct reading *r, const struct filter *filter);

/* Reads a list of numbers, from malloc. NULL: *n is 0 (an empty list, or none), or an error was reported, or memory is
 * short. */
double *reading_numbers(struct reading *r, const char *key, int *n);

/* Sets a recursion (dsp/signal/recursive_filter.h) for the rate of the text: a session at another rate gets the
 * response resampled. */
void reading_set_recursion(struct reading *r, const double *b, int n_b, const double *a, int n_a);

/* camilladsp_biquad reads a filter of type Biquad, camilladsp_combination one of type BiquadCombo. */
void camilladsp_biquad(struct reading *r);
void camilladsp_combination(struct reading *r);

#endif
#endif
