/* fir_register - the parts of a kernel in which each thread keeps a sliding window of inputs in registers; memory only
 * feeds the window. fir_register.cu has the kernel for a stream (fir.h).
 *
 *   a block is one warp; it computes tiles of TILE = 896 outputs, one after another; lane t owns V t ... V t + V-1
 *
 *   x             ..[ CHUNK ][ CHUNK ][======= tile, TILE =======]..
 *   ring (shared)  2nd chunk  1st       each further chunk of taps loads CHUNK older frames, which overwrite the
 *                                       newest, no longer needed: the tile itself is loaded once
 *   window (registers, V + 4)  [ 4 new | V kept ]    slides 4 frames down every 4 taps:
 *                              one 16-byte load of x and one of taps feed 4 V = 112 FMA
 *
 *   There are two rings: while one tile is computed, cp.async copies the next tile to the other ring; likewise the
 *   taps. There is no barrier. With V = 28 the 8 threads of a quarter warp read 16 bytes at a stride of 112, so that
 *   they hit every bank once.
 *
 * Speed before and after each step, in percent of the FMA rate:
 *   77 -> 81   At 4096 taps: a ring, instead of loading the tile again for each chunk; V = 28 instead of 16.
 *   81 -> 88   An FMA reads three registers; the register file delivers two a cycle, one even and one odd. In a block
 *              of one warp the control flow is uniform, and the compiler moves the taps of a turn to uniform registers
 *              (R2UR in the SASS): two reads an FMA. __maxnreg__ gives fewer register conflicts.
 *
 * ceiling  the FP32 FMA rate (65 TFLOP/s on an H200): 95% of the inner loop's instructions are FMA
 */
#ifndef HALOCONV_FIR_REGISTER_CUH
#define HALOCONV_FIR_REGISTER_CUH

#include "async_copy.cuh"

enum {
    V = 28,                       /* outputs a thread; V / 4 odd keeps the 16-byte loads free of bank conflicts       */
    TILE = 32 * V,                /* outputs a warp                                                                   */
    THREADS = 32,                 /* a block is one warp: it waits only for its copies                                */
    SLIDE = V + 4,                /* taps after which the window is back at its start: one turn of the inner loop     */
    ROW = 128,                    /* frames that one 16-byte copy of each lane moves                                  */
    SHORT_TAPS = 256              /* a mask of up to so many taps is staged in one chunk                              */
};

/* Shared memory of a block. SHORT: one chunk holds all taps. */
template <bool SHORT> struct staged {
    enum {
        CHUNK = SHORT ? SHORT_TAPS : ROW, /* taps staged at once, and added up in one plain sum */
        RING = TILE + (SHORT ? 1 : 2) * CHUNK,
        AGAIN = SHORT ? 0 : SLIDE /* the ring's first floats, copied behind its end: a turn reads past the end */
    };
    float ring[2][RING + AGAIN], taps[2][CHUNK];
    static_assert(CHUNK % ROW == 0 && TILE % ROW == 0 && CHUNK % SLIDE == 0 && SLIDE <= ROW,
                  "each lane copies 16 bytes of a row");
    static_assert((int)CHUNK <= (int)TILE && (SHORT || RING % CHUNK == 0), "chunks must not wrap round");
};

__device__ static inline void load4(float (&to)[4], const float *from)
{
    const float4 v = *(const float4 *)from;
    to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
}

/* Adds SLIDE taps: sum[o] += sum_k h[k] x[o - k]. below[SLIDE] is x[0]. On entry quads 1 .. V/4 of the window
 * hold x[0 .. V-1]; on return they hold the V frames that are SLIDE frames older. */
__device__ static inline void register_slide(float (&sum)[V], float (&window)[SLIDE / 4][4], const float *below,
                                             const float *h)
{
    const int quads = SLIDE / 4;
    float tap[SLIDE];
#pragma unroll
    for (int k = 0; k < SLIDE; k += 4) load4(*(float (*)[4])(tap + k), h + k);
#pragma unroll
    for (int k = 0; k < SLIDE; k++) {
        const int low = (quads - k / 4) % quads; /* the quad that the new frames replace */
        if (k % 4 == 0) load4(window[low], below + SLIDE - k - 4);
#pragma unroll
        for (int o = 0; o < V; o++) {
            const int j = 4 + o - k % 4; /* index among the V + 4 frames in the window, lowest first */
            sum[o] = fmaf(tap[k], window[(low + j / 4) % quads][j % 4], sum[o]);
        }
    }
}

#endif
