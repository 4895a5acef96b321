"""ESPnet: the convolutions of its preprocessors (espnet2/train/preprocessor.py), which rir_scp of a recipe requests.

Their sounds are float64 as before; haloconv computes them in float32. Levels, early reflections and random responses
stay ESPnet's. CommonPreprocessor convolves with responses of any rate in silence: give it those of the sounds' rate.
"""

import espnet2.train.preprocessor
import numpy as np
import scipy.signal

from ._scipy import by_haloconv, module_with

DISTRIBUTION, VERSIONS = "espnet", ("202511", "202512")

_signal = module_with(scipy.signal, convolve=by_haloconv(scipy.signal.convolve, np.float32, np.float64))


def replacements():
    return {"espnet2.train.preprocessor:scipy": module_with(scipy, signal=_signal)}
