/* camilladsp - the state of the reader of a CamillaDSP configuration. */
#ifndef HALOCONV_CAMILLADSP_H
#define HALOCONV_CAMILLADSP_H

#ifdef HC_WITH_YAML

#include "yaml_values.h"

/* Every filter of CamillaDSP that is linear is a gain, a delay and a filter. */
struct camilladsp_filter {
    bool is_read;
    double gain, delay_s;
    const struct filter *filter; /* NULL: none, or has_filter and the arena is short */
    bool has_filter;
};

struct camilladsp {
    struct yaml yaml;
    int rate, n_captured;              /* devices.samplerate in Hz; capture channels             */
    double volume_limit;               /* factor of a volume control at rest, at most 1          */
    const yaml_node_t *filters;        /* mapping from names; NULL: absent                       */
    struct camilladsp_filter *read;    /* [yaml_count(filters)]                                  */
    int64_t n_steps;                   /* steps of lists and recursions, which aliases repeat without any text */
};

/* Reads a filter from the mapping behind its name. */
void camilladsp_filter_read(struct camilladsp *d, const yaml_node_t *node, struct camilladsp_filter *filter);

/* Returns the factor of `gain`, `scale`, `inverted` and `mute`. missing_db: dB without a gain; NAN: an error. */
double camilladsp_gain(struct camilladsp *d, const yaml_node_t *map, double missing_db);

/* Replaces $samplerate$ and $channels$ in a copy in the arena; returns `text` if it has neither. "": no memory. */
const char *camilladsp_name(struct camilladsp *d, const char *text);

#endif
#endif
