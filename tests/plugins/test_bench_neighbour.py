"""The bench of live blocks beside other work, on the CPU: the rows are there, their figures in order."""

import importlib.util
import json
import os
import subprocess
import sys

import pytest
from conftest import BUILD, ROOT, SAN

pytestmark = pytest.mark.skipif(bool(SAN), reason="a sanitized library needs a sanitized Python")


def bench(folder, *options):
    """Its rows and its output."""
    figures = folder / "figures.json"
    done = subprocess.run([sys.executable, str(ROOT / "tests/bench/bench_neighbour.py"), "--backend", "cpu", "--json",
                           str(figures), *options], env={**os.environ, "BUILD": str(BUILD), "OMP_NUM_THREADS": "1"},
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    return json.loads(figures.read_text())["rows"], done.stdout


def check(row, blocks):
    assert row["blocks"] == blocks and 0 <= row["missed"] <= blocks and row["device"].startswith("cpu "), row
    assert 0 < row["p50_us"] <= row["p99_us"] <= row["p999_us"] <= row["max_us"], row


def test_live_blocks_alone_need_no_torch(tmp_path):
    rows, text = bench(tmp_path, "--seconds", "1", "--loads", "stereo,matrix:3,sources:8", "--jobs", "alone")
    assert [(row["load"], row["inputs"], row["outputs"], row["taps"]) for row in rows] == [
        ("stereo", 2, 2, 144000), ("matrix", 3, 3, 48000), ("sources", 8, 2, 24000)]
    for row in rows:
        check(row, 750)
        missed = f"{row['missed']} of 750"
        assert f"| {row['title']} | alone | shared | {row['p50_us']:.1f} | {row['p99_us']:.1f} | " in text
        assert missed in text, text


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="no torch")
def test_a_job_in_this_process_and_in_another_is_measured(tmp_path):
    rows, text = bench(tmp_path, "--seconds", "0.4", "--loads", "stereo", "--jobs", "products,training")
    assert [(row["job"], row["mode"]) for row in rows] == [
        (job, mode) for mode in ("shared", "process") for job in ("products", "training")]
    for row in rows:
        check(row, 300)
        assert row["job_rate"] > 1, row
    assert text.count("| 2 x 2 diagonal, 144,000 taps | ") == 4, text


def test_an_engine_that_does_not_open_is_a_row_with_the_reason(tmp_path):
    done = subprocess.run([sys.executable, str(ROOT / "tests/bench/bench_neighbour.py"), "--backend", "cpu:7", "--jobs",
                           "alone", "--loads", "stereo"], env={**os.environ, "BUILD": str(BUILD)}, cwd=tmp_path,
                          stdout=subprocess.PIPE, text=True, timeout=60, check=False)
    assert done.returncode == 1 and 'backend "cpu:7" is unknown' in done.stdout, done.stdout
