"""How the Python tests report their results, and the tools that they share.

A result is one line, `ok`, `FAIL` or `skip`, as the C tests print it; tests/run counts these lines. A line `again:`
below a FAIL is the command that repeats the test. tests/README.md has the environment variables.
"""

import contextlib
import io
import json
import os
import pathlib
import random
import re
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import soundfile
from _pytest._io import TerminalWriter

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = (ROOT / os.environ.get("BUILD", "build")).resolve()
HALOCONV = (ROOT / os.environ.get("HALOCONV", str(BUILD / "haloconv"))).resolve()
MAN_PAGES = sorted(BUILD.glob("haloconv*.[157]"))
ARCHS = re.findall(r"code=sm_(\d+)", (BUILD / "cuda_flags").read_text() if (BUILD / "cuda_flags").exists() else "")
CUDA = f"CUDA_ARCHS={' '.join(ARCHS)}" if ARCHS else "WITH_CUDA=0"  # makes another make build what this build has
PUBLIC_HEADERS = sorted((ROOT / "dsp").glob("haloconv*.h"))  # installed; dsp/bench.h is not
SAN = os.environ.get("SAN", "")
ONLY = os.environ.get("HC_TEST_BACKEND", "")
SEED = int(os.environ.get("HC_TEST_SEED") or "0", 0)
PEAK_SHARE = 1e-6  # the promised precision: within -120 dB of the output's peak

for ignored in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):  # of a job in the background, or of nohup
    if signal.getsignal(ignored) == signal.SIG_IGN:
        signal.signal(ignored, signal.SIG_DFL)
signal.signal(signal.SIGTERM, signal.default_int_handler)  # processes are ended as after Ctrl+C


def copy_program(path):
    """Copies the program to a path, and the library that it uses to the same folder."""
    shutil.copy(HALOCONV, path)
    library = HALOCONV.with_name("libhaloconv.so.1")
    if library.exists():
        shutil.copy(library, pathlib.Path(path).parent)


# ---- reporting ------------------------------------------------------------------------------------------------------
def pytest_addoption(parser):
    """Pytest reads these options of its own reporter, although tests/run switches the reporter off."""
    parser.addoption("--verbose", dest="verbose", type=int, default=1)
    parser.addoption("--tb", dest="tbstyle", default="short")


def pytest_configure(config):
    """From version 8 on pytest asks its own reporter for a writer when it compares the two sides of a failed assert."""
    config.get_terminal_writer = lambda: TerminalWriter(io.StringIO())


