#include "wakeup.h"

#include <stdbool.h>

enum {
    MIN_SLEEP_US = 250, /* a shorter sleep costs more than it saves: two system calls */
    FIRST_MARGIN_US = 400,
    MIN_MARGIN_US = 75,
    MAX_MARGIN_US = 1000,
    SETTLED_POSTS = 4,   /* posts after which the estimate no longer depends on a late first post */
    SPARED_SLEEPS = 512, /* after so many sleeps in a row with time to spare, the margin shrinks by 1/16 */
};

void wakeup_open(struct wakeup *wakeup)
{
    *wakeup = (struct wakeup){.margin_us = FIRST_MARGIN_US};
}

/* Returns the time of post n of the last WAKEUP_POSTS posts; post 0 is the oldest. */
static int64_t post_us(const struct wakeup *wakeup, int n)
{
    return wakeup->posted_us[(wakeup->n_posts + n) % WAKEUP_POSTS];
}

/* Returns the median of the times between posts. */
static int64_t median_interval(const struct wakeup *wakeup)
{
    int64_t sorted[WAKEUP_POSTS - 1];
    for (int n = 0; n < WAKEUP_POSTS - 1; n++) {
        int64_t between = post_us(wakeup, n + 1) - post_us(wakeup, n);
        int at = n;
        for (; at > 0 && sorted[at - 1] > between; at--) sorted[at] = sorted[at - 1];
        sorted[at] = between;
    }
    return sorted[WAKEUP_POSTS / 2 - 1];
}

/* Returns the earliest time at which the next post may come. */
static int64_t due_us(const struct wakeup *wakeup, int64_t interval)
{
    int64_t due = post_us(wakeup, 0), earliest = 0;
    for (int n = 0; n < WAKEUP_POSTS; n++) {
        int64_t early = due - post_us(wakeup, n);
        if (n >= SETTLED_POSTS && early > earliest) earliest = early;
        due = (early > 0 ? post_us(wakeup, n) : due) + interval;
    }
    return due - earliest;
}

int64_t wakeup_until(struct wakeup *wakeup, int64_t now_us)
{
    if (wakeup->n_posts < WAKEUP_POSTS) return 0;
    int64_t interval = median_interval(wakeup);
    int64_t margin = wakeup->margin_us < interval / 2 ? wakeup->margin_us : interval / 2;
    wakeup->until_us = due_us(wakeup, interval) - margin;
    return wakeup->until_us - now_us < MIN_SLEEP_US ? 0 : wakeup->until_us;
}

void wakeup_woken(struct wakeup *wakeup, int64_t now_us)
{
    wakeup->woken_us = now_us;
}

/* Adapts the margin to the last sleep. Ignores the sleep if the margin that it needed, or its late end, exceeds
 * MAX_MARGIN_US: the stream changed its pace, or the machine stalled. */
static void margin_adapt(struct wakeup *wakeup, int64_t posted_us)
{
    int64_t spare = posted_us - wakeup->woken_us, early = wakeup->until_us - posted_us, margin = wakeup->margin_us;
    if (spare < 0 && early > 0) spare -= early;
    if (margin - spare > MAX_MARGIN_US || wakeup->woken_us - wakeup->until_us > MAX_MARGIN_US) return;
    bool has_spare = spare >= margin / 4;
    wakeup->n_spared = has_spare ? wakeup->n_spared + 1 : 0;
    if (spare >= 0 && wakeup->n_spared < SPARED_SLEEPS) return;
    margin += spare < 0 ? margin / 2 : -margin / 16;
    wakeup->n_spared = 0;
    wakeup->margin_us = margin < MIN_MARGIN_US ? MIN_MARGIN_US : margin > MAX_MARGIN_US ? MAX_MARGIN_US : margin;
}

void wakeup_posted(struct wakeup *wakeup, int64_t posted_us)
{
    if (wakeup->woken_us > 0) margin_adapt(wakeup, posted_us);
    wakeup->posted_us[wakeup->n_posts++ % WAKEUP_POSTS] = posted_us;
    wakeup->woken_us = 0;
}
