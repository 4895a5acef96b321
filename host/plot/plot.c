#include "plot.h"

#include "panel.h"
#include "host/message.h"
#include "svg.h"
#include "spectrogram.h"
#include "trace.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const plot_panel_names[PLOT_PANELS] = {"impulse",     "impulse-db", "step",        "magnitude", "phase",
                                                   "group-delay", "decay",      "spectrogram", "waterfall"};

struct page {
    const struct plot_curve *curves;
    int n;
    struct plot_settings settings;
    struct drawing drawing;
    double top; /* upper edge of the next panel */
    int highest_rate, lowest_rate;
    struct trace *traces[PLOT_PANELS]; /* [n] */
    struct decay_lines *lines;         /* [n] */
};

static bool is_over_frequency(enum plot_panel kind)
{
    return kind == PLOT_MAGNITUDE || kind == PLOT_PHASE || kind == PLOT_GROUP_DELAY || kind == PLOT_WATERFALL;
}

/* ---- the choice of panels -------------------------------------------------------------------------- */

/* A room sounds longer than a filter. */
static bool is_room(const struct plot_curve *curve)
{
    const double longest_filter_s = 0.15;
    int first, end;
    audible_frames(curve, -60, &first, &end);
    return end - largest_frame(curve) > longest_filter_s * curve->rate;
}

static unsigned usual_panels(const struct page *page)
{
    for (int i = 0; i < page->n; i++)
        if (is_room(&page->curves[i]))
            return 1u << PLOT_IMPULSE_DB | 1u << PLOT_MAGNITUDE | 1u << PLOT_DECAY |
                   (page->n == 1 ? 1u << PLOT_SPECTROGRAM : 0);
    return 1u << PLOT_IMPULSE | 1u << PLOT_STEP | 1u << PLOT_MAGNITUDE | 1u << PLOT_PHASE | 1u << PLOT_GROUP_DELAY;
}

/* ---- the axes ------------------------------------------------------------------------------------- */

static void set_frequencies(const struct page *page, double highest_hz, struct axis *axis)
{
    const double lowest_hz = 20, *given = page->settings.range_hz;
    double half = page->highest_rate / 2.0;
    bool is_given = given[0] < given[1];
    axis->is_log = true;
    axis->from = is_given ? given[0] : fmin(lowest_hz, half / 100);
    axis->to = is_given ? given[1] : fmin(highest_hz, half);
}

/* Sets the axis to the time in which any of the curves is audible: down to -60 dB for impulse and step, with a margin,
 * and down to -100 dB for levels, from 0 on. */
static void set_time_axis(const struct page *page, bool is_level, struct axis *axis)
{
    const double min_frames = 16, shortest_in_s = 2;
    double from = INFINITY, to = 0;
    for (int i = 0; i < page->n; i++) {
        int first, end;
        audible_frames(&page->curves[i], is_level ? -100 : -60, &first, &end);
        from = fmin(from, (double)first / page->curves[i].rate);
        to = fmax(to, (double)end / page->curves[i].rate);
    }
    to = fmax(to, from + min_frames / page->lowest_rate);
    double margin = is_level ? 0 : 0.06 * (to - from);
    axis->from = is_level ? 0 : from - margin;
    axis->to = to + margin;
    axis->in_ms = axis->to - axis->from < shortest_in_s;
    axis_choose_step(axis, 8);
}

/* ---- the page ------------------------------------------------------------------------------------- */

/* Sets the title. group: NULL if the page has one group. */
static void set_title(const struct page *page, const char *group, struct diagram *p)
{
    static const char *const titles[PLOT_PANELS] = {"Impulse response",
                                                    "Impulse response (dB)",
                                                    "Step response",
                                                    "Magnitude (dB)",
                                                    "Phase without delay (degrees)",
                                                    "Group delay (ms)",
                                                    "Energy decay (dB)",
                                                    "Spectrogram (Hz)",
                                                    "Waterfall (ms)"};
    char smoothing[48] = "";
    double octaves = page->settings.octaves;
    if (is_over_frequency(p->kind) && octaves > 0)
        snprintf(smoothing, sizeof smoothing, ", 1/%g octave", round(1000 / octaves) / 1000);
    snprintf(p->title, sizeof p->title, "%s%s%s%s", titles[p->kind], smoothing, group ? ", " : "", group ? group : "");
}

static void set_x(const struct page *page, struct diagram *p)
{
    if (is_over_frequency(p->kind)) {
        set_frequencies(page, 20000, &p->x);
        p->x_label = "Frequency (Hz)";
        return;
    }
    set_time_axis(page, p->kind != PLOT_IMPULSE && p->kind != PLOT_STEP, &p->x);
    p->x_label = p->x.in_ms ? "Time (ms)" : "Time (s)";
}

