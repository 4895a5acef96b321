/* x_server - an X server without a screen (Xvfb) for the tests of windows. */
#ifndef X_SERVER_H
#define X_SERVER_H

#include <sys/types.h>

/* Starts an X server; `name` gets its display, such as ":5". Returns its process; 0: no Xvfb. */
pid_t server_start(int depth, char name[16]);
void server_end(pid_t server);

#endif
