#include "tar_input.h"

#include "host/files/sound_format.h"
#include "host/files/spool.h"
#include "host/message.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

static bool has_suffix(const char *path, const char *suffix)
{
    size_t n = strlen(path), n_suffix = strlen(suffix);
    return n > n_suffix && strcmp(path + n - n_suffix, suffix) == 0;
}

size_t tar_packed_suffix(const char *path)
{
    return has_suffix(path, ".tar.gz") ? strlen(".tar.gz") : has_suffix(path, ".tgz") ? strlen(".tgz") : 0;
}

bool tar_is_name(const char *path)
{
    return has_suffix(path, ".tar") || tar_packed_suffix(path) > 0;
}

static const char *last_component(const char *name)
{
    const char *slash = strrchr(name, '/');
    return slash ? slash + 1 : name;
}

bool tar_input_choose(struct tar_input *input, const char *pattern)
{
    bool has_any = false;
    for (size_t i = 0; i < input->n; i++) {
        struct tar_member *member = &input->members[i];
        const char *last = last_component(member->name);
        if (pattern && fnmatch(pattern, member->name, 0) != 0 && fnmatch(pattern, last, 0) != 0)
            member->is_convolved = false;
        has_any |= member->is_convolved;
    }
    return has_any;
}

static size_t sample_length(const char *name)
{
    const char *last = last_component(name);
    return (size_t)(last - name) + strcspn(last, ".");
}

bool tar_same_sample(const char *a, const char *b)
{
    size_t n = sample_length(a);
    return n == sample_length(b) && memcmp(a, b, n) == 0;
}

void tar_input_free(struct tar_input *input)
{
    for (size_t i = 0; i < input->n; i++) free(input->members[i].name);
    free(input->members);
    *input = (struct tar_input){0};
}

#ifdef HC_WITH_ARCHIVE

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <zlib.h>

enum { HEADERS_READ = 1 << 14 }; /* bytes of a read; libarchive seeks over contents */
enum { MAX_RATIO = 100, ALWAYS_UNPACKED = 64 << 20, UNPACKED_AT_ONCE = 1 << 20 }; /* the last two: bytes */

/* May a temporary file grow beyond so many bytes, unpacked from so many? A bomb has up to 1032 for each byte. The
 * other half of the free space is left to the files of other programs. */
static bool may_unpack(int fd, int64_t bytes, int64_t packed, const char *path, char *why, size_t cap)
{
    struct statvfs disk;
    if (bytes > MAX_RATIO * packed && bytes >= ALWAYS_UNPACKED)
        return message_write(why, cap, "%s: unpacks to more than %d times its size; unpack it yourself if you trust it",
                             path, MAX_RATIO);
    if (fstatvfs(fd, &disk) != 0 || disk.f_blocks == 0 || bytes <= (int64_t)(disk.f_bavail * disk.f_frsize))
        return true;
    return message_write(why, cap,
                         "%s: unpacked, it needs more than half of the free space; set TMPDIR to another "
                         "folder, or unpack it yourself",
                         path);
}

/* Copies the content of an open gzip file, which has `packed` bytes, into a temporary file. */
static int gzip_unpack(gzFile file, int64_t packed, const char *path, char *why, size_t cap)
{
    char buffer[1 << 15];
    int n, state = Z_OK, error = 0, to = spool_open(why, cap);
    int64_t bytes = 0;
    if (to < 0) return -1;
    while (!error && (n = gzread(file, buffer, sizeof buffer)) > 0) {
        error = spool_write(to, buffer, (size_t)n);
        bytes += n;
        if (error || bytes % UNPACKED_AT_ONCE != 0 || may_unpack(to, bytes, packed, path, why, cap)) continue;
        close(to);
        return -1;
    }
    gzerror(file, &state);
    if (!error && state == Z_OK && lseek(to, 0, SEEK_SET) == 0) return to;
    if (error)
        message_write(why, cap, "%s: cannot be unpacked: %s; free some space in $TMPDIR", path, strerror(error));
    else
        message_write(why, cap, "%s: is damaged or cut short, or cannot be read; download it again, or restore it",
                      path);
    close(to);
    return -1;
}

int tar_input_open(const char *path, char *why, size_t cap)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC), content = -1;
    gzFile file = NULL;
    if (fd < 0 || fstat(fd, &status) != 0)
        message_write(why, cap, "%s: cannot be read: %s; check the path and its permissions", path, strerror(errno));
    else if (!S_ISREG(status.st_mode))
        message_write(why, cap, "%s: is not a regular file; give a tar file on a disk", path);
    else if (!tar_packed_suffix(path))
        return fd;
    else if (!(file = gzdopen(fd, "r")))
        message_write(why, cap, "%s: no memory to unpack it; free some memory", path);
    else
        content = gzip_unpack(file, status.st_size, path, why, cap);
    if (file)
        gzclose_r(file);
    else if (fd >= 0)
        close(fd);
    return content;
}

