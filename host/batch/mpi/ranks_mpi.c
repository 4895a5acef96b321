/* ranks_mpi - the MPI part of `haloconv batch`: a shared library that is loaded when mpirun started the program.
 *
 *   rank r's worker   -- ASK -->   rank 0's server thread: the counter   -- GIVE -->   rank r's worker
 *   rank r at its end -- LEAVE, its counts -->   rank 0 adds them up
 *
 * A lock lets one thread at a time call MPI (MPI_THREAD_SERIALIZED). A thread that waits for a message polls, and
 * sleeps without the lock in between; a piece takes far longer than that.
 */
#include "host/batch/ranks.h"

#include <mpi.h>
#include <string.h>
#include <time.h>

enum { ASK, GIVE, LEAVE, MAX_VALUES = 16, SLEEP_NS = 500000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* for calls of MPI, and for the variables below */
static int rank, n_ranks;
static int64_t counter;           /* rank 0 */
static int n_left;                /* rank 0: ranks that have ended */
static int64_t sums[MAX_VALUES];  /* rank 0: sums of the values of ended ranks */
static pthread_t server;

static void wait_a_little(void)
{
    nanosleep(&(struct timespec){.tv_nsec = SLEEP_NS}, NULL);
}

/* Under lock: answers a message, if a message has arrived. Returns whether a message has arrived. */
static int serve_one(void)
{
    int there = 0;
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &there, &status);
    if (!there) return 0;
    int64_t values[MAX_VALUES] = {0};
    MPI_Recv(values, MAX_VALUES, MPI_INT64_T, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, &status);
    if (status.MPI_TAG == ASK) {
        int64_t next = counter++;
        MPI_Send(&next, 1, MPI_INT64_T, status.MPI_SOURCE, GIVE, MPI_COMM_WORLD);
    } else {
        for (int i = 0; i < MAX_VALUES; i++) sums[i] += values[i];
        n_left++;
    }
    return 1;
}

static void *serve(void *unused)
{
    (void)unused;
    for (int left = 0; left < n_ranks - 1;) {
        pthread_mutex_lock(&lock);
        int served = serve_one();
        left = n_left;
        pthread_mutex_unlock(&lock);
        if (!served) wait_a_little();
    }
    return NULL;
}

static int open_ranks(int *rank_out, int *n_out, int *local_out)
{
    int provided = 0;
    MPI_Comm local;
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS) return -1;
    if (provided < MPI_THREAD_SERIALIZED) return -1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &local);
    MPI_Comm_rank(local, local_out);
    MPI_Comm_free(&local);
    *rank_out = rank;
    *n_out = n_ranks;
    return rank == 0 && n_ranks > 1 ? pthread_create(&server, NULL, serve, NULL) : 0;
}

static int64_t next_number(void)
{
    static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER; /* one request at a time: an answer names no thread */
    int64_t next = 0, nothing = 0;
    if (rank == 0) {
        pthread_mutex_lock(&lock);
        next = counter++;
        pthread_mutex_unlock(&lock);
        return next;
    }
    pthread_mutex_lock(&turn);
    pthread_mutex_lock(&lock);
    MPI_Send(&nothing, 1, MPI_INT64_T, 0, ASK, MPI_COMM_WORLD);
    for (int there = 0;;) {
        MPI_Iprobe(0, GIVE, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
        if (there) break;
        pthread_mutex_unlock(&lock);
        wait_a_little();
        pthread_mutex_lock(&lock);
    }
    MPI_Recv(&next, 1, MPI_INT64_T, 0, GIVE, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    pthread_mutex_unlock(&lock);
    pthread_mutex_unlock(&turn);
    return next;
}

static void leave_ranks(int64_t *values, int n)
{
    if (rank > 0) {
        int64_t all[MAX_VALUES] = {0};
        memcpy(all, values, (size_t)n * sizeof *values);
        MPI_Send(all, MAX_VALUES, MPI_INT64_T, 0, LEAVE, MPI_COMM_WORLD);
    } else if (n_ranks > 1) {
        pthread_join(server, NULL);
        for (int i = 0; i < n; i++) values[i] += sums[i];
    }
    MPI_Finalize();
}

extern const struct ranks_library haloconv_ranks;
const struct ranks_library haloconv_ranks = {open_ranks, next_number, leave_ranks};
