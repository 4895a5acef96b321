"""The program `haloconv` of a wheel, and the GPU module of the package haloconv-cuda. This file needs no NumPy."""

import importlib.util
import os
import pathlib
import sys

_HERE = pathlib.Path(__file__).resolve().parent


def find_cuda_module() -> None:
    """Set HALOCONV_CUDA, the path of the GPU module, if library and module come from the wheels of two packages."""
    if not (_HERE / "libhaloconv.so").exists() or (_HERE / "libhaloconv_cuda.so").exists():
        return  # the library is not a wheel's, or finds the module beside itself
    package = importlib.util.find_spec("haloconv_cuda")
    for folder in (package and package.submodule_search_locations) or ():
        module = os.path.join(folder, "libhaloconv_cuda.so")
        if os.path.exists(module):
            os.environ.setdefault("HALOCONV_CUDA", module)


def main() -> None:
    """Become the program: beside this file, in bin above an installed module, or in the source tree's build folder."""
    find_cuda_module()
    above = [*_HERE.parents][2:4]  # the source tree; PREFIX of an installed module
    for program in (_HERE / "haloconv", *(folder / name for folder, name in zip(above, ("build/haloconv", "bin/haloconv")))):
        if program.is_file() and os.access(program, os.X_OK):
            os.execv(program, ["haloconv", *sys.argv[1:]])
    sys.exit("haloconv: the program is not installed beside this module: it needs libsndfile and jansson; install their "
             "packages, then haloconv again")


if __name__ == "__main__":
    main()
