#include "host/message.h"

#ifdef HC_WITH_JACK
#include "jack_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static char last_error[256]; /* last error line of libjack */

static void keep_error(const char *text)
{
    snprintf(last_error, sizeof last_error, "%s", text);
}

static void ignore_info(const char *text)
{
    (void)text;
}

/* Writes the path of PipeWire's socket to `path`. name: "": the default one. false: the user has no session. */
static bool pipewire_socket(const char *name, char *path, size_t cap)
{
    const char *const folders[] = {getenv("PIPEWIRE_RUNTIME_DIR"), getenv("XDG_RUNTIME_DIR")};
    const char *folder = folders[0] ? folders[0] : folders[1], *remote = getenv("PIPEWIRE_REMOTE");
    if (!*name) name = remote && *remote ? remote : "pipewire-0";
    snprintf(path, cap, "%s%s%s", *name == '/' ? "" : folder ? folder : "", *name == '/' ? "" : "/", name);
    return *name == '/' || folder;
}

static bool answers(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t n = strlen(path);
    if (n >= sizeof address.sun_path) return false;
    memcpy(address.sun_path, path, n);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool good = connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
    close(fd);
    return good;
}

static bool has_pw_jack(void)
{
    const char *list = getenv("PATH");
    char path[4096];
    bool found = false;
    for (size_t length; list && !found; list = list[length] ? list + length + 1 : NULL) {
        length = strcspn(list, ":");
        found = snprintf(path, sizeof path, "%.*s/pw-jack", (int)length, list) < (int)sizeof path &&
                access(path, X_OK) == 0;
    }
    return found;
}

/* Names the remedy when no server answers: libjack is JACK's or PipeWire's, and PipeWire runs or not. */
static void explain_absence(const char *server, char *why, size_t cap)
{
    char path[4096];
    bool is_pipewire = strstr(jack_get_version_string(), "PipeWire") != NULL;
    bool has_session = pipewire_socket(is_pipewire ? server : "", path, sizeof path);
    bool does_answer = has_session && answers(path);
    if (is_pipewire && !has_session)
        message_write(why, cap,
                      "jack: JACK is PipeWire on this system, and XDG_RUNTIME_DIR is not set; start haloconv as the "
                      "user of the desktop, without sudo");
    else if (is_pipewire && !does_answer)
        message_write(why, cap,
                      "jack: JACK is PipeWire on this system, and no PipeWire answers at %s; start it, as with: "
                      "systemctl --user start pipewire wireplumber",
                      path);
    else if (is_pipewire)
        message_write(why, cap, "jack: PipeWire refuses the client; see its messages: journalctl --user -u pipewire");
    else if (does_answer && !*server)
        message_write(why, cap,
                      "jack: no JACK server answers, but PipeWire does; %sstart the command with pw-jack before it, as "
                      "in: pw-jack haloconv jack; or use PipeWire itself: haloconv pipewire",
                      has_pw_jack() ? "" : "install pipewire-jack, and ");
    else
        message_write(why, cap, "jack: no server%s%s answers; start one, as with: jackd%s%s -d alsa",
                      *server ? " " : "", server, *server ? " -n " : "", server);
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
        explain_absence(server, why, cap);
    else
        message_write(why, cap, "jack: the server refused the client (status 0x%x%s%s); see the server's messages",
                      (unsigned)status, *last_error ? ", " : "", last_error);
    return NULL;
}
#endif