def pytest_runtest_logreport(report):
    if report.when != "call" and report.outcome == "passed":
        return
    name = report.nodeid.replace("tests/", "")
    if report.outcome == "failed":
        print(report.longreprtext)
        print(f"FAIL -    {name}")
        given = [f"{key}={os.environ[key]}" for key in ("BUILD", "HALOCONV", "HC_TEST_BACKEND", "CUDA_ON_CPU_SEED")
                 if os.environ.get(key)]
        print("    again:", *map(shlex.quote, given), f"HC_TEST_SEED={SEED} tests/run", shlex.quote(report.nodeid),
              flush=True)
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
class ForkServer:
    """A program that has been loaded and waits before main(); each run is a fork of it. tests/tools/fork_server.c."""
    LIBRARY = BUILD / "tests/fork_server.so"
    LIMIT = 1 << 16  # bytes of a request
    lock = threading.Lock()
    servers = {}  # {what the loader reads, and the namespace: its server, or None if there can be none}

    def __init__(self):
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        env = {**os.environ, "LD_PRELOAD": f"{self.LIBRARY}", "FORK_SERVER_FD": str(theirs.fileno()),
               "ASAN_OPTIONS": f"{os.environ.get('ASAN_OPTIONS', '')}:verify_asan_link_order=0"}
        self.process = subprocess.Popen([str(HALOCONV)], env=env, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.process.kept = True
        theirs.close()

    @classmethod
    def of_now(cls):
        """The server for the present environment and mount namespace, or None."""
        read_at_start = r"(LD_|ASAN_|UBSAN_|LSAN_|MALLOC_|OMP_|GOMP_|GLIBC_).*"
        key = (*((k, v) for k, v in sorted(os.environ.items()) if re.fullmatch(read_at_start, k)),
               os.readlink("/proc/self/ns/mnt"), os.readlink("/proc/self/ns/ipc"))
        if key not in cls.servers:
            there = cls.LIBRARY.exists() and "LD_PRELOAD" not in os.environ and "thread" not in SAN
            cls.servers[key] = cls() if there else None
        server = cls.servers[key]
        if server and server.process.poll() is not None:
            server = cls.servers[key] = None
        return server

    @classmethod
    def run_now(cls, words, text, timeout):
        """The finished process, as of subprocess.run(); None: there is no server for it, or it is busy."""
        if not cls.lock.acquire(blocking=False):
            return None
        try:
            server = cls.of_now()
            return server.run(words, text, timeout) if server else None
        except BaseException:  # its socket may have an answer that nobody has read
            server.process.kill()
            raise
        finally:
            cls.lock.release()

    def run(self, words, text, timeout):
        request = [os.getcwd(), str(len(words)), *words, *(f"{k}={v}" for k, v in os.environ.items())]
        request = b"".join(os.fsencode(word) + b"\0" for word in request)
        if len(request) > self.LIMIT:
            return None
        pipes = [os.pipe(), os.pipe()]
        read = {ours: [] for ours, _ in pipes}
        try:
            socket.send_fds(self.socket, [request], [theirs for _, theirs in pipes])
            pid = self.socket.recv(4)
        except OSError:
            pid = b""
        for _, theirs in pipes:
            os.close(theirs)
        try:
            if not pid:
                return None
            end, is_open = time.monotonic() + timeout, set(read)
            while is_open:
                ready = select.select(is_open, [], [], max(end - time.monotonic(), 0))[0]
                if not ready:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(int.from_bytes(pid, sys.byteorder), signal.SIGKILL)
                    raise subprocess.TimeoutExpired(words, timeout)
                for ours in ready:
                    read[ours].append(os.read(ours, 1 << 16))
                    if not read[ours][-1]:
                        is_open.remove(ours)
            self.socket.settimeout(max(end - time.monotonic(), 1))
            status = self.socket.recv(4)
            assert len(status) == 4, "the fork server has ended"
            self.socket.settimeout(None)
        finally:
            for ours in read:
                os.close(ours)
        out = [b"".join(parts) for parts in read.values()]
        if text:
            out = [io.TextIOWrapper(io.BytesIO(said)).read() for said in out]
        return subprocess.CompletedProcess(words, os.waitstatus_to_exitcode(int.from_bytes(status, sys.byteorder)), *out)


def haloconv(*args, **kwargs):
    """Run the program; its output as bytes or (text=True, the default) text. Never longer than `timeout` seconds.
    Without another argument for subprocess.run() it may be a fork of a program that is loaded."""
    kwargs.setdefault("timeout", 300)
    kwargs.setdefault("text", True)
    if set(kwargs) == {"timeout", "text"}:
        done = ForkServer.run_now([str(HALOCONV), *map(str, args)], **kwargs)
        if done:
            return done
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


def measured(*args, **kwargs):
    """Run; the finished process, and the peak memory of the program in MB."""
    done = subprocess.run([str(BUILD / "tests/measure"), "usage", str(HALOCONV), *map(str, args)], timeout=300,
                          **{"stdin": subprocess.DEVNULL, "check": False, **kwargs})
    return done, float(pathlib.Path("usage").read_text(encoding="utf-8").split()[2])


def peak_mb(*args, **kwargs):
    """Run and demand success; the peak memory of the program in MB."""
    return measured(*args, check=True, **kwargs)[1]


def has_cuda():
    if not hasattr(has_cuda, "answer"):
        has_cuda.answer = "cuda:0" in haloconv("devices").stdout
    return has_cuda.answer


def pytest_generate_tests(metafunc):
    """A test with a parameter `backend` runs on each backend. Without a device it is skipped on cuda, or fails if
    HC_TEST_BACKEND asks for cuda."""
    if "backend" in metafunc.fixturenames:
        metafunc.parametrize("backend", [ONLY] if ONLY else ["cpu", "cuda"])


@pytest.fixture(autouse=True)
def device(request):
    params = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    if params.get("backend") == "cuda" and not has_cuda():
        if ONLY == "cuda":
            pytest.fail("no CUDA device")
        pytest.skip("no CUDA device")


# ---- processes ------------------------------------------------------------------------------------------------------
class Popen(subprocess.Popen):
    """A process that ends with the test that started it, also if the test fails before it can stop it; with `kept` set,
    at the end of all tests."""
    started = []
    kept = False

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        Popen.started.append(self)

    def end(self):
        with contextlib.suppress(ProcessLookupError):
            is_leader = self.poll() is None and os.getpgid(self.pid) == self.pid
            for how in (signal.SIGTERM, signal.SIGKILL):
                if self.poll() is None:
                    (os.killpg if is_leader else os.kill)(self.pid, how)
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        self.wait(10)


subprocess.Popen = Popen


def end_processes(kept):
    """Ends those that run; with kept=False not those that are kept."""
    running = [process for process in Popen.started if process.poll() is None]
    Popen.started = [process for process in running if process.kept and not kept]
    for process in running:
        if process not in Popen.started:
            process.end()


@pytest.fixture(autouse=True)
def processes():
    before = [process for process in Popen.started if process.poll() is None]  # those of a module
    Popen.started = []
    yield
    end_processes(kept=False)
    Popen.started += before


def pytest_sessionfinish():
    end_processes(kept=True)


# ---- random numbers: HC_TEST_SEED changes all that a test draws; 0: the same numbers in every run ---------------------
def generator(seed):
    """numpy's generator of random numbers, for a seed of the test."""
    return np.random.default_rng(seed + SEED)


def chance(name):
    """Python's generator of random numbers, for a name or number of the test."""
    return random.Random(f"{name} {SEED}" if SEED else name)


# ---- sounds ---------------------------------------------------------------------------------------------------------
def noise(n_frames, n_channels=1, seed=1, scale=0.25):
    """[n_frames][n_channels] float32 noise in -scale...scale."""
    return (generator(seed).uniform(-scale, scale, (n_frames, n_channels))).astype(np.float32)


def write(path, x, rate=48000, subtype="FLOAT", format=None):
    soundfile.write(str(path), x, rate, subtype=subtype, format=format)
    return path


def read(path):
    return soundfile.read(str(path), dtype="float64", always_2d=True)[0]


def residual_db(got, want):
    """The largest error beside the largest sample, in dB."""
    return 20 * np.log10(np.abs(got - want).max() / np.abs(want).max() + 1e-15)


def assert_close(got, want, share=PEAK_SHARE, quantum=0.0):
    """Within share of the peak (and a quantum of the file format); NaN is not."""
    want = np.asarray(want, np.float64)
    want = want[:, None] if want.ndim == 1 else want
    assert got.shape == want.shape, f"got {got.shape} frames and channels, want {want.shape}"
    error = np.abs(got - want)
    allowed = share * np.abs(want).max() + quantum
    if not (error <= allowed).all():
        frame, ch = np.unravel_index(np.argmax(np.where(np.isnan(error), np.inf, error)), error.shape)
        raise AssertionError(f"channel {ch}, frame {frame} of {len(want)}: got {got[frame, ch]!r}, "
                             f"want {want[frame, ch]!r}, off by {error[frame, ch]:.3g}, allowed {allowed:.3g}; "
                             f"{(~(error <= allowed)).sum()} samples are off")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The test runs in a new folder; at the end no partly written file may be there."""
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    left = [p.name for p in tmp_path.iterdir() if p.name.endswith(".part")]
    assert not left, f"left behind: {left}"


sys.dont_write_bytecode = True
