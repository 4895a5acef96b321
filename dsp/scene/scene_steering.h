/* steering - the terms of each source in one level: the fades between requests, hop by hop.
 *
 * At each edge of a hop the weights of a source's terms move towards those of its last request, in equal steps over
 * n_hops hops. Within a hop the backend fades between the lists of two edges.
 */
#ifndef HALOCONV_STEERING_H
#define HALOCONV_STEERING_H

#include "device_bank.h"

enum { CACHE_LINE = 64 };

struct steer_request {
    hc_bank *bank; /* NULL if n is 0. The request counts as a use of the bank */
    int n;
    int entry[HC_MAX_MIX];
    float weight[HC_MAX_MIX];
};

struct wanted {       /* the last request that the engine thread applied; fills a cache line                     */
    _Alignas(CACHE_LINE) struct steer_request request;
    unsigned number;  /* number of requests of the source so far                                                 */
};

struct term_list {
    struct scene_term *terms; /* [n_sources * HC_MAX_SOUNDING], by source; each counts as a use of a bank            */
    int n, n_active;           /* n: terms; n_active: outputs of the largest bank                                     */
};

struct source_mix;

struct steering {     /* the steering of one level                                                               */
    int n_sources, n_hops;
    struct source_mix *mixes; /* [n_sources]                                                                     */
    struct term_list lists[2]; /* of the last edge, and of the edge before until the next call                    */
    int now;          /* the list of the last edge                                                               */
    unsigned n_changes; /* how often this list, or that of the head it follows, changed                           */
};

/* false: no memory. [setup] */
bool steering_open(struct steering *steering, int n_sources, int n_hops);
void steering_close(struct steering *steering);
/* Returns the bytes of the mixes and lists of a level. */
double steering_memory(int n_sources);

/* Goes to the next edge. at_once: without a fade. Returns true if the list differs from the previous edge's list, which
 * stays valid until the next call. [rt], engine thread */
bool steering_step(struct steering *steering, const struct wanted *wanted, bool at_once);

/* If the fades of a level and of the head last one hop each, both have the same list at a common edge: the entries of
 * the last requests. steering_follow copies the head's list instead of calling steering_step. If the head has not
 * changed since the previous edge, the level keeps its list: a backend sees that nothing fades. [rt], engine thread */
bool steering_can_follow(const struct steering *steering, const struct steering *head);
void steering_follow(struct steering *steering, const struct steering *head);

#endif
