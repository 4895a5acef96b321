#include "sound_header.h"

#include "dsp/sndfile_log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    MAX_CHUNKS = 10000, /* a header of more chunks is left to libsndfile */
    TAG_PCM = 1,
    TAG_FLOAT = 3,
    TAG_MP3 = 0x55,
    TAG_EXTENSIBLE = 0xfffe,
    EXTENSIBLE_BYTES = 40,
};

struct container {
    const char *magic;                     /* first four bytes */
    int first;                             /* offset of the first chunk */
    int id_bytes, size_bytes, size_counts; /* size_counts: bytes of a chunk's head that its size includes */
    int alignment;                         /* of chunks */
    bool is_big;                           /* the highest byte of a number is first */
    const char *data;                      /* the chunk of the samples */
    int empty;                             /* size of that chunk without samples */
};

static const struct container containers[] = {
    {"RIFF", 12, 4, 4, 0, 2, false, "data", 0}, {"RF64", 12, 4, 4, 0, 2, false, "data", 0},
    {"RIFX", 12, 4, 4, 0, 2, true, "data", 0},  {"riff", 40, 16, 8, 24, 8, false, "data", 24},
    {"FORM", 12, 4, 4, 0, 2, true, "SSND", 8},  {"caff", 8, 4, 8, 0, 1, true, "data", 4},
    {"BW64", 12, 4, 4, 0, 2, false, "data", 0},
};

static bool header_look(const struct sound_part *s, int64_t at, void *to, size_t n)
{
    if (at < 0 || at > s->bytes - (int64_t)n) return false;
    if (s->head) return memcpy(to, s->head + at, n);
    ssize_t got;
    do got = pread(s->fd, to, n, s->from + at);
    while (got < 0 && errno == EINTR);
    return got == (ssize_t)n;
}

static uint64_t header_number(const unsigned char *bytes, int n, bool is_big)
{
    uint64_t value = 0;
    for (int i = 0; i < n; i++) value = value << 8 | bytes[is_big ? i : n - 1 - i];
    return value;
}

static void edit(struct sound_header *header, int64_t at, int n, bool is_big, uint64_t value)
{
    struct header_edit *e = &header->edits[header->n_edits++];
    *e = (struct header_edit){.at = at, .n_bytes = n};
    for (int i = 0; i < n; i++) e->bytes[is_big ? n - 1 - i : i] = (unsigned char)(value >> 8 * i);
}

struct chunk {
    unsigned char id[16];
    int64_t at, body, next; /* next: INT64_MAX if the size leads nowhere */
    uint64_t size;          /* as the file has it */
};

static bool header_chunk_read(const struct sound_part *s, const struct container *c, int64_t at, struct chunk *chunk)
{
    unsigned char size[8];
    if (!header_look(s, at, chunk->id, (size_t)c->id_bytes) ||
        !header_look(s, at + c->id_bytes, size, (size_t)c->size_bytes))
        return false;
    chunk->at = at;
    chunk->body = at + c->id_bytes + c->size_bytes;
    chunk->next = INT64_MAX;
    chunk->size = header_number(size, c->size_bytes, c->is_big);
    int64_t head = c->size_counts ? 0 : chunk->body - at;
    if (chunk->size >= (uint64_t)c->size_counts && chunk->size < INT64_MAX / 2)
        chunk->next = at + head + ((int64_t)chunk->size + c->alignment - 1) / c->alignment * c->alignment;
    return true;
}

/* Are the bytes from `at` to the end of the sound chunks? Samples are not. The last chunk may lack its padding. */
static bool are_chunks(const struct sound_part *s, const struct container *c, int64_t at)
{
    for (int n = 0; n < MAX_CHUNKS && at < s->bytes; n++) {
        struct chunk chunk;
        if (!header_chunk_read(s, c, at, &chunk)) return false;
        for (int i = 0; i < 4; i++)
            if (chunk.id[i] < ' ' || chunk.id[i] > '~') return false;
        if (chunk.next > s->bytes + c->alignment - 1) return false;
        at = chunk.next;
    }
    return at >= s->bytes;
}

/* ---- other files -------------------------------------------------------------------------------- */

#define CONVERT "; convert it to WAV: ffmpeg -i FILE FILE.wav"
#define UNPACK "; unpack it, and give a file that was in it"
enum { FOREIGN_HEAD = 512 };

