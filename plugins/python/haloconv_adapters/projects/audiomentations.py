"""audiomentations: the convolution of ApplyImpulseResponse.

Its sounds are float32. The peak of 0.5, random responses and their cache stay audiomentations'; it resamples responses
to the sound's rate itself.
"""

from ._scipy import convolver, trial


def replacements():
    return {"audiomentations.augmentations.apply_impulse_response:convolve": (convolver, trial)}
