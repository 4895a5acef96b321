/* haloconv bench engine - times an engine of one shape, block by block. */
#include "bench_play.h"
#include "dsp/bench.h"
#include "host/commands.h"
#include "host/json_print.h"
#include "host/message.h"
#include "host/option.h"
#include "host/stopwatch.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MAX_ENGINES = 512 };

struct engine_settings {
    struct bench_settings common;
    double renew_s;
    bool unpaced;
};

static const struct option_row engine_options[] = {
    {"inputs", 0, "N", "Input channels [2]", option_int, OPTION_TO(struct engine_settings, common.shape.n_in), .min = 1,
     .max = 65536},
    {"outputs", 0, "N", "Output channels [the inputs]", option_int,
     OPTION_TO(struct engine_settings, common.shape.n_out), .min = 1, .max = 65536},
    {"routes", 0, "matrix|diagonal", "matrix: every input to every output; diagonal: input i to output i [diagonal]",
     option_choice, OPTION_TO(struct engine_settings, common.shape.diagonal)},
    {"engines", 0, "N",
     "Engines of one shape with different responses, called one after the other in each period. A time is then that of "
     "a round of all engines, as in a host that runs them in one thread [1]",
     option_int, OPTION_TO(struct engine_settings, common.shape.n_engines), .min = 1, .max = MAX_ENGINES},
    {"wait", 0, "US", "Longest wait for a device in a block; -1: until it is done [-1]", option_int,
     OPTION_TO(struct engine_settings, common.shape.wait_us), .min = -1, .max = 1000000},
    {"spin", 0, NULL, "The device thread of a GPU polls for the next block without sleeping", option_flag,
     OPTION_TO(struct engine_settings, common.shape.spin)},
    {"renew", 0, "S", "Make new responses every S seconds while the engine plays, and crossfade to them [never]",
     option_number, OPTION_TO(struct engine_settings, renew_s), .min = 1e-3, .max = 86400},
    {"unpaced", 0, NULL, "Play as fast as possible, instead of a block each period", option_flag,
     OPTION_TO(struct engine_settings, unpaced)},
    {0}};

static const struct command_line engine_line = {
    .command = "bench engine",
    .text = "Measures how long each block of an engine takes. The options give the shape of the engine.\v"
            "Paced by the clock: a block is missed when it is not complete one period after it was due to begin, "
            "because the engine took longer (cause engine) or because the system woke this program too late (cause "
            "wake-up).\n\n"
            "  haloconv bench engine --inputs 16 --routes matrix --seconds 1 --time 60\n"
            "  haloconv bench engine --engines 50 --seconds 3 --backend hybrid",
    .groups = {{NULL, engine_options}, {BENCH_PLAY_TITLE, bench_play_options}}};

/* ---- --renew: masks that are made while an engine plays, as by a user who changes masks often ------ */

enum { POLL_US = 10000 }; /* how often the thread checks r->end */

struct renewal {
    hc_engine *engine;
    struct bench_shape shape;
    double period_s;
    pthread_t thread;
    atomic_bool end;
    int n_made;       /* this field and those below: valid after renewal_end */
    double longest_s; /* longest preparation of a mask */
    char why[256];    /* "": no error */
};

static void *renew(void *arg)
{
    struct renewal *r = arg;
    for (double due = stopwatch_now() + r->period_s; !atomic_load(&r->end);) {
        if (stopwatch_now() < due) {
            usleep(POLL_US);
            continue;
        }
        hc_mask *mask;
        double start = stopwatch_now();
        r->shape.seed++;
        if (hc_mask_make_noise(r->engine, r->shape.diagonal, r->shape.taps, r->shape.taps, r->shape.seed, &mask, r->why,
                               sizeof r->why) != HC_OK)
            return NULL;
        double elapsed = stopwatch_now() - start;
        if (elapsed > r->longest_s) r->longest_s = elapsed;
        r->n_made++;
        hc_mask_swap(r->engine, mask);
        hc_mask_free(r->engine, mask);
        due += r->period_s;
        if (due < stopwatch_now()) due = stopwatch_now();
    }
    return NULL;
}

/* Starts a thread that makes a mask of noise and fades to it every period_s seconds, or as fast as masks can be made.
 * false: no thread; why has the reason. */
