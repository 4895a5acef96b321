#include "plot_masks.h"

#include "dsp/base/number.h"
#include "dsp/haloconv_masks.h"
#include "host/files/files_read.h"
#include "host/message.h"
#include "panel.h"
#include "svg.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- options ---------------------------------------------------------------------------------- */

bool plot_option_path(const struct option_use *use, void *to)
{
    char why[MESSAGE_CAP];
    if (!picture_check(use->text, why, sizeof why))
        return option_refuse(use, "%s", why + strlen(use->text) + strlen(": ")); /* option_refuse adds the value */
    return option_text(use, to);
}

bool plot_option_panels(const struct option_use *use, void *to)
{
    unsigned panels = 0;
    const char *name = use->text;
    for (;;) {
        size_t n = strcspn(name, ",");
        int kind = 0;
        while (kind < PLOT_PANELS &&
               (strlen(plot_panel_names[kind]) != n || memcmp(plot_panel_names[kind], name, n) != 0))
            kind++;
        if (n == 3 && memcmp(name, "all", n) == 0)
            panels = (1u << PLOT_WATERFALL) - 1; /* a waterfall shows the data of a spectrogram */
        else if (kind < PLOT_PANELS)
            panels |= 1u << kind;
        else
            return option_refuse(use, "needs \"all\", or names with commas between: impulse, impulse-db, step, "
                                      "magnitude, phase, group-delay, decay, spectrogram, waterfall");
        if (name[n] == 0) break;
        name += n + 1;
    }
    *(unsigned *)to = panels;
    return true;
}

bool plot_option_smooth(const struct option_use *use, void *to)
{
    enum { NARROWEST = 48 };
    char *end;
    double *octaves = to;
    if (strcmp(use->text, "off") == 0) {
        *octaves = 0;
        return true;
    }
    long n = strncmp(use->text, "1/", 2) == 0 ? strtol(use->text + 2, &end, 10) : 0;
    if (n < 1 || n > NARROWEST || *end) return option_refuse(use, "needs 1/N with N from 1 to %d, or off", NARROWEST);
    *octaves = 1.0 / (double)n;
    return true;
}

bool plot_option_pairs(const struct option_use *use, void *to)
{
    struct plot_pairs *pairs = to;
    int used = 0;
    pairs->n = 0;
    for (const char *at = use->text;; at += used + 1) {
        struct plot_pair pair;
        if (sscanf(at, "%6d:%6d%n", &pair.in, &pair.out, &used) != 2 || pair.in < 1 || pair.out < 1 ||
            (at[used] && at[used] != ','))
            return option_refuse(use, "needs IN:OUT, channels from 1, with commas between pairs");
        if (pairs->n == PLOT_MAX_CURVES) return option_refuse(use, "needs %d pairs at most", PLOT_MAX_CURVES);
        pairs->pair[pairs->n++] = (struct plot_pair){pair.in - 1, pair.out - 1};
        if (!at[used]) return true;
    }
}

bool plot_option_range(const struct option_use *use, void *to)
{
    double db[2];
    if (number_list_read(use->text, db, 2) != 2 ||
        !(fabs(db[0]) <= 1000 && fabs(db[1]) <= 1000 && db[1] - db[0] >= 0.1))
        return option_refuse(use, "needs two levels from -1000 to 1000 dB with a comma between, the lower one first");
    memcpy(to, db, sizeof db);
    return true;
}

bool plot_option_frequencies(const struct option_use *use, void *to)
{
    double hz[2];
    if (number_list_read(use->text, hz, 2) != 2 || !(hz[0] >= 1 && 2 * hz[0] <= hz[1] && hz[1] <= 1e6))
        return option_refuse(use, "needs two frequencies from 1 to 1000000 Hz with a comma between, an octave apart or "
                                  "more");
    memcpy(to, hz, sizeof hz);
    return true;
}

/* ---- masks ------------------------------------------------------------------------------------ */

enum { MAX_BY_CHANNEL = 64 }; /* curves of a plot by channel: 64 curves make 20 pages */
enum { MAX_NAME = PATH_MAX + 64, MAX_GROUP = 288 };

struct gathering {
    const struct plot_choice *choice;
    struct plot_curve curves[MAX_BY_CHANNEL];
    char names[MAX_BY_CHANNEL][MAX_NAME], groups[MAX_BY_CHANNEL][MAX_GROUP];
    float *owned[MAX_BY_CHANNEL]; /* NULL: the response is the mask's */
    int n, n_left_out;
    char *const *paths;
    int n_paths, path; /* path: number of the file whose curves are added */
    char *why;
    size_t cap;
};

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

/* Returns the name of a file without its folder, if no other mask has the same name. */
static const char *short_name(const struct gathering *g, const char *path)
{
    int same = 0;
    for (int i = 0; i < g->n_paths; i++) same += strcmp(base_of(g->paths[i]), base_of(path)) == 0;
    return same > 1 ? path : base_of(path);
}

