/* The LV2 plugin on a GPU that fails or is too slow (faulty_device.c): the CPU takes over, the log says so, and the
 * output is that of an engine on the CPU from the beginning. */
#include "haloconv_masks.h"
#include "lv2_host.h"
#include "player.h"
#include "reference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { RATE = 48000, CALL = 64, CAP = RATE * 20, CHANNELS = 2 };

struct instance {
    struct lv2_host *host;
    float *in[CHANNELS], *out[CHANNELS];
    int n;
    char log[8192];
    size_t read; /* of it */
};

static void instance_run(struct instance *t)
{
    float *in[] = {t->in[0] + t->n, t->in[1] + t->n}, *out[] = {t->out[0] + t->n, t->out[1] + t->n};
    check(t->n + CALL <= CAP, "%d frames are not enough", CAP);
    lv2_host_connect_audio(t->host, in, out);
    lv2_host_run(t->host, CALL);
    t->n += CALL;
}

/* Plays on, about as fast as the clock, until the log has the word, or the other one, after the last one that was
 * found. Returns true if it was the first one. other: NULL: there is none. */
static bool instance_until_either(struct instance *t, const char *word, const char *other)
{
    const char *found, *refused = NULL;
    for (time_t start = time(NULL); !(found = strstr(t->log + t->read, word));) {
        if (other && (refused = strstr(t->log + t->read, other))) break;
        check(time(NULL) - start < 60 && t->n + CALL <= CAP, "the log lacks \"%s\" after %d frames: %s", word, t->n,
              t->log);
        instance_run(t);
        pause_us(500);
        const char *more = lv2_host_log(t->host);
        if (strlen(t->log) + strlen(more) < sizeof t->log) strcat(t->log, more);
    }
    t->read = (size_t)(found ? found - t->log : refused - t->log) + strlen(found ? word : other);
    return found;
}

static void instance_until(struct instance *t, const char *word)
{
    instance_until_either(t, word, NULL);
}

/* A stereo instance with this mask on the GPU, whose engine has this fault. */
static struct instance instance_open(const char *mask, const char *plays_on, const char *fault, bool freewheels)
{
    struct instance t = {.host = lv2_host_open("stereo", RATE, CALL, CALL, WORKER_THREAD)};
    struct random r = random_seeded(5);
    for (int ch = 0; ch < CHANNELS; ch++) {
        t.in[ch] = noise(&r, CAP);
        t.out[ch] = must_alloc(CAP, sizeof(float));
    }
    lv2_host_activate(t.host);
    *lv2_host_control(t.host, FREEWHEEL) = freewheels;
    lv2_host_send_mask(t.host, mask, 0);
    instance_until(&t, mask);
    setenv("HC_FAULT", fault, 1);
    *lv2_host_control(t.host, BACKEND) = BACKEND_GPU;
    while (!instance_until_either(&t, plays_on, "still waits for it")) { /* an engine of the test before */
        *lv2_host_control(t.host, BACKEND) = BACKEND_CPU;
        instance_until(&t, "a new engine plays");
        pause_us(100000);
        *lv2_host_control(t.host, BACKEND) = BACKEND_GPU;
    }
    unsetenv("HC_FAULT");
    return t;
}

static void instance_close(struct instance *t)
{
    lv2_host_close(t->host);
    for (int ch = 0; ch < CHANNELS; ch++) {
        free(t->in[ch]);
        free(t->out[ch]);
    }
}

/* n frames from `first` on are those of the mask with its whole past. */
static void instance_check(const struct instance *t, const char *mask, int first, int n)
{
    enum { N = 200 };
    hc_responses file;
    struct random r = random_seeded(7);
    double want[N], peak = 0;
    int frames[N];
    check(hc_responses_load(mask, CHANNELS, RATE, 0, &file, NULL, 0) == HC_OK, "%s cannot be read", mask);
    for (int i = 0; i < N; i++) {
        frames[i] = i < 2 ? first + i * (n - 1) : random_int(&r, first, first + n - 1);
        want[i] = reference_frame(file.routes, file.n_routes, (const float *const *)t->in, t->n, i & 1, frames[i]);
        peak = fmax(peak, fabs(want[i]));
    }
    hc_responses_free(&file);
    for (int i = 0; i < N; i++) {
        double got = (double)t->out[i & 1][frames[i]];
        check(fabs(got - want[i]) <= PEAK_SHARE * peak, "%s: channel %d, frame %d of %d: got %.9g, want %.9g, peak %g",
              mask, i & 1, frames[i], t->n, got, want[i], peak);
    }
}

