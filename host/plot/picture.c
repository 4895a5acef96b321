#include "picture.h"

#include "cairo/png_cairo.h"
#include "host/files/part_file.h"
#include "host/message.h"
#include "host/own_library.h"
#include "svg.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static bool ends_with(const char *path, const char *extension)
{
    const char *dot = strrchr(path, '.');
    return dot && strcasecmp(dot, extension) == 0;
}

bool picture_check(const char *path, char *why, size_t cap)
{
#ifdef HC_WITH_CAIRO
    if (ends_with(path, ".svg") || ends_with(path, ".png")) return true;
    return message_write(why, cap, "%s: is not the name of a picture; name it .svg or .png", path);
#else
    if (ends_with(path, ".svg")) return true;
    if (ends_with(path, ".png"))
        return message_write(why, cap, "%s: this build has no Cairo, which paints PNG; name it .svg", path);
    return message_write(why, cap, "%s: is not the name of a picture; name it .svg", path);
#endif
}

static bool write_png(const char *path, const struct drawing *drawing, FILE *to, char *why, size_t cap)
{
    void *library = own_library_open("haloconv_plot.so");
    const struct png_painter *painter = library ? dlsym(library, "haloconv_png_painter") : NULL;
    if (!painter) {
        const char *reason = dlerror();
        return message_write(why, cap, "%s: Cairo is not here (%s); install it, or name the picture .svg", path,
                             reason ? reason : "no haloconv_plot.so");
    }
    const char *reason = painter->write(drawing, to);
    return !reason || message_write(why, cap, "%s: %s; name the picture .svg", path, reason);
}

/* errno after a failure is the reason. */
static bool write_all(int fd, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t done = write(fd, bytes, n);
        if (done < 0 && errno != EINTR) return false;
        if (done <= 0) continue;
        bytes += done;
        n -= (size_t)done;
    }
    return true;
}

/* The whole picture, in memory. */
static bool print(const char *path, const struct drawing *drawing, char **bytes, size_t *n, char *why, size_t cap)
{
    FILE *to = open_memstream(bytes, n);
    if (!to) return message_write(why, cap, "%s: no memory; free some", path);
    bool good = true;
    if (ends_with(path, ".png"))
        good = write_png(path, drawing, to, why, cap);
    else
        svg_write(drawing, to);
    bool is_full = ferror(to);
    if ((fclose(to) != 0 || is_full) && good) return message_write(why, cap, "%s: no memory; free some", path);
    return good;
}

bool picture_write(const char *path, const struct drawing *drawing, char *why, size_t cap)
{
    char *bytes = NULL;
    size_t n = 0;
    struct part_file part;
    bool good = print(path, drawing, &bytes, &n, why, cap) && part_file_open(&part, path, why, cap);
    if (good && write_all(part.fd, bytes, n)) {
        good = part_file_commit(&part, path, why, cap);
    } else if (good) {
        good = message_write(why, cap, "%s: cannot be written: %s; free some space or choose another output", path,
                             strerror(errno));
        part_file_abandon(&part);
    }
    free(bytes);
    return good;
}
