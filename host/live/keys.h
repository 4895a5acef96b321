/* keys - reads single keys from standard input, if that is a terminal and this process is in its foreground. */
#ifndef KEYS_H
#define KEYS_H

#include <stdbool.h>

/* Sets the terminal to deliver keys one by one, without echo. keys_close restores the terminal. */
void keys_open(void);
void keys_close(void);

/* The next key; 0: none. Returns at once. */
int keys_next(void);

#endif
