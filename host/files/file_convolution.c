#include "file_convolution.h"

#include "dsp/base/samples.h"
#include "host/message.h"
#include "host/stopwatch.h"
#include "sound_format.h"

#include <endian.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    CHUNK_BYTES = 1 << 17,
    CHUNK_SAMPLES = CHUNK_BYTES / 2, /* max. samples: a sample has two bytes or more */
};

void file_engine_config(hc_config *config, int rate, const char *backend, const char *method)
{
    hc_config_init(config);
    config->rate = rate;
    config->block = HC_BLOCK_FILES;
    config->fade_frames = HC_NO_FADE; /* the engine starts with its mask */
    config->wait_us = -1;             /* a file has no deadline */
    config->backend = backend;
    config->method = method;
}

bool file_engine_failed(hc_engine *engine, char *why, size_t cap)
{
    hc_info info = {.size = sizeof info};
    hc_get_info(engine, &info);
    return message_write(why, cap, "%s: %s", info.device,
                         info.error[0] ? info.error : "the engine stopped; use --backend cpu");
}

bool file_too_loud(const char *path, char *why, size_t cap)
{
    return message_write(
        why, cap, "%s: the output exceeds the range of a float; use a lower --gain, or a quieter mask or input", path);
}

/* ---- loudspeakers: the bits of dwChannelMask of WAV, in the order of the channels ---------------- */

enum { MONO = 0x4, STEREO = 0x3, FIVE_ONE = 0x3f, SEVEN_ONE = 0x63f };

/* Returns the loudspeakers of a FLAC without a comment about them. */
static int64_t loudspeakers_of_flac(int n_channels)
{
    static const int usual[] = {MONO, STEREO, 0x7, 0x33, 0x37, FIVE_ONE, 0x70f, SEVEN_ONE};
    return n_channels <= (int)(sizeof usual / sizeof *usual) ? usual[n_channels - 1] : NO_LOUDSPEAKERS;
}

/* Returns the loudspeakers of the input, for as many channels; for other numbers the usual ones, or none. */
static int64_t loudspeakers_choose(int64_t of_input, int n_in, int n_out)
{
    if (n_out == n_in && of_input != NO_LOUDSPEAKERS) return of_input;
    if (n_out <= 2) return loudspeakers_of_flac(n_out);
    return of_input == 0 ? 0 : n_out == 6 ? FIVE_ONE : n_out == 8 ? SEVEN_ONE : 0;
}

/* Sets the loudspeakers of an output. If it has those of the input, one line says that its container cannot keep them;
 * so does one for a whole batch. */
static void set_loudspeakers(struct sound_out *out, const struct sound_in *in, int64_t loudspeakers, bool are_special)
{
    static atomic_flag is_said = ATOMIC_FLAG_INIT;
    int container = out->format & SF_FORMAT_TYPEMASK;
    bool is_kept = container == SF_FORMAT_WAVEX || container == SF_FORMAT_RF64 ||
                   (container == SF_FORMAT_FLAC && loudspeakers == loudspeakers_of_flac(out->n_channels));
    out->loudspeakers = loudspeakers;
    if (container == SF_FORMAT_WAVEX && (in->format & SF_FORMAT_TYPEMASK) == container &&
        out->n_channels == in->n_channels)
        sf_command(out->file, SFC_WAVEX_SET_AMBISONIC, NULL, sf_command(in->file, SFC_WAVEX_GET_AMBISONIC, NULL, 0));
    if (is_kept || !are_special || out->n_channels != in->n_channels || atomic_flag_test_and_set(&is_said)) return;
    char name[64];
    message_note("%s: %s does not keep the loudspeakers of the input (channel mask 0x%llx); use --format wavex",
                 out->path, sound_format_name(out->format, name, sizeof name), (long long)loudspeakers);
}

/* ---- chunks besides the samples: broadcast data, markers, loops ---------------------------------- */

enum { KEPT_BYTES = 1 << 16, RECORD_BYTES = 24, TIME_AT = 338, VERSION_AT = 346, LOUDNESS_AT = 412 };

