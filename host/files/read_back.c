#include "read_back.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { MAX_PADDING = 4096 }; /* frames that codecs of packets may add */

/* Standard output may be write-only; every other file can be read. */
static bool is_write_only(int fd)
{
    return (fcntl(fd, F_GETFL) & O_ACCMODE) == O_WRONLY;
}

/* Opens a descriptor to read the file; -1: not needed. A readable file is not opened again: a network file system may
 * apply the lock on fd to the second descriptor. */
static int open_again(int fd)
{
    char path[32];
    if (!is_write_only(fd)) return fcntl(fd, F_DUPFD_CLOEXEC, 3);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* Closes fd, which may be -1. libsndfile has to close it, because some releases close it after an error in any case. */
static SNDFILE *open_read_back(int fd, const SF_INFO *written, SF_INFO *info)
{
    bool headerless = (written->format & SF_FORMAT_TYPEMASK) == SF_FORMAT_RAW;
    *info = headerless ? *written : (SF_INFO){0};
    if (fd < 0) return NULL;
    lseek(fd, 0, SEEK_SET);
    return sf_open_fd(fd, SFM_READ, info, true);
}

static bool has_last_frame(SNDFILE *file, sf_count_t n, int n_channels)
{
    float frame[1024];
    return n == 0 ||
           (n_channels <= 1024 && sf_seek(file, n - 1, SEEK_SET) == n - 1 && sf_readf_float(file, frame, 1) == 1);
}

/* Reads everything: some codecs neither seek nor know their length, whatever their header says. */
static sf_count_t read_all_frames(SNDFILE *file, int n_channels)
{
    enum { FRAMES = 4096 };
    float *chunk = malloc(FRAMES * (size_t)n_channels * sizeof *chunk);
    sf_count_t n = 0, got = chunk ? FRAMES : 0;
    while (got == FRAMES) {
        got = sf_readf_float(file, chunk, FRAMES);
        n += got > 0 ? got : 0;
    }
    free(chunk);
    return n;
}

static bool is_enough(sf_count_t found, sf_count_t written)
{
    return found >= written && found - written <= MAX_PADDING;
}

bool read_back_is_whole(int fd, const SF_INFO *written, sf_count_t *found)
{
    SF_INFO info;
    int own = open_again(fd);
    if (own < 0 && is_write_only(fd)) return true; /* no /proc */
    SNDFILE *file = open_read_back(own, written, &info);
    *found = -1;
    if (!file) return false;
    *found = info.frames;
    bool whole = is_enough(info.frames, written->frames) && has_last_frame(file, written->frames, info.channels);
    sf_close(file);
    if (whole) return true;
    file = open_read_back(open_again(fd), written, &info);
    if (file) *found = read_all_frames(file, info.channels);
    if (file) sf_close(file);
    return is_enough(*found, written->frames);
}
