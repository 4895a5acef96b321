/* room_step - a step of haloconv room: a command of the program, which is printed and run. */
#ifndef ROOM_STEP_H
#define ROOM_STEP_H

#include <stdbool.h>

enum { ROOM_MAX_WORDS = 64 };

struct room_step {           /* starts as {0}                         */
    char *word[ROOM_MAX_WORDS + 1];
    int n;
    bool is_short;           /* no memory, or too many words    */
};

void room_step_add(struct room_step *step, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Adds an option and its value. value NULL or "": adds nothing. */
void room_step_option(struct room_step *step, const char *option, const char *value);

/* Prints and runs the command, and frees its words. prefix: the first word of a command of two, else "". Returns the
 * exit status. */
int room_step_run(struct room_step *step, const char *prefix, int (*command)(int argc, char **argv));

#endif
