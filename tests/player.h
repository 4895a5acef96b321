/* player - plays a stream through an engine and knows, in float64, what must come out: routes, swaps, fades, resets.
 *
 * The player keeps the whole input and the list of what happened, so that any frame of the output can be worked out by
 * the definition, long after it was played.
 */
#ifndef PLAYER_H
#define PLAYER_H

#include "check.h"
#include "haloconv.h"

enum { PLAYER_SWAPS = 64 };

struct scene {               /* a mask that is given to the engine: routes, or none (silence) */
    const hc_route *routes;
    int n_routes;
    hc_mask *mask;
};

struct change {              /* from frame `at` on the scene fades over to `to` within len frames; len = 0: at once */
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
    double loudness;         /* a peak to measure by where the part that was played has a smaller one; 0          */
    struct scene waiting;    /* asked for: taken up with the next call once no other comes or fades       */
    bool is_waiting;
    struct scene coming;     /* taken up at frame taken_at; its fade begins within info.swap_delay frames */
    bool is_coming;
    int64_t taken_at;
};

/* Open an engine for config (its backend is replaced by `backend`) with room for cap frames of noise, or zeros. Every
 * block must come complete: where the config has the default wait for a device, it waits until that is done. */
void player_open(struct player *p, const hc_config *config, const char *backend, int64_t cap, uint64_t seed);
void player_noise(struct player *p, uint64_t seed);
void player_close(struct player *p);

struct scene player_scene(struct player *p, const hc_route *routes, int n); /* makes the mask */
void player_swap(struct player *p, struct scene scene);
void player_reset(struct player *p);
void player_run(struct player *p, int n_frames);                            /* one hc_process */
void player_run_all(struct player *p);                  /* in calls of info.block (or 4096, if that is less) to cap */

/* Frame `frame` of `out` as it must be, in float64. */
double player_wants(const struct player *p, int out, int64_t frame);

/* Check frames first...last - 1 of every output within `share` of the peak (1e-6: -120 dB): all of them while the
 * float64 sums stay below a budget, else the edges and a random choice. */
void player_check(struct player *p, int64_t first, int64_t last, double share);

#define PEAK_SHARE 1e-6 /* design.md: within -120 dB of the output's peak */

#endif
