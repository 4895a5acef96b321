#include "sound_format.h"

#include "dsp/haloconv_files.h"
#include "host/message.h"

#include <sndfile.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Releases of libsndfile that break files, by the numbers of libsndfile's issues. */
struct sndfile_fault {
    int first_subtype, last_subtype; /* SF_FORMAT_... of the file */
    int last_release;                /* last release with the fault, 10203 for 1.2.3; all before it have the fault */
    int issue;                       /* github.com/libsndfile/libsndfile/issues */
    const char *remedy;
};

static const struct sndfile_fault faults[] = {
    /* sf_close writes beyond the end of a buffer. libsndfile's sources have a correction; no release up to July 2026
     * (1.2.2) has it. */
    {SF_FORMAT_ALAC_16, SF_FORMAT_ALAC_32, 10202, 973, "use --format caf:pcm24 or flac"},
};

/* Returns the release that the program runs with, such as "1.2.0". */
static const char *sndfile_release(void)
{
    const char *version = sf_version_string(), *dash = strchr(version, '-');
    return dash ? dash + 1 : version;
}

/* The fault that breaks files of this format in the release that the program runs with; NULL = none. */
static const struct sndfile_fault *sndfile_fault_find(int format)
{
    int subtype = format & SF_FORMAT_SUBMASK, major = 0, minor = 0, patch = 0;
    sscanf(sndfile_release(), "%d.%d.%d", &major, &minor, &patch);
    for (const struct sndfile_fault *fault = faults; fault < faults + sizeof faults / sizeof *faults; fault++)
        if (subtype >= fault->first_subtype && subtype <= fault->last_subtype &&
            major * 10000 + minor * 100 + patch <= fault->last_release)
            return fault;
    return NULL;
}

enum container_flags {
    SMALL = 1,     /* counts bytes or frames in 32 bits */
    STREAMS = 2,   /* the writer never goes back to the header */
    LOW_FIRST = 4, /* stores the lowest byte of a sample first, unless the file says otherwise */
};

struct format_container {
    const char *name;
    int format, flags;
};

/* The first row of a container has its name and its flags. */
static const struct format_container containers[] = {
    {"wav", SF_FORMAT_WAV, SMALL | LOW_FIRST},
    {"wavex", SF_FORMAT_WAVEX, SMALL | LOW_FIRST},
    {"rf64", SF_FORMAT_RF64, LOW_FIRST},
    {"w64", SF_FORMAT_W64, LOW_FIRST},
    {"aiff", SF_FORMAT_AIFF, SMALL},
    {"au", SF_FORMAT_AU, SMALL | STREAMS},
    {"raw", SF_FORMAT_RAW, STREAMS},
    {"caf", SF_FORMAT_CAF, 0},
    {"flac", SF_FORMAT_FLAC, 0},
    {"ogg", SF_FORMAT_OGG, STREAMS},
    {"paf", SF_FORMAT_PAF, STREAMS},
    {"svx", SF_FORMAT_SVX, SMALL},
    {"nist", SF_FORMAT_NIST, 0},
    {"voc", SF_FORMAT_VOC, SMALL},
    {"ircam", SF_FORMAT_IRCAM, STREAMS},
    {"mat4", SF_FORMAT_MAT4, SMALL},
    {"mat5", SF_FORMAT_MAT5, SMALL},
    {"pvf", SF_FORMAT_PVF, STREAMS},
    {"xi", SF_FORMAT_XI, 0},
    {"htk", SF_FORMAT_HTK, 0},
    {"sds", SF_FORMAT_SDS, 0},
    {"avr", SF_FORMAT_AVR, SMALL},
    {"wve", SF_FORMAT_WVE, SMALL},
    {"mpc2k", SF_FORMAT_MPC2K, SMALL},
    {"sd2", SF_FORMAT_SD2, 0},
    {"mpeg", SF_FORMAT_MPEG, 0},
    {"vorbis", SF_FORMAT_OGG | SF_FORMAT_VORBIS, 0},
    {"opus", SF_FORMAT_OGG | SF_FORMAT_OPUS, 0},
    {"mp3", SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III, 0},
};

