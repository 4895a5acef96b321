/* denormals - makes a thread replace denormal numbers, which are slow, by 0. */
#ifndef HALOCONV_DENORMALS_H
#define HALOCONV_DENORMALS_H

/* Flushes denormals to zero on this thread. Returns the state for denormals_restore. [rt] */
unsigned denormals_off(void);
void denormals_restore(unsigned state);

#endif
