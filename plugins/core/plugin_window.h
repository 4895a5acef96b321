/* plugin_window - what a plugin shows in its window (plugins/window/window.h): its controls, presets and folders. A face
 * gives the values. A build without X11 does not contain it.
 */
#ifndef PLUGIN_WINDOW_H
#define PLUGIN_WINDOW_H

#include "core.h"
#include "plugins/window/window.h"

/* Calls of a face; `control` is an enum control. The window makes them, on the thread of its calls. */
struct plugin_window_face {
    double (*get)(void *face, int control);
    void (*begin)(void *face, int control);   /* a gesture: begin, any number of set, end                         */
    void (*set)(void *face, int control, double value);
    void (*end)(void *face, int control);
    void (*load)(void *face, const char *path);
    void (*state)(void *face, struct window_state *state);
};

struct plugin_window {
    struct window_model model;                /* for window_open                                                  */
    const struct plugin_window_face *calls;
    void *face;
    int control[N_CONTROLS];                  /* of each control of the model, the enum control                   */
    struct window_control controls[N_CONTROLS];
    const struct plugin_preset *shipped[N_PRESETS]; /* of each preset of the model                                */
    struct window_preset presets[N_PRESETS];
    char paths[N_PRESETS][CORE_PATH_BYTES];
    char folder[CORE_PATH_BYTES], home[CORE_PATH_BYTES];
    const char *folders[2];
};

/* folder: the path of the masks that ship, which ends in /. *window stays where it is until the window is closed. */
void plugin_window_init(struct plugin_window *window, const struct variant *variant, const char *folder,
                        const struct plugin_window_face *calls, void *face);

/* Fills in *state, except the masks. values: of the controls, also the outputs; status: of core_get_status. */
void plugin_window_fill(struct window_state *state, const float values[N_CONTROLS], const struct core_meters *meters,
                        const char *status, bool is_loading);

/* core_window.c: fills in *state from a core of this process. */
void plugin_window_read(struct core *core, struct window_state *state);

#endif
