#include "configuration_sounds.h"

#include "dsp/masks/rate_pattern.h"
#include "dsp/masks/resample.h"

#include <float.h>
#include <math.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct made {                    /* an excerpt at the session's rate */
    int channel, offset, length; /* frames of the file               */
    const float *taps;           /* [n_taps]                         */
    int n_taps;
};

/* ---- folders ------------------------------------------------------------------------------------ */

static char *path_join(struct arena *arena, const char *folder, size_t length, const char *name)
{
    size_t bytes = length + strlen(name) + 2;
    char *path = arena_alloc(arena, bytes, 1);
    if (path)
        snprintf(path, bytes, "%.*s%s%s", (int)length, folder, length && folder[length - 1] != '/' ? "/" : "", name);
    return path;
}

/* Returns the path of a name in the configuration's own folder. */
static char *path_in_own_folder(const struct configuration *c, const char *name)
{
    const char *path = c->diagnostics.path, *slash = strrchr(path, '/');
    return path_join(c->arena, path, slash ? (size_t)(slash - path) + 1 : 0, name);
}

/* Chooses the folder of a relative /cd. jconvolver looks for it where it was started, folve and mcfx_convolver in the
 * configuration's folder. Returns the folder that exists; if both exist, the one in the configuration's folder. */
static const char *folder_find(struct configuration *c, struct folder *folder)
{
    struct stat own_status, working_status;
    if (folder->found) return folder->found;
    folder->found = folder->path;
    if (*folder->path == '/') return folder->found;
    char *own = path_in_own_folder(c, folder->path);
    if (!own) return folder->found;
    bool is_own = stat(own, &own_status) == 0 && S_ISDIR(own_status.st_mode);
    bool is_working = stat(folder->path, &working_status) == 0 && S_ISDIR(working_status.st_mode);
    if (is_own || !is_working) folder->found = own;
    if (is_own &&
        (!is_working || own_status.st_dev != working_status.st_dev || own_status.st_ino != working_status.st_ino))
        diagnostic(&c->diagnostics, HC_OK, folder->line, "/cd",
                   "%s is read from the configuration's folder, but jconvolver reads it from its working directory; "
                   "write its full path",
                   folder->path);
    if (!is_own && is_working)
        diagnostic(&c->diagnostics, HC_OK, folder->line, "/cd",
                   "%s is read from the working directory, since the configuration's folder does not contain it; write "
                   "its full path",
                   folder->path);
    return folder->found;
}

bool configuration_folder_exists(const struct configuration *c, const char *path)
{
    struct stat status;
    if (strstr(path, "%r") || (stat(path, &status) == 0 && S_ISDIR(status.st_mode))) return true;
    const char *own = *path == '/' ? NULL : path_in_own_folder(c, path);
    return own && stat(own, &status) == 0 && S_ISDIR(status.st_mode);
}

/* Returns the path of a file; %r stays. folder NULL: the configuration's own. Returns NULL if the arena is short. */
static const char *configuration_path(struct configuration *c, struct folder *folder, const char *name)
{
    if (*name == '/') return arena_text(c->arena, name);
    if (!folder) return path_in_own_folder(c, name);
    const char *found = folder_find(c, folder);
    return path_join(c->arena, found, strlen(found), name);
}

/* ---- names -------------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    const struct sound *p = a, *q = b;
    int order = strcmp(p->name, q->name);
    if (!order) order = strcmp(p->folder ? p->folder->path : "", q->folder ? q->folder->path : "");
    if (order) return order;
    if (p->raw.format != q->raw.format) return p->raw.format < q->raw.format ? -1 : 1;
    if (p->raw.skip != q->raw.skip) return p->raw.skip < q->raw.skip ? -1 : 1;
    return (p->raw.max > q->raw.max) - (p->raw.max < q->raw.max);
}

struct sound *configuration_raw_file(struct configuration *c, const char *name, const struct raw_samples *raw)
{
    struct sound key = {.folder = c->folder, .name = name, .raw = *raw};
    void *known = tfind(&key, &c->names, by_name);
    if (known) return *(struct sound **)known;

    struct sound **sounds = array_grow(c->arena, c->sounds, c->n_sounds, &c->sounds_cap, sizeof *sounds);
    if (sounds) c->sounds = sounds;
    struct sound *new = sounds ? arena_alloc(c->arena, 1, sizeof *new) : NULL;
    if (!new) return NULL;
    *new = key;
    new->name = arena_text(c->arena, name);
    if (!new->name) return NULL;
    if (!tsearch(new, &c->names, by_name)) c->arena->is_short = true;
    return c->sounds[c->n_sounds++] = new;
}

struct sound *configuration_file(struct configuration *c, const char *name)
{
    return configuration_raw_file(c, name, &(struct raw_samples){0});
}

/* ---- files -------------------------------------------------------------------------------------- */

