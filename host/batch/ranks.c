#include "ranks.h"

#include "host/message.h"
#include "host/own_library.h"

#include <dlfcn.h>
#include <stdlib.h>

/* Set by Open MPI's mpirun, and by the process managers of Slurm and MPICH when they start MPI programs. */
static bool started_by_mpi(void)
{
    static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const char *size = getenv(sizes[i]);
        if (size && atoi(size) > 1) return true;
    }
    return false;
}

bool ranks_open(struct ranks *ranks, bool alone, char *why, size_t cap)
{
    *ranks = (struct ranks){.rank = 0, .n = 1};
    pthread_mutex_init(&ranks->lock, NULL);
    if (alone || !started_by_mpi()) return true;
    void *library = own_library_open("haloconv_mpi.so");
    if (!library) {
        const char *reason = dlerror();
        return message_write(why, cap, "mpirun: this build has no MPI (%s); build it with Open MPI, or use --shard",
                             reason ? reason : "no haloconv_mpi.so");
    }
    ranks->library = dlsym(library, "haloconv_ranks");
    if (!ranks->library || ranks->library->open(&ranks->rank, &ranks->n, &ranks->local) != 0)
        return message_write(why, cap, "mpirun: MPI does not start with threads; use --shard");
    return true;
}

int64_t ranks_next(struct ranks *ranks)
{
    if (ranks->library) return ranks->library->next();
    pthread_mutex_lock(&ranks->lock);
    int64_t next = ranks->next++;
    pthread_mutex_unlock(&ranks->lock);
    return next;
}

void ranks_close(struct ranks *ranks, int64_t *values, int n)
{
    if (ranks->library) ranks->library->leave(values, n);
    pthread_mutex_destroy(&ranks->lock);
}
