#include "tar_output.h"

#include "host/files/part_file.h"
#include "host/files/spool.h"
#include "host/message.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- headers of members ----------------------------------------------------------------------- */

/* The header of a tar member, in POSIX's ustar format; a long name or a large size is put in a pax header
 * before it (POSIX.1-2001, "pax Interchange Format"). libarchive would write it too, but its writer needs twelve
 * libraries, which a live session would lock into memory.
 */

enum { TAR_BLOCK = 512 }; /* headers and contents are padded to a multiple */

struct ustar {
    char name[100], mode[8], owner[8], group[8], size[12], changed[12], sum[8], type, link[100], magic[6], version[2],
        owner_name[32], group_name[32], device[16], prefix[155], unused[12];
};
_Static_assert(sizeof(struct ustar) == TAR_BLOCK, "a header is a block");

static const int64_t MAX_OCTAL = 077777777777; /* the largest size in 11 digits: 8 GiB - 1 */

static void put_octal(char *field, size_t size, uint64_t value)
{
    char digits[32];
    snprintf(digits, sizeof digits, "%0*llo", (int)size - 1, (unsigned long long)value);
    memcpy(field, digits, size); /* copies the final 0, too */
}

/* Splits a name at a '/' into prefix and name. false: it does not fit, and is cut. */
static bool put_name(struct ustar *header, const char *name)
{
    size_t n = strlen(name);
    if (n <= sizeof header->name) {
        memcpy(header->name, name, n);
        return true;
    }
    size_t at = n - 1 < sizeof header->prefix ? n - 1 : sizeof header->prefix + 1;
    /* name[at - 1] is the slash that separates them. libarchive adds no slash if the prefix ends with a slash. */
    while (at > 0 && (name[at - 1] != '/' || (at > 1 && name[at - 2] == '/'))) at--;
    if (at > 1 && n - at <= sizeof header->name) {
        memcpy(header->prefix, name, at - 1);
        memcpy(header->name, name + at, n - at);
        return true;
    }
    memcpy(header->name, name, sizeof header->name);
    return false;
}

static int header_write(int fd, struct ustar *header, unsigned mode, uint64_t bytes, uint64_t changed)
{
    unsigned sum = 0;
    put_octal(header->mode, sizeof header->mode, mode);
    put_octal(header->owner, sizeof header->owner, 0);
    put_octal(header->group, sizeof header->group, 0);
    put_octal(header->size, sizeof header->size, bytes);
    put_octal(header->changed, sizeof header->changed, changed);
    memcpy(header->magic, "ustar", 6);
    memcpy(header->version, "00", 2);
    memset(header->sum, ' ', sizeof header->sum);
    for (size_t i = 0; i < sizeof *header; i++) sum += ((const unsigned char *)header)[i];
    snprintf(header->sum, sizeof header->sum, "%06o", sum);
    return spool_write(fd, header, sizeof *header);
}

static int digits_of(size_t n)
{
    return snprintf(NULL, 0, "%zu", n);
}

/* Appends "LENGTH KEY=VALUE\n" to text; LENGTH counts its own digits too. */
static size_t put_record(char *text, const char *key, const char *value)
{
    size_t rest = strlen(key) + strlen(value) + 3, length = rest + (size_t)digits_of(rest);
    if (digits_of(length) > digits_of(rest)) length++;
    return (size_t)sprintf(text, "%zu %s=%s\n", length, key, value);
}

/* Writes the zeros that a content of so many bytes needs. Returns 0 or an errno. */
static int tar_padding_write(int fd, int64_t bytes)
{
    static const char zeros[TAR_BLOCK];
    return spool_write(fd, zeros, (size_t)(-bytes & (TAR_BLOCK - 1)));
}

static int pax_write(int fd, const char *name, int64_t bytes, bool with_name, bool with_size)
{
    char number[32];
    struct ustar header = {.name = "pax_header", .type = 'x'};
    char *text = malloc(strlen(name) + 256);
    if (!text) return ENOMEM;
    snprintf(number, sizeof number, "%lld", (long long)bytes);
    size_t n = with_name ? put_record(text, "path", name) : 0;
    if (with_size) n += put_record(text + n, "size", number);
    int error = header_write(fd, &header, 0644, n, 0);
    if (!error) error = spool_write(fd, text, n);
    if (!error) error = tar_padding_write(fd, (int64_t)n);
    free(text);
    return error;
}

