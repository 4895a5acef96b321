/* trap - catches what an audio thread must not do: it stands in front of the C library's allocation and locks.
 *
 * The functions of trap.c replace the C library's in the whole program, in the libraries that it is linked with and
 * (linked with -rdynamic) in those that it loads. While a thread is armed, the first call that is forbidden is noted.
 */
#ifndef TRAP_H
#define TRAP_H

#include "check.h"

void trap_arm(void);                /* this thread                                                        */
void trap_let_by(const char *call); /* on this thread from now on: "sem_post", a wake-up; NULL: nothing    */
const char *trap_disarm(void);      /* the name of the first forbidden call since trap_arm, or NULL       */

/* Run play(arg) in a child that the kernel kills at any system call but read, write, exit and the clock's, and a futex
 * where "sem_post" is let by. Returns 0, 1 where play did not return 0, or the signal that ended it: SIGSYS. */
int trap_child(int (*play)(void *arg), void *arg);
/* The same after prepare(arg), which may do anything: start threads, which a child does not have from its parent. */
int trap_child_after(void (*prepare)(void *arg), int (*play)(void *arg), void *arg);

#endif
