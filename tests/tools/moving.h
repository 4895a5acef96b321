/* moving - plays sources that are steered, and computes the expected output in float64 from hc_info.steer_levels.
 *
 * The stage keeps the whole input and the list of requests, so that it can compute the output by the definition of
 * haloconv_scenes.h later: for each level, source and entry, gain over time * (input * the level's taps).
 */
#ifndef MOVING_H
#define MOVING_H

#include "check.h"
#include "haloconv_scenes.h"
#include "player.h" /* PEAK_SHARE */

struct moving_bank {
    hc_bank *bank;
    int n_entries, n_out, n_taps;
    const float **taps; /* [n_entries * n_out] */
    float *memory;      /* [n_entries * n_out][n_taps] */
};

struct moving_request { /* made when `at` frames had been played */
    int64_t at;
    int source, n, entry[HC_MAX_MIX];
    float weight[HC_MAX_MIX];
    const struct moving_bank *bank;
};

struct moving {
    hc_engine *engine;
    hc_config config;
    hc_info info;
    struct random random;
    uint64_t seed;     /* printed by a failure */
    int cap, n_frames; /* most frames that can be played since open or reset; how many were */
    float **in, **out; /* [n_in][cap], [n_out][cap] */
    struct moving_request *requests; /* [most_requests] */
    int n_requests, most_requests;
};

hc_config moving_config(int block, int bank_taps, int n_sources, int n_out); /* the defaults, max_taps 1, and this */

/* Opens an engine with an input of cap frames of noise. Every block is complete: hc_process waits without bound. */
void moving_open(struct moving *m, const hc_config *config, const char *backend, int cap, uint64_t seed);
void moving_close(struct moving *m);

/* Responses of noise that decays to its half six times; no bank yet. */
void moving_taps(struct moving_bank *bank, int n_entries, int n_out, int n_taps, uint64_t seed);
hc_bank_data moving_data(const struct moving_bank *bank);
/* Makes the bank on the engine; moving_bank_free frees bank and taps. */
void moving_bank(struct moving *m, struct moving_bank *bank, int n_entries, int n_out, int n_taps, uint64_t seed);
void moving_bank_free(struct moving_bank *bank);

/* weight NULL: 1. */
void moving_steer(struct moving *m, int source, const struct moving_bank *bank, const int *entry, const float *weight,
                  int n);
void moving_steer_one(struct moving *m, int source, const struct moving_bank *bank, int entry);
/* A mix of 1 to `most` random entries with random weights. */
void moving_steer_any(struct moving *m, int source, const struct moving_bank *bank, int most);
void moving_steer_all(struct moving *m, const struct moving_bank *bank, int most); /* every source */

void moving_play(struct moving *m, int n);                /* one hc_process of n frames, or fewer at the end */
void moving_play_to(struct moving *m, int end, int n);    /* calls of n frames up to frame `end` */
void moving_reset(struct moving *m);                      /* checks all frames, then hc_reset */

/* The expected output, [n_out][n_frames] in one piece; the caller frees it. */
double *moving_wants(const struct moving *m);
/* Checks all frames of every output within PEAK_SHARE. */
void moving_check(const struct moving *m);

/* y[n] = the first n frames of x[n] * h[n_taps] in float64; h begins with tap `offset`. */
void moving_convolve(const float *x, int n, const float *h, int offset, int n_taps, double *y);

#endif
