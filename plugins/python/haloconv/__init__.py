"""haloconv - convolves NumPy arrays of audio with FIR filters and impulse responses, on the CPU or a CUDA GPU.

    import haloconv
    y = haloconv.convolve(x, h)                         # x [frames] or [frames, channels], h likewise
    with haloconv.Stream(n_in=2, n_out=2, max_taps=48000, block=256) as stream:
        stream.swap(h)                                  # crossfades; keeps the input history
        y = stream.process(x)                           # any number of frames, no added latency

    bank = haloconv.Bank("kemar.sofa", rate=48000)      # responses from many directions
    y = haloconv.convolve_moving(x, bank, lambda t, source: haloconv.position(90 * t))  # 90 degrees a second
    with haloconv.Stream(sources=2, bank=bank) as stream:
        stream.steer(0, azimuth=30)                     # any thread, at any time; stream.process(x) plays on

Sound is float32 with a row for each frame and a column for each channel, as in the module soundfile; other real types
are converted. All backends give the same result, within -120 dB of the output's peak.

Directions: azimuth in degrees from straight ahead, counter-clockwise (90: left), elevation in degrees (90: above),
distance in metres. Positions: x ahead, y left, z up of the listener, in metres.

Threads may share a Stream. mask(), add_bank() and steer() may run while process() runs; process() calls queue;
close() waits for all of them. Threads may share a Bank. Calls release the interpreter's lock.

Processors: n_threads=0, the default, is this process's share of them: torch.get_num_threads() in a worker of a torch
DataLoader, which is 1 unless worker_init_fn sets another; else OMP_NUM_THREADS, if it is set; else all that the process
may run on. In worker processes that neither torch nor OMP_NUM_THREADS limits, give n_threads=1.

The module calls libhaloconv.so through ctypes. $HALOCONV_LIBRARY is its path. If that is not set, it searches
beside itself (in a wheel), in the folders above an installed module, in the build folder of the source tree, and in the system's library
path.
"""

import importlib
from typing import Any

from ._adapters import patch, unpatch
from ._arrays import convolve_packed, convolve_tensors
from ._banks import Bank, position
from ._library import Error, devices, version
from ._scene import convolve_moving
from ._streams import BLOCK_FILES, NO_FADE, WAIT_FOREVER, WAIT_NONE, Mask, Stream, convolve

__all__ = ["convolve", "convolve_moving", "convolve_packed", "convolve_tensors", "Stream", "Mask", "Bank", "position",
           "Error", "devices", "version", "patch", "unpatch", "BLOCK_FILES", "NO_FADE", "WAIT_FOREVER", "WAIT_NONE"]

__version__ = version()
for _public in (Bank, Error, Mask, Stream, convolve, convolve_moving, convolve_packed, convolve_tensors, devices,
                patch, position, unpatch, version):
    _public.__module__ = __name__  # in tracebacks and help(): haloconv.Error


def __getattr__(name: str) -> Any:
    if name in ("torch", "jax", "ray"):  # imported on first use: `import haloconv` must not import torch, JAX or Ray
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