const char *sound_foreign(const char *head, size_t bytes)
{
    static const struct {
        int at; /* -1: anywhere in the head */
        const char *magic, *what;
    } kinds[] = {
        {0, "PK\3\4", "is a zip archive" UNPACK},
        {0, "Rar!", "is a rar archive" UNPACK},
        {0, "7z\274\257\047\034", "is a 7z archive" UNPACK},
        {0, "\037\213", "is compressed by gzip" UNPACK},
        {0, "\3757zXZ", "is compressed by xz" UNPACK},
        {0, "BZh", "is compressed by bzip2" UNPACK},
        {4, "ftyp", "is an MP4 (M4A)" CONVERT},
        {0, "\032\105\337\243", "is Matroska or WebM" CONVERT},
        {0, "\060\046\262\165", "is WMA" CONVERT},
        {0, "\377\361", "is AAC" CONVERT},
        {0, "\377\371", "is AAC" CONVERT},
        {0, "wvpk", "is WavPack" CONVERT},
        {0, "MAC ", "is Monkey's Audio" CONVERT},
        {0, "DSD ", "is DSD" CONVERT},
        {28, "\177FLAC", "is a FLAC in Ogg" CONVERT},
        {0, "version https://git-lfs", "is a pointer of git-lfs, not the file itself; run git lfs pull"},
        {0, "%PDF", "is a PDF; give a sound file"},
        {0, "<!DOCTYPE", "is a web page; download the file itself, by the link that the page has"},
        {0, "<!doctype", "is a web page; download the file itself, by the link that the page has"},
        {0, "<html", "is a web page; download the file itself, by the link that the page has"},
        {0, "<?xml", "is XML; give a sound file"},
        {0, "\211HDF", "is HDF5; give a bank of responses the ending .sofa"},
        {0, "Audiotec", "is a bank of filters from REW; export the filters from REW as text (Filter Settings as text)"},
        {-1, "Number\tEnabled", "is a table of filters from REW; export the filters as text (Filter Settings as text)"},
        {-1, "convolver_file=", "is a preset of JamesDSP; give its name the ending .conf"},
        {0, "{", "is JSON, but no preset of EasyEffects (NAME.json with plugins_order); give a sound file"},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t n = strlen(kinds[i].magic), at = kinds[i].at < 0 ? 0 : (size_t)kinds[i].at;
        if (kinds[i].at < 0 ? memmem(head, bytes < FOREIGN_HEAD ? bytes : FOREIGN_HEAD, kinds[i].magic, n) != NULL
                            : bytes >= at + n && memcmp(head + at, kinds[i].magic, n) == 0)
            return kinds[i].what;
    }
    return NULL;
}

/* ---- the width of the samples ------------------------------------------------------------------- */

static int header_check_format(const struct sound_part *s, const struct container *c, const struct chunk *chunk,
                               struct sound_header *header, const char *path, struct reason *why)
{
    unsigned char f[EXTENSIBLE_BYTES] = {0};
    bool is_wide = header_look(s, chunk->body, f, sizeof f) && chunk->size >= (uint64_t)c->size_counts + sizeof f;
    if (!is_wide && !header_look(s, chunk->body, f, 16)) return HC_OK;
#define FIELD(at, n) header_number(f + (at), n, c->is_big)
    uint64_t tag = FIELD(0, 2), n = FIELD(2, 2), rate = FIELD(4, 4), byte_rate = FIELD(8, 4);
    uint64_t align = FIELD(12, 2), bits = FIELD(14, 2), width = (bits + 7) / 8;
    if (tag == TAG_EXTENSIBLE && is_wide) {
        header->loudspeakers = (int64_t)FIELD(20, 4);
        tag = FIELD(24, 2);
    }
#undef FIELD
    if (tag == TAG_MP3) header->foreign = "is an MP3 in a WAV, which has no exact length" CONVERT;
    if ((tag != TAG_PCM && tag != TAG_FLOAT) || n == 0 || bits == 0 || align == 0 || align == n * width) return HC_OK;
    uint64_t container = align % n == 0 ? align / n : 0;
    /* Two fields against one: nBlockAlign is wrong, and the samples do not overlap. */
    if (align < n * width && byte_rate == rate * n * width) return HC_OK;
    if (tag == TAG_PCM && bits > 8 && (container == 3 || container == 4) && container > width &&
        byte_rate != rate * n * width) {
        edit(header, chunk->body + 14, 2, c->is_big, 8 * container);
        return HC_OK;
    }
    return fail(HC_EINVAL, why,
                "%s: its header has %d bits a sample, but frames of %d bytes for %d channel%s (nBlockAlign); write "
                "it again with frames of %d bytes",
                path, (int)bits, (int)align, (int)n, PLURAL(n), (int)(n * width));
}

