/* core_window - the state of a core as the window shows it. A window in another process than its core does without it. */
#include "plugin_window.h"

void plugin_window_read(struct core *core, struct window_state *to)
{
    struct core_meters meters;
    float values[N_CONTROLS];
    char status[CORE_STATUS_BYTES];
    core_get_status(core, status);
    core_get_meters(core, &meters);
    for (int c = 0; c < N_CONTROLS; c++) values[c] = core_get(core, c);
    for (int side = 0; side < N_SIDES; side++) core_get_side_mask(core, side, to->mask[side]);
    plugin_window_fill(to, values, &meters, status, core_is_loading(core));
}
