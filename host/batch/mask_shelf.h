/* mask_shelf - decoded masks that several workers use, the ones used last kept, within a bound of memory. */
#ifndef MASK_SHELF_H
#define MASK_SHELF_H

#include "dsp/haloconv_masks.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct shelf_mask {
    hc_responses responses;
    char *path;
    int n_in, rate;
    uint64_t serial;                  /* no other mask ever has the same */
    int64_t bytes;
    int users;
    bool failed;                    /* why has the reason, for everybody who asks */
    bool loading;
    char why[512];
    struct shelf_mask *older, *newer; /* by last use */
    struct shelf_mask *next;          /* of its row */
};

enum { SHELF_ROWS = 4096 }; /* by a hash of the path: a list may name as many masks as files */

struct mask_shelf {
    pthread_mutex_t lock;
    pthread_cond_t loaded;
    struct shelf_mask *oldest, *newest, *rows[SHELF_ROWS];
    uint64_t n_loaded;
    int64_t bytes, bound; /* of all; what is in use may go beyond the bound */
};

void mask_shelf_open(struct mask_shelf *shelf, int64_t bound);
void mask_shelf_close(struct mask_shelf *shelf); /* everything given back */

/* The mask for n_in inputs at a rate, loaded by the first who asks. NULL: why has the reason. For threads
 * at once. */
struct shelf_mask *mask_shelf_take(struct mask_shelf *shelf, const char *path, int n_in, int rate, char *why,
                                   size_t cap);
void mask_shelf_give_back(struct mask_shelf *shelf, struct shelf_mask *mask);

#endif
