"""Convolution by haloconv for projects that call scipy.signal, and modules in which it stands."""

import types

import numpy as np

from .._arrays import convolve_tensors


def by_haloconv(original, *kinds):
    """`original`, scipy.signal.convolve or fftconvolve, by haloconv for two arrays [N] and [M], or [1, N] and
    [channels, M], whose common type is one of `kinds`. It computes in float32, within 1e-5 of the peak. `original`
    computes all else and raises its errors. Any thread."""
    def convolve(in1, in2, mode="full", *args, **options):
        a, b = np.asarray(in1), np.asarray(in2)
        kind = np.result_type(a, b)
        if not (mode == "full" and a.size and b.size and kind in kinds and a.ndim == b.ndim
                and (a.ndim == 1 or (a.ndim == 2 and 1 in (len(a), len(b))))):
            return original(in1, in2, mode, *args, **options)
        x, h = (a, b) if a.shape[-1] >= b.shape[-1] else (b, a)  # the shorter one is the filter
        return convolve_tensors(x, h).astype(kind, copy=False)
    return convolve


def module_with(module, **changed):
    """A module that has all of `module`, and the changed names."""
    ours = types.ModuleType(module.__name__, module.__doc__)
    ours.__getattr__ = lambda name: getattr(module, name)
    vars(ours).update(changed)
    return ours