/* Extensions that are not the name of a container. */
static const struct format_container extensions[] = {
    {"wave", SF_FORMAT_WAV, 0},  {"aif", SF_FORMAT_AIFF, 0}, {"aifc", SF_FORMAT_AIFF, 0}, {"snd", SF_FORMAT_AU, 0},
    {"pcm", SF_FORMAT_RAW, 0},   {"oga", SF_FORMAT_OGG, 0},  {"iff", SF_FORMAT_SVX, 0},   {"sph", SF_FORMAT_NIST, 0},
    {"sf", SF_FORMAT_IRCAM, 0},  {"mat", SF_FORMAT_MAT5, 0}, {"bwf", SF_FORMAT_WAV, 0},   {"fap", SF_FORMAT_PAF, 0},
    {"mpc", SF_FORMAT_MPC2K, 0},
};

struct subtype {
    const char *name;
    int format;
    enum sample_kind kind; /* for reading and writing without loss */
    int bits;              /* bits that samples are rounded to; 0 = floats */
    int bytes;             /* bytes of a sample in the file; 0 = depends on the sound */
    int plain;             /* enum hc_samples of a container that stores plain frames; HC_PLANAR = never */
};

static const struct subtype subtypes[] = {
    {"pcm16", SF_FORMAT_PCM_16, SAMPLE_S16, 16, 2, HC_S16},
    {"pcm24", SF_FORMAT_PCM_24, SAMPLE_S32, 24, 3, HC_S24},
    {"pcm32", SF_FORMAT_PCM_32, SAMPLE_S32, 32, 4, HC_S32},
    {"float", SF_FORMAT_FLOAT, SAMPLE_FLOAT, 0, 4, HC_FLOAT},
    {"double", SF_FORMAT_DOUBLE, SAMPLE_FLOAT, 0, 8, HC_PLANAR},
    {"pcms8", SF_FORMAT_PCM_S8, SAMPLE_S16, 8, 1, HC_PLANAR},
    {"pcmu8", SF_FORMAT_PCM_U8, SAMPLE_S16, 8, 1, HC_PLANAR},
    {"ulaw", SF_FORMAT_ULAW, SAMPLE_S16, 16, 1, HC_PLANAR},
    {"alaw", SF_FORMAT_ALAW, SAMPLE_S16, 16, 1, HC_PLANAR},
    {"ima", SF_FORMAT_IMA_ADPCM, SAMPLE_S16, 16, 0, HC_PLANAR},
    {"msadpcm", SF_FORMAT_MS_ADPCM, SAMPLE_S16, 16, 0, HC_PLANAR},
    {"gsm", SF_FORMAT_GSM610, SAMPLE_S16, 16, 0, HC_PLANAR},
    {"vox", SF_FORMAT_VOX_ADPCM, SAMPLE_S16, 16, 0, HC_PLANAR},
    {"nms16", SF_FORMAT_NMS_ADPCM_16, SAMPLE_S16, 16, 0, HC_PLANAR},
    {"nms24", SF_FORMAT_NMS_ADPCM_24, SAMPLE_S16, 16, 0, HC_PLANAR},
    {"nms32", SF_FORMAT_NMS_ADPCM_32, SAMPLE_S16, 16, 0, HC_PLANAR},
    {"g721", SF_FORMAT_G721_32, SAMPLE_S16, 16, 0, HC_PLANAR},
    {"g723-24", SF_FORMAT_G723_24, SAMPLE_S16, 16, 0, HC_PLANAR},
    {"g723-40", SF_FORMAT_G723_40, SAMPLE_S16, 16, 0, HC_PLANAR},
    {"dwvw12", SF_FORMAT_DWVW_12, SAMPLE_S16, 12, 0, HC_PLANAR},
    {"dwvw16", SF_FORMAT_DWVW_16, SAMPLE_S16, 16, 0, HC_PLANAR},
    {"dwvw24", SF_FORMAT_DWVW_24, SAMPLE_S32, 24, 0, HC_PLANAR},
    {"dpcm8", SF_FORMAT_DPCM_8, SAMPLE_S16, 8, 0, HC_PLANAR},
    {"dpcm16", SF_FORMAT_DPCM_16, SAMPLE_S16, 16, 0, HC_PLANAR},
    {"vorbis", SF_FORMAT_VORBIS, SAMPLE_FLOAT, 0, 0, HC_PLANAR},
    {"opus", SF_FORMAT_OPUS, SAMPLE_FLOAT, 0, 0, HC_PLANAR},
    {"alac16", SF_FORMAT_ALAC_16, SAMPLE_S16, 16, 0, HC_PLANAR},
    {"alac20", SF_FORMAT_ALAC_20, SAMPLE_S32, 20, 0, HC_PLANAR},
    {"alac24", SF_FORMAT_ALAC_24, SAMPLE_S32, 24, 0, HC_PLANAR},
    {"alac32", SF_FORMAT_ALAC_32, SAMPLE_S32, 32, 0, HC_PLANAR},
    {"mp1", SF_FORMAT_MPEG_LAYER_I, SAMPLE_FLOAT, 0, 0, HC_PLANAR},
    {"mp2", SF_FORMAT_MPEG_LAYER_II, SAMPLE_FLOAT, 0, 0, HC_PLANAR},
    {"mp3", SF_FORMAT_MPEG_LAYER_III, SAMPLE_FLOAT, 0, 0, HC_PLANAR},
};

