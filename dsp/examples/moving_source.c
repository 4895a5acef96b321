/* moving_source - a sound moves once round the head: its responses are steered while it plays.
 *
 *   cc moving_source.c $(pkg-config --cflags --libs haloconv) -lm -o moving_source
 *   ./moving_source [OUTPUT]        OUTPUT gets the raw floats of the left ear, then of the right ear
 *
 *                 ahead: entry 0
 *                       |                     bank    24 directions, 15 degrees apart, counter-clockwise;
 *      left: entry 6 --(o)-- right: entry 18          each has a response to both ears
 *                       |                     hc_steer  at every block: the entry nearest to the source.
 *                 behind: entry 12                      No memory, no upload: it may run on the audio thread
 *
 * The bank is made up here: an ear that is turned away from the source hears it later and softer, and both ears hear a
 * decaying tail. hc_bank_load reads measured ones from SOFA files.
 */
#include <haloconv.h>
#include <haloconv_scenes.h>

#include <math.h>
#include <stdio.h>

enum { RATE = 48000, BLOCK = 64, FRAMES = 750 * BLOCK, N_ENTRIES = 24, TAPS = 4800 };
static const double pi = 3.14159265358979;

/* The response from entry e to an ear. */
static void response(float *taps, int e, int ear)
{
    double side = sin(2 * pi * e / N_ENTRIES) * (ear == 0 ? 1 : -1); /* 1: the ear is turned to the source */
    for (int k = 0; k < TAPS; k++) taps[k] = (float)(0.002 * sin(0.01 * (e + 1) * k + ear) * exp(-6.9 * k / TAPS));
    taps[(int)(16 * (1 - side) + 0.5)] += (float)(0.3 + 0.2 * side); /* the far ear hears it 32 frames (0.7 ms) later */
}

int main(int argc, char **argv)
{
    static float memory[N_ENTRIES * 2][TAPS], x[FRAMES], y[2][FRAMES];
    const float *taps[N_ENTRIES * 2]; /* entry e, ear o at 2 * e + o */
    for (int i = 0; i < N_ENTRIES * 2; i++) response(memory[i], i / 2, i % 2), taps[i] = memory[i];
    for (int i = 0; i < FRAMES; i++) x[i] = (float)(i % 4800 * 37 % 101) / 50.5f - 1.0f;

    char why[256];
    hc_config config;
    hc_engine *engine;
    hc_bank *bank;
    hc_config_init(&config);
    config.rate = RATE;
    config.block = BLOCK;
    config.n_in = config.n_sources = 1; /* each input is a source */
    config.n_out = 2;
    config.max_taps = 1;     /* no mask is played */
    config.bank_taps = TAPS; /* fixes the memory: no bank of this engine may be longer */
    config.backend = "cpu";
    hc_bank_data data = {.size = sizeof data, .n_entries = N_ENTRIES, .n_out = 2, .n_taps = TAPS, .taps = taps};
    if (hc_open(&config, &engine, why, sizeof why) != HC_OK) return fprintf(stderr, "hc_open: %s\n", why), 1;
    if (hc_bank_make(engine, &data, &bank, why, sizeof why) != HC_OK)
        return fprintf(stderr, "hc_bank_make: %s\n", why), 1;

    for (int at = 0; at < FRAMES; at += BLOCK) {
        int entry = (at * N_ENTRIES + FRAMES / 2) / FRAMES % N_ENTRIES;
        hc_steer(engine, 0, bank, &entry, NULL, 1);
        int code = hc_process(engine, (const float *[]){x + at}, (float *[]){y[0] + at, y[1] + at}, BLOCK);
        if (code != HC_OK) return fprintf(stderr, "hc_process: %s\n", hc_strerror(code)), 1;
    }

    hc_info info = {.size = sizeof info};
    hc_get_info(engine, &info);
    for (int l = 0; l < info.n_steer_levels; l++) /* the head changes with the block, the tail some frames later */
        printf("taps from %d: hop %d, delay %d, fade %d\n", info.steer_levels[l].offset, info.steer_levels[l].hop,
               info.steer_levels[l].delay, info.steer_levels[l].fade);
    hc_close(engine);
    hc_bank_free(bank);

    FILE *file = argc > 1 ? fopen(argv[1], "wb") : NULL;
    if (argc > 1 && (!file || fwrite(y, sizeof y, 1, file) != 1 || fclose(file) != 0)) return perror(argv[1]), 1;
    return 0;
}
