/* room_questions - asks on the terminal; each question has a default answer. */
#ifndef ROOM_QUESTIONS_H
#define ROOM_QUESTIONS_H

#include <stdbool.h>
#include <stddef.h>

struct room_questions {
    bool yes;                /* use every default, ask nothing                    */
    bool has_ended;          /* standard input ended: every later answer fails     */
};

/* Prints the question and reads a line. An empty line is the default, which may be "". false: standard input has ended,
 * and an error was printed. */
bool room_ask(struct room_questions *questions, const char *question, const char *preset, char *answer, size_t cap);

/* The same for yes or no. */
bool room_ask_yes(struct room_questions *questions, const char *question, bool preset, bool *answer);

/* The same for a number from 1 to max. */
bool room_ask_number(struct room_questions *questions, const char *question, int preset, int max, int *answer);

#endif
