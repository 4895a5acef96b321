"""torchaudio: torchaudio.functional.fftconvolve, and with it torchaudio.transforms.FFTConvolve.

haloconv computes real float32, float16 and bfloat16 operands on the CPU and, if the library has CUDA, on its GPUs.
torchaudio's own function computes all else and refuses what it refuses, in its words: float64, integers, complex
numbers, other devices, empty operands, unlike dimensions, unknown modes. torch.jit.script and torch.jit.trace compile
its function, too, so that a saved program needs no haloconv. torch.compile takes ours.

Not replaced: torchaudio.functional.convolve, which computes in the time domain, and a name that a program has imported
before by `from torchaudio.functional import fftconvolve`.
"""

import torch
import torchaudio.functional

from ..torch import _can_convolve, fftconvolve as ours

DISTRIBUTION, VERSIONS = "torchaudio", ("2.11", "2.12")

_theirs = torchaudio.functional.functional.fftconvolve


def _fftconvolve(x, y, mode):
    if (_can_convolve(x, y) and x.dim() == y.dim() and mode in ("full", "valid", "same")
            and all(a == b or a == 1 or b == 1 for a, b in zip(x.shape[:-1], y.shape[:-1]))):
        return ours(x, y, mode)
    return _theirs(x, y, mode)


def fftconvolve(x: torch.Tensor, y: torch.Tensor, mode: str = "full") -> torch.Tensor:
    """torchaudio.functional.fftconvolve by haloconv: [..., N] and [..., M], with torchaudio's errors. Any thread."""
    if torch.jit.is_scripting():  # the compiler reads this branch only
        return _theirs(x, y, mode)
    else:
        return _fftconvolve(x, y, mode)


def replacements():
    return {f"torchaudio.functional{module}:fftconvolve": fftconvolve for module in ("", ".functional")}
