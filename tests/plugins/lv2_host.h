/* lv2_host - a small LV2 host of one instance: loads the bundle's binary, maps URIs, runs the worker in one of the ways
 * of real hosts, keeps the log, and plays blocks of any length.
 */
#ifndef LV2_HOST_H
#define LV2_HOST_H

#include "../../plugins/haloconv.lv2/ports.h"
#include "check.h"

#include <lv2/core/lv2.h>
#include <stdint.h>

enum host_worker {
    WORKER_AT_ONCE,     /* inside schedule_work, the answer too: an offline host                                 */
    WORKER_AFTER_RUN,   /* answers are delivered after run()                                                     */
    WORKER_THREAD,      /* in parallel with run(); answers after a later run()                                   */
    WORKER_NONE         /* the host has no such feature                                                          */
};

struct host_state {     /* what a plugin stored: one property, or two                                            */
    uint32_t key, type, flags;
    size_t size;
    char value[8192];
    struct host_state *second; /* for host_save: memory for another property, or NULL                            */
};

struct host;

/* frames: most frames of a host_run; nominal: passed as an option if it is not 0. Ends the test on failure. */
struct host *host_open(const char *variant, double rate, int frames, int nominal, enum host_worker worker);
void host_close(struct host *host);

/* Ports: set before host_run. */
float *host_control(struct host *host, enum control control);
void host_connect_audio(struct host *host, float *const *in, float *const *out);

void host_activate(struct host *host);
void host_deactivate(struct host *host);
void host_drop_work(struct host *host, bool drops);  /* from now on, work is accepted and never done             */
void host_run(struct host *host, int n_frames);

/* The first forbidden call of a run() since the last time, with WORKER_THREAD or WORKER_NONE; NULL = none. The first
 * call sets the trap. */
const char *host_caught(struct host *host);

void host_send_mask(struct host *host, const char *path, int frame);   /* a patch:Set of A in the next host_run      */
void host_send_side(struct host *host, int side, const char *path, int frame);
void host_send_get(struct host *host);                                 /* a patch:Get                                */
void host_send_junk(struct host *host, unsigned kind);                 /* a message that the plugin must ignore      */
const char *host_told(struct host *host);  /* the path of A in the last patch:Set that came out; "" = none since asked */
const char *host_told_side(struct host *host, int side);
const char *host_status(struct host *host); /* the last status that came out; "" = none since asked             */
bool host_busy(struct host *host);         /* work or answers are under way                                          */

/* Everything logged since the last call; valid until the next one. */
const char *host_log(struct host *host);

/* map_paths: as a host that keeps sessions. with_schedule: as during run(). */
int host_save(struct host *host, struct host_state *state, bool map_paths);
int host_restore(struct host *host, const struct host_state *state, bool map_paths, bool with_schedule);

/* The bundle's folder, ends in /: $LV2_BUNDLE in $BUILD, "haloconv.lv2" unless it is set before the first call. */
const char *host_bundle(void);

#endif
