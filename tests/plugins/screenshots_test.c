/* Pictures of the window with the tables of our plugins, at 100, 150 and 200 %, on an X server without a screen (Xvfb).
 *
 * A picture is compared with tests/plugins/screenshots.txt: a font, and mean colours of a grid of cells, which hold at
 * every scale and, less exactly, with other fonts. The test writes $BUILD/screenshots/PLUGIN-SCALE.png. Pictures of
 * 150 % that pages show are in docs/pictures/, and have the colours that are drawn. With HC_TEST_PICTURES the test stores
 * those and the grids of 100 % anew (make pictures). window_test shows that an X server gets the pixels that draw_window
 * draws.
 */
#include "check.h"
#include "plugins/core/plugin_window.h"
#include "plugins/window/parts.h"
#include "x_server.h"

#include <fontconfig/fontconfig.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { COLUMNS = 16, ROWS = 12, TOLERANCE = 6, OTHER_FONT = 24 };
static const char stored[] = "tests/plugins/screenshots.txt", masks[] = "haloconv.lv2/";

struct shot {
    const char *variant, *mask, *error;
    double azimuth, distance;
    const char *page; /* its picture in docs/pictures/, or NULL */
};
static const struct shot shots[] = {
    {"stereo", "hall.wav", "", 0, 0, "window.png"},
    {"binaural", "head", "", 40, 3, "binaural.png"},
    {"matrix_16", "through.txt", "hall.wav: 2 channels do not fit 16 input channels; use a mask of 1 or 16 channels", 0,
     0, NULL}};
enum { N_SHOTS = sizeof shots / sizeof *shots };

static const struct variant *variant_of(const struct shot *shot)
{
    int v = 0;
    while (strcmp(variants[v].symbol, shot->variant) != 0) v++;
    return &variants[v];
}

/* ---- a plugin that shows the same at all times ------------------------------------------------------------------ */

static double get(void *face, int control)
{
    const struct shot *shot = face;
    return control == AZIMUTH    ? shot->azimuth
           : control == DISTANCE ? shot->distance
                                 : (double)controls[control].initial;
}

static void nothing(void *face, int control)
{
    (void)face, (void)control;
}

static void set(void *face, int control, double value)
{
    (void)face, (void)control, (void)value;
}

static void load(void *face, const char *path)
{
    (void)face, (void)path;
}

static void state(void *face, struct window_state *to)
{
    const struct shot *shot = face;
    (void)snprintf(to->mask[0], sizeof to->mask[0], "%s%s", masks, shot->mask);
    (void)snprintf(to->error, sizeof to->error, "%s", shot->error);
    (void)snprintf(to->backend, sizeof to->backend, "CPU, 48 kHz, 64 frames");
    to->in_peak = 0.25f, to->out_peak = 0.4f, to->load = 3;
}

/* ---- pictures --------------------------------------------------------------------------------------------------- */

/* Mean colours of cells, red, green and blue. */
typedef double grid[ROWS][COLUMNS][3];

static void grid_of(cairo_surface_t *surface, grid to)
{
    const int w = cairo_image_surface_get_width(surface), h = cairo_image_surface_get_height(surface);
    const uint8_t *pixels = cairo_image_surface_get_data(surface);
    const size_t stride = (size_t)cairo_image_surface_get_stride(surface);
    memset(to, 0, sizeof(grid));
    for (int row = 0; row < ROWS; row++)
        for (int column = 0; column < COLUMNS; column++) {
            const int left = column * w / COLUMNS, right = (column + 1) * w / COLUMNS;
            const int top = row * h / ROWS, bottom = (row + 1) * h / ROWS;
            for (int y = top; y < bottom; y++)
                for (int x = left; x < right; x++)
                    for (int c = 0; c < 3; c++)
                        to[row][column][c] += (double)pixels[(size_t)y * stride + 4 * (size_t)x + 2 - (size_t)c] /
                                              ((right - left) * (bottom - top));
        }
}

static void write_grid(FILE *file, const char *name, grid from)
{
    fprintf(file, "%s\n", name);
    for (int row = 0; row < ROWS; row++)
        for (int column = 0; column < COLUMNS; column++)
            for (int c = 0; c < 3; c++)
                fprintf(file, "%02lx%s", lrint(from[row][column][c]), c < 2 ? "" : column + 1 < COLUMNS ? " " : "\n");
}

static void read_grid(FILE *file, const char *name, grid to)
{
    char word[40];
    unsigned color[3];
    check(fscanf(file, "%39s", word) == 1 && strcmp(word, name) == 0, "%s lacks %s; make pictures", stored, name);
    for (int row = 0; row < ROWS; row++)
        for (int column = 0; column < COLUMNS; column++) {
            check(fscanf(file, "%2x%2x%2x", &color[0], &color[1], &color[2]) == 3, "%s is cut", stored);
            for (int c = 0; c < 3; c++) to[row][column][c] = color[c];
        }
}

static void check_same(const char *name, double scale, grid got, grid want, double tolerance)
{
    for (int row = 0; row < ROWS; row++)
        for (int column = 0; column < COLUMNS; column++)
            for (int c = 0; c < 3; c++)
                check(fabs(got[row][column][c] - want[row][column][c]) <= tolerance,
                      "%s at %.0f %%, row %d, column %d, colour %d is %.0f, not %.0f; look at the pictures in "
                      "screenshots/ of the build, then make pictures",
                      name, 100 * scale, row, column, c, got[row][column][c], want[row][column][c]);
}

