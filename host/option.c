#include "option.h"

#include "dsp/base/number.h"
#include "dsp/haloconv_scenes.h"
#include "mask_argument.h"
#include "message.h"

#include <argp.h>
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    KEY_MAN = 256,  /* --_man, which the Makefile uses: print the options for the man page */
    KEY_COMPLETION, /* --_completion, the same for the completion of shells */
    KEY_DEFAULTS,   /* --_defaults, for a test: compare the defaults of the help with the settings */
    KEY_FIRST,      /* first key of the rows without a letter */
    MAX_KEYS = 320
};

/* ---- kinds of values ------------------------------------------------------------------------------------ */

bool option_refuse(const struct option_use *use, const char *format, ...)
{
    char text[MESSAGE_CAP];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    message_usage(use->command, "%s%s%s %s: %s", use->where ? use->where : "", use->where ? ": " : "--", use->row->name,
                  use->text, text);
    return false;
}

bool option_text(const struct option_use *use, void *to)
{
    *(const char **)to = use->text;
    return true;
}

bool option_flag(const struct option_use *use, void *to)
{
    (void)use;
    return *(bool *)to = true;
}

bool option_set(const struct option_use *use, void *to)
{
    *(int *)to = (int)use->row->min;
    return true;
}

bool option_int(const struct option_use *use, void *to)
{
    char *end;
    errno = 0;
    long number = strtol(use->text, &end, 10);
    if (end == use->text || *end || errno || (double)number < use->row->min || (double)number > use->row->max)
        return option_refuse(use, "needs a whole number from %.0f to %.0f", use->row->min, use->row->max);
    *(int *)to = (int)number;
    return true;
}

static bool option_read_number(const struct option_use *use, double min, double max, double *value)
{
    double number;
    if (!number_is(use->text, min, max, &number)) return option_refuse(use, "needs a number from %g to %g", min, max);
    *value = number;
    return true;
}

bool option_number(const struct option_use *use, void *to)
{
    return option_read_number(use, use->row->min, use->row->max, to);
}

bool option_grid(const struct option_use *use, void *to)
{
    bool off = strcmp(use->text, "off") == 0;
    if (off) *(double *)to = HC_GRID_NONE;
    return off || option_read_number(use, use->row->min, use->row->max, to);
}

bool option_seed(const struct option_use *use, void *to)
{
    char *end;
    errno = 0;
    unsigned long long seed = strtoull(use->text, &end, 10);
    if (end == use->text || *end || errno || use->text[0] == '-')
        return option_refuse(use, "needs a whole number from 0 on");
    *(uint64_t *)to = seed;
    return true;
}

bool option_db(const struct option_use *use, void *to)
{
    double db = -INFINITY;
    bool off = strcmp(use->text, "off") == 0 || strcmp(use->text, "-inf") == 0;
    if (!off && !option_read_number(use, -300, 300, &db)) return false;
    *(double *)to = off ? 0 : pow(10, db / 20);
    return true;
}

bool option_db_float(const struct option_use *use, void *to)
{
    double linear;
    if (!option_db(use, &linear)) return false;
    *(float *)to = (float)linear;
    return true;
}

/* Returns the number of the word; -1: a usage error, "needs full, same or centre", was printed. */
static int find_word(const struct option_use *use)
{
    char needs[256] = "";
    int i = 0;
    for (const char *word = use->row->value, *end; *word; word = *end ? end + 1 : end, i++) {
        size_t length = strcspn(word, "|"), used = strlen(needs);
        end = word + length;
        if (strlen(use->text) == length && strncmp(use->text, word, length) == 0) return i;
        snprintf(needs + used, sizeof needs - used, "%s%.*s", i == 0 ? "" : *end ? ", " : " or ", (int)length, word);
    }
    option_refuse(use, "needs %s", needs);
    return -1;
}

bool option_choice(const struct option_use *use, void *to)
{
    int word = find_word(use);
    if (word >= 0) *(int *)to = word;
    return word >= 0;
}

bool option_word(const struct option_use *use, void *to)
{
    return find_word(use) >= 0 && option_text(use, to);
}

