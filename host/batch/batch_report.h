/* batch_report - the file of --report: a line of JSON for each output, in the order of the list.
 *
 *   worker:  file job --> figures_of --> journal                       what was measured: peak, gains, T30, ...
 *   at the end:           journals of this run --> batch_report_write        with the cells of the row
 *
 * All figures pass through the journals, so the report is the same for any number of workers and shares, and after
 * --resume.
 */
#ifndef BATCH_REPORT_H
#define BATCH_REPORT_H

#include "batch_run.h"
#include "file_job.h"
#include "host/files/part_file.h"

/* The figures of a job that is complete, as JSON without blanks; the caller frees them. NULL: no memory. They have the
 * decay time of the mask only if the batch writes a report. */
char *figures_of(const struct file_job *job);

enum figures_state { FIGURES_WHOLE, FIGURES_LACK_T30, FIGURES_UNKNOWN /* written by an older version, or damaged */ };
enum figures_state figures_check(const char *figures); /* NULL is unknown */

/* The same figures with a decay time; the caller frees them. NULL: no memory. */
char *figures_with_t30(const char *figures, double t30_s);

/* ---- the end of a batch ----------------------------------------------------------------------- */

/* The output at the end of a batch: failures, counts, --json and --report. */

/* Prints the summary, after the journal is closed. part: the open report, if
 * --report is given. counts[N_COUNTS]; seconds: duration of the run. Returns the exit status. */
int batch_summary(const struct batch *batch, struct part_file *part, bool json, const int64_t *counts, double seconds);

#endif
