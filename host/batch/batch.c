/* haloconv batch - convolves many sound files with many masks. */
#include "batch_mask.h"
#include "batch_report.h"
#include "dsp/backends/gpu_rules.h"
#include "dsp/base/processors.h"
#include "host/commands.h"
#include "host/files/sound_format.h"
#include "host/missing_gpu.h"
#include "host/option.h"
#include "host/stopwatch.h"
#include "scene_file_job.h"
#include "slurm.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <sndfile.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_WORKERS = 1024 };

struct batch_progress { /* for the status line */
    const struct batch *batch;
    double start;
    struct progress_rate rate;
};

/* ---- options ------------------------------------------------------------------------------------ */

/* Sets shard and n_shards. */
static bool read_shard(const struct option_use *use, void *to)
{
    struct batch_settings *s = to;
    char *end, why[MESSAGE_CAP];
    if (strcmp(use->text, "slurm") == 0)
        return slurm_share(&s->shard, &s->n_shards, why, sizeof why) || option_refuse(use, "%s", why);
    errno = 0;
    long i = strtol(use->text, &end, 10), n = *end == '/' ? strtol(end + 1, &end, 10) : 0;
    s->shard = (int)i - 1;
    s->n_shards = (int)n;
    return (!errno && !*end && i >= 1 && i <= n && n <= INT_MAX) ||
           option_refuse(use, "needs I/N with I from 1 to N, or slurm");
}

static bool read_pairing(const struct option_use *use, void *to)
{
    char *end;
    const char *text = use->text;
    if (strcmp(text, "all") != 0 && strcmp(text, "zip") != 0 &&
        !(strncmp(text, "random:", 7) == 0 && strtol(text + 7, &end, 10) > 0 && end > text + 7 && !*end))
        return option_refuse(use, "needs all, zip or random:N");
    return option_text(use, to);
}

/* Keeps the text too, because the hash of a journal entry covers it. */
static bool batch_read_format(const struct option_use *use, void *to)
{
    struct batch_settings *s = to;
    return option_text(use, &s->format_text) && format_option(use, &s->format);
}

static int check_files(const struct batch_settings *s)
{
    char why[MESSAGE_CAP];
    if (!scene_file_options_check(&s->moving, why, sizeof why))
        return message_usage("batch", "--path %s: %s", s->moving.path, why);
    if (s->moving.path && strcmp(s->moving.path, "-") == 0)
        return message_usage("batch",
                             "every row reads its path, and standard input can be read once; give --path a file");
    if (!s->folder || !*s->folder) return message_usage("batch", "needs an output folder; give -o FOLDER");
    if (!!s->inputs != !!s->masks || !!s->inputs == !!s->list)
        return message_usage("batch", "needs the files; give a MANIFEST, or both --inputs and --masks");
    if (s->pairs && !s->inputs)
        return message_usage("batch", "--pairs is for --inputs and --masks, not for a manifest; leave it out");
    if (s->json && s->report && strcmp(s->report, "-") == 0)
        return message_usage("batch", "--json and --report - both write to standard output; give the report a file");
    return -1;
}

