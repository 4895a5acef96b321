#include "scene_messages.h"

#include "host/message.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A message has `n` numbers. values[i] of the change is its number from[i], counted from 1; 0: NaN, that value stays. */
struct form {
    const char *path; /* "/source/" and a number stand before the first ones */
    enum scene_act act;
    enum listener_dialect dialect;
    int n;
    int from[4];
    const char *takes; /* for messages */
};

static const struct form of_sources[] = {
    {"azimuth", SCENE_AED, 0, 1, {1}, "degrees"},
    {"elevation", SCENE_AED, 0, 1, {0, 1}, "degrees"},
    {"distance", SCENE_AED, 0, 1, {0, 0, 1}, "metres"},
    {"aed", SCENE_AED, 0, 3, {1, 2, 3}, "azimuth and elevation in degrees and the distance in metres"},
    {"xyz", SCENE_XYZ, 0, 3, {1, 2, 3}, "x, y and z in metres"},
    {"gain", SCENE_GAIN, 0, 1, {1}, "dB, or off"},
    {"entry", SCENE_ENTRY, 0, 1, {1}, "the number of an entry, from 0"},
    {"relative", SCENE_AED, 0, 0, {0}, "nothing: it asks where the listener hears the source"}, /* changes nothing */
};
enum { N_OF_SOURCES = sizeof of_sources / sizeof *of_sources };

#define YPR "yaw, pitch and roll in degrees"
#define WXYZ "a quaternion: w, x, y and z"
static const struct form of_listeners[] = {
    {"/listener/xyz", SCENE_LISTENER_XYZ, 0, 3, {1, 2, 3}, "x, y and z in metres"},
    {"/listener/ypr", SCENE_ANGLES, LISTENER_OURS, 3, {1, 2, 3}, YPR},
    {"/listener/quaternion", SCENE_QUATERNION, LISTENER_OURS, 4, {1, 2, 3, 4}, WXYZ},
    {"/recentre", SCENE_RECENTRE, 0, 0, {0}, "nothing"},
    {"/recenter", SCENE_RECENTRE, 0, 0, {0}, "nothing"},
    {"/distance-gain", SCENE_DISTANCE_GAIN, 0, 2, {1, 2}, "the distance of 0 dB and the least one in metres, or off"},
    {"/ypr", SCENE_ANGLES, LISTENER_SPARTA, 3, {1, 2, 3}, YPR},
    {"/yaw", SCENE_ANGLES, LISTENER_SPARTA, 1, {1}, "degrees"},
    {"/pitch", SCENE_ANGLES, LISTENER_SPARTA, 1, {0, 1}, "degrees"},
    {"/roll", SCENE_ANGLES, LISTENER_SPARTA, 1, {0, 0, 1}, "degrees"},
    {"/SceneRotator/ypr", SCENE_ANGLES, LISTENER_IEM, 3, {1, 2, 3}, YPR},
    {"/SceneRotator/yaw", SCENE_ANGLES, LISTENER_IEM, 1, {1}, "degrees"},
    {"/SceneRotator/pitch", SCENE_ANGLES, LISTENER_IEM, 1, {0, 1}, "degrees"},
    {"/SceneRotator/roll", SCENE_ANGLES, LISTENER_IEM, 1, {0, 0, 1}, "degrees"},
    {"/SceneRotator/quaternions", SCENE_QUATERNION, LISTENER_IEM, 4, {1, 2, 3, 4}, WXYZ},
    {"/rotation", SCENE_ANGLES, LISTENER_AMBIX, 3, {2, 1, 3}, "pitch, yaw and roll in degrees"},
    {"/head_pose", SCENE_ANGLES, LISTENER_AMBIX, 7, {6, 5, 7}, "a number, x, y, z, and pitch, yaw and roll in degrees"},
    {"/quaternion", SCENE_QUATERNION, LISTENER_AMBIX, 4, {1, 2, 3, 4}, WXYZ},
};
enum { N_OF_LISTENERS = sizeof of_listeners / sizeof *of_listeners };

