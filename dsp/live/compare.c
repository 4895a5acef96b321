#include "compare.h"

#include <math.h>
#include <string.h>

static const double MAX_CUT_DB = 40;

bool meter_open(struct meter *meter, int n_channels, int rate)
{
    *meter = (struct meter){.gain = {.now = 1, .target = 1}};
    return loudness_open(&meter->loudness, n_channels, rate);
}

void meter_close(struct meter *meter)
{
    loudness_close(&meter->loudness);
}

/* Returns the number of mask A (which = 0) or B (1); 0: the mask is not ready. */
static int compared_number(uint64_t masks, int which)
{
    return (int)(masks >> (which * NUMBER_BITS)) & NUMBER_MASK;
}

/* Returns the count of comparisons. A loudness with another count belongs to an earlier comparison. */
static uint32_t compare_count_of(uint64_t masks)
{
    return (uint32_t)(masks >> (2 * NUMBER_BITS));
}

void compare_renew(struct compare *c, int a, int b)
{
    uint64_t was = atomic_load(&c->masks), count = was >> (2 * NUMBER_BITS);
    if (compared_number(was, 0) == a && compared_number(was, 1) == b) return;
    atomic_store(&c->masks, (count + 1) << (2 * NUMBER_BITS) | (uint64_t)b << NUMBER_BITS | (uint64_t)a);
}

/* Returns 0 for A, 1 for B, -1 for a mask that is not compared. */
static int compared_as(uint64_t masks, int number)
{
    int a = compared_number(masks, 0), b = compared_number(masks, 1);
    return number == 0 || a == 0 || b == 0 ? -1 : number == a ? 0 : number == b ? 1 : -1;
}

void compare_measure(struct compare *c, int number, struct meter *meter, float *const *out, int n)
{
    uint64_t masks = atomic_load_explicit(&c->masks, memory_order_acquire);
    int which = compared_as(masks, number);
    if (which < 0) return;
    if (meter->comparison != masks) loudness_reset(&meter->loudness);
    meter->comparison = masks;
    if (!loudness_add(&meter->loudness, out, n)) return;
    float lufs = (float)loudness_get(&meter->loudness);
    uint32_t bits;
    memcpy(&bits, &lufs, sizeof bits);
    atomic_store_explicit(&c->loudness[which], (uint64_t)compare_count_of(masks) << 32 | bits, memory_order_relaxed);
}

static float loudness_of(const struct compare *c, uint64_t masks, int which)
{
    uint64_t value = atomic_load_explicit(&c->loudness[which], memory_order_relaxed);
    uint32_t bits = (uint32_t)value;
    float lufs;
    if (compared_number(masks, which) == 0 || value >> 32 != compare_count_of(masks)) return -INFINITY;
    memcpy(&lufs, &bits, sizeof lufs);
    return lufs;
}

static float compare_gain_of(const struct compare *c, uint64_t masks, int which)
{
    float own = loudness_of(c, masks, which), other = loudness_of(c, masks, 1 - which);
    if (!isfinite(own) || !isfinite(other) || own <= other) return 1;
    return (float)pow(10, -fmin(MAX_CUT_DB, (double)(own - other)) / 20);
}

/* Returns the gain that makes a mask as loud as the quieter of the two, or 1 if the mask is not compared. */
static float gain_for(const struct compare *c, int number)
{
    uint64_t masks = atomic_load_explicit(&c->masks, memory_order_acquire);
    int which = compared_as(masks, number);
    return which < 0 ? 1 : compare_gain_of(c, masks, which);
}

void compare_jump(const struct compare *c, int number, struct meter *meter)
{
    float gain = gain_for(c, number);
    meter->gain = (struct ramp){.now = gain, .target = gain};
}

void compare_equalise(struct compare *c, int number, struct meter *meter, float *const *out, int n_out, int n, int rate)
{
    compare_measure(c, number, meter, out, n);
    ramp_to(&meter->gain, gain_for(c, number), rate * RAMP_MS / 1000 + 1);
    if (meter->gain.left == 0 && meter->gain.now == 1) return;
    for (int at = 0, len; at < n; at += len) {
        float gains[MIXER_CHUNK];
        len = n - at < MIXER_CHUNK ? n - at : MIXER_CHUNK;
        for (int i = 0; i < len; i++) gains[i] = ramp_step(&meter->gain);
        for (int o = 0; o < n_out; o++)
            for (int i = 0; i < len; i++) out[o][at + i] *= gains[i];
    }
}

void compare_get_stats(const struct compare *c, int number, hc_live_stats *stats)
{
    uint64_t masks = atomic_load_explicit(&c->masks, memory_order_acquire);
    stats->compared = compared_as(masks, number) + 1;
    for (int i = 0; i < 2; i++) {
        stats->loudness[i] = loudness_of(c, masks, i);
        stats->compared_gain[i] = compare_gain_of(c, masks, i);
    }
}
