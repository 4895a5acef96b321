/* path_csv - reads a path from comma-separated values with a header. */
#include "dsp/base/number.h"
#include "host/line_reader.h"
#include "host/message.h"
#include "path.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum column { TIME, FRAME, SOURCE, AZIMUTH, ELEVATION, DISTANCE, X, Y, Z, ENTRY, GAIN, N_COLUMNS };
static const char *const column_names[N_COLUMNS] = {"time", "frame", "source", "azimuth", "elevation", "distance",
                                                    "x",    "y",     "z",      "entry",   "gain"};
static const double column_min[N_COLUMNS] = {0, 0, 1, -36e6, -90, 0, -1e6, -1e6, -1e6, 0, -300};
static const double column_max[N_COLUMNS] = {1e9, 1e15, 65536, 36e6, 90, 1e6, 1e6, 1e6, 1e6, 2147483647, 300};
enum { MAX_FIELDS = 256 };

struct path_reader {
    struct line_reader in;
    struct path *path;
    size_t capacity;
    int rate, n_sources;
    int columns[MAX_FIELDS], n_fields; /* columns[field]: the column that the field belongs to */
    bool has[N_COLUMNS];
    double *last; /* [n_sources]: frame of the last row; below 0: no row */
};

static bool header_check(struct path_reader *r)
{
    const bool *has = r->has;
    bool is_sphere = has[AZIMUTH] || has[ELEVATION] || has[DISTANCE], is_line = has[X] || has[Y] || has[Z];
    if (has[TIME] == has[FRAME])
        return line_refuse(&r->in,
                           "the header has no time, or two kinds; give one of the columns time (seconds) and frame");
    if (is_sphere + is_line + has[ENTRY] != 1)
        return line_refuse(&r->in, "the header needs one kind of position; give azimuth, elevation and distance, or x, "
                                   "y and z, or entry");
    if (is_sphere && !has[AZIMUTH]) return line_refuse(&r->in, "the header has no azimuth; add the column");
    if (is_line && !(has[X] && has[Y])) return line_refuse(&r->in, "the header lacks x or y; add the column");
    r->path->kind = is_sphere ? PATH_SPHERE : is_line ? PATH_LINE : PATH_ENTRIES;
    return true;
}

static bool header_read(struct path_reader *r, char *record)
{
    bool good = true;
    for (char *at = record, *field; at && good;) {
        int column = 0;
        good = csv_field(&r->in, &at, &field);
        if (!good) break;
        field += strspn(field, " \t");
        for (size_t n = strlen(field); n > 0 && strchr(" \t", field[n - 1]);) field[--n] = 0;
        while (column < N_COLUMNS && strcmp(column_names[column], field) != 0) column++;
        if (column == N_COLUMNS)
            good = line_refuse(&r->in,
                               "the header has an unknown column \"%.40s\"; the columns are time or frame, source, "
                               "azimuth, elevation, distance, x, y, z, entry, gain",
                               field);
        else if (r->has[column])
            good = line_refuse(&r->in, "two columns are called %s; leave one out", field);
        else if (r->n_fields == MAX_FIELDS)
            good = line_refuse(&r->in, "has more than %d columns; leave some out", MAX_FIELDS);
        else
            r->has[r->columns[r->n_fields++] = column] = true;
    }
    return good && header_check(r);
}

static bool cell_number(struct path_reader *r, enum column column, const char *text, double *number)
{
    const char *end = number_read(text, column_min[column], column_max[column], number);
    if (!end || end[strspn(end, " \t")])
        return line_refuse(&r->in, "%s is \"%.40s\"; write a number from %.9g to %.9g", column_names[column], text,
                           column_min[column], column_max[column]);
    if ((column == SOURCE || column == ENTRY) && *number != floor(*number))
        return line_refuse(&r->in, "%s is \"%.40s\"; write a whole number", column_names[column], text);
    return true;
}

