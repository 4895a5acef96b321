/* configuration_responses - what a configuration says, carried out in its order.
 *
 *   pair     an input and an output: a list of parts that add, or a link to another pair (/impulse/copy)
 *   part     taps that lie somewhere, a gain and a delay: a piece of a sound file, a Hilbert transformer, a single 1
 *
 * Parts point at shared taps: a file is read once, and a million pairs may play the same piece of it. Only a pair with
 * several parts gets memory of its own, for their sum. At the end every pair with data becomes one route.
 */
#include "configuration_responses.h"

#include "configuration.h"
#include "dsp/engine/backend.h"
#include "mask_file.h"
#include "pieces.h"
#include "remarks.h"
#include "resample.h"

#include <errno.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <search.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    HILBERT_MAX = 65536,
};
#define TEXT_MAX ((size_t)1 << 30) /* bytes of a configuration */

struct part {
    const float *taps;
    int n_taps, delay;
    float gain;
    int next; /* of the same pair; index of parts + 1, 0 = the last */
};

struct pair {
    int first, last; /* index of parts + 1; 0 = no data                        */
    int link;        /* the pair whose data it plays, + 1; 0 = its own         */
    int line;        /* of its first data, or of its copy                      */
};

struct segment {
    int channel, offset, length;
    float *taps;
    int n_taps;
}; /* of a sound, resampled */

struct sound {
    struct mask_file file; /* read when it is first needed                               */
    bool is_read, is_bad;
    char *path;
    float peak;          /* largest magnitude                                          */
    bool is_played;      /* parts point into file                                      */
    void *segments;      /* tsearch(3) of struct segment                               */
    int code, line;      /* of what is wrong with it, said at the end: once, however   */
    const char *command; /*   many lines name it                                       */
    char *why;
    int n_named;
};

struct builder {
    struct configuration *c;
    struct pieces *pieces;
    int rate;
    bool keep_rate;
    bool names_only;
    bool has_gaps;        /* a file is bad: pairs lack the data that it was to give them */
    struct sound *sounds; /* [c->n_files]         */
    struct pair *pairs;   /* [n_pairs], out + in * c->n_out */
    int n_pairs;
    struct part *parts;
    int n_parts;
    size_t parts_cap;
    float **hilbert; /* [HILBERT_MAX / 2 + 1], by half their length */
    size_t file_bytes;
};

static const char *const names[] = {"/impulse/read", "/impulse/dirac", "/impulse/hilbert", "/impulse/copy",
                                    "/impulse/packedmatrix"};

#define WARN(b, i, ...) remark(&(b)->c->remarks, HC_OK, (i)->line, names[(i)->kind], __VA_ARGS__)
#define REFUSE(b, i, ...) remark(&(b)->c->remarks, HC_EINVAL, (i)->line, names[(i)->kind], __VA_ARGS__)

/* ---- folders and files -------------------------------------------------------------------------- */

static char *joined(struct pieces *pieces, const char *folder, size_t length, const char *name)
{
    size_t bytes = length + strlen(name) + 2;
    char *path = pieces_alloc(pieces, bytes, 1);
    if (path)
        snprintf(path, bytes, "%.*s%s%s", (int)length, folder, length && folder[length - 1] != '/' ? "/" : "", name);
    return path;
}

/* A name beside the configuration. */
static char *beside(struct builder *b, const char *name)
{
    const char *path = b->c->remarks.path, *slash = strrchr(path, '/');
    return joined(b->pieces, path, slash ? (size_t)(slash - path) + 1 : 0, name);
}

/* jconvolver takes a relative /cd from the folder that it was started in, folve and mcfx_convolver from the
 * configuration's. What is there decides, the configuration's first. */
