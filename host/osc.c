#include "osc.h"

#include "message.h"

#ifdef HC_WITH_LO
#include <errno.h>
#include <lo/lo.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST_BYTES = 65536 };

struct osc {
    int fd, port;
    struct sockaddr_storage sender; /* of the message that is handled */
    socklen_t sender_size;
    char packet[MOST_BYTES];
};

/* liblo's own server would listen on every interface; so the socket is ours, and liblo reads and writes the packets. */
static int listen_on(const char *host, const char *port, char *why, size_t cap)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_DGRAM, .ai_flags = AI_PASSIVE}, *found;
    int error = getaddrinfo(host, port, &hints, &found), fd = -1;
    if (error) {
        message_write(why, cap, "--osc %s:%s: %s; give PORT or HOST:PORT", host, port, gai_strerror(error));
        return -1;
    }
    for (struct addrinfo *a = found; a && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol);
        if (fd < 0 || bind(fd, a->ai_addr, a->ai_addrlen) == 0) continue;
        error = errno;
        close(fd);
        fd = -1;
    }
    freeaddrinfo(found);
    if (fd < 0) message_write(why, cap, "--osc %s:%s: %s; choose another port", host, port, strerror(error));
    return fd;
}

struct osc *osc_open(const char *where, char *why, size_t cap)
{
    char host[256] = "127.0.0.1";
    const char *colon = strrchr(where, ':'), *port = colon ? colon + 1 : where;
    if (colon) snprintf(host, sizeof host, "%.*s", (int)(colon - where), where);
    int fd = listen_on(host, port, why, cap);
    if (fd < 0) return NULL;
    struct osc *osc = calloc(1, sizeof *osc);
    struct sockaddr_storage bound;
    socklen_t size = sizeof bound;
    char number[16] = "";
    if (!osc || getsockname(fd, (struct sockaddr *)&bound, &size) != 0 ||
        getnameinfo((struct sockaddr *)&bound, size, NULL, 0, number, sizeof number, NI_NUMERICSERV | NI_DGRAM) != 0) {
        message_write(why, cap, "--osc %s: no memory; free some", where);
        close(fd);
        free(osc);
        return NULL;
    }
    osc->fd = fd;
    osc->port = atoi(number);
    return osc;
}

void osc_close(struct osc *osc)
{
    if (!osc) return;
    close(osc->fd);
    free(osc);
}

int osc_port(const struct osc *osc)
{
    return osc->port;
}

int osc_fd(const struct osc *osc)
{
    return osc->fd;
}

static void handle_message(struct osc *osc, char *packet, size_t bytes, osc_handler *handler, void *data)
{
    int error;
    lo_message message = lo_message_deserialise(packet, bytes, &error);
    if (!message) return; /* not OSC */
    struct osc_message read = {.path = packet, .osc = osc};
    const char *types = lo_message_get_types(message);
    lo_arg **args = lo_message_get_argv(message);
    if (lo_message_get_argc(message) > 0) {
        lo_type type = (lo_type)types[0];
        if (lo_is_string_type(type)) read.text = &args[0]->s;
        read.has_number = lo_is_numerical_type(type) || type == LO_TRUE || type == LO_FALSE;
        if (read.has_number)
            read.number = type == LO_TRUE ? 1 : type == LO_FALSE ? 0 : (double)lo_hires_val(type, args[0]);
    }
    handler(data, &read);
    lo_message_free(message);
}

static uint32_t big_endian(const char *bytes)
{
    const unsigned char *b = (const unsigned char *)bytes;
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

/* A bundle holds messages and bundles, each behind its size; its time is taken as now. */
static void handle_packet(struct osc *osc, char *packet, size_t bytes, int depth, osc_handler *handler, void *data)
{
    if (bytes < 16 || memcmp(packet, "#bundle", 8) != 0) {
        if (memchr(packet, 0, bytes)) handle_message(osc, packet, bytes, handler, data);
        return;
    }
    for (size_t at = 16; at + 4 <= bytes && depth < 8;) {
        size_t size = big_endian(packet + at);
        at += 4;
        if (size == 0 || size > bytes - at) return;
        handle_packet(osc, packet + at, size, depth + 1, handler, data);
        at += size;
    }
}

void osc_receive(struct osc *osc, osc_handler *handler, void *data)
{
    for (int i = 0; i < 64; i++) { /* a flood must not keep the rest waiting */
        osc->sender_size = sizeof osc->sender;
        ssize_t bytes =
            recvfrom(osc->fd, osc->packet, sizeof osc->packet, 0, (struct sockaddr *)&osc->sender, &osc->sender_size);
        if (bytes <= 0) return;
        handle_packet(osc, osc->packet, (size_t)bytes, 0, handler, data);
    }
}

void osc_reply(struct osc *osc, const char *path, const char *text)
{
    lo_message message = lo_message_new();
    size_t bytes = 0;
    if (message && lo_message_add_string(message, text) == 0) {
        void *packet = lo_message_serialise(message, path, NULL, &bytes);
        /* Nobody to hear it is no error. */
        if (packet) (void)!sendto(osc->fd, packet, bytes, 0, (struct sockaddr *)&osc->sender, osc->sender_size);
        free(packet);
    }
    lo_message_free(message);
}

#else

struct osc *osc_open(const char *where, char *why, size_t cap)
{
    (void)where;
    message_write(why, cap, "--osc: this build has no liblo; install liblo-dev and build again");
    return NULL;
}
void osc_close(struct osc *osc)
{
    (void)osc;
}
int osc_port(const struct osc *osc)
{
    (void)osc;
    return 0;
}
int osc_fd(const struct osc *osc)
{
    (void)osc;
    return -1;
}
void osc_receive(struct osc *osc, osc_handler *handler, void *data)
{
    (void)osc, (void)handler, (void)data;
}
void osc_reply(struct osc *osc, const char *path, const char *text)
{
    (void)osc, (void)path, (void)text;
}
#endif
