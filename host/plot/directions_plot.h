/* directions_plot - draws the directions of a bank's entries, elevation over azimuth. */
#ifndef DIRECTIONS_PLOT_H
#define DIRECTIONS_PLOT_H

#include <stdbool.h>
#include <stddef.h>

/* aed[n]: azimuth (-180 to 180) and elevation in degrees, and distance; entries from n_of_file on were interpolated.
 * name: name of the bank, any bytes. The file gets its name only when it is complete. false: why has the reason. */
bool directions_plot_write(const char *path, const char *name, const double (*aed)[3], int n, int n_of_file, char *why,
                           size_t cap);

#endif