const char *sound_path(struct configuration *c, struct sound *sound)
{
    if (!sound->named_path) sound->named_path = configuration_path(c, sound->folder, sound->name);
    return sound->named_path;
}

void sounds_list(struct configuration *c)
{
    c->arena->files = arena_alloc(c->arena, c->n_sounds, sizeof *c->arena->files);
    if (!c->arena->files) return;
    for (; c->arena->n_files < c->n_sounds; c->arena->n_files++)
        if (!(c->arena->files[c->arena->n_files] = sound_path(c, c->sounds[c->arena->n_files]))) return;
}

static bool is_resampled(const struct configuration *c, int from)
{
    return !c->keep_rate && c->session_rate && from && from != c->session_rate;
}

static void sound_read(struct configuration *c, struct sound *sound, const struct excerpt *e)
{
    char why[DIAGNOSTIC_CAP / 2];
    struct rated_file found;
    const struct raw_samples *raw = &sound->raw;
    sound->is_read = true;
    sound->path = sound_path(c, sound);
    if (!sound->path) return;
    struct mask_limits limits = {.frames = MASK_MAX_SAMPLES, .bytes = c->arena->limit - c->arena->bytes};
    sound->error = rate_pattern_find(sound->path, c->session_rate, &found, REASON(why, sizeof why));
    if (!sound->error) {
        if (found.rate && !(sound->path = arena_text(c->arena, found.path))) return;
        sound->error = raw->format ? raw_samples_read(&sound->file, sound->path, raw, &limits, REASON(why, sizeof why))
                                   : mask_file_read(&sound->file, sound->path, &limits, REASON(why, sizeof why));
    }
    if (sound->error) {
        c->lacks_sounds = true;
        sound->first = *e;
        sound->why = arena_text(c->arena, why);
        return;
    }
    if (found.missing[0]) EXCERPT_WARN(c, e, "%s is missing; %s is used", found.missing, sound->path);
    if (*sound->file.note) EXCERPT_WARN(c, e, "%s: %s", sound->path, sound->file.note);
    if (raw->cut_by && sound->file.n_left)
        EXCERPT_WARN(c, e, "%s: cut from %lld to %d frames by %s", sound->path,
                     (long long)sound->file.n_frames + sound->file.n_left, sound->file.n_frames, raw->cut_by);
    if (sound->file.rate == 0)
        sound->file.rate = found.rate ? found.rate : c->rate; /* a text has the rate in its name */
    size_t samples = (size_t)sound->file.n_channels * (size_t)sound->file.n_frames;
    c->arena->bytes += samples * sizeof(float);
    for (size_t k = 0; k < samples; k++) sound->peak = fmaxf(sound->peak, fabsf(sound->file.channel[0][k]));
    if (is_resampled(c, sound->file.rate))
        EXCERPT_WARN(c, e, "%s: resampled from %d to %d Hz", sound->path, sound->file.rate, c->session_rate);
    else if (sound->file.rate && c->session_rate && sound->file.rate != c->session_rate)
        EXCERPT_WARN(c, e, "%s: its samples at %d Hz are played at %d Hz", sound->path, sound->file.rate,
                     c->session_rate);
}

struct sound *sounds_get(struct configuration *c, const struct excerpt *e)
{
    struct sound *sound = e->sound;
    if (!sound) return NULL; /* the arena is short */
    if (!sound->is_read) sound_read(c, sound, e);
    sound->n_named++;
    return sound->file.channel ? sound : NULL;
}

void sounds_report(struct configuration *c)
{
    for (size_t f = 0; f < c->n_sounds; f++) {
        const struct sound *sound = c->sounds[f];
        char more[32] = "";
        if (!sound->error) continue;
        if (sound->n_named > 1) snprintf(more, sizeof more, " (named in %d lines)", sound->n_named);
        diagnostic(&c->diagnostics, sound->error, sound->first.line, sound->first.command, "%s%s",
                   sound->why ? sound->why : "no memory", more);
    }
}

int sounds_rate(struct configuration *c)
{
    int rate = 0;
    if (c->session_rate) return c->session_rate;
    for (size_t f = 0; f < c->n_sounds; f++) {
        const struct sound *sound = c->sounds[f];
        if (!sound->file.channel || !sound->file.rate) continue;
        if (rate && rate != sound->file.rate) {
            diagnostic(&c->diagnostics, HC_OK, 0, NULL,
                       "its files have different rates, such as %d and %d Hz; a session resamples files of another "
                       "rate than its own",
                       rate, sound->file.rate);
            return 0;
        }
        rate = sound->file.rate;
    }
    return rate;
}

