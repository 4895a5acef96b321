#include "scene_messages.h"

#include "host/message.h"
#include "host/stopwatch.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A message has `n` numbers. values[i] of the change is its number from[i], counted from 1, with the sign of from[i];
 * 0: NaN, that value stays. */
struct form {
    const char *path; /* '#' stands for the number of a source from 1, '~' from 0; or for '*', which is all sources */
    enum scene_act act;
    enum listener_dialect dialect;
    int n; /* count of numbers; ANY: arguments of any type */
    int from[4];
    const char *needs; /* what its arguments are, for error texts */
};
enum { ANY = -1 };

#define DEGREES "degrees"
#define METRES "metres"
#define AED "azimuth and elevation in degrees and the distance in metres"
#define XYZ "x, y and z in metres"
#define MUTE "0 or 1"
#define YPR "yaw, pitch and roll in degrees"
#define WXYZ "a quaternion: w, x, y and z"
#define NOTHING SCENE_NONE, 0, ANY, {0}, ""

/* The addresses, signs and numbers of other programs are those of
 *   ADM-OSC        its specification 1.0 (immersive-audio-live.github.io/ADM-OSC): x to the right, y ahead, azimuths to
 *                  the left, linear gains; distances are a share of a radius, which is 1 m here
 *   IEM            the plug-ins' sources (git.iem.at/audioplugins/IEMPluginSuite): parameters of MultiEncoder, which
 *                  count from 0, StereoEncoder and RoomEncoder, and calls of processNotYetConsumedOSCMessage
 *   SPARTA         oscMessageReceived of binauraliser, rotator and 6DoFconv (github.com/leomccormack/SPARTA), which
 *                  have no message for a source
 *   head trackers  the profiles of Supperware's Bridgehead for these programs (supperware.net/headtracker) */
