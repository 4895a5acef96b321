/* plugin_driver - one set of calls for the plugins of three standards, LV2, CLAP and VST3, each driven through its
 * small host (lv2_host.h, clap_host.h, vst3_host.h).
 *
 * A value is that of the table of controls: of ENABLED, 0 is the bypass.
 */
#ifndef PLUGIN_DRIVER_H
#define PLUGIN_DRIVER_H

#include "check.h"
#include "plugins/core/controls.h"

#include <sys/types.h>

enum { PLUGIN_STATE_BYTES = 32768 };

struct plugin_setup {
    const char *variant;
    const char *mask;        /* of the session; NULL: the plugin's own                                           */
    int rate, max_frames;    /* max_frames: as the host announces it; blocks may be longer. LV2: 0: it does not  */
    enum backend backend;
    bool is_double;          /* blocks of 64 bits                                                                */
    bool is_live;            /* blocks wait for nothing; false: the host renders, and masks are there at once    */
    int way;                 /* of LV2: enum lv2_host_worker; + N_WORKERS: states come without it                */
};

struct plugin {              /* an instance in its host                                                          */
    const struct plugin_driver *driver;
    const struct variant *variant;
    struct plugin_setup setup;
    void *host;              /* struct lv2_host, clap_session or vst3_session                                    */
    bool is_active;
    bool is_silent;          /* the host was told so of the last block; never by LV2                             */
    double values[N_CONTROLS]; /* of VST3: at the end of the last block                                          */
    int log_file;            /* of VST3, in memory                                                               */
    off_t log_read;
};

struct plugin_driver {
    const char *name;
    const char *missing;     /* why this build lacks the standard; NULL: it has it                               */
    bool has_doubles;
    bool keeps_its_mask;     /* a chosen mask that cannot be played changes nothing; false: the input passes dry */
    int n_ways, n_workers;   /* of plugin_setup.way; masks can be chosen in the first n_workers, of which the last
                                one is a thread beside the blocks                                                */

    void (*open)(struct plugin *p); /* inactive, with its setup; `host` is NULL. Ends the test on failure        */
    void (*close)(struct plugin *p);
    void (*activate)(struct plugin *p, bool is_other); /* is_other: rate or max_frames has changed               */
    void (*deactivate)(struct plugin *p);
    void (*reset)(struct plugin *p);

    /* Before the next block, which has it from `frame` on; LV2 from its beginning on. FREEWHEEL: from now on. */
    void (*set)(struct plugin *p, enum control control, double value, int frame);
    void (*set_now)(struct plugin *p, enum control control, double value); /* of an inactive instance            */
    void (*choose)(struct plugin *p, const char *path, int frame); /* a mask; frame: of LV2's message            */

    /* in, out: [channel][n] floats or doubles, as in `setup`. */
    void (*play)(struct plugin *p, void *const *in, void *const *out, int n);
    bool (*is_busy)(struct plugin *p); /* a mask is under way; NULL: never while the host renders                */
    void (*send_odd)(struct plugin *p, unsigned kind); /* what no control is set by; NULL: there is no such thing */

    /* A state of at most PLUGIN_STATE_BYTES with its final 0, in calls of at most `chunk` bytes. An LV2 host stores the
     * values itself: here in the text of the other standards. */
    bool (*save)(struct plugin *p, char *text, int chunk);
    bool (*load)(struct plugin *p, const char *text, size_t length, int chunk);

    const char *(*log)(struct plugin *p);    /* since the last call                                              */
    const char *(*caught)(struct plugin *p); /* by trap.c since the last call; the first call sets the trap      */
    double (*meter)(struct plugin *p, enum control control);
    unsigned (*latency)(struct plugin *p);
    const char *(*status)(struct plugin *p); /* of the newest mask, since the last call; NULL: only the log has it */
    const char *(*notified)(struct plugin *p); /* the path that the host was told last; NULL: it is told none    */

    /* LV2 leaves these to its hosts: NULL. */
    double (*value)(struct plugin *p, enum control control);
    void (*text)(struct plugin *p, enum control control, double value, char text[128]);
    bool (*read)(struct plugin *p, enum control control, const char *text, double *value);
    void (*choose_preset)(struct plugin *p, const struct plugin_preset *preset);
    unsigned (*tail)(struct plugin *p);
    int (*n_told)(struct plugin *p); /* how often the host was told of new values                                */
};

extern const struct plugin_driver plugin_lv2, plugin_clap, plugin_vst3;

/* Makes an inactive instance, or skips the test. *p stays where it is. plugin_open: activates it, too. */
void plugin_make(struct plugin *p, const struct plugin_driver *driver, const struct plugin_setup *setup);
void plugin_open(struct plugin *p, const struct plugin_driver *driver, const struct plugin_setup *setup);
void plugin_close(struct plugin *p); /* also if it is closed                                                     */
void plugin_deactivate(struct plugin *p);
void plugin_activate(struct plugin *p, int rate, int max_frames);

/* The path of a mask that ships. It is valid until the next call. */
const char *shipped_mask(const char *name);

#endif
