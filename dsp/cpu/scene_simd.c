/* scene_simd - the products of steered sources, built once for each SIMD_LEVEL. */
#include "simd.h"
#include "simd_vec.h"

#include <stdbool.h>

struct stream { /* what the next product will read: it may lie anywhere, where no hardware looks ahead */
    const float *x, *h;
};

enum { MOST_VECS = 4 };

/* n_vec vectors of a chunk, for a pair of outputs or the last one. */
ALWAYS_INLINE void product_tile(float *now, float *next, const struct scene_product *product,
                                const struct scene_sum *sum, const float *h, const struct stream *ahead, size_t at,
                                int n_outs, int n_vec, bool twice)
{
    vec here[SCENE_PAIR * 2 * MOST_VECS], after[SCENE_PAIR * 2 * MOST_VECS], re_before[MOST_VECS], im_before[MOST_VECS];
    for (int j = 0; j < n_outs * 2 * n_vec; j++) here[j] = after[j] = (vec){0};
    for (int v = 0; v < n_vec; v++) re_before[v] = im_before[v] = (vec){0};
    int end = sum->end < product->n_partitions ? sum->end : product->n_partitions;
    int slot = (sum->slot + sum->first) % sum->n_slots;
    const float *ring = product->x + (size_t)sum->chunk * sum->x_step, *x_ahead = ahead->x, *h_ahead = ahead->h;
    h += (size_t)(sum->first * n_outs) * SCENE_CHUNK;
    for (int p = sum->first; p < end; p++) {
        const float *x = ring + slot * SCENE_CHUNK + at;
        vec re[MOST_VECS], im[MOST_VECS];
        for (int v = 0; v < n_vec; v++) {
            vec in = load(x + v * LANES);
            re[v] = EVEN(in);
            im[v] = ODD(in);
            __builtin_prefetch(x_ahead + slot * SCENE_CHUNK + at + v * LANES);
        }
        for (int o = 0; o < n_outs; o++) {
            for (int v = 0; v < n_vec; v++) {
                vec tap = load(h + o * SCENE_CHUNK + at + v * LANES);
                int j = o * 2 * n_vec + v;
                __builtin_prefetch(h_ahead + o * SCENE_CHUNK + at + v * LANES);
                here[j] += re[v] * tap;
                here[j + n_vec] += im[v] * tap;
                if (!twice) continue;
                after[j] += re_before[v] * tap;
                after[j + n_vec] += im_before[v] * tap;
            }
        }
        for (int v = 0; v < n_vec; v++) {
            re_before[v] = re[v];
            im_before[v] = im[v];
        }
        h += n_outs * SCENE_CHUNK;
        h_ahead += n_outs * SCENE_CHUNK;
        if (++slot == sum->n_slots) slot = 0;
    }
    vec weight = broadcast(product->weight);
    for (int o = 0; o < 2 * n_outs; o++) {
        for (int v = 0; v < n_vec; v++) {
            size_t i = (size_t)o * SCENE_CHUNK + at + (size_t)v * LANES;
            store(now + i, load(now + i) + weight * here[o * n_vec + v]);
            if (twice) store(next + i, load(next + i) + weight * after[o * n_vec + v]);
        }
    }
}

ALWAYS_INLINE void sum_products(float *now, float *next, const struct scene_sum *sum, bool twice)
{
    /* As many sums as there are registers for them: 32 or 16. */
    int n_vec = (LANES == 16 ? 4 : 2) / (twice ? 2 : 1);
    for (int i = 0; i < sum->n; i++) {
        const struct scene_product *product = &sum->products[i], *then = i + 1 < sum->n ? product + 1 : product;
        size_t row = (size_t)product->n_partitions * SCENE_CHUNK, then_row = (size_t)then->n_partitions * SCENE_CHUNK;
        const float *h = product->h + (size_t)sum->chunk * row * (size_t)product->n_out;
        struct stream ahead = {then->x + (size_t)sum->chunk * sum->x_step,
                               then->h + (size_t)sum->chunk * then_row * (size_t)then->n_out};
        for (int out = 0; out < product->n_out; out += SCENE_PAIR) {
            float *y = now + (size_t)out * 2 * SCENE_CHUNK, *z = twice ? next + (size_t)out * 2 * SCENE_CHUNK : NULL;
            for (size_t at = 0; at < SCENE_CHUNK; at += (size_t)n_vec * LANES) {
                if (out + 1 < product->n_out)
                    product_tile(y, z, product, sum, h, &ahead, at, SCENE_PAIR, n_vec, twice);
                else
                    product_tile(y, z, product, sum, h, &ahead, at, 1, n_vec, twice);
            }
            h += SCENE_PAIR * row;
            ahead.h += SCENE_PAIR * then_row;
        }
    }
}

static void sum_once(float *now, const struct scene_sum *sum)
{
    sum_products(now, NULL, sum, false);
}

static void sum_twice(float *now, float *next, const struct scene_sum *sum)
{
    sum_products(now, next, sum, true);
}

static void add(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += LANES) store(y + i, load(y + i) + load(x + i));
}

extern const struct simd_scene AT_LEVEL(simd_scene_);
const struct simd_scene AT_LEVEL(simd_scene_) = {sum_once, sum_twice, add};
