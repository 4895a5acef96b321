"""ESPnet: the convolutions of its preprocessors and of its collate functions (espnet2/train).

    _convolve_rir                of CommonPreprocessor (ASR, TTS, enhancement), SpkPreprocessor and LIDPreprocessor
    _get_early_signal            of EnhPreprocessor
    _get_aligned_reverb_signal   of HuBERTCollateFn

They call scipy.signal.convolve; their modules get a copy of scipy with ours. haloconv computes one channel with one or
more responses, or the channels of a sound with one response, in float32; results are of the type that scipy gives,
float64 as a rule. scipy computes all else, for example a sound of several channels with a response of several, which
scipy convolves across the channels, too. Reading, random choices and levels stay ESPnet's. SpkPreprocessor and
LIDPreprocessor do not compare the rate of a response with the sound's, with or without haloconv.
"""

from ._scipy import convolver, trial, with_functions


def _scipy(theirs):
    return with_functions(theirs, signal=with_functions(theirs.signal, convolve=convolver(theirs.signal.convolve)))


def _trial(scipy):
    return trial(scipy.signal.convolve)


def replacements():
    return {f"espnet2.train.{module}:scipy": (_scipy, _trial) for module in ("preprocessor", "collate_fn")}