static const char *folder_find(struct builder *b, struct folder *folder)
{
    struct stat ours, theirs;
    if (folder->found) return folder->found;
    folder->found = folder->path;
    if (*folder->path == '/') return folder->found;
    char *near_file = beside(b, folder->path);
    if (!near_file) return folder->found;
    bool is_ours = stat(near_file, &ours) == 0 && S_ISDIR(ours.st_mode);
    bool is_theirs = stat(folder->path, &theirs) == 0 && S_ISDIR(theirs.st_mode);
    if (is_ours || !is_theirs) folder->found = near_file;
    if (is_ours && (!is_theirs || ours.st_dev != theirs.st_dev || ours.st_ino != theirs.st_ino))
        remark(
            &b->c->remarks, HC_OK, folder->line, "/cd",
            "%s is taken from the configuration's folder, but by jconvolver from where it is started; write it in full",
            folder->path);
    if (!is_ours && is_theirs)
        remark(&b->c->remarks, HC_OK, folder->line, "/cd",
               "%s is taken from the working directory, since the configuration's folder has none; write it in full",
               folder->path);
    return folder->found;
}

static char *sound_path(struct builder *b, const struct sound_name *name)
{
    if (*name->name == '/') return pieces_text(b->pieces, name->name);
    if (!name->folder) return beside(b, name->name);
    const char *folder = folder_find(b, name->folder);
    return joined(b->pieces, folder, strlen(folder), name->name);
}

static void sound_is_bad(struct builder *b, struct sound *s, const struct impulse *i, int code, const char *why)
{
    s->is_bad = b->has_gaps = true;
    s->code = code;
    s->line = i->line;
    s->command = names[i->kind];
    s->why = pieces_text(b->pieces, why);
}

/* Now, and where it stays so: the rest of the session would not know which. */
static void say_rate(struct builder *b, const struct sound *s, const struct impulse *i)
{
    if (!s->file.rate || !b->rate || s->file.rate == b->rate) return;
    if (b->keep_rate)
        WARN(b, i, "%s: its %d Hz are played at %d Hz", s->path, s->file.rate, b->rate);
    else
        WARN(b, i, "%s: resampled from %d to %d Hz", s->path, s->file.rate, b->rate);
}

static void sound_read(struct builder *b, struct sound *s, const struct impulse *i)
{
    char why[REMARK_CAP / 2];
    s->is_read = true;
    s->path = sound_path(b, b->c->files[i->file]);
    if (!s->path) return; /* memory is short: nothing comes of it all */
    int code = mask_file_read(&s->file, s->path, why, sizeof why);
    if (code) {
        sound_is_bad(b, s, i, code, why);
        return;
    }
    size_t samples = (size_t)s->file.n_channels * (size_t)s->file.n_frames;
    b->file_bytes += samples * sizeof(float);
    if (b->file_bytes + b->pieces->bytes > b->pieces->limit) b->pieces->is_short = true;
    for (size_t k = 0; k < samples; k++) s->peak = fmaxf(s->peak, fabsf(s->file.channel[0][k]));
    say_rate(b, s, i);
}

/* The file of a command, or NULL: that it is bad is said at the end. */
static struct sound *sound_of(struct builder *b, const struct impulse *i)
{
    struct sound *s = &b->sounds[i->file];
    if (!s->is_read) sound_read(b, s, i);
    s->n_named++;
    return s->file.channel ? s : NULL;
}

static bool is_resampled(const struct builder *b, const struct sound *s)
{
    return !b->keep_rate && b->rate && s->file.rate && s->file.rate != b->rate;
}

/* ---- taps --------------------------------------------------------------------------------------- */

/* The pieces at[n] of length frames each, at the session's rate. Cut first, then resampled: what lies beside a piece in
 * its file would ring into it. false: said why. */
