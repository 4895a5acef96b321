/* spectrogram - the level of a response over time and frequency, as a map of colours. */
#ifndef PLOT_SPECTROGRAM_H
#define PLOT_SPECTROGRAM_H

#include "panel.h"

/* Paints the map and its scale into the panel; x: seconds, y: Hz. false: no memory. */
bool spectrogram_draw(struct drawing *drawing, const struct panel *panel, const struct plot_curve *curve);

enum {
    SPECTROGRAM_MOST_FRAMES = 1 << 20, /* a longer response is cut            */
    SPECTROGRAM_TITLE_WIDTH = 400      /* the scale of colours is right of it */
};

#endif