static const struct form forms[] = {
    {"/source/#/azimuth", SCENE_AED, 0, 1, {1}, DEGREES},
    {"/source/#/elevation", SCENE_AED, 0, 1, {0, 1}, DEGREES},
    {"/source/#/distance", SCENE_AED, 0, 1, {0, 0, 1}, METRES},
    {"/source/#/aed", SCENE_AED, 0, 3, {1, 2, 3}, AED},
    {"/source/#/xyz", SCENE_XYZ, 0, 3, {1, 2, 3}, XYZ},
    {"/source/#/gain", SCENE_GAIN, 0, 1, {1}, "dB, or off"},
    {"/source/#/mute", SCENE_MUTE, 0, 1, {1}, MUTE},
    {"/source/#/entry", SCENE_ENTRY, 0, 1, {1}, "the number of an entry, from 0"},
    {"/source/#/relative", SCENE_AED, 0, 0, {0}, "no argument: its answer is the position that the listener hears"},
    {"/listener/xyz", SCENE_LISTENER_XYZ, 0, 3, {1, 2, 3}, XYZ},
    {"/listener/ypr", SCENE_ANGLES, LISTENER_OURS, 3, {1, 2, 3}, YPR},
    {"/listener/quaternion", SCENE_QUATERNION, LISTENER_OURS, 4, {1, 2, 3, 4}, WXYZ},
    {"/recentre", SCENE_RECENTRE, 0, 0, {0}, "nothing"},
    {"/recenter", SCENE_RECENTRE, 0, 0, {0}, "nothing"},
    {"/distance-gain",
     SCENE_DISTANCE_GAIN,
     0,
     2,
     {1, 2},
     "the distance of 0 dB and the minimum distance in metres, or off"},
    {"/adm/obj/#/azim", SCENE_AED, 0, 1, {1}, DEGREES},
    {"/adm/obj/#/elev", SCENE_AED, 0, 1, {0, 1}, DEGREES},
    {"/adm/obj/#/dist", SCENE_AED, 0, 1, {0, 0, 1}, METRES},
    {"/adm/obj/#/aed", SCENE_AED, 0, 3, {1, 2, 3}, AED},
    {"/adm/obj/#/x", SCENE_XYZ, 0, 1, {0, -1}, METRES},
    {"/adm/obj/#/y", SCENE_XYZ, 0, 1, {1}, METRES},
    {"/adm/obj/#/z", SCENE_XYZ, 0, 1, {0, 0, 1}, METRES},
    {"/adm/obj/#/xy", SCENE_XYZ, 0, 2, {2, -1}, "x and y in metres"},
    {"/adm/obj/#/xyz", SCENE_XYZ, 0, 3, {2, -1, 3}, XYZ},
    {"/adm/obj/#/gain", SCENE_LINEAR_GAIN, 0, 1, {1}, "a linear gain"},
    {"/adm/obj/#/mute", SCENE_MUTE, 0, 1, {1}, MUTE},
    {"/adm/obj/#/name", NOTHING},
    {"/adm/obj/#/w", NOTHING},
    {"/adm/obj/#/dref", NOTHING},
    {"/adm/obj/#/dmax", NOTHING},
    {"/adm/env/change", NOTHING},
    {"/adm/lis/xyz", SCENE_LISTENER_XYZ, 0, 3, {2, -1, 3}, XYZ},
    {"/adm/lis/ypr", SCENE_ANGLES, LISTENER_OURS, 3, {1, 2, 3}, YPR},
    {"/MultiEncoder/azimuth~", SCENE_AED, 0, 1, {1}, DEGREES},
    {"/MultiEncoder/elevation~", SCENE_AED, 0, 1, {0, 1}, DEGREES},
    {"/MultiEncoder/gain~", SCENE_GAIN, 0, 1, {1}, "dB"},
    {"/MultiEncoder/mute~", SCENE_MUTE, 0, 1, {1}, MUTE},
    {"/StereoEncoder/azimuth", SCENE_AED, 0, 1, {1}, DEGREES},
    {"/StereoEncoder/elevation", SCENE_AED, 0, 1, {0, 1}, DEGREES},
    {"/StereoEncoder/quaternions", SCENE_DIRECTION, 0, 4, {1, 2, 3, 4}, WXYZ},
    {"/StereoEncoder/roll", NOTHING},
    {"/StereoEncoder/width", NOTHING},
    {"/StereoEncoder/qw", NOTHING}, /* the plug-in sends azimuth and elevation, too */
    {"/StereoEncoder/qx", NOTHING},
    {"/StereoEncoder/qy", NOTHING},
    {"/StereoEncoder/qz", NOTHING},
    {"/RoomEncoder/sourceX", SCENE_XYZ, 0, 1, {1}, METRES},
    {"/RoomEncoder/sourceY", SCENE_XYZ, 0, 1, {0, 1}, METRES},
    {"/RoomEncoder/sourceZ", SCENE_XYZ, 0, 1, {0, 0, 1}, METRES},
    {"/RoomEncoder/listenerX", SCENE_LISTENER_XYZ, 0, 1, {1}, METRES},
    {"/RoomEncoder/listenerY", SCENE_LISTENER_XYZ, 0, 1, {0, 1}, METRES},
    {"/RoomEncoder/listenerZ", SCENE_LISTENER_XYZ, 0, 1, {0, 0, 1}, METRES},
    {"/SceneRotator/ypr", SCENE_ANGLES, LISTENER_IEM, 3, {1, 2, 3}, YPR},
    {"/SceneRotator/yaw", SCENE_ANGLES, LISTENER_IEM, 1, {1}, DEGREES},
    {"/SceneRotator/pitch", SCENE_ANGLES, LISTENER_IEM, 1, {0, 1}, DEGREES},
    {"/SceneRotator/roll", SCENE_ANGLES, LISTENER_IEM, 1, {0, 0, 1}, DEGREES},
    {"/SceneRotator/quaternions", SCENE_QUATERNION, LISTENER_IEM, 4, {1, 2, 3, 4}, WXYZ},
    {"/SceneRotator/qw", SCENE_QUATERNION, LISTENER_IEM, 1, {1}, "a number"},
    {"/SceneRotator/qx", SCENE_QUATERNION, LISTENER_IEM, 1, {0, 1}, "a number"},
    {"/SceneRotator/qy", SCENE_QUATERNION, LISTENER_IEM, 1, {0, 0, 1}, "a number"},
    {"/SceneRotator/qz", SCENE_QUATERNION, LISTENER_IEM, 1, {0, 0, 0, 1}, "a number"},
    {"/ypr", SCENE_ANGLES, LISTENER_SPARTA, 3, {1, 2, 3}, YPR},
    {"/yaw", SCENE_ANGLES, LISTENER_SPARTA, 1, {1}, DEGREES},
    {"/pitch", SCENE_ANGLES, LISTENER_SPARTA, 1, {0, 1}, DEGREES},
    {"/roll", SCENE_ANGLES, LISTENER_SPARTA, 1, {0, 0, 1}, DEGREES},
    {"/xyz", SCENE_LISTENER_XYZ, 0, 3, {1, 2, 3}, XYZ},
    {"/rotation", SCENE_ANGLES, LISTENER_AMBIX, 3, {2, 1, 3}, "pitch, yaw and roll in degrees"},
    {"/head_pose", SCENE_ANGLES, LISTENER_AMBIX, 7, {6, 5, 7}, "a number, x, y, z, and pitch, yaw and roll in degrees"},
    {"/quaternion", SCENE_QUATERNION, LISTENER_AMBIX, 4, {1, 2, 3, 4}, WXYZ},
};
enum { N_FORMS = sizeof forms / sizeof *forms };

