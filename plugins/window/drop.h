/* drop - receives files that are dragged onto an X11 window (the target's side of XDND, version 5, which pugl lacks),
 * and files that are pasted.
 *
 * The frames of many hosts are targets of XDND themselves, and then sources never look at windows inside them. A drop
 * reaches this window if the host's frame is not a target, or if the source searches the windows inside it. A file can
 * be pasted in every host.
 */
#ifndef DROP_H
#define DROP_H

#include <X11/Xlib.h>
#include <stdbool.h>
#include <stddef.h>

struct drop;

struct drop *drop_open(Display *display, Window window); /* NULL: no memory */
void drop_close(struct drop *drop);                      /* NULL is allowed */

/* Asks for the clipboard: a file, or a text with its path. */
void drop_paste(struct drop *drop);

/* Handles an event of the connection, which may be of another kind. true: something was dropped or pasted; path[cap]
 * has the first file, "": it is not a file of this computer. */
bool drop_read(struct drop *drop, XEvent *event, char *path, size_t cap);
bool drop_is_over(const struct drop *drop);              /* a file is dragged above the window */

#endif
