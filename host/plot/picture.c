#include "picture.h"

#include "host/files/text_out.h"
#include "host/message.h"
#include "svg.h"

#include <string.h>
#include <strings.h>

bool picture_check(const char *path, char *why, size_t cap)
{
    const char *dot = strrchr(path, '.');
    if (dot && strcasecmp(dot, ".svg") == 0) return true;
    if (dot && strcasecmp(dot, ".png") == 0)
        return message_write(why, cap, "%s: plots are SVG; name it .svg (rsvg-convert makes a PNG of it)", path);
    return message_write(why, cap, "%s: is not the name of a picture; name it .svg", path);
}

static void write_svg(FILE *file, const void *drawing)
{
    svg_write(drawing, file);
}

bool picture_write(const char *path, FILE *to, const struct drawing *drawing, char *why, size_t cap)
{
    if (!to) return text_out(path, write_svg, drawing, why, cap);
    svg_write(drawing, to);
    return !ferror(to) || message_write(why, cap, "%s: no memory for the plot; free some memory", path);
}
