"""The CLAP plugin in another's host: the scanner of Qtractor."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest
from conftest import BUILD, SAN
from test_lv2 import VARIANTS

PLUGIN = BUILD / "haloconv.clap"

pytestmark = [pytest.mark.skipif(not PLUGIN.exists(), reason="built without the CLAP plugin"),
              pytest.mark.skipif(bool(SAN), reason="a host without the sanitizer cannot load what is built with it")]


def test_exports_its_entry_alone():
    if not shutil.which("nm"):
        pytest.skip("no nm")
    said = subprocess.run(["nm", "-D", "--defined-only", PLUGIN], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert [line.split()[-1] for line in said.splitlines()] == ["clap_entry"], said


def test_qtractor_finds_every_plugin():
    scanners = list(pathlib.Path("/usr/lib").glob("*/qtractor/qtractor_plugin_scan"))
    if not scanners:
        pytest.skip("no qtractor")
    done = subprocess.run([scanners[0]], input=f"CLAP:{PLUGIN}\n", stdout=subprocess.PIPE, text=True, timeout=60,
                          env={**os.environ, "QT_QPA_PLATFORM": "offscreen"}, check=True)
    found = re.findall(r"^CLAP\|haloconv ([^|]+)\|(\d+):(\d+)\|0:0\|(\d+):0\|", done.stdout, re.M)
    assert [(int(n_in), int(n_out)) for _, n_in, n_out, _ in found] == list(VARIANTS.values()), done.stdout
    assert [n for *_, n in found] == ["8"] * (len(VARIANTS) - 1) + ["7"], done.stdout
