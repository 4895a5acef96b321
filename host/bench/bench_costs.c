/* haloconv bench costs - measures what the plan goes by, and keeps it. */
#include "bench.h"
#include "dsp/bench.h"
#include "host/message.h"

#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>

const char bench_costs_help[] =
    "haloconv bench costs - measures what convolution costs on this machine, and keeps it for every plan from now on\n"
    "\n"
    "      --backend NAME       cpu, cuda, cuda:N                                                          [cpu]\n"
    "      --json               one object on standard output\n"
    "  -h, --help               this text\n"
    "\n"
    "The file is haloconv/costs under $XDG_CACHE_HOME or ~/.cache; the first live engine on a machine writes it for\n"
    "the CPU by itself. A GPU is measured only here, in a second, best with nothing else on it; until then the costs\n"
    "are those of an H200. HALOCONV_COSTS=builtin in the environment leaves the file alone.\n"
    "\n"
    "  haloconv bench costs --backend cuda\n";

static void print_text(const char *backend, const hc_costs *c)
{
    const struct {
        const char *name;
        double ns;
        const char *text;
    } lines[] = {{"mac", c->mac_ns, "a tap of an output frame, in the time domain"},
                 {"cmac", c->cmac_ns, "a bin of a partition"},
                 {"live_cmac", c->live_cmac_ns, "the same where blocks come one at a time"},
                 {"fft", c->fft_ns, "a transform of N points, times N log2 N"},
                 {"far_fft", c->far_fft_ns, "the same in a far level"},
                 {"far_cmac", c->far_cmac_ns, "a bin of a partition of a far level"},
                 {"launch", c->launch_ns, "a tick of audio"},
                 {"slice", c->slice_ns, "a slice of a far level"},
                 {"call", c->call_ns, "a call, whatever is in it"}};
    printf("%s, nanoseconds:\n", backend);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (lines[i].ns > 0) printf("  %-9s %-9.4g %s\n", lines[i].name, lines[i].ns, lines[i].text);
    if (c->n_built_in > 0) printf("absurd as measured: %d of them, which are as built in\n", c->n_built_in);
}

int bench_costs(int argc, char **argv)
{
    enum { BACKEND = 256, JSON };
    static const struct option options[] = {{"backend", required_argument, NULL, BACKEND},
                                            {"json", no_argument, NULL, JSON},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    const char *backend = "cpu";
    bool json = false;
    int option;
    while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        if (option == 'h') {
            fputs(bench_costs_help, stdout);
            return 0;
        }
        if (option == BACKEND)
            backend = optarg;
        else if (option == JSON)
            json = true;
        else {
            message_note("see `haloconv bench --help`");
            return EXIT_USAGE;
        }
    }
    if (optind != argc) return message_usage("bench", "%s: is not an option of bench costs", argv[optind]);
    hc_costs c;
    char why[MESSAGE_CAP];
    if (hc_measure(backend, &c, why, sizeof why) != HC_OK) return message_error("bench: %s", why);
    if (json) {
        json_t *all = json_pack("{s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:i}", "backend", backend, "mac_ns",
                                c.mac_ns, "cmac_ns", c.cmac_ns, "live_cmac_ns", c.live_cmac_ns, "fft_ns", c.fft_ns,
                                "far_fft_ns", c.far_fft_ns, "far_cmac_ns", c.far_cmac_ns, "launch_ns", c.launch_ns,
                                "slice_ns", c.slice_ns, "call_ns", c.call_ns, "built_in", c.n_built_in);
        json_dumpf(all, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(4));
        putchar('\n');
        json_decref(all);
        return 0;
    }
    print_text(backend, &c);
    return 0;
}
