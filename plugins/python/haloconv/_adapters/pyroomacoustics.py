"""pyroomacoustics: the convolutions of Room.simulate, which AnechoicRoom and ShoeBox inherit.

simulate imports scipy.signal.fftconvolve in its body. Its replacement is the same code with that import from here, so
that delays, levels, noise, callbacks and premix stay the project's. The signals are float64 as before; haloconv
computes them in float32, within 1e-5 of the peak. scipy computes complex and empty signals. Impulse responses
(compute_rir) stay the project's, and so does every other scipy function in this process.
"""

import types

import numpy as np
import pyroomacoustics.room
import scipy.signal

from ._scipy import by_haloconv

DISTRIBUTION, VERSIONS = "pyroomacoustics", ("0.10", "0.11")

fftconvolve = by_haloconv(scipy.signal.fftconvolve, np.float32, np.float64)  # simulate imports it from here


def replacements():
    simulate = pyroomacoustics.room.Room.simulate
    code = simulate.__code__
    if code.co_names.count("scipy.signal") != 1:
        raise RuntimeError("patch('pyroomacoustics'): Room.simulate does not import scipy.signal; another program "
                           "has replaced it, undo that first")
    code = code.replace(co_names=tuple(__name__ if name == "scipy.signal" else name for name in code.co_names))
    ours = types.FunctionType(code, simulate.__globals__, simulate.__name__, simulate.__defaults__,
                              simulate.__closure__)
    ours.__kwdefaults__, ours.__doc__ = simulate.__kwdefaults__, simulate.__doc__
    ours.__qualname__, ours.__module__ = simulate.__qualname__, simulate.__module__
    return {"pyroomacoustics.room:Room.simulate": ours}