/* Writes the header of a file or a folder. Returns 0 or an errno. */
static int tar_header_write(int fd, const char *name, bool is_folder, unsigned mode, time_t changed, int64_t bytes)
{
    struct ustar header = {.type = is_folder ? '5' : '0'};
    bool fits = put_name(&header, name), is_large = bytes > MAX_OCTAL;
    int error = fits && !is_large ? 0 : pax_write(fd, name, bytes, !fits, is_large);
    if (error) return error;
    return header_write(fd, &header, mode & 07777, is_large ? 0 : (uint64_t)bytes,
                        changed > 0 && changed <= MAX_OCTAL ? (uint64_t)changed : 0);
}

/* Writes the end of a tar file. Returns 0 or an errno. */
static int tar_end_write(int fd)
{
    static const char zeros[2 * TAR_BLOCK];
    return spool_write(fd, zeros, sizeof zeros);
}

/* ---- the output ------------------------------------------------------------------------------- */

enum { COPIED_AT_ONCE = 1 << 18 };                     /* bytes */
static const int64_t MAX_IN_MEMORY = (int64_t)1 << 30; /* bytes of waiting sounds; more sounds wait on the disk */
static atomic_int_fast64_t waiting_bytes;              /* bytes in memory of all outputs together */

struct waiting_sound {
    enum { SOUND_PENDING, SOUND_WAITS, SOUND_FAILED } state;
    const char *name;
    void *content; /* mapped, `bytes` long */
    size_t bytes;
};

struct tar_output {
    const char *path, *input_path;
    const struct tar_input *input;
    struct part_file part;
    int source; /* descriptor of the input */
    pthread_mutex_t lock;
    bool is_writing, is_broken;   /* under lock */
    struct waiting_sound *sounds; /* [input->n], under lock; by member                */
    size_t next;                  /* the next member to write; under lock, or is_writing */
    char buffer[];                /* [COPIED_AT_ONCE], of the thread that set is_writing; too large for its stack */
};

/* ---- writing ----------------------------------------------------------------------------------- */

static bool tar_write_failed(const struct tar_output *output, int error, char *why, size_t cap)
{
    return message_write(why, cap, "%s: cannot be written: %s; free some space or choose another output", output->path,
                         strerror(error ? error : EIO));
}

static bool write_header(struct tar_output *output, const struct tar_member *member, const char *name, int64_t bytes,
                         char *why, size_t cap)
{
    int error = tar_header_write(output->part.fd, name, member->is_folder, member->mode, member->changed, bytes);
    return !error || tar_write_failed(output, error, why, cap);
}

static bool pad(struct tar_output *output, int64_t bytes, char *why, size_t cap)
{
    int error = tar_padding_write(output->part.fd, bytes);
    return !error || tar_write_failed(output, error, why, cap);
}

static bool copy_member(struct tar_output *output, const struct tar_member *member, char *why, size_t cap)
{
    if (!write_header(output, member, member->name, member->bytes, why, cap)) return false;
    for (int64_t done = 0; done < member->bytes;) {
        size_t want = member->bytes - done < COPIED_AT_ONCE ? (size_t)(member->bytes - done) : COPIED_AT_ONCE;
        ssize_t got = pread(output->source, output->buffer, want, member->from + done);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0)
            return message_write(why, cap, "%s: cannot be read to its end: %s; download it again, or restore it",
                                 output->input_path, got < 0 ? strerror(errno) : "it became shorter");
        int error = spool_write(output->part.fd, output->buffer, (size_t)got);
        if (error) return tar_write_failed(output, error, why, cap);
        done += got;
    }
    return pad(output, member->bytes, why, cap);
}

static void sound_drop(struct waiting_sound *sound)
{
    if (!sound->content) return;
    munmap(sound->content, sound->bytes);
    sound->content = NULL;
    atomic_fetch_sub(&waiting_bytes, (int64_t)sound->bytes);
}

static bool write_member(struct tar_output *output, size_t i, char *why, size_t cap)
{
    const struct tar_member *member = &output->input->members[i];
    struct waiting_sound *sound = &output->sounds[i];
    if (!sound->content) return copy_member(output, member, why, cap);
    bool good = write_header(output, member, sound->name, (int64_t)sound->bytes, why, cap);
    int error = good ? spool_write(output->part.fd, sound->content, sound->bytes) : 0;
    if (error) good = tar_write_failed(output, error, why, cap);
    good = good && pad(output, (int64_t)sound->bytes, why, cap);
    sound_drop(sound);
    return good;
}

/* Returns the member behind the next sample, if the sample is finished; else output->next. Call it under lock. */
static size_t finished_sample_end(const struct tar_output *output, bool *has_failed)
{
    const struct tar_input *input = output->input;
    size_t i = output->next;
    *has_failed = false;
    for (; i < input->n && tar_same_sample(input->members[i].name, input->members[output->next].name); i++) {
        if (!input->members[i].is_convolved) continue;
        if (output->sounds[i].state == SOUND_PENDING) return output->next;
        if (output->sounds[i].state == SOUND_FAILED) *has_failed = true;
    }
    return i;
}

