/* lv2_host - a small LV2 host of one instance: loads the bundle's binary, maps URIs, runs the worker in one of the ways
 * of real hosts, keeps the log, and plays blocks of any length.
 */
#ifndef LV2_HOST_H
#define LV2_HOST_H

#include "../../plugins/haloconv.lv2/ports.h"
#include "check.h"

#include <lv2/core/lv2.h>
#include <stdint.h>

enum lv2_host_worker {
    WORKER_AT_ONCE,     /* inside schedule_work, the answer too: an offline host                                 */
    WORKER_AFTER_RUN,   /* answers are delivered after run()                                                     */
    WORKER_THREAD,      /* in parallel with run(); answers after a later run()                                   */
    WORKER_NONE,        /* the host has no such feature                                                          */
    N_WORKERS
};

struct lv2_host_state { /* what a plugin stored: one property, or two                                            */
    uint32_t key, type, flags;
    size_t size;
    char value[8192];
    struct lv2_host_state *second; /* for lv2_host_save: memory for another property, or NULL                    */
};

struct lv2_host;

/* frames: max. frames of a lv2_host_run; nominal: passed as an option if it is not 0; -1: the
 * options say that every run has `frames`, and no nominal number. Ends the test on failure. */
struct lv2_host *lv2_host_open(const char *variant, double rate, int frames, int nominal, enum lv2_host_worker worker);
void lv2_host_close(struct lv2_host *host);
void lv2_host_meters(struct lv2_host *host, struct core_meters *meters); /* as the window gets them */

/* Ports: set before lv2_host_run. */
float *lv2_host_control(struct lv2_host *host, enum control control);
void lv2_host_connect_audio(struct lv2_host *host, float *const *in, float *const *out);

void lv2_host_activate(struct lv2_host *host);
void lv2_host_deactivate(struct lv2_host *host);
void lv2_host_drop_work(struct lv2_host *host, bool drops); /* from now on, work is accepted and never done      */
void lv2_host_run(struct lv2_host *host, int n_frames);

/* The first forbidden call of a run() since the last time, with WORKER_THREAD or WORKER_NONE; NULL = none. The first
 * call sets the trap. */
const char *lv2_host_caught(struct lv2_host *host);

/* Messages for the next lv2_host_run: patch:Set of A or of a side, patch:Get, and one that the plugin must ignore. */
void lv2_host_send_mask(struct lv2_host *host, const char *path, int frame);
void lv2_host_send_side(struct lv2_host *host, int side, const char *path, int frame);
void lv2_host_send_get(struct lv2_host *host);
void lv2_host_send_junk(struct lv2_host *host, unsigned kind);

/* The last patch:Set that came out since the last call, of A, of a side or of the status; "" = none. */
const char *lv2_host_notified(struct lv2_host *host);
const char *lv2_host_notified_side(struct lv2_host *host, int side);
const char *lv2_host_status(struct lv2_host *host);
bool lv2_host_busy(struct lv2_host *host); /* work or answers are under way                                      */

/* Everything logged since the last call; valid until the next one. */
const char *lv2_host_log(struct lv2_host *host);

/* map_paths: as a host that keeps sessions. with_schedule: as during run(). */
int lv2_host_save(struct lv2_host *host, struct lv2_host_state *state, bool map_paths);
int lv2_host_restore(struct lv2_host *host, const struct lv2_host_state *state, bool map_paths, bool with_schedule);

/* The bundle's folder, ends in /: $LV2_BUNDLE in $BUILD, "haloconv.lv2" unless it is set before the first call. */
const char *lv2_host_bundle(void);

#endif