static const struct option_row batch_options[] = {
    {"output", 'o', "FOLDER", "Output folder; each file appears under its name only when it is complete", option_text,
     OPTION_TO(struct batch_settings, folder)},
    {"inputs", 0, "PATTERN", "The input files: a pattern of the shell, in quotes", option_text,
     OPTION_TO(struct batch_settings, inputs)},
    {"masks", 0, "PATTERN", "The masks: a pattern of the shell, in quotes", option_text,
     OPTION_TO(struct batch_settings, masks)},
    {"pairs", 0, "all|zip|random:N",
     "all: each input with each mask; zip: first with first, and so on; random:N: N masks drawn for each input [all]",
     read_pairing, OPTION_TO(struct batch_settings, pairs)},
    {"members", 0, "PATTERN",
     "Convolve the sounds of tar files whose names match PATTERN (quoted), and copy the others [all]", option_text,
     OPTION_TO(struct batch_settings, defaults.members)},
    {"seed", 0, "S",
     "Seed of the draws of --pairs and of rows without a seed. The same seed and files draw the same masks "
     "on every machine [0]",
     option_seed, OPTION_TO(struct batch_settings, defaults.seed)},
    {"gain", 0, "DB", "Gain of the outputs [0]", option_db, OPTION_TO(struct batch_settings, defaults.gain)},
    OPTION_TAIL(OPTION_TO(struct batch_settings, defaults.tail)),
    OPTION_LEVEL(OPTION_TO(struct batch_settings, defaults.level)),
    {"format", 0, "FORMAT", "As for convolve [the output's extension, and the subtype of the input]", batch_read_format,
     .to = 0},
    {"report", 0, "FILE",
     "Write a line of JSON for each output to FILE, in the order of the list: row, input, the mask and the noise that "
     "were drawn, seed, gains, peak, clipped samples, frames, the mask's decay time T30",
     option_text, OPTION_TO(struct batch_settings, report)},
    OPTION_DITHER(OPTION_TO(struct batch_settings, dither)),
    {"resume", 0, NULL,
     "Skip the rows that an earlier run has finished. A journal in FOLDER (haloconv-batch.journal; each shard or rank "
     "has a separate one) lists these rows with their settings. An output that is missing, has another size, or whose "
     "input or mask has changed is made again",
     option_flag, OPTION_TO(struct batch_settings, resume)},
    {"fail-fast", 0, NULL,
     "End at the first file that fails. Without this option, a file that fails is reported, skipped and listed at the "
     "end, and the exit status is 1",
     option_flag, OPTION_TO(struct batch_settings, fail_fast)},
    {"shard", 0, "I/N|slurm",
     "Convolve the I-th of N shares of the list, I from 1, as for GNU parallel. slurm: the share of this task of srun "
     "and of this id of sbatch's --array, from 0 or from 1",
     read_shard, .to = 0},
    {"backend", 0, "auto|cpu|cuda|cuda:N", "Processor to convolve on; cuda spreads the workers over all GPUs [auto]",
     option_backend, OPTION_TO(struct batch_settings, backend)},
    OPTION_METHOD(OPTION_TO(struct batch_settings, method)),
    {"workers", 0, "N", "Files that are convolved at the same time [one for each processor]", option_int,
     OPTION_TO(struct batch_settings, workers), .min = 1, .max = MAX_WORKERS},
    {"cache", 0, "MB",
     "Memory for decoded masks and noises. In addition a worker has up to four engines of some tens of MB each, "
     "depending on the length and the channels of the masks. With --level or noise, an output of up to 64 MB is kept "
     "in memory; a longer one is convolved again [512]",
     option_int, OPTION_TO(struct batch_settings, cache_mb), .max = 1 << 20},
    OPTION_JSON(OPTION_TO(struct batch_settings, json)),
    {0}};

static const struct option_row scene_file_options[] = {
    {"path", 0, "FILE",
     "The path of rows that give no path: a CSV file, or random:OPTIONS drawn by the row's seed. The mask of such a "
     "row is a bank, and each channel of its input is a moving source",
     option_text, OPTION_TO(struct batch_settings, moving.path)},
    OPTION_MOVING(struct batch_settings),
    {0}};

static const struct command_line batch_line = {
    .command = "batch",
    .usage = "MANIFEST -o FOLDER\n--inputs PATTERN --masks PATTERN -o FOLDER",
    .text =
        "Convolves many sound files with many masks. MANIFEST is CSV with a header, or an object of JSON a line (- is "
        "standard input). Its columns are input and mask, and optionally output (a name below FOLDER), gain (dB), "
        "tail, level, seed, path (of moving sources), start and length (of the input, in seconds), align (yes: leave "
        "out the mask before its direct sound), early (milliseconds of the mask to keep after its direct sound), noise "
        "(a sound that is added) and snr (in dB). A mask or a noise that is a pattern (*, ?, [ ]) becomes one of its "
        "files, drawn by the row's seed. An output without a name becomes INPUT_MASK.EXTENSION. An input that is a tar "
        "file (.tar, .tar.gz, .tgz) becomes a tar file with the same members in the same order, its sounds convolved. "
        "haloconv-batch(1) has the details.\v"
        "The outputs do not depend on the number of workers or shares.\n\n"
        "  haloconv batch --inputs 'speech/*.wav' --masks 'rooms/*.wav' \\\n"
        "    --pairs random:1 --level rms -o wet",
    .groups = {{NULL, batch_options}, {"Moving sources:", scene_file_options}},
    OPTION_NAMES("one MANIFEST", 0, 1, struct batch_settings, names, 0)};

