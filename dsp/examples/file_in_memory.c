/* file_in_memory - convolves a sound that is in memory with a stereo response, to the end of its tail.
 *
 *   cc file_in_memory.c $(pkg-config --cflags --libs haloconv) -lm -o file_in_memory
 *   ./file_in_memory [OUTPUT]        OUTPUT gets the raw floats: the left channel, then the right one
 *
 * An engine for files has no deadline. On a GPU several blocks are in the queue at once, so that the copy of one block
 * overlaps the convolution of another; the CPU computes one at a time. The same loop serves both.
 */
#include <haloconv.h>
#include <haloconv_files.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { CHANNELS = 2, FRAMES = 600000, TAPS = 24000, TOTAL = FRAMES + TAPS - 1 }; /* input, response, whole output */

int main(int argc, char **argv)
{
    static float x[CHANNELS][TOTAL], y[CHANNELS][TOTAL], h[CHANNELS][TAPS]; /* x is 0 after FRAMES: the tail's input */
    for (int ch = 0; ch < CHANNELS; ch++) {
        for (int i = 0; i < FRAMES; i++) x[ch][i] = (float)(i % 4800 * (37 + ch) % 101) / 50.5f - 1.0f;
        for (int k = 0; k < TAPS; k++) h[ch][k] = (float)(0.02 * sin(0.0622 * (ch + 1) * k) * exp(-6.9 * k / TAPS));
    }

    char why[256]; /* a call that fails writes one line here */
    hc_config config;
    hc_engine *engine;
    hc_config_init(&config); /* the defaults; then what differs from them */
    config.n_in = config.n_out = CHANNELS;
    config.max_taps = TAPS;
    config.block = HC_BLOCK_FILES; /* the engine chooses the size of a block */
    config.n_frames = TOTAL;
    if (hc_open(&config, &engine, why, sizeof why) != HC_OK) return fprintf(stderr, "hc_open: %s\n", why), 1;
    hc_info info = {.size = sizeof info};
    hc_get_info(engine, &info);

    /* The left channel through h[0], the right one through h[1], each at gain 1 and without delay. The engine copies
     * the taps: they may change or be freed after hc_mask_make. */
    hc_route routes[CHANNELS] = {{.in = 0, .out = 0, .taps = h[0], .n_taps = TAPS, .gain = 1},
                                 {.in = 1, .out = 1, .taps = h[1], .n_taps = TAPS, .gain = 1}};
    hc_mask *mask;
    if (hc_mask_make(engine, routes, sizeof *routes, CHANNELS, &mask, why, sizeof why) != HC_OK)
        return fprintf(stderr, "hc_mask_make: %s\n", why), 1;
    hc_mask_swap(engine, mask); /* nothing has been played yet: the mask plays from the first frame on */

    /* Fill the queue, then collect the oldest block, and so on. */
    int queued = 0;
    for (int sent = 0, collected = 0; collected < TOTAL;) {
        while (sent < TOTAL && queued < info.queue_depth) {
            int n = TOTAL - sent < info.block ? TOTAL - sent : info.block;
            const float *in[CHANNELS] = {x[0] + sent, x[1] + sent};
            if (hc_submit(engine, in, n) != HC_OK) return fprintf(stderr, "hc_submit failed\n"), 1;
            sent += n;
            queued++;
        }
        float *out[CHANNELS] = {y[0] + collected, y[1] + collected};
        int n = hc_collect(engine, out); /* waits for the oldest block; its frames, or a negative error */
        if (n < 0) return fprintf(stderr, "hc_collect: %s\n", hc_strerror(n)), 1;
        collected += n;
        queued--;
    }
    printf("%d frames in, %d frames out, %s, block %d, queue depth %d\n", FRAMES, TOTAL, info.device, info.block,
           info.queue_depth);
    hc_close(engine); /* frees the mask too */

    FILE *file = argc > 1 ? fopen(argv[1], "wb") : NULL;
    if (argc > 1 && (!file || fwrite(y, sizeof y, 1, file) != 1 || fclose(file) != 0)) return perror(argv[1]), 1;
    return 0;
}
