/* own_library - libraries of the program that it loads when a command needs them, because few commands do: their own
 * libraries would make every start slower, and a live session would lock them in memory. */
#ifndef OWN_LIBRARY_H
#define OWN_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

/* Writes the program's folder, with its final slash, to folder[cap]. false: it is not known. */
bool own_folder(char *folder, size_t cap);

/* Loads "haloconv_mpi.so" or another from the program's folder (a build), or from the place of `make install`. NULL:
 * dlerror() has the reason. */
void *own_library_open(const char *name);

#endif
