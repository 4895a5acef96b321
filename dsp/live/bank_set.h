/* bank_set - the banks of a bank file or of a configuration in the host's memory, and the bank of each source. */
#ifndef BANK_SET_H
#define BANK_SET_H

#include "dsp/base/error.h"
#include "scene_glide.h"
#include "haloconv_live.h"

#include <stdatomic.h>

struct set_source {
    int bank;
    struct steer_target first;  /* the source's target before any request                        */
};

struct bank_set {
    atomic_int users;           /* number of users: the live convolver, its engines              */
    int n_banks;
    hc_bank_data *banks;        /* [n_banks]                                                     */
    int n_sources;
    struct set_source *sources; /* [n_sources]                                                   */
    int n_out, n_taps;          /* sizes of the largest bank                                     */
    int n_entries;              /* entries of all banks                                          */
    float gain_db;              /* gain of the loudest bank                                      */
};

/* Reads the banks that a configuration, `responses`, names. If it is NULL, reads a bank file, which every source plays.
 * The first user is the caller. Fails as hc_bank_load does, with HC_EINVAL if the banks or sources do not fit the
 * session. [setup] */
int bank_set_load(const hc_live_config *config, const char *path, int rate, const hc_responses *responses,
                  struct bank_set **set, struct reason *why);

/* NULL is allowed. [setup] */
struct bank_set *bank_set_use(struct bank_set *set);
void bank_set_release(struct bank_set *set);

/* Finds the entries of a source's bank for a target, and their weights. Returns their number: 0 to HC_MAX_MIX. [rt] */
int bank_set_find(const struct bank_set *set, int source, const struct steer_target *target, bool mixes, int *entries,
                  float *weights);

#endif
