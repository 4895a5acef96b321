#include "manifest.h"

#include "host/message.h"

#include <errno.h>
#include <fnmatch.h>
#include <glob.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TEXT_BYTES = 1 << 16, MOST_COLUMNS = 256 };

enum column { INPUT, MASK, OUTPUT, GAIN, TAIL, LEVEL, SEED, N_COLUMNS };
static const char *const column_names[N_COLUMNS] = {"input", "mask", "output", "gain", "tail", "level", "seed"};

struct text_block { /* strings one behind the other; a million rows would make millions of allocations */
    struct text_block *next;
    size_t used, room;
    char bytes[];
};

struct reading { /* where the reader is, for its messages */
    struct manifest *manifest;
    const struct manifest_defaults *defaults;
    const char *path;
    size_t line;
    char *why;
    size_t cap;
};

bool level_parse(const char *text, enum level *level)
{
    static const char *const names[] = {"none", "peak", "rms"};
    for (int i = 0; i < 3; i++)
        if (strcmp(text, names[i]) == 0) {
            *level = (enum level)i;
            return true;
        }
    return false;
}

/* ---- memory ------------------------------------------------------------------------------------- */

/* Room for n bytes that stay until manifest_free; NULL = no memory. */
static char *text_room(struct manifest *manifest, size_t n)
{
    struct text_block *block = manifest->texts;
    if (!block || block->room - block->used < n) {
        size_t room = n > TEXT_BYTES ? n : TEXT_BYTES;
        block = malloc(sizeof *block + room);
        if (!block) return NULL;
        *block = (struct text_block){.next = manifest->texts, .room = room};
        manifest->texts = block;
    }
    char *at = block->bytes + block->used;
    block->used += n;
    return at;
}

static const char *text_keep(struct manifest *manifest, const char *text)
{
    size_t n = strlen(text) + 1;
    char *kept = text_room(manifest, n);
    return kept ? memcpy(kept, text, n) : NULL;
}

static bool no_memory(char *why, size_t cap)
{
    return message_write(why, cap, "no memory for the list of files; cut it with --shard");
}

static struct job *job_add(struct manifest *manifest)
{
    if (manifest->n == manifest->room) {
        size_t room = manifest->room ? 2 * manifest->room : 1024;
        struct job *jobs = realloc(manifest->jobs, room * sizeof *jobs);
        if (!jobs) return NULL;
        manifest->jobs = jobs;
        manifest->room = room;
    }
    return &manifest->jobs[manifest->n++];
}

void manifest_free(struct manifest *manifest)
{
    while (manifest->texts) {
        struct text_block *block = manifest->texts;
        manifest->texts = block->next;
        free(block);
    }
    free(manifest->jobs);
    free(manifest->unused);
    *manifest = (struct manifest){0};
}

/* ---- names of outputs --------------------------------------------------------------------------- */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int stem_length(const char *name)
{
    const char *dot = strrchr(name, '.');
    return (int)(dot && dot > name ? (size_t)(dot - name) : strlen(name));
}

/* INPUT_MASK.EXT of the two names; number > 0: INPUT_MASK-NUMBER.EXT. */
static const char *output_name(struct manifest *manifest, const struct job *job, const char *extension, size_t number)
{
    const char *input = base_name(job->input), *mask = base_name(job->mask), *dot = strrchr(input, '.');
    char suffix[32] = "";
    if (number) snprintf(suffix, sizeof suffix, "-%zu", number);
    const char *ext = extension ? extension : dot && dot > input ? dot + 1 : "wav";
    int n_input = stem_length(input), n_mask = stem_length(mask);
    size_t bytes = (size_t)n_input + (size_t)n_mask + strlen(suffix) + strlen(ext) + 3;
    char *name = text_room(manifest, bytes);
    if (name) snprintf(name, bytes, "%.*s_%.*s%s.%s", n_input, input, n_mask, mask, suffix, ext);
    return name;
}

static int by_output(const void *a, const void *b)
{
    const struct job *p = *(const struct job *const *)a, *q = *(const struct job *const *)b;
    int order = strcmp(p->output, q->output);
    return order ? order : p < q ? -1 : p > q;
}

