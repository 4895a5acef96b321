/* brutefir - the structures of a BruteFIR configuration. They are made from its statements, and the network from them.
 * All memory is in the arena. */
#ifndef HALOCONV_BRUTEFIR_H
#define HALOCONV_BRUTEFIR_H

#include "brutefir_text.h"
#include "dsp/masks/raw_samples.h"

enum { BRUTEFIR_IN, BRUTEFIR_OUT, BRUTEFIR_MAX = 1024 /* filters, and channels in all */ };

struct brutefir_coeff {
    const char *name;
    int line;
    const char *file;                 /* NULL: a dirac pulse                                     */
    const struct raw_format *format;
    double gain;
    int blocks, skip;                 /* blocks 0: all                                           */
    const struct filter *made;        /* filter of the network without a delay; NULL: not made yet */
};

struct brutefir_channel {             /* a logical channel                                       */
    const char *name;
    int device_channel;               /* channel of the mask, counted from 0 over all devices    */
    int delay;                        /* frames                                                  */
    bool is_muted;
};

struct brutefir_end {                 /* where a filter gets its input, or sends its output      */
    const char *name;                 /* NULL: by index                                          */
    int index;                        /* channel or filter; brutefir_network finds it for a name */
    double gain;
    int line;
};

struct brutefir_ends {
    struct brutefir_end *list;        /* [n]                                                     */
    int n;
};

struct brutefir_filter {
    const char *name;
    int line;
    struct brutefir_ends channels[2], filters[2]; /* [0]: inputs, [1]: outputs                   */
    const char *coeff_name;           /* NULL: `coeff` has the index                             */
    int coeff, coeff_line;            /* coeff -1: none                                          */
    int delay;                        /* in blocks                                               */
    enum { FILTER_NEW, FILTER_OPEN, FILTER_DONE } state;
    const struct signal *signal;      /* the filter's output                                     */
};

struct brutefir {
    struct import *import;
    int block_frames, n_blocks;       /* filter_length                                           */
    bool has_sdf_length;              /* sdf_length is above 0                                   */
    struct brutefir_coeff *coeffs;    /* [n_coeffs]                                              */
    struct brutefir_channel *channels[2]; /* [n_channels]                                        */
    struct brutefir_filter *filters;  /* [n_filters]                                             */
    int n_coeffs, n_filters, n_channels[2], n_device_channels[2];
};

/* Connects the filters, and sets the outputs of the network. */
void brutefir_network(struct brutefir *b);

/* ---- brutefir_structures.c ---- */

#define BRUTEFIR_REFUSE(b, s, ...) IMPORT_REFUSE((b)->import, (s)->line, (s)->name, __VA_ARGS__)
#define BRUTEFIR_NOTE(b, s, ...) IMPORT_NOTE((b)->import, (s)->line, (s)->name, __VA_ARGS__)
#define BRUTEFIR_WARN(b, s, ...) IMPORT_WARN((b)->import, (s)->line, (s)->name, __VA_ARGS__)

/* Returns the statement's only value; NULL: an error was reported. */
const struct value *brutefir_value(struct brutefir *b, const struct statement *s, enum value_kind kind);

/* Is `number` a whole number from min to max? false: an error was reported. */
bool brutefir_number_fits(struct brutefir *b, const struct statement *s, double number, int min, int max);

/* Sets *number to the statement's only value; after an error it stays. */
void brutefir_int(struct brutefir *b, const struct statement *s, int min, int max, int *number);

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
