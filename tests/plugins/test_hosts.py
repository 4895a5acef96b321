"""The plugins in other programs' hosts: jalv (LV2) and Qtractor (LV2, CLAP) on a JACK server, pedalboard and DawDreamer
(VST3), which are on PyPI only. Each plays a mask of the test's state or session; scipy plays the same in float64.

These hosts cannot do everything. A block of jalv and Qtractor is JACK's period. Debian's Qtractor is built without VST3,
and tracks of its sessions are stereo here. pedalboard refuses plugins with more outputs than inputs. DawDreamer opens the
first plugin of a bundle, which is the mono one. Debian 12 has no Carla.
"""

import base64
import os
import shutil
import struct
import subprocess
import time
import zlib

import numpy as np
import pytest
from conftest import BUILD, SAN, assert_close, noise, write
from scipy.signal import fftconvolve
from test_lv2 import BUNDLE, HOST_LIBRARY, URI, VARIANTS, Jalv, jack, path, tool, write_session

assert jack and path  # fixtures

VST3, CLAP, STAGE = BUILD / "haloconv.vst3", BUILD / "haloconv.clap", BUILD / "tests/jack_stage"
NO_SEQUENCER = BUILD / "tests/no_sequencer.so"
RATE, FRAMES, TAPS = 48000, 24000, 5003
BLOCKS = (1, 16, 61, 512, 4096)

pytestmark = [pytest.mark.skipif(not BUNDLE.exists(), reason="built without the LV2 plugin"),
              pytest.mark.skipif(bool(SAN), reason=HOST_LIBRARY)]


