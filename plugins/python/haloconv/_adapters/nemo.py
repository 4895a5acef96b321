"""NeMo: the convolution of ImpulsePerturbation (asr/parts/preprocessing/perturb.py).

It resamples responses to the sound's rate itself. Levels, the shift by the direct sound and random responses stay
NeMo's. RirAndNoisePerturbation calls ImpulsePerturbation.
"""

import nemo.collections.asr.parts.preprocessing.perturb
import numpy as np
import scipy.signal

from ._scipy import by_haloconv, module_with

DISTRIBUTION, VERSIONS = "nemo-toolkit", ("3.0", "3.1")

_signal = module_with(scipy.signal, fftconvolve=by_haloconv(scipy.signal.fftconvolve, np.float32, np.float64))


def replacements():
    return {"nemo.collections.asr.parts.preprocessing.perturb:signal": _signal}
