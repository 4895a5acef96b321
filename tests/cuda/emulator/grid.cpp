/* grid - runs the threads of a kernel as fibers on one host thread.
 *
 * A fiber runs until it waits at a barrier, so between two barriers the threads of a block are as far apart as CUDA
 * allows. Their order is random and different after each barrier. Blocks run one after another in a random order. So a
 * kernel that lacks a barrier reads a value that is not written yet or already overwritten. Shared memory is NaN at the
 * start of a block, and ends at a page without access.
 *
 * A block that polls gives way (cuda_poll): it stops there, and the next one runs. Blocks that gave way, also those
 * of several grids, take turns until they are done. Their variables in shared memory are copied away meanwhile.
 *
 * The emulator cannot show two threads that write at the same instant, or the weak memory order between blocks.
 */
#include "emulator.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;
void *cuda_dynamic_shared;

enum {
    MAX_THREADS = 1024,
    WARP = 32,
#if defined(__SANITIZE_ADDRESS__)
    STACK_BYTES = 1 << 18,
#else
    STACK_BYTES = 1 << 16,
#endif
    POLLS = 16, /* of so many polls one gives way */
    SHARED_BYTES = 256 << 10 /* of a block's dynamic shared memory: more than any device has */
};

struct late_copy { void *to; const void *from; size_t bytes, valid; };

struct fiber {
    uint3 index;
    unsigned number;           /* in its block */
    int stack;                 /* -1: not begun, or done */
    bool done;
    const unsigned long *wait; /* waits while this count of passed barriers is `seen`; NULL: can run */
    unsigned long seen;
    unsigned exchanges;
    std::vector<late_copy> copies;
#if defined(__x86_64__)
    void *sp;
#else
    ucontext_t context;
#endif
#if defined(__SANITIZE_ADDRESS__)
    void *fake_stack;
#endif
};

struct warp {
    unsigned long barriers; /* passed */
    unsigned waiting, lanes, here; /* masks of lanes: at the barrier, of the barrier, not done */
    alignas(16) unsigned char given[2][WARP][16];
};

struct grid_running {
    const cuda_grid grid;
    const char *const name;
    const cuda_thread &thread;
    std::vector<struct block *> polling; /* its blocks that gave way */
};

static struct block {
    const grid_running *of;
    uint3 index;
    struct fiber fibers[MAX_THREADS];
    struct warp warps[MAX_THREADS / WARP];
    unsigned n, alive, waiting;
    unsigned long barriers;
    const char *barrier_file;
    int barrier_line;
    struct fiber *now;
    device_order order{0};     /* of this pass over the fibers; visited: so many; any: one could run */
    unsigned visited;
    bool any;
    int dead_stack;            /* of the fiber that was done last; -1: none */
    char *stacks, *shared_end, *shared;
    int free_stacks[MAX_THREADS], n_free, n_guarded;
    std::vector<char> statics; /* the variables in shared memory, while another block runs */
#if defined(__x86_64__)
    void *host_sp;
#else
    ucontext_t host;
#endif
#if defined(__SANITIZE_ADDRESS__)
    bool from_host;            /* the switch under way */
    const void *host_stack;    /* of the thread that runs the grid */
    size_t host_stack_bytes;
    void *host_fake_stack;
#endif
} *block; /* the one that runs */
static bool running;
unsigned long grid_switches;

/* ---- fibers ------------------------------------------------------------------------------------------------------ */

static size_t page_bytes() { return (size_t)sysconf(_SC_PAGESIZE); }

/* Allocates memory that ends at a page without access. */
static char *guarded(size_t bytes)
{
    const size_t page = page_bytes();
    char *p = (char *)mmap(NULL, bytes + page, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED || mprotect(p + bytes, page, PROT_NONE)) device_fault("no memory for the threads of a block");
    return p;
}

/* Blocks without work; they keep their memory. */
static std::vector<struct block *> &spare_blocks()
{
    static auto *all = new std::vector<struct block *>;
    return *all;
}

