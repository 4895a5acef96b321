/* engine - hc_process, hc_steer and hc_close for the live core, whose input is already finite. */
#ifndef HALOCONV_ENGINE_H
#define HALOCONV_ENGINE_H

#include "haloconv_scenes.h"

#include <stdbool.h>

/* Does the work of hc_process for a caller that has made every input sample finite and has switched denormals off on
 * this thread. now_ns: the time of the call (await.h), when the wait for a device begins. On the CPU the input is
 * not copied, and the output is written directly to `out`; no row of `in` may overlap a row of `out`. The caller makes
 * the output finite (samples_finish_output), because it measures it anyway. HC_EINVAL for an engine for files. [rt], one
 * thread at a time with hc_process */
int engine_process_clean(hc_engine *engine, const float *const *in, float *const *out, int n_frames, int64_t now_ns);

/* Returns hc_info.overflowed. engine_process_clean counts there what the copy from a device has replaced. [rt] */
uint64_t engine_overflowed(const hc_engine *engine);

/* Sets how long hc_process waits for a device, from its next call on; wait_us is as in hc_config. With HC_WAIT_FOREVER,
 * unlike in hc_config, hc_process also waits for the engine's own threads on the CPU: the frame at which a swap's fade
 * begins then depends on the calls alone. HC_EINVAL: less than HC_WAIT_NONE. [rt], any thread */
int engine_wait_set(hc_engine *engine, int wait_us);

/* Steers a source as hc_steer does, from the thread that calls engine_process_clean; no other thread steers this
 * engine. With a backend in place, the request needs no mailbox. [rt] */
int engine_steer(hc_engine *engine, int source, const hc_bank *bank, const int *entry, const float *weight, int n);

/* Waits, as long as hc_process does, until a device has no work left: hc_reset then waits for none. false: it still has
 * some. [rt], the thread that calls engine_process_clean */
bool engine_await_all(hc_engine *engine);

/* Does the work of hc_close, and waits for a device at most wait_us. false: the device has not answered yet. The memory
 * is freed when it does. Then calls then(then_data), unless then is NULL; after false on another thread. [setup] */
bool engine_close(hc_engine *engine, int wait_us, void (*then)(void *), void *then_data);

#endif
