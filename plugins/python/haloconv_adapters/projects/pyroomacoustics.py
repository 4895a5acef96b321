"""pyroomacoustics: the convolutions of Room.simulate, which AnechoicRoom and ShoeBox inherit.

simulate imports scipy.signal.fftconvolve in its body. Its replacement is the same code with that import from here, so
that delays, levels, noise, callbacks and premix stay the project's. The signals are float64 as before; haloconv
computes them in float32, within 1e-5 of the peak. scipy computes complex and empty signals. Impulse responses
(compute_rir) stay the project's, and so does every other scipy function in this process.
"""

import types

import scipy.signal

from . import noise
from ._scipy import convolver

fftconvolve = convolver(scipy.signal.fftconvolve)


def _simulate(theirs):
    code = theirs.__code__
    if code.co_names.count("scipy.signal") != 1:
        raise RuntimeError("patch('pyroomacoustics'): Room.simulate does not import scipy.signal; another program "
                           "has replaced it, undo that first")
    code = code.replace(co_names=tuple(__name__ if name == "scipy.signal" else name for name in code.co_names))
    simulate = types.FunctionType(code, theirs.__globals__, theirs.__name__, theirs.__defaults__, theirs.__closure__)
    simulate.__kwdefaults__ = theirs.__kwdefaults__
    return simulate


def _trial(simulate):
    from pyroomacoustics import room
    shoebox = room.ShoeBox([3, 2.5, 2], fs=8000, max_order=0)
    shoebox.add_source([1, 1, 1], signal=noise(60))
    shoebox.add_microphone([2, 1, 1])
    simulate(shoebox)
    return shoebox.mic_array.signals


def replacements():
    return {"pyroomacoustics.room:Room.simulate": (_simulate, _trial)}