/* Writes the finished samples, unless another thread is writing. Call it under lock; it unlocks while it writes. */
static enum tar_progress write_finished(struct tar_output *output, char *why, size_t cap)
{
    bool has_failed, good = true;
    size_t end;
    if (output->is_writing || output->is_broken) return TAR_GOES_ON;
    output->is_writing = true;
    while (good && (end = finished_sample_end(output, &has_failed)) > output->next) {
        pthread_mutex_unlock(&output->lock);
        for (; output->next < end && good; output->next++) {
            if (has_failed)
                sound_drop(&output->sounds[output->next]);
            else
                good = write_member(output, output->next, why, cap);
        }
        pthread_mutex_lock(&output->lock);
    }
    output->is_writing = false;
    output->is_broken = !good;
    if (!good) return TAR_BROKEN;
    return output->next == output->input->n ? TAR_COMPLETE : TAR_GOES_ON;
}

/* ---- sounds ------------------------------------------------------------------------------------ */

int tar_sound_open(char *why, size_t cap)
{
    int fd = atomic_load(&waiting_bytes) < MAX_IN_MEMORY ? memfd_create("haloconv", MFD_CLOEXEC) : -1;
    return fd >= 0 ? fd : spool_open(why, cap);
}

static enum tar_progress finish_sound(struct tar_output *output, size_t member, struct waiting_sound sound, char *why,
                                      size_t cap)
{
    pthread_mutex_lock(&output->lock);
    output->sounds[member] = sound;
    enum tar_progress progress = write_finished(output, why, cap);
    pthread_mutex_unlock(&output->lock);
    return progress;
}

enum tar_progress tar_output_put(struct tar_output *output, size_t member, const char *name, int fd, char *why,
                                 size_t cap)
{
    struct stat status;
    void *content = MAP_FAILED;
    if (fstat(fd, &status) == 0 && status.st_size > 0)
        content = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (content == MAP_FAILED) {
        tar_write_failed(output, errno, why, cap);
        return TAR_BROKEN;
    }
    atomic_fetch_add(&waiting_bytes, status.st_size);
    return finish_sound(output, member, (struct waiting_sound){SOUND_WAITS, name, content, (size_t)status.st_size}, why,
                        cap);
}

enum tar_progress tar_output_leave_out(struct tar_output *output, size_t member, char *why, size_t cap)
{
    return finish_sound(output, member, (struct waiting_sound){.state = SOUND_FAILED}, why, cap);
}

/* ---- open and close ---------------------------------------------------------------------------- */

struct tar_output *tar_output_open(const char *path, const struct tar_input *input, const char *input_path, int content,
                                   char *why, size_t cap)
{
    struct tar_output *output = calloc(1, sizeof *output + COPIED_AT_ONCE);
    if (!output) return (void)message_write(why, cap, "%s: no memory; free some memory", path), NULL;
    *output = (struct tar_output){.path = path,
                                  .input_path = input_path,
                                  .input = input,
                                  .part.fd = -1,
                                  .source = fcntl(content, F_DUPFD_CLOEXEC, 3),
                                  .sounds = calloc(input->n, sizeof *output->sounds)};
    pthread_mutex_init(&output->lock, NULL);
    bool good = false;
    if (output->source < 0)
        message_write(why, cap, "%s: cannot be read: %s; raise ulimit -n, or use fewer --workers", input_path,
                      strerror(errno));
    else if (!output->sounds)
        message_write(why, cap, "%s: no memory; free some memory", path);
    else
        good = part_file_open(&output->part, path, why, cap);
    if (good) return output;
    tar_output_abandon(output);
    return NULL;
}

void tar_output_abandon(struct tar_output *output)
{
    if (!output) return;
    part_file_abandon(&output->part);
    if (output->source >= 0) close(output->source);
    for (size_t i = 0; output->sounds && i < output->input->n; i++) sound_drop(&output->sounds[i]);
    free(output->sounds);
    pthread_mutex_destroy(&output->lock);
    free(output);
}

int64_t tar_output_commit(struct tar_output *output, char *why, size_t cap)
{
    struct stat status = {.st_size = -1};
    int error = tar_end_write(output->part.fd);
    if (!error && fstat(output->part.fd, &status) != 0) error = errno;
    bool good = !error || tar_write_failed(output, error, why, cap);
    good = good && part_file_commit(&output->part, output->path, why, cap);
    tar_output_abandon(output);
    return good ? status.st_size : -1;
}
