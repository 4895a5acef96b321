/* keys - single keys from the terminal, where standard input is one and this process is in its foreground. */
#ifndef KEYS_H
#define KEYS_H

#include <stdbool.h>

/* Keys come one by one and unseen from now on; keys_close puts the terminal back. false: there is no terminal. */
bool keys_open(void);
void keys_close(void);

/* The next key, or 0: none is there. */
int keys_next(void);

#endif
