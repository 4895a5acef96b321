/* spectrogram - the level of a response over time and frequency, as a map of colours. */
#ifndef PLOT_SPECTROGRAM_H
#define PLOT_SPECTROGRAM_H

#include "panel.h"

/* Paints the map into the panel; x: seconds, y: Hz. false: no memory. */
bool spectrogram_draw(struct drawing *drawing, const struct diagram *panel, const struct plot_curve *curve);

/* Draws the scale of the colours, on the right above the panel. */
void spectrogram_draw_scale(struct drawing *drawing, const struct diagram *panel);

enum { SPECTROGRAM_MAX_FRAMES = 1 << 20 }; /* a longer response is cut */

/* ---- a waterfall ------------------------------------------------------------------------------ */

/* The spectra of the rest of a response after more and more time: the cumulative spectral decay.
 *
 *   0 ms  ___/\_______/\___      each slice hides the slices behind it; its base lies at its time on the y axis
 *          ___/\______/\____
 *   T ms    ____________/\____
 *
 * The sound before a slice's time is faded out over a tenth of the time that is shown. A cut without a fade would
 * spread every resonance over its neighbours.
 */

enum { WATERFALL_HEIGHT = 360, WATERFALL_MAX_FRAMES = 1 << 20 }; /* height of the panel; a longer response is cut */

/* Draws all of the panel but its title; x: Hz. It uses `octaves` and range_db of the settings: the levels from the
 * base to the top; equal: the upper 50 dB of the first slice. false: no memory. */
bool waterfall_draw(struct drawing *drawing, struct diagram *panel, const struct plot_curve *curve,
                    const struct plot_settings *settings);

#endif
