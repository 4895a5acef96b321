/* streams - streams that do their work as late and as much out of step with one another as CUDA allows.
 *
 * A stream does its work in order, behind the events that it waits for. CUDA promises nothing else about two streams,
 * and neither does the emulator. Work is done when a call forces it (a synchronize, a copy that waits, a full queue),
 * and then only the work that this call needs; or after enough queries; or at random: each stream has a habit, which
 * changes now and then, to work at once, sometimes, or only when forced. Pinned memory is read and written when the
 * work is done, other host memory when the call is made. So a test fails if the host acts too early, or if a stream
 * lacks a wait.
 *
 * CUDA_ON_CPU_SEED=0: nothing at random, everything as late as possible.
 */
#include "emulator.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <stdio.h>
#include <stdlib.h>
#include <thread>
#include <time.h>
#include <unistd.h>
#include <vector>

enum { QUEUE_MAX = 1000 };  /* work that a stream holds before a call must wait */
enum habit { LATE, NOW_AND_THEN, AT_ONCE, HABITS };

struct work {
    CUstream_st *stream;
    std::function<bool()> run; /* returns false if it polls: call it again. Empty: a mark for an event */
    std::vector<std::shared_ptr<work>> after;
    bool done, polls;
    double ms;                 /* when it was done */
};
using work_ref = std::shared_ptr<work>;

struct CUstream_st {
    std::deque<work_ref> queue;
    int device;
    bool blocking; /* waits for the legacy default stream, which waits for it */
    bool destroyed;
    habit does;
};

struct CUevent_st {
    int device;
    bool timed;
    work_ref record; /* the last one; NULL: none yet */
};

static std::vector<CUstream_st *> &streams()
{
    static auto *all = new std::vector<CUstream_st *>;
    return *all;
}

static habit habit_drawn() { return device_seed() ? (habit)device_random(HABITS) : LATE; }

static CUstream_st *stream_new(bool blocking)
{
    auto *s = new CUstream_st{{}, device_current(), blocking, false, habit_drawn()};
    streams().push_back(s);
    return s;
}

/* The legacy default stream of the device. */
static CUstream_st *legacy()
{
    static auto *all = new std::vector<CUstream_st *>;
    for (CUstream_st *s : *all)
        if (s->device == device_current()) return s;
    all->push_back(stream_new(true));
    return all->back();
}

static bool stream_find(cudaStream_t stream, CUstream_st **found)
{
    CUstream_st *first = legacy();
    *found = stream ? stream : first;
    for (CUstream_st *s : streams())
        if (s == *found && !s->destroyed) return true;
    return false;
}

/* Deletes the streams that are destroyed and have done their work. */
static void streams_sweep()
{
    auto &all = streams();
    for (size_t i = 0; i < all.size();)
        if (all[i]->destroyed && all[i]->queue.empty()) {
            delete all[i];
            all.erase(all.begin() + (long)i);
        } else {
            i++;
        }
}

/* ---- doing work -------------------------------------------------------------------------------------------------- */

static double now_ms()
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static bool is_ready(const CUstream_st *s)
{
    if (s->queue.empty()) return false;
    for (const work_ref &a : s->queue.front()->after)
        if (!a->done) return false;
    return !s->queue.front()->polls && !fault_now().hangs;
}

static void device_wake();

static void front_do(CUstream_st *s)
{
    const work_ref w = s->queue.front();
    if (w->run && !w->run()) {
        if (!w->polls) device_wake();
        w->polls = true;
        return;
    }
    w->ms = now_ms();
    w->done = true;
    w->polls = false;
    w->run = nullptr;
    w->after.clear();
    s->queue.pop_front();
}

/* Does work at random. */
static void stir()
{
    if (!device_seed()) return;
    auto &all = streams();
    for (bool any = true; any;) {
        any = false;
        for (CUstream_st *s : all)
            while (s->does == AT_ONCE && is_ready(s)) front_do(s), any = true;
    }
    CUstream_st *s = all[device_random((unsigned)all.size())];
    if (s->does == NOW_AND_THEN && device_random(3) == 0)
        for (unsigned n = 1 + device_random(4); n && is_ready(s); n--) front_do(s);
    if (device_random(64) == 0) s->does = habit_drawn();
}

/* Continues all kernels that poll. A slow clock makes a pause after each step. false: there are none. */
static bool polling_continue()
{
    static double resting_until_ms;
    bool any = false;
    const double from_ms = now_ms();
    if (from_ms < resting_until_ms && fault_now().slowness > 1) return true;
    for (CUstream_st *s : streams())
        if (!s->queue.empty() && s->queue.front()->polls) front_do(s), any = true;
    resting_until_ms = now_ms() + (now_ms() - from_ms) * (fault_now().slowness - 1);
    return any;
}

