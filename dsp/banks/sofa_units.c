#include "sofa_units.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

/* Names are in the singular: a final s in a file is ignored. */
static const struct sofa_unit known[] = {
    {"degree", SOFA_ANGLE, 1},
    {"deg", SOFA_ANGLE, 1},
    {"\xc2\xb0", SOFA_ANGLE, 1},
    {"radian", SOFA_ANGLE, 180 / M_PI},
    {"rad", SOFA_ANGLE, 180 / M_PI},
    {"metre", SOFA_LENGTH, 1},
    {"meter", SOFA_LENGTH, 1},
    {"m", SOFA_LENGTH, 1},
    {"centimetre", SOFA_LENGTH, 1e-2},
    {"centimeter", SOFA_LENGTH, 1e-2},
    {"cm", SOFA_LENGTH, 1e-2},
    {"millimetre", SOFA_LENGTH, 1e-3},
    {"millimeter", SOFA_LENGTH, 1e-3},
    {"mm", SOFA_LENGTH, 1e-3},
    {"hertz", SOFA_FREQUENCY, 1},
    {"hz", SOFA_FREQUENCY, 1},
    {"kilohertz", SOFA_FREQUENCY, 1e3},
    {"khz", SOFA_FREQUENCY, 1e3},
    {"second", SOFA_TIME, 1},
    {"sec", SOFA_TIME, 1},
    {"s", SOFA_TIME, 1},
    {"millisecond", SOFA_TIME, 1e-3},
    {"ms", SOFA_TIME, 1e-3},
    {"microsecond", SOFA_TIME, 1e-6},
    {"us", SOFA_TIME, 1e-6},
    {"sample", SOFA_FRAMES, 1},
    {"frame", SOFA_FRAMES, 1},
};

/* Finds the unit name[length], which has no blanks around it. NULL: unknown. */
static const struct sofa_unit *sofa_unit_find(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        size_t n = strlen(known[i].name);
        bool is_plural = length == n + 1 && n > 2 && (name[n] | 32) == 's';
        if ((length == n || is_plural) && strncasecmp(name, known[i].name, n) == 0) return &known[i];
    }
    return NULL;
}

int sofa_units_read(const char *text, const struct sofa_unit *units[3])
{
    int n = 0;
    text += strspn(text, " ");
    while (*text) {
        size_t length = strcspn(text, ","), end = length;
        while (end > 0 && text[end - 1] == ' ') end--;
        if (n == 3 || !(units[n++] = sofa_unit_find(text, end))) return -1;
        text += length;
        if (*text == ',') text += 1 + strspn(text + 1, " ");
    }
    return n;
}
