"""Starts the program `haloconv`. This file needs no NumPy."""

import os
import pathlib
import sys

_HERE = pathlib.Path(__file__).resolve().parent


def find() -> str:
    """The program: beside this file, in bin above an installed module, or in the source tree's build folder."""
    above = [*_HERE.parents][2:4]  # the source tree; PREFIX of an installed module
    for program in (_HERE / "haloconv", *(folder / name for folder, name in zip(above, ("build/haloconv", "bin/haloconv")))):
        if program.is_file() and os.access(program, os.X_OK):
            return str(program)
    sys.exit("haloconv: the program is not installed beside this module: it needs libsndfile and jansson; install their "
             "packages, then haloconv again")


def main() -> None:
    """Become the program."""
    os.execv(find(), ["haloconv", *sys.argv[1:]])


if __name__ == "__main__":
    main()
