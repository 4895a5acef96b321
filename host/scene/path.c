#include "path.h"

#include "dsp/base/number.h"
#include "host/line_reader.h"
#include "host/message.h"
#include "host/splitmix64.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double path_degree = 3.14159265358979323846 / 180; /* in radians */

void path_free(struct path *path)
{
    free(path->rows);
    free(path->first);
    *path = (struct path){0};
}

static double path_dot(const double a[3], const double b[3])
{
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

/* Turns from direction a (t = 0) to direction b (t = 1) on a great circle. Between opposite directions it turns to the
 * left, as azimuth does; from straight up or down it turns over the front. */
static void turn_on_great_circle(const double a[3], const double b[3], double t, double direction[3])
{
    double cross[3] = {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
    double sine = sqrt(path_dot(cross, cross)), angle = atan2(sine, path_dot(a, b)), side[3];
    if (sine > 1e-9) {
        for (int i = 0; i < 3; i++) side[i] = (b[i] - path_dot(a, b) * a[i]) / sine;
    } else if (path_dot(a, b) > 0) {
        memcpy(direction, a, 3 * sizeof *a);
        return;
    } else {
        double flat = hypot(a[0], a[1]);
        side[0] = flat > 1e-9 ? -a[1] / flat : 1;
        side[1] = flat > 1e-9 ? a[0] / flat : 0;
        side[2] = 0;
    }
    for (int i = 0; i < 3; i++) direction[i] = cos(t * angle) * a[i] + sin(t * angle) * side[i];
}

static void path_direction_of(double azimuth, double elevation, double direction[3])
{
    const double degree = path_degree;
    direction[0] = cos(elevation * degree) * cos(azimuth * degree);
    direction[1] = cos(elevation * degree) * sin(azimuth * degree);
    direction[2] = sin(elevation * degree);
}

static bool counts_turns(const struct path_row *row)
{
    return row->at[0] < -180 || row->at[0] >= 360;
}

static void point_on_sphere(const struct path_row *a, const struct path_row *b, double t, float position[3])
{
    double direction[3], distance = a->at[2] + t * (b->at[2] - a->at[2]);
    if (counts_turns(a) || counts_turns(b))
        path_direction_of(a->at[0] + t * (b->at[0] - a->at[0]), a->at[1] + t * (b->at[1] - a->at[1]), direction);
    else
        turn_on_great_circle(a->direction, b->direction, t, direction);
    for (int i = 0; i < 3; i++) position[i] = (float)(direction[i] * distance);
}

void path_at(const struct path *path, int source, int64_t frame, size_t *row, struct path_point *point)
{
    const size_t end = path->first[source + 1];
    while (*row + 1 < end && path->rows[*row + 1].frame <= (double)frame) ++*row;
    const struct path_row *a = &path->rows[*row], *b = *row + 1 < end ? a + 1 : a;
    double t = b->frame > a->frame ? ((double)frame - a->frame) / (b->frame - a->frame) : 0;
    if (t < 0 || path->holds) t = 0;
    point->entry = a->entry;
    point->gain = a->gain + t * (b->gain - a->gain);
    if (path->kind == PATH_SPHERE) point_on_sphere(a, b, t, point->position);
    for (int i = 0; i < 3 && path->kind == PATH_LINE; i++)
        point->position[i] = (float)(a->at[i] + t * (b->at[i] - a->at[i]));
}

static int compare_rows(const void *left, const void *right)
{
    const struct path_row *a = left, *b = right;
    if (a->source != b->source) return a->source < b->source ? -1 : 1;
    return (a->line > b->line) - (a->line < b->line);
}

/* Sorts the rows by source and line, and finds the first of each source. false: no memory. */
static bool path_finish(struct path *path)
{
    path->first = calloc((size_t)path->n_sources + 1, sizeof *path->first);
    if (!path->first) return false;
    qsort(path->rows, path->n_rows, sizeof *path->rows, compare_rows);
    for (size_t i = 0; i < path->n_rows; i++) {
        struct path_row *row = &path->rows[i];
        if (path->kind == PATH_SPHERE) path_direction_of(row->at[0], row->at[1], row->direction);
        path->first[row->source + 1]++;
    }
    for (int s = 0; s < path->n_sources; s++) path->first[s + 1] += path->first[s];
    return true;
}

/* Adds a row with gain 1 and position 0, 0, 1. *capacity: capacity of path->rows, 0 at first. NULL: no memory. */
static struct path_row *path_row_add(struct path *path, size_t *capacity)
{
    if (path->n_rows == *capacity) {
        size_t more = *capacity ? 2 * *capacity : 64;
        struct path_row *rows = realloc(path->rows, more * sizeof *rows);
        if (!rows) return NULL;
        path->rows = rows;
        *capacity = more;
    }
    struct path_row *row = &path->rows[path->n_rows++];
    *row = (struct path_row){.gain = 1, .at = {0, 0, 1}};
    return row;
}

/* ---- CSV -------------------------------------------------------------------------------------- */

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

/* ---- random paths: great circles between directions that are drawn uniformly, with pauses ----- */

enum range_name { RANGE_AZIMUTH, RANGE_ELEVATION, RANGE_DISTANCE, RANGE_SPEED, RANGE_PAUSE, N_RANGES };
static const struct {
    const char *name;
    double min, max;
    double low, high; /* the default */
} ranges[N_RANGES] = {{"azimuth", -180, 360, -180, 180},
                      {"elevation", -90, 90, 0, 0},
                      {"distance", 0, 1e6, 1, 1},
                      {"speed", 1e-3, 1e4, 10, 60},
                      {"pause", 0, 1e6, 0, 0}};

struct choice {
    double low[N_RANGES], high[N_RANGES];
    uint64_t seed;
};

bool path_is_random(const char *text)
{
    return strncmp(text, "random", 6) == 0 && (!text[6] || text[6] == ':');
}

static bool seed_read(const char *text, const char *end, uint64_t *seed)
{
    char *after;
    errno = 0;
    *seed = strtoull(text, &after, 10);
    return after == end && after > text && !errno && *text >= '0' && *text <= '9';
}

/* "20" or "10..60" */
static bool range_read(const char *text, const char *end, int range, struct choice *choice)
{
    char number[32];
    const char *dots = strstr(text, "..");
    const char *first_end = dots && dots < end ? dots : end;
    if (first_end - text >= (ptrdiff_t)sizeof number || first_end == text) return false;
    /* A reader of numbers reads the first dot of "10..60" as a decimal point. */
    snprintf(number, sizeof number, "%.*s", (int)(first_end - text), text);
    double *low = &choice->low[range], *high = &choice->high[range], max = ranges[range].max;
    if (!number_is(number, ranges[range].min, max, low)) return false;
    *high = *low;
    return first_end == end || number_read(dots + 2, *low, max, high) == end;
}

static bool choice_read(const char *text, struct choice *choice, char *why, size_t cap)
{
    for (int i = 0; i < N_RANGES; i++) choice->low[i] = ranges[i].low, choice->high[i] = ranges[i].high;
    text += strlen("random");
    while (*text) {
        const char *name = text + 1, *value = name + strcspn(name, "=,"), *end = value + strcspn(value, ",");
        int i = 0;
        size_t length = (size_t)(value - name);
        while (i < N_RANGES && (strlen(ranges[i].name) != length || strncmp(ranges[i].name, name, length) != 0)) i++;
        bool is_seed = length == 4 && strncmp(name, "seed", 4) == 0;
        if (*value != '=' || (i == N_RANGES && !is_seed))
            return message_write(why, cap,
                                 "\"%.*s\" is not an option of a random path; the options are azimuth, elevation, "
                                 "distance, speed, pause, seed",
                                 (int)(end - name < 60 ? end - name : 60), name);
        if (is_seed ? !seed_read(value + 1, end, &choice->seed) : !range_read(value + 1, end, i, choice)) {
            if (is_seed) return message_write(why, cap, "seed needs a whole number from 0 on");
            return message_write(why, cap, "%s needs a number from %g to %g, or two of them as in %g..%g",
                                 ranges[i].name, ranges[i].min, ranges[i].max, ranges[i].low, ranges[i].high);
        }
        text = end;
    }
    return true;
}

bool path_random_check(const char *text, char *why, size_t cap)
{
    struct choice choice = {.seed = 0};
    return choice_read(text, &choice, why, cap);
}

/* Returns a number from low to high. *state: state of splitmix64. */
static double draw_uniform(uint64_t *state, double low, double high)
{
    double unit = (double)(splitmix64(*state) >> 11) * 0x1p-53;
    *state += SPLITMIX64_STEP;
    return low + unit * (high - low);
}

static double draw_of(const struct choice *choice, int range, uint64_t *state)
{
    return draw_uniform(state, choice->low[range], choice->high[range]);
}

/* Returns the cosine of the angle between two rows. */
static double cosine_between(const struct path_row *a, const struct path_row *b)
{
    const double degree = path_degree;
    return sin(a->at[1] * degree) * sin(b->at[1] * degree) +
           cos(a->at[1] * degree) * cos(b->at[1] * degree) * cos((a->at[0] - b->at[0]) * degree);
}

static bool draw_source(struct path *path, size_t *capacity, const struct choice *choice, int source, int rate,
                        int64_t n_frames)
{
    const double degree = path_degree;
    uint64_t state = splitmix64(splitmix64(choice->seed) + (uint64_t)source);
    double frame = 0;
    struct path_row before = {0};
    for (size_t line = 1;; line++) {
        struct path_row row = {.source = source, .gain = 1};
        /* Uniform on the sphere: the sine of the elevation is uniform. */
        double low = sin(choice->low[RANGE_ELEVATION] * degree), high = sin(choice->high[RANGE_ELEVATION] * degree);
        row.at[0] = draw_of(choice, RANGE_AZIMUTH, &state);
        row.at[1] = asin(draw_uniform(&state, low, high)) / degree;
        row.at[2] = draw_of(choice, RANGE_DISTANCE, &state);
        double speed = draw_of(choice, RANGE_SPEED, &state), pause = draw_of(choice, RANGE_PAUSE, &state);
        if (row.at[0] >= 360) row.at[0] -= 360; /* 360 would count as a turn */
        if (line > 1) {
            double cosine = cosine_between(&before, &row);
            double angle = acos(cosine > 1 ? 1 : cosine < -1 ? -1 : cosine) / degree;
            /* A leg lasts a millisecond or more: ranges of no width would draw the same direction for ever. */
            double seconds = angle / speed < 1e-3 ? 1e-3 : angle / speed;
            frame += seconds * rate;
        }
        for (int end = 0; end < (pause > 0 ? 2 : 1); end++) { /* the start of a pause, and its end */
            struct path_row *added = path_row_add(path, capacity);
            if (!added) return false;
            *added = row;
            added->frame = frame;
            added->line = 2 * line + (size_t)end;
            if (end == 0 && pause > 0) frame += pause * rate;
        }
        if (frame >= (double)n_frames) return true;
        before = row;
    }
}

bool path_random(struct path *path, const char *text, uint64_t seed, int rate, int64_t n_frames, int n_sources,
                 char *why, size_t cap)
{
    struct choice choice = {.seed = seed};
    size_t capacity = 0;
    *path = (struct path){.kind = PATH_SPHERE, .n_sources = n_sources};
    bool good = choice_read(text, &choice, why, cap);
    if (!good) return false;
    for (int s = 0; good && s < n_sources; s++) good = draw_source(path, &capacity, &choice, s, rate, n_frames);
    if (good && path_finish(path)) return true;
    path_free(path);
    return message_write(why, cap, "no memory for a random path; free some memory");
}
