#include "live_scene.h"

#include "host/message.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double HERE = 1e-6;         /* m: a source that is nearer to the listener has no direction */
static const double MIN_METRES = 1e-3;   /* min. distance for the gain, which would be infinite at 0 */

struct live_source {
    double aed[3], xyz[3]; /* both are the same position */
    double gain_db;
    int entry; /* entry of the bank; -1: the source is at its position */
    bool is_muted;
};

struct live_scene {
    hc_live *live;
    pthread_mutex_t lock; /* protects all fields below */
    struct listener listener;
    double angles[LISTENER_DIALECTS][3]; /* last yaw, pitch, roll of each dialect: a message may have one angle only */
    double quaternions[LISTENER_DIALECTS][4]; /* likewise, in the order w, x, y, z */
    double reference, min_m;                  /* m; reference 0: no gain by distance */
    int n_sources;
    struct live_source sources[];
};

/* ---- steering ---------------------------------------------------------------------------------- */

static double plain_gain(const struct live_source *source)
{
    return source->is_muted ? 0 : pow(10, source->gain_db / 20);
}

static double scene_gain_of(const struct live_scene *s, const struct live_source *source, double distance)
{
    double gain = plain_gain(source);
    return s->reference > 0 ? gain * s->reference / fmax(distance, s->min_m) : gain;
}

static void live_scene_steer(struct live_scene *s, int i)
{
    const struct live_source *source = &s->sources[i];
    double seen[3];
    if (source->entry >= 0) {
        hc_live_steer(s->live, i, NULL, source->entry, (float)plain_gain(source));
        return;
    }
    listener_see(&s->listener, source->xyz, seen);
    double distance = sqrt(seen[0] * seen[0] + seen[1] * seen[1] + seen[2] * seen[2]);
    float position[3] = {(float)seen[0], (float)seen[1], (float)seen[2]},
          gain = (float)scene_gain_of(s, source, distance);
    if (distance < HERE) memcpy(position, (const float[3]){(float)HERE}, sizeof position); /* ahead */
    hc_live_steer(s->live, i, position, 0, gain);
}

static void steer_all(struct live_scene *s)
{
    for (int i = 0; i < s->n_sources; i++) live_scene_steer(s, i);
}

/* ---- open and close ---------------------------------------------------------------------------- */

static void put(struct live_source *source, const double aed[3])
{
    memcpy(source->aed, aed, sizeof source->aed);
    listener_xyz_of_aed(aed, source->xyz);
}

/* Returns the first azimuth of source i of n: two sources are at +-30 degrees, six or more reach from ear to ear. */
static double default_azimuth(int i, int n)
{
    double widest = fmin(90, 15.0 * n);
    return n == 1 ? 0 : widest - 2 * widest * i / (n - 1);
}

struct live_scene *live_scene_open(hc_live *live, int n_sources, const hc_source *sources,
                                   const struct live_scene_settings *settings, char *why, size_t cap)
{
    struct live_scene *s = calloc(1, sizeof *s + (size_t)n_sources * sizeof *s->sources);
    if (!s)
        return (void)message_write(why, cap, "no memory for %d source%s; free some memory", n_sources,
                                   message_s(n_sources)),
               NULL;
    pthread_mutex_init(&s->lock, NULL);
    listener_open(&s->listener);
    for (int i = 0; i < LISTENER_DIALECTS; i++) s->quaternions[i][0] = 1;
    s->live = live;
    s->n_sources = n_sources;
    if (settings) {
        s->reference = settings->reference;
        s->min_m = settings->min_m;
        const struct quaternion *front = &settings->front;
        memcpy(s->listener.at, settings->listener_at, sizeof s->listener.at);
        if (listener_head_of_quaternion(LISTENER_OURS, (const double[4]){front->w, front->x, front->y, front->z},
                                        &s->listener.front))
            s->listener.head = s->listener.front;
    }
    for (int i = 0; i < n_sources; i++) {
        s->sources[i].entry = -1;
        double aed[3] = {default_azimuth(i, n_sources), 0, 1};
        if (sources) {
            const float *at = sources[i].position;
            listener_aed_of_xyz((const double[3]){(double)at[0], (double)at[1], (double)at[2]}, aed);
        }
        put(&s->sources[i], aed);
    }
    for (int i = 0; settings && i < settings->n_positions; i++) {
        const struct live_scene_position *first = &settings->positions[i];
        if (first->source >= n_sources && settings->is_restored) continue;
        if (first->source >= n_sources) {
            message_write(why, cap, "the session has no source %d; it has %d", first->source + 1, n_sources);
            live_scene_close(s);
            return NULL;
        }
        put(&s->sources[first->source], first->aed);
        s->sources[first->source].gain_db = first->gain_db;
        s->sources[first->source].entry = first->entry;
        s->sources[first->source].is_muted = first->is_muted;
    }
    steer_all(s);
    return s;
}

