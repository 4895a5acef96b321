/* text_mailbox - a text that any thread leaves and one thread takes; the last one wins. No call locks or allocates: a
 * writer fills one of N_TEXTS buffers that nobody uses, and exchanges its number for that of the text before. */
#ifndef TEXT_MAILBOX_H
#define TEXT_MAILBOX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

enum { TEXT_CAP = 4096, N_TEXTS = 8 }; /* N_TEXTS - 2 threads may write at once */

struct text_mailbox {
    atomic_int full; /* number of the text that waits; -1: none */
    struct {
        atomic_bool taken;
        char text[TEXT_CAP];
    } buffers[N_TEXTS];
};

void text_mailbox_open(struct text_mailbox *mailbox);

/* false: the text is too long. [rt] */
bool text_mailbox_put(struct text_mailbox *mailbox, const char *text);

/* Move what waits to text[TEXT_CAP]. false: nothing does, and text is as it was. [rt] */
bool text_mailbox_take(struct text_mailbox *mailbox, char *text);

#endif
