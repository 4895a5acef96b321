/* haloconv bench capacity - the largest engines that this machine holds. */
#include "bench.h"
#include "bench_play.h"
#include "host/message.h"
#include "host/option.h"

#include <getopt.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const char bench_capacity_help[] =
    "haloconv bench capacity - the largest N x N matrix of different responses, and the most channels with one each,\n"
    "that are played for a while, paced by the clock, without a single missed block\n"
    "\n"
    "      --which WHAT         matrix, channels                                                          [both]\n"
    "      --most N             do not try more                                                         [65536]\n"
    "      --seconds S          length of the responses (decaying noise)                                     [1]\n"
    "      --taps N             the same in frames\n"
    "      --block N            frames a block                                                              [64]\n"
    "      --rate HZ                                                                                     [48000]\n"
    "      --backend NAME       auto, cpu, cuda, cuda:N, hybrid, hybrid:N                                 [auto]\n"
    "      --threads N          of the CPU, the audio thread counted in; 0: as many as it takes              [0]\n"
    "      --time S             seconds that it must hold                                                   [10]\n"
    "      --json               one object on standard output\n"
    "  -h, --help               this text\n"
    "\n"
    "Doubles N until a block is missed in 2 seconds (or the memory does not do), halves the gap down to a\n"
    "sixteenth, and then plays the largest that held for all the time.\n"
    "\n"
    "  haloconv bench capacity --backend cpu --time 60\n";

enum { ATTEMPTS = 3 };

struct settings {
    struct bench_shape shape;
    double seconds, time_s;
    int most;
    const char *which; /* NULL: both */
    bool json;
};

struct trial {
    bool held;
    char why[MESSAGE_CAP]; /* not held because of this, where it is no miss */
    struct bench_result result;
};

static int parse(int argc, char **argv, struct settings *s)
{
    enum { WHICH = BENCH_OWN, MOST, TIME, JSON };
    static const struct option options[] = {{"which", required_argument, NULL, WHICH},
                                            {"most", required_argument, NULL, MOST},
                                            {"time", required_argument, NULL, TIME},
                                            {"json", no_argument, NULL, JSON},
                                            BENCH_PLAY_OPTIONS,
                                            {NULL, 0, NULL, 0}};
    *s = (struct settings){.shape = bench_shape_usual(), .seconds = 1, .time_s = 10, .most = 65536};
    int option;
    while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        bool good = true;
        switch (option) {
        case 'h':
            fputs(bench_capacity_help, stdout);
            return 0;
        case WHICH:
            s->which = optarg;
            if (strcmp(optarg, "matrix") != 0 && strcmp(optarg, "channels") != 0)
                return message_usage("bench", "--which %s: needs matrix or channels", optarg);
            break;
        case MOST:
            good = option_int("bench", "--most", optarg, 1, 65536, &s->most);
            break;
        case TIME:
            good = option_number("bench", "--time", optarg, 0.01, 86400, &s->time_s);
            break;
        case JSON:
            s->json = true;
            break;
        default:
            good = bench_play_option(option, optarg, &s->shape, &s->seconds);
        }
        if (!good) return EXIT_USAGE;
    }
    if (optind != argc) return message_usage("bench", "%s: is not an option of bench capacity", argv[optind]);
    if (s->seconds > 0) s->shape.taps = (int)fmax(1, s->seconds * s->shape.rate);
    return -1;
}

/* Past what it can do anyway? A few blocks tell, and its backlog need not be waited for. */
static bool is_hopeless(hc_engine *engine, const struct bench_shape *shape, struct trial *trial)
{
    struct bench_result quick = trial->result;
    if (!bench_play(&engine, shape, 0.1, false, -1, &quick, trial->why, sizeof trial->why)) return true;
    if (quick.mean_us <= quick.period_us) return false;
    quick.n_missed = quick.by_engine = quick.n_blocks;
    trial->result = quick;
    return true;
}

static const char *size_name(bool diagonal, int n, char *text, size_t cap)
{
    if (diagonal)
        snprintf(text, cap, "%d channels", n);
    else
        snprintf(text, cap, "%d x %d", n, n);
    return text;
}