# ---- masks, states and what they play ------------------------------------------------------------------------------
def write_mask(variant):
    """Random responses in a mask that fits the variant: its absolute path, and they as [inputs][outputs][TAPS]."""
    n_in, n_out = VARIANTS[variant]
    is_full = n_in == 1 or variant == "true_stereo"  # every input goes to every output
    h = np.zeros((n_in, n_out, TAPS))
    sound = noise(TAPS, n_in * n_out if is_full else n_in, seed=2, scale=0.05)
    for ch, response in enumerate(sound.T):
        h[(ch // n_out, ch % n_out) if is_full else (ch, ch)] = response
    return os.path.abspath(write("mask.wav", sound)), h


def convolved(x, h):
    """x [frames][inputs] in float64, by every response."""
    return sum(fftconvolve(x[:, i, None].astype(np.float64), h[i].T, axes=0) for i in range(len(h)))


def state(variant, mask):
    """What CLAP and VST3 hosts save (plugins/core/state.c)."""
    return f"haloconv plugin 1\nvariant {variant}\nmask {mask}\nwet 0\nend\n".encode()


# ---- VST3 ------------------------------------------------------------------------------------------------------------
def preset(variant, mask):
    """A .vstpreset: the class of the plugin, its state, and a list of what is where."""
    number = 0xCBF29CE484222325  # the class is FNV-1a of the symbol, as in vst3_classes.c
    for byte in variant.encode():
        number = (number ^ byte) * 0x100000001B3 % (1 << 64)
    component = state(variant, mask)
    return (b"VST3" + struct.pack("<i", 1) + f"{b'haloconv'.hex()}{number:016x}".upper().encode()
            + struct.pack("<q", 48 + len(component)) + component
            + b"List" + struct.pack("<i", 1) + b"Comp" + struct.pack("<qq", 48, len(component)))


def host_module(name):
    if not VST3.exists():
        pytest.skip("built without the VST3 plugins")
    return pytest.importorskip(name, reason=f"no {name}: PYTHON=... with it, pytest, scipy and soundfile")


def test_pedalboard(folder):
    titles = {"mono": "Mono", "stereo": "Stereo", "true_stereo": "True Stereo",
              **{f"matrix_{n}": f"Matrix {n}x{n}" for n in (4, 8, 16, 32, 64)}}
    for variant, title in titles.items():
        plugin = host_module("pedalboard").load_plugin(str(VST3), plugin_name=f"haloconv {title}")
        mask, h = write_mask(variant)
        plugin.preset_data = preset(variant, mask)
        x = noise(FRAMES, len(h))
        want = convolved(x, h)[:FRAMES]
        for block in BLOCKS:
            got = plugin(x.T, RATE, buffer_size=block, reset=True)
            print(variant, block)
            assert plugin.reported_latency_samples == 0
            assert_close(got.T.astype(np.float64), want)


def test_dawdreamer(folder):
    mask, h = write_mask("mono")
    (folder / "own.vstpreset").write_bytes(preset("mono", mask))
    x = noise(FRAMES)
    for block in BLOCKS:
        engine = host_module("dawdreamer").RenderEngine(RATE, block)
        plugin = engine.make_plugin_processor("plugin", str(VST3))
        assert plugin.load_vst3_preset(str(folder / "own.vstpreset")) and plugin.get_latency_samples() == 0
        engine.load_graph([(engine.make_playback_processor("sound", x.T), []), (plugin, ["sound"])])
        engine.render(FRAMES / RATE)
        print(block)
        assert_close(engine.get_audio().T.astype(np.float64)[:FRAMES], convolved(x, h)[:FRAMES])


# ---- on a JACK server ------------------------------------------------------------------------------------------------
def stage(env, x, first, last, n_out, n_frames, *options):
    """jack_stage, which plays x into `first` and records `last`."""
    if not STAGE.exists():
        pytest.skip("no JACK in the build")
    x.tofile("x.f32")
    words = [STAGE, env["JACK_DEFAULT_SERVER"], "x.f32", x.shape[1], first, last, n_out, "y.f32", n_frames, *options]
    return subprocess.Popen(list(map(str, words)), env=env, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)


def recorded(stage, n_out):
    err = stage.communicate(timeout=120)[1]
    assert stage.returncode == 0, err
    return np.fromfile("y.f32", np.float32).reshape(-1, n_out).astype(np.float64)


@pytest.mark.parametrize("jack,variant", [(16, "true_stereo"), (64, "mono"), (256, "matrix_16"),
                                          (1024, "mono_to_stereo"), (4096, "stereo")], indirect=["jack"])
def test_jalv(jack, folder, variant):
    mask, h = write_mask(variant)
    write_session(folder / "session", variant, f"file://{mask}", 0)
    x, (n_in, n_out) = noise(FRAMES, len(h)), VARIANTS[variant]
    jalv = Jalv(jack, "-n", "hc", "-l", folder / "session/", variant=variant)
    try:
        jalv.await_line(r"mask\.wav: loaded, .*; cpu")
        got = recorded(stage(jack, x, "hc:in_", "hc:out_", n_out, FRAMES, "silence", RATE // 4), n_out)
    finally:
        assert jalv.close() == 0
    assert_close(got, convolved(x, h)[:FRAMES])


SESSION = """<!DOCTYPE qtractor-session>
<session name="own" version="0.9.31">
 <properties><directory>{folder}</directory><sample-rate>48000</sample-rate><tempo>120</tempo>
  <ticks-per-beat>960</ticks-per-beat><beats-per-bar>4</beats-per-bar><beat-divisor>2</beat-divisor></properties>
 <devices><audio-engine><audio-control><transport-mode>duplex</transport-mode></audio-control>
  <audio-bus name="Master" mode="duplex"><channels>2</channels></audio-bus></audio-engine></devices>
 <tracks><track name="own" type="audio">
  <properties><input-bus>Master</input-bus><output-bus>Master</output-bus></properties>
  <clips><clip name="sound"><properties><start>0</start><offset>0</offset><length>{frames}</length></properties>
   <audio-clip><filename>{folder}/sound.wav</filename></audio-clip></clip></clips>
  <plugins><plugin type="{standard}"><filename>{plugin}</filename><index>{index}</index><activated>1</activated>
   <configs><config {config}</config></configs></plugin></plugins>
 </track></tracks>
</session>
"""


def write_qtractor_session(folder, standard, mask, frames):
    if standard == "LV2":
        plugin, index = f"{URI}stereo", 0
        config = f'key="{URI}mask" type="http://lv2plug.in/ns/ext/atom#Path">{mask}'
    else:  # a state as Qt compresses it: with its length in front
        plugin, index, text = CLAP, list(VARIANTS).index("stereo"), state("stereo", mask)
        config = f'key="state">{base64.b64encode(struct.pack(">I", len(text)) + zlib.compress(text)).decode()}'
    (folder / "own.qtr").write_text(SESSION.format(**locals()))


@pytest.mark.parametrize("jack,standard", [(64, "CLAP"), (1024, "LV2")], indirect=["jack"])
def test_qtractor(jack, folder, standard):
    """A clip of a session, from the transport's start. Its ends are silent: Qtractor fades there, and after it starts.
    The null must appear within three plays: the first may be the one in which the mask loads."""
    tool("qtractor"), tool("jack_transport")
    if not NO_SEQUENCER.exists() or (standard == "CLAP" and not CLAP.exists()):
        pytest.skip("built without JACK or the CLAP plugin")
    mask, h = write_mask("stereo")
    x = noise(RATE, 2)
    x[:4800] = x[-9600:] = 0
    write("sound.wav", x)
    write_qtractor_session(folder, standard, mask, len(x))
    env = {**jack, "HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "XDG_RUNTIME_DIR": str(folder),
           "QT_QPA_PLATFORM": "offscreen"}
    with open("qtractor.log", "w") as log:
        host = subprocess.Popen(["qtractor", "own.qtr"], stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                env={**env, "LD_PRELOAD": str(NO_SEQUENCER)})
    try:
        for _ in range(3):
            recorder = stage(env, np.zeros((1, 2), np.float32), "system:playback_", "Qtractor:Master/out_", 2, 3 * RATE)
            log = (folder / "qtractor.log").read_text
            assert recorder.stdout.readline() == "begun\n", recorder.stderr.read() + log()
            for command in ("stop", "locate 0", "play"):
                subprocess.run(["jack_transport"], input=f"{command}\nquit\n", env=env, capture_output=True, text=True,
                               timeout=60, check=True)
            got, want = recorded(recorder, 2), convolved(x, h)[:RATE]
            first = int(np.argmax(np.abs(fftconvolve(got[:, 0], want[::-1, 0])))) - len(want) + 1
            got = got[max(first, 0):][:len(want)]
            if len(got) == len(want) and np.abs(got - want).max() < 1e-6 * np.abs(want).max():
                break
        assert_close(got, want)
    finally:
        host.terminate()
        try:
            host.wait(10)
        except subprocess.TimeoutExpired:
            host.kill()
            host.wait()
