#include "sound_in.h"

#include "dsp/haloconv_files.h"
#include "dsp/sndfile_log.h"
#include "host/message.h"
#include "sound_format.h"
#include "spool.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MIN_READ_AT
#define MIN_READ_AT (1 << 20) /* bytes of samples; a smaller file has one reader. The fuzz target uses 1 */
#endif

/* ---- format checks ------------------------------------------------------------------------------ */

/* Copies the first bytes of a pipe without consuming them. Waits for the first byte. Returns the number of bytes; 0 at
 * the end of the pipe, or if tee(2) fails. */
static size_t peek(int fd, char *head, size_t bytes)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return 0;
    ssize_t n = tee(fd, ends[1], bytes, 0);
    if (n > 0 && read(ends[0], head, (size_t)n) != n) n = 0;
    close(ends[0]);
    close(ends[1]);
    return n > 0 ? (size_t)n : 0;
}

/* Do the bytes contain the whole header of a WAV, up to its samples, and no chunk that libsndfile reads wrongly from a
 * pipe? An unusual LIST is one. */
static bool is_wav_header(const char *head, size_t bytes)
{
    if (bytes < 12 || memcmp(head, "RIFF", 4) != 0 || memcmp(head + 8, "WAVE", 4) != 0) return false;
    for (size_t at = 12; at + 8 <= bytes;) {
        uint32_t size;
        if (memcmp(head + at, "data", 4) == 0) return true;
        if (memcmp(head + at, "LIST", 4) == 0 &&
            (at + 12 > bytes || (memcmp(head + at + 8, "INFO", 4) != 0 && memcmp(head + at + 8, "adtl", 4) != 0)))
            return false;
        memcpy(&size, head + at + 4, sizeof size);
        at += 8 + (size_t)le32toh(size) + (size & le32toh(1));
    }
    return false;
}

/* Can libsndfile read this pipe directly? It seeks in most formats, and never returns on a WAV that is cut in a LIST
 * chunk before its samples. A writer may split the header: after 0.1 s the spool is used. */
static bool can_stream(struct sound_in *in, int fd)
{
    char head[4096];
    for (int attempt = 0; attempt < 50; attempt++) {
        if (attempt) usleep(2000);
        size_t n = peek(fd, head, sizeof head);
        struct sound_part part = {.head = head, .bytes = (int64_t)n};
        if (is_wav_header(head, n) || (n >= 12 && memcmp(head, ".snd", 4) == 0))
            return sound_header_read(&part, "", NULL) == HC_OK && (in->inside.header = part.header).n_edits == 0;
        if (n == 0 || n == sizeof head || (n >= 4 && memcmp(head, "RIFF", 4) != 0 && memcmp(head, ".snd", 4) != 0))
            return false;
    }
    return false;
}

/* ---- opening ------------------------------------------------------------------------------------ */

static bool copy_to_spool(int *fd, const char *path, char *why, size_t cap)
{
    int spool = spool_open(why, cap);
    if (spool < 0) return false;
    int error = spool_copy(*fd, spool);
    off_t bytes = lseek(spool, 0, SEEK_CUR);
    if (error || bytes == 0 || lseek(spool, 0, SEEK_SET) != 0) {
        close(spool);
        if (!error) return message_write(why, cap, "%s: is empty; give it a sound file", path);
        return message_write(why, cap, "%s: cannot be kept in a temporary file: %s; set TMPDIR to another folder", path,
                             strerror(error));
    }
    close(*fd);
    *fd = spool;
    return true;
}

/* Opens the descriptor for libsndfile; -1: why has the reason. */
static int open_descriptor(struct sound_in *in, bool headerless, char *why, size_t cap)
{
    struct stat status;
    bool standard = strcmp(in->path, "-") == 0;
    int fd = standard ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) : open(in->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) != 0) {
        message_write(why, cap, "%s: cannot be read: %s; check the path and its permissions", in->path,
                      strerror(errno));
        goto fail;
    }
    if (S_ISDIR(status.st_mode)) {
        message_write(why, cap, "%s: is a directory; give a sound file", in->path);
        goto fail;
    }
    if (S_ISCHR(status.st_mode) || S_ISBLK(status.st_mode)) {
        message_write(why, cap, "%s: is a %s; give a sound file or a pipe", in->path,
                      isatty(fd) ? "terminal" : "device");
        goto fail;
    }
    if (S_ISREG(status.st_mode) && status.st_size == 0) {
        message_write(why, cap, "%s: is empty; give a sound file", in->path);
        goto fail;
    }
    if (S_ISREG(status.st_mode)) return fd;
    in->is_pipe = headerless || can_stream(in, fd);
    in->spooled = !in->is_pipe;
    if (in->spooled && !copy_to_spool(&fd, in->path, why, cap)) goto fail;
    return fd;
