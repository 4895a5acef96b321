/* haloconv bench engine - one shape of engine, block by block. */
#include "bench.h"
#include "bench_play.h"
#include "bench_renew.h"
#include "host/message.h"
#include "host/option.h"

#include <getopt.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const char bench_engine_help[] =
    "haloconv bench engine - how long each block takes, of an engine whose shape is given\n"
    "\n"
    "      --inputs N           input channels                                                             [2]\n"
    "      --outputs N          output channels                                                   [the inputs]\n"
    "      --routes WHICH       matrix: every input to every output; diagonal: input i to output i     [diagonal]\n"
    "      --seconds S          length of the responses (decaying noise, all different)                    [1]\n"
    "      --taps N             the same in frames\n"
    "      --block N            frames a block                                                            [64]\n"
    "      --rate HZ                                                                                   [48000]\n"
    "      --backend NAME       auto, cpu, cuda, cuda:N, hybrid, hybrid:N                               [auto]\n"
    "      --method NAME        auto, direct, fft                                                       [auto]\n"
    "      --threads N          of the CPU, the audio thread counted in; 0: as many as it takes            [0]\n"
    "      --time S             seconds of audio to play                                                  [10]\n"
    "      --engines N          so many, alike but for their responses, one after the other in each period [1]\n"
    "      --wait US            longest wait for a device in a block; -1: until it is done                [-1]\n"
    "      --spin               the thread that drives a GPU looks for the next block all the time\n"
    "      --renew S            new responses every S seconds, made beside the audio and faded to           [never]\n"
    "      --unpaced            as fast as it goes, instead of a block each period\n"
    "      --json               one object on standard output\n"
    "  -h, --help               this text\n"
    "\n"
    "Paced by the clock: a block is missed when it is not there a period after it was due to begin, either because\n"
    "the engine took longer (cause engine) or because the system woke this program too late (cause wake-up). With\n"
    "several engines a block's time is that of a round of all of them, as in a host that runs them in one thread.\n"
    "\n"
    "  haloconv bench engine --inputs 16 --routes matrix --seconds 1 --time 60\n"
    "  haloconv bench engine --engines 50 --seconds 3 --backend hybrid\n";

enum { MOST_ENGINES = 512 };

struct settings {
    struct bench_shape shape;
    double seconds, time_s, renew_s;
    bool unpaced, json;
};

static int parse(int argc, char **argv, struct settings *s)
{
    enum { TIME = BENCH_OWN, ENGINES, WAIT, SPIN, RENEW, UNPACED, JSON };
    static const struct option options[] = {{"inputs", required_argument, NULL, BENCH_INPUTS},
                                            {"outputs", required_argument, NULL, BENCH_OUTPUTS},
                                            {"routes", required_argument, NULL, BENCH_ROUTES},
                                            {"time", required_argument, NULL, TIME},
                                            {"engines", required_argument, NULL, ENGINES},
                                            {"wait", required_argument, NULL, WAIT},
                                            {"spin", no_argument, NULL, SPIN},
                                            {"renew", required_argument, NULL, RENEW},
                                            {"unpaced", no_argument, NULL, UNPACED},
                                            {"json", no_argument, NULL, JSON},
                                            BENCH_PLAY_OPTIONS,
                                            {NULL, 0, NULL, 0}};
    *s = (struct settings){.shape = bench_shape_usual(), .seconds = 1, .time_s = 10};
    s->shape.n_in = 2;
    s->shape.diagonal = true;
    int option;
    while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        bool good = true;
        switch (option) {
        case 'h':
            fputs(bench_engine_help, stdout);
            return 0;
        case BENCH_INPUTS:
            good = option_int("bench", "--inputs", optarg, 1, 65536, &s->shape.n_in);
            break;
        case BENCH_OUTPUTS:
            good = option_int("bench", "--outputs", optarg, 1, 65536, &s->shape.n_out);
            break;
        case BENCH_ROUTES:
            s->shape.diagonal = strcmp(optarg, "diagonal") == 0;
            if (!s->shape.diagonal && strcmp(optarg, "matrix") != 0)
                return message_usage("bench", "--routes %s: needs matrix or diagonal", optarg);
            break;
        case TIME:
            good = option_number("bench", "--time", optarg, 0.01, 86400, &s->time_s);
            break;
        case ENGINES:
            good = option_int("bench", "--engines", optarg, 1, MOST_ENGINES, &s->shape.n_engines);
            break;
        case WAIT:
            good = option_int("bench", "--wait", optarg, -1, 1000000, &s->shape.wait_us);
            break;
        case SPIN:
            s->shape.spin = true;
            break;
        case RENEW:
            good = option_number("bench", "--renew", optarg, 1e-3, 86400, &s->renew_s);
            break;
        case UNPACED:
            s->unpaced = true;
            break;
        case JSON:
            s->json = true;
            break;
        default:
            good = bench_play_option(option, optarg, &s->shape, &s->seconds);
        }
        if (!good) return EXIT_USAGE;
    }
    if (optind != argc) return message_usage("bench", "%s: is not an option of bench engine", argv[optind]);
    if (s->renew_s > 0 && s->shape.n_engines > 1)
        return message_usage("bench", "--renew is for one engine; leave --engines out");
    if (s->shape.n_out == 0) s->shape.n_out = s->shape.n_in;
    if (s->seconds > 0) s->shape.taps = (int)fmax(1, s->seconds * s->shape.rate);
    return -1;
}

