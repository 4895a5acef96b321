/* lv2_instances - measures whether many instances of the plugin on one device stay in time.
 *
 *   HC_TEST_BACKEND=cuda LV2_INSTANCES=50,64,10 LV2_MASK=build/impulses/hall.wav BUILD=build build/tests/lv2_instances
 *
 * (instances, frames a block, seconds; LV2_VARIANT=stereo, one of two channels. Without a GPU, HC_TEST_BACKEND=hybrid
 * and LV2_BUNDLE=tests/faulty.lv2 use a thread of the CPU as the device, and show the cost of the callbacks.)
 * Every instance runs once in each block period, one after the other, as in a host with one audio thread. Prints the
 * time of a round of all instances (p50, p99, worst) as a share of the period, the processor time that this thread used
 * of it, and the late blocks. Rounds in which an instance loads its mask or crossfades do not count.
 */
#include "lv2_host.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RATE = 48000, MAX_INSTANCES = 512 };

static double worked_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static struct lv2_host *hosts[MAX_INSTANCES];
static float *in[2], *out[2];

static void round_of(int n, int block)
{
    for (int i = 0; i < n; i++) {
        lv2_host_connect_audio(hosts[i], in, out);
        lv2_host_run(hosts[i], block);
    }
}

/* Plays until no instance has work or answers under way. */
static void play_until_idle(int n, int block)
{
    for (bool busy = true; busy;) {
        busy = false;
        for (int i = 0; i < n; i++) busy |= lv2_host_busy(hosts[i]);
        round_of(n, block);
    }
}

static void measure(const char *backend)
{
    const char *words = getenv("LV2_INSTANCES"), *mask = getenv("LV2_MASK"), *variant = getenv("LV2_VARIANT");
    int n = 50, block = 64, seconds = 10;
    if (words)
        check(sscanf(words, "%d,%d,%d", &n, &block, &seconds) == 3 && n <= MAX_INSTANCES,
              "LV2_INSTANCES=N,BLOCK,SECONDS");
    struct random r = random_seeded(1);
    for (int ch = 0; ch < 2; ch++) {
        in[ch] = noise(&r, block);
        out[ch] = must_alloc((size_t)block, sizeof(float));
    }
    double start = now_s();
    for (int i = 0; i < n; i++) {
        hosts[i] = lv2_host_open(variant ? variant : "stereo", RATE, block, block, WORKER_THREAD);
        lv2_host_activate(hosts[i]);
        *lv2_host_control(hosts[i], BACKEND) = strcmp(backend, "cpu") == 0 ? BACKEND_CPU : BACKEND_GPU;
    }
    round_of(n, block);
    play_until_idle(n, block); /* the backend changes */
    if (mask)
        for (int i = 0; i < n; i++) lv2_host_send_mask(hosts[i], mask, 0);
    play_until_idle(n, block);
    for (int i = 0; i < RATE / block; i++) round_of(n, block); /* crossfades, and the first launches */
    double opened = now_s() - start, period = (double)block / RATE, before = 0, after = 0;
    for (int i = 0; i < n; i++) {
        const char *log = lv2_host_log(hosts[i]);
        const char *word = backend[0] == 'h' ? "; hybrid" : backend[1] == 'p' ? "; cpu" : "cuda:";
        check(strstr(log, word), "instance %d does not play on %s: %s", i, backend, log);
        before += (double)*lv2_host_control(hosts[i], LATE);
    }
    int rounds = (int)(seconds / period), over = 0;
    double *took = must_alloc((size_t)rounds, sizeof *took), *worked = must_alloc((size_t)rounds, sizeof *worked);
    double due = now_s();
    for (int k = 0; k < rounds; k++) {
        due += period;
        double t = now_s(), w = worked_s();
        round_of(n, block);
        took[k] = now_s() - t;
        worked[k] = worked_s() - w;
        over += took[k] > period;
        while (now_s() < due) {} /* during a sleep the processor would lower its clock rate */
        if (now_s() > due + period) due = now_s();
    }
    for (int i = 0; i < n; i++) after += (double)*lv2_host_control(hosts[i], LATE);
    qsort(took, (size_t)rounds, sizeof *took, ascending);
    qsort(worked, (size_t)rounds, sizeof *worked, ascending);
    double to_percent = 100 / period;
    printf("%d instances of %s, %d frames, %s: p50 %.1f %%, p99 %.1f %%, worst %.1f %% of the %.0f us of a block; %d "
           "of %d "
           "rounds over; %.0f blocks late; opened in %.1f s\n",
           n, variant ? variant : "stereo", block, backend, took[rounds / 2] * to_percent,
           took[rounds * 99 / 100] * to_percent, took[rounds - 1] * to_percent, period * 1e6, over, rounds,
           after - before, opened);
    printf("worked: p50 %.1f %%, p99 %.1f %%, worst %.1f %%\n", worked[rounds / 2] * to_percent,
           worked[rounds * 99 / 100] * to_percent, worked[rounds - 1] * to_percent);
    start = now_s();
    for (int i = 0; i < n; i++) lv2_host_close(hosts[i]);
    printf("closed in %.1f s\n", now_s() - start);
    free(took);
    free(worked);
}

int main(void)
{
    static const struct test tests[] = {TEST(measure, true)};
    return check_main("lv2_instances", tests, 1);
}
