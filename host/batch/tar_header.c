#include "tar_header.h"

#include "host/files/spool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

int tar_header_write(int fd, const char *name, bool is_folder, unsigned mode, time_t changed, int64_t bytes)
{
    struct ustar header = {.type = is_folder ? '5' : '0'};
    bool fits = put_name(&header, name), is_large = bytes > MAX_OCTAL;
    int error = fits && !is_large ? 0 : pax_write(fd, name, bytes, !fits, is_large);
    if (error) return error;
    return header_write(fd, &header, mode & 07777, is_large ? 0 : (uint64_t)bytes,
                        changed > 0 && changed <= MAX_OCTAL ? (uint64_t)changed : 0);
}

int tar_padding_write(int fd, int64_t bytes)
{
    static const char zeros[TAR_BLOCK];
    return spool_write(fd, zeros, (size_t)(-bytes & (TAR_BLOCK - 1)));
}

int tar_end_write(int fd)
{
    static const char zeros[2 * TAR_BLOCK];
    return spool_write(fd, zeros, sizeof zeros);
}
