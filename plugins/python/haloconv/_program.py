"""Starts the program `haloconv`. This file needs no NumPy."""

import os
import pathlib
import sys

_HERE = pathlib.Path(__file__).resolve().parent


def find() -> str:
    """The program: beside this file, in the source tree's build folder, or in bin above an installed module.

    Raises FileNotFoundError.
    """
    folders = [_HERE]
    for above, name in zip([*_HERE.parents][2:4], ("build", "bin")):  # the source tree; PREFIX of an installed module
        folders.append(above / name)
    for folder in folders:
        program = folder / "haloconv"
        if program.is_file() and os.access(program, os.X_OK):
            return str(program)
    raise FileNotFoundError("the program is not installed beside this module: it needs libsndfile and jansson; install "
                            "their packages, then haloconv again")


def main() -> None:
    """Become the program."""
    try:
        program = find()
    except FileNotFoundError as error:
        sys.exit(f"haloconv: {error}")
    os.execv(program, ["haloconv", *sys.argv[1:]])


if __name__ == "__main__":
    main()
