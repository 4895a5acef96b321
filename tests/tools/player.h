/* player - plays a stream through an engine and computes the expected output in float64: routes, swaps, fades, resets.
 *
 * The player keeps the whole input and the list of changes, so that it can compute any frame of the output by the
 * definition later.
 */
#ifndef PLAYER_H
#define PLAYER_H

#include "check.h"
#include "haloconv.h"

enum { PLAYER_SWAPS = 64 };

struct scene {               /* a mask of the engine, and the routes that it was made from; or none: silence */
    const hc_route *routes;
    int n_routes;
    hc_mask *mask;
};

struct change {              /* from frame `at` the output fades to scene `to` within len frames; len = 0: at once */
    int64_t at;
    int len;
    struct scene to;
};

struct player {
    hc_engine *engine;
    hc_config config;
    hc_info info;
    uint64_t seed;           /* printed by a failure                                                     */
    int64_t n_frames;        /* played since the last reset                                              */
    int64_t n_before;        /* played before that                                                       */
    int64_t cap;             /* most frames that can be played                                           */
    float **in, **out;       /* [n_in][cap], [n_out][cap]                                                */
    const float **call_in;   /* [n_in]: where a call begins                                              */
    float **call_out;        /* [n_out]                                                                  */
    struct change changes[PLAYER_SWAPS];
    int n_changes;
    double loudness;         /* lower limit of the peak that the tolerance is a share of; 0              */
    struct scene waiting;    /* requested: becomes `coming` with the next call once none is coming or fading */
    bool is_waiting;
    struct scene coming;     /* preparing since frame taken_at; its fade begins within info.swap_delay frames */
    bool is_coming;
    int64_t taken_at;
};

/* The defaults, and this; block 0: an engine for files. */
hc_config player_config(const char *method, int block, int max_taps, int n_in, int n_out);

/* Opens an engine for config, with `backend`, and an input of cap frames of noise. Every block must be complete: where
 * config has the default wait for a device, hc_process waits without bound. */
void player_open(struct player *p, const hc_config *config, const char *backend, int64_t cap, uint64_t seed);
void player_noise(struct player *p, uint64_t seed);
void player_close(struct player *p);

struct scene player_scene(struct player *p, const hc_route *routes, int n); /* makes the mask */
void player_swap(struct player *p, struct scene scene);
void player_reset(struct player *p);
void player_run(struct player *p, int n_frames);                            /* one hc_process */
void player_run_up_to(struct player *p, int n_frames, int64_t end);         /* the same, but not beyond frame `end` */
void player_run_all(struct player *p);                  /* in calls of info.block (or 4096, if that is less) to cap */

/* The expected value of frame `frame` of output `out`, in float64. */
double player_wants(const struct player *p, int out, int64_t frame);

/* Check frames first...last - 1 of every output within `share` of the peak (1e-6: -120 dB): all of them while the
 * float64 sums stay below a budget, else the edges and a random choice. */
void player_check(struct player *p, int64_t first, int64_t last, double share);

#define PEAK_SHARE 1e-6 /* the promised precision: within -120 dB of the peak of the output */

#endif
