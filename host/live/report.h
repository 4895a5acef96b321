/* report - the status of a session as text: the status line, the summary, and the statistics as JSON. */
#ifndef REPORT_H
#define REPORT_H

#include "session.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Writes the status line. before: session_status.times at the last status line; the peaks since then are linear. */
void report_line(const struct session_status *status, const hc_times *before, float peak_in, float peak_out,
                 bool bypass, char *text, size_t cap);

/* Returns the number of xruns, late blocks and clipped samples together. */
uint64_t report_trouble(const struct session_status *status);

void report_summary(const struct session_status *status); /* on the console */

/* Returns the statistics; NULL: no memory. */
json_t *report_json(const struct session_status *status);

/* Writes JSON (NULL: no memory for it) to a file ("-": standard output). false: why has the reason. */
bool report_write(const json_t *json, const char *path, char *why, size_t cap);

#endif
