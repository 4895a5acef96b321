/* Any bytes as the saved state of a plugin. A state that is read stays in its ranges, and is the same after it is
 * saved and read again; a refused one changes nothing. */
#include "fuzz.h"

#include "plugins/core/core.h"

#include <stdlib.h>
#include <string.h>

static void discard(void *data, int level, const char *text)
{
    (void)data, (void)level, (void)text;
}

static void read_both(struct core *core, const char *text, size_t size)
{
    static char before[CORE_STATE_BYTES], saved[CORE_STATE_BYTES], again[CORE_STATE_BYTES];
    char why[256] = "";
    core_save(core, before);
    bool is_read = core_restore(core, text, size, why, sizeof why);
    size_t length = core_save(core, saved);
    must(length < CORE_STATE_BYTES && strlen(saved) == length);
    if (!is_read) {
        must(why[0] && strcmp(before, saved) == 0);
        return;
    }
    for (int c = 0; c < N_CONTROLS; c++) must(core_get(core, c) >= controls[c].min && core_get(core, c) <= controls[c].max);
    must(core_restore(core, saved, length, why, sizeof why));
    core_save(core, again);
    must(strcmp(saved, again) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct core *room, *head;
    const struct core_host host = {.log = discard};
    if (!room) room = core_new(&variants[2], "/masks/", &host);
    if (!head) head = core_new(&variants[N_VARIANTS - 1], "/masks/", &host);
    must(room && head);
    read_both(room, (const char *)data, size);
    read_both(head, (const char *)data, size);
    return 0;
}
