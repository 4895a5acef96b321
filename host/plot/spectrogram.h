/* spectrogram - the level of a response over time and frequency, as a map of colours. */
#ifndef PLOT_SPECTROGRAM_H
#define PLOT_SPECTROGRAM_H

#include "panel.h"

/* Paints the map into the panel; x: seconds, y: Hz. false: no memory. */
bool spectrogram_draw(struct drawing *drawing, const struct diagram *panel, const struct plot_curve *curve);

/* Draws the scale of the colours, on the right above the panel. */
void spectrogram_draw_scale(struct drawing *drawing, const struct diagram *panel);

enum { SPECTROGRAM_MAX_FRAMES = 1 << 20 }; /* a longer response is cut */

#endif
