/* report - the status of a session as text: the status line, the summary, and the statistics as JSON. */
#ifndef REPORT_H
#define REPORT_H

#include "live_command.h"
#include "host/files/part_file.h"
#include "session.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct report_levels { /* levels since report_levels_begin      */
    hc_times before;   /* session_status.times at report_levels_begin */
    float peak_in, peak_out;
};
void report_levels_begin(struct report_levels *levels, const struct session_status *status);
void report_levels_add(struct report_levels *levels, float peak_in, float peak_out);

/* Returns the median load in percent of a block's time. */
double report_load(const struct session_status *status, const struct report_levels *levels);

/* Writes the status line: the mask, BYPASSED and WAITING first, then gains that are not the default, and as many
 * statistics as fit into a number of columns. waits_for: a server or device that went away; NULL: none. */
void report_line(const struct command_target *target, const struct session_status *status,
                 const struct report_levels *levels, const char *waits_for, int columns, char *text, size_t cap);

/* Returns the number of xruns, late blocks and clipped samples together. */
uint64_t report_trouble(const struct session_status *status);

void report_summary(const struct session_status *status); /* prints on the console */

/* Returns the statistics; NULL: no memory. */
json_t *report_json(const struct session_status *status);

/* Returns the state of a scene; NULL: no memory. */
json_t *report_scene(struct live_scene *scene);

/* Opens the file of the statistics ("-": standard output), so that an error comes before the audio starts. A named pipe
 * is opened by report_write_to: opening a pipe waits for its reader. false: why has the reason. */
bool report_open(struct part_file *file, const char *path, char *why, size_t cap);

/* Writes JSON (NULL: no memory for it) to a file ("-": standard output). false: why has the reason. */
bool report_write(const json_t *json, const char *path, char *why, size_t cap);

/* Writes JSON like report_write, to the file of report_open, and closes that file. */
bool report_write_to(struct part_file *file, const json_t *json, const char *path, char *why, size_t cap);

#endif
