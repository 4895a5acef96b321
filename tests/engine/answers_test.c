/* Answers to requests: each is read by its number, after it was published, until sixteen later ones. */
#include "check.h"
#include "dsp/base/answers.h"

#include <stdlib.h>
#include <string.h>

static void check_answer(struct answers *a, uint64_t number, enum answer want, const char *reason)
{
    char why[ANSWER_CAP];
    for (int again = 0; again < 2; again++) {
        enum answer got = answers_get(a, number, why);
        check(got == want && strcmp(why, reason) == 0, "request %d: %d, %s, want %d, %s", (int)number, (int)got, why,
              (int)want, reason);
    }
}

/* 1 is replaced, 2 loaded, 3 refused, 5 loaded before 4, which is refused. */
static void an_answer_is_read_by_its_number(const char *backend)
{
    struct answers a = {0};
    answers_open(&a);
    for (uint64_t i = 1; i <= 5; i++) check(answers_next(&a) == i, "number %d", (int)i);
    check_answer(&a, 1, ANSWER_PENDING, "");
    answers_put(&a, 2, 0, "");
    answers_put(&a, 3, -1, "no file");
    check_answer(&a, 2, ANSWER_PENDING, "");
    answers_publish(&a);
    check_answer(&a, 1, ANSWER_REPLACED, "");
    check_answer(&a, 2, ANSWER_GOOD, "");
    check_answer(&a, 3, ANSWER_FAILED, "no file");
    check_answer(&a, 4, ANSWER_PENDING, "");
    answers_put(&a, 5, 0, "");
    answers_put(&a, 4, -2, "no memory");
    answers_publish(&a);
    check_answer(&a, 4, ANSWER_FAILED, "no memory");
    check_answer(&a, 5, ANSWER_GOOD, "");
    answers_close(&a);
}

static void the_last_answers_are_kept(const char *backend)
{
    static char reason[3 * ANSWER_CAP];
    struct answers a = {0};
    memset(reason, 'x', sizeof reason - 1);
    answers_open(&a);
    for (uint64_t i = 1; i <= 40; i++) {
        answers_put(&a, answers_next(&a), -1, reason);
        answers_publish(&a);
    }
    reason[ANSWER_CAP - 1] = '\0';
    check_answer(&a, 0, ANSWER_GOOD, ""); /* no request */
    for (uint64_t i = 1; i <= 40; i++) {
        bool is_kept = i > 40 - ANSWERS_KEPT;
        check_answer(&a, i, is_kept ? ANSWER_FAILED : ANSWER_REPLACED, is_kept ? reason : "");
    }
    answers_close(&a);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(an_answer_is_read_by_its_number, false),
        TEST(the_last_answers_are_kept, false),
    };
    return check_main("answers", tests, sizeof tests / sizeof *tests);
}
