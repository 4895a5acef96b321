"""The command line's tests: how results are reported, and the tools that the tests share.

HALOCONV is the program (build/haloconv), HC_TEST_BACKEND restricts to "cpu" or "cuda", SAN names the sanitizers it was
built with. A result is one line, `ok`, `FAIL` or `skip`, as the C tests print it; tests/run counts them.
"""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import soundfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = (ROOT / os.environ.get("BUILD", "build")).resolve()
HALOCONV = (ROOT / os.environ.get("HALOCONV", str(BUILD / "haloconv"))).resolve()
SAN = os.environ.get("SAN", "")
ONLY = os.environ.get("HC_TEST_BACKEND", "")
PEAK_SHARE = 1e-6  # design.md: within -120 dB of the output's peak


# ---- reporting ------------------------------------------------------------------------------------------------------
def pytest_addoption(parser):
    """What belongs to pytest's own reporter, which is off, and is asked for all the same."""
    parser.addoption("--verbose", dest="verbose", type=int, default=1)
    parser.addoption("--tb", dest="tbstyle", default="short")


def pytest_runtest_logreport(report):
    if report.when != "call" and report.outcome == "passed":
        return
    name = report.nodeid.replace("tests/", "")
    if report.outcome == "failed":
        print(report.longreprtext)
        print(f"FAIL -    {name}", flush=True)
    elif report.outcome == "skipped":
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
        print(f"skip -    {name}: {why.replace('Skipped: ', '')}", flush=True)
    else:
        print(f"ok   -    {name}  {report.duration * 1000:.0f} ms", flush=True)


def pytest_collectreport(report):
    if report.failed:
        print(report.longreprtext)
        print(f"FAIL -    {report.nodeid} cannot be read", flush=True)


# ---- running --------------------------------------------------------------------------------------------------------
def haloconv(*args, **kwargs):
    """Run the program; its output as bytes or (text=True, the default) text. Never longer than `timeout` seconds."""
    kwargs.setdefault("timeout", 300)
    kwargs.setdefault("text", True)
    if "stdin" not in kwargs and "input" not in kwargs:
        kwargs["stdin"] = subprocess.DEVNULL
    return subprocess.run([str(HALOCONV), *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kwargs)


def good(*args, **kwargs):
    """Run and demand success; the finished process."""
    done = haloconv(*args, **kwargs)
    assert done.returncode == 0, f"exit {done.returncode}: {done.stderr}"
    return done


def refused(*args, exit=1, says=(), **kwargs):
    """Run and demand an error: its exit status, one line on standard error that holds every word of `says`."""
    done = haloconv(*args, **kwargs)
    err = done.stderr if isinstance(done.stderr, str) else done.stderr.decode()
    assert done.returncode == exit, f"exit {done.returncode}, want {exit}: {err}"
    lines = [line for line in err.splitlines() if line]
    assert lines and lines[0].startswith("haloconv: "), err
    if exit == 1:
        assert len(lines) == 1 and ";" in lines[0], f"want one line with a remedy: {err}"
    for word in [says] if isinstance(says, str) else says:
        assert word in err, f"want '{word}' in: {err}"
    return err


def convolve(source, mask, output, *options, backend="cpu"):
    """haloconv convolve; its report as a dict."""
    done = good("convolve", source, mask, "-o", output, "--backend", backend, "--json", "-q", *options)
    report = json.loads(done.stdout)
    assert report["backend"] == backend
    return report


def has_cuda():
    if not hasattr(has_cuda, "answer"):
        has_cuda.answer = "cuda:0" in haloconv("devices").stdout
    return has_cuda.answer


def pytest_generate_tests(metafunc):
    """A test that takes `backend` runs on each; a missing device skips it, or fails it where it was asked for."""
    if "backend" in metafunc.fixturenames:
        metafunc.parametrize("backend", [ONLY] if ONLY else ["cpu", "cuda"])


@pytest.fixture(autouse=True)
def device(request):
    params = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    if params.get("backend") == "cuda" and not has_cuda():
        if ONLY == "cuda":
            pytest.fail("no CUDA device")
        pytest.skip("no CUDA device")


# ---- sounds ---------------------------------------------------------------------------------------------------------
def noise(n_frames, n_channels=1, seed=1, scale=0.25):
    """[n_frames][n_channels] float32 noise in -scale...scale."""
    return (np.random.default_rng(seed).uniform(-scale, scale, (n_frames, n_channels))).astype(np.float32)


def write(path, x, rate=48000, subtype="FLOAT", format=None):
    soundfile.write(str(path), x, rate, subtype=subtype, format=format)
    return path


def read(path):
    return soundfile.read(str(path), dtype="float64", always_2d=True)[0]


def assert_close(got, want, share=PEAK_SHARE, quantum=0.0):
    """Within share of the peak (and a quantum of the file format); NaN is not."""
    want = np.asarray(want, np.float64)
    want = want[:, None] if want.ndim == 1 else want
    assert got.shape == want.shape, f"got {got.shape} frames and channels, want {want.shape}"
    error = np.abs(got - want)
    allowed = share * np.abs(want).max() + quantum
    if not (error <= allowed).all():
        frame, ch = np.unravel_index(np.argmax(np.where(np.isnan(error), np.inf, error)), error.shape)
        raise AssertionError(f"channel {ch}, frame {frame} of {len(want)}: got {got[frame, ch]!r}, want "
                             f"{want[frame, ch]!r}, "
                             f"off by {error[frame, ch]:.3g}, allowed {allowed:.3g}; "
                             f"{(~(error <= allowed)).sum()} samples are off")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of its own; at the end nothing half-written may lie there."""
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    left = [p.name for p in tmp_path.iterdir() if p.name.endswith(".part")]
    assert not left, f"left behind: {left}"


sys.dont_write_bytecode = True