static int batch_parse(int argc, char **argv, struct batch_settings *s)
{
    *s = (struct batch_settings){.backend = "auto",
                                 .method = "auto",
                                 .cache_mb = 512,
                                 .dither = DITHER_TPDF,
                                 .moving.path_options = {.step = MOVING_STEP, .gain = 1},
                                 .defaults.gain = 1};
    int status = option_parse(&batch_line, argc, argv, s);
    if (status >= 0) return status;
    if (s->names.n > 0) s->list = s->names.list[0];
    s->defaults.path = s->moving.path;
    if (s->n_shards == 0 && slurm_mpi_processes() > 1)
        return message_error("mpirun has started %ld processes, and each would convolve the whole list; give each its "
                             "share by --shard I/N, or start them by srun with --shard slurm",
                             slurm_mpi_processes());
    if (s->n_shards == 0) s->n_shards = 1;
    return check_files(s);
}

/* ---- set-up ------------------------------------------------------------------------------------- */

static int count_gpus(void)
{
    char text[256];
    int n = 0;
    while (n < 64 && hc_list_devices(n + 1, text, sizeof text) == HC_OK) n++;
    return n;
}

static bool gpu_pays_off(const struct batch *batch)
{
    const struct batch_plan *p = &batch->plan;
    double bytes = 0;
    for (size_t i = 0; i < p->n_pieces; i++) /* the first file of a piece represents its length class */
        bytes += (double)batch_input_bytes(p->order[p->pieces[i]]) * (double)(p->pieces[i + 1] - p->pieces[i]);
    return gpu_pays_off_for_batch(bytes / batch->settings->n_shards, processors_usable());
}

static bool batch_choose_backend(struct batch *batch)
{
    const struct batch_settings *s = batch->settings;
    bool automatic = strcmp(s->backend, "auto") == 0;
    batch->backend = automatic ? "cpu" : s->backend;
    if (strcmp(s->backend, "cpu") == 0 || (automatic && !gpu_pays_off(batch))) return true;
    batch->n_devices = count_gpus();
    if (automatic && batch->n_devices > 0) batch->backend = "cuda";
    if (automatic || batch->n_devices > 0) return true;
    missing_gpu(batch->why, sizeof batch->why);
    return false;
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

static bool has_path(const struct manifest *manifest)
{
    size_t i = 0;
    while (i < manifest->n && !manifest->rows[i].path) i++;
    return i < manifest->n;
}

/* Allows as many open files as the system does, and returns the number of workers whose files fit: each worker has the
 * inputs and outputs of a group open, and while it loads a mask, the files of that. */
static int workers_that_fit(const struct batch *batch, int n_workers)
{
    enum { OF_A_MASK_AND_A_TAR = 8, OF_A_GPU = 64, OF_THE_PROCESS = 16 };
    const struct manifest *manifest = batch->manifest;
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return n_workers;
    const rlim_t soft = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) limit.rlim_cur = soft;
    bool is_group = strncmp(batch->backend, "cuda", 4) == 0 || has_path(manifest);
    rlim_t each = (is_group ? batch->plan.max_piece : 1) * (manifest->tars ? 3 : 2) + OF_A_MASK_AND_A_TAR;
    int lowest_free = fcntl(batch->journal.fd, F_DUPFD_CLOEXEC, 0);
    if (lowest_free >= 0) close(lowest_free);
    rlim_t others = (rlim_t)lowest_free + 1 + OF_THE_PROCESS + (rlim_t)OF_A_GPU * (rlim_t)batch->n_devices;
    rlim_t n = limit.rlim_cur > others + each ? (limit.rlim_cur - others) / each : 1;
    if (n >= (rlim_t)n_workers) return n_workers;
    message_note("ulimit -n %llu has files for %d workers, not for %d; raise it for more",
                 (unsigned long long)limit.rlim_cur, (int)n, n_workers);
    return n > 1 ? (int)n : 1;
}

