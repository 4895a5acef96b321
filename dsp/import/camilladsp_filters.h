/* camilladsp_filters - the state of reading one filter of CamillaDSP, for the readers of the filter types. */
#ifndef HALOCONV_CAMILLADSP_FILTERS_H
#define HALOCONV_CAMILLADSP_FILTERS_H

#include "camilladsp.h"

#ifdef HC_WITH_YAML

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
