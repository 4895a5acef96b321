#include "sound_out.h"

#include "dsp/haloconv_files.h"
#include "host/message.h"
#include "read_back.h"
#include "sound_format.h"
#include "sound_in.h" /* NO_LOUDSPEAKERS */
#include "spool.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14; before, EINVAL */
#endif

/* A RIFF file counts its bytes in 32 bits; 1 MiB is left for the chunks besides the samples. A test defines less, and
 * keeps its short RF64 files. */
#ifndef RIFF_BYTES
#define RIFF_BYTES (4294967296.0 - 1048576.0)
#define SHORT_RF64_BECOMES_WAV SF_TRUE
#else
#define SHORT_RF64_BECOMES_WAV SF_FALSE
#endif
enum {
    HEADER_BYTES = 1 << 16,    /* bytes of the header and other chunks, as a rule */
    MIN_MAPPED = 8 << 20,      /* bytes; a smaller file is not mapped */
    UNMAP_INTERVAL = 64 << 20, /* bytes that the threads write between two calls that drop the pages */
};
enum { LOSSY_FRAMES = 4096 }; /* libsndfile's Vorbis writer puts a block on the stack */

/* ---- the file below libsndfile: libsndfile does not report every write that failed -------------- */

static sf_count_t io_length(void *data)
{
    return ((struct sound_out *)data)->end;
}
static sf_count_t io_tell(void *data)
{
    return ((struct sound_out *)data)->at;
}

static sf_count_t io_seek(sf_count_t offset, int whence, void *data)
{
    struct sound_out *out = data;
    int64_t base = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? out->at : out->end;
    if (base + offset < 0) return -1;
    return out->at = base + offset;
}

static sf_count_t io_read(void *buffer, sf_count_t bytes, void *data)
{
    (void)buffer, (void)bytes, (void)data;
    return 0;
}

/* Finds the loudspeakers in the header of a WAV or RF64, which libsndfile writes as a whole. */
static void locate_loudspeakers(struct sound_out *out, const char *head, int64_t bytes)
{
    enum { EXTENSIBLE_BYTES = 40, AT = 20 };
    if (bytes < 12 || (memcmp(head, "RIFF", 4) != 0 && memcmp(head, "RF64", 4) != 0)) return;
    uint32_t size;
    for (int64_t at = 12; at + 8 + EXTENSIBLE_BYTES <= bytes; at += 8 + (int64_t)le32toh(size)) {
        memcpy(&size, head + at + 4, sizeof size);
        if (memcmp(head + at, "fmt ", 4) != 0) continue;
        if (le32toh(size) >= EXTENSIBLE_BYTES) out->loudspeakers_at = at + 8 + AT;
        return;
    }
}

static sf_count_t io_write(const void *buffer, sf_count_t bytes, void *data)
{
    struct sound_out *out = data;
    const char *from = buffer;
    sf_count_t done = 0;
    if (out->payload < 0 && buffer == out->first_raw) out->payload = out->at;
    if (out->at == 0) locate_loudspeakers(out, buffer, bytes);
    if (out->map && from == out->map + out->at) { /* sound_out_put wrote the bytes; sound_out_claim calls this */
        out->at += bytes;
        out->end = out->at > out->end ? out->at : out->end;
        return bytes;
    }
    while (done < bytes && !out->error) {
        size_t left = (size_t)(bytes - done);
        ssize_t n = out->pwritable ? pwrite(out->fd, from + done, left, out->at) : write(out->fd, from + done, left);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            out->error = n < 0 ? errno : EIO;
            break;
        }
        done += n;
        out->at += n;
        if (out->at > out->end) out->end = out->at;
    }
    return done;
}

/* ---- opening ------------------------------------------------------------------------------------ */

static bool is_wav(int format)
{
    int container = format & SF_FORMAT_TYPEMASK;
    return container == SF_FORMAT_WAV || container == SF_FORMAT_WAVEX;
}

static double data_bytes(const struct sound_out *out, int64_t n_frames)
{
    return (double)sound_format_frame_bytes(out->format, out->n_channels) * (double)n_frames;
}

static bool fits_container(const struct sound_out *out, int64_t n_frames, char *why, size_t cap)
{
    if (!sound_format_is_small(out->format) || data_bytes(out, n_frames) <= RIFF_BYTES) return true;
    char name[64];
    return message_write(why, cap,
                         "%s: %s holds at most 4 GiB, and the output is longer; use --format rf64, w64 or caf",
                         out->path, sound_format_name(out->format, name, sizeof name));
}

