/* closing - closes an engine whose device may hang. A thread closes it, and the caller waits for that thread with a
 * bound. When the bound has passed, the thread goes on: it frees the engine if the device answers again. Until then the
 * device refuses new engines. */
#ifndef HALOCONV_CLOSING_H
#define HALOCONV_CLOSING_H

#include "haloconv.h"
#include "dsp/base/error.h"

#include <stdbool.h>
#include <stdint.h>

/* Calls close(engine) in a thread, or on the caller's if there is no thread. false: it has not returned before until_us
 * (await.h). name and device: of the backend that has the device; name is static. [setup] */
bool closing_run(void (*close)(hc_engine *engine), hc_engine *engine, const char *name, int device, int64_t until_us);

/* HC_EDEVICE: an engine on this device is being closed after its time, and has been for a second. Waits for it until
 * then. [setup] */
int closing_check(const char *name, int device, struct reason *why);

#endif