static bool resample_pieces(struct builder *b, const struct sound *s, const struct impulse *i, const float *const *at,
                            int n, int length, float **taps, int *n_taps)
{
    char why[REMARK_CAP / 2];
    int code = resample_length(s->file.rate, b->rate, length, s->path, n_taps, why, sizeof why);
    float *all = code ? NULL : pieces_alloc(b->pieces, (size_t)n * (size_t)*n_taps, sizeof *all);
    if (!code && !all) return false;
    for (int k = 0; !code && k < n; k++) taps[k] = all + (size_t)k * (size_t)*n_taps;
    if (!code) code = resample(s->file.rate, b->rate, n, at, length, taps, *n_taps, s->path, why, sizeof why);
    if (code) remark(&b->c->remarks, code, i->line, names[i->kind], "%s", why);
    return !code;
}

static int by_place(const void *a, const void *b)
{
    const struct segment *p = a, *q = b;
    if (p->channel != q->channel) return p->channel < q->channel ? -1 : 1;
    if (p->offset != q->offset) return p->offset < q->offset ? -1 : 1;
    return (p->length > q->length) - (p->length < q->length);
}

/* A piece of a channel, resampled once however often it is asked for. NULL: said why. */
static const float *segment(struct builder *b, struct sound *s, const struct impulse *i, int length, int *n_taps)
{
    struct segment key = {.channel = i->channel, .offset = i->offset, .length = length};
    void *known = tfind(&key, &s->segments, by_place);
    if (known) {
        *n_taps = (*(struct segment **)known)->n_taps;
        return (*(struct segment **)known)->taps;
    }
    const float *at = s->file.channel[i->channel] + i->offset;
    struct segment *new = pieces_alloc(b->pieces, 1, sizeof *new);
    if (!new || !resample_pieces(b, s, i, &at, 1, length, &key.taps, &key.n_taps)) return NULL;
    *new = key;
    if (!tsearch(new, &s->segments, by_place)) b->pieces->is_short = true;
    *n_taps = key.n_taps;
    return key.taps;
}

/* x[h - k] = v, x[h + k] = -v for odd k: the middle is at h = half. */
static const float *hilbert(struct builder *b, int half)
{
    const double pi = 3.141592653589793;
    if (!b->hilbert) b->hilbert = pieces_alloc(b->pieces, HILBERT_MAX / 2 + 1, sizeof *b->hilbert);
    if (!b->hilbert || b->hilbert[half]) return b->hilbert ? b->hilbert[half] : NULL;
    float *x = pieces_alloc(b->pieces, 2 * (size_t)half, sizeof *x);
    if (!x) return NULL;
    for (int k = 1; k < half; k += 2) {
        double v = 2 / (pi * k) * (0.43 + 0.57 * cos(k * pi / half));
        x[half - k] = (float)v;
        x[half + k] = (float)-v;
    }
    return b->hilbert[half] = x;
}

/* ---- pairs -------------------------------------------------------------------------------------- */

static struct pair *pair_of(const struct builder *b, int in, int out)
{
    return &b->pairs[in * b->c->n_out + out];
}

/* The pair whose data a pair plays. Links on the way are shortened, so that a million of them stay quick. */
static int root_of(const struct builder *b, int pair)
{
    int root = pair;
    while (b->pairs[root].link) root = b->pairs[root].link - 1;
    while (b->pairs[pair].link) {
        int next = b->pairs[pair].link - 1;
        b->pairs[pair].link = root + 1;
        pair = next;
    }
    return root;
}

static bool part_append(struct builder *b, struct pair *pair, struct part part)
{
    if ((size_t)b->n_parts == b->parts_cap) {
        size_t cap = b->parts_cap ? b->parts_cap * 2 : 64;
        struct part *parts = cap < INT_MAX ? realloc(b->parts, cap * sizeof *parts) : NULL;
        if (!parts) return !(b->pieces->is_short = true);
        b->parts = parts;
        b->parts_cap = cap;
    }
    b->parts[b->n_parts++] = part;
    if (pair->last) b->parts[pair->last - 1].next = b->n_parts;
    if (!pair->first) pair->first = b->n_parts;
    pair->last = b->n_parts;
    return true;
}

