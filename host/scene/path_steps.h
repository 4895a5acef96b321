/* path_steps - follows a path over a bank: at each edge of a step, the entries around the sources, or the nearest ones. */
#ifndef PATH_STEPS_H
#define PATH_STEPS_H

#include "dsp/haloconv_scenes.h"
#include "path.h"

struct path_options {
    int step;           /* frames between two edges, as in hc_render_config                       */
    int mix;            /* HC_MIX_NONE: plays the nearest entry, not those around a position       */
    double reference_m; /* the gain is reference_m / distance, at most 10; 0: no gain by distance  */
    double gain;        /* linear gain of every source                                             */
};

struct path_steps {
    const struct path *path;
    const hc_bank_data *bank;
    struct path_options options;
    struct path_follower *sources; /* [n_sources] */
    hc_step *steps;     /* [n_steps], for hc_render_job                                            */
    int n_steps;
    size_t capacity;
};

/* path and bank must outlive the steps. name: name of the bank, for an error. false: why has the reason. */
bool path_steps_open(struct path_steps *steps, const struct path *path, const hc_bank_data *bank,
                     const struct path_options *options, const char *name, char *why, size_t cap);
void path_steps_close(struct path_steps *steps);
void path_steps_rewind(struct path_steps *steps); /* goes back to frame 0 */

/* Makes the steps for frames [from, end), which follow the frames of the last call. from: a multiple of the step. The
 * list begins with the entries that play before `from`. false: no memory. */
bool path_steps_make(struct path_steps *steps, int64_t from, int64_t end);

#endif
