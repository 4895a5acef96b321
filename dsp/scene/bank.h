/* bank - a bank in a device's memory, with the count of its users. */
#ifndef HALOCONV_SCENE_BANK_H
#define HALOCONV_SCENE_BANK_H

#include "dsp/base/error.h"
#include "dsp/device/scene_backend.h"

#include <stdatomic.h>

/* Bytes of the banks that one scene has made. Banks may outlive the scene, so all of them share the meter. */
struct bank_meter {
    atomic_uint_fast64_t bytes;
    atomic_int users;
};

struct hc_bank {
    const struct scene_backend *backend;
    int device;
    bool is_on_device;   /* or a part of it: a child of fork() cannot free it */
    unsigned forks;      /* fork_count() of the process that made it */
    struct scene_plan plan;
    int n_entries, n_out;
    uint64_t bytes;
    void *impl;          /* the backend's bank */
    struct bank_meter *meter;
    struct hc_bank *next; /* freed by the caller, but still used */
    /* All threads that steer write `uses`, and the engine thread reads the fields above for each term: with the count in
     * their cache line it waits 100 ns a term. */
    char apart[64];
    atomic_int uses;     /* requests, and lists of terms, that name the bank */
    char apart_too[64];
};

struct bank_meter *bank_meter_make(void);
void bank_meter_release(struct bank_meter *meter);

/* Fails if the data or a size is missing, or a response is missing or has a tap that is NaN or Inf. [setup] */
int bank_check(const hc_bank_data *data, struct reason *why);

/* As hc_bank_make. [setup] */
int bank_prepare(const struct scene_backend *backend, int device, const struct scene_plan *plan, int n_out,
                 struct bank_meter *meter, const hc_bank_data *data, hc_bank **bank, struct reason *why);

/* Frees the banks that hc_bank_free was called for and that no source plays any more. [setup], any thread */
void banks_sweep(void);

/* [rt], any thread */
static inline void bank_use(hc_bank *bank, int n)
{
    if (bank) atomic_fetch_add_explicit(&bank->uses, n, memory_order_relaxed);
}
static inline void bank_unuse(hc_bank *bank, int n)
{
    if (bank) atomic_fetch_sub_explicit(&bank->uses, n, memory_order_release);
}

#endif
