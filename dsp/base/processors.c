/* This function has a separate file, so that a test can replace it. */
#include "processors.h"

#include <sched.h>

int processors_usable(void)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return n < 1 ? 1 : n;
}
