#include "report.h"

#include "host/json_print.h"
#include "host/message.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Returns a quantile of the callback's durations in percent of the block's time. */
static double load_percent(const struct session_status *s, uint64_t ns)
{
    return s->info.block > 0 ? 100e-9 * (double)ns * s->info.rate / s->info.block : 0;
}

static double load_quantile(const struct session_status *s, const hc_times *times, double share)
{
    return load_percent(s, hc_times_quantile(times, share));
}

double report_load(const struct session_status *s, const struct report_levels *levels)
{
    hc_times lately = s->times; /* becomes the times since report_levels_begin */
    lately.n -= levels->before.n;
    for (int i = 0; i < HC_TIME_CLASSES; i++) lately.classes[i] -= levels->before.classes[i];
    return load_quantile(s, &lately, 0.5);
}

void report_levels_begin(struct report_levels *levels, const struct session_status *s)
{
    *levels = (struct report_levels){.before = s->times};
}

void report_levels_add(struct report_levels *levels, float peak_in, float peak_out)
{
    levels->peak_in = fmaxf(levels->peak_in, peak_in);
    levels->peak_out = fmaxf(levels->peak_out, peak_out);
}

uint64_t report_trouble(const struct session_status *s)
{
    return s->xruns + s->stats.late + s->stats.lost + s->stats.clipped;
}

/* ---- the status line --------------------------------------------------------------------------- */

/* Appends as "wet -3" a gain that is not the default, which is 0 dB, or off for "dry". */
static void list_gain(const struct command_gain *gain, const struct session *session, char *text, size_t cap)
{
    double db = round(10 * db_of_gain((double)session_get(session, gain->knob))) / 10 + 0.0; /* no -0 */
    bool is_off = db < -120;
    size_t at = strlen(text);
    if (gain->knob == HC_DRY ? is_off : db == 0) return;
    at += (size_t)snprintf(text + at, cap - at, "%s%s ", at ? ", " : " | ", gain->name);
    snprintf(text + at, cap - at, is_off ? "off" : "%.4g dB", db);
}

/* Cuts a text in its middle to at most `max` bytes, between two characters of UTF-8. */
static void shorten(char *text, size_t max)
{
    size_t n = strlen(text), head = (max - 2) * 2 / 3, tail = n - (max - 2 - head);
    if (n <= max) return;
    while (head > 0 && (text[head] & 0xc0) == 0x80) head--;
    while ((text[tail] & 0xc0) == 0x80) tail++;
    memmove(text + head + 2, text + tail, n - tail + 1);
    text[head] = text[head + 1] = '.';
}

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The parts of the status line in their order. Parts are left out until the others fit: that of the highest rank first,
 * those of rank 0 never. The mask's name has a third of the line, and more if there is space. */
enum {
    NAME,
    NUMBER,
    COMPARED,
    BYPASS,
    STATE,
    SCENE,
    GAINS,
    COUNTS,
    CLIPPED,
    PEAKS,
    BACKEND,
    LOAD,
    LOADS,
    N_PARTS,
    HIGHEST_RANK = 7
};
enum { MIN_NAME = 8, PART_CAP = 256 };

static void report_join(char parts[N_PARTS][PART_CAP], const int rank[N_PARTS], size_t max, char *text, size_t cap)
{
    size_t name = strlen(parts[NAME]), min = max / 3 > MIN_NAME ? max / 3 : MIN_NAME;
    size_t n = name < min ? name : min; /* length of all parts, with the name cut */
    for (int i = NAME + 1; i < N_PARTS; i++) n += strlen(parts[i]);
    for (int highest = HIGHEST_RANK; highest > 0; highest--)
        for (int i = 0; i < N_PARTS; i++) {
            if (rank[i] != highest || n <= max) continue;
            n -= strlen(parts[i]);
            parts[i][0] = '\0';
        }
    if (name > min) shorten(parts[NAME], n < max ? min + max - n : min);
    for (int i = 0; i < N_PARTS; i++) {
        size_t at = i > 0 ? strlen(text) : 0;
        snprintf(text + at, cap - at, "%s", parts[i]);
    }
}

/* Lost blocks, overruns and overflowed samples are left out while there are none. */
static void list_counts(const struct session_status *s, char *text, size_t cap)
{
    const hc_live_stats *stats = &s->stats;
    int n =
        snprintf(text, cap, " | xruns %llu, late %llu", (unsigned long long)s->xruns, (unsigned long long)stats->late);
    if (stats->lost) n += snprintf(text + n, cap - (size_t)n, ", lost %llu", (unsigned long long)stats->lost);
    if (stats->overruns)
        n += snprintf(text + n, cap - (size_t)n, ", overruns %llu", (unsigned long long)stats->overruns);
    if (stats->overflowed)
        snprintf(text + n, cap - (size_t)n, ", overflowed %llu", (unsigned long long)stats->overflowed);
}