/* ---- the length --------------------------------------------------------------------------------- */

/* The chunk of the samples promises more bytes than the file has: is it cut short, or was the length not known? */
static void check_excess(uint64_t size, struct sound_header *header)
{
    /* Only 64 bits hold a length beyond 4 GiB; all bits set, and half of that, stand for a length that is not known. */
    header->is_cut = size < SNDFILE_PLACEHOLDER_BYTES || (size > UINT32_MAX && size < INT64_MAX / 2);
    /* Placeholders lie near a multiple of 16 MiB. Another size may be true: the file would be cut short. */
    header->is_unclosed = size <= UINT32_MAX && !header->is_cut && (size + 4096) % (1 << 24) > 8192;
}

/* The chunk of the samples has no length. ds64: offset of RF64's length; 0: none. */
static void check_length(const struct sound_part *s, const struct container *c, const struct chunk *chunk, int64_t ds64,
                         struct sound_header *header)
{
    unsigned char wide[8];
    int64_t start = chunk->body + (c->size_counts ? 0 : c->empty);
    uint64_t size = chunk->size;
    bool is_caf = c->magic[0] == 'c', has_wide = ds64 && header_look(s, ds64, wide, sizeof wide);
    if (has_wide && (size == 0 || size == UINT32_MAX)) size = header_number(wide, 8, c->is_big);
    const uint64_t bytes_left = (uint64_t)(s->bytes - chunk->body) + (uint64_t)c->size_counts;
    if (!s->head && size > bytes_left) check_excess(size, header);
    if ((size > (uint64_t)c->empty && !(size == UINT64_MAX && (is_caf || has_wide))) || s->bytes < start) return;
    if (!s->head && (s->bytes == start || are_chunks(s, c, start))) return;
    uint64_t bytes = bytes_left;
    header->is_unclosed = size <= (uint64_t)c->empty; /* all bits set: the length is not known, as in a pipe */
    if (has_wide) edit(header, ds64, 8, c->is_big, bytes);
    if (has_wide || (c->size_bytes == 4 && bytes > UINT32_MAX)) bytes = UINT32_MAX;
    edit(header, chunk->at + c->id_bytes, c->size_bytes, c->is_big, bytes);
}

static void check_au(const struct sound_part *s, struct sound_header *header)
{
    unsigned char head[12];
    if (!header_look(s, 0, head, sizeof head)) return;
    bool is_big = head[0] == '.';
    if (header_number(head + 8, 4, is_big) != 0 ||
        (!s->head && (uint64_t)s->bytes <= header_number(head + 4, 4, is_big)))
        return;
    header->is_unclosed = true;
    edit(header, 8, 4, is_big, UINT32_MAX);
}

/* A FLAC whose loudspeakers are not the usual ones has them in a comment, near its start. */
static void check_flac(const struct sound_part *s, struct sound_header *header)
{
    static const char tag[] = "WAVEFORMATEXTENSIBLE_CHANNEL_MASK=0x";
    char head[(16 << 10) + 1];
    size_t n = s->bytes < (int64_t)sizeof head ? (size_t)s->bytes : sizeof head - 1;
    const char *found = header_look(s, 0, head, n) ? memmem(head, n, tag, sizeof tag - 1) : NULL;
    head[n] = 0;
    if (found) header->loudspeakers = (int64_t)(strtoul(found + sizeof tag - 1, NULL, 16) & UINT32_MAX);
}

