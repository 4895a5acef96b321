/* words.cuh of kernels/resident for the emulated device. Its host is slow beside a GPU: it has a slow clock, too. Each
 * access gives way at random, so workers, generations and the host's threads are in any order. */
#include "resident.h"

#include "dsp/base/await.h"

enum { SLOWER = 10, EARLY = 4000 };

static inline struct resident_word word_load(const struct resident_word *p)
{
    cuda_poll();
    const uint64_t word = __atomic_load_n((const uint64_t *)(const void *)p, __ATOMIC_RELAXED);
    return {(uint32_t)word, (uint32_t)(word >> 32)};
}

static inline void word_store(struct resident_word *p, struct resident_word w)
{
    cuda_poll();
    __atomic_store_n((uint64_t *)(void *)p, w.value | (uint64_t)w.number << 32, __ATOMIC_RELAXED);
}

static inline bool seat_try_acquire(struct resident_seat *seat)
{
    cuda_poll();
    const bool is_free = seat->is_held == 0;
    if (is_free) seat->is_held = 1;
    return is_free;
}

static inline void seat_release(struct resident_seat *seat) { seat->is_held = 0; }

/* Now and then much later: a worker leaves early, without a next one. */
static inline uint64_t time_ns(void) { return (uint64_t)now_ns() / SLOWER + (cuda_chance(EARLY) ? 1000000000 : 0); }
