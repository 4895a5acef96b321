#include "live_mask.h"

#include "messages.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_DIAGNOSTICS = 10 }; /* config.say gets at most so many diagnostics of a configuration */

/* Reports the diagnostics and the rate of a mask. The notes of a bank report the bank's rate. */
static void report_diagnostics(const hc_live_config *c, const char *path, const hc_responses *responses, int rate)
{
    bool is_bank = responses->n_channels > 0 && c->n_sources > 0;
    if (!is_bank && responses->file_rate && responses->rate != responses->file_rate)
        live_report(c, HC_LIVE_NOTE, "%s: resampled from %d to %d Hz", path, responses->file_rate, responses->rate);
    if (!is_bank && responses->rate && responses->rate != rate)
        live_report(c, HC_LIVE_NOTE, "%s: its samples at %d Hz are played at %d Hz", path, responses->rate, rate);
    for (int i = 0, n = 0; i < responses->n_diagnostics && n < MAX_DIAGNOSTICS; i++) {
        if (responses->diagnostics[i].code == HC_NOTE) continue;
        live_report(c, HC_LIVE_WARNING, "%s", responses->diagnostics[i].text);
        n++;
    }
    if (responses->n_warnings > MAX_DIAGNOSTICS)
        live_report(c, HC_LIVE_WARNING, "%s: has more warnings; see `haloconv check`", path);
}

/* Routes a single response on a single input to every output. */
static int mask_spread(hc_responses *responses, int n_out, const char *path, struct reason *why)
{
    hc_route *routes = realloc(responses->routes, (size_t)n_out * sizeof *routes);
    if (!routes)
        return fail(HC_ENOMEM, why, "%s: no memory for %d route%s; free some memory", path, n_out, PLURAL(n_out));
    responses->routes = routes;
    for (int o = 1; o < n_out; o++) {
        routes[o] = routes[0];
        routes[o].out = o;
    }
    responses->n_routes = responses->n_out = n_out;
    return HC_OK;
}

void live_mask_free(struct live_mask *mask)
{
    hc_responses_free(&mask->responses);
    bank_set_release(mask->banks);
    *mask = (struct live_mask){0};
}

int live_mask_longest(const struct live_mask *mask)
{
    int n = mask->responses.n_frames;
    return mask->banks && mask->banks->n_taps > n ? mask->banks->n_taps : n;
}

/* Checks that a mask fits the channels. */
static int mask_fit(const hc_live_config *c, const char *path, struct live_mask *mask, struct reason *why)
{
    hc_responses *responses = &mask->responses;
    int n_in = c->n_in, n_out = c->n_out, error = HC_OK;
    if (c->left_of_stereo && n_in == 1 && n_out == 1 && responses->n_channels == 2) {
        responses->n_routes = responses->n_out = 1; /* keep the first channel only */
        live_report(c, HC_LIVE_WARNING,
                    "%s: is stereo, and only its left channel plays; use a mono mask to hear the right one", path);
    }
    if (responses->n_in > n_in || responses->n_out > n_out)
        error = fail(
            HC_EINVAL, why,
            "%s: has %d input%s and %d output%s, but this session has %d and %d; use a mask with at most as many", path,
            responses->n_in, PLURAL(responses->n_in), responses->n_out, PLURAL(responses->n_out), n_in, n_out);
    else if (responses->n_sources > 0 && !mask->banks)
        error = fail(HC_EINVAL, why, "%s: has %d source%s, but this session has none; open it with n_sources", path,
                     responses->n_sources, PLURAL(responses->n_sources));
    else if (responses->n_routes == 0 && !mask->banks)
        error = fail(HC_EINVAL, why, "%s: connects nothing; give it a route", path);
    else if (responses->n_channels == 1 && n_in == 1 && n_out > 1)
        error = mask_spread(responses, n_out, path, why);
    return error;
}

static double live_mask_level_of(const hc_route *route, int tap)
{
    return fabs((double)route->gain * (double)route->taps[tap]);
}

