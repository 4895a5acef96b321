/* Raw files: every format against bytes written by hand, and the files that are refused. */
#include "check.h"
#include "dsp/masks/raw_samples.h"
#include "haloconv_masks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct mask_file file;
static char why[400];

static int load(const char *format, const void *bytes, size_t n, int skip, int max)
{
    const char *dir = getenv("TMPDIR");
    char path[200];
    snprintf(path, sizeof path, "%s/hc_XXXXXX.raw", dir ? dir : "/tmp");
    int fd = mkstemps(path, 4);
    check(fd >= 0 && write(fd, bytes, n) == (ssize_t)n, "cannot write %s", path);
    close(fd);
    struct raw_samples raw = {.format = raw_format_find(format), .skip = skip, .max = max};
    struct mask_limits limits = {.frames = 100, .bytes = 1 << 20};
    check(raw.format, "%s is unknown", format);
    why[0] = 0;
    int code = raw_samples_read(&file, path, &raw, &limits, REASON(why, sizeof why));
    unlink(path);
    return code;
}

#define BYTES(text) text, sizeof(text) - 1

static void every_format_is_decoded(const char *backend)
{
    static const struct {
        const char *format, *bytes;
        size_t n;
    } cases[] = {
        /* 0.5 and -0.75 */
        {"S8", BYTES("\x40\xa0")},
        {"S16_LE", BYTES("\0\x40\0\xa0")},
        {"s16_be", BYTES("\x40\0\xa0\0")},
        {"S16_NE", BYTES("\0\x40\0\xa0")},
        {"S24_LE", BYTES("\0\0\x40\0\0\xa0")},
        {"S24_3BE", BYTES("\x40\0\0\xa0\0\0")},
        {"S24_4LE", BYTES("\0\0\x40\0\0\0\xa0\xff")},
        {"S24_4BE", BYTES("\0\x40\0\0\xff\xa0\0\0")},
        {"S32_LE", BYTES("\0\0\0\x40\0\0\0\xa0")},
        {"S32_BE", BYTES("\x40\0\0\0\xa0\0\0\0")},
        {"FLOAT_LE", BYTES("\0\0\0\x3f\0\0\x40\xbf")},
        {"FLOAT_BE", BYTES("\x3f\0\0\0\xbf\x40\0\0")},
        {"FLOAT64_LE", BYTES("\0\0\0\0\0\0\xe0\x3f\0\0\0\0\0\0\xe8\xbf")},
        {"FLOAT64_BE", BYTES("\x3f\xe0\0\0\0\0\0\0\xbf\xe8\0\0\0\0\0\0")},
        {"text", BYTES("0.5\n\n -0.75 # the last\n")},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int code = load(cases[i].format, cases[i].bytes, cases[i].n, 0, 0);
        check(code == HC_OK, "%s: %s", cases[i].format, why);
        check(file.n_channels == 1 && file.n_frames == 2 && file.rate == 0, "%s: %d frames of %d channels",
              cases[i].format, file.n_frames, file.n_channels);
        check(file.channel[0][0] == 0.5F && file.channel[0][1] == -0.75F, "%s: %g %g, want 0.5 -0.75", cases[i].format,
              (double)file.channel[0][0], (double)file.channel[0][1]);
        mask_file_free(&file);
    }
    check(!raw_format_find("S16") && !raw_format_find("AUTO"), "S16 or AUTO is a format");
}

static void skipped_bytes_and_frames_behind_the_last_are_not_read(const char *backend)
{
    check(load("S8", BYTES("RIFF\x40\xa0\x20"), 4, 2) == HC_OK, "%s", why);
    check(file.n_frames == 2 && file.channel[0][0] == 0.5F, "%d frames, the first %g", file.n_frames,
          (double)file.channel[0][0]);
    mask_file_free(&file);
    check(load("S16_LE", BYTES("\0\x40\0"), 0, 1) == HC_OK, "%s", why); /* the half sample is behind the last frame */
    mask_file_free(&file);
    check(load("TEXT", BYTES("header\n1\n2\nend\n"), 7, 2) == HC_OK, "%s", why);
    check(file.n_frames == 2 && file.channel[0][1] == 2, "%d frames", file.n_frames);
    mask_file_free(&file);
}

static void refuses_what_is_no_mask(const char *backend)
{
    static const struct {
        const char *format, *bytes;
        size_t n;
        int skip, code;
        const char *word;
    } cases[] = {
        {"S16_LE", BYTES("\0\x40\0"), 0, HC_EINVAL, "not a whole number of S16_LE samples"},
        {"S16_LE", BYTES(""), 0, HC_EFILE, "empty"},
        {"S16_LE", BYTES("\0\0"), 2, HC_EINVAL, "2 are skipped"},
        {"FLOAT_LE", BYTES("\0\0\0\0\0\0\xc0\x7f"), 0, HC_EINVAL, "frame 1 is NaN"},
        {"FLOAT64_LE", BYTES("\0\0\0\0\0\0\xe0\x7f"), 0, HC_EINVAL, "frame 0 is infinite"}, /* 2^1023 */
        {"S8",
         "101 bytes, one more than the limit of 100 frames: "
         "---------------------------------------------------",
         101, 0, HC_EINVAL, "longer than 100 frames"},
        {"TEXT", BYTES("one\n"), 0, HC_EINVAL, "not a number"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int code = load(cases[i].format, cases[i].bytes, cases[i].n, cases[i].skip, 0);
        check(code == cases[i].code && strstr(why, cases[i].word), "case %zu: code %d, '%s', want %d and '%s'", i, code,
              why, cases[i].code, cases[i].word);
    }
}

int main(void)
{
    static const struct test tests[] = {
        TEST(every_format_is_decoded, false),
        TEST(skipped_bytes_and_frames_behind_the_last_are_not_read, false),
        TEST(refuses_what_is_no_mask, false),
    };
    return check_main("raw_samples", tests, sizeof tests / sizeof *tests);
}
