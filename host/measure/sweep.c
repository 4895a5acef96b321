#include "sweep.h"

#include "host/message.h"

#include <math.h>
#include <stdio.h>

static double start_hz(const struct sweep *s)
{
    return s->from_hz / 2;
}

static double end_hz(const struct sweep *s)
{
    return 1.1 * s->to_hz;
}

bool sweep_complete(struct sweep *s, int rate, char *why, size_t cap)
{
    const double min_periods = 4;                   /* periods of the lowest frequency: the first period fades in */
    const double max_s = fmin(3600, 0x1p30 / rate); /* frames of a take are ints */
    if (!(s->to_hz > 0)) s->to_hz = fmin(20000, floor(0.45 * rate));
    if (!(s->from_hz * 4 <= s->to_hz))
        return message_write(why, cap, "--from %g --to %g: are less than two octaves apart; widen the band", s->from_hz,
                             s->to_hz);
    if (!(end_hz(s) < 0.5 * rate))
        return message_write(why, cap, "--to %g: a rate of %d Hz holds a sweep up to %.0f Hz; use --to %.0f", s->to_hz,
                             rate, 0.5 * rate / 1.1, floor(0.5 * (rate - 1) / 1.1));
    if (!(s->length_s * start_hz(s) >= min_periods))
        return message_write(why, cap, "--length %g: is too short for --from %g; use %g", s->length_s, s->from_hz,
                             ceil(10 * min_periods / start_hz(s)) / 10);
    if (!(s->n_outputs * sweep_take_s(s) <= max_s))
        return message_write(why, cap,
                             "the sweeps of %d output%s last %.0f s, and at most %.0f s are possible; use a shorter "
                             "--length or fewer --averages",
                             s->n_outputs, message_s(s->n_outputs), s->n_outputs * sweep_take_s(s), floor(max_s));
    return true;
}

double sweep_lead_s(void)
{
    return 1;
}

double sweep_section_s(const struct sweep *s)
{
    return s->length_s + s->silence_s;
}

double sweep_take_s(const struct sweep *s)
{
    return sweep_start_s(s, s->averages);
}

double sweep_start_s(const struct sweep *s, int section)
{
    return sweep_lead_s() + section * sweep_section_s(s);
}

double sweep_growth_s(const struct sweep *s)
{
    return s->length_s / log(end_hz(s) / start_hz(s));
}

double sweep_value(const struct sweep *s, double t)
{
    if (!(t > 0 && t < s->length_s)) return 0;
    double l = sweep_growth_s(s), fade_in = 1 / start_hz(s), fade_out = l * log(end_hz(s) / s->to_hz);
    double left = s->length_s - t, gain = s->level;
    if (t < fade_in) gain *= 0.5 - 0.5 * cos(M_PI * t / fade_in);
    if (left < fade_out) gain *= 0.5 - 0.5 * cos(M_PI * left / fade_out);
    return gain * sin(2 * M_PI * fmod(start_hz(s) * l * exp(t / l), 1));
}

void sweep_fill(const struct sweep *s, int rate, int64_t first, float *play, int n)
{
    for (int i = 0; i < n; i++) {
        double t = (double)(first + i) / rate - sweep_lead_s();
        int section = (int)floor(t / sweep_section_s(s));
        bool is_inside = section >= 0 && section < s->averages;
        play[i] = is_inside ? (float)sweep_value(s, t - section * sweep_section_s(s)) : 0;
    }
}

static const char form[] =
    "haloconv sweep: outputs %d averages %d from %.17g to %.17g length %.17g silence %.17g level %.17g";

void sweep_describe(const struct sweep *s, char *text, size_t cap)
{
    snprintf(text, cap, form, s->n_outputs, s->averages, s->from_hz, s->to_hz, s->length_s, s->silence_s, s->level);
}

bool sweep_parse(const char *text, struct sweep *s)
{
    if (!text ||
        sscanf(text, "haloconv sweep: outputs %d averages %d from %lg to %lg length %lg silence %lg level %lg",
               &s->n_outputs, &s->averages, &s->from_hz, &s->to_hz, &s->length_s, &s->silence_s, &s->level) != 7)
        return false;
    return s->n_outputs >= 1 && s->n_outputs <= SWEEP_MAX_OUTPUTS && s->averages >= 1 && s->averages <= 100 &&
           s->from_hz >= 0.1 && s->to_hz >= 1 && s->to_hz <= 1e6 && s->length_s > 0 && s->length_s <= 300 &&
           s->silence_s > 0 && s->silence_s <= 60 && s->level > 0 && s->level <= 1;
}