static const char chunk_ids[][5] = {"bext", "cue ", "smpl", "LIST", "iXML", "axml", "chna",
                                    "cart", "inst", "id3 ", "MARK", "INST", "COMT"};
enum { N_CHUNK_IDS = sizeof chunk_ids / sizeof *chunk_ids, NAMES_BYTES = 256 };
/* Chunks that libsndfile writes itself, reads as texts, or that have no content. */
static const char own_chunks[] = "RIFF RIFX RF64 WAVE ds64 fmt  data fact PEAK JUNK junk FLLR PAD  LIST "
                                 "FORM AIFF AIFC FVER COMM SSND NAME AUTH (c)  ANNO";

/* Subtracts `shift` frames from two fields of each record; leaves out records whose first field lies before. at: offset
 * of the first record; their number is at n_at. */
static void shift_records(unsigned char *chunk, uint32_t *bytes, size_t n_at, size_t at, const size_t *fields,
                          int64_t shift)
{
    uint32_t n, n_kept = 0, frame, from = (uint32_t)at, to = (uint32_t)at;
    if (*bytes < at) return;
    memcpy(&n, chunk + n_at, sizeof n);
    for (n = le32toh(n); n > 0 && *bytes - from >= RECORD_BYTES; n--, from += RECORD_BYTES) {
        memcpy(&frame, chunk + from + fields[0], sizeof frame);
        if (le32toh(frame) < shift) continue;
        memmove(chunk + to, chunk + from, RECORD_BYTES);
        for (int i = 0; i < 2; i++) {
            memcpy(&frame, chunk + to + fields[i], sizeof frame);
            frame = le32toh(frame) > shift ? htole32((uint32_t)(le32toh(frame) - shift)) : 0;
            memcpy(chunk + to + fields[i], &frame, sizeof frame);
        }
        to += RECORD_BYTES;
        n_kept++;
    }
    /* libsndfile takes what is behind the last marker for the next chunk; loops may have data of the sampler there, of
     * the size in front of them. */
    uint32_t rest = 0;
    if (n_at > 0) memcpy(&rest, chunk + at - 4, sizeof rest);
    rest = le32toh(rest) == *bytes - from ? *bytes - from : 0;
    memmove(chunk + to, chunk + from, rest);
    *bytes = to + rest;
    n_kept = htole32(n_kept);
    memcpy(chunk + n_at, &n_kept, sizeof n_kept);
}

/* Moves the times of a chunk of a WAV: the output begins `shift` frames behind the input. The loudness in a bext is that
 * of the input: it becomes "not known". */
static void chunk_shift(const char *id, unsigned char *chunk, uint32_t *bytes, int64_t shift)
{
    uint64_t time;
    if (memcmp(id, "cue ", 4) == 0) shift_records(chunk, bytes, 0, 4, (const size_t[]){20, 4}, shift);
    if (memcmp(id, "smpl", 4) == 0) shift_records(chunk, bytes, 28, 36, (const size_t[]){8, 12}, shift);
    if (memcmp(id, "bext", 4) != 0 || *bytes < LOUDNESS_AT + 10) return;
    memcpy(&time, chunk + TIME_AT, sizeof time);
    time = htole64(le64toh(time) + (uint64_t)shift);
    memcpy(chunk + TIME_AT, &time, sizeof time);
    static const unsigned char not_known[10] = {0xff, 0x7f, 0xff, 0x7f, 0xff, 0x7f, 0xff, 0x7f, 0xff, 0x7f};
    if (chunk[VERSION_AT] >= 2) memcpy(chunk + LOUDNESS_AT, not_known, sizeof not_known);
}

/* Makes a chunk a multiple of 4 bytes, as libsndfile does, but so that its content stays well formed: the last part of a
 * LIST becomes longer, and XML ends with blank lines. false: a LIST is damaged, and libsndfile could not read what is
 * behind it. */
