/* Any bytes as the path of moving sources, and as the options of a random path. A path that is read has places that are
 * finite at every frame, and a second reading gives the same. */
#include "fuzz.h"

#include "host/scene/path.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RATE = 48000, SOURCES = 3, ENTRIES = 50 };

static void place_look(const struct path *path, const struct path_point *place)
{
    must(place->gain >= 0 && place->gain <= 1.0001e15);
    if (path->kind == PATH_ENTRIES) {
        must(place->entry >= 0 && place->entry < ENTRIES);
        return;
    }
    for (int i = 0; i < 3; i++) must(isfinite(place->position[i]) && fabsf(place->position[i]) <= 1.0001e6f);
}

static void path_look(const struct path *path, int n_sources)
{
    static const int64_t frames[] = {0, 1, 47999, 48000, 1 << 20, INT64_C(1) << 53, INT64_MAX / 2};
    must(path->n_sources == n_sources && path->first[0] == 0 && path->first[n_sources] == path->n_rows);
    for (int s = 0; s < n_sources; s++) {
        must(path->first[s] < path->first[s + 1]);
        size_t row = path->first[s];
        for (size_t i = row; i < path->first[s + 1]; i++) {
            must(path->rows[i].source == s && path->rows[i].frame >= 0);
            must(i == row || path->rows[i].frame >= path->rows[i - 1].frame);
        }
        for (size_t i = 0; i < sizeof frames / sizeof *frames; i++) {
            struct path_point place = {0};
            path_at(path, s, frames[i], &row, &place);
            must(row < path->first[s + 1]);
            place_look(path, &place);
        }
    }
}

static void random_look(const uint8_t *data, size_t size)
{
    struct path path;
    char text[100] = "random:", why[1024] = "";
    if (size > sizeof text - 8) size = sizeof text - 8;
    memcpy(text + 7, data, size);
    must(path_is_random(text));
    bool is_right = path_random_check(text, why, sizeof why);
    must(is_right || *why);
    must(path_random(&path, text, 5, RATE, 2 * RATE, SOURCES, why, sizeof why) == is_right);
    if (!is_right) return;
    path_look(&path, SOURCES);
    path_free(&path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct path path, again;
    char why[1024] = "";
    random_look(data, size);
    file_put("path.csv", data, size);
    for (int n_sources = 1; n_sources <= SOURCES; n_sources += SOURCES - 1) {
        if (!path_read(&path, "path.csv", RATE, n_sources, why, sizeof why)) {
            must(*why && !path.rows && !path.first);
            continue;
        }
        if (!path_has_entries(&path, "path.csv", ENTRIES, why, sizeof why)) {
            must(*why && path.kind == PATH_ENTRIES);
            path_free(&path);
            continue;
        }
        path_look(&path, n_sources);
        must(path_read(&again, "path.csv", RATE, n_sources, why, sizeof why));
        must(again.n_rows == path.n_rows && memcmp(again.rows, path.rows, path.n_rows * sizeof *path.rows) == 0);
        path_free(&again);
        path_free(&path);
    }
    return 0;
}