/* WAV of more than 4 GiB, or of unknown length, becomes RF64; libsndfile makes a short file plain WAV at the end. */
static bool use_rf64(struct sound_out *out)
{
    int plain = out->format, wide = SF_FORMAT_RF64 | (out->format & SF_FORMAT_SUBMASK);
    SF_INFO info = {.samplerate = out->rate, .channels = out->n_channels, .format = wide};
    if (!is_wav(out->format) || (out->n_frames >= 0 && data_bytes(out, out->n_frames) <= RIFF_BYTES) ||
        sound_format_bytes(out->format) == 0 || !sf_format_check(&info))
        return false;
    out->format = wide;
    out->short_format = plain;
    return true;
}

static bool open_output_descriptor(struct sound_out *out, char *why, size_t cap)
{
    if (!part_file_open(&out->part, out->path, why, cap)) return false;
    out->fd = out->part.fd;
    out->pwritable = out->part.regular;
    if (!out->part.is_pipe || sound_format_streams(out->format)) return true;
    out->fd = spool_open(why, cap);
    out->spooled = out->pwritable = out->fd >= 0;
    return out->spooled;
}

static void set_up(struct sound_out *out, bool is_rf64, char *const *strings)
{
    /* The chunk would cost another pass over the samples. The header of a wide CAF includes it already. */
    bool is_wide_caf = (out->format & SF_FORMAT_TYPEMASK) == SF_FORMAT_CAF && out->n_channels > 256;
    if (!is_wide_caf) sf_command(out->file, SFC_SET_ADD_PEAK_CHUNK, NULL, SF_FALSE);
    sf_command(out->file, SFC_SET_CLIPPING, NULL, SF_TRUE);
    if (is_rf64) sf_command(out->file, SFC_RF64_AUTO_DOWNGRADE, NULL, SHORT_RF64_BECOMES_WAV);
    for (int i = SF_STR_FIRST; strings && i <= SF_STR_LAST; i++)
        if (strings[i]) sf_set_string(out->file, i, strings[i]); /* fails for formats without strings */
}

/* Opens out->fd for libsndfile. */
static bool open_sound_file(struct sound_out *out, bool is_rf64, char *const *strings, char *why, size_t cap)
{
    static SF_VIRTUAL_IO own_io = {io_length, io_seek, io_read, io_write, io_tell};
    SF_INFO info = {.samplerate = out->rate, .channels = out->n_channels, .format = out->format};
    bool streams = out->part.is_pipe && !out->spooled; /* libsndfile must know that fd is a pipe */
    out->file = streams ? sf_open_fd(out->fd, SFM_WRITE, &info, 0) : sf_open_virtual(&own_io, SFM_WRITE, &info, out);
    if (!out->file) {
        char name[64];
        return message_write(why, cap, "%s: cannot be written as %s: %s; use another --format, such as wav:pcm24",
                             out->path, sound_format_name(out->format, name, sizeof name),
                             out->error ? strerror(out->error) : sf_strerror(NULL));
    }
    set_up(out, is_rf64, strings);
    return true;
}

bool sound_out_open(struct sound_out *out, int fd, const char *path, int format, int rate, int n_channels,
                    int64_t n_frames, char *const *strings, char *why, size_t cap)
{
    *out = (struct sound_out){.path = path,
                              .format = format,
                              .rate = rate,
                              .n_channels = n_channels,
                              .n_frames = n_frames,
                              .fd = fd,
                              .payload = -1,
                              .loudspeakers = NO_LOUDSPEAKERS,
                              .pwritable = fd >= 0,
                              .part = {.fd = fd, .regular = fd >= 0}};
    bool is_rf64 = use_rf64(out);
    out->kind = sound_format_kind(out->format);
    out->bits = sound_format_bits(out->format);
    out->plain = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? sound_format_plain(out->format) : HC_PLANAR;
    bool good = (n_frames < 0 || fits_container(out, n_frames, why, cap)) &&
                (fd >= 0 || open_output_descriptor(out, why, cap)) && open_sound_file(out, is_rf64, strings, why, cap);
    if (!good) sound_out_abandon(out);
    return good;
}

static void write_loudspeakers(struct sound_out *out)
{
    uint32_t mask = htole32((uint32_t)out->loudspeakers);
    bool is_needed = out->loudspeakers != NO_LOUDSPEAKERS && out->loudspeakers_at;
    if (!is_needed || !out->pwritable || out->error) return;
    if (pwrite(out->fd, &mask, sizeof mask, out->loudspeakers_at) != sizeof mask) out->error = errno ? errno : EIO;
}

