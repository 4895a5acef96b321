/* text_out - a text file that gets its name only when it is complete (see part_file.h). */
#ifndef TEXT_OUT_H
#define TEXT_OUT_H

#include <stdbool.h>
#include <stdio.h>

/* Has print() write the text. false: why has the reason. */
bool text_out(const char *path, void (*print)(FILE *file, const void *data), const void *data, char *why, size_t cap);

#endif
