"""haloconv as a service: presets, systemd's notifications and journal, the units."""

import os
import pathlib
import subprocess

import pytest
from conftest import HALOCONV


def said(*args, journal=None, **kwargs):
    """Standard error of the program; journal: JOURNAL_STREAM names this file, or (True) standard error itself."""
    with open("said", "w+", encoding="utf-8") as file:
        status = os.fstat(file.fileno()) if journal is True else os.stat(journal or ".")
        subprocess.run([str(HALOCONV), *map(str, args)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=file,
                       timeout=60, check=False, env={**os.environ, "JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"})
        file.seek(0)
        return file.read()


# ---- the journal -----------------------------------------------------------------------------------------------------
def test_lines_carry_their_priority_into_the_journal(folder):
    """An error is <3>, a note <6>; a name that begins with a priority stays inside its line."""
    error, note = ["info", "<0>no.wav"], ["info", "--nothing"]
    assert said(*error, journal=True).startswith("<3><0>no.wav: ")
    assert said(*note, journal=True).endswith("\n<6>see `haloconv info --help`\n")
    assert said(*error).startswith("haloconv: <0>no.wav: "), "JOURNAL_STREAM is another file"
    assert said(*note).endswith("\nsee `haloconv info --help`\n")
