/* clap_masks - the masks that ship, inside the plugin: a .clap file that is copied alone has them, too.
 *
 *   [512 bytes: name at 0, size in octal digits at 124][the file, up to a multiple of 512 bytes][512 bytes: ...   a tar file
 *
 * Libraries read masks from files, so they are written into the user's cache folder, once for each set of masks.
 */
#include "dsp/base/cache.h"
#include "face.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

__asm__(".pushsection .rodata\n"
        ".hidden clap_masks_tar\n"
        ".globl clap_masks_tar\n"
        "clap_masks_tar: .incbin \"" HC_MASKS_TAR "\"\n"
        ".popsection\n");
extern const char clap_masks_tar[]; /* ends with zeros */

/* Several processes may write the same file: each has its own temporary name. */
static bool clap_write_file(const char *path, const char *bytes, size_t size)
{
    char part[CORE_PATH_BYTES + 16];
    struct stat is;
    if (stat(path, &is) == 0 && (size_t)is.st_size == size) return true;
    snprintf(part, sizeof part, "%s.%d", path, (int)getpid());
    FILE *file = fopen(part, "we");
    bool good = file && fwrite(bytes, 1, size, file) == size;
    if (file) good = fclose(file) == 0 && good;
    good = good && rename(part, path) == 0;
    if (file && !good) unlink(part);
    return good;
}

bool face_unpack_masks(char folder[CORE_PATH_BYTES])
{
    char path[CORE_PATH_BYTES];
    bool good =
        cache_path(path, "") && cache_make(path) && cache_path(path, "masks-" HC_MASKS_ID "/") && cache_make(path);
    if (good) snprintf(folder, CORE_PATH_BYTES, "%s", path);
    for (const char *at = clap_masks_tar; good && *at;) {
        size_t size = strtoul(at + 124, NULL, 8);
        good = snprintf(path, sizeof path, "%s%.100s", folder, at) < (int)sizeof path;
        if (good && path[strlen(path) - 1] == '/')
            mkdir(path, 0700); /* without it no file can be written */
        else
            good = good && clap_write_file(path, at + 512, size);
        at += 512 + (size + 511) / 512 * 512;
    }
    return good;
}
