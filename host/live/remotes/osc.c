#include "osc.h"

#include "host/message.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAX_BYTES = 65536, MAX_HANDLED = 64, MAX_SENT = 128 };

/* A packet that one thread passes to another. */
struct passed {
    struct osc_peer from;
    char bytes[MAX_BYTES];
};

/* Receives the packets of one thread. */
struct receiver {
    struct osc *osc;
    int n_handled; /* packets, and elements of their bundles, handled in one call */
    osc_handler *handler;
    osc_first_handler *first; /* handler of osc_handle_first; NULL: osc_receive reads */
    void *data;
    struct passed packet; /* the packet that is being handled */
};

struct osc {
    int fd, port;
    struct osc_peer peer;         /* the server of osc_open_to */
    bool has_fixed_peer;          /* after osc_open_to: packets of others are dropped */
    struct sockaddr_storage ours; /* the address that the socket is bound to */
    int n_sent;                   /* messages since osc_receive began or ended */
    struct receiver receiver;     /* receiver of osc_receive */
    struct receiver *first;       /* receiver of osc_handle_first; NULL: before osc_split */
    int pass[2];                  /* after osc_split: from osc_handle_first (1) to osc_receive (0) */
};

void osc_close(struct osc *osc)
{
    if (!osc) return;
    osc_join(osc);
    close(osc->fd);
    free(osc);
}

void osc_join(struct osc *osc)
{
    if (!osc->first) return;
    close(osc->pass[0]);
    close(osc->pass[1]);
    free(osc->first);
    osc->first = NULL;
}

int osc_port(const struct osc *osc)
{
    return osc->port;
}

int osc_fd(const struct osc *osc)
{
    return osc->first ? osc->pass[0] : osc->fd;
}

void osc_wake_first(struct osc *osc)
{
    socklen_t size = osc->ours.ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    (void)!sendto(osc->fd, NULL, 0, MSG_DONTWAIT, (const struct sockaddr *)&osc->ours, size);
}

static in_port_t *osc_port_of(struct sockaddr_storage *address)
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

/* osc_port_of does not accept constants. */
bool osc_same_peer(const struct osc_peer *a, const struct osc_peer *b)
{
    struct osc_peer one = *a, other = *b;
    if (a->send || b->send) return osc_same_host(a, b) && a->client == b->client;
    return same_host(&one.address, &other.address) && *osc_port_of(&one.address) == *osc_port_of(&other.address);
}

bool osc_same_host(const struct osc_peer *a, const struct osc_peer *b)
{
    return a->send == b->send && a->panel == b->panel && (a->send || same_host(&a->address, &b->address));
}

static bool is_any_host(const struct sockaddr_storage *address)
{
    struct sockaddr_storage any = {.ss_family = address->ss_family};
    return same_host(address, &any);
}

