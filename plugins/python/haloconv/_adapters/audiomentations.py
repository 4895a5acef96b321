"""audiomentations: the convolution of ApplyImpulseResponse.

haloconv computes float32 and float16 sounds; scipy, which audiomentations calls, computes all else. The peak of 0.5,
random responses and their cache stay audiomentations'; it resamples responses to the sound's rate itself.
"""

import numpy as np
import scipy.signal

from ._scipy import by_haloconv

DISTRIBUTION, VERSIONS = "audiomentations", ("0.43", "0.44")


def replacements():
    return {"audiomentations.augmentations.apply_impulse_response:convolve":
            by_haloconv(scipy.signal.convolve, np.float32, np.float16)}
