/* message - all that the program prints on standard error: lines, and on a terminal a status line below them. An error
 * reads "haloconv: SUBJECT: REASON; REMEDY". Under systemd each line begins with its priority for the journal instead.
 * Any thread but the audio thread.
 */
#ifndef MESSAGE_H
#define MESSAGE_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The reason and the remedy of a build without a part. The program that pip installs never has these parts. */
#ifdef HC_IN_WHEEL
#define MESSAGE_NO_PART(part, package) \
    "the program from pip has no " part "; install Debian's package haloconv, or build from source"
#else
#define MESSAGE_NO_PART(part, package) "this build has no " part "; install " package " and build again"
#endif

enum { EXIT_FAILED = 1, EXIT_USAGE = 2, MESSAGE_CAP = 1024 };

/* Prints an error line; returns EXIT_FAILED. */
int message_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints a usage error of a command ("" = the program) and where its help is; returns EXIT_USAGE. */
int message_usage(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints a line, unless quiet. Returns 0, so that it has the type of message_error. */
int message_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints a line, also if quiet. Returns 0. */
int message_always(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints a further line of an error, also if quiet. Returns 0. */
int message_detail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Replaces the status line, which is cut at the terminal's width; "" removes it. Prints nothing without a terminal. */
void message_status(const char *format, ...) __attribute__((format(printf, 1, 2)));
int message_columns(void); /* width of the status line; 0: no terminal */

/* Bounds the lines about one topic that a stranger may cause: `max` lines in 10 s, then one line with the number of the
 * others. */
struct message_limit {
    const char *topic;   /* "refused OSC messages"; set topic and max, and nothing else  */
    uint64_t max;
    uint64_t n;          /* lines in this period, also those left out; under lock        */
    double period_end;   /* under lock                                                   */
};
bool message_limit_allows(struct message_limit *limit); /* May the next line be printed? */
/* Prints "N more lines about TOPIC", if lines were left out: when the period is over, or now. Call it several times a
 * second. */
void message_limit_tend(struct message_limit *limit, bool now);

/* From now on, the listener gets each line that is printed, too, in the order of the lines; NULL: nobody. It may be
 * called by any thread, must print nothing, and is not called any more when message_listen returns. */
typedef void message_listener(void *data, bool is_error, const char *line);
void message_listen(message_listener *listener, void *data);

/* From now on, only errors are printed. */
void message_set_quiet(bool quiet);
bool message_is_quiet(void);

/* Returns the ending of a plural: "" for 1, else "s". */
const char *message_s(int64_t n);

/* 0, or less than it, is silence: -INFINITY. */
static inline double db_of_gain(double gain) { return gain > 0 ? 20 * log10(gain) : -INFINITY; }

/* Decibels as text, for an argument of printf: the text is valid during that call. A value that rounds to 0 has no
 * minus sign. message_db: "-3.0 dBFS", or "silence" for -INFINITY; unit "": the number alone. message_gain: "+3.0 dB",
 * or "none". message_signed: "+3.0 ppm", in any unit. */
struct message_db { char text[32]; };
struct message_db message_signed(double value, int decimals, const char *unit);
struct message_db message_db(double db, int decimals, const char *unit);
struct message_db message_gain(double db, int decimals);

/* Makes a text fit on one line: control characters, which a file name may have, would steer the terminal. */
void message_clean(char *text);

/* Writes an error text for a caller to print; returns 0, which is false. */
int message_write(char *why, size_t cap, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
