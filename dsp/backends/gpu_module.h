/* gpu_module - the GPU backend is a module, libhaloconv_cuda.so, that the library loads when a GPU is asked for. Only a
 * process that asks for a GPU maps the module and the CUDA runtime in it.
 *
 *   HALOCONV_CUDA, if set: this file and no other
 *   else the first of these folders that has the module and whose module has this library's version:
 *     the folder of the file that contains this code (a library, a plugin or a program), and the folder above
 *     haloconv/, ../lib/haloconv/ and ../../haloconv/ from that folder, and ../haloconv_cuda/ (two wheels)
 *     LIBDIR/haloconv/, with the LIBDIR of the build; `make install` puts the module in this folder
 *
 * A module is refused if it or its folder belongs to another user than root, the owner of this code and the user, or if
 * everybody may write to it. A process with raised privileges (AT_SECURE) ignores HALOCONV_CUDA, trusts only root and
 * the owner of this code, and refuses what a group may write to.
 */
#ifndef HALOCONV_GPU_MODULE_H
#define HALOCONV_GPU_MODULE_H

#include "dsp/device/backend.h"
#include "dsp/bench.h"
#include "dsp/device/scene_render_backend.h"
#include "dsp/device/scene_backend.h"
#include "dsp/device/tensor_backend.h"

#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The module exports this struct. The library reads `version` first, and the other fields only if `version` equals its
 * own MODULE_VERSION (from the Makefile): the version of haloconv and a checksum of MODULE_HEADERS. */
struct gpu_module {
    const char *version;
    const struct backend *backend;
    int (*copies_measure)(int64_t bytes_up, int64_t bytes_down, size_t block_bytes, int n_runs,
                          struct hc_copies *copies, struct reason *why); /* hc_measure_copies */
};

/* The module exports this function only. */
const struct gpu_module *haloconv_cuda_module(void);

/* Implements hc_measure_copies in the module. */
int copies_measure(int64_t bytes_up, int64_t bytes_down, size_t block_bytes, int n_runs, struct hc_copies *copies,
                   struct reason *why);

/* Loads the module once in a process, without starting CUDA. NULL: a line in `why` names the package to install; a
 * later call tries again. [setup], any thread */
const struct gpu_module *gpu_module_load(struct reason *why);

/* Returns the backend of the loaded module; NULL: no module is loaded. [rt] */
const struct backend *gpu_module_backend(void);

/* Is a GPU likely: is NVIDIA's driver installed, or has the user named a module? This starts no CUDA. [setup] */
bool gpu_is_likely(void);

/* May a process with raised privileges trust a file or a folder with this owner and mode? */
bool gpu_module_is_trusted(uid_t owner, mode_t mode, uid_t library_owner);

#ifdef __cplusplus
}
#endif
#endif
