#include "batch_report.h"

#include "host/json_print.h"
#include "row_cells.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINE_FORMAT (JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(12))

static json_t *given(double number, bool is_given)
{
    return is_given ? json_number(number) : json_null();
}

/* ---- what was measured -------------------------------------------------------------------------- */

static char *figures_text(json_t *figures)
{
    char *text = figures ? json_dumps(figures, LINE_FORMAT) : NULL;
    json_decref(figures);
    if (!json_lacks_memory()) return text;
    free(text);
    return NULL;
}

char *figures_of(const struct file_job *job)
{
    const struct manifest_row *row = job->row;
    const double rate = job->in.rate;
    const bool is_cut = row->align || isfinite(row->early_ms), is_limited = job->out.bits > 0; /* floats: not limited */
    json_t *figures =
        json_pack("{s:i, s:i, s:I, s:o, s:o, s:o, s:o, s:o, s:I}", "rate", job->in.rate, "channels", job->n_out,
                  "frames", (json_int_t)job->out.written, "level_gain_db", json_db(job->level_gain), "noise_gain_db",
                  json_db(job->noise.gain), "noise_start_s", given((double)job->noise.start / rate, row->noise != NULL),
                  "direct_sound_s", given(job->mask ? job->mask->onset / rate : 0, is_cut), "peak",
                  json_number((double)sample_peak_value(&job->writer.seen)), "clipped",
                  (json_int_t)(is_limited ? job->writer.seen.clipped : 0));
    if (figures && !job->mask) json_object_set_new(figures, "t30_s", json_null()); /* a bank has many decay times */
    if (figures && job->mask && job->batch->settings->report)
        json_object_set_new(figures, "t30_s", json_number(job->mask->t30_s));
    return figures_text(figures);
}

static json_t *figures_read(const char *text)
{
    json_t *figures = text ? json_loads(text, 0, NULL) : NULL;
    if (json_is_object(figures)) return figures;
    json_decref(figures);
    return NULL;
}

enum figures_state figures_check(const char *text)
{
    json_t *figures = figures_read(text);
    if (!figures) return FIGURES_UNKNOWN;
    bool is_whole = json_object_get(figures, "t30_s") != NULL;
    json_decref(figures);
    return is_whole ? FIGURES_WHOLE : FIGURES_LACK_T30;
}

char *figures_with_t30(const char *text, double t30_s)
{
    json_t *figures = figures_read(text);
    if (figures) json_object_set_new(figures, "t30_s", json_number(t30_s));
    return figures_text(figures);
}

/* ---- the lines ---------------------------------------------------------------------------------- */

/* The keys are the column names of a list, so that a report can serve as a list. The seed is a text, because many
 * readers of JSON lack 64-bit integers. */
static json_t *cells_of(const struct batch *batch, const struct manifest_row *row)
{
    char seed[24];
    snprintf(seed, sizeof seed, "%" PRIu64, row->seed);
    return json_pack("{s:I, s:o, s:o, s:o, s:o, s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:b, s:o, s:o}", "row",
                     (json_int_t)manifest_row_number(batch->manifest, row), "input", json_name(row->input), "mask",
                     json_name(row->mask), "output", json_name(row->output), "gain",
                     row->gain > 0 ? json_db(row->gain) : json_string("off"), "tail", tail_words[row->tail], "level",
                     level_words[row->level], "seed", seed, "start", json_number(row->start_s), "length",
                     json_number(row->length_s), "noise", json_name(row->noise), "snr",
                     given(row->snr_db, row->noise != NULL), "align", row->align, "early", json_number(row->early_ms),
                     "path", json_name(row->path));
}

