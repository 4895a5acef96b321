/* gui_frame - a host's frame with the window of a plugin, on an X server: where the window's parts are, and a mouse. */
#ifndef GUI_FRAME_H
#define GUI_FRAME_H

#include "plugins/core/plugin_window.h"
#include "plugins/window/parts.h"
#include "x_server.h"

#include <X11/extensions/XTest.h>

struct gui_frame {
    Display *display;
    Window window;                /* of the host                                                                 */
    struct plugin_window content; /* with `layout`: where the window's parts are                                 */
    struct window layout;
};

void gui_frame_open(struct gui_frame *frame, int width, int height);
void gui_frame_close(struct gui_frame *frame);
void gui_frame_lay_out(struct gui_frame *frame, const struct variant *variant, int width, int height); /* at scale 1 */

/* The windows in the host's window; of a single one *is gets what it is. */
unsigned gui_children(const struct gui_frame *frame, XWindowAttributes *is);
void gui_ignore_errors(void); /* of a host whose frame is gone, for server_check_main                             */

struct rect gui_part(const struct gui_frame *frame, int control);
struct rect gui_row(const struct gui_frame *frame, int n); /* of the list of responses                           */
void gui_point(struct gui_frame *frame, struct rect r, int dx, int dy); /* from the middle                       */
void gui_press(struct gui_frame *frame, unsigned button, bool is_down);
void gui_click(struct gui_frame *frame, struct rect r, unsigned button, int n);

/* Calls `step` every 4 ms until the condition holds, at most for 10 s. */
#define gui_until(frame, step, condition, ...)                                                                         \
    do {                                                                                                               \
        const double until_end = now_s() + 10;                                                                         \
        XSync((frame)->display, False);                                                                                \
        while (!(condition) && now_s() < until_end) {                                                                  \
            step;                                                                                                      \
            pause_us(4000);                                                                                            \
        }                                                                                                              \
        check(condition, __VA_ARGS__);                                                                                 \
    } while (0)

#endif
