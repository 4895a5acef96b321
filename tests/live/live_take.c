#include "live_take.h"

#include "dsp/device/backend.h" /* fade_gain */
#include "player.h"             /* PEAK_SHARE */
#include "reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    SOFT = 96,                /* frames after which a crossfade certainly exceeds the tolerance */
    FITTED = 96,              /* frames that its beginning is fitted to */
    PEAK_FRAMES = 400,        /* frames that the peak is searched in */
    EVERY = SANITIZED ? 7 : 1 /* frame that is checked between changes */
};

static void *shared(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    check(p != MAP_FAILED, "no memory");
    return p;
}

struct take *take_open(const struct live_driver *driver, const char *scenario)
{
    static struct take *take;
    static float *whole[LIVE_CHANNELS], *in[LIVE_CHANNELS], *out[LIVE_CHANNELS];
    struct random r = random_seeded(7);
    if (!take) {
        take = shared(sizeof *take);
        for (int ch = 0; ch < LIVE_CHANNELS; ch++) {
            whole[ch] = noise(&r, TAKE_CAP);
            for (int i = 0; i < TAKE_CAP; i++) whole[ch][i] *= 0.5f;
            in[ch] = shared(TAKE_CAP * sizeof(float));
            out[ch] = shared(TAKE_CAP * sizeof(float));
        }
    }
    memset(take, 0, sizeof *take);
    for (int ch = 0; ch < LIVE_CHANNELS; ch++) /* take_gap has changed it */
        memcpy(in[ch], whole[ch], TAKE_CAP * sizeof(float));
    take->driver = driver;
    take->scenario = scenario;
    memcpy(take->in, in, sizeof in);
    memcpy(take->out, out, sizeof out);
    return take;
}

void take_call(struct take *t, int n)
{
    const float *in[LIVE_CHANNELS];
    float *out[LIVE_CHANNELS];
    check(t->pos + n <= TAKE_CAP && t->n_calls < TAKE_CALLS, "%s %s: more than %d frames", t->driver->name, t->scenario,
          t->pos);
    for (int ch = 0; ch < LIVE_CHANNELS; ch++) {
        in[ch] = t->in[ch] + t->pos;
        out[ch] = t->out[ch] + t->pos;
    }
    const char *caught = t->driver->process(in, out, n);
    if (caught && !t->caught) t->caught = caught;
    t->pos += n;
    t->calls[++t->n_calls] = t->pos;
}

void take_expect(struct take *t, struct take_change change)
{
    check(t->n_changes < TAKE_CHANGES, "more than %d changes", TAKE_CHANGES);
    t->changes[t->n_changes++] = change;
}

void take_begin_here(struct take *t, struct sound sound)
{
    t->first = sound;
    t->n_changes = t->n_calls = 0;
    t->calls[0] = t->pos;
}

void take_gap(struct take *t, int n, struct sound sound)
{
    for (int ch = 0; ch < LIVE_CHANNELS; ch++) memset(t->in[ch] + t->pos, 0, (size_t)n * sizeof(float));
    t->pos += n;
    take_begin_here(t, sound);
}

/* ---- what it must sound like ------------------------------------------------------------------- */

static double value_of(const struct take *t, const struct sound *sound, int ch, int frame)
{
    if (sound->kind == SOUND_SILENCE) return 0;
    if (sound->kind == SOUND_DRY) return (double)t->in[ch][frame];
    return reference_sum(sound->mask->taps[ch], sound->mask->n_taps, t->in[ch] + sound->origin,
                         TAKE_CAP - sound->origin, frame - sound->origin);
}

static double gain_of(const struct take_change *c, int frame)
{
    int pos = frame - c->at;
    if (c->shape == CHANGE_CUT || pos >= c->length) return 1;
    return c->shape == CHANGE_RAMP ? (pos + 1.0) / c->length : (double)fade_gain(pos, c->length);
}

/* The first n_changes count. */
static double wants(const struct take *t, int n_changes, int ch, int frame)
{
    int i = n_changes - 1;
    while (i >= 0 && t->changes[i].at > frame) i--;
    if (i < 0) return value_of(t, &t->first, ch, frame);
    double to = value_of(t, &t->changes[i].to, ch, frame), gain = gain_of(&t->changes[i], frame);
    for (; i > 0 && t->changes[i].inside && gain_of(&t->changes[i - 1], frame) < 1; i--) {
        to = (1 - gain) * value_of(t, &t->changes[i - 1].to, ch, frame) + gain * to;
        gain = gain_of(&t->changes[i - 1], frame);
    }
    return gain < 1 ? (1 - gain) * wants(t, i, ch, frame) + gain * to : to;
}

/* The peak of the last tenth of the take, which may be a few hundred frames only. */
static double peak_of(const struct take *t)
{
    double peak = 0;
    int step = t->pos / 10 / PEAK_FRAMES | 1; /* odd: both channels */
    for (int i = 0; i <= t->n_changes; i++) {
        const struct sound *sound = i ? &t->changes[i - 1].to : &t->first;
        for (int frame = t->pos * 9 / 10; frame < t->pos; frame += step)
            peak = fmax(peak, fabs(value_of(t, sound, frame & 1, frame)));
    }
    return peak;
}

/* The mixer adds a ramp's step up in float. */
static double tolerance(const struct take *t, int n_changes, int frame, double peak)
{
    for (int i = 0; i < n_changes; i++) {
        const struct take_change *c = &t->changes[i];
        if (c->shape == CHANGE_RAMP && frame >= c->at && frame < c->at + c->length) return c->length * 0x1p-25 * peak;
    }
    return PEAK_SHARE * peak;
}

