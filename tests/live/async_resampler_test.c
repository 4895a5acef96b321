/* Two simulated sound cards whose clocks drift apart; their callbacks follow their own clocks, each a little late. The
 * resampler takes the time from its arguments, so the test plays hours in seconds. */
#include "check.h"
#include "host/live/devices/async_resampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double PI = 3.14159265358979323846;

enum { MOST = 4096 };

struct card {
    double rate;      /* true frames a second */
    int block, least; /* frames a callback; `least` below it: any count between */
    double jitter_s;  /* mean lateness; five times that at most */
    double late_s;    /* more than that, once */
    double due_s, time_s;
    int next;
    int64_t frames;
};

struct cards {
    struct async_resampler *resampler;
    struct card in, out;
    struct random random;
    double tone_hz; /* left: a tone; right: its negative */
    double loud_s;  /* before this time the tone is twice as loud */
    int channels;
    float *output; /* [n_output] of the first channel, since the start; NULL: not recorded */
    int64_t n_output, cap;
    double from_s;    /* from this time on: */
    double worst_ppm; /* largest error of the estimated drift */
    int64_t silent;   /* silent callbacks of the output */
};

/* A callback comes after its frames have passed, usually a little late; late_s is added once. */
static void card_schedule(struct cards *s, struct card *card)
{
    card->next = card->block > card->least ? random_int(&s->random, card->least, card->block) : card->block;
    card->due_s += card->next / card->rate;
    double late = -card->jitter_s * log(1 - 0.993 * fabs((double)random_sample(&s->random)));
    double time = card->due_s + late + card->late_s;
    card->late_s = 0;
    card->time_s = time > card->time_s ? time : card->time_s + 1e-6;
}

static void cards_open(struct cards *s, int rate, double ppm, int in_block, int out_block, double jitter_s)
{
    char why[300] = "";
    *s = (struct cards){.random = random_seeded(31), .tone_hz = rate / 48.0, .channels = 2, .from_s = 1e9};
    s->in = (struct card){.rate = rate * (1 + ppm * 1e-6), .block = in_block, .least = in_block, .jitter_s = jitter_s};
    s->out = (struct card){.rate = rate, .block = out_block, .least = out_block, .jitter_s = jitter_s, .due_s = 0.0123};
    s->resampler = async_resampler_open(s->channels, rate, why, sizeof why);
    if (!s->resampler && strstr(why, "libsamplerate")) check_skip(why);
    check(s->resampler, "%s", why);
    card_schedule(s, &s->in);
    card_schedule(s, &s->out);
}

static void cards_close(struct cards *s)
{
    async_resampler_close(s->resampler);
    free(s->output);
}

static void record(struct cards *s, double seconds)
{
    s->cap = (int64_t)(seconds * s->out.rate) + MOST;
    s->output = must_alloc((size_t)s->cap, sizeof *s->output);
}

static void call_in(struct cards *s)
{
    static float frames[MOST * 2];
    for (int i = 0; i < s->in.next; i++) {
        /* The sound at that moment: a tone, by the true time. */
        double time_s = (double)(s->in.frames + i) / s->in.rate;
        float x = (float)((time_s < s->loud_s ? 1 : 0.5) * sin(2 * PI * s->tone_hz * time_s));
        frames[2 * i] = x;
        frames[2 * i + 1] = -x;
    }
    async_resampler_write(s->resampler, frames, s->in.next, s->in.time_s);
    s->in.frames += s->in.next;
    card_schedule(s, &s->in);
}

static void call_out(struct cards *s)
{
    static float left[MOST], right[MOST];
    float *const out[2] = {left, right};
    struct async_resampler_status status;
    bool played = async_resampler_read(s->resampler, out, s->out.next, s->out.time_s);
    for (int i = 0; i < s->out.next; i++) {
        check(isfinite(left[i]) && fabsf(left[i] + right[i]) < 1e-6f, "channels %g and %g", (double)left[i],
              (double)right[i]);
        if (s->output && s->n_output < s->cap) s->output[s->n_output++] = left[i];
    }
    async_resampler_get_status(s->resampler, &status);
    if (s->out.due_s >= s->from_s) {
        double truth = 1e6 * (s->in.rate / s->out.rate - 1);
        s->worst_ppm = fmax(s->worst_ppm, fabs(status.ppm - truth));
        s->silent += !played;
    }
    s->out.frames += s->out.next;
    card_schedule(s, &s->out);
}

static void cards_play(struct cards *s, double until_s)
{
    while (s->in.time_s < until_s || s->out.time_s < until_s) {
        if (s->in.time_s < s->out.time_s)
            call_in(s);
        else
            call_out(s);
    }
}

static struct async_resampler_status status_of(const struct cards *s)
{
    struct async_resampler_status status;
    async_resampler_get_status(s->resampler, &status);
    return status;
}

/* ---- promises ---------------------------------------------------------------------------------- */

static const double drifts[] = {100, -100, 0, 37};

