#include "host/message.h"

#ifdef HC_WITH_JACK
#include "jack_server.h"

#include <stdio.h>

static char last_error[256]; /* last error line of libjack */

static void keep_error(const char *text)
{
    snprintf(last_error, sizeof last_error, "%s", text);
}

static void ignore_info(const char *text)
{
    (void)text;
}

jack_client_t *jack_server_join(const char *name, const char *server, char *why, size_t cap)
{
    bool has_name = server && *server;
    jack_options_t options = JackNoStartServer | (has_name ? JackServerName : JackNullOption);
    jack_status_t status = 0;
    jack_set_error_function(keep_error);
    jack_set_info_function(ignore_info);
    last_error[0] = 0;
    if (!has_name) server = "";
    jack_client_t *client = jack_client_open(name, options, &status, server);
    if (client) return client;
    if (status & JackServerFailed)
        message_write(why, cap, "jack: no server%s%s answers; start one, as with: jackd%s%s -d alsa",
                      has_name ? " " : "", server, has_name ? " -n " : "", server);
    else
        message_write(why, cap, "jack: the server refused the client (status 0x%x%s%s); see the server's messages",
                      (unsigned)status, *last_error ? ", " : "", last_error);
    return NULL;
}
#endif
