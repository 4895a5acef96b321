/* live_driver - one set of calls for seven ways to play a live convolver in stereo: haloconv_live.h itself, and its
 * adapters for JACK, PipeWire, PortAudio, LV2, CLAP and VST3, each driven through the API that it translates. One is open at a
 * time.
 */
#ifndef LIVE_DRIVER_H
#define LIVE_DRIVER_H

#include "check.h"

enum { LIVE_CHANNELS = 2, LIVE_RATE = 48000 };
static const double LIVE_FADE_MS = 20; /* the plugins have no other */

enum live_step {
    LIVE_MASK,
    LIVE_BAD_MASK,      /* it cannot be loaded, and the former one plays on */
    LIVE_BLOCK,
    LIVE_BLOCK_AT_ONCE, /* a new engine follows without a callback */
    LIVE_RATE_CHANGE,
    LIVE_FREEWHEEL,
    LIVE_BYPASS,
    LIVE_RESET,
    LIVE_N_STEPS
};

struct live_setup {
    const char *mask;
    const char *fault;     /* HC_FAULT of faulty_device.c, which then plays; NULL: the CPU plays                  */
    int wait_us;           /* for that device; 0: the default; the plugins have no other                          */
    bool is_default;       /* give no option, not even LIVE_FADE_MS                                               */
    const char *more[4];   /* further options of the program; NULL ends them                                      */
};

struct live_counts {
    int masks, rebuilds;   /* since live_driver.open                                                              */
    int late;              /* blocks                                                                              */
    bool on_standby;       /* the device is gone, the standby engine plays                                        */
    char backend[16];      /* of the engine that plays, or is about to                                            */
};

struct live_driver {
    const char *name;
    const char *missing;         /* why this build lacks this driver; NULL: it has it                             */
    int block, other_block;      /* frames of a call at first, and of another size                                */
    bool has_standby;            /* a lost device leaves no gap                                                   */
    bool fades_in;               /* from silence, at the start                                                    */
    bool is_plugin;              /* its block, fade and choice of a device are fixed                              */
    bool asks_in_callback;       /* a mask is requested inside the next callback                                  */
    const char *lacks[LIVE_N_STEPS]; /* why the API lacks this step; NULL: it has it                              */

    void (*open)(const struct live_setup *setup); /* returns when the mask is there; plays nothing. Ends the test on
                                                     failure                                                      */
    void (*close)(void);         /* also if nothing is open                                                       */

    /* One callback, on the audio thread. Returns the first forbidden call that trap.c saw in it, or NULL. */
    const char *(*process)(const float *const *in, float *const *out, int n);

    /* Between two callbacks, on the audio thread. A mask, block or rate comes some time later. */
    void (*ask_mask)(const char *path);
    void (*ask_block)(int block);
    void (*ask_rate)(int rate);
    void (*set_freewheel)(bool on);
    void (*set_bypass)(bool on);
    void (*reset)(void);
    void (*ask_device_again)(void); /* NULL: a device that answers again plays again by itself                    */

    struct live_counts (*counts)(void);
};

extern const struct live_driver live_core, live_jack, live_pipewire, live_portaudio, live_lv2, live_clap, live_vst3;

#endif
