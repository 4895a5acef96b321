#include "sound_format.h"

#include "dsp/haloconv_files.h"

#include "host/message.h"

#include <sndfile.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

struct name {
    const char *name;
    int format;
};

static const struct name containers[] = {
    {"wav", SF_FORMAT_WAV},
    {"wavex", SF_FORMAT_WAVEX},
    {"rf64", SF_FORMAT_RF64},
    {"w64", SF_FORMAT_W64},
    {"aiff", SF_FORMAT_AIFF},
    {"au", SF_FORMAT_AU},
    {"raw", SF_FORMAT_RAW},
    {"caf", SF_FORMAT_CAF},
    {"flac", SF_FORMAT_FLAC},
    {"ogg", SF_FORMAT_OGG},
    {"paf", SF_FORMAT_PAF},
    {"svx", SF_FORMAT_SVX},
    {"nist", SF_FORMAT_NIST},
    {"voc", SF_FORMAT_VOC},
    {"ircam", SF_FORMAT_IRCAM},
    {"mat4", SF_FORMAT_MAT4},
    {"mat5", SF_FORMAT_MAT5},
    {"pvf", SF_FORMAT_PVF},
    {"xi", SF_FORMAT_XI},
    {"htk", SF_FORMAT_HTK},
    {"sds", SF_FORMAT_SDS},
    {"avr", SF_FORMAT_AVR},
    {"wve", SF_FORMAT_WVE},
    {"mpc2k", SF_FORMAT_MPC2K},
    {"sd2", SF_FORMAT_SD2},
    {"mpeg", SF_FORMAT_MPEG},
    {"vorbis", SF_FORMAT_OGG | SF_FORMAT_VORBIS},
    {"opus", SF_FORMAT_OGG | SF_FORMAT_OPUS},
    {"mp3", SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III},
};

static const struct name extensions[] = {
    {"wave", SF_FORMAT_WAV},  {"aif", SF_FORMAT_AIFF}, {"aifc", SF_FORMAT_AIFF}, {"snd", SF_FORMAT_AU},
    {"pcm", SF_FORMAT_RAW},   {"oga", SF_FORMAT_OGG},  {"iff", SF_FORMAT_SVX},   {"sph", SF_FORMAT_NIST},
    {"sf", SF_FORMAT_IRCAM},  {"mat", SF_FORMAT_MAT5}, {"bwf", SF_FORMAT_WAV},   {"fap", SF_FORMAT_PAF},
    {"mpc", SF_FORMAT_MPC2K},
};

static const struct name subtypes[] = {
    {"pcm16", SF_FORMAT_PCM_16},       {"pcm24", SF_FORMAT_PCM_24},       {"pcm32", SF_FORMAT_PCM_32},
    {"float", SF_FORMAT_FLOAT},        {"double", SF_FORMAT_DOUBLE},      {"pcms8", SF_FORMAT_PCM_S8},
    {"pcmu8", SF_FORMAT_PCM_U8},       {"ulaw", SF_FORMAT_ULAW},          {"alaw", SF_FORMAT_ALAW},
    {"ima", SF_FORMAT_IMA_ADPCM},      {"msadpcm", SF_FORMAT_MS_ADPCM},   {"gsm", SF_FORMAT_GSM610},
    {"vox", SF_FORMAT_VOX_ADPCM},      {"nms16", SF_FORMAT_NMS_ADPCM_16}, {"nms24", SF_FORMAT_NMS_ADPCM_24},
    {"nms32", SF_FORMAT_NMS_ADPCM_32}, {"g721", SF_FORMAT_G721_32},       {"g723-24", SF_FORMAT_G723_24},
    {"g723-40", SF_FORMAT_G723_40},    {"dwvw12", SF_FORMAT_DWVW_12},     {"dwvw16", SF_FORMAT_DWVW_16},
    {"dwvw24", SF_FORMAT_DWVW_24},     {"dpcm8", SF_FORMAT_DPCM_8},       {"dpcm16", SF_FORMAT_DPCM_16},
    {"vorbis", SF_FORMAT_VORBIS},      {"opus", SF_FORMAT_OPUS},          {"alac16", SF_FORMAT_ALAC_16},
    {"alac20", SF_FORMAT_ALAC_20},     {"alac24", SF_FORMAT_ALAC_24},     {"alac32", SF_FORMAT_ALAC_32},
    {"mp1", SF_FORMAT_MPEG_LAYER_I},   {"mp2", SF_FORMAT_MPEG_LAYER_II},  {"mp3", SF_FORMAT_MPEG_LAYER_III},
};

