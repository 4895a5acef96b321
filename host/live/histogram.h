/* histogram - how long something took, counted by the audio thread and read beside it: 16 classes an octave, so a
 * quantile is right within 3 %. */
#ifndef HISTOGRAM_H
#define HISTOGRAM_H

#include <stdatomic.h>
#include <stdint.h>

enum { HISTOGRAM_CLASSES = 16 * 34 }; /* up to 2^37 ns, two minutes */

struct histogram {
    atomic_uint_fast64_t n, max_ns;
    atomic_uint_fast64_t classes[HISTOGRAM_CLASSES];
};

/* One writer. [rt] */
void histogram_add(struct histogram *h, uint64_t ns);

struct histogram_view { /* a copy, or what came after a copy */
    uint64_t n, max_ns;
    uint64_t classes[HISTOGRAM_CLASSES];
};
void histogram_look(const struct histogram *h, struct histogram_view *view);

/* Begin with what was counted elsewhere, before the writer does. */
void histogram_count_on(struct histogram *h, const struct histogram_view *before);

/* now -= before: what was added in between; max_ns becomes the upper edge of the highest class, or max_ns if less. */
void histogram_since(struct histogram_view *now, const struct histogram_view *before);

/* The time that a share (0 to 1) of all stayed within; 0 when there are none. */
uint64_t histogram_quantile(const struct histogram_view *view, double share);

#endif
