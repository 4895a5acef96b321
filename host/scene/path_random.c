/* path_random - draws a path from a seed: great circles between directions that are drawn uniformly, with pauses. */
#include "dsp/base/number.h"
#include "host/message.h"
#include "host/splitmix64.h"
#include "path.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum range_name { AZIMUTH, ELEVATION, DISTANCE, SPEED, PAUSE, N_RANGES };
static const struct {
    const char *name;
    double min, max;
    double low, high; /* the default */
} ranges[N_RANGES] = {{"azimuth", -180, 360, -180, 180},
                      {"elevation", -90, 90, 0, 0},
                      {"distance", 0, 1e6, 1, 1},
                      {"speed", 1e-3, 1e4, 10, 60},
                      {"pause", 0, 1e6, 0, 0}};

struct choice {
    double low[N_RANGES], high[N_RANGES];
    uint64_t seed;
};

bool path_is_random(const char *text)
{
    return strncmp(text, "random", 6) == 0 && (!text[6] || text[6] == ':');
}

static bool seed_read(const char *text, const char *end, uint64_t *seed)
{
    char *after;
    errno = 0;
    *seed = strtoull(text, &after, 10);
    return after == end && after > text && !errno && *text >= '0' && *text <= '9';
}

/* "20" or "10..60" */
static bool range_read(const char *text, const char *end, int range, struct choice *choice)
{
    char number[32];
    const char *dots = strstr(text, "..");
    const char *first_end = dots && dots < end ? dots : end;
    if (first_end - text >= (ptrdiff_t)sizeof number || first_end == text) return false;
    /* A reader of numbers reads the first dot of "10..60" as a decimal point. */
    snprintf(number, sizeof number, "%.*s", (int)(first_end - text), text);
    double *low = &choice->low[range], *high = &choice->high[range], max = ranges[range].max;
    if (!number_is(number, ranges[range].min, max, low)) return false;
    *high = *low;
    return first_end == end || number_read(dots + 2, *low, max, high) == end;
}

static bool choice_read(const char *text, struct choice *choice, char *why, size_t cap)
{
    for (int i = 0; i < N_RANGES; i++) choice->low[i] = ranges[i].low, choice->high[i] = ranges[i].high;
    text += strlen("random");
    while (*text) {
        const char *name = text + 1, *value = name + strcspn(name, "=,"), *end = value + strcspn(value, ",");
        int i = 0;
        size_t length = (size_t)(value - name);
        while (i < N_RANGES && (strlen(ranges[i].name) != length || strncmp(ranges[i].name, name, length) != 0)) i++;
        bool is_seed = length == 4 && strncmp(name, "seed", 4) == 0;
        if (*value != '=' || (i == N_RANGES && !is_seed))
            return message_write(why, cap,
                                 "\"%.*s\" is not an option of a random path; the options are azimuth, elevation, "
                                 "distance, speed, pause, seed",
                                 (int)(end - name < 60 ? end - name : 60), name);
        if (is_seed ? !seed_read(value + 1, end, &choice->seed) : !range_read(value + 1, end, i, choice)) {
            if (is_seed) return message_write(why, cap, "seed needs a whole number from 0 on");
            return message_write(why, cap, "%s needs a number from %g to %g, or two of them as in %g..%g",
                                 ranges[i].name, ranges[i].min, ranges[i].max, ranges[i].low, ranges[i].high);
        }
        text = end;
    }
    return true;
}

bool path_random_check(const char *text, char *why, size_t cap)
{
    struct choice choice = {.seed = 0};
    return choice_read(text, &choice, why, cap);
}

/* Returns a number from low to high. *state: state of splitmix64. */
static double draw_uniform(uint64_t *state, double low, double high)
{
    double unit = (double)(splitmix64(*state) >> 11) * 0x1p-53;
    *state += SPLITMIX64_STEP;
    return low + unit * (high - low);
}

static double draw_of(const struct choice *choice, int range, uint64_t *state)
{
    return draw_uniform(state, choice->low[range], choice->high[range]);
}

/* Returns the cosine of the angle between two rows. */
static double cosine_between(const struct path_row *a, const struct path_row *b)
{
    const double degree = path_degree;
    return sin(a->at[1] * degree) * sin(b->at[1] * degree) +
           cos(a->at[1] * degree) * cos(b->at[1] * degree) * cos((a->at[0] - b->at[0]) * degree);
}

static bool draw_source(struct path *path, size_t *capacity, const struct choice *choice, int source, int rate,
                        int64_t n_frames)
{
    const double degree = path_degree;
    uint64_t state = splitmix64(splitmix64(choice->seed) + (uint64_t)source);
    double frame = 0;
    struct path_row before = {0};
    for (size_t line = 1;; line++) {
        struct path_row row = {.source = source, .gain = 1};
        /* Uniform on the sphere: the sine of the elevation is uniform. */
        double low = sin(choice->low[ELEVATION] * degree), high = sin(choice->high[ELEVATION] * degree);
        row.at[0] = draw_of(choice, AZIMUTH, &state);
        row.at[1] = asin(draw_uniform(&state, low, high)) / degree;
        row.at[2] = draw_of(choice, DISTANCE, &state);
        double speed = draw_of(choice, SPEED, &state), pause = draw_of(choice, PAUSE, &state);
        if (row.at[0] >= 360) row.at[0] -= 360; /* 360 would count as a turn */
        if (line > 1) {
            double cosine = cosine_between(&before, &row);
            double angle = acos(cosine > 1 ? 1 : cosine < -1 ? -1 : cosine) / degree;
            /* A leg lasts a millisecond or more: ranges of no width would draw the same direction for ever. */
            double seconds = angle / speed < 1e-3 ? 1e-3 : angle / speed;
            frame += seconds * rate;
        }
        for (int end = 0; end < (pause > 0 ? 2 : 1); end++) { /* the start of a pause, and its end */
            struct path_row *added = path_row_add(path, capacity);
            if (!added) return false;
            *added = row;
            added->frame = frame;
            added->line = 2 * line + (size_t)end;
            if (end == 0 && pause > 0) frame += pause * rate;
        }
        if (frame >= (double)n_frames) return true;
        before = row;
    }
}

bool path_random(struct path *path, const char *text, uint64_t seed, int rate, int64_t n_frames, int n_sources,
                 char *why, size_t cap)
{
    struct choice choice = {.seed = seed};
    size_t capacity = 0;
    *path = (struct path){.kind = PATH_SPHERE, .n_sources = n_sources};
    bool good = choice_read(text, &choice, why, cap);
    if (!good) return false;
    for (int s = 0; good && s < n_sources; s++) good = draw_source(path, &capacity, &choice, s, rate, n_frames);
    if (good && path_finish(path)) return true;
    path_free(path);
    return message_write(why, cap, "no memory for a random path; free some memory");
}
