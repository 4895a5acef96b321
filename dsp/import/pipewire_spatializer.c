/* pipewire_spatializer - the node "spatializer" of PipeWire (type sofa): the responses of a bank in one direction. */
#include "pipewire.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct ear_response {
    double *taps; /* at the rate at which the bank was loaded */
    int n_taps;
};

static int ear_make(const void *data, int rate, double **taps, double *rest_db)
{
    const struct ear_response *ear = data;
    (void)rate;
    *rest_db = -INFINITY;
    *taps = malloc((size_t)ear->n_taps * sizeof **taps);
    if (!*taps) return 0;
    memcpy(*taps, ear->taps, (size_t)ear->n_taps * sizeof **taps);
    return ear->n_taps;
}

/* Returns the gain that libmysofa gives a bank when it opens the file: the responses of the entry whose sum of azimuth
 * (0 to 360 degrees) and elevation is the smallest, of the farthest of such entries, get an energy of 2 together. */
static double loudness_gain(const hc_bank_data *bank)
{
    double min_sum = INFINITY, farthest = 0, energy = 0;
    int front = 0;
    for (int e = 0; e < bank->n_file_entries && bank->position; e++) {
        const float *p = bank->position[e];
        double azimuth = atan2((double)p[1], (double)p[0]) * 180 / M_PI, flat = hypot((double)p[0], (double)p[1]);
        double sum = rint(1e3 * (azimuth + (azimuth < 0) * 360 + atan2((double)p[2], flat) * 180 / M_PI));
        double distance = hypot(flat, (double)p[2]);
        if (sum > min_sum || (sum == min_sum && distance <= farthest)) continue;
        min_sum = sum;
        farthest = distance;
        front = e;
    }
    for (int i = 0; i < bank->n_out * bank->n_taps; i++) {
        double tap = (double)bank->taps[front * bank->n_out + i / bank->n_taps][i % bank->n_taps];
        energy += tap * tap;
    }
    return energy > 0 ? sqrt(2 / energy) : 1;
}

/* Loads the file of the node, unless the last spatializer of the graph had the same one. */
static const hc_bank_data *bank_get(struct import *import, const struct node *node, const char *file)
{
    struct configuration *c = import->c;
    struct spatializer_bank *bank = node->bank;
    char why[DIAGNOSTIC_CAP / 2];
    struct sound *sound = configuration_file(c, file);
    const char *path = sound ? sound_path(c, sound) : NULL;
    int rate = c->session_rate && !c->keep_rate ? c->session_rate : c->rate;
    if (!path) return NULL;
    if (bank->path && strcmp(bank->path, path) == 0) return bank->data.n_entries ? &bank->data : NULL;
    hc_bank_data_free(&bank->data);
    *bank = (struct spatializer_bank){.path = path, .data.size = sizeof bank->data};
    hc_bank_options options = {.size = sizeof options, .mix = 1};
    int error = hc_bank_load(path, rate, &options, &bank->data, why, sizeof why);
    if (!error && bank->data.n_out != 2)
        NODE_REFUSE(import, node, "%s: has %d outputs; give a bank for two ears", path, bank->data.n_out);
    if (error) diagnostic(&c->diagnostics, error, node->json->line, node->statement, "%s", why);
    if (error || bank->data.n_out != 2) {
        hc_bank_data_free(&bank->data); /* the next node of this file finds no entries */
        return NULL;
    }
    bank->gain = loudness_gain(&bank->data);
    return &bank->data;
}

static const struct filter *ear_filter(struct import *import, const struct node *node, const hc_bank_data *bank,
                                       int out)
{
    struct arena *arena = import->c->arena;
    struct ear_response *ear = arena_alloc(arena, 1, sizeof *ear);
    int entries[HC_MAX_MIX];
    float weights[HC_MAX_MIX];
    if (!ear || !(ear->taps = arena_alloc(arena, (size_t)bank->n_taps, sizeof *ear->taps))) return NULL;
    ear->n_taps = bank->n_taps;
    for (int i = hc_bank_mix(bank, node->position, entries, weights) - 1; i >= 0; i--)
        for (int k = 0; k < bank->n_taps; k++)
            ear->taps[k] += node->gain * (double)weights[i] * (double)bank->taps[entries[i] * bank->n_out + out][k];
    return filter_computed(&import->network, ear_make, ear, node->json->line, node->statement);
}

static void play_spatializer(struct import *import, struct node *node)
{
    bool has_file = relaxed_get(node->config, "filename") != NULL;
    const char *file = has_file ? relaxed_text(import, node->statement, node->config, "filename", NULL) : "";
    if (!file) return; /* an error was reported */
    if (!*file) {
        NODE_REFUSE(import, node, "has no file; give config = { filename = ... }");
        return;
    }
    double gain = relaxed_number(import, node->statement, node->config, "gain", 1);
    double azimuth = node_control(import, node, 0, 0) * M_PI / 180;
    double elevation = node_control(import, node, 1, 0) * M_PI / 180, radius = node_control(import, node, 2, 1);
    const hc_bank_data *bank = node->filter[0] || import->names_only ? NULL : bank_get(import, node, file);
    if (bank) {
        node->path = node->bank->path;
        node->gain = gain * node->bank->gain;
        node->position[0] = (float)(radius * cos(elevation) * cos(azimuth));
        node->position[1] = (float)(radius * cos(elevation) * sin(azimuth));
        node->position[2] = (float)(radius * sin(elevation));
    }
    for (int out = 0; out < 2; out++) {
        if (bank) node->filter[out] = ear_filter(import, node, bank, out);
        node->play_out[out] =
            node->filter[out] ? signal_filter(&import->network, node->play_in[0], node->filter[out]) : NULL;
    }
}

const struct node_type node_spatializer = {"spatializer",
                                           1,
                                           2,
                                           play_spatializer,
                                           {"Azimuth", "Elevation", "Radius"},
                                           "filename gain normalize blocksize tailsize latency"};
