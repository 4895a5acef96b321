/* service - tells systemd how a session is, if the program is a service of Type=notify: ready, what plays, that neither
 * the control thread nor the audio is stuck (sd_notify(3)). The protocol, a datagram of lines NAME=VALUE, is stable and
 * small, so that the program needs no libsystemd. All calls do nothing without systemd. Control thread only.
 */
#ifndef SERVICE_H
#define SERVICE_H

#include "session.h"

/* Call it at least once a second while nothing plays yet, because a server or device is waited for: the service is
 * ready, and does not hang. */
void service_wait(const char *why);

/* Call it several times a second while the session is open. The service is ready with the first block. `missing` is the
 * server or device that went away and is waited for, NULL: none. If blocks stop coming although nothing is missing, the
 * watchdog of systemd restarts the service. */
void service_tend(struct session *session, const char *missing);

/* The mask is loaded again: the service reloads, until service_tend finds the session settled. */
void service_reload(void);

void service_stop(void); /* the session ends */

#endif
