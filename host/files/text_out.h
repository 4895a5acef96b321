/* text_out - a text file that gets its name only when it is complete (see part_file.h). */
#ifndef TEXT_OUT_H
#define TEXT_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Has print() write the text. false: why has the reason. */
bool text_out(const char *path, void (*print)(FILE *file, const void *data), const void *data, char *why, size_t cap);

/* Makes a folder and its parents. false: why has the reason. */
bool text_out_folder(const char *path, char *why, size_t cap);

/* The same as text_out for a text in which # begins a comment, such as a configuration, and which a user may edit: its
 * last line has a checksum of the others. */
bool text_out_marked(const char *path, void (*print)(FILE *file, const void *data), const void *data, char *why,
                     size_t cap);

/* May text_out_marked replace the file? It must be absent, or as text_out_marked wrote it; and contain `words`, unless
 * that is NULL. false: why has the reason. */
bool text_out_may_replace(const char *path, const char *words, char *why, size_t cap);

#endif