/* Compares a path with that of a form. *source counts from 0, and is 0 in a form without a number; SCENE_EVERY: all. */
static bool matches(const char *form, const char *path, int *source)
{
    size_t head = strcspn(form, "#~");
    *source = 0;
    if (!form[head]) return strcmp(form, path) == 0;
    if (strncmp(form, path, head) != 0) return false;
    const char *number = path + head, *tail = form + head + 1;
    size_t digits = strspn(number, "0123456789");
    if (number[0] == '*') {
        *source = SCENE_EVERY;
        return strcmp(number + 1, tail) == 0;
    }
    if (digits < 1 || digits > 6) return false;
    *source = atoi(number) - (form[head] == '#');
    return strcmp(number + digits, tail) == 0;
}

static const struct form *scene_form_find(const char *path, int *source)
{
    for (int i = 0; i < N_FORMS; i++)
        if (matches(forms[i].path, path, source)) return &forms[i];
    return NULL;
}

static bool is_of_source(const struct form *form)
{
    return form->act <= SCENE_LAST_OF_SOURCE;
}

bool scene_message_is(const char *path)
{
    int source;
    return scene_form_find(path, &source) != NULL;
}

bool scene_message_is_answer(const struct osc_message *message)
{
    int source;
    const struct form *form = scene_form_find(message->path, &source);
    return form && is_of_source(form) && form->n == 0 && message->n_args == 3 && message->n_numbers == 3;
}

/* Writes an error such as "azimuth needs degrees". */
static bool scene_form_refuse(const struct form *form, char *why, size_t cap)
{
    const char *hash = strchr(form->path, '#'), *name = hash ? hash + 2 : form->path + 1;
    return message_write(why, cap, "%.*s needs %s", (int)strcspn(name, "~"), name, form->needs);
}

/* "off" stands for a gain of 0, and for no gain by distance. */
static bool read_off(const struct osc_message *message, struct scene_change *change)
{
    if (message->n_args != 1 || !message->text || strcmp(message->text, "off") != 0) return false;
    if (change->act == SCENE_GAIN) change->values[0] = -INFINITY;
    return change->act == SCENE_GAIN || change->act == SCENE_DISTANCE_GAIN;
}

bool scene_message_read(const struct osc_message *message, struct scene_change *change, char *why, size_t cap)
{
    int source;
    const struct form *form = scene_form_find(message->path, &source);
    if (!form) return message_write(why, cap, "this message does not exist; see haloconv-osc(7)");
    *change = (struct scene_change){.act = form->act, .dialect = form->dialect, .source = source};
    if (read_off(message, change) || form->act == SCENE_NONE) return true;
    /* The minimum distance may be left out: it is then a quarter of the reference, a gain of 12 dB. */
    bool is_short = form->act == SCENE_DISTANCE_GAIN && message->n_args == 1;
    int n = is_short ? 1 : form->n;
    if (message->n_args == 0 && is_of_source(form) && source != SCENE_EVERY && form->act != SCENE_DIRECTION)
        return message_write(why, cap, "the session has no source %d", source + 1);
    if (message->n_args != n || message->n_numbers != n || (n == 0 && form->act != SCENE_RECENTRE))
        return scene_form_refuse(form, why, cap);
    for (int i = 0; i < n; i++)
        if (!isfinite(message->numbers[i])) return scene_form_refuse(form, why, cap);
    for (int i = 0; i < 4; i++) {
        int from = form->from[i];
        change->values[i] = from == 0 ? NAN : from > 0 ? message->numbers[from - 1] : -message->numbers[-from - 1];
    }
    if (is_short) change->values[1] = change->values[0] / 4;
    return true;
}

/* ---- answers ----------------------------------------------------------------------------------- */

/* Sends values [4] of a change as the numbers of its message. */
static void send_numbers(const struct osc_message *message, const struct form *form, const double *values,
                         struct osc *osc)
{
    static const char types[] = "fff";
    double v[4] = {0};
    for (int i = 0; i < 3; i++)
        if (form->from[i]) v[abs(form->from[i]) - 1] = form->from[i] > 0 ? values[i] : -values[i];
    osc_send_to(osc, message->from, message->path, types + sizeof types - 1 - form->n, v[0], v[1], v[2]);
}

