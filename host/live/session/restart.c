#include "restart.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char NAME[] = "HALOCONV_RESTART"; /* environment variable with the state as JSON */

/* hc_times as an array of numbers: n, max_ns and the classes. */
enum { N_TIMES = sizeof(hc_times) / sizeof(uint64_t) };

/* Makes an array of [index, value], without values of 0: few classes of hc_times are in use. */
static json_t *write_array(const uint64_t *values, int n)
{
    json_t *array = json_array();
    for (int i = 0; i < n; i++)
        if (values[i]) json_array_append_new(array, json_pack("[i, I]", i, (json_int_t)values[i]));
    return array;
}

static void read_array(const json_t *array, uint64_t *values, int n)
{
    size_t k;
    const json_t *entry;
    json_array_foreach(array, k, entry)
    {
        json_int_t i = json_integer_value(json_array_get(entry, 0));
        if (i >= 0 && i < n) values[i] = (uint64_t)json_integer_value(json_array_get(entry, 1));
    }
}

static json_t *write_status(struct session_status *status)
{
    return json_pack(
        "{s:f, s:f, s:I, s:o, s:I, s:o}", "seconds", status->seconds, "last_xrun", status->last_xrun_s, "xruns",
        (json_int_t)status->xruns, "counters", write_array(session_counters(status), SESSION_COUNTERS), "overflowed",
        (json_int_t)status->stats.overflowed, "times", write_array((uint64_t *)(void *)&status->times, N_TIMES));
}

static void restart_read_status(const json_t *json, struct session_status *status)
{
    status->seconds = json_number_value(json_object_get(json, "seconds"));
    status->last_xrun_s = json_number_value(json_object_get(json, "last_xrun"));
    status->xruns = (uint64_t)json_integer_value(json_object_get(json, "xruns"));
    read_array(json_object_get(json, "counters"), session_counters(status), SESSION_COUNTERS);
    status->stats.overflowed = (uint64_t)json_integer_value(json_object_get(json, "overflowed"));
    read_array(json_object_get(json, "times"), (uint64_t *)(void *)&status->times, N_TIMES);
}

void restart_run(char **argv, struct session *session, const char *osc, json_t *more)
{
    char program[PATH_MAX];
    static struct session_state state; /* too large for a stack */
    struct session_status status;
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    session_state_record(session, &state);
    session_get_status(session, &status);
    json_t *json = json_pack("{s:o, s:s*, s:o, s:o*}", "state", session_state_json(&state), "osc", osc, "before",
                             write_status(&status), "more", more);
    /* Linux accepts a variable of 128 KiB: 1024 sources fit with nine digits, which are enough for floats. */
    char *text = json ? json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(json);
    if (n > 0 && text && setenv(NAME, text, 1) == 0) {
        program[n] = 0;
        execv(program, argv);
    }
    unsetenv(NAME);
    free(text);
}

bool restart_read(struct restart *restart)
{
    *restart = (struct restart){.state = {.wet = 1, .gain = 1}};
    const char *text = getenv(NAME);
    json_t *json = text ? json_loads(text, 0, NULL) : NULL;
    unsetenv(NAME);
    if (!json) return false;
    const char *osc = json_string_value(json_object_get(json, "osc"));
    snprintf(restart->osc, sizeof restart->osc, "%s", osc ? osc : "");
    session_state_read(json_object_get(json, "state"), &restart->state);
    restart_read_status(json_object_get(json, "before"), &restart->before);
    restart->more = json_incref(json_object_get(json, "more"));
    json_decref(json);
    return true;
}

void restart_free(struct restart *restart)
{
    json_decref(restart->more);
    restart->more = NULL;
}