fail:
    if (fd >= 0) close(fd);
    return -1;
}

/* Copies title, artist and the others. false: no memory. */
static bool copy_strings(struct sound_in *in)
{
    for (int i = SF_STR_FIRST; i <= SF_STR_LAST; i++) {
        const char *text = sf_get_string(in->file, i);
        if (text && *text && !(in->strings[i] = strdup(text))) return false;
    }
    return true;
}

/* Sets n_frames and promised from the header. */
static void count_frames(struct sound_in *in, const SF_INFO *info)
{
    double bytes = (double)sound_format_frame_bytes(in->format, info->channels) * (double)info->frames;
    in->n_frames = -1;
    if (info->frames < 0 || info->frames >= (int64_t)1 << 60) return;
    if (in->is_pipe && bytes >= SNDFILE_PLACEHOLDER_BYTES) return;
    in->promised = info->frames;
    /* An MP3 without an index in its header only estimates its length. */
    if ((in->format & SF_FORMAT_TYPEMASK) != SF_FORMAT_MPEG) in->n_frames = info->frames;
}

/* Do the samples have the byte order that the format implies? Only on little-endian machines. */
static bool has_usual_byte_order(const struct sound_in *in)
{
    bool big = sound_format_plain(in->format) & HC_BIG_ENDIAN,
         swaps = sf_command(in->file, SFC_RAW_DATA_NEEDS_ENDSWAP, NULL, 0);
    return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && swaps == big;
}

static bool check_info(struct sound_in *in, const SF_INFO *info, char *why, size_t cap)
{
    if (info->channels < 1 || info->channels > 1024)
        return message_write(why, cap, "%s: has %d channels; give a file with 1 to 1024", in->path, info->channels);
    if (info->samplerate < 1)
        return message_write(why, cap, "%s: claims a rate of %d Hz; repair its header", in->path, info->samplerate);
    in->rate = info->samplerate;
    in->n_channels = info->channels;
    in->format = info->format;
    in->kind = sound_format_kind(info->format);
    in->plain = has_usual_byte_order(in) ? sound_format_plain(info->format) : HC_PLANAR;
    count_frames(in, info);
    /* An Ogg stream whose end is not marked has no length. */
    bool endless = (in->format & SF_FORMAT_TYPEMASK) == SF_FORMAT_OGG && in->n_frames < 0;
    char log[SNDFILE_LOG_CAP] = "";
    sf_command(in->file, SFC_GET_LOG_INFO, log, sizeof log);
    in->cut = !in->is_pipe && (endless || in->inside.header.is_cut || sndfile_log_says_cut(log));
    if (in->n_frames == 0)
        return message_write(why, cap, "%s: has no frames; give a sound file with at least one", in->path);
    return true;
}

/* Finds the offset of the first frame of a plain file: libsndfile's file offset after a seek to frame 0. It compares
 * some frames at that offset with libsndfile's; if anything differs, the file is read through libsndfile. */
static void find_offsets(struct sound_in *in, const SF_INFO *raw)
{
    enum { TRIED = 16, MAX_FRAME_BYTES = 4096 };
    int64_t frame_bytes = sound_format_frame_bytes(in->format, in->n_channels);
    struct stat status;
    if (!in->plain || in->n_frames * frame_bytes < MIN_READ_AT || frame_bytes > MAX_FRAME_BYTES) return;
    SF_INFO info = raw ? *raw : (SF_INFO){0};
    int fd = open(in->path, O_RDONLY | O_CLOEXEC), own = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3);
    SNDFILE *file = own < 0 ? NULL : sf_open_fd(fd, SFM_READ, &info, 0);
    bool good = file && info.frames == in->n_frames && info.format == in->format && sf_seek(file, 0, SEEK_SET) == 0;
    int64_t at = good ? lseek(fd, 0, SEEK_CUR) : -1, bytes = TRIED * frame_bytes;
    char *theirs = good ? malloc(2 * (size_t)bytes) : NULL, *ours = theirs ? theirs + bytes : NULL;
    good = theirs && at >= 0 && fstat(fd, &status) == 0 && at + in->n_frames * frame_bytes <= status.st_size &&
           sf_read_raw(file, theirs, bytes) == bytes && pread(own, ours, (size_t)bytes, at) == bytes &&
           memcmp(theirs, ours, (size_t)bytes) == 0;
    free(theirs);
    if (file) sf_close(file);
    if (fd >= 0) close(fd);
    if (good)
        in->fd = own, in->payload = at;
    else if (own >= 0)
        close(own);
}

