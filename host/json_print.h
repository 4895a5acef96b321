/* json_print - an object of JSON on standard output, as --json has it. */
#ifndef JSON_PRINT_H
#define JSON_PRINT_H

#include <jansson.h>

/* Print it and give it up, numbers with so many digits. Returns the exit status: 1, and an error line about subject,
 * for NULL, which is what jansson makes where there is no memory or a text is not UTF-8. */
int json_print(json_t *object, int digits, const char *subject);

#endif
