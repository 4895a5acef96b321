#include "recording.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FRAMES = 8192 };

struct recording recording_open(const struct plugin_driver *driver, const struct plugin_setup *setup, int cap)
{
    struct recording r = {.p = must_alloc(1, sizeof *r.p), .cap = cap};
    struct plugin_setup with = *setup;
    struct random random = random_seeded(5);
    if (!with.max_frames && !with.rate) with.max_frames = 64;
    if (!with.rate) with.rate = 48000;
    plugin_open(r.p, driver, &with);
    for (int ch = 0; ch < r.p->variant->n_in; ch++) r.in[ch] = noise(&random, cap);
    for (int ch = 0; ch < r.p->variant->n_out; ch++) r.out[ch] = must_alloc((size_t)cap, sizeof(float));
    return r;
}

struct recording recording_open_stereo(const struct plugin_driver *driver, int cap)
{
    return recording_open(driver, &(struct plugin_setup){.variant = "stereo"}, cap);
}

void recording_close(struct recording *r)
{
    plugin_close(r->p);
    for (int ch = 0; ch < r->p->variant->n_in; ch++) free(r->in[ch]);
    for (int ch = 0; ch < r->p->variant->n_out; ch++) free(r->out[ch]);
    free(r->p);
}

void recording_play(void *recording, int n)
{
    struct recording *r = recording;
    static double doubles[2][MAX_CHANNELS][MAX_FRAMES];
    void *in[MAX_CHANNELS], *out[MAX_CHANNELS];
    const bool is_double = r->p->setup.is_double;
    check(r->n + n <= r->cap && n <= MAX_FRAMES, "the test asks for more than its own %d frames", r->cap);
    for (int ch = 0; ch < r->p->variant->n_out; ch++)
        out[ch] = is_double ? (void *)doubles[1][ch] : (void *)(r->out[ch] + r->n);
    for (int ch = 0; ch < r->p->variant->n_in; ch++) {
        in[ch] = r->in_place ? out[ch] : is_double ? (void *)doubles[0][ch] : (void *)(r->in[ch] + r->n);
        for (int i = 0; is_double && i < n; i++) ((double *)in[ch])[i] = (double)r->in[ch][r->n + i];
        if (!is_double && r->in_place) memcpy(in[ch], r->in[ch] + r->n, (size_t)n * sizeof(float));
    }
    r->p->driver->play(r->p, in, out, n);
    for (int ch = 0; is_double && ch < r->p->variant->n_out; ch++)
        for (int i = 0; i < n; i++) r->out[ch][r->n + i] = (float)doubles[1][ch][i];
    r->n += n;
}

void recording_play_random(struct recording *r, int frames, int max_block, uint64_t seed)
{
    play_random_blocks(recording_play, r, frames, max_block, seed);
}

void recording_settle(struct recording *r)
{
    const double give_up = now_s() + 60;
    const int fade = r->p->setup.rate / 50;
    recording_play(r, 64);
    bool waited = false;
    for (; r->p->driver->is_busy && r->p->driver->is_busy(r->p); waited = true) {
        check(now_s() < give_up, "the worker is not done after a minute");
        recording_play(r, 64);
        pause_us(1000);
    }
    /* The fade, and what had to be caught up with: under a sanitizer the worker is slower than the clock. */
    for (int i = waited && SANITIZED ? 400 : 8; i > 0; i--) recording_play(r, fade);
}

void recording_await(struct recording *r, const char *text)
{
    const double give_up = now_s() + 60;
    for (const char *log; !strstr(log = r->p->driver->log(r->p), text); pause_us(1000)) {
        check(now_s() < give_up && r->n + 64 <= r->cap, "the log lacks \"%s\"", text);
        recording_play(r, 64);
    }
}

void check_mix(const struct recording *r, const char *path, struct mix mix, int origin, int first, int last)
{
    check_played(&(struct played){r->p->variant, r->p->setup.rate, r->n, r->in, r->out}, path, mix, origin, first,
                 last);
}

void check_dry(const struct recording *r, int first)
{
    for (int ch = 0; ch < r->p->variant->n_out; ch++)
        for (int i = first; i < r->n; i++) {
            const float want = r->in[r->p->variant->n_in == 1 ? 0 : ch][i];
            check(r->out[ch][i] == (isfinite(want) ? want : 0), "channel %d, frame %d: got %g, want %g", ch, i,
                  (double)r->out[ch][i], (double)want);
        }
}

void check_same(const struct recording *a, const struct recording *b, double share)
{
    double peak = 0, off = 0;
    for (int ch = 0; ch < a->p->variant->n_out; ch++)
        for (int i = 0; i < a->n; i++) {
            peak = fmax(peak, fabs((double)b->out[ch][i]));
            off = fmax(off, fabs((double)a->out[ch][i] - (double)b->out[ch][i]));
        }
    check(a->n == b->n && off <= share * peak, "off by %g of %g", off, peak);
}

void check_log(const struct recording *r, const char *text)
{
    const char *log = r->p->driver->log(r->p);
    check(strstr(log, text), "the log lacks \"%s\": %s", text, log);
}
