/* hc_bank - a bank in a device's memory, with the count of its users. dsp/scene/device_bank.h makes and frees it. */
#ifndef HALOCONV_HC_BANK_H
#define HALOCONV_HC_BANK_H

#include "scene_backend.h"

#include <stdatomic.h>

struct bank_meter;

struct hc_bank {
    const struct scene_backend *backend;
    int device;
    bool is_on_device;   /* all or part of the bank is device memory, which a child of fork() cannot free */
    unsigned forks;      /* fork_count() of the process that made the bank */
    struct scene_plan plan;
    int n_entries, n_out;
    uint64_t bytes;
    void *impl[2];       /* the backend's bank; hybrid has one for the head, one for the tail (NULL: no tail) */
    struct bank_meter *meter;
    struct hc_bank *next; /* the next in the list of banks that the caller has freed and that are still used */
    /* Steering threads write `uses`; the engine thread reads the fields above for each term. If they shared a cache
     * line, or a pair of lines that is loaded together, a term would cost 100 ns. */
    char apart[128];
    atomic_int uses;     /* number of requests and terms that name the bank */
    char apart_too[128];
};

/* Adds n uses to a bank, or ends n uses; NULL is allowed. [rt], any thread */
static inline void bank_use(hc_bank *bank, int n)
{
    if (bank) atomic_fetch_add_explicit(&bank->uses, n, memory_order_relaxed);
}
static inline void bank_unuse(hc_bank *bank, int n)
{
    if (bank) atomic_fetch_sub_explicit(&bank->uses, n, memory_order_release);
}

/* Adds a use to the bank of each term (by = 1), or ends one (by = -1). The terms of one bank are usually adjacent.
 * [rt], any thread */
static inline void terms_use(const struct scene_term *terms, int n, int by)
{
    for (int i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && terms[end].bank == terms[i].bank;) end++;
        by > 0 ? bank_use(terms[i].bank, end - i) : bank_unuse(terms[i].bank, end - i);
    }
}

#endif
