#include "panel_address.h"

#include "host/message.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <unistd.h>

/* Splits "NAME:PORT" or "[NAME]:PORT". Returns the port, 80 if there is none; -1: neither form. */
static int address_split(const char *text, char *name, size_t cap)
{
    const char *end = *text == '[' ? strchr(text, ']') : text + strcspn(text, ":"), *begin = text + (*text == '[');
    size_t n = end ? (size_t)(end - begin) : 0;
    if (n == 0 || n >= cap) return -1;
    for (size_t i = 0; i < n; i++) name[i] = (char)tolower((unsigned char)begin[i]);
    name[n] = 0;
    end += *text == '[';
    if (!*end) return 80;
    char *rest;
    long port = *end == ':' && isdigit((unsigned char)end[1]) ? strtol(end + 1, &rest, 10) : -1;
    return port >= 0 && port <= 65535 && !*rest ? (int)port : -1;
}

static void look_at(struct panel_address *a, const struct sockaddr *address)
{
    const struct sockaddr_in *v4 = (const void *)address;
    const struct sockaddr_in6 *v6 = (const void *)address;
    bool is_v4 = address->sa_family == AF_INET;
    inet_ntop(address->sa_family, is_v4 ? (const void *)&v4->sin_addr : &v6->sin6_addr, a->numeric, sizeof a->numeric);
    a->is_loopback = is_v4 ? ntohl(v4->sin_addr.s_addr) >> 24 == 127 : IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
    a->is_any = is_v4 ? v4->sin_addr.s_addr == 0 : IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr);
}

static bool make_token(struct panel_address *a)
{
    unsigned char bytes[PANEL_TOKEN / 2];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) return false;
    for (size_t i = 0; i < sizeof bytes; i++) sprintf(a->token + 2 * i, "%02x", bytes[i]);
    return true;
}

bool panel_address_read(struct panel_address *a, const char *where, char *why, size_t cap)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found = NULL;
    char given[300];
    *a = (struct panel_address){0};
    gethostname(a->machine, sizeof a->machine - 1);
    snprintf(given, sizeof given, "%s%s", strchr(where, ':') ? "" : "127.0.0.1:", where);
    a->port = address_split(given, a->name, sizeof a->name);
    int error = a->port < 0 ? EAI_NONAME : getaddrinfo(a->name, NULL, &hints, &found);
    if (error)
        return message_write(why, cap, "--panel %s: %s; give PORT, HOST:PORT or [HOST]:PORT", where,
                             gai_strerror(error));
    look_at(a, found->ai_addr);
    freeaddrinfo(found);
    return a->is_loopback || make_token(a) ||
           message_write(why, cap, "--panel %s: the system gives no random bytes for a token; use 127.0.0.1", where);
}

void panel_address_finish(struct panel_address *a, int port)
{
    /* nobody can open 0.0.0.0 on another machine */
    const char *name = a->is_any && *a->machine ? a->machine : a->name;
    a->port = port;
    bool is_v6 = strchr(name, ':') != NULL;
    snprintf(a->url, sizeof a->url, "http://%s%s%s:%d/%s%s", is_v6 ? "[" : "", name, is_v6 ? "]" : "", port,
             *a->token ? "#" : "", a->token);
}

static bool is_numeric(const char *name)
{
    unsigned char bytes[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, name, bytes) == 1 || inet_pton(AF_INET6, name, bytes) == 1;
}

/* A number cannot be rebound to another address, as a name of DNS can: every number will do where we listen on all. Nor
 * can the machine's name alone or in .local, for which no server of DNS elsewhere is asked. */
static bool is_our_name(const struct panel_address *a, const char *name)
{
    size_t n = strcspn(a->machine, ".");
    if (strcmp(name, a->name) == 0 || strcmp(name, a->numeric) == 0) return true;
    if (strcmp(name, "localhost") == 0) return a->is_loopback || a->is_any;
    if (a->is_loopback) return false;
    if (a->is_any && is_numeric(name)) return true;
    if (n == 0 || strncasecmp(name, a->machine, n) != 0) return false;
    return !name[n] || strcmp(name + n, ".local") == 0 || strcasecmp(name, a->machine) == 0;
}

bool panel_address_allows(const struct panel_address *a, const char *host, const char *origin)
{
    char name[256];
    static const char scheme[] = "http://";
    if (address_split(host, name, sizeof name) != a->port || !is_our_name(a, name)) return false;
    return !*origin ||
           (strncmp(origin, scheme, sizeof scheme - 1) == 0 && strcasecmp(origin + sizeof scheme - 1, host) == 0);
}

bool panel_address_is_token(const struct panel_address *a, const char *text)
{
    size_t n = strlen(text);
    unsigned char differs = n != PANEL_TOKEN;
    for (size_t i = 0; i < PANEL_TOKEN; i++) differs |= (unsigned char)(a->token[i] ^ (i < n ? text[i] : 0));
    return !differs;
}