/* Checks the file that libsndfile has opened. */
static bool open_file(struct sound_in *in, const SF_INFO *info, char *why, size_t cap)
{
    if (!in->file) {
        const char *remedy = in->is_pipe ? "give it as a file" : "convert it to WAV, or use `haloconv convolve --raw`";
        char refusal[512];
        sound_refusal(&in->inside, remedy, refusal, sizeof refusal);
        return message_write(why, cap, "%s: %s", in->path, refusal);
    }
    bool good = sf_error(in->file) != SF_ERR_SYSTEM; /* else a read failed, perhaps inside the header */
    if (!good) message_write(why, cap, "%s: cannot be read: %s; check the disk", in->path, sf_strerror(in->file));
    good = good && check_info(in, info, why, cap);
    return good &&
           (copy_strings(in) || message_write(why, cap, "%s: no memory for its title; free some memory", in->path));
}

/* Opens in->inside, whose descriptor it closes after a failure. */
static bool open_part(struct sound_in *in, char *why, size_t cap)
{
    SF_INFO info = {0};
    in->file = sound_part_open(&in->inside, &info);
    bool good = open_file(in, &info, why, cap);
    if (!in->file) close(in->inside.fd);
    if (!good) sound_in_close(in);
    return good;
}

bool sound_in_open(struct sound_in *in, const char *path, const SF_INFO *raw, char *why, size_t cap)
{
    *in = (struct sound_in){.path = path, .fd = -1, .inside.fd = -1, .end = INT64_MAX};
    in->inside.header.loudspeakers = NO_LOUDSPEAKERS;
    int fd = open_descriptor(in, raw != NULL, why, cap);
    if (fd < 0) return false;
    SF_INFO info = raw ? *raw : (SF_INFO){0};
    struct stat status;
    /* Open the file by its name if possible: libsndfile recognises a few headerless formats by their extension. */
    bool is_regular = fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
    bool by_name = strcmp(path, "-") != 0 && is_regular && !in->spooled;
    if (!raw && is_regular) {
        in->inside = (struct sound_part){.fd = fd, .bytes = status.st_size};
        if (sound_header_read(&in->inside, path, REASON(why, cap)) != HC_OK) {
            close(fd);
            return false;
        }
        if (in->inside.header.n_edits > 0) return open_part(in, why, cap);
        in->inside.fd = -1;
    }
    in->file = by_name ? sf_open(path, SFM_READ, &info) : sf_open_fd(fd, SFM_READ, &info, 1);
    if (by_name) close(fd);
    bool good = open_file(in, &info, why, cap);
    if (good && by_name) find_offsets(in, raw);
    if (!good) sound_in_close(in);
    return good;
}

/* ---- a sound inside another file ----------------------------------------------------------------- */

bool sound_in_open_inside(struct sound_in *in, const char *name, int fd, int64_t from, int64_t bytes, char *why,
                          size_t cap)
{
    *in = (struct sound_in){.path = name,
                            .fd = -1,
                            .end = INT64_MAX,
                            .inside = {.fd = fcntl(fd, F_DUPFD_CLOEXEC, 3), .from = from, .bytes = bytes}};
    if (in->inside.fd < 0)
        return message_write(why, cap, "%s: cannot be read: %s; raise ulimit -n, or use fewer --workers", name,
                             strerror(errno));
    if (sound_header_read(&in->inside, name, REASON(why, cap)) == HC_OK) return open_part(in, why, cap);
    close(in->inside.fd);
    return false;
}

/* ---- reading ------------------------------------------------------------------------------------ */

static bool refuse_start(const struct sound_in *in, int64_t first, int64_t n_frames, char *why, size_t cap)
{
    return message_write(why, cap, "%s: the start is %.6g s, but the file ends after %.6g s; choose an earlier start",
                         in->path, (double)first / in->rate, (double)n_frames / in->rate);
}

static int64_t at_end(struct sound_in *in, int64_t got, char *why, size_t cap)
{
    if (sf_error(in->file)) {
        message_write(why, cap, "%s: is damaged after frame %lld (%s); download it again, or restore it", in->path,
                      (long long)in->read, sf_strerror(in->file));
        return -1;
    }
    /* The length of an MP3 is an estimate; ADPCM, GSM and DWVW count in packets. */
    int subtype = in->format & SF_FORMAT_SUBMASK;
    bool packets = subtype >= SF_FORMAT_IMA_ADPCM && subtype <= SF_FORMAT_DWVW_N;
    bool estimate = (in->format & SF_FORMAT_TYPEMASK) == SF_FORMAT_MPEG;
    int64_t slack = estimate ? in->promised / 10 : packets ? 4096 : 0;
    if (in->cut || in->read < in->promised - slack) {
        message_write(
            why, cap,
            "%s: is cut short: it ends after %lld frames, its header promises more; download it again, or restore it",
            in->path, (long long)in->read);
        return -1;
    }
    if (in->read == 0) {
        message_write(why, cap, "%s: has no frames; give a sound file with at least one", in->path);
        return -1;
    }
    if (in->read > in->first) return got;
    refuse_start(in, in->first, in->read, why, cap);
    return -1;
}