static bool trace_curve(struct page *page, const struct diagram *panels, unsigned wanted, int curve)
{
    const struct plot_curve *c = &page->curves[curve];
    struct trace *over_frequency[PLOT_PANELS] = {0};
    const struct axis *frequencies = NULL;
    bool good = true;
    for (int kind = 0; good && kind < PLOT_SPECTROGRAM; kind++) {
        if (!(wanted >> kind & 1)) continue;
        struct trace *trace = &page->traces[kind][curve];
        if (is_over_frequency(kind)) {
            over_frequency[kind] = trace;
            frequencies = &panels[kind].x;
        } else if (kind == PLOT_DECAY) {
            good = decay_trace(c, &panels[kind].x, trace, &page->lines[curve]);
        } else {
            time_trace(c, kind, &panels[kind].x, trace);
        }
    }
    if (good && frequencies)
        good = frequency_traces(c, frequencies, page->settings.octaves, over_frequency[PLOT_MAGNITUDE],
                                over_frequency[PLOT_PHASE], over_frequency[PLOT_GROUP_DELAY]);
    for (int kind = 0; kind < PLOT_PANELS; kind++) good = good && !page->traces[kind][curve].failed;
    return good;
}

static void draw_legend(struct page *page)
{
    const double line = 30;
    struct drawing *d = &page->drawing;
    drawing_group(d, "legend", NULL);
    unsigned done = 0;
    for (int i = 0; i < page->n; i++) {
        double y = page->top + line / 2, name_x = PANEL_LEFT + 64;
        const struct plot_curve *curve = &page->curves[i];
        if (done >> curve->ink & 1) continue;
        done |= 1u << curve->ink;
        drawing_line(d, panel_ink(curve->ink), PANEL_LEFT, y, PANEL_LEFT + 52, y);
        drawing_text(d, name_x, y + 0.35 * TEXT_SIZE, TEXT_SIZE, TEXT_START, PANEL_RIGHT - name_x, curve->name);
        page->top += line;
    }
    drawing_group_end(d);
    page->top += 6;
}

static bool same_group(const struct plot_curve *a, const struct plot_curve *b)
{
    return a->group == b->group || (a->group && b->group && strcmp(a->group, b->group) == 0);
}

/* Draws the panel of the group of a curve. */
static void draw_panel(struct page *page, struct diagram *p, int curve)
{
    struct drawing *d = &page->drawing;
    const struct decay_lines *lines[PLOT_MAX_CURVES];
    int n_lines = 0;
    char name[sizeof p->title + 32];
    const char *group = page->curves[curve].group;
    snprintf(name, sizeof name, "%s%s%s", plot_panel_names[p->kind], group ? ", " : "", group ? group : "");
    set_title(page, group, p);
    panel_put(p, page->top);
    drawing_group(d, name, NULL);
    panel_draw_grid(d, p);
    panel_draw_frame(d, p);
    panel_clip(d, p);
    for (int i = curve; i < page->n; i++) {
        const struct plot_curve *c = &page->curves[i];
        if (!same_group(c, &page->curves[curve])) continue;
        panel_draw_trace(d, p, panel_ink(c->ink), c->name, &page->traces[p->kind][i]);
        if (n_lines < PLOT_MAX_CURVES) lines[n_lines++] = &page->lines[i];
    }
    panel_clip_end(d);
    if (p->kind == PLOT_DECAY) decay_draw_lines(d, p, lines, n_lines);
    drawing_group_end(d);
    page->top += PANEL_ABOVE + PANEL_HEIGHT + PANEL_BELOW;
}

/* Draws the panels of all groups, with one scale. */
static void draw_panels(struct page *page, struct diagram *p)
{
    if (!panel_set_values(p, page->traces[p->kind], page->n, page->settings.range_db)) page->drawing.failed = true;
    for (int i = 0, first; i < page->n; i++) {
        for (first = 0; !same_group(&page->curves[first], &page->curves[i]);) first++;
        if (first == i) draw_panel(page, p, i);
    }
}

/* Draws the map of a curve above its time axis. */
static bool draw_spectrogram(struct page *page, struct diagram *p, const struct plot_curve *curve)
{
    struct drawing *d = &page->drawing;
    set_frequencies(page, INFINITY, &p->y);
    double longest = (double)SPECTROGRAM_MAX_FRAMES / curve->rate;
    p->x.to = fmin(p->x.to, longest);
    axis_choose_step(&p->x, 8);
    panel_clip(d, p);
    bool good = spectrogram_draw(d, p, curve);
    panel_clip_end(d);
    panel_draw_frame(d, p);
    spectrogram_draw_scale(d, p);
    return good;
}