static bool try_out(const struct settings *s, bool diagonal, int n, double seconds, struct trial *trial)
{
    struct bench_shape shape = s->shape;
    shape.n_in = shape.n_out = n;
    shape.diagonal = diagonal;
    hc_engine *engine;
    *trial = (struct trial){0};
    if (bench_open(&shape, &engine, &trial->result, trial->why, sizeof trial->why)) {
        /* A miss because the system woke us late says nothing of the engine: it gets another chance. */
        for (int i = 0; i < ATTEMPTS && !trial->held && trial->result.by_engine == 0; i++) {
            if ((i == 0 && is_hopeless(engine, &shape, trial)) ||
                !bench_play(&engine, &shape, seconds, true, 0, &trial->result, trial->why, sizeof trial->why))
                break;
            trial->held = trial->result.n_missed == 0;
        }
        hc_close(engine);
    }
    char name[64];
    if (!s->json)
        message_note("%s: %s, p50 %.0f us, max %.0f of %.0f %s", size_name(diagonal, n, name, sizeof name),
                     trial->held ? "held" : "not held", trial->result.p50_us, trial->result.max_us,
                     trial->result.period_us, trial->why);
    return trial->held;
}

/* The most that held; best is its last trial, over the first that did not. */
static int search(const struct settings *s, bool diagonal, struct trial *best, struct trial *over)
{
    const double look_s = s->time_s < 2 ? s->time_s : 2;
    int held = 0, not_held = 0;
    struct trial trial;
    *best = *over = (struct trial){0};
    for (int n = diagonal ? 16 : 2; not_held == 0 && held < s->most; n = 2 * n < s->most ? 2 * n : s->most)
        if (try_out(s, diagonal, n < s->most ? n : s->most, look_s, &trial))
            held = n < s->most ? n : s->most, *best = trial;
        else
            not_held = n, *over = trial;
    while (not_held - held > (held / 16 > 1 ? held / 16 : 1)) {
        int n = held + (not_held - held) / 2;
        if (try_out(s, diagonal, n, look_s, &trial))
            held = n, *best = trial;
        else
            not_held = n, *over = trial;
    }
    while (held > 0 && !try_out(s, diagonal, held, s->time_s, best)) {
        *over = *best;
        held -= held / 32 > 1 ? held / 32 : 1;
    }
    return held;
}

static json_t *search_json(const struct settings *s, bool diagonal, int n, const struct trial *best,
                           const struct trial *over)
{
    struct bench_shape shape = s->shape;
    shape.n_in = shape.n_out = n;
    shape.diagonal = diagonal;
    json_t *all = n > 0 ? bench_result_json(&shape, &best->result) : json_pack("{s:i, s:i}", "inputs", 0, "outputs", 0);
    if (all) json_object_set_new(all, "limit", json_string(over->why[0] ? over->why : "a block was missed"));
    return all;
}

int bench_capacity(int argc, char **argv)
{
    struct settings s;
    int status = parse(argc, argv, &s);
    if (status >= 0) return status;
    json_t *all = json_object();
    for (int diagonal = 0; diagonal < 2; diagonal++) {
        struct trial best, over;
        if (s.which && strcmp(s.which, diagonal ? "channels" : "matrix") != 0) continue;
        int n = search(&s, diagonal, &best, &over);
        if (n == 0 && over.why[0]) {
            json_decref(all);
            return message_error("%s", over.why);
        }
        if (s.json) {
            json_object_set_new(all, diagonal ? "channels" : "matrix", search_json(&s, diagonal, n, &best, &over));
            continue;
        }
        char name[64];
        printf("%s of %d taps, blocks of %d frames, %g s without a miss on %s: p50 %.1f us, p99 %.1f, p99.9 %.1f, max "
               "%.1f of %.1f\n",
               size_name(diagonal, n, name, sizeof name), s.shape.taps, s.shape.block, s.time_s,
               best.result.info.device, best.result.p50_us, best.result.p99_us, best.result.p999_us, best.result.max_us,
               best.result.period_us);
    }
    if (s.json) {
        json_dumpf(all, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(6));
        putchar('\n');
    }
    json_decref(all);
    return 0;
}
