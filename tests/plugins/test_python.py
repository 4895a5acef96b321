"""The Python module: compared with scipy on every backend, and its structs and calls with the headers."""

import ast
import ctypes
import importlib
import inspect
import os
import pickle
import re
import subprocess
import sys
import threading
import time
import typing
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.signal
import soundfile
from conftest import BUILD, ROOT, SAN, assert_close, noise


@pytest.fixture(scope="module")
def hc():
    if SAN:
        pytest.skip("a sanitized library needs a sanitized Python")
    os.environ["HALOCONV_LIBRARY"] = str(BUILD / "libhaloconv.so")
    sys.path.insert(0, str(ROOT / "plugins/python"))
    import haloconv
    return haloconv


@pytest.fixture
def patches(hc):
    return importlib.import_module("haloconv_adapters.patches")


def close(got, want):
    want = np.asarray(want)
    assert got.shape == want.shape and got.dtype == np.float32, f"got {got.shape} {got.dtype}, want {want.shape}"
    assert_close(got.reshape(len(got), -1), want.reshape(len(want), -1))


def reference(x, h):
    return scipy.signal.fftconvolve(x.astype(np.float64), h.astype(np.float64))


@pytest.mark.parametrize("n,k", [(1, 1), (5, 9), (1000, 1), (4096, 4097), (50000, 30000), (300000, 100)])
def test_convolve_is_scipys(hc, backend, n, k):
    x, h = noise(n, seed=n)[:, 0], noise(k, seed=k)[:, 0]
    want = reference(x, h)
    close(hc.convolve(x, h, backend=backend), want)
    close(hc.convolve(x, h, mode="causal", backend=backend), want[:n])
    close(hc.convolve(x, h, mode="same", backend=backend), want[(k - 1) // 2:][:n])
    close(hc.convolve(x.astype(np.float64), list(map(float, h)), backend=backend), want)
    close(hc.convolve(x, h, mode="same", backend=backend, method="fft"), want[(k - 1) // 2:][:n])  # by an engine


def test_short_sounds_open_no_engine(hc, monkeypatch):
    monkeypatch.setattr(hc._streams, "Stream", lambda *_args, **_options: pytest.fail("an engine was opened"))
    hc.convolve(noise(16000), noise(4000))
    hc.convolve(noise(16000, 2), noise(4000, 4))  # true stereo


def copied(value):
    return pickle.loads(pickle.dumps(value))


def test_what_a_worker_needs_can_be_pickled(hc, tmp_path):
    (tmp_path / "ring.csv").write_text("file,azimuth,elevation\n" + "".join(f"{i}.wav,{45 * i},0\n" for i in range(8)))
    for i in range(8):
        soundfile.write(tmp_path / f"{i}.wav", noise(100, 2, seed=i), 48000, subtype="FLOAT")
    way = np.arange(0, 360, 9.0)
    ring = noise(800).reshape(8, 1, 100), 44100, [(45 * i, 0) for i in range(8)]
    banks = [hc.Bank(tmp_path / "ring.csv"), hc.Bank(*ring)]
    for bank in banks:
        other = copied(bank)
        assert (other.rate, other.notes, other.gain_db) == (bank.rate, bank.notes, bank.gain_db)
        assert (other.responses == bank.responses).all() and (other.positions == bank.positions).all()
        assert all((a == b).all() for angle in way for a, b in zip(other.mix(angle), bank.mix(angle)))
        again = copied(other)  # a worker passes it on
        assert all((a == b).all() for angle in way for a, b in zip(again.mix(angle), bank.mix(angle)))
    bank = hc.Bank(noise(800).reshape(8, 100))  # without positions or rate
    assert (copied(bank).responses == bank.responses).all() and copied(bank).rate is None
    error = copied(hc.Error(-2, "no memory for a mask"))
    assert (error.code, str(error)) == (-2, "no memory for a mask")
    with hc.Stream(1, max_taps=10, backend="cpu") as stream:
        for value in (stream, stream.mask(np.ones(10))):
            with pytest.raises(TypeError, match="cannot be pickled"):
                pickle.dumps(value)


def test_channel_rule(hc, backend):
    x, h = noise(5000, 2, seed=1), noise(700, 4, seed=2)
    one = [[reference(x[:, i], h[:, m]) for m in range(4)] for i in range(2)]
    close(hc.convolve(x, h[:, 0], backend=backend), np.stack([one[0][0], one[1][0]], 1))
    close(hc.convolve(x, h[:, :2], backend=backend), np.stack([one[0][0], one[1][1]], 1))
    close(hc.convolve(x[:, :1], h, backend=backend), np.stack(one[0], 1))
    close(hc.convolve(x[:, 0], h, backend=backend), np.stack(one[0], 1))
    close(hc.convolve(x, h, backend=backend), np.stack([one[0][0] + one[1][2], one[0][1] + one[1][3]], 1))
    matrix = noise(300, 6, seed=3).reshape(300, 2, 3)
    want = np.stack([sum(reference(x[:, i], matrix[:, i, o]) for i in range(2)) for o in range(3)], 1)
    close(hc.convolve(x, matrix, backend=backend), want)
    with pytest.raises(ValueError, match="h has 3 channels, but the sound has 2"):
        hc.convolve(x, h[:, :3], backend=backend)


def test_arrays_of_any_layout(hc):
    x = noise(3000, 4, seed=4)
    h = noise(50, seed=5)[:, 0]
    want = np.stack([reference(x[::2, ch], h) for ch in (3, 1)], 1)
    close(hc.convolve(x[::2, 3::-2], h, backend="cpu"), want)
    close(hc.convolve(np.asfortranarray(x[::2, 3::-2]), h, backend="cpu"), want)


def test_arrays_reach_c_aligned(hc):
    """A view of a file's bytes may begin at any address; C reads floats."""
    x = np.frombuffer(b"x" + noise(100, seed=6)[:, 0].astype(np.float32).tobytes(), np.float32, offset=1)
    assert not x.flags.aligned
    planar = hc._streams._planar(x)
    assert planar.flags.aligned and (planar[0] == x).all()
    for h in (x, x.reshape(100, 1, 1)):
        (_, _, taps), = hc._streams._routes(h, 1)[0]
        assert taps.flags.aligned and (taps == x).all()


def test_stream_goes_on_and_swaps(hc, backend):
    """Calls of any length are one stream; a swap keeps the history and fades over fade_frames."""
    x, a, b = noise(6000, seed=6)[:, 0], noise(900, seed=7)[:, 0], noise(400, seed=8)[:, 0]
    with hc.Stream(1, max_taps=900, block=64, fade_frames=100, backend=backend) as stream:
        assert stream.latency == 0 and stream.info["backend"] == backend
        stream.swap(a)
        got = [stream.process(x[:1]), stream.process(x[1:1000]), stream.process(x[1000:3000])]
        ready = stream.mask(b)
        stream.swap(ready)
        got += [stream.process(x[3000:3000]), stream.process(x[3000:])]
        info = stream.info
        assert info["swaps"] == 2 and info["frames"] == 6000 and 3000 <= info["swap_frame"] <= 3000 + info["swap_delay"]
        stream.reset()
        close(stream.process(x), reference(x, b)[:6000])
    old, new = reference(x, a)[:6000], reference(x, b)[:6000]
    t = np.clip((np.arange(6000) - info["swap_frame"] + 1.0) / 101, 0, 1)
    share = t * t * (3 - 2 * t)
    close(np.concatenate(got), old + share * (new - old))


def test_masks_are_made_while_a_stream_plays(hc):
    x = noise(200 * 64, 2, seed=9)
    with hc.Stream(2, max_taps=2000, block=64, backend="cpu") as stream:
        done = threading.Event()

        def change():
            for seed in range(30):
                stream.swap(noise(2000, 2, seed=seed, scale=0.01))
            done.set()

        thread = threading.Thread(target=change)
        thread.start()
        while not done.is_set():
            assert np.isfinite(stream.process(x)).all()
        thread.join()
        stream.process(x)
        stream.reset()
        want = np.stack([reference(x[:, ch], noise(2000, 2, seed=29, scale=0.01)[:, ch])[:len(x)] for ch in range(2)],
                        1)
        close(stream.process(x), want)


def test_refusals_are_exceptions(hc):
    with pytest.raises(hc.Error, match="NaN") as error:
        hc.convolve(np.ones(10), [1, np.nan], backend="cpu")
    assert error.value.code == -1
    with pytest.raises(hc.Error, match="tpu"):
        hc.convolve(np.ones(10), np.ones(2), backend="tpu")
    for bad in (np.ones((2, 2, 2, 2)), np.ones((0,))):
        with pytest.raises(ValueError):
            hc.convolve(np.ones(10), bad, backend="cpu")
    with pytest.raises(ValueError, match="mode"):
        hc.convolve(np.ones(10), np.ones(2), mode="valid", backend="cpu")
    with hc.Stream(2, max_taps=10, backend="cpu") as stream, hc.Stream(2, max_taps=10, backend="cpu") as other:
        with pytest.raises(ValueError, match="channels"):
            stream.process(np.ones((5, 3)))
        with pytest.raises(ValueError, match="another stream"):
            stream.swap(other.mask(np.ones(3)))
        with pytest.raises(hc.Error, match="max_taps is 10"):
            stream.mask(np.ones(11))


def test_channels_first_is_warned_of(hc):
    with pytest.warns(UserWarning, match=r"101 channels of 100 frames; give \[frames, channels\]"):
        hc.convolve(np.ones((100, 101)), [1.0], backend="cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hc.convolve(np.ones((100, 100)), [1.0], backend="cpu")
        hc.convolve(np.ones((10, 64)), [1.0], backend="cpu")


CLOSED = {
    "process": lambda hc, s: s.process(np.ones(10)),
    "swap": lambda hc, s: s.swap([1.0]),
    "fade to silence": lambda hc, s: s.swap(None),
    "mask": lambda hc, s: s.mask([1.0]),
    "reset": lambda hc, s: s.reset(),
    "info": lambda hc, s: s.info,
    "latency": lambda hc, s: s.latency,
    "with": lambda hc, s: s.__enter__(),
}


@pytest.mark.parametrize("call", CLOSED)
def test_a_closed_stream_says_so(hc, call):
    stream = hc.Stream(1, max_taps=10, backend="cpu")
    mask = stream.mask([1.0])
    stream.close()
    stream.close()
    with pytest.raises(ValueError, match="closed; open another"):
        CLOSED[call](hc, stream)
    del mask, stream


def test_a_stream_that_never_opened_goes_quietly(hc):
    """An exception in the finalizer would be printed on standard error, where no caller can catch it."""
    code = "import haloconv\ntry: haloconv.Stream(1, bogus=1)\nexcept TypeError: pass"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT / "plugins/python", capture_output=True, text=True,
                          check=True)
    assert done.stderr == ""


def test_threads_may_share_a_stream_and_close_it(hc):
    """Calls of process take turns; close waits for those that are under way."""
    x, seen = noise(3000, seed=1)[:, 0], []
    for _ in range(5):
        stream = hc.Stream(1, max_taps=20000, block=64, backend="cpu")
        stream.swap(noise(20000, seed=2)[:, 0])
        started = threading.Barrier(4)

        def play(stream=stream, started=started):
            started.wait()
            try:
                while True:
                    seen.append(np.isfinite(stream.process(x)).all())
                    stream.swap([1.0])
            except ValueError as error:
                assert "closed" in str(error)

        threads = [threading.Thread(target=play) for _ in range(3)]
        for thread in threads:
            thread.start()
        started.wait()
        while not seen:
            time.sleep(0.001)
        stream.close()
        for thread in threads:
            thread.join()
    assert all(seen)


def test_numbers_are_not_cut_to_32_bits(hc):
    with hc.Stream(1, max_taps=10, backend="cpu") as stream, pytest.raises(ValueError, match="delay"):
        stream.mask([1.0], delay=2**32)
    for name in ("max_taps", "n_threads", "fade_frames"):
        with pytest.raises(ValueError, match=name):
            hc.Stream(1, backend="cpu", **{name: 2**32 + 10})


@pytest.mark.parametrize("method", ["auto", "fft"])  # without and with an engine
def test_convolve_refuses_a_wrong_rate(hc, method):
    for rate, error, text in ((-1, hc.Error, "rate is -1 Hz; give a positive rate"), (2**33, ValueError, "too large"),
                              (44100.5, TypeError, ""), ("48000", TypeError, "")):
        with pytest.raises(error, match=text) as caught:
            hc.convolve(np.ones(9), np.ones(3), method=method, rate=rate, backend="cpu")
        assert getattr(caught.value, "code", -1) == -1


def test_arrays_that_hold_no_sound_are_refused(hc):
    for shape in [(5, 0), (0, 1, 1), (5, 1, 0), (5, 0, 1), ()]:
        with pytest.raises(ValueError, match="h has"):
            hc.convolve(np.ones(10), np.ones(shape), backend="cpu")
    with pytest.raises(ValueError, match="sound has shape"):
        hc.convolve(np.ones((10, 0)), np.ones(3), backend="cpu")
    for x, h in [(np.ones(5, complex), np.ones(3)), (np.ones(5), np.ones(3, complex))]:
        with pytest.raises(TypeError, match="complex"):
            hc.convolve(x, h, backend="cpu")


@pytest.fixture
def reverb(hc, patches, tmp_path, monkeypatch):
    """(A project, a function that installs a release of it): its adapter, too, is made here."""
    (tmp_path / "reverb.py").write_text("class Room:\n  def play(self): return 'own'\ndef convolve(): return 'own'\n"
                                        "again = convolve\n")
    folder = tmp_path / "adapters"
    folder.mkdir()
    (folder / "reverb.py").write_text(
        "def convolve(theirs):\n  return lambda: 'ours of ' + theirs()\n"
        "def play(theirs):\n  return lambda self: 'ours of ' + theirs(self)\n"
        "def replacements():\n"
        "  return {'reverb:convolve': (convolve, None), 'reverb:again': (convolve, None), "
        "'reverb:Room.play': (play, None)}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(patches.projects, "__path__", [str(folder)])
    monkeypatch.setitem(patches.PROJECTS, "reverb", patches.projects.Project("py-reverb", "1.9 to 1.11"))
    installed = patches.importlib.metadata.version

    def install(version):
        monkeypatch.setattr(patches.importlib.metadata, "version",
                            lambda name: version if name == "py-reverb" else installed(name))

    install("1.10.2")
    yield importlib.import_module("reverb"), install
    hc.unpatch("reverb")
    sys.modules.pop("reverb")
    sys.modules.pop("haloconv_adapters.projects.reverb", None)


def test_a_project_convolves_by_haloconv_until_it_is_unpatched(hc, reverb):
    project = reverb[0]
    own = project.convolve
    said = lambda: {project.convolve(), project.again(), project.Room().play()}
    with hc.patch("reverb") as names:
        assert said() == {"ours of own"} and names == ["reverb.convolve", "reverb.again", "Room.play"]
        assert project.convolve is project.again
        assert pickle.loads(pickle.dumps(project.convolve)) is project.convolve  # by the project's name
    assert said() == {"own"} and project.convolve is own
    hc.patch("reverb")
    assert said() == {"ours of own"}
    hc.unpatch("reverb")
    hc.unpatch("reverb")
    assert said() == {"own"}


def test_the_last_block_of_a_patch_ends_it(hc, reverb):
    project = reverb[0]
    outer, inner = hc.patch("reverb"), hc.patch("reverb")
    with inner:
        with outer:
            pass
        assert project.convolve() == "ours of own"
    assert project.convolve() == "own"
    hc.patch("reverb")  # without a block: until unpatch()
    with hc.patch("reverb") as names:
        assert len(names) == 3
    assert project.convolve() == "ours of own"
    with hc.patch("reverb"):
        hc.unpatch("reverb")
        assert project.convolve() == "own"
        hc.patch("reverb")
    assert project.convolve() == "ours of own"  # the end of a block of an earlier patch
    with pytest.raises(TypeError, match="not callable"):  # a decorator would end the patch once a call
        hc.patch("reverb")(lambda: None)


def test_a_library_that_is_absent_or_damaged_is_an_error_with_a_remedy(hc, monkeypatch, tmp_path):
    (tmp_path / "damaged.so").write_bytes(b"no library")
    for path in ("/nowhere/libhaloconv.so", str(tmp_path / "damaged.so")):
        monkeypatch.setenv("HALOCONV_LIBRARY", path)
        with pytest.raises(OSError, match=f"{path}: .*; set HALOCONV_LIBRARY to the path"):
            hc._library._load()


# ---- haloconv-adapters -----------------------------------------------------------------------------------------------
def alone(*arguments, folder):
    """Run Python with the packages in a folder."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "HALOCONV_LIBRARY": str(BUILD / "libhaloconv.so")}
    return subprocess.run([sys.executable, *arguments], env=environment, cwd="/", capture_output=True, text=True,
                          check=False)


def test_the_core_imports_no_adapter(hc):
    code = """if True:
        import importlib, sys
        from haloconv import *
        for name in ("torch", "jax"):
            try:
                importlib.import_module(f"haloconv.{name}")
            except ImportError:
                pass
        unpatch("scipy")
        adapters = [name for name in sys.modules if name.startswith("haloconv_adapters")]
        print(convolve([1.0, 2.0], [3.0]).tolist(), adapters)"""
    done = alone("-c", code, folder=ROOT / "plugins/python")
    assert done.stdout == "[3.0, 6.0] []\n", done.stderr


@pytest.mark.parametrize("text", ["haloconv.patch('scipy')", "haloconv.ray", "from haloconv.ray import Reverb",
                                  "import haloconv.curator"])
def test_without_the_adapters_the_core_names_their_package(hc, tmp_path, text):
    (tmp_path / "haloconv").symlink_to(ROOT / "plugins/python/haloconv")
    done = alone("-c", f"import haloconv\nhaloconv.unpatch('scipy')\n{text}", folder=tmp_path)
    says = ("haloconv.patch, haloconv.ray and haloconv.curator need the package haloconv-adapters; "
            "pip install 'haloconv[adapters]'")
    assert done.stderr.splitlines()[-1] == f"ModuleNotFoundError: {says}" and "During handling" not in done.stderr
    done = alone("-m", "haloconv.ray", "list.csv", "-o", "out", folder=tmp_path)
    assert (done.returncode, done.stderr) == (1, f"haloconv: error: {says}\n")


def test_an_adapter_whose_project_is_missing_names_the_project(hc, tmp_path):
    for name in ("haloconv", "haloconv_adapters"):
        (tmp_path / name).symlink_to(ROOT / "plugins/python" / name)
    (tmp_path / "nemo_curator").mkdir()
    (tmp_path / "nemo_curator/__init__.py").write_text("import of_curator")
    done = alone("-c", "import haloconv.curator", folder=tmp_path)
    assert re.fullmatch("ModuleNotFoundError: No module named '(of_curator|torch)'", done.stderr.splitlines()[-1])


def test_the_core_keeps_the_private_names_that_the_adapters_use(hc):
    """Both have releases of their own."""
    used, kept = set(), ast.get_docstring(ast.parse((ROOT / "plugins/python/haloconv/_adapters.py").read_text()))
    for path in (ROOT / "plugins/python/haloconv_adapters").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                used |= {f"{node.module}.{one.name}" for one in node.names}
    used = {name for name in used if re.match(r"haloconv\b.*\._", name)}
    assert "haloconv._program.find" in used
    assert used == set(re.findall(r"\bhaloconv\.[\w.]*\w", kept))


def test_fftconvolve_has_the_types_of_scipy(hc):
    ours = importlib.import_module("haloconv_adapters.projects._scipy").convolver(scipy.signal.fftconvolve)
    x, h = noise(300)[:, 0], noise(20)[:, 0]
    for a, b in [("f4", "f4"), ("f4", "f8"), ("f2", "f2"), ("f4", "f2"), ("i2", "f4"), ("i2", "i2"), ("c8", "f4")]:
        own = scipy.signal.fftconvolve(x.astype(a), h.astype(b))
        assert ours(x.astype(a), h.astype(b)).dtype == own.dtype


def test_unpatching_leaves_what_others_put_over_ours(hc, reverb, monkeypatch):
    project = reverb[0]
    monkeypatch.setattr(project, "convolve", lambda: "other")
    with hc.patch("reverb"):
        assert project.convolve() == "ours of other"  # what stood there when it was patched
        ours = project.convolve
        monkeypatch.setattr(project, "convolve", lambda: "wrapped " + ours())
        with pytest.raises(RuntimeWarning, match=r"replaced reverb\.convolve since"), warnings.catch_warnings():
            warnings.simplefilter("error")  # nothing else is left replaced
            hc.unpatch("reverb")
    assert project.convolve() == "wrapped ours of other" and project.again() == project.Room().play() == "own"


def test_a_project_that_is_unknown_or_absent_is_refused(hc, patches, reverb, monkeypatch):
    adapter = Path(patches.projects.__path__[0], "reverb.py")
    adapter.write_text("import reverb.of_another_release\n" + adapter.read_text())  # not imported
    with pytest.raises(ValueError, match="known are .*reverb"):
        hc.patch("rverb")
    monkeypatch.setitem(patches.PROJECTS, "reverb", patches.projects.Project("no-reverb", "1.9 to 1.11"))
    with pytest.raises(ModuleNotFoundError, match=r"no-reverb is not installed; install it \(tried: 1\.9 to 1\.11\)"):
        hc.patch("reverb")
    assert reverb[0].convolve() == "own"


def test_the_releases_that_were_tried_are_documented(patches):
    text = " ".join(sys.modules["haloconv_adapters"].__doc__.split())
    for package, tried in patches.PROJECTS.values():
        assert f"{package} {tried}" in text


REVERB = "import numpy\ndef convolve(x, h, mode='full', rate=1): return numpy.convolve(x, h, mode)\n"
ADAPTER = """
import numpy
def make(theirs):
  def convolve(x, h, mode='full', rate=1): return numpy.convolve(h, x, mode)
  return convolve
def trial(function): return [function(numpy.arange(9.), numpy.arange(1., 4)), numpy.ones(3)]
def replacements(): return {'reverb.dsp:convolve': (make, trial), 'reverb.dsp:Room.play': (lambda theirs: theirs, None)}
"""


@pytest.fixture
def release(hc, patches, reverb, tmp_path):
    """A function that writes reverb/dsp.py of a release."""
    def write(text, adapter=ADAPTER):
        folder = tmp_path / "reverb"
        folder.mkdir(exist_ok=True)
        (folder / "__init__.py").touch()
        (folder / "dsp.py").write_text(text)
        Path(patches.projects.__path__[0], "reverb.py").write_text(adapter)
        for name in ("reverb", "reverb.dsp", "haloconv_adapters.projects.reverb"):
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        sys.dont_write_bytecode = True  # two releases of one second
        return importlib.import_module("reverb.dsp")
    before = sys.dont_write_bytecode
    yield write
    hc.unpatch("reverb")
    sys.modules.pop("reverb.dsp", None)
    sys.dont_write_bytecode = before


ROOM = "class Room:\n  def play(self): pass\n"


@pytest.mark.parametrize("version", ["0.1", "1.9rc1", "2", "0+unknown", None])
def test_any_release_that_fits_is_patched(hc, reverb, release, version):
    reverb[1](version)
    wrapper = "def wrapped(own): return lambda *given, **options: own(*given, **options)\nconvolve = wrapped(convolve)\n"
    for text in (REVERB, REVERB + wrapper, REVERB.replace("convolve(x, h, mode='", "convolve(x: 'a sound', h, mode='")):
        project = release(text + ROOM)
        own = project.convolve
        with hc.patch("reverb"):
            assert project.convolve is not own
        assert project.convolve is own


@pytest.mark.parametrize("before, after, why", [
    ("h, mode='full'", "kernel, mode='full'", r"dsp\.convolve has the argument 'kernel', where haloconv expects 'h'"),
    ("x, h,", "h, x,", "has the argument 'h', where haloconv expects 'x'"),
    ("mode='full'", "mode='same'", "the argument \"mode='same'\", where haloconv expects \"mode='full'\""),
    (", rate=1", "", "dsp.convolve has no argument rate"),
    (", rate=1", ", rate=1, gain=1", "has an argument gain, which haloconv does not know"),
    ("x, h, mode)", "x, h, mode) * 1.0001", "for a small signal differ by 0.0001 of their peak"),
    ("x, h, mode)", "x, h, mode) * float('nan')", "differ by nan of their peak"),
    ("x, h, mode)", "x, h, mode)[1:]", r"returns float64 \(10,\) for a small signal, and haloconv float64 \(11,\)"),
    ("x, h, mode)", "x, h, mode).astype('f4')", r"returns float32 \(11,\)"),
    ("x, h, mode)", "x, h, 'none')", "dsp.convolve, called with a small signal: ValueError: mode"),
    ("x, h, mode)", "x, h, mode), 1", r"dsp\.convolve.* a small signal"),
    ("def convolve", "convolve = 7\ndef fold", r"dsp\.convolve does not tell its arguments \(7 is not a callable"),
    ("convolve(x, h", "fold(x, h", "reverb.dsp has no convolve"),
    ("class Room", "class Hall", "reverb.dsp has no Room.play"),
    ("def play", "def stop", "reverb.dsp has no Room.play")])
def test_a_release_that_does_not_fit_is_refused_with_the_reason(hc, release, before, after, why):
    project = release((REVERB + ROOM).replace(before, after))
    kept = dict(vars(project))
    with pytest.raises(RuntimeError, match=r"^patch\('reverb'\): py-reverb 1\.10\.2: .*" + why + r".*; install a "
                       r"release that was tried \(1\.9 to 1\.11\)"):
        hc.patch("reverb")
    assert dict(vars(project)) == kept


def test_a_release_without_a_module_is_refused_and_other_failures_stay(hc, release):
    release(REVERB, ADAPTER.replace("reverb.dsp:Room", "reverb.rooms:Room"))
    with pytest.raises(RuntimeError, match="there is no module reverb.rooms; install"):
        hc.patch("reverb")
    release(REVERB + ROOM)
    sys.modules.pop("reverb.dsp")
    Path(sys.modules["reverb"].__path__[0], "dsp.py").write_text("import of_reverb\n")
    with pytest.raises(ModuleNotFoundError, match="of_reverb"):
        hc.patch("reverb")


def test_functions_of_a_replaced_module_are_checked(hc, release):
    adapter = ("import numpy, types\nfrom haloconv_adapters.projects._scipy import convolver, trial, with_functions\n"
               "def make(theirs): return with_functions(theirs, convolve=convolver(theirs.convolve))\n"
               "def replacements(): return {'reverb.dsp:signal': (make, lambda signal: trial(signal.convolve))}\n")
    project = release("import scipy.signal as signal\n", adapter)
    with hc.patch("reverb") as names:
        assert names == ["reverb.dsp.signal"] and project.signal is not scipy.signal
    own = "import types\ndef convolve(in1, kernel, mode='full'): pass\nsignal = types.ModuleType('signal')\n"
    release(own + "signal.convolve = convolve\n", adapter)
    with pytest.raises(RuntimeError, match="signal.convolve has the argument 'kernel', where haloconv expects 'in2'"):
        hc.patch("reverb")


def test_scipy_convolves_by_haloconv(hc, monkeypatch):
    """Values and types are scipy's; scipy computes what haloconv does not, and refuses in its words."""
    seen, adapter = [], importlib.import_module("haloconv_adapters.projects._scipy")
    ours = adapter.convolve_tensors
    monkeypatch.setattr(adapter, "convolve_tensors", lambda *given: seen.append(1) or ours(*given))
    x, h = noise(300)[:, 0], noise(20)[:, 0]
    rows = noise(900).reshape(3, 300)
    masked = np.ma.array(x, mask=x > 0)
    fits = [(x, h), (h, x), (x.astype("f8"), h), (x.tolist(), h), (rows, h[None]), (rows[:, :7], h[None])]
    others = [(h[None], rows), (x > 0, h > 0), (rows, rows), (x + 0j, h), (x[:0], h), (masked, h)]
    names = ("convolve", "fftconvolve", "oaconvolve")
    own = {name: getattr(scipy.signal, name) for name in names}
    with hc.patch("scipy") as patched:
        assert patched == [f"scipy.signal.{name}" for name in names]
        seen.clear()
        for name in names:
            for mode in ("full", "same", "valid"):
                for a, b in [*fits, *others]:
                    results = []
                    for function in (own[name], getattr(scipy.signal, name)):
                        try:
                            results.append(function(a, b, mode))
                        except Exception as error:
                            results.append((type(error), str(error)))
                    theirs, got = results
                    if isinstance(theirs, tuple):
                        assert theirs == got
                    else:
                        assert got.dtype == theirs.dtype and got.shape == theirs.shape and type(got) is type(theirs)
                        assert got.size == 0 or abs(got.astype(complex) - theirs).max() <= 1e-5 * abs(theirs).max()
            assert len(seen) == 6 * 2 + 5 + 1  # with fewer frames than taps "valid" is scipy's; "full" takes both orders
            seen.clear()
        assert (scipy.signal.fftconvolve(rows, rows, axes=1) == own["fftconvolve"](rows, rows, axes=1)).all()
        assert scipy.signal.convolve(x, h, method="direct").dtype == np.float32 and not seen
    assert all(getattr(scipy.signal, name) is own[name] for name in names)


@pytest.mark.parametrize("kind", ["f8", "f2", "i2", "u1", ">f4", "?"])
def test_numbers_of_any_type(hc, kind):
    x, h = (np.arange(300) % 2).astype(kind), (np.arange(20) % 3 > 0).astype(kind)
    close(hc.convolve(x, h, backend="cpu"), reference(x, h))


def test_nan_in_the_sound_is_said(hc):
    x = noise(100)[:, 0]
    x[3], x[7] = np.nan, -np.inf
    with pytest.warns(RuntimeWarning, match="2 samples"):
        y = hc.convolve(x, [1.0, 0.5], backend="cpu")
    x[[3, 7]] = 0
    close(y, reference(x, np.array([1.0, 0.5])))


@pytest.mark.parametrize("taps", [300, 6000])
def test_huge_samples_leave_no_nan_in_a_stream(hc, taps):
    """Finite samples that overflow in a transform count as 0; the other channel keeps its bits."""
    x, h = noise(16000, 2, seed=61), noise(taps, 2, seed=62)
    x[3000:5000, 0] = 0
    huge = x.copy()
    huge[3000:5000, 0] = np.where(np.arange(2000) % 2, 1e38, -np.finfo(np.float32).max)
    ys = []
    for sound in (x, huge):
        with hc.Stream(2, max_taps=taps, block=64, wait_us=hc.WAIT_FOREVER) as stream:
            stream.swap(h)
            ys.append(stream.process(sound))
            assert stream.info["non_finite"] == (2000 if sound is huge else 0) and stream.info["overflowed"] == 0
    assert np.isfinite(ys[1]).all() and (ys[0][:, 1] == ys[1][:, 1]).all()
    close(ys[1], np.stack([reference(x[:, ch], h[:, ch])[:len(x)] for ch in range(2)], 1))


def test_an_overflow_is_silent_and_counted(hc):
    with hc.Stream(1, max_taps=10, block=64, backend="cpu") as stream:
        stream.swap([1e20, 0, 0, 1.0])
        y = stream.process(np.array([1e30, 1, 1, 1, 1, 0], np.float32))
        assert np.isfinite(y).all() and stream.info["overflowed"] == 1 and y[0] == 0 and y[1] == np.float32(1e20)
    for n in (100, 1 << 19):  # without an engine, and with one
        x, h = np.zeros(n, np.float32), np.ones(100, np.float32)
        x[7] = 3e38
        h[3] = 10
        with pytest.warns(RuntimeWarning, match="of the result are beyond"):
            y = hc.convolve(x, h, backend="cpu")
        assert np.isfinite(y).all(), n


def test_errors_have_the_librarys_words(hc):
    assert hc.version() == re.search(r'HC_VERSION "(.*)"', (ROOT / "dsp/haloconv.h").read_text()).group(1)
    assert str(hc.Error(-2, "")) == "out of memory" and str(hc.Error(-2, "no memory for a mask")).endswith("mask")


def test_zero_is_the_default(hc):
    """The arrays of a call have as many channels as the engine."""
    with hc.Stream(0, 0, max_taps=0, block=0, backend="cpu") as stream:
        assert (stream.n_in, stream.n_out, stream.max_taps, stream.info["block"]) == (2, 2, 48000, 64)
        assert stream.process(np.zeros((100, 2))).shape == (100, 2)
    with hc.Stream(1, max_taps=100, block=hc.BLOCK_FILES, fade_frames=hc.NO_FADE, backend="cpu") as stream:
        assert stream.info["block"] > 64 and stream.info["queue_depth"] > 0


def test_devices_are_listed(hc):
    names = [name for name, _ in hc.devices()]
    assert names[0] == "cpu" and all(name.startswith("cuda:") for name in names[1:])


def test_structures_are_the_headers(hc, folder):
    """The sizes and offsets of all fields that the module gives to ctypes are the compiler's."""
    library = hc._library
    checks = [("hc_config", library._Config), ("hc_route", library._Route), ("hc_level", library._Level),
              ("hc_info", library._Info), ("hc_steer_level", library._SteerLevel), ("hc_bank_data", library._BankData),
              ("hc_bank_options", library._BankOptions),
              ("hc_render_config", library._RenderConfig), ("hc_render_job", library._RenderJob)]
    lines = [f'printf("{name} %zu\\n", sizeof({name}));' for name, _ in checks]
    lines += [f'printf("{name}.{field[0]} %zu\\n", offsetof({name}, {field[0]}));' for name, kind in checks
              for field in kind._fields_]
    lines += ['printf("hc_step %zu\\n", sizeof(hc_step));', 'printf("HC_MAX_MIX %d\\n", HC_MAX_MIX);']
    lines += [f'printf("hc_step.{name} %zu\\n", offsetof(hc_step, {name}));' for name in library._STEP.names]
    (folder / "sizes.c").write_text('#include "haloconv_scenes.h"\n#include <stdio.h>\nint main(void) {'
                                    + "\n".join(lines) + "}\n")
    subprocess.run(["cc", "-I", str(ROOT / "dsp"), "sizes.c", "-o", "sizes"], check=True)
    seen = dict(line.split() for line in subprocess.run(["./sizes"], check=True, capture_output=True,
                                                        text=True).stdout.splitlines())
    for name, kind in checks:
        assert int(seen.pop(name)) == ctypes.sizeof(kind), name
        for field in kind._fields_:
            assert int(seen.pop(f"{name}.{field[0]}")) == getattr(kind, field[0]).offset, f"{name}.{field[0]}"
    assert int(seen.pop("hc_step")) == library._STEP.itemsize and int(seen.pop("HC_MAX_MIX")) == library._MAX_MIX
    for name in library._STEP.names:
        assert int(seen.pop(f"hc_step.{name}")) == library._STEP.fields[name][1], name
    assert not seen


def public_functions(module):
    """(name, function) of all functions and methods that the module names in __all__."""
    for name in module.__all__:
        thing = getattr(module, name)
        if inspect.isfunction(thing):
            yield name, thing
        elif inspect.isclass(thing):
            for method, what in vars(thing).items():
                what = getattr(what, "fget", None) or getattr(what, "func", what)
                if inspect.isfunction(what) and (method in ("__init__", "__enter__", "__exit__") or method[0] != "_"):
                    yield f"{name}.{method}", what


def test_public_functions_have_annotations(hc):
    """py.typed promises them. Names in them must resolve."""
    modules = [hc]
    for name in ("torch", "jax"):
        try:
            modules.append(importlib.import_module(f"haloconv.{name}"))
        except ImportError:  # without torch or JAX
            pass
    for module in modules:
        functions = dict(public_functions(module))
        assert "convolve" in functions
        for name, function in functions.items():
            hints = typing.get_type_hints(function)
            wanted = {"return", *inspect.signature(function).parameters} - {"self"}
            assert wanted <= set(hints), f"{module.__name__}.{name} lacks annotations: {wanted - set(hints)}"
    assert (ROOT / "plugins/python/haloconv/py.typed").exists()
