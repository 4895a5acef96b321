/* path - the paths of moving sources: rows of a CSV file, or random rows drawn by a seed.
 *
 *   time (seconds) or frame, source (from 1), then  azimuth, elevation, distance (degrees, metres)
 *                                                or  x, y, z (metres)
 *                                                or  entry (of the bank, from 0)            and gain (dB)
 *
 * Rows are key frames. Between two rows of a source the position moves at a steady speed: on a great circle if the
 * columns are angles, else on a straight line. If an azimuth is below -180, or 360 or more, then azimuth and elevation
 * themselves move steadily: 0 to 360 is a whole turn. The distance, and the gain as a factor, move steadily too.
 * Entries hold. Before its first row and after its last row a source stays.
 */
#ifndef PATH_H
#define PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum path_kind { PATH_SPHERE, PATH_LINE, PATH_ENTRIES };

struct path_row {
    double frame;        /* frame of the stream                                              */
    double at[3];        /* PATH_SPHERE: degrees, degrees, metres; PATH_LINE: x, y, z        */
    double direction[3]; /* PATH_SPHERE: unit vector of the direction                        */
    double gain;         /* linear                                                           */
    size_t line;         /* line of the file; random path: order of the draw                 */
    int source, entry;   /* source: from 0                                                   */
};

struct path {
    enum path_kind kind;
    bool holds;          /* a source stays at a row until the next row                       */
    int n_sources;
    struct path_row *rows; /* sorted by source, then by frame                                */
    size_t n_rows;
    size_t *first;       /* [n_sources + 1]: the first row of each source                    */
};

struct path_point {      /* a source at a frame                                              */
    int entry;           /* PATH_ENTRIES                                                     */
    float position[3];   /* PATH_SPHERE, PATH_LINE: metres, x ahead, y left, z up            */
    double gain;
};

/* Reads a CSV file for n_sources sources. false: why has the reason, with the line; *path is empty. */
bool path_read(struct path *path, const char *file, int rate, int n_sources, char *why, size_t cap);

/* Are all entries of the path below n_entries? false: why has the reason, with the line. */
bool path_has_entries(const struct path *path, const char *file, int n_entries, char *why, size_t cap);

/* Is it a random path, "random" or "random:speed=20,seed=7"? */
bool path_is_random(const char *text);

/* Checks the options of a random path. false: why has the reason. */
bool path_random_check(const char *text, char *why, size_t cap);

/* Draws a random path of n_frames for n_sources sources; each source moves differently. A seed in the text replaces
 * `seed`. The same text, seed, rate and length give the same path on every machine. false: why has the reason. */
bool path_random(struct path *path, const char *text, uint64_t seed, int rate, int64_t n_frames, int n_sources,
                 char *why, size_t cap);

/* Finds the point of a source at a frame. *row: a row of the source at or before the frame, or path->first[source];
 * becomes the last such row. */
void path_at(const struct path *path, int source, int64_t frame, size_t *row, struct path_point *point);

void path_free(struct path *path);

#endif
