#include "osc.h"

#include "host/message.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST_BYTES = 65536, MOST_HANDLED = 64, MOST_SENT = 128 };

struct osc {
    int fd, port;
    struct osc_peer peer;         /* the server of osc_open_to, or the sender of the packet at hand */
    bool has_fixed_peer;          /* after osc_open_to: packets of others are dropped */
    struct sockaddr_storage ours; /* after osc_open_to: the address that the socket is bound to */
    int n_handled;                /* packets, and elements of their bundles, in this call of osc_receive */
    int n_sent;                   /* messages since osc_receive began or ended */
    char packet[MOST_BYTES];
};

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

static in_port_t *port_of(struct sockaddr_storage *address)
{
    bool is_ipv4 = address->ss_family == AF_INET;
    return is_ipv4 ? &((struct sockaddr_in *)address)->sin_port : &((struct sockaddr_in6 *)address)->sin6_port;
}

static bool same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
    const struct sockaddr_in *a4 = (const void *)a, *b4 = (const void *)b;
    const struct sockaddr_in6 *a6 = (const void *)a, *b6 = (const void *)b;
    if (a->ss_family != b->ss_family) return false;
    return a->ss_family == AF_INET ? a4->sin_addr.s_addr == b4->sin_addr.s_addr
                                   : memcmp(&a6->sin6_addr, &b6->sin6_addr, sizeof a6->sin6_addr) == 0;
}

/* port_of takes no constants. */
bool osc_same_peer(const struct osc_peer *a, const struct osc_peer *b)
{
    struct osc_peer one = *a, other = *b;
    return same_host(&one.address, &other.address) && *port_of(&one.address) == *port_of(&other.address);
}

void osc_set_port(struct osc_peer *peer, int port)
{
    *port_of(&peer->address) = htons((uint16_t)port);
}

bool osc_take_unreachable(struct osc *osc, struct osc_peer *peer)
{
    struct msghdr message = {.msg_name = &peer->address, .msg_namelen = sizeof peer->address};
    *peer = (struct osc_peer){0};
    bool is_there = recvmsg(osc->fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT) >= 0;
    peer->size = message.msg_namelen;
    return is_there;
}

#ifdef HC_WITH_LO
#include <errno.h>
#include <lo/lo.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>

/* liblo's own server would listen on every interface. So the socket is ours; liblo only encodes and decodes packets. */
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
    /* osc_take_unreachable gets the errors of packets that were sent. A socket has one version of IP: one call fails. */
    setsockopt(fd, IPPROTO_IP, IP_RECVERR, &(int){1}, sizeof(int));
    setsockopt(fd, IPPROTO_IPV6, IPV6_RECVERR, &(int){1}, sizeof(int));
    return osc;
}

/* A server of this machine may have another address in its URL (127.0.1.1) than in its packets (127.0.0.1, as in ours).
 * Our own address is therefore allowed too, and the socket is not connected. */
static bool is_from_peer(struct osc *osc, struct sockaddr_storage *sender)
{
    struct sockaddr_storage *peer = &osc->peer.address;
    return (same_host(sender, peer) || same_host(sender, &osc->ours)) && *port_of(sender) == *port_of(peer);
}

/* Binds to the local address that routes to the server. */
static bool bind_towards(struct osc *osc, const struct addrinfo *there)
{
    struct sockaddr_storage *ours = &osc->ours;
    socklen_t size = sizeof *ours;
    int probe = socket(there->ai_family, there->ai_socktype | SOCK_CLOEXEC, there->ai_protocol);
    bool good = probe >= 0 && connect(probe, there->ai_addr, there->ai_addrlen) == 0 &&
                getsockname(probe, (struct sockaddr *)ours, &size) == 0;
    if (probe >= 0) close(probe);
    if (!good) return false;
    *port_of(ours) = 0;
    osc->fd = socket(there->ai_family, there->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, there->ai_protocol);
    if (osc->fd >= 0 && bind(osc->fd, (struct sockaddr *)ours, size) == 0) {
        memcpy(&osc->peer.address, there->ai_addr, there->ai_addrlen);
        osc->peer.size = there->ai_addrlen;
        return osc->has_fixed_peer = true;
    }
    if (osc->fd >= 0) close(osc->fd);
    return false;
}

struct osc *osc_open_to(const char *url, char *why, size_t cap)
{
    char *host = lo_url_get_hostname(url), *port = lo_url_get_port(url);
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_DGRAM}, *found = NULL;
    struct osc *osc = calloc(1, sizeof *osc);
    long number = port ? strtol(port, NULL, 10) : 0; /* getaddrinfo takes 99999 for 34463 */
    int error = EAI_NONAME;
    if (host && number > 0 && number <= 65535 && lo_url_get_protocol_id(url) == LO_UDP)
        error = getaddrinfo(host, port, &hints, &found);
    bool good = false;
    for (int ipv6 = 0; ipv6 < 2; ipv6++) /* IPv4 first: liblo's servers listen there, even if localhost is ::1 */
        for (struct addrinfo *a = found; osc && a && !good; a = a->ai_next)
            good = (a->ai_family == AF_INET6) == ipv6 && bind_towards(osc, a);
    if (found) freeaddrinfo(found);
    free(host);
    free(port);
    if (good) return osc;
    message_write(why, cap, "%s: %s; write it like osc.udp://localhost:10000/", url,
                  error ? gai_strerror(error) : "cannot be reached");
    free(osc);
    return NULL;
}

