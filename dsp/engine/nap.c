#include "nap.h"

#include <stdbool.h>

enum {
    LEAST_US = 250, /* of sleep, or it is not worth the two calls of the system */
    MARGIN_FIRST_US = 400,
    MARGIN_LEAST_US = 75,
    MARGIN_MOST_US = 1000,
    SETTLED = 4, /* posts after which it shows what is late of the first of them */
    WELL = 512,  /* naps after which the margin shrinks by a sixteenth: it may be short once in 3000 of them */
};

void nap_open(struct nap *nap)
{
    *nap = (struct nap){.margin_us = MARGIN_FIRST_US};
}

/* The n-th of the last posts, from the oldest. */
static int64_t post(const struct nap *nap, int n)
{
    return nap->posted_us[(nap->n_posts + n) % NAP_POSTS];
}

/* The median of the times between posts. */
static int64_t interval_of(const struct nap *nap)
{
    int64_t sorted[NAP_POSTS - 1];
    for (int n = 0; n < NAP_POSTS - 1; n++) {
        int64_t between = post(nap, n + 1) - post(nap, n);
        int at = n;
        for (; at > 0 && sorted[at - 1] > between; at--) sorted[at] = sorted[at - 1];
        sorted[at] = between;
    }
    return sorted[NAP_POSTS / 2 - 1];
}

/* When the next post may come at the earliest. */
static int64_t due_of(const struct nap *nap, int64_t interval)
{
    int64_t due = post(nap, 0), earliest = 0;
    for (int n = 0; n < NAP_POSTS; n++) {
        int64_t early = due - post(nap, n);
        if (n >= SETTLED && early > earliest) earliest = early;
        due = (early > 0 ? post(nap, n) : due) + interval;
    }
    return due - earliest;
}

int64_t nap_until(struct nap *nap, int64_t now_us)
{
    if (nap->n_posts < NAP_POSTS) return 0;
    int64_t interval = interval_of(nap), margin = nap->margin_us < interval / 2 ? nap->margin_us : interval / 2;
    nap->until_us = due_of(nap, interval) - margin;
    return nap->until_us - now_us < LEAST_US ? 0 : nap->until_us;
}

void nap_woken(struct nap *nap, int64_t now_us)
{
    nap->woken_us = now_us;
}

/* What no margin that is worth it would have saved, a stream that changes its pace or a machine that stood still,
 * teaches nothing. */
static void learn(struct nap *nap, int64_t posted_us)
{
    int64_t spare = posted_us - nap->woken_us, early = nap->until_us - posted_us, margin = nap->margin_us;
    if (spare < 0 && early > 0) spare -= early;
    if (margin - spare > MARGIN_MOST_US || nap->woken_us - nap->until_us > MARGIN_MOST_US) return;
    bool is_well = spare >= margin / 4;
    nap->n_well = is_well ? nap->n_well + 1 : 0;
    if (spare >= 0 && nap->n_well < WELL) return;
    margin += spare < 0 ? margin / 2 : -margin / 16;
    nap->n_well = 0;
    nap->margin_us = margin < MARGIN_LEAST_US ? MARGIN_LEAST_US : margin > MARGIN_MOST_US ? MARGIN_MOST_US : margin;
}

void nap_posted(struct nap *nap, int64_t posted_us)
{
    if (nap->woken_us > 0) learn(nap, posted_us);
    nap->posted_us[nap->n_posts++ % NAP_POSTS] = posted_us;
    nap->woken_us = 0;
}
