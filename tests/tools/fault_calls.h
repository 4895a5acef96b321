/* fault_calls - makes calls to the C library fail, in programs whose linker replaces these calls (FAULTY_CALLS in
 * tests.mk). Only calls of haloconv's own code fail, with two exceptions: libsndfile reads, writes and seeks through
 * the same functions, and host/json_print.c allocates for jansson. Allocations of other libraries do not fail: codecs
 * that libsndfile calls abort then.
 *
 * Not failed: initialisation of mutexes and conditions (never fails on Linux), fchmod (file systems without modes refuse
 * it), and output to standard error.
 */
#ifndef FAULT_CALLS_H
#define FAULT_CALLS_H

#include <stdbool.h>

enum fault_kind {
    FAULT_MEMORY, /* an allocation: ENOMEM                                                 */
    FAULT_THREAD, /* a new thread: EAGAIN                                                  */
    FAULT_IO,     /* a call about a file: EIO                                              */
    FAULT_SHORT,  /* read, write, pread, pwrite: half of the bytes                         */
    FAULT_EINTR,  /* the same calls: -1 with EINTR                                         */
    FAULT_KINDS,
};

/* From now on call number `n` of a kind fails, counted from 1; with `onward` every later one too. 0: none fails.
 * Not while another thread calls. A process that is started with HC_FAULT="KIND N once|onward" (memory, thread, io,
 * short, eintr) does this itself. */
void fault_set(enum fault_kind kind, long n, bool onward);
bool fault_happened(void); /* since fault_set with a number */

/* HC_FAULT_LOG=FILE: the file gets a line "KIND N CALL ADDRESS..." for the call that failed, and without HC_FAULT for
 * every call. The addresses are those of the callers in the program, innermost first, as addr2line takes them. */

#endif
