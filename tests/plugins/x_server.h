/* x_server - an X server without a screen (Xvfb) for the tests of windows, and a host's window on it. */
#ifndef X_SERVER_H
#define X_SERVER_H

#include "check.h"

#include <X11/Xlib.h>
#include <sys/types.h>

/* Starts an X server; `name` gets its display, such as ":5". Returns its process; 0: no Xvfb. */
pid_t server_start(int depth, char name[16]);
void server_end(pid_t server);

/* check_main of n tests on a new X server, after `prepare` (NULL: nothing). Without Xvfb they are skipped. */
int server_check_main(const char *name, const struct test *tests, int n, void (*prepare)(void));

/* A window of the host, which is there and visible; it ends with the display. */
Window host_window(Display *display, int width, int height);

#endif