/* Callbacks are late by 0.3 ms on average; the estimated times are off by a tenth of that, the rate by 2 ppm. */
static void a_clock_is_found_through_late_callbacks(const char *backend)
{
    for (int i = 0; i < 4; i++) {
        struct cards s = {.random = random_seeded(17)};
        struct clock clock;
        double rate = 48000 * (1 + drifts[i] * 1e-6), mean_s = 0.0003, most_off = 0, most_ppm = 0;
        s.in = (struct card){.rate = rate, .block = 256, .least = 64, .jitter_s = mean_s};
        clock_open(&clock, 48000);
        for (card_schedule(&s, &s.in); s.in.due_s < 300; card_schedule(&s, &s.in)) {
            clock_update(&clock, s.in.time_s, s.in.next);
            if (s.in.due_s < 100) continue;
            most_off = fmax(most_off, fabs(clock.now_s - s.in.due_s - mean_s));
            most_ppm = fmax(most_ppm, fabs(1e6 * (1 / (clock.frame_s * rate) - 1)));
        }
        check(most_off < 0.00003 && most_ppm < 2, "%g ppm: off by %g s, %g ppm", drifts[i], most_off, most_ppm);
    }
}

/* A slow card, so that hours are few frames; the loops count seconds, not frames. The hour of make soak is a quarter of
 * an hour otherwise. */
static void for_hours_nothing_runs_dry_or_over(const char *backend)
{
    for (int i = 0; i < 4; i++) {
        struct cards s;
        cards_open(&s, 2000, drifts[i], 16, 24, 0.0005);
        s.from_s = 120;
        cards_play(&s, SANITIZED ? 360 : i > 1 ? 300 : getenv("HC_SOAK_SECONDS") ? 3600 : 900);
        struct async_resampler_status status = status_of(&s);
        check(status.restarts == 0 && s.silent == 0 && status.runs, "%g ppm: %d restarts, %d silent callbacks",
              drifts[i], (int)status.restarts, (int)s.silent);
        check(fabs(status.ppm - drifts[i]) < 3, "%g ppm: it found %g", drifts[i], status.ppm);
        check(s.worst_ppm < 20, "%g ppm: off by up to %g ppm", drifts[i], s.worst_ppm);
        cards_close(&s);
    }
}

/* Fits a tone to n frames from `at` on: amplitude, phase, and the residue as a share of the amplitude. */
static void fit(const float *x, int64_t at, int n, double cycles, double *amplitude, double *phase, double *residue)
{
    double c = 0, d = 0, sum = 0;
    for (int i = 0; i < n; i++) {
        double window = 1 - cos(2 * PI * (i + 0.5) / n), angle = 2 * PI * cycles * (double)(at + i);
        c += window * (double)x[at + i] * cos(angle);
        d += window * (double)x[at + i] * sin(angle);
    }
    *amplitude = 2 * sqrt(c * c + d * d) / n;
    *phase = atan2(c, d);
    for (int i = 0; i < n; i++) {
        double window = 1 - cos(2 * PI * (i + 0.5) / n);
        double off = (double)x[at + i] - *amplitude * sin(2 * PI * cycles * (double)(at + i) + *phase);
        sum += window * off * off;
    }
    *residue = sqrt(2 * sum / n) / *amplitude;
}

/* A tone keeps its amplitude, stays pure, and its pitch moves by less than the best listeners hear (0.1 %). */
static void a_tone_stays_a_tone(const char *backend)
{
    int rate = 48000, n = 480;
    double seconds = SANITIZED ? 12 : 40;
    for (int i = 0; i < 2; i++) {
        struct cards s;
        cards_open(&s, rate, drifts[i], 256, 192, 0.0003);
        record(&s, seconds);
        cards_play(&s, seconds);
        struct async_resampler_status status = status_of(&s);
        check(status.restarts == 0 && status.runs, "%d restarts", (int)status.restarts);
        check(status.latency_s > 0.009 && status.latency_s < 0.02, "latency %g s", status.latency_s);
        double last = 0, most_ppm = 0, most_residue = 0;
        for (int64_t at = 4 * rate; at + n < s.n_output; at += n) {
            double amplitude, phase, residue;
            fit(s.output, at, n, s.tone_hz / rate, &amplitude, &phase, &residue);
            double moved = remainder(phase - last, 2 * PI) / (2 * PI * s.tone_hz * n / rate); /* of the pitch */
            check(fabs(amplitude - 0.5) < 1e-4, "amplitude %g at frame %ld", amplitude, (long)at);
            most_residue = fmax(most_residue, residue);
            if (at > 4 * rate) most_ppm = fmax(most_ppm, 1e6 * fabs(moved));
            last = phase;
        }
        check(most_ppm < 300, "the pitch is off by up to %g ppm", most_ppm);
        check(most_residue < 1e-3, "%g of the tone is something else", most_residue);
        cards_close(&s);
    }
}

