#include "responses.h"

#include "haloconv_masks.h"
#include "haloconv_scenes.h"
#include "dsp/signal/acoustics.h"

#include <dirent.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

/* responses_close waits for a file that is being read: a larger one has no preview. */
enum { MAX_PREVIEW_MB = 64, MAX_ENTRIES = 20000 };

struct responses {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    bool has_banks;
    /* the mutex guards what follows */
    bool ends, wants_listing, wants_preview;
    char folder[WINDOW_PATH], file[WINDOW_PATH];
    struct listing *listing;
    struct preview *preview;
};

/* ---- folders ----------------------------------------------------------------------------------------------------- */

static bool is_readable(const char *name, bool has_banks)
{
    static const char *const endings[] = {"wav",  "wave", "aif", "aiff", "flac", "ogg", "oga", "opus", "mp3", "w64",
                                          "rf64", "caf",  "au",  "snd",  "irs",  "txt", "csv", "conf", "yml", "yaml"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof endings / sizeof *endings; i++)
        if (strcasecmp(dot + 1, endings[i]) == 0) return true;
    return dot && has_banks && strcasecmp(dot + 1, "sofa") == 0;
}

static int entry_order(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->is_folder != y->is_folder) return y->is_folder - x->is_folder;
    const int order = strcasecmp(x->name, y->name);
    return order ? order : strcmp(x->name, y->name);
}

static void list_entry(struct listing *listing, const char *name, bool has_banks)
{
    char path[2 * WINDOW_PATH];
    struct stat is;
    (void)snprintf(path, sizeof path, "%s/%s", listing->folder, name);
    if (name[0] == '.' || listing->n == MAX_ENTRIES || stat(path, &is) != 0) return;
    if (!S_ISDIR(is.st_mode) && !(S_ISREG(is.st_mode) && is_readable(name, has_banks))) return;
    if ((listing->n & (listing->n - 1)) == 0) { /* the array is full */
        struct entry *more = realloc(listing->entries, (listing->n ? 2 * listing->n : 1) * sizeof *more);
        if (!more) return;
        listing->entries = more;
    }
    struct entry *entry = &listing->entries[listing->n++];
    (void)snprintf(entry->name, sizeof entry->name, "%s", name);
    entry->is_folder = S_ISDIR(is.st_mode);
}

static struct listing *list(const char *folder, bool has_banks)
{
    struct listing *listing = calloc(1, sizeof *listing);
    if (!listing) return NULL;
    (void)snprintf(listing->folder, sizeof listing->folder, "%s", folder);
    DIR *dir = opendir(folder);
    if (!dir) {
        (void)snprintf(listing->error, sizeof listing->error, "This folder cannot be read; choose another one");
        return listing;
    }
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir))
        list_entry(listing, entry->d_name, has_banks);
    closedir(dir);
    if (listing->n > 0) qsort(listing->entries, listing->n, sizeof *listing->entries, entry_order);
    return listing;
}

void listing_free(struct listing *listing)
{
    if (listing) free(listing->entries);
    free(listing);
}

/* ---- pictures ---------------------------------------------------------------------------------------------------- */

static double energy(const float *h, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += (double)h[i] * h[i];
    return sum;
}

/* Draws responses h[n_responses][n] into the waveform. */
static void preview_draw_waveform(struct preview *preview, const float *const *h, int n_responses, int n)
{
    float peak = 0;
    for (int r = 0; r < n_responses; r++)
        for (int i = 0; i < n; i++) {
            int point = (int)((int64_t)i * PREVIEW_POINTS / n);
            preview->low[point] = fminf(preview->low[point], h[r][i]);
            preview->high[point] = fmaxf(preview->high[point], h[r][i]);
            peak = fmaxf(peak, fabsf(h[r][i]));
        }
    for (int i = 0; i < PREVIEW_POINTS && peak > 0; i++) preview->low[i] /= peak, preview->high[i] /= peak;
}

/* Draws the decay of h[n], and adds its reverberation time to the facts. */
static void preview_draw_decay(struct preview *preview, float *h, int n, int rate)
{
    struct decay decay;
    struct acoustics *figures = calloc(1, sizeof *figures);
    int start = acoustics_start(&h, 1, n);
    if (figures && rate > 0 && energy(h, n) > 0 && acoustics_curve(&decay, h, n, rate)) {
        for (int i = 0; i < PREVIEW_POINTS; i++) {
            int64_t frame = (int64_t)i * n / PREVIEW_POINTS - start;
            preview->decay_db[i] = frame < 0 ? 0 : frame <= decay.n ? (float)decay_db(&decay, (int)frame) : NAN;
        }
        decay_free(&decay);
        size_t length = strlen(preview->facts);
        static const char *const names[ACOUSTIC_TIMES] = {"EDT", "T20", "T30"};
        if (acoustics_find(figures, h, n, rate, false))
            for (int f = ACOUSTIC_T30; f >= ACOUSTIC_EDT; f--)
                if (isfinite(figures->all.value[f])) {
                    (void)snprintf(preview->facts + length, sizeof preview->facts - length, "  ·  %s %.2f s", names[f],
                                   figures->all.value[f]);
                    break;
                }
    }
    free(figures);
}

