/* option - the command line of a command as one table: glibc's argp reads the command line and prints --help by it, and
 * the man page's list of options and the completion for bash are written from it.
 *
 *   row     one option: its names, its help text, and the field of the command's settings that gets its value
 *   group   rows under one title; commands share a group (live_options.c, bench_play.c) or a row (OPTION_JSON, ...)
 */
#ifndef OPTION_H
#define OPTION_H

#include <stdbool.h>
#include <stddef.h>

struct option_row;

/* An option as the user typed it. */
struct option_use {
    const char *command;          /* "convolve"                                       */
    const struct option_row *row;
    const char *text;             /* the value; NULL: the option has none             */
    const char *where;            /* FILE:LINE; NULL: the command line                */
};

/* Writes the value to *to. false: a usage error was printed. */
typedef bool option_read(const struct option_use *use, void *to);

struct option_row {
    const char *name;             /* without the dashes; NULL ends a group            */
    char letter;                  /* 'q' if -q is the same option; 0: none            */
    const char *value;            /* the value's name in the help: "FILE"; NULL: none */
    const char *text;             /* for help and man page; ends with [the default]   */
    option_read *read;
    size_t to;                    /* offset in the settings of the field for read()   */
    double min, max;              /* limits of option_int and option_number           */
    const char *old_name;         /* an earlier name, accepted but not shown; NULL    */
};

struct option_names {
    char **list;                  /* [n], as a rule of argv; masks that ship have their paths */
    int n;
};

/* Frees a list whose texts are its own, not those of argv. */
void option_names_free(struct option_names *names);

struct command_line {
    const char *command;          /* "bench engine"                                   */
    const char *usage;            /* "INPUT MASK -o OUTPUT"                           */
    const char *text;             /* help above the options, then \v, then the help below them (see argp) */
    const char *more;             /* printed below `text`, with its line ends; NULL   */
    struct {
        const char *title;        /* "Rooms:"; NULL: none                             */
        const struct option_row *rows;
    } groups[4];                  /* rows of the group after the last: NULL           */
    const char *names;            /* names of the arguments: "INPUT and MASK"; NULL: none */
    int min_names, max_names;
    size_t names_to;              /* struct option_names in the settings              */
    int masks_from;               /* number, from 1, of the first argument that is a mask; 0: none      */
    /* Remembers an option that was applied, with its text (NULL: it has no value); NULL: nobody does. */
    void (*note)(void *settings, const struct option_row *row, const char *text);
};

/* Fills in the settings, and applies --help and --quiet, which every command has. Returns -1: continue; else the exit
 * status: help was printed, or a usage error. */
int option_parse(const struct command_line *line, int argc, char **argv, void *settings);

/* Applies an option to the settings of a command. false: a usage error was printed. */
bool option_apply(const struct command_line *line, const struct option_use *use, void *settings);

/* Returns the row of a name, or of an earlier name; NULL: the command has no such option. */
const struct option_row *option_find(const struct command_line *line, const char *name);

/* Prints a text for the man page. */
void option_print_roff(const char *text);

/* Prints a usage error that begins with option and value, "--block 12x: " or "FILE:LINE: block 12x: "; returns
 * false. */
bool option_refuse(const struct option_use *use, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The kinds of values. A number with other text behind it is refused. */
option_read option_text;      /* const char *                                                                        */
option_read option_flag;      /* bool: true                                                                          */
option_read option_set;       /* int: the row's min                                                                  */
option_read option_int;       /* int, from min to max                                                                */
option_read option_number;    /* double, from min to max                                                             */
option_read option_grid;      /* double: the same, or "off" for HC_GRID_NONE                                         */
option_read option_seed;      /* uint64_t                                                                            */
option_read option_db;        /* double: an amplitude, in decibels on the command line; "off" or "-inf" is 0         */
option_read option_db_float;  /* float: as option_db                                                                 */
option_read option_choice;    /* int or an enum: which of the words of `value`, "full|same|centre", from 0           */
option_read option_word;      /* const char *: one of the words of `value`                                           */
option_read option_backend;   /* const char *: auto, cpu, cuda or cuda:N                                             */
option_read option_backend_live; /* the same, and hybrid, hybrid:N or hybrid:cpu                                     */

/* The offset of a row's field in the settings of its command. */
#define OPTION_TO(type, field) .to = offsetof(type, field)

/* The arguments of a command: struct command_line says what the fields are. */
#define OPTION_NAMES(what, min, max, type, field, first_mask)                                                          \
    .names = what, .min_names = min, .max_names = max, .names_to = offsetof(type, field), .masks_from = first_mask

/* Rows that several commands have; to is OPTION_TO(...). */
#define OPTION_BACKEND(to)                                                                                             \
    {"backend", 0, "auto|cpu|cuda|cuda:N",                                                                             \
     "Processor to convolve on; auto: a GPU if it repays its start-up time [auto]", option_backend, to}
#define OPTION_METHOD(to)                                                                                              \
    {"method", 0, "auto|direct|fft", "Convolve in the time domain, or by partitions in the frequency domain [auto]",   \
     option_word, to}
#define OPTION_DITHER(to)                                                                                              \
    {"dither", 0, "off|tpdf",                                                                                          \
     "Add noise of one step to integer outputs of 16 bits or fewer, so that the rounding does not distort quiet "      \
     "sounds; tpdf: triangular, the same in every run [tpdf]", option_choice, to}
#define OPTION_LEVEL(to)                                                                                               \
    {"level", 0, "none|peak|rms",                                                                                      \
     "Scale each output to the peak or the RMS of its input, over all channels and the whole length; --gain is "       \
     "applied too [none]", option_choice, to}
#define OPTION_TAIL(to)                                                                                                \
    {"tail", 0, "full|same|centre",                                                                                    \
     "How many frames are written, of N input and L mask frames: full: all N + L - 1; same: the first N; centre: N, "  \
     "from frame (L - 1) / 2 on, for a filter whose centre is in its middle [full]", option_choice, to}
#define OPTION_JSON(to)                                                                                                \
    {"json", 0, NULL, "Print the report as one JSON object on standard output", option_flag, to}

/* Checks -o of a command that writes a sound; `what` is "sound" or "mask". false: a usage error was printed. */
bool option_output(const char *command, const char *output, bool json, const char *what);

#endif
