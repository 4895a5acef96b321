/* csv - reads the records and fields of comma-separated values, with quotes as in RFC 4180. */
#ifndef CSV_H
#define CSV_H

#include "host/line_reader.h"

enum { CSV_BYTES = 2 * LINE_BYTES + 1 }; /* a record: LINE_BYTES may be full when its last line is added */

/* Reads a record, without its line end, into record[CSV_BYTES]; a quoted field may have several lines. Returns the
 * result of line_read. */
enum line_state csv_record(struct line_reader *in, char *record);

/* Finds the next field of a record, and removes its quotes in place. *at moves behind the field and its comma; NULL
 * after the last field. false: a quote is missing, so that the field may contain later rows. */
bool csv_field(struct line_reader *in, char **at, char **field);

#endif