static bool number_cell_read(struct path_reader *r, enum column column, const char *text, struct path_row *row)
{
    double number;
    text += strspn(text, " \t");
    if (column == GAIN && strcmp(text, "off") == 0) {
        row->gain = 0;
        return true;
    }
    if (!*text) {
        bool is_optional = column == ELEVATION || column == DISTANCE || column == Z || column == GAIN;
        return is_optional || line_refuse(&r->in, "has no %s; write a number", column_names[column]);
    }
    if (!cell_number(r, column, text, &number)) return false;
    switch (column) {
    case TIME:
        row->frame = number * r->rate;
        break;
    case FRAME:
        row->frame = number;
        break;
    case SOURCE:
        if (number > r->n_sources)
            return line_refuse(&r->in, "source is %.0f, but the input has %d channel%s; give each channel one source",
                               number, r->n_sources, message_s(r->n_sources));
        row->source = (int)number - 1;
        break;
    case ENTRY:
        row->entry = (int)number;
        break;
    case GAIN:
        row->gain = pow(10, number / 20);
        break;
    default:
        row->at[column >= X ? column - X : column - AZIMUTH] = number;
    }
    return true;
}

static bool path_row_read(struct path_reader *r, char *record)
{
    struct path_row *row = path_row_add(r->path, &r->capacity);
    if (!row) return line_refuse(&r->in, "no memory for %zu rows; cut the path", r->path->n_rows);
    row->line = r->in.number;
    if (r->path->kind == PATH_LINE) row->at[2] = 0;
    int n = 0;
    for (char *at = record, *field; at; n++) {
        if (!csv_field(&r->in, &at, &field)) return false;
        if (n < r->n_fields && !number_cell_read(r, r->columns[n], field, row)) return false;
    }
    if (n != r->n_fields)
        return line_refuse(&r->in, "has %d field%s, but the header has %d; write as many", n, message_s(n),
                           r->n_fields);
    if (row->frame < r->last[row->source])
        return line_refuse(&r->in, "goes back in time; sort the rows of a source by time");
    r->last[row->source] = row->frame;
    return true;
}

static bool rows_read(struct path_reader *r)
{
    char *record = malloc(CSV_BYTES);
    r->last = malloc((size_t)r->n_sources * sizeof *r->last);
    bool good = record && r->last;
    if (!good) message_write(r->in.why, r->in.cap, "%s: no memory to read it; free some memory", r->in.path);
    for (int s = 0; good && s < r->n_sources; s++) r->last[s] = -1;
    enum line_state got;
    while (good && (got = csv_record(&r->in, record)) != LINE_END) {
        good = got == LINE_READ;
        if (!good || !record[strspn(record, " \t")]) continue;
        good = r->n_fields == 0 ? header_read(r, record) : path_row_read(r, record);
    }
    for (int s = 0; good && s < r->n_sources; s++)
        if (r->last[s] < 0 && r->path->n_rows > 0)
            good = message_write(r->in.why, r->in.cap, "%s: source %d has no row; %s", r->in.path, s + 1,
                                 r->has[SOURCE] ? "write one" : "add a column source");
    if (good && r->path->n_rows == 0)
        good = message_write(r->in.why, r->in.cap, "%s: has no rows; write a header and rows", r->in.path);
    free(record);
    free(r->last);
    return good;
}

bool path_has_entries(const struct path *path, const char *file, int n_entries, char *why, size_t cap)
{
    const struct path_row *wrong = NULL;
    for (const struct path_row *row = path->rows; row < path->rows + path->n_rows; row++)
        if (row->entry >= n_entries && (!wrong || row->line < wrong->line)) wrong = row;
    return !wrong ||
           message_write(why, cap, "%s:%zu: entry is %d, but the bank has entries 0 to %d; choose one of them", file,
                         wrong->line, wrong->entry, n_entries - 1);
}

bool path_read(struct path *path, const char *file, int rate, int n_sources, char *why, size_t cap)
{
    struct path_reader r = {.path = path, .rate = rate, .n_sources = n_sources};
    *path = (struct path){.n_sources = n_sources};
    if (!line_reader_open(&r.in, file, "check the path", why, cap)) return false;
    bool good = rows_read(&r);
    line_reader_close(&r.in);
    if (good && !path_finish(path))
        good = message_write(why, cap, "%s: no memory for its rows; free some memory", file);
    if (!good) path_free(path);
    return good;
}
