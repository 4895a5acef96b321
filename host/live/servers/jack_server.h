/* jack_server - connects to a JACK server, and keeps libjack's messages off standard error. */
#ifndef JACK_SERVER_H
#define JACK_SERVER_H

#include <jack/jack.h>
#include <stddef.h>

/* Opens a client, and never starts a server. server: NULL or "": the default server. Returns NULL after a failure: why
 * has the reason. */
jack_client_t *jack_server_join(const char *name, const char *server, char *why, size_t cap);

#endif
