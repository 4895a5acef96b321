/* device_bank - makes banks in a device's memory, and frees unused banks. */
#ifndef HALOCONV_DEVICE_BANK_H
#define HALOCONV_DEVICE_BANK_H

#include "dsp/base/error.h"
#include "dsp/device/hc_bank.h"

#include <stdatomic.h>

/* Counts the bytes of a scene's banks. Banks may outlive the scene, so they share ownership of the meter. */
struct bank_meter {
    atomic_uint_fast64_t bytes;
    atomic_int users;
};

struct bank_meter *bank_meter_make(void);
void bank_meter_release(struct bank_meter *meter);

/* Fails if `data`, a size or a response is missing, or a tap is NaN or Inf. [setup] */
int bank_check(const hc_bank_data *data, struct reason *why);

/* Makes a bank, as hc_bank_make does. [setup] */
int bank_prepare(const struct scene_backend *backend, int device, const struct scene_plan *plan, int n_out,
                 struct bank_meter *meter, const hc_bank_data *data, hc_bank **bank, struct reason *why);

/* Frees banks that were passed to hc_bank_free and that no source plays any more. [setup], any thread */
void banks_sweep(void);

#endif
