#include "uri.h"

#include <string.h>
#include <strings.h>

static int hex(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

static bool line_path(const char *text, char *path, size_t cap)
{
    size_t n = 0;
    const bool is_uri = strncasecmp(text, "file:", 5) == 0;
    if (is_uri) text += 5;
    if (is_uri && strncmp(text, "//", 2) == 0) text += 2 + strcspn(text + 2, "/\r\n");
    while (*text && *text != '\r' && *text != '\n' && n + 1 < cap) {
        const int high = is_uri && text[0] == '%' ? hex(text[1]) : -1, low = high >= 0 ? hex(text[2]) : -1;
        path[n++] = (char)(low >= 0 ? 16 * high + low : *text);
        if (path[n - 1] == '\0') return false;
        text += low >= 0 ? 3 : 1;
    }
    path[n] = '\0';
    return n > 0 && path[0] == '/' && (!*text || *text == '\r' || *text == '\n');
}

bool uri_path(const char *text, char *path, size_t cap)
{
    while (*text == '#') text += strcspn(text, "\n"), text += *text == '\n'; /* comments */
    return line_path(text, path, cap);
}
