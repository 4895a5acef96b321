/* bank_sounds - banks of sound files: a list (.csv) with a file and a position in each row, a folder whose file names have
 * the positions (azi_30_ele_-15_dist_1.5.wav), or a single file. The files are listed and then read: a file is an entry,
 * a channel is an output. */
#include "bank.h"
#include "dsp/base/error.h"
#include "dsp/base/memory.h"
#include "dsp/base/number.h"
#include "dsp/masks/mask_file.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const double BANK_MAX_DISTANCE = 1e6; /* max. metres in a list of positions or a file name */

struct bank_sounds {
    char **paths;           /* [n], allocated for [capacity]; each path is from malloc */
    double (*positions)[3]; /* [n] */
    size_t n, capacity;
};

static int sounds_no_memory(const char *path, struct reason *why)
{
    return fail(HC_ENOMEM, why, "%s: no memory for its sound files; free some memory", path);
}

/* Adds a file. position NULL means {0, 0, 0}. HC_EINVAL: too many files; HC_ENOMEM: no memory. */
static int bank_sounds_add(struct bank_sounds *sounds, const char *folder, int folder_length, const char *name,
                           const double position[3], const char *path, struct reason *why)
{
    if (sounds->n == BANK_MAX_ENTRIES)
        return fail(HC_EINVAL, why, "%s: has more than %d sound files, the maximum of a bank; use fewer", path,
                    BANK_MAX_ENTRIES);
    if (sounds->n == sounds->capacity) {
        size_t more = sounds->capacity ? 2 * sounds->capacity : 64;
        char **paths = realloc(sounds->paths, more * sizeof *paths);
        if (paths) sounds->paths = paths;
        double(*positions)[3] = realloc(sounds->positions, more * sizeof *positions);
        if (positions) sounds->positions = positions;
        if (!paths || !positions) return sounds_no_memory(path, why);
        sounds->capacity = more;
    }
    char *file = NULL;
    if (*name == '/') folder_length = 0;
    if (asprintf(&file, "%.*s%s%s", folder_length, folder, folder_length > 0 ? "/" : "", name) < 0)
        return sounds_no_memory(path, why);
    for (int c = 0; c < 3; c++) sounds->positions[sounds->n][c] = position ? position[c] : 0;
    sounds->paths[sounds->n++] = file;
    return HC_OK;
}

