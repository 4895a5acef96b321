/* window - the window of a plugin on X11: it finds, shows and loads responses, and sets controls.
 *
 *   +--------------------------------------------------------+
 *   | title       | A | B |            choices and switches   |
 *   | responses   | waveform and decay            | circle   |
 *   |             | knobs                                    |
 *   | status or error            | meters, load, late blocks |
 *   +--------------------------------------------------------+
 *
 * It knows no plugin standard and no core: a struct window_model has the tables and the callbacks of the plugin. The
 * model must stay valid until window_close.
 *
 * Input
 *   mouse   a knob is dragged (with Shift: a tenth), turned by the wheel, set to its initial value by a double click,
 *           and typed after a click on its value; a double click on a response loads it; a file can be dropped
 *   keys    Tab: next part; arrows, Page Up, Page Down, Home, End; Delete: initial value; Enter: types a value, loads a
 *           response, presses a button; Backspace: the folder above; Escape: ends typing; Ctrl+V: loads a copied file
 *
 * Threads
 *   One thread of the host makes all calls, and the model's callbacks run inside them. The window has a thread of its
 *   own that lists folders and reads responses for previews; it calls nothing of the model. No call of this header
 *   belongs on an audio thread.
 *
 * Errors of X11
 *   The window has a separate connection to the X server. An X error of this connection, such as a parent that the host
 *   has destroyed, ends the window and not the process: window_idle then returns WINDOW_GONE.
 *
 *     window_default_size(&model, 0, &width, &height);  the host makes its frame
 *     window_open(&model, &(struct window_config){.parent = frame}, &window, why, sizeof why);
 *     timer of the host, every WINDOW_PERIOD_MS: if (window_idle(window) != WINDOW_OPEN) window_close(window);
 */
#ifndef WINDOW_H
#define WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    WINDOW_MAX_CONTROLS = 24,
    WINDOW_PATH = 4096,
    WINDOW_MAX_SIZE = INT16_MAX,   /* pixels, of X11                                                              */
    WINDOW_PERIOD_MS = 33          /* of the host's timer                                                         */
};

enum window_control_kind { WINDOW_KNOB, WINDOW_SWITCH, WINDOW_CHOICE };

struct window_control {
    const char *name, *unit;       /* UTF-8; unit NULL: none                                                      */
    enum window_control_kind kind;
    double min, initial, max;      /* a switch has 0 and 1; a choice 0 to n - 1                                   */
    double step;                   /* of the wheel and the arrow keys; 0: a hundredth of the range                */
    bool is_logarithmic;           /* min > 0                                                                     */
    const char *const *choices;    /* [max + 1] names of a choice                                                 */
};

struct window_preset {
    const char *name, *path;       /* path: the response, for the preview; NULL: no preview                       */
};

struct window_state {              /* of the plugin at this moment                                                */
    char mask[2][WINDOW_PATH];     /* paths of the masks A and B; "": none. Without `select` only the first is shown */
    int side;                      /* 0: A plays; 1: B plays                                                      */
    float gain_db[2];              /* gains of A and B that make them equally loud                                */
    char status[512], error[512];  /* error: what failed, and its remedy; "": nothing. It hides the status        */
    char backend[96];              /* "CPU, 48 kHz, 64 frames"                                                    */
    float in_peak, out_peak;       /* largest magnitudes since the last call of `state`; 1 = full scale           */
    float load;                    /* time for a block, in percent of its duration                                */
    uint64_t late, lost, overruns; /* counts                                                                      */
};

struct window_model {
    void *data;                    /* first argument of the callbacks                                             */
    const char *title;
    int n_controls;                /* at most WINDOW_MAX_CONTROLS                                                 */
    const struct window_control *controls;
    int azimuth, distance;         /* controls of the source on the circle: degrees counter-clockwise from straight
                                      ahead, metres; 0 and 0: no circle                                           */
    bool has_banks;                /* the plugin loads banks of responses, which may be folders                   */
    int n_folders, n_presets;
    const char *const *folders;    /* where the user looks for responses                                          */
    const char *const *folder_names; /* [n_folders]: in the list; NULL: the last parts of their paths             */
    const struct window_preset *presets;

    double (*get)(void *data, int control);
    void (*begin)(void *data, int control); /* a gesture: begin, any number of set, end                           */
    void (*set)(void *data, int control, double value);
    void (*end)(void *data, int control);
    void (*to_text)(void *data, int control, double value, char *text, size_t cap);       /* NULL: number and unit */
    bool (*from_text)(void *data, int control, const char *text, double *value);          /* NULL: a number        */
    void (*load)(void *data, const char *path);      /* of the side that plays; `state` has the result later      */
    void (*preset)(void *data, int preset);
    void (*select)(void *data, int side);            /* plays A or B; NULL: the plugin has one mask               */
    void (*state)(void *data, struct window_state *state); /* fills in *state, which is 0; at most 30 times a second */
};

struct window_config {
    uintptr_t parent;              /* X11 window of the host; 0: a window of the desktop                          */
    double scale;                  /* 1 = 100 %; 0: as the desktop says                                           */
    int width, height;             /* pixels; 0: window_default_size                                              */
};

struct window;
enum window_result { WINDOW_OPEN, WINDOW_CLOSED, WINDOW_GONE }; /* CLOSED: by the user; GONE: by host or X server */

/* Pixels at a scale; 0: as the desktop says, or 1 without one. smallest: the smallest size in which all parts are visible.
 * A scale is limited to 0.5 to 8, here and below. */
void window_default_size(const struct window_model *model, double scale, int *width, int *height);
void window_smallest_size(const struct window_model *model, double scale, int *width, int *height);

/* Opens the window and shows it. NULL: why[cap] has the reason and the remedy. */
struct window *window_open(const struct window_model *model, const struct window_config *config, char *why, size_t cap);
void window_close(struct window *window); /* NULL is allowed */

/* Handles events, and draws what has changed, at most 30 times a second. */
enum window_result window_idle(struct window *window);

void window_resize(struct window *window, int width, int height);
void window_set_scale(struct window *window, double scale);  /* keeps the size */
void window_show(struct window *window, bool is_visible);
void window_set_title(struct window *window, const char *title);   /* at first the model's; UTF-8 */
void window_set_transient(struct window *window, uintptr_t owner);  /* X11 window that it stays above */
void window_size(const struct window *window, int *width, int *height); /* as the user or window_resize left it */
uintptr_t window_id(const struct window *window);            /* X11 window   */
int window_descriptor(const struct window *window);          /* of the connection: readable if events wait */

#endif
