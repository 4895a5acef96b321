/* text_mailbox - passes a text and a number from any thread to one reader; the last text wins. No call locks or
 * allocates: a writer fills an unused one of N_TEXTS buffers, tells `full` which one, and releases the buffer that was
 * there. */
#ifndef TEXT_MAILBOX_H
#define TEXT_MAILBOX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { TEXT_CAP = 4096, N_TEXTS = 8 }; /* N_TEXTS - 2 threads may write at once */

struct text_mailbox { /* zeroed: empty */
    atomic_int full; /* number of the buffer with the text + 1; 0: there is none */
    struct {
        atomic_bool taken;
        char text[TEXT_CAP];
        uint64_t number;
    } buffers[N_TEXTS];
};

/* false: the text is too long, or all buffers are in use. [rt], any thread */
bool text_mailbox_put(struct text_mailbox *mailbox, const char *text, uint64_t number);

/* Moves the text to text[TEXT_CAP], and its number. false: there is none, and both are unchanged. [rt], one thread at a
 * time */
bool text_mailbox_take(struct text_mailbox *mailbox, char *text, uint64_t *number);

/* Drops the text, if there is one. [rt], any thread */
void text_mailbox_clear(struct text_mailbox *mailbox);

#endif
