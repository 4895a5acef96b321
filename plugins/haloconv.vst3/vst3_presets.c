/* vst3_presets - the presets as a parameter, a list: users choose a mask without our window. Its first choice is a mask
 * that is not a preset. Hosts do not automate it. Main thread.
 */
#include "vst3_face.h"

#include <math.h>
#include <string.h>
#include <strings.h>

static const char own[] = "Own mask";

/* Returns choice n of the list, NULL: `own`, or there are fewer. */
static const struct plugin_preset *preset_at(const struct vst3 *face, int n)
{
    for (const struct plugin_preset *p = plugin_presets; p < plugin_presets + N_PRESETS; p++)
        if (preset_fits(p, core_variant(face->core)) && --n == 0) return p;
    return NULL;
}

int vst3_n_presets(const struct vst3 *face)
{
    int n = 0;
    while (preset_at(face, n + 1)) n++;
    return n;
}

int vst3_preset_default(const struct vst3 *face)
{
    const struct plugin_preset *p;
    for (int n = 1; (p = preset_at(face, n)); n++)
        if (strcmp(p->file, core_variant(face->core)->mask) == 0) return n;
    return 0;
}

int vst3_preset_choice(const struct vst3 *face, double normalised)
{
    int n = vst3_n_presets(face);
    return normalised >= 0 ? (int)fmin(floor(fmin(normalised, 1) * (n + 1)), n) : 0; /* NaN too */
}

/* Without an active core the session has the mask at once. */
void vst3_note_request(struct vst3 *face, uint64_t number)
{
    face->chosen = atomic_load(&face->is_active) ? number : 0;
}

bool vst3_is_loading(const struct vst3 *face)
{
    char why[ANSWER_CAP];
    return core_answer(face->core, face->chosen, why) == ANSWER_PENDING;
}

/* The mask of the side that the host shows: the core switches with the next block. */
static void get_mask(const struct vst3 *face, char path[CORE_PATH_BYTES])
{
    const int side = control_side((float)atomic_load(&face->shown[A_B]));
    core_get_side_mask(face->core, side, path);
    if (!path[0]) core_get_side_mask(face->core, !side, path);
}

/* The preset that was chosen, while its mask is loaded or plays; else the preset of the session's mask, and of several
 * the one with these gains. */
int vst3_preset_now(const struct vst3 *face)
{
    char now[CORE_PATH_BYTES], path[CORE_PATH_BYTES];
    const struct plugin_preset *p = preset_at(face, face->preset);
    int found = 0;
    get_mask(face, now);
    if (p) {
        core_shipped_path(face->core, p->file, path);
        if (strcmp(now, path) == 0 || vst3_is_loading(face)) return face->preset;
    }
    for (int n = 1; (p = preset_at(face, n)); n++) {
        core_shipped_path(face->core, p->file, path);
        if (strcmp(now, path) != 0) continue;
        int i = 0;
        while (i < N_PRESET_CONTROLS && core_get(face->core, preset_controls[i]) == p->values[i]) i++;
        if (i == N_PRESET_CONTROLS) return n;
        if (found == 0) found = n;
    }
    return found;
}

/* A host that sets every parameter anew after a state must not change it: the preset that plays is not loaded. */
void vst3_preset_load(struct vst3 *face, int choice)
{
    const struct plugin_preset *preset = preset_at(face, choice);
    if (!preset || choice == vst3_preset_now(face)) return;
    face->preset = choice;
    vst3_note_request(face, core_load_preset(face->core, preset));
    vst3_show(face);
    vst3_notify_of_values(face);
}

const char *vst3_preset_text(const struct vst3 *face, int choice)
{
    const struct plugin_preset *preset = preset_at(face, choice);
    return preset ? preset->label : own;
}

int vst3_preset_read(const struct vst3 *face, const char *text)
{
    int n = vst3_n_presets(face);
    while (n >= 0 && strcasecmp(vst3_preset_text(face, n), text) != 0) n--;
    return n;
}