void live_scene_close(struct live_scene *s)
{
    if (!s) return;
    pthread_mutex_destroy(&s->lock);
    free(s);
}

int live_scene_n_sources(const struct live_scene *s)
{
    return s->n_sources;
}

/* ---- changes ----------------------------------------------------------------------------------- */

static bool is_near(const double xyz[3])
{
    for (int i = 0; i < 3; i++)
        if (!(fabs(xyz[i]) <= LIVE_SCENE_MAX_METRES)) return false; /* NaN too */
    return true;
}

static bool refuse_position(char *why, size_t cap)
{
    return message_write(why, cap, "a position needs metres from -%d to %d", LIVE_SCENE_MAX_METRES,
                         LIVE_SCENE_MAX_METRES);
}

/* The minimum distance is a quarter of the reference if it is not given. */
bool live_scene_is_distance_gain(double reference, double min_m)
{
    return reference >= MIN_METRES && reference <= LIVE_SCENE_MAX_METRES && min_m >= MIN_METRES / 4 &&
           min_m <= LIVE_SCENE_MAX_METRES;
}

/* Copies n values; one that is NaN stays as it was. */
static void merge(const double *values, const double *before, double *merged, int n)
{
    for (int i = 0; i < n; i++) merged[i] = isnan(values[i]) ? before[i] : values[i];
}

static bool live_scene_move(struct live_source *source, const double values[3], char *why, size_t cap)
{
    double aed[3] = {0};
    merge(values, source->aed, aed, 3);
    if (!isfinite(aed[0])) return message_write(why, cap, "an azimuth needs degrees, counter-clockwise from ahead");
    if (!(fabs(aed[1]) <= 90)) return message_write(why, cap, "an elevation needs degrees from -90 to 90");
    /* A distance that stays may be longer: that of a corner of xyz, or of a configuration. */
    if (!isnan(values[2]) && !(aed[2] >= 0 && aed[2] <= LIVE_SCENE_MAX_METRES))
        return message_write(why, cap, "a distance needs metres from 0 to %d", LIVE_SCENE_MAX_METRES);
    aed[0] = remainder(aed[0], 360);
    put(source, aed);
    source->entry = -1;
    return true;
}

static bool move_to(struct live_source *source, const double values[3], char *why, size_t cap)
{
    double xyz[3];
    merge(values, source->xyz, xyz, 3);
    if (!is_near(xyz)) return refuse_position(why, cap);
    memcpy(source->xyz, xyz, sizeof source->xyz);
    listener_aed_of_xyz(xyz, source->aed);
    source->entry = -1;
    return true;
}

/* A bank that is loaded later may lack the entry: the source is then silent. */
static bool check_entry(const struct live_scene *s, int source, double entry, char *why, size_t cap)
{
    int n = hc_live_n_entries(s->live, source);
    if (!(entry >= 0 && entry < 1 << 30 && entry == floor(entry)))
        return message_write(why, cap, "an entry needs a whole number from 0");
    if (n == 0 || entry < n) return true;
    return message_write(why, cap, "the bank has no entry %.0f; its %d entries count from 0", entry, n);
}

