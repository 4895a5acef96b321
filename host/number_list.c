#include "number_list.h"

#include <stdlib.h>

int number_list_read(const char *text, double *list, int most)
{
    char *end;
    for (int n = 0; n < most; text = end + 1) {
        list[n++] = strtod(text, &end);
        if (end == text || (*end && *end != ',')) break;
        if (!*end) return n;
    }
    return 0;
}
