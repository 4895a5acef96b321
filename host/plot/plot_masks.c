#include "plot_masks.h"

#include "dsp/haloconv_masks.h"
#include "host/files/files_read.h"
#include "host/message.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gathering {
    const struct plot_pairs *pairs;
    struct plot_curve curves[PLOT_MOST_CURVES];
    char names[PLOT_MOST_CURVES][PATH_MAX + 64];
    float *owned[PLOT_MOST_CURVES]; /* NULL: the response is the mask's */
    int n, n_left_out;
    char *const *paths;
    int n_paths;
    char *why;
    size_t cap;
};

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

/* The name of a file alone, if no other mask has it too. */
static const char *short_name(const struct gathering *g, const char *path)
{
    int same = 0;
    for (int i = 0; i < g->n_paths; i++) same += strcmp(base_of(g->paths[i]), base_of(path)) == 0;
    return same > 1 ? path : base_of(path);
}

/* The next curve, whose name is g->names[g->n]. NULL: there is no place. */
static struct plot_curve *next_curve(struct gathering *g, const hc_responses *mask, const float *h, int n_frames)
{
    if (g->n == PLOT_MOST_CURVES) {
        g->n_left_out++;
        return NULL;
    }
    g->curves[g->n] = (struct plot_curve){.name = g->names[g->n], mask->rate, n_frames, h, .ink = g->n};
    return &g->curves[g->n++];
}

static bool add_channels(struct gathering *g, const char *path, const hc_responses *mask)
{
    for (int ch = 0; ch < mask->n_channels; ch++) {
        const struct plot_curve *curve = next_curve(g, mask, mask->channel[ch], mask->n_frames);
        if (!curve) continue;
        char *name = g->names[curve - g->curves];
        int length = snprintf(name, sizeof *g->names, "%s", short_name(g, path));
        if (mask->n_channels > 1) snprintf(name + length, sizeof *g->names - (size_t)length, ", channel %d", ch + 1);
    }
    return true;
}

/* A configuration has one route for each pair. */
static bool add_route(struct gathering *g, const char *path, const hc_responses *mask, const hc_route *route)
{
    int n_frames = route->delay + route->n_taps;
    const struct plot_curve *curve = next_curve(g, mask, NULL, n_frames);
    if (!curve) return true;
    int at = (int)(curve - g->curves);
    float *h = calloc((size_t)n_frames, sizeof *h);
    if (!h) return message_write(g->why, g->cap, "%s: no memory; free some", path);
    for (int i = 0; i < route->n_taps; i++) h[route->delay + i] = route->gain * route->taps[i];
    g->curves[at].h = g->owned[at] = h;
    snprintf(g->names[at], sizeof g->names[at], "%.*s, %.128s to %.128s", PATH_MAX - 256, short_name(g, path),
             mask->in_port[route->in].name, mask->out_port[route->out].name);
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
    for (int i = 0; good && i < g->pairs->n; i++) good = add_pair(g, path, mask, g->pairs->pair[i]);
    for (int r = 0; good && g->pairs->n == 0 && r < mask->n_routes; r++)
        good = add_route(g, path, mask, &mask->routes[r]);
    return good;
}

static bool add_mask(struct gathering *g, const char *path, int rate, hc_responses *mask)
{
    if (hc_responses_load(path, 0, rate, 0, mask, g->why, g->cap) != HC_OK) return false;
    if (mask->rate == 0) mask->rate = rate;
    if (mask->rate == 0) return message_write(g->why, g->cap, "%s: its rate is not known; give it by --rate", path);
    bool is_configuration = mask->in_port != NULL;
    if (g->pairs->n > 0 && !is_configuration)
        return message_write(g->why, g->cap, "%s: is not a configuration; leave --pair out", path);
    return is_configuration ? add_pairs(g, path, mask) : add_channels(g, path, mask);
}

bool plot_spares(const char *picture, char *const *paths, int n, char *why, size_t cap)
{
    struct files_read read = {0};
    bool good = true;
    for (int i = 0; good && i < n; i++) good = files_read_add_mask(&read, paths[i]);
    if (!good) message_write(why, cap, "%s: no memory; free some", picture);
    good = good && files_read_spare(&read, picture, why, cap);
    files_read_free(&read);
    return good;
}

bool plot_masks(char *const *paths, int n, int rate, const struct plot_choice *choice, char *why, size_t cap)
{
    struct gathering *g = calloc(1, sizeof *g);
    hc_responses *masks = calloc((size_t)n, sizeof *masks);
    bool good = g && masks;
    if (good) {
        *g = (struct gathering){.pairs = &choice->pairs, .paths = paths, .n_paths = n, .why = why, .cap = cap};
        good = plot_spares(choice->path, paths, n, why, cap);
        for (int i = 0; good && i < n; i++) good = add_mask(g, paths[i], rate, &masks[i]);
    } else {
        message_write(why, cap, "%s: no memory; free some", choice->path);
    }
    good = good && plot_write(choice->path, g->curves, g->n, &choice->settings, why, cap);
    if (good && g->n_left_out > 0)
        message_note("%s: has the first %d responses; %d are left out", choice->path, g->n, g->n_left_out);
    for (int i = 0; masks && i < n; i++) hc_responses_free(&masks[i]);
    for (int i = 0; g && i < g->n; i++) free(g->owned[i]);
    free(masks);
    free(g);
    return good;
}
