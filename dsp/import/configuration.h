/* configuration - parses the text format of jconvolver and mcfx_convolver: from text to the commands that it holds.
 * Opens no file and no folder. The man page (host/haloconv.1.in) has the grammar.
 *
 * All errors and warnings of a text are collected as diagnostics. A line with an error adds no impulse, so the rest of
 * the text can still be checked.
 */
#ifndef HALOCONV_CONFIGURATION_H
#define HALOCONV_CONFIGURATION_H

#include "diagnostics.h"
#include "dsp/masks/mask_file.h"
#include "dsp/masks/raw_samples.h"

enum { CONFIGURATION_TAPS = 1 << 24 }; /* most frames of a response: 349 s at 48 kHz; jconvolver stops at 2^20 */

enum impulse_kind { IMPULSE_READ, IMPULSE_DIRAC, IMPULSE_HILBERT, IMPULSE_COPY, IMPULSE_PACKED };

struct impulse {                     /* one /impulse command; all counts from 0                             */
    enum impulse_kind kind;
    int line;
    const char *command;             /* its name, for diagnostics                                           */
    int in, out;                     /* packed: `in` is the number of inputs, out is 0                      */
    int from_in, from_out;           /* copy                                                                */
    float gain;
    int delay;                       /* frames of the session                                               */
    int offset, length;              /* frames of the file; length 0 = all behind offset. Hilbert: its length */
    int channel;                     /* read: of the file                                                   */
    bool is_in_turn;                 /* read: behind the last channel of the file comes its first again     */
    int file;                        /* read, packed: index of files                                        */
};

struct bank_line {                   /* /bank/read                                                          */
    int line, file;                  /* file: index of files; -1: the line has an error                     */
};

struct source_line {                 /* /source/new                                                         */
    int line, in, bank;              /* from 0                                                              */
    float position[3];               /* metres: x ahead, y left, z up of the listener                       */
};

struct folder {                      /* a folder that a /cd names                                           */
    const char *path;                /* the path in the text                                                */
    int line;
    const char *found;               /* the path that exists; NULL: not searched for yet (configuration_sounds) */
};

struct sound_name {                  /* a file as named; the same name in the same folder is listed once    */
    struct folder *folder;           /* NULL: the configuration's own                                       */
    const char *name;
    int index;
    struct raw_samples raw;          /* how a file of bare samples is read; format NULL: a sound file or a text  */
};

struct configuration {
    struct diagnostics diagnostics;
    struct arena *arena;             /* holds all texts; is_short: the configuration is incomplete          */
    int defined_line;                /* line of /convolver/new; 0 = there is none: a text of mcfx_convolver */
    int n_in, n_out;                 /* 1 to MASK_MAX_CHANNELS                                              */
    int max_taps;
    int rate;                        /* Hz that the text of another program is for; 0: it names none        */
    int partition;                   /* frames that the text asks for; 0 = none, or no possible size        */
    bool is_mask;                    /* one response, from input 1 to output 1, that fits any number of inputs */
    const char *client, *server;     /* NULL = not given                                                    */
    hc_port in_port[MASK_MAX_CHANNELS], out_port[MASK_MAX_CHANNELS]; /* NULL where not given                */
    struct impulse *impulses;        /* [n_impulses], in the order of the text                              */
    size_t n_impulses, impulses_cap;
    struct bank_line *banks;         /* [n_banks]                                                           */
    size_t n_banks, banks_cap;
    struct source_line *sources;     /* [n_sources], in the order of the text                               */
    size_t n_sources, sources_cap;
    int source_line[MASK_MAX_CHANNELS]; /* line of the source of each input; 0: it is none                  */
    struct sound_name **files;       /* [n_files]                                                           */
    size_t n_files, files_cap;
    void *names;                     /* tsearch(3) of files                                                 */
    struct folder *folder;           /* folder of the last /cd; NULL: the configuration's own               */
};

#define IMPULSE_WARN(c, i, ...) diagnostic(&(c)->diagnostics, HC_OK, (i)->line, (i)->command, __VA_ARGS__)
#define IMPULSE_REFUSE(c, i, ...) diagnostic(&(c)->diagnostics, HC_EINVAL, (i)->line, (i)->command, __VA_ARGS__)

/* An empty configuration. path: for diagnostics. Free the configuration before the arena. */
void configuration_open(struct configuration *configuration, const char *path, struct arena *arena);
void configuration_free(struct configuration *configuration);

/* The index of the file with this name in the folder of the last /cd; a new one is added. */
int configuration_file(struct configuration *configuration, const char *name);

/* The same for a file of bare samples; it is another one if it is read otherwise. */
int configuration_raw_file(struct configuration *configuration, const char *name, const struct raw_samples *raw);

/* Parses text[bytes + 1], which is overwritten. Errors are in the diagnostics, a lack of memory in arena->is_short. */
void configuration_read(struct configuration *configuration, char *text, size_t bytes);

#endif
