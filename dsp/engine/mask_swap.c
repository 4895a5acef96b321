#include "mask_swap.h"

static hc_mask no_request; /* only the address is used */

void mask_swap_open(struct mask_swap *s, const struct backend *backend, void *state, int fade_frames)
{
    s->backend = backend;
    s->state = state;
    s->fade_frames = fade_frames;
    atomic_init(&s->requested, &no_request);
    s->fresh = true;
}

static void mask_unuse(hc_mask *mask)
{
    if (mask) atomic_fetch_sub_explicit(&mask->uses, 1, memory_order_release);
}

void mask_swap_request(struct mask_swap *s, hc_mask *mask)
{
    if (mask) atomic_fetch_add_explicit(&mask->uses, 1, memory_order_relaxed);
    /* The last request wins: otherwise a knob that is turned quickly would queue a second of fades. */
    hc_mask *replaced = atomic_exchange_explicit(&s->requested, mask, memory_order_acq_rel);
    if (replaced != &no_request) mask_unuse(replaced);
}

/* Drops the retired masks that no thread of the backend works on, and those that play again. */
static void retired_sweep(struct mask_swap *s)
{
    for (int i = 0; i < s->n_retired;) {
        hc_mask *mask = s->retired[i];
        bool again = mask == s->to || mask == s->from || (s->is_preparing && mask == s->preparing);
        if (!again && s->backend->mask_released && !s->backend->mask_released(s->state, mask->impl)) {
            i++;
            continue;
        }
        mask_unuse(mask);
        s->retired[i] = s->retired[--s->n_retired];
    }
}

static void mask_retire(struct mask_swap *s, hc_mask *mask)
{
    if (!mask) return;
    if (s->backend->mask_retire) s->backend->mask_retire(s->state, mask->impl);
    s->retired[s->n_retired++] = mask;
}

static void dequeue_request(struct mask_swap *s)
{
    if (s->is_preparing || atomic_load_explicit(&s->requested, memory_order_relaxed) == &no_request) return;
    hc_mask *mask = atomic_exchange_explicit(&s->requested, &no_request, memory_order_acquire);
    if (mask == &no_request) return;
    if (mask == s->to) {
        mask_unuse(mask); /* the mask plays already and is counted once */
        return;
    }
    s->preparing = mask;
    s->is_preparing = true;
    if (mask && s->backend->mask_prepare) s->backend->mask_prepare(s->state, mask->impl);
}

static void end_fade(struct mask_swap *s)
{
    mask_retire(s, s->from);
    s->from = NULL;
    s->fade_len = 0;
}

/* Begins the fade as soon as the mask can play its full tail. A request that comes during the preparation waits. If it
 * replaced the mask in preparation, a knob that is turned without a pause would never have an effect. */
static void begin_fade(struct mask_swap *s)
{
    hc_mask *mask = s->preparing;
    if (!s->is_preparing || s->n_retired == MAX_RETIRED) return;
    if (mask && !s->fresh && s->backend->mask_ready && !s->backend->mask_ready(s->state, mask->impl)) return;
    s->preparing = NULL;
    s->is_preparing = false;
    atomic_store_explicit(&s->swap_frame, (uint64_t)s->played, memory_order_relaxed);
    atomic_fetch_add_explicit(&s->swaps, 1, memory_order_relaxed);
    s->from = s->to;
    s->to = mask;
    s->fade_pos = 0;
    s->fade_len = s->fresh ? 0 : s->fade_frames;
    if (s->fade_len == 0) end_fade(s);
}

struct fade mask_swap_begin(struct mask_swap *s)
{
    if (s->n_retired > 0) retired_sweep(s);
    if (s->fade_len == 0) {
        dequeue_request(s);
        begin_fade(s);
    }
    return (struct fade){s->from ? s->from->impl : NULL, s->to ? s->to->impl : NULL, s->fade_pos, s->fade_len, NULL};
}

void mask_swap_end(struct mask_swap *s, int n)
{
    s->fresh = false;
    s->played += n;
    if (s->fade_len > 0 && (s->fade_pos += n) >= s->fade_len) end_fade(s);
}

void mask_swap_reset(struct mask_swap *s)
{
    if (s->fade_len > 0) end_fade(s);
    s->fresh = true;
}
