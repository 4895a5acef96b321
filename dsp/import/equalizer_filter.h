/* equalizer_filter - one filter of an equaliser's text, as Equalizer APO, AutoEq and REW write it:
 *
 *   ON PK Fc 105 Hz Gain 5.5 dB Q 0.70
 *
 * Types and defaults are those of Equalizer APO's configuration reference.
 */
#ifndef HALOCONV_EQUALIZER_FILTER_H
#define HALOCONV_EQUALIZER_FILTER_H

#include "network.h"

/* The parameters of "Filter N:". *filter: NULL if it is switched off, or of type None. false: why has the reason and
 * the remedy. The text may be overwritten. */
bool equalizer_filter_read(struct network *network, char *parameters, int line, const struct filter **filter, char *why,
                           size_t cap);

/* Replaces decimal commas. */
void equalizer_decimal_points(char *text);

/* The bands of "GraphicEQ:", a filter with minimum phase. */
bool equalizer_graphic_read(struct network *network, const char *parameters, int line, const struct filter **filter,
                            char *why, size_t cap);

#endif
