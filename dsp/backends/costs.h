/* costs - the costs of convolution on this machine: measured once, kept in the user's cache folder, and read when an
 * engine is opened or a plan is made. Until they are measured, a backend's built-in costs are used (backend->costs).
 *
 * The file is $XDG_CACHE_HOME/haloconv/costs (~/.cache/haloconv/costs). It has a line for each device; the device that
 * was measured last comes first:
 *
 *   backend <tab> device <tab> numbers
 *
 * A GPU has a second line, of backend "resident", for heads that its resident kernel plays.
 *
 * The device's text begins with a hash of the machine, because several machines may share a home folder. The text names
 * processor, instruction set and libraries, or GPU and driver: if one of them changes, no line matches. A damaged file
 * or a file of another version is ignored, and so are numbers far from the built-in ones. Numbers have a decimal point
 * in every locale. At most MAX_LINES lines are read. A cache folder or link of another user is not used: it could
 * redirect the write. A set-user-ID program has no cache: its user chooses the environment.
 *
 * The file is written under a temporary name and renamed. A process that measures for the first time, or writes, holds
 * a lock (costs.lock in the same folder) and reads the file again. It waits up to a second for the lock and then goes
 * on without it. HALOCONV_COSTS=builtin: nothing is measured, and the file is neither read nor written.
 */
#ifndef HALOCONV_COSTS_H
#define HALOCONV_COSTS_H

#include "dsp/device/backend.h"

/* Stores a device's costs in *costs: the measured costs if they exist, else the built-in ones. device < 0: no device is
 * used, and the costs are those of the backend's device that was measured most recently. Returns true if they were
 * measured. [setup] */
bool costs_find(const struct backend *backend, int device, struct plan_costs *costs);

/* Replaces implausible costs by the built-in ones. Returns how many it replaced. */
int costs_correct(const struct backend *backend, struct plan_costs *costs);

/* Keeps measured costs for this process and, if the cache folder can be written, for later ones. [setup] */
void costs_keep(const struct backend *backend, int device, const struct plan_costs *costs);

/* Measures and keeps the costs of device 0, unless they are known. The backend must measure in tens of milliseconds.
 * [setup] */
void costs_measure_once(const struct backend *backend);

#endif