static bool renewal_begin(struct renewal *r, hc_engine *engine, const struct bench_shape *shape, double period_s,
                          char *why, size_t cap)
{
    memset(r, 0, sizeof *r);
    r->engine = engine;
    r->shape = *shape;
    r->period_s = period_s;
    int error = pthread_create(&r->thread, NULL, renew, r);
    return !error || message_write(why, cap, "bench: no thread for new masks: %s; omit --renew", strerror(error));
}

/* Waits for the mask that is being made, and ends the thread. Call it before hc_close. */
static void renewal_end(struct renewal *r)
{
    atomic_store(&r->end, true);
    pthread_join(r->thread, NULL);
}

/* ---- the command -------------------------------------------------------------------------------- */

static void engine_text(const struct engine_settings *s, const struct bench_result *r, const struct renewal *renewal)
{
    const struct bench_shape *shape = &s->common.shape;
    const int n = shape->n_engines;
    if (n > 1) printf("%d engines: ", n);
    printf("%d in, %d out, %s, %d taps, seed %llu, blocks of %d frames (%.0f us) on %s\n", shape->n_in, shape->n_out,
           shape->diagonal ? "diagonal" : "matrix", shape->taps, (unsigned long long)shape->seed, shape->block,
           r->period_us, r->info.device);
    printf("made in %.2f s, %.1f MB; %lld %s%s%s\n", r->setup_s, n * (double)r->info.memory * 1e-6,
           (long long)r->n_blocks, n > 1 ? "rounds" : "blocks", s->unpaced ? " without a pause" : ", paced",
           s->unpaced || r->real_time ? "" : ", without a real-time priority: the system granted none");
    printf("a %s: p50 %.1f us, p99 %.1f, p99.9 %.1f, max %.1f; %.2f %% of the period, %.1f x real time\n",
           n > 1 ? "round" : "block", r->p50_us, r->p99_us, r->p999_us, r->max_us, 100 * r->mean_us / r->period_us,
           r->period_us / r->mean_us);
    printf("%.2f processors were busy with other threads of this program; %lld blocks were late\n", r->other_threads,
           (long long)r->n_late);
    if (!s->unpaced)
        printf("missed %lld: %lld by the engine, %lld by a late wake-up (p99.9 %.1f us)\n", (long long)r->n_missed,
               (long long)r->by_engine, (long long)r->by_wakeup, r->jitter_us);
    if (s->renew_s > 0)
        printf("new responses: made %d times, at most %.2f s each; %llu times faded to\n", renewal->n_made,
               renewal->longest_s, (unsigned long long)r->info.swaps - 1);
}

int bench_engine_command(int argc, char **argv)
{
    struct engine_settings s = {.common = bench_settings_usual()};
    const struct bench_shape *shape = &s.common.shape;
    s.common.shape.n_in = 2;
    s.common.shape.diagonal = 1;
    int status = option_parse(&engine_line, argc, argv, &s);
    if (status >= 0) return status;
    if (s.renew_s > 0 && shape->n_engines > 1)
        return message_usage("bench engine", "--renew is for one engine; leave --engines out");
    bench_settings_complete(&s.common);
    struct bench_result result;
    char why[MESSAGE_CAP];
    hc_engine *engines[MAX_ENGINES];
    if (!bench_open(shape, engines, &result, why, sizeof why)) return message_error("%s", why);
    struct renewal renewal = {0};
    bool good = s.renew_s <= 0 || renewal_begin(&renewal, engines[0], shape, s.renew_s, why, sizeof why);
    if (good) {
        good = bench_play(engines, shape, s.common.time_s, !s.unpaced, false, &result, why, sizeof why);
        if (s.renew_s > 0) renewal_end(&renewal);
        if (good && renewal.why[0]) good = message_write(why, sizeof why, "%s", renewal.why);
    }
    bench_close(shape, engines);
    if (!good) return message_error("%s", why);
    if (!s.common.json) {
        engine_text(&s, &result, &renewal);
        return 0;
    }
    json_t *all = bench_result_json(shape, &result);
    json_object_set_new(all, "paced", json_boolean(!s.unpaced));
    json_object_set_new(all, "renewed", json_integer(renewal.n_made));
    json_object_set_new(all, "renewal_s", json_real(renewal.longest_s));
    json_object_set_new(all, "swaps", json_integer((json_int_t)result.info.swaps));
    return json_print(all, 6, "bench");
}
