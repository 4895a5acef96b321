/* Any bytes as the cache of measured costs, behind the first line of this version if they do not begin like one. Costs
 * that are found are plausible; a cache that is read, written and read again stays the same. The reader's file is
 * included, because it keeps its lines for the whole process. */
#include "fuzz.h"

#include "dsp/backends/costs.c"

#include <math.h>

void target_begin(void)
{
    char here[CACHE_PATH];
    must(getcwd(here, sizeof here));
    setenv("XDG_CACHE_HOME", here, 1);
    unsetenv("HALOCONV_COSTS");
    must(mkdir("haloconv", 0700) == 0);
}

static void cache_put(const uint8_t *data, size_t size)
{
    static const char begin[] = "haloconv costs";
    bool has_first_line = size >= strlen(begin) && memcmp(data, begin, strlen(begin)) == 0;
    FILE *file = fopen("haloconv/costs", "we");
    must(file);
    if (!has_first_line) fputs(FIRST_LINE "\n", file);
    for (size_t i = 0; i < size; i++) { /* costs of the CPU are those of this machine */
        must(fputc(data[i], file) != EOF);
        if (i >= 3 && memcmp(data + i - 3, "cpu\t", 4) == 0) fputs(machine_name(), file);
    }
    must(fclose(file) == 0);
}

static void read_afresh(void)
{
    n_lines = 0;
    costs_file_read();
    must(n_lines >= 0 && n_lines <= MAX_LINES);
}

/* Are the costs possible: positive where the built-in costs are, else 0? */
static void costs_look(struct plan_costs costs)
{
    struct plan_costs built_in = *backend_cpu.costs;
    for (int k = 0; k < N_NUMBERS; k++) {
        double cost = *costs_number(&costs, k), own = *costs_number(&built_in, k);
        must(own == 0 ? cost == 0 : cost > own / 100 && cost < own * 100);
    }
}

static bool is_close(double a, double b) /* as close as the digits of the file; NaN is close to NaN */
{
    return a == b || fabs(a - b) <= 1e-5 * fabs(b) || (isnan(a) && isnan(b));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct costs_line first[MAX_LINES];
    struct plan_costs costs;
    cache_put(data, size);
    read_afresh();
    for (int device = -1; device < 1; device++) {
        bool found = costs_find(&backend_cpu, device, &costs);
        must(found || memcmp(&costs, backend_cpu.costs, sizeof costs) == 0);
        costs_look(costs);
    }
    int n = n_lines;
    memcpy(first, lines, sizeof first);
    costs_file_write();
    read_afresh();
    must(n_lines == n);
    for (int i = 0; i < n; i++) {
        must(strcmp(lines[i].backend, first[i].backend) == 0 && strcmp(lines[i].device, first[i].device) == 0);
        for (int k = 0; k < N_NUMBERS; k++) must(is_close(lines[i].numbers[k], first[i].numbers[k]));
    }
    return 0;
}