/* After a bind to 0.0.0.0 or ::, every address of this machine is our own. A probe can be bound to these only. */
bool osc_is_own(const struct osc *osc, const struct osc_peer *peer)
{
    struct osc_peer any_port = *peer;
    if (ntohs(*osc_port_of(&any_port.address)) != osc->port) return false;
    if (!is_any_host(&osc->ours)) return same_host(&osc->ours, &peer->address);
    osc_set_port(&any_port, 0);
    int probe = socket(peer->address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool is_ours = probe >= 0 && bind(probe, (const struct sockaddr *)&any_port.address, any_port.size) == 0;
    if (probe >= 0) close(probe);
    return is_ours;
}

void osc_set_port(struct osc_peer *peer, int port)
{
    *osc_port_of(&peer->address) = htons((uint16_t)port);
}

bool osc_next_unreachable(struct osc *osc, struct osc_peer *peer)
{
    struct msghdr message = {.msg_name = &peer->address, .msg_namelen = sizeof peer->address};
    *peer = (struct osc_peer){0};
    bool is_there = recvmsg(osc->fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT) >= 0;
    peer->size = message.msg_namelen;
    return is_there;
}

#ifdef HC_WITH_LO
#include <errno.h>
#include <fcntl.h>
#include <lo/lo.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/time.h>
#include <sys/uio.h>

/* Opens our own socket: liblo's server would listen on every interface. liblo only encodes and decodes packets. */
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

/* Enables the errors of sent packets, for osc_next_unreachable. A socket has one version of IP: one call fails. */
static void ask_for_errors(int fd)
{
    setsockopt(fd, IPPROTO_IP, IP_RECVERR, &(int){1}, sizeof(int));
    setsockopt(fd, IPPROTO_IPV6, IPV6_RECVERR, &(int){1}, sizeof(int));
}

struct osc *osc_open(const char *where, char *why, size_t cap)
{
    char host[256] = "127.0.0.1";
    const char *colon = strrchr(where, ':'), *port = colon ? colon + 1 : where;
    if (colon) snprintf(host, sizeof host, "%.*s", (int)(colon - where), where);
    int fd = listen_on(host, port, why, cap);
    if (fd < 0) return NULL;
    struct osc *osc = calloc(1, sizeof *osc);
    socklen_t size = sizeof osc->ours;
    if (!osc || getsockname(fd, (struct sockaddr *)&osc->ours, &size) != 0) {
        message_write(why, cap, "--osc %s: no memory; free some memory", where);
        close(fd);
        free(osc);
        return NULL;
    }
    osc->fd = fd;
    osc->port = ntohs(*osc_port_of(&osc->ours));
    ask_for_errors(fd);
    return osc;
}

/* A server of this machine may have another address in its URL (127.0.1.1) than in its packets (127.0.0.1, as in ours).
 * Our own address is therefore allowed too, and the socket is not connected. */
static bool is_from_peer(struct osc *osc, struct sockaddr_storage *sender)
{
    struct sockaddr_storage *peer = &osc->peer.address;
    return (same_host(sender, peer) || same_host(sender, &osc->ours)) && *osc_port_of(sender) == *osc_port_of(peer);
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
    *osc_port_of(ours) = 0;
    osc->fd = socket(there->ai_family, there->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, there->ai_protocol);
    if (osc->fd >= 0 && bind(osc->fd, (struct sockaddr *)ours, size) == 0) {
        ask_for_errors(osc->fd);
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
    long number = port ? strtol(port, NULL, 10) : 0; /* getaddrinfo reads 99999 as 34463 */
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

static bool osc_is_number(lo_type type)
{
    return lo_is_numerical_type(type) || type == LO_TRUE || type == LO_FALSE;
}

static double osc_number_of(lo_type type, lo_arg *arg)
{
    return type == LO_TRUE ? 1 : type == LO_FALSE || !osc_is_number(type) ? 0 : (double)lo_hires_val(type, arg);
}

/* Sends a message that the first thread does not handle to the other thread. A full socket loses the message. */
static void pass_on(struct receiver *r, const char *packet, size_t bytes)
{
    struct iovec parts[2] = {{&r->packet.from, sizeof r->packet.from}, {(void *)(uintptr_t)packet, bytes}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    (void)!sendmsg(r->osc->pass[1], &message, MSG_DONTWAIT);
}

static void handle_message(struct receiver *r, char *packet, size_t bytes)
{
    int error;
    lo_message message = lo_message_deserialise(packet, bytes, &error);
    if (!message) return; /* not OSC */
    struct osc_message read = {.path = packet, .n_args = lo_message_get_argc(message), .from = &r->packet.from};
    const char *types = lo_message_get_types(message);
    lo_arg **args = lo_message_get_argv(message);
    if (read.n_args > 0) {
        lo_type type = (lo_type)types[0];
        if (lo_is_string_type(type)) read.text = (const char *)args[0];
        read.has_number = osc_is_number(type);
        read.number = osc_number_of(type, args[0]);
    }
    if (read.n_args > 1) read.second = osc_number_of((lo_type)types[1], args[1]);
    for (int i = 0; i < read.n_args && i < OSC_MAX_NUMBERS && osc_is_number((lo_type)types[i]); i++)
        read.numbers[read.n_numbers++] = osc_number_of((lo_type)types[i], args[i]);
    for (int i = 0; i < read.n_args && read.n_texts < OSC_MAX_TEXTS; i++)
        if (lo_is_string_type((lo_type)types[i])) read.texts[read.n_texts++] = (const char *)args[i];
    if (!r->first)
        r->handler(r->data, &read);
    else if (!r->first(r->data, &read))
        pass_on(r, packet, bytes);
    lo_message_free(message);
}

static uint32_t big_endian(const char *bytes)
{
    const unsigned char *b = (const unsigned char *)bytes;
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

/* A bundle holds messages and bundles, each after its size. Its time stamp is ignored. */
static void handle_packet(struct receiver *r, char *packet, size_t bytes, int depth)
{
    if (bytes < 16 || memcmp(packet, "#bundle", 8) != 0) {
        if (memchr(packet, 0, bytes)) handle_message(r, packet, bytes);
        return;
    }
    for (size_t at = 16; at + 4 <= bytes && depth < 8;) {
        size_t size = big_endian(packet + at);
        at += 4;
        if (size == 0 || size > bytes - at) return;
        handle_packet(r, packet + at, size, depth + 1);
        r->n_handled++;
        at += size;
    }
}

/* Reads the next packet. Returns its bytes; 0: an empty, foreign or own packet, or the error of a sent packet; -1: no
 * packet waits. */
static ssize_t read_packet(struct receiver *r, int flags)
{
    struct osc *osc = r->osc;
    struct passed *packet = &r->packet;
    packet->from = (struct osc_peer){.size = sizeof packet->from.address};
    struct iovec parts[2] = {{&packet->from, sizeof packet->from}, {packet->bytes, sizeof packet->bytes}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    bool is_passed = osc->first && r == &osc->receiver;
    ssize_t header = is_passed ? (ssize_t)sizeof packet->from : 0;
    ssize_t bytes = is_passed ? recvmsg(osc->pass[0], &message, flags)
                              : recvfrom(osc->fd, packet->bytes, sizeof packet->bytes, flags,
                                         (struct sockaddr *)&packet->from.address, &packet->from.size);
    if (bytes < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return -1;
    if (bytes <= header) return 0;
    if (osc->has_fixed_peer && !is_passed && !is_from_peer(osc, &packet->from.address)) return 0;
    if (!osc->has_fixed_peer && !is_passed && osc_is_own(osc, &packet->from)) return 0;
    if (osc->has_fixed_peer) packet->from = osc->peer;
    return bytes - header;
}

void osc_receive(struct osc *osc, osc_handler *handler, void *data)
{
    struct receiver *r = &osc->receiver;
    ssize_t bytes;
    r->osc = osc;
    r->handler = handler;
    r->data = data;
    osc->n_sent = 0;
    for (r->n_handled = 0; r->n_handled < MAX_HANDLED; r->n_handled++) { /* a flood must not block the thread */
        if ((bytes = read_packet(r, MSG_DONTWAIT)) < 0) break;
        if (bytes > 0) handle_packet(r, r->packet.bytes, (size_t)bytes, 0);
    }
    osc->n_sent = 0;
}

/* Lets reads of the socket wait; sends still do not, by a separate flag. */
bool osc_split(struct osc *osc, char *why, size_t cap)
{
    struct receiver *first = calloc(1, sizeof *first);
    struct timeval longest = {.tv_usec = 200000};
    int flags = fcntl(osc->fd, F_GETFL);
    bool good = first && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, osc->pass) == 0;
    if (good && (setsockopt(osc->fd, SOL_SOCKET, SO_RCVTIMEO, &longest, sizeof longest) != 0 ||
                 fcntl(osc->fd, F_SETFL, flags & ~O_NONBLOCK) != 0)) {
        close(osc->pass[0]);
        close(osc->pass[1]);
        good = false;
    }
    if (!good) {
        free(first);
        return message_write(why, cap, "--osc: a socket pair for a second thread cannot be made; close some files");
    }
    first->osc = osc;
    osc->first = first;
    return true;
}

int osc_handle_first(struct osc *osc, osc_first_handler *handler, void *data)
{
    struct receiver *r = osc->first;
    r->first = handler;
    r->data = data;
    r->n_handled = 0;
    ssize_t bytes = read_packet(r, 0);
    if (bytes < 0) return 0;
    if (bytes > 0) handle_packet(r, r->packet.bytes, (size_t)bytes, 0);
    return r->n_handled > 0 ? r->n_handled : 1;
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
    /* The first call may return the error of an earlier packet, and send nothing. */
    if (packet && sendto(osc->fd, packet, bytes, MSG_DONTWAIT, address, to->size) < 0)
        (void)!sendto(osc->fd, packet, bytes, MSG_DONTWAIT, address, to->size);
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

#else

struct osc *osc_open(const char *where, char *why, size_t cap)
{
    (void)where;
    message_write(why, cap, "--osc: " MESSAGE_NO_PART("liblo", "liblo-dev"));
    return NULL;
}
struct osc *osc_open_to(const char *url, char *why, size_t cap)
{
    message_write(why, cap, "%s: " MESSAGE_NO_PART("liblo", "liblo-dev"), url);
    return NULL;
}
void osc_send(struct osc *osc, const char *path, const char *types, ...)
{
    (void)osc, (void)path, (void)types;
}
static void send_message(struct osc *osc, const struct osc_peer *to, const char *path, const char *types, va_list *args)
{
    (void)osc, (void)to, (void)path, (void)types, (void)args;
}
void osc_receive(struct osc *osc, osc_handler *handler, void *data)
{
    (void)osc, (void)handler, (void)data;
}
bool osc_split(struct osc *osc, char *why, size_t cap)
{
    (void)osc, (void)why, (void)cap;
    return false;
}
int osc_handle_first(struct osc *osc, osc_first_handler *handler, void *data)
{
    (void)osc, (void)handler, (void)data;
    return 0;
}
#endif

void osc_send_to(struct osc *osc, const struct osc_peer *to, const char *path, const char *types, ...)
{
    va_list args;
    va_start(args, types);
    if (to->send)
        to->send(to, path, types, args);
    else if (osc->n_sent++ < MAX_SENT)
        send_message(osc, to, path, types, &args);
    va_end(args);
}
