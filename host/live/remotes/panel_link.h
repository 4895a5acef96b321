/* panel_link - connects a session with its panel: messages of clients go to `remote`, answers go back, and the panel
 * gets levels, the scene and what the session is. Control thread. */
#ifndef PANEL_LINK_H
#define PANEL_LINK_H

#include "host/panel/panel.h"
#include "host/live/session/live_command.h"
#include "remote.h"

struct panel_link;

/* All arguments must outlive the link. NULL: no memory. */
struct panel_link *panel_link_open(struct panel *panel, struct remote *remote, struct command_target *target);

/* Ends the panel's use of the session. NULL is allowed. */
void panel_link_close(struct panel_link *link);

/* Applies the messages that have come, and sends what has changed. Call it several times a second; now is in seconds.
 */
void panel_link_tend(struct panel_link *link, double now);

/* Applies a message of a client; panel_link_tend calls this. */
void panel_link_handle(struct panel_link *link, const struct panel_message *message);

panel_loads panel_link_loads_mask;

#endif