const char sound_format_help[] =
    "  containers  wav wavex rf64 w64 aiff au raw caf flac ogg paf svx nist voc ircam mat4 mat5 pvf xi htk\n"
    "              sds avr wve mpc2k mpeg; vorbis, opus and mp3 name container and subtype at once\n"
    "  subtypes    pcm16 pcm24 pcm32 float double pcms8 pcmu8 ulaw alaw ima msadpcm gsm vox nms16 nms24 nms32\n"
    "              g721 g723-24 g723-40 dwvw12 dwvw16 dwvw24 dpcm8 dpcm16 vorbis opus alac16 alac20 alac24\n"
    "              alac32 mp1 mp2 mp3\n";

static int find(const struct name *names, size_t n, const char *text, size_t length)
{
    for (size_t i = 0; i < n; i++)
        if (strlen(names[i].name) == length && strncasecmp(names[i].name, text, length) == 0) return names[i].format;
    return 0;
}
#define FIND(names, text, length) find(names, sizeof(names) / sizeof *(names), text, length)

int sound_format_parse(const char *text)
{
    size_t length = strcspn(text, ":");
    int container = FIND(containers, text, length);
    if (text[length] == 0) {
        if (!container) return FIND(subtypes, text, length);
        return container;
    }
    const char *rest = text + length + 1;
    int subtype = FIND(subtypes, rest, strlen(rest));
    return container && subtype ? (container & SF_FORMAT_TYPEMASK) | subtype : 0;
}

int sound_format_of_path(const char *path)
{
    const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');
    if (!dot || (slash && dot < slash)) return 0;
    int format = FIND(containers, dot + 1, strlen(dot + 1));
    return format ? format : FIND(extensions, dot + 1, strlen(dot + 1));
}

/* libsndfile 1.2 says that it can write these, and what it writes cannot be read. */
static bool comes_out_broken(int format, int n_channels)
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
    return sf_format_check(&info) && !comes_out_broken(format, n_channels);
}

/* The subtype of the container that keeps most of what the input has. */
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
    bool is_short = sound_format_kind(like) == SAMPLE_S16;
    if (is_short && valid(container | SF_FORMAT_PCM_16, rate, n_channels)) return SF_FORMAT_PCM_16;
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
        container = (by_path ? by_path : like) & SF_FORMAT_TYPEMASK;
        if (!subtype) subtype = by_path & SF_FORMAT_SUBMASK;
        /* .wav says nothing about which of the three kinds of it */
        int kind = like & SF_FORMAT_TYPEMASK;
        if (container == SF_FORMAT_WAV && (kind == SF_FORMAT_WAVEX || kind == SF_FORMAT_RF64)) container = kind;
        /* a name without a known ending, and an input whose format cannot be written */
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
    if (!subtype || !valid(container | subtype, rate, n_channels))
        return message_write(why, cap,
                             "%s: %s cannot hold %d channels at %d Hz; use another --format, such as wav:pcm24", path,
                             sound_format_name(container | subtype, name, sizeof name), n_channels, rate);
    return container | subtype;
}

static const char *name_of(const struct name *names, size_t n, int format)
{
    for (size_t i = 0; i < n; i++)
        if (names[i].format == format) return names[i].name;
    return NULL;
}

const char *sound_format_subtype_name(int format)
{
    return name_of(subtypes, sizeof subtypes / sizeof *subtypes, format & SF_FORMAT_SUBMASK);
}

const char *sound_format_name(int format, char *text, size_t cap)
{
    const char *container = name_of(containers, sizeof containers / sizeof *containers, format & SF_FORMAT_TYPEMASK);
    const char *subtype = sound_format_subtype_name(format);
    snprintf(text, cap, "%s%s%s", container ? container : "unknown", subtype ? ":" : "", subtype ? subtype : "");
    return text;
}

