/* osc - sends and receives Open Sound Control messages over UDP; listens on the loopback interface by default. */
#ifndef OSC_H
#define OSC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct osc;

/* A message: its path, its first argument, and the strings among all arguments. */
enum { OSC_MOST_TEXTS = 4 };
struct osc_message {
    const char *path;
    const char *text;   /* the first argument; NULL: not a string */
    bool has_number;    /* the first argument is a number         */
    double number;      /* value of the number; T and F are 1 and 0 */
    const char *texts[OSC_MOST_TEXTS];
    int n_texts;
    struct osc *osc;    /* the receiver, for osc_send             */
};
typedef void osc_handler(void *data, const struct osc_message *message);

/* Listens on "PORT" or "HOST:PORT"; port 0: any free one. NULL: why has the reason, for example no liblo. */
struct osc *osc_open(const char *where, char *why, size_t cap);

/* Talks to the server at "osc.udp://HOST:PORT/" through the interface that leads there. Drops packets of others. */
struct osc *osc_open_to(const char *url, char *why, size_t cap);

void osc_close(struct osc *osc);
int osc_port(const struct osc *osc);
int osc_fd(const struct osc *osc);

/* Calls the handler for every message that has arrived. Returns at once. */
void osc_receive(struct osc *osc, osc_handler *handler, void *data);

/* Sends a message: after osc_open_to to that server; after osc_open, inside a handler, to the message's sender. types
 * has an s or i for each argument. */
void osc_send(struct osc *osc, const char *path, const char *types, ...);

#endif
