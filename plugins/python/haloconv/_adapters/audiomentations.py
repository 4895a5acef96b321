"""audiomentations: the convolution of ApplyImpulseResponse.

haloconv computes float32 and float16 sounds; scipy, which audiomentations calls, computes all else. The peak of 0.5,
random responses and their cache stay audiomentations'; it resamples responses to the sound's rate itself.
"""

import numpy as np
import scipy.signal

from .._arrays import convolve_tensors

DISTRIBUTION, VERSIONS = "audiomentations", ("0.43", "0.44")


def convolve(sound, response):
    """scipy.signal.convolve of [N] and [M] by haloconv: [N + M - 1]. Any thread."""
    if not (sound.size and response.size) or np.result_type(sound, response) not in (np.float32, np.float16):
        return scipy.signal.convolve(sound, response)
    x, h = (sound, response) if len(sound) >= len(response) else (response, sound)
    return convolve_tensors(x, h).astype(np.result_type(x, h), copy=False)


def replacements():
    return {"audiomentations.augmentations.apply_impulse_response:convolve": convolve}