void report_line(const struct command_target *target, const struct session_status *s,
                 const struct report_levels *levels, const char *waits_for, int columns, char *text, size_t cap)
{
    static const char *const states[] = {[HC_LIVE_STANDBY] = " | device lost", [HC_LIVE_LOST] = " | device lost, dry"};
    char parts[N_PARTS][PART_CAP] = {""};
    int rank[N_PARTS] = {
        [SCENE] = 3, [GAINS] = 1,  [LOAD] = 4, [LOADS] = 6, [COUNTS] = s->xruns + s->stats.late + s->stats.lost ? 2 : 5,
        [PEAKS] = 3, [BACKEND] = 7};
    int number = command_mask_number(target, s->mask);
    snprintf(parts[NAME], PART_CAP, "%.255s", file_name(s->mask));
    if (number > 0 && target->masks->n > 1) snprintf(parts[NUMBER], PART_CAP, " %d/%d", number, target->masks->n);
    if (s->stats.compared) { /* A/B */
        int i = s->stats.compared - 1;
        snprintf(parts[COMPARED], PART_CAP, " %c %s", "AB"[i],
                 message_db(db_of_gain((double)s->stats.compared_gain[i]), 1, "dB").text);
    }
    if (session_get(target->session, HC_BYPASS) != 0) snprintf(parts[BYPASS], PART_CAP, " BYPASSED");
    if (waits_for)
        snprintf(parts[STATE], PART_CAP, " WAITING for %s", waits_for);
    else if (s->stats.state != HC_LIVE_OK)
        snprintf(parts[STATE], PART_CAP, "%s", states[s->stats.state]);
    if (session_scene(target->session)) live_scene_describe(session_scene(target->session), parts[SCENE], PART_CAP);
    for (int i = 0; i < COMMAND_GAINS; i++) list_gain(&command_gains[i], target->session, parts[GAINS], PART_CAP);
    snprintf(parts[LOAD], PART_CAP, " | load %.0f %%", report_load(s, levels));
    snprintf(parts[LOADS], PART_CAP, ", p99 %.0f %%, worst %.0f %%", load_quantile(s, &s->times, 0.99),
             load_percent(s, s->times.max_ns));
    list_counts(s, parts[COUNTS], PART_CAP);
    if (s->stats.clipped) snprintf(parts[CLIPPED], PART_CAP, " | clipped %llu", (unsigned long long)s->stats.clipped);
    snprintf(parts[PEAKS], PART_CAP, " | in %s, out %s", message_db(db_of_gain((double)levels->peak_in), 1, "").text,
             message_db(db_of_gain((double)levels->peak_out), 1, "dB").text);
    snprintf(parts[BACKEND], PART_CAP, " | %s", s->info.backend);
    report_join(parts, rank, (size_t)columns - 1, text, cap);
}

void report_summary(const struct session_status *s)
{
    const hc_live_stats *stats = &s->stats;
    message_note(
        "%.1f s, %llu block%s at %d Hz on %s; of a block's time p50 %.1f %%, p99 %.1f %%, p99.9 %.1f %%, worst %.1f %%",
        s->seconds, (unsigned long long)stats->blocks, message_s((int64_t)stats->blocks), s->info.rate, s->info.device,
        load_quantile(s, &s->times, 0.5), load_quantile(s, &s->times, 0.99), load_quantile(s, &s->times, 0.999),
        load_percent(s, s->times.max_ns));
    message_note("xruns %llu, late blocks %llu, lost blocks %llu, overruns %llu, masks changed %llu",
                 (unsigned long long)s->xruns, (unsigned long long)stats->late, (unsigned long long)stats->lost,
                 (unsigned long long)stats->overruns, (unsigned long long)stats->masks);
    if (stats->clipped)
        message_note("%llu sample%s of the output exceeded full scale", (unsigned long long)stats->clipped,
                     message_s((int64_t)stats->clipped));
    if (stats->non_finite)
        message_note("replaced %llu NaN, infinite or huge sample%s of the input by 0",
                     (unsigned long long)stats->non_finite, message_s((int64_t)stats->non_finite));
    if (stats->overflowed)
        message_note("replaced %llu sample%s of the output beyond the range of a float by 0",
                     (unsigned long long)stats->overflowed, message_s((int64_t)stats->overflowed));
    if (stats->limited)
        message_note("turned the output down %llu time%s against feedback", (unsigned long long)stats->limited,
                     message_s((int64_t)stats->limited));
}

