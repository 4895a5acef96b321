/* Any bytes as the name of a curve: what a picture shows of it is UTF-8 that XML allows, as wide as asked at most, and
 * unchanged if it was clean and fits. The first byte is the width. */
#include "fuzz.h"
#include "host/plot/drawing.h"
#include "host/plot/svg.h"
#include "host/utf8.h"

#include <stdlib.h>
#include <string.h>

/* Each character is complete, and none is a control character or a mark that turns the text. */
static void check_characters(const char *text)
{
    for (const unsigned char *at = (const unsigned char *)text; *at; at += utf8_bytes(at)) {
        must(utf8_bytes(at) > 0);
        must(*at >= ' ' && *at != 0x7f && !(*at == 0xc2 && at[1] < 0xa0));
        must(memcmp(at, "\xe2\x80\xae", 3) != 0 && memcmp(at, "\xef\xbf\xbf", 3) != 0); /* U+202E, U+FFFF */
    }
}

/* The text of a picture has no markup of the name's. */
static void write_svg(const char *name)
{
    struct drawing drawing = {.height = 10};
    char *svg = NULL;
    size_t n = 0, tags = 0;
    drawing_text(&drawing, 0, 0, 20, TEXT_START, 700, name);
    drawing_path(&drawing, (struct ink){.width = 1}, name, (const struct point[]){{0, 0}, {1, 1}}, 2);
    FILE *file = open_memstream(&svg, &n);
    must(file && !drawing.failed);
    svg_write(&drawing, file);
    must(fclose(file) == 0);
    for (size_t i = 0; i < n; i++) tags += svg[i] == '<';
    must(tags == 9); /* <?xml>, and both ends of svg, text, path and title */
    free(svg);
    drawing_free(&drawing);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) return 0;
    char *name = strndup((const char *)data + 1, size - 1);
    must(name);
    int most = data[0];
    char *text = plain_text_make(name, most), *again = plain_text_make(text ? text : "", most);
    must(text && again);
    check_characters(text);
    must(plain_text_cells(text) <= most || most < 3);
    must(strcmp(text, again) == 0 || most < 3);
    write_svg(name);
    free(again);
    free(text);
    free(name);
    return 0;
}
