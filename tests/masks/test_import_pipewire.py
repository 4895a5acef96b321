"""Configurations of PipeWire's filter-chain: PipeWire itself plays them beside haloconv, with no session manager and no
sound card. Its own ports are JACK's through pw-jack, so jack_stage plays and records, to the frame.

What PipeWire 0.3.65 (Debian 12) does not have yet is compared with a recursion in float64.
"""

import ctypes
import ctypes.util
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile
import time

import numpy as np
import pytest
import scipy.signal
from conftest import BUILD, SAN, convolve, good, haloconv, noise, read, refused, residual_db, write

NULL_DB = -110
RATE = 48000
FRAMES = 8192
STAGE = BUILD / "tests/jack_stage"
PATIENCE = 120 if SAN else 60
DAEMON = """
context.properties = { core.daemon = true core.name = pipewire-0 default.clock.rate = 48000 support.dbus = false
    default.clock.quantum = 4096 default.clock.min-quantum = 4096 default.clock.max-quantum = 4096 }
context.spa-libs = { audio.convert.* = audioconvert/libspa-audioconvert support.* = support/libspa-support }
context.modules = [
    { name = libpipewire-module-protocol-native } { name = libpipewire-module-metadata }
    { name = libpipewire-module-spa-node-factory } { name = libpipewire-module-client-node }
    { name = libpipewire-module-access args = { } } { name = libpipewire-module-adapter }
    { name = libpipewire-module-link-factory }
    %s
]
context.objects = [
    { factory = metadata args = { metadata.name = default } } { factory = metadata args = { metadata.name = settings } }
    { factory = spa-node-factory args = { factory.name = support.node.driver node.name = Dummy-Driver
      node.group = pipewire.dummy priority.driver = 20000 } }
]
"""


def module(graph, n_in, n_out, name="chain", extra=""):
    """A filter-chain with ports AUX1, AUX2 ..."""
    def stream(n):
        return "audio.position = [ %s ]" % " ".join(f"AUX{i + 1}" for i in range(n))
    return (f"{{ name = libpipewire-module-filter-chain\n  args = {{ node.description = {name} {extra}\n"
            f"    filter.graph = {{\n{graph}\n    }}\n"
            f"    capture.props = {{ node.name = {name}_in node.autoconnect = false {stream(n_in)} }}\n"
            f"    playback.props = {{ node.name = {name}_out node.autoconnect = false {stream(n_out)} }} }} }}\n")