void sounds_free(struct configuration *c)
{
    for (size_t f = 0; f < c->n_sounds; f++) {
        struct sound *sound = c->sounds[f];
        tdestroy(sound->excerpts, arena_keeps_node);
        if (sound->is_played && arena_keep(c->arena, sound->file.channel[0])) sound->file.channel[0] = NULL;
        mask_file_free(&sound->file);
    }
    tdestroy(c->names, arena_keeps_node);
    free(c->sounds);
}

/* ---- excerpts ----------------------------------------------------------------------------------- */

/* Makes an excerpt's taps. The excerpt is cut before it is resampled: the frames around it must not ring into it. */
bool sounds_resample(struct configuration *c, const struct excerpt *e, const char *path, int from, const float **taps,
                     int n, int *n_taps)
{
    struct arena *arena = c->arena;
    char why[DIAGNOSTIC_CAP / 2];
    int length = *n_taps, rate = c->session_rate;
    if (!is_resampled(c, from)) return true;
    int error = resample_length(from, rate, length, path, n_taps, REASON(why, sizeof why));
    float *all = error ? NULL : arena_alloc(arena, (size_t)n * (size_t)*n_taps, sizeof *all);
    float **out = all ? calloc((size_t)n, sizeof *out) : NULL;
    if (!error && !out) return !(arena->is_short = true);
    for (int k = 0; !error && k < n; k++) out[k] = all + (size_t)k * (size_t)*n_taps;
    if (!error) error = resample(from, rate, n, taps, length, out, *n_taps, path, REASON(why, sizeof why));
    for (int k = 0; !error && k < n; k++) taps[k] = out[k];
    if (error) diagnostic(&c->diagnostics, error, e->line, e->command, "%s", why);
    free(out);
    return !error;
}

static int by_position(const void *a, const void *b)
{
    const struct made *p = a, *q = b;
    if (p->channel != q->channel) return p->channel < q->channel ? -1 : 1;
    if (p->offset != q->offset) return p->offset < q->offset ? -1 : 1;
    return (p->length > q->length) - (p->length < q->length);
}

int sounds_length(struct configuration *c, const struct excerpt *e, int n)
{
    const struct sound *sound = e->sound;
    int left = n - e->offset, length = e->length && e->length < left ? e->length : left;
    if (left <= 0) {
        EXCERPT_REFUSE(c, e, "the offset is %d, but %s has %d frames; give a smaller offset", e->offset, sound->path,
                       n);
        return 0;
    }
    if (e->length > left)
        EXCERPT_WARN(c, e, "the length is %d, but %s has only the %d frames from offset %d on, which are used",
                     e->length, sound->path, left, e->offset);
    if ((double)sound->peak * fabs((double)e->gain) <= (double)FLT_MAX) return length;
    EXCERPT_REFUSE(c, e, "the gain %g makes %s infinite; give a smaller gain", (double)e->gain, sound->path);
    return 0;
}

const float *sounds_taps(struct configuration *c, const struct excerpt *e, int *n_taps)
{
    struct sound *sound = sounds_get(c, e);
    if (!sound) return NULL;
    int channel = e->is_in_turn ? e->channel % sound->file.n_channels : e->channel;
    if (channel >= sound->file.n_channels) {
        EXCERPT_REFUSE(c, e, "the channel is %d, but %s has %d; count channels from 1", e->channel + 1, sound->path,
                       sound->file.n_channels);
        return NULL;
    }
    *n_taps = sounds_length(c, e, sound->file.n_frames);
    if (!*n_taps) return NULL;
    struct made key = {channel, e->offset, *n_taps, sound->file.channel[channel] + e->offset, *n_taps};
    if (!is_resampled(c, sound->file.rate)) {
        sound->is_played = true;
        return key.taps;
    }
    void *known = tfind(&key, &sound->excerpts, by_position);
    struct made *made = known ? *(struct made **)known : NULL;
    if (!known && sounds_resample(c, e, sound->path, sound->file.rate, &key.taps, 1, &key.n_taps) &&
        (made = arena_alloc(c->arena, 1, sizeof *made))) {
        *made = key;
        if (!tsearch(made, &sound->excerpts, by_position)) c->arena->is_short = true;
    }
    *n_taps = made ? made->n_taps : 0;
    return made ? made->taps : NULL;
}
