#include "plugin_window.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the callbacks of the model ----------------------------------------------------------------- */

static double plugin_window_get(void *data, int i)
{
    const struct plugin_window *w = data;
    return w->calls->get(w->face, w->control[i]);
}

static void plugin_window_begin(void *data, int i)
{
    const struct plugin_window *w = data;
    w->calls->begin(w->face, w->control[i]);
}

static void plugin_window_set(void *data, int i, double value)
{
    const struct plugin_window *w = data;
    w->calls->set(w->face, w->control[i], value);
}

static void plugin_window_end(void *data, int i)
{
    const struct plugin_window *w = data;
    w->calls->end(w->face, w->control[i]);
}

static void to_text(void *data, int i, double value, char *text, size_t cap)
{
    control_text(((const struct plugin_window *)data)->control[i], value, text, cap);
}

static bool from_text(void *data, int i, const char *text, double *value)
{
    return control_read(((const struct plugin_window *)data)->control[i], text, value);
}

static void plugin_window_load(void *data, const char *path)
{
    const struct plugin_window *w = data;
    w->calls->load(w->face, path);
}

static void plugin_window_set_once(const struct plugin_window *w, int control, float value)
{
    w->calls->begin(w->face, control);
    w->calls->set(w->face, control, (double)value);
    w->calls->end(w->face, control);
}

static void load_preset(void *data, int preset)
{
    const struct plugin_window *w = data;
    const struct plugin_preset *s = w->shipped[preset];
    for (int i = 0; i < N_PRESET_CONTROLS; i++) plugin_window_set_once(w, preset_controls[i], s->values[i]);
    w->calls->load(w->face, w->paths[preset]);
}

static void select_side(void *data, int side)
{
    plugin_window_set_once(data, A_B, (float)side);
}

static void plugin_window_state(void *data, struct window_state *to)
{
    const struct plugin_window *w = data;
    w->calls->state(w->face, to);
}

/* ---- the tables --------------------------------------------------------------------------------- */

static void add_control(struct plugin_window *w, int control)
{
    static const double steps[N_UNITS] = {[UNIT_DEGREE] = 1, [UNIT_DB] = 0.5, [UNIT_MS] = 1};
    const struct control_spec *c = &controls[control];
    int i = w->model.n_controls++;
    if (control == AZIMUTH) w->model.azimuth = i;
    if (control == DISTANCE) w->model.distance = i;
    w->control[i] = control;
    w->controls[i] = (struct window_control){.name = c->name,
                                             .kind = c->kind == CONTROL_TOGGLE   ? WINDOW_SWITCH
                                                     : c->kind == CONTROL_CHOICE ? WINDOW_CHOICE
                                                                                 : WINDOW_KNOB,
                                             .min = (double)c->min,
                                             .initial = (double)c->initial,
                                             .max = (double)c->max,
                                             .step = steps[c->unit],
                                             .is_logarithmic = c->kind == CONTROL_LOGARITHMIC,
                                             .choices = c->labels};
}

static void add_preset(struct plugin_window *w, const struct plugin_preset *preset)
{
    int i = w->model.n_presets++;
    snprintf(w->paths[i], sizeof w->paths[i], "%s%s", w->folder, preset->file);
    w->shipped[i] = preset;
    w->presets[i] = (struct window_preset){preset->label, w->paths[i]};
}

static const char *const folder_names[] = {"Masks that ship", "Home"};

void plugin_window_init(struct plugin_window *w, const struct variant *variant, const char *folder,
                        const struct plugin_window_face *calls, void *face)
{
    memset(w, 0, sizeof *w);
    w->calls = calls;
    w->face = face;
    w->model = (struct window_model){.data = w,
                                     .title = variant->name,
                                     .controls = w->controls,
                                     .has_banks = variant->n_sources > 0,
                                     .folders = w->folders,
                                     .folder_names = folder_names,
                                     .presets = w->presets,
                                     .get = plugin_window_get,
                                     .begin = plugin_window_begin,
                                     .set = plugin_window_set,
                                     .end = plugin_window_end,
                                     .to_text = to_text,
                                     .from_text = from_text,
                                     .load = plugin_window_load,
                                     .preset = load_preset,
                                     .select = select_side,
                                     .state = plugin_window_state};
    snprintf(w->folder, sizeof w->folder, "%s", folder);
    w->folders[w->model.n_folders++] = w->folder;
    const char *home = getenv("HOME"); /* the host may change it */
    if (home) {
        snprintf(w->home, sizeof w->home, "%s", home);
        w->folders[w->model.n_folders++] = w->home;
    }
    for (int c = 0; c < N_CONTROLS; c++)
        if (variant_has_setting(variant, c) && c != A_B) add_control(w, c); /* A_B: two buttons */
    for (int p = 0; p < N_PRESETS; p++)
        if (preset_fits(&plugin_presets[p], variant)) add_preset(w, &plugin_presets[p]);
}

void plugin_window_fill(struct window_state *to, const float values[N_CONTROLS], const struct core_meters *meters,
                        const char *status, bool is_loading)
{
    bool is_error = !is_loading && status[0] && strcmp(status, "ok") != 0;
    if (is_loading) snprintf(to->status, sizeof to->status, "Loading ...");
    if (is_error) snprintf(to->error, sizeof to->error, "%s", status);
    snprintf(to->backend, sizeof to->backend, "%s", meters->engine);
    to->side = control_side(values[A_B]);
    for (int side = 0; side < N_SIDES; side++) to->gain_db[side] = meters->gain_db[side];
    to->in_peak = meters->in_peak, to->out_peak = meters->out_peak;
    to->load = values[LOAD];
    to->late = (uint64_t)values[LATE];
    to->lost = (uint64_t)values[LOST];
    to->overruns = (uint64_t)values[OVERRUNS];
}
