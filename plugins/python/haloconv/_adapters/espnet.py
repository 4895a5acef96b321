"""ESPnet: the convolutions of its preprocessors: _convolve_rir of CommonPreprocessor (ASR, TTS, enhancement),
SpkPreprocessor and LIDPreprocessor, and the early part of the response in EnhPreprocessor.

They call scipy.signal.convolve; espnet2.train.preprocessor gets a copy of scipy with ours. haloconv computes one
channel with one or more responses, or the channels of a sound with one response, in float32; results are of the type
that scipy gives, float64 as a rule. scipy computes all else, for example a sound of several channels with a response
of several, which scipy convolves across the channels, too. Reading, random choices and levels stay ESPnet's.
SpkPreprocessor and LIDPreprocessor do not compare the rate of a response with the sound's, with or without haloconv.
"""

from ._scipy import convolver, with_functions


def _scipy(theirs):
    return with_functions(theirs, signal=with_functions(theirs.signal, convolve=convolver(theirs.signal.convolve)))


def replacements():
    return {"espnet2.train.preprocessor:scipy": _scipy}