static void draw_responses(struct preview *preview, const float *const *h, int n_responses, int n, int rate)
{
    int loudest = 0;
    for (int r = 1; r < n_responses; r++)
        if (energy(h[r], n) > energy(h[loudest], n)) loudest = r;
    preview->seconds = rate > 0 ? (double)n / rate : 0;
    preview_draw_waveform(preview, h, n_responses, n);
    float *copy = malloc(n * sizeof *copy);
    if (copy) {
        memcpy(copy, h[loudest], n * sizeof *copy);
        preview_draw_decay(preview, copy, n, rate);
    }
    free(copy);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static double file_megabytes(const char *path)
{
    struct stat is;
    return stat(path, &is) == 0 && S_ISREG(is.st_mode) ? (double)is.st_size / 1e6 : 0;
}

/* Megabytes of a response and of the files that it names, or of the files in a folder. */
static double megabytes_of_all(const char *path)
{
    char why[400], file[2 * WINDOW_PATH];
    double sum = file_megabytes(path);
    DIR *dir = opendir(path);
    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir)) {
        (void)snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        sum += file_megabytes(file);
    }
    if (dir) {
        closedir(dir);
        return sum;
    }
    hc_responses names = {0};
    if (hc_responses_load(path, 0, 0, HC_NAMES_ONLY | HC_WITH_SOURCES, &names, why, sizeof why) == HC_OK)
        for (int i = 0; hc_responses_file(&names, i); i++) sum += file_megabytes(hc_responses_file(&names, i));
    hc_responses_free(&names);
    return sum;
}

static int write_length(struct preview *preview, int n, int rate)
{
    const double seconds = rate > 0 ? (double)n / rate : 0;
    if (rate <= 0) return snprintf(preview->facts, sizeof preview->facts, n == 1 ? "%d frame" : "%d frames", n);
    return snprintf(preview->facts, sizeof preview->facts, seconds < 0.1 ? "%.3g ms" : "%.2f s",
                    seconds < 0.1 ? 1000 * seconds : seconds);
}

static void preview_read_bank(struct preview *preview)
{
    hc_bank_data bank = {.size = sizeof bank};
    if (hc_bank_load(preview->path, 0, NULL, &bank, preview->error, sizeof preview->error) != HC_OK) return;
    const int ahead = bank.position ? hc_bank_nearest(&bank, (const float[3]){1, 0, 0}) : 0;
    const int length = write_length(preview, bank.n_taps, bank.rate);
    (void)snprintf(preview->facts + length, sizeof preview->facts - length,
                   "  ·  %d directions  ·  %d outputs  ·  %g kHz", bank.n_entries, bank.n_out, bank.file_rate / 1000.0);
    draw_responses(preview, bank.taps + (size_t)ahead * bank.n_out, bank.n_out, bank.n_taps, bank.rate);
    hc_bank_data_free(&bank);
}

/* The routes of a configuration have different lengths and delays. */
static void draw_routes(struct preview *preview, const hc_responses *responses)
{
    enum { MAX_DRAWN = 8 };
    const int n = responses->n_frames, n_drawn = responses->n_routes < MAX_DRAWN ? responses->n_routes : MAX_DRAWN;
    float *padded[MAX_DRAWN] = {NULL};
    int ready = 0;
    for (; ready < n_drawn && (padded[ready] = calloc(n > 0 ? n : 1, sizeof(float))); ready++) {
        const hc_route *route = &responses->routes[ready];
        for (int i = 0; i < route->n_taps && route->delay + i < n; i++)
            padded[ready][route->delay + i] = route->gain * route->taps[i];
    }
    if (ready > 0 && n > 0) draw_responses(preview, (const float *const *)padded, ready, n, responses->rate);
    for (int i = 0; i < MAX_DRAWN; i++) free(padded[i]);
}