/* Rows without a name of their own get one, made unique by the row's number where it must be. Two rows that name the
 * same output are an error. named: [n], which rows came with a name. */
static bool name_outputs(struct manifest *manifest, const bool *named, const char *extension, char *why, size_t cap)
{
    size_t n = manifest->n;
    const struct job **sorted = malloc((n + 1) * sizeof *sorted);
    if (!sorted) return no_memory(why, cap);
    for (size_t i = 0; i < n; i++) {
        struct job *job = &manifest->jobs[i];
        if (!job->output) job->output = output_name(manifest, job, extension, 0);
        sorted[i] = job;
        if (!job->output) goto no_memory;
    }
    for (int attempt = 0; attempt < 2; attempt++) {
        qsort(sorted, n, sizeof *sorted, by_output);
        for (size_t i = 0, end; i < n; i = end) {
            for (end = i + 1; end < n && strcmp(sorted[end]->output, sorted[i]->output) == 0; end++) continue;
            if (end == i + 1) continue;
            bool fixed = attempt > 0;
            for (size_t j = i, names = 0; j < end; j++) {
                size_t row = (size_t)(sorted[j] - manifest->jobs);
                if (named[row] && names++) fixed = true;
            }
            if (fixed) {
                message_write(why, cap, "output %s: rows %td and %td both write it; give them different names",
                              sorted[i]->output, sorted[i] - manifest->jobs + 1, sorted[i + 1] - manifest->jobs + 1);
                free(sorted);
                return false;
            }
            for (size_t j = i; j < end; j++) {
                size_t row = (size_t)(sorted[j] - manifest->jobs);
                struct job *job = &manifest->jobs[row];
                if (!named[row]) job->output = output_name(manifest, job, extension, row + 1);
                if (!job->output) goto no_memory;
            }
        }
    }
    free(sorted);
    return true;
no_memory:
    free(sorted);
    return no_memory(why, cap);
}

/* ---- a row -------------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t x) /* splitmix64: neighbouring seeds give unlike numbers */
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* What a pattern matches, sorted by bytes: the same on every machine. */
static bool expand(const char *pattern, glob_t *found, char *why, size_t cap)
{
    int error = glob(pattern, GLOB_NOSORT | GLOB_BRACE | GLOB_TILDE, NULL, found);
    if (error == GLOB_NOMATCH) return message_write(why, cap, "%s: matches no file; check the pattern", pattern);
    if (error) return message_write(why, cap, "%s: cannot be searched: %s; check the path", pattern, strerror(errno));
    qsort(found->gl_pathv, found->gl_pathc, sizeof *found->gl_pathv, by_text);
    return true;
}

static bool is_pattern(const char *text)
{
    return strpbrk(text, "*?[") != NULL;
}

struct draw { /* the pattern that was expanded last: a column mostly has the same one */
    char *pattern;
    glob_t found;
};

static void draw_free(struct draw *draw)
{
    if (draw->pattern) globfree(&draw->found);
    free(draw->pattern);
    *draw = (struct draw){0};
}

/* A mask that is a pattern, and no file of that very name, becomes one of its files, chosen by the row's seed. */
static bool draw_mask(struct reading *r, struct job *job, struct draw *draw)
{
    if (!is_pattern(job->mask) || access(job->mask, F_OK) == 0) return true;
    if (!draw->pattern || strcmp(draw->pattern, job->mask) != 0) {
        draw_free(draw);
        char why[MESSAGE_CAP - 300];
        if (!expand(job->mask, &draw->found, why, sizeof why))
            return message_write(r->why, r->cap, "%s:%zu: %s", r->path, r->line, why);
        draw->pattern = strdup(job->mask);
        if (!draw->pattern) {
            globfree(&draw->found);
            return no_memory(r->why, r->cap);
        }
    }
    job->mask = text_keep(r->manifest, draw->found.gl_pathv[mix(job->seed) % draw->found.gl_pathc]);
    return job->mask || no_memory(r->why, r->cap);
}

