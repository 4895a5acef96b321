#include "panel_upload.h"

#include "dsp/haloconv_masks.h"
#include "host/files/sound_in.h"
#include "host/message.h"
#include "host/stopwatch.h"
#include "host/utf8.h"
#include "panel_server.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* ---- the folder -------------------------------------------------------------------------------- */

static bool make_private(struct panel_folder *f, char *why, size_t cap)
{
    const char *run = getenv("XDG_RUNTIME_DIR");
    snprintf(f->path, sizeof f->path, "%s/haloconv-panel-XXXXXX", run && *run == '/' ? run : "/tmp");
    f->is_private = mkdtemp(f->path) != NULL;
    return f->is_private || message_write(why, cap, "--panel: %s: %s; give --panel-folder", f->path, strerror(errno));
}

bool panel_folder_open(struct panel_folder *f, const char *path, bool is_private, char *why, size_t cap)
{
    *f = (struct panel_folder){.fd = -1, .begins = {.credit = PANEL_UPLOADS}};
    if (!path && !make_private(f, why, cap)) return false;
    if (path && !realpath(path, f->path))
        return message_write(why, cap, "--panel-folder %s: %s; make this folder, or give another", path,
                             strerror(errno));
    if (path) f->is_private = is_private;
    f->fd = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool may_write = f->fd >= 0 && faccessat(f->fd, ".", W_OK | X_OK, AT_EACCESS) == 0;
    return may_write || message_write(why, cap, "--panel-folder %s: %s; give a folder that you may write to",
                                      path ? path : f->path, strerror(errno));
}

void panel_folder_empty(struct panel_folder *f)
{
    DIR *files = f->is_private ? opendir(f->path) : NULL;
    for (struct dirent *file; files && (file = readdir(files));) unlinkat(f->fd, file->d_name, 0);
    if (files) closedir(files);
    if (f->is_private) rmdir(f->path);
}

void panel_folder_close(struct panel_folder *f)
{
    panel_folder_empty(f);
    if (f->fd >= 0) close(f->fd);
}

/* ---- an upload --------------------------------------------------------------------------------- */

/* Returns the extension of a file that may be uploaded; NULL: another one. */
static const char *known_extension(const char *name)
{
    static const char *const known[] = {".wav", ".flac", ".aif", ".aiff", ".w64", ".caf", ".ogg", ".rf64", ".txt"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && dot > name && i < sizeof known / sizeof *known; i++)
        if (strcasecmp(dot, known[i]) == 0) return known[i];
    return NULL;
}

static bool upload_is_text(const char *name)
{
    const char *extension = known_extension(name);
    return extension && strcmp(extension, ".txt") == 0;
}

/* %r in a name would stand for a rate. */
static bool upload_is_name(const char *name)
{
    if (!*name || *name == '.' || strpbrk(name, "/\\%")) return false;
    for (const char *at = name; *at;) {
        size_t n = utf8_bytes((const unsigned char *)at);
        unsigned char first = (unsigned char)*at, second = (unsigned char)at[n > 1];
        if (n == 0 || first < ' ' || first == 127 || (first == 0xc2 && second < 0xa0)) return false;
        at += n;
    }
    return true;
}

/* The folder may be in memory (XDG_RUNTIME_DIR): all uploads together get up to a quarter of what is free without them. */
static int64_t max_bytes(const struct panel_folder *f)
{
    struct statvfs disk;
    if (fstatvfs(f->fd, &disk) != 0) return PANEL_UPLOAD_ALL;
    double free_bytes = (double)disk.f_bavail * (double)disk.f_frsize + (double)f->bytes;
    return (int64_t)fmin(PANEL_UPLOAD_ALL, free_bytes / 4);
}