static bool is_silent(const struct take *t, int first, int end)
{
    for (int ch = 0; ch < LIVE_CHANNELS; ch++)
        for (int i = first; i < end; i++)
            if (t->out[ch][i] != 0) return false;
    return true;
}

static bool is_right(const struct take *t, int n_changes, int frame, double peak)
{
    for (int ch = 0; ch < LIVE_CHANNELS; ch++) {
        double off = (double)t->out[ch][frame] - wants(t, n_changes, ch, frame);
        if (!(fabs(off) <= tolerance(t, n_changes, frame, peak))) return false;
    }
    return true;
}

bool take_sounds_like(struct take *t, struct sound sound)
{
    double peak = 0;
    for (int frame = t->pos > 500 ? t->pos - 500 : 0; frame < t->pos; frame += 10)
        peak = fmax(peak, fabs(value_of(t, &sound, 0, frame)));
    for (int ch = 0; ch < LIVE_CHANNELS; ch++) {
        double off = (double)t->out[ch][t->pos - 1] - value_of(t, &sound, ch, t->pos - 1);
        if (!(fabs(off) <= 4 * PEAK_SHARE * peak)) return false;
    }
    return true;
}

/* ---- the check --------------------------------------------------------------------------------- */

/* The deviation of frames [first, end) if change i begins at frame `at`. */
static double misfit(struct take *t, int i, int at, int first, int end)
{
    double worst = 0;
    t->changes[i].at = at;
    for (int frame = first; frame < end; frame++)
        for (int ch = 0; ch < LIVE_CHANNELS; ch++)
            worst = fmax(worst, fabs((double)t->out[ch][frame] - wants(t, i + 1, ch, frame)));
    return worst;
}

/* The change begins shortly before the first frame that differs from the sound before it. */
static void locate(struct take *t, int i, double peak)
{
    struct take_change *c = &t->changes[i];
    int first = c->earliest, found = -1;
    if (i > 0 && first < t->changes[i - 1].at) first = t->changes[i - 1].at;
    for (int frame = first; found < 0 && frame < t->pos; frame++)
        if (!is_right(t, i, frame, peak)) found = frame;
    check(found >= 0, "%s %s: change %d of %d does not play up to frame %d", t->driver->name, t->scenario, i + 1,
          t->n_changes, t->pos);
    int least = found - SOFT > first ? found - SOFT : first, end = found + FITTED < t->pos ? found + FITTED : t->pos;
    if (c->shape == CHANGE_CUT) least = found;
    if (i + 1 < t->n_changes && end > t->changes[i + 1].earliest) end = t->changes[i + 1].earliest;
    int best = found;
    double least_misfit = INFINITY;
    for (int at = least; at <= found; at++) {
        double off = misfit(t, i, at, least, end);
        if (off < least_misfit) best = at;
        if (off < least_misfit) least_misfit = off;
    }
    c->at = best;
}

static bool is_near_change(const struct take *t, int frame)
{
    for (int i = 0; i < t->n_changes; i++) {
        const struct take_change *c = &t->changes[i];
        if (frame >= c->earliest - 64 && frame < c->at + c->length + 64) return frame >= c->at - 256;
    }
    return false;
}

static void check_frame(const struct take *t, int frame, double peak)
{
    for (int ch = 0; ch < LIVE_CHANNELS; ch++) {
        double want = wants(t, t->n_changes, ch, frame), got = (double)t->out[ch][frame];
        double allowed = tolerance(t, t->n_changes, frame, peak);
        check(fabs(got - want) <= allowed, "%s %s: channel %d, frame %d of %d: got %.9g, want %.9g, allowed %.3g",
              t->driver->name, t->scenario, ch, frame, t->pos, got, want, allowed);
    }
}

/* A late block is silence, or in a crossfade what the other engine plays of it: no sample is of another sign, or larger,
 * than it should be. */
static bool could_be_late(const struct take *t, int first, int end, double peak)
{
    for (int frame = first; frame < end; frame++)
        for (int ch = 0; ch < LIVE_CHANNELS; ch++) {
            double want = wants(t, t->n_changes, ch, frame), got = (double)t->out[ch][frame];
            double allowed = tolerance(t, t->n_changes, frame, peak);
            if (!(got >= fmin(want, 0) - allowed && got <= fmax(want, 0) + allowed)) return false;
        }
    return true;
}

int take_last_silence(const struct take *t)
{
    int call = t->n_calls - 1;
    while (call >= 0 && !is_silent(t, t->calls[call], t->calls[call + 1])) call--;
    while (call > 0 && is_silent(t, t->calls[call - 1], t->calls[call])) call--;
    return call < 0 ? -1 : t->calls[call];
}

int take_check(struct take *t, bool may_be_late)
{
    double peak = peak_of(t);
    int silent = 0;
    check(!t->caught, "%s %s: the callback reached %s", t->driver->name, t->scenario, t->caught);
    for (int i = 0; i < t->n_changes; i++)
        if (t->changes[i].at < 0) locate(t, i, peak);
    for (int call = 0; call < t->n_calls; call++) {
        int first = t->calls[call], end = t->calls[call + 1];
        bool is_right_at_edges = is_right(t, t->n_changes, first, peak) && is_right(t, t->n_changes, end - 1, peak);
        bool is_late = may_be_late && !is_right_at_edges && could_be_late(t, first, end, peak);
        silent += is_late;
        for (int frame = first; frame < end && !is_late; frame++)
            if (frame % EVERY == 0 || frame == first || frame == end - 1 || is_near_change(t, frame))
                check_frame(t, frame, peak);
    }
    return silent;
}
