/* atomics - operations of C11 and POSIX for the models, each one step, and a helper that stops.
 *
 * Each access to a shared variable is one step in Promela, and all threads see all steps in one order (sequential
 * consistency). A model says in its head why the weaker orders of its C code suffice.
 */

/* atomic_exchange_explicit; with true: atomic_flag_test_and_set_explicit. */
#define exchange(before, variable, value) d_step { before = variable; variable = value }

#define sem_post(sem) sem++
#define sem_wait(sem) atomic { sem > 0 -> sem-- }

#if defined(WEAK_FAIRNESS) && defined(ALL_MAY_END)
/* Time passes when all threads wait. Without this thread, a search under weak fairness overlooks a run that stops. In a
 * model without ALL_MAY_END, whose audio or engine thread never ends, such a run is a deadlock. */
bool passes = true;
active proctype clock()
{
    do
    :: passes
    od
}
#endif

/* With STALLS, all threads that may_stall stop for good between any two of their steps, or never. */
#ifdef STALLS
bool stalled;
active proctype staller()
{
    stalled = true
}
#define may_stall provided (!stalled)
#define unstalled (!stalled)
#else
#define stalled   false
#define unstalled false
#define may_stall /* `provided (true)` would cost the partial order reduction */
#endif

/* The block changes at the end of each block. Only formulas *_never_stuck look at it. */
#ifdef BLOCKS_CHANGE
#define change(block) block = !block
#else
#define change(block) skip /* half of the states */
#endif
