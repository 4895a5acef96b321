/* trap - catches calls that an audio thread must not make: it replaces the allocation and the locks of the C library.
 *
 * The functions of trap.c replace the C library's in the whole program, in the libraries that it is linked with and
 * (linked with -rdynamic) in those that it loads. While a thread is armed, the first call that is forbidden is noted.
 */
#ifndef TRAP_H
#define TRAP_H

#include "check.h"

void trap_arm(void);                /* this thread                                                        */
void trap_let_by(const char *call); /* allow this call on this thread: "sem_post", a wake-up; NULL: none   */
const char *trap_disarm(void);      /* the name of the first forbidden call since trap_arm, or NULL       */

/* Runs play(arg) in a child that the kernel kills at any system call but read, write, exit, clock_gettime and, if
 * "sem_post" is allowed, futex. Returns 0; 1 if play did not return 0; or the signal that ended it, SIGSYS. */
int trap_child(int (*play)(void *arg), void *arg);
/* The same after prepare(arg), which may do anything, such as start threads: a child inherits none from its parent. */
int trap_child_after(void (*prepare)(void *arg), int (*play)(void *arg), void *arg);

#endif