/* Draws a spectrogram or waterfall, the panel of one curve. */
static bool draw_alone(struct page *page, struct diagram p, const struct plot_curve *curve)
{
    struct drawing *d = &page->drawing;
    bool is_waterfall = p.kind == PLOT_WATERFALL;
    double height = is_waterfall ? WATERFALL_HEIGHT : PANEL_HEIGHT, sample_x;
    set_title(page, curve->group, &p);
    p.title_width = is_waterfall ? 620 : 372; /* the scale of a spectrogram is beside the title */
    panel_put(&p, page->top);
    p.y.start = p.y.end + height;
    drawing_group(d, plot_panel_names[p.kind], NULL);
    bool good = is_waterfall ? waterfall_draw(d, &p, curve, &page->settings) : draw_spectrogram(page, &p, curve);
    sample_x = PANEL_LEFT + p.title_width + 6;
    if (page->n > 1) drawing_line(d, panel_ink(curve->ink), sample_x, p.y.end - 20, sample_x + 44, p.y.end - 20);
    drawing_group_end(d);
    page->top += PANEL_ABOVE + height + PANEL_BELOW;
    return good;
}

/* Draws the whole page. false: no memory. */
static bool draw_page(struct page *page)
{
    unsigned wanted = page->settings.panels ? page->settings.panels : usual_panels(page);
    struct diagram panels[PLOT_PANELS] = {0};
    bool good = true;
    for (int kind = 0; kind < PLOT_PANELS; kind++) {
        if (!(wanted >> kind & 1)) continue; /* set_x reads h, which curves of powers lack */
        panels[kind].kind = kind;
        set_x(page, &panels[kind]);
        panel_put(&panels[kind], 0);
    }
    for (int i = 0; good && i < page->n; i++) good = trace_curve(page, panels, wanted, i);
    page->top = 14;
    draw_legend(page);
    for (int kind = 0; good && kind < PLOT_SPECTROGRAM; kind++)
        if (wanted >> kind & 1) draw_panels(page, &panels[kind]);
    for (int kind = PLOT_SPECTROGRAM; kind < PLOT_PANELS; kind++)
        for (int i = 0; good && (wanted >> kind & 1) && i < page->n; i++)
            good = draw_alone(page, panels[kind], &page->curves[i]);
    page->drawing.height = page->top;
    return good && !page->drawing.failed;
}

bool plot_write(const char *path, const struct plot_curve *curves, int n, const struct plot_settings *settings,
                char *why, size_t cap)
{
    struct page *page = calloc(1, sizeof *page);
    if (!page) return message_write(why, cap, "%s: no memory; free some memory", path);
    *page = (struct page){.curves = curves, .n = n, .settings = *settings, .lowest_rate = curves->rate};
    page->lines = calloc((size_t)n, sizeof *page->lines);
    bool good = page->lines != NULL;
    for (int kind = 0; kind < PLOT_PANELS; kind++)
        good = (page->traces[kind] = calloc((size_t)n, sizeof **page->traces)) && good;
    for (int i = 0; i < n; i++) {
        if (curves[i].rate > page->highest_rate) page->highest_rate = curves[i].rate;
        if (curves[i].rate < page->lowest_rate) page->lowest_rate = curves[i].rate;
    }
    good = good && draw_page(page) ? picture_write(path, settings->to, &page->drawing, why, cap)
                                   : message_write(why, cap, "%s: no memory; plot fewer curves", path);
    for (int kind = 0; kind < PLOT_PANELS; kind++) {
        for (int i = 0; page->traces[kind] && i < n; i++) trace_free(&page->traces[kind][i]);
        free(page->traces[kind]);
    }
    free(page->lines);
    drawing_free(&page->drawing);
    free(page);
    return good;
}

bool plot_powers(const char *path, const struct plot_powers *p, const struct plot_settings *settings, char *why,
                 size_t cap)
{
    int n = p->n_groups * p->n_names;
    char(*groups)[48] = calloc((size_t)p->n_groups, sizeof *groups);
    struct plot_curve *curves = calloc((size_t)n, sizeof *curves);
    struct plot_settings own = *settings;
    bool good = groups && curves;
    if (!good) message_write(why, cap, "%s: no memory; free some memory", path);
    own.panels = 1 << PLOT_MAGNITUDE;
    own.octaves = p->octaves;
    for (int i = 0; good && i < n; i++) {
        int group = i / p->n_names, curve = i % p->n_names;
        snprintf(groups[group], sizeof *groups, "%s %d", p->group, group + 1);
        curves[i] = (struct plot_curve){.name = p->names[curve],
                                        .rate = p->rate,
                                        .power = p->power + (size_t)i * p->n_bins,
                                        .n_bins = p->n_bins,
                                        .group = groups[group],
                                        .ink = curve};
    }
    good = good && plot_write(path, curves, n, &own, why, cap);
    free(groups);
    free(curves);
    return good;
}
