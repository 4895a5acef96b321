#include "preset.h"

#include "dsp/base/order.h"
#include "host/files/text_out.h"
#include "host/line_reader.h"
#include "host/mask_argument.h"
#include "host/message.h"

#include <dirent.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAX_BYTES = 65536 }; /* max. bytes of a preset's file */
enum { MAX_ERRORS = 20 };   /* max. errors that are printed */
enum { MAX_NAMES = 200 };   /* max. presets of preset_names, and of preset_save */

static const char SYSTEM_FOLDER[] = "/etc/haloconv", ENDING[] = ".conf", BLANKS[] = " \t\r";

struct preset_line {
    int number;      /* number of the line in the file, from 1 */
    const char *key; /* not "" */
    char *value;     /* owned; NULL: the line has no = */
};

struct preset {
    char path[PATH_MAX];
    char *text; /* the file; keys point into it */
    struct preset_line *lines;
    int n_lines;
    char **masks; /* values of lines */
    int n_masks;
};

/* ---- files --------------------------------------------------------------------------------------------------- */

/* $XDG_CONFIG_HOME counts only if it is absolute, by its specification. */
const char *preset_folder(int i)
{
    static char users[PATH_MAX];
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    if (i == 0 && config && *config == '/')
        snprintf(users, sizeof users, "%s/haloconv", config);
    else if (i == 0)
        snprintf(users, sizeof users, "%s/.config/haloconv", home ? home : "");
    return i == 0 ? users : i == 1 ? SYSTEM_FOLDER : NULL;
}

static bool preset_find(struct preset *p, const char *name, char *why, size_t cap)
{
    if (strchr(name, '/')) {
        if (snprintf(p->path, sizeof p->path, "%s", name) < (int)sizeof p->path) return true;
        return message_write(why, cap, "%.200s: the path is too long; use a shorter one", name);
    }
    for (int i = 0; preset_folder(i); i++)
        if (snprintf(p->path, sizeof p->path, "%s/%s%s", preset_folder(i), name, ENDING) < (int)sizeof p->path &&
            access(p->path, F_OK) == 0)
            return true;
    return message_write(why, cap,
                         "preset %.200s: this file is not in %s or %s; `haloconv presets` lists the presets there, and "
                         "a file elsewhere needs a path with a slash",
                         name, preset_folder(0), preset_folder(1));
}

static bool preset_read_text(struct preset *p, char *why, size_t cap)
{
    const char *reason;
    FILE *file = text_in_open(p->path, &reason);
    if (!file) return message_write(why, cap, "%s: %s; check the path and its permissions", p->path, reason);
    p->text = malloc(MAX_BYTES + 2);
    size_t n = p->text ? fread(p->text, 1, MAX_BYTES + 1, file) : 0;
    bool failed = ferror(file) != 0;
    fclose(file);
    if (!p->text) return message_write(why, cap, "%s: no memory for the preset; free some memory", p->path);
    if (failed) return message_write(why, cap, "%s: cannot be read; give a file that is a preset", p->path);
    if (n > MAX_BYTES || memchr(p->text, 0, n))
        return message_write(why, cap, "%s: is not a text of at most %d bytes; give a file that is a preset", p->path,
                             MAX_BYTES);
    p->text[n] = 0;
    return true;
}

/* ---- lines --------------------------------------------------------------------------------------------------- */

/* Cuts blanks at both ends of a text. */
static char *preset_trim(char *text)
{
    text += strspn(text, BLANKS);
    for (size_t n = strlen(text); n > 0 && strchr(BLANKS, text[n - 1]); n--) text[n - 1] = 0;
    return text;
}

/* Cuts the quotes around a value, which keep its blanks. */
static char *unquote(char *text)
{
    size_t n = strlen(text);
    if (n < 2 || text[0] != '"' || text[n - 1] != '"') return text;
    text[n - 1] = 0;
    return text + 1;
}

/* Resolves a path in the file: "~/..." is in the user's home, other relative paths are in the file's folder. */
static char *path_of(const struct preset *p, const char *value)
{
    const char *slash = strrchr(p->path, '/'), *home = getenv("HOME");
    int folder = slash ? (int)(slash + 1 - p->path) : 0;
    char *path = NULL;
    if (value[0] == '~' && value[1] == '/' && home) return asprintf(&path, "%s%s", home, value + 1) < 0 ? NULL : path;
    if (!*value || *value == '/' || strcmp(value, "-") == 0) folder = 0;
    return asprintf(&path, "%.*s%s", folder, p->path, value) < 0 ? NULL : path;
}

static bool is_mask(const struct preset_line *l)
{
    return strcmp(l->key, "mask") == 0;
}

/* Returns the path of a mask of the file, or of one that ships. NULL: no memory. */
static char *mask_path(const struct preset *p, const char *value)
{
    char *path = path_of(p, value);
    const char *shipped = path ? mask_argument_shipped(value, path) : NULL;
    if (!shipped) return path;
    free(path);
    return strdup(shipped);
}

