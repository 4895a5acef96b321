#include "mask_cut.h"

#include "host/acoustics/acoustics.h"
#include "host/files/output_range.h"
#include "host/message.h"

#include <math.h>
#include <string.h>

/* Keeps n_frames from frame `first` on, and fades the last n_fade of them. */
static void keep_frames(hc_responses *mask, int first, int n_frames, int n_fade)
{
    for (int ch = 0; ch < mask->n_channels; ch++) {
        float *taps = mask->channel[ch];
        memmove(taps, taps + first, (size_t)n_frames * sizeof *taps);
        for (int i = 0; i < n_fade; i++) taps[n_frames - 1 - i] *= (float)(0.5 - 0.5 * cos(M_PI * (i + 0.5) / n_fade));
    }
    mask->n_frames = n_frames;
    for (int i = 0; i < mask->n_routes; i++) mask->routes[i].n_taps = n_frames;
}

bool mask_cut(struct cached_mask *mask)
{
    hc_responses *responses = &mask->responses;
    const struct mask_key *key = &mask->key;
    mask->n_frames = routes_taps(responses->routes, responses->n_routes);
    if (!key->align && isinf(key->early_ms)) return true;
    if (responses->n_channels == 0)
        return message_write(mask->why, sizeof mask->why,
                             "%s: is a configuration; align and early need a sound file or a text", key->path);
    mask->onset = acoustics_start(responses->channel, responses->n_channels, responses->n_frames);
    int first = key->align ? mask->onset : 0, n_fade = 0;
    int left = mask->n_frames = responses->n_frames - first;
    double early = fmax(round(key->early_ms * key->rate / 1000), 1); /* frames, may be infinite */
    if (mask->onset - first + early < left) {
        left = mask->onset - first + (int)early;
        n_fade = EARLY_FADE_MS * key->rate / 1000;
        if (n_fade > early / 2) n_fade = (int)early / 2;
    }
    keep_frames(responses, first, left, n_fade);
    return true;
}
