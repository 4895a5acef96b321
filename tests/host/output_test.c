/* An output is whole or refused: releases of libsndfile that break a format, a temporary folder that is full, files that
 * were cut. */
#include "check.h"
#include "host/files/read_back.h"
#include "host/files/sound_format.h"
#include "host/files/sound_out.h"
#include "host/message.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* In the place of libsndfile's own: the release that the code under test sees. */
static const char *release = "libsndfile-1.2.3";
const char *sf_version_string(void)
{
    return release;
}

enum { RATE = 48000, ALAC_PACKET = 4096 };
static const int ALAC = SF_FORMAT_CAF | SF_FORMAT_ALAC_16;
static char folder[] = "/tmp/output_test.XXXXXX", path[64], why[MESSAGE_CAP];

static bool write_noise(struct sound_out *out, int format, int n_channels, int64_t n_frames)
{
    struct random r = random_seeded(7);
    int n = (int)n_frames * n_channels;
    float *x = noise(&r, n);
    if (sound_format_kind(format) != SAMPLE_FLOAT)
        for (int i = 0; i < n; i++) x[i] *= 0x1p30f;
    short *s16 = must_alloc((size_t)n, sizeof *s16);
    for (int i = 0; i < n; i++) s16[i] = (short)(x[i] * 0x1p-16f);
    bool good = sound_out_open(out, path, format, RATE, n_channels, n_frames, NULL, why, sizeof why);
    check(good, "%s", why);
    check(out->kind == SAMPLE_S16 || out->kind == SAMPLE_FLOAT, "kind %d", out->kind);
    good = sound_out_write(out, out->kind == SAMPLE_S16 ? (void *)s16 : x, n_frames, why, sizeof why);
    free(s16);
    free(x);
    return good;
}

static void releases_that_break_alac_refuse_it(const char *backend)
{
    static const struct {
        const char *release;
        bool broken;
    } cases[] = {{"libsndfile-1.0.26", true}, {"libsndfile-1.1.0beta2", true},
                 {"libsndfile-1.2.0", true},  {"libsndfile-1.2.2", true},
                 {"libsndfile-1.2.3", false}, {"libsndfile-1.3.0", false},
                 {"libsndfile-2.0.0", false}, {"libsndfile", true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        release = cases[i].release;
        int asked = sound_format_choose(ALAC, "y.caf", SF_FORMAT_WAV | SF_FORMAT_PCM_16, RATE, 2, why, sizeof why);
        check(asked == (cases[i].broken ? 0 : ALAC), "%s gave %x", release, asked);
        check(asked || (strstr(why, "issue 973") && strstr(why, "caf:pcm24 or flac")), "%s: %s", release, why);
        int kept = sound_format_choose(0, "y.caf", ALAC, RATE, 2, why, sizeof why);
        check(kept == (cases[i].broken ? SF_FORMAT_CAF | SF_FORMAT_PCM_16 : ALAC), "%s gave %x", release, kept);
    }
    release = cases[4].release;
}

/* ALAC's encoder keeps its packets in a temporary file and does not look whether they fit. One packet: its encoder
 * writes beyond its own memory if another one follows a failure. */
static void a_full_temporary_folder_is_an_error(const char *backend)
{
    struct rlimit limit, tight = {.rlim_cur = 4096};
    struct sound_out out;
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &limit);
    tight.rlim_max = limit.rlim_max;
    setrlimit(RLIMIT_FSIZE, &tight);
    bool wrote = write_noise(&out, ALAC, 1, ALAC_PACKET);
    setrlimit(RLIMIT_FSIZE, &limit);
    bool good = wrote && sound_out_commit(&out, why, sizeof why);
    if (!wrote) sound_out_abandon(&out);
    check(!good && strstr(why, "TMPDIR"), "wrote %d, committed %d: %s", wrote, good, why);
    check(access(path, F_OK) != 0, "%s is there", path);
    check(write_noise(&out, ALAC, 1, ALAC_PACKET) && sound_out_commit(&out, why, sizeof why), "%s", why);
    unlink(path);
}

static void a_file_that_was_cut_is_not_whole(const char *backend)
{
    static const int formats[] = {SF_FORMAT_FLAC | SF_FORMAT_PCM_16,   SF_FORMAT_OGG | SF_FORMAT_VORBIS,
                                  SF_FORMAT_OGG | SF_FORMAT_OPUS,      SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III,
                                  SF_FORMAT_WAV | SF_FORMAT_IMA_ADPCM, SF_FORMAT_CAF | SF_FORMAT_ALAC_16,
                                  SF_FORMAT_RAW | SF_FORMAT_GSM610,    SF_FORMAT_AIFF | SF_FORMAT_DWVW_16,
                                  SF_FORMAT_RAW | SF_FORMAT_VOX_ADPCM};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        struct sound_out out;
        SF_INFO info = {.frames = RATE, .samplerate = RATE, .channels = 1, .format = formats[i]};
        char name[64];
        sf_count_t found = 0;
        sound_format_name(formats[i], name, sizeof name);
        if (!sf_format_check(&info)) continue; /* a libsndfile without the codec */
        check(write_noise(&out, formats[i], 1, RATE) && sound_out_commit(&out, why, sizeof why), "%s: %s", name, why);
        int fd = open(path, O_RDWR | O_CLOEXEC);
        struct stat status;
        check(fd >= 0 && fstat(fd, &status) == 0, "%s", path);
        check(read_back_is_whole(fd, &info, &found), "%s: %lld frames found", name, (long long)found);
        check(ftruncate(fd, status.st_size * 3 / 4) == 0, "%s", path);
        check(!read_back_is_whole(fd, &info, &found), "%s, cut: %lld frames found", name, (long long)found);
        close(fd);
        unlink(path);
    }
}

int main(void)
{
    static const struct test tests[] = {
        TEST(releases_that_break_alac_refuse_it, false),
        TEST(a_full_temporary_folder_is_an_error, false),
        TEST(a_file_that_was_cut_is_not_whole, false),
    };
    if (!mkdtemp(folder)) return 1;
    snprintf(path, sizeof path, "%s/y", folder);
    int status = check_main("output", tests, sizeof tests / sizeof *tests);
    unlink(path);
    rmdir(folder);
    return status;
}
