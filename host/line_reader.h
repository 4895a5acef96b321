/* line_reader - reads a text line by line. A list may be a stranger's file: the memory for a line is bounded, and a
 * failed read never counts as the end of the file.
 */
#ifndef LINE_READER_H
#define LINE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { LINE_BYTES = 1 << 20 }; /* a line has fewer bytes */

enum line_state {
    LINE_READ,
    LINE_END,    /* end of the file: no line was read                            */
    LINE_BAD,    /* too long, or not text; the next call begins behind this line */
    LINE_FAILED, /* the file cannot be read                                      */
};

struct line_reader {
    FILE *file;
    const char *path, *remedy; /* remedy: for the error that the file cannot be read             */
    char *why;                 /* [cap]: the last error                                          */
    size_t cap;
    char *line;                /* [LINE_BYTES + 1]; has its '\n', except the last line of a file */
    size_t length;             /* bytes of `line`                                                */
    size_t number;             /* number of the last line that was read, from 1                  */
    bool is_rest_unread;       /* the last line was LINE_BAD, and its end is unread              */
};

/* Opens a text file that the command line names. Refuses a named pipe, because opening it waits for its writer, and a
 * device, which may have no end; accepts a pipe of the shell, as in <(command). NULL: *reason is why, not the path. */
FILE *text_in_open(const char *path, const char **reason);

/* Opens a text. path: "-" is standard input. path, remedy and why must outlive the reader. false: why has the
 * reason. */
bool line_reader_open(struct line_reader *in, const char *path, const char *remedy, char *why, size_t cap);
enum line_state line_read(struct line_reader *in); /* LINE_BAD, LINE_FAILED: in->why has the reason */
void line_reader_close(struct line_reader *in);

/* Writes "PATH:NUMBER: " and the text into in->why; returns false. */
__attribute__((format(printf, 2, 3))) bool line_refuse(const struct line_reader *in, const char *format, ...);

/* ---- fields of CSV ---------------------------------------------------------------------------- */

/* Reads the records and fields of comma-separated values, with quotes as in RFC 4180. */

enum { CSV_BYTES = 2 * LINE_BYTES + 1 }; /* a record: LINE_BYTES may be full when its last line is added */

/* Reads a record, without its line end, into record[CSV_BYTES]; a quoted field may have several lines. Returns the
 * result of line_read. */
enum line_state csv_record(struct line_reader *in, char *record);

/* Finds the next field of a record, and removes its quotes in place. *at moves behind the field and its comma; NULL
 * after the last field. false: a quote is missing, so that the field may contain later rows. */
bool csv_field(struct line_reader *in, char **at, char **field);

#endif
