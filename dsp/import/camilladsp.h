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

#endif
#endif
