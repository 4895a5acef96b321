/* service - reports a session to systemd (sd_notify(3)): that it is ready, what it plays, and by the watchdog that
 * neither the control thread nor the audio is stuck. The protocol, a datagram of lines NAME=VALUE, is stable and small:
 * the program needs no libsystemd. All calls do nothing outside a service of Type=notify. Control thread only.
 */
#ifndef SERVICE_H
#define SERVICE_H

#include "session.h"

#include <stdbool.h>

/* Call it at least once a second while the session waits for its server or device and nothing plays yet: the service is
 * ready, and does not hang. */
void service_wait(const char *why);

/* Call it several times a second while the session is open. The service is ready with the first block. `missing` is the
 * server or device that went away, and that the session waits for; NULL: none. is_idle: the server calls no callback,
 * because nothing plays. If blocks stop although neither holds, the watchdog of systemd restarts the service. */
void service_tend(struct session *session, const char *missing, bool is_idle);

/* Reports that the service reloads, from a request to reload the mask until service_tend finds the session settled. */
void service_reload(void);

void service_stop(void); /* the session ends */

#endif
