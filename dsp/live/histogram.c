#include "histogram.h"

/* Returns the class of a duration: one for each ns below 16 ns, then 16 for each octave, by the next four bits. */
static int class_of(uint64_t ns)
{
    if (ns < 16) return (int)ns;
    int octave = 63 - __builtin_clzll(ns); /* at least 4 */
    int i = (octave - 3) * 16 + (int)((ns >> (octave - 4)) & 15);
    return i < HC_TIME_CLASSES ? i : HC_TIME_CLASSES - 1;
}

/* Returns the largest duration of a class, in ns. */
static uint64_t top_of(int i)
{
    if (i < 16) return (uint64_t)i;
    int octave = i / 16 + 3;
    return ((uint64_t)(16 + i % 16 + 1) << (octave - 4)) - 1;
}

/* A load and a store suffice, because only one thread writes. */
void histogram_add(struct histogram *h, uint64_t ns)
{
    atomic_uint_fast64_t *c = &h->classes[class_of(ns)];
    atomic_store_explicit(c, atomic_load_explicit(c, memory_order_relaxed) + 1, memory_order_relaxed);
    if (ns > atomic_load_explicit(&h->max_ns, memory_order_relaxed))
        atomic_store_explicit(&h->max_ns, ns, memory_order_relaxed);
}

void histogram_read(const struct histogram *h, hc_times *times)
{
    times->n = 0; /* count here, because the writer may add calls meanwhile */
    for (int i = 0; i < HC_TIME_CLASSES; i++)
        times->n += times->classes[i] = atomic_load_explicit(&h->classes[i], memory_order_relaxed);
    times->max_ns = atomic_load_explicit(&h->max_ns, memory_order_relaxed);
}

uint64_t hc_times_quantile(const hc_times *times, double share)
{
    double seen = 0, wanted = share * (double)times->n;
    for (int i = 0; i < HC_TIME_CLASSES; i++) {
        seen += (double)times->classes[i];
        if (times->classes[i] && seen >= wanted) return top_of(i) < times->max_ns ? top_of(i) : times->max_ns;
    }
    return times->n ? times->max_ns : 0;
}