/* Adds the entry whose content begins at `from`. */
static bool member_add(struct tar_input *input, struct archive_entry *entry, int64_t from, const char *path, char *why,
                       size_t cap)
{
    const char *name = archive_entry_pathname(entry);
    unsigned type = archive_entry_filetype(entry);
    if (!name || !*name)
        return message_write(why, cap, "%s: member %zu has no name; write the tar file again", path, input->n + 1);
    if (type == AE_IFREG && name[strlen(name) - 1] == '/') /* readers of tar files would ignore its content */
        return message_write(why, cap, "%s: %.200s is a file with the name of a folder; rename it", path, name);
    if (strlen(name) >= PATH_MAX)
        return message_write(why, cap, "%s: member %zu has a name of %zu bytes; give it a name of at most %d bytes",
                             path, input->n + 1, strlen(name), PATH_MAX - 1);
    if ((type != AE_IFREG && type != AE_IFDIR) || archive_entry_hardlink(entry) ||
        archive_entry_sparse_count(entry) > 0)
        return message_write(why, cap,
                             "%s: %.200s is a link, a device or a sparse file; write the tar file with "
                             "--dereference and --hard-dereference, and without --sparse",
                             path, name);
    if ((input->n & (input->n - 1)) == 0) { /* the array is full at 0, 1, 2, 4, ... */
        struct tar_member *more = realloc(input->members, (input->n ? 2 * input->n : 1) * sizeof *more);
        if (!more) return message_write(why, cap, "%s: no memory for its list of members; free some memory", path);
        input->members = more;
    }
    struct tar_member member = {.name = strdup(name),
                                .from = from,
                                .bytes = type == AE_IFDIR ? 0 : archive_entry_size(entry),
                                .changed = archive_entry_mtime(entry),
                                .mode = archive_entry_perm(entry),
                                .is_folder = type == AE_IFDIR,
                                .is_convolved = type == AE_IFREG && sound_format_of_path(name) != 0};
    if (!member.name) return message_write(why, cap, "%s: no memory for its list of members; free some memory", path);
    input->members[input->n++] = member;
    return true;
}

static bool archive_refuse(struct archive *archive, const char *path, char *why, size_t cap)
{
    const char *reason = archive_error_string(archive);
    return message_write(
        why, cap,
        "%s: is not a tar file, or it is damaged: %s; download it again, or restore it, or unpack a compressed one",
        path, reason ? reason : "unknown reason");
}

/* Counts the bytes from the first non-zero byte at or after `from` to the end of the file. Holes are not read. */
static int64_t count_behind(int fd, int64_t from, int64_t size)
{
    char buffer[HEADERS_READ];
    for (ssize_t got; (from = lseek(fd, from, SEEK_DATA)) >= 0; from += got) {
        got = pread(fd, buffer, sizeof buffer, from);
        if (got <= 0) break;
        for (ssize_t i = 0; i < got; i++)
            if (buffer[i]) return size - from - i;
    }
    return 0;
}

/* Reads the list of members. size: bytes of the tar file. */
static bool members_read(struct tar_input *input, struct archive *archive, int64_t size, const char *path, char *why,
                         size_t cap)
{
    struct archive_entry *entry;
    for (;;) {
        int state = archive_read_next_header(archive, &entry);
        if (state == ARCHIVE_EOF) return true;
        /* A name that the locale cannot show keeps its bytes; any other warning may have cost a name or a size. */
        bool is_whole = state == ARCHIVE_OK || (state == ARCHIVE_WARN && archive_errno(archive) == EILSEQ);
        if (!is_whole) return archive_refuse(archive, path, why, cap);
        if (!member_add(input, entry, archive_filter_bytes(archive, 0), path, why, cap)) return false;
        const struct tar_member *last = &input->members[input->n - 1];
        if (last->bytes < 0 || last->from > size || last->bytes > size - last->from)
            return message_write(why, cap, "%s: is cut short in its member %.200s; download it again, or restore it",
                                 path, last->name);
    }
}

bool tar_input_read(struct tar_input *input, const char *path, char *why, size_t cap)
{
    struct stat status;
    *input = (struct tar_input){0};
    int fd = tar_input_open(path, why, cap);
    if (fd < 0) return false;
    struct archive *archive = archive_read_new();
    bool good = false;
    if (!archive || archive_read_support_format_tar(archive) != ARCHIVE_OK || fstat(fd, &status) != 0)
        message_write(why, cap, "%s: no memory to read it, or a read error; free some memory, or check the disk", path);
    else if (archive_read_open_fd(archive, fd, HEADERS_READ) != ARCHIVE_OK)
        archive_refuse(archive, path, why, cap);
    else
        good = members_read(input, archive, status.st_size, path, why, cap);
    if (good) input->n_behind = count_behind(fd, archive_filter_bytes(archive, 0), status.st_size);
    archive_read_free(archive);
    close(fd);
    if (!good) tar_input_free(input);
    return good;
}

#else

int tar_input_open(const char *path, char *why, size_t cap)
{
    message_write(why, cap,
                  "%s: this build has no libarchive or no zlib; install libarchive-dev and zlib1g-dev and build "
                  "again, or unpack the file",
                  path);
    return -1;
}

bool tar_input_read(struct tar_input *input, const char *path, char *why, size_t cap)
{
    *input = (struct tar_input){0};
    return tar_input_open(path, why, cap) >= 0;
}

#endif
