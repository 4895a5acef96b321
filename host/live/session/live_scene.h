/* live_scene - sources in the world and a listener among them. Each change steers the sources that it moves.
 *
 *   source     a position in the world (listener.h has the axes), or an entry of the bank; and a gain
 *   listener   a position and an orientation; a source is steered to its position as seen from the listener
 *
 * Any thread may make any call: OSC messages come on one thread, keys on another. A change begins with the next block,
 * because hc_live_steer is called before live_scene_change returns. A change of the listener steers the sources one
 * after another: if a block begins meanwhile, the remaining sources move one block later.
 */
#ifndef LIVE_SCENE_H
#define LIVE_SCENE_H

#include "dsp/haloconv_live.h"
#include "dsp/haloconv_masks.h"
#include "listener.h"

#include <stdbool.h>
#include <stddef.h>

struct live_scene;

enum { LIVE_SCENE_MAX_SOURCES = 1024, LIVE_SCENE_MAX_METRES = 10000, LIVE_SCENE_MAX_DB = 60 };

struct live_scene_position {
    int source;             /* from 0                                                                           */
    double aed[3];          /* position as in listener.h                                                        */
    double gain_db;         /* -INFINITY: off                                                                   */
    int entry;              /* -1: at its position                                                              */
    bool is_muted;
};

struct live_scene_settings {
    struct live_scene_position positions[LIVE_SCENE_MAX_SOURCES]; /* [n_positions]; other sources: the default */
    int n_positions;
    double reference, min_m;         /* metres: gain = reference / max(distance, min_m); reference 0: no such gain */
    double listener_at[3];
    struct quaternion front;         /* front of the listener; all 0: not known                                 */
    bool is_restored;                /* from an earlier session: positions of missing sources are left out      */
};

enum scene_act {            /* fields that the act reads                                                        */
    SCENE_AED,              /* source, values: azimuth, elevation, distance; one that is NaN stays              */
    SCENE_XYZ,              /* source, values: x, y, z; one that is NaN stays                                   */
    SCENE_DIRECTION,        /* source, values: w, x, y, z of the rotation from ahead to the source              */
    SCENE_GAIN,             /* source, values[0]: dB; -INFINITY: off                                            */
    SCENE_LINEAR_GAIN,      /* source, values[0]: at least 0; more than 60 dB are 60 dB                         */
    SCENE_MUTE,             /* source, values[0]: 0 is not muted                                                */
    SCENE_ENTRY,            /* source, values[0]: number of an entry, from 0                                    */
    SCENE_LAST_OF_SOURCE = SCENE_ENTRY,
    SCENE_LISTENER_XYZ,     /* values: x, y, z; one that is NaN stays                                           */
    SCENE_ANGLES,           /* dialect, values: yaw, pitch, roll; one that is NaN stays                         */
    SCENE_QUATERNION,       /* dialect, values: w, x, y, z; one that is NaN stays                               */
    SCENE_RECENTRE,         /*                                                                                  */
    SCENE_NONE,             /* changes nothing                                                                  */
    SCENE_DISTANCE_GAIN     /* values: reference, min. distance; reference 0: no gain by distance           */
};

enum { SCENE_EVERY = -2 };
struct scene_change {
    enum scene_act act;
    int source;             /* from 0; SCENE_EVERY: all sources                                                 */
    enum listener_dialect dialect;
    double values[4];
};

/* Makes a scene and steers its sources to their first positions. Both settings and sources[n_sources], those of a
 * configuration, may be NULL; the settings come first. Sources without a position are 1 m in front of the listener,
 * from the left to the right. NULL: why has the reason. */
struct live_scene *live_scene_open(hc_live *live, int n_sources, const hc_source *sources,
                                   const struct live_scene_settings *settings, char *why, size_t cap);

/* NULL is allowed. */
void live_scene_close(struct live_scene *scene);

int live_scene_n_sources(const struct live_scene *scene);

/* Makes a change, and steers the sources that it moves. false: nothing changed, and why has the reason. */
bool live_scene_change(struct live_scene *scene, const struct scene_change *change, char *why, size_t cap);

struct live_scene_source {
    double aed[3], xyz[3];  /* in the world                                                                     */
    double seen[3];         /* azimuth, elevation, distance as the listener hears the source                    */
    double gain_db;
    int entry;              /* -1: at its position                                                              */
    bool is_muted;
};
void live_scene_get_source(struct live_scene *scene, int source, struct live_scene_source *state);

/* Are both distances, in metres, in the allowed range? reference: the distance with a gain of 0 dB. min_m: nearer
 * sources get the gain of this distance. */
bool live_scene_is_distance_gain(double reference, double min_m);

/* Copies the state into settings from which another process makes the same scene, except the head's orientation: in the
 * other process the head looks to the front until the next message of a head tracker. */
void live_scene_record(struct live_scene *scene, struct live_scene_settings *settings);

/* Have both settings the same sources? The listener is not compared: a head moves all the time. */
bool live_scene_same(const struct live_scene_settings *a, const struct live_scene_settings *b);

void live_scene_get_listener(struct live_scene *scene, struct listener *listener);

/* Writes " | 4 sources, head 30 0 0" for the status line: yaw, pitch and roll as listener_angles has them. */
void live_scene_describe(struct live_scene *scene, char *text, size_t cap);

#endif
