/* Only processors that this process may use count: a container grants fewer than are online. */
#include "check.h"
#include "dsp/base/processors.h"

#include <sched.h>

static void processors_are_counted_by_affinity(const char *backend)
{
    cpu_set_t all, some;
    check(sched_getaffinity(0, sizeof all, &all) == 0, "no affinity");
    int online = CPU_COUNT(&all), n = 0;
    check(processors_usable() == online, "%d, want %d", processors_usable(), online);
    CPU_ZERO(&some);
    for (int i = 0; i < CPU_SETSIZE && n == 0; i++)
        if (CPU_ISSET(i, &all)) CPU_SET(i, &some), n++;
    check(sched_setaffinity(0, sizeof some, &some) == 0, "the affinity cannot be set");
    int counted = processors_usable();
    sched_setaffinity(0, sizeof all, &all);
    check(counted == 1, "%d of the one processor that is allowed", counted);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(processors_are_counted_by_affinity, false),
    };
    return check_main("processors", tests, sizeof tests / sizeof *tests);
}
