/* Masks from files: texts and sound files, the channel rule, resampling, and refused files. */
#include "check.h"
#include "dsp/masks/mask_file.h"
#include "haloconv_masks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef HC_WITH_SNDFILE
#include <sndfile.h>
#endif

static char path[64];

static const char *fresh(const char *ending)
{
    const char *dir = getenv("TMPDIR");
    snprintf(path, sizeof path, "%.30s/hc_XXXXXX%s", dir ? dir : "/tmp", ending);
    int fd = mkstemps(path, (int)strlen(ending));
    check(fd >= 0, "no temporary file at %s", path);
    close(fd);
    return path;
}

static const char *text_file(const char *ending, const void *bytes, size_t n)
{
    FILE *f = fopen(fresh(ending), "wb");
    check(f && fwrite(bytes, 1, n, f) == n && fclose(f) == 0, "cannot write %s", path);
    return path;
}

static int load(const char *file, int n_in, int rate, unsigned flags, hc_responses *r, char *why, size_t cap)
{
    memset(r, 0xa5, sizeof *r);
    why[0] = 0;
    return hc_responses_load(file, n_in, rate, flags, r, why, cap);
}

static void refused(const char *file, int code_wanted, const char *word)
{
    hc_responses r;
    char why[400];
    int code = load(file, 1, 48000, 0, &r, why, sizeof why);
    if (code == HC_OK) hc_responses_free(&r);
    unlink(path);
    check(code == code_wanted, "%s: code %d (%s), want %d", word, code, why, code_wanted);
    check(why[0] && !strchr(why, '\n') && strstr(why, word), "the text is '%s', want one line with '%s'", why, word);
}

static void text_is(const char *ending, const char *text, int n_channels, int n_frames, const float *want)
{
    hc_responses r;
    char why[400];
    int code = load(text_file(ending, text, strlen(text)), 0, 48000, 0, &r, why, sizeof why);
    unlink(path);
    check(code == HC_OK, "'%s': %d, %s", text, code, why);
    check(r.n_channels == n_channels && r.n_frames == n_frames, "'%s': %d channels, %d frames", text, r.n_channels,
          r.n_frames);
    check(r.file_rate == 0, "'%s': a rate of %d in a text", text, r.file_rate);
    check(r.n_routes == 0, "n_in = 0 makes no routes, got %d", r.n_routes);
    for (int i = 0; i < n_frames; i++)
        for (int ch = 0; ch < n_channels; ch++)
            check(r.channel[ch][i] == want[i * n_channels + ch], "'%s': channel %d, frame %d: %.9g", text, ch, i,
                  (double)r.channel[ch][i]);
    hc_responses_free(&r);
}

static void texts_are_read(const char *backend)
{
    static const float one[] = {1}, four[] = {1, -2, 0.5f, 1e-3f}, two[] = {1, 2, 3, 4};
    text_is(".txt", "1", 1, 1, one);
    text_is(".txt", "1\n", 1, 1, one);
    text_is(".txt", "1\n-2\n0.5\n1e-3\n", 1, 4, four);
    text_is(".txt", "# a mask\n\n  1\n-2 # the second\n\n+.5\n1e-3", 1, 4, four);
    text_is(".txt", "1\r\n-2\r\n0.5\r\n0.001\r\n", 1, 4, four);
    text_is(".csv", "1,2\n3,4\n", 2, 2, two);
    text_is(".csv", "1;2\n3;4\n", 2, 2, two);
    text_is(".csv", "1, 2\n3, 4\n", 2, 2, two);
    text_is(".txt", "1 2\n\t3\t4\n", 2, 2, two);
    text_is(".csv", "1 ; 2  \n3 , 4", 2, 2, two);
    text_is(".csv", "1,2\r\n3,4\r\n", 2, 2, two);
}

