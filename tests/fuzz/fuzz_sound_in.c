/* Any bytes as an input of convolve and batch: by name, through a pipe and as raw samples, and in each way that the
 * format allows: decoded, plain, in part, and from any frame on. All ways give the same samples. */
#include "fuzz.h"

#include "dsp/haloconv_files.h"
#include "host/files/sound_format.h"
#include "host/files/sound_in.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    BLOCK = 57,            /* frames of a read */
    MAX_SAMPLES = 1 << 18, /* a few bytes of a compressed file may decode to many */
    MIN_PEEKED = 12,       /* a shorter pipe is waited for */
};

struct samples { /* as a way of reading gave them */
    char *bytes;
    int64_t n_frames, frame_bytes;
    bool whole; /* the reader met the end of the file, and no error */
};

typedef int64_t reader(struct sound_in *in, void *raw, int64_t n_frames, char *why, size_t cap);

static struct samples read_all(struct sound_in *in, reader *read, int64_t frame_bytes)
{
    struct samples s = {.frame_bytes = frame_bytes};
    char why[400] = "";
    int64_t got = BLOCK, most = MAX_SAMPLES / in->n_channels + BLOCK;
    s.bytes = malloc((size_t)(most * frame_bytes));
    must(s.bytes);
    while (got == BLOCK && s.n_frames + BLOCK <= most) {
        got = read(in, s.bytes + s.n_frames * frame_bytes, BLOCK, why, sizeof why);
        must(got >= -1 && got <= BLOCK && (got >= 0 || *why));
        if (got > 0) s.n_frames += got;
    }
    s.whole = got >= 0 && got < BLOCK;
    must(in->n_frames < 0 || s.n_frames <= in->n_frames);
    return s;
}

static bool opened(struct sound_in *in, const char *path, const SF_INFO *raw)
{
    char why[400] = "";
    if (!sound_in_open(in, path, raw, why, sizeof why)) {
        must(*why && !in->file);
        return false;
    }
    must(in->rate >= 1 && in->n_channels >= 1 && in->n_channels <= 1024 && in->n_frames != 0);
    return true;
}

static struct samples read_file(const char *path, const SF_INFO *raw, bool plain)
{
    struct sound_in in;
    struct samples s = {0};
    if (!opened(&in, path, raw)) return s;
    if (!plain)
        s = read_all(&in, sound_in_read, in.n_channels * (int64_t)sample_bytes(in.kind));
    else if (in.plain != HC_PLANAR)
        s = read_all(&in, sound_in_read_plain, sound_format_frame_bytes(in.format, in.n_channels));
    sound_in_close(&in);
    return s;
}

/* Compares the frames that both have. */
static void same(const struct samples *a, const struct samples *b)
{
    int64_t n = a->n_frames < b->n_frames ? a->n_frames : b->n_frames;
    if (!a->bytes || !b->bytes) return;
    must(a->frame_bytes == b->frame_bytes && memcmp(a->bytes, b->bytes, (size_t)(n * a->frame_bytes)) == 0);
    must(!a->whole || !b->whole || a->n_frames == b->n_frames);
}

/* Reads blocks from the last to the first, by their places in the file. */
static void read_backwards(const char *path, const struct samples *plain)
{
    struct sound_in in;
    char why[400] = "", *raw = malloc((size_t)(BLOCK * plain->frame_bytes));
    if (!opened(&in, path, NULL) || !sound_in_can_read_at(&in)) goto done;
    must(raw && in.plain != HC_PLANAR && in.n_frames > 0);
    for (int64_t first = (plain->n_frames - 1) / BLOCK * BLOCK; first >= 0; first -= BLOCK) {
        int64_t left = plain->n_frames - first, want = left < BLOCK ? left : BLOCK;
        int64_t got = sound_in_read_at(&in, first, raw, BLOCK, why, sizeof why);
        if (got < 0) break;
        must(got >= want && memcmp(raw, plain->bytes + first * plain->frame_bytes, want * plain->frame_bytes) == 0);
    }
done:
    sound_in_close(&in);
    free(raw);
}

/* Reads a part of the file: the same frames as in the whole. Frames of a damaged FLAC depend on where it is seeked. */
static void read_part(const char *path, const struct samples *whole)
{
    struct sound_in in;
    char why[400] = "";
    const int64_t first = whole->n_frames / 3, n = whole->n_frames / 3 + 1;
    if (!opened(&in, path, NULL)) return;
    bool good = sound_in_cut(&in, first, n, why, sizeof why);
    must(good || *why);
    must(!good || (in.read == first && in.n_frames <= n));
    struct samples part = good ? read_all(&in, sound_in_read, whole->frame_bytes) : (struct samples){0};
    must(part.n_frames <= n);
    int64_t both = first + part.n_frames <= whole->n_frames ? part.n_frames : whole->n_frames - first;
    if (good && both > 0 && (in.format & SF_FORMAT_TYPEMASK) != SF_FORMAT_FLAC)
        must(memcmp(part.bytes, whole->bytes + first * whole->frame_bytes, (size_t)(both * whole->frame_bytes)) == 0);
    sound_in_close(&in);
    must(opened(&in, path, NULL));
    if (in.n_frames >= 0) must(!sound_in_cut(&in, in.n_frames, 1, why, sizeof why));
    sound_in_close(&in);
    free(part.bytes);
}

static struct samples read_pipe(const uint8_t *data, size_t size)
{
    int ends[2];
    char path[64];
    must(pipe2(ends, O_CLOEXEC) == 0 && write(ends[1], data, size) == (ssize_t)size && close(ends[1]) == 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", ends[0]);
    struct samples s = read_file(path, NULL, false);
    close(ends[0]);
    return s;
}

static void look_at_raw(const uint8_t *data, size_t size)
{
    SF_INFO info = {.samplerate = 48000, .channels = 3, .format = SF_FORMAT_RAW | SF_FORMAT_PCM_16};
    struct samples s = read_file("t.wav", &info, false);
    if (!s.bytes) return;
    must(s.n_frames == (int64_t)size / 6 && memcmp(s.bytes, data, (size_t)s.n_frames * 6) == 0);
    free(s.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 1 << 14) return 0; /* a pipe takes less than 64 KiB at once */
    file_put("t.wav", data, size);
    struct samples decoded = read_file("t.wav", NULL, false), plain = read_file("t.wav", NULL, true);
    if (plain.bytes) {
        struct sound_in in;
        must(opened(&in, "t.wav", NULL));
        if (sound_format_is_native(in.plain)) same(&decoded, &plain);
        sound_in_close(&in);
        read_backwards("t.wav", &plain);
    }
    if (decoded.bytes) read_part("t.wav", &decoded);
    if (decoded.bytes && size >= MIN_PEEKED) {
        struct samples piped = read_pipe(data, size);
        same(&decoded, &piped);
        free(piped.bytes);
    }
    look_at_raw(data, size);
    free(decoded.bytes);
    free(plain.bytes);
    return 0;
}
