#include "plot_option.h"

#include "dsp/base/number.h"
#include "host/message.h"
#include "svg.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool plot_option_path(const struct option_use *use, void *to)
{
    char why[MESSAGE_CAP];
    if (!picture_check(use->text, why, sizeof why))
        return option_refuse(use, "%s", why + strlen(use->text) + strlen(": ")); /* option_refuse adds the value */
    return option_text(use, to);
}

bool plot_option_panels(const struct option_use *use, void *to)
{
    unsigned panels = 0;
    const char *name = use->text;
    for (;;) {
        size_t n = strcspn(name, ",");
        int kind = 0;
        while (kind < PLOT_PANELS &&
               (strlen(plot_panel_names[kind]) != n || memcmp(plot_panel_names[kind], name, n) != 0))
            kind++;
        if (n == 3 && memcmp(name, "all", n) == 0)
            panels = (1u << PLOT_WATERFALL) - 1; /* a waterfall shows the data of a spectrogram */
        else if (kind < PLOT_PANELS)
            panels |= 1u << kind;
        else
            return option_refuse(use, "needs \"all\", or names with commas between: impulse, impulse-db, step, "
                                      "magnitude, phase, group-delay, decay, spectrogram, waterfall");
        if (name[n] == 0) break;
        name += n + 1;
    }
    *(unsigned *)to = panels;
    return true;
}

bool plot_option_smooth(const struct option_use *use, void *to)
{
    enum { NARROWEST = 48 };
    char *end;
    double *octaves = to;
    if (strcmp(use->text, "off") == 0) {
        *octaves = 0;
        return true;
    }
    long n = strncmp(use->text, "1/", 2) == 0 ? strtol(use->text + 2, &end, 10) : 0;
    if (n < 1 || n > NARROWEST || *end) return option_refuse(use, "needs 1/N with N from 1 to %d, or off", NARROWEST);
    *octaves = 1.0 / (double)n;
    return true;
}

bool plot_option_pairs(const struct option_use *use, void *to)
{
    struct plot_pairs *pairs = to;
    int used = 0;
    pairs->n = 0;
    for (const char *at = use->text;; at += used + 1) {
        struct plot_pair pair;
        if (sscanf(at, "%6d:%6d%n", &pair.in, &pair.out, &used) != 2 || pair.in < 1 || pair.out < 1 ||
            (at[used] && at[used] != ','))
            return option_refuse(use, "needs IN:OUT, channels from 1, with commas between pairs");
        if (pairs->n == PLOT_MAX_CURVES) return option_refuse(use, "needs %d pairs at most", PLOT_MAX_CURVES);
        pairs->pair[pairs->n++] = (struct plot_pair){pair.in - 1, pair.out - 1};
        if (!at[used]) return true;
    }
}

bool plot_option_range(const struct option_use *use, void *to)
{
    double db[2];
    if (number_list_read(use->text, db, 2) != 2 ||
        !(fabs(db[0]) <= 1000 && fabs(db[1]) <= 1000 && db[1] - db[0] >= 0.1))
        return option_refuse(use, "needs two levels from -1000 to 1000 dB with a comma between, the lower one first");
    memcpy(to, db, sizeof db);
    return true;
}

bool plot_option_frequencies(const struct option_use *use, void *to)
{
    double hz[2];
    if (number_list_read(use->text, hz, 2) != 2 || !(hz[0] >= 1 && 2 * hz[0] <= hz[1] && hz[1] <= 1e6))
        return option_refuse(use, "needs two frequencies from 1 to 1000000 Hz with a comma between, an octave apart or "
                                  "more");
    memcpy(to, hz, sizeof hz);
    return true;
}
