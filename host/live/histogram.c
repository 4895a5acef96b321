#include "histogram.h"

/* Class of ns: below 16 its own, above that its octave and the next four bits. */
static int class_of(uint64_t ns)
{
    if (ns < 16) return (int)ns;
    int octave = 63 - __builtin_clzll(ns); /* 4 and up */
    int i = (octave - 3) * 16 + (int)((ns >> (octave - 4)) & 15);
    return i < HISTOGRAM_CLASSES ? i : HISTOGRAM_CLASSES - 1;
}

/* The largest time of a class. */
static uint64_t top_of(int i)
{
    if (i < 16) return (uint64_t)i;
    int octave = i / 16 + 3;
    return ((uint64_t)(16 + i % 16 + 1) << (octave - 4)) - 1;
}

void histogram_add(struct histogram *h, uint64_t ns)
{
    atomic_fetch_add_explicit(&h->classes[class_of(ns)], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&h->n, 1, memory_order_relaxed);
    if (ns > atomic_load_explicit(&h->max_ns, memory_order_relaxed))
        atomic_store_explicit(&h->max_ns, ns, memory_order_relaxed);
}

void histogram_look(const struct histogram *h, struct histogram_view *view)
{
    view->n = 0; /* the sum of what is read here, whatever is added meanwhile */
    for (int i = 0; i < HISTOGRAM_CLASSES; i++)
        view->n += view->classes[i] = atomic_load_explicit(&h->classes[i], memory_order_relaxed);
    view->max_ns = atomic_load_explicit(&h->max_ns, memory_order_relaxed);
}

void histogram_count_on(struct histogram *h, const struct histogram_view *before)
{
    atomic_fetch_add(&h->n, before->n);
    if (before->max_ns > atomic_load(&h->max_ns)) atomic_store(&h->max_ns, before->max_ns);
    for (int i = 0; i < HISTOGRAM_CLASSES; i++) atomic_fetch_add(&h->classes[i], before->classes[i]);
}

void histogram_since(struct histogram_view *now, const struct histogram_view *before)
{
    int highest = -1;
    now->n -= before->n;
    for (int i = 0; i < HISTOGRAM_CLASSES; i++)
        if (now->classes[i] -= before->classes[i]) highest = i;
    uint64_t top = highest < 0 ? 0 : top_of(highest);
    if (top < now->max_ns) now->max_ns = top;
}

uint64_t histogram_quantile(const struct histogram_view *view, double share)
{
    double seen = 0, wanted = share * (double)view->n;
    for (int i = 0; i < HISTOGRAM_CLASSES; i++) {
        seen += (double)view->classes[i];
        if (view->classes[i] && seen >= wanted) return top_of(i) < view->max_ns ? top_of(i) : view->max_ns;
    }
    return view->n ? view->max_ns : 0;
}
