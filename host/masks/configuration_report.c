#include "configuration_report.h"

#include "host/json_print.h"
#include "host/message.h"
#include "host/files/mask_diagnostics.h"

#include <math.h>
#include <stdio.h>

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