/* Containers whose samples lie in the file with the lowest byte first. */
static bool is_little_endian(int format)
{
    int container = format & SF_FORMAT_TYPEMASK, end = format & SF_FORMAT_ENDMASK;
    bool wav = container == SF_FORMAT_WAV || container == SF_FORMAT_WAVEX || container == SF_FORMAT_RF64 ||
               container == SF_FORMAT_W64;
    return wav && (end == SF_ENDIAN_FILE || end == SF_ENDIAN_LITTLE);
}

int sound_format_plain(int format)
{
    int container = format & SF_FORMAT_TYPEMASK, end = format & SF_FORMAT_ENDMASK;
    bool big = container == SF_FORMAT_AIFF && (end == SF_ENDIAN_FILE || end == SF_ENDIAN_BIG);
    if (!big && !is_little_endian(format)) return HC_PLANAR;
    switch (format & SF_FORMAT_SUBMASK) {
    case SF_FORMAT_PCM_16:
        return HC_S16 | (big ? HC_BIG_ENDIAN : 0);
    case SF_FORMAT_PCM_24:
        return HC_S24 | (big ? HC_BIG_ENDIAN : 0);
    case SF_FORMAT_PCM_32:
        return HC_S32 | (big ? HC_BIG_ENDIAN : 0);
    case SF_FORMAT_FLOAT:
        return HC_FLOAT | (big ? HC_BIG_ENDIAN : 0);
    default:
        return HC_PLANAR;
    }
}

bool sound_format_is_native(int samples)
{
    return samples != HC_PLANAR && !(samples & HC_BIG_ENDIAN);
}

enum sample_kind sound_format_kind(int format)
{
    switch (format & SF_FORMAT_SUBMASK) {
    case SF_FORMAT_PCM_24:
        return is_little_endian(format) ? SAMPLE_S24 : SAMPLE_S32;
    case SF_FORMAT_PCM_32:
    case SF_FORMAT_ALAC_20:
    case SF_FORMAT_ALAC_24:
    case SF_FORMAT_ALAC_32:
    case SF_FORMAT_DWVW_24:
    case SF_FORMAT_DWVW_N:
        return SAMPLE_S32;
    case SF_FORMAT_FLOAT:
    case SF_FORMAT_DOUBLE:
    case SF_FORMAT_VORBIS:
    case SF_FORMAT_OPUS:
    case SF_FORMAT_MPEG_LAYER_I:
    case SF_FORMAT_MPEG_LAYER_II:
    case SF_FORMAT_MPEG_LAYER_III:
        return SAMPLE_FLOAT;
    default:
        return SAMPLE_S16;
    }
}

int sound_format_bits(int format)
{
    switch (format & SF_FORMAT_SUBMASK) {
    case SF_FORMAT_PCM_S8:
    case SF_FORMAT_PCM_U8:
    case SF_FORMAT_DPCM_8:
        return 8;
    case SF_FORMAT_DWVW_12:
        return 12;
    case SF_FORMAT_ALAC_20:
        return 20;
    case SF_FORMAT_PCM_24:
    case SF_FORMAT_ALAC_24:
    case SF_FORMAT_DWVW_24:
        return 24;
    case SF_FORMAT_PCM_32:
    case SF_FORMAT_ALAC_32:
    case SF_FORMAT_DWVW_N:
        return 32;
    default:
        return sound_format_kind(format) == SAMPLE_FLOAT ? 0 : 16;
    }
}

double sound_format_bytes(int format)
{
    switch (format & SF_FORMAT_SUBMASK) {
    case SF_FORMAT_PCM_S8:
    case SF_FORMAT_PCM_U8:
    case SF_FORMAT_ULAW:
    case SF_FORMAT_ALAW:
        return (format & SF_FORMAT_TYPEMASK) == SF_FORMAT_FLAC ? 0 : 1;
    case SF_FORMAT_PCM_16:
        return (format & SF_FORMAT_TYPEMASK) == SF_FORMAT_FLAC ? 0 : 2;
    case SF_FORMAT_PCM_24:
        return (format & SF_FORMAT_TYPEMASK) == SF_FORMAT_FLAC ? 0 : 3;
    case SF_FORMAT_PCM_32:
    case SF_FORMAT_FLOAT:
        return 4;
    case SF_FORMAT_DOUBLE:
        return 8;
    default:
        return 0;
    }
}

bool sound_format_is_lossy_float(int format)
{
    return sound_format_kind(format) == SAMPLE_FLOAT && sound_format_bytes(format) == 0;
}
