#include "axis.h"

#include <math.h>
#include <stdio.h>

static const double tolerance = 1e-9; /* for rounded values, in steps or as a share */

double axis_position(const struct axis *a, double value)
{
    double share = a->is_log ? log(value / a->from) / log(a->to / a->from) : (value - a->from) / (a->to - a->from);
    return a->start + share * (a->end - a->start);
}

void axis_choose_step(struct axis *a, int max)
{
    double min = (a->to - a->from) / max, power = pow(10, floor(log10(min)));
    double times = min / power / (1 + tolerance);
    a->step = power * (times <= 1 ? 1 : times <= 2 ? 2 : times <= 5 ? 5 : 10);
}

void axis_widen(struct axis *a)
{
    a->from = a->step * floor(a->from / a->step + tolerance);
    a->to = a->step * ceil(a->to / a->step - tolerance);
}

static int linear_marks(const struct axis *a, double *marks)
{
    int n = 0;
    if (a->step <= 0) return 0;
    for (double k = ceil(a->from / a->step - tolerance);
         k * a->step <= a->to + tolerance * a->step && n < AXIS_MAX_MARKS; k++)
        marks[n++] = k * a->step;
    return n;
}

static int log_marks(const struct axis *a, double *marks)
{
    int n = 0;
    for (int exponent = (int)floor(log10(a->from)); pow(10, exponent) <= a->to; exponent++)
        for (int times = 1; times < 10; times++) {
            double mark = times * pow(10, exponent);
            if (mark >= a->from * 0.999 && mark <= a->to * 1.001 && n < AXIS_MAX_MARKS) marks[n++] = mark;
        }
    return n;
}

int axis_marks(const struct axis *a, double *marks)
{
    return a->is_log ? log_marks(a, marks) : linear_marks(a, marks);
}

#define MINUS "\xe2\x88\x92" /* U+2212: a hyphen is too short */

static void print_decimal(double value, int decimals, char *text, size_t cap)
{
    char digits[48];
    snprintf(digits, sizeof digits, "%.*f", decimals, fabs(value));
    snprintf(text, cap, "%s%s", value < 0 ? MINUS : "", digits);
}

/* "2.5e-7" */
static void power_of_ten(double value, char *text, size_t cap)
{
    int exponent = (int)floor(log10(fabs(value)) + tolerance);
    double leading = round(1000 * fabs(value) / pow(10, exponent)) / 1000;
    snprintf(text, cap, "%s%ge%d", value < 0 ? MINUS : "", leading, exponent);
}

static void linear_label(const struct axis *a, double mark, char *text, size_t cap)
{
    const double scale = a->in_ms ? 1000 : 1;
    int decimals = (int)fmax(0, -floor(log10(a->step * scale) + tolerance));
    bool is_zero = fabs(mark) < a->step / 1000;
    if (is_zero)
        print_decimal(0, decimals > 5 ? 0 : decimals, text, cap);
    else if (decimals > 5 || fmax(fabs(a->from), fabs(a->to)) * scale >= 1e6)
        power_of_ten(mark * scale, text, cap);
    else
        print_decimal(mark * scale, decimals, text, cap);
}

void axis_label(const struct axis *a, double mark, char *text, size_t cap)
{
    *text = 0;
    if (!a->is_log) {
        linear_label(a, mark, text, cap);
        return;
    }
    double leading = mark / pow(10, floor(log10(mark) + tolerance));
    bool all_fit = a->to <= 5 * a->from;
    if (all_fit || fabs(leading - 1) < 0.01 || fabs(leading - 2) < 0.01 || fabs(leading - 5) < 0.01)
        snprintf(text, cap, mark >= 999.5 ? "%gk" : "%g", mark >= 999.5 ? mark / 1000 : mark);
}
