/* sections - makes a filter of a network from second-order sections in series, as in other programs' texts, at
 * the session's rate.
 */
#ifndef HALOCONV_SECTIONS_H
#define HALOCONV_SECTIONS_H

#include "dsp/signal/recursive_filter.h"
#include "network.h"

enum section_form { SECTION_COOKBOOK, SECTION_GENERAL_NOTCH, SECTION_LINKWITZ_TRANSFORM, SECTION_GIVEN };

struct rated_biquad {
    int rate; /* Hz for which the coefficients were computed */
    struct biquad biquad;
};

struct section {
    enum section_form form;
    enum biquad_kind kind;      /* kind of a cookbook section                                                 */
    double hz, q;               /* general notch: those of the poles; Linkwitz transform: of the loudspeaker  */
    double octaves;             /* cookbook: the bandwidth instead of q; 0: q counts                          */
    double gain_db;             /* gain of a cookbook section                                                 */
    double other_hz, other_q;   /* general notch: hz of the zeros; Linkwitz transform: the wanted hz and q    */
    bool is_unity_at_dc;        /* for a general notch                                                        */
    struct rated_biquad *given; /* [n_given], in the arena: the entry with the nearest rate is used           */
    int n_given;
};

/* The energy that may be cut off the end of a response, relative to the whole. */
#define SECTIONS_REST_DB (-150.0)
enum { SECTIONS_TAPS = 1 << 20 }; /* max. taps of sections in series: 22 s at 48 kHz */

/* Copies sections[n] and makes a filter of them, in series. A frequency of half the session's rate or more counts as
 * 0.499 of the rate. NULL: the arena is short. */
const struct filter *filter_of_sections(struct network *network, const struct section *sections, int n, int line,
                                        const char *command);

#endif