/* Below the folder, and nowhere else. */
/* Without empty steps and such to the same folder, so that two names of one file are equal. NULL = no memory. */
static const char *output_keep(struct manifest *manifest, const char *output)
{
    char *kept = text_room(manifest, strlen(output) + 1), *to = kept;
    for (const char *from = output; kept && *from;) {
        size_t step = strcspn(from, "/"), separator = from[step] == '/';
        bool empty = step == 0 && from != output, here = step == 1 && *from == '.';
        if (!empty && !here) to = mempcpy(to, from, step + separator);
        from += step + separator;
    }
    if (kept) *to = 0;
    return kept;
}

static bool is_journal(const char *output)
{
    return fnmatch("haloconv-batch*.journal", output, 0) == 0;
}

static bool stays_below(const char *output)
{
    if (output[0] == '/' || output[0] == 0) return false;
    for (const char *at = output; at; at = strchr(at, '/') ? strchr(at, '/') + 1 : NULL)
        if (strncmp(at, "..", 2) == 0 && (at[2] == '/' || at[2] == 0)) return false;
    return output[strlen(output) - 1] != '/';
}

static bool bad(struct reading *r, enum column column, const char *value, const char *needs)
{
    return message_write(r->why, r->cap, "%s:%zu: %s \"%.60s\"; needs %s", r->path, r->line, column_names[column],
                         value, needs);
}

/* values[N_COLUMNS], NULL or "" where the row has none. */
static bool row_add(struct reading *r, const char *const *values, struct draw *draw)
{
    const struct manifest_defaults *d = r->defaults;
    struct job *job = job_add(r->manifest);
    if (!job) return no_memory(r->why, r->cap);
    *job = (struct job){.gain = d->gain, .tail = d->tail, .level = d->level};
    job->seed = mix(d->seed) + r->manifest->n; /* a row's own, unless it says it */
    for (int column = 0; column < N_COLUMNS; column++) {
        const char *value = values[column];
        char *end = NULL;
        if (!value || !*value) {
            if (column > MASK) continue;
            return message_write(r->why, r->cap, "%s:%zu: has no %s; every row needs input and mask", r->path, r->line,
                                 column_names[column]);
        }
        switch ((enum column)column) {
        case INPUT:
            job->input = text_keep(r->manifest, value);
            break;
        case MASK:
            job->mask = text_keep(r->manifest, value);
            break;
        case OUTPUT:
            job->output = output_keep(r->manifest, value);
            if (!job->output) return no_memory(r->why, r->cap);
            if (!stays_below(job->output)) return bad(r, OUTPUT, value, "a name below the folder of -o");
            if (is_journal(job->output)) return bad(r, OUTPUT, value, "another name: the journal has this one");
            break;
        case GAIN: {
            double db = strcmp(value, "off") == 0 ? -INFINITY : strtod(value, &end);
            if (end && (end == value || *end || !(db >= -300 && db <= 300)))
                return bad(r, GAIN, value, "decibels from -300 to 300, or off");
            job->gain = d->gain * pow(10, db / 20);
            break;
        }
        case TAIL:
            if (!tail_parse(value, &job->tail)) return bad(r, TAIL, value, TAIL_NEEDS);
            break;
        case LEVEL:
            if (!level_parse(value, &job->level)) return bad(r, LEVEL, value, "none, peak or rms");
            break;
        case SEED:
            errno = 0;
            job->seed = strtoull(value, &end, 10);
            if (end == value || *end || errno || value[0] == '-')
                return bad(r, SEED, value, "a whole number from 0 on");
            break;
        case N_COLUMNS:
            break;
        }
    }
    if (!job->input || !job->mask) return no_memory(r->why, r->cap);
    return draw_mask(r, job, draw);
}

/* ---- CSV ---------------------------------------------------------------------------------------- */

/* The next field of a record, in place; quotes as in RFC 4180. *at is moved behind it and its comma; NULL after the
 * last. false: a quote without its end. */
