/* words.cuh of kernels/resident for the emulated device, which runs no two kernels at once: the resident kernel is
 * compiled, and never launched. */
#include "resident.h"

static inline struct resident_word word_load(const struct resident_word *p) { return *p; }
static inline void word_store(struct resident_word *p, struct resident_word w) { *p = w; }
static inline bool seat_try(struct resident_seat *seat) { return seat->taken++ == 0; }
static inline void seat_free(struct resident_seat *seat) { seat->taken = 0; }
static inline uint64_t time_ns(void) { return 0; }
