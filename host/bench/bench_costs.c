/* haloconv bench costs - measures the costs of convolution, and stores them for the choice of plans. */
#include "dsp/bench.h"
#include "host/commands.h"
#include "host/json_print.h"
#include "host/message.h"
#include "host/option.h"

#include <stdbool.h>
#include <stdio.h>

struct costs_settings {
    const char *backend;
    bool json;
};

static const struct option_row costs_options[] = {{"backend", 0, "cpu|cuda|cuda:N", "Processor to measure [cpu]",
                                                   option_text, OPTION_TO(struct costs_settings, backend)},
                                                  OPTION_JSON(OPTION_TO(struct costs_settings, json)),
                                                  {0}};

static const struct command_line costs_line = {
    .command = "bench costs",
    .text =
        "Measures the costs of convolution on this machine, and stores them for all later plans.\v"
        "The file is haloconv/costs under $XDG_CACHE_HOME or ~/.cache; the first live engine on a machine writes it "
        "for the CPU by itself. A GPU is measured only by this command, in a second; no other program should use "
        "it meanwhile. Until then its costs are those of an H100 or H200. HALOCONV_COSTS=builtin in the environment "
        "ignores "
        "the file.\n\n"
        "  haloconv bench costs --backend cuda",
    .groups = {{NULL, costs_options}}};

static void costs_print_text(const char *backend, const hc_costs *c)
{
    const struct {
        const char *name;
        double ns;
        const char *text;
    } lines[] = {{"mac", c->mac_ns, "a tap of an output frame, in the time domain"},
                 {"cmac", c->cmac_ns, "a bin of a partition"},
                 {"live_cmac", c->live_cmac_ns, "the same if blocks come one at a time"},
                 {"fft", c->fft_ns, "a transform of N points, times N log2 N"},
                 {"tail_fft", c->tail_fft_ns, "the same in a tail level"},
                 {"tail_cmac", c->tail_cmac_ns, "a bin of a partition of a tail level"},
                 {"launch", c->launch_ns, "a hop of audio"},
                 {"slice", c->slice_ns, "a slice of a tail level"},
                 {"call", c->call_ns, "a call of any size"},
                 {"resident", c->resident_call_ns, "a call of a head that the resident kernel plays"},
                 {"hop", c->hop_ns, "the same: a hop between two of its workers"},
                 {"word", c->word_ns, "the same: a frame of a channel"},
                 {"near_mac", c->near_mac_ns, "the same: a tap of an output frame, by one worker"},
                 {"far_mac", c->far_mac_ns, "the same with taps in device memory"}};
    printf("%s, nanoseconds:\n", backend);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (lines[i].ns > 0) printf("  %-9s %-9.4g %s\n", lines[i].name, lines[i].ns, lines[i].text);
    if (c->resident_call_ns > 0)
        printf("The resident kernel plays matrices of up to %d x %d responses of a second, in blocks of 64 frames.\n",
               c->resident_side, c->resident_side);
    if (c->n_built_in > 0)
        printf("%d measured values are implausible; the built-in ones replace them\n", c->n_built_in);
}

int bench_costs_command(int argc, char **argv)
{
    struct costs_settings s = {.backend = "cpu"};
    int status = option_parse(&costs_line, argc, argv, &s);
    if (status >= 0) return status;
    hc_costs c;
    char why[MESSAGE_CAP];
    if (hc_measure(s.backend, &c, why, sizeof why) != HC_OK) return message_error("bench: %s", why);
    if (s.json) {
        json_t *all =
            json_pack("{s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:i, s:i}",
                      "backend", s.backend, "mac_ns", c.mac_ns, "cmac_ns", c.cmac_ns, "live_cmac_ns", c.live_cmac_ns,
                      "fft_ns", c.fft_ns, "tail_fft_ns", c.tail_fft_ns, "tail_cmac_ns", c.tail_cmac_ns, "launch_ns",
                      c.launch_ns, "slice_ns", c.slice_ns, "call_ns", c.call_ns, "resident_call_ns", c.resident_call_ns,
                      "hop_ns", c.hop_ns, "word_ns", c.word_ns, "near_mac_ns", c.near_mac_ns, "far_mac_ns",
                      c.far_mac_ns, "resident_side", c.resident_side, "built_in", c.n_built_in);
        return json_print(all, 4, "bench");
    }
    costs_print_text(s.backend, &c);
    return 0;
}