static void part_add(struct builder *b, const struct impulse *i, int in, int out, const float *taps, int n_taps,
                     int delay)
{
    struct pair *pair = pair_of(b, in, out);
    if (pair->link) {
        WARN(b, i,
             "input %d, output %d is a copy since line %d, and what is added to a copy is ignored; "
             "add it to the pair that it copies",
             in + 1, out + 1, pair->line);
        return;
    }
    if (!pair->first) pair->line = i->line;
    part_append(b, pair, (struct part){.taps = taps, .n_taps = n_taps, .delay = delay, .gain = i->gain});
}

/* What the maximum length leaves of n frames behind a delay; it is said when that is less. */
static int room_for(struct builder *b, const struct impulse *i, int n, int delay)
{
    const struct configuration *c = b->c;
    if (delay >= c->max_taps) {
        WARN(b, i, "a delay of %d leaves nothing of the maximum length %d; raise it in /convolver/new", delay,
             c->max_taps);
        return 0;
    }
    if (n <= c->max_taps - delay) return n;
    WARN(b, i, "cut from %d to %d frames by the maximum length %d; raise it in /convolver/new", n, c->max_taps - delay,
         c->max_taps);
    return c->max_taps - delay;
}

/* The frames that offset and length leave of n; 0 = none: said why. */
static int length_of(struct builder *b, const struct impulse *i, const struct sound *s, int n)
{
    if (i->offset >= n) {
        REFUSE(b, i, "offset %d, but %s has %d frames; give a smaller one", i->offset, s->path, n);
        return 0;
    }
    if (i->length <= n - i->offset) return i->length ? i->length : n - i->offset;
    WARN(b, i, "length %d, but %s has %d frames from offset %d on; these are taken", i->length, s->path, n - i->offset,
         i->offset);
    return n - i->offset;
}

static bool gain_fits(struct builder *b, const struct impulse *i, const struct sound *s)
{
    if ((double)s->peak * fabs((double)i->gain) <= (double)FLT_MAX) return true;
    REFUSE(b, i, "the gain %g makes %s infinite; give a smaller one", (double)i->gain, s->path);
    return false;
}

/* ---- the commands ------------------------------------------------------------------------------- */

static void do_read(struct builder *b, const struct impulse *i)
{
    struct sound *s = sound_of(b, i);
    if (!s) return;
    if (i->channel >= s->file.n_channels) {
        REFUSE(b, i, "channel %d, but %s has %d; they count from 1", i->channel + 1, s->path, s->file.n_channels);
        return;
    }
    int n_taps = length_of(b, i, s, s->file.n_frames);
    if (n_taps == 0 || !gain_fits(b, i, s)) return;
    const float *taps = s->file.channel[i->channel] + i->offset;
    if (is_resampled(b, s))
        taps = segment(b, s, i, n_taps, &n_taps);
    else
        s->is_played = true;
    n_taps = room_for(b, i, n_taps, i->delay);
    if (taps && n_taps > 0) part_add(b, i, i->in, i->out, taps, n_taps, i->delay);
}

