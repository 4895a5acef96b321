/* histogram - counts durations on the audio thread; other threads read the counts meanwhile. It has 16 classes an
 * octave, so a quantile is right within 3 %. */
#ifndef HISTOGRAM_H
#define HISTOGRAM_H

#include "haloconv_live.h"

#include <stdatomic.h>

struct histogram {
    atomic_uint_fast64_t max_ns;
    atomic_uint_fast64_t classes[HC_TIME_CLASSES];
};

/* One thread writes, any thread reads. [rt] */
void histogram_add(struct histogram *h, uint64_t ns);
void histogram_read(const struct histogram *h, hc_times *times);

#endif