/* ---- writing ------------------------------------------------------------------------------------ */

static bool sound_write_failed(const struct sound_out *out, char *why, size_t cap)
{
    const char *reason = out->error            ? strerror(out->error)
                         : sf_error(out->file) ? sf_strerror(out->file)
                                               : "short write";
    const char *remedy =
        out->spooled ? "free some space, or set TMPDIR to another folder" : "free some space or choose another output";
    struct pollfd pipe = {.fd = out->part.is_pipe ? out->part.fd : -1}; /* libsndfile may have replaced errno */
    if (poll(&pipe, 1, 0) == 1 && (pipe.revents & POLLERR))
        reason = "its reader has closed the pipe", remedy = "let it read to the end";
    return message_write(why, cap, "%s: cannot be written: %s; %s", out->path, reason, remedy);
}

bool sound_out_reserve(struct sound_out *out, char *why, size_t cap)
{
    double bytes = out->n_frames < 0 ? 0 : data_bytes(out, out->n_frames);
    if (!out->part.regular || bytes <= 0) return true;
    /* The length of the file does not change: libsndfile would be misled. */
    out->reserved = fallocate(out->fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)bytes + HEADER_BYTES) == 0;
    if (out->reserved || (errno != ENOSPC && errno != EFBIG)) return true;
    out->error = errno;
    return sound_write_failed(out, why, cap);
}

bool sound_out_write_plain(struct sound_out *out, const void *raw, int64_t n_frames, char *why, size_t cap)
{
    int64_t bytes = n_frames * sound_format_frame_bytes(out->format, out->n_channels);
    if (out->n_frames < 0 && !fits_container(out, out->written + n_frames, why, cap)) return false;
    out->first_raw = raw;
    if (sf_write_raw(out->file, raw, bytes) != bytes || out->error || sf_error(out->file))
        return sound_write_failed(out, why, cap);
    out->written += n_frames;
    return true;
}

bool sound_out_is_plain(const struct sound_out *out)
{
    return out->kind == SAMPLE_S24 || sound_format_is_native(out->plain);
}

bool sound_out_write(struct sound_out *out, const void *raw, int64_t n_frames, char *why, size_t cap)
{
    const char *at = raw;
    size_t frame_bytes = sample_bytes(out->kind) * (size_t)out->n_channels;
    int64_t step = sound_format_is_lossy_float(out->format) ? LOSSY_FRAMES : n_frames;
    if (sound_out_is_plain(out)) return sound_out_write_plain(out, raw, n_frames, why, cap);
    if (out->n_frames < 0 && !fits_container(out, out->written + n_frames, why, cap)) return false;
    for (int64_t done = 0; done < n_frames; done += step) {
        sf_count_t n = n_frames - done < step ? n_frames - done : step, wrote = 0;
        const void *from = at + (size_t)done * frame_bytes;
        if (out->kind == SAMPLE_S16) wrote = sf_writef_short(out->file, from, n);
        if (out->kind == SAMPLE_S32) wrote = sf_writef_int(out->file, from, n);
        if (out->kind == SAMPLE_FLOAT) wrote = sf_writef_float(out->file, from, n);
        if (wrote != n || out->error || sf_error(out->file)) return sound_write_failed(out, why, cap);
        out->written += n;
    }
    return true;
}

/* ---- mapped output ------------------------------------------------------------------------------ */

bool sound_out_map(struct sound_out *out)
{
    int64_t bytes = out->payload + (int64_t)data_bytes(out, out->n_frames);
    bool can = out->plain && out->reserved && out->pwritable && out->payload >= 0 && out->n_frames > 0;
    if (!can || bytes < MIN_MAPPED) return false;
    if (ftruncate(out->fd, bytes) != 0) return false; /* libsndfile gets the length from io_length */
    void *pages = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, out->fd, 0);
    if (pages == MAP_FAILED) return false;
    out->map = pages;
    out->map_bytes = bytes;
    return true;
}

static void unmap(struct sound_out *out)
{
    if (out->map) munmap(out->map, (size_t)out->map_bytes);
    out->map = NULL;
}

/* Populates the pages before it writes to them, so that a full disk is an error and not a signal. Every UNMAP_INTERVAL
 * bytes it drops all pages, so that the file does not count as the process's memory; the pages stay in the file, and a
 * thread that is writing to one gets it back. Each drop interrupts all processors. */
