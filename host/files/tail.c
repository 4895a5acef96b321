#include "tail.h"

#include <string.h>

bool tail_parse(const char *text, enum tail *tail)
{
    static const char *const names[] = {"full", "same", "centre"};
    for (int i = 0; i < 3; i++)
        if (strcmp(text, names[i]) == 0) {
            *tail = (enum tail)i;
            return true;
        }
    return false;
}

int tail_skip(enum tail tail, int n_taps)
{
    return tail == TAIL_CENTRE ? (n_taps - 1) / 2 : 0;
}

int tail_extra(enum tail tail, int n_taps)
{
    return tail == TAIL_FULL ? n_taps - 1 : 0;
}

int tail_taps(const hc_route *routes, int n)
{
    int longest = 1;
    for (int i = 0; i < n; i++) {
        int length = routes[i].delay + routes[i].n_taps;
        if (length > longest) longest = length;
    }
    return longest;
}
