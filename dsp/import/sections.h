/* sections - second-order sections of another program's text, in series: a filter of a network, computed at the
 * session's rate.
 */
#ifndef HALOCONV_SECTIONS_H
#define HALOCONV_SECTIONS_H

#include "dsp/signal/biquad.h"
#include "network.h"

enum section_form { SECTION_COOKBOOK, SECTION_GENERAL_NOTCH, SECTION_LINKWITZ_TRANSFORM, SECTION_GIVEN };

struct rated_biquad {
    int rate; /* Hz that the coefficients are for */
    struct biquad biquad;
};

struct section {
    enum section_form form;
    enum biquad_kind kind;      /* cookbook                                                                   */
    double hz, q;               /* general notch: of its poles; Linkwitz transform: of the loudspeaker        */
    double octaves;             /* cookbook: the bandwidth, in place of q; 0: q counts                        */
    double gain_db;             /* cookbook                                                                   */
    double other_hz, other_q;   /* general notch: hz of its zeros; Linkwitz transform: of the wanted response */
    bool is_unity_at_dc;        /* general notch                                                              */
    struct rated_biquad *given; /* [n_given], in the arena: those for the nearest rate count                  */
    int n_given;
};

/* The energy that may be cut off a response, relative to the whole. */
#define SECTIONS_REST_DB (-150.0)
enum { SECTIONS_TAPS = 1 << 20 }; /* max. taps of sections in series: 22 s at 48 kHz */

/* sections[n], in series; copied. A frequency of half the session's rate or more counts as 0.499 of the rate. NULL: the
 * arena is short. */
const struct filter *filter_of_sections(struct network *network, const struct section *sections, int n, int line,
                                        const char *command);

#endif