/* "/source/3/xyz" is 3 and "xyz". NULL: it is no such path. */
static const char *read_source(const char *path, int *number)
{
    static const char SOURCE[] = "/source/";
    size_t n = sizeof SOURCE - 1;
    *number = 0;
    if (strncmp(path, SOURCE, n) != 0) return NULL;
    int digits = (int)strspn(path + n, "0123456789");
    if (digits < 1 || digits > 6 || path[n + (size_t)digits] != '/') return NULL;
    *number = atoi(path + n);
    return path + n + (size_t)digits + 1;
}

static const struct form *find(const char *path, int *source)
{
    const char *what = read_source(path, source);
    for (int i = 0; what && i < N_OF_SOURCES; i++)
        if (strcmp(of_sources[i].path, what) == 0) return &of_sources[i];
    for (int i = 0; !what && i < N_OF_LISTENERS; i++)
        if (strcmp(of_listeners[i].path, path) == 0) return &of_listeners[i];
    return NULL;
}

static bool is_of_source(const struct form *form)
{
    return form >= of_sources && form < of_sources + N_OF_SOURCES;
}

bool scene_message_is(const char *path)
{
    int source;
    return find(path, &source) != NULL;
}

bool scene_message_is_answer(const struct osc_message *message)
{
    int source;
    const struct form *form = find(message->path, &source);
    return form && is_of_source(form) && form->n == 0 && message->n_args == 3 && message->n_numbers == 3;
}

static bool refuse(const struct form *form, char *why, size_t cap)
{
    const char *name = form->path + (form->path[0] == '/');
    return message_write(why, cap, "%s takes %s", name, form->takes);
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
    const struct form *form = find(message->path, &source);
    if (!form) return message_write(why, cap, "there is no such message; see OSC in haloconv(1)");
    *change = (struct scene_change){.act = form->act, .dialect = form->dialect, .source = source - 1};
    if (read_off(message, change)) return true;
    /* The least distance may be left out: it is a quarter of the other, which is a gain of 12 dB. */
    bool is_short = form->act == SCENE_DISTANCE_GAIN && message->n_args == 1;
    int n = is_short ? 1 : form->n;
    if (message->n_args == 0 && is_of_source(form))
        return message_write(why, cap, "there is no source %d to ask about", source);
    if (message->n_args != n || message->n_numbers != n || (n == 0 && form->act != SCENE_RECENTRE))
        return refuse(form, why, cap);
    for (int i = 0; i < n; i++)
        if (!isfinite(message->numbers[i])) return refuse(form, why, cap);
    for (int i = 0; i < 4; i++) change->values[i] = form->from[i] ? message->numbers[form->from[i] - 1] : NAN;
    if (is_short) change->values[1] = change->values[0] / 4;
    return true;
}

static void answer_source(const struct osc_message *message, const struct form *form,
                          const struct live_scene_source *source, struct osc *osc)
{
    const double *v = form->n == 0 ? source->seen : form->act == SCENE_AED ? source->aed : source->xyz;
    if (form->act == SCENE_GAIN)
        osc_send_to(osc, message->from, message->path, "f", source->gain_db);
    else if (form->act == SCENE_ENTRY)
        osc_send_to(osc, message->from, message->path, "i", source->entry);
    else if (form->n == 1)
        osc_send_to(osc, message->from, message->path, "f", v[form->from[0] ? 0 : form->from[1] ? 1 : 2]);
    else
        osc_send_to(osc, message->from, message->path, "fff", v[0], v[1], v[2]);
}

bool scene_message_answer(const struct osc_message *message, struct live_scene *scene, struct osc *osc)
{
    int number;
    struct live_scene_source source;
    struct listener listener;
    double angles[3];
    const struct form *form = find(message->path, &number);
    if (!form || message->n_args > 0) return false;
    if (is_of_source(form)) {
        if (number < 1 || number > live_scene_n_sources(scene)) return false;
        live_scene_get_source(scene, number - 1, &source);
        answer_source(message, form, &source, osc);
        return true;
    }
    if (form->act != SCENE_LISTENER_XYZ && !(form->act == SCENE_ANGLES && form->dialect == LISTENER_OURS)) return false;
    live_scene_get_listener(scene, &listener);
    listener_angles(&listener, angles);
    const double *v = form->act == SCENE_ANGLES ? angles : listener.at;
    osc_send_to(osc, message->from, message->path, "fff", v[0], v[1], v[2]);
    return true;
}