static bool is_number(lo_type type)
{
    return lo_is_numerical_type(type) || type == LO_TRUE || type == LO_FALSE;
}

static double number_of(lo_type type, lo_arg *arg)
{
    return type == LO_TRUE ? 1 : type == LO_FALSE || !is_number(type) ? 0 : (double)lo_hires_val(type, arg);
}

static void handle_message(struct osc *osc, char *packet, size_t bytes, osc_handler *handler, void *data)
{
    int error;
    lo_message message = lo_message_deserialise(packet, bytes, &error);
    if (!message) return; /* not OSC */
    struct osc_message read = {.path = packet, .n_args = lo_message_get_argc(message), .from = &osc->peer};
    const char *types = lo_message_get_types(message);
    lo_arg **args = lo_message_get_argv(message);
    if (read.n_args > 0) {
        lo_type type = (lo_type)types[0];
        if (lo_is_string_type(type)) read.text = (const char *)args[0];
        read.has_number = is_number(type);
        read.number = number_of(type, args[0]);
    }
    if (read.n_args > 1) read.second = number_of((lo_type)types[1], args[1]);
    for (int i = 0; i < read.n_args && read.n_texts < OSC_MOST_TEXTS; i++)
        if (lo_is_string_type((lo_type)types[i])) read.texts[read.n_texts++] = (const char *)args[i];
    handler(data, &read);
    lo_message_free(message);
}

static uint32_t big_endian(const char *bytes)
{
    const unsigned char *b = (const unsigned char *)bytes;
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

/* A bundle holds messages and bundles, each after its size. Its time stamp is ignored. */
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
        osc->n_handled++;
        at += size;
    }
}

void osc_receive(struct osc *osc, osc_handler *handler, void *data)
{
    osc->n_sent = 0;
    for (osc->n_handled = 0; osc->n_handled < MOST_HANDLED; osc->n_handled++) { /* a flood must not block the thread */
        struct sockaddr_storage sender;
        socklen_t size = sizeof sender;
        ssize_t bytes = recvfrom(osc->fd, osc->packet, sizeof osc->packet, 0, (struct sockaddr *)&sender, &size);
        if (bytes < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
        if (bytes <= 0) continue; /* an empty packet, or the error of one that was sent */
        if (osc->has_fixed_peer && !is_from_peer(osc, &sender)) continue;
        if (!osc->has_fixed_peer) osc->peer = (struct osc_peer){sender, size};
        handle_packet(osc, osc->packet, (size_t)bytes, 0, handler, data);
    }
    osc->n_sent = 0;
}

static bool add_argument(lo_message message, char type, va_list *args)
{
    if (type == 's') return lo_message_add_string(message, va_arg(*args, const char *)) == 0;
    if (type == 'f') return lo_message_add_float(message, (float)va_arg(*args, double)) == 0;
    return lo_message_add_int32(message, va_arg(*args, int)) == 0;
}

static void send_message(struct osc *osc, const struct osc_peer *to, const char *path, const char *types, va_list *args)
{
    lo_message message = lo_message_new();
    bool good = message != NULL;
    size_t bytes = 0;
    for (const char *type = types; good && *type; type++) good = add_argument(message, *type, args);
    void *packet = good ? lo_message_serialise(message, path, NULL, &bytes) : NULL;
    const struct sockaddr *address = (const struct sockaddr *)&to->address;
    /* The first call may answer with the error of an earlier packet, and send nothing. */
    if (packet && sendto(osc->fd, packet, bytes, 0, address, to->size) < 0)
        (void)!sendto(osc->fd, packet, bytes, 0, address, to->size);
    free(packet);
    lo_message_free(message);
}

void osc_send(struct osc *osc, const char *path, const char *types, ...)
{
    va_list args;
    va_start(args, types);
    send_message(osc, &osc->peer, path, types, &args);
    va_end(args);
}

void osc_send_to(struct osc *osc, const struct osc_peer *to, const char *path, const char *types, ...)
{
    va_list args;
    if (osc->n_sent++ >= MOST_SENT) return;
    va_start(args, types);
    send_message(osc, to, path, types, &args);
    va_end(args);
}

#else

struct osc *osc_open(const char *where, char *why, size_t cap)
{
    (void)where;
    message_write(why, cap, "--osc: this build has no liblo; install liblo-dev and build again");
    return NULL;
}
struct osc *osc_open_to(const char *url, char *why, size_t cap)
{
    message_write(why, cap, "%s: this build has no liblo; install liblo-dev and build again", url);
    return NULL;
}
void osc_send(struct osc *osc, const char *path, const char *types, ...)
{
    (void)osc, (void)path, (void)types;
}
void osc_send_to(struct osc *osc, const struct osc_peer *to, const char *path, const char *types, ...)
{
    (void)osc, (void)to, (void)path, (void)types;
}
void osc_receive(struct osc *osc, osc_handler *handler, void *data)
{
    (void)osc, (void)handler, (void)data;
}
#endif
