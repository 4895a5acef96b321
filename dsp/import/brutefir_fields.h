/* brutefir_fields - the values of a statement, and the tables of fields that a structure of BruteFIR has. */
#ifndef HALOCONV_BRUTEFIR_FIELDS_H
#define HALOCONV_BRUTEFIR_FIELDS_H

#include "brutefir.h"

#define BRUTEFIR_REFUSE(b, s, ...) IMPORT_REFUSE((b)->import, (s)->line, (s)->name, __VA_ARGS__)
#define BRUTEFIR_NOTE(b, s, ...) IMPORT_NOTE((b)->import, (s)->line, (s)->name, __VA_ARGS__)
#define BRUTEFIR_WARN(b, s, ...) IMPORT_WARN((b)->import, (s)->line, (s)->name, __VA_ARGS__)

/* Returns the statement's only value; NULL: an error was reported. */
const struct value *brutefir_value(struct brutefir *b, const struct statement *s, enum value_kind kind);

/* Is `number` a whole number from min to max? false: an error was reported. */
bool brutefir_number_fits(struct brutefir *b, const struct statement *s, double number, int min, int max);

/* Sets *number to the statement's only value; after an error it stays. */
void brutefir_int(struct brutefir *b, const struct statement *s, int min, int max, int *number);

/* Checks values of one kind with commas between them, for at most n_channels channels. false: an error was reported. */
bool brutefir_list_fits(struct brutefir *b, const struct statement *s, enum value_kind kind, int n_channels);

/* Returns the i-th name of a structure: a string, or a number that must be `index`. NULL: an error was reported. */
const char *brutefir_name(struct brutefir *b, const struct statement *s, int i, int index);

void brutefir_warn_missing(struct brutefir *b, int line, const char *structure, const char *field, const char *usual);

struct field {
    const char *name;
    void (*read)(struct brutefir *b, const struct statement *s, void *structure); /* NULL: it controls the run */
};

/* Reads the statements of a structure. Returns a bit for each field of the table that the structure has. */
unsigned brutefir_fields(struct brutefir *b, const struct statement *s, const struct field *fields, int n,
                         void *structure);
#define BRUTEFIR_FIELDS(b, first, fields, structure)                                                                   \
    brutefir_fields(b, first, fields, (int)(sizeof(fields) / sizeof *(fields)), structure)

/* Read a structure, and add it to *b. */
void brutefir_read_coeff(struct brutefir *b, const struct statement *s);
void brutefir_read_device(struct brutefir *b, const struct statement *s);
void brutefir_read_filter(struct brutefir *b, const struct statement *s);

#endif