static bool chunk_pad(SF_CHUNK_INFO *chunk)
{
    unsigned char *data = chunk->data;
    uint32_t padded = (chunk->datalen + 3) & ~3u, size = 0, last = 0;
    bool is_list = strcmp(chunk->id, "LIST") == 0;
    memset(data + chunk->datalen, strstr(chunk->id, "XML") || chunk->id[0] == 'a' ? '\n' : 0, padded - chunk->datalen);
    for (uint32_t at = 4; is_list && at < chunk->datalen; at += 8 + size) {
        if (chunk->datalen - at < 12 || (memcmp(data + at, "labl", 4) != 0 && memcmp(data + at, "note", 4) != 0 &&
                                         memcmp(data + at, "ltxt", 4) != 0))
            return false;
        memcpy(&size, data + at + 4, sizeof size);
        size = le32toh(size);
        if (size < 4 || size > padded - at - 8) return false;
        size += size & 1;
        last = at;
    }
    if (last) {
        size = htole32(padded - last - 8);
        memcpy(data + last + 4, &size, sizeof size);
    }
    chunk->datalen = padded;
    return padded > 0;
}

/* Has the MARK of an AIFF all markers that it counts? libsndfile reads on behind it otherwise. */
static bool marks_fit(const unsigned char *data, uint32_t bytes)
{
    uint32_t n = bytes < 2 ? 1 : data[0] << 8 | data[1], at = 2;
    for (; n > 0 && at + 7 <= bytes; n--) at += 6 + (data[at + 6] | 1u) + 1; /* number, position, name */
    return n == 0 && at <= bytes;
}

/* Copies a chunk; to: NULL = a file of another family. A pipe has passed it. false: it is not kept. */
static bool chunk_copy(SNDFILE *to, const SF_CHUNK_ITERATOR *from, const char *id, const struct sound_in *in,
                       uint32_t *kept)
{
    SF_CHUNK_INFO chunk = {.id_size = 4};
    bool is_list = strcmp(id, "LIST") == 0;
    if (in->is_pipe) return is_list; /* the other chunks of a LIST say that it had markers */
    if (sf_get_chunk_size(from, &chunk) != SF_ERR_NO_ERROR || chunk.datalen > KEPT_BYTES - *kept) return false;
    if (chunk.datalen == 0) return false; /* libsndfile would divide by its size in a file that it reads through us */
    chunk.data = calloc(chunk.datalen + 4, 1);
    bool good = chunk.data && sf_get_chunk_data(from, &chunk) == SF_ERR_NO_ERROR;
    bool is_text = good && is_list && memcmp(chunk.data, "adtl", 4) != 0; /* LIST INFO: strings of sound_in */
    if (good && !is_text && to) {
        memcpy(chunk.id, id, 4);
        uint32_t min_bytes = strcmp(id, "smpl") == 0 ? 36 : 4; /* libsndfile reads these bytes unasked */
        uint32_t max_bytes =
            strcmp(id, "cue ") == 0 ? 4 + 2500 * RECORD_BYTES : KEPT_BYTES; /* its maximum of markers */
        chunk_shift(id, chunk.data, &chunk.datalen, in->first);
        good = strcmp(id, "MARK") != 0 || marks_fit(chunk.data, chunk.datalen);
        good = good && chunk.datalen >= min_bytes && chunk.datalen <= max_bytes && chunk_pad(&chunk) &&
               sf_set_chunk(to, &chunk) == SF_ERR_NO_ERROR;
        *kept += chunk.datalen;
    }
    free(chunk.data);
    return is_text || (good && to);
}

static void name_add(char names[NAMES_BYTES], const char *id)
{
    char plain[] = "????";
    for (int i = 0; i < 4; i++)
        if (id[i] >= ' ' && id[i] <= '~') plain[i] = id[i];
    size_t used = strlen(names);
    snprintf(names + used, NAMES_BYTES - used, "%s%.*s", used ? ", " : "", (int)strcspn(plain, " "), plain);
}

