/* haloconv batch - many sound files through many masks. */
#include "batch_run.h"
#include "host/commands.h"
#include "host/json_print.h"
#include "host/option.h"
#include "host/stopwatch.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <sched.h>
#include <sndfile.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char help[] =
    "haloconv batch MANIFEST -o FOLDER\n"
    "haloconv batch --inputs PATTERN --masks PATTERN -o FOLDER - many sound files through many masks\n"
    "\n"
    "MANIFEST is CSV with a header, or an object of JSON a line (- is standard input). Columns: input and mask, and\n"
    "as they are wanted output (a name below FOLDER), gain (dB), tail, level, seed. A mask that is a pattern (*, ?,\n"
    "[ ]) becomes one of its files, drawn by the row's seed. An output without a name becomes INPUT_MASK.EXTENSION.\n"
    "\n"
    "  -o, --output FOLDER  where to; each file appears only when it is complete\n"
    "      --inputs, --masks PATTERN   as the shell's; in quotes\n"
    "      --pairs WHICH    all; zip: first with first; random:N: N masks drawn for each input          [all]\n"
    "      --seed S         of what is drawn                                                              [0]\n"
    "      --gain DB        of the outputs                                                                [0]\n"
    "      --tail WHICH     full: input + mask - 1 frames; same: as many as the input; centre: as many as the\n"
    "                       input, from half the mask on                                               [full]\n"
    "      --level WHICH    none; peak, rms: the output gets the input's before the gain               [none]\n"
    "      --format F       CONTAINER, SUBTYPE or CONTAINER:SUBTYPE     [output's extension, else as the input]\n"
    "      --resume         leave out what is done: FOLDER/haloconv-batch.journal knows it\n"
    "      --fail-fast      end at the first file that fails; else it is left out, and listed at the end\n"
    "      --shard I/N      only the I-th of N shares of the work, I from 1 (Slurm arrays, GNU parallel)\n"
    "      --backend B      auto, cpu, cuda (all GPUs) or cuda:N                                       [auto]\n"
    "      --method M       auto, direct (time domain) or fft (partitions)                             [auto]\n"
    "      --workers N      files at once                                                   [one a processor]\n"
    "      --cache MB       of decoded masks that are kept                                              [512]\n"
    "      --json           what was done, as one object on standard output\n"
    "  -q, --quiet          no progress and no summary; errors only\n"
    "  -h, --help           this text\n"
    "\n"
    "Under mpirun the processes share the list. What comes out does not depend on how many workers, shares or\n"
    "processes there are.\n"
    "\n"
    "  haloconv batch --inputs 'speech/*.wav' --masks 'rooms/*.wav' --pairs random:1 --level rms -o wet\n";

struct settings {
    const char *manifest, *folder, *inputs, *masks, *pairs;
    const char *backend, *method, *format_text;
    struct manifest_defaults defaults;
    int format, workers, cache_mb, shard, n_shards;
    bool resume, fail_fast, json, quiet;
};

struct show { /* the line of progress */
    const struct batch *batch;
    bool on, shown;
    double start;
    int64_t n_jobs; /* of this share */
};

/* ---- options ------------------------------------------------------------------------------------ */

static bool parse_shard(const char *text, int *shard, int *n_shards)
{
    char *end;
    errno = 0;
    long i = strtol(text, &end, 10), n = *end == '/' ? strtol(end + 1, &end, 10) : 0;
    *shard = (int)i;
    *n_shards = (int)n;
    if (!errno && !*end && i >= 1 && i <= n && n <= INT_MAX) return true;
    message_usage("batch", "--shard %s: needs I/N, I from 1 to N", text);
    return false;
}

static bool parse_pairs(const char *text)
{
    char *end;
    if (strcmp(text, "all") == 0 || strcmp(text, "zip") == 0) return true;
    if (strncmp(text, "random:", 7) == 0 && strtol(text + 7, &end, 10) > 0 && end > text + 7 && !*end) return true;
    message_usage("batch", "--pairs %s: needs all, zip or random:N", text);
    return false;
}

