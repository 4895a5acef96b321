/* utf16 - converts texts that an editor on Windows saved as "Unicode" to UTF-8. */
#ifndef HALOCONV_UTF16_H
#define HALOCONV_UTF16_H

#include <stdbool.h>
#include <stddef.h>

/* Writes a code point up to U+10FFFF in UTF-8, at most four bytes. Returns the end. */
char *utf8_put(char *to, unsigned code);

/* Does the text begin with a byte order mark of UTF-16? */
bool utf16_is_text(const char *text, size_t bytes);

/* Converts a text to UTF-8 with a final 0, from malloc. A surrogate without a partner becomes U+FFFD. NULL: no
 * memory. */
char *utf16_to_utf8(const char *text, size_t bytes, size_t *made_bytes);

#endif