/* Returns {"A": first, "B": second}; NULL: no memory. */
static json_t *pair(double a, double b)
{
    return json_pack("[o, o]", json_number(a), json_number(b));
}

/* Returns the comparison as JSON; null: no masks are compared. */
static json_t *comparison_json(const hc_live_stats *stats)
{
    const float *loudness = stats->loudness, *gain = stats->compared_gain;
    if (!stats->compared) return json_null();
    return json_pack("{s:s, s:o, s:o}", "plays", stats->compared == 1 ? "A" : "B", "loudness_lufs",
                     pair((double)loudness[0], (double)loudness[1]), "gain_db",
                     pair(db_of_gain((double)gain[0]), db_of_gain((double)gain[1])));
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
    return json_pack("{s:f, s:I, s:I, s:o, s:f, s:I, s:I, s:I, s:I, s:I, s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:s, "
                     "s:s, s:s, s:o, "
                     "s:i, s:i, s:i, "
                     "s:o}",
                     "seconds", s->seconds, "blocks", (json_int_t)stats->blocks, "frames", (json_int_t)stats->frames,
                     "callback_us", callback, "period_us", 1e6 * info->block / info->rate, "late",
                     (json_int_t)stats->late, "lost", (json_int_t)stats->lost, "overruns", (json_int_t)stats->overruns,
                     "over" /* its old name */, (json_int_t)stats->overruns, "xruns", (json_int_t)s->xruns, "last_xrun",
                     s->last_xrun_s, "swaps", (json_int_t)stats->masks, "engines", (json_int_t)stats->rebuilds + 1,
                     "non_finite", (json_int_t)stats->non_finite, "overflowed", (json_int_t)stats->overflowed,
                     "clipped", (json_int_t)stats->clipped, "ducked", (json_int_t)stats->limited, "backend",
                     info->backend, "method", info->method, "device", info->device, "state", states[stats->state],
                     "mask", json_text(s->mask), "rate", info->rate, "block", info->block, "ready", stats->ready, "ab",
                     comparison_json(stats));
}

static json_t *json_triple(const double values[3])
{
    return json_pack("[o, o, o]", json_number(values[0]), json_number(values[1]), json_number(values[2]));
}

json_t *report_scene(struct live_scene *scene)
{
    struct listener listener;
    struct live_scene_source source;
    double angles[3];
    json_t *sources = json_array();
    for (int i = 0; i < live_scene_n_sources(scene); i++) {
        live_scene_get_source(scene, i, &source);
        json_t *entry = source.entry < 0 ? json_null() : json_integer(source.entry);
        json_array_append_new(sources,
                              json_pack("{s:o, s:o, s:b, s:o}", "aed", json_triple(source.aed), "gain_db",
                                        json_number(source.gain_db), "muted", source.is_muted, "entry", entry));
    }
    live_scene_get_listener(scene, &listener);
    listener_angles(&listener, angles);
    return json_pack("{s:o, s:{s:o, s:o}}", "sources", sources, "listener", "xyz", json_triple(listener.at), "ypr",
                     json_triple(angles));
}

bool report_open(struct part_file *file, const char *path, char *why, size_t cap)
{
    struct stat status;
    bool is_pipe = stat(path, &status) == 0 && S_ISFIFO(status.st_mode);
    return is_pipe || part_file_open(file, path, why, cap);
}

bool report_write_to(struct part_file *file, const json_t *json, const char *path, char *why, size_t cap)
{
    char *text = json ? json_dumps(json, JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(9)) : NULL;
    if (!text) return message_write(why, cap, "%s: no memory for the statistics; free some memory", path);
    bool good = file->fd >= 0 || part_file_open(file, path, why, cap);
    size_t bytes = strlen(text);
    text[bytes++] = '\n'; /* replaces the final 0 */
    for (size_t at = 0; good && at < bytes;) {
        ssize_t wrote = write(file->fd, text + at, bytes - at);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0) {
            good = message_write(why, cap, "%s: cannot be written: %s; free some space", path, strerror(errno));
            part_file_abandon(file);
        } else {
            at += (size_t)wrote;
        }
    }
    free(text);
    return good && part_file_commit(file, path, why, cap);
}

bool report_write(const json_t *json, const char *path, char *why, size_t cap)
{
    struct part_file file = {.fd = -1};
    return report_write_to(&file, json, path, why, cap);
}
