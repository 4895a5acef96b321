/* report - how a session fares, in words: the status line, the summary, and the statistics as JSON. */
#ifndef REPORT_H
#define REPORT_H

#include "session.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Of the last interval: view is what session_status.times was at its start; peaks are linear. */
void report_line(const struct session_status *status, const hc_times *before, float peak_in,
                 float peak_out, bool bypass, char *text, size_t cap);

void report_summary(const struct session_status *status); /* on the console */

json_t *report_json(const struct session_status *status);

/* Write the JSON (NULL: there was no memory for it) to a file ("-": standard output). false: why has the reason. */
bool report_write(const json_t *json, const char *path, char *why, size_t cap);

#endif
