/* bank_csv - reads a bank from a list of sound files: a .csv with a file and a position in each row. */
#include "bank_sounds.h"
#include "dsp/base/error.h"
#include "dsp/base/number.h"
#include "dsp/masks/mask_file.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum column { COLUMN_FILE, AZIMUTH, ELEVATION, DISTANCE, X, Y, Z, N_COLUMNS };
static const char *const column_names[N_COLUMNS] = {"file", "azimuth", "elevation", "distance", "x", "y", "z"};
enum { MAX_CELLS = 32, MAX_LIST_BYTES = 64 << 20 };

struct list {
    const char *path;
    int line;
    int at[N_COLUMNS]; /* cell of each column; -1: the list lacks the column */
    int n_cells;       /* cells of a line                                   */
    char *cells[MAX_CELLS];
};

/* Returns the next line of the text that is neither blank nor a comment; NULL: the end. *number counts all lines read,
 * also comments. */
static char *next_line(char **text, int *number)
{
    if (*number == 0 && strncmp(*text, "\xef\xbb\xbf", 3) == 0) *text += 3; /* byte order mark of UTF-8 */
    while (**text) {
        char *line = *text;
        size_t length = strcspn(line, "\n"), blanks = strspn(line, " \t");
        *text = line + length + (line[length] == '\n');
        line[length] = 0;
        if (length > 0 && line[length - 1] == '\r') line[length - 1] = 0;
        ++*number;
        if (line[blanks] != 0 && line[blanks] != '#') return line;
    }
    return NULL;
}

/* Returns the next cell of a line: the text before a comma, without blanks around it, or a text in quotation marks, in
 * which "" means one mark. *more: a comma follows. NULL: text follows the closing mark, or the mark is missing. */
static char *next_cell(char **line, bool *more)
{
    char *at = *line + strspn(*line, " \t"), *cell = at, *to = at;
    if (*at == '"') {
        for (at++; *at && (*at != '"' || at[1] == '"'); at++) {
            if (*at == '"') at++;
            *to++ = *at;
        }
        if (*at != '"') return NULL;
        at++;
        at += strspn(at, " \t");
        if (*at && *at != ',') return NULL;
    } else {
        at += strcspn(at, ",");
        to = at;
        while (to > cell && (to[-1] == ' ' || to[-1] == '\t')) to--;
    }
    *more = *at == ',';
    *line = at + *more;
    *to = 0;
    return cell;
}

static int split_cells(struct list *list, char *line, int *n, struct reason *why)
{
    bool more = true;
    for (*n = 0; more; (*n)++) {
        if (*n == MAX_CELLS)
            return fail(HC_EINVAL, why, "%s:%d: has more than %d cells; give at most seven columns", list->path,
                        list->line, MAX_CELLS);
        list->cells[*n] = next_cell(&line, &more);
        if (!list->cells[*n])
            return fail(HC_EINVAL, why, "%s:%d: a quotation mark has no partner; quote whole cells", list->path,
                        list->line);
    }
    return HC_OK;
}

static int columns_read(struct list *list, char *line, struct reason *why)
{
    int error = split_cells(list, line, &list->n_cells, why);
    for (int c = 0; c < N_COLUMNS; c++) list->at[c] = -1;
    for (int i = 0; i < list->n_cells && !error; i++) {
        int column = 0;
        while (column < N_COLUMNS && strcasecmp(list->cells[i], column_names[column]) != 0) column++;
        if (column == N_COLUMNS)
            error = fail(HC_EINVAL, why,
                         "%s:%d: column %d has an unknown name; use azimuth, elevation, distance, x, y, z or file",
                         list->path, list->line, i + 1);
        else if (list->at[column] >= 0)
            error = fail(HC_EINVAL, why, "%s:%d: two columns are named %s; rename one", list->path, list->line,
                         column_names[column]);
        else
            list->at[column] = i;
    }
    if (error) return error;
    bool has_xyz = list->at[X] >= 0 && list->at[Y] >= 0 && list->at[Z] >= 0;
    bool has_any = list->at[X] >= 0 || list->at[Y] >= 0 || list->at[Z] >= 0;
    bool has_angles = list->at[AZIMUTH] >= 0;
    if (list->at[COLUMN_FILE] < 0 || has_any != has_xyz || has_angles == has_xyz ||
        (has_xyz && (list->at[ELEVATION] >= 0 || list->at[DISTANCE] >= 0)))
        return fail(HC_EINVAL, why,
                    "%s:%d: its columns are not a position and a file; name them azimuth, elevation, distance, file or "
                    "x, y, z, file",
                    list->path, list->line);
    return HC_OK;
}

