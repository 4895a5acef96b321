#include "picture.h"

#include "cairo/png_cairo.h"
#include "host/files/text_out.h"
#include "host/message.h"
#include "host/own_library.h"
#include "svg.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

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

static bool picture_write_png(const char *path, const struct drawing *drawing, FILE *to, char *why, size_t cap)
{
    void *library = own_library_open("haloconv_plot.so");
    const struct png_painter *painter = library ? dlsym(library, "haloconv_png_painter") : NULL;
    if (!painter) {
        const char *reason = dlerror();
        return message_write(why, cap, "%s: Cairo is missing (%s); install it, or name the picture .svg", path,
                             reason ? reason : "no haloconv_plot.so");
    }
    const char *reason = painter->write(drawing, to);
    return !reason || message_write(why, cap, "%s: %s; name the picture .svg", path, reason);
}

struct bytes {
    char *at;
    size_t n;
};

/* Writes the whole picture to memory. */
static bool picture_print(const char *path, const struct drawing *drawing, struct bytes *picture, char *why, size_t cap)
{
    FILE *to = open_memstream(&picture->at, &picture->n);
    if (!to) return message_write(why, cap, "%s: no memory; free some memory", path);
    bool good = true;
    if (ends_with(path, ".png"))
        good = picture_write_png(path, drawing, to, why, cap);
    else
        svg_write(drawing, to);
    bool is_full = ferror(to);
    if ((fclose(to) != 0 || is_full) && good) return message_write(why, cap, "%s: no memory; free some memory", path);
    return good;
}

static void write_bytes(FILE *file, const void *data)
{
    const struct bytes *bytes = data;
    fwrite(bytes->at, 1, bytes->n, file);
}

bool picture_write(const char *path, FILE *to, const struct drawing *drawing, char *why, size_t cap)
{
    struct bytes picture = {0};
    if (to) {
        svg_write(drawing, to);
        return !ferror(to) || message_write(why, cap, "%s: no memory for the plot; free some memory", path);
    }
    bool good = picture_print(path, drawing, &picture, why, cap) && text_out(path, write_bytes, &picture, why, cap);
    free(picture.at);
    return good;
}
