/* batch_summary - the output at the end of a batch: failures, counts, --json and --report. */
#ifndef BATCH_SUMMARY_H
#define BATCH_SUMMARY_H

#include "batch_run.h"

#include "host/files/part_file.h"

/* Prints the summary, after the journal is closed. part: the open report, if
 * --report is given. counts[N_COUNTS]; seconds: duration of the run. Returns the exit status. */
int batch_summary(const struct batch *batch, struct part_file *part, bool json, const int64_t *counts, double seconds);

#endif
