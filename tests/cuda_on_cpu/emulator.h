/* emulator - what its files know of one another. All of it is called with the lock of runtime_lock held, so one thread
 * of the host at a time is the device. */
#ifndef CUDA_ON_CPU_EMULATOR_H
#define CUDA_ON_CPU_EMULATOR_H

#include "cuda_runtime.h"

#include <mutex>

std::unique_lock<std::recursive_mutex> runtime_lock();

/* The seed of CUDA_ON_CPU_SEED: all that the device may decide is decided by it. 0: everything as late as it may be. */
uint64_t device_seed();
/* Random numbers of the device, 0 <= result < n. */
unsigned device_random(unsigned n);

/* CUDA_ON_CPU_HASTE: events tell times so many times shorter than they were. CUDA_ON_CPU_MIB: of memory. */
double device_haste();
size_t device_bytes();

/* Keep an error for cudaGetLastError, as every call of the runtime does; returns it. */
cudaError_t remember(cudaError_t error);

/* A fault that a device answers with a corrupted context or not at all: say it, with the thread that runs; abort. */
[[noreturn]] void device_fault(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The order in which 0 ... n - 1 are visited: a stride that shares no factor with n. */
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
/* Run all threads of a grid; name: of its kernel. */
void grid_run(const cuda_grid &grid, const char *name, const std::function<void()> &thread);
/* Into text: which kernel, block and thread runs; false: none. */
bool grid_where(char *text, size_t cap);

/* ---- memory.cpp ---- */
enum memory_kind { MEMORY_OF_HOST, MEMORY_PINNED, MEMORY_OF_DEVICE };
/* Of what memory [p, p + bytes) is; *whole: none of it lies outside the allocation that p is in. */
memory_kind memory_of(const void *p, size_t bytes, bool *whole);
void memory_set(void *to, int value, size_t bytes);
/* Has something written beside its memory? Then a fault. after: what ran. */
void memory_check(const char *after);

/* ---- device.cpp ---- */
int device_current();
/* May this grid be launched by a kernel with this entry? */
cudaError_t launch_check(const cuda_grid &grid, const void *entry, int most_threads);

/* ---- streams.cpp ---- */
void streams_finish(); /* all that was asked for is done now */

#endif
