/* own_library - loads libraries of the program that few commands need, when a command needs them: their dependencies
 * would slow down every start, and a live session would lock them in memory. */
#ifndef OWN_LIBRARY_H
#define OWN_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

/* Writes the program's folder, with its final slash, to folder[cap]. false: the folder is unknown. */
bool own_folder(char *folder, size_t cap);

/* Loads "haloconv_panel.so" or another from the program's folder (a build), or from the folder of `make install`. NULL:
 * dlerror() has the reason. */
void *own_library_open(const char *name);

#endif