static int column_number(const struct list *list, enum column column, double usual, double max, double *value,
                         struct reason *why)
{
    *value = usual;
    if (list->at[column] < 0) return HC_OK;
    const char *cell = list->cells[list->at[column]];
    if (!number_is(cell, NAN, NAN, value))
        return fail(HC_EINVAL, why, "%s:%d: %s is not a number; write a number such as 1.5", list->path, list->line,
                    column_names[column]);
    if (!(fabs(*value) <= max))
        return fail(HC_EINVAL, why, "%s:%d: %s is %g; give -%g to %g", list->path, list->line, column_names[column],
                    *value, max, max);
    return HC_OK;
}

static int row_position(const struct list *list, double position[3], struct reason *why)
{
    double v[3];
    bool angles = list->at[AZIMUTH] >= 0;
    int error = column_number(list, angles ? AZIMUTH : X, 0, angles ? 3600 : BANK_MAX_DISTANCE, &v[0], why);
    if (!error) error = column_number(list, angles ? ELEVATION : Y, 0, angles ? 90 : BANK_MAX_DISTANCE, &v[1], why);
    if (!error) error = column_number(list, angles ? DISTANCE : Z, 1, BANK_MAX_DISTANCE, &v[2], why);
    if (error) return error;
    if (angles && v[2] < 0)
        return fail(HC_EINVAL, why, "%s:%d: distance is %g; give 0 or more", list->path, list->line, v[2]);
    if (angles)
        position_from_angles(v[0], v[1], v[2], position);
    else
        memcpy(position, v, sizeof v);
    return HC_OK;
}

static int bank_csv_row_read(struct list *list, char *line, struct bank_sounds *sounds, struct reason *why)
{
    int n;
    double position[3];
    int error = split_cells(list, line, &n, why);
    if (!error && n != list->n_cells)
        error =
            fail(HC_EINVAL, why, "%s:%d: has %d cell%s, but the first line has %d; write the same number on every line",
                 list->path, list->line, n, n == 1 ? "" : "s", list->n_cells);
    if (!error) error = row_position(list, position, why);
    if (error) return error;
    const char *slash = strrchr(list->path, '/'), *name = list->cells[list->at[COLUMN_FILE]];
    if (!*name)
        return fail(HC_EINVAL, why, "%s:%d: the name of a sound file is missing; add it", list->path, list->line);
    if (strlen(name) >= PATH_MAX)
        return fail(HC_EINVAL, why, "%s:%d: the name of the file is longer than %d bytes; give it a shorter one",
                    list->path, list->line, PATH_MAX - 1);
    int folder_length = !slash ? 0 : slash == list->path ? 1 : (int)(slash - list->path);
    return bank_sounds_add(sounds, list->path, folder_length, name, position, list->path, why);
}

static int list_read(struct list *list, char *text, struct bank_sounds *sounds, struct reason *why)
{
    char *line = next_line(&text, &list->line);
    int error = line ? columns_read(list, line, why) : HC_OK;
    while (!error && (line = next_line(&text, &list->line))) error = bank_csv_row_read(list, line, sounds, why);
    return error;
}

int csv_bank_read(struct bank *bank, const char *path, int rate, struct reason *why)
{
    struct list list = {.path = path};
    struct bank_sounds sounds = {0};
    char *text;
    size_t bytes = 0;
    int error = mask_file_text(path, MAX_LIST_BYTES, &text, &bytes, why);
    if (!error && memchr(text, 0, bytes))
        error = fail(HC_EINVAL, why, "%s: is not text; give a list of sound files", path);
    if (!error) error = list_read(&list, text, &sounds, why);
    free(text);
    bank_note(bank, "list of sound files");
    if (!error) error = bank_sounds_read(&sounds, true, bank, path, rate, why);
    bank_sounds_free(&sounds);
    return error;
}

/* Reads the first bytes of a file, at most n - 1, into text[n]. */
static bool start_read(const char *path, char *text, size_t n)
{
    if (mask_file_check(path, NULL) != HC_OK) return false;
    FILE *file = fopen(path, "re");
    if (!file) return false;
    text[fread(text, 1, n - 1, file)] = 0;
    fclose(file);
    return true;
}

bool csv_is_bank(const char *path)
{
    enum { START = 8192 };
    struct list list = {.path = path};
    char start[START], *text = start, *line;
    if (!start_read(path, start, sizeof start) || !(line = next_line(&text, &list.line))) return false;
    if (split_cells(&list, line, &list.n_cells, NULL) != HC_OK) return false;
    for (int i = 0; i < list.n_cells; i++)
        if (strcasecmp(list.cells[i], column_names[COLUMN_FILE]) == 0) return true;
    return false;
}
