/* text_request - passes a text and a number through a mailbox to a worker: a mask's path, or a backend's name. */
#ifndef TEXT_REQUEST_H
#define TEXT_REQUEST_H

#include "dsp/base/mailbox.h"

#include <stdint.h>
#include <string.h>

enum { TEXT_CAP = 4096 };

struct text_request {
    uint64_t number;
    char text[TEXT_CAP];
};

/* Puts a text, shorter than TEXT_CAP, and a number. [rt], any thread */
static inline void text_request_put(const struct mailboxes *mailbox, const char *text, uint64_t number)
{
    struct text_request request = {.number = number};
    memcpy(request.text, text, strlen(text));
    mailbox_put(mailbox, 0, &request, NULL);
}

#endif
