#include "configuration_report.h"

#include "bank_report.h"
#include "dsp/haloconv_scenes.h"
#include "host/files/mask_diagnostics.h"
#include "host/json_print.h"
#include "host/message.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- banks and sources ------------------------------------------------------------------------ */

enum { SOURCES_SHOWN = 32 };

static bool figures_make(struct bank_figures *f, const char *path, int rate, int n_out, char *why, size_t cap)
{
    hc_bank_data bank = {.size = sizeof bank};
    if (hc_bank_load(path, rate, NULL, &bank, why, cap) != HC_OK) return false;
    *f = (struct bank_figures){.n_entries = bank.n_entries,
                               .n_out = bank.n_out,
                               .n_taps = bank.n_taps,
                               .rate = bank.rate,
                               .file_rate = bank.file_rate,
                               .has_positions = bank.position != NULL,
                               .gain_db = (double)bank.gain_db};
    hc_bank_data_free(&bank);
    return f->n_out <= n_out ||
           message_write(why, cap, "%s: is for %d output%s, but /convolver/new has %d; make both equal", path, f->n_out,
                         message_s(f->n_out), n_out);
}

bool source_report_make(struct source_report *report, const hc_responses *mask, int rate, char *why, size_t cap)
{
    *report = (struct source_report){.mask = mask};
    if (mask->n_banks == 0) return true;
    report->banks = calloc((size_t)mask->n_banks, sizeof *report->banks);
    if (!report->banks)
        return message_write(why, cap, "no memory for the figures of %d bank%s; free some memory", mask->n_banks,
                             message_s(mask->n_banks));
    for (int i = 0; i < mask->n_banks; i++)
        if (!figures_make(&report->banks[i], mask->banks[i], rate ? rate : mask->rate, mask->n_out, why, cap))
            return false;
    return true;
}

void source_report_free(struct source_report *report)
{
    free(report->banks);
    report->banks = NULL;
}

/* Rounds a coordinate: positions are floats, so more than four decimals are noise. */
static void source_direction_of(const hc_source *source, double aed[3])
{
    bank_report_direction(source->position, aed);
    for (int c = 0; c < 3; c++) aed[c] = round(1e4 * aed[c]) / 1e4;
}

/* ---- output ------------------------------------------------------------------------------------------------------ */

/* Prints lines of `info`; none without sources. */
static void source_report_print(const struct source_report *report)
{
    const hc_responses *mask = report->mask;
    for (int i = 0; i < mask->n_banks; i++) {
        const struct bank_figures *f = &report->banks[i];
        printf("  %-16s %d: %s\n", i ? "" : "banks", i + 1, mask->banks[i]);
        printf("  %-16s    %d entr%s%s, %d output%s, %d frame%s", "", f->n_entries, f->n_entries == 1 ? "y" : "ies",
               f->has_positions ? "" : " without positions", f->n_out, message_s(f->n_out), f->n_taps,
               message_s(f->n_taps));
        if (f->rate) printf(" (%.2f ms at %d Hz)", 1000.0 * f->n_taps / f->rate, f->rate);
        printf(", largest gain %s\n", message_gain(f->gain_db, 2).text);
    }
    for (int i = 0; i < mask->n_sources && i < SOURCES_SHOWN; i++) {
        double aed[3];
        source_direction_of(&mask->sources[i], aed);
        printf("  %-16s input %d, bank %d, azimuth %.4g, elevation %.4g, distance %.4g m\n", i ? "" : "sources", i + 1,
               mask->sources[i].bank + 1, aed[0], aed[1], aed[2]);
    }
    if (mask->n_sources > SOURCES_SHOWN) printf("  %-16s ... (%d)\n", "", mask->n_sources);
}

/* The two functions make the arrays "banks" and "sources"; empty without sources. */
static json_t *source_report_banks_json(const struct source_report *report)
{
    json_t *all = json_array();
    for (int i = 0; i < report->mask->n_banks; i++) {
        const struct bank_figures *f = &report->banks[i];
        json_array_append_new(all, json_pack("{s:o, s:i, s:i, s:i, s:o, s:o, s:b, s:o}", "file",
                                             json_text(report->mask->banks[i]), "entries", f->n_entries, "outputs",
                                             f->n_out, "taps", f->n_taps, "rate", json_known(f->rate), "file_rate",
                                             json_known(f->file_rate), "positions", f->has_positions, "gain_db",
                                             isfinite(f->gain_db) ? json_real(f->gain_db) : json_null()));
    }
    return all;
}

static json_t *source_report_sources_json(const struct source_report *report)
{
    json_t *all = json_array();
    for (int i = 0; i < report->mask->n_sources; i++) {
        const hc_source *source = &report->mask->sources[i];
        double aed[3];
        source_direction_of(source, aed);
        json_array_append_new(all, json_pack("{s:i, s:i, s:f, s:f, s:f}", "input", i + 1, "bank", source->bank + 1,
                                             "azimuth", aed[0], "elevation", aed[1], "distance", aed[2]));
    }
    return all;
}

/* ---- the matrix ------------------------------------------------------------------------------- */

enum { NAMES_SHOWN = 16 };

