#include "configuration_report.h"

#include "host/json_print.h"
#include "host/message.h"
#include "mask_diagnostics.h"

#include <stdio.h>

enum { NAMES_SHOWN = 16 };

/* Without control characters, which would steer the terminal. */
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

void configuration_report_print(const char *path, const hc_responses *mask)
{
    printf("%s: configuration, %d input%s, %d output%s\n", path, mask->n_in, message_s(mask->n_in), mask->n_out,
           message_s(mask->n_out));
    printf("  %-16s %d of %lld pairs\n", "routes", mask->n_routes, (long long)mask->n_in * mask->n_out);
    printf("  %-16s %d, pairs with the same data share one\n", "responses", mask->n_distinct);
    printf("  %-16s %d frames", "longest", mask->n_frames);
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
}

static json_t *ports_json(const hc_port *ports, int n)
{
    json_t *all = json_array();
    for (int ch = 0; ch < n; ch++)
        json_array_append_new(
            all, json_pack("{s:o, s:o}", "name", json_text(ports[ch].name), "connect", json_text(ports[ch].connect)));
    return all;
}

json_t *configuration_report_json(const char *path, const hc_responses *mask)
{
    return json_pack("{s:o, s:s, s:i, s:i, s:i, s:i, s:o, s:i, s:o, s:f, s:o, s:o, s:o, s:o, s:o, s:o}", "file",
                     json_text(path), "format", "configuration", "inputs", mask->n_in, "outputs", mask->n_out, "routes",
                     mask->n_routes, "responses", mask->n_distinct, "rate", json_known(mask->rate), "frames",
                     mask->n_frames, "seconds",
                     mask->rate ? json_real((double)mask->n_frames / mask->rate) : json_null(), "bytes", bytes_of(mask),
                     "partition", json_known(mask->partition), "client", json_text(mask->client), "server",
                     json_text(mask->server), "input", ports_json(mask->in_port, mask->n_in), "output",
                     ports_json(mask->out_port, mask->n_out), "diagnostics", mask_diagnostics_json(mask));
}
