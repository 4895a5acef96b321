/* mailbox - passes a value from any thread to others; the last value that was put wins. No call waits, locks or
 * allocates.
 *
 *   put      fills in an unused record and lets `newest` name it; the record that `newest` named before is unused again
 *   remove   lets `newest` name no record: one thread gets the value
 *   read     copies the value; any thread may read it, as often as it likes
 *
 * A mailbox has either readers or threads that remove, not both. `newest` is the stamp of a record. A stamp recurs only
 * after 2^30 uses of its record: a reader that finds one stamp before and after its copy has a whole value.
 */
#ifndef HALOCONV_MAILBOX_H
#define HALOCONV_MAILBOX_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct mailboxes {
    int n;
    size_t bytes;  /* size of a value: a multiple of 8 */
    size_t stride; /* bytes from mailbox to mailbox: whole cache lines. Usually the first record is in use; its
                      value, if at most 48 bytes, shares a cache line with `newest` */
    char *memory;
};

enum { MAILBOX_RECORDS = 4 };
#define NO_STAMP UINT_MAX /* stamp of a reader before its first read */

/* Makes n empty mailboxes. false: no memory; mailboxes_close is then allowed, as for a struct that is all 0. [setup] */
bool mailboxes_open(struct mailboxes *mailboxes, int n, size_t bytes);
void mailboxes_close(struct mailboxes *mailboxes);

/* Puts a value into mailbox i. If several threads put values at the same moment, the value of one of them wins. Returns
 * true if nobody will read one of the values: *unread (may be NULL) gets the value that was replaced, or this one
 * if other threads use all records. [rt], any thread */
bool mailbox_put(const struct mailboxes *mailboxes, int i, const void *value, void *unread);

/* Removes the value and copies it to *value, unless value is NULL. false: the mailbox is empty. [rt], any thread */
bool mailbox_remove(const struct mailboxes *mailboxes, int i, void *value);

/* Copies the value if its stamp is not *stamp. If nobody has put a value, *stamp becomes 0 and *value stays. false: the
 * stamp is the same, or too many threads put values at this moment (*value is undefined); read again later. [rt], any
 * thread */
bool mailbox_read(const struct mailboxes *mailboxes, int i, unsigned *stamp, void *value);

/* Loads mailbox i into the cache. */
static inline void mailbox_prefetch(const struct mailboxes *mailboxes, int i)
{
    __builtin_prefetch(mailboxes->memory + (size_t)i * mailboxes->stride, 1);
}

#endif
