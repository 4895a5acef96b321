#include "answers.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

void answers_open(struct answers *a)
{
    pthread_mutex_init(&a->lock, NULL);
}

void answers_close(struct answers *a)
{
    pthread_mutex_destroy(&a->lock);
}

uint64_t answers_next(struct answers *a)
{
    return atomic_fetch_add(&a->asked, 1) + 1;
}

void answers_put(struct answers *a, uint64_t number, int error, const char *why)
{
    struct kept_answer *to = &a->kept[number % ANSWERS_KEPT];
    pthread_mutex_lock(&a->lock);
    to->number = number;
    to->error = error;
    snprintf(to->why, ANSWER_CAP, "%s", why);
    if (number > a->last) a->last = number;
    pthread_mutex_unlock(&a->lock);
}

void answers_publish(struct answers *a)
{
    pthread_mutex_lock(&a->lock);
    atomic_store(&a->published, a->last);
    pthread_mutex_unlock(&a->lock);
}

enum answer answers_get(struct answers *a, uint64_t number, char why[ANSWER_CAP])
{
    const struct kept_answer *from = &a->kept[number % ANSWERS_KEPT];
    why[0] = '\0';
    if (number == 0) return ANSWER_GOOD;
    if (atomic_load(&a->published) < number) return ANSWER_PENDING;
    pthread_mutex_lock(&a->lock);
    bool is_kept = from->number == number, has_failed = is_kept && from->error;
    if (has_failed) memcpy(why, from->why, sizeof from->why);
    pthread_mutex_unlock(&a->lock);
    return !is_kept ? ANSWER_REPLACED : has_failed ? ANSWER_FAILED : ANSWER_GOOD;
}
