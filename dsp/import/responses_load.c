/* responses_load - loads masks from files of any kind, resamples them to the session's rate, and routes them by the channel
 * rule of haloconv_masks.h or as a configuration says. */
#include "arena.h"
#include "diagnostics.h"
#include "dsp/base/error.h"
#include "dsp/base/memory.h"
#include "dsp/masks/mask_file.h"
#include "dsp/masks/rate_pattern.h"
#include "import.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- the channel rule --------------------------------------------------------------------------- */

/* HeSuVi's files have 14 channels: responses of both ears to each of seven loudspeakers, mirrored for those on the
 * right. The inputs are those of WAV's 7.1: FL FR FC LFE BL BR SL SR; the LFE plays like the centre. Seven inputs lack
 * the LFE. */
enum { HESUVI_CHANNELS = 14, HESUVI_INPUTS = 8, HESUVI_LFE = 3 };
static const struct {
    int left, right; /* the file's channels for the ears */
} hesuvi[HESUVI_INPUTS] = {{0, 1}, {8, 7}, {6, 13}, {6, 13}, {4, 5}, {12, 11}, {2, 3}, {10, 9}};

static bool is_hesuvi(int n_mask, int n_in)
{
    return n_mask == HESUVI_CHANNELS && (n_in == 2 || (n_in >= 6 && n_in <= HESUVI_INPUTS));
}

static int refuse_channels(int n_mask, int n_in, const char *path, struct reason *why)
{
    char counts[64];
    if (n_in == 2)
        snprintf(counts, sizeof counts, "1, 2 or 4 (L>L L>R R>L R>R)");
    else
        snprintf(counts, sizeof counts, "1 or %d", n_in);
    return fail(HC_EINVAL, why, "%s: %d channels do not fit %d input channels; use a mask of %s channels", path, n_mask,
                n_in, counts);
}

static int routes_by_channel_rule(hc_responses *responses, int n_in, const char *path, struct reason *why)
{
    int n_mask = responses->n_channels;
    bool true_stereo = n_in == 2 && n_mask == 4, two_ears = is_hesuvi(n_mask, n_in);
    if (n_mask != 1 && n_mask != n_in && n_in != 1 && !true_stereo && !two_ears)
        return refuse_channels(n_mask, n_in, path, why);
    int n = two_ears ? 2 * n_in : n_mask > n_in ? n_mask : n_in;
    responses->routes = calloc((size_t)n, sizeof *responses->routes);
    if (!responses->routes)
        return fail(HC_ENOMEM, why, "%s: no memory for %d route%s; free some memory", path, n, PLURAL(n));
    responses->n_routes = n;
    responses->n_in = n_in;
    responses->n_out = true_stereo || two_ears ? 2 : n;
    for (int i = 0; i < n; i++) {
        int in = true_stereo || two_ears ? i / 2 : n_in == 1 ? 0 : i;
        int out = true_stereo || two_ears ? i % 2 : i;
        int from = in >= HESUVI_LFE && n_in == HESUVI_INPUTS - 1 ? in + 1 : in; /* the loudspeaker */
        int channel = n_mask == 1 ? 0 : !two_ears ? i : out == 0 ? hesuvi[from].left : hesuvi[from].right;
        responses->routes[i] = (hc_route){
            .in = in, .out = out, .taps = responses->channel[channel], .n_taps = responses->n_frames, .gain = 1.0f};
    }
    return HC_OK;
}

/* ---- diagnostics -------------------------------------------------------------------------------- */

/* Adds a warning about the file. */
static int warn(hc_responses *responses, const char *path, const char *text, struct reason *why)
{
    if (!responses->memory) responses->memory = arena_make();
    struct arena *arena = responses->memory;
    struct diagnostics all = {
        path, arena, responses->diagnostics, responses->n_diagnostics, responses->n_errors, responses->n_warnings};
    if (arena) diagnostic(&all, HC_OK, 0, NULL, "%s", text);
    if (!arena || arena->is_short) return fail(HC_ENOMEM, why, "%s: no memory for a warning; free some memory", path);
    responses->diagnostics = all.kept;
    responses->n_diagnostics = all.n_kept;
    responses->n_warnings = all.n_warnings;
    return HC_OK;
}

static int warn_other_rate(hc_responses *responses, const char *path, const struct rated_file *file, struct reason *why)
{
    char text[DIAGNOSTIC_CAP];
    bool is_configuration = import_is_configuration(file->path);
    snprintf(text, sizeof text, "%.400s is missing; %.400s is used%s", file->missing, file->path,
             is_configuration ? ", and its delays are not resampled" : "");
    return warn(responses, path, text, why);
}

/* ---- the calls ---------------------------------------------------------------------------------- */

