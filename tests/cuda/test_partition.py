"""A partition of multiprocessors for live engines: what haloconv says of it, on the emulated device of 4, split in twos."""

import os
import subprocess

import pytest
from conftest import BUILD

PROGRAM = BUILD / "cuda_on_cpu/haloconv"


@pytest.mark.skipif(not PROGRAM.exists(), reason="no program on the emulated device")
@pytest.mark.parametrize("wanted,green,said", [
    ("", "1", ", 4 SMs, "), ("1", "1", ", 2 of 4 SMs, "), ("2", "1", ", 2 of 4 SMs, "),
    ("3", "1", "; no partition: the driver's error 915"), ("4", "1", "; no partition: HALOCONV_PARTITION must be 1 to 3"),
    ("2x", "1", "; no partition: HALOCONV_PARTITION must be 1 to 3"),
    ("2", "0", "; no partition: the driver has no green contexts")])
def test_a_partition_is_made_or_the_reason_is_said(wanted, green, said):
    done = subprocess.run([str(PROGRAM), "devices"], timeout=60, stdout=subprocess.PIPE, text=True, check=True,
                          env={**os.environ, "HALOCONV_PARTITION": wanted, "CUDA_ON_CPU_GREEN": green,
                               "CUDA_ON_CPU_SMS": "4"})
    assert said in done.stdout, done.stdout
    assert wanted or "partition" not in done.stdout, done.stdout
