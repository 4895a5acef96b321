/* measurement_layout - assigns the responses in files to loudspeakers and positions of the microphone. */
#ifndef MEASUREMENT_LAYOUT_H
#define MEASUREMENT_LAYOUT_H

#include "correction.h"
#include "dsp/haloconv_masks.h"

enum layout_choice {
    LAYOUT_BY_NAME,           /* files of one channel each are loudspeakers if their names say which: L.wav, R.wav   */
    LAYOUT_CHANNELS,          /* files of one channel each are loudspeakers                                          */
    LAYOUT_POSITIONS,         /* each file is a position, with a channel for each loudspeaker                        */
};

struct measurement_layout {
    int n_positions, n_channels;
    struct correction_response *responses; /* [n_positions][n_channels]                                              */
};

/* Arranges files[n], whose paths are names[n], and prints a line if there are several. Files named after one
 * loudspeaker are its positions, in their order. Both arrays must outlive the layout. false: why has the reason, and
 * nothing has to be freed. */
bool measurement_layout_make(struct measurement_layout *layout, enum layout_choice choice, const hc_responses *files,
                             char *const *names, int n, char *why, size_t cap);
void measurement_layout_free(struct measurement_layout *layout);

#endif