/* Prints a name without control characters, which would steer the terminal. */
static void print_name(const char *name)
{
    for (; *name; name++) putchar((unsigned char)*name < ' ' || *name == 127 ? '?' : *name);
}

static void print_ports(const char *what, const hc_port *ports, int n, const char *arrow)
{
    printf("  %-16s", what);
    for (int ch = 0; ch < n; ch++) {
        if (n > NAMES_SHOWN && ch == NAMES_SHOWN - 2) printf(" ... (%d)", n), ch = n - 1;
        putchar(' ');
        print_name(ports[ch].name);
        if (!ports[ch].connect) continue;
        fputs(arrow, stdout);
        print_name(ports[ch].connect);
    }
    putchar('\n');
}

static double bytes_of(const hc_responses *mask)
{
    return (double)mask->distinct_frames * sizeof(float);
}

static void print_gains(const hc_responses *mask, const struct headroom *headroom)
{
    char where[64];
    for (int ch = 0; ch < mask->n_out && mask->n_out > 1; ch++) {
        if (mask->n_out > NAMES_SHOWN && ch >= NAMES_SHOWN - 2 && ch < mask->n_out - 1) continue;
        const struct sine_gain *gain = &headroom->outputs[ch];
        printf("  %-16s output %d ", ch == 0 ? "sine gain" : "", ch + 1);
        print_name(mask->out_port[ch].name);
        if (gain->gain > 0)
            printf(": at most %s", message_gain(20 * log10(gain->gain), 2).text);
        else
            printf(": silent");
        if (gain->gain > 0 && mask->rate) printf(" (%.0f Hz)", gain->frequency * mask->rate);
        putchar('\n');
    }
    snprintf(where, sizeof where, "output %d, all inputs", headroom->loudest + 1);
    headroom_print(&headroom->outputs[headroom->loudest], mask->rate, where);
}

void configuration_report_print(const char *path, const hc_responses *mask, const struct headroom *headroom,
                                const struct source_report *banks)
{
    printf("%s: configuration, %d input%s, %d output%s\n", path, mask->n_in, message_s(mask->n_in), mask->n_out,
           message_s(mask->n_out));
    printf("  %-16s %d of %lld pairs\n", "routes", mask->n_routes, (long long)mask->n_in * mask->n_out);
    printf("  %-16s %d, pairs with the same data share one\n", "responses", mask->n_distinct);
    printf("  %-16s %d frame%s", "longest", mask->n_frames, message_s(mask->n_frames));
    if (mask->rate) printf(" (%.2f ms at %d Hz)", 1000.0 * mask->n_frames / mask->rate, mask->rate);
    printf("\n  %-16s %.1f MB of samples, about twice that in an engine\n", "memory", bytes_of(mask) / 1e6);
    if (mask->partition)
        printf("  %-16s %d frames asked for; the engine chooses its own\n", "partition", mask->partition);
    if (mask->client || mask->server) {
        printf("  %-16s", "JACK");
        if (mask->client) fputs(" client ", stdout), print_name(mask->client);
        if (mask->server) fputs(" server ", stdout), print_name(mask->server);
        putchar('\n');
    }
    print_ports("inputs", mask->in_port, mask->n_in, "<-");
    print_ports("outputs", mask->out_port, mask->n_out, "->");
    source_report_print(banks);
    if (mask->n_sources == 0) print_gains(mask, headroom); /* with sources, the sum depends on their positions */
}

static json_t *ports_json(const hc_port *ports, int n)
{
    json_t *all = json_array();
    for (int ch = 0; ch < n; ch++)
        json_array_append_new(
            all, json_pack("{s:o, s:o}", "name", json_text(ports[ch].name), "connect", json_text(ports[ch].connect)));
    return all;
}

static json_t *gains_json(const hc_responses *mask, const struct headroom *headroom)
{
    json_t *all = json_array();
    for (int ch = 0; ch < mask->n_out; ch++)
        json_array_append_new(all, headroom_json(&headroom->outputs[ch], mask->rate));
    return all;
}

json_t *configuration_report_json(const char *path, const hc_responses *mask, const struct headroom *headroom,
                                  const struct source_report *banks)
{
    double largest = headroom->outputs[headroom->loudest].gain;
    return json_pack(
        "{s:o, s:s, s:i, s:i, s:i, s:i, s:o, s:i, s:o, s:f, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "file",
        json_text(path), "format", "configuration", "inputs", mask->n_in, "outputs", mask->n_out, "routes",
        mask->n_routes, "responses", mask->n_distinct, "rate", json_known(mask->rate), "frames", mask->n_frames,
        "seconds", mask->rate ? json_real((double)mask->n_frames / mask->rate) : json_null(), "bytes", bytes_of(mask),
        "partition", json_known(mask->partition), "client", json_text(mask->client), "server", json_text(mask->server),
        "input", ports_json(mask->in_port, mask->n_in), "output", ports_json(mask->out_port, mask->n_out),
        "output_gain", gains_json(mask, headroom), "suggested_gain_db",
        mask->n_sources ? json_null() : json_integer(headroom_gain_db(largest)), "banks",
        source_report_banks_json(banks), "sources", source_report_sources_json(banks), "diagnostics",
        mask_diagnostics_json(mask));
}