static void do_packed(struct builder *b, const struct impulse *i)
{
    struct sound *s = sound_of(b, i);
    if (!s) return;
    int n_in = i->in, n_out = s->file.n_channels, frames = s->file.n_frames / n_in;
    if (frames * n_in != s->file.n_frames) {
        REFUSE(b, i, "%s has %d frames, which %d inputs do not divide; give the number that it was made for", s->path,
               s->file.n_frames, n_in);
        return;
    }
    if (n_out > b->c->n_out) {
        REFUSE(b, i, "%s has %d channels, but /convolver/new gave %d outputs; give it as many", s->path, n_out,
               b->c->n_out);
        return;
    }
    int length = length_of(b, i, s, frames), n_taps = length;
    if (length == 0 || !gain_fits(b, i, s)) return;
    size_t n = (size_t)n_in * (size_t)n_out;
    const float **at = calloc(n, sizeof *at);
    float **taps = calloc(n, sizeof *taps);
    for (size_t k = 0; at && k < n; k++)
        at[k] = s->file.channel[k / (size_t)n_in] + k % (size_t)n_in * (size_t)frames + i->offset;
    bool good = at && taps && (!is_resampled(b, s) || resample_pieces(b, s, i, at, (int)n, length, taps, &n_taps));
    if (!is_resampled(b, s)) s->is_played = true;
    int room = good ? room_for(b, i, n_taps, i->delay) : 0;
    for (size_t k = 0; room > 0 && k < n; k++)
        part_add(b, i, (int)(k % (size_t)n_in), (int)(k / (size_t)n_in), taps[k] ? taps[k] : at[k], room, i->delay);
    if (!at || !taps) b->pieces->is_short = true;
    free(at);
    free(taps);
}

static void do_dirac(struct builder *b, const struct impulse *i)
{
    static const float one = 1.0f;
    if (room_for(b, i, 1, i->delay) > 0) part_add(b, i, i->in, i->out, &one, 1, i->delay);
}

static void do_hilbert(struct builder *b, const struct impulse *i)
{
    int half = i->length / 2;
    const float *taps = hilbert(b, half);
    int n_taps = room_for(b, i, 2 * half, i->delay - half);
    if (taps && n_taps > 0) part_add(b, i, i->in, i->out, taps, n_taps, i->delay - half);
}

static void do_copy(struct builder *b, const struct impulse *i)
{
    struct pair *to = pair_of(b, i->in, i->out), *from = pair_of(b, i->from_in, i->from_out);
    int root = root_of(b, (int)(from - b->pairs));
    if (&b->pairs[root] == to) {
        REFUSE(b, i, "input %d, output %d is itself a copy of input %d, output %d; name the pair with the data",
               i->from_in + 1, i->from_out + 1, i->in + 1, i->out + 1);
        return;
    }
    if (!b->pairs[root].first) {
        if (b->has_gaps || b->c->remarks.n_errors) return; /* it may have been meant to have some */
        WARN(b, i, "input %d, output %d has no data so far, and nothing is copied; give it data above", i->from_in + 1,
             i->from_out + 1);
        return;
    }
    if (!to->link && to->first)
        WARN(b, i, "replaces the data that input %d, output %d has since line %d; leave one of them", i->in + 1,
             i->out + 1, to->line);
    to->first = to->last = 0;
    to->link = root + 1;
    to->line = i->line;
}

static void do_all(struct builder *b)
{
    static void (*const make[])(struct builder *, const struct impulse *) = {do_read, do_dirac, do_hilbert, do_copy,
                                                                             do_packed};
    for (size_t i = 0; i < b->c->n_impulses && !b->pieces->is_short; i++)
        make[b->c->impulses[i].kind](b, &b->c->impulses[i]);
    for (int f = 0; f < b->c->n_files; f++) {
        const struct sound *s = &b->sounds[f];
        char more[32] = "";
        if (s->n_named > 1) snprintf(more, sizeof more, " (named in %d lines)", s->n_named);
        if (s->is_bad)
            remark(&b->c->remarks, s->code, s->line, s->command, "%s%s", s->why ? s->why : "no memory", more);
    }
}

/* ---- from pairs to routes ----------------------------------------------------------------------- */

