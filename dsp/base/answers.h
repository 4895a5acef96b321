/* answers - numbers for requests, and their results: those who asked read them by the number, from any thread and as
 * often as they like.
 *
 *   answers_next       any thread        the number of a new request
 *   answers_put        a worker          the result of a request; a request that a later one replaces gets none
 *   answers_publish    a worker          makes all results that were put so far readable
 */
#ifndef HALOCONV_ANSWERS_H
#define HALOCONV_ANSWERS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

enum { ANSWERS_KEPT = 16, ANSWER_CAP = 1024 /* bytes of a reason, which may be cut */ };

enum answer {
    ANSWER_PENDING,
    ANSWER_GOOD,
    ANSWER_FAILED,
    ANSWER_REPLACED /* a later request took its place, or ANSWERS_KEPT later ones have overwritten its answer */
};

struct answers {
    atomic_uint_fast64_t asked;     /* number of the last request; the first one is 1           */
    atomic_uint_fast64_t published; /* number of the last request whose answer may be read      */
    pthread_mutex_t lock;           /* held briefly. Under it:                                  */
    uint64_t last;                  /* number of the last request with an answer                */
    struct kept_answer {
        uint64_t number;
        int error;
        char why[ANSWER_CAP];
    } kept[ANSWERS_KEPT];           /* the answer to request n is in n % ANSWERS_KEPT           */
};

void answers_open(struct answers *answers); /* for a struct that is all 0 */
void answers_close(struct answers *answers);

uint64_t answers_next(struct answers *answers); /* [rt] */

/* error: 0, or any other number and its reason. */
void answers_put(struct answers *answers, uint64_t number, int error, const char *why);
void answers_publish(struct answers *answers);

/* Returns the answer to a request, after a failure with its reason. number 0, no request: ANSWER_GOOD. */
enum answer answers_get(struct answers *answers, uint64_t number, char why[ANSWER_CAP]);

#endif