/* Is the text `kind`:N with the number of a device? */
static bool names_device(const char *text, const char *kind)
{
    size_t n = strlen(kind);
    if (strncmp(text, kind, n) != 0 || text[n] != ':') return false;
    const char *number = text + n + 1;
    return *number && strlen(number) < 7 && strspn(number, "0123456789") == strlen(number);
}

static bool is_backend(const char *text)
{
    return strcmp(text, "auto") == 0 || strcmp(text, "cpu") == 0 || strcmp(text, "cuda") == 0 ||
           names_device(text, "cuda");
}

bool option_backend(const struct option_use *use, void *to)
{
    if (!is_backend(use->text)) return option_refuse(use, "needs auto, cpu, cuda or cuda:N");
    return option_text(use, to);
}

/* Is the text "cuda:launched" or "cuda:N:launched"? */
static bool is_launched(const char *text)
{
    char device[16];
    const char *end = strrchr(text, ':');
    if (!end || strcmp(end, ":launched") != 0 || (size_t)(end - text) >= sizeof device) return false;
    snprintf(device, sizeof device, "%.*s", (int)(end - text), text);
    return strcmp(device, "cuda") == 0 || names_device(device, "cuda");
}

bool option_backend_live(const struct option_use *use, void *to)
{
    if (!is_backend(use->text) && !is_launched(use->text) && strcmp(use->text, "hybrid") != 0 &&
        strcmp(use->text, "hybrid:cpu") != 0 && !names_device(use->text, "hybrid"))
        return option_refuse(use, "needs auto, cpu, cuda, cuda:N, cuda:launched, hybrid or hybrid:N");
    return option_text(use, to);
}

static bool read_quiet(const struct option_use *use, void *to)
{
    (void)use, (void)to;
    message_set_quiet(true);
    return true;
}

/* Every command has this option. */
static const struct option_row quiet = {
    .name = "quiet", .letter = 'q', .text = "Print errors only: no progress, warnings or summary", .read = read_quiet};

const struct option_row *option_find(const struct command_line *line, const char *name)
{
    for (int group = 0; line->groups[group].rows; group++)
        for (const struct option_row *row = line->groups[group].rows; row->name; row++)
            if (strcmp(row->name, name) == 0 || (row->old_name && strcmp(row->old_name, name) == 0)) return row;
    return strcmp(quiet.name, name) == 0 ? &quiet : NULL;
}

/* ---- the man page ------------------------------------------------------------------------------------------ */

void option_print_roff(const char *text)
{
    bool in_option = false; /* "--no-resample": its dashes are \-, others are hyphens */
    for (char before = ' '; *text; before = *text++) {
        bool begins = strchr(" \"([|", before) != NULL;
        if (begins) in_option = *text == '-';
        if (*text == '-' && (in_option || text[1] == ' '))
            fputs("\\-", stdout);
        else if (*text == '\\')
            fputs("\\e", stdout);
        else
            printf("%s%c", begins && (*text == '.' || *text == '\'') ? "\\&" : "", *text);
    }
}

/* Prints rows for the man page. only: the number of a group, from 1; 0: all groups. */
static void print_man(const struct command_line *line, int only)
{
    for (int group = 0; line->groups[group].rows; group++) {
        if (only && only != group + 1) continue;
        if (!only && line->groups[group].title) printf(".PP\n%s\n", line->groups[group].title);
        for (const struct option_row *row = line->groups[group].rows; row->name; row++) {
            char name[64];
            snprintf(name, sizeof name, "--%s", row->name);
            printf(".TP\n.BR ");
            if (row->letter) printf("\\-%c \", \" ", row->letter);
            option_print_roff(name);
            if (row->value) printf(" \" \\fI%s\\fR\"", row->value);
            putchar('\n');
            option_print_roff(row->text);
            putchar('\n');
        }
    }
}

/* ---- completion by shells ---------------------------------------------------------------------------------- */

static void print_completed(const struct command_line *line, const struct option_row *row)
{
    const char letter[] = {'-', row->letter, 0};
    printf("%s\t--%s\t%s\t%s\n", line->command, row->name, letter, row->value ? row->value : "-");
}

/* Prints a line for each option: command, option, letter and value, with "-" for an absent letter or value. */
static void print_completion(const struct command_line *line)
{
    for (int group = 0; line->groups[group].rows; group++)
        for (const struct option_row *row = line->groups[group].rows; row->name; row++) print_completed(line, row);
    print_completed(line, &quiet);
    print_completed(line, &(const struct option_row){.name = "help", .letter = 'h'});
}

