/* Arrays on shared huge pages: zeroed, aligned and separate, in any order of allocation and release. */
#include "dsp/base/memory.h"
#include "check.h"

#include <stdint.h>

static void arrays_are_zeroed_and_apart(const char *backend)
{
    enum { ARRAYS = 300, TURNS = 20000, SEED = 5 };
    static float *at[ARRAYS];
    static int size[ARRAYS];
    struct random r = random_seeded(SEED);
    for (int turn = 0; turn < TURNS; turn++) {
        int i = random_int(&r, 0, ARRAYS - 1);
        /* In some turns only releases: nearly all arrays are freed, neighbours join, whole pages are returned. */
        bool only_free = turn / 1000 % 4 == 3;
        if (at[i]) {
            for (int k = 0; k < size[i]; k++)
                check(at[i][k] == (float)i, "turn %d, array %d of %d floats: float %d is %g, want %d; seed %d", turn, i,
                      size[i], k, (double)at[i][k], i, SEED);
            memory_packed_free(at[i]);
            at[i] = NULL;
        } else if (!only_free) {
            size[i] = turn % 500 ? random_int(&r, 0, 1 << random_int(&r, 0, 13)) : random_int(&r, 200000, 900000);
            at[i] = memory_packed(size[i]);
            check(at[i] && (uintptr_t)at[i] % 64 == 0, "turn %d: %d floats at %p", turn, size[i], (void *)at[i]);
            for (int k = 0; k < size[i]; k++) {
                check(at[i][k] == 0, "turn %d, array %d of %d floats: float %d is %g, want 0; seed %d", turn, i,
                      size[i], k, (double)at[i][k], SEED);
                at[i][k] = (float)i;
            }
        }
    }
    for (int i = 0; i < ARRAYS; i++) memory_packed_free(at[i]);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(arrays_are_zeroed_and_apart, false),
    };
    return check_main("memory", tests, sizeof tests / sizeof *tests);
}
