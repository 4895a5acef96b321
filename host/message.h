/* message - what the program says on standard error: "haloconv: WHAT: WHY; REMEDY". */
#ifndef MESSAGE_H
#define MESSAGE_H

#include <stddef.h>
#include <stdint.h>

enum { EXIT_FAILED = 1, EXIT_USAGE = 2, MESSAGE_CAP = 1024 };

/* What a noun ends with: "" for 1, else "s". */
const char *message_s(int64_t n);

/* Print an error line; returns EXIT_FAILED. */
int message_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Print a usage error of a command ("" = of the program) and where the help is; returns EXIT_USAGE. */
int message_usage(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Print a remark. */
void message_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* One line that a terminal only shows: what steers it, or ends the line, may stand in a stranger's file name. */
void message_clean(char *text);

/* Write an error text for a caller to print; returns 0, which is false. */
int message_write(char *why, size_t cap, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
