#include "report.h"

#include "console.h"
#include "host/files/part_file.h"
#include "host/message.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Share of the block's time, in percent. */
static double load(const struct session_status *s, uint64_t ns)
{
    return s->block > 0 ? 100e-9 * (double)ns * s->rate / s->block : 0;
}

static void write_db(char *text, size_t cap, float peak)
{
    if (peak > 0)
        snprintf(text, cap, "%.1f", 20 * log10((double)peak));
    else
        snprintf(text, cap, "-inf");
}

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

void report_line(const struct session_status *s, const hc_times *before, float peak_in, float peak_out, bool bypass,
                 char *text, size_t cap)
{
    hc_times lately = s->times;
    hc_times_subtract(&lately, before);
    char in_db[16], out_db[16], clipped[48] = "";
    write_db(in_db, sizeof in_db, peak_in);
    write_db(out_db, sizeof out_db, peak_out);
    if (s->clipped) snprintf(clipped, sizeof clipped, ", clipped %llu", (unsigned long long)s->clipped);
    snprintf(text, cap,
             "%s%s | load %.0f %%, p99 %.0f %%, worst %.0f %% | xruns %llu, late %llu | in %s, out %s dB%s | %s%s",
             s->backend,
             strcmp(s->state, "well") == 0 ? ""
             : s->state[0] == 'd'          ? " lost, dry"
                                           : " (device lost)",
             load(s, hc_times_quantile(&lately, 0.5)), load(s, hc_times_quantile(&s->times, 0.99)),
             load(s, s->times.max_ns), (unsigned long long)s->xruns, (unsigned long long)s->late, in_db, out_db,
             clipped, name_of(s->mask), bypass ? ", bypassed" : "");
}

void report_summary(const struct session_status *s)
{
    console_say(
        "%.1f s, %llu blocks at %d Hz on %s; of a block's time p50 %.1f %%, p99 %.1f %%, p99.9 %.1f %%, worst %.1f %%",
        s->seconds, (unsigned long long)s->blocks, s->rate, s->device, load(s, hc_times_quantile(&s->times, 0.5)),
        load(s, hc_times_quantile(&s->times, 0.99)), load(s, hc_times_quantile(&s->times, 0.999)),
        load(s, s->times.max_ns));
    console_say("xruns %llu, late blocks %llu, callbacks over time %llu, masks changed %llu",
                (unsigned long long)s->xruns, (unsigned long long)s->late, (unsigned long long)s->over,
                (unsigned long long)s->swaps);
    if (s->clipped) console_say("%llu samples of the output were over full scale", (unsigned long long)s->clipped);
    if (s->non_finite)
        console_say("%llu samples of the input were NaN or infinite and were replaced by 0",
                    (unsigned long long)s->non_finite);
    if (s->ducked) console_say("turned down %llu times against feedback", (unsigned long long)s->ducked);
}

static json_t *text_of(const char *text)
{
    json_t *json = json_string(text);
    return json ? json : json_string("(not UTF-8)");
}

json_t *report_json(const struct session_status *s)
{
    json_t *callback =
        json_pack("{s:f, s:f, s:f, s:f}", "p50", 1e-3 * (double)hc_times_quantile(&s->times, 0.5), "p99",
                  1e-3 * (double)hc_times_quantile(&s->times, 0.99), "p99.9",
                  1e-3 * (double)hc_times_quantile(&s->times, 0.999), "max", 1e-3 * (double)s->times.max_ns);
    return json_pack(
        "{s:f, s:I, s:I, s:o, s:f, s:I, s:I, s:I, s:f, s:I, s:I, s:I, s:I, s:I, s:s, s:s, s:s, s:s, s:o, s:i, "
        "s:i}",
        "seconds", s->seconds, "blocks", (json_int_t)s->blocks, "frames", (json_int_t)s->frames, "callback_us",
        callback, "period_us", 1e6 * s->block / s->rate, "late", (json_int_t)s->late, "over", (json_int_t)s->over,
        "xruns", (json_int_t)s->xruns, "last_xrun", s->last_xrun_s, "swaps", (json_int_t)s->swaps, "engines",
        (json_int_t)s->rigs + 1, "non_finite", (json_int_t)s->non_finite, "clipped", (json_int_t)s->clipped, "ducked",
        (json_int_t)s->ducked, "backend", s->backend, "method", s->method, "device", s->device, "state", s->state,
        "mask", text_of(s->mask), "rate", s->rate, "block", s->block);
}

bool report_write(const json_t *json, const char *path, char *why, size_t cap)
{
    char *text = json ? json_dumps(json, JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(9)) : NULL;
    if (!text) return message_write(why, cap, "%s: no memory for the statistics; free some", path);
    struct part_file part;
    bool good = part_file_open(&part, path, why, cap);
    size_t bytes = strlen(text);
    text[bytes++] = '\n'; /* in place of the end */
    for (size_t at = 0; good && at < bytes;) {
        ssize_t wrote = write(part.fd, text + at, bytes - at);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0) {
            good = message_write(why, cap, "%s: cannot be written: %s; free some space", path, strerror(errno));
            part_file_abandon(&part);
        } else {
            at += (size_t)wrote;
        }
    }
    free(text);
    return good && part_file_commit(&part, path, why, cap);
}
