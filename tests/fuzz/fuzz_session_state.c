/* Any bytes as the saved state of a session. A state that is read, written and read again stays the same. */
#include "fuzz.h"

#include "host/live/session/session_state.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct session_state state, again;
    state = again = (struct session_state){.wet = 1, .gain = 1};
    json_t *json = json_loadb((const char *)data, size, 0, NULL);
    session_state_read(json, &state);
    json_decref(json);
    must(strlen(state.mask) < sizeof state.mask);
    must(state.wet >= 0 && state.wet <= 1e6f && state.dry >= 0 && state.dry <= 1e6f);
    must(state.gain >= 0 && state.gain <= 1e6f);
    json = session_state_json(&state);
    char *text = json_dumps(json, JSON_REAL_PRECISION(9)); /* the digits of report_write */
    json_decref(json);
    json = text ? json_loads(text, 0, NULL) : NULL;
    must(json);
    must(!session_state_read(json, &again)); /* what we write is never refused */
    must(session_state_same(&state, &again));
    json_decref(json);
    free(text);
    return 0;
}
