/* core_window - the state of a core as the window shows it. A window in another process than its core does without it. */
#include "plugin_window.h"

#include <stdio.h>

void plugin_window_read(struct core *core, struct window_state *to)
{
    struct core_meters meters;
    char playing[CORE_PATH_BYTES], status[CORE_STATUS_BYTES];
    core_get_status(core, playing, status);
    core_get_meters(core, &meters);
    for (int side = 0; side < N_SIDES; side++) {
        core_get_side_mask(core, side, to->mask[side]);
        to->gain_db[side] = meters.gain_db[side];
    }
    to->side = core_get(core, A_B) > 0.5f;
    plugin_window_status(to, status, core_is_loading(core));
    snprintf(to->backend, sizeof to->backend, "%s", meters.engine);
    to->in_peak = meters.in_peak, to->out_peak = meters.out_peak;
    to->load = core_get(core, LOAD);
    to->late = (uint64_t)core_get(core, LATE);
    to->lost = (uint64_t)core_get(core, LOST);
    to->overruns = (uint64_t)core_get(core, OVERRUNS);
}
