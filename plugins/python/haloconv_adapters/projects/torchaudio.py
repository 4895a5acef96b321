"""torchaudio: torchaudio.functional.fftconvolve, and with it torchaudio.transforms.FFTConvolve.

haloconv computes real float32, float16 and bfloat16 operands on the CPU and, if the library has CUDA, on its GPUs.
torchaudio's own function computes all else and refuses what it refuses, in its words: float64, integers, complex
numbers, other devices, empty operands, unlike dimensions, unknown modes. torch.jit.script and torch.jit.trace compile
its function, too, so that a saved program needs no haloconv. torch.compile takes ours.

Not replaced: torchaudio.functional.convolve, which computes in the time domain, and a name that a program has imported
before by `from torchaudio.functional import fftconvolve`.
"""

import torch
from haloconv.torch import _can_convolve, fftconvolve as ours

from . import noise


def _fftconvolve(theirs):
    def eager(x, y, mode):
        if _can_convolve(x, y) and x.dim() == y.dim() and mode in ("full", "valid", "same"):
            return ours(x, y, mode)
        return theirs(x, y, mode)

    def fftconvolve(x: torch.Tensor, y: torch.Tensor, mode: str = "full") -> torch.Tensor:
        """torchaudio.functional.fftconvolve by haloconv: [..., N] and [..., M], with its errors. Any thread."""
        if torch.jit.is_scripting():  # the compiler reads this branch only
            return theirs(x, y, mode)
        else:
            return eager(x, y, mode)
    return fftconvolve


def _trial(fftconvolve):
    x, h = torch.from_numpy(noise(2, 60)), torch.from_numpy(noise(1, 9))
    return [fftconvolve(x, h, mode) for mode in ("full", "valid", "same")]


def replacements():
    return {f"torchaudio.functional{module}:fftconvolve": (_fftconvolve, _trial) for module in ("", ".functional")}