/* Several parts become one, with memory from the first's delay to the last's end. */
static void pair_add_up(struct builder *b, struct pair *pair)
{
    struct configuration *c = b->c;
    int start = INT_MAX, end = 0;
    for (int p = pair->first; p; p = b->parts[p - 1].next) {
        const struct part *part = &b->parts[p - 1];
        if (part->delay < start) start = part->delay;
        if (part->delay + part->n_taps > end) end = part->delay + part->n_taps;
    }
    float *sum = pieces_alloc(b->pieces, (size_t)(end - start), sizeof *sum);
    if (!sum) return;
    for (int p = pair->first; p; p = b->parts[p - 1].next) {
        const struct part *part = &b->parts[p - 1];
        float *to = sum + part->delay - start;
        bool is_finite = true;
        for (int k = 0; k < part->n_taps; k++) {
            to[k] += part->gain * part->taps[k];
            is_finite &= !!isfinite(to[k]);
        }
        if (is_finite) continue;
        int at = (int)(pair - b->pairs);
        remark(&c->remarks, HC_EINVAL, pair->line, NULL,
               "the responses from input %d to output %d add up to an infinite sample; give smaller gains",
               at / c->n_out + 1, at % c->n_out + 1);
        return;
    }
    b->parts[pair->first - 1] = (struct part){.taps = sum, .n_taps = end - start, .delay = start, .gain = 1.0f};
    pair->last = pair->first;
}

static int by_response(const void *a, const void *b)
{
    const hc_route *p = *(const hc_route *const *)a, *q = *(const hc_route *const *)b;
    if (p->taps != q->taps) return p->taps < q->taps ? -1 : 1;
    if (p->n_taps != q->n_taps) return p->n_taps < q->n_taps ? -1 : 1;
    if (p->delay != q->delay) return p->delay < q->delay ? -1 : 1;
    return (p->gain > q->gain) - (p->gain < q->gain);
}

static void count_distinct(struct builder *b, hc_responses *r)
{
    const hc_route **sorted = calloc((size_t)r->n_routes + 1, sizeof *sorted);
    if (!sorted) {
        b->pieces->is_short = true;
        return;
    }
    for (int i = 0; i < r->n_routes; i++) sorted[i] = &r->routes[i];
    qsort(sorted, (size_t)r->n_routes, sizeof *sorted, by_response);
    for (int i = 0; i < r->n_routes; i++) {
        if (i > 0 && by_response(&sorted[i - 1], &sorted[i]) == 0) continue;
        r->n_distinct++;
        r->distinct_frames += (int64_t)sorted[i]->delay + sorted[i]->n_taps;
    }
    free(sorted);
}

static void routes_make(struct builder *b, hc_responses *r)
{
    int n = 0;
    for (int p = 0; p < b->n_pairs && !b->pieces->is_short; p++) {
        struct pair *pair = &b->pairs[p];
        if (pair->first != pair->last) pair_add_up(b, pair);
        n += pair->first || pair->link;
    }
    r->routes = pieces_alloc(b->pieces, (size_t)n, sizeof *r->routes);
    if (!r->routes || b->pieces->is_short) return;
    for (int p = 0; p < b->n_pairs; p++) {
        const struct pair *data = &b->pairs[root_of(b, p)];
        if (!data->first) continue;
        const struct part *part = &b->parts[data->first - 1];
        r->routes[r->n_routes++] = (hc_route){.in = p / b->c->n_out,
                                              .out = p % b->c->n_out,
                                              .taps = part->taps,
                                              .n_taps = part->n_taps,
                                              .gain = part->gain,
                                              .delay = part->delay};
        if (part->delay + part->n_taps > r->n_frames) r->n_frames = part->delay + part->n_taps;
    }
    count_distinct(b, r);
    if (r->n_routes == 0) remark(&b->c->remarks, HC_OK, 0, NULL, "has no responses; its outputs are silent");
}

static hc_port *ports_make(struct builder *b, const hc_port *said, int n, const char *stem)
{
    hc_port *ports = pieces_alloc(b->pieces, (size_t)n, sizeof *ports);
    char name[16];
    for (int ch = 0; ports && ch < n; ch++) {
        snprintf(name, sizeof name, "%s-%d", stem, ch + 1);
        ports[ch] = said[ch];
        if (!ports[ch].name) ports[ch].name = pieces_text(b->pieces, name);
    }
    return ports;
}

