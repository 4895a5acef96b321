/* emulator - the functions that the emulator's files share. The caller holds the lock of runtime_lock, so one host
 * thread at a time is the device. A kernel that polls goes on in a thread of the emulator (streams.cpp). */
#ifndef CUDA_ON_CPU_EMULATOR_H
#define CUDA_ON_CPU_EMULATOR_H

#include "cuda_runtime.h"

#include <mutex>

std::unique_lock<std::recursive_mutex> runtime_lock();
bool runtime_is_wanted(); /* Does a thread wait for the lock? */
void runtime_yield(); /* lets another thread have the lock for a moment; the caller has it once */

/* CUDA_ON_CPU_FAULT: a file with the fault that the device has now (README.md). No file: none. */
struct fault {
    bool is_lost, hangs;
    bool is_stuck;   /* it hangs, and no call of the runtime returns */
    double slowness; /* kernels that poll take so many times as long */
};
const fault &fault_now();

/* CUDA_ON_CPU_SEED: the seed of all random decisions. 0: everything as late as possible. */
uint64_t device_seed();
/* Random numbers of the device, 0 <= result < n. */
unsigned device_random(unsigned n);

/* CUDA_ON_CPU_HASTE: the times of events are divided by it. CUDA_ON_CPU_MIB: the size of the memory. */
double device_haste();
size_t device_bytes();

/* Begins a call of the runtime: locks it, and returns the error of a device that is lost. */
#define ENTER                                                                                                          \
    auto lock = runtime_lock();                                                                                        \
    if (device_is_lost()) return remember(cudaErrorLaunchFailure)

/* Stores an error for cudaGetLastError, as every call of the runtime does, and returns it. */
cudaError_t remember(cudaError_t error);

/* Prints a fault, which on a device corrupts the context or stays unseen, with the running thread, and aborts. */
[[noreturn]] void device_fault(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Visits 0 ... n - 1 in a random order: by a stride that shares no factor with n. */
struct device_order {
    size_t n, at, stride;
    explicit device_order(size_t n_);
    size_t next()
    {
        at += stride;
        if (at >= n) at -= n;
        return at;
    }
};

/* ---- grid.cpp ---- */
/* Runs the blocks of a grid until they are done or give way. name: of the kernel. NULL: all are done. */
struct grid_running *grid_begin(const cuda_grid &grid, const char *name, const cuda_thread &thread);
/* The same for the blocks that gave way. true: all are done, and `grid` is freed. */
bool grid_continue(struct grid_running *grid);
extern unsigned long grid_switches; /* from thread to thread of a block: how much was computed */
/* The work of grids, added up; a block's shared memory: the most floats that a block wrote. */
struct grid_counts { unsigned long launches, blocks, threads, barriers, shared_floats; };
extern struct grid_counts *grid_counts; /* NULL: nothing is counted */
/* Writes the running kernel, block and thread to text. False: no kernel runs. */
bool grid_where(char *text, size_t cap);

/* ---- memory.cpp ---- */
enum memory_kind { MEMORY_OF_HOST, MEMORY_PINNED, MEMORY_OF_DEVICE };
/* The kind of memory of [p, p + bytes); *whole: all of it is inside the allocation that p is in. */
memory_kind memory_of(const void *p, size_t bytes, bool *whole);
void memory_set(void *to, int value, size_t bytes);
/* Frees an allocation that no work uses any more. */
void memory_free(void *p);
/* Faults if a zone (memory.cpp) was written. after: the work that ran, for the message. */
void memory_check(const char *after);

/* ---- device.cpp ---- */
int device_current();
/* Can a kernel with this entry be launched with this grid? */
cudaError_t launch_check(const cuda_grid &grid, const void *entry, int max_threads);

/* ---- streams.cpp ---- */
/* Is the device lost? It stays lost, with all its work. */
bool device_is_lost();
void streams_finish(); /* does all work that is queued */

#endif