static struct block *block_new()
{
    if (!spare_blocks().empty()) {
        struct block *spare = spare_blocks().back();
        spare_blocks().pop_back();
        return spare;
    }
    auto *b = new struct block();
    b->shared_end = guarded(SHARED_BYTES) + SHARED_BYTES;
    b->stacks = (char *)mmap(NULL, (size_t)MAX_THREADS * STACK_BYTES, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (b->stacks == MAP_FAILED) device_fault("no memory for the threads of a block");
    for (int i = 0; i < MAX_THREADS; i++) b->free_stacks[b->n_free++] = MAX_THREADS - 1 - i;
    return b;
}

#if defined(__x86_64__)
/* Saves the callee-saved registers, and continues `to` where it stopped. */
extern "C" void cuda_fiber_switch(void **from, void *to);
asm(".text\n"
    ".globl cuda_fiber_switch\n"
    ".type cuda_fiber_switch, @function\n"
    "cuda_fiber_switch:\n"
    "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
    "  movq %rsp, (%rdi)\n"
    "  movq %rsi, %rsp\n"
    "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
    "  ret\n"
    ".size cuda_fiber_switch, .-cuda_fiber_switch\n");
#endif

/* Continues `to`, or the host thread if all are done (NULL); returns when f is continued. */
static void switch_from(struct fiber *f, struct fiber *to);

static void warp_open_if_all_wait(struct warp *w)
{
    if (!w->waiting || (w->waiting & w->lanes) != (w->lanes & w->here)) return;
    w->waiting = 0;
    w->barriers++;
}

static void block_open_if_all_wait()
{
    if (!block->waiting || block->waiting != block->alive) return;
    block->waiting = 0;
    block->barriers++;
}

/* The next fiber that can run, in the order of this pass or of a new one; NULL: all are done. */
static struct fiber *fiber_next()
{
    while (block->alive) {
        for (; block->visited < block->n; block->visited++) {
            struct fiber *f = &block->fibers[block->order.next()];
            if (f->done || (f->wait && *f->wait == f->seen)) continue;
            block->visited++;
            block->any = true;
            return f;
        }
        if (!block->any) {
            block->now = NULL;
            device_fault("its threads wait for one another: %u of %u are done, %u wait at __syncthreads (%s:%d)",
                         block->n - block->alive, block->n, block->waiting, block->waiting ? block->barrier_file : "-",
                         block->waiting ? block->barrier_line : 0);
        }
        block->order = device_order(block->n);
        block->visited = 0;
        block->any = false;
    }
    return NULL;
}

static void fiber_main();

static void fiber_begin(struct fiber *f)
{
    f->stack = block->free_stacks[--block->n_free];
    char *low = block->stacks + (size_t)f->stack * STACK_BYTES;
    if (f->stack == block->n_guarded) mprotect(low, page_bytes(), PROT_NONE), block->n_guarded++;
    /* At different offsets of a page: else the stacks would share one cache line. */
    char *top = low + STACK_BYTES - (size_t)(f->stack % 12) * 320;
#if defined(__x86_64__)
    void **sp = (void **)((uintptr_t)top & ~(uintptr_t)15);
    *--sp = NULL; /* the return address of fiber_main; it also aligns the stack as a call does */
    *--sp = (void *)fiber_main;
    for (int i = 0; i < 6; i++) *--sp = NULL;
    f->sp = sp;
#else
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = low + page_bytes();
    f->context.uc_stack.ss_size = (size_t)(top - low) - page_bytes();
    f->context.uc_link = NULL;
    makecontext(&f->context, fiber_main, 0);
#endif
}

/* Called in a fiber that continues: frees the stack of the fiber that was done before. */
static void fiber_arrive(void *fake_stack)
{
#if defined(__SANITIZE_ADDRESS__)
    const void *stack;
    size_t bytes;
    __sanitizer_finish_switch_fiber(fake_stack, &stack, &bytes);
    if (block->from_host) block->host_stack = stack, block->host_stack_bytes = bytes;
#else
    (void)fake_stack;
#endif
    if (block->dead_stack >= 0) block->free_stacks[block->n_free++] = block->dead_stack;
    block->dead_stack = -1;
}

static void switch_from(struct fiber *f, struct fiber *to)
{
    if (to) {
        if (to->stack < 0) fiber_begin(to);
        to->wait = NULL;
        block->now = to;
        threadIdx = to->index;
        grid_switches += f != NULL;
    }
    if (f && f->done) block->dead_stack = f->stack;
#if defined(__SANITIZE_ADDRESS__)
    block->from_host = !f;
    void **fake_stack = !f ? &block->host_fake_stack : f->done ? NULL : &f->fake_stack;
    if (to) __sanitizer_start_switch_fiber(fake_stack, block->stacks + (size_t)to->stack * STACK_BYTES, STACK_BYTES);
    else __sanitizer_start_switch_fiber(fake_stack, block->host_stack, block->host_stack_bytes);
#endif
#if defined(__x86_64__)
    cuda_fiber_switch(f ? &f->sp : &block->host_sp, to ? to->sp : block->host_sp);
#else
    swapcontext(f ? &f->context : &block->host, to ? &to->context : &block->host);
#endif
#if defined(__SANITIZE_ADDRESS__)
    fiber_arrive(f ? f->fake_stack : block->host_fake_stack);
#else
    fiber_arrive(NULL);
#endif
}

static void fiber_main()
{
    fiber_arrive(NULL);
    struct fiber *f = block->now;
    block->of->thread.run();
    f->done = true;
    struct warp *w = &block->warps[f->number / WARP];
    w->here &= ~(1u << f->number % WARP);
    block->alive--;
    warp_open_if_all_wait(w);
    block_open_if_all_wait();
    switch_from(f, fiber_next());
    abort(); /* a fiber that is done never continues */
}

static void wait_for(const unsigned long *barriers, unsigned long seen)
{
    struct fiber *f = block->now;
    if (*barriers != seen) return;
    f->wait = barriers;
    f->seen = seen;
    struct fiber *to = fiber_next(); /* the last thread opens the barrier, so this may be f */
    if (to != f) switch_from(f, to);
    else f->wait = NULL;
}

/* ---- what a kernel calls ----------------------------------------------------------------------------------------- */

void cuda_block_barrier(const char *file, int line)
{
    if (!block->waiting) block->barrier_file = file, block->barrier_line = line;
    else if (block->barrier_line != line || (block->barrier_file != file && strcmp(block->barrier_file, file) != 0))
        device_fault("__syncthreads at %s:%d, while others of the block wait at %s:%d", file, line, block->barrier_file,
                     block->barrier_line);
    const unsigned long seen = block->barriers;
    block->waiting++;
    block_open_if_all_wait();
    wait_for(&block->barriers, seen);
}

unsigned cuda_lane() { return block->now->number % WARP; }

void cuda_warp_barrier(unsigned lanes)
{
    struct warp *w = &block->warps[block->now->number / WARP];
    const unsigned mine = 1u << cuda_lane();
    if (!(lanes & mine)) device_fault("a barrier of the lanes %08x, of which lane %u is none", lanes, cuda_lane());
    if (w->waiting && w->lanes != lanes)
        device_fault("a barrier of the lanes %08x, while others wait for %08x", lanes, w->lanes);
    const unsigned long seen = w->barriers;
    w->lanes = lanes;
    w->waiting |= mine;
    warp_open_if_all_wait(w);
    wait_for(&w->barriers, seen);
}

void cuda_exchange(unsigned lanes, const void *mine, void *theirs, size_t bytes, unsigned from)
{
    struct fiber *f = block->now;
    struct warp *w = &block->warps[f->number / WARP];
    /* Two buffers in turn: the thread that writes the next value may be a barrier ahead of the reader of this one. */
    unsigned char(*given)[16] = w->given[f->exchanges++ & 1];
    if (bytes > sizeof given[0]) device_fault("a shuffle of %zu bytes", bytes);
    if (!(lanes >> from & 1) || !(w->here >> from & 1))
        device_fault("a shuffle from lane %u, which does not take part", from);
    memcpy(given[cuda_lane()], mine, bytes);
    cuda_warp_barrier(lanes);
    memcpy(theirs, given[from], bytes);
}

bool cuda_chance(unsigned n) { return device_seed() && device_random(n) == 0; }

void cuda_poll()
{
    if (device_random(POLLS) == 0) switch_from(block->now, NULL);
}

struct shared_variable { char *begin, *end; };

/* The shared variables of the kernels that have run; each ends at the end of a page. */
static std::vector<shared_variable> &static_shared()
{
    static auto *all = new std::vector<shared_variable>;
    return *all;
}

void *cuda_static_shared_bytes(size_t bytes)
{
    const size_t mapped = (bytes + page_bytes() - 1) / page_bytes() * page_bytes();
    char *end = guarded(mapped) + mapped, *begin = end - (bytes + 15) / 16 * 16;
    memset(begin, 0xff, (size_t)(end - begin));
    static_shared().push_back({begin, end});
    return begin;
}

void cuda_copy_later(void *to, const void *from, size_t bytes, size_t valid)
{
    if ((uintptr_t)to % bytes || (uintptr_t)from % bytes)
        device_fault("a copy of %zu bytes from %p to %p: not aligned", bytes, from, to);
    memset(to, 0xff, bytes);
    block->now->copies.push_back({to, from, bytes, valid});
}

void cuda_copies_wait()
{
    for (const late_copy &copy : block->now->copies) {
        memcpy(copy.to, copy.from, copy.valid);
        memset((char *)copy.to + copy.valid, 0, copy.bytes - copy.valid);
    }
    block->now->copies.clear();
}

/* ---- blocks and grids -------------------------------------------------------------------------------------------- */

struct grid_counts *grid_counts;

/* Shared memory is ff ff ff ff until it is written. */
static unsigned long floats_written(const char *from, const char *to)
{
    unsigned long n = 0;
    for (; from < to; from += sizeof(uint32_t)) n += *(const uint32_t *)from != 0xffffffff;
    return n;
}

static void block_count(unsigned long barriers_before)
{
    unsigned long floats = floats_written(block->shared, block->shared_end);
    for (const shared_variable &v : static_shared()) floats += floats_written(v.begin, v.end);
    grid_counts->blocks++;
    grid_counts->threads += block->n;
    grid_counts->barriers += block->barriers - barriers_before;
    if (floats > grid_counts->shared_floats) grid_counts->shared_floats = floats;
}

static struct block *statics_of; /* the block whose variables are in shared memory; NULL: it is done */

/* Gives the variables in shared memory to a block. A variable is added to the list when its kernel runs first. */
static void statics_switch(struct block *to)
{
    if (statics_of == to) return;
    if (statics_of) {
        statics_of->statics.clear();
        for (const shared_variable &v : static_shared())
            statics_of->statics.insert(statics_of->statics.end(), v.begin, v.end);
    }
    statics_of = to;
    size_t at = 0;
    for (const shared_variable &v : static_shared()) {
        const size_t bytes = (size_t)(v.end - v.begin);
        if (at + bytes <= to->statics.size()) memcpy(v.begin, to->statics.data() + at, bytes);
        else memset(v.begin, 0xff, bytes);
        at += bytes;
    }
}

/* Runs a block until it is done (true) or gives way. */
static bool block_continue(struct block *b, struct fiber *(*first)())
{
    block = b;
    blockIdx = b->index;
    blockDim = b->of->grid.block;
    gridDim = b->of->grid.grid;
    cuda_dynamic_shared = b->shared;
    statics_switch(b);
    running = true;
    switch_from(NULL, first());
    running = false;
    if (b->alive) return false;
    statics_of = NULL;
    b->now = NULL;
    return true;
}

/* As block_continue. */
static bool block_begin(struct block *b, const grid_running *of, uint3 index)
{
    const unsigned long barriers = b->barriers;
    b->of = of;
    b->index = index;
    b->n = of->grid.block.x * of->grid.block.y * of->grid.block.z;
    b->statics.clear();
    b->shared = b->shared_end - (of->grid.shared + 15) / 16 * 16;
    memset(b->shared, 0xff, (size_t)(b->shared_end - b->shared));
    b->alive = b->n;
    b->waiting = 0;
    for (unsigned i = 0; i < (b->n + WARP - 1) / WARP; i++) {
        const unsigned left = b->n - i * WARP;
        b->warps[i].here = left >= WARP ? ~0u : (1u << left) - 1;
        b->warps[i].waiting = 0;
    }
    const dim3 size = of->grid.block;
    for (unsigned i = 0; i < b->n; i++) {
        struct fiber *f = &b->fibers[i];
        f->index = {i % size.x, i / size.x % size.y, i / size.x / size.y};
        f->number = i;
        f->stack = -1;
        f->done = false;
        f->wait = NULL;
        f->exchanges = 0;
        f->copies.clear();
    }
    b->order = device_order(b->n);
    b->visited = 0;
    b->any = false;
    b->dead_stack = -1;
    const bool done = block_continue(b, fiber_next);
    if (done && grid_counts) block_count(barriers);
    return done;
}

/* Frees a grid whose blocks are all done; else returns false. */
static bool grid_end(grid_running *grid)
{
    if (!grid->polling.empty()) return false;
    delete grid;
    return true;
}

grid_running *grid_begin(const cuda_grid &grid, const char *name, const cuda_thread &thread)
{
    auto *of = new grid_running{grid, name, thread, {}};
    if (grid_counts) grid_counts->launches++;
    const size_t x = grid.grid.x, y = grid.grid.y, n = x * y * grid.grid.z;
    device_order order(n);
    for (size_t i = 0; i < n; i++) {
        const size_t b = order.next();
        struct block *next = block_new();
        if (block_begin(next, of, {(unsigned)(b % x), (unsigned)(b / x % y), (unsigned)(b / x / y)}))
            spare_blocks().push_back(next);
        else
            of->polling.push_back(next);
    }
    return grid_end(of) ? NULL : of;
}

bool grid_continue(grid_running *grid)
{
    auto &polling = grid->polling;
    for (size_t i = 0; i < polling.size();)
        if (block_continue(polling[i], [] { return block->now; })) {
            spare_blocks().push_back(polling[i]);
            polling[i] = polling.back();
            polling.pop_back();
        } else {
            i++;
        }
    return grid_end(grid);
}

bool grid_where(char *text, size_t cap)
{
    if (!running) return false;
    const uint3 t = block->now ? block->now->index : uint3{0, 0, 0};
    snprintf(text, cap, "%s, block (%u, %u, %u) of (%u, %u, %u), thread (%u, %u, %u) of (%u, %u, %u)", block->of->name,
             blockIdx.x, blockIdx.y, blockIdx.z, gridDim.x, gridDim.y, gridDim.z, t.x, t.y, t.z, blockDim.x, blockDim.y,
             blockDim.z);
    return true;
}