/* The reported latency is true: the phase of a tone tells its age. */
static void the_reported_latency_is_true(const char *backend)
{
    struct cards s;
    double amplitude, phase, residue, seconds = SANITIZED ? 10 : 30;
    cards_open(&s, 48000, 50, 256, 192, 0.0001);
    s.tone_hz = 20; /* a cycle is longer than any latency here */
    record(&s, seconds);
    cards_play(&s, seconds);
    int n = 24000;
    int64_t at = s.n_output - n;
    fit(s.output, at, n, s.tone_hz / 48000, &amplitude, &phase, &residue);
    /* Input frame k was in the air at k / rate. Output frame k is asked for 0.0123 s and a block after k / rate. */
    double asked_s = 0.0123 + 192 / 48000.0;
    double age = fmod(asked_s - phase / (2 * PI * s.tone_hz) + 10 / s.tone_hz, 1 / s.tone_hz);
    check(fabs(age - status_of(&s).latency_s) < 0.0005, "the tone is %g s old, the latency is %g", age,
          status_of(&s).latency_s);
    cards_close(&s);
}

static void any_blocks_will_do(const char *backend)
{
    static const int blocks[][4] = {
        {64, 64, 1024, 1024}, {2048, 2048, 64, 64}, {1, 700, 30, 1500}, {480, 480, 441, 441}};
    for (int i = 0; i < 4; i++) {
        struct cards s;
        cards_open(&s, 24000, 80, blocks[i][1], blocks[i][3], 0.0005);
        s.in.least = blocks[i][0];
        s.out.least = blocks[i][2];
        s.from_s = 60;
        cards_play(&s, SANITIZED ? 70 : 120);
        check(status_of(&s).restarts == 0 && s.silent == 0 && status_of(&s).runs, "%d to %d: %d restarts", blocks[i][1],
              blocks[i][3], (int)status_of(&s).restarts);
        check(s.worst_ppm < 100, "%d to %d: off by up to %g ppm", blocks[i][1], blocks[i][3], s.worst_ppm);
        cards_close(&s);
    }
}

/* Input that arrives while the clocks are measured is not played later. */
static void the_first_output_is_new_input(const char *backend)
{
    struct cards s;
    cards_open(&s, 8000, 60, 64, 64, 0.0003);
    s.loud_s = 1.5;
    record(&s, 6);
    cards_play(&s, 5);
    float peak = 0;
    for (int64_t i = 0; i < s.n_output; i++) peak = fmaxf(peak, fabsf(s.output[i]));
    check(peak > 0.49f && peak < 0.6f, "peak %g", (double)peak);
    cards_close(&s);
}

/* A callback later than all before interrupts the sound once; then the latency allows for the next such one. */
static void a_late_callback_is_allowed_for_the_next_time(const char *backend)
{
    struct cards s;
    cards_open(&s, 8000, 60, 64, 64, 0.0003);
    cards_play(&s, 20);
    double before_s = status_of(&s).latency_s;
    for (int i = 0; i < 12; i++) {
        s.in.late_s = 0.015;
        cards_play(&s, 30 + 10 * i);
    }
    int restarts = (int)status_of(&s).restarts;
    check(restarts >= 1 && restarts < 10, "%d restarts", restarts);
    check(status_of(&s).latency_s > before_s + 0.005 && status_of(&s).latency_s < 0.06, "latency %g s, then %g",
          before_s, status_of(&s).latency_s);
    s.from_s = 140;
    cards_play(&s, 150);
    s.in.late_s = 0.015;
    cards_play(&s, 160);
    check((int)status_of(&s).restarts == restarts && s.silent == 0, "again it ran dry");
    cards_close(&s);
}

/* The program, or a card, stood still for a while: silence, and then it plays again. */
static void it_comes_back_after_a_gap(const char *backend)
{
    for (int who = 0; who < 3; who++) { /* input, output, both */
        struct cards s;
        cards_open(&s, 8000, -60, 64, 64, 0.0005);
        cards_play(&s, 20);
        check(status_of(&s).restarts == 0, "%d restarts", (int)status_of(&s).restarts);
        for (int k = 0; k < 2; k++) {
            struct card *card = k ? &s.out : &s.in;
            if (who != 2 && who != k) continue;
            card->due_s += 3;
            card->time_s += 3;
        }
        cards_play(&s, 40);
        check(status_of(&s).restarts >= 1 && status_of(&s).runs, "%d restarts, it %s", (int)status_of(&s).restarts,
              status_of(&s).runs ? "plays" : "is silent");
        s.from_s = 40;
        cards_play(&s, 60);
        check(s.silent == 0, "%d silent callbacks", (int)s.silent);
        cards_close(&s);
    }
}

int main(void)
{
    static const struct test tests[] = {
        TEST(a_clock_is_found_through_late_callbacks, false),
        TEST(for_hours_nothing_runs_dry_or_over, false),
        TEST(a_tone_stays_a_tone, false),
        TEST(the_reported_latency_is_true, false),
        TEST(any_blocks_will_do, false),
        TEST(the_first_output_is_new_input, false),
        TEST(a_late_callback_is_allowed_for_the_next_time, false),
        TEST(it_comes_back_after_a_gap, false),
    };
    return check_main("async_resampler", tests, sizeof tests / sizeof *tests);
}
