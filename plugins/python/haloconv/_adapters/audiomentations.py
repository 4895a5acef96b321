"""audiomentations: the convolution of ApplyImpulseResponse.

haloconv computes float32 and float16 sounds; scipy, which audiomentations calls, computes all else. The peak of 0.5,
random responses and their cache stay audiomentations'; it resamples responses to the sound's rate itself.
"""

import functools

import numpy as np

from ._scipy import convolver


def replacements():
    return {"audiomentations.augmentations.apply_impulse_response:convolve":
            functools.partial(convolver, dtypes=(np.float16, np.float32))}
