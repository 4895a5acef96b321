/* The range of the values that a panel shows. */
#include "panel.h"

#include <math.h>
#include <stdlib.h>

static int order(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The range of the values of a panel's traces, without the given share at each end; unchanged if there are none. false:
 * no memory. */
static bool find_range(const struct trace *traces, int n, double share, double *from, double *to)
{
    size_t n_values = 0, all = 0;
    for (int i = 0; i < n; i++) all += traces[i].n;
    double *values = malloc((all + 1) * sizeof *values);
    for (int i = 0; values && i < n; i++)
        for (size_t k = 0; k < traces[i].n; k++)
            if (!isnan(traces[i].points[k].y)) values[n_values++] = traces[i].points[k].y;
    if (n_values > 0) {
        size_t off = (size_t)(share * (double)n_values);
        qsort(values, n_values, sizeof *values, order);
        *from = values[off];
        *to = values[n_values - 1 - off];
    }
    free(values);
    return values != NULL;
}

static void set_levels(struct axis *y, double low, double high, double span_db)
{
    const double least_db = 10;
    y->to = high + 1;
    y->from = fmax(low - 1, y->to - span_db);
    if (y->to - y->from < least_db) y->from -= (least_db - (y->to - y->from)) / 2, y->to = y->from + least_db;
}

bool panel_set_values(struct panel *p, const struct trace *traces, int n)
{
    struct axis *y = &p->y;
    bool is_delay = p->kind == PLOT_GROUP_DELAY;
    double low = 0, high = 0;
    bool good = find_range(traces, n, is_delay ? 0.02 : 0, &low, &high);
    switch (p->kind) {
    case PLOT_MAGNITUDE:
    case PLOT_IMPULSE_DB:
        set_levels(y, low, high, p->kind == PLOT_MAGNITUDE ? 120 : 100);
        break;
    case PLOT_PHASE:
        *y = (struct axis){-180, 180, y->start, y->end, 90, false};
        return good;
    case PLOT_DECAY:
        y->from = -80, y->to = 0;
        break;
    default: {
        double margin = is_delay ? fmax(0.1 * (high - low), fmax(0.05 * fabs(high), 0.01)) : 0.04 * (high - low);
        if (high - low <= 0 && !is_delay) margin = 1; /* silence */
        y->from = low - margin;
        y->to = high + margin;
    }
    }
    axis_choose_step(y, 6);
    axis_widen(y);
    return good;
}
