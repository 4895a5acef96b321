/* console - standard error while sound runs: lines that are said, and on a terminal one status line below them. */
#ifndef CONSOLE_H
#define CONSOLE_H

#include <stdbool.h>

void console_open(bool quiet);
bool console_is_terminal(void);

/* Say a line, above the status line; not when quiet. Any thread but the audio thread. */
void console_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void console_error(const char *format, ...) __attribute__((format(printf, 1, 2))); /* "haloconv: ...", always */

/* Replace the status line, which is cut at the terminal's width; "" removes it. On a terminal only. */
void console_status(const char *text);

#endif
