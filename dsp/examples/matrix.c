/* matrix - four inputs, four outputs, a response on each of the 16 pairs; twelve of the pairs share one response.
 *
 *   cc matrix.c $(pkg-config --cflags --libs haloconv) -lm -o matrix
 *   ./matrix [OUTPUT]        OUTPUT gets the raw floats, one output channel after the other
 *
 *                in 0     in 1     in 2     in 3
 *      out 0     own 0    cross    cross    cross       own: its own response, gain 1
 *      out 1     cross    own 1    cross    cross       cross: one response for all, 20 dB softer, 48 frames later
 *      out 2     cross    cross    own 2    cross
 *      out 3     cross    cross    cross    own 3
 *
 * Routes with the same taps pointer, length, gain and delay share one spectrum in the engine: this matrix needs the
 * memory of 5 responses, not of 16.
 */
#include <haloconv.h>

#include <math.h>
#include <stdio.h>

enum { N = 4, BLOCK = 128, FRAMES = 200 * BLOCK, TAPS = 6000, DELAY = 48 };

int main(int argc, char **argv)
{
    static float x[N][FRAMES], y[N][FRAMES], own[N][TAPS], cross[TAPS];
    for (int ch = 0; ch < N; ch++) {
        for (int i = 0; i < FRAMES; i++) x[ch][i] = (float)(i % 4800 * (37 + ch) % 101) / 50.5f - 1.0f;
        for (int k = 0; k < TAPS; k++) own[ch][k] = (float)(0.02 * sin(0.1 * (ch + 1) * k) * exp(-6.9 * k / TAPS));
    }
    for (int k = 0; k < TAPS; k++) cross[k] = (float)(0.02 * cos(0.05 * k) * exp(-6.9 * k / TAPS));

    hc_route routes[N * N];
    int n_routes = 0;
    for (int out = 0; out < N; out++)
        for (int in = 0; in < N; in++)
            routes[n_routes++] =
                in == out ? (hc_route){in, out, own[in], TAPS, 1.0f, 0} : (hc_route){in, out, cross, TAPS, 0.1f, DELAY};

    char why[256];
    hc_config config;
    hc_engine *engine;
    hc_mask *mask;
    hc_config_init(&config);
    config.n_in = config.n_out = N;
    config.block = BLOCK;
    config.max_taps = TAPS + DELAY;   /* the delay counts as taps */
    config.n_routes = n_routes;       /* a hint: the cost of a full matrix differs from that of four channels */
    config.wait_us = HC_WAIT_FOREVER; /* not live: each block is complete, on a GPU too */
    if (hc_open(&config, &engine, why, sizeof why) != HC_OK) return fprintf(stderr, "hc_open: %s\n", why), 1;
    if (hc_mask_make(engine, routes, sizeof *routes, n_routes, &mask, why, sizeof why) != HC_OK)
        return fprintf(stderr, "hc_mask_make: %s\n", why), 1;
    hc_mask_swap(engine, mask);

    for (int at = 0; at < FRAMES; at += BLOCK) {
        const float *in[N];
        float *out[N];
        for (int ch = 0; ch < N; ch++) in[ch] = x[ch] + at, out[ch] = y[ch] + at;
        int code = hc_process(engine, in, out, BLOCK);
        if (code != HC_OK) return fprintf(stderr, "hc_process: %s\n", hc_strerror(code)), 1;
    }

    hc_info info = {.size = sizeof info};
    hc_get_info(engine, &info);
    printf("%d routes, %d frames on %s, %.1f MB\n", n_routes, FRAMES, info.device, (double)info.memory / 1e6);
    hc_close(engine);

    FILE *file = argc > 1 ? fopen(argv[1], "wb") : NULL;
    if (argc > 1 && (!file || fwrite(y, sizeof y, 1, file) != 1 || fclose(file) != 0)) return perror(argv[1]), 1;
    return 0;
}