/* A file of mcfx_convolver says no counts: they are what its commands reach. */
static void count_channels(struct builder *b, hc_responses *r)
{
    const struct configuration *c = b->c;
    r->n_in = c->n_in;
    r->n_out = c->n_out;
    if (c->defined_line) return;
    r->n_in = r->n_out = 1;
    for (size_t k = 0; k < c->n_impulses; k++) {
        const struct impulse *i = &c->impulses[k];
        bool packed = i->kind == IMPULSE_PACKED;
        int n_in = packed ? i->in : i->in + 1, n_out = packed ? b->sounds[i->file].file.n_channels : i->out + 1;
        if (n_in > r->n_in) r->n_in = n_in;
        if (n_out > r->n_out) r->n_out = n_out;
    }
}

/* The rate that the samples have: the session's, or what the files agree on. */
static int common_rate(struct builder *b)
{
    int rate = 0;
    if (b->rate) return b->rate;
    for (int f = 0; f < b->c->n_files; f++) {
        const struct sound *s = &b->sounds[f];
        if (!s->is_read || s->is_bad || !s->file.rate) continue;
        if (rate && rate != s->file.rate) {
            remark(&b->c->remarks, HC_OK, 0, NULL,
                   "its files have different rates, such as %d and %d Hz; a session "
                   "resamples those that do not have its own",
                   rate, s->file.rate);
            return 0;
        }
        rate = s->file.rate;
    }
    return rate;
}

static void check_inputs(struct builder *b, const hc_responses *r, int n_in)
{
    if (n_in == 0 || n_in == r->n_in || b->c->remarks.n_errors) return;
    remark(&b->c->remarks, HC_EINVAL, b->c->defined_line, b->c->defined_line ? "/convolver/new" : NULL,
           "it takes %d input channel%s, and there %s %d; give it %d, or another configuration", r->n_in,
           r->n_in == 1 ? "" : "s", n_in == 1 ? "is" : "are", n_in, r->n_in);
}

/* ---- the whole ---------------------------------------------------------------------------------- */

static void leave(void *node)
{
    (void)node; /* it lies in the pieces */
}

static void sounds_free(struct builder *b)
{
    for (int f = 0; b->sounds && f < b->c->n_files; f++) {
        struct sound *s = &b->sounds[f];
        tdestroy(s->segments, leave);
        if (s->is_played && pieces_keep(b->pieces, s->file.channel[0], 0)) s->file.channel[0] = NULL;
        mask_file_free(&s->file);
    }
}

static void build(struct builder *b, int n_in, hc_responses *r)
{
    struct configuration *c = b->c;
    r->client = c->client;
    r->server = c->server;
    if (b->names_only) return;
    b->sounds = pieces_alloc(b->pieces, (size_t)c->n_files, sizeof *b->sounds);
    b->n_pairs = c->n_in * c->n_out;
    b->pairs = calloc((size_t)b->n_pairs, sizeof *b->pairs);
    if (b->sounds && b->pairs) {
        do_all(b);
        count_channels(b, r);
        check_inputs(b, r, n_in);
        r->rate = common_rate(b);
        if (!c->remarks.n_errors) routes_make(b, r);
        r->in_port = ports_make(b, c->in_port, r->n_in, "in");
        r->out_port = ports_make(b, c->out_port, r->n_out, "out");
        r->partition = c->partition;
    }
    if (!b->pairs) b->pieces->is_short = true;
    sounds_free(b);
    free(b->pairs);
    free(b->parts);
}

