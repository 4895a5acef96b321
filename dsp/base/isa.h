/* isa - chooses the instruction set of the inner loops. The Makefile builds the loops once for each set. */
#ifndef HALOCONV_ISA_H
#define HALOCONV_ISA_H

enum isa { ISA_BASELINE, ISA_AVX2, ISA_AVX512 }; /* SSE2 or NEON; AVX2 with FMA; AVX-512 */

/* Returns the best set that this processor has. HALOCONV_SIMD=baseline|avx2|avx512 in the environment limits it, so
 * that each set can be tested on one machine; it must not change while an engine is open. */
enum isa isa_best(void);

/* Initialises an array of the builds of `name`, indexed by enum isa. */
#if defined __x86_64__
#define ISA_BUILDS(name) {&name##_base, &name##_v3, &name##_v4}
#else
#define ISA_BUILDS(name) {&name##_base}
#endif

#endif
