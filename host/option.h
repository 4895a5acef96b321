/* option - the values of command-line options: the whole text must be a number inside its range. */
#ifndef OPTION_H
#define OPTION_H

#include <stdbool.h>

/* false: a usage error was printed; option is the name as typed, "--block". */
bool option_int(const char *command, const char *option, const char *text, long min, long max, int *value);
bool option_number(const char *command, const char *option, const char *text, double min, double max, double *value);

/* Decibels of an amplitude; "off" or "-inf" is 0. */
bool option_db(const char *command, const char *option, const char *text, double *linear);

#endif