static bool refuse_quaternion(char *why, size_t cap)
{
    return message_write(why, cap, "a quaternion needs w, x, y and z, not all of them 0");
}

/* Moves a source to the direction in which the quaternion turns a head. The distance stays. */
static bool move_by_quaternion(struct live_source *source, const double wxyz[4], char *why, size_t cap)
{
    struct listener turned;
    double angles[3];
    listener_open(&turned);
    if (!listener_head_of_quaternion(LISTENER_OURS, wxyz, &turned.head)) return refuse_quaternion(why, cap);
    listener_angles(&turned, angles);
    return live_scene_move(source, (const double[3]){angles[0], angles[1], NAN}, why, cap);
}

static bool change_source(struct live_scene *s, int i, const struct scene_change *change, char *why, size_t cap)
{
    struct live_source *source = &s->sources[i];
    double value = change->values[0];
    bool good = true;
    if (change->act == SCENE_AED) {
        good = live_scene_move(source, change->values, why, cap);
    } else if (change->act == SCENE_XYZ) {
        good = move_to(source, change->values, why, cap);
    } else if (change->act == SCENE_DIRECTION) {
        good = move_by_quaternion(source, change->values, why, cap);
    } else if (change->act == SCENE_LINEAR_GAIN) {
        good = value >= 0 || message_write(why, cap, "a linear gain needs 0 or more");
        if (good) source->gain_db = fmin(20 * log10(value), LIVE_SCENE_MAX_DB);
    } else if (change->act == SCENE_MUTE) {
        source->is_muted = value != 0;
    } else if (change->act == SCENE_GAIN) {
        good = value <= LIVE_SCENE_MAX_DB ||
               message_write(why, cap, "a source's gain needs at most %d dB, or off", LIVE_SCENE_MAX_DB);
        if (good) source->gain_db = value;
    } else {
        good = check_entry(s, i, value, why, cap);
        if (good) source->entry = (int)value;
    }
    if (good) live_scene_steer(s, i);
    return good;
}

static bool turn_by_angles(struct live_scene *s, const struct scene_change *change, char *why, size_t cap)
{
    double *angles = s->angles[change->dialect];
    for (int i = 0; i < 3; i++)
        if (isinf(change->values[i])) return message_write(why, cap, "an angle needs degrees");
    merge(change->values, angles, angles, 3);
    for (int i = 0; i < 3; i++) angles[i] = remainder(angles[i], 360);
    s->listener.head = listener_head_of_angles(change->dialect, angles);
    return true;
}

/* If each number comes in a separate message, all may be 0 in between: the head then stays. */
static bool turn_by_quaternion(struct live_scene *s, const struct scene_change *change, char *why, size_t cap)
{
    double *wxyz = s->quaternions[change->dialect], merged[4];
    bool is_whole = true;
    for (int i = 0; i < 4; i++) is_whole = is_whole && !isnan(change->values[i]);
    merge(change->values, wxyz, merged, 4);
    if (!listener_head_of_quaternion(change->dialect, merged, &s->listener.head) && is_whole)
        return refuse_quaternion(why, cap);
    memcpy(wxyz, merged, sizeof merged);
    return true;
}

static bool change_listener(struct live_scene *s, const struct scene_change *change, char *why, size_t cap)
{
    const double *values = change->values;
    double at[3];
    switch (change->act) {
    case SCENE_LISTENER_XYZ:
        merge(values, s->listener.at, at, 3);
        if (!is_near(at)) return refuse_position(why, cap);
        memcpy(s->listener.at, at, sizeof at);
        break;
    case SCENE_ANGLES:
        if (!turn_by_angles(s, change, why, cap)) return false;
        break;
    case SCENE_QUATERNION:
        if (!turn_by_quaternion(s, change, why, cap)) return false;
        break;
    case SCENE_DISTANCE_GAIN:
        if (values[0] != 0 && !live_scene_is_distance_gain(values[0], values[1]))
            return message_write(why, cap, "the gain by distance needs metres from %g to %d, or off", MIN_METRES,
                                 LIVE_SCENE_MAX_METRES);
        s->reference = values[0];
        s->min_m = values[0] != 0 ? values[1] : 0;
        break;
    case SCENE_RECENTRE:
        listener_recentre(&s->listener);
        break;
    default:
        return true;
    }
    steer_all(s);
    return true;
}

