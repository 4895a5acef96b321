"""scipy: scipy.signal.convolve, fftconvolve and oaconvolve, for the programs that call them by these names.

haloconv computes arrays of float32 and float64, of one dimension, or of two with one filter for all rows; scipy all
else, for example complex numbers, a method or axes. The results of float64 arrays are float64, with the precision of
float32. Not replaced: what scipy's own functions call, as correlate, and names that a program has imported before by
`from scipy.signal import ...`.
"""

from ._scipy import convolver, trial


def replacements():
    return {f"scipy.signal:{name}": (convolver, trial) for name in ("convolve", "fftconvolve", "oaconvolve")}