static void force(const work_ref &w)
{
    while (!w->done) {
        if (fault_now().hangs || fault_now().slowness > 1) runtime_yield();
        if (fault_now().hangs || w->done) continue;
        const work_ref front = w->stream->queue.front();
        const std::vector<work_ref> after = front->after;
        for (const work_ref &a : after) force(a);
        if (device_seed() && device_random(8) == 0) stir();
        if (front->polls) polling_continue();
        else if (!front->done) front_do(w->stream);
    }
}

/* Does one item of the work that w needs. */
static void advance(const work_ref &w)
{
    const work_ref front = w->stream->queue.front();
    for (const work_ref &a : front->after)
        if (!a->done) return advance(a);
    if (front->polls) polling_continue();
    else front_do(w->stream);
}

static work_ref add(CUstream_st *s, std::function<bool()> run, const work_ref &event = nullptr)
{
    auto w = std::make_shared<work>(work{s, std::move(run), {}, false, false, 0});
    CUstream_st *first = legacy();
    if (s == first) {
        for (CUstream_st *other : streams())
            if (other != s && other->blocking && other->device == s->device && !other->queue.empty())
                w->after.push_back(other->queue.back());
    } else if (s->blocking && !first->queue.empty()) {
        w->after.push_back(first->queue.back());
    }
    if (event && !event->done) w->after.push_back(event);
    s->queue.push_back(w);
    if (s->queue.size() > QUEUE_MAX) {
        const work_ref front = s->queue.front();
        force(front);
    }
    stir();
    return w;
}

static void stream_finish(CUstream_st *s)
{
    if (s == legacy())
        for (size_t i = 0; i < streams().size(); i++) {
            CUstream_st *other = streams()[i];
            const bool before = other->blocking && other->device == s->device && !other->queue.empty();
            if (before) force(work_ref(other->queue.back()));
        }
    if (!s->queue.empty()) force(work_ref(s->queue.back()));
}

void streams_finish()
{
    legacy();
    for (size_t i = 0; i < streams().size(); i++)
        if (!streams()[i]->queue.empty()) force(work_ref(streams()[i]->queue.back()));
}

/* The result of a query, which may also advance the work. */
static cudaError_t polled(const work_ref &w)
{
    if (!w || w->done) return cudaSuccess;
    if (device_random(2) && !fault_now().hangs) advance(w);
    return remember(cudaErrorNotReady);
}

/* ---- kernels that poll ------------------------------------------------------------------------------------------- */

static std::condition_variable_any &device_work()
{
    static auto *work = new std::condition_variable_any;
    return *work;
}

/* A thread that continues the kernels that poll, as a GPU does without the host. */
static void device_run()
{
    auto lock = runtime_lock();
    for (unsigned long before = grid_switches;; before = grid_switches) {
        if (device_is_lost() || (!fault_now().hangs && !polling_continue())) device_work().wait(lock);
        lock.unlock();
        if (runtime_is_wanted() || grid_switches == before) std::this_thread::sleep_for(std::chrono::microseconds(20));
        lock.lock();
    }
}

static void device_wake()
{
    static bool runs;
    if (!runs) std::thread(device_run).detach();
    runs = true;
    device_work().notify_one();
}

bool device_is_lost()
{
    static bool is;
    if (is || !fault_now().is_lost) return is;
    is = true;
    static auto *dropped = new std::vector<work_ref>; /* kernels that are never continued */
    for (CUstream_st *s : streams()) {
        for (const work_ref &w : s->queue) w->done = true, dropped->push_back(w);
        s->queue.clear();
    }
    return is;
}

/* ---- streams and events ------------------------------------------------------------------------------------------ */

cudaError_t cudaDeviceSynchronize(void)
{
    ENTER;
    streams_finish();
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int)
{
    ENTER;
    streams_sweep();
    legacy();
    if (flags & ~(unsigned)cudaStreamNonBlocking) return remember(cudaErrorInvalidValue);
    *stream = stream_new(!(flags & cudaStreamNonBlocking));
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) /* returns at once; the work is done all the same */
{
    ENTER;
    CUstream_st *s;
    if (!stream || !stream_find(stream, &s)) return remember(cudaErrorInvalidResourceHandle);
    s->destroyed = true;
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    ENTER;
    CUstream_st *s;
    if (!stream_find(stream, &s)) return remember(cudaErrorInvalidResourceHandle);
    stream_finish(s);
    return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    ENTER;
    CUstream_st *s;
    if (!stream_find(stream, &s)) return remember(cudaErrorInvalidResourceHandle);
    return polled(s->queue.empty() ? nullptr : s->queue.back());
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    ENTER;
    CUstream_st *s;
    if (!event || !stream_find(stream, &s)) return remember(cudaErrorInvalidResourceHandle);
    if (flags) return remember(cudaErrorInvalidValue);
    add(s, nullptr, event->record);
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    ENTER;
    *event = new CUevent_st{device_current(), !(flags & cudaEventDisableTiming), nullptr};
    return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t *event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }

