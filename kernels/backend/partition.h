/* partition - the multiprocessors of a device on which live engines work: a green context of the driver.
 *
 *   HALOCONV_PARTITION=16   | 0 ............................. 111 | 112 ...... 131 |
 *                             other users of the process             live engines
 *
 * Work without a green context still uses all multiprocessors. Another user therefore makes a green context of the
 * first ones: of as many as the device has beyond the partition. The driver splits in steps (of 8 on an H100), so the
 * partition may be larger than the number that was asked for. There is one partition for each device and process; it
 * lasts until the process ends. */
#ifndef HALOCONV_PARTITION_H
#define HALOCONV_PARTITION_H

#include "dsp/base/error.h"

#include <cuda_runtime.h>

/* Makes a stream of a live engine on the current device: as device_stream_make, but in the partition. If there is no
 * partition, priority alone distinguishes the stream from others. */
int live_stream_make(cudaStream_t *stream, bool urgent, struct reason *why);
/* Finds how many multiprocessors the streams of live_stream_make have. */
int live_sm_count(int device, int *n_sm, struct reason *why);

/* Returns the number of multiprocessors of the partition, and makes it if HALOCONV_PARTITION asks for it. 0: there is
 * none; *missing has the reason, "" if none was asked for. */
int partition_size(int device, const char **missing);

#endif
