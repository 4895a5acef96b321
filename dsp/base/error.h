/* error - the line of text with which a call of the library reports why it failed. */
#ifndef HALOCONV_ERROR_H
#define HALOCONV_ERROR_H

#include "dsp/haloconv.h"

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The buffer for the error line of a failing call. Calls inside the library have a struct reason * argument; NULL: no
 * line is wanted. Public calls have two arguments (why, cap) instead. */
struct reason {
    char *text;      /* NULL: no line is wanted */
    size_t capacity; /* bytes of text */
};

/* REASON makes a struct reason * from a text buffer and its size; REASON_TEXT makes both arguments from a reason. */
#define REASON(text, capacity) (&(struct reason){(text), (capacity)})
#define REASON_TEXT(why) (why) ? (why)->text : NULL, (why) ? (why)->capacity : 0

/* Writes an error line as printf does, with a decimal point in every locale and ? for control characters. Returns code.
 * [rt] if why is NULL */
int fail(int code, struct reason *why, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Replaces each control character by ?: a text may quote a stranger's file and go to a terminal. */
void text_clean(char *text);

/* The ending of a noun after a number, as in "%d tap%s". */
#define PLURAL(n) ((n) == 1 ? "" : "s")

#ifdef __cplusplus
}
#endif
#endif
