#include "axis.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

double axis_place(const struct axis *a, double value)
{
    double share = a->is_log ? log(value / a->from) / log(a->to / a->from) : (value - a->from) / (a->to - a->from);
    return a->start + share * (a->end - a->start);
}

void axis_choose_step(struct axis *a, int most)
{
    double least = (a->to - a->from) / most, power = pow(10, floor(log10(least)));
    const double tolerance = 1 + 1e-9;
    double times = least / power;
    a->step = power * (times <= tolerance ? 1 : times <= 2 * tolerance ? 2 : times <= 5 * tolerance ? 5 : 10);
}

void axis_widen(struct axis *a)
{
    const double tolerance = 1e-9;
    a->from = a->step * floor(a->from / a->step + tolerance);
    a->to = a->step * ceil(a->to / a->step - tolerance);
}

static int linear_marks(const struct axis *a, double *marks)
{
    int n = 0;
    for (double k = ceil(a->from / a->step - 1e-9); k * a->step <= a->to + 1e-9 * a->step && n < AXIS_MOST_MARKS; k++)
        marks[n++] = k * a->step;
    return n;
}

static int log_marks(const struct axis *a, double *marks)
{
    int n = 0;
    for (double power = pow(10, floor(log10(a->from))); power <= a->to; power *= 10)
        for (int times = 1; times < 10; times++)
            if (times * power >= a->from * 0.999 && times * power <= a->to * 1.001 && n < AXIS_MOST_MARKS)
                marks[n++] = times * power;
    return n;
}

int axis_marks(const struct axis *a, double *marks)
{
    return a->is_log ? log_marks(a, marks) : linear_marks(a, marks);
}

/* A hyphen is too short for a minus: U+2212. */
static void number(double value, int decimals, char *text, size_t cap)
{
    char digits[48];
    snprintf(digits, sizeof digits, "%.*f", decimals, fabs(value));
    bool is_zero = strspn(digits, "0.") == strlen(digits);
    snprintf(text, cap, "%s%s", value < 0 && !is_zero ? "\xe2\x88\x92" : "", digits);
}

void axis_label(const struct axis *a, double mark, char *text, size_t cap)
{
    *text = 0;
    if (!a->is_log) {
        int decimals = (int)fmax(0, -floor(log10(a->step) + 1e-9));
        if (decimals > 6)
            snprintf(text, cap, "%.3g", mark);
        else
            number(mark, decimals, text, cap);
        return;
    }
    double leading = mark / pow(10, floor(log10(mark) + 1e-9));
    if (fabs(leading - 1) < 0.01 || fabs(leading - 2) < 0.01 || fabs(leading - 5) < 0.01)
        snprintf(text, cap, mark >= 999.5 ? "%gk" : "%g", mark >= 999.5 ? mark / 1000 : mark);
}
