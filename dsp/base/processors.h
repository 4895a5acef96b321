/* processors - how many processors this process may use. */
#ifndef HALOCONV_PROCESSORS_H
#define HALOCONV_PROCESSORS_H

/* Returns their number, at least 1, by affinity and by the quotas of control groups: a container or taskset may grant
 * fewer than are online. */
int processors_usable(void);

#endif
