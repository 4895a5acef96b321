/* fork_safety - keeps a child of fork() usable: the global locks are free, and a pool knows that its threads are gone.
 *
 * fork() copies one thread only. It therefore waits until no other thread holds a global lock or does a job of a
 * real-time pool: the child has no lock that nobody frees, and no job that nobody ends. */
#ifndef HALOCONV_FORK_SAFETY_H
#define HALOCONV_FORK_SAFETY_H

#include <pthread.h>

/* The locks of the library's global state. A thread that holds one may lock any that is further down in this list. */
enum global_lock {
    LOCK_SOFA,   /* HDF5: dsp/banks/sofa_hdf5.c           */
    LOCK_COSTS,  /* the measured costs: dsp/backends/costs.c */
    LOCK_CLOSING, /* engines of a device that hangs, dsp/engine/closing.c */
    LOCK_BANKS,  /* banks to free, dsp/scene/device_bank.c       */
    LOCK_TABLES, /* tables of transforms, dsp/fft/fft.c   */
    LOCK_MEMORY, /* vacant memory, dsp/base/memory.c       */
    LOCK_MODULE, /* the GPU module, gpu_module.c          */
    N_GLOBAL_LOCKS
};
void global_lock(enum global_lock lock);
void global_unlock(enum global_lock lock);

/* A thread of a pool holds its lock while it looks for a job and does it; fork() holds all of them. A holder inherits
 * the priority of a thread that waits. */
struct worker_lock {
    pthread_mutex_t mutex;
    struct worker_lock *next, **link;
};
void worker_lock_open(struct worker_lock *lock);
void worker_lock_close(struct worker_lock *lock);

/* Returns the number of forks from the first process to this one. An object made at another count has no threads here.
 * [rt], any thread */
unsigned fork_count(void);

#endif
