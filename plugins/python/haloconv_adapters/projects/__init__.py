"""What patch() puts into other projects: their table, and a module for each, named as the project.

The module has replacements(): {"module:attribute": (make, trial)}; an attribute may be "Class.method". make(original)
returns the replacement. trial(function) calls the original, and then the replacement, as the project does, with a small
signal, and returns an array or a list of arrays; None: the replacement always calls the original.
"""

from typing import Any, NamedTuple

import numpy as np


class Project(NamedTuple):
    package: str  # its name on PyPI
    tried: str  # releases that were tried; any other that fits is taken, too


PROJECTS = {
    "audiomentations": Project("audiomentations", "0.39 to 0.43"),
    "espnet": Project("espnet", "202511"),
    "lhotse": Project("lhotse", "1.20 to 1.33"),
    "nemo": Project("nemo-toolkit", "3.0"),
    "pyroomacoustics": Project("pyroomacoustics", "0.8.3 to 0.10"),
    "scipy": Project("scipy", "1.10 to 1.17"),
    "speechbrain": Project("speechbrain", "1.0.3 to 1.1"),
    "torch_audiomentations": Project("torch-audiomentations", "0.11.1 to 0.12"),
    "torchaudio": Project("torchaudio", "2.11"),
}


def noise(*shape: int) -> Any:
    """A small signal for a trial, float32; the program's random numbers stay as they are."""
    return np.random.default_rng(shape).standard_normal(shape).astype(np.float32)