cudaError_t cudaEventDestroy(cudaEvent_t event) /* also of a device that is lost */
{
    ENTER;
    if (!event) return remember(cudaErrorInvalidResourceHandle);
    delete event;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    ENTER;
    CUstream_st *s;
    if (!event || !stream_find(stream, &s)) return remember(cudaErrorInvalidResourceHandle);
    if (s->device != event->device) return remember(cudaErrorInvalidResourceHandle);
    event->record = add(s, nullptr);
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    ENTER;
    if (!event) return remember(cudaErrorInvalidResourceHandle);
    const work_ref record = event->record;
    if (record) force(record);
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    ENTER;
    if (!event) return remember(cudaErrorInvalidResourceHandle);
    return polled(work_ref(event->record));
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    ENTER;
    if (!from || !to || !from->timed || !to->timed || !from->record || !to->record)
        return remember(cudaErrorInvalidResourceHandle);
    if (!from->record->done || !to->record->done) return remember(cudaErrorNotReady);
    *ms = (float)((to->record->ms - from->record->ms) / device_haste());
    return cudaSuccess;
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

struct rows {
    char *to;
    const char *from;
    size_t to_pitch, from_pitch, width, height;
    bool copy() const
    {
        for (size_t i = 0; i < height; i++) memmove(to + i * to_pitch, from + i * from_pitch, width);
        return true;
    }
};

static bool kind_fits(enum cudaMemcpyKind kind, memory_kind from, memory_kind to)
{
    switch (kind) {
    case cudaMemcpyHostToHost: return from != MEMORY_OF_DEVICE && to != MEMORY_OF_DEVICE;
    case cudaMemcpyHostToDevice: return from != MEMORY_OF_DEVICE && to == MEMORY_OF_DEVICE;
    case cudaMemcpyDeviceToHost: return from == MEMORY_OF_DEVICE && to != MEMORY_OF_DEVICE;
    case cudaMemcpyDeviceToDevice: return from == MEMORY_OF_DEVICE && to == MEMORY_OF_DEVICE;
    }
    return false;
}

/* The behaviour of each call towards the host is that of the documentation ("API synchronization behavior"). */
static cudaError_t copy_add(rows r, enum cudaMemcpyKind kind, cudaStream_t stream, bool waits)
{
    ENTER;
    CUstream_st *s;
    bool to_whole, from_whole;
    if (!stream_find(stream, &s)) return remember(cudaErrorInvalidResourceHandle);
    if (!r.width || !r.height) return cudaSuccess;
    if (r.height > 1 && (r.to_pitch < r.width || r.from_pitch < r.width)) return remember(cudaErrorInvalidValue);
    const memory_kind to = memory_of(r.to, (r.height - 1) * r.to_pitch + r.width, &to_whole);
    const memory_kind from = memory_of(r.from, (r.height - 1) * r.from_pitch + r.width, &from_whole);
    if (!to_whole || !from_whole) return remember(cudaErrorInvalidValue);
    if (!kind_fits(kind, from, to)) return remember(cudaErrorInvalidMemcpyDirection);
    if (from == MEMORY_OF_HOST && to == MEMORY_OF_DEVICE) {
        /* Staged at the call, which need not wait until the data has arrived. cudaMemcpy waits for the stream first. */
        if (waits) stream_finish(s);
        auto staged = std::make_shared<std::vector<char>>(r.width * r.height);
        rows{staged->data(), r.from, r.width, r.from_pitch, r.width, r.height}.copy();
        add(s, [staged, r] { return rows{r.to, staged->data(), r.to_pitch, r.width, r.width, r.height}.copy(); });
        return cudaSuccess;
    }
    const work_ref w = add(s, [r] { return r.copy(); });
    const bool on_device = from == MEMORY_OF_DEVICE && to == MEMORY_OF_DEVICE;
    const bool of_host = from != MEMORY_OF_DEVICE && to != MEMORY_OF_DEVICE;
    if ((waits && !on_device) || to == MEMORY_OF_HOST || of_host) force(w);
    return cudaSuccess;
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    return copy_add({(char *)to, (const char *)from, bytes, bytes, bytes, 1}, kind, nullptr, true);
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    return copy_add({(char *)to, (const char *)from, bytes, bytes, bytes, 1}, kind, stream, false);
}
cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                         enum cudaMemcpyKind kind)
{
    return copy_add({(char *)to, (const char *)from, to_pitch, from_pitch, width, height}, kind, nullptr, true);
}
cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                              size_t height, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    return copy_add({(char *)to, (const char *)from, to_pitch, from_pitch, width, height}, kind, stream, false);
}