/* libsndfile reads DWVW_N, but cannot write it; and later versions may have more subtypes. */
static const struct subtype dwvw_n = {NULL, SF_FORMAT_DWVW_N, SAMPLE_S32, 32, 0, HC_PLANAR};
static const struct subtype unknown = {NULL, 0, SAMPLE_S16, 16, 0, HC_PLANAR};

#define COUNT(array) (sizeof(array) / sizeof *(array))

const char sound_format_help[] =
    "  containers  wav wavex rf64 w64 aiff au raw caf flac ogg paf svx nist voc ircam mat4 mat5 pvf xi htk\n"
    "              sds avr wve mpc2k mpeg; vorbis, opus and mp3 name container and subtype at once\n"
    "  subtypes    pcm16 pcm24 pcm32 float double pcms8 pcmu8 ulaw alaw ima msadpcm gsm vox nms16 nms24 nms32\n"
    "              g721 g723-24 g723-40 dwvw12 dwvw16 dwvw24 dpcm8 dpcm16 vorbis opus alac16 alac20 alac24\n"
    "              alac32 mp1 mp2 mp3\n";

static const struct subtype *subtype_of(int format)
{
    int subtype = format & SF_FORMAT_SUBMASK;
    for (size_t i = 0; i < COUNT(subtypes); i++)
        if (subtypes[i].format == subtype) return &subtypes[i];
    return subtype == SF_FORMAT_DWVW_N ? &dwvw_n : &unknown;
}

static const struct format_container *container_of(int format)
{
    for (size_t i = 0; i < COUNT(containers); i++)
        if (containers[i].format == (format & SF_FORMAT_TYPEMASK)) return &containers[i];
    return NULL;
}

static bool has_flag(int format, enum container_flags flag)
{
    const struct format_container *container = container_of(format);
    return container && (container->flags & flag);
}

static bool format_is_name(const char *name, const char *text, size_t length)
{
    return strlen(name) == length && strncasecmp(name, text, length) == 0;
}

static int find_container(const struct format_container *list, size_t n, const char *text, size_t length)
{
    for (size_t i = 0; i < n; i++)
        if (format_is_name(list[i].name, text, length)) return list[i].format;
    return 0;
}

static int find_subtype(const char *text, size_t length)
{
    for (size_t i = 0; i < COUNT(subtypes); i++)
        if (format_is_name(subtypes[i].name, text, length)) return subtypes[i].format;
    return 0;
}

int sound_format_parse(const char *text)
{
    size_t length = strcspn(text, ":");
    int container = find_container(containers, COUNT(containers), text, length);
    if (text[length] == 0) return container ? container : find_subtype(text, length);
    int subtype = find_subtype(text + length + 1, strlen(text + length + 1));
    return container && subtype ? (container & SF_FORMAT_TYPEMASK) | subtype : 0;
}

int sound_format_of_path(const char *path)
{
    const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');
    if (!dot || (slash && dot < slash)) return 0;
    int format = find_container(containers, COUNT(containers), dot + 1, strlen(dot + 1));
    return format ? format : find_container(extensions, COUNT(extensions), dot + 1, strlen(dot + 1));
}

bool sound_format_refuses(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
    return dot && dot > name && dot[1] && !sound_format_of_path(path);
}

/* Lists the extensions that have a format. */
static int refuse_extension(const char *path, char *why, size_t cap)
{
    char names[512] = "";
    size_t n = 0;
    for (size_t i = 0; i < COUNT(containers) + COUNT(extensions) && n < sizeof names; i++) {
        const struct format_container *c = i < COUNT(containers) ? &containers[i] : &extensions[i - COUNT(containers)];
        if (c->format == SF_FORMAT_SD2) continue;
        n += (size_t)snprintf(names + n, sizeof names - n, " .%s", c->name);
    }
    return message_write(why, cap, "%s: no format has the extension %s; use one of%s, or choose with --format", path,
                         strrchr(path, '.'), names);
}

