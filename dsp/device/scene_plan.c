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

static int count_partitions(int n_taps, int hop)
{
    return (n_taps + hop - 1) / hop;
}

void scene_plan_make(struct scene_plan *plan, int rate, int block, int steer_fade, int bank_taps)
{
    *plan = (struct scene_plan){
        .rate = rate, .block = block, .steer_fade = steer_fade, .bank_taps = bank_taps, .n_levels = 1};
    struct scene_level *head = &plan->levels[0], *tail = &plan->levels[1];
    *head = (struct scene_level){.n_taps = bank_taps, .hop = block, .fft = 2 * block};
    head->fade = steer_fade < block ? steer_fade : block;
    /* A request waits up to a hop until it is applied; then follow the delay (a hop) and the fade. */
    int hop = (rate / CHANGES_A_SECOND - steer_fade) / 2 / block * block;
    if (hop >= 2 * block) {
        int fade = steer_fade < hop ? steer_fade : hop;
        int offset = 2 * hop + fade;
        if (bank_taps > offset + hop) {
            *tail = (struct scene_level){
                .offset = offset, .n_taps = bank_taps - offset, .hop = hop, .delay = hop, .fade = fade};
            tail->fft = fft_size(2 * hop + fade);
            tail->n_partitions = count_partitions(tail->n_taps, hop);
            head->n_taps = offset;
            plan->n_levels = 2;
        }
    }
    head->n_partitions = count_partitions(head->n_taps, block);
}

bool scene_plan_is_same(const struct scene_plan *a, const struct scene_plan *b)
{
    return a->rate == b->rate && a->block == b->block && a->steer_fade == b->steer_fade && a->bank_taps == b->bank_taps;
}
