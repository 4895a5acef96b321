/* cuda - replaces the header of the driver's calls: those of green contexts, which kernels/ finds at run time. */
#ifndef CUDA_ON_CPU_DRIVER_H
#define CUDA_ON_CPU_DRIVER_H

#include "cuda_runtime.h"

typedef enum cudaError_enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION = 915
} CUresult;
typedef int CUdevice;
typedef cudaStream_t CUstream;
typedef struct CUgreenCtx_st *CUgreenCtx;
typedef struct CUdevResourceDesc_st *CUdevResourceDesc;
typedef enum { CU_DEV_RESOURCE_TYPE_INVALID = 0, CU_DEV_RESOURCE_TYPE_SM = 1 } CUdevResourceType;
struct CUdevResource {
    CUdevResourceType type;
    struct { unsigned smCount; } sm;
};
enum { CU_GREEN_CTX_DEFAULT_STREAM = 1, CU_STREAM_NON_BLOCKING = 1 };

CUresult cuDeviceGet(CUdevice *device, int number);
CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource *resource, CUdevResourceType type);
CUresult cuDevSmResourceSplitByCount(CUdevResource *groups, unsigned *n_groups, const CUdevResource *all,
                                     CUdevResource *rest, unsigned flags, unsigned min_count);
CUresult cuDevResourceGenerateDesc(CUdevResourceDesc *description, CUdevResource *resources, unsigned n);
CUresult cuGreenCtxCreate(CUgreenCtx *context, CUdevResourceDesc description, CUdevice device, unsigned flags);
CUresult cuGreenCtxStreamCreate(CUstream *stream, CUgreenCtx context, unsigned flags, int priority);

#endif
