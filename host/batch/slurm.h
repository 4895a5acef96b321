/* slurm - the share of this process among the tasks of a Slurm job, for `--shard slurm`.
 *
 *   sbatch --array=0-9 ... srun --ntasks=4    array index 3, task 1  -->  share 13 of 40 (from 0)
 */
#ifndef SLURM_H
#define SLURM_H

#include <stdbool.h>
#include <stddef.h>

/* Sets shard (from 0) and n_shards from SLURM_ARRAY_TASK_ID, _MIN, _STEP and _COUNT, and from SLURM_PROCID and
 * SLURM_STEP_NUM_TASKS or SLURM_NTASKS. false: Slurm or srun has not started this process, or the array ids have gaps;
 * why has the reason. */
bool slurm_share(int *shard, int *n_shards, char *why, size_t cap);

/* Returns how many processes mpirun has started together, with this one. 1: mpirun has not started this process. */
long slurm_mpi_processes(void);

#endif