static void bank_sounds_free(struct bank_sounds *sounds)
{
    for (size_t i = 0; i < sounds->n; i++) free(sounds->paths[i]);
    free(sounds->paths);
    free(sounds->positions);
    *sounds = (struct bank_sounds){0};
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

struct sounds_reading {
    struct mask_file *files; /* [n]                                  */
    size_t n, bytes;         /* number and bytes of the files read   */
    int n_taps, n_resampled, file_rate;
    bool sizes_only;
};

static int sounds_file_read(struct sounds_reading *reading, const char *path, const char *first, int rate,
                            struct reason *why)
{
    struct mask_file *file = &reading->files[reading->n];
    size_t limit = memory_limit();
    struct mask_limits limits = {.frames = MASK_MAX_TAPS,
                                 .bytes = limit > reading->bytes ? limit - reading->bytes : 0,
                                 .rate = rate,
                                 .sizes_only = reading->sizes_only};
    int error = mask_file_read(file, path, &limits, why);
    if (error) return error;
    reading->n++; /* so it is freed with the others */
    if (file->n_channels != reading->files[0].n_channels)
        return fail(HC_EINVAL, why, "%s: has %d channel%s, but %s has %d; give all files of a bank the same number",
                    path, file->n_channels, file->n_channels == 1 ? "" : "s", first, reading->files[0].n_channels);
    if (!rate && file->rate != reading->files[0].rate)
        return fail(HC_EINVAL, why, "%s: has a rate of %d Hz, but %s has %d Hz; load the bank at one rate", path,
                    file->rate, first, reading->files[0].rate);
    if (reading->n == 1) reading->file_rate = file->rate;
    if (rate && file->rate && file->rate != rate) {
        error = mask_file_resample(file, rate, path, why);
        reading->n_resampled++;
    }
    if (file->n_frames > reading->n_taps) reading->n_taps = file->n_frames;
    reading->bytes += (size_t)file->n_channels * (size_t)file->n_frames * sizeof(float);
    return error;
}

static int sounds_bank_fill(const struct sounds_reading *reading, struct bank *bank, const char *path,
                            struct reason *why)
{
    size_t n_out = (size_t)reading->files[0].n_channels;
    int n_padded = 0;
    int error = bank_make(bank, reading->n, n_out, (size_t)reading->n_taps, (double)reading->bytes, path, why);
    for (size_t e = 0; e < reading->n && !error; e++) {
        const struct mask_file *file = &reading->files[e];
        for (size_t out = 0; out < n_out && !bank->sizes_only; out++)
            memcpy(bank_response(bank, e, out), file->channel[out], (size_t)file->n_frames * sizeof(float));
        n_padded += file->n_frames < reading->n_taps;
    }
    if (n_padded > 0)
        bank_note(bank, "%d shorter response%s padded with zeros to %d taps", n_padded, n_padded == 1 ? " is" : "s are",
                  reading->n_taps);
    return error;
}

static int positions_fill(const struct bank_sounds *sounds, struct bank *bank, const char *path, struct reason *why)
{
    bank->position = malloc(sounds->n * sizeof *bank->position);
    if (!bank->position) return sounds_no_memory(path, why);
    for (size_t i = 0; i < sounds->n; i++)
        for (int c = 0; c < 3; c++) bank->position[i][c] = (float)sounds->positions[i][c];
    return HC_OK;
}

/* Reads the files into a bank of zeros, at `rate` (0: at the rate of the files, which must have the same). Shorter ones
 * are padded with zeros. path: the list or folder, for messages. */
static int bank_sounds_read(const struct bank_sounds *sounds, bool has_positions, struct bank *bank, const char *path,
                            int rate, struct reason *why)
{
    struct sounds_reading reading = {.sizes_only = bank->sizes_only};
    if (sounds->n == 0) return fail(HC_EINVAL, why, "%s: lists no sound files; write a line for each entry", path);
    reading.files = calloc(sounds->n, sizeof *reading.files);
    int error = reading.files ? HC_OK : sounds_no_memory(path, why);
    for (size_t i = 0; i < sounds->n && !error; i++)
        error = sounds_file_read(&reading, sounds->paths[i], sounds->paths[0], rate, why);
    if (!error) error = sounds_bank_fill(&reading, bank, path, why);
    if (!error && has_positions) error = positions_fill(sounds, bank, path, why);
    if (!error) {
        bank->file_rate = reading.file_rate;
        bank->rate = rate && reading.file_rate ? rate : reading.file_rate;
        if (reading.n_resampled > 0)
            bank_note(bank, "%d of %zu file%s resampled to %d Hz", reading.n_resampled, reading.n, PLURAL(reading.n),
                      rate);
    }
    for (size_t i = 0; i < reading.n; i++) mask_file_free(&reading.files[i]);
    free(reading.files);
    return error;
}

/* ---- a single file ----------------------------------------------------------------------------------------------- */

int sound_bank_read(struct bank *bank, const char *path, int rate, struct reason *why)
{
    struct bank_sounds sounds = {0};
    int error = bank_sounds_add(&sounds, "", 0, path, NULL, path, why);
    bank_note(bank, "sound file");
    if (!error) error = bank_sounds_read(&sounds, false, bank, path, rate, why);
    bank_sounds_free(&sounds);
    return error;
}

/* ---- a list ------------------------------------------------------------------------------------------------------ */

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

/* ---- a folder ---------------------------------------------------------------------------------------------------- */

/* Finds the number behind one of the words in a name: azi_30, az30, azimuth=30. */
static bool number_in_name(const char *name, const char *const *words, double *value)
{
    for (const char *at = name; *at; at++) {
        size_t length = 0;
        if (!isalpha((unsigned char)*at) || (at > name && isalpha((unsigned char)at[-1]))) continue;
        while (isalpha((unsigned char)at[length])) length++;
        for (int i = 0; words[i]; i++) {
            char number[32];
            if (strlen(words[i]) != length || strncasecmp(at, words[i], length) != 0) continue;
            const char *from = at + length + (at[length] == '_' || at[length] == '=');
            size_t sign = *from == '-' || *from == '+', n = sign;
            n += strspn(from + n, "0123456789");
            if (n > sign && from[n] == '.') n += 1 + strspn(from + n + 1, "0123456789");
            if (n == sign || n >= sizeof number) continue;
            memcpy(number, from, n);
            number[n] = 0;
            return number_is(number, -INFINITY, INFINITY, value);
        }
    }
    return false;
}

/* Finds the position in a name such as azi_30_ele_-15_dist_1.5.wav. */
static bool position_in_name(const char *name, double position[3])
{
    static const char *const azimuth[] = {"azi", "az", "azimuth", NULL},
                             *const elevation[] = {"ele", "el", "elev", "elevation", NULL},
                             *const distance[] = {"dist", "dis", "distance", NULL};
    double az, el = 0, r = 1;
    if (!number_in_name(name, azimuth, &az)) return false;
    number_in_name(name, elevation, &el);
    number_in_name(name, distance, &r);
    if (!(fabs(az) <= 3600 && fabs(el) <= 90 && r >= 0 && r <= BANK_MAX_DISTANCE)) return false;
    position_from_angles(az, el, r, position);
    return true;
}

static bool is_sound(const char *name)
{
    static const char *const endings[] = {".wav", ".flac", ".aif", ".aiff", ".aifc", ".w64", ".rf64",
                                          ".caf", ".au",   ".snd", ".ogg",  ".opus", ".mp3"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (mask_file_has_extension(name, endings[i])) return true;
    return false;
}

static int filter_sounds(const struct dirent *entry)
{
    return entry->d_name[0] != '.' && is_sound(entry->d_name);
}

static int in_order(const struct dirent **a, const struct dirent **b) /* "2.wav" is before "10.wav" */
{
    return strverscmp((*a)->d_name, (*b)->d_name);
}

static int names_add(struct dirent **names, int n, struct bank_sounds *sounds, bool *has_positions, const char *path,
                     struct reason *why)
{
    int error = HC_OK, length = (int)strlen(path);
    while (length > 1 && path[length - 1] == '/') length--;
    for (int i = 0; i < n && !error; i++) {
        double position[3] = {0};
        bool has = position_in_name(names[i]->d_name, position);
        if (i == 0) *has_positions = has;
        if (has != *has_positions)
            error =
                fail(HC_EINVAL, why,
                     "%s: the name of %.100s has %s position such as azi_30_ele_-15, but that of %.100s has %s; name "
                     "all files in the same way",
                     path, names[i]->d_name, has ? "a" : "no", names[0]->d_name, has ? "none" : "one");
        else
            error = bank_sounds_add(sounds, path, length, names[i]->d_name, position, path, why);
    }
    return error;
}

int folder_bank_read(struct bank *bank, const char *path, int rate, struct reason *why)
{
    struct dirent **names = NULL;
    struct bank_sounds sounds = {0};
    bool has_positions = false;
    int n = scandir(path, &names, filter_sounds, in_order);
    if (n < 0)
        return fail(errno == ENOMEM ? HC_ENOMEM : HC_EFILE, why, "%s: %s; check the path and its permissions", path,
                    strerror(errno));
    int error = n > 0 ? names_add(names, n, &sounds, &has_positions, path, why)
                      : fail(HC_EINVAL, why, "%s: has no sound files; give a folder with .wav, .flac, .aif, ...", path);
    for (int i = 0; i < n; i++) free(names[i]);
    free(names);
    bank_note(bank, "folder of sound files%s", has_positions ? "" : " without positions");
    if (!error) error = bank_sounds_read(&sounds, has_positions, bank, path, rate, why);
    bank_sounds_free(&sounds);
    return error;
}
