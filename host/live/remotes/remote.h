/* remote - a live session by OSC, over UDP and from the panels in browsers: messages become commands and are answered,
 * and subscribers get the state. haloconv-osc(7) lists the messages. Control thread.
 *
 * Bounds: 8 subscribers over UDP, each for a minute unless it subscribes again, and the clients of a panel. They get a
 * changed value at most 20 times a second, and load and peaks as often as remote_set_levels is called. A host gets at
 * most 50 errors a second. Answers of another session are not answered.
 */
#ifndef REMOTE_H
#define REMOTE_H

#include "host/live/session/live_command.h"
#include "osc.h"

#include <jansson.h>
#include <stdint.h>

struct remote;

/* Returns the statistics, which the caller releases; NULL: no memory. */
typedef json_t *remote_stats(void *data);

/* Opens a remote for a target. osc is from osc_open, or NULL: only remote_handle is called; osc and target must outlive
 * the remote. NULL: no memory. */
struct remote *remote_open(struct osc *osc, struct command_target *target, remote_stats *stats, void *data);

/* Closes the remote, and notifies subscribers that their subscription has ended. NULL is allowed. */
void remote_close(struct remote *remote);

/* Applies the messages that have arrived, answers requests for masks, and sends changes to subscribers. Call it several
 * times a second; now is in seconds. */
void remote_tend(struct remote *remote, double now);

/* Applies one message; remote_tend calls this. data: the remote. */
void remote_handle(void *data, const struct osc_message *message);

/* Does this message ask for a mask to be loaded? Any thread */
bool remote_loads_mask(const struct osc_message *message);

/* Sets the levels that subscribers get: the median load in percent of a block's time and the peaks since the last call,
 * and the number of late and lost blocks since the start. */
void remote_set_levels(struct remote *remote, double load_percent, float peak_in, float peak_out, uint64_t late);

#endif
