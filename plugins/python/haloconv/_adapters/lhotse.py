"""lhotse: the convolution of ReverbWithImpulseResponse, which `reverb_rir` of recordings, cuts and cut sets calls.

haloconv computes what it can compute (torch._can_convolve); lhotse's own function computes all else and raises its
errors. Levels, the shift by the direct sound and random responses stay lhotse's. A response of another rate than the
sound's, which lhotse convolves in silence, causes a UserWarning.
"""

import functools
import warnings

import lhotse.augmentation.rir
import torch

from ..torch import _can_convolve, convolve as ours

DISTRIBUTION, VERSIONS = "lhotse", ("1.33", "1.34")

_theirs = lhotse.augmentation.utils.convolve1d
_call = lhotse.augmentation.rir.ReverbWithImpulseResponse.__call__


def convolve1d(signal: torch.Tensor, kernel: torch.Tensor) -> torch.Tensor:
    """lhotse.augmentation.utils.convolve1d by haloconv: [N] and [M] make [N + M - 1]. Any thread."""
    if not (_can_convolve(signal, kernel) and signal.dim() == kernel.dim() == 1):
        return _theirs(signal, kernel)
    return ours(signal, kernel) if len(signal) >= len(kernel) else ours(kernel, signal)


@functools.wraps(_call)
def call(self, samples, sampling_rate):
    rate = getattr(self.rir, "sampling_rate", sampling_rate)
    if rate != sampling_rate:
        warnings.warn(f"the response has {rate} Hz and the sound {sampling_rate} Hz; resample one", stacklevel=2)
    return _call(self, samples, sampling_rate)


def replacements():
    return {**{f"lhotse.augmentation{module}:convolve1d": convolve1d for module in ("", ".utils", ".rir")},
            "lhotse.augmentation.rir:ReverbWithImpulseResponse.__call__": call}
