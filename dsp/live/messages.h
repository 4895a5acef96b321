/* messages - what a session reports to its host: lines of text, and the results of requests. */
#ifndef MESSAGES_H
#define MESSAGES_H

#include "haloconv_live.h"
#include "text_request.h"

enum { MESSAGE_CAP = 1024 + TEXT_CAP }; /* bytes of a message, which may contain a path */

/* Sends config.say a line, with a decimal point in every locale and ? for control characters. [setup] */
void live_report(const hc_live_config *config, int level, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Gives config.answer the result of a request. number: that of the request; 0: it has none. [setup] */
void live_answer(const hc_live_config *config, uint64_t number, int error, const char *why);

#endif
