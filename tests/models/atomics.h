/* atomics - operations of C11 and POSIX for the models, each one step, and a helper that stops.
 *
 * Each access to a shared variable is one step in Promela, and all threads see all steps in one order (sequential
 * consistency). A model says in its head why the weaker orders of its C code suffice.
 */

/* atomic_exchange_explicit; with true: atomic_flag_test_and_set_explicit. */
#define exchange(before, variable, value) d_step { before = variable; variable = value }

#define sem_post(sem) sem++
#define sem_wait(sem) atomic { sem > 0 -> sem-- }

#ifdef TIME_PASSES
/* Time passes when all threads wait. Without this thread, a search under weak fairness overlooks a run that stops. */
bool passes = true;
active proctype clock()
{
    do
    :: passes
    od
}
#endif

/* With STALLS, threads `provided (!stalled)` may stop for good between any two of their steps. */
bool stalled;
#ifdef STALLS
active proctype staller()
{
    stalled = true
}
#endif