int panel_upload_begin(struct panel_folder *f, struct panel_upload *u, const char *name, int64_t bytes, char *why,
                       size_t cap)
{
    const char *extension = known_extension(name);
    *u = (struct panel_upload){.fd = -1};
    bucket_fill(&f->begins, 1.0 / PANEL_UPLOAD_S, PANEL_UPLOADS, stopwatch_now());
    if (!upload_is_name(name) || strlen(name) > 200)
        return message_write(why, cap, "give a name without slash, %%, dot in front or control character"), 400;
    if (!extension)
        return message_write(
                   why, cap,
                   "%s: only sound files (wav, flac, aiff, w64, caf, ogg, rf64) and texts (txt) can be uploaded", name),
               415;
    if (bytes < 1) return message_write(why, cap, "%s: the file is empty, or its length is not given", name), 411;
    int max_mib = (upload_is_text(name) ? PANEL_UPLOAD_TEXT : PANEL_MAX_BODY) >> 20;
    if (bytes > (int64_t)max_mib << 20)
        return message_write(why, cap, "%s: has more than %d MiB; use a shorter mask", name, max_mib), 413;
    if (f->bytes + bytes > max_bytes(f))
        return message_write(why, cap,
                             "%s: this session's uploads would take more than a quarter of what is free, or "
                             "%d MiB; give --panel-folder",
                             name, PANEL_UPLOAD_ALL >> 20),
               507;
    if (f->begins.credit < 1) return message_write(why, cap, "%s: too many uploads; try again in a minute", name), 429;
    if (faccessat(f->fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return message_write(why, cap, "%s: exists already; give the file another name", name), 409;
    do { /* a killed session may have left a part, and another one may use the folder */
        snprintf(u->part, sizeof u->part, ".%llu%s", (unsigned long long)++f->n, extension);
        u->fd = openat(f->fd, u->part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    } while (u->fd < 0 && errno == EEXIST);
    if (u->fd < 0) {
        u->part[0] = 0;
        return message_write(why, cap, "%s: %s", name, strerror(errno)), 507;
    }
    snprintf(u->name, sizeof u->name, "%s", name);
    u->expected = bytes;
    f->begins.credit--;
    f->bytes += bytes;
    return 0;
}

int panel_upload_add(struct panel_upload *u, const void *bytes, size_t n, char *why, size_t cap)
{
    if (u->fd < 0 || (int64_t)n > u->expected - u->received)
        return message_write(why, cap, "the file has more bytes than were given"), 400;
    for (const char *at = bytes; n > 0;) {
        ssize_t written = write(u->fd, at, n);
        if (written <= 0) return message_write(why, cap, "%s: %s", u->name, strerror(errno)), 507;
        at += written;
        n -= (size_t)written;
        u->received += written;
    }
    return 0;
}

bool panel_upload_is_whole(const struct panel_upload *u)
{
    return u->fd >= 0 && u->received == u->expected;
}

/* Reads the header: a small file may have many samples. */
static bool is_short(const char *path, int rate, char *why, size_t cap)
{
    struct sound_in in;
    if (!sound_in_open(&in, path, NULL, why, cap)) return false;
    double samples = (double)in.n_frames * in.n_channels * fmax(1, (double)rate / in.rate);
    bool good = in.n_frames >= 0 && samples <= PANEL_UPLOAD_SAMPLES;
    sound_in_close(&in);
    return good ||
           message_write(why, cap, ": has more than 2^24 samples, or does not say how many; use a shorter mask");
}

/* Can a line of a text name no file? Numbers, comments, and the lines of equalisers cannot. */
static bool is_harmless(const char *line)
{
    static const char *const keys[] = {"Filter", "Preamp:", "GraphicEQ:", "Channel:"};
    line += strspn(line, " \t\r\n");
    if (!*line || *line == '#' || *line == '*') return true;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strncmp(line, keys[i], strlen(keys[i])) == 0) return !strpbrk(line, "/\\\"'`{}[]<>%");
    return line[strspn(line, "0123456789+-.eE,; \t\r\n")] == 0;
}

/* A configuration could name any file of this machine. */
static bool is_harmless_text(const struct panel_folder *f, const struct panel_upload *u, char *why, size_t cap)
{
    int fd = openat(f->fd, u->part, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;
    char *line = NULL;
    size_t size = 0, number = 0;
    bool good = file != NULL;
    for (ssize_t n; good && (n = getline(&line, &size, file)) > 0;) {
        size_t mark = number++ == 0 && strncmp(line, "\xef\xbb\xbf", 3) == 0 ? 3 : 0; /* byte order mark of UTF-8 */
        good = strlen(line) == (size_t)n && is_harmless(line + mark);
    }
    free(line);
    if (file) fclose(file);
    return good || message_write(why, cap,
                                 ":%zu: an uploaded text may have numbers, comments, and lines Filter, Preamp, "
                                 "GraphicEQ and Channel alone; name other configurations on the command line",
                                 number);
}

/* Renames a file of a folder, and replaces none. A network file system may lack RENAME_NOREPLACE. */
static bool rename_new(int folder, const char *from, const char *to)
{
    if (renameat2(folder, from, folder, to, RENAME_NOREPLACE) == 0) return true;
    if (errno != EINVAL || linkat(folder, from, folder, to, 0) != 0) return false;
    unlinkat(folder, from, 0);
    return true;
}

bool panel_upload_check(struct panel_folder *f, struct panel_upload *u, int n_in, int rate, char *why, size_t cap)
{
    hc_responses mask = {0};
    char path[sizeof u->path], reason[MESSAGE_CAP] = "";
    snprintf(path, sizeof path, "%s/%s", f->path, u->part);
    bool good = (upload_is_text(u->part) ? is_harmless_text(f, u, reason, sizeof reason)
                                         : is_short(path, rate, reason, sizeof reason)) &&
                hc_responses_load(path, 0, rate, 0, &mask, reason, sizeof reason) == HC_OK &&
                hc_responses_route(&mask, path, n_in, reason, sizeof reason) == HC_OK;
    hc_responses_free(&mask);
    const char *text = strncmp(reason, path, strlen(path)) == 0 ? reason + strlen(path) : reason;
    if (!good) return message_write(why, cap, "%s%s", u->name, text);
    if (!rename_new(f->fd, u->part, u->name))
        return message_write(why, cap, "%s: %s%s", u->name, strerror(errno),
                             errno == EEXIST ? "; give the file another name" : "");
    u->part[0] = 0;
    snprintf(u->path, sizeof u->path, "%s/%s", f->path, u->name);
    return true;
}

void panel_upload_end(struct panel_folder *f, struct panel_upload *u)
{
    if (u->fd >= 0) close(u->fd);
    if (u->part[0]) {
        unlinkat(f->fd, u->part, 0);
        f->bytes -= u->expected;
    }
    *u = (struct panel_upload){.fd = -1};
}