bool live_scene_change(struct live_scene *s, const struct scene_change *change, char *why, size_t cap)
{
    bool is_of_source = change->act <= SCENE_LAST_OF_SOURCE, is_every = change->source == SCENE_EVERY, good = true;
    if (is_of_source && !is_every && (change->source < 0 || change->source >= s->n_sources))
        return message_write(why, cap, "this source does not exist; the session's %d sources count from 1",
                             s->n_sources);
    int begin = is_every ? 0 : change->source, end = is_every ? s->n_sources : begin + 1;
    pthread_mutex_lock(&s->lock);
    for (int i = begin; is_of_source && good && i < end; i++) good = change_source(s, i, change, why, cap);
    if (!is_of_source) good = change_listener(s, change, why, cap);
    pthread_mutex_unlock(&s->lock);
    return good;
}

/* ---- state ------------------------------------------------------------------------------------- */

void live_scene_get_source(struct live_scene *s, int i, struct live_scene_source *state)
{
    pthread_mutex_lock(&s->lock);
    const struct live_source *source = &s->sources[i];
    *state =
        (struct live_scene_source){.gain_db = source->gain_db, .entry = source->entry, .is_muted = source->is_muted};
    memcpy(state->aed, source->aed, sizeof state->aed);
    memcpy(state->xyz, source->xyz, sizeof state->xyz);
    double seen[3];
    listener_see(&s->listener, source->xyz, seen);
    listener_aed_of_xyz(seen, state->seen);
    pthread_mutex_unlock(&s->lock);
}

void live_scene_record(struct live_scene *s, struct live_scene_settings *settings)
{
    pthread_mutex_lock(&s->lock);
    settings->n_positions = s->n_sources;
    for (int i = 0; i < s->n_sources; i++) {
        const struct live_source *source = &s->sources[i];
        settings->positions[i] = (struct live_scene_position){
            .source = i, .gain_db = source->gain_db, .entry = source->entry, .is_muted = source->is_muted};
        memcpy(settings->positions[i].aed, source->aed, sizeof source->aed);
    }
    settings->reference = s->reference;
    settings->min_m = s->min_m;
    memcpy(settings->listener_at, s->listener.at, sizeof settings->listener_at);
    settings->front = s->listener.front;
    pthread_mutex_unlock(&s->lock);
}

static bool live_scene_is_same(const struct live_scene_position *a, const struct live_scene_position *b)
{
    return a->source == b->source && a->aed[0] == b->aed[0] && a->aed[1] == b->aed[1] && a->aed[2] == b->aed[2] &&
           a->gain_db == b->gain_db && a->entry == b->entry && a->is_muted == b->is_muted;
}

bool live_scene_same(const struct live_scene_settings *a, const struct live_scene_settings *b)
{
    if (a->n_positions != b->n_positions || a->reference != b->reference || a->min_m != b->min_m) return false;
    for (int i = 0; i < a->n_positions; i++)
        if (!live_scene_is_same(&a->positions[i], &b->positions[i])) return false;
    return true;
}

void live_scene_get_listener(struct live_scene *s, struct listener *listener)
{
    pthread_mutex_lock(&s->lock);
    *listener = s->listener;
    pthread_mutex_unlock(&s->lock);
}

/* Returns the nearest integer; never -0. */
static double without_sign(double value)
{
    return rint(value) + 0.0;
}

void live_scene_describe(struct live_scene *s, char *text, size_t cap)
{
    struct listener listener;
    double angles[3];
    live_scene_get_listener(s, &listener);
    listener_angles(&listener, angles);
    snprintf(text, cap, " | %d source%s, head %.0f %.0f %.0f", s->n_sources, message_s(s->n_sources),
             without_sign(angles[0]), without_sign(angles[1]), without_sign(angles[2]));
}