bool sound_out_put(struct sound_out *out, int64_t first, const void *raw, int64_t n_frames, char *why, size_t cap)
{
    int64_t frame_bytes = sound_format_frame_bytes(out->format, out->n_channels), page = sysconf(_SC_PAGESIZE);
    int64_t at = out->payload + first * frame_bytes, end = at + n_frames * frame_bytes, start = at / page * page;
    if (end > out->map_bytes)
        return message_write(why, cap, "%s: its input became longer while it was read; run the command again",
                             out->path);
    char *pages = out->map + start;
    if (madvise(pages, (size_t)(end - start), MADV_POPULATE_WRITE) != 0 && errno != EINVAL)
        return message_write(why, cap, "%s: cannot be written: %s; free some space or choose another output", out->path,
                             strerror(errno == EFAULT ? ENOSPC : errno));
    memcpy(out->map + at, raw, (size_t)(n_frames * frame_bytes));
    int64_t before = atomic_fetch_add(&out->put_bytes, end - at);
    if ((before + end - at) / UNMAP_INTERVAL != before / UNMAP_INTERVAL)
        madvise(out->map, (size_t)out->map_bytes, MADV_DONTNEED);
    return true;
}

bool sound_out_claim(struct sound_out *out, int64_t n_frames, char *why, size_t cap)
{
    int64_t frame_bytes = sound_format_frame_bytes(out->format, out->n_channels), n = n_frames - out->written;
    const char *raw = out->map + out->payload + out->written * frame_bytes;
    bool good = out->at == raw - out->map && sound_out_write_plain(out, raw, n, why, cap);
    unmap(out);
    return good || sound_write_failed(out, why, cap);
}

/* Copies the temporary file to the pipe. */
static bool copy_to_pipe(struct sound_out *out)
{
    if (lseek(out->fd, 0, SEEK_SET) != 0) out->error = errno;
    if (!out->error) out->error = spool_copy(out->fd, out->part.fd);
    return out->error == 0;
}

/* sf_close clears the last packet of an SDS file if it is not full (libsndfile 1.2.2 and all before; no issue reports
 * it). Silence fills the packet, which has 30, 40 or 60 samples. */
static void fill_last_packet(struct sound_out *out)
{
    enum { FULL = 120 };
    static const int silence[FULL];
    bool is_sds = (out->format & SF_FORMAT_TYPEMASK) == SF_FORMAT_SDS && out->written % FULL > 0; /* has one channel */
    if (is_sds) sf_writef_int(out->file, silence, FULL - out->written % FULL);
}

/* libsndfile ignores errors of its encoders, such as a full $TMPDIR (ALAC). A file whose size cannot be computed is
 * therefore read back. */
static bool output_is_whole(struct sound_out *out, char *why, size_t cap)
{
    SF_INFO written = {
        .frames = out->written, .samplerate = out->rate, .channels = out->n_channels, .format = out->format};
    sf_count_t found;
    bool readable = out->spooled || out->part.regular;
    if (!readable || sound_format_bytes(out->format) > 0 || read_back_is_whole(out->fd, &written, &found)) return true;
    return message_write(why, cap,
                         "%s: is damaged: %lld of its %lld frames can be read back; free some space, also in "
                         "$TMPDIR, or use another --format",
                         out->path, (long long)(found < 0 ? 0 : found), (long long)out->written);
}

bool sound_out_commit(struct sound_out *out, char *why, size_t cap)
{
    fill_last_packet(out);
    int code = sf_close(out->file);
    out->file = NULL;
    if (out->short_format && out->end <= 0xffffffff) out->format = out->short_format;
    if (code && !out->error) out->error = errno ? errno : EIO;
    write_loudspeakers(out);
    /* Frees the reserved space behind the end of the file. */
    if (!out->error && out->part.regular && ftruncate(out->fd, out->end) != 0) out->error = errno;
    bool good = !out->error && output_is_whole(out, why, cap) && (!out->spooled || copy_to_pipe(out));
    if (out->error) sound_write_failed(out, why, cap);
    if (!good) {
        sound_out_abandon(out);
        return false;
    }
    if (out->spooled) close(out->fd);
    out->fd = -1;
    return part_file_commit(&out->part, out->path, why, cap);
}

void sound_out_abandon(struct sound_out *out)
{
    if (!out->path) return;
    unmap(out);
    if (out->file) sf_close(out->file);
    out->file = NULL;
    if (out->spooled && out->fd >= 0) close(out->fd);
    out->fd = -1;
    part_file_abandon(&out->part);
}
