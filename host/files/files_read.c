#include "files_read.h"

#include "dsp/haloconv_masks.h"
#include "host/line_reader.h"
#include "host/message.h"
#include "host/splitmix64.h"

#include <dirent.h>
#include <glob.h>
#include <limits.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Reads the identity of a file. standard: the descriptor that "-" stands for. */
static bool identity_read(const char *path, int standard, struct stat *status, struct file_identity *identity)
{
    int failed = strcmp(path, "-") == 0 ? fstat(standard, status) : stat(path, status);
    if (failed || !S_ISREG(status->st_mode)) return false;
    *identity = (struct file_identity){status->st_dev, status->st_ino};
    return true;
}

/* Returns the path of a file behind all links, relative if it is in the working folder, which may move. Without one, as
 * for "-": path. real: room for it. */
static const char *place(const char *path, char real[PATH_MAX])
{
    char folder[PATH_MAX];
    if (!realpath(path, real)) return path;
    size_t n = getcwd(folder, sizeof folder) ? strlen(folder) : 0;
    return n && strncmp(real, folder, n) == 0 && real[n] == '/' ? real + n + 1 : real;
}

/* Returns the state of a file; its lowest bit: file_state_is_unsure. A file system may count its times in 2 s. */
static uint64_t file_state(const char *path, const struct stat *status)
{
    const struct timespec *changed = &status->st_mtim;
    uint64_t state = splitmix64((uint64_t)status->st_size);
    state = splitmix64(state ^ (uint64_t)changed->tv_sec);
    state = splitmix64(state ^ (uint64_t)changed->tv_nsec);
    /* A link may have been changed to a file with the same size and time. */
    char real[PATH_MAX];
    for (const char *at = place(path, real); *at; at++) state = splitmix64(state ^ (unsigned char)*at);
    bool is_unsure = changed->tv_nsec == 0 && llabs((long long)time(NULL) - (long long)changed->tv_sec) <= 2;
    return state << 1 | is_unsure;
}

/* Adds the state of some files to that of read. The order of the files has no effect: readdir has any order. */
static void state_add(struct files_read *read, uint64_t state)
{
    read->state = ((read->state >> 1) + (state >> 1)) << 1 | ((read->state | state) & 1);
}

bool files_read_add(struct files_read *read, const char *path)
{
    struct stat status;
    struct file_identity identity;
    if (!identity_read(path, STDIN_FILENO, &status, &identity)) return true;
    state_add(read, file_state(path, &status));
    if (read->n == read->capacity) {
        size_t capacity = read->capacity ? 2 * read->capacity : 16;
        struct file_identity *files = realloc(read->files, capacity * sizeof *files);
        if (!files) return false;
        read->files = files;
        read->capacity = capacity;
    }
    read->files[read->n++] = identity;
    read->is_sorted = false;
    return true;
}

/* Adds a path, and the file of every rate that a path with %r stands for. */
static bool add_rates(struct files_read *read, const char *path, bool (*add)(struct files_read *, const char *))
{
    if (!add(read, path)) return false;
    if (!strstr(path, "%r")) return true;
    char *pattern = malloc(3 * strlen(path) + 1), *to = pattern;
    if (!pattern) return false;
    for (const char *at = path; *at; at++) {
        if (strncmp(at, "%r", 2) == 0) {
            to = stpcpy(to, "[0-9]*");
            at++;
            continue;
        }
        if (strchr("*?[\\", *at)) *to++ = '\\';
        *to++ = *at;
    }
    *to = '\0';
    glob_t found;
    int error = glob(pattern, GLOB_NOSORT, NULL, &found);
    bool good = error != GLOB_NOSPACE;
    if (!error) {
        for (size_t i = 0; i < found.gl_pathc && good; i++) good = add(read, found.gl_pathv[i]);
        globfree(&found);
    }
    free(pattern);
    return good;
}

static bool add_mask_of_a_rate(struct files_read *read, const char *path)
{
    const char *file;
    hc_responses names;
    if (!files_read_add(read, path)) return false;
    bool good = hc_responses_load(path, 0, 0, HC_NAMES_ONLY, &names, NULL, 0) != HC_ENOMEM;
    for (int i = 0; good && (file = hc_responses_file(&names, i)); i++) good = add_rates(read, file, files_read_add);
    hc_responses_free(&names);
    return good;
}

struct known { /* a mask or a bank that was added */
    const char *path;
    bool is_bank;
    uint64_t state;
};

static int known_order(const void *a, const void *b)
{
    const struct known *p = a, *q = b;
    return p->is_bank != q->is_bank ? p->is_bank - q->is_bank : strcmp(p->path, q->path);
}