/* Cuts all responses behind the last frame of any response that is within trim_db of the peak. */
static void mask_trim(hc_responses *responses, float trim_db)
{
    if (isinf(trim_db) || responses->n_routes == 0) return;
    const hc_route *first = responses->routes, *behind = first + responses->n_routes;
    double peak = 0;
    int end = 0;
    for (const hc_route *r = first; r < behind; r++)
        for (int i = 0; i < r->n_taps; i++) { /* not fmax: gcc 12 for 64-bit ARM ends in its vectorizer */
            double level = live_mask_level_of(r, i);
            if (level > peak) peak = level;
        }
    double min = peak * pow(10, -(double)trim_db / 20);
    for (const hc_route *r = first; r < behind; r++) {
        int last = r->n_taps - 1;
        while (last >= 0 && r->delay + last >= end && live_mask_level_of(r, last) < min) last--;
        if (r->delay + last >= end) end = r->delay + last + 1;
    }
    responses->n_frames = 0;
    for (hc_route *r = responses->routes; r < behind; r++) {
        if (r->delay >= end) r->gain = 0, r->delay = 0, r->n_taps = 1; /* a route has one tap or more */
        if (r->n_taps > end - r->delay) r->n_taps = end - r->delay;
        if (r->n_taps + r->delay > responses->n_frames) responses->n_frames = r->n_taps + r->delay;
    }
}

/* Prints each line of the notes about a bank. */
static void report_notes(const hc_live_config *c, const char *path, const char *notes)
{
    while (notes && *notes) {
        int length = (int)strcspn(notes, "\n");
        if (length > 0) live_report(c, HC_LIVE_NOTE, "%s: %.*s", path, length, notes);
        notes += length + (notes[length] == '\n');
    }
}

/* Loads the banks that a configuration names, or a bank file. A sound file can be a bank, too. */
static int sources_load(const hc_live_config *c, const char *path, int rate, struct live_mask *mask, struct reason *why)
{
    if (mask->responses.n_channels > 0) hc_responses_free(&mask->responses);
    bool is_bank = hc_bank_is_file(path) || !mask->responses.memory;
    const hc_responses *responses = is_bank ? NULL : &mask->responses;
    int error = bank_set_load(c, path, rate, responses, &mask->banks, why);
    for (int i = 0; !error && i < mask->banks->n_banks; i++)
        report_notes(c, is_bank ? path : responses->banks[i], mask->banks->banks[i].notes);
    return error;
}

static int responses_load(const hc_live_config *c, const char *path, int rate, struct live_mask *mask,
                          struct reason *why)
{
    hc_responses *responses = &mask->responses;
    unsigned flags = (c->keep_rate ? HC_KEEP_RATE : 0) | (c->n_sources > 0 ? HC_WITH_SOURCES : 0);
    int error = hc_responses_load(path, 0, rate, flags, responses, REASON_TEXT(why));
    bool has_routes = responses->n_channels == 0; /* a configuration, with its own channel counts */
    if (!error && !has_routes && c->n_sources == 0)
        error = hc_responses_route(responses, path, c->n_in, REASON_TEXT(why));
    if (!error) report_diagnostics(c, path, responses, rate);
    return error;
}

int live_mask_load(const hc_live_config *c, const char *path, int rate, float trim_db, struct live_mask *mask,
                   struct reason *why)
{
    bool plays_banks = c->n_sources > 0;
    int error = plays_banks && hc_bank_is_file(path) ? HC_OK : responses_load(c, path, rate, mask, why);
    if (!error && plays_banks) error = sources_load(c, path, rate, mask, why);
    if (!error) error = mask_fit(c, path, mask, why);
    if (error)
        live_mask_free(mask);
    else
        mask_trim(&mask->responses, trim_db);
    return error;
}

int live_mask_adopt(const hc_live_config *c, const char *path, int rate, float trim_db, hc_responses *responses,
                    struct live_mask *mask, struct reason *why)
{
    *mask = (struct live_mask){.responses = *responses};
    *responses = (hc_responses){0};
    report_diagnostics(c, path, &mask->responses, rate);
    int error = c->n_sources > 0 ? sources_load(c, path, rate, mask, why) : HC_OK;
    if (!error) error = mask_fit(c, path, mask, why);
    if (error)
        live_mask_free(mask);
    else
        mask_trim(&mask->responses, trim_db);
    return error;
}

struct file_id file_identify(const char *path, int rate)
{
    char found[TEXT_CAP + 16];
    struct stat s;
    if (hc_responses_find(path, rate, found, sizeof found, NULL, 0) != HC_OK || stat(found, &s) != 0)
        return (struct file_id){0};
    return (struct file_id){{(int64_t)s.st_dev, (int64_t)s.st_ino, (int64_t)s.st_size,
                             (int64_t)s.st_mtim.tv_sec * 1000000000 + s.st_mtim.tv_nsec}};
}

bool live_mask_is_another_file(const char *path, int rate, int rate_before)
{
    char now[TEXT_CAP], before[TEXT_CAP];
    return hc_responses_find(path, rate, now, sizeof now, NULL, 0) == HC_OK &&
           hc_responses_find(path, rate_before, before, sizeof before, NULL, 0) == HC_OK && strcmp(now, before) != 0;
}
