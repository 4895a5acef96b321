#include "played.h"
#include "haloconv_masks.h"
#include "player.h"
#include "reference.h"

#include <math.h>
#include <sndfile.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[64];

static void remove_folder(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (folder[0] && system(command) != 0) printf("%s is left behind\n", folder);
}

static const char *path_in_folder(const char *name)
{
    static char paths[4][256];
    static int turn;
    char *path = paths[turn++ % 4];
    if (!folder[0]) {
        strcpy(folder, "/tmp/haloconv-plugin-XXXXXX");
        check(mkdtemp(folder), "mkdtemp");
        atexit(remove_folder);
    }
    snprintf(path, sizeof *paths, "%s/%s", folder, name);
    return path;
}

const char *mask_file(const char *name, int n_channels, int n_frames, int rate, uint64_t seed)
{
    const char *path = path_in_folder(name);
    SF_INFO info = {.samplerate = rate, .channels = n_channels, .format = SF_FORMAT_WAV | SF_FORMAT_FLOAT};
    SNDFILE *file = sf_open(path, SFM_WRITE, &info);
    check(file, "%s cannot be written", path);
    struct random r = random_seeded(seed);
    float *x = must_alloc((size_t)n_frames * (size_t)n_channels, sizeof *x);
    for (int i = 0; i < n_frames * n_channels; i++)
        x[i] = 0.1f * random_sample(&r) * (float)exp(-3.0 * i / (n_frames * n_channels));
    sf_writef_float(file, x, n_frames);
    sf_close(file);
    free(x);
    return path;
}

const char *text_file(const char *name, const char *text)
{
    const char *path = path_in_folder(name);
    FILE *file = fopen(path, "w");
    check(file && fputs(text, file) >= 0 && fclose(file) == 0, "%s cannot be written", path);
    return path;
}

void play_random_blocks(void (*play)(void *data, int n), void *data, int frames, int max_block, uint64_t seed)
{
    struct random r = random_seeded(seed);
    for (int n; frames > 0; frames -= n) {
        n = random_int(&r, 0, max_block);
        if (n > frames) n = frames;
        play(data, n);
    }
}

struct responses { /* with a mono mask spread over the outputs of a plugin with one input */
    hc_responses file;
    hc_route routes[4096];
    int n;
};

static struct responses *responses(const char *path, int n_in, int n_out, int rate)
{
    struct responses *r = must_alloc(1, sizeof *r);
    char why[512];
    if (strstr(path, ".conf")) n_in = 0; /* has counts of its own */
    check(hc_responses_load(path, n_in, rate, 0, &r->file, why, sizeof why) == HC_OK, "%s", why);
    for (r->n = 0; r->n < r->file.n_routes; r->n++) r->routes[r->n] = r->file.routes[r->n];
    if (n_in == 1 && r->n == 1)
        for (; r->n < n_out; r->n++) {
            r->routes[r->n] = r->routes[0];
            r->routes[r->n].out = r->n;
        }
    return r;
}

static void responses_drop(struct responses *r)
{
    hc_responses_free(&r->file);
    free(r);
}

void check_played(const struct played *t, const char *path, struct mix mix, int origin, int first, int last)
{
    enum { N = 40 };
    int n_out = t->variant->n_out, n_in = t->variant->n_in, n_check = n_out > 4 ? 4 : n_out;
    struct responses *r = responses(path, n_in, n_out, t->rate);
    struct random random = random_seeded(77);
    const float *in[MAX_CHANNELS];
    for (int ch = 0; ch < n_in; ch++) in[ch] = t->in[ch] + origin;
    double peak = 0, want[4 * N];
    int outs[4 * N], frames[4 * N];
    for (int i = 0; i < n_check * N; i++) {
        outs[i] = n_out > 4 ? random_int(&random, 0, n_out - 1) : i % n_out;
        frames[i] = i < 2 * n_out ? (i < n_out ? first : last - 1) : random_int(&random, first, last - 1);
        int at = frames[i] - origin - mix.predelay;
        double wet = at < 0 ? 0 : reference_frame(r->routes, r->n, in, t->n - origin, outs[i], at);
        want[i] = mix.wet * wet + mix.dry * (double)t->in[n_in == 1 ? 0 : outs[i]][frames[i]];
        peak = fmax(peak, fabs(want[i]));
    }
    /* The peak of the whole output, not only of the frames that are checked; at most 3 times theirs. */
    double output_peak = 0;
    for (int ch = 0; ch < n_out; ch++)
        for (int i = first; i < last; i++) output_peak = fmax(output_peak, fabs((double)t->out[ch][i]));
    peak = fmax(peak, fmin(output_peak, 3 * peak));
    for (int i = 0; i < n_check * N; i++) {
        double got = (double)t->out[outs[i]][frames[i]], off = fabs(got - want[i]);
        check(off <= PEAK_SHARE * peak,
              "%s, %s, %d Hz: channel %d, frame %d of %d: got %.9g, want %.9g, off by %.3g of %.3g", t->variant->symbol,
              path, t->rate, outs[i], frames[i], t->n, got, want[i], off, peak);
    }
    responses_drop(r);
}

void check_scan(int files, clock_t start)
{
    double ms = 1e3 * (double)(clock() - start) / CLOCKS_PER_SEC;
    check(SANITIZED || ms < 50, "a scan takes %.1f ms of processor time", ms);
    check(count_own("fd") == files, "a scan leaves files open");
    FILE *maps = fopen("/proc/self/maps", "r");
    check(maps, "/proc/self/maps");
    for (char line[4200]; fgets(line, sizeof line, maps);) check(!strstr(line, "cuda"), "a scan opens a GPU: %s", line);
    fclose(maps);
}
