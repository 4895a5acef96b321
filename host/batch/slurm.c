#include "slurm.h"

#include "host/message.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

/* The number in a variable of the environment; otherwise: it is not set, or not a number from 0 to INT_MAX. */
static long variable(const char *name, long otherwise)
{
    const char *text = getenv(name);
    char *end;
    if (!text || !*text) return otherwise;
    errno = 0;
    long number = strtol(text, &end, 10);
    return errno || *end || number < 0 || number > INT_MAX ? otherwise : number;
}

long slurm_mpi_processes(void)
{
    return variable("OMPI_COMM_WORLD_SIZE", variable("PMI_SIZE", 1));
}

bool slurm_share(int *shard, int *n_shards, char *why, size_t cap)
{
    const long id = variable("SLURM_ARRAY_TASK_ID", -1), n_ids = id < 0 ? 1 : variable("SLURM_ARRAY_TASK_COUNT", 0);
    const long first = variable("SLURM_ARRAY_TASK_MIN", 0), step = variable("SLURM_ARRAY_TASK_STEP", 1);
    const long task = variable("SLURM_PROCID", -1);
    /* A script of sbatch without --ntasks has neither variable. */
    const long n_tasks = task < 0 ? 1 : variable("SLURM_STEP_NUM_TASKS", variable("SLURM_NTASKS", 1));
    if (variable("OMPI_COMM_WORLD_SIZE", 1) > 1) /* its processes may all see one task of Slurm */
        return message_write(why, cap, "mpirun has started this process; start it by srun, or give I/N");
    if (id < 0 && task < 0)
        return message_write(why, cap, "Slurm has not started this process; give I/N, or start it by sbatch or srun");
    if (n_tasks > 1 && !getenv("SLURM_STEP_NUM_TASKS")) /* in the script of sbatch, which runs once */
        return message_write(why, cap, "the job has %ld tasks, and this is its script; start haloconv by srun",
                             n_tasks);
    if (id >= 0 && n_ids == 1 && first > 1) /* one id of an earlier array again */
        return message_write(why, cap, "an array of id %ld alone has one share, the whole list; give I/N", id);
    const long index = id < 0 ? 0 : step < 1 || id < first ? -1 : (id - first) / step;
    if (index < 0 || index >= n_ids || (id >= 0 && (id - first) % step != 0))
        return message_write(why, cap,
                             "the ids of the array have gaps (%ld is one of %ld, from %ld); give a range, or I/N", id,
                             n_ids, first);
    if (n_tasks < 1 || task >= n_tasks || n_ids > INT_MAX / n_tasks)
        return message_write(why, cap, "task %ld of %ld tasks and %ld array ids is not a share; give I/N", task,
                             n_tasks, n_ids);
    *shard = (int)(index * n_tasks + (task < 0 ? 0 : task));
    *n_shards = (int)(n_ids * n_tasks);
    return true;
}
