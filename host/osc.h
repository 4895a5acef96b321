/* osc - control messages over UDP (Open Sound Control), to the loopback interface unless asked otherwise. */
#ifndef OSC_H
#define OSC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct osc;

/* One message: its path and its first argument as a number, as text, or neither. */
struct osc_message {
    const char *path;
    const char *text;   /* NULL: not a string */
    bool has_number;
    double number;      /* T and F are 1 and 0 */
    struct osc *osc;    /* for osc_reply, while the message is handled */
};
typedef void osc_handler(void *data, const struct osc_message *message);

/* Listen on "PORT" or "HOST:PORT"; port 0: one that is free. NULL: why has the reason (this build has no liblo, say). */
struct osc *osc_open(const char *where, char *why, size_t cap);
void osc_close(struct osc *osc);
int osc_port(const struct osc *osc);
int osc_fd(const struct osc *osc);

/* Handle what has come; returns at once. */
void osc_receive(struct osc *osc, osc_handler *handler, void *data);

/* Answer the sender of the message with a path and a text. */
void osc_reply(struct osc *osc, const char *path, const char *text);

#endif
