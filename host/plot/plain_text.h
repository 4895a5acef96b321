/* plain_text - texts that a picture can show whatever bytes they come from: names of files, titles. */
#ifndef PLOT_PLAIN_TEXT_H
#define PLOT_PLAIN_TEXT_H

/* Returns a copy, from malloc, in UTF-8 that XML 1.0 allows: U+FFFD replaces stray bytes, control characters and the
 * marks that turn the direction of the text. If it is wider than max_cells, "..." replaces its middle: the names of
 * files differ at both ends. NULL: no memory. */
char *plain_text_make(const char *text, double max_cells);

/* Returns the width in cells, one for a letter of the Latin alphabet, two for a sign of the East Asian scripts. */
int plain_text_cells(const char *text);

#endif
