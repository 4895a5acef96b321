/* ranks - the processes that share a batch, and the counter that numbers its pieces.
 *
 * A process is alone, or one of several that mpirun started. Several processes load haloconv_mpi.so (host/batch/mpi);
 * a single process does not, because MPI starts slowly. Rank 0 keeps the counter.
 */
#ifndef RANKS_H
#define RANKS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ranks_library { /* haloconv_mpi.so exports one as haloconv_ranks; open returns 0 = good */
    int (*open)(int *rank, int *n_ranks, int *local_rank);
    int64_t (*next)(void);
    void (*leave)(int64_t *values, int n);
};

struct ranks {
    int rank, n, local; /* local: rank among the processes on this machine */
    const struct ranks_library *library; /* NULL: alone */
    pthread_mutex_t lock;
    int64_t next;
};

/* Joins the processes that mpirun started; alone: does not. false: why has the reason. */
bool ranks_open(struct ranks *ranks, bool alone, char *why, size_t cap);

/* Returns 0, 1, 2, ...: no two ranks get the same number. Any thread. */
int64_t ranks_next(struct ranks *ranks);

/* Waits for all ranks, then closes the counter. On rank 0 values[n] become the sums over all ranks. */
void ranks_close(struct ranks *ranks, int64_t *values, int n);

#endif