static void bad_texts_are_refused(const char *backend)
{
#define TEXT(s) text_file(".txt", s, sizeof s - 1)
    refused(TEXT(""), HC_EFILE, "is empty");
    refused(TEXT("\n# nothing\n\n"), HC_EINVAL, "no coefficients");
    refused(TEXT("1\n2\nthree\n"), HC_EINVAL, "3");
    refused(TEXT("1 2\n3 4\n5\n"), HC_EINVAL, "3");
    refused(TEXT("1\n2x\n"), HC_EINVAL, "2");
    refused(TEXT("1\n2\nnan\n4\n"), HC_EINVAL, "frame 2");
    refused(TEXT("1 2\n3 inf\n"), HC_EINVAL, "channel 2, frame 1");
    refused(TEXT("1\n1e999\n"), HC_EINVAL, "frame 1");
    refused(TEXT("1\0002\n"), HC_EINVAL, "1");
#undef TEXT
}

/* Whoever writes 0,5 for one half gets no mask of more channels. */
static void decimal_commas_are_refused(const char *backend)
{
    static const char *const texts[] = {"0,5;0,25\n", "0,5; 1\n",       "1;0,5\n",
                                        "0,5 0,25\n", "0,5\t0,25\n",    "0,5\n-0,25\n0,0625\n",
                                        "1,25e-3\n",  "0,5\n1,25E+3\n", "l,r\n0,5;0,25\n"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        refused(text_file(".csv", texts[i], strlen(texts[i])), HC_EINVAL, "write 0.5 for 0,5");
}

/* note: of the warning; NULL: there is none, and the text is refused. */
static void header_is(const char *ending, const char *text, const char *note)
{
    hc_responses r;
    char why[400];
    int code = load(text_file(ending, text, strlen(text)), 1, 48000, 0, &r, why, sizeof why);
    unlink(path);
    check(note ? code == HC_OK : code == HC_EINVAL, "'%s': %d, %s", text, code, why);
    if (!note) return;
    check(r.n_channels == 2 && r.n_frames == 2 && r.channel[1][1] == 4, "'%s': %d x %d", text, r.n_channels,
          r.n_frames);
    check(r.n_warnings == 1 && r.n_diagnostics == 1 && strstr(r.diagnostics[0].text, note), "'%s': %d warnings", text,
          r.n_warnings);
    hc_responses_free(&r);
}

static void header_lines_are_skipped_and_said(const char *backend)
{
    header_is(".csv", "left,right\n1,2\n3,4\n", "the header \"left,right\" is skipped");
    header_is(".CSV", "# a mask\n\"left 1\";\"right 2\"\r\n1;2\r\n3;4\r\n", "\"\"left 1\";\"right 2\"\" is");
    header_is(".csv", "\xef\xbb\xbfleft\tright\n1\t2\n3\t4\n", "\"left?right\"");
    header_is(".csv", "a room\n\ninfra red,name\n1,2\n3,4\n", "2 header lines are skipped");
    header_is(".csv", "left,right\n", NULL);
    header_is(".csv", "1,2\nleft,right\n3,4\n", NULL);
    header_is(".csv", "1x,2\n3,4\n", NULL);
    header_is(".csv", "nan,2\n3,4\n", NULL);
    header_is(".txt", "left,right\n1,2\n3,4\n", NULL);
}

static void missing_files_are_refused(const char *backend)
{
    path[0] = 0;
    refused("/nonexistent/hall.wav", HC_EFILE, "No such file");
    refused("/nonexistent/hall.txt", HC_EFILE, "No such file");
    refused("/tmp", HC_EFILE, "/tmp");
    char dir[] = "/tmp/hc_dir_XXXXXX", name[64];
    check(mkdtemp(dir), "no temporary folder");
    snprintf(name, sizeof name, "%s.txt", dir);
    rename(dir, name);
    snprintf(path, sizeof path, "%s", "/nonexistent");
    hc_responses r;
    char why[400];
    int code = load(name, 1, 48000, 0, &r, why, sizeof why);
    rmdir(name);
    check(code == HC_EFILE && strstr(why, "directory"), "a folder for a text: %d, %s", code, why);
}

#ifdef HC_WITH_SNDFILE
static const char *sound_file(int n_channels, int rate, int format, const float *frames, int n_frames)
{
    SF_INFO info = {.channels = n_channels, .samplerate = rate, .format = format};
    SNDFILE *f = sf_open(fresh(".wav"), SFM_WRITE, &info);
    check(f, "%s", sf_strerror(NULL));
    check(sf_writef_float(f, frames, n_frames) == n_frames, "%s", sf_strerror(f));
    sf_close(f);
    return path;
}
enum { WAV_FLOAT = SF_FORMAT_WAV | SF_FORMAT_FLOAT };
#endif

/* M mask channels on C inputs; routes as "in>out:channel" in any order, or NULL for a refusal. */
static void rule(int n_mask, int n_in, int n_out, const char *routes)
{
#ifdef HC_WITH_SNDFILE
    float frames[2 * 8];
    for (int i = 0; i < 16; i++) frames[i] = (float)i;
    hc_responses r;
    char why[400], word[16];
    int code = load(sound_file(n_mask, 48000, WAV_FLOAT, frames, 2), n_in, 48000, 0, &r, why, sizeof why);
    unlink(path);
    if (!routes) {
        if (code == HC_OK) hc_responses_free(&r);
        check(code == HC_EINVAL, "%d mask channels on %d inputs: %d", n_mask, n_in, code);
        snprintf(word, sizeof word, "%d", n_mask);
        check(strstr(why, word), "the text is '%s', want the count %s in it", why, word);
        return;
    }
    check(code == HC_OK, "%d mask channels on %d inputs: %d, %s", n_mask, n_in, code, why);
    check(r.n_in == n_in && r.n_out == n_out, "%d on %d: %d in, %d out", n_mask, n_in, r.n_in, r.n_out);
    int n = 0;
    for (const char *at = routes; *at; at += 6, n++) {
        bool found = false;
        for (int i = 0; i < r.n_routes; i++)
            found |= r.routes[i].in == at[0] - '0' && r.routes[i].out == at[2] - '0' &&
                     r.routes[i].taps == r.channel[at[4] - '0'] && r.routes[i].n_taps == 2 && r.routes[i].gain == 1 &&
                     r.routes[i].delay == 0;
        check(found, "%d mask channels on %d inputs: no route %.5s", n_mask, n_in, at);
    }
    check(n == r.n_routes, "%d mask channels on %d inputs: %d routes, want %d", n_mask, n_in, r.n_routes, n);
    hc_responses_free(&r);
#else
    check_skip("built without libsndfile");
#endif
}

static void channel_rule_holds(const char *backend)
{
    rule(1, 1, 1, "0>0:0 ");
    rule(1, 2, 2, "0>0:0 1>1:0 ");
    rule(1, 4, 4, "0>0:0 1>1:0 2>2:0 3>3:0 ");
    rule(2, 2, 2, "0>0:0 1>1:1 ");
    rule(3, 3, 3, "0>0:0 1>1:1 2>2:2 ");
    rule(4, 4, 4, "0>0:0 1>1:1 2>2:2 3>3:3 ");
    rule(2, 1, 2, "0>0:0 0>1:1 ");
    rule(5, 1, 5, "0>0:0 0>1:1 0>2:2 0>3:3 0>4:4 ");
    rule(4, 2, 2, "0>0:0 0>1:1 1>0:2 1>1:3 "); /* true stereo: L>L L>R R>L R>R */
    rule(3, 2, 0, NULL);
    rule(2, 3, 0, NULL);
    rule(8, 2, 0, NULL);
    rule(4, 3, 0, NULL);
}

static void sound_files_are_read_exactly(const char *backend)
{
#ifdef HC_WITH_SNDFILE
    struct random random = random_seeded(1);
    float *x = noise(&random, 3 * 700);
    hc_responses r;
    char why[400];
    int code = load(sound_file(3, 44100, WAV_FLOAT, x, 700), 1, 44100, 0, &r, why, sizeof why);
    unlink(path);
    check(code == HC_OK, "%d, %s", code, why);
    check(r.n_channels == 3 && r.n_frames == 700 && r.rate == 44100 && r.file_rate == 44100,
          "%d channels, %d frames, %d Hz", r.n_channels, r.n_frames, r.rate);
    for (int ch = 0; ch < 3; ch++)
        for (int i = 0; i < 700; i++) check(r.channel[ch][i] == x[i * 3 + ch], "channel %d, frame %d", ch, i);
    hc_responses_free(&r);
    free(x);
#else
    check_skip("built without libsndfile");
#endif
}

static void bad_sound_files_are_refused(const char *backend)
{
#ifdef HC_WITH_SNDFILE
    float x[2 * 100] = {0};
    refused(sound_file(2, 48000, WAV_FLOAT, x, 0), HC_EINVAL, "no frames");
    x[2 * 57 + 1] = NAN;
    refused(sound_file(2, 48000, WAV_FLOAT, x, 100), HC_EINVAL, "57");
    x[2 * 57 + 1] = INFINITY;
    refused(sound_file(2, 48000, WAV_FLOAT, x, 100), HC_EINVAL, "channel 2");
    refused(text_file(".wav", "", 0), HC_EFILE, path);
    refused(text_file(".wav", "RIFF\0\0\0\0WAVE", 12), HC_EFILE, path);
    refused(text_file(".wav", "not a sound at all, just words", 30), HC_EFILE, path);
#else
    check_skip("built without libsndfile");
#endif
}

static void limited(const char *file, struct mask_limits limits, int code_wanted, const char *word)
{
    struct mask_file read;
    char why[400] = "";
    int code = mask_file_read(&read, file, &limits, REASON(why, sizeof why));
    if (code == HC_OK) mask_file_free(&read);
    check(code == code_wanted && strstr(why, word), "%zu frames, %zu bytes, %d Hz: %d, '%s'", limits.frames,
          limits.bytes, limits.rate, code, why);
}

/* A file just within its limits is read. Samples take 8 bytes to read, 12 at each of two rates to resample. */
static void length_and_memory_are_limited(const char *backend)
{
    const char *text = text_file(".txt", "1 2\n3 4\n5 6\n", 12);
    limited(text, (struct mask_limits){3, 3 * 2 * 8, 0, false}, HC_OK, "");
    limited(text, (struct mask_limits){3, 3 * 2 * 8, 96000, false}, HC_OK, "");
    limited(text, (struct mask_limits){2, 3 * 2 * 8, 0, false}, HC_EINVAL, "longer than 2 frames of 2 channels");
    limited(text, (struct mask_limits){3, 3 * 2 * 8 - 1, 0, false}, HC_ENOMEM, "longer than 2 frames of 2 channels");
    unlink(path);
#if defined(HC_WITH_SNDFILE) && defined(HC_WITH_SOXR)
    float x[3 * 700] = {0};
    const char *sound = sound_file(3, 48000, WAV_FLOAT, x, 700);
    limited(sound, (struct mask_limits){700, 700 * 3 * 8, 48000, false}, HC_OK, "");
    limited(sound, (struct mask_limits){1400, 700 * 3 * 12 * 3, 96000, false}, HC_OK, "");
    limited(sound, (struct mask_limits){175, 700 * 3 * 15, 12000, false}, HC_OK, "");
    limited(sound, (struct mask_limits){699, 700 * 3 * 8, 0, false}, HC_EINVAL, "longer than 699 frames");
    limited(sound, (struct mask_limits){1399, 700 * 3 * 12 * 3, 96000, false}, HC_EINVAL, "longer than 699 frames");
    limited(sound, (struct mask_limits){700, 700 * 3 * 8 - 1, 0, false}, HC_ENOMEM, "longer than 699 frames");
    limited(sound, (struct mask_limits){1400, 700 * 3 * 12 * 3 - 1, 96000, false}, HC_ENOMEM, "longer than 699 frames");
    unlink(path);
#endif
}

/* A response resampled keeps its gain at every frequency below both Nyquists, and its time. */
static void resampling_keeps_gain_and_time(const char *backend)
{
#if defined(HC_WITH_SNDFILE) && defined(HC_WITH_SOXR)
    static const int rates[][2] = {{44100, 48000}, {48000, 44100}, {96000, 48000}, {8000, 48000}, {48000, 47999}};
    for (int i = 0; i < 5; i++) {
        int from = rates[i][0], to = rates[i][1], n = from / 4;
        float *x = must_alloc((size_t)n, sizeof *x);
        for (int j = 0; j < n; j++) { /* a bell at 100 ms, 2 ms wide, on a tone of 900 Hz */
            double t = j / (double)from - 0.1;
            x[j] = (float)(exp(-t * t / (2 * 4e-6)) * cos(6.283185307179586 * 900 * t) * 1000.0 / from);
        }
        hc_responses r;
        char why[400];
        int code = load(sound_file(1, from, WAV_FLOAT, x, n), 1, to, 0, &r, why, sizeof why);
        unlink(path);
        check(code == HC_OK, "%d to %d: %d, %s", from, to, code, why);
        check(r.rate == to && r.file_rate == from, "%d to %d: says %d from %d", from, to, r.rate, r.file_rate);
        double want_frames = n * (double)to / from;
        check(fabs(r.n_frames - want_frames) <= 2, "%d to %d: %d frames, want about %.1f", from, to, r.n_frames,
              want_frames);
        double worst = 0;
        for (int j = 0; j < r.n_frames; j++) {
            double t = j / (double)to - 0.1;
            double want = exp(-t * t / (2 * 4e-6)) * cos(6.283185307179586 * 900 * t) * 1000.0 / to;
            worst = fmax(worst, fabs((double)r.channel[0][j] - want));
        }
        check(worst <= 1e-5 * 1000.0 / to, "%d to %d: off by %g of the peak", from, to, worst * to / 1000);
        hc_responses_free(&r);
        code = load(sound_file(1, from, WAV_FLOAT, x, n), 1, to, HC_KEEP_RATE, &r, why, sizeof why);
        unlink(path);
        check(code == HC_OK && r.n_frames == n && r.file_rate == from, "HC_KEEP_RATE: %d, %d frames", code, r.n_frames);
        for (int j = 0; j < n; j++) check(r.channel[0][j] == x[j], "HC_KEEP_RATE: frame %d", j);
        hc_responses_free(&r);
        free(x);
    }
#else
    check_skip("built without libsndfile or soxr");
#endif
}

/* ---- a mask for each rate ----------------------------------------------------------------------- */

static char folder[40];

static const char *in_folder(const char *name)
{
    static char of_call[2][128];
    static int call;
    char *text = of_call[call++ % 2];
    snprintf(text, sizeof of_call[0], "%s/%s", folder, name);
    return text;
}

static void folder_make(const char *const *files, int n)
{
    const char *dir = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%.24s/hc_XXXXXX", dir ? dir : "/tmp");
    check(mkdtemp(folder), "no temporary folder");
    for (int i = 0; i < n; i++) {
        const char *name = in_folder(files[i]), *end = name + strlen(name) - 1;
        FILE *f = *end == '/' ? NULL : fopen(name, "w");
        check(*end == '/' ? mkdir(name, 0700) == 0 : f && fputs("1\n0\n0\n0\n", f) >= 0 && fclose(f) == 0, "no %s",
              name);
    }
}

static void folder_remove(const char *const *files, int n)
{
    while (n-- > 0) remove(in_folder(files[n]));
    rmdir(folder);
}

/* wanted: the name that the path stands for at this rate; warns: the name of a file that is missed. */
static void stands_for(const char *name, int rate, const char *wanted, int file_rate, const char *warns)
{
    hc_responses r;
    char why[400], found[128] = "";
    const char *pattern = in_folder(name);
    int code = hc_responses_find(pattern, rate, found, sizeof found, why, sizeof why);
    check(code == HC_OK && strcmp(found, in_folder(wanted)) == 0, "%s at %d Hz: %d, %s, want %s", name, rate, code,
          found, wanted);
    code = load(pattern, 1, rate, HC_KEEP_RATE, &r, why, sizeof why);
    check(code == HC_OK && r.file_rate == file_rate && r.n_routes == 1, "%s at %d Hz: %d (%s), %d Hz", name, rate, code,
          why, r.file_rate);
    check(r.n_diagnostics == (warns ? 1 : 0) && r.n_warnings == r.n_diagnostics, "%s at %d Hz: %d warnings", name, rate,
          r.n_warnings);
    if (warns)
        check(strstr(r.diagnostics[0].text, in_folder(warns)) && strstr(r.diagnostics[0].text, in_folder(wanted)) &&
                  r.diagnostics[0].code == HC_OK,
              "%s", r.diagnostics[0].text);
    hc_responses_free(&r);
}

static void a_path_stands_for_a_file_for_each_rate(const char *backend)
{
    static const char *const files[] = {"m-8000.txt",   "m-44100.txt", "m-96000.txt",  "m-50000.csv",
                                        "m-060000.txt", "m-.txt",      "m-48000x.txt", "l-44100.txt",
                                        "p-%r.txt",     "p-48000.txt", "48000/",       "48000/m-48000.txt"};
    enum { N = sizeof files / sizeof *files };
    folder_make(files, N);
    stands_for("m-%r.txt", 44100, "m-44100.txt", 44100, NULL);
    stands_for("m-%r.txt", 96000, "m-96000.txt", 96000, NULL);
    stands_for("m-%r.txt", 48000, "m-96000.txt", 96000, "m-48000.txt"); /* 44100 is nearer, and has less */
    stands_for("m-%r.txt", 16000, "m-44100.txt", 44100, "m-16000.txt");
    stands_for("m-%r.txt", 192000, "m-96000.txt", 96000, "m-192000.txt");
    stands_for("m-%r.txt", 0, "m-96000.txt", 96000, NULL);
    stands_for("%r/m-%r.txt", 44100, "48000/m-48000.txt", 48000, "44100/m-44100.txt");
    stands_for("p-%r.txt", 48000, "p-%r.txt", 0, NULL);
    stands_for("l-44100.txt", 48000, "l-44100.txt", 0, NULL);

    char why[400], found[8], longest[5000];
    hc_responses r;
    int code = load(in_folder("n-%r.txt"), 1, 44100, 0, &r, why, sizeof why);
    check(code == HC_EFILE && strstr(why, "n-%r.txt") && strstr(why, "n-44100.txt"), "none: %d, %s", code, why);
    code = load(in_folder("nowhere/n-%r.txt"), 1, 0, 0, &r, why, sizeof why);
    check(code == HC_EFILE && strstr(why, "n-%r.txt"), "no folder: %d, %s", code, why);
    code = hc_responses_find(in_folder("m-%r.txt"), 0, found, sizeof found, why, sizeof why);
    check(code == HC_EINVAL && strstr(why, "m-96000.txt"), "a short buffer: %d, %s", code, why);
    memset(longest, 'x', sizeof longest);
    memcpy(longest, "%r", 2);
    for (size_t length = 4085; length < sizeof longest; length += 10) {
        longest[length] = 0;
        code = load(longest, 1, 44100, 0, &r, why, sizeof why);
        check(code == HC_EFILE && why[0], "%zu bytes: %d", length, code);
        longest[length] = 'x';
    }
#ifdef HC_WITH_SOXR
    code = load(in_folder("m-%r.txt"), 1, 48000, 0, &r, why, sizeof why);
    check(code == HC_OK && r.n_frames == 2 && r.rate == 48000, "resampled: %d, %d frames", code, r.n_frames);
    hc_responses_free(&r);
#endif
    folder_remove(files, N);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(texts_are_read, false),
        TEST(bad_texts_are_refused, false),
        TEST(decimal_commas_are_refused, false),
        TEST(header_lines_are_skipped_and_said, false),
        TEST(missing_files_are_refused, false),
        TEST(channel_rule_holds, false),
        TEST(sound_files_are_read_exactly, false),
        TEST(bad_sound_files_are_refused, false),
        TEST(length_and_memory_are_limited, false),
        TEST(resampling_keeps_gain_and_time, false),
        TEST(a_path_stands_for_a_file_for_each_rate, false),
    };
    return check_main("responses", tests, sizeof tests / sizeof *tests);
}
