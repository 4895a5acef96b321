/* live_log - what the log of a plugin says about masks and engines.
 */
#ifndef LIVE_LOG_H
#define LIVE_LOG_H

#include "live_driver.h"

struct live_log {
    struct live_counts counts;
    char text[1 << 15];
    size_t n_read;           /* bytes of it that are counted                                                     */
};

/* Appends new lines of the log, and counts what they say. */
void live_log_read(struct live_log *log, const char *more);

#endif
