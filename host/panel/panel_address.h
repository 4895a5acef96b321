/* panel_address - where a panel listens, and who may send requests to it.
 *
 * A page of another server in the same browser may send requests to any address, also to this machine's. The browser
 * then names that server in Origin. A server whose name leads here (DNS rebinding) has that name in Host. A page that
 * names our own address in both is ours.
 */
#ifndef PANEL_ADDRESS_H
#define PANEL_ADDRESS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

enum { PANEL_TOKEN = 32 /* hexadecimal digits: 128 bits */ };

struct panel_address {
    char name[256];               /* HOST as the user gave it, in small letters                     */
    char numeric[64];             /* the address to listen on: "127.0.0.1", "::1", "0.0.0.0"        */
    char machine[HOST_NAME_MAX + 1]; /* this machine's name, as a rule without its domain; "": unknown */
    int port;
    bool is_loopback, is_any;     /* is_any: every address of this machine                          */
    char token[PANEL_TOKEN + 1];  /* "": none is needed, because only this machine reaches the port */
    char url[400];                /* panel_address_finish writes it                                 */
};

/* Reads "PORT", "HOST:PORT" or "[HOST]:PORT", and chooses a token. false: why has the reason. */
bool panel_address_read(struct panel_address *address, const char *where, char *why, size_t cap);

/* Sets the port that was chosen, and the URL. */
void panel_address_finish(struct panel_address *address, int port);

/* May a request with these headers be answered? origin "": none was sent. */
bool panel_address_allows(const struct panel_address *address, const char *host, const char *origin);

/* Is this the token? Takes the same time whatever the text has. */
bool panel_address_is_token(const struct panel_address *address, const char *text);

#endif
