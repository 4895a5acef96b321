/* json_print - JSON on standard output, as --json prints it. */
#ifndef JSON_PRINT_H
#define JSON_PRINT_H

#include <jansson.h>

/* Call this before any function of jansson: json_print then notices that a part of its object found no memory. */
void json_start(void);

/* Print an object with `digits` digits a number, and free it. Returns the exit status. object may be NULL, as jansson
 * returns it without memory: then an error line about subject is printed. */
int json_print(json_t *object, int digits, const char *subject);

/* A name from outside, such as that of a file, need not be UTF-8; jansson takes nothing else. Each byte that is not part
 * of a character becomes U+FFFD. NULL becomes null. */
json_t *json_text(const char *text);
json_t *json_number(double value);     /* NaN and infinity become null              */
json_t *json_known(int value);         /* null unless value > 0: it is not known     */

#endif
