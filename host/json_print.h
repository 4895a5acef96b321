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

/* Names that are read back byte by byte. A byte xx that does not belong to a character is \udcxx in the line, half of a
 * surrogate pair, as Python's surrogateescape (PEP 383) has it. jansson reads and writes no such half: its texts have a
 * 0 and the digits xx instead, and no name has a 0. */
json_t *json_name(const char *text);   /* write it by json_dumps and json_names_write             */
void json_names_write(char *line);     /* replaces the zeros of a line that json_dumps has made   */
json_t *json_names_read(const char *line, size_t flags, json_error_t *error); /* as json_loads    */
const char *json_name_value(json_t *string); /* the bytes of a string of json_names_read; call it once */

json_t *json_number(double value);     /* NaN and infinity become null             */
json_t *json_db(double gain);          /* a linear gain in dB; null if it is not above 0   */
json_t *json_known(int value);         /* null if value <= 0, which means unknown  */

#endif
