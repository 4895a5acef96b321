"""NeMo: the convolution of ImpulsePerturbation, which RirAndNoisePerturbation calls, too.

It calls scipy.signal.fftconvolve; perturb.py gets a copy of scipy.signal with ours. haloconv computes sounds of one
channel in float32, scipy all else. Reading and resampling of responses, random choices, the shift by the largest tap
and the peak of 1 stay NeMo's.
"""

from ._scipy import convolver, trial, with_functions


def _signal(theirs):
    return with_functions(theirs, fftconvolve=convolver(theirs.fftconvolve))


def _trial(signal):
    return trial(signal.fftconvolve)


def replacements():
    return {"nemo.collections.asr.parts.preprocessing.perturb:signal": (_signal, _trial)}
