/* configuration - the text format of jconvolver and mcfx_convolver: from text to what it asks for. A pure function: no
 * sound file is opened and no folder looked at. The grammar is in host/haloconv.1.
 *
 * All that is wrong is gathered as remarks; what is wrong is left out of the impulses, so that the rest can be checked.
 */
#ifndef HALOCONV_CONFIGURATION_H
#define HALOCONV_CONFIGURATION_H

#include "mask_file.h"
#include "remarks.h"


enum {
    CONFIGURATION_TAPS = 1 << 24,    /* most frames of a response: 349 s at 48 kHz; jconvolver stops at 2^20 */
    CONFIGURATION_LINE = 64 << 10,   /* longest line, in bytes                                              */
};

enum impulse_kind { IMPULSE_READ, IMPULSE_DIRAC, IMPULSE_HILBERT, IMPULSE_COPY, IMPULSE_PACKED };

struct impulse {                     /* one /impulse command; all counts from 0                             */
    enum impulse_kind kind;
    int line;
    int in, out;                     /* packed: in is how many inputs the file serves, out is 0             */
    int from_in, from_out;           /* copy                                                                */
    float gain;
    int delay;                       /* frames of the session                                               */
    int offset, length;              /* frames of the file; length 0 = the rest. Hilbert: its length        */
    int channel;                     /* read: of the file                                                   */
    int file;                        /* read, packed: index of files                                        */
};

struct folder {                      /* a /cd                                                               */
    const char *path;                /* as given                                                            */
    int line;
    const char *found;               /* for whoever looks for it                                            */
};

struct sound_name {                  /* a file as named; the same name in the same folder is listed once    */
    struct folder *folder;           /* NULL: the configuration's own                                       */
    const char *name;
    int index;
};

struct configuration {
    struct remarks remarks;
    struct pieces *pieces;           /* holds all texts                                                     */
    int defined_line;                /* of /convolver/new; 0 = there is none: mcfx's, with counts as used   */
    int n_in, n_out;                 /* 1 to MASK_MAX_CHANNELS                                              */
    int max_taps;
    int partition;                   /* a wish; 0 = none that makes sense                                   */
    const char *client, *server;     /* NULL = not said                                                     */
    hc_port in_port[MASK_MAX_CHANNELS], out_port[MASK_MAX_CHANNELS]; /* NULL where not said                 */
    struct impulse *impulses;        /* [n_impulses], in their order                                        */
    size_t n_impulses, impulses_cap;
    struct sound_name **files;       /* [n_files]                                                           */
    int n_files, files_cap;
    void *names;                     /* tsearch(3) of files                                                 */
    struct folder *folder;           /* of the last /cd                                                     */
};

/* path: for remarks. text[bytes + 1] is taken apart in place. Pieces outlive the configuration. HC_OK even with errors
 * in remarks; HC_ENOMEM. Free it after both. */
int configuration_read(struct configuration *configuration, const char *path, struct pieces *pieces, char *text,
                       size_t bytes);
void configuration_free(struct configuration *configuration);

#endif
