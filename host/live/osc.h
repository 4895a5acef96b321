/* osc - control messages over UDP (Open Sound Control), to the loopback interface unless asked otherwise. */
#ifndef OSC_H
#define OSC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct osc;

/* One message: its path, its first argument as a number, as text, or neither, and the strings among all of them. */
enum { OSC_MOST_TEXTS = 4 };
struct osc_message {
    const char *path;
    const char *text;   /* NULL: not a string */
    bool has_number;
    double number;      /* T and F are 1 and 0 */
    const char *texts[OSC_MOST_TEXTS];
    int n_texts;
    struct osc *osc;    /* for osc_reply, while the message is handled */
};
typedef void osc_handler(void *data, const struct osc_message *message);

/* Listen on "PORT" or "HOST:PORT"; port 0: one that is free. NULL: why has the reason (no liblo in this build, say). */
struct osc *osc_open(const char *where, char *why, size_t cap);

/* To speak with the one at "osc.udp://HOST:PORT/", through the interface that leads there. */
struct osc *osc_open_to(const char *url, char *why, size_t cap);

void osc_close(struct osc *osc);
int osc_port(const struct osc *osc);
int osc_fd(const struct osc *osc);

/* Handle what has come; returns at once. */
void osc_receive(struct osc *osc, osc_handler *handler, void *data);

/* Send a message to the other end of osc_open_to; types: s and i, and so are the arguments. */
void osc_send(struct osc *osc, const char *path, const char *types, ...);

/* Answer the sender of the message with a path and a text. */
void osc_reply(struct osc *osc, const char *path, const char *text);

#endif