/* Splits the text into lines. false: no memory. */
static bool preset_read_lines(struct preset *p)
{
    int number = 0, n = 1, mark = strncmp(p->text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0; /* byte order mark of UTF-8 */
    for (const char *c = p->text; *c; c++) n += *c == '\n';
    p->lines = calloc((size_t)n, sizeof *p->lines);
    p->masks = calloc((size_t)n, sizeof *p->masks);
    if (!p->lines || !p->masks) return false;
    for (char *next = p->text + mark, *text; (text = strsep(&next, "\n"));) {
        number++;
        text = preset_trim(text);
        if (!*text || *text == '#') continue;
        struct preset_line *l = &p->lines[p->n_lines++];
        char *value = strchr(text, '=');
        if (value) *value++ = 0;
        *l = (struct preset_line){.number = number, .key = preset_trim(text)};
        if (!value) continue;
        value = unquote(preset_trim(value));
        l->value = is_mask(l) ? mask_path(p, value) : strdup(value);
        if (!l->value) return false;
        if (is_mask(l)) p->masks[p->n_masks++] = l->value;
    }
    return true;
}

struct preset *preset_open(const char *name, char *why, size_t cap)
{
    struct preset *p = calloc(1, sizeof *p);
    bool good = p && preset_find(p, name, why, cap) && preset_read_text(p, why, cap);
    if (good && preset_read_lines(p)) return p;
    if (!p || good) message_write(why, cap, "preset %.200s: no memory; free some memory", name);
    preset_close(p);
    return NULL;
}

void preset_close(struct preset *p)
{
    if (!p) return;
    for (int i = 0; i < p->n_lines; i++) free(p->lines[i].value);
    free(p->lines);
    free(p->masks);
    free(p->text);
    free(p);
}

/* ---- use ----------------------------------------------------------------------------------------------------- */

const char *preset_command(const struct preset *p)
{
    const char *command = "jack";
    for (int i = 0; i < p->n_lines; i++)
        if (strcmp(p->lines[i].key, "command") == 0 && p->lines[i].value) command = p->lines[i].value;
    return command;
}

const char *const preset_kind_names[PRESET_KINDS] = {
    [PRESET_JACK] = "jack", [PRESET_PIPEWIRE] = "pipewire", [PRESET_LIVE] = "live"};

enum preset_kind preset_kind(const char *command)
{
    int kind = 0;
    while (kind < PRESET_KINDS && strcmp(command, preset_kind_names[kind]) != 0) kind++;
    return kind;
}

const char *preset_key(const struct preset *p, int i)
{
    return i >= 0 && i < p->n_lines ? p->lines[i].key : NULL;
}

int preset_stem(const char *file)
{
    size_t n = strlen(file), ending = strlen(ENDING);
    return *file != '.' && n > ending && strcmp(file + n - ending, ENDING) == 0 ? (int)(n - ending) : 0;
}

static bool is_of_command(const char *name, const char *command)
{
    char why[MESSAGE_CAP];
    struct preset *preset = preset_open(name, why, sizeof why);
    bool is_of = preset && strcmp(preset_command(preset), command) == 0;
    preset_close(preset);
    return is_of;
}

static bool preset_has_name(const struct option_names *names, const char *name)
{
    for (int i = 0; i < names->n; i++)
        if (strcmp(names->list[i], name) == 0) return true;
    return false;
}

/* Adds the preset of a file, if it is one. */
static void add_name(struct option_names *names, const char *file, const char *command)
{
    int n = preset_stem(file);
    if (!n) return;
    char *name = strndup(file, (size_t)n);
    char **more = name && !preset_has_name(names, name) && is_of_command(name, command)
                      ? realloc(names->list, (size_t)(names->n + 1) * sizeof *more)
                      : NULL;
    if (!more) {
        free(name);
        return;
    }
    names->list = more;
    names->list[names->n++] = name;
}

struct option_names preset_names(const char *command)
{
    struct option_names names = {0};
    for (int i = 0; preset_folder(i); i++) {
        DIR *folder = opendir(preset_folder(i));
        for (struct dirent *file; folder && (file = readdir(folder)) && names.n < MAX_NAMES;)
            add_name(&names, file->d_name, command);
        if (folder) closedir(folder);
    }
    if (names.n > 0) qsort(names.list, (size_t)names.n, sizeof *names.list, order_of_texts);
    return names;
}

struct option_names preset_masks(const struct preset *p)
{
    return (struct option_names){p->masks, p->n_masks};
}

/* Prints a usage error; returns false. */
__attribute__((format(printf, 2, 3))) static bool preset_refuse(const struct command_line *line, const char *format,
                                                                ...)
{
    char text[MESSAGE_CAP];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    message_usage(line->command, "%s", text);
    return false;
}

static bool apply_command(const struct preset_line *l, const char *where, const struct command_line *line)
{
    bool is_known = l->value && preset_kind(l->value) < PRESET_KINDS;
    if (!is_known)
        return preset_refuse(line, "%s: command: needs \"%s\", \"%s\" or \"%s\"", where, preset_kind_names[PRESET_JACK],
                             preset_kind_names[PRESET_PIPEWIRE], preset_kind_names[PRESET_LIVE]);
    return strcmp(l->value, line->command) == 0 ||
           preset_refuse(line, "%s: the preset is for haloconv %s; start that, or `haloconv run`", where, l->value);
}

/* Sets the option that a line names. false: a usage error was printed. */
static bool apply_option(struct preset *p, struct preset_line *l, const char *where, const struct command_line *line,
                         void *settings)
{
    const struct option_row *row = option_find(line, l->key);
    struct option_use use = {line->command, row, NULL, where};
    if (!row && !l->value) return preset_refuse(line, "%s: %.200s: is not a line KEY = VALUE", where, l->key);
    if (!row || strcmp(row->name, "preset") == 0)
        return preset_refuse(line, "%s: %.200s: is not an option of a preset", where, l->key);
    if (!row->value) {
        bool no = l->value && strcmp(l->value, "no") == 0, yes = !l->value || strcmp(l->value, "yes") == 0;
        if (!no && !yes) return preset_refuse(line, "%s: %s: needs yes or no", where, l->key);
        return no || option_apply(line, &use, settings);
    }
    if (!l->value || !*l->value) return preset_refuse(line, "%s: %s: needs %s", where, l->key, row->value);
    if (strcmp(row->value, "FILE") == 0) {
        char *path = path_of(p, l->value);
        if (!path) return message_error("%s: no memory; free some memory", where), false;
        free(l->value);
        l->value = path;
    }
    use.text = l->value;
    return option_apply(line, &use, settings);
}

static bool preset_apply_line(struct preset *p, struct preset_line *l, const struct command_line *line, void *settings)
{
    char where[PATH_MAX + 16];
    snprintf(where, sizeof where, "%s:%d", p->path, l->number);
    if (strcmp(l->key, "command") == 0) return apply_command(l, where, line);
    if (!is_mask(l)) return apply_option(p, l, where, line, settings);
    return (l->value && *l->value) || preset_refuse(line, "%s: mask: needs the path of a file", where);
}

bool preset_apply(struct preset *p, const struct command_line *line, void *settings)
{
    int errors = 0;
    for (int i = 0; i < p->n_lines && errors < MAX_ERRORS; i++)
        errors += !preset_apply_line(p, &p->lines[i], line, settings);
    if (errors == MAX_ERRORS) message_error("%s: may have more errors; correct these first", p->path);
    return errors == 0;
}

/* ---- save ---------------------------------------------------------------------------------------------------- */

static void print_lines(FILE *file, const void *data)
{
    const char *const *lines = data;
    for (int i = 0; i < 2; i++) fputs(lines[i], file);
}

bool preset_save(const char *name, bool replace, const char *text, char *saved, size_t cap)
{
    static char mark[80]; /* a line that no other session writes */
    static int n_new;     /* presets that this session has made */
    char free_name[32] = "session", path[PATH_MAX + 128];
    struct preset old;
    const char *lines[] = {mark, text}, *folder = preset_folder(0);
    if (!*mark) snprintf(mark, sizeof mark, "# saved by session %d-%lld\n", (int)getpid(), (long long)time(NULL));
    for (int i = 2; !*name && preset_find(&old, free_name, saved, cap); i++)
        snprintf(free_name, sizeof free_name, "session-%d", i);
    if (!*name) name = free_name;
    if (strpbrk(name, "/\n") || *name == '.' || *name == '-' || strlen(name) > 100)
        return message_write(saved, cap, "a preset needs the name of a file, without a slash");
    bool is_there = preset_find(&old, name, saved, cap);
    if (is_there && !replace && !text_out_may_replace(old.path, mark, saved, cap))
        return message_write(saved, cap,
                             "preset %s exists, not as this session saved it; give another name, or replace", name);
    if (strlen(text) > MAX_BYTES - 200)
        return message_write(saved, cap, "the preset would have %zu bytes; shorten the paths of its masks", strlen(text));
    if (!is_there && n_new == MAX_NAMES) /* others may send many names over OSC */
        return message_write(saved, cap, "this session has saved %d presets; save under one of their names", MAX_NAMES);
    snprintf(path, sizeof path, "%s/%s%s", folder, name, ENDING);
    if (!text_out_folder(folder, saved, cap) || !text_out_marked(path, print_lines, lines, saved, cap)) return false;
    n_new += !is_there;
    snprintf(saved, cap, "%s", name);
    return true;
}
