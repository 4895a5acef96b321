/* sweep_search - finds where the sweeps begin in a recording whose start is not known.
 *
 * The whole recording is divided by the sweep's spectrum, so that each section becomes a peak. The energy of blocks of
 * 10 ms forgets the shape of the peaks; at the delay, the blocks at the positions of all sections have the largest
 * sum. Square roots keep a loud output from outweighing the others.
 */
#include "sweep_search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct search {
    struct sweep_analysis whole; /* analysis for the longest recording  */
    double complex *bins;        /* [size / 2 + 1] of `whole`           */
    int block, n_blocks;
    double *energy; /* [n_blocks] of a recording           */
    double *score;  /* [n_delays], in blocks               */
    int first_delay, n_delays;
};

static void fill_energy(struct search *s, const struct sweep_recording *r, int input)
{
    const struct transform *t = &s->whole.transform;
    transform_response_float(t, r->channel[input], (size_t)r->n_frames, s->bins);
    for (size_t k = 0; k <= t->size / 2; k++) s->bins[k] *= s->whole.inverse[k];
    transform_inverse(t, s->bins);
    memset(s->energy, 0, (size_t)s->n_blocks * sizeof *s->energy);
    const double *h = (const double *)s->bins;
    for (int64_t i = 0; i < r->n_frames; i++) s->energy[i / s->block] += h[i] * h[i];
}

/* Returns the largest energy of three blocks: clocks drift apart by a block in a minute. */
static double energy_near(const struct search *s, double at)
{
    double largest = 0;
    int block = (int)floor(at);
    for (int i = block - 1; i <= block + 1; i++)
        if (i >= 0 && i < s->n_blocks) largest = fmax(largest, s->energy[i]);
    return largest;
}

static void add_scores(struct search *s, const struct sweep_recording *r)
{
    const struct sweep_analysis *a = &s->whole;
    for (int section = 0; section < a->sweep->averages; section++) {
        double start = (sweep_start_s(a->sweep, section) - r->begins_s) * a->rate / s->block;
        for (int d = 0; d < s->n_delays; d++) s->score[d] += sqrt(energy_near(s, start + d + s->first_delay));
    }
}

static bool search_open(struct search *s, const struct sweep *sweep, int rate, const struct sweep_recording *recordings)
{
    int64_t longest = 0;
    for (int o = 0; o < sweep->n_outputs; o++)
        if (recordings[o].n_frames > longest) longest = recordings[o].n_frames;
    if (!sweep_analysis_open(&s->whole, sweep, rate, longest)) return false;
    s->block = rate / 100 > 0 ? rate / 100 : 1;
    s->n_blocks = (int)(longest / s->block) + 1;
    s->first_delay = -(int)(sweep_start_s(sweep, 0) * rate) / s->block;
    s->n_delays = s->n_blocks - s->first_delay;
    s->bins = malloc((s->whole.transform.size / 2 + 1) * sizeof *s->bins);
    s->energy = malloc((size_t)s->n_blocks * sizeof *s->energy);
    s->score = calloc((size_t)s->n_delays, sizeof *s->score);
    return s->bins && s->energy && s->score;
}

static void search_close(struct search *s)
{
    sweep_analysis_close(&s->whole);
    free(s->bins);
    free(s->energy);
    free(s->score);
}

bool sweep_find_delay(struct sweep_analysis *a, const struct sweep_recording *recordings, int input)
{
    struct search s = {0};
    bool good = search_open(&s, a->sweep, a->rate, recordings);
    for (int o = 0; good && o < a->sweep->n_outputs; o++) {
        bool is_same = o > 0 && recordings[o].channel == recordings[o - 1].channel;
        if (!is_same) fill_energy(&s, &recordings[o], input);
        add_scores(&s, &recordings[o]);
    }
    int best = 0;
    for (int d = 0; good && d < s.n_delays; d++)
        if (s.score[d] > s.score[best]) best = d;
    a->delay = (int64_t)(best + s.first_delay) * s.block;
    search_close(&s);
    return good;
}
