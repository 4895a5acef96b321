/* haloconv_masks - reads masks: sound files, texts of coefficients, configurations.
 *
 * Conventions and tags are those of haloconv.h.
 */
#ifndef HALOCONV_MASKS_H
#define HALOCONV_MASKS_H

#include "haloconv.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hc_port {      /* a channel of a configuration                                                    */
    const char *name;         /* as given, or in-1, in-2, ... and out-1, out-2, ...                              */
    const char *connect;      /* JACK port to connect it to at the start; NULL: none                             */
} hc_port;

typedef struct hc_remark {    /* an error in a configuration, or a warning about it                              */
    int line;                 /* from 1; 0: the whole file                                                       */
    int code;                 /* HC_OK: a warning, the configuration is played all the same; else the error      */
    const char *text;         /* "hall.conf:12: /impulse/read: input 9, ..."; "hall.conf:12: warning: ..."       */
} hc_remark;

typedef struct hc_responses { /* a mask as read from a file                                                      */
    int n_channels;           /* of the file; 0 for a configuration                                              */
    int n_frames;             /* after resampling; for a configuration the longest route, delay included         */
    int rate, file_rate;      /* Hz of the samples here and of the file; 0 for a text of coefficients. For a
                                 configuration: rate is the session's, or the one that its files agree on, or 0;
                                 file_rate is 0                                                                  */
    float **channel;          /* [n_channels][n_frames]; NULL for a configuration                                */
    int n_in, n_out;          /* of the routes; a configuration's own counts                                     */
    int n_routes;
    hc_route *routes;         /* [n_routes]. A configuration has one a pair; pairs with the same data share their
                                 taps, so that the engine shares their spectrum                                  */
    hc_port *in_port, *out_port; /* [n_in], [n_out] of a configuration; else NULL                                */
    const char *client, *server; /* names that a configuration asks for at JACK; NULL: none                      */
    int partition;            /* that a configuration asks for, 0: none; the engine chooses its own              */
    int n_distinct;           /* responses of a configuration that differ in taps, gain or delay                 */
    int64_t distinct_frames;  /* of all of these together, delays included                                       */
    int n_errors, n_warnings; /* of a configuration, all of them                                                 */
    int n_remarks;            /* the first of them by line, at most 10000                                        */
    hc_remark *remarks;
    void *memory;             /* the library's                                                                   */
} hc_responses;

enum {                        /* flags of hc_responses_load */
    HC_KEEP_RATE = 1,         /* do not resample                                                              */
    HC_NAMES_ONLY = 2         /* of a configuration, read client and server only, and open no sound file      */
};

/* Reads a mask: a sound file, coefficients as text (.txt, .csv: one frame a line, a column a channel; blanks, commas or
 * semicolons between; '#' starts a comment), or a configuration (.conf). rate: resample to it, with the gain of the
 * response kept; 0: keep the rate of the files.
 *
 * n_in: input channels to route for. A mask of M channels on C inputs: M = 1, the same on every channel; M = C, channel
 * by channel; C = 1, an output for each mask channel; C = 2 and M = 4, true stereo in the order L>L L>R R>L R>R; anything
 * else is HC_EINVAL. n_in = 0: make no routes.
 *
 * A configuration (the format of jconvolver, with mcfx's packed matrix; haloconv(1) has its grammar) has counts of its
 * own: n_in is 0, or must equal its input count. Offset and length of its files count frames of the file, before it is
 * resampled; delays and the maximum length count frames of the session. Files are sought in the folder of the last /cd,
 * else beside the configuration. A relative /cd starts there too, or in the working directory if only that has it.
 * All errors of a configuration are in remarks, each with file and line; why has the first. Its warnings are there on
 * success too.
 *
 * Fails with HC_EFILE, HC_EINVAL (NaN or Inf: the text has channel and frame; no frames), HC_ENOMEM, HC_EUNSUPPORTED.
 * The caller frees with hc_responses_free, after a failure too: the remarks are there then. [setup] */
int hc_responses_load(const char *path, int n_in, int rate, unsigned flags, hc_responses *responses, char *why,
                      size_t cap);

/* Makes the routes of a sound file or text that was loaded with n_in = 0, by the same rule; of a configuration it only
 * compares the count. path is for the error's text. Fails with HC_EINVAL, HC_ENOMEM. [setup] */
int hc_responses_route(hc_responses *responses, const char *path, int n_in, char *why, size_t cap);

/* Frees the contents of a mask that hc_responses_load has filled. NULL is allowed. [setup] */
void hc_responses_free(hc_responses *responses);

#ifdef __cplusplus
}
#endif
#endif
