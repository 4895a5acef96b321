/* control_text - values of controls as texts, and back. */
#include "controls.h"
#include "dsp/base/c_locale.h"
#include "dsp/base/number.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static const char *const units[N_UNITS] = {
    [UNIT_NONE] = "", [UNIT_DEGREE] = "°",     [UNIT_M] = "m",      [UNIT_DB] = "dB",
    [UNIT_MS] = "ms", [UNIT_FRAME] = "frames", [UNIT_PERCENT] = "%"};
static const char *const switch_labels[] = {"Off", "On", NULL};

const char *control_unit(int control)
{
    return units[controls[control].unit];
}

/* Returns the labels of a control, or NULL: it has numbers. */
static const char *const *labels_of(const struct control_spec *c)
{
    return c->kind == CONTROL_TOGGLE ? switch_labels : c->labels;
}

float control_limit(int control, double value)
{
    const struct control_spec *c = &controls[control];
    if (!(value >= (double)c->min)) return c->min; /* NaN too */
    if (value > (double)c->max) return c->max;
    return (float)(c->kind >= CONTROL_INTEGER ? rint(value) : value);
}

void control_text(int control, double value, char *text, size_t cap)
{
    const struct control_spec *c = &controls[control];
    double x = (double)control_limit(control, value);
    const char *unit = units[c->unit], *const *labels = labels_of(c);
    if (fabs(x) < 0.05 && c->kind != CONTROL_LOGARITHMIC) x = 0; /* no "-0.0" */
    const char *blank = *unit && c->unit != UNIT_DEGREE ? " " : "";
    bool is_off = (c->kind == CONTROL_LIMIT && x > (double)c->max - 0.06) || /* no level is below it: nothing is cut */
                  (c->kind == CONTROL_GAIN && x < (double)c->min + 0.06);    /* else text, value, text would differ */
    locale_t was = c_locale_enter();
    if (labels)
        snprintf(text, cap, "%s", labels[(int)x]);
    else if (is_off)
        snprintf(text, cap, "Off");
    else
        snprintf(text, cap, "%.*f%s%s",
                 c->kind == CONTROL_INTEGER       ? 0
                 : c->kind == CONTROL_LOGARITHMIC ? 2
                                                  : 1,
                 x, blank, unit);
    c_locale_leave(was);
}

bool control_read(int control, const char *text, double *value)
{
    const struct control_spec *c = &controls[control];
    const char *const *labels = labels_of(c);
    text += strspn(text, " \t");
    for (int i = 0; labels && labels[i]; i++)
        if (strcasecmp(text, labels[i]) == 0) return *value = i, true;
    if ((c->kind == CONTROL_LIMIT || c->kind == CONTROL_GAIN) && strcasecmp(text, "Off") == 0)
        return *value = (double)(c->kind == CONTROL_LIMIT ? c->max : c->min), true;
    double x;
    const char *end = number_read(text, -INFINITY, INFINITY, &x);
    if (!end) return false;
    end += strspn(end, " \t");
    if (*end && strcasecmp(end, units[c->unit]) != 0) return false;
    *value = (double)control_limit(control, x);
    return true;
}