static bool parse_seed(const char *text, uint64_t *seed)
{
    char *end;
    errno = 0;
    *seed = strtoull(text, &end, 10);
    if (end != text && !*end && !errno && text[0] != '-') return true;
    message_usage("batch", "--seed %s: needs a whole number from 0 on", text);
    return false;
}

static bool parse_choice(bool good, const char *option, const char *text, const char *needs)
{
    if (!good) message_usage("batch", "%s %s: needs %s", option, text, needs);
    return good;
}

static bool check_files(const struct settings *s)
{
    if (!s->folder || !*s->folder) {
        message_usage("batch", "where to? Give -o FOLDER");
        return false;
    }
    if (!!s->inputs != !!s->masks || !!s->inputs == !!s->manifest) {
        message_usage("batch", "which files? Give a MANIFEST, or both --inputs and --masks");
        return false;
    }
    if (s->pairs && !s->inputs) {
        message_usage("batch", "--pairs belongs to --inputs and --masks; a manifest has its pairs");
        return false;
    }
    return true;
}

enum {
    OPT_INPUTS = 256, OPT_MASKS, OPT_PAIRS, OPT_SEED, OPT_GAIN, OPT_TAIL, OPT_LEVEL, OPT_FORMAT, OPT_RESUME,
    OPT_FAIL_FAST, OPT_SHARD, OPT_BACKEND, OPT_METHOD, OPT_WORKERS, OPT_CACHE, OPT_JSON
};

