/* nsm - a client of a Non Session Manager, which starts this program with its OSC address in NSM_URL.
 *
 *   announce ->            haloconv, and what it supports
 *            <- open       a folder for the session's files, and the client's name; answered once the client plays
 *            <- save       answered after the folder is written
 *   is_dirty, is_clean ->  the state differs from, or equals, the saved one
 *
 * The folder has session.json, and through.txt, the mask of a new client. SIGTERM ends the client. Only packets from
 * the address in NSM_URL are obeyed.
 */
#ifndef NSM_H
#define NSM_H

#include "host/option.h"
#include "host/live/session/session_state.h"

#include <stdbool.h>
#include <stddef.h>

struct nsm;

/* Did a session manager start this program? */
bool nsm_is_wanted(void);

/* Announces this program and waits for the manager's "open". NULL: why has the reason, or is empty after a signal. */
struct nsm *nsm_join(char *why, size_t cap);
void nsm_leave(struct nsm *nsm); /* NULL is allowed */

const char *nsm_client_name(const struct nsm *nsm);

/* Overwrites *state with the saved state; afterwards it names a mask. *masks gets the saved list, for
 * option_names_free; n 0: none. false: why has the reason. */
bool nsm_load(struct nsm *nsm, struct session_state *state, struct option_names *masks, char *why, size_t cap);

/* Answers "open", and says what was restored. why: NULL after success, else what failed. */
void nsm_opened(struct nsm *nsm, const struct session_state *state, const char *why);

/* Shows a line in the manager. */
void nsm_report(struct nsm *nsm, const char *text);

int nsm_fd(const struct nsm *nsm); /* a descriptor to poll */

/* Handles the messages that have arrived, and reports to the manager whether `state`, and the list of masks, whose
 * version changes with it from 0 on, are saved. Returns at once. */
void nsm_tend(struct nsm *nsm, const struct session_state *state, const struct option_names *masks, int version);

#endif
