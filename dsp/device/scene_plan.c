#include "scene_plan.h"

enum { CHANGES_A_SECOND = 50 }; /* all taps of a usual bank change within 20 ms */

/* Returns the smallest even number from n on whose prime factors are 2, 3 and 5. */
static int fft_size(int n)
{
    for (n += n % 2;; n += 2) {
        int rest = n;
        while (rest % 2 == 0) rest /= 2;
        while (rest % 3 == 0) rest /= 3;
        while (rest % 5 == 0) rest /= 5;
        if (rest == 1) return n;
    }
}

static struct scene_level scene_level_of(const struct scene_plan *plan, int offset, int end, int hop, int fft)
{
    return (struct scene_level){.offset = offset,
                                .n_taps = end - offset,
                                .hop = hop,
                                .delay = offset ? hop : 0,
                                .fade = plan->steer_fade < hop ? plan->steer_fade : hop,
                                .n_partitions = (end - offset + hop - 1) / hop,
                                .fft = fft};
}

void scene_plan_divide(struct scene_plan *plan, int offset, int hop, int fft)
{
    const int block = plan->block, bank_taps = plan->bank_taps;
    const bool has_tail = bank_taps > offset + hop;
    plan->n_levels = has_tail ? 2 : 1;
    plan->levels[0] = scene_level_of(plan, 0, has_tail ? offset : bank_taps, block, 2 * block);
    if (has_tail) plan->levels[1] = scene_level_of(plan, offset, bank_taps, hop, fft);
}

void scene_plan_make(struct scene_plan *plan, int rate, int block, int steer_fade, int bank_taps)
{
    *plan = (struct scene_plan){.rate = rate, .block = block, .steer_fade = steer_fade, .bank_taps = bank_taps};
    /* A request waits up to a hop until it is applied; then follow the delay (a hop) and the fade. */
    const int hop = (rate / CHANGES_A_SECOND - steer_fade) / 2 / block * block;
    const int window = 2 * hop + (steer_fade < hop ? steer_fade : hop);
    if (hop >= 2 * block)
        scene_plan_divide(plan, window, hop, fft_size(window));
    else
        scene_plan_divide(plan, bank_taps, block, 0); /* no tail */
}

bool scene_plan_is_same(const struct scene_plan *a, const struct scene_plan *b)
{
    return a->rate == b->rate && a->block == b->block && a->steer_fade == b->steer_fade && a->bank_taps == b->bank_taps;
}
