/* costs - what convolution costs on this machine: measured once, kept in the user's cache folder, read when an engine
 * is opened or a plan is asked for.
 *
 * The file is $XDG_CACHE_HOME/haloconv/costs (~/.cache/haloconv/costs): a line a device, `backend <tab> device <tab>
 * numbers`, the one measured last first. The device's text names processor, instruction set and libraries, or GPU and
 * driver, so that a change of any of them is a miss. A file that is broken or of another version, or numbers far from
 * what the backend was built with, count as none. Numbers have a decimal point in every locale. The file is written
 * under a temporary name and renamed. A process that measures for the first time, or writes, holds a lock (costs.lock
 * in the same folder) and reads the file again: it waits up to a second for the lock, then goes on without.
 * HALOCONV_COSTS=builtin: neither read nor write the file, and do not measure.
 *
 * "auto" compares these costs and never chooses "hybrid". By what a callback takes it should, where the near part's cost
 * on the CPU (plan_cost_ns of the first 2T taps, times the block) is below what a call to the device takes (call_ns) and
 * the tail's is not. On an H200 beside 16 Xeon cores a stereo engine of 3 s took 8.9/23/45 us of its blocks of 64 frames
 * (p50/p99/p99.9), and 31/52/110 with "cuda"; 50 plugins on that GPU took 29 % of the period (p99 70 %) where 50 on the
 * CPU took 58 (96), none late. The share of T that a tail's call takes is not known yet: it must be less than a tenth with
 * 1, 10 and 50 such engines (`bench engine --engines`), with a GPU that others keep busy, and with a laptop's.
 */
#ifndef HALOCONV_COSTS_H
#define HALOCONV_COSTS_H

#include "dsp/engine/backend.h"

/* The costs of a backend's device: measured ones if there are any, else the backend's own. device < 0: of the one that
 * was measured last, whatever its name: no device is touched. Were they measured? [setup] */
bool costs_find(const struct backend *backend, int device, struct plan_costs *costs);

/* Replaces implausible costs by the backend's built-in ones; returns how many. */
int costs_mend(const struct backend *backend, struct plan_costs *costs);

/* Keep what was measured, for this process and, if the cache can be written, for all to come. [setup] */
void costs_keep(const struct backend *backend, int device, const struct plan_costs *costs);

/* Measure and keep them the first time on this machine, for a backend that does so in tens of milliseconds. [setup] */
void costs_measure_once(const struct backend *backend);

#endif
