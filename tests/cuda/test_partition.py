"""A partition of multiprocessors for live engines: what haloconv says of it on the emulated device."""

import os
import subprocess

import pytest
from conftest import BUILD

PROGRAM = BUILD / "cuda_on_cpu/haloconv"


@pytest.mark.skipif(not PROGRAM.exists(), reason="no program on the emulated device")
@pytest.mark.parametrize("wanted,sms,green,said", [
    ("", 6, 1, ", 6 SMs, "), ("1", 6, 1, ", 2 of 6 SMs, "), ("2", 6, 1, ", 2 of 6 SMs, "),
    ("1", 9, 1, ", 1 of 9 SMs, "), ("4", 11, 1, ", 7 of 11 SMs, "),
    ("3", 6, 1, "; no partition: the driver's error 915"),
    ("6", 6, 1, "; no partition: HALOCONV_PARTITION must be 1 to 5"),
    ("2x", 6, 1, "; no partition: HALOCONV_PARTITION must be 1 to 5"),
    ("2", 6, 0, "; no partition: the driver has no green contexts")])
def test_a_partition_is_made_or_the_reason_is_said(wanted, sms, green, said):
    done = subprocess.run([str(PROGRAM), "devices"], timeout=60, stdout=subprocess.PIPE, text=True, check=True,
                          env={**os.environ, "HALOCONV_PARTITION": wanted, "CUDA_ON_CPU_GREEN": str(green),
                               "CUDA_ON_CPU_SMS": str(sms)})
    assert said in done.stdout, done.stdout
    assert wanted or "partition" not in done.stdout, done.stdout
