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

struct segment {
    int channel, offset, length; /* frames of the file         */
    const float *taps;           /* [n_taps], of the session's */
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

/* A name in the configuration's own folder. */
static char *path_in_own_folder(const struct configuration *c, const char *name)
{
    const char *path = c->diagnostics.path, *slash = strrchr(path, '/');
    return path_join(c->arena, path, slash ? (size_t)(slash - path) + 1 : 0, name);
}

/* jconvolver resolves a relative /cd in the folder that it was started in, folve and mcfx_convolver in the
 * configuration's. This function takes the folder that exists; if both exist, the one in the configuration's folder. */
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
                   "%s is taken from the configuration's folder, but by jconvolver from where it is started; write it "
                   "in full",
                   folder->path);
    if (!is_own && is_working)
        diagnostic(&c->diagnostics, HC_OK, folder->line, "/cd",
                   "%s is taken from the working directory, since the configuration's folder has none; write it in "
                   "full",
                   folder->path);
    return folder->found;
}

static char *sound_path(struct configuration *c, const struct sound_name *name)
{
    if (*name->name == '/') return arena_text(c->arena, name->name);
    if (!name->folder) return path_in_own_folder(c, name->name);
    const char *folder = folder_find(c, name->folder);
    return path_join(c->arena, folder, strlen(folder), name->name);
}

/* ---- files -------------------------------------------------------------------------------------- */

void sounds_keep_paths(struct configuration *c)
{
    c->arena->files = arena_alloc(c->arena, c->n_files, sizeof *c->arena->files);
    if (!c->arena->files) return;
    for (; c->arena->n_files < c->n_files; c->arena->n_files++) {
        const char *path = sound_path(c, c->files[c->arena->n_files]);
        if (!path) return;
        c->arena->files[c->arena->n_files] = path;
    }
}

static bool is_resampled(const struct sounds *s, const struct sound *sound)
{
    return !s->keep_rate && s->rate && sound->file.rate && sound->file.rate != s->rate;
}

static void sound_read(struct sounds *s, struct sound *sound, const struct impulse *i)
{
    struct configuration *c = s->c;
    char why[DIAGNOSTIC_CAP / 2];
    struct rated_file found;
    sound->is_read = true;
    sound->path = c->arena->files[i->file];
    struct mask_limits limits = {.frames = MASK_MAX_SAMPLES, .bytes = c->arena->limit - c->arena->bytes};
    sound->error = rate_pattern_find(sound->path, s->rate, &found, REASON(why, sizeof why));
    if (!sound->error) {
        if (found.rate && !(sound->path = arena_text(c->arena, found.path))) return;
        const struct raw_samples *raw = &c->files[i->file]->raw;
        sound->error = raw->format ? raw_samples_read(&sound->file, sound->path, raw, &limits, REASON(why, sizeof why))
                                   : mask_file_read(&sound->file, sound->path, &limits, REASON(why, sizeof why));
    }
    if (sound->error) {
        s->has_errors = true;
        sound->first = i;
        sound->why = arena_text(c->arena, why);
        return;
    }
    if (found.missing[0]) IMPULSE_WARN(c, i, "there is no %s; %s is taken", found.missing, sound->path);
    if (*sound->file.note) IMPULSE_WARN(c, i, "%s: %s", sound->path, sound->file.note);
    const char *cut_by = c->files[i->file]->raw.cut_by;
    if (cut_by && sound->file.n_left)
        IMPULSE_WARN(c, i, "%s: cut from %lld to %d frames by %s", sound->path,
                     (long long)sound->file.n_frames + sound->file.n_left, sound->file.n_frames, cut_by);
    if (sound->file.rate == 0)
        sound->file.rate = found.rate ? found.rate : c->rate; /* a text has the rate in its name */
    size_t samples = (size_t)sound->file.n_channels * (size_t)sound->file.n_frames;
    c->arena->bytes += samples * sizeof(float);
    for (size_t k = 0; k < samples; k++) sound->peak = fmaxf(sound->peak, fabsf(sound->file.channel[0][k]));
    if (is_resampled(s, sound))
        IMPULSE_WARN(c, i, "%s: resampled from %d to %d Hz", sound->path, sound->file.rate, s->rate);
    else if (sound->file.rate && s->rate && sound->file.rate != s->rate)
        IMPULSE_WARN(c, i, "%s: its %d Hz are played at %d Hz", sound->path, sound->file.rate, s->rate);
}

struct sound *sounds_get(struct sounds *s, const struct impulse *i)
{
    struct sound *sound = &s->sounds[i->file];
    if (!sound->is_read) sound_read(s, sound, i);
    sound->n_named++;
    return sound->file.channel ? sound : NULL;
}

void sounds_report(const struct sounds *s)
{
    for (size_t f = 0; f < s->c->n_files; f++) {
        const struct sound *sound = &s->sounds[f];
        char more[32] = "";
        if (!sound->error) continue;
        if (sound->n_named > 1) snprintf(more, sizeof more, " (named in %d lines)", sound->n_named);
        diagnostic(&s->c->diagnostics, sound->error, sound->first->line, sound->first->command, "%s%s",
                   sound->why ? sound->why : "no memory", more);
    }
}

