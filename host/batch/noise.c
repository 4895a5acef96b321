#include "noise.h"

#include "draw.h"
#include "host/files/level_match.h"
#include "host/message.h"

#include <math.h>

bool noise_open(struct batch_noise *noise, struct cache *masks, const char *path, int rate, int n_channels, char *why,
                size_t cap)
{
    const struct batch_mask_key key = {.rate = rate, .early_ms = INFINITY};
    noise->file = cache_get(masks, path, &key, why, cap);
    noise->n_channels = n_channels;
    if (!noise->file) return false;
    int n_noise = noise->file->responses.n_channels;
    if (n_noise == 0) return message_write(why, cap, "%s: is a configuration; give a noise as a sound file", path);
    if (n_noise == 1 || n_noise == n_channels) return true;
    return message_write(why, cap,
                         "%s: a noise of %d channels does not fit %d output channels; give a noise of 1 or %d channels",
                         path, n_noise, n_channels, n_channels);
}

/* Finds the frames until the noise repeats: *at = their first frame in the noise. Returns their number, at most n. */
static int64_t run_at(const struct batch_noise *noise, int64_t first, int64_t n, int64_t *at)
{
    int64_t n_noise = noise->file->responses.n_frames;
    *at = (noise->start + first) % n_noise;
    return n_noise - *at < n ? n_noise - *at : n;
}

bool noise_fit(struct batch_noise *noise, const struct manifest_row *row, int64_t n_frames, double power, char *why,
               size_t cap)
{
    const hc_responses *file = &noise->file->responses;
    int64_t starts = file->n_frames > n_frames ? file->n_frames - n_frames + 1 : file->n_frames, run, at;
    struct level_meter meter = {0};
    noise->start = (int64_t)(draw_number(row->seed, DRAW_NOISE_START) % (uint64_t)starts);
    for (int64_t done = 0; done < n_frames; done += run) {
        run = run_at(noise, done, n_frames - done, &at);
        for (int ch = 0; ch < file->n_channels; ch++) level_meter_add(&meter, file->channel[ch] + at, run);
    }
    if (!(power > 0))
        return message_write(why, cap, "%s: is silent after the convolution, and has no SNR; leave its noise out",
                             row->input);
    if (!(meter.sum > 0))
        return message_write(why, cap, "%s: is silent for %.3g s from %.6g s on; choose another noise or seed",
                             row->noise, (double)n_frames / noise->file->key.rate,
                             (double)noise->start / noise->file->key.rate);
    noise->gain = sqrt(power / (meter.sum / (double)meter.n)) * pow(10, -row->snr_db / 20);
    return true;
}

void noise_add(const struct batch_noise *noise, int64_t first, float *planar, int64_t stride, int64_t n)
{
    const hc_responses *file = &noise->file->responses;
    const float gain = (float)noise->gain;
    int64_t run, at;
    for (int64_t done = 0; done < n; done += run) {
        run = run_at(noise, first + done, n - done, &at);
        for (int ch = 0; ch < noise->n_channels; ch++) {
            const float *from = file->channel[file->n_channels > 1 ? ch : 0] + at;
            float *to = planar + ch * stride + done;
            for (int64_t i = 0; i < run; i++) to[i] += gain * from[i];
        }
    }
}

void noise_close(struct batch_noise *noise, struct cache *masks)
{
    if (noise->file) cache_release(masks, &noise->file->entry);
    *noise = (struct batch_noise){0};
}