static void preview_read_mask(struct preview *preview, bool has_banks)
{
    hc_responses responses = {0};
    const unsigned flags = has_banks ? HC_WITH_SOURCES : 0;
    if (hc_responses_load(preview->path, 0, 0, flags, &responses, preview->error, sizeof preview->error) == HC_OK) {
        size_t length = write_length(preview, responses.n_frames, responses.rate);
        char *facts = preview->facts + length;
        size_t cap = sizeof preview->facts - length;
        if (responses.channel && responses.file_rate > 0)
            (void)snprintf(facts, cap, "  ·  %d channel%s  ·  %g kHz", responses.n_channels,
                           responses.n_channels == 1 ? "" : "s", responses.file_rate / 1000.0);
        else if (responses.channel)
            (void)snprintf(facts, cap, "  ·  %d channel%s", responses.n_channels, responses.n_channels == 1 ? "" : "s");
        else
            (void)snprintf(facts, cap, "  ·  %d inputs  ·  %d outputs", responses.n_in, responses.n_out);
        if (responses.channel)
            draw_responses(preview, (const float *const *)responses.channel, responses.n_channels, responses.n_frames,
                           responses.rate);
        else
            draw_routes(preview, &responses);
    }
    hc_responses_free(&responses);
}

static struct preview *read_preview(const char *path, bool has_banks)
{
    struct preview *preview = calloc(1, sizeof *preview);
    if (!preview) return NULL;
    (void)snprintf(preview->path, sizeof preview->path, "%s", path);
    for (int i = 0; i < PREVIEW_POINTS; i++) preview->decay_db[i] = NAN;
    const double mb = megabytes_of_all(path);
    if (mb > MAX_PREVIEW_MB)
        (void)snprintf(preview->error, sizeof preview->error, "%.0f MB: files of more than %d MB have no preview", mb,
                       MAX_PREVIEW_MB);
    else if (has_banks && hc_bank_is_file(path))
        preview_read_bank(preview);
    else
        preview_read_mask(preview, has_banks);
    return preview;
}

/* ---- the thread -------------------------------------------------------------------------------------------------- */

static void *responses_work(void *arg)
{
    struct responses *r = arg;
    pthread_mutex_lock(&r->mutex);
    while (!r->ends) {
        char path[WINDOW_PATH];
        const bool lists = r->wants_listing;
        if (!lists && !r->wants_preview) {
            pthread_cond_wait(&r->wake, &r->mutex);
            continue;
        }
        memcpy(path, lists ? r->folder : r->file, sizeof path);
        *(lists ? &r->wants_listing : &r->wants_preview) = false;
        pthread_mutex_unlock(&r->mutex);
        struct listing *listing = lists ? list(path, r->has_banks) : NULL;
        struct preview *preview = lists ? NULL : read_preview(path, r->has_banks);
        pthread_mutex_lock(&r->mutex);
        if (lists && !r->wants_listing) {
            listing_free(r->listing);
            r->listing = listing;
        } else if (!lists && !r->wants_preview) {
            free(r->preview);
            r->preview = preview;
        } else { /* a later request came meanwhile */
            listing_free(listing);
            free(preview);
        }
    }
    pthread_mutex_unlock(&r->mutex);
    return NULL;
}

struct responses *responses_open(bool has_banks)
{
    struct responses *r = calloc(1, sizeof *r);
    if (!r) return NULL;
    r->has_banks = has_banks;
    pthread_mutex_init(&r->mutex, NULL);
    pthread_cond_init(&r->wake, NULL);
    if (pthread_create(&r->thread, NULL, responses_work, r) == 0) return r;
    pthread_cond_destroy(&r->wake);
    pthread_mutex_destroy(&r->mutex);
    free(r);
    return NULL;
}

void responses_close(struct responses *r)
{
    pthread_mutex_lock(&r->mutex);
    r->ends = true;
    pthread_cond_signal(&r->wake);
    pthread_mutex_unlock(&r->mutex);
    pthread_join(r->thread, NULL);
    pthread_cond_destroy(&r->wake);
    pthread_mutex_destroy(&r->mutex);
    listing_free(r->listing);
    free(r->preview);
    free(r);
}

static void responses_want(struct responses *r, bool *wants, char to[WINDOW_PATH], const char *path)
{
    pthread_mutex_lock(&r->mutex);
    (void)snprintf(to, WINDOW_PATH, "%s", path);
    *wants = true;
    pthread_cond_signal(&r->wake);
    pthread_mutex_unlock(&r->mutex);
}

void responses_want_listing(struct responses *r, const char *folder)
{
    responses_want(r, &r->wants_listing, r->folder, folder);
}

void responses_want_preview(struct responses *r, const char *path)
{
    responses_want(r, &r->wants_preview, r->file, path);
}

struct listing *responses_receive_listing(struct responses *r)
{
    pthread_mutex_lock(&r->mutex);
    struct listing *listing = r->wants_listing ? NULL : r->listing;
    if (listing) r->listing = NULL;
    pthread_mutex_unlock(&r->mutex);
    return listing;
}

struct preview *responses_receive_preview(struct responses *r)
{
    pthread_mutex_lock(&r->mutex);
    struct preview *preview = r->wants_preview ? NULL : r->preview;
    if (preview) r->preview = NULL;
    pthread_mutex_unlock(&r->mutex);
    return preview;
}
