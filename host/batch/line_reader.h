/* line_reader - reads a text line by line. A list may be a stranger's file: the memory for a line is bounded, and a
 * failed read is never taken for the end of the file.
 */
#ifndef LINE_READER_H
#define LINE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { LINE_BYTES = 1 << 20 }; /* a line is shorter */

enum line_state {
    LINE_READ,
    LINE_END,    /* of the file; there is no line */
    LINE_BAD,    /* too long, or not text; the next call begins behind this line */
    LINE_FAILED, /* the file cannot be read */
};

struct line_reader {
    FILE *file;
    const char *path, *remedy; /* remedy: for an error of reading */
    char *line;    /* [LINE_BYTES + 1]; has its '\n', except the last line of a file */
    size_t length; /* of line */
    size_t number; /* of the last line that was read, from 1 on */
    bool inside;   /* a bad line, whose rest was not read */
};

/* path: "-" is standard input; path and remedy must outlive in. false: why has the reason. */
bool line_reader_open(struct line_reader *in, const char *path, const char *remedy, char *why, size_t cap);
enum line_state line_read(struct line_reader *in, char *why, size_t cap); /* LINE_BAD, LINE_FAILED: why */
void line_reader_close(struct line_reader *in);

#endif
