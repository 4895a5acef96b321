"""lhotse: the convolution of ReverbWithImpulseResponse, which `reverb_rir` of recordings, cuts and cut sets calls.

haloconv computes what it can compute (torch._can_convolve); lhotse's own function computes all else and raises its
errors. Levels, the shift by the direct sound and random responses stay lhotse's. A response of another rate than the
sound's, which lhotse convolves in silence, causes a UserWarning.
"""

import warnings

import torch
from haloconv.torch import _can_convolve, fftconvolve as ours

from . import noise


def _convolve1d(theirs):
    def convolve1d(signal: torch.Tensor, kernel: torch.Tensor) -> torch.Tensor:
        """lhotse.augmentation.utils.convolve1d by haloconv: [N] and [M] make [N + M - 1]. Any thread."""
        if not (_can_convolve(signal, kernel) and signal.dim() == kernel.dim() == 1):
            return theirs(signal, kernel)
        return ours(signal, kernel)
    return convolve1d


def _call(theirs):
    def call(self, samples, sampling_rate):
        rate = getattr(self.rir, "sampling_rate", sampling_rate)
        if rate != sampling_rate:
            warnings.warn(f"the response has {rate} Hz and the sound {sampling_rate} Hz; resample one", stacklevel=2)
        return theirs(self, samples, sampling_rate)
    return call


def _trial(convolve1d):
    return convolve1d(torch.from_numpy(noise(60)), torch.from_numpy(noise(9)))


def replacements():
    return {**{f"lhotse.augmentation{module}:convolve1d": (_convolve1d, _trial) for module in ("", ".utils", ".rir")},
            "lhotse.augmentation.rir:ReverbWithImpulseResponse.__call__": (_call, None)}