/* Adds a curve. what: "channel 2"; NULL: the mask has one channel. Returns NULL after too many curves. */
static struct plot_curve *add_curve(struct gathering *g, const hc_responses *mask, const float *h, int n_frames,
                                    const char *what)
{
    const char *path = short_name(g, g->paths[g->path]);
    bool by_channel = g->choice->by_channel;
    if (g->n == (by_channel ? MAX_BY_CHANNEL : PLOT_MAX_CURVES) || (by_channel && g->path >= PLOT_MAX_CURVES)) {
        g->n_left_out++;
        return NULL;
    }
    bool has_suffix = what && !by_channel;
    snprintf(g->names[g->n], MAX_NAME, "%.*s%s%s", PATH_MAX - 256, path, has_suffix ? ", " : "",
             has_suffix ? what : "");
    snprintf(g->groups[g->n], MAX_GROUP, "%s", what ? what : "channel 1");
    g->curves[g->n] = (struct plot_curve){.name = g->names[g->n],
                                          .rate = mask->rate,
                                          .n_frames = n_frames,
                                          .h = h,
                                          .group = by_channel ? g->groups[g->n] : NULL,
                                          .ink = by_channel ? g->path : g->n};
    return &g->curves[g->n++];
}

static bool add_channels(struct gathering *g, const hc_responses *mask)
{
    for (int ch = 0; ch < mask->n_channels; ch++) {
        char what[32];
        snprintf(what, sizeof what, "channel %d", ch + 1);
        add_curve(g, mask, mask->channel[ch], mask->n_frames, mask->n_channels > 1 ? what : NULL);
    }
    return true;
}

/* A configuration has one route for each pair. */
static bool add_route(struct gathering *g, const char *path, const hc_responses *mask, const hc_route *route)
{
    int n_frames = route->delay + route->n_taps;
    char what[MAX_GROUP];
    snprintf(what, sizeof what, "%.128s to %.128s", mask->in_port[route->in].name, mask->out_port[route->out].name);
    struct plot_curve *curve = add_curve(g, mask, NULL, n_frames, what);
    if (!curve) return true;
    float *h = calloc((size_t)n_frames, sizeof *h);
    if (!h) return message_write(g->why, g->cap, "%s: no memory; free some memory", path);
    for (int i = 0; i < route->n_taps; i++) h[route->delay + i] = route->gain * route->taps[i];
    curve->h = g->owned[curve - g->curves] = h;
    return true;
}

static bool add_pair(struct gathering *g, const char *path, const hc_responses *mask, struct plot_pair pair)
{
    for (int r = 0; r < mask->n_routes; r++)
        if (mask->routes[r].in == pair.in && mask->routes[r].out == pair.out)
            return add_route(g, path, mask, &mask->routes[r]);
    return message_write(g->why, g->cap, "%s: has no response from input %d to output %d; choose another --pair", path,
                         pair.in + 1, pair.out + 1);
}

static bool add_pairs(struct gathering *g, const char *path, const hc_responses *mask)
{
    bool good =
        mask->n_routes > 0 || message_write(g->why, g->cap, "%s: has no responses; there is nothing to plot", path);
    for (int i = 0; good && i < g->choice->pairs.n; i++) good = add_pair(g, path, mask, g->choice->pairs.pair[i]);
    for (int r = 0; good && g->choice->pairs.n == 0 && r < mask->n_routes; r++)
        good = add_route(g, path, mask, &mask->routes[r]);
    return good;
}

static bool plot_add_mask(struct gathering *g, const char *path, int rate, hc_responses *mask)
{
    if (hc_responses_load(path, 0, rate, 0, mask, g->why, g->cap) != HC_OK) return false;
    if (mask->rate == 0) mask->rate = rate;
    if (mask->rate == 0) return message_write(g->why, g->cap, "%s: its rate is not known; give it by --rate", path);
    bool is_configuration = mask->in_port != NULL;
    if (g->choice->pairs.n > 0 && !is_configuration)
        return message_write(g->why, g->cap, "%s: is not a configuration; leave --pair out", path);
    return is_configuration ? add_pairs(g, path, mask) : add_channels(g, mask);
}

int plot_check(const char *command, const struct plot_choice *choice, const char *output, char *const *inputs, int n)
{
    char why[MESSAGE_CAP];
    if (!choice->path) return -1;
    if (strcmp(output, "-") == 0)
        return message_usage(command, "--plot %s: needs the name of a file for -o, too", choice->path);
    if (strcmp(output, choice->path) == 0)
        return message_error("--plot %s: is also the output; give another name", choice->path);
    return files_read_spares(inputs, n, choice->path, why, sizeof why) ? -1 : message_error("%s", why);
}

