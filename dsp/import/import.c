#include "import.h"

#include "dsp/masks/mask_file.h"
#include "dsp/masks/utf16.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LOOK_BYTES = 64 << 10 }; /* of a text, to find out what it is */

static const struct import_format *const formats[] = {
    &format_equalizer_apo, &format_camilladsp, &format_pipewire, &format_brutefir, &format_convolver,
};
enum { N_FORMATS = sizeof formats / sizeof *formats };

/* Is the path's extension one of a list such as ".conf .bf"? A dot alone stands for a name without extension. */
static bool has_extension_of(const char *path, const char *list)
{
    const char *slash = strrchr(path, '/');
    bool has_dot = strchr(slash ? slash : path, '.') != NULL;
    char extension[24];
    for (size_t length; *list; list += length + strspn(list + length, " ")) {
        length = strcspn(list, " ");
        if (length >= sizeof extension) continue;
        memcpy(extension, list, length);
        extension[length] = 0;
        if (length == 1 ? !has_dot : mask_file_has_extension(path, extension)) return true;
    }
    return false;
}

const struct import_format *import_find(const char *path, const char *text, size_t bytes)
{
    for (int i = 0; i < N_FORMATS; i++)
        if (has_extension_of(path, formats[i]->extensions) &&
            formats[i]->is_format(text, bytes < LOOK_BYTES ? bytes : LOOK_BYTES))
            return formats[i];
    return NULL;
}

bool import_is_configuration(const char *path)
{
    bool is_named = false;
    if (mask_file_has_extension(path, ".conf")) return true;
    for (int i = 0; i < N_FORMATS && !is_named; i++) is_named = has_extension_of(path, formats[i]->extensions);
    char text[LOOK_BYTES + 1], *utf8 = NULL;
    size_t utf8_bytes;
    int fd = is_named ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    ssize_t bytes = fd >= 0 ? read(fd, text, LOOK_BYTES) : -1;
    if (fd >= 0) close(fd);
    if (bytes < 0) return false; /* the reader of masks says why it cannot be read */
    text[bytes] = 0;
    if (utf16_is_text(text, (size_t)bytes)) utf8 = utf16_to_utf8(text, (size_t)bytes, &utf8_bytes);
    bool found = import_find(path, utf8 ? utf8 : text, utf8 ? utf8_bytes : (size_t)bytes) != NULL;
    free(utf8);
    return found;
}