class PipeWire:
    """A daemon with filter-chains."""

    def __init__(self, modules):
        self.run = tempfile.mkdtemp(prefix="hcpw")  # a socket's path is short
        self.env = {**os.environ, "XDG_RUNTIME_DIR": self.run, "PIPEWIRE_RUNTIME_DIR": self.run, "HOME": self.run,
                    "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}
        pathlib.Path("daemon.conf").write_text(DAEMON % modules)
        self.log = open("daemon.log", "w")
        self.process = subprocess.Popen(["pipewire", "-c", os.path.abspath("daemon.conf")], env=self.env,
                                        stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
        shutil.rmtree(self.run, ignore_errors=True)

    def tool(self, *args):
        done = subprocess.run(list(map(str, args)), env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=PATIENCE, check=False)
        return done.stdout + done.stderr

    def find(self, node):
        """Waits for a node, and returns its number; None: the daemon has ended."""
        end = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            found = re.search(rf"id (\d+), type PipeWire:Interface:Node(?:(?!\tid ).|\n)*?node.name = \"{node}\"",
                              self.tool("pw-cli", "ls", "Node"))
            if found:
                return found[1]
            assert time.monotonic() < end, pathlib.Path("daemon.log").read_text()
        return None

    def open_ports(self, node, direction, n):
        """A session manager would give the streams their ports."""
        number = self.find(node)
        assert number, pathlib.Path("daemon.log").read_text()
        position = ", ".join(f'"AUX{i + 1}"' for i in range(n))
        said = self.tool("pw-cli", "s", number, "PortConfig",
                         f'{{ "direction": "{direction}", "mode": "dsp", "format": {{ "mediaType": "audio", '
                         f'"mediaSubtype": "raw", "format": "F32P", "rate": {RATE}, "channels": {n}, '
                         f'"position": [ {position} ] }} }}')
        assert "Error" not in said, said

    def play(self, x, n_out, name="chain"):
        x.astype(np.float32).tofile("x.f32")
        done = subprocess.run(["pw-jack", STAGE, "pipewire-0", "x.f32", str(x.shape[1]), f"{name}:input_AUX",
                               f"{name}:output_AUX", str(n_out), "y.f32", str(len(x))], env=self.env, check=False,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=180)
        assert done.returncode == 0, done.stderr
        return np.fromfile("y.f32", np.float32).reshape(-1, n_out).astype(np.float64)


def ours(text, x, name="chain.conf"):
    pathlib.Path(name).write_text(text)
    write("x.wav", x, RATE)
    convolve("x.wav", name, "y.wav")
    return read("y.wav")[:len(x)]


def compare(modules, x, n_out, frames=lambda name, i: slice(None)):
    """The residual of each output, in those frames of it. A machine that is too busy breaks the sound of PipeWire, not that of haloconv."""
    got = {name: ours("context.modules = [ " + text + " ]", x[:, :n_in]) for name, (text, n_in) in modules.items()}
    worst = {}
    with PipeWire("".join(text for text, _ in modules.values())) as daemon:
        for name, (_, n_in) in modules.items():
            daemon.open_ports(f"{name}_in", "Input", n_in)
            daemon.open_ports(f"{name}_out", "Output", n_out[name])
            for _ in range(5):
                want = daemon.play(x[:, :n_in], n_out[name], name)
                worst[name] = [residual_db(got[name][frames(name, i), i], want[frames(name, i), i])
                               for i in range(n_out[name])]
                if max(worst[name]) <= NULL_DB:
                    break
    return worst


# One node between each input and output of one graph. Release 0.3.65 plays a mixer with one input without its gain, and
# silence through a copy that is not linked: the matrix below has both as the manual has them. Release 1.4 computes the
# delay of a convolver in float: of the delays up to 12 frames, one of 7 is a frame less there. Its delay node, with SSE,
# reads three of four frames too late from a line that is as long as the delay: these are left out.
NODES = {
    "convolver": 'label = convolver config = { filename = "ir.wav" channel = 1 gain = 0.7 delay = 40 }',
    "a part of a file": 'label = convolver config = { filename = "ir.wav" channel = 0 offset = 100 length = 400 '
                        'blocksize = 64 tailsize = 512 }',
    "a list of files": 'label = convolver config = { filename = [ "ir-44100.wav" "ir-48000.wav" ] channel = 0 }',
    "hilbert": 'label = convolver config = { filename = "/hilbert" length = 512 }',
    "dirac": 'label = convolver config = { filename = "/dirac" gain = -0.25 delay = 8 }',
    "delay": 'label = delay config = { "max-delay" = 1 } control = { "Delay (s)" = 0.00035 }',
    "longest delay": 'label = delay config = { max-delay = 0.004 } control = { "Delay (s)" = 0.5 }',
    "lowpass": "label = bq_lowpass control = { Freq = 3000 Q = 0 }",
    "highpass": "label = bq_highpass control = { Freq = 2000.0 }",
    "bandpass": "label = bq_bandpass control = { Freq = 2500 Q = 0.8 }",
    "lowshelf": "label = bq_lowshelf control = { Freq = 2000 Gain = 6 }",
    "highshelf": "label = bq_highshelf control = { Freq = 4000 Gain = -5 }",
    "peaking": "label = bq_peaking control = { Freq = 3000 Q = 1.2 Gain = 4.5 }",
    "notch": "label = bq_notch control = { Freq = 5000 Q = 2 }",
    "allpass": "label = bq_allpass control = { Freq = 3000 Q = 0.9 }",
    "controls by index": "label = bq_peaking control = { 0 = 2500 1 = 1.1 2 = -6 }",
    "no frequency": "label = bq_highshelf control = { Gain = 6 }",
}
SURROUND = """
  nodes = [
    { type = builtin name = copyL label = copy }   # a comment, and "quotes"
    { "type": "builtin", "name": "copyR", "label": "copy" }
    { type = builtin name = LL label = convolver config = { filename = "ir.wav" channel = 0 } }
    { type = builtin name = LR label = convolver config = { filename = "ir.wav" channel = 1 } }
    { type = builtin name = RL label = convolver config = { filename = "ir.wav" channel = 2 } }
    { type = builtin name = RR label = convolver config = { filename = "ir.wav" channel = 3 } }
    { type = builtin name = mixL label = mixer control = { "Gain 1" = 0.5 "Gain 2" = -0.25 } }
    { type = builtin name = mixR label = mixer }
  ]
  links = [
    { output = "copyL:Out" input = "LL:In" } { output = "copyL:Out" input = "LR:In" }
    { output = "copyR:Out" input = "RL:In" } { output = "copyR:0" input = "RR:In" }
    { output = "LL:Out" input = "mixL:In 1" } { output = "LR:Out" input = "mixR:In 1" }
    { output = "RL:Out" input = "mixL:In 2" } { output = "RR:Out" input = "mixR:In 2" }
  ]
  inputs = [ "copyL:In" null "copyR:In" ]
  outputs = [ "mixL:Out" "mixR:Out" ]
"""
EQUALIZER = """
  nodes = [ { type = builtin name = a label = bq_lowshelf control = { Freq = 2000 Q = 0.7071067811865475 Gain = 3 } }
            { type = builtin name = b label = bq_peaking control = { Freq = 3000 Q = 1 Gain = -4 } }
            { type = builtin name = c label = convolver config = { filename = "ir.wav" } } ]
  links = [ { output = "a:Out" input = "b:In" } { output = "b:Out" input = "c:In" } ]
"""


def impulse_responses():
    ir = noise(700, 4, seed=7) * np.exp(-np.arange(700) / 150)[:, None]
    write("ir.wav", ir, RATE)
    write("ir-48000.wav", ir[:, :2], RATE)
    write("ir-44100.wav", ir[:, 2:], 44100)


@pytest.fixture
def pipewire(folder):
    """Skips without PipeWire, with one that lacks nodes, or that does not start with a filter-chain that copies."""
    if not STAGE.exists() or not all(map(shutil.which, ("pipewire", "pw-cli", "pw-jack"))):
        pytest.skip("no pipewire, pw-cli or pw-jack, or no JACK in the build")
    said = subprocess.run(["pipewire", "--version"], stdout=subprocess.PIPE, text=True, check=False).stdout
    release = re.search(r"libpipewire (\d+)\.(\d+)\.(\d+)", said)
    if release and tuple(map(int, release.groups())) < (0, 3, 65):
        pytest.skip(f"{release[0]} is older than 0.3.65")
    with PipeWire(module("nodes = [ { type = builtin name = c label = copy } ]", 1, 1)) as daemon:
        if not daemon.find("chain_in"):
            pytest.skip("PipeWire does not start: " + " ".join(pathlib.Path("daemon.log").read_text().split()))


@pytest.mark.usefixtures("pipewire")
def test_pipewire_and_haloconv_play_the_same(folder):
    """Every node in turn; a matrix with copies, mixers and an input that is ignored; a graph of one channel, which is
    made for each channel of the stream."""
    impulse_responses()
    nodes = "\n".join(f"{{ type = builtin name = n{i} {text} }}" for i, text in enumerate(NODES.values()))
    n = len(NODES)
    graph = (f"nodes = [ {nodes} ] inputs = [ " + " ".join(f'"n{i}:In"' for i in range(n)) +
             " ] outputs = [ " + " ".join(f'"n{i}:Out"' for i in range(n)) + " ]")
    modules = {"each": (module(graph, n, n, "each"), n), "matrix": (module(SURROUND, 3, 2, "matrix"), 3),
               "copies": (module(EQUALIZER, 4, 4, "copies"), 4)}
    names = {"each": list(NODES)}
    worst = compare(modules, noise(FRAMES, n, seed=3), {"each": n, "matrix": 2, "copies": 4}, lambda name, i: slice(
        3, None, 4) if names.get(name, [""] * 4)[i] == "longest delay" else slice(None))
    found = [(names.get(name, [name] * 9)[i], db)
             for name, residuals in worst.items() for i, db in enumerate(residuals)]
    assert max(db for _, db in found) <= NULL_DB, "\n".join(f"{name}: {db:.1f} dB" for name, db in found)


# ---- what PipeWire 0.3.65 does not have -----------------------------------------------------------------------------
def cookbook(kind, hz, q, gain=0.0):
    w, A = 2 * np.pi * hz / RATE, 10 ** (gain / 40)
    c, alpha = np.cos(w), np.sin(w) / (2 * q)
    root = 2 * np.sqrt(A) * alpha
    return {"lowpass": ([(1 - c) / 2, 1 - c, (1 - c) / 2], [1 + alpha, -2 * c, 1 - alpha]),
            "peaking": ([1 + alpha * A, -2 * c, 1 - alpha * A], [1 + alpha / A, -2 * c, 1 - alpha / A]),
            "lowshelf": ([A * (A + 1 - (A - 1) * c + root), 2 * A * (A - 1 - (A + 1) * c),
                          A * (A + 1 - (A - 1) * c - root)],
                         [A + 1 + (A - 1) * c + root, -2 * (A - 1 + (A + 1) * c), A + 1 + (A - 1) * c - root])}[kind]


def comb(frames, feedback, feedforward):
    b, a = np.zeros(frames + 1), np.zeros(frames + 1)
    a[0], a[frames] = 1, -feedback
    b[0], b[frames] = feedforward, 1 - feedforward * feedback
    return b, a


NEWER = {
    "invert": ("label = invert", ([-1], [1])),
    "linear": ("label = linear control = { Mult = 0.4 }", ([0.4], [1])),
    "dcblock": ("label = dcblock control = { R = 0.99 }", ([1, -1], [1, -0.99])),
    "lowpass with a q": ("label = bq_lowpass control = { Freq = 200 Q = 3 }", cookbook("lowpass", 200, 3)),
    "lowshelf with a q": ("label = bq_lowshelf control = { Freq = 90 Q = 0.5 Gain = -7 }",
                          cookbook("lowshelf", 90, 0.5, -7)),
    "raw": ("label = bq_raw config = { coefficients = [ { rate = 44100, b0 = 5 } "
            "{ rate = 48000, b0 = 1, b1 = 0.5, a0 = 2, a1 = -1.8, a2 = 0.9 } ] }", ([0.5, 0.25], [1, -0.9, 0.45])),
    "comb": ('label = delay config = { max-delay = 1 } control = { "Delay (s)" = 0.01 Feedback = 0.6 '
             "Feedforward = -0.6 }", comb(480, 0.6, -0.6)),
    "inline": ('label = convolver config = { filename = "/ir:48000,0.5,-0.25, 0.125" gain = 2 delay = 0.001 }',
               ([0] * 48 + [1, -0.5, 0.25], [1])),
}


@pytest.mark.parametrize("construct", NEWER)
def test_nodes_of_newer_releases_match_their_recursions(construct, folder):
    label, (b, a) = NEWER[construct]
    x = noise(20000, seed=5)
    ports = 'inputs = [ "n:0" ] outputs = [ "n:0" ]' if "dcblock" in label else ""
    graph = f"nodes = [ {{ type = builtin name = n {label} }} ] {ports}"
    y = ours("context.modules = [ " + module(graph, 1, 1) + " ]", x)
    db = residual_db(y[:, 0], scipy.signal.lfilter(b, a, x[:, 0].astype(float)))
    assert db <= NULL_DB, f"{db:.1f} dB"


def test_convolver2_and_parametric_equalizers_have_eight_ports(folder):
    impulse_responses()
    x, ir = noise(4000, 2, seed=8), read("ir.wav")
    graph = """
      nodes = [ { type = builtin name = eq label = param_eq config = {
                    filters1 = [ { type = bq_peaking freq = 900 gain = 5 q = 2 }
                                 { type = bq_lowpass freq = 5000 q = 0 } ]
                    filters = [ { type = bq_peaking freq = 400 gain = -3 } ] } }
                { type = builtin name = cv label = convolver2 config = { impulses = [
                    { filename = "ir.wav" channel = 2 } { filename = "ir.wav" gain = 0.5 } ] } } ]
      links = [ { output = "eq:Out 1" input = "cv:In" } ]
      inputs = [ "eq:In 1" "eq:In 2" ] outputs = [ "cv:Out 1" "cv:Out 2" "eq:Out 2" ]"""
    y = ours("{ \"context.modules\": [ " + module(graph, 2, 3) + " ] }", x)
    left = scipy.signal.lfilter(*cookbook("lowpass", 5000, np.sqrt(0.5)),
                                scipy.signal.lfilter(*cookbook("peaking", 900, 2, 5), x[:, 0].astype(float)))
    want = [np.convolve(left, ir[:, 2])[:4000], 0.5 * np.convolve(left, ir[:, 1])[:4000],
            scipy.signal.lfilter(*cookbook("peaking", 400, 1, -3), x[:, 1].astype(float))]
    assert max(residual_db(y[:, i], want[i]) for i in range(3)) <= NULL_DB


def test_copies_of_a_graph_share_their_filters(folder):
    graph = """
      nodes = [ { type = builtin name = q label = bq_peaking control = { Freq = 900 Q = 1 Gain = 3 } }
                { type = builtin name = d label = delay control = { "Delay (s)" = 0.01 Feedback = 0.5 } } ]
      links = [ { output = "q:Out" input = "d:In" } ]"""
    pathlib.Path("a.conf").write_text("context.modules = [ " + module(graph, 4, 4) + " ]")
    assert "4 responses (1 distinct)" in good("check", "a.conf").stdout


# ---- spatializers, sinks and sources --------------------------------------------------------------------------------
KEMAR = pathlib.Path("/usr/share/libmysofa/MIT_KEMAR_normal_pinna.sofa")


def mysofa_ears(path, azimuth, elevation, radius):
    """Both responses [frames][2] that libmysofa gives PipeWire, at the rate of the file."""
    mysofa = ctypes.CDLL(ctypes.util.find_library("mysofa"))
    n, error = ctypes.c_int(), ctypes.c_int()
    mysofa.mysofa_open.restype = ctypes.c_void_p
    easy = mysofa.mysofa_open(str(path).encode(), ctypes.c_float(44100), ctypes.byref(n), ctypes.byref(error))
    assert easy, error
    at = (ctypes.c_float * 3)(azimuth, elevation, radius)
    mysofa.mysofa_s2c(at)
    ears, delays = np.zeros((2, n.value), np.float32), (ctypes.c_float * 2)()
    pointers = [ctypes.c_void_p(ear.ctypes.data) for ear in ears] + [ctypes.byref(delays, 4 * i) for i in range(2)]
    mysofa.mysofa_getfilter_float(ctypes.c_void_p(easy), *(ctypes.c_float(x) for x in at), *pointers)
    mysofa.mysofa_close(ctypes.c_void_p(easy))
    assert list(delays) == [0, 0]
    return ears.T.astype(np.float64)


@pytest.mark.skipif(not KEMAR.exists() or not ctypes.util.find_library("mysofa"), reason="no file of libmysofa")
def test_a_spatializer_plays_what_libmysofa_gives_pipewire(folder):
    """In measured directions, with libmysofa's loudness, at the rate of the file."""
    at = {"FL": (30, 0), "FR": (330, 0), "SL": (90, 30), "SR": (270, -30)}
    nodes = [f"{{ type = sofa label = spatializer name = sp{name} config = {{ filename = \"{KEMAR}\" gain = 0.5 "
             f"blocksize = 64 }} control = {{ Azimuth = {az}.0 Elevation = {el} Radius = 3 }} }}" for name, (az, el) in at.items()]
    links = [f"{{ output = \"sp{name}:Out {ear}\" input = \"mix{ear}:In {i + 1}\" }}"
             for i, name in enumerate(at) for ear in "LR"]
    graph = (f"nodes = [ {' '.join(nodes)} {{ type = builtin label = mixer name = mixL }} {{ type = builtin "
             f"label = mixer name = mixR }} ] links = [ {' '.join(links)} ] inputs = [ " + " ".join(f'"sp{name}:In"' for name in at) +
             ' ] outputs = [ "mixL:Out" "mixR:Out" ]')
    x = noise(3000, 4, seed=2)
    write("x.wav", x, 44100)
    pathlib.Path("a.conf").write_text("context.modules = [ " + module(graph, 4, 2, extra="audio.rate = 44100") + " ]")
    convolve("x.wav", "a.conf", "y.wav")
    y = read("y.wav")
    want = sum(0.5 * scipy.signal.fftconvolve(x[:, [i]].astype(float), mysofa_ears(KEMAR, az, el, 1.4), axes=0)[:3000]
               for i, (az, el) in enumerate(at.values()))
    assert max(residual_db(y[:3000, i], want[:, i]) for i in range(2)) <= NULL_DB


def spatial_sink(controls="", gains=(0.5, 0.5)):
    """Three loudspeakers at rest in a bank; the last is between two entries."""
    at = {"FL": "Azimuth = 30.0 Radius = 2", "FR": "Azimuth = 330", "FC": "Azimuth = 15 Elevation = 10"}
    nodes = [f'{{ type = sofa label = spatializer name = sp{name} config = {{ filename = "bank.csv" gain = {gain} }} '
             f"control = {{ {place} }} }}" for (name, place), gain in zip(at.items(), [*gains, 0.5])]
    links = [f'{{ output = "sp{name}:Out {ear}" input = "mix{ear}:In {i + 1}" }}' for i, name in enumerate(at) for ear in "LR"]
    mixers = [f"{{ type = builtin label = mixer name = mix{ear} control = {{ {controls} }} }}" for ear in "LR"]
    inputs = " ".join(f'"sp{name}:In"' for name in at)
    return (f"context.modules = [ {{ name = libpipewire-module-filter-chain args = {{ filter.graph = {{ nodes = [ "
            f"{' '.join(nodes + mixers)} ] links = [ {' '.join(links)} ] inputs = [ {inputs} ] outputs = [ "
            '"mixL:Out" "mixR:Out" ] } capture.props = { node.name = room media.class = Audio/Sink audio.position = '
            "[ FL FR FC ] } playback.props = { audio.position = [ FL FR ] } } } ]")


def test_a_sink_of_spatializers_names_the_command_that_moves_them(folder):
    """It plays the same; a chain with other gains names none."""
    rows = [(azimuth, elevation) for azimuth in range(0, 360, 15) for elevation in (-30, 0, 30)]
    for i, _ in enumerate(rows):
        write(f"{i}.wav", noise(64, 2, seed=i), RATE)
    pathlib.Path("bank.csv").write_text("file,azimuth,elevation\n" + "".join(
        f"{i}.wav,{azimuth},{elevation}\n" for i, (azimuth, elevation) in enumerate(rows)))
    x = noise(2000, 3, seed=4)
    y = ours(spatial_sink(), x)
    said = good("import", "chain.conf", "-o", "out.conf").stdout
    command = re.search("^or with sources that can move: (.*)$", said, re.M)[1]
    assert json.loads(good("import", "chain.conf", "-o", "b.conf", "--json").stdout)["moving_command"] == command
    words = shlex.split(command)
    assert words[:7] == ["haloconv", "pipewire", "--sink", "room", "--channels", "FL,FR,FC", "--gain"]
    assert words[8::2] == ["--place"] * 3 + ["bank.csv"]
    assert words[9::2] == ["1:30,0,2", "2:-30,0,1", "3:15,10,1"]
    pathlib.Path("path.csv").write_text("time,source,azimuth,elevation,distance\n" + "".join(
        f"0,{place.replace(':', ',')}\n" for place in words[9::2]))
    convolve("x.wav", "bank.csv", "z.wav", "--path", "path.csv")
    want = 10 ** (float(words[7]) / 20) * read("z.wav")[:len(x)]
    assert max(residual_db(y[:, i], want[:, i]) for i in range(2)) <= -90  # the gain has four decimals
    for other in (spatial_sink('"Gain 2" = 0.5'), spatial_sink(gains=(0.5, 0.4))):
        pathlib.Path("chain.conf").write_text(other)
        assert "can move" not in good("import", "chain.conf", "-o", "out.conf").stdout


HESUVI = {"FL": (0, 1), "FR": (8, 7), "FC": (6, 13), "LFE": (6, 13), "RL": (4, 5), "RR": (12, 11), "SL": (2, 3),
          "SR": (10, 9)}


def hesuvi_sink(names, file="hesuvi.wav", playback=""):
    """The sink of PipeWire's example for HeSuVi, with two convolvers for each loudspeaker."""
    nodes, links = [], []
    for i, name in enumerate(names):
        nodes += [f"{{ type = builtin label = copy name = copy{name} }}"]
        for ear, channel in zip("LR", HESUVI[name]):
            nodes += [f"{{ type = builtin label = convolver name = conv{name}_{ear} config = {{ filename = \"{file}\" "
                      f"channel = {channel} }} }}"]
            links += [f"{{ output = \"copy{name}:Out\" input=\"conv{name}_{ear}:In\" }}",
                      f"{{ output = \"conv{name}_{ear}:Out\" input=\"mix{ear}:In {i + 1}\" }}"]
    nodes += ["{ type = builtin label = mixer name = mixL }", "{ type = builtin label = mixer name = mixR }"]
    return ("context.modules = [ { name = libpipewire-module-filter-chain flags = [ nofail ] args = {\n"
            "node.description = \"Surround: Bob's\"\nfilter.graph = {\n nodes = [\n" + "\n".join(nodes) +
            "\n]\nlinks = [\n" + "\n".join(links) + "\n]\ninputs = [ " + " ".join(f'"copy{name}:In"' for name in names) +
            ' ]\noutputs = [ "mixL:Out" "mixR:Out" ] }\ncapture.props = { node.name = "effect_input.hesuvi" '
            f"media.class = Audio/Sink audio.channels = {len(names)} audio.position = [ {' '.join(names)} ] }}\n"
            f'playback.props = {{ node.name = "effect_output.hesuvi" node.passive = true {playback} audio.channels = 2 '
            "audio.position = [ FL FR ] } } } ]")


def test_a_chain_of_hesuvi_plays_as_its_file_and_names_its_command(folder):
    """The order of the channels is that of the file's eight inputs; the command is one line for a shell."""
    h = write("hesuvi.wav", noise(500, 14, seed=3), RATE)
    x = noise(2000, 8, seed=4)
    y = ours(hesuvi_sink(HESUVI, playback='target.object = "usb card"'), x)
    convolve("x.wav", h, "z.wav")
    want = read("z.wav")[:len(x)]
    assert max(residual_db(y[:, i], want[:, i]) for i in range(2)) <= NULL_DB
    said = good("import", "chain.conf", "-o", "out.conf").stdout
    command = re.search("^replaces its sink: (.*)$", said, re.M)[1]
    assert json.loads(good("import", "chain.conf", "-o", "b.conf", "--json").stdout)["command"] == command
    assert shlex.split(command) == ["haloconv", "pipewire", "--sink", "effect_input.hesuvi", "--description",
                                    "Surround: Bob's", "--output", "usb card", "chain.conf"]


def test_a_microphone_names_its_command(folder):
    impulse_responses()
    graph = 'nodes = [ { type = builtin name = c label = convolver config = { filename = "ir.wav" } } ]'
    text = ("context.modules = [ { name = libpipewire-module-filter-chain args = { filter.graph = { " + graph + " } "
            "capture.props = { node.name = in node.passive = true } playback.props = { node.name = mic "
            "node.description = \"Better mic\" media.class = Audio/Source audio.channels = 1 } } } ]")
    pathlib.Path("a.conf").write_text(text)
    said = good("import", "a.conf", "-o", "out.conf").stdout
    want = "haloconv pipewire --source mic --description 'Better mic' a.conf"
    assert f"replaces its microphone: {want}\n" in said


def sink(capture, playback="", args=""):
    """A sink of two channels."""
    return ("context.modules = [ { name = libpipewire-module-filter-chain args = { filter.graph = { nodes = [ { type = "
            f"builtin label = copy name = a }} ] }} {args} capture.props = {{ media.class = Audio/Sink audio.channels = 2 "
            f"{capture} }} playback.props = {{ audio.channels = 2 {playback} }} }} }} ]")


def test_the_command_of_a_sink_is_safe_in_a_shell_and_has_pipewires_names(folder):
    """A stranger wrote the file. Names of ports are not in the command, numbers of nodes are not targets."""
    cases = [(sink('node.name = "a; touch b"', "node.target = -1"), "--sink 'a; touch b'"),
             (sink('node.name = a audio.position = [ "FL;touch b;" FOO ]', 'target.object = "56"'), "--sink a"),
             (sink("", args="node.name = hall"), "--sink input.hall")]
    for text, options in cases:
        pathlib.Path("-a.conf").write_text(text)
        said = good("import", "./-a.conf", "-o", "out.conf").stdout
        assert f"replaces its sink: haloconv pipewire {options} ./-a.conf\n" in said
    for name in (r"q\u001b]0;evil\u0007", "q\x7f", r"q\u009b"):
        pathlib.Path("a.conf").write_text(sink(f'node.name = "{name}"'))
        said = good("import", "a.conf", "-o", "out.conf").stdout
        assert "no command is printed" in said and said.isascii() and said.replace("\n", "").isprintable()
        assert json.loads(good("import", "a.conf", "-o", "b.conf", "--json").stdout)["command"] is None


def test_spatializers_of_a_bank_for_one_ear_are_refused_and_another_form_is_noted(folder):
    """The bank is refused once; the second node found its memory."""
    write("m.wav", noise(64), RATE)
    pathlib.Path("bank.csv").write_text("file,azimuth,elevation\nm.wav,0,0\n")
    node = '{ type = sofa label = spatializer name = %s config = { filename = "bank.csv" } }'
    graph = f'nodes = [ {node % "a"} {node % "b"} ] outputs = [ "a:Out L" "b:Out R" "b:Out 1" ]'
    pathlib.Path("a.conf").write_text("context.modules = [ " + module(graph, 1, 3) + " ]")
    done = haloconv("check", "a.conf")
    assert done.returncode == 1
    for says in ("has 1 outputs; give a bank for two ears", "make a sink of the bank itself",
                 '"b:Out 1" does not exist; name another, as NODE:Out L'):
        assert says in done.stderr, done.stderr


def test_rate_and_port_names_are_the_streams(folder):
    graph = "nodes = [ { type = builtin name = d label = convolver config = { filename = \"/dirac\" delay = 10 } } ]"
    text = ("context.modules = [ { name = libpipewire-module-filter-chain args = { node.name = hall audio.rate = 44100 "
            "audio.position = \"FL,FR\" filter.graph = { " + graph + " } } } ]")
    pathlib.Path("a.conf").write_text(text)
    said = good("info", "--json", "a.conf").stdout
    assert '"rate": 44100' in said and "FL" in said and "FR" in said, said
    write("x.wav", np.eye(1, 200, dtype=np.float32).T.repeat(2, 1), 44100)
    convolve("x.wav", "a.conf", "y.wav")
    assert list(np.argmax(read("y.wav"), axis=0)) == [10, 10]


def test_an_echo_behind_the_longest_response_is_told(folder):
    """100 s at 192 kHz are more than 2^24 frames."""
    graph = ("nodes = [ { type = builtin name = d label = delay config = { max-delay = 100 } control = { "
             "\"Delay (s)\" = 100 Feedforward = 0.5 } } ]")
    pathlib.Path("a.conf").write_text("context.modules = [ " + module(graph, 1, 1, extra="audio.rate = 192000") + " ]")
    done = good("check", "a.conf")
    assert "the rest that is cut off is only 1 dB below the filter" in done.stdout + done.stderr, done


REFUSED = {
    "no bank": ("nodes = [\n { type = sofa label = spatializer name = r config = { filename = \"none.sofa\" } } ] "
                "outputs = [ \"r:Out L\" ]", [":2: node r:", "none.sofa: No such file"]),
    "foreign": ("nodes = [\n { type = ladspa name = r plugin = x }\n { type = builtin name = c label = copy } ]",
                [":2: node r:", '"ladspa"']),
    "nonlinear": ("nodes = [\n\n { type = builtin name = r label = clamp } ]", [":3: node r: clamp"]),
    "unknown": ("nodes = [ { type = builtin name = r label = warp } ]", ['"warp"']),
    "constant": ("nodes = [ { type = builtin name = r label = linear control = { Add = 1 } } ]", ["Add"]),
    "no port": ("nodes = [ { type = builtin name = r label = copy } ] links = [\n { output = \"r:Out 7\" "
                "input = \"r:In\" } ]", [":2: filter.graph", "r:Out 7"]),
    "loop": ("nodes = [ { type = builtin name = m label = mixer } { type = builtin name = c label = copy } ]\n"
             "links = [ { output = \"m:Out\" input = \"c:In\" } { output = \"c:Out\" input = \"m:In 2\" } ]\n"
             "inputs = [ \"m:In 1\" ] outputs = [ \"m:Out\" ]", ["loop"]),
    "twice": ("nodes = [ { type = builtin name = a label = mixer } { type = builtin name = c label = copy } ] links = "
              "[ { output = \"a:Out\" input = \"c:In\" } { output = \"a:Out\" input = \"c:In\" } ]", ["linked twice"]),
    "endless": ("nodes = [ { type = builtin name = d label = delay control = { \"Delay (s)\" = 0.1 Feedback = 1 } } ]",
                ["Feedback"]),
    "unstable": ("nodes = [ { type = builtin name = d label = bq_raw config = { coefficients = [\n { rate = 48000 "
                 "a1 = 3 } ] } } ]", [":2: node d", "stable"]),
    "no number": ("nodes = [ { type = builtin name = d label = bq_peaking control = { Freq = high } } ]", ['"high"']),
    "channels": ("nodes = [ { type = builtin name = d label = copy } ] inputs = [ \"d:In\" null ]", ["copies"]),
    "open": ("nodes = [ { type = builtin name = \"d } ]", ["not closed"]),
    "file of an equalizer": ("nodes = [ { type = builtin name = q label = param_eq config = { filename = \"q.txt\" } } "
                             "] inputs = [ \"q:In 1\" ] outputs = [ \"q:Out 1\" ]", ["Equalizer APO"]),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_no_convolution_does_is_refused_with_its_line(what, folder):
    graph, says = REFUSED[what]
    text = module(graph, 1, 1).replace("\n", " ", 3)
    pathlib.Path("a.conf").write_text("context.modules = [ " + text + " ]")
    done = haloconv("check", "a.conf")
    assert done.returncode == 1
    for word in says:
        assert word in done.stderr, done.stderr


def test_deep_brackets_are_refused(folder):
    pathlib.Path("a.conf").write_text("filter.graph nodes " + "a = [ " * 5000)
    refused("check", "a.conf", says="nested")


def test_examples_of_pipewire_are_read_or_refused_for_their_nodes(folder):
    """An error is about a node of another program, a nonlinear one, or a file that only its author has."""
    examples = sorted(pathlib.Path("/usr/share/pipewire/filter-chain").glob("*.conf"))
    if not examples:
        pytest.skip("no examples in /usr/share/pipewire/filter-chain: Debian 12 does not install them")
    for path in examples:
        errors = [line for line in haloconv("check", path).stderr.splitlines()
                  if not re.search("warning|: note: |correct the lines", line)]
        for error in errors:
            assert re.search("is a program of type|cannot be a convolution|No such file", error), error


# ---- keys ------------------------------------------------------------------------------------------------------------
BANK = 'label = spatializer config = { filename = "bank.csv" %s } control = { Azimuth = 30 Radius = 1 }'
UNKNOWN = {  # a text in a chain, what replaces it, what is told
    "node": ("label = bq_peaking", "label = bq_peaking controls = { Freq = 100 }", 'node eq: .*"controls".*write control'),
    "name twice": ("name = two", "name = eq", "node eq: the node in line [0-9]+ has the same name, and links take its ports"),
    "key of a node": ("label = bq_peaking", "colour = red label = bq_peaking", 'node eq: .*"colour".*known: type name'),
    "control": ("Freq =", "Frq =", 'node eq: unknown control "Frq".*known: Freq, Q, Gain'),
    "index": ("Freq =", "77 =", 'node eq: unknown control "77"'),
    "equaliser": ("label = bq_peaking", "label = param_eq config = { filtres = [ ] }", '"filtres".*write filters'),
    "item": ("label = bq_peaking", "label = param_eq config = { filters = [ { type = bq_peaking Q = 2 } ] }",
             '"Q".*known: type freq gain q'),
    "delay": ("label = bq_peaking", "label = delay config = { maxdelay = 2 }", '"maxdelay".*write max-delay'),
    "coefficients": ("label = bq_peaking", "label = bq_raw config = { coefficients = [ { Rate = 48000 } ] }",
                     '"Rate".*write rate'),
    "convolver": ("label = bq_peaking", 'label = convolver config = { filename = "/dirac" gian = 2 }', '"gian".*write gain'),
    "impulse": ("label = bq_peaking", 'label = convolver2 config = { impulses = [ { filename = "/dirac" gian = 2 } ] }',
                '"gian".*write gain'),
    "link": ("nodes =", 'links = [ { output = "eq:Out" input = "two:In" gain = 2 } ] nodes =', 'link: .*"gain".*known: output input'),
    "graph": ("nodes =", "output = [ ] nodes =", 'filter.graph: .*"output".*write outputs'),
    "args": ("filter.graph", "audio.ratte = 44100 filter.graph", 'args: .*"audio.ratte".*write audio.rate'),
    "stream": ("capture.props = {", "capture.props = { audio.positoin = [ FL ]", 'capture.props: .*"audio.positoin".*write audio.pos'),
    "audio": ("capture.props = {", "capture.props = { audio.loudness = 1", 'capture.props: .*"audio.loudness".*known: node.name'),
    "device": ("playback.props = {", "playback.props = { media.clas = Audio/Source", 'playback.props: .*write media.class'),
    "key twice": ("label = bq_peaking", 'label = convolver config = { filename = "/dirac" gain = 2 gain = 3 }',
                  "gain occurs again"),
    "control twice": ("Freq =", "Freq = 50 Freq =", "node eq: Freq occurs again in line"),
    "graph twice": ("nodes =", "n_inputs = 2 n_inputs = 1 nodes =", "filter.graph: n_inputs occurs again"),
    "null": ("Freq = 100", "Freq = null", "node eq: Freq is null"),
    "long delay": ("label = bq_peaking", 'label = convolver config = { filename = "/dirac" delay = 20.5 }',
                   "delay is 20.5 s; it becomes 10"),
    "delay behind its maximum": ("copy }", 'delay config = { max-delay = 1 } control = { "Delay (s)" = 2 } }',
                                "2 s; it becomes 0.99"),
    "negative delay": ("copy }", 'delay control = { "Delay (s)" = -2 } }', "-2 s; it becomes 0"),
    "module": ("args = {", "arg = { } args = {", 'context.modules: .*"arg".*write args'),
}


@pytest.mark.parametrize("what", UNKNOWN)
def test_a_key_that_pipewire_does_not_know_is_named_with_those_that_it_knows(what, folder):
    graph = ("nodes = [ { type = builtin name = eq label = bq_peaking control = { Freq = 100 Q = 1 Gain = 3 } }\n"
             "{ type = builtin name = two label = copy } ]")
    text = "context.modules = [ " + module(graph, 1, 1) + " ]"
    pathlib.Path("a.conf").write_text(text)
    right = good("check", "a.conf")
    assert "unknown" not in right.stdout + right.stderr, right
    was, new, says = UNKNOWN[what]
    pathlib.Path("a.conf").write_text(text.replace(was, new, 1))
    done = haloconv("check", "a.conf")
    assert re.search(r"a.conf:\d+: warning: .*" + says, done.stdout + done.stderr), done.stdout + done.stderr


def test_a_key_of_a_spatializer_is_named(folder):
    write("ir.wav", noise(50, 2), RATE)
    pathlib.Path("bank.csv").write_text("file,azimuth,elevation\nir.wav,30,0\n")
    for key, is_told in (("normalize = false latency = 3", False), ("normalise = false", True)):
        graph = f"nodes = [ {{ type = sofa name = s {BANK % key} }} ]"
        pathlib.Path("a.conf").write_text("context.modules = [ " + module(graph, 1, 2) + " ]")
        said = good("check", "a.conf")
        assert ('warning: node s: unknown key "normalise" has no effect; write normalize' in said.stderr + said.stdout) == is_told


@pytest.mark.parametrize("place", ["args", "stream"])
@pytest.mark.parametrize("layout,names", [("5.1", "FL FR FC LFE SL SR"), ("5.1R", "FL FR FC LFE RL RR"), ("AUX3", None)])
def test_the_layout_of_pipewire_gives_channels_and_names(folder, layout, names, place):
    graph = "nodes = [ { type = builtin name = d label = copy } ]"
    args, stream = (f'audio.layout = "{layout}"' if here == place else "" for here in ("args", "stream"))
    pathlib.Path("a.conf").write_text(
        "context.modules = [ { name = libpipewire-module-filter-chain args = { " + args + " filter.graph = { " + graph +
        " } capture.props = { " + stream + " } playback.props = { " + stream + " } } } ]")
    said = json.loads(good("info", "--json", "a.conf").stdout)
    assert said["inputs"] == said["outputs"] == (len(names.split()) if names else 3), said
    if names:
        assert all(name in json.dumps(said) for name in names.split()), said
    pathlib.Path("a.conf").write_text(pathlib.Path("a.conf").read_text().replace(layout, "5.x"))
    refused("info", "a.conf", says='audio.layout "5.x" is unknown')


@pytest.mark.parametrize("q,is_told", [("10", False), ("11.6", True)])
def test_a_q_that_pipewire_limits_is_told(folder, q, is_told):
    graph = f"nodes = [ {{ type = builtin name = e label = bq_peaking control = {{ Freq = 100 Gain = 3 Q = {q} }} }} ]"
    pathlib.Path("a.conf").write_text("context.modules = [ " + module(graph, 1, 1) + " ]")
    done = good("check", "a.conf")
    assert (f"note: node e: Q {q} is played; PipeWire 1.6 limits it to 10" in done.stderr + done.stdout) == is_told


@pytest.mark.parametrize("rate,is_told", [("rate = 48000", False), ("rate = 44100", False), ("rate = 96000", True),
                                          ("", True)])
def test_coefficients_that_pipewire_does_not_play_are_told(folder, rate, is_told):
    graph = f"nodes = [ {{ type = builtin name = e label = bq_raw config = {{ coefficients = [ {{ {rate} b0 = 0.5 }} ] }} }} ]"
    pathlib.Path("a.conf").write_text("context.modules = [ " + module(graph, 1, 1) + " ]")
    done = good("check", "a.conf")
    assert ("PipeWire plays none of them at 48000 Hz" in done.stderr + done.stdout) == is_told, done
