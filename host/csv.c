#include "csv.h"

#include <string.h>

bool csv_field(struct line_reader *in, char **at, char **field)
{
    char *from = *at, *to = from;
    bool quoted = *from == '"';
    *field = from;
    if (quoted) {
        for (from++; *from != '"' || from[1] == '"'; from++) {
            if (*from == 0) return line_refuse(in, "a quote has no end; write \"\" for a quote inside a field");
            if (*from == '"') from++;
            *to++ = *from;
        }
        from++;
    }
    if (quoted && *from && *from != ',')
        return line_refuse(in, "text follows a quote's end; write \"\" for a quote inside a field");
    while (*from && *from != ',') *to++ = *from++;
    bool more = *from == ',';
    *to = 0;
    *at = more ? from + 1 : NULL;
    return true;
}

/* Does a quoted field continue behind this line? *state: the parser's state, updated from the line's start to its end. */
enum csv_state { FIELD_START, PLAIN, QUOTED, QUOTE_IN_QUOTED };
static bool csv_continues(const char *text, enum csv_state *state)
{
    for (; *text; text++) {
        if (*state == QUOTED)
            *state = *text == '"' ? QUOTE_IN_QUOTED : QUOTED;
        else if (*text == '"' && *state != PLAIN) /* inside a plain field a quote is an ordinary letter */
            *state = QUOTED;
        else
            *state = *text == ',' ? FIELD_START : PLAIN;
    }
    return *state == QUOTED;
}

enum line_state csv_record(struct line_reader *in, char *record)
{
    enum csv_state state = FIELD_START;
    enum line_state got;
    size_t used = 0;
    while ((got = line_read(in)) == LINE_READ) {
        memcpy(record + used, in->line, in->length + 1);
        used += in->length;
        if (!csv_continues(in->line, &state) || used > LINE_BYTES) break; /* csv_field reports the missing quote */
    }
    if (got != LINE_READ && (got != LINE_END || used == 0)) return got;
    while (used > 0 && (record[used - 1] == '\n' || record[used - 1] == '\r')) record[--used] = 0;
    return LINE_READ;
}
