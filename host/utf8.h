/* utf8 - where a character of UTF-8 ends. The name of a file may have any bytes. */
#ifndef UTF8_H
#define UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Returns the length in bytes of the character at `at` by UTF-8 (RFC 3629); 0: the bytes are not a character. */
static inline size_t utf8_bytes(const unsigned char *at)
{
    size_t n = *at < 0x80 ? 1 : *at >= 0xc2 && *at < 0xe0 ? 2 : *at >= 0xe0 && *at < 0xf0 ? 3 : *at >= 0xf0 ? 4 : 0;
    for (size_t i = 1; i < n; i++)
        if ((at[i] & 0xc0) != 0x80) return 0; /* also the final 0 */
    bool is_overlong = (at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xf0 && at[1] < 0x90);
    bool is_surrogate = at[0] == 0xed && at[1] >= 0xa0;
    bool is_beyond = at[0] > 0xf4 || (at[0] == 0xf4 && at[1] >= 0x90); /* U+10FFFF */
    return is_overlong || is_surrogate || is_beyond ? 0 : n;
}

#define UTF8_REPLACEMENT "\xef\xbf\xbd" /* U+FFFD stands for a byte that is not part of a character */

#endif
