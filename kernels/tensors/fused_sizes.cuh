/* fused_sizes - calls the kernel that is compiled for a size: 2^7, 2^9 to 2^14. */
#ifndef HALOCONV_FUSED_SIZES_CUH
#define HALOCONV_FUSED_SIZES_CUH

#include "fused_kernels.h"
#include "team_windows.cuh"

#include <type_traits>

/* Calls use(Size<log2_n>()) and returns its result, a number or an error; 0 if this size is absent. */
template <template <int> class Size, class Use> static auto with_size(int log2_n, Use use) -> decltype(use(Size<7>()))
{
    switch (log2_n) {
        case 7: return use(Size<7>());
        case 9: return use(Size<9>());
        case 10: return use(Size<10>());
        case 11: return use(Size<11>());
        case 12: return use(Size<12>());
        case 13: return use(Size<13>());
        case 14: return use(Size<14>());
        default: return {};
    }
}
template <template <int> class Size, class Use> static cudaError_t with_every_size(Use use)
{
    cudaError_t status = cudaSuccess;
    for (int log2_n = FUSED_MIN; log2_n <= FUSED_MAX && !status; log2_n++) status = with_size<Size>(log2_n, use);
    return status;
}

static inline kernel_kind kind_of(const fused_groups &groups, bool is_real)
{
    return groups.index || groups.offsets ? LISTED : is_real ? REAL_ROWS : WHOLE;
}
/* The kernel of real rows of 16 bits. Sizes that are bound by memory have none of their own. */
static constexpr kernel_kind real_kind_of_16_bits(int log_n) { return log_n > 9 ? REAL_ROWS : LISTED; }
/* Calls use(kind, has_16_bits), where kind.value and has_16_bits.value are constants: it chooses a kernel. A LISTED
 * kernel has all types, so it also computes whole windows of 16 bits. REAL_16_BITS: the kernel of real rows of 16 bits.
 */
template <kernel_kind KIND> using kind_constant = std::integral_constant<kernel_kind, KIND>;
template <kernel_kind REAL_16_BITS, class Use> static cudaError_t with_kind(kernel_kind kind, bool has_16_bits, Use use)
{
    using yes = std::true_type;
    using no = std::false_type;
    if (kind == REAL_ROWS)
        return has_16_bits ? use(kind_constant<REAL_16_BITS>(), yes()) : use(kind_constant<REAL_ROWS>(), no());
    return has_16_bits || kind == LISTED ? use(kind_constant<LISTED>(), yes()) : use(kind_constant<WHOLE>(), no());
}
/* Does a tensor have 16 bits? */
template <class... Rows> static bool any_has_16_bits(const Rows &...rows) { return ((rows.type != HC_FLOAT32) || ...); }

static inline unsigned ceil_div(int64_t a, int64_t b) { return (unsigned)((a + b - 1) / b); }

/* Permits kernels to use `bytes` of shared memory, if the device has that much. */
template <class... Kernels>
static cudaError_t shared_allow(const struct fused_device *device, size_t bytes, Kernels... kernels)
{
    cudaError_t status = cudaSuccess;
    if (bytes > (size_t)device->shared_bytes) return status;
    for (const void *kernel : {(const void *)kernels...})
        if (!status) status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    return status;
}

#endif
