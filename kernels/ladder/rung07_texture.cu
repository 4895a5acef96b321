/* rung 7, texture - reads the input through the texture unit, which returns 0 outside the row: no code for ghost cells.
 *
 *   x (texture)   0 0 0 [ x0 x1 x2 ....... x(i-K+1) ... x(i) ....] 0 0 0     thread i: y[i] = sum_k h[k] fetch(i-k)
 *
 * cost     1 fetch an FMA
 * limits   masks of 16384 taps together; n_frames up to the device's longest linear texture (2^28 on an H200); rows
 *          512-byte aligned, because a texture that begins inside the row before does not return 0 for frame -1
 * ceiling  the texture units: 4 quads, 16 fetches a cycle and multiprocessor against 128 FMA: 1/8 of the FMA rate; half
 *          of that is reached. Taps are read four at a time; one at a time was 8 times slower at 511 taps (README.md,
 *          constant)
 */
#include "mask_constant.cuh"

#include <new>

enum { B = 128, ALIGN = 512, UNIT = 4 };

static __global__ void texture_fetch(cudaTextureObject_t x, int at, float *__restrict__ y, int n_taps, long n_frames)
{
    const long i = (long)blockIdx.x * B + threadIdx.x;
    if (i >= n_frames) return;
    float sum = 0.0f;
    for (int k = 0; k < n_taps; k += UNIT) { /* the mask is padded with zeros to a multiple of UNIT */
        const float4 h = *(const float4 *)(mask + at + k);
        sum += h.x * tex1Dfetch<float>(x, (int)i - k);
        sum += h.y * tex1Dfetch<float>(x, (int)i - k - 1);
        sum += h.z * tex1Dfetch<float>(x, (int)i - k - 2);
        sum += h.w * tex1Dfetch<float>(x, (int)i - k - 3);
    }
    y[i] = sum;
}

static bool accepts(const struct task *t)
{
    int device = 0, longest = 0;
    if (cudaGetDevice(&device) != cudaSuccess) return false;
    if (cudaDeviceGetAttribute(&longest, cudaDevAttrMaxTexture1DLinearWidth, device) != cudaSuccess) return false;
    const bool aligned = (size_t)t->x % ALIGN == 0 && (t->n_in == 1 || t->x_pitch * sizeof(float) % ALIGN == 0);
    return mask_fits(t, UNIT) && aligned && t->n_frames <= longest;
}

struct row_textures { /* one for each input row */
    int n;
    cudaTextureObject_t *texture;
};

static void discard(void *prepared)
{
    struct row_textures *rows = (struct row_textures *)prepared;
    if (!rows) return;
    for (int i = 0; i < rows->n; i++) cudaDestroyTextureObject(rows->texture[i]);
    free(rows->texture);
    delete rows;
}

static cudaError_t prepare(const struct task *t, void **prepared)
{
    struct row_textures *rows = new (std::nothrow) struct row_textures();
    if (!rows || !(rows->texture = (cudaTextureObject_t *)calloc(t->n_in, sizeof *rows->texture))) {
        delete rows;
        return cudaErrorMemoryAllocation;
    }
    cudaError_t status = mask_write(t, UNIT);
    for (; status == cudaSuccess && rows->n < t->n_in; rows->n += status == cudaSuccess) {
        cudaResourceDesc from = {};
        from.resType = cudaResourceTypeLinear;
        from.res.linear.devPtr = (void *)(t->x + rows->n * t->x_pitch);
        from.res.linear.desc = cudaCreateChannelDesc<float>();
        from.res.linear.sizeInBytes = t->n_frames * sizeof(float);
        cudaTextureDesc how = {};
        how.readMode = cudaReadModeElementType;
        status = cudaCreateTextureObject(&rows->texture[rows->n], &from, &how, NULL);
    }
    if (status != cudaSuccess) discard(rows);
    else *prepared = rows;
    return status;
}

static cudaError_t launch(const struct task *t, void *prepared, cudaStream_t stream)
{
    int out = 0;
    return each_channel(t, [&](struct row r) {
        const cudaTextureObject_t x = ((struct row_textures *)prepared)->texture[t->sharing == BANK ? 0 : out++];
        texture_fetch<<<tiles_of(t->n_frames, B), B, 0, stream>>>(x, r.mask * mask_pitch(t, UNIT), r.y, t->n_taps,
                                                                  t->n_frames);
    });
}

extern "C" const struct rung rung_texture = {
    7, "texture", "fetches through the texture unit", "", false,
    accepts, prepare, launch, discard};
