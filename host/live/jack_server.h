/* jack_server - joins a JACK server. libjack's messages are kept off standard error. */
#ifndef JACK_SERVER_H
#define JACK_SERVER_H

#include <jack/jack.h>
#include <stddef.h>

/* Opens a client; no server is started for it. server: NULL or "": the default one. NULL: why has the reason. */
jack_client_t *jack_server_join(const char *name, const char *server, char *why, size_t cap);

#endif
