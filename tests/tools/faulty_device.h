/* faulty_device - the counters of the device that fails, and the call that releases an engine that it holds. */
#ifndef FAULTY_DEVICE_H
#define FAULTY_DEVICE_H

#include <stdatomic.h>

extern struct faulty_record { /* of all engines together                                    */
    atomic_long begun, finished; /* calls of process                                        */
    atomic_long scenes_finished; /* calls of play for steered sources                       */
    atomic_long scenes_still;    /* those that fade nothing                                 */
    atomic_int thread;           /* that made the last of them: gettid()                    */
} faulty_record;

/* Lets "auto" choose hybrid for responses of 400,000 taps, by costs that only this process has: those of a slow CPU and
 * of slow calls. */
void faulty_costs_keep(void);
void faulty_release(void); /* releases one engine of HC_FAULT="hold N" */

#endif