static void print_text(const struct settings *s, const struct bench_result *r, const struct renewal *renewal)
{
    const struct bench_shape *shape = &s->shape;
    const int n = shape->n_engines;
    if (n > 1) printf("%d engines: ", n);
    printf("%d in, %d out, %s, %d taps, blocks of %d frames (%.0f us) on %s\n", shape->n_in, shape->n_out,
           shape->diagonal ? "diagonal" : "matrix", shape->taps, shape->block, r->period_us, r->info.device);
    printf("made in %.2f s, %.1f MB; %lld %s%s%s\n", r->setup_s, n * (double)r->info.memory * 1e-6,
           (long long)r->n_blocks, n > 1 ? "rounds" : "blocks", s->unpaced ? " without a pause" : ", paced",
           s->unpaced || r->real_time ? "" : ", without a real-time priority: the system granted none");
    printf("a %s: p50 %.1f us, p99 %.1f, p99.9 %.1f, max %.1f; %.2f %% of the period, %.1f x real time\n",
           n > 1 ? "round" : "block", r->p50_us, r->p99_us, r->p999_us, r->max_us, 100 * r->mean_us / r->period_us,
           r->period_us / r->mean_us);
    printf("beside this thread %.2f processors were busy; %lld blocks were late\n", r->beside, (long long)r->n_late);
    if (!s->unpaced)
        printf("missed %lld: %lld by the engine, %lld by a late wake-up (p99.9 %.1f us)\n", (long long)r->n_missed,
               (long long)r->by_engine, (long long)r->by_wakeup, r->jitter_us);
    if (s->renew_s > 0)
        printf("new responses: made %d times, at most %.2f s each; %llu times faded to\n", renewal->n_made,
               renewal->longest_s, (unsigned long long)r->info.swaps - 1);
}

json_t *bench_result_json(const struct bench_shape *shape, const struct bench_result *r)
{
    return json_pack(
        "{s:i, s:i, s:s, s:i, s:i, s:i, s:i, s:s, s:s, s:f, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:I, "
        "s:I, s:I, s:f, s:b}",
        "inputs", shape->n_in, "outputs", shape->n_out, "routes", shape->diagonal ? "diagonal" : "matrix", "taps",
        shape->taps, "block", shape->block, "rate", shape->rate, "engines", shape->n_engines, "backend",
        r->info.backend, "device", r->info.device, "setup_s", r->setup_s, "memory_bytes",
        (json_int_t)r->info.memory * shape->n_engines, "blocks", (json_int_t)r->n_blocks, "period_us", r->period_us,
        "mean_us", r->mean_us, "p50_us", r->p50_us, "p99_us", r->p99_us, "p999_us", r->p999_us, "max_us", r->max_us,
        "wakeup_p999_us", r->jitter_us, "missed", (json_int_t)r->n_missed, "missed_by_engine", (json_int_t)r->by_engine,
        "missed_by_wakeup", (json_int_t)r->by_wakeup, "late", (json_int_t)r->n_late, "beside", r->beside, "real_time",
        (int)r->real_time);
}

int bench_engine(int argc, char **argv)
{
    struct settings s;
    int status = parse(argc, argv, &s);
    if (status >= 0) return status;
    struct bench_result result;
    char why[MESSAGE_CAP];
    hc_engine *engines[MOST_ENGINES];
    if (!bench_open(&s.shape, engines, &result, why, sizeof why)) return message_error("%s", why);
    struct renewal renewal = {0};
    bool good = s.renew_s <= 0 || renewal_begin(&renewal, engines[0], &s.shape, s.renew_s, why, sizeof why);
    if (good) {
        good = bench_play(engines, &s.shape, s.time_s, !s.unpaced, -1, &result, why, sizeof why);
        if (s.renew_s > 0) renewal_end(&renewal);
        if (good && renewal.why[0]) good = message_write(why, sizeof why, "%s", renewal.why);
    }
    bench_close(&s.shape, engines);
    if (!good) return message_error("%s", why);
    if (!s.json) {
        print_text(&s, &result, &renewal);
        return 0;
    }
    json_t *all = bench_result_json(&s.shape, &result);
    if (!all) return message_error("bench: no report as JSON; leave --json out");
    json_object_set_new(all, "paced", json_boolean(!s.unpaced));
    json_object_set_new(all, "renewed", json_integer(renewal.n_made));
    json_object_set_new(all, "renewal_s", json_real(renewal.longest_s));
    json_object_set_new(all, "swaps", json_integer((json_int_t)result.info.swaps));
    json_dumpf(all, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(6));
    putchar('\n');
    json_decref(all);
    return 0;
}
