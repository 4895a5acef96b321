"""torch-audiomentations: its `convolve`, which ApplyImpulseResponse calls.

haloconv computes real float32, float16 and bfloat16 tensors on the CPU and, if the library has CUDA, on its GPUs; the
project's own function computes all else and raises its errors. mode="same" is here max(N, M) frames from
(min(N, M) - 1) // 2 on. Random numbers, the choice of responses and levels are the project's.
"""

import torch
from haloconv.torch import _can_convolve, convolve as ours

from . import noise


def _convolve(theirs):
    def convolve(signal: torch.Tensor, kernel: torch.Tensor, mode: str = "full") -> torch.Tensor:
        """torch_audiomentations.utils.convolution.convolve by haloconv: [..., N] and [..., M]. Any thread."""
        if not (_can_convolve(signal, kernel) and mode in ("full", "valid", "same")):
            return theirs(signal, kernel, mode)
        if kernel.shape[-1] > signal.shape[-1]:  # the shorter operand is the filter
            signal, kernel = kernel, signal
        return ours(signal, kernel, mode)
    return convolve


def _trial(convolve):
    x, h = torch.from_numpy(noise(2, 60)), torch.from_numpy(noise(1, 9))
    return [convolve(x, h, mode) for mode in ("full", "valid", "same")]


def replacements():
    return {f"torch_audiomentations{module}:convolve": (_convolve, _trial)
            for module in ("", ".utils.convolution", ".augmentations.impulse_response")}