static bool csv_field(char **at, char **field)
{
    char *from = *at, *to = from;
    *field = from;
    if (*from == '"') {
        for (from++; *from != '"' || from[1] == '"'; from++) {
            if (*from == 0) return false;
            if (*from == '"') from++;
            *to++ = *from;
        }
        from++;
    }
    while (*from && *from != ',') *to++ = *from++;
    bool more = *from == ',';
    *to = 0;
    *at = more ? from + 1 : NULL;
    return true;
}

/* Does a quoted field go on behind this part of a record? state: where in a field it begins, and then ends. */
enum csv_state { FIELD_START, PLAIN, QUOTED, QUOTE_IN_QUOTED };
static bool csv_goes_on(const char *text, enum csv_state *state)
{
    for (; *text; text++) {
        if (*state == QUOTED)
            *state = *text == '"' ? QUOTE_IN_QUOTED : QUOTED;
        else if (*text == '"' && *state != PLAIN) /* a quote inside a plain field is a letter like others */
            *state = QUOTED;
        else
            *state = *text == ',' ? FIELD_START : PLAIN;
    }
    return *state == QUOTED;
}

/* A record without its line end; a quoted field may go over lines. false at the end of the file, and after an error,
 * which also takes *good away. */
static bool csv_record(FILE *file, struct reading *r, char **record, size_t *room, bool *good)
{
    static const size_t most = 1 << 20;
    enum csv_state state = FIELD_START;
    char *line = NULL;
    size_t line_room = 0, used = 0;
    ssize_t n;
    while ((n = getline(&line, &line_room, file)) >= 0) {
        r->line++;
        if (memchr(line, 0, (size_t)n)) {
            *good = message_write(r->why, r->cap, "%s:%zu: is not text; write the list as UTF-8", r->path, r->line);
            break;
        }
        if (*room < used + (size_t)n + 1) {
            char *more = realloc(*record, 2 * (used + (size_t)n + 1));
            if (!more) {
                *good = no_memory(r->why, r->cap);
                break;
            }
            *record = more;
            *room = 2 * (used + (size_t)n + 1);
        }
        memcpy(*record + used, line, (size_t)n + 1);
        used += (size_t)n;
        if (!csv_goes_on(line, &state) || used > most) break;
    }
    free(line);
    if (!*good || used == 0) return false;
    while (used > 0 && ((*record)[used - 1] == '\n' || (*record)[used - 1] == '\r')) (*record)[--used] = 0;
    return true;
}

static void unused_add(struct manifest *manifest, const char *name)
{
    char *longer = NULL;
    const char *before = manifest->unused ? manifest->unused : "";
    if (asprintf(&longer, "%s%s%.60s", before, *before ? ", " : "", name) < 0)
        return; /* a remark less */
    free(manifest->unused);
    manifest->unused = longer;
}

/* Which column each field is; -1: none of ours. Returns how many fields there are, 0 after an error. */
static int csv_header(struct reading *r, char *record, int *columns)
{
    int n = 0;
    bool seen[N_COLUMNS] = {false};
    const char *remedy = strpbrk(record, ";\t") && !strchr(record, ',')
                             ? "put commas between the columns"
                             : "it needs input and mask, and knows output, gain, tail, level and seed";
    for (char *at = record, *name; at && n < MOST_COLUMNS; n++) {
        if (!csv_field(&at, &name)) break;
        columns[n] = -1;
        for (int c = 0; c < N_COLUMNS; c++) {
            if (strcmp(name, column_names[c]) != 0) continue;
            if (seen[c])
                return message_write(r->why, r->cap, "%s:%zu: the header names the column \"%s\" twice; leave one out",
                                     r->path, r->line, name);
            columns[n] = c;
            seen[c] = true;
        }
        if (columns[n] < 0) unused_add(r->manifest, name);
    }
    if (seen[INPUT] && seen[MASK]) return n;
    return message_write(r->why, r->cap, "%s:%zu: the header names no column \"%s\"; %s", r->path, r->line,
                         column_names[seen[INPUT] ? MASK : INPUT], remedy);
}

