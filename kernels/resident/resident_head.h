/* resident_head - a backend for heads: FIR in the time domain by the resident kernel (resident.h). It plays in place:
 * play posts a request, and spins until the answer has come or the deadline has passed. As in struct backend. */
#ifndef HALOCONV_RESIDENT_HEAD_H
#define HALOCONV_RESIDENT_HEAD_H

#include "dsp/device/backend.h"

/* Returns the reason why a device cannot have a resident kernel; NULL: it can. [setup] */
const char *resident_head_refusal(int device);
/* Sets the workers of an engine, and their shared memory. [setup] */
void resident_head_limit(int device, struct plan_costs *costs);
int resident_head_open(const hc_config *config, const struct plan *plan, int device, void **state, struct reason *why);
void resident_head_close(void *state);
int resident_head_mask_make(void *state, const struct matrix *matrix, void **mask, struct reason *why);
void resident_head_mask_free(void *state, void *mask);
void resident_head_mask_retire(void *state, void *mask);
bool resident_head_mask_released(void *state, const void *mask);
int resident_head_play(void *state, const struct rows *rows, int n, const struct fade *fade, struct reason *why);
int resident_head_reset(void *state, struct reason *why);
const char *resident_head_mode(const void *state);

/* Measures the costs of resident heads (struct plan_costs) by blocks of two heads, in some tens of ms: of one worker,
 * and of two. HC_EUNSUPPORTED: this device has no resident kernel, or another process uses it. After an error *costs is
 * unchanged. [setup] */
int resident_costs_measure(int device, struct plan_costs *costs, struct reason *why);

#endif
