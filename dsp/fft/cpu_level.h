/* cpu_level - the instruction set that the loops run with, which are built once for each. */
#ifndef HALOCONV_CPU_LEVEL_H
#define HALOCONV_CPU_LEVEL_H

enum cpu_level { CPU_BASELINE, CPU_AVX2, CPU_AVX512 }; /* SSE2 or NEON; AVX2 with FMA; AVX-512 */

/* The best that this processor has. HALOCONV_SIMD=baseline|avx2|avx512 in the environment limits it, so that every level
 * can be tested on one machine. */
enum cpu_level cpu_level(void);

#endif
