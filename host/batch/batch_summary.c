#include "batch_summary.h"

#include "batch_report.h"
#include "host/json_print.h"

#include <limits.h>
#include <stdio.h>

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
