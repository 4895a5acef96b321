#include "random_room.h"

#include "host/splitmix64.h"

#include <math.h>

/* xoshiro256** 1.0 by Blackman and Vigna (2018), public domain, prng.di.unimi.it; seeded through splitmix64 as they
 * recommend. */
struct generator {
    uint64_t s[4];
};

static uint64_t rotate_left(uint64_t x, int k)
{
    return (x << k) | (x >> (64 - k));
}

static uint64_t generator_next(struct generator *g)
{
    uint64_t result = rotate_left(g->s[1] * 5, 7) * 9, t = g->s[1] << 17;
    g->s[2] ^= g->s[0];
    g->s[3] ^= g->s[1];
    g->s[1] ^= g->s[2];
    g->s[0] ^= g->s[3];
    g->s[2] ^= t;
    g->s[3] = rotate_left(g->s[3], 45);
    return result;
}

/* Returns a number in (0, 1]: its logarithm is finite. */
static double uniform(struct generator *g)
{
    return (double)((generator_next(g) >> 11) + 1) * 0x1p-53;
}

/* Box and Muller (1958); one of the two numbers is enough. */
static double gaussian(struct generator *g)
{
    double radius = sqrt(-2 * log(uniform(g)));
    return radius * cos(2 * 3.14159265358979323846 * uniform(g));
}

void random_room_fill(uint64_t seed, int ch, int rate, double rt60_s, int predelay, int n_frames, double *h)
{
    uint64_t first = seed + 0x632be59bd9b4e019u * (uint64_t)ch; /* each channel has its own noise */
    struct generator g;
    for (int i = 0; i < 4; i++) g.s[i] = splitmix64(first + (uint64_t)i * SPLITMIX64_STEP);
    double energy = 0, decay = -3 * log(10) / (rt60_s * rate); /* 60 dB are a factor of 10^3 */
    for (int i = 0; i < n_frames; i++) {
        h[i] = i < predelay ? 0 : gaussian(&g) * exp(decay * (i - predelay));
        energy += h[i] * h[i];
    }
    for (int i = 0; i < n_frames && energy > 0; i++) h[i] /= sqrt(energy);
}