/* A worker's engine has several threads if there are fewer pieces than processors. The workers of a GPU read, decode,
 * encode and write, too: 10000 files took 0.88 s with 16 workers and 1.1 s with 8, on 16 processors. */
static void choose_workers(struct batch *batch)
{
    const int64_t pieces = batch->plan.share_pieces;
    int n = processors_usable();
    batch->n_workers = batch->settings->workers ? batch->settings->workers : n > MAX_WORKERS ? MAX_WORKERS : n;
    if (batch->n_workers > pieces) batch->n_workers = pieces ? (int)pieces : 1;
    batch->n_workers = workers_that_fit(batch, batch->n_workers);
    batch->n_threads = n > batch->n_workers ? n / batch->n_workers : 1;
}

static bool open_journal(struct batch *batch)
{
    const struct journal_location location = batch_journal(batch);
    const struct batch_settings *s = batch->settings;
    return journal_open(&batch->journal, &location, s->resume, s->report != NULL, batch->why, sizeof batch->why);
}

static bool batch_read_list(struct manifest *manifest, const struct batch_settings *s, char *why, size_t cap)
{
    struct manifest_defaults defaults = s->defaults;
    char container[32] = "";
    if (s->format & SF_FORMAT_TYPEMASK) snprintf(container, sizeof container, "%s", s->format_text);
    container[strcspn(container, ":")] = 0;
    if (container[0]) defaults.extension = strcmp(container, "rf64") == 0 ? "wav" : container;
    bool good = s->list
                    ? manifest_read(manifest, s->list, &defaults, why, cap)
                    : manifest_pair(manifest, s->inputs, s->masks, s->pairs ? s->pairs : "all", &defaults, why, cap);
    if (good && scene_file_options_given(&s->moving) && !has_path(manifest)) {
        manifest_free(manifest);
        return message_write(why, cap,
                             "--%s is for moving sources, and no row has a path; leave it out, or give --path",
                             scene_file_options_given(&s->moving));
    }
    if (good && s->defaults.members && !manifest->tars) {
        manifest_free(manifest);
        return message_write(why, cap, "--members is for tar files, and no input is one; leave it out");
    }
    if (good && manifest->unused) message_note("%s: these columns are not used: %s", s->list, manifest->unused);
    return good;
}

/* ---- the run ------------------------------------------------------------------------------------ */

static void print_progress(void *data)
{
    struct batch_progress *progress = data;
    const struct batch *batch = progress->batch;
    double seconds = stopwatch_now() - progress->start;
    int64_t done = atomic_load(&batch->counts[COUNT_DONE]), resumed = atomic_load(&batch->counts[COUNT_RESUMED]);
    double left = batch_left(batch, &progress->rate, progress->start + seconds);
    char left_text[32] = "";
    if (seconds < 1) return;
    if (left >= 0) snprintf(left_text, sizeof left_text, ", %.0f s left", left);
    message_status("%lld of %lld files, %.0f a second, %.0f x real time%s", (long long)(done + resumed),
                   (long long)batch->plan.share_rows, (double)done / seconds,
                   (double)atomic_load(&batch->counts[COUNT_SOUND_US]) * 1e-6 / seconds, left_text);
}

/* Keeps glibc from returning freed memory to the system: the next file allocates as much, and the system would clear
 * each page again. */
static void keep_memory(void)
{
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
}

