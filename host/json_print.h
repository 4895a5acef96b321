/* json_print - JSON on standard output, as --json prints it. */
#ifndef JSON_PRINT_H
#define JSON_PRINT_H

#include <jansson.h>

/* Call this before any function of jansson: json_print then notices that a part of its object found no memory. */
void json_start(void);

/* Prints an object with `digits` digits a number, and frees it. Returns the exit status. If a part of the object found
 * no memory, or object is NULL for that reason, this prints an error about subject instead. */
int json_print(json_t *object, int digits, const char *subject);

/* jansson takes UTF-8 only, and the name of a file may have any bytes: each byte that is not part of a character
 * becomes U+FFFD. NULL becomes null. */
json_t *json_text(const char *text);
json_t *json_number(double value);     /* NaN and infinity become null             */
json_t *json_known(int value);         /* null unless value > 0: it is not known   */

#endif