int64_t sound_in_read_plain(struct sound_in *in, void *raw, int64_t n_frames, char *why, size_t cap)
{
    int64_t frame_bytes = sound_format_frame_bytes(in->format, in->n_channels);
    if (n_frames > in->end - in->read) n_frames = in->end - in->read;
    sf_count_t got = sf_read_raw(in->file, raw, n_frames * frame_bytes) / frame_bytes;
    if (got < 0) got = 0;
    in->read += got;
    return got < n_frames ? at_end(in, got, why, cap) : got;
}

int64_t sound_in_read(struct sound_in *in, void *raw, int64_t n_frames, char *why, size_t cap)
{
    sf_count_t got = 0;
    if (in->kind == SAMPLE_S24) return sound_in_read_plain(in, raw, n_frames, why, cap);
    if (n_frames > in->end - in->read) n_frames = in->end - in->read;
    if (in->kind == SAMPLE_S16) got = sf_readf_short(in->file, raw, n_frames);
    if (in->kind == SAMPLE_S32) got = sf_readf_int(in->file, raw, n_frames);
    if (in->kind == SAMPLE_FLOAT) got = sf_readf_float(in->file, raw, n_frames);
    if (got < 0) got = 0;
    in->read += got;
    return got < n_frames ? at_end(in, got, why, cap) : got;
}

bool sound_in_cut(struct sound_in *in, int64_t first, int64_t n_frames, char *why, size_t cap)
{
    char raw[1 << 14];
    const int64_t max = (int64_t)sizeof raw / (int64_t)(sample_bytes(in->kind) * (size_t)in->n_channels);
    bool seeks = in->plain || (in->format & SF_FORMAT_TYPEMASK) == SF_FORMAT_FLAC;
    if (in->n_frames >= 0 && first >= in->n_frames) return refuse_start(in, first, in->n_frames, why, cap);
    if (first > 0 && seeks && !in->is_pipe && in->n_frames >= 0) {
        if (sf_seek(in->file, first, SEEK_SET) != first)
            return message_write(why, cap, "%s: is damaged before frame %lld (%s); download it again, or restore it",
                                 in->path, (long long)first, sf_strerror(in->file));
        in->read = first;
    }
    while (in->read < first) {
        int64_t want = first - in->read < max ? first - in->read : max, got = sound_in_read(in, raw, want, why, cap);
        if (got < 0) return false;
        if (got < want) return refuse_start(in, first, in->read, why, cap);
    }
    if (in->n_frames >= 0) in->n_frames -= first;
    if (in->n_frames > n_frames) in->n_frames = n_frames;
    if (n_frames < INT64_MAX - first) in->end = first + n_frames;
    in->first = first;
    return true;
}

int64_t sound_in_read_at(struct sound_in *in, int64_t first, void *raw, int64_t n_frames, char *why, size_t cap)
{
    int64_t frame_bytes = sound_format_frame_bytes(in->format, in->n_channels), left = in->n_frames - first;
    int64_t n = n_frames < left ? n_frames : left;
    for (int64_t done = 0, end = n * frame_bytes; done < end;) {
        ssize_t got = pread(in->fd, (char *)raw + done, (size_t)(end - done), in->payload + first * frame_bytes + done);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) {
            message_write(why, cap, "%s: cannot be read to its end: %s; download it again, or restore it", in->path,
                          got < 0 ? strerror(errno) : "it became shorter");
            return -1;
        }
        done += got;
    }
    if (first + n < in->n_frames) return n;
    in->read = in->n_frames; /* set by the thread that reads the last frame */
    return at_end(in, n, why, cap);
}

bool sound_in_can_read_at(const struct sound_in *in)
{
    return in->fd >= 0;
}

void sound_in_close(struct sound_in *in)
{
    if (!in->file) return;
    if (in->fd >= 0) close(in->fd);
    if (in->inside.fd >= 0) close(in->inside.fd);
    in->fd = in->inside.fd = -1;
    sf_close(in->file);
    in->file = NULL;
    for (int i = SF_STR_FIRST; i <= SF_STR_LAST; i++) {
        free(in->strings[i]);
        in->strings[i] = NULL;
    }
}
