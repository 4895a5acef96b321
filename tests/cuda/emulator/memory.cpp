/* memory - device memory and pinned host memory: plain memory, filled with NaN, between pages without access.
 *
 *   | no access | ff ff ff | the allocation | ff .. | no access |   the end is at most 256 bytes before the page
 *
 * An access to a page without access stops the program, and the report names kernel, block and thread. A write to a
 * zone, the bytes between the allocation and that page, is found after the kernel. device_cut, with which the backend
 * cuts an allocation, leaves a zone behind each cut. AddressSanitizer finds reads of a zone too.
 */
#include "emulator.h"

#include <map>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

enum { ALIGN = 256, FILL = 0xff };

struct allocation {
    size_t bytes;
    memory_kind kind;
    char *mapped;
    size_t mapped_bytes;
};

static std::map<char *, allocation> &allocations()
{
    static auto *all = new std::map<char *, allocation>;
    return *all;
}
static size_t device_used;

/* The zones, whose bytes must not be written: address and size. */
static std::map<char *, size_t> &zones()
{
    static auto *all = new std::map<char *, size_t>;
    return *all;
}

static void zone_add(char *at, size_t bytes)
{
    if (!bytes) return;
    memset(at, FILL, bytes);
    zones()[at] = bytes;
    ASAN_POISON_MEMORY_REGION(at, bytes);
}

static void zones_drop(char *from, char *to)
{
    auto i = zones().lower_bound(from);
    while (i != zones().end() && i->first < to) {
        ASAN_UNPOISON_MEMORY_REGION(i->first, i->second);
        i = zones().erase(i);
    }
}

/* memset that may also write the zones between the cuts of an allocation: one memset may clear several cuts. */
#if defined(__SANITIZE_ADDRESS__)
__attribute__((no_sanitize("address"), optimize("no-tree-loop-distribute-patterns"))) /* or gcc calls memset */
void memory_set(void *to, int value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) ((unsigned char *)to)[i] = (unsigned char)value;
}
#else
void memory_set(void *to, int value, size_t bytes) { memset(to, value, bytes); }
#endif

/* A memset over all cuts of an allocation may have zeroed the zone. */
__attribute__((no_sanitize("address"))) static bool zone_is_whole(const char *at, size_t bytes)
{
    const unsigned char first = (unsigned char)*at;
    if (first != FILL && first != 0) return false;
#if !defined(__SANITIZE_ADDRESS__)
    return memcmp(at, at + 1, bytes - 1) == 0;
#else
    for (size_t i = 1; i < bytes; i++)
        if ((unsigned char)at[i] != first) return false;
    return true;
#endif
}

void memory_check(const char *after)
{
    for (const auto &zone : zones())
        if (!zone_is_whole(zone.first, zone.second))
            device_fault("%s wrote behind the end of a piece of memory, at %p or up to %zu bytes further", after,
                         (void *)zone.first, zone.second);
}

memory_kind memory_of(const void *p, size_t bytes, bool *whole)
{
    char *at = (char *)p;
    *whole = true;
    auto next = allocations().upper_bound(at);
    if (next == allocations().begin()) return MEMORY_OF_HOST;
    const auto &found = *--next;
    const size_t offset = (size_t)(at - found.first);
    if (offset >= found.second.bytes) return MEMORY_OF_HOST;
    *whole = bytes <= found.second.bytes - offset;
    return found.second.kind;
}

/* ---- bytes without access ---------------------------------------------------------------------------------------- */

static struct sigaction before;

static void put(const char *text) { (void)!write(1, text, strlen(text)); }

static void stop(int signal, siginfo_t *info, void *context)
{
    char where[256] = "", line[640];
    char *at = (char *)info->si_addr;
    if (grid_where(where, sizeof where)) {
        snprintf(line, sizeof line, "FAIL cuda_on_cpu: an address that the kernel may not touch: %p\n    in %s\n",
                 (void *)at, where);
        put(line);
    }
    for (const auto &a : allocations()) {
        if (at < a.second.mapped || at >= a.second.mapped + a.second.mapped_bytes) continue;
        const char *of = a.second.kind == MEMORY_PINNED ? "pinned memory" : "device memory";
        snprintf(line, sizeof line, "    %td bytes from the start of %zu bytes of %s\n", at - a.first,
                 a.second.bytes, of);
        put(line);
    }
    sigaction(signal, &before, NULL); /* the next fault goes to the handler before */
    (void)context;
}

static void guard_install()
{
#if !defined(__SANITIZE_ADDRESS__)
    static bool is;
    if (is) return;
    is = true;
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = stop;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, &before);
#else
    (void)stop;
    (void)before;
#endif
}

