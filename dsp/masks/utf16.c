#include "utf16.h"

#include <stdlib.h>
#include <string.h>

char *utf8_put(char *to, unsigned code)
{
    static const unsigned char lead[] = {0, 0xc0, 0xe0, 0xf0};
    int n_more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    *to++ = (char)(lead[n_more] | code >> 6 * n_more);
    while (n_more-- > 0) *to++ = (char)(0x80 | (code >> 6 * n_more & 0x3f));
    return to;
}

bool utf16_is_text(const char *text, size_t bytes)
{
    return bytes >= 2 && (memcmp(text, "\xff\xfe", 2) == 0 || memcmp(text, "\xfe\xff", 2) == 0);
}

static unsigned unit_at(const char *text, size_t i, bool is_big)
{
    const unsigned char *at = (const unsigned char *)text + 2 * i;
    return is_big ? (unsigned)at[0] << 8 | at[1] : (unsigned)at[1] << 8 | at[0];
}

char *utf16_to_utf8(const char *text, size_t bytes, size_t *made_bytes)
{
    size_t n = bytes / 2;
    bool is_big = (unsigned char)text[0] == 0xfe;
    char *made = malloc(3 * n + 1), *to = made; /* at most 3 bytes for a unit: a pair makes 4 */
    if (!made) return NULL;
    for (size_t i = 1; i < n; i++) {
        unsigned code = unit_at(text, i, is_big), next = i + 1 < n ? unit_at(text, i + 1, is_big) : 0;
        if (code >= 0xd800 && code < 0xdc00 && next >= 0xdc00 && next < 0xe000) {
            code = 0x10000 + ((code - 0xd800) << 10) + (next - 0xdc00);
            i++;
        }
        to = utf8_put(to, code >= 0xd800 && code < 0xe000 ? 0xfffd : code);
    }
    *to = 0;
    *made_bytes = (size_t)(to - made);
    return made;
}
