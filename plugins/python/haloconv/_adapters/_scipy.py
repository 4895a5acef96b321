"""scipy.signal.convolve and fftconvolve by haloconv, for the projects that call them."""

import types

import numpy as np

from .._arrays import convolve_tensors

def convolver(theirs):
    """scipy's function (theirs) by haloconv: [N] and [M], or [C, N] and [1, M]. Any thread.

    haloconv computes float32 and float64 in float32, within 1e-5 of the peak. theirs computes all else: other types,
    whose results the two functions of scipy give unlike types, modes and methods, empty arrays, two dimensions.
    """
    def convolve(in1, in2, mode="full", *arguments, **options):
        x, h = np.asarray(in1), np.asarray(in2)
        is_float = all(a.dtype in (np.float32, np.float64) for a in (x, h))
        if (mode != "full" or arguments or options or not is_float or x.ndim != h.ndim or x.ndim not in (1, 2)
                or not (x.size and h.size) or (x.ndim == 2 and 1 not in (x.shape[0], h.shape[0]))):
            return theirs(in1, in2, mode, *arguments, **options)
        if x.shape[-1] < h.shape[-1]:  # the shorter one is the filter
            x, h = h, x
        return np.asarray(convolve_tensors(x, h)).astype(np.result_type(x, h), copy=False)
    return convolve


def with_functions(module, **functions):
    """A copy of a module with other functions in place of some."""
    copy = types.ModuleType(module.__name__, module.__doc__)
    vars(copy).update(vars(module), **functions)
    return copy