cudaError_t cuda_to_symbol(void *symbol, size_t symbol_bytes, const void *from, size_t bytes, size_t offset)
{
    ENTER;
    bool whole;
    if (offset > symbol_bytes || bytes > symbol_bytes - offset) return remember(cudaErrorInvalidValue);
    const bool pageable = memory_of(from, bytes, &whole) == MEMORY_OF_HOST;
    CUstream_st *s = legacy();
    if (pageable) stream_finish(s);
    auto staged = std::make_shared<std::vector<char>>((const char *)from, (const char *)from + bytes);
    char *to = (char *)symbol + offset;
    const work_ref w = add(s, [staged, to, bytes] { return memcpy(to, staged->data(), bytes); });
    if (!pageable) force(w);
    return cudaSuccess;
}

static cudaError_t set_add(void *to, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream,
                           bool waits)
{
    ENTER;
    CUstream_st *s;
    bool whole;
    if (!stream_find(stream, &s)) return remember(cudaErrorInvalidResourceHandle);
    if (!width || !height) return cudaSuccess;
    const memory_kind of = memory_of(to, (height - 1) * pitch + width, &whole);
    if (of == MEMORY_OF_HOST || !whole || width > pitch) return remember(cudaErrorInvalidValue);
    const work_ref w = add(s, [to, pitch, value, width, height] {
        for (size_t row = 0; row < height; row++) memory_set((char *)to + row * pitch, value, width);
        return true;
    });
    if (waits && of == MEMORY_PINNED) force(w);
    return cudaSuccess;
}

cudaError_t cudaMemset(void *to, int value, size_t bytes) { return set_add(to, bytes, value, bytes, 1, nullptr, true); }
cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream)
{
    return set_add(to, bytes, value, bytes, 1, stream, false);
}
cudaError_t cudaMemset2DAsync(void *to, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream)
{
    return set_add(to, pitch, value, width, height, stream, false);
}

cudaError_t cudaFreeAsync(void *p, cudaStream_t stream)
{
    auto lock = runtime_lock();
    CUstream_st *s;
    bool whole;
    if (!stream_find(stream, &s)) return remember(cudaErrorInvalidResourceHandle);
    if (memory_of(p, 1, &whole) == MEMORY_OF_HOST) return remember(cudaErrorInvalidValue);
    add(s, [p] { return memory_free(p), true; });
    return cudaSuccess;
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */

static struct { /* the kernel that is being launched; its first thread names it */
    bool active;
    const void *entry;
    const char *name;
    int max_threads;
} launching;

bool cuda_kernel_named(const void *entry, const char *name, int max_threads)
{
    if (!launching.active) return false;
    launching.entry = entry;
    launching.name = name;
    launching.max_threads = max_threads;
    return true;
}

void cuda_kernel_launch(const cuda_grid &grid, const cuda_thread *given)
{
    const std::shared_ptr<const cuda_thread> thread(given);
    auto lock = runtime_lock();
    CUstream_st *s;
    if (device_is_lost()) return (void)remember(cudaErrorLaunchFailure);
    launching.active = true;
    thread->run();
    launching.active = false;
    cudaError_t e = cudaErrorInvalidResourceHandle;
    if (stream_find(grid.stream, &s) && s->device == device_current()) e = cudaSuccess;
    if (e == cudaSuccess) e = launch_check(grid, launching.entry, launching.max_threads);
    if (e != cudaSuccess) {
        remember(e);
        return;
    }
    const char *name = launching.name;
    add(s, [grid, name, thread, running = (grid_running *)NULL]() mutable {
        if (!running ? (running = grid_begin(grid, name, *thread)) != NULL : !grid_continue(running)) return false;
        memory_check(name);
        return true;
    });
    /* The host waits for an answer of this kernel, and makes no call meanwhile that would begin it. */
    for (bool begins = strcmp(name, "resident") == 0; begins && is_ready(s);) front_do(s);
}
