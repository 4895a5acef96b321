"""What patch() puts into other projects: their table, and a module for each, named as the project.

The module has replacements(): {"module:attribute": make}; an attribute may be "Class.method". make(original) returns
the replacement. The module may import the project, whose version has been checked.
"""

from typing import NamedTuple


class Project(NamedTuple):
    package: str  # its name on PyPI
    first: str  # the first version that was tested
    end: str  # the first that was not


PROJECTS = {
    "audiomentations": Project("audiomentations", "0.43", "0.44"),
    "espnet": Project("espnet", "202511", "202512"),
    "lhotse": Project("lhotse", "1.33", "1.34"),
    "nemo": Project("nemo-toolkit", "3.0", "3.1"),
    "pyroomacoustics": Project("pyroomacoustics", "0.10", "0.11"),
    "speechbrain": Project("speechbrain", "1.1", "1.2"),
    "torch_audiomentations": Project("torch-audiomentations", "0.12", "0.13"),
    "torchaudio": Project("torchaudio", "2.11", "2.12"),
}