static bool read_csv(FILE *file, struct reading *r)
{
    int columns[MOST_COLUMNS], n_columns = 0;
    char *record = NULL;
    size_t room = 0;
    bool good = true;
    struct draw draw = {0};
    while (good && csv_record(file, r, &record, &room, &good)) {
        if (!*record) continue;
        if (n_columns == 0) {
            n_columns = csv_header(r, record, columns);
            good = n_columns > 0;
            continue;
        }
        const char *values[N_COLUMNS] = {NULL};
        int n = 0;
        for (char *at = record, *field; at && good; n++) {
            good = csv_field(&at, &field);
            if (!good)
                message_write(r->why, r->cap, "%s:%zu: a quote has no end; write \"\" for a quote inside a field",
                              r->path, r->line);
            else if (n < n_columns && columns[n] >= 0)
                values[columns[n]] = field;
        }
        if (good && n > n_columns)
            good = message_write(r->why, r->cap, "%s:%zu: %d fields, but the header has %d; put quotes around commas",
                                 r->path, r->line, n, n_columns);
        if (good) good = row_add(r, values, &draw);
    }
    draw_free(&draw);
    free(record);
    return good;
}

/* ---- JSON lines --------------------------------------------------------------------------------- */

/* A member's value as text, NULL where there is none. false: it is neither a text nor a number. */
static bool json_text(json_t *value, char *text, size_t cap, const char **result)
{
    *result = text;
    if (!value || json_is_null(value))
        *result = NULL;
    else if (json_is_string(value))
        *result = json_string_value(value);
    else if (json_is_integer(value))
        snprintf(text, cap, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        snprintf(text, cap, "%.17g", json_real_value(value));
    else
        return false;
    return true;
}

static bool read_object(struct reading *r, const char *line, struct draw *draw)
{
    json_error_t error;
    json_t *object = json_loads(line, JSON_REJECT_DUPLICATES, &error);
    if (!json_is_object(object)) {
        json_decref(object);
        return message_write(r->why, r->cap, "%s:%zu: is not an object of JSON (%.100s); write one a line", r->path,
                             r->line, object ? "another type" : error.text);
    }
    const char *values[N_COLUMNS] = {NULL};
    char texts[N_COLUMNS][40];
    bool good = true;
    for (int c = 0; c < N_COLUMNS && good; c++)
        if (!json_text(json_object_get(object, column_names[c]), texts[c], sizeof texts[c], &values[c]))
            good = message_write(r->why, r->cap, "%s:%zu: \"%s\" is neither a text nor a number; write one", r->path,
                                 r->line, column_names[c]);
    if (good) good = row_add(r, values, draw);
    json_decref(object);
    return good;
}

static bool read_json_lines(FILE *file, struct reading *r)
{
    char *line = NULL;
    size_t room = 0;
    bool good = true;
    struct draw draw = {0};
    while (good && getline(&line, &room, file) >= 0) {
        r->line++;
        if (line[strspn(line, " \t\r\n")] != 0) good = read_object(r, line, &draw);
    }
    draw_free(&draw);
    free(line);
    return good;
}

/* ---- the calls ---------------------------------------------------------------------------------- */

static bool finish(struct manifest *manifest, const struct manifest_defaults *defaults, char *why, size_t cap)
{
    bool *named = calloc(manifest->n + 1, sizeof *named);
    if (!named) return no_memory(why, cap);
    for (size_t i = 0; i < manifest->n; i++) named[i] = manifest->jobs[i].output != NULL;
    bool good = name_outputs(manifest, named, defaults->extension, why, cap);
    free(named);
    return good;
}

bool manifest_read(struct manifest *manifest, const char *path, const struct manifest_defaults *defaults, char *why,
                   size_t cap)
{
    *manifest = (struct manifest){0};
    struct reading r = {.manifest = manifest, .defaults = defaults, .path = path, .why = why, .cap = cap};
    bool standard = strcmp(path, "-") == 0;
    FILE *file = standard ? stdin : fopen(path, "re");
    if (!file) return message_write(why, cap, "%s: cannot be read: %s; check the path", path, strerror(errno));
    struct stat status;
    if (fstat(fileno(file), &status) == 0 && S_ISDIR(status.st_mode)) {
        if (!standard) fclose(file);
        return message_write(why, cap, "%s: is a directory; give the list of its files", path);
    }
    int first = getc(file);
    if (first == 0xef && getc(file) == 0xbb && getc(file) == 0xbf) first = getc(file); /* byte order mark of UTF-8 */
    for (; first == '\n' || first == ' ' || first == '\r'; first = getc(file)) r.line += first == '\n';
    if (first != EOF) ungetc(first, file);
    bool good = first == '{' ? read_json_lines(file, &r) : read_csv(file, &r);
    if (good && ferror(file)) good = message_write(why, cap, "%s: %s; check the disk", path, strerror(EIO));
    if (!standard) fclose(file);
    if (good && manifest->n == 0)
        good = message_write(why, cap, "%s: lists no file; write a header and a row for each", path);
    if (good) good = finish(manifest, defaults, why, cap);
    if (!good) manifest_free(manifest);
    return good;
}

static bool pair_add(struct manifest *manifest, const struct manifest_defaults *d, const char *input, const char *mask)
{
    struct job *job = job_add(manifest);
    if (!job) return false;
    *job = (struct job){.input = input, .mask = mask, .gain = d->gain, .tail = d->tail, .level = d->level};
    return true;
}

/* n different masks for an input: of the n last places of a shuffle, which need no list of all (Floyd 1987). */
static bool pair_random(struct manifest *manifest, const struct manifest_defaults *d, const char *input,
                        const char *const *masks, size_t n_masks, size_t n, uint64_t seed)
{
    size_t from = manifest->n;
    for (size_t i = n_masks - n; i < n_masks; i++) {
        size_t pick = (size_t)(mix(seed + i) % (i + 1));
        for (size_t j = from; j < manifest->n; j++)
            if (manifest->jobs[j].mask == masks[pick]) pick = i;
        if (!pair_add(manifest, d, input, masks[pick])) return false;
    }
    return true;
}

static bool pair_up(struct manifest *manifest, const glob_t *inputs, const glob_t *masks, const char *pairs,
                    const struct manifest_defaults *d, char *why, size_t cap)
{
    size_t n_inputs = inputs->gl_pathc, n_masks = masks->gl_pathc, n_draws = 0;
    bool all = strcmp(pairs, "all") == 0, zip = strcmp(pairs, "zip") == 0;
    if (!all && !zip) n_draws = strtoul(pairs + strlen("random:"), NULL, 10); /* its text was checked */
    if (zip && n_inputs != n_masks)
        return message_write(why, cap, "--pairs zip: %zu inputs and %zu masks; it needs as many of both", n_inputs,
                             n_masks);
    if (n_draws > n_masks)
        return message_write(why, cap, "--pairs %s: there are %zu masks; draw fewer", pairs, n_masks);
    const char **names = calloc(n_masks, sizeof *names);
    bool good = names != NULL;
    for (size_t m = 0; m < n_masks && good; m++) good = (names[m] = text_keep(manifest, masks->gl_pathv[m])) != NULL;
    for (size_t i = 0; i < n_inputs && good; i++) {
        const char *input = text_keep(manifest, inputs->gl_pathv[i]);
        good = input != NULL;
        if (good && zip) good = pair_add(manifest, d, input, names[i]);
        for (size_t m = 0; m < n_masks && good && all; m++) good = pair_add(manifest, d, input, names[m]);
        if (good && n_draws)
            good = pair_random(manifest, d, input, names, n_masks, n_draws, mix(mix(d->seed) + i));
    }
    free(names);
    return good || no_memory(why, cap);
}

bool manifest_pair(struct manifest *manifest, const char *inputs, const char *masks, const char *pairs,
                   const struct manifest_defaults *defaults, char *why, size_t cap)
{
    *manifest = (struct manifest){0};
    glob_t in, mask;
    if (!expand(inputs, &in, why, cap)) return false;
    bool good = expand(masks, &mask, why, cap);
    if (good) {
        good = pair_up(manifest, &in, &mask, pairs, defaults, why, cap) && finish(manifest, defaults, why, cap);
        globfree(&mask);
    }
    globfree(&in);
    if (!good) manifest_free(manifest);
    return good;
}
