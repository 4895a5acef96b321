/* network - a linear network of sums, gains, delays and filters, as a configuration describes it, and its reduction to
 * one route for each pair of an input and an output.
 *
 *   input 1 --- filter --- gain --+
 *                                sum --- filter --- output 1
 *   input 2 ------------- delay --+
 *
 *   filter   taps at the session's rate, from a sound file, from the text, or computed
 *   response an input convolved with taps that exist already
 *   signal   the audio at a point of the network: a sum of terms, each an input through a gain, a delay and filters.
 *            NULL is silence
 *
 * Reading a text only builds signals: except for responses, network_make opens the files and computes the taps.
 */
#ifndef HALOCONV_NETWORK_H
#define HALOCONV_NETWORK_H

#include "configuration_sounds.h"

struct network {
    struct configuration *c;       /* counts, diagnostics, arena                                        */
    const struct signal **outputs; /* [MASK_MAX_CHANNELS]                                               */
    void *chains;                  /* a tree, for tsearch(3), of filters in series                      */
    int n_chains;
    int n_terms;                   /* terms of all signals; limited: mixers in series multiply them     */
    int n_routes;                  /* network_make counts them                                          */
    int64_t n_frames;              /* frames of computed taps; limited                                  */
    int64_t n_added;               /* frames of responses that are added to others; limited             */
    bool is_too_large;             /* a limit was passed; the diagnostics have the error                */
    bool notes_filters; /* add a note about computed filters                                            */
    struct {
        int n, longest;            /* number of filters; taps of the longest                            */
        double rest_db;            /* the largest energy that was cut off a filter                      */
        int line;                  /* line of the last computed filter                                  */
        const char *command;
    } computed;                    /* computed filters, except those that got a warning                 */
};

#define NETWORK_TRIM_DB (-150.0)   /* so much energy may be cut off computed filters in series          */
#define NETWORK_REST_DB (-99.0)    /* a computed filter that is cut above this gets a warning           */

/* Computes the taps of a filter for a rate in Hz. Returns their number, and *taps from malloc; 0: no memory. *rest_db:
 * the energy that was cut off, relative to the whole; -INFINITY: none. */
typedef int filter_make(const void *data, int rate, double **taps, double *rest_db);

/* Make filters, in the arena; any number of signals may use a filter. Diagnostics name line and command. NULL: no
 * memory, and the arena is short. */
const struct filter *filter_computed(struct network *network, filter_make *make, const void *data, int line,
                                     const char *command);
/* Copies taps[n], at the rate of the text (c->rate). */
const struct filter *filter_of_taps(struct network *network, const double *taps, int n, int line, const char *command);
/* Makes a filter of an excerpt with its gain. A file without a rate has the rate of the text. */
const struct filter *filter_of_file(struct network *network, const struct excerpt *excerpt);

/* Make signals, in the arena. `in` counts from 0. */
const struct signal *signal_input(struct network *network, int in);
const struct signal *signal_add(struct network *network, const struct signal *a, const struct signal *b);
const struct signal *signal_gain(struct network *network, const struct signal *signal, double gain);
const struct signal *signal_delay(struct network *network, const struct signal *signal, double seconds);
const struct signal *signal_filter(struct network *network, const struct signal *signal, const struct filter *filter);

/* Do two signals sound the same? */
bool signal_is_equal(const struct signal *a, const struct signal *b);

struct response {
    int in;
    const float *taps;             /* [n_taps] at the session's rate; the arena keeps them              */
    int n_taps, delay;             /* in frames of the session                                          */
    float gain;
};
/* Makes the sum of responses[n] of different inputs, sorted by input. Do not filter this signal or add it to others. */
const struct signal *signal_of_responses(struct network *network, const struct response *responses, int n);

/* Counts n_taps frames of a response that is added to others of its pair. Without a limit a few megabytes of text would
 * need days. false: too many; the error has been added. */
bool network_adds(struct network *network, int n_taps, int in, int out, int line, const char *command);

/* Adds up added[n], responses of one input and output, from the smallest delay to the last end, with a gain of 1. A
 * single response stays unchanged. `line` is for the error if a sample is infinite. false: the error has been added, or
 * the arena is short. */
bool response_sum(struct network *network, const struct response *added, int n, int out, int line,
                  struct response *sum);

/* Converts frames at the text's rate to seconds. */
double network_seconds(const struct network *network, double frames);

/* Opens a network; close it before the arena is freed. false: no memory. */
bool network_open(struct network *network, struct configuration *c);
void network_close(struct network *network);

/* Sets the signal of an output. */
void network_output(struct network *network, int out, const struct signal *signal);

/* Makes the taps of all outputs. Errors are added to the diagnostics. */
void network_make(struct network *network);

/* Makes the routes in the arena, after network_make without errors. Fills in n_frames, n_distinct and
 * distinct_frames. */
void network_routes(struct network *network, hc_responses *responses);

#endif
