/* configuration - all of a configuration except its network: counts, rates, ports, banks, sources, names of sound
 * files, and the errors in the text.
 *
 * All errors and warnings of a text are collected as diagnostics. A line with an error has no other effect, so that the
 * rest of the text can still be checked.
 */
#ifndef HALOCONV_CONFIGURATION_H
#define HALOCONV_CONFIGURATION_H

#include "diagnostics.h"
#include "dsp/masks/mask_file.h"

enum { CONFIGURATION_TAPS = 1 << 24 }; /* max. frames of a response: 349 s at 48 kHz; jconvolver stops at 2^20 */

struct excerpt {                     /* frames of one channel of a sound file, as a line names them                   */
    int line;
    const char *command;             /* the command or statement of the line, for diagnostics                         */
    struct sound *sound;             /* from configuration_file                                                       */
    int channel;                     /* channel of the file, from 0                                                   */
    bool is_in_turn;                 /* channel numbers wrap around at the file's channel count                       */
    int offset, length;              /* frames of the file; length 0: all from offset on                              */
    float gain;
};

struct bank_line {                   /* /bank/read                                                                    */
    int line;
    struct sound *file;              /* the bank's file; NULL: the line has an error                                  */
};

struct source_line {                 /* /source/new                                                                   */
    int line, in, bank;              /* `in` and `bank` count from 0                                                  */
    float position[3];               /* metres: x ahead, y left, z up of the listener                                 */
};

struct configuration {
    struct diagnostics diagnostics;
    struct arena *arena;             /* holds all texts; arena->is_short: no memory, the configuration is incomplete  */
    int defined_line;                /* the line that has the channel counts; 0: no line has                          */
    const char *defined_by;          /* statement of that line; NULL: it has no name                                  */
    int n_in, n_out;                 /* 1 to MASK_MAX_CHANNELS                                                        */
    int rate;                        /* Hz, from the text of another program; 0: the text names no rate               */
    int session_rate;                /* Hz of the taps; 0: each file keeps its rate                                   */
    bool keep_rate;                  /* files of any rate play as they are                                            */
    int partition;                   /* frames that the text states; 0: it states none, or not possible ones          */
    bool is_mask;                    /* one response, from input 1 to output 1, that fits any number of inputs        */
    const char *client, *server;     /* NULL: not given                                                               */
    const hc_virtual_device *device; /* NULL: none                                                                    */
    hc_port in_port[MASK_MAX_CHANNELS], out_port[MASK_MAX_CHANNELS]; /* absent names are NULL                         */
    struct bank_line *banks;         /* [n_banks]                                                                     */
    size_t n_banks, banks_cap;
    struct source_line *sources;     /* [n_sources], in the order of the text                                         */
    size_t n_sources, sources_cap;
    struct sound **sounds;           /* [n_sounds], in the order of the text: configuration_sounds.h                  */
    size_t n_sounds, sounds_cap;
    void *names;                     /* a tree of sounds for tsearch(3)                                               */
    struct folder *folder;           /* folder of the last /cd; NULL: the configuration's own                         */
    bool lacks_sounds;               /* a file cannot be read                                                         */
};

#define EXCERPT_WARN(c, e, ...) diagnostic(&(c)->diagnostics, HC_OK, (e)->line, (e)->command, __VA_ARGS__)
#define EXCERPT_REFUSE(c, e, ...) diagnostic(&(c)->diagnostics, HC_EINVAL, (e)->line, (e)->command, __VA_ARGS__)

#endif
