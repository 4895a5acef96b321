/* option - the values of command-line options that several commands take: the whole text must be good. */
#ifndef OPTION_H
#define OPTION_H

#include <stdbool.h>

/* false: a usage error was printed; option is the name as typed, "--block". */
bool option_int(const char *command, const char *option, const char *text, long min, long max, int *value);
bool option_number(const char *command, const char *option, const char *text, double min, double max, double *value);

/* Decibels of an amplitude; "off" or "-inf" is 0. */
bool option_db(const char *command, const char *option, const char *text, double *linear);

/* --backend: auto, cpu, cuda or cuda:N, and where it is live also hybrid, hybrid:N or hybrid:cpu; --method: auto,
 * direct or fft. */
bool option_backend(const char *command, const char *text, bool live);
bool option_method(const char *command, const char *text);

/* --format: SF_FORMAT_..., a container, a subtype or both. */
bool option_format(const char *command, const char *text, int *format);

/* Where to: -o; NULL = not given. what is what goes there: "sound". */
bool option_output(const char *command, const char *output, bool json, const char *what);

#endif
