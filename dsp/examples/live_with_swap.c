/* live_with_swap - an audio thread convolves block by block; another thread swaps the mask while it plays.
 *
 *   cc live_with_swap.c $(pkg-config --cflags --libs haloconv) -lm -pthread -o live_with_swap
 *   ./live_with_swap [OUTPUT]        OUTPUT gets the raw floats of the one output channel
 *
 *   main thread                              audio thread, every BLOCK / RATE seconds
 *   hc_mask_make   (allocates, may wait)     hc_process   (no lock, no allocation, bounded time)
 *   hc_mask_swap   ------ request ------>    crossfades to the new mask; the input history stays
 *
 * A thread that sleeps until the next block is due stands in for the callback of a sound card; it plays one second.
 * haloconv.h says for each call which thread may make it: [rt] or [setup]. */
#define _POSIX_C_SOURCE 200809L /* clock_nanosleep, also with -std=c99 */
#include <haloconv.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

enum { RATE = 48000, BLOCK = 64, N_BLOCKS = 750, FRAMES = BLOCK * N_BLOCKS, TAPS = 12000 };
static float x[FRAMES], y[FRAMES];
static hc_engine *engine;

static void *audio_thread(void *arg)
{
    struct timespec due;
    clock_gettime(CLOCK_MONOTONIC, &due);
    for (int i = 0; i < N_BLOCKS; i++) { /* `out` is filled also where hc_process returns HC_LATE or HC_EDEVICE */
        hc_process(engine, (const float *[]){x + i * BLOCK}, (float *[]){y + i * BLOCK}, BLOCK);
        due.tv_nsec += BLOCK * 1000000000LL / RATE;
        if (due.tv_nsec >= 1000000000) due.tv_nsec -= 1000000000, due.tv_sec++;
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
    }
    return arg;
}

/* A decaying tone of hz. [setup]: not for the audio thread */
static hc_mask *mask_of_tone(double hz)
{
    static float taps[TAPS];
    char why[256];
    hc_mask *mask;
    for (int k = 0; k < TAPS; k++) taps[k] = (float)(0.01 * sin(6.283185307 * hz * k / RATE) * exp(-6.9 * k / TAPS));
    hc_route route = {.in = 0, .out = 0, .taps = taps, .n_taps = TAPS, .gain = 1};
    if (hc_mask_make(engine, &route, sizeof route, 1, &mask, why, sizeof why) != HC_OK) fprintf(stderr, "%s\n", why);
    return mask; /* NULL after a failure: silence */
}

int main(int argc, char **argv)
{
    char why[256];
    hc_config config;
    hc_config_init(&config);
    config.block = BLOCK;
    config.n_in = config.n_out = 1;
    config.max_taps = TAPS;   /* fixes the memory: no mask of this engine may be longer */
    config.fade_frames = 480; /* 10 ms from one mask to the other */
    config.backend = "cpu";
    if (hc_open(&config, &engine, why, sizeof why) != HC_OK) return fprintf(stderr, "hc_open: %s\n", why), 1;
    for (int i = 0; i < FRAMES; i++) x[i] = (float)(i % 4800 * 37 % 101) / 50.5f - 1.0f;

    pthread_t thread;
    hc_mask *low = mask_of_tone(475), *high = mask_of_tone(950);
    hc_mask_swap(engine, low);
    if (pthread_create(&thread, NULL, audio_thread, NULL) != 0) return fprintf(stderr, "no thread\n"), 1;
    nanosleep(&(struct timespec){.tv_nsec = 500000000}, NULL);
    hc_mask_swap(engine, high); /* while it plays; the fade begins a few blocks later at most: hc_info.swap_delay */
    hc_mask_free(engine, low);  /* the engine frees it when it no longer plays */
    pthread_join(thread, NULL);

    hc_info info = {.size = sizeof info};
    hc_get_info(engine, &info);
    printf("blocks %llu, late %llu, swaps %llu, last swap at frame %llu, swap_delay %d, fade %d\n",
           (unsigned long long)info.blocks, (unsigned long long)info.late, (unsigned long long)info.swaps,
           (unsigned long long)info.swap_frame, info.swap_delay, config.fade_frames);
    hc_close(engine);

    FILE *file = argc > 1 ? fopen(argv[1], "wb") : NULL;
    if (argc > 1 && (!file || fwrite(y, sizeof y, 1, file) != 1 || fclose(file) != 0)) return perror(argv[1]), 1;
    return 0;
}
