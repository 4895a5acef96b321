/* closing - closes an engine whose device may hang. A thread closes it, and the caller waits for that thread with a
 * bound. When the bound has passed, the thread goes on: it frees the engine if the device answers again. Until then the
 * device refuses new engines. */
#ifndef HALOCONV_CLOSING_H
#define HALOCONV_CLOSING_H

#include "haloconv.h"
#include "dsp/base/error.h"

#include <stdbool.h>
#include <stdint.h>

/* Calls close(engine) in a new thread; if none can be created, in the caller's, without a bound. Returns false if close
 * was still running at until_us (await.h). name and device: of the backend that has the device; name is static.
 * [setup] */
bool closing_run(void (*close)(hc_engine *engine), hc_engine *engine, const char *name, int device, int64_t until_us);

/* Waits for late closes on this device until a second after the first of them began; HC_EDEVICE: one still runs then.
 * [setup] */
int closing_check(const char *name, int device, struct reason *why);

#endif