/* libsndfile 1.2 claims to write these formats, but cannot read the files. */
static bool is_unreadable(int format, int n_channels)
{
    int container = format & SF_FORMAT_TYPEMASK, subtype = format & SF_FORMAT_SUBMASK;
    bool is_mp3 = subtype >= SF_FORMAT_MPEG_LAYER_I && subtype <= SF_FORMAT_MPEG_LAYER_III;
    bool is_alac = subtype >= SF_FORMAT_ALAC_16 && subtype <= SF_FORMAT_ALAC_32;
    if (is_mp3) return container != SF_FORMAT_MPEG;
    if (is_alac) return n_channels > (subtype == SF_FORMAT_ALAC_20 ? 1 : 8);
    if (container == SF_FORMAT_PAF && subtype == SF_FORMAT_PCM_24)
        return n_channels > 8 || (n_channels & (n_channels - 1)) != 0;
    return false;
}

static bool valid(int format, int rate, int n_channels)
{
    SF_INFO info = {.samplerate = rate, .channels = n_channels, .format = format};
    return sf_format_check(&info) && !is_unreadable(format, n_channels) && !sndfile_fault_find(format);
}

/* The subtype of the container that keeps the most of the input. */
static int nearest_subtype(int container, int like, int rate, int n_channels)
{
    static const int fallback[] = {SF_FORMAT_PCM_24, SF_FORMAT_PCM_16, SF_FORMAT_FLOAT,   SF_FORMAT_ALAC_24,
                                   SF_FORMAT_PCM_S8, SF_FORMAT_PCM_U8, SF_FORMAT_DPCM_16, SF_FORMAT_VORBIS,
                                   SF_FORMAT_OPUS,   SF_FORMAT_ULAW,   SF_FORMAT_ALAW,    SF_FORMAT_MPEG_LAYER_III};
    int subtype = like & SF_FORMAT_SUBMASK;
    if (container == SF_FORMAT_OGG && subtype != SF_FORMAT_OPUS) subtype = SF_FORMAT_VORBIS;
    if (valid(container | subtype, rate, n_channels)) return subtype;
    if (subtype == SF_FORMAT_PCM_S8 && valid(container | SF_FORMAT_PCM_U8, rate, n_channels)) return SF_FORMAT_PCM_U8;
    if (subtype == SF_FORMAT_PCM_U8 && valid(container | SF_FORMAT_PCM_S8, rate, n_channels)) return SF_FORMAT_PCM_S8;
    bool is_short = sound_format_kind(like) == SAMPLE_S16, is_long = sound_format_bits(like) == 32;
    if (is_short && valid(container | SF_FORMAT_PCM_16, rate, n_channels)) return SF_FORMAT_PCM_16;
    if (is_long && valid(container | SF_FORMAT_PCM_32, rate, n_channels)) return SF_FORMAT_PCM_32;
    for (size_t i = 0; i < sizeof fallback / sizeof *fallback; i++)
        if (valid(container | fallback[i], rate, n_channels)) return fallback[i];
    return 0;
}