/* Calls add for a mask or a bank that is not known yet, and adds its state. false: no memory. */
static bool add_once(struct files_read *read, const char *path, bool is_bank,
                     bool (*add)(struct files_read *read, const char *path))
{
    const uint64_t before = read->state;
    struct known key = {.path = path, .is_bank = is_bank}, **found = tfind(&key, &read->known, known_order);
    if (!found) {
        struct known *known = malloc(sizeof *known);
        if (known) *known = key;
        if (!known || !(found = tsearch(known, &read->known, known_order))) {
            free(known);
            return false;
        }
        read->state = 0;
        if (!add(read, path)) return false;
        known->state = read->state;
        read->state = before;
    }
    state_add(read, (*found)->state);
    return true;
}

static bool files_add_mask(struct files_read *read, const char *path)
{
    return add_rates(read, path, add_mask_of_a_rate);
}

bool files_read_add_mask(struct files_read *read, const char *path)
{
    return add_once(read, path, false, files_add_mask);
}

/* Adds a file of the folder whose name has `length` bytes, unless its name is absolute. */
static bool add_inside(struct files_read *read, const char *folder, int length, const char *name)
{
    char path[PATH_MAX];
    if (name[0] == '/') return files_read_add(read, name);
    return snprintf(path, sizeof path, "%.*s/%s", length, folder, name) >= (int)sizeof path ||
           files_read_add(read, path);
}

static bool add_folder(struct files_read *read, const char *path, DIR *folder)
{
    struct dirent *entry;
    bool good = true;
    while (good && (entry = readdir(folder))) good = add_inside(read, path, (int)strlen(path), entry->d_name);
    closedir(folder);
    return good;
}

/* Adds the files in the column `file`. A line that cannot be read ends the list: then no bank is loaded. */
static bool add_list(struct files_read *read, const char *path)
{
    const char *slash = strrchr(path, '/'), *folder = slash ? path : ".";
    const int length = slash ? (int)(slash - path) : 1;
    char why[MESSAGE_CAP], *record = malloc(CSV_BYTES);
    struct line_reader in;
    int column = -1;
    bool good = record != NULL;
    if (!good || !line_reader_open(&in, path, "", why, sizeof why)) {
        free(record);
        return good;
    }
    for (bool is_header = true; good && (is_header || column >= 0) && csv_record(&in, record) == LINE_READ;) {
        const char first = record[strspn(record, " \t")];
        if (first == '\0' || first == '#') continue;
        int i = 0;
        for (char *at = record, *cell; good && at && csv_field(&in, &at, &cell); i++) {
            cell += strspn(cell, " \t");
            for (size_t n = strlen(cell); n > 0 && strchr(" \t", cell[n - 1]);) cell[--n] = '\0';
            if (is_header && strcasecmp(cell, "file") == 0) column = i;
            if (!is_header && i == column) good = add_inside(read, folder, length, cell);
        }
        is_header = false;
    }
    line_reader_close(&in);
    free(record);
    return good;
}

static bool add_bank(struct files_read *read, const char *path)
{
    if (!files_read_add(read, path)) return false;
    DIR *folder = opendir(path);
    if (folder) return add_folder(read, path, folder);
    const char *extension = strrchr(path, '.');
    return !extension || strcasecmp(extension, ".csv") != 0 || add_list(read, path);
}

bool files_read_add_bank(struct files_read *read, const char *path)
{
    return add_once(read, path, true, add_bank);
}

int file_identity_order(const void *a, const void *b)
{
    const struct file_identity *p = a, *q = b;
    if (p->device != q->device) return p->device < q->device ? -1 : 1;
    return p->number < q->number ? -1 : p->number > q->number;
}

bool files_read_spare(struct files_read *read, const char *output, char *why, size_t cap)
{
    struct stat status;
    struct file_identity one;
    if (!read->is_sorted && read->n) qsort(read->files, read->n, sizeof *read->files, file_identity_order);
    read->is_sorted = true;
    bool is_read = read->n && identity_read(output, STDOUT_FILENO, &status, &one) &&
                   bsearch(&one, read->files, read->n, sizeof *read->files, file_identity_order);
    return !is_read || message_write(why, cap,
                                     "%s: is a file that this run reads, and would be overwritten; choose another "
                                     "output",
                                     output);
}

void files_read_free(struct files_read *read)
{
    tdestroy(read->known, free);
    free(read->files);
    *read = (struct files_read){0};
}

bool files_read_spares(char *const *paths, int n, const char *output, char *why, size_t cap)
{
    struct files_read read = {0};
    bool good = true;
    for (int i = 0; good && i < n; i++) good = !paths[i] || files_read_add_mask(&read, paths[i]);
    if (!good) message_write(why, cap, "%s: no memory; free some memory", output);
    good = good && files_read_spare(&read, output, why, cap);
    files_read_free(&read);
    return good;
}
