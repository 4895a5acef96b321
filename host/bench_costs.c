/* haloconv bench costs - measures what the plan goes by, and keeps it. */
#include "bench.h"
#include "dsp/haloconv.h"
#include "message.h"

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
    "the CPU by itself. HALOCONV_COSTS=builtin in the environment leaves it alone.\n"
    "\n"
    "  haloconv bench costs\n";

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
        json_t *all = json_pack("{s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "backend", backend, "mac_ns", c.mac_ns,
                                "cmac_ns", c.cmac_ns, "fft_ns", c.fft_ns, "far_fft_ns", c.far_fft_ns, "far_cmac_ns",
                                c.far_cmac_ns, "launch_ns", c.launch_ns, "slice_ns", c.slice_ns, "call_ns", c.call_ns);
        json_dumpf(all, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(4));
        putchar('\n');
        json_decref(all);
        return 0;
    }
    printf("%s, nanoseconds:\n", backend);
    printf("  %-8.4f a tap of an output frame, in the time domain\n", c.mac_ns);
    printf("  %-8.4f a bin of a partition; %.4f in a far level\n", c.cmac_ns, c.far_cmac_ns);
    printf("  %-8.4f a transform of N points, times N log2 N; %.4f in a far level\n", c.fft_ns, c.far_fft_ns);
    printf("  %-8.0f a tick of audio; %.0f a slice of a far level\n", c.launch_ns, c.slice_ns);
    printf("  %-8.0f a call, whatever is in it\n", c.call_ns);
    return 0;
}
