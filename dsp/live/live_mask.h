/* live_mask - loads the responses and the banks that a path names, for a session. */
#ifndef LIVE_MASK_H
#define LIVE_MASK_H

#include "bank_set.h"
#include "haloconv_live.h"

struct live_mask {
    hc_responses responses;              /* without routes if the mask is a bank file                          */
    struct bank_set *banks;              /* NULL: the mask has no banks                                        */
};

/* Loads the mask for a rate, checks that it fits the session's channels, and cuts it (hc_live_change.trim_db). config.say
 * gets diagnostics. Fails as hc_responses_load and hc_bank_load do; *mask is then empty. [setup] */
int live_mask_load(const hc_live_config *config, const char *path, int rate, float trim_db, struct live_mask *mask,
                   struct reason *why);

/* Does the same with responses that are loaded. *responses is empty afterwards, even after a failure. [setup] */
int live_mask_adopt(const hc_live_config *config, const char *path, int rate, float trim_db, hc_responses *responses,
                    struct live_mask *mask, struct reason *why);

void live_mask_free(struct live_mask *mask);

/* Returns the frames of the longest response. */
int live_mask_longest(const struct live_mask *mask);

/* Does a path with %r name another file at another rate? [setup] */
bool live_mask_is_another_file(const char *path, int rate, int rate_before);

struct file_id { int64_t words[4]; };    /* device, inode, size, time of change; all 0: the file is absent     */
struct file_id file_identify(const char *path, int rate); /* finds the id of the file that `path` names at `rate` */

#endif
