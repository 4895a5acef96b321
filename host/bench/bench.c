/* haloconv bench - measures this machine. */
#include "bench.h"

#include "host/commands.h"
#include "host/message.h"

#include <stdio.h>
#include <string.h>

static const char help[] =
    "haloconv bench SUBJECT - measures this machine\n"
    "\n"
    "  haloconv bench engine      how long each block of an engine takes, paced by the clock\n"
    "  haloconv bench capacity    the largest matrix and the most channels that are held\n"
    "  haloconv bench costs       what convolution costs on this machine; kept for every plan from now on\n"
    "  haloconv bench kernels     every CUDA kernel, checked and timed\n"
    "  haloconv bench offline     a long sound from memory to memory, beside a ring that only copies\n"
    "\n"
    "  haloconv bench SUBJECT --help has the options of each; --json prints one object.\n";

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} subjects[] = {
    {"engine", bench_engine},
    {"capacity", bench_capacity},
    {"costs", bench_costs},
    {"kernels", bench_kernels_command},
    {"offline", bench_offline},
};

int bench_command(int argc, char **argv)
{
    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        fputs(help, stdout);
        return 0;
    }
    if (argc < 2 || argv[1][0] == '-')
        return message_usage("bench", "what to measure is missing: engine, capacity, costs, kernels, offline");
    for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++)
        if (strcmp(argv[1], subjects[i].name) == 0) {
            argv[1] = "haloconv";
            return subjects[i].run(argc - 1, argv + 1);
        }
    return message_usage("bench", "%s: is not one of engine, capacity, costs, kernels, offline", argv[1]);
}
