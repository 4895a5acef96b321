/* async_copy - copies 16 bytes from device memory to shared memory: from sm_80 on in the background and without
 * registers. */
#ifndef HALOCONV_ASYNC_COPY_CUH
#define HALOCONV_ASYNC_COPY_CUH

#include <cuda_runtime.h>
#include <stdint.h>

/* Copies the first n of 16 bytes and fills the others with zeros. Both addresses are 16-byte aligned. */
__device__ static inline void copy16(float *to, const float *from, int n = 16)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((uint32_t)__cvta_generic_to_shared(to)),
                 "l"(from), "r"(n)
                 : "memory");
#else
    const float4 v = __ldcg((const float4 *)from); /* rows are a multiple of 16 bytes long: reading past n is safe */
    *(float4 *)to = make_float4(n > 0 ? v.x : 0.0f, n > 4 ? v.y : 0.0f, n > 8 ? v.z : 0.0f, n > 12 ? v.w : 0.0f);
#endif
}

/* Waits for the copies of this thread. After a barrier behind this call, the copies of all threads are complete. */
__device__ static inline void copies_wait()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

#endif
