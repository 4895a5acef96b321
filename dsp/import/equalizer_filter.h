/* equalizer_filter - one filter of an equaliser's text, as Equalizer APO, AutoEq and REW write it:
 *
 *   ON PK Fc 105 Hz Gain 5.5 dB Q 0.70
 *
 * Types and defaults are those of Equalizer APO's configuration reference.
 */
#ifndef HALOCONV_EQUALIZER_FILTER_H
#define HALOCONV_EQUALIZER_FILTER_H

#include "dsp/base/error.h"
#include "network.h"

/* Reads the parameters of "Filter N:". *filter is NULL if the filter is switched off or has type None. false: `why` has
 * the reason and the remedy. true: `why` is unchanged, or names a word of the line that has no effect. */
bool equalizer_filter_read(struct network *network, const char *parameters, int line, const struct filter **filter,
                           struct reason *why);

/* Reads a number and the unit behind it ("": no unit). is_hz: 1.250 and 1,250 mean 1250. *end points behind the unit
 * or, without it, the number. */
enum equalizer_number {
    NUMBER_ABSENT,     /* *value is 0                                                         */
    NUMBER_WRONG,      /* other text follows the number                                       */
    NUMBER_BARE,       /* the unit is missing: the text ends, or the next value follows          */
    NUMBER_WITH_UNIT
};
enum equalizer_number equalizer_number(const char *text, const char *unit, bool is_hz, double *value, const char **end);

/* Reads the bands of "GraphicEQ:" as a filter with minimum phase. */
bool equalizer_graphic_read(struct network *network, const char *parameters, int line, const struct filter **filter,
                            struct reason *why);

#endif