static void print_changes(const struct batch *batch)
{
    static const char *const kinds[N_ROW_FILES] = {"input", "mask", "noise", "path"};
    if (batch->journal.done.n_older)
        message_note("the journal of an older version has %zu file%s without the times of inputs and masks; made again",
                     batch->journal.done.n_older, message_s((int64_t)batch->journal.done.n_older));
    for (int i = 0; i < N_ROW_FILES; i++) {
        const struct changed_files *changed = &batch->changed[i];
        if (changed->n_rows)
            message_note("%lld row%s made again: %s %s %s changed", (long long)changed->n_rows,
                         message_s(changed->n_rows), kinds[i], changed->first,
                         changed->is_several ? "and others have" : "has");
    }
}

static int run_batch(struct batch *batch, double start)
{
    const struct batch_settings *s = batch->settings;
    struct part_file part = {.fd = -1};
    const bool finds_t30 = s->report != NULL;
    bool ready = batch_plan_make(batch) && batch_spares_inputs(batch) && batch_choose_backend(batch) &&
                 make_folder(s->folder, batch->why, sizeof batch->why) &&
                 (!s->report || part_file_open(&part, s->report, batch->why, sizeof batch->why)) && open_journal(batch);
    if (ready) {
        struct batch_progress progress = {.batch = batch, .start = start};
        choose_workers(batch);
        keep_memory();
        cache_open(&batch->masks, &batch_masks, &finds_t30, (int64_t)s->cache_mb << 20);
        cache_open(&batch->banks, &batch_banks, &s->moving, (int64_t)s->cache_mb << 20);
        batch_work(batch, print_progress, &progress);
        message_status("%s", "");
        print_changes(batch);
        cache_close(&batch->masks);
        cache_close(&batch->banks);
        char why[MESSAGE_CAP];
        if (!journal_close(&batch->journal, why, sizeof why)) batch_stop(batch, why);
    }
    int64_t counts[N_COUNTS];
    for (int i = 0; i < N_COUNTS; i++) counts[i] = atomic_load(&batch->counts[i]);
    if (ready && !batch->why[0]) batch_outputs_differ(batch);
    int status =
        ready ? batch_summary(batch, &part, s->json, counts, stopwatch_now() - start) : message_error("%s", batch->why);
    part_file_abandon(&part);
    return status;
}

/* Writes the options of moving sources for the journal. */
static void describe_scene_file(const struct scene_file_settings *m, char *text, size_t cap)
{
    snprintf(text, cap, " %d %d %d %.17g %.17g %d", m->path_options.step, m->path_options.mix >= 0, m->holds,
             m->path_options.reference_m, m->bank.grid_deg, m->bank.normalise);
}

int batch_command(int argc, char **argv)
{
    struct batch_settings s;
    struct manifest manifest;
    char why[MESSAGE_CAP], hashed[1024];
    int status = batch_parse(argc, argv, &s);
    if (status >= 0) return status;
    double start = stopwatch_now();
    if (!batch_read_list(&manifest, &s, why, sizeof why)) return message_error("%s", why);
    int n = snprintf(hashed, sizeof hashed, "%s %s %s%s%s%.500s", HC_VERSION, s.method,
                     s.format_text ? s.format_text : "", s.dither == DITHER_OFF ? " undithered" : "",
                     s.defaults.members ? " members " : "", s.defaults.members ? s.defaults.members : "");
    if (n < (int)sizeof hashed && has_path(&manifest))
        describe_scene_file(&s.moving, hashed + n, sizeof hashed - (size_t)n);
    struct batch *batch = calloc(1, sizeof *batch);
    if (batch) {
        *batch = (struct batch){.settings = &s, .hashed = hashed, .manifest = &manifest, .journal.fd = -1};
        pthread_mutex_init(&batch->lock, NULL);
        pthread_cond_init(&batch->engines_closed, NULL);
        status = run_batch(batch, start);
        batch_free(batch);
        pthread_cond_destroy(&batch->engines_closed);
        pthread_mutex_destroy(&batch->lock);
    } else {
        status = message_error("no memory for a batch; free some memory");
    }
    free(batch);
    manifest_free(&manifest);
    return status;
}