/* The fault comes at the device's next block once this file is there. */
static char fault_path[] = "/tmp/hc_lv2_fault_XXXXXX";

/* HC_FAULT of that kind. */
static const char *fault_of(const char *kind, const char *ms)
{
    static char text[100];
    remove(fault_path);
    snprintf(text, sizeof text, "%s %s %s", kind, fault_path, ms);
    return text;
}

static void fault_come(void)
{
    FILE *file = fopen(fault_path, "w");
    check(file && fclose(file) == 0, "%s cannot be written", fault_path);
}

static char short_path[] = "/tmp/hc_lv2_device_XXXXXX.txt";
static bool is_made;

static const char *short_mask(void)
{
    struct random r = random_seeded(11);
    if (is_made) return short_path;
    int file = mkstemps(short_path, 4);
    FILE *stream = file >= 0 ? fdopen(file, "w") : NULL;
    check(stream != NULL, "%s cannot be written", short_path);
    is_made = true;
    for (int k = 0; k < 2000; k++)
        fprintf(stream, "%.9g %.9g\n", (double)random_sample(&r) / 40, (double)random_sample(&r) / 40);
    check(fclose(stream) == 0, "%s cannot be written", short_path);
    return short_path;
}

/* The GPU's part of a long mask is its tail, of a short one all of it, by the built-in costs. (With
 * the costs of a real GPU it is the tail again.) */
static const struct {
    bool is_long;
    const char *word;
} cases[] = {{true, "; hybrid"}, {false, "; cuda:0"}};

static int n_cases(void)
{
    return access("/dev/nvidiactl", F_OK) == 0 ? 1 : 2;
}

static const char *mask_of(int i)
{
    static char path[4200];
    snprintf(path, sizeof path, "%shall.wav", lv2_host_bundle());
    return cases[i].is_long ? path : short_mask();
}

static void settle_and_check(struct instance *t, const char *mask)
{
    instance_until(t, "; cpu"); /* it has processed the past and is about to fade in */
    for (int i = 0; i < RATE / CALL; i++) instance_run(t);
    int first = t->n;
    for (int i = 0; i < RATE / 2 / CALL; i++) instance_run(t);
    instance_check(t, mask, first, t->n - first);
}

static void a_lost_gpu_gives_way_to_the_cpu(const char *backend)
{
    for (int i = 0; i < n_cases(); i++) {
        const char *mask = mask_of(i);
        struct instance t = instance_open(mask, cases[i].word, fault_of("fail", ""), true);
        for (int k = 0; k < RATE / 4 / CALL; k++) instance_run(&t);
        int first = t.n;
        for (int k = 0; k < RATE / 4 / CALL; k++) instance_run(&t);
        instance_check(&t, mask, first, t.n - first); /* the GPU plays */
        fault_come();
        instance_until(&t, "fell off the bus, as the test wants; the CPU replaces it");
        settle_and_check(&t, mask);
        check(*lv2_host_control(t.host, LATE) == 0, "%g late blocks", (double)*lv2_host_control(t.host, LATE));
        instance_close(&t);
    }
}

static void a_gpu_that_is_too_slow_gives_way_to_the_cpu(const char *backend)
{
    for (int i = 0; i < n_cases(); i++) {
        const char *mask = mask_of(i);
        struct instance t = instance_open(mask, cases[i].word, fault_of("slow", "60"), false);
        fault_come();
        instance_until(&t, "come too late; the CPU replaces it");
        *lv2_host_control(t.host, FREEWHEEL) = 1; /* the CPU is not to be late because the machine is busy */
        settle_and_check(&t, mask);
        check(*lv2_host_control(t.host, LATE) > 0, "no late blocks");
        instance_close(&t);
    }
}

int main(void)
{
    static const struct test tests[] = {
        TEST(a_lost_gpu_gives_way_to_the_cpu, false),
        TEST(a_gpu_that_is_too_slow_gives_way_to_the_cpu, false),
    };
    int file = mkstemp(fault_path);
    if (file < 0) return 1;
    close(file);
    setenv("HALOCONV_COSTS", "builtin", 1);
    setenv("LV2_BUNDLE", "tests/faulty.lv2", 1);
    int failed = check_main("lv2_device", tests, sizeof tests / sizeof *tests);
    if (is_made) remove(short_path);
    remove(fault_path);
    return failed;
}