static int load_file(const struct rated_file *from, int rate, unsigned flags, hc_responses *responses,
                     struct reason *why)
{
    struct mask_file file;
    const char *path = from->path;
    struct mask_limits limits = {
        .frames = MASK_MAX_TAPS, .bytes = memory_limit(), .rate = flags & HC_KEEP_RATE ? 0 : rate};
    int error = mask_file_read(&file, path, &limits, why);
    if (error) return error;
    if (*file.note) error = warn(responses, path, file.note, why);
    if (file.rate == 0) file.rate = from->rate; /* a text has the rate in its name */
    responses->file_rate = file.rate;
    bool keep = file.rate == 0 || limits.rate == 0 || limits.rate == file.rate;
    if (!error && !keep) error = mask_file_resample(&file, rate, path, why);
    responses->rate = file.rate;
    responses->start = file.start;
    responses->n_channels = file.n_channels;
    responses->n_frames = file.n_frames;
    responses->channel = file.channel; /* hc_responses_free frees them */
    return error;
}

int hc_responses_load(const char *path, int n_in, int rate, unsigned flags, hc_responses *responses, char *why,
                      size_t cap)
{
    if (!path || !responses)
        return fail(HC_EINVAL, REASON(why, cap), "hc_responses_load: path or responses is NULL; pass both");
    *responses = (hc_responses){0};
    if (n_in < 0 || n_in > MASK_MAX_CHANNELS)
        return fail(HC_EINVAL, REASON(why, cap), "%s: n_in is %d; give 0 to %d", path, n_in, MASK_MAX_CHANNELS);
    if (rate < 0)
        return fail(HC_EINVAL, REASON(why, cap), "%s: the rate is %d Hz; give a positive rate, or 0 to keep the file's",
                    path, rate);
    struct rated_file file;
    int error = rate_pattern_find(path, rate, &file, REASON(why, cap));
    if (error) return error;
    bool is_configuration = import_is_configuration(file.path);
    if (!is_configuration && flags & HC_NAMES_ONLY) return HC_OK;
    error = is_configuration ? import_responses(file.path, n_in, rate, flags, responses, REASON(why, cap))
                             : load_file(&file, rate, flags, responses, REASON(why, cap));
    if (!error && responses->channel && n_in > 0)
        error = routes_by_channel_rule(responses, n_in, path, REASON(why, cap));
    if (!error && file.missing[0]) error = warn_other_rate(responses, path, &file, REASON(why, cap));
    if (error && !is_configuration) hc_responses_free(responses);
    return error;
}

int hc_responses_find(const char *path, int rate, char *found, size_t found_cap, char *why, size_t cap)
{
    struct rated_file file;
    if (!path || !found || rate < 0)
        return fail(HC_EINVAL, REASON(why, cap),
                    "hc_responses_find: path or found is NULL, or rate is below 0; pass both, and a rate of 0 or more");
    int error = rate_pattern_find(path, rate, &file, REASON(why, cap));
    if (error) return error;
    if ((size_t)snprintf(found, found_cap, "%s", file.path) < found_cap) return HC_OK;
    return fail(HC_EINVAL, REASON(why, cap), "%s: has more than %zu bytes; give a larger found_cap", file.path,
                found_cap);
}

int hc_responses_route(hc_responses *responses, const char *path, int n_in, char *why, size_t cap)
{
    if (!responses)
        return fail(HC_EINVAL, REASON(why, cap), "hc_responses_route: responses is NULL; pass a loaded mask");
    if (!path) path = "the mask";
    if (n_in < 1 || n_in > MASK_MAX_CHANNELS)
        return fail(HC_EINVAL, REASON(why, cap), "%s: n_in is %d; give 1 to %d", path, n_in, MASK_MAX_CHANNELS);
    if (responses->n_routes == 0 && responses->channel)
        return routes_by_channel_rule(responses, n_in, path, REASON(why, cap));
    return responses->n_in == n_in
               ? HC_OK
               : fail(HC_EINVAL, REASON(why, cap), "%s: is for %d input%s, not %d; use another mask", path,
                      responses->n_in, PLURAL(responses->n_in), n_in);
}

const char *hc_responses_file(const hc_responses *responses, int i)
{
    const struct arena *arena = responses ? responses->memory : NULL;
    return arena && i >= 0 && (size_t)i < arena->n_files ? arena->files[i] : NULL;
}

void hc_responses_free(hc_responses *responses)
{
    if (!responses) return;
    if (responses->channel) { /* not a configuration: its routes are in the arena */
        free(responses->channel[0]);
        free(responses->channel);
        free(responses->routes);
    }
    arena_free(responses->memory);
    *responses = (hc_responses){0};
}