/* ---- allocations ------------------------------------------------------------------------------------------------- */

static cudaError_t take(void **p, size_t bytes, memory_kind kind)
{
    ENTER;
    *p = NULL;
    if (!bytes) return cudaSuccess;
    guard_install();
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), rounded = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    const size_t inner = (rounded + page - 1) / page * page;
    if (kind == MEMORY_OF_DEVICE && (bytes > device_bytes() || rounded > device_bytes() - device_used))
        return remember(cudaErrorMemoryAllocation);
    char *mapped = (char *)mmap(NULL, inner + 2 * page, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) return remember(cudaErrorMemoryAllocation);
    mprotect(mapped, page, PROT_NONE);
    mprotect(mapped + page + inner, page, PROT_NONE);
    char *at = mapped + page + inner - rounded;
    memset(mapped + page, FILL, inner);
    zone_add(mapped + page, inner - rounded);
    zone_add(at + bytes, rounded - bytes);
    allocations()[at] = {bytes, kind, mapped, inner + 2 * page};
    if (kind == MEMORY_OF_DEVICE) device_used += rounded;
    *p = at;
    return cudaSuccess;
}

void memory_free(void *p)
{
    memory_check("work that was done before its memory was freed");
    const auto found = allocations().find((char *)p);
    const allocation a = found->second;
    zones_drop(a.mapped, a.mapped + a.mapped_bytes);
    allocations().erase(found);
    if (a.kind == MEMORY_OF_DEVICE) device_used -= (a.bytes + ALIGN - 1) / ALIGN * ALIGN;
    munmap(a.mapped, a.mapped_bytes);
}

/* As the driver does, finishes all work that is under way first. */
static cudaError_t give(void *p, memory_kind kind)
{
    ENTER;
    if (!p) return cudaSuccess;
    const auto found = allocations().find((char *)p);
    if (found == allocations().end() || found->second.kind != kind) return remember(cudaErrorInvalidValue);
    streams_finish();
    memory_free(p);
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **p, size_t bytes) { return take(p, bytes, MEMORY_OF_DEVICE); }
cudaError_t cudaFree(void *p) { return give(p, MEMORY_OF_DEVICE); }
cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned) { return take(p, bytes, MEMORY_PINNED); }
cudaError_t cudaFreeHost(void *p) { return give(p, MEMORY_PINNED); }

/* A pool keeps nothing: memory is freed as soon as the stream's work before it is done (streams.cpp). */
struct CUmemPoolHandle_st { memory_kind kind; };

cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const struct cudaMemPoolProps *properties)
{
    const bool of_device = properties->location.type == cudaMemLocationTypeDevice;
    *pool = new CUmemPoolHandle_st{of_device ? MEMORY_OF_DEVICE : MEMORY_PINNED};
    return cudaSuccess;
}
cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool)
{
    delete pool;
    return cudaSuccess;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, enum cudaMemPoolAttr, void *) { return cudaSuccess; }
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t, enum cudaMemPoolAttr, void *value)
{
    *(uint64_t *)value = 0;
    return cudaSuccess;
}
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t, const struct cudaMemAccessDesc *, size_t) { return cudaSuccess; }
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t) { return cudaSuccess; }
cudaError_t cudaMallocFromPoolAsync(void **p, size_t bytes, cudaMemPool_t pool, cudaStream_t)
{
    return take(p, bytes, pool->kind);
}

/* The caller's memory does not move and has no zones. */
cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned)
{
    ENTER;
    allocations()[(char *)p] = {bytes, MEMORY_PINNED, (char *)p, 0};
    return cudaSuccess;
}

cudaError_t cudaHostUnregister(void *p)
{
    ENTER;
    const auto found = allocations().find((char *)p);
    if (found == allocations().end() || found->second.mapped_bytes) return remember(cudaErrorHostMemoryNotRegistered);
    streams_finish();
    memory_check("work that was done before its memory was given back");
    allocations().erase(found);
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *all)
{
    ENTER;
    *all = device_bytes();
    *free_bytes = device_bytes() - device_used;
    return cudaSuccess;
}

/* Replaces device_cut of kernels/backend/device_memory.cu: fills the cut with NaN and leaves a zone behind it. */
void *device_cut(void *base, size_t *used, size_t n);
void *device_cut(void *base, size_t *used, size_t n)
{
    auto lock = runtime_lock();
    const size_t room = (n + ALIGN - 1) / ALIGN * ALIGN + ALIGN;
    char *at = base ? (char *)base + *used : NULL;
    *used += room;
    if (!at) return NULL;
    zones_drop(at, at + room);
    memset(at, FILL, n);
    zone_add(at + n, room - n);
    return at;
}