static int read_text(const char *path, char **text, size_t *bytes, char *why, size_t cap)
{
    size_t room = 0;
    *bytes = 0;
    int rc = mask_file_check(path, why, cap);
    FILE *file = rc ? NULL : fopen(path, "re");
    if (!rc && !file)
        rc = fail(HC_EFILE, why, cap, "%s: %s; check the path and its permissions", path, strerror(errno));
    while (!rc) {
        if (*bytes + 1 >= room) {
            room = room ? room * 2 : 1 << 16;
            char *more = room <= TEXT_MAX * 2 ? realloc(*text, room) : NULL;
            if (!more) {
                rc = fail(HC_ENOMEM, why, cap, "%s: no memory for %zu bytes of text; is it a configuration?", path,
                          room);
                break;
            }
            *text = more;
        }
        size_t got = fread(*text + *bytes, 1, room - 1 - *bytes, file);
        *bytes += got;
        if (got == 0) break;
    }
    if (!rc && ferror(file))
        rc = fail(HC_EFILE, why, cap, "%s: %s; check the disk", path, strerror(errno ? errno : EIO));
    if (file) fclose(file);
    return rc;
}

/* The first error, and how many more there are. */
static int report(const struct remarks *remarks, char *why, size_t cap)
{
    int first = 0;
    while (first < remarks->n_kept && !remarks->kept[first].code) first++;
    if (first == remarks->n_kept)
        return fail(HC_EINVAL, why, cap, "%s: has %d errors; see haloconv check", remarks->path, remarks->n_errors);
    if (remarks->n_errors == 1) return fail(remarks->kept[first].code, why, cap, "%s", remarks->kept[first].text);
    return fail(remarks->kept[first].code, why, cap, "%s (and %d more: haloconv check %s)", remarks->kept[first].text,
                remarks->n_errors - 1, remarks->path);
}

static void read_and_build(const char *path, int n_in, struct builder *b, hc_responses *r)
{
    char *text = NULL, why[REMARK_CAP / 2];
    size_t bytes = 0, name = strlen(path) + 2;
    int rc = read_text(path, &text, &bytes, why, sizeof why);
    if (rc) {
        b->c->remarks = (struct remarks){.path = path, .pieces = b->pieces};
        remark(&b->c->remarks, rc, 0, NULL, "%s", strlen(why) > name ? why + name : why); /* it begins with the path */
    } else if (configuration_read(b->c, path, b->pieces, text, bytes) != HC_OK) {
        b->pieces->is_short = true;
    } else {
        build(b, n_in, r);
    }
    free(text);
    if (!b->pieces->is_short) return;
    size_t limit = b->pieces->limit;
    b->pieces->limit = SIZE_MAX / 2; /* for the text of this */
    remark(&b->c->remarks, HC_ENOMEM, 0, NULL,
           "its responses need more than %zu MB, three quarters of this machine's memory; use fewer or shorter ones",
           limit >> 20);
}

int configuration_responses(const char *path, int n_in, int rate, unsigned flags, hc_responses *responses, char *why,
                            size_t cap)
{
    struct pieces *pieces = pieces_make();
    struct configuration *c = pieces ? calloc(1, sizeof *c) : NULL;
    if (!c) {
        pieces_free(pieces);
        return fail(HC_ENOMEM, why, cap, "%s: no memory to read it; free some", path);
    }
    struct builder builder = {.c = c,
                              .pieces = pieces,
                              .rate = rate,
                              .keep_rate = (flags & HC_KEEP_RATE) != 0,
                              .names_only = (flags & HC_NAMES_ONLY) != 0};
    hc_responses made = {.memory = pieces};
    read_and_build(path, n_in, &builder, &made);
    const struct remarks *remarks = &c->remarks;
    int rc = remarks->n_errors || pieces->is_short ? report(remarks, why, cap) : HC_OK;
    *responses = rc ? (hc_responses){.memory = pieces} : made;
    responses->n_remarks = remarks->n_kept;
    responses->remarks = remarks->kept;
    responses->n_errors = remarks->n_errors;
    responses->n_warnings = remarks->n_warnings;
    configuration_free(c);
    free(c);
    return rc;
}
