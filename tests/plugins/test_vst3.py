"""The VST3 bundle as a file; vst3_test.c has the plugins in a host."""

import json
import os
import shutil
import subprocess

import pytest
from conftest import BUILD
from test_lv2 import VARIANTS

PLUGIN = BUILD / f"haloconv.vst3/Contents/{os.uname().machine}-linux/haloconv.so"

pytestmark = pytest.mark.skipif(not PLUGIN.exists(), reason="built without the VST3 plugins")


def test_exports_its_entries_alone():
    if not shutil.which("nm"):
        pytest.skip("no nm")
    said = subprocess.run(["nm", "-D", "--defined-only", PLUGIN], stdout=subprocess.PIPE, text=True, check=True).stdout
    names = sorted(line.split()[-1] for line in said.splitlines())
    assert names == ["GetPluginFactory", "ModuleEntry", "ModuleExit"], said


def test_the_module_info_is_json():
    info = json.loads((PLUGIN.parents[1] / "Resources/moduleinfo.json").read_text())
    assert len(info["Classes"]) == len({c["CID"] for c in info["Classes"]}) == len(VARIANTS), info
    assert all(c["Sub Categories"][0] == "Fx" and c["Cardinality"] == 0x7FFFFFFF for c in info["Classes"]), info
