"""The way to haloconv-adapters, a package with releases of its own; it is imported where a program asks for it.

It uses these names, which are private to programs, and stay for it: haloconv._banks.PATH_TYPES, haloconv._banks.Path,
haloconv._banks.check_draws, haloconv._program.find, haloconv.torch._can_convolve.
"""

import contextlib
import sys
from typing import List


def missing(error: ModuleNotFoundError) -> ModuleNotFoundError:
    """The error to raise after an import of haloconv_adapters has failed: with the remedy if the package is missing."""
    if error.name != "haloconv_adapters":  # of a project that the adapter needs
        return error
    return ModuleNotFoundError("haloconv.patch, haloconv.ray and haloconv.curator need the package haloconv-adapters; "
                               "pip install 'haloconv[adapters]'", name=error.name)


def patch(project: str) -> "contextlib.AbstractContextManager[List[str]]":
    """Let a project, which must be installed, convolve by haloconv: "lhotse", "speechbrain", "espnet", "nemo",
    "torchaudio", "audiomentations", "torch_audiomentations", "pyroomacoustics" or "scipy" (scipy.signal.convolve,
    fftconvolve and oaconvolve). Needs the package haloconv-adapters: pip install 'haloconv[adapters]'.

    Its functions are replaced in this process from now on, until unpatch(project), or until the end of the block of
    `with patch(project) as names:`; names are those that were replaced. Arguments, shapes, types, random numbers and
    levels stay those of the original; results agree within 1e-5 of their peak. If several blocks are open, the
    originals return when the last one ends; a call without a block keeps ours until unpatch(project). Processes that
    begin by spawn must call it again.

    Any release is taken whose functions have the expected arguments, and whose results on a small signal are ours; this
    is found out before anything is replaced. help(haloconv_adapters) has the releases that were tried.

    Raises ValueError for an unknown project, ModuleNotFoundError if it is not installed, or haloconv-adapters is not,
    RuntimeError, with the reason, for a release that does not fit. Any thread may call it.
    """
    try:
        from haloconv_adapters import patches
    except ModuleNotFoundError as error:
        raise missing(error) from None
    return patches.patch(project)


def unpatch(project: str) -> None:
    """Give a project its own functions back, also inside of blocks. Nothing happens if it is not patched.

    A function that another program has put over ours stays there, and a RuntimeWarning names it.
    """
    patches = sys.modules.get("haloconv_adapters.patches")
    if patches is not None:
        patches.unpatch(project)
