"""scipy.signal.convolve, fftconvolve and oaconvolve by haloconv, and for the projects that call them."""

import types

import numpy as np
from haloconv import convolve_tensors

from . import noise


def convolver(theirs):
    """scipy's function (theirs) by haloconv: [N] and [M], or [C, N] and [1, M]. Any thread.

    haloconv computes float32 and float64 in float32, within 1e-5 of the peak. theirs computes all else: other types,
    whose results the functions of scipy give unlike types, methods and axes, masked and empty arrays, more dimensions.
    """
    def convolve(in1, in2, mode="full", *arguments, **options):
        is_usual = not arguments and not options and mode in ("full", "same", "valid") and all(
            isinstance(a, (np.ndarray, list, tuple)) and not isinstance(a, np.ma.MaskedArray) for a in (in1, in2))
        if not is_usual:  # before np.asarray, which copies or refuses tensors of a GPU
            return theirs(in1, in2, mode, *arguments, **options)
        x, h = np.asarray(in1), np.asarray(in2)
        if (any(a.dtype not in (np.float32, np.float64) for a in (x, h)) or x.ndim != h.ndim or x.ndim not in (1, 2)
                or not (x.size and h.size)
                or (x.ndim == 2 and 1 not in ((x.shape[0], h.shape[0]) if mode == "full" else (h.shape[0],)))
                or (x.ndim == 2 and mode == "valid" and x.shape[1] < h.shape[1])):
            return theirs(in1, in2, mode, *arguments, **options)
        if x.shape[-1] < h.shape[-1] and mode != "same":  # the shorter one is the filter
            x, h = h, x
        return np.asarray(convolve_tensors(x, h, mode)).astype(np.result_type(x, h), copy=False)
    return convolve


def trial(function):
    """Both types, and the cases of haloconv."""
    x, h = noise(60), noise(9)
    return [function(x, h, mode=mode) for mode in ("full", "same", "valid")] + [
        function(x, h), function(h, x.astype(np.float64)), function(noise(2, 60), h[None])]


def with_functions(module, **functions):
    """A copy of a module with other functions in place of some."""
    copy = types.ModuleType(module.__name__, module.__doc__)
    vars(copy).update(vars(module), **functions)
    return copy