/* ---- defaults, for a test ---------------------------------------------------------------------------------- */

/* Returns the bytes of a number that `read` writes; 0: it writes something else. */
static size_t number_bytes(option_read *read)
{
    if (read == option_int || read == option_choice) return sizeof(int);
    if (read == option_number || read == option_grid || read == option_db) return sizeof(double);
    return read == option_db_float ? sizeof(float) : read == option_seed ? sizeof(uint64_t) : 0;
}

/* Compares a default with the field of its row: "same", "differs", "unset" (a text), or "unread" (no such value). */
static const char *default_compare(const struct option_use *use, char *field)
{
    option_read *read = use->row->read;
    char before[sizeof(double)];
    size_t n = number_bytes(read);
    bool is_text = read == option_text || read == option_word || read == option_backend || read == option_backend_live;
    if (is_text && !*(const char **)field) return "unset";
    if (is_text) return strcmp(*(const char **)field, use->text) == 0 ? "same" : "differs";
    memcpy(before, field, n);
    if (n == 0 || !read(use, field)) return "unread";
    return memcmp(before, field, n) == 0 ? "same" : "differs";
}

/* Prints a line for each option whose help ends with [a default]. */
static void print_defaults(const struct command_line *line, char *settings)
{
    char text[MESSAGE_CAP];
    for (int group = 0; line->groups[group].rows; group++)
        for (const struct option_row *row = line->groups[group].rows; row->name; row++) {
            const struct option_use use = {line->command, row, text, NULL};
            const char *from = strrchr(row->text, '[');
            size_t length = from ? strlen(from) : 0;
            if (length < 3 || from[length - 1] != ']') continue;
            snprintf(text, sizeof text, "%.*s", (int)length - 2, from + 1);
            printf("%s\t%s\t%s\n", row->name, text, default_compare(&use, settings + row->to));
        }
}

/* ---- the command line ------------------------------------------------------------------------------------ */

bool option_apply(const struct command_line *line, const struct option_use *use, void *settings)
{
    if (!use->row->read(use, (char *)settings + use->row->to)) return false;
    if (line->note) line->note(settings, use->row, use->text);
    return true;
}

struct parse {
    const struct command_line *line;
    void *settings;
    const struct option_row *row_of_key[MAX_KEYS];
    char program[64]; /* "haloconv convolve" */
    int status;       /* the exit status after ECANCELED: 0, unless a value was wrong */
};

/* Prints the help, but not the line of blanks that argp adds below a text that ends at the right margin. */
static void print_help(struct argp_state *state)
{
    char *text = NULL;
    size_t size = 0;
    FILE *all = open_memstream(&text, &size);
    if (!all) return;
    argp_state_help(state, all, ARGP_HELP_SHORT_USAGE | ARGP_HELP_LONG | ARGP_HELP_DOC);
    fclose(all);
    for (char *at = text, *end; at && (end = strchr(at, '\n')); at = end + 1)
        if (at == end || strspn(at, " ") < (size_t)(end - at)) fwrite(at, 1, (size_t)(end + 1 - at), stdout);
    free(text);
}

/* Called by argp for each option. ECANCELED: help or a usage error was printed. */
static error_t parse_key(int key, char *text, struct argp_state *state)
{
    struct parse *parse = state->input;
    const struct option_row *row = key > 0 && key < MAX_KEYS ? parse->row_of_key[key] : NULL;
    if (row) {
        const struct option_use use = {parse->line->command, row, text, NULL};
        if (option_apply(parse->line, &use, parse->settings)) return 0;
        parse->status = EXIT_USAGE;
        return ECANCELED;
    }
    switch (key) {
    case 'h':
        state->name = parse->program;
        print_help(state);
        if (parse->line->more) fputs(parse->line->more, stdout);
        return ECANCELED;
    case KEY_MAN:
        print_man(parse->line, text ? atoi(text) : 0);
        return ECANCELED;
    case KEY_COMPLETION:
        print_completion(parse->line);
        return ECANCELED;
    case KEY_DEFAULTS:
        print_defaults(parse->line, parse->settings);
        return ECANCELED;
    case ARGP_KEY_INIT:
        state->err_stream = NULL; /* option_parse says where the help is */
        return 0;
    default:
        return ARGP_ERR_UNKNOWN; /* a name, among others */
    }
}