/* Writes the line of a row, if the row is done. false: no memory, or a file cannot be read or written. */
static bool write_line(const struct batch *batch, const struct journal_list *list, const struct manifest_row *row,
                       FILE *file)
{
    char path[PATH_MAX];
    struct stat status;
    enum row_file changed;
    if (!batch_output_path(batch, row, path, sizeof path)) return true; /* the row has failed */
    if (stat(path, &status) != 0) {
        if (errno != ENOENT && errno != ENOTDIR) return false;
        errno = 0;
        return true;
    }
    const struct journal_entry *entry = batch_entry_find(batch, list, row, &changed);
    errno = 0;
    if (!entry || entry->bytes != status.st_size || changed < N_ROW_FILES ||
        figures_check(entry->figures) != FIGURES_WHOLE)
        return errno != ENOMEM;
    json_t *line = cells_of(batch, row), *figures = figures_read(entry->figures);
    char *text = line && figures && json_object_update(line, figures) == 0 ? json_dumps(line, LINE_FORMAT) : NULL;
    if (text) json_names_write(text);
    bool good = text && !json_lacks_memory() && fputs(text, file) != EOF && putc('\n', file) != EOF;
    free(text);
    json_decref(line);
    json_decref(figures);
    return good;
}

/* Writes the lines of all rows of the batch's share that are done. list: sorted, with figures. false: why has the
 * reason. */
static bool batch_report_write(const struct batch *batch, const struct journal_list *list, struct part_file *part,
                               const char *path, char *why, size_t cap)
{
    errno = 0;
    int fd = dup(part->fd);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    bool good = file != NULL;
    for (size_t i = 0; i < batch->manifest->n && good; i++)
        if (batch->plan.in_share[i]) good = write_line(batch, list, &batch->manifest->rows[i], file);
    if (file && fclose(file) != 0) good = false;
    if (!file && fd >= 0) close(fd);
    if (!good)
        return message_write(why, cap, "%s: cannot be written: %s; choose another --report, and use --resume", path,
                             strerror(errno ? errno : ENOMEM));
    return part_file_commit(part, path, why, cap);
}

/* ---- the end of a batch ----------------------------------------------------------------------- */

/* Reads the journal of this run; to resume, those of the folder. */
static bool read_journals(const struct batch *batch, struct journal_list *list, char *why, size_t cap)
{
    bool good = !batch->settings->resume || journal_list_read_folder(list, batch->settings->folder, why, cap);
    list->n_failures = 0; /* failures of earlier runs */
    char path[PATH_MAX];
    const struct journal_location location = batch_journal(batch);
    good = good && journal_path(&location, path, sizeof path, why, cap) && journal_list_read(list, path, why, cap);
    journal_list_sort(list);
    return good;
}

static const struct manifest_row *failed_row(const struct batch *batch, const struct journal_failure *failure)
{
    static const struct manifest_row unknown = {.input = "?", .output = "?"};
    return failure->row - 1 < batch->manifest->n ? &batch->manifest->rows[failure->row - 1] : &unknown;
}

static void list_failures(const struct batch *batch, const struct journal_list *list)
{
    if (list->n_failures == 0) return;
    message_note("%zu file%s failed:", list->n_failures, message_s((int64_t)list->n_failures));
    for (size_t i = 0; i < list->n_failures; i++) {
        const struct manifest_row *row = failed_row(batch, &list->failures[i]);
        message_note("  row %zu: %s -> %s", list->failures[i].row, row->input, row->output);
    }
}

static json_t *failures_json(const struct batch *batch, const struct journal_list *list)
{
    json_t *all = json_array();
    for (size_t i = 0; i < list->n_failures; i++)
        json_array_append_new(all, json_pack("{s:I, s:o, s:o}", "row", (json_int_t)list->failures[i].row, "input",
                                             json_text(failed_row(batch, &list->failures[i])->input), "reason",
                                             json_text(list->failures[i].why)));
    return all;
}

