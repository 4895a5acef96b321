"""The kernel ladder: its list is complete, and `make rung` runs one rung on the emulator."""

import os
import re
import shutil
import subprocess

import pytest
from conftest import ROOT

LADDER = ROOT / "kernels/ladder"


def make(*args):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(["make", "WITH_CUDA=0", "SAN=", *args], cwd=ROOT, env=environment, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=300)
    return done.returncode, done.stdout


def test_every_rung_is_in_the_list():
    listed = set(re.findall(r"&(rung_\w+)", (LADDER / "ladder.cu").read_text()))
    defined = {(name, int(number)) for path in LADDER.glob("rung*.cu")
               for name, number in re.findall(r"const struct rung (rung_\w+) = {\s*(\d+),", path.read_text())
               if path.name.startswith(f"rung{int(number):02}_")}
    assert listed == {name for name, _ in defined} and len(defined) == 18
    assert {number for _, number in defined} == set(range(1, 17))


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    if not shutil.which("g++") or not os.path.exists("/usr/bin/python3"):
        pytest.skip("no g++, or no /usr/bin/python3 for the emulator")
    return f"BUILD={tmp_path_factory.mktemp('build')}"


@pytest.mark.parametrize("rung,says", [("03", "32 blocks of 128 threads; a block passes 2 barriers and writes 138 floats"),
                                       ("halo-32", "128 blocks of 32 threads; a block passes 2 barriers and writes 42 floats"),
                                       ("window", "4 blocks of 128 threads; a block passes 3 barriers and writes 1056")])
def test_a_rung_runs_alone_without_a_gpu(build, rung, says):
    status, out = make("rung", f"RUNG={rung}", build)
    assert status == 0 and "\n  ok: " in out and f"11 taps x 4096 frames: 1 launch, {says}" in out, out
    assert "dsp/" not in out and out.count("kernels/ladder/rung") <= 1, "compiled more than the rung"


@pytest.mark.parametrize("args,says", [([], "RUNG=03"), (["RUNG=99"], "99 is not a rung"), (["RUNG=99"], "\n  12 window\n"),
                                       (["RUNG=99"], "\n  3 halo-32\n"), (["RUNG=texture"], "rung07_texture needs a GPU"),
                                       (["RUNG=rung07_texture"], "rung07_texture needs a GPU")])
def test_a_rung_that_cannot_run_is_refused(args, says):
    status, out = make("rung", *args)
    assert status != 0 and says in out, out
