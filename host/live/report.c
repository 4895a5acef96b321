#include "report.h"

#include "host/files/part_file.h"
#include "host/json_print.h"
#include "host/message.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Percent of the block's time. */
static double load_percent(const struct session_status *s, uint64_t ns)
{
    return s->info.block > 0 ? 100e-9 * (double)ns * s->info.rate / s->info.block : 0;
}

static double load_quantile(const struct session_status *s, const hc_times *times, double share)
{
    return load_percent(s, hc_times_quantile(times, share));
}

static uint64_t late_blocks(const struct session_status *s)
{
    return s->stats.late + s->stats.lost;
}

uint64_t report_trouble(const struct session_status *s)
{
    return s->xruns + late_blocks(s) + s->stats.clipped;
}

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

void report_line(const struct session_status *s, const hc_times *before, float peak_in, float peak_out, bool bypass,
                 char *text, size_t cap)
{
    static const char *const states[] = {
        [HC_LIVE_OK] = "", [HC_LIVE_STANDBY] = " (device lost)", [HC_LIVE_LOST] = " lost, dry"};
    hc_times lately = s->times;
    hc_times_subtract(&lately, before);
    char clipped[48] = "";
    if (s->stats.clipped) snprintf(clipped, sizeof clipped, ", clipped %llu", (unsigned long long)s->stats.clipped);
    snprintf(text, cap,
             "%s%s | load %.0f %%, p99 %.0f %%, worst %.0f %% | xruns %llu, late %llu | in %.1f, out %.1f dB%s | %s%s",
             s->info.backend, states[s->stats.state], load_quantile(s, &lately, 0.5), load_quantile(s, &s->times, 0.99),
             load_percent(s, s->times.max_ns), (unsigned long long)s->xruns, (unsigned long long)late_blocks(s),
             20 * log10((double)peak_in), 20 * log10((double)peak_out), clipped, file_name(s->mask),
             bypass ? ", bypassed" : "");
}

void report_summary(const struct session_status *s)
{
    const hc_live_stats *stats = &s->stats;
    message_note(
        "%.1f s, %llu blocks at %d Hz on %s; of a block's time p50 %.1f %%, p99 %.1f %%, p99.9 %.1f %%, worst %.1f %%",
        s->seconds, (unsigned long long)stats->blocks, s->info.rate, s->info.device, load_quantile(s, &s->times, 0.5),
        load_quantile(s, &s->times, 0.99), load_quantile(s, &s->times, 0.999), load_percent(s, s->times.max_ns));
    message_note("xruns %llu, late blocks %llu, callbacks over time %llu, masks changed %llu",
                 (unsigned long long)s->xruns, (unsigned long long)late_blocks(s), (unsigned long long)stats->over,
                 (unsigned long long)stats->masks);
    if (stats->clipped)
        message_note("%llu samples of the output were over full scale", (unsigned long long)stats->clipped);
    if (stats->non_finite)
        message_note("%llu samples of the input were NaN or infinite and were replaced by 0",
                     (unsigned long long)stats->non_finite);
    if (stats->limited) message_note("turned down %llu times against feedback", (unsigned long long)stats->limited);
}

json_t *report_json(const struct session_status *s)
{
    static const char *const states[] = {
        [HC_LIVE_OK] = "ok", [HC_LIVE_STANDBY] = "standby", [HC_LIVE_LOST] = "bypassed"};
    const hc_live_info *info = &s->info;
    const hc_live_stats *stats = &s->stats;
    json_t *callback =
        json_pack("{s:f, s:f, s:f, s:f}", "p50", 1e-3 * (double)hc_times_quantile(&s->times, 0.5), "p99",
                  1e-3 * (double)hc_times_quantile(&s->times, 0.99), "p99.9",
                  1e-3 * (double)hc_times_quantile(&s->times, 0.999), "max", 1e-3 * (double)s->times.max_ns);
    return json_pack(
        "{s:f, s:I, s:I, s:o, s:f, s:I, s:I, s:I, s:f, s:I, s:I, s:I, s:I, s:I, s:s, s:s, s:s, s:s, s:o, s:i, s:i}",
        "seconds", s->seconds, "blocks", (json_int_t)stats->blocks, "frames", (json_int_t)stats->frames, "callback_us",
        callback, "period_us", 1e6 * info->block / info->rate, "late", (json_int_t)late_blocks(s), "over",
        (json_int_t)stats->over, "xruns", (json_int_t)s->xruns, "last_xrun", s->last_xrun_s, "swaps",
        (json_int_t)stats->masks, "engines", (json_int_t)stats->rebuilds + 1, "non_finite",
        (json_int_t)stats->non_finite, "clipped", (json_int_t)stats->clipped, "ducked", (json_int_t)stats->limited,
        "backend", info->backend, "method", info->method, "device", info->device, "state", states[stats->state], "mask",
        json_text(s->mask), "rate", info->rate, "block", info->block);
}

bool report_write(const json_t *json, const char *path, char *why, size_t cap)
{
    char *text = json ? json_dumps(json, JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(9)) : NULL;
    if (!text) return message_write(why, cap, "%s: no memory for the statistics; free some", path);
    struct part_file part;
    bool good = part_file_open(&part, path, why, cap);
    size_t bytes = strlen(text);
    text[bytes++] = '\n'; /* in the place of the final 0 */
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