static void report_counts(const struct batch *batch, const int64_t *counts, double seconds)
{
    char resumed[64] = "", failed[64] = "";
    if (counts[COUNT_RESUMED])
        snprintf(resumed, sizeof resumed, ", %lld from an earlier run", (long long)counts[COUNT_RESUMED]);
    if (counts[COUNT_FAILED]) snprintf(failed, sizeof failed, ", %lld failed", (long long)counts[COUNT_FAILED]);
    message_note("%s: %lld file%s%s%s; %.0f a second, %.0f x real time on %s", batch->settings->folder,
                 (long long)counts[COUNT_DONE], message_s(counts[COUNT_DONE]), resumed, failed,
                 (double)counts[COUNT_DONE] / seconds, (double)counts[COUNT_SOUND_US] * 1e-6 / seconds,
                 batch->device[0] ? batch->device : batch->backend);
    if (counts[COUNT_CLIPPED_FILES])
        message_note("%lld sample%s clipped in %lld file%s; lower --gain, or use --level",
                     (long long)counts[COUNT_CLIPPED_SAMPLES], message_s(counts[COUNT_CLIPPED_SAMPLES]),
                     (long long)counts[COUNT_CLIPPED_FILES], message_s(counts[COUNT_CLIPPED_FILES]));
}

/* Seconds of all workers; they wait for the disk in read and write. */
static json_t *times_json(const int64_t *counts)
{
    static const struct {
        const char *name;
        enum batch_count count;
    } parts[] = {
        {"read", COUNT_READ_US}, {"masks", COUNT_MASKS_US}, {"convolve", COUNT_CONVOLVE_US}, {"write", COUNT_WRITE_US}};
    json_t *times = json_object();
    int64_t other = counts[COUNT_WORKERS_US];
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        json_object_set_new(times, parts[i].name, json_real((double)counts[parts[i].count] * 1e-6));
        other -= counts[parts[i].count];
    }
    json_object_set_new(times, "other", json_real((double)other * 1e-6));
    return times;
}

static int run_json(const struct batch *batch, const struct journal_list *list, const int64_t *counts, double seconds)
{
    json_t *all = json_pack("{s:I, s:I, s:I, s:o, s:I, s:I, s:f, s:f, s:f, s:I, s:I, s:s, s:s, s:i, s:o}", "done",
                            (json_int_t)counts[COUNT_DONE], "resumed", (json_int_t)counts[COUNT_RESUMED], "failed",
                            (json_int_t)counts[COUNT_FAILED], "failures", failures_json(batch, list), "frames_in",
                            (json_int_t)counts[COUNT_FRAMES_IN], "frames_out", (json_int_t)counts[COUNT_FRAMES_OUT],
                            "seconds", seconds, "files_a_second", (double)counts[COUNT_DONE] / seconds,
                            "times_realtime", (double)counts[COUNT_SOUND_US] * 1e-6 / seconds, "clipped_samples",
                            (json_int_t)counts[COUNT_CLIPPED_SAMPLES], "clipped_files",
                            (json_int_t)counts[COUNT_CLIPPED_FILES], "backend", batch->backend, "device", batch->device,
                            "workers", batch->n_workers, "times", times_json(counts));
    return json_print(all, 9, "batch");
}

int batch_summary(const struct batch *batch, struct part_file *part, bool json, const int64_t *counts, double seconds)
{
    const char *report = batch->settings->report;
    int status = batch->why[0] ? message_error("%s", batch->why) : counts[COUNT_FAILED] ? EXIT_FAILED : 0;
    struct journal_list list = {.keeps_figures = true};
    char why[MESSAGE_CAP];
    bool good = (!report && counts[COUNT_FAILED] == 0) || read_journals(batch, &list, why, sizeof why);
    list_failures(batch, &list);
    if (good && report) good = batch_report_write(batch, &list, part, report, why, sizeof why);
    if (!good) status = message_error("%s", why);
    report_counts(batch, counts, seconds);
    if (json && run_json(batch, &list, counts, seconds) != 0) status = EXIT_FAILED;
    journal_list_free(&list);
    return status;
}
