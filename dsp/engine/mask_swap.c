#include "mask_swap.h"

static hc_mask no_news; /* its address alone is used */

void mask_swap_open(struct mask_swap *s, const struct backend *backend, void *state, int fade_frames)
{
    s->backend = backend;
    s->state = state;
    s->fade_frames = fade_frames;
    atomic_init(&s->mailbox, &no_news);
    s->fresh = true;
}

static void mask_drop(hc_mask *mask)
{
    if (mask) atomic_fetch_sub_explicit(&mask->uses, 1, memory_order_release);
}

void mask_swap_ask(struct mask_swap *s, hc_mask *mask)
{
    if (mask) atomic_fetch_add_explicit(&mask->uses, 1, memory_order_relaxed);
    /* The last request wins: a knob turned quickly would otherwise queue a second of fades. */
    hc_mask *unheard = atomic_exchange_explicit(&s->mailbox, mask, memory_order_acq_rel);
    if (unheard != &no_news) mask_drop(unheard);
}

/* Masks that the backend's threads are done with, or that play again, may go. */
static void let_go(struct mask_swap *s)
{
    for (int i = 0; i < s->n_leaving;) {
        hc_mask *mask = s->leaving[i];
        bool again = mask == s->to || mask == s->from || (s->is_coming && mask == s->coming);
        if (!again && s->backend->mask_idle && !s->backend->mask_idle(s->state, mask->impl)) {
            i++;
            continue;
        }
        mask_drop(mask);
        s->leaving[i] = s->leaving[--s->n_leaving];
    }
}

/* It is heard no more. */
static void mask_leave(struct mask_swap *s, hc_mask *mask)
{
    if (!mask) return;
    if (s->backend->mask_rest) s->backend->mask_rest(s->state, mask->impl);
    s->leaving[s->n_leaving++] = mask;
}

static void take_news(struct mask_swap *s)
{
    if (s->is_coming || atomic_load_explicit(&s->mailbox, memory_order_relaxed) == &no_news) return;
    hc_mask *mask = atomic_exchange_explicit(&s->mailbox, &no_news, memory_order_acquire);
    if (mask == &no_news) return;
    if (mask == s->to) {
        mask_drop(mask); /* it plays already and is counted once for that */
        return;
    }
    s->coming = mask;
    s->is_coming = true;
    if (mask && s->backend->mask_warm) s->backend->mask_warm(s->state, mask->impl);
}

/* Begins what is coming as soon as it can sound with its full tail. A request that comes meanwhile waits in the
 * mailbox: if it took the place of what is coming, a knob that is turned without a pause would never be heard. */
static void begin_fade(struct mask_swap *s)
{
    hc_mask *mask = s->coming;
    if (!s->is_coming || s->n_leaving == MOST_LEAVING) return;
    if (mask && !s->fresh && s->backend->mask_ready && !s->backend->mask_ready(s->state, mask->impl)) return;
    s->coming = NULL;
    s->is_coming = false;
    atomic_store_explicit(&s->swap_frame, (uint64_t)s->played, memory_order_relaxed);
    atomic_fetch_add_explicit(&s->swaps, 1, memory_order_relaxed);
    if (s->fresh || s->fade_frames == 0) {
        mask_leave(s, s->to);
        s->to = mask;
        return;
    }
    s->from = s->to;
    s->to = mask;
    s->fade_pos = 0;
    s->fade_len = s->fade_frames;
}

static void end_fade(struct mask_swap *s)
{
    mask_leave(s, s->from);
    s->from = NULL;
    s->fade_len = 0;
}

struct fade mask_swap_begin(struct mask_swap *s)
{
    if (s->n_leaving > 0) let_go(s);
    if (s->fade_len == 0) {
        take_news(s);
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
