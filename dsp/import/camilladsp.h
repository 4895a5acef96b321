/* camilladsp - a configuration of CamillaDSP while it is read. */
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
    double volume_limit;               /* factor: that of a volume at rest, at most 1            */
    const yaml_node_t *filters;        /* mapping from names; NULL: absent                       */
    struct camilladsp_filter *read;    /* [yaml_count(filters)]                                  */
    int64_t n_steps;                   /* of lists and recursions: aliases repeat them at no cost */
};

/* Reads a filter: the mapping behind its name. */
void camilladsp_filter_read(struct camilladsp *d, const yaml_node_t *node, struct camilladsp_filter *filter);

/* The factor of `gain`, `scale`, `inverted` and `mute`. missing_db: of a gain that is missing; NAN: refuses that. */
double camilladsp_gain(struct camilladsp *d, const yaml_node_t *map, double missing_db);

/* The text with $samplerate$ and $channels$ replaced, in the arena; `text` itself if it has none. "": no memory. */
const char *camilladsp_name(struct camilladsp *d, const char *text);

#endif
#endif
