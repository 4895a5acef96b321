#include "correction_report.h"

#include "host/json_print.h"
#include "host/masks/headroom.h"
#include "host/message.h"

#include <math.h>

static const char *const phase_names[] = {"minimum", "linear", "mixed"};

static void print_corrected_channel(const struct correction_channel *c, int ch, const char *path)
{
    static const char *const falls[2][2] = {{"", " (the response falls above)"},
                                            {" (the response falls below)", " (the response falls below and above)"}};
    message_note("%s: channel %d: corrected from %.0f to %.0f Hz%s, boost up to %s, cut up to %s", path, ch + 1,
                 c->low_hz, c->high_hz, falls[c->low_is_found][c->high_is_found], message_db(c->boost_db, 1, "dB").text,
                 message_db(c->cut_db, 1, "dB").text);
    message_note("%s: channel %d: differs from the target by at most %.1f dB, %.2f dB RMS; before by %.1f and %.2f dB",
                 path, ch + 1, c->after.max_db, c->after.rms_db, c->before.max_db, c->before.rms_db);
}

/* Levels and arrivals, relative to the first channel. */
static void print_differences(const struct correction *c, const struct correction_settings *s, const char *path)
{
    if (c->n_channels > 1 && c->shared_hz[1] > 0)
        message_note("%s: levels from %.0f to %.0f Hz, and arrivals of the direct sounds, relative to channel 1:", path,
                     c->shared_hz[0], c->shared_hz[1]);
    else if (c->n_channels > 1)
        message_note(
            "%s: the channels share no octave, so their levels are not compared; arrivals relative to channel 1:",
            path);
    for (int ch = 1; ch < c->n_channels; ch++) {
        const struct correction_channel *channel = &c->channel[ch];
        double before_ms = 1e3 * channel->arrival_s;
        double after_ms = before_ms + 1e3 * (channel->delay_frames - c->channel[0].delay_frames) / s->rate;
        if (c->shared_hz[1] > 0)
            message_note("%s: channel %d: %s, %s; behind the filters %s, %s", path, ch + 1,
                         message_gain(channel->level_db, 2).text, message_signed(before_ms, 3, "ms").text,
                         message_gain(channel->level_after_db, 2).text, message_signed(after_ms, 3, "ms").text);
        else
            message_note("%s: channel %d: %s; behind the filters %s", path, ch + 1,
                         message_signed(before_ms, 3, "ms").text, message_signed(after_ms, 3, "ms").text);
    }
}

void correction_print(const struct correction *c, const struct correction_settings *s, const char *path)
{
    char aligned[64] = "";
    int latest = 0;
    for (int ch = 0; ch < c->n_channels; ch++)
        if (c->channel[ch].delay_frames > latest) latest = c->channel[ch].delay_frames;
    if (latest) snprintf(aligned, sizeof aligned, "; --delays align adds up to %d frame%s", latest, message_s(latest));
    message_note("%s: %d channel%s, %d taps at %d Hz, %s phase, delay %.10g frames (%.2f ms)%s", path, c->n_channels,
                 message_s(c->n_channels), c->n_frames, s->rate, phase_names[s->phase], c->delay,
                 1e3 * c->delay / s->rate, aligned);
    int gain_db = headroom_gain_db(pow(10, c->largest_gain_db / 20));
    for (int ch = 0; ch < c->n_channels; ch++) print_corrected_channel(&c->channel[ch], ch, path);
    print_differences(c, s, path);
    if (s->normalise)
        message_note("%s: scaled by %s; the largest gain is 0 dB", path, message_gain(-c->largest_gain_db, 2).text);
    else if (gain_db < 0)
        message_note("%s: the largest gain is %+.2f dB; use --gain %d, or --normalise", path, c->largest_gain_db,
                     gain_db);
}

static json_t *deviation_json(const struct correction_deviation *d)
{
    return json_pack("{s:o, s:o}", "max_db", json_number(d->max_db), "rms_db", json_number(d->rms_db));
}

static json_t *corrected_channel_json(const struct correction_channel *c)
{
    return json_pack("{s:[f, f], s:[b, b], s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:i}", "band_hz", c->low_hz,
                     c->high_hz, "limit_found", (int)c->low_is_found, (int)c->high_is_found, "before",
                     deviation_json(&c->before), "after", deviation_json(&c->after), "boost_db",
                     json_number(c->boost_db), "cut_db", json_number(c->cut_db), "largest_gain_db",
                     json_number(c->largest_gain_db), "level_db", json_number(c->level_db), "level_after_db",
                     json_number(c->level_after_db), "gain_db", json_number(c->gain_db), "arrival_s",
                     json_number(c->arrival_s), "delay_frames", c->delay_frames);
}

json_t *correction_json(const struct correction *c, const struct correction_settings *s)
{
    json_t *channels = json_array();
    for (int ch = 0; ch < c->n_channels; ch++) json_array_append_new(channels, corrected_channel_json(&c->channel[ch]));
    json_t *shared = c->shared_hz[1] > 0 ? json_pack("[f, f]", c->shared_hz[0], c->shared_hz[1]) : json_null();
    return json_pack("{s:s, s:i, s:i, s:f, s:f, s:b, s:o, s:o, s:o}", "phase", phase_names[s->phase], "rate", s->rate,
                     "taps", c->n_frames, "delay", c->delay, "largest_gain_db", c->largest_gain_db, "normalised",
                     (int)s->normalise, "calibration", calibration_json(&s->calibration), "shared_band_hz", shared,
                     "channels", channels);
}
