/* json_print - JSON on standard output, as --json prints it. */
#ifndef JSON_PRINT_H
#define JSON_PRINT_H

#include <jansson.h>
#include <stdbool.h>

/* Call this before any function of jansson: json_print then detects that a value of its object found no memory. */
void json_start(void);

/* Has a value or a text of JSON found no memory since json_start? It may be incomplete then, without another sign. */
bool json_lacks_memory(void);

/* Prints an object with `digits` digits a number, and frees it. Returns the exit status. If a value of the object found
 * no memory, or object is NULL for that reason, prints an error about subject instead. */
int json_print(json_t *object, int digits, const char *subject);

/* jansson accepts UTF-8 only, and the name of a file may have any bytes: each byte that does not belong to a character
 * becomes U+FFFD. NULL becomes null. */
json_t *json_text(const char *text);
json_t *json_number(double value);     /* NaN and infinity become null             */
json_t *json_known(int value);         /* null if value <= 0, which means unknown  */

#endif
