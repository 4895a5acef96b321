/* panel_pages - the files of page/, which the build writes into the program. */
#ifndef PANEL_PAGES_H
#define PANEL_PAGES_H

#include <stddef.h>

struct panel_page {
    const char *name;             /* "index.html"; NULL ends the list */
    const unsigned char *bytes;
    size_t n;
};

extern const struct panel_page panel_pages[];

#endif
