/* processors - how many processors this process may use. */
#ifndef HALOCONV_PROCESSORS_H
#define HALOCONV_PROCESSORS_H

/* Counted by affinity: a container or taskset may grant fewer than are online. At least 1. */
int processors_usable(void);

#endif
