/* scene_simd - the products of steered sources, built once for each SIMD_LEVEL. */
#include "simd.h"
#include "dsp/fft/vec.h"

#include <stdbool.h>

struct stream { /* what the next product will read: it may lie anywhere, where no hardware looks ahead */
    const float *x, *h;
};

enum { MOST_VECS = 4 };

/* n_vec vectors of a chunk, for a pair of outputs or the last one. ring: the FDL's slots of this chunk. */
ALWAYS_INLINE void product_tile(float *now, float *next, const struct scene_sum *sum, int n_partitions,
                                const float *ring, float gain, const float *h, const struct stream *ahead, size_t at,
                                int n_outs, int n_vec, bool twice)
{
    vec here[SCENE_PAIR * 2 * MOST_VECS], after[SCENE_PAIR * 2 * MOST_VECS], re_before[MOST_VECS], im_before[MOST_VECS];
    for (int j = 0; j < n_outs * 2 * n_vec; j++) here[j] = after[j] = (vec){0};
    for (int v = 0; v < n_vec; v++) re_before[v] = im_before[v] = (vec){0};
    int end = sum->end < n_partitions ? sum->end : n_partitions;
    int slot = (sum->slot + sum->first) % sum->n_slots;
    const float *x_ahead = ahead->x, *h_ahead = ahead->h;
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
    vec weight = broadcast(gain);
    for (int o = 0; o < 2 * n_outs; o++) {
        for (int v = 0; v < n_vec; v++) {
            size_t i = (size_t)o * SCENE_CHUNK + at + (size_t)v * LANES;
            store(now + i, load(now + i) + weight * here[o * n_vec + v]);
            if (twice) store(next + i, load(next + i) + weight * after[o * n_vec + v]);
        }
    }
}

/* How many products from `product` on have its responses. */
static int count_same(const struct scene_product *product, const struct scene_product *end)
{
    int n = 1;
    while (product + n < end && product[n].h == product->h) n++;
    return n;
}

/* mixed = the weighted sum of the FDLs of n products, in the slots that the sum meets. */
static void mix(float *mixed, const struct scene_product *products, int n, const struct scene_sum *sum)
{
    int end = sum->end < products->n_partitions ? sum->end : products->n_partitions;
    for (int p = sum->first; p < end; p++) {
        size_t at = (size_t)((sum->slot + p) % sum->n_slots) * SCENE_CHUNK;
        size_t from = (size_t)sum->chunk * sum->x_step + at;
        for (size_t i = 0; i < SCENE_CHUNK; i += LANES) {
            vec total = {0};
            for (int k = 0; k < n; k++) total += broadcast(products[k].weight) * load(products[k].x + from + i);
            store(mixed + at + i, total);
        }
    }
}

ALWAYS_INLINE void sum_products(float *now, float *next, const struct scene_sum *sum, bool twice)
{
    /* As many sums as there are registers for them: 32 or 16. */
    int n_vec = (LANES == 16 ? 4 : 2) / (twice ? 2 : 1);
    const struct scene_product *product = sum->products, *end = product + sum->n, *then;
    for (; product < end; product = then) {
        int n_same = count_same(product, end), n_out = product->n_out;
        then = product + n_same;
        const struct scene_product *later = then < end ? then : product;
        size_t row = (size_t)product->n_partitions * SCENE_CHUNK, row_later = (size_t)later->n_partitions * SCENE_CHUNK;
        const float *h = product->h + (size_t)sum->chunk * row * (size_t)n_out;
        const float *ring = product->x + (size_t)sum->chunk * sum->x_step;
        float gain = product->weight;
        struct stream ahead = {later->x + (size_t)sum->chunk * sum->x_step,
                               later->h + (size_t)sum->chunk * row_later * (size_t)later->n_out};
        if (n_same > 1) {
            mix(sum->mixed, product, n_same, sum);
            ring = sum->mixed;
            gain = 1;
        }
        for (int out = 0; out < n_out; out += SCENE_PAIR) {
            float *y = now + (size_t)out * 2 * SCENE_CHUNK, *z = NULL;
            if (twice) z = next + (size_t)out * 2 * SCENE_CHUNK;
            for (size_t at = 0; at < SCENE_CHUNK; at += (size_t)n_vec * LANES) {
                if (out + 1 < n_out)
                    product_tile(y, z, sum, product->n_partitions, ring, gain, h, &ahead, at, SCENE_PAIR, n_vec, twice);
                else
                    product_tile(y, z, sum, product->n_partitions, ring, gain, h, &ahead, at, 1, n_vec, twice);
            }
            h += SCENE_PAIR * row;
            ahead.h += SCENE_PAIR * row_later;
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
