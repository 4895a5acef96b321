"""The bench of tensors, on the CPU and on small shapes: the figures are there, the results right.

Needs torch (Debian: python3-torch).
"""

import importlib.util
import json
import os
import subprocess
import sys

import pytest
from conftest import BUILD, ROOT, SAN

NVIDIA = """import torch


def fft_causal_conv1d(x, weight):
    assert weight.dim() == 2 and x.dtype == weight.dtype
    n = x.shape[-1]
    x_spectrum, spectrum = torch.fft.rfft(x.float(), 2 * n), torch.fft.rfft(weight.float(), 2 * n)
    return torch.fft.irfft(x_spectrum * spectrum)[..., :n].to(x.dtype)
"""  # in the place of NVIDIA's module, which needs a GPU


@pytest.mark.skipif(bool(SAN), reason="a sanitized library needs a sanitized Python")
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="no torch")
def test_the_bench_measures_ours_and_the_peers(tmp_path):
    figures = tmp_path / "figures.json"
    (tmp_path / "subquadratic_ops_torch").mkdir()
    (tmp_path / "subquadratic_ops_torch/fft_causal_conv1d.py").write_text(NVIDIA)
    path = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))
    done = subprocess.run([sys.executable, str(ROOT / "tests/bench/bench_tensors.py"), "--quick", "--device", "cpu",
                           "--only", "rows,grid,index,packed,calls", "--grid-shapes", "3", "--json", str(figures)],
                          env={**os.environ, "HALOCONV_LIBRARY": str(BUILD / "libhaloconv.so"), "OMP_NUM_THREADS": "1",
                               "PYTHONPATH": path},
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(figures.read_text())
    for row in found["rows"]:
        nvidia = ("nvidia", "nvidia bf16") if "causal" in row["shape"] else ()
        for way in ("haloconv.torch", "c_calls", *nvidia[:1]):
            assert row[way]["forward"] > 0 and row[way]["both"] > 0, row
            assert all(row[way][error] <= 1e-6 for error in ("error", "gx", "gh")), row
        for way in ("haloconv.torch bf16", "bfloat16", *nvidia[1:]):  # rounded to 8 bits
            assert row[way]["forward"] > 0 and row[way]["both"] > 0, row
            assert all(1e-4 < row[way][error] < 2e-3 for error in ("error", "gx", "gh")), row
        assert row["rfft"]["forward"] > 0 and row["torchaudio"]["both"] > 0, row
    assert len(found["grid"]) == 3 and all(shape["ours"] > 0 and shape["exact"] > 0 for shape in found["grid"])
    for figures in (found["index"][0][way] for way in ("plain", "index", "c_plain", "c_index")):
        assert figures["forward"] > 0 and figures["both"] > 0
    for figures in found["index"][0]["index"], found["index"][0]["c_index"], found["packed"]:
        assert all(0 < figures[error] <= 1e-6 for error in ("error", "gx", "gh")), figures
    assert all(found["packed"][f"{way}{part}"] > 0 for way in ("packed", "equal", "longest") for part in ("", "_both"))
    assert 0 < found["calls"]["haloconv.torch.convolve"] < found["calls"]["the same, and backward"]
    assert "relative error of y, gx and gh | at most 1.0e-06 | " in done.stdout