int sound_header_read(struct sound_part *s, const char *path, struct reason *why)
{
    struct sound_header *header = &s->header;
    char magic[4];
    const struct container *c = containers, *end = c + sizeof containers / sizeof *containers;
    char head[FOREIGN_HEAD];
    size_t n_head = s->bytes < FOREIGN_HEAD ? (size_t)s->bytes : FOREIGN_HEAD;
    *header = (struct sound_header){.loudspeakers = NO_LOUDSPEAKERS};
    if (header_look(s, 0, head, n_head)) header->foreign = sound_foreign(head, n_head);
    if (!header_look(s, 0, magic, sizeof magic)) return HC_OK;
    if (memcmp(magic, ".snd", 4) == 0 || memcmp(magic, "dns.", 4) == 0) check_au(s, header);
    if (memcmp(magic, "fLaC", 4) == 0) check_flac(s, header);
    while (c < end && memcmp(magic, c->magic, 4) != 0) c++;
    if (c == end) return HC_OK;
    /* BW64 (ITU-R BS.2088) is RF64 with another name, which libsndfile does not know. */
    if (c->magic[0] == 'B') edit(header, 0, 4, true, 0x52463634);
    struct chunk chunk = {.next = c->first};
    int64_t ds64 = 0;
    bool has_format = false, is_end = false;
    int error = HC_OK;
    for (int n = 0; n < MAX_CHUNKS && !error && !is_end && header_chunk_read(s, c, chunk.next, &chunk); n++) {
        is_end = memcmp(chunk.id, c->data, 4) == 0;
        if (memcmp(chunk.id, "ds64", 4) == 0) ds64 = chunk.body + 8;
        if (memcmp(chunk.id, "fmt ", 4) == 0 && !has_format) {
            error = header_check_format(s, c, &chunk, header, path, why);
            has_format = true;
        }
        if (is_end) check_length(s, c, &chunk, ds64, header);
    }
    return error;
}

/* ---- libsndfile's view -------------------------------------------------------------------------- */

#ifdef HC_WITH_SNDFILE
static sf_count_t part_length(void *data)
{
    return ((struct sound_part *)data)->bytes;
}

static sf_count_t part_tell(void *data)
{
    return ((struct sound_part *)data)->at;
}

static sf_count_t part_seek(sf_count_t offset, int whence, void *data)
{
    struct sound_part *part = data;
    int64_t base = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? part->at : part->bytes, at;
    if (__builtin_add_overflow(base, offset, &at) || at < 0) return -1;
    return part->at = at;
}

static sf_count_t part_read(void *buffer, sf_count_t bytes, void *data)
{
    struct sound_part *part = data;
    sf_count_t done = 0;
    int64_t first = part->at;
    if (bytes > part->bytes - part->at) bytes = part->bytes - part->at;
    while (done < bytes) {
        ssize_t n = pread(part->fd, (char *)buffer + done, (size_t)(bytes - done), part->from + part->at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break; /* the reader reports a sound that ends too soon */
        done += n;
        part->at += n;
    }
    for (int i = 0; i < part->header.n_edits; i++)
        for (int k = 0; k < part->header.edits[i].n_bytes; k++) {
            int64_t at = part->header.edits[i].at + k - first;
            if (at >= 0 && at < done) ((unsigned char *)buffer)[at] = part->header.edits[i].bytes[k];
        }
    return done;
}

void sound_refusal(const struct sound_part *part, const char *remedy, char *text, size_t cap)
{
    int code = sf_error(NULL);
    const char *says = sf_strerror(NULL);
    if (code != SF_ERR_SYSTEM && part->header.foreign)
        snprintf(text, cap, "%s", part->header.foreign);
    else if (code == SF_ERR_UNRECOGNISED_FORMAT)
        snprintf(text, cap, "is not a sound file that libsndfile knows; %s", remedy);
    else if (code == SF_ERR_SYSTEM)
        snprintf(text, cap, "cannot be read: %s; check the disk, and the limit of open files (ulimit -n)", says);
    else if (strncmp(says, "Internal error", 14) == 0)
        snprintf(text, cap, "its header is incomplete, or contradicts itself; download it again, or restore it");
    else
        snprintf(text, cap, "cannot be read: %s; convert it to WAV, download it again or restore it", says);
}

SNDFILE *sound_part_open(struct sound_part *part, SF_INFO *info)
{
    static SF_VIRTUAL_IO io = {.get_filelen = part_length, .seek = part_seek, .read = part_read, .tell = part_tell};
    part->at = 0;
    return sf_open_virtual(&io, SFM_READ, info, part);
}
#endif
