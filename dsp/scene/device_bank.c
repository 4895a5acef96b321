#include "device_bank.h"

#include "dsp/base/fork_safety.h"
#include "dsp/device/backend.h"

#include <math.h>
#include <stdlib.h>

static hc_bank *freed; /* banks to free when no source plays them; under LOCK_BANKS */

struct bank_meter *bank_meter_make(void)
{
    struct bank_meter *meter = calloc(1, sizeof *meter);
    if (meter) atomic_init(&meter->users, 1);
    return meter;
}

void bank_meter_release(struct bank_meter *meter)
{
    if (meter && atomic_fetch_sub(&meter->users, 1) == 1) free(meter);
}

static int bank_check_shape(const hc_bank_data *data, struct reason *why)
{
    if (!data || data->size < offsetof(hc_bank_data, position) || !data->taps)
        return fail(HC_EINVAL, why, "bank: the data, its size or its taps are missing; pass all");
    if (data->n_entries < 1 || data->n_out < 1 || data->n_taps < 1)
        return fail(HC_EINVAL, why, "bank: n_entries is %d, n_out is %d, n_taps is %d; give 1 or more of each",
                    data->n_entries, data->n_out, data->n_taps);
    return HC_OK;
}

static int bank_check_taps(const hc_bank_data *data, struct reason *why)
{
    for (int e = 0; e < data->n_entries; e++) {
        for (int o = 0; o < data->n_out; o++) {
            const float *taps = data->taps[(size_t)e * (size_t)data->n_out + (size_t)o];
            if (!taps) return fail(HC_EINVAL, why, "bank: entry %d, output %d has no taps; pass them", e, o + 1);
            for (int k = 0; k < data->n_taps; k++)
                if (!isfinite(taps[k]))
                    return fail(HC_EINVAL, why, "bank: entry %d, output %d: tap %d is not a finite number; give one", e,
                                o + 1, k);
        }
    }
    return HC_OK;
}

int bank_check(const hc_bank_data *data, struct reason *why)
{
    int error = bank_check_shape(data, why);
    return error ? error : bank_check_taps(data, why);
}

static int device_bank_check(const struct scene_plan *plan, int n_out, const hc_bank_data *data, struct reason *why)
{
    int error = bank_check_shape(data, why);
    if (error) return error;
    if (data->n_out > n_out)
        return fail(HC_EINVAL, why, "bank: n_out %d is out of range; give 1 to the engine's n_out, %d", data->n_out,
                    n_out);
    if (data->n_taps > plan->bank_taps)
        return fail(HC_EINVAL, why, "bank: n_taps %d is out of range; give 1 to the engine's bank_taps, %d",
                    data->n_taps, plan->bank_taps);
    return bank_check_taps(data, why);
}

int bank_prepare(const struct scene_backend *backend, int device, const struct scene_plan *plan, int n_out,
                 struct bank_meter *meter, const hc_bank_data *data, hc_bank **out, struct reason *why)
{
    int error = device_bank_check(plan, n_out, data, why);
    if (error) return error;
    banks_sweep();
    hc_bank *bank = calloc(1, sizeof *bank);
    if (!bank) return fail(HC_ENOMEM, why, "no memory for a bank; free some memory");
    bank->backend = backend;
    bank->device = device;
    bank->forks = fork_count();
    bank->plan = *plan;
    bank->n_entries = data->n_entries;
    bank->n_out = data->n_out;
    error = backend->bank_make(plan, device, data, bank->impl, &bank->bytes, why);
    if (error) {
        free(bank);
        return error;
    }
    bank->meter = meter;
    atomic_fetch_add(&meter->users, 1);
    atomic_fetch_add(&meter->bytes, bank->bytes);
    *out = bank;
    return HC_OK;
}

/* Returns true in a child of fork() for a bank that its parent made: the device memory belongs to the parent. */
static bool is_left_behind(const hc_bank *bank)
{
    return bank->is_on_device && bank->forks != fork_count();
}

static void bank_delete(hc_bank *bank)
{
    if (!is_left_behind(bank)) {
        bank->backend->bank_free(bank->impl[0]);
        if (bank->impl[1]) bank->backend->tail_bank_free(bank->impl[1]);
    }
    atomic_fetch_sub(&bank->meter->bytes, bank->bytes);
    bank_meter_release(bank->meter);
    free(bank);
}

void banks_sweep(void)
{
    global_lock(LOCK_BANKS);
    for (hc_bank **link = &freed; *link;) {
        hc_bank *bank = *link;
        if (atomic_load_explicit(&bank->uses, memory_order_acquire) == 0) {
            *link = bank->next;
            bank_delete(bank);
        } else {
            link = &bank->next;
        }
    }
    global_unlock(LOCK_BANKS);
}

void hc_bank_free(hc_bank *bank)
{
    if (bank) {
        global_lock(LOCK_BANKS);
        bank->next = freed;
        freed = bank;
        global_unlock(LOCK_BANKS);
    }
    banks_sweep();
}