int sound_format_choose(int asked, const char *path, int like, int rate, int n_channels, char *why, size_t cap)
{
    char name[64];
    int by_path = sound_format_of_path(path);
    int container = asked & SF_FORMAT_TYPEMASK, subtype = asked & SF_FORMAT_SUBMASK;
    if (!container) {
        if (sound_format_refuses(path)) return refuse_extension(path, why, cap);
        container = (by_path ? by_path : like) & SF_FORMAT_TYPEMASK;
        if (!subtype) subtype = by_path & SF_FORMAT_SUBMASK;
        /* the extension .wav stands for three containers */
        int kind = like & SF_FORMAT_TYPEMASK;
        if (container == SF_FORMAT_WAV && (kind == SF_FORMAT_WAVEX || kind == SF_FORMAT_RF64)) container = kind;
        /* a name without extension, and an input in a format that cannot be written */
        bool unwritable = container == SF_FORMAT_SD2 || !nearest_subtype(container, like, rate, n_channels);
        if (!by_path && unwritable) container = SF_FORMAT_WAV;
    }
    if (container == SF_FORMAT_SD2)
        return message_write(why, cap,
                             "%s: sd2 keeps its header in a second file, which is not written; use another "
                             "--format, such as wav",
                             path);
    if (!subtype) subtype = nearest_subtype(container, like, rate, n_channels);
    if (subtype == SF_FORMAT_OPUS && !valid(container | subtype, rate, n_channels) &&
        valid(container | subtype, 48000, n_channels))
        return message_write(why, cap,
                             "%s: opus has no %d Hz, only 8000, 12000, 16000, 24000 and 48000; use another "
                             "--format, such as vorbis",
                             path, rate);
    const struct sndfile_fault *fault = sndfile_fault_find(container | subtype);
    if (fault)
        return message_write(why, cap, "%s: libsndfile %s breaks files of %s (its issue %d); %s", path,
                             sndfile_release(), sound_format_name(container | subtype, name, sizeof name), fault->issue,
                             fault->remedy);
    if (!subtype || !valid(container | subtype, rate, n_channels))
        return message_write(why, cap,
                             "%s: %s cannot hold %d channels at %d Hz; use another --format, such as wav:pcm24", path,
                             sound_format_name(container | subtype, name, sizeof name), n_channels, rate);
    return container | subtype;
}

const char *sound_format_name(int format, char *text, size_t cap)
{
    const struct format_container *container = container_of(format);
    const char *subtype = subtype_of(format)->name;
    snprintf(text, cap, "%s%s%s", container ? container->name : "unknown", subtype ? ":" : "", subtype ? subtype : "");
    return text;
}

bool sound_format_is_small(int format)
{
    return has_flag(format, SMALL);
}

bool sound_format_streams(int format)
{
    return has_flag(format, STREAMS);
}

static bool is_little_endian(int format)
{
    int end = format & SF_FORMAT_ENDMASK;
    return has_flag(format, LOW_FIRST) && (end == SF_ENDIAN_FILE || end == SF_ENDIAN_LITTLE);
}

int sound_format_plain(int format)
{
    int end = format & SF_FORMAT_ENDMASK, plain = subtype_of(format)->plain;
    bool is_aiff = (format & SF_FORMAT_TYPEMASK) == SF_FORMAT_AIFF;
    bool big = is_aiff && (end == SF_ENDIAN_FILE || end == SF_ENDIAN_BIG);
    if (plain == HC_PLANAR || (!big && !is_little_endian(format))) return HC_PLANAR;
    return big ? plain | HC_BIG_ENDIAN : plain;
}

bool sound_format_is_native(int samples)
{
    return samples != HC_PLANAR && !(samples & HC_BIG_ENDIAN);
}

enum sample_kind sound_format_kind(int format)
{
    const struct subtype *subtype = subtype_of(format);
    return subtype->plain == HC_S24 && is_little_endian(format) ? SAMPLE_S24 : subtype->kind;
}

int sound_format_bits(int format)
{
    return subtype_of(format)->bits;
}

bool sound_format_can_dither(int format)
{
    switch (format & SF_FORMAT_SUBMASK) {
    case SF_FORMAT_PCM_16:
    case SF_FORMAT_PCM_S8:
    case SF_FORMAT_PCM_U8:
    case SF_FORMAT_DWVW_12:
    case SF_FORMAT_DWVW_16:
    case SF_FORMAT_DPCM_8:
    case SF_FORMAT_DPCM_16:
    case SF_FORMAT_ALAC_16:
        return true;
    default: /* other subtypes: finer than 16 bits, or lossy with errors that dither cannot hide */
        return false;
    }
}

int sound_format_bytes(int format)
{
    return (format & SF_FORMAT_TYPEMASK) == SF_FORMAT_FLAC ? 0 : subtype_of(format)->bytes;
}

int64_t sound_format_frame_bytes(int format, int n_channels)
{
    return (int64_t)sound_format_bytes(format) * n_channels;
}

bool sound_format_is_lossy_float(int format)
{
    return sound_format_kind(format) == SAMPLE_FLOAT && sound_format_bytes(format) == 0;
}

/* ---- the option --format ---------------------------------------------------------------------- */

bool format_option(const struct option_use *use, void *to)
{
    int format = sound_format_parse(use->text);
    if (!format) return option_refuse(use, "is not a container or subtype");
    *(int *)to = format;
    return true;
}