/* Adds the names of the chunks that nobody here knows. Returns a bit for each kind: two kinds may share one. */
static unsigned unknown_add(const struct sound_in *in, unsigned said, char names[NAMES_BYTES])
{
    unsigned found = 0;
    for (SF_CHUNK_ITERATOR *at = sf_get_chunk_iterator(in->file, NULL); at; at = sf_next_chunk_iterator(at)) {
        char byte, id[5] = "";
        SF_CHUNK_INFO chunk = {.data = &byte};
        if (sf_get_chunk_size(at, &chunk) != SF_ERR_NO_ERROR || chunk.datalen == 0) continue;
        chunk.datalen = 1;
        if (sf_get_chunk_data(at, &chunk) != SF_ERR_NO_ERROR) continue;
        memcpy(id, chunk.id, 4);
        int known = 0;
        while (known < N_CHUNK_IDS && memcmp(chunk_ids[known], id, 4) != 0) known++;
        if (strlen(id) < 4 || known < N_CHUNK_IDS || strstr(own_chunks, id)) continue;
        unsigned bit = 1u << (N_CHUNK_IDS + (unsigned char)(id[0] + id[1] + id[2] + id[3]) % (32 - N_CHUNK_IDS));
        if (!(said & bit)) name_add(names, id);
        found |= bit;
    }
    return found;
}

/* Copies the chunks, and names those that are dropped: in a batch each kind once. */
static void copy_chunks(struct sound_out *out, const struct sound_in *in)
{
    static atomic_uint said;
    int from = in->format & SF_FORMAT_TYPEMASK, to = out->format & SF_FORMAT_TYPEMASK;
    bool was_wav = from == SF_FORMAT_WAV || from == SF_FORMAT_WAVEX || from == SF_FORMAT_RF64;
    bool is_wav = to == SF_FORMAT_WAV || to == SF_FORMAT_WAVEX || to == SF_FORMAT_RF64;
    bool keeps = (was_wav && is_wav) || (from == SF_FORMAT_AIFF && to == from && in->first == 0);
    unsigned dropped = 0;
    uint32_t kept = 0;
    for (int i = 0; i < N_CHUNK_IDS; i++) {
        SF_CHUNK_INFO chunk = {.id_size = 4};
        memcpy(chunk.id, chunk_ids[i], 4);
        for (SF_CHUNK_ITERATOR *at = sf_get_chunk_iterator(in->file, &chunk); at; at = sf_next_chunk_iterator(at))
            if (!chunk_copy(keeps ? out->file : NULL, at, chunk_ids[i], in, &kept)) dropped |= 1u << i;
    }
    char names[NAMES_BYTES] = "";
    for (int i = 0; i < N_CHUNK_IDS; i++)
        if (dropped >> i & 1) name_add(names, chunk_ids[i]);
    if (!in->is_pipe && (was_wav || from == SF_FORMAT_AIFF)) dropped |= unknown_add(in, atomic_load(&said), names);
    if (dropped & ~atomic_fetch_or(&said, dropped)) message_note("%s: dropped: %s", out->path, names);
}

bool file_open_output(struct sound_out *out, int fd, const char *path, int format, enum dither dither,
                      const struct sound_in *in, int n_channels, struct output_range range, char *why, size_t cap)
{
    int whole = sound_format_choose(format, path, in->format, in->rate, n_channels, why, cap);
    bool is_flac = (in->format & SF_FORMAT_TYPEMASK) == SF_FORMAT_FLAC;
    int64_t of_input = in->inside.header.loudspeakers;
    if (is_flac && of_input == NO_LOUDSPEAKERS) of_input = loudspeakers_of_flac(in->n_channels);
    int64_t loudspeakers = loudspeakers_choose(of_input, in->n_channels, n_channels);
    int64_t usual = n_channels <= 2 ? loudspeakers_of_flac(n_channels) : 0; /* those that every program assumes */
    bool are_special = of_input > 0 && loudspeakers > 0 && loudspeakers != usual;
    int wide = SF_FORMAT_WAVEX | (whole & SF_FORMAT_SUBMASK);
    SF_INFO info = {.samplerate = in->rate, .channels = n_channels, .format = wide};
    if ((whole & SF_FORMAT_TYPEMASK) == SF_FORMAT_WAV && !(format & SF_FORMAT_TYPEMASK) && are_special &&
        sf_format_check(&info))
        whole = wide; /* a plain WAV has no loudspeakers; `format` may ask for it */
    int64_t n_frames = in->n_frames < 0 ? -1 : in->n_frames + range.extra;
    if (!whole && fd >= 0) close(fd);
    if (!whole || !sound_out_open(out, fd, path, whole, in->rate, n_channels, n_frames, in->strings, why, cap))
        return false;
    set_loudspeakers(out, in, loudspeakers, are_special);
    copy_chunks(out, in);
    out->dithers = dither == DITHER_TPDF && sound_format_can_dither(whole);
    return true;
}