void option_names_free(struct option_names *names)
{
    for (int i = 0; i < names->n; i++) free(names->list[i]);
    free(names->list);
    *names = (struct option_names){0};
}

static int read_names(const struct command_line *line, char **list, int n, void *settings)
{
    if (!line->names)
        return n > 0 ? message_usage(line->command, "%s: is not expected; remove this name", list[0]) : -1;
    if (n < line->min_names || n > line->max_names)
        return message_usage(
            line->command, "needs %s, and got %d name%s%s", line->names, n, message_s(n),
            n > line->max_names && line->masks_from > 1 ? "; `haloconv mask convolve` makes one mask of several" : "");
    for (int i = 0; i < n; i++)
        if (!*list[i]) return message_usage(line->command, "name %d is empty; give %s", i + 1, line->names);
    for (int i = line->masks_from ? line->masks_from - 1 : n; i < n; i++) list[i] = (char *)mask_argument_path(list[i]);
    *(struct option_names *)((char *)settings + line->names_to) = (struct option_names){list, n};
    return -1;
}

int option_parse(const struct command_line *line, int argc, char **argv, void *settings)
{
    struct argp_option options[2 * MAX_KEYS] = {{0}}, *next = options; /* a row may have an old name; the end is 0 */
    struct parse parse = {.line = line, .settings = settings};
    int key = KEY_FIRST;
    for (int group = 0; line->groups[group].rows; group++) {
        if (line->groups[group].title)
            *next++ = (struct argp_option){.doc = line->groups[group].title, .group = group + 1};
        for (const struct option_row *row = line->groups[group].rows; row->name; row++) {
            assert(key < MAX_KEYS);
            *next = (struct argp_option){.name = row->name, .arg = row->value, .doc = row->text, .group = group + 1};
            next->key = row->letter ? row->letter : key++;
            parse.row_of_key[next++->key] = row;
            if (row->old_name)
                *next++ = (struct argp_option){.name = row->old_name, .flags = OPTION_ALIAS | OPTION_HIDDEN};
        }
    }
    *next++ = (struct argp_option){.name = quiet.name, .key = quiet.letter, .doc = quiet.text, .group = -1};
    parse.row_of_key[(int)quiet.letter] = &quiet;
    *next++ = (struct argp_option){.name = "help", .key = 'h', .doc = "Print this text", .group = -1};
    *next++ = (struct argp_option){
        .name = "_man", .key = KEY_MAN, .arg = "GROUP", .flags = OPTION_ARG_OPTIONAL | OPTION_HIDDEN};
    *next++ = (struct argp_option){.name = "_completion", .key = KEY_COMPLETION, .flags = OPTION_HIDDEN};
    *next++ = (struct argp_option){.name = "_defaults", .key = KEY_DEFAULTS, .flags = OPTION_HIDDEN};
    const struct argp argp = {.options = options, .parser = parse_key, .args_doc = line->usage, .doc = line->text};
    snprintf(parse.program, sizeof parse.program, "haloconv %s", line->command);
    argv[0] = "haloconv";
    int at;
    error_t error = argp_parse(&argp, argc, argv, ARGP_NO_EXIT | ARGP_NO_HELP, &at, &parse);
    if (error == ECANCELED) return parse.status;
    if (error == ENOMEM) return message_error("no memory to read the command line; free some memory");
    if (!error) return read_names(line, argv + at, argc - at, settings);
    message_note("see `haloconv %s --help`", line->command); /* getopt has printed the error; */
    return EXIT_USAGE;
}

bool option_output(const char *command, const char *output, bool json, const char *what)
{
    if (!output || !*output) {
        message_usage(command, "needs an output; give -o");
        return false;
    }
    if (strcmp(output, "-") != 0) return true;
    if (json)
        message_usage(command, "--json and -o - both want standard output; send the %s to a file", what);
    else if (isatty(STDOUT_FILENO))
        message_usage(command, "standard output is a terminal; send the %s to a file or a pipe", what);
    return !json && !isatty(STDOUT_FILENO);
}
