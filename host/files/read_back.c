#include "read_back.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* A descriptor to read the file; -1: none. Standard output may be open for writing alone. Another file is not opened
 * again, because a network file system may apply its lock to every other descriptor. */
static int open_again(int fd)
{
    char path[32];
    if ((fcntl(fd, F_GETFL) & O_ACCMODE) != O_WRONLY) return fcntl(fd, F_DUPFD_CLOEXEC, 3);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* Releases of libsndfile close the descriptor of a file that they cannot open, whatever they are told: so it is theirs.
 * Of a headerless file, info has the format. */
static SNDFILE *open_sound(int fd, const SF_INFO *written, SF_INFO *info, bool *unreadable)
{
    bool headerless = (written->format & SF_FORMAT_TYPEMASK) == SF_FORMAT_RAW;
    int own = open_again(fd);
    *unreadable = own < 0 && (fcntl(fd, F_GETFL) & O_ACCMODE) == O_WRONLY; /* standard output, and no /proc */
    *info = headerless ? *written : (SF_INFO){0};
    if (own < 0) return NULL;
    lseek(own, 0, SEEK_SET);
    return sf_open_fd(own, SFM_READ, info, true);
}

static bool has_last_frame(SNDFILE *file, sf_count_t n, int n_channels)
{
    float frame[1024];
    return n == 0 ||
           (n_channels <= 1024 && sf_seek(file, n - 1, SEEK_SET) == n - 1 && sf_readf_float(file, frame, 1) == 1);
}

/* Reads everything: some codecs neither seek nor know their length, whatever their header says. */
static sf_count_t count_frames(SNDFILE *file, int n_channels)
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
    return found >= written && found - written <= READ_BACK_PADDING;
}

bool read_back_is_whole(int fd, const SF_INFO *written, sf_count_t *found)
{
    SF_INFO info;
    bool unreadable;
    SNDFILE *file = open_sound(fd, written, &info, &unreadable);
    if (unreadable) return true;
    *found = -1;
    if (!file) return false;
    *found = info.frames;
    bool whole = is_enough(info.frames, written->frames) && has_last_frame(file, written->frames, info.channels);
    sf_close(file);
    if (whole) return true;
    file = open_sound(fd, written, &info, &unreadable);
    if (file) *found = count_frames(file, info.channels);
    if (file) sf_close(file);
    return is_enough(*found, written->frames);
}
