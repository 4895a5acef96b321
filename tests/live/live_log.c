#include "live_log.h"

#include <stdio.h>
#include <string.h>

void live_log_read(struct live_log *log, const char *more)
{
    struct live_counts *seen = &log->counts;
    size_t used = strlen(log->text);
    check(used + strlen(more) < sizeof log->text, "the log is too long");
    strcpy(log->text + used, more);
    for (char *line = log->text + log->n_read, *stop; (stop = strchr(line, '\n')); line = stop + 1) {
        *stop = '\0';
        const char *loaded = strstr(line, ": loaded, "), *engine = strstr(line, "a new engine plays; ");
        const char *device = loaded ? strrchr(line, ';') : engine ? strchr(engine, ';') : NULL;
        seen->masks += loaded != NULL;
        seen->rebuilds += engine != NULL;
        if (device) snprintf(seen->backend, sizeof seen->backend, "%.*s", (int)strcspn(device + 2, ": ,"), device + 2);
        *stop = '\n';
        log->n_read = (size_t)(stop + 1 - log->text);
    }
}