int plot_written(int status, const char *path, int rate, const struct plot_choice *choice)
{
    char why[MESSAGE_CAP];
    if (status != 0 || !choice->path) return status;
    return plot_masks(&(char *){(char *)path}, 1, rate, choice, why, sizeof why) ? 0 : message_error("%s", why);
}

bool plot_masks(char *const *paths, int n, int rate, const struct plot_choice *choice, char *why, size_t cap)
{
    struct gathering *g = calloc(1, sizeof *g);
    hc_responses *masks = calloc((size_t)n, sizeof *masks);
    bool good = g && masks;
    if (good) {
        *g = (struct gathering){.choice = choice, .paths = paths, .n_paths = n, .why = why, .cap = cap};
        good = choice->settings.to || files_read_spares(paths, n, choice->path, why, cap);
        for (; good && g->path < n; g->path++) good = plot_add_mask(g, paths[g->path], rate, &masks[g->path]);
    } else {
        message_write(why, cap, "%s: no memory; free some memory", choice->path);
    }
    good = good && plot_write(choice->path, g->curves, g->n, &choice->settings, why, cap);
    if (good && g->n_left_out > 0)
        message_note("%s: shows the first %d responses; %d are left out", choice->path, g->n, g->n_left_out);
    for (int i = 0; masks && i < n; i++) hc_responses_free(&masks[i]);
    for (int i = 0; g && i < g->n; i++) free(g->owned[i]);
    free(masks);
    free(g);
    return good;
}

/* ---- directions of a bank --------------------------------------------------------------------- */

enum { CORNERS = 4, POINTS = CORNERS + 1 };    /* corners of a mark; a point with y = NAN ends it */
static const double mark_size[2] = {4.5, 2.2}; /* from middle to corner: a mark of the file, an interpolated one */

static void mark_put(struct point *points, double x, double y, double size)
{
    static const double corner[CORNERS][2] = {{0, -1}, {1, 0}, {0, 1}, {-1, 0}};
    for (int i = 0; i < CORNERS; i++) points[i] = (struct point){x + size * corner[i][0], y + size * corner[i][1]};
    points[CORNERS] = (struct point){x, NAN};
}

static struct ink mark_ink(int kind)
{
    return (struct ink){.rgb = panel_ink(kind).rgb};
}

/* Draws a line of the legend. */
static void draw_name(struct drawing *d, double *top, int kind, const char *name)
{
    const double line = 30;
    struct point mark[POINTS];
    mark_put(mark, PANEL_LEFT + 8, *top + line / 2, 1.4 * mark_size[kind]);
    drawing_path(d, mark_ink(kind), NULL, mark, CORNERS);
    drawing_text(d, PANEL_LEFT + 24, *top + line / 2 + 0.35 * TEXT_SIZE, TEXT_SIZE, TEXT_START,
                 PANEL_RIGHT - PANEL_LEFT - 24, name);
    *top += line;
}

static void draw_marks(struct drawing *d, const struct diagram *p, int kind, const double (*aed)[3], int n)
{
    struct point *points = malloc(((size_t)n * POINTS + 1) * sizeof *points);
    if (!points) {
        d->failed = true;
        return;
    }
    for (int i = 0; i < n; i++)
        mark_put(points + (size_t)i * POINTS, axis_position(&p->x, aed[i][0]), axis_position(&p->y, aed[i][1]),
                 mark_size[kind]);
    if (n > 0) drawing_path(d, mark_ink(kind), kind ? "interpolated" : "entries", points, (size_t)n * POINTS);
    free(points);
}

bool directions_plot_write(const char *path, const char *name, const double (*aed)[3], int n, int n_of_file, char *why,
                           size_t cap)
{
    struct drawing drawing = {0};
    struct diagram panel = {.title = "Elevation (degrees)",
                            .x_label = "Azimuth (degrees, counter-clockwise)",
                            .x = {.from = -180, .to = 180, .step = 60},
                            .y = {.from = -90, .to = 90, .step = 30}};
    double top = 14;
    char text[64];
    draw_name(&drawing, &top, 0, name);
    if (n > n_of_file) {
        snprintf(text, sizeof text, "%d interpolated", n - n_of_file);
        draw_name(&drawing, &top, 1, text);
    }
    panel_put(&panel, top);
    drawing_group(&drawing, "directions", NULL);
    panel_draw_grid(&drawing, &panel);
    panel_draw_frame(&drawing, &panel);
    draw_marks(&drawing, &panel, 1, aed + n_of_file, n - n_of_file);
    draw_marks(&drawing, &panel, 0, aed, n_of_file);
    drawing_group_end(&drawing);
    drawing.height = top + PANEL_ABOVE + PANEL_HEIGHT + PANEL_BELOW;
    bool good = drawing.failed ? message_write(why, cap, "%s: no memory; free some memory", path)
                               : picture_write(path, NULL, &drawing, why, cap);
    drawing_free(&drawing);
    return good;
}
