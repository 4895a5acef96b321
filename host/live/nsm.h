/* nsm - a session manager that started this program (NSM, over OSC, at the address in NSM_URL): it says where the
 * session's files lie and what the client is called, and when to save.
 *
 *   announce ->            we are here, and what we can do
 *            <- open       a folder for our files, our name; answered once the client plays
 *            <- save       written into the folder; answered
 *   is_dirty, is_clean ->  what plays is no longer, is again, what was saved
 *
 * In the folder: session.json, and through.txt, the mask of a new client until it is told another. Quitting is by
 * SIGTERM.
 */
#ifndef NSM_H
#define NSM_H

#include "keepsake.h"

#include <stdbool.h>
#include <stddef.h>

struct nsm;

/* Is there one to be asked? */
bool nsm_is_wanted(void);

/* Announce this program and wait until the manager has it open something. NULL and an empty *why: a signal ended the
 * wait. A manager that does not answer is an error. */
struct nsm *nsm_join(char *why, size_t cap);
void nsm_leave(struct nsm *nsm); /* NULL is left alone */

const char *nsm_client_name(const struct nsm *nsm);

/* What was saved, over what *kept holds; a mask, in any case. false: why has the reason. */
bool nsm_load(struct nsm *nsm, struct keepsake *kept, char *why, size_t cap);

/* The answer to open: it plays, or why not (NULL: it does). */
void nsm_opened(struct nsm *nsm, const struct keepsake *kept, const char *why);

/* A remark for whoever looks at the manager. */
void nsm_say(struct nsm *nsm, const char *text);

/* To be polled; handle what has come, with what would be saved now: returns at once. */
int nsm_fd(const struct nsm *nsm);
void nsm_tend(struct nsm *nsm, const struct keepsake *kept);

#endif