/* Returns the memory of a chunk, for the caller's thread: its stack may be as small as musl's 128 KiB. NULL: none. The
 * next call gets the same memory. With aligned_alloc, glibc would not find it again, and the heap would grow. */
static void *chunk_alloc(size_t bytes, const char *path, char *why, size_t cap)
{
    void *chunk = malloc(bytes);
    if (!chunk) message_write(why, cap, "%s: no memory for its samples; free some memory", path);
    return chunk;
}

/* An engine does not check samples in its own memory. */
static void samples_make_finite(struct sound_in *in, float *planar, size_t stride, int64_t n)
{
    const struct samples *samples = samples_choose();
    uint32_t peak = 0;
    for (int ch = 0; ch < in->n_channels; ch++) {
        float *x = planar + (size_t)ch * stride;
        in->non_finite += samples->copy_finite(x, x, (int)n, &peak);
    }
}

int64_t file_read(struct sound_in *in, int64_t first, float *planar, size_t stride, int64_t n, char *why, size_t cap)
{
    char *chunk = chunk_alloc(CHUNK_BYTES, in->path, why, cap);
    if (!chunk) return -1;
    const int64_t max = (int64_t)(CHUNK_BYTES / (sample_bytes(in->kind) * (size_t)in->n_channels));
    int64_t done = 0;
    while (done < n) {
        int64_t want = n - done < max ? n - done : max;
        int64_t got = first == FILE_NEXT ? sound_in_read(in, chunk, want, why, cap)
                                         : sound_in_read_at(in, first + done, chunk, want, why, cap);
        if (got < 0) {
            done = -1;
            break;
        }
        sample_split(in->kind, chunk, in->n_channels, (size_t)got, planar + done, stride);
        if (in->kind == SAMPLE_FLOAT) samples_make_finite(in, planar + done, stride, got);
        done += got;
        if (got < want) break;
    }
    free(chunk);
    return done;
}

bool file_write(struct file_writer *writer, int64_t first, const float *planar, size_t stride, int64_t n, char *why,
                size_t cap)
{
    struct sound_out *out = writer->out;
    const float gain = writer->gain;
    const size_t scaled_bytes = gain != 1.0f ? CHUNK_SAMPLES * sizeof(float) : 0;
    char *chunk = chunk_alloc(CHUNK_BYTES + scaled_bytes, out->path, why, cap);
    if (!chunk) return false;
    float *scaled =
        (float *)(void *)(chunk + CHUNK_BYTES); /* [n_channels][frames of the chunk]; used with a gain only */
    bool good = true;
    const int64_t max = (int64_t)(CHUNK_BYTES / (sample_bytes(out->kind) * (size_t)out->n_channels));
    for (int64_t done = 0; done < n && good; done += max) {
        int64_t frames = n - done < max ? n - done : max;
        const int64_t from = first == FILE_NEXT ? out->written : first + done;
        double start = stopwatch_now();
        for (int ch = 0; ch < out->n_channels && gain != 1.0f; ch++)
            for (int64_t i = 0; i < frames; i++)
                scaled[ch * frames + i] = planar[(size_t)ch * stride + (size_t)(done + i)] * gain;
        sample_join(out->kind, out->bits, gain != 1.0f ? scaled : planar + done, gain != 1.0f ? (size_t)frames : stride,
                    out->n_channels, (size_t)frames, chunk, out->dithers ? from : SAMPLE_UNDITHERED, &writer->seen);
        double encoded = stopwatch_now();
        writer->encode_s += encoded - start;
        good = !sample_peak_overflows(&writer->seen) || file_too_loud(out->path, why, cap);
        good = good && (first == FILE_NEXT ? sound_out_write(out, chunk, frames, why, cap)
                                           : sound_out_put(out, from, chunk, frames, why, cap));
        writer->write_s += stopwatch_now() - encoded;
    }
    free(chunk);
    return good;
}