static const struct option options[] = {
    {"output", required_argument, NULL, 'o'},
    {"inputs", required_argument, NULL, OPT_INPUTS},
    {"masks", required_argument, NULL, OPT_MASKS},
    {"pairs", required_argument, NULL, OPT_PAIRS},
    {"seed", required_argument, NULL, OPT_SEED},
    {"gain", required_argument, NULL, OPT_GAIN},
    {"tail", required_argument, NULL, OPT_TAIL},
    {"level", required_argument, NULL, OPT_LEVEL},
    {"format", required_argument, NULL, OPT_FORMAT},
    {"resume", no_argument, NULL, OPT_RESUME},
    {"fail-fast", no_argument, NULL, OPT_FAIL_FAST},
    {"shard", required_argument, NULL, OPT_SHARD},
    {"backend", required_argument, NULL, OPT_BACKEND},
    {"method", required_argument, NULL, OPT_METHOD},
    {"workers", required_argument, NULL, OPT_WORKERS},
    {"cache", required_argument, NULL, OPT_CACHE},
    {"json", no_argument, NULL, OPT_JSON},
    {"quiet", no_argument, NULL, 'q'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

/* One option; -1 = go on, else the exit status. */
static int take_option(int option, struct settings *s)
{
    bool good = true;
    switch (option) {
    case 'o':
        s->folder = optarg;
        break;
    case OPT_INPUTS:
        s->inputs = optarg;
        break;
    case OPT_MASKS:
        s->masks = optarg;
        break;
    case OPT_PAIRS:
        good = parse_pairs(s->pairs = optarg);
        break;
    case OPT_SEED:
        good = parse_seed(optarg, &s->defaults.seed);
        break;
    case OPT_GAIN:
        good = option_db("batch", "--gain", optarg, &s->defaults.gain);
        break;
    case OPT_TAIL:
        good = parse_choice(tail_parse(optarg, &s->defaults.tail), "--tail", optarg, TAIL_NEEDS);
        break;
    case OPT_LEVEL:
        good = parse_choice(level_parse(optarg, &s->defaults.level), "--level", optarg, "none, peak or rms");
        break;
    case OPT_FORMAT:
        good = option_format("batch", s->format_text = optarg, &s->format);
        break;
    case OPT_RESUME:
        s->resume = true;
        break;
    case OPT_FAIL_FAST:
        s->fail_fast = true;
        break;
    case OPT_SHARD:
        good = parse_shard(optarg, &s->shard, &s->n_shards);
        break;
    case OPT_BACKEND:
        good = option_backend("batch", s->backend = optarg, false);
        break;
    case OPT_METHOD:
        good = option_method("batch", s->method = optarg);
        break;
    case OPT_WORKERS:
        good = option_int("batch", "--workers", optarg, 1, 256, &s->workers);
        break;
    case OPT_CACHE:
        good = option_int("batch", "--cache", optarg, 0, 1 << 20, &s->cache_mb);
        break;
    case OPT_JSON:
        s->json = true;
        break;
    case 'q':
        s->quiet = true;
        break;
    case 'h':
        fputs(help, stdout);
        return 0;
    default:
        message_note("see `haloconv batch --help`");
        return EXIT_USAGE; /* getopt has said what is wrong */
    }
    return good ? -1 : EXIT_USAGE;
}

static int parse(int argc, char **argv, struct settings *s)
{
    int option, status;
    *s = (struct settings){.backend = "auto", .method = "auto", .shard = 1, .n_shards = 1, .cache_mb = 512,
                           .defaults.gain = 1};
    argv[0] = "haloconv";
    while ((option = getopt_long(argc, argv, "o:qh", options, NULL)) != -1)
        if ((status = take_option(option, s)) >= 0) return status;
    if (argc - optind > 1) return message_usage("batch", "needs one MANIFEST, and got %d names", argc - optind);
    if (argc - optind == 1) s->manifest = argv[optind];
    return check_files(s) ? -1 : EXIT_USAGE;
}

/* ---- set-up ------------------------------------------------------------------------------------- */

static int processors(void)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return n < 1 ? 1 : n > 256 ? 256 : n;
}

static int count_gpus(void)
{
    char text[256];
    int n = 0;
    while (n < 64 && hc_list_devices(n + 1, text, sizeof text) == HC_OK) n++;
    return n;
}

/* A GPU and the engines on it take most of a second to start and to end, in which the CPU convolves this much a
 * processor: 10 s files through 1 s rooms are level at 8000 files on an H200 beside 16 Xeon processors. */
static bool gpu_is_worth_it(const struct batch *batch)
{
    const double bytes_a_processor = 160e6;
    double bytes = 0;
    struct stat status;
    for (size_t i = 0; i < batch->n_pieces; i++) /* a piece is of one class of length: its first file stands for all */
        if (stat(batch->order[batch->pieces[i]]->input, &status) == 0)
            bytes += (double)status.st_size * (double)(batch->pieces[i + 1] - batch->pieces[i]);
    return bytes / batch->n_shards / batch->ranks.n > bytes_a_processor * processors();
}

static bool choose_backend(struct batch *batch, const struct settings *s)
{
    batch->backend = s->backend;
    if (strcmp(s->backend, "cpu") == 0) return true;
    bool automatic = strcmp(s->backend, "auto") == 0;
    if (automatic && !gpu_is_worth_it(batch)) {
        batch->backend = "cpu";
        return true;
    }
    batch->n_devices = count_gpus();
    if (automatic) batch->backend = batch->n_devices > 0 ? "cuda" : "cpu";
    if (batch->n_devices == 0 && !automatic)
        return message_write(batch->why, sizeof batch->why, "--backend %s: no CUDA device; use --backend cpu",
                             s->backend);
    return true;
}

static bool make_folder(const char *folder, char *why, size_t cap)
{
    struct stat status;
    if (mkdir(folder, 0777) == 0) return true;
    int error = errno;
    if (error == EEXIST && stat(folder, &status) == 0 && S_ISDIR(status.st_mode)) return true;
    return message_write(why, cap, "%s: cannot be made: %s; choose another folder", folder,
                         strerror(error == EEXIST ? ENOTDIR : error));
}

/* The files of this process's shard; with several ranks, of all of them. */
static int64_t count_jobs(const struct batch *batch)
{
    int64_t n = 0;
    for (size_t i = (size_t)batch->shard; i < batch->n_pieces; i += (size_t)batch->n_shards)
        n += (int64_t)(batch->pieces[i + 1] - batch->pieces[i]);
    return n;
}

/* Few files: the processors share them. On a GPU too a worker is what reads, decodes, encodes and writes: 10000 files took
 * 0.88 s with 16 workers on 16 processors, 1.1 with 8. The output is the same. */
static void choose_workers(struct batch *batch, const struct settings *s, int64_t n_jobs)
{
    int n = processors();
    int64_t n_pieces = ((int64_t)batch->n_pieces + batch->n_shards - 1) / batch->n_shards;
    batch->n_workers = s->workers ? s->workers : n;
    if (batch->n_workers > n_pieces) batch->n_workers = n_pieces > 0 ? (int)n_pieces : 1;
    batch->n_threads = n / batch->n_workers > 1 && n_jobs > 0 ? n / batch->n_workers : 1;
}

static bool open_journal(struct batch *batch, const struct settings *s)
{
    char name[64] = "";
    if (batch->n_shards > 1) snprintf(name, sizeof name, "%dof%d", batch->shard + 1, batch->n_shards);
    if (batch->ranks.n > 1) snprintf(name + strlen(name), sizeof name - strlen(name), "rank%d", batch->ranks.rank);
    return journal_open(&batch->journal, s->folder, name[0] ? name : NULL, s->resume, batch->why, sizeof batch->why);
}

static bool read_list(struct manifest *manifest, const struct settings *s, char *why, size_t cap)
{
    struct manifest_defaults defaults = s->defaults;
    char container[32] = "";
    if (s->format & SF_FORMAT_TYPEMASK) snprintf(container, sizeof container, "%s", s->format_text);
    container[strcspn(container, ":")] = 0;
    if (container[0]) defaults.extension = strcmp(container, "rf64") == 0 ? "wav" : container;
    bool good = s->manifest
                    ? manifest_read(manifest, s->manifest, &defaults, why, cap)
                    : manifest_pair(manifest, s->inputs, s->masks, s->pairs ? s->pairs : "all", &defaults, why, cap);
    if (good && manifest->unused && !s->quiet)
        message_note("%s: columns that are not used: %s", s->manifest, manifest->unused);
    return good;
}

/* ---- the report --------------------------------------------------------------------------------- */

static void show_progress(void *data)
{
    struct show *show = data;
    const struct batch *batch = show->batch;
    double seconds = stopwatch_now() - show->start;
    if (!show->on || seconds < 1) return;
    int64_t done = atomic_load(&batch->n_done), resumed = atomic_load(&batch->n_resumed);
    double speed = (double)done / seconds, left = (double)(show->n_jobs - done - resumed) / (speed > 0 ? speed : 1);
    fprintf(stderr, "\r%lld of %lld files, %.0f a second, %.0f x real time, %.0f s left\033[K",
            (long long)(done + resumed), (long long)show->n_jobs, speed,
            (double)atomic_load(&batch->sound_us) * 1e-6 / seconds, done ? left : 0);
    show->shown = true;
}

static void list_failures(const struct batch *batch)
{
    if (batch->n_failures == 0) return;
    message_note("%zu file%s failed:", batch->n_failures, message_s((int64_t)batch->n_failures));
    for (size_t i = 0; i < batch->n_failures; i++)
        message_note("  %s -> %s: %s", batch->failures[i].job->input, batch->failures[i].job->output,
                     batch->failures[i].why ? batch->failures[i].why : "no memory for the reason");
}

enum { DONE, RESUMED, FAILED, FRAMES_IN, FRAMES_OUT, SOUND_US, CLIPPED_SAMPLES, CLIPPED_FILES, N_COUNTS };

static void say_summary(const struct batch *batch, const struct settings *s, const int64_t *counts, double seconds)
{
    char resumed[64] = "", failed[64] = "";
    if (counts[RESUMED]) snprintf(resumed, sizeof resumed, ", %lld were there", (long long)counts[RESUMED]);
    if (counts[FAILED]) snprintf(failed, sizeof failed, ", %lld failed", (long long)counts[FAILED]);
    message_note("%s: %lld file%s%s%s; %.0f a second, %.0f x real time on %s", s->folder, (long long)counts[DONE],
                 message_s(counts[DONE]), resumed, failed, (double)counts[DONE] / seconds,
                 (double)counts[SOUND_US] * 1e-6 / seconds, batch->device[0] ? batch->device : batch->backend);
    if (counts[CLIPPED_FILES])
        message_note("%lld sample%s clipped in %lld file%s; --gain or --level would have avoided it",
                     (long long)counts[CLIPPED_SAMPLES], message_s(counts[CLIPPED_SAMPLES]),
                     (long long)counts[CLIPPED_FILES], message_s(counts[CLIPPED_FILES]));
}

static int print_json(const struct batch *batch, const int64_t *counts, double seconds)
{
    json_t *all = json_pack("{s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:I, s:I, s:s, s:s, s:i, s:i}", "done",
                            (json_int_t)counts[DONE], "resumed", (json_int_t)counts[RESUMED], "failed",
                            (json_int_t)counts[FAILED], "frames_in", (json_int_t)counts[FRAMES_IN], "frames_out",
                            (json_int_t)counts[FRAMES_OUT], "seconds", seconds, "files_a_second",
                            (double)counts[DONE] / seconds, "times_realtime", (double)counts[SOUND_US] * 1e-6 / seconds,
                            "clipped_samples", (json_int_t)counts[CLIPPED_SAMPLES], "clipped_files",
                            (json_int_t)counts[CLIPPED_FILES], "backend", batch->backend, "device", batch->device,
                            "workers", batch->n_workers, "ranks", batch->ranks.n);
    return json_print(all, 9, "batch");
}

static int report(const struct batch *batch, const struct settings *s, const int64_t *counts, double seconds)
{
    int status = 0;
    if (!s->quiet) list_failures(batch);
    if (batch->why[0]) status = message_error("%s", batch->why);
    if (counts[FAILED]) status = EXIT_FAILED;
    if (batch->ranks.rank != 0) return status; /* rank 0 speaks for all */
    if (!s->quiet) say_summary(batch, s, counts, seconds);
    if (s->json && print_json(batch, counts, seconds) != 0) status = EXIT_FAILED;
    return status;
}

/* ---- the run ------------------------------------------------------------------------------------ */

static int run(struct batch *batch, const struct settings *s, double start)
{
    bool ready = batch_plan(batch) && batch_spares_inputs(batch) && choose_backend(batch, s) &&
                 make_folder(s->folder, batch->why, sizeof batch->why) && open_journal(batch, s);
    if (ready) {
        struct show show = {.batch = batch, .start = start, .n_jobs = count_jobs(batch)};
        show.on = !s->quiet && batch->ranks.n == 1 && isatty(STDERR_FILENO);
        choose_workers(batch, s, show.n_jobs);
        mask_shelf_open(&batch->shelf, (int64_t)s->cache_mb << 20);
        batch_work(batch, show_progress, &show);
        if (show.shown) fputs("\r\033[K", stderr);
        mask_shelf_close(&batch->shelf);
        journal_close(&batch->journal);
    }
    int64_t counts[N_COUNTS] = {atomic_load(&batch->n_done),     atomic_load(&batch->n_resumed),
                                (int64_t)batch->n_failures,      atomic_load(&batch->frames_in),
                                atomic_load(&batch->frames_out), atomic_load(&batch->sound_us),
                                atomic_load(&batch->clipped_samples), atomic_load(&batch->clipped_files)};
    ranks_close(&batch->ranks, counts, N_COUNTS);
    if (!ready) return message_error("%s", batch->why);
    return report(batch, s, counts, stopwatch_now() - start);
}

int batch_command(int argc, char **argv)
{
    struct settings s;
    struct manifest manifest;
    char why[MESSAGE_CAP], hashed[128];
    int status = parse(argc, argv, &s);
    if (status >= 0) return status;
    double start = stopwatch_now();
    if (!read_list(&manifest, &s, why, sizeof why)) return message_error("%s", why);
    snprintf(hashed, sizeof hashed, "%s %s %s", HC_VERSION, s.method, s.format_text ? s.format_text : "");
    struct batch *batch = calloc(1, sizeof *batch);
    if (batch) {
        *batch = (struct batch){.manifest = &manifest, .folder = s.folder, .settings = hashed, .method = s.method,
                                .format = s.format, .shard = s.shard - 1, .n_shards = s.n_shards,
                                .fail_fast = s.fail_fast, .journal.fd = -1};
        pthread_mutex_init(&batch->lock, NULL);
        status = ranks_open(&batch->ranks, why, sizeof why) ? run(batch, &s, start) : message_error("%s", why);
        batch_free(batch);
        pthread_mutex_destroy(&batch->lock);
    } else {
        status = message_error("no memory for a batch; free some");
    }
    free(batch);
    manifest_free(&manifest);
    return status;
}