static void answer_source(const struct osc_message *message, const struct form *form,
                          const struct live_scene_source *source, struct osc *osc)
{
    static const struct form seen = {.n = 3, .from = {1, 2, 3}};
    if (form->act == SCENE_GAIN)
        osc_send_to(osc, message->from, message->path, "f", source->gain_db);
    else if (form->act == SCENE_LINEAR_GAIN)
        osc_send_to(osc, message->from, message->path, "f", pow(10, source->gain_db / 20));
    else if (form->act == SCENE_ENTRY || form->act == SCENE_MUTE)
        osc_send_to(osc, message->from, message->path, "i",
                    form->act == SCENE_ENTRY ? source->entry : source->is_muted);
    else if (form->n == 0)
        send_numbers(message, &seen, source->seen, osc);
    else
        send_numbers(message, form, form->act == SCENE_AED ? source->aed : source->xyz, osc);
}

bool scene_message_answer(const struct osc_message *message, struct live_scene *scene, struct osc *osc)
{
    int number;
    struct live_scene_source source;
    struct listener listener;
    double angles[3];
    const struct form *form = scene_form_find(message->path, &number);
    if (!form || message->n_args > 0 || form->act == SCENE_NONE) return false;
    if (is_of_source(form)) {
        if (number < 0 || number >= live_scene_n_sources(scene) || form->act == SCENE_DIRECTION) return false;
        live_scene_get_source(scene, number, &source);
        answer_source(message, form, &source, osc);
        return true;
    }
    if (form->act != SCENE_LISTENER_XYZ && !(form->act == SCENE_ANGLES && form->dialect == LISTENER_OURS)) return false;
    live_scene_get_listener(scene, &listener);
    listener_angles(&listener, angles);
    send_numbers(message, form, form->act == SCENE_ANGLES ? angles : listener.at, osc);
    return true;
}

/* ---- the thread ------------------------------------------------------------------------------- */

/* Limits: this thread may have real-time priority, and a flood of messages gets a third of a processor. */
static const double MAX_BUSY_S = 0.003, WINDOW_S = 0.01;

struct scene_thread {
    struct osc *osc;
    struct live_scene *scene;
    pthread_t thread;
    atomic_bool end;
    struct processor_share share;
};

static bool handle(void *data, const struct osc_message *message)
{
    struct scene_thread *t = data;
    struct scene_change change;
    bool good = scene_message_is(message->path) && scene_message_read(message, &change, NULL, 0) &&
                live_scene_change(t->scene, &change, NULL, 0);
    processor_share_keep(&t->share); /* one packet may hold thousands of messages */
    return good;
}

static void *scene_thread_run(void *data)
{
    struct scene_thread *t = data;
    t->share = processor_share_begin(WINDOW_S, MAX_BUSY_S);
    while (!atomic_load(&t->end)) {
        osc_handle_first(t->osc, handle, t);
        processor_share_keep(&t->share);
    }
    return NULL;
}

static bool scene_thread_create(struct scene_thread *t, int policy)
{
    struct sched_param lowest = {.sched_priority = sched_get_priority_min(policy)};
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
    pthread_attr_setschedpolicy(&attributes, policy);
    pthread_attr_setschedparam(&attributes, &lowest);
    bool good = pthread_create(&t->thread, &attributes, scene_thread_run, t) == 0;
    pthread_attr_destroy(&attributes);
    return good;
}

struct scene_thread *scene_thread_start(struct osc *osc, struct live_scene *scene, char *why, size_t cap)
{
    struct scene_thread *t = calloc(1, sizeof *t);
    if (!t) return (void)message_write(why, cap, "no memory for a thread of --osc; free some memory"), NULL;
    t->osc = osc;
    t->scene = scene;
    if (!osc_split(osc, why, cap)) {
        free(t);
        return NULL;
    }
    if (scene_thread_create(t, SCHED_FIFO) || scene_thread_create(t, SCHED_OTHER)) return t;
    osc_join(osc);
    free(t);
    return (void)message_write(why, cap, "--osc: a thread cannot be started; raise the limit on processes (ulimit -u)"),
           NULL;
}

void scene_thread_end(struct scene_thread *t)
{
    if (!t) return;
    atomic_store(&t->end, true);
    osc_wake_first(t->osc);
    pthread_join(t->thread, NULL);
    osc_join(t->osc);
    free(t);
}