int sounds_rate(const struct sounds *s)
{
    int rate = 0;
    if (s->rate) return s->rate;
    for (size_t f = 0; f < s->c->n_files; f++) {
        const struct sound *sound = &s->sounds[f];
        if (!sound->file.channel || !sound->file.rate) continue;
        if (rate && rate != sound->file.rate) {
            diagnostic(&s->c->diagnostics, HC_OK, 0, NULL,
                       "its files have different rates, such as %d and %d Hz; a session resamples those that do not "
                       "have its own",
                       rate, sound->file.rate);
            return 0;
        }
        rate = sound->file.rate;
    }
    return rate;
}

void sounds_free(struct sounds *s)
{
    for (size_t f = 0; s->sounds && f < s->c->n_files; f++) {
        struct sound *sound = &s->sounds[f];
        tdestroy(sound->segments, arena_keeps_node);
        if (sound->is_played && arena_keep(s->c->arena, sound->file.channel[0])) sound->file.channel[0] = NULL;
        mask_file_free(&sound->file);
    }
}

/* ---- segments ----------------------------------------------------------------------------------- */

/* A segment is cut from the file before it is resampled: the frames around it must not ring into it. */
bool sounds_resample(struct sounds *s, struct sound *sound, const struct impulse *i, const float **taps, int n,
                     int *n_taps)
{
    struct arena *arena = s->c->arena;
    char why[DIAGNOSTIC_CAP / 2];
    int length = *n_taps, from = sound->file.rate;
    if (!is_resampled(s, sound)) {
        sound->is_played = true;
        return true;
    }
    int error = resample_length(from, s->rate, length, sound->path, n_taps, REASON(why, sizeof why));
    float *all = error ? NULL : arena_alloc(arena, (size_t)n * (size_t)*n_taps, sizeof *all);
    float **out = all ? calloc((size_t)n, sizeof *out) : NULL;
    if (!error && !out) return !(arena->is_short = true);
    for (int k = 0; !error && k < n; k++) out[k] = all + (size_t)k * (size_t)*n_taps;
    if (!error) error = resample(from, s->rate, n, taps, length, out, *n_taps, sound->path, REASON(why, sizeof why));
    for (int k = 0; !error && k < n; k++) taps[k] = out[k];
    if (error) diagnostic(&s->c->diagnostics, error, i->line, i->command, "%s", why);
    free(out);
    return !error;
}

static int by_place(const void *a, const void *b)
{
    const struct segment *p = a, *q = b;
    if (p->channel != q->channel) return p->channel < q->channel ? -1 : 1;
    if (p->offset != q->offset) return p->offset < q->offset ? -1 : 1;
    return (p->length > q->length) - (p->length < q->length);
}

const float *sounds_segment(struct sounds *s, struct sound *sound, const struct impulse *i, int *n_taps)
{
    struct arena *arena = s->c->arena;
    struct segment key = {.channel = i->channel,
                          .offset = i->offset,
                          .length = *n_taps,
                          .taps = sound->file.channel[i->channel] + i->offset};
    void *known = tfind(&key, &sound->segments, by_place);
    if (known) {
        *n_taps = (*(struct segment **)known)->n_taps;
        return (*(struct segment **)known)->taps;
    }
    if (!sounds_resample(s, sound, i, &key.taps, 1, n_taps)) return NULL;
    if (!is_resampled(s, sound)) return key.taps;
    key.n_taps = *n_taps;
    struct segment *new = arena_alloc(arena, 1, sizeof *new);
    if (!new) return NULL;
    *new = key;
    if (!tsearch(new, &sound->segments, by_place)) arena->is_short = true;
    return key.taps;
}

int sounds_length(struct sounds *s, const struct sound *sound, const struct impulse *i, int n)
{
    struct configuration *c = s->c;
    int left = n - i->offset, length = i->length && i->length < left ? i->length : left;
    if (left <= 0) {
        IMPULSE_REFUSE(c, i, "offset %d, but %s has %d frames; give a smaller one", i->offset, sound->path, n);
        return 0;
    }
    if (i->length > left)
        IMPULSE_WARN(c, i, "length %d, but %s has %d frames from offset %d on; these are taken", i->length, sound->path,
                     left, i->offset);
    if ((double)sound->peak * fabs((double)i->gain) <= (double)FLT_MAX) return length;
    IMPULSE_REFUSE(c, i, "the gain %g makes %s infinite; give a smaller one", (double)i->gain, sound->path);
    return 0;
}

const float *sounds_taps(struct sounds *s, const struct impulse *i, int *n_taps)
{
    struct sound *sound = sounds_get(s, i);
    struct impulse place = *i;
    if (!sound) return NULL;
    if (i->is_in_turn) place.channel %= sound->file.n_channels;
    if (place.channel >= sound->file.n_channels) {
        IMPULSE_REFUSE(s->c, i, "channel %d, but %s has %d; they count from 1", i->channel + 1, sound->path,
                       sound->file.n_channels);
        return NULL;
    }
    *n_taps = sounds_length(s, sound, i, sound->file.n_frames);
    return *n_taps ? sounds_segment(s, sound, &place, n_taps) : NULL;
}