/* The picture of a page has the colours of the one that was drawn. */
static void check_page_picture(const char *path, bool is_new, cairo_surface_t *drawn, double scale, double tolerance)
{
    grid got, want;
    if (is_new) check(cairo_surface_write_to_png(drawn, path) == CAIRO_STATUS_SUCCESS, "%s cannot be written", path);
    cairo_surface_t *shown = cairo_image_surface_create_from_png(path);
    check(cairo_surface_status(shown) == CAIRO_STATUS_SUCCESS, "%s cannot be read; make pictures", path);
    check(cairo_image_surface_get_width(shown) == cairo_image_surface_get_width(drawn) &&
              cairo_image_surface_get_height(shown) == cairo_image_surface_get_height(drawn),
          "%s has another size than the window; make pictures", path);
    grid_of(shown, got);
    grid_of(drawn, want);
    check_same(path, scale, got, want, tolerance);
    cairo_surface_destroy(shown);
}

/* The file of the font that the window gets for "sans-serif". */
static void font_of(char *name, size_t cap)
{
    FcPattern *wanted = FcNameParse((const FcChar8 *)"sans-serif");
    FcResult result;
    FcChar8 *file = NULL;
    FcConfigSubstitute(NULL, wanted, FcMatchPattern);
    FcDefaultSubstitute(wanted);
    FcPattern *found = FcFontMatch(NULL, wanted, &result);
    check(found && FcPatternGetString(found, FC_FILE, 0, &file) == FcResultMatch, "no font");
    (void)snprintf(name, cap, "%s", strrchr((const char *)file, '/') + 1);
    FcPatternDestroy(found);
    FcPatternDestroy(wanted);
}

static void wait_for_preview(struct window *w)
{
    const double end = now_s() + 10;
    double drawn = INFINITY;
    while (now_s() < fmin(end, drawn)) {
        window_idle(w);
        if (w->preview && w->preview->facts[0] && isinf(drawn)) drawn = now_s() + 0.2; /* the meters are at rest */
        pause_us(4000);
    }
    check(!isinf(drawn), "no preview of %s", w->state.mask[0]);
}

static void pictures_are_those_that_are_stored(const char *backend)
{
    static const struct plugin_window_face calls = {
        .get = get, .begin = nothing, .set = set, .end = nothing, .load = load, .state = state};
    static const double scales[] = {1, 1.5, 2};
    static struct plugin_window content;
    char path[600], why[300] = "", font[200], font_then[200], folder[400];
    grid got, want;
    const char *build = getenv("BUILD");
    const bool is_new = getenv("HC_TEST_PICTURES") != NULL;
    FILE *file = fopen(stored, is_new ? "w" : "r");
    check(file, "%s cannot be opened", stored);
    check(getcwd(folder, sizeof folder), "no folder");
    font_of(font, sizeof font);
    if (is_new)
        fprintf(file, "%s\n", font);
    else
        check(fscanf(file, "%199s", font_then) == 1, "%s is empty", stored);
    const double tolerance = is_new || strcmp(font, font_then) == 0 ? TOLERANCE : OTHER_FONT;
    check(chdir(build ? build : "build") == 0, "no build folder"); /* the window shows paths */
    mkdir("screenshots", 0777);
    setenv("HOME", masks, 1);
    for (int i = 0; i < N_SHOTS; i++) {
        const char *name = shots[i].variant;
        plugin_window_init(&content, variant_of(&shots[i]), masks, &calls, (void *)(uintptr_t)&shots[i]);
        if (!is_new) read_grid(file, name, want);
        for (int s = 0; s < 3; s++) {
            struct window *w =
                window_open(&content.model, &(struct window_config){.scale = scales[s]}, why, sizeof why);
            check(w, "%s", why);
            wait_for_preview(w);
            cairo_surface_t *surface = cairo_image_surface_create(CAIRO_FORMAT_RGB24, w->width, w->height);
            cairo_t *cr = cairo_create(surface);
            draw_window(cr, w, (struct rect){0, 0, w->width, w->height});
            cairo_destroy(cr);
            cairo_surface_flush(surface);
            grid_of(surface, got);
            (void)snprintf(path, sizeof path, "screenshots/%s-%.0f.png", name, 100 * scales[s]);
            check(cairo_surface_write_to_png(surface, path) == CAIRO_STATUS_SUCCESS, "%s cannot be written", path);
            if (shots[i].page && s == 1) {
                (void)snprintf(path, sizeof path, "%s/docs/pictures/%s", folder, shots[i].page);
                check_page_picture(path, is_new, surface, scales[s], tolerance);
            }
            cairo_surface_destroy(surface);
            window_close(w);
            if (is_new && s == 0) write_grid(file, name, got), memcpy(want, got, sizeof want);
            check_same(name, scales[s], got, want, tolerance);
        }
    }
    fclose(file);
}

static void skipped(const char *backend)
{
    check_skip("no Xvfb; install the package xvfb");
}

int main(void)
{
    static const struct test no_server[] = {TEST(skipped, 0)}, tests[] = {TEST(pictures_are_those_that_are_stored, 0)};
    char display[16];
    const pid_t server = server_start(24, display);
    if (!server) return check_main("screenshots", no_server, 1);
    setenv("DISPLAY", display, 1);
    const int result = check_main("screenshots", tests, 1);
    server_end(server);
    cairo_debug_reset_static_data(); /* fonts that Cairo and fontconfig keep are not leaks */
    FcFini();
    return result;
}
