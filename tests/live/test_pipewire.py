"""`haloconv pipewire` on daemons of our own: no session bus, no session manager, and a runtime folder of their own.

pipewire_stage plays and records, to the frame. The daemon does not wait for a node that is late, and a busy machine makes
nodes late: a recording with a missing cycle is made again.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from conftest import BUILD, ROOT, SAN, assert_close, noise, refused, write
from desktop import NULL_DB, bursts, heard_across
from test_live import FEATURES, PATIENCE, control_of, needs_osc, response, run, stop, wait_for, wet

from test_nsm import Manager

assert run  # a fixture

STAGE = BUILD / "tests/pipewire_stage"
TRAP = BUILD / "tests/callback_trap.so"
TOOLS = ["pipewire", "pw-cli", "pw-link", "pw-metadata", "pw-dump"]
if "pipewire" not in FEATURES or not all(map(shutil.which, TOOLS)):
    pytest.skip("no PipeWire in the build, or no daemon; make setup-test installs it", allow_module_level=True)
if "thread" in SAN or "address" in SAN:  # libpipewire's leaks are not ours
    os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
TRIES = 20  # recordings until one has no missing cycle

class Daemon:
    def __init__(self, folder):
        self.folder = folder / "pipewire"
        self.folder.mkdir()
        self.env = {"XDG_RUNTIME_DIR": str(self.folder), "PIPEWIRE_RUNTIME_DIR": str(self.folder),
                    "XDG_CONFIG_HOME": str(self.folder), "DBUS_SESSION_BUS_ADDRESS": "unix:path=/nonexistent",
                    "PIPEWIRE_REMOTE": "pipewire-0"}
        self.count = 0
        self.start()

    def start(self):
        self.process = subprocess.Popen(["pipewire", "-c", str(ROOT / "tests/live/pipewire.conf")], stdin=subprocess.DEVNULL,
                                        stdout=open(self.folder / "log", "a"), stderr=subprocess.STDOUT,
                                        env={**os.environ, **self.env})
        wait_for("the daemon", lambda: "attic:monitor_FR" in self.tool("pw-link", "-o", check=False))

    def kill(self):
        self.process.kill()
        self.process.wait()

    def tool(self, *args, check=True):
        done = subprocess.run(list(map(str, args)), env={**os.environ, **self.env}, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
        assert not check or done.returncode == 0, f"{args}: {done.stdout}"
        return done.stdout

    def force(self, what, value):
        """Quantum or rate of the graph; 0: the default."""
        self.tool("pw-metadata", "-n", "settings", 0, f"clock.force-{what}", value)

    def make(self, name, kind="Sink", description="", channels="FL FR", monitor="true"):
        """A device, which outlives the tool."""
        self.tool("pw-cli", "create-node", "adapter", f"""{{ factory.name = support.null-audio-sink node.name = {name}
            node.description = "{description or name}" media.class = Audio/{kind} audio.position = [ {channels} ]
            object.linger = true node.param.PortConfig = {{ direction = Input mode = dsp
            monitor = {monitor} format = {{ mediaType = audio mediaSubtype = raw format = F32P rate = 48000
            channels = {len(channels.split())} position = [ {channels} ] }} }} }}""")
        wait_for(name, lambda: f"{name}:" in self.tool("pw-link", "-o", "-i"))

    def destroy(self, name):
        [number] = [thing["id"] for thing in json.loads(self.tool("pw-dump"))
                    if (thing.get("info") or {}).get("props", {}).get("node.name") == name]
        self.tool("pw-cli", "destroy", number)
        wait_for(name, lambda: f"{name}:" not in self.tool("pw-link", "-o", "-i"))

    def links(self):
        """{(output, input), ...}"""
        links, output = set(), None
        for line in self.tool("pw-link", "-l", check=False).splitlines():
            if line.startswith("  |-> "):
                links.add((output, line[6:]))
            elif not line.startswith(" "):
                output = line
        return links

    def record(self, x, n_out, n_frames, *options, first="hc:in-", last="hc:out-", silence=2400):
        """Plays x [frames][channels] and records, once. NaN where a cycle is missing. Before x come 50 ms of silence, in
        which ramps end."""
        self.count += 1
        name = f"stage-{self.count}"
        x.astype(np.float32).tofile(f"{name}.x")
        done = subprocess.run(list(map(str, [STAGE, f"{name}.x", x.shape[1], first, last, n_out, f"{name}.y", n_frames,
                                             "silence", silence, *options])), env={**os.environ, **self.env},
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                              timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return np.fromfile(f"{name}.y", np.float32).reshape(-1, n_out).astype(np.float64)

    def play(self, *args, before=lambda: None, accepts=lambda y: True, **kwargs):
        """A recording of which no cycle is missing. The silence before it must be longer than the mask: the sound of an
        earlier recording ends there. A cycle that only our node misses leaves no NaN, but accepts may see it."""
        for _ in range(TRIES):
            before()
            y = self.record(*args, **kwargs)
            if not np.isnan(y).any() and accepts(y):
                return y
        if not np.isnan(y).any():
            return y
        raise AssertionError(f"{np.isnan(y).sum()} samples are missing in each of {TRIES} recordings")


@pytest.fixture
def daemon(folder, monkeypatch):
    daemon = Daemon(folder)
    for name, value in daemon.env.items():
        monkeypatch.setenv(name, value)
    yield daemon
    stop(daemon.process)


def session(run, mask, *options, **kwargs):
    return run.client("pipewire", mask, "--name", "hc", "--backend", "cpu", *options, **kwargs)


MANAGER = """
import ctypes
pw = ctypes.CDLL("libpipewire-0.3.so.0")
for name in ("main_loop_new", "main_loop_get_loop", "context_new", "context_connect", "context_create_metadata",
             "impl_metadata_get_implementation", "core_export"):
    getattr(pw, "pw_" + name).restype = ctypes.c_void_p
of = ctypes.c_void_p
pw.pw_init(None, None)
loop = pw.pw_main_loop_new(None)
context = pw.pw_context_new(of(pw.pw_main_loop_get_loop(of(loop))), None, ctypes.c_size_t(0))
core = pw.pw_context_connect(of(context), None, ctypes.c_size_t(0))
metadata = pw.pw_context_create_metadata(of(context), b"default", None, ctypes.c_size_t(0))
pw.pw_impl_metadata_set_property(of(metadata), 0, b"default.audio.sink", b"Spa:String:JSON", b'{"name": "attic"}')
pw.pw_core_export(of(core), b"PipeWire:Interface:Metadata", None, of(pw.pw_impl_metadata_get_implementation(of(metadata))),
                  ctypes.c_size_t(0))
pw.pw_main_loop_run(of(loop))
"""  # a session manager that makes the attic the default sink


CONNECTED = {("hc:out-1", "desk:playback_FL"), ("hc:out-2", "desk:playback_FR")}


# ---- sound -----------------------------------------------------------------------------------------------------------
def test_the_output_is_that_of_float64_at_every_rate(run, daemon):
    """From our input ports to our output ports there is no frame of latency, and from there to the monitor of a null sink
    a quantum or, with PipeWire 1.6, none. The taps stay as they are at every rate."""
    h, x = response(4000), noise(9000, 2)
    client = session(run, write("h.wav", h), "--no-resample", "--connect")
    wait_for("links", lambda: daemon.links() >= CONNECTED)
    for rate in [44100, 96000, 48000]:
        daemon.force("rate", rate)
        client.says(f"now at {rate} Hz")
        quantum = int(re.findall(r"blocks of (\d+) frames", client.said())[-1])
        def heard(y):
            return y[0 if np.abs(y[:quantum]).max() > 1e-3 else quantum:][:12000]
        y = daemon.play(x, 2, 12000 + quantum, last="desk:capture_", silence=rate // 10,
                        accepts=lambda y: np.allclose(heard(y), wet(x, h, 12000), atol=1e-3))
        assert_close(heard(y), wet(x, h, 12000))
        y = daemon.play(x, 2, 5000, silence=rate // 10, accepts=lambda y: np.allclose(y, wet(x, h, 5000), atol=1e-3))
        assert_close(y, wet(x, h, 5000))
    assert client.end()["state"] == "ok"


def test_the_sound_goes_on_while_the_quantum_changes(run, daemon):
    """Each new engine has the whole history, and a graph that PipeWire 1.4 suspends for the change loses no tail. Without a
    sanitizer also in cycles of 16 frames, a third of a millisecond."""
    quanta = [256, 64, 1024, 8192, 256]
    h = response(30000)
    client = session(run, write("h.wav", h))
    for before, after in zip(quanta, quanta[1:]):
        x, options = bursts(2, [after])
        if after == 64 and not SAN:  # a busy machine does not keep that up for long
            options = ["resize", options[1], 16, "resize", options[1] + 2000, 64]
        for _ in range(TRIES):
            daemon.force("quantum", before)
            y = daemon.record(x, 2, len(x), *options, silence=32000)
            found, shifts = heard_across(y, x, lambda x: wet(x, h, len(x)))
            if (found < NULL_DB).all():
                break
        assert (found < NULL_DB).all(), f"{before} to {after}: residuals in dB {np.round(found)}, shifts {shifts}"
        assert abs(shifts[0]) <= 4 * max(before, after), f"{before} to {after}: the tail is shifted by {shifts[0]} frames"
    for quantum in quanta[1:]:
        client.says(f"now at 48000 Hz in blocks of {quantum} frames")
    assert client.end()["block"] == 256


def test_it_freewheels(run, daemon):
    """Ten seconds of sound in less time. PipeWire 0.3 does not wait long for a late node: the frames before that count."""
    h, x = response(12000), noise(480000, 2)
    client = session(run, write("h.wav", h))
    daemon.force("quantum", 1024)
    client.says("blocks of 1024 frames")
    for _ in range(TRIES):
        began = time.monotonic()
        y = daemon.record(x, 2, 480000, "freewheel", silence=14000)
        seconds = time.monotonic() - began
        n = int(np.isnan(y).any(1).argmax()) or len(y)
        if n > 10000 and not np.isnan(y[0]).any():
            break
    assert n > 10000 and seconds < 8, f"a cycle is missing at frame {n}, after {seconds} s"
    assert_close(y[:n], wet(x, h, n))
    client.end()


@needs_osc
def test_missing_cycles_are_an_xrun(run, daemon):
    client = session(run, write("h.wav", response(100)), "--osc", 0, ready="OSC on port")
    with control_of(client) as control:
        wait_for("cycles", lambda: control.stats()["blocks"] > 20)
        before = control.stats()["xruns"]
        client.process.send_signal(signal.SIGSTOP)
        time.sleep(0.1)
        client.process.send_signal(signal.SIGCONT)
        wait_for("the xrun", lambda: control.stats()["xruns"] > before)
    client.end()


@needs_osc
def test_a_mask_is_exchanged(run, daemon):
    h, other, x = response(4000), response(6000, seed=5), noise(8000, 2)
    write("other.wav", other)
    client = session(run, write("h.wav", h), "--osc", 0, ready="OSC on port")
    with control_of(client) as control:
        control.send("/mask", str(pathlib.Path("other.wav").resolve()))
        assert control.answer("/mask", "/error")[0] == "/mask"
        wait_for("the mask", lambda: control.stats()["swaps"] == 1)
        assert_close(daemon.play(x, 2, 12000, silence=12000), wet(x, other, 12000))
    client.end()


# ---- the callback ----------------------------------------------------------------------------------------------------
@pytest.mark.skipif(bool(SAN), reason="a sanitizer allocates and locks")
def test_the_callback_never_allocates_locks_or_calls_the_system(run, daemon):
    """HC_TRAP_SECONDS (2) of noise, while quantum and mask change. The engine wakes no thread: one thread computes."""
    seconds = float(os.environ.get("HC_TRAP_SECONDS", "2"))
    mask, x = write("h.wav", response(8000)), noise(int(48000 * seconds), 2)
    plants = {"malloc": "(malloc|system call)", "lock": "pthread_mutex_lock", "call": "system call"}
    planted = {plant: session(run, mask, env={"LD_PRELOAD": str(TRAP), "HC_TRAP_PLANT": plant}, ready=None)
               for plant in plants}
    for plant, caught in plants.items():
        planted[plant].says(f"trap: the callback reached {caught}")
    client = session(run, mask, "--watch", env={"LD_PRELOAD": str(TRAP)})
    client.says("trap: watching system calls too")
    n, options = len(x), []
    for i in range(16):
        options += ["resize", (i + 1) * n // 18, [64, 1024, 256, 128][i % 4]]
    timer = threading.Timer(seconds / 2, os.utime, [mask])
    timer.start()
    daemon.record(x, 2, n, *options)
    timer.join()
    client.says(r"h\.wav: loaded")
    assert client.end()["blocks"] > 100, client.said()


# ---- the graph -------------------------------------------------------------------------------------------------------
def test_a_daemon_that_is_killed_comes_back(run, daemon):
    """HC_PIPEWIRE_DEATHS (3) times: ports and links return, those made by hand, too, and the sound is right."""
    h, x, hand = response(4000), noise(4000, 2), ("desk:monitor_FL", "hc:in-2")
    client = session(run, write("h.wav", h), "--output", "desk", "--reconnect")
    daemon.tool("pw-link", *hand)
    for death in range(int(os.environ.get("HC_PIPEWIRE_DEATHS", "3"))):
        wait_for("links", lambda: daemon.links() >= CONNECTED | {hand})
        time.sleep(0.2)  # the control thread has noticed them
        daemon.kill()
        wait_for("the loss", lambda: client.said().count("went away") == death + 1)
        daemon.start()
        wait_for("the return", lambda: client.said().count("is back, ") == death + 1)
        wait_for("links", lambda: daemon.links() >= CONNECTED | {hand})
        daemon.tool("pw-link", "-d", *hand)
        assert_close(daemon.play(x, 2, 8000, silence=12000), wet(x, h, 8000))
        daemon.tool("pw-link", *hand)
    client.end()


def test_without_reconnect_a_lost_daemon_is_the_end(run, daemon):
    client = session(run, write("h.wav", response(100)))
    daemon.kill()
    client.end(how=None, status=1)
    assert "the PipeWire daemon: went away; start it again, or give --reconnect" in client.said()
    refused("pipewire", "h.wav", says=["pipewire: no daemon answers: ", "systemctl --user start pipewire"])


def test_links_follow_the_default_device(run, daemon):
    """A link that the user removes stays removed; a device is found by its description."""
    client = session(run, write("h.wav", response(100)), "--connect")
    wait_for("links", lambda: daemon.links() >= CONNECTED)
    for sink in ["attic", "desk"]:
        daemon.tool("pw-metadata", 0, "default.audio.sink", json.dumps({"name": sink}), "Spa:String:JSON")
        want = {(f"hc:out-{i}", f"{sink}:playback_F{side}") for i, side in [(1, "L"), (2, "R")]}
        wait_for(sink, lambda: {link for link in daemon.links() if link[0].startswith("hc:")} == want)
    daemon.tool("pw-link", "-d", "hc:out-1", "desk:playback_FL")
    time.sleep(0.3)
    assert ("hc:out-1", "desk:playback_FL") not in daemon.links()
    daemon.tool("pw-metadata", 0, "default.audio.sink", '{"name": "attic"}', "Spa:String:JSON")
    wait_for("the other link", lambda: ("hc:out-2", "attic:playback_FR") in daemon.links())
    time.sleep(0.2)
    assert ("hc:out-1", "attic:playback_FL") not in daemon.links()
    client.end()
    client = session(run, "h.wav", "--output", "The attic", "--description", "A room")
    wait_for("links", lambda: ("hc:out-2", "attic:playback_FR") in daemon.links())
    assert '"node.description": "A room"' in daemon.tool("pw-dump")
    client.end()


def test_links_follow_the_newest_session_manager(run, daemon):
    """It comes before the old one ends, or is a second one that ends first."""
    daemon.tool("pw-metadata", 0, "default.audio.sink", '{"name": "desk"}', "Spa:String:JSON")
    client = session(run, write("h.wav", response(100)), "--output", "system")
    for _ in range(2):
        wait_for("the links", lambda: daemon.links() == CONNECTED)
        manager = run.process([sys.executable, "-c", MANAGER])
        wait_for("the other links", lambda: daemon.links() == {("hc:out-1", "attic:playback_FL"),
                                                               ("hc:out-2", "attic:playback_FR")})
        stop(manager)
    client.end()


def test_links_return_with_their_device(run, daemon):
    """With one port a device returns with the id that it had."""
    gadget = {"name": "gadget", "channels": "MONO", "monitor": "false"}
    daemon.make(**gadget)
    client = session(run, write("h.wav", response(100)), "--output", "gadget")
    for _ in range(3):
        wait_for("links", lambda: daemon.links() == {("hc:out-1", "gadget:playback_MONO")})
        time.sleep(0.2)  # the control thread has noticed them
        daemon.destroy("gadget")
        daemon.make(**gadget)
    wait_for("links", lambda: daemon.links() == {("hc:out-1", "gadget:playback_MONO")})
    client.end()


def test_a_refused_link_is_reported_once_and_is_no_removed_one(run, daemon):
    """Sound cannot go to a port for MIDI. The link still follows the default device."""
    write("h.wav", response(100, 1))
    for name, port in [("hc", "system:playback_2"), ("other", "")]:
        pathlib.Path(f"{name}.conf").write_text(f"/convolver/new 1 1 256 100\n/output/name 1 out {port}\n"
                                                "/impulse/read 1 1 1 0 0 0 1 h.wav\n")
    other = run.client("pipewire", "other.conf", "--name", "other", "--midi")
    daemon.tool("pw-metadata", 0, "default.audio.sink", '{"name": "other"}', "Spa:String:JSON")
    client = session(run, "hc.conf")
    client.says("the daemon refuses to link hc:out to other:midi-in: .*; choose another port")
    daemon.make("gadget")  # the graph changes
    time.sleep(1.2)  # links that are missing are tried every second
    daemon.tool("pw-metadata", 0, "default.audio.sink", '{"name": "desk"}', "Spa:String:JSON")
    wait_for("the link", lambda: ("hc:out", "desk:playback_FR") in daemon.links())
    assert client.said().count("refuses") == 1
    client.end(), other.end()


@needs_osc
def test_a_daemon_that_hangs_keeps_no_message_waiting(run, daemon):
    """It stops after it has reported a change. When it continues, links follow the change."""
    client = session(run, write("h.wav", response(100)), "--output", "gadget", "--osc", 0, ready="OSC on port")
    with control_of(client) as control:
        client.process.send_signal(signal.SIGSTOP)
        daemon.make("gadget")
        daemon.process.send_signal(signal.SIGSTOP)
        client.process.send_signal(signal.SIGCONT)
        slowest, end = 0, time.monotonic() + 3
        while time.monotonic() < end:
            began = time.monotonic()
            control.stats()
            slowest = max(slowest, time.monotonic() - began)
        daemon.process.send_signal(signal.SIGCONT)
        assert slowest < 2, slowest  # a wait for the daemon takes 5 s
        wait_for("the link", lambda: ("hc:out-1", "gadget:playback_FL") in daemon.links())
    client.end()


def test_a_card_is_a_sink_and_a_source(run, daemon):
    """Of nodes with one description that of the direction is taken."""
    for name, kind in [("card-out", "Sink"), ("card-in", "Source/Virtual"), ("card-2", "Sink")]:
        daemon.make(name, kind, "Built-in Audio")
    client = session(run, write("h.wav", response(100)), "--input", "Built-in Audio", "--output", "Built-in Audio")
    want = {(f"card-in:capture_{side}", f"hc:in-{i}") for i, side in [(1, "FL"), (2, "FR")]}
    want |= {(f"hc:out-{i}", f"card-out:playback_{side}") for i, side in [(1, "FL"), (2, "FR")]}
    wait_for("links", lambda: daemon.links() == want)
    client.end()


def test_the_block_is_in_frames_of_the_graph(run, daemon):
    daemon.force("rate", 44100)
    client = session(run, write("h.wav", response(100)), "--no-resample", "--block", 512)
    assert '"node.latency": "512/44100"' in daemon.tool("pw-dump")
    client.end()


def test_it_refuses_what_it_cannot_do(daemon):
    write("h.wav", response(100))
    pathlib.Path("twins.conf").write_text("/convolver/new 2 1 256 100\n/input/name 1 mic\n/input/name 2 mic\n"
                                          "/impulse/read 1 1 1 0 0 0 1 h.wav\n")
    refused("pipewire", "twins.conf", "-q", says=["port mic cannot be made; give each port a different name"])
    refused("pipewire", "h.wav", "--remote", "nowhere", says=["no daemon nowhere answers"])
    refused("pipewire", "h.wav", "--sink", "room", "--name", "hall", says=["--name cannot be with --sink"], exit=2)


def test_a_configuration_for_jack_connects(run, daemon):
    write("h.wav", response(100)[:, :1])
    pathlib.Path("room.conf").write_text("/convolver/new 1 1 256 100\n/input/name 1 mic\n"
                                         "/output/name 1 out system:playback_2\n/impulse/read 1 1 1 0 0 0 1 h.wav\n")
    client = session(run, "room.conf")
    wait_for("links", lambda: ("hc:out", "desk:playback_FR") in daemon.links())
    assert "hc:mic" in daemon.tool("pw-link", "-i")
    client.end()


@needs_osc
def test_midi_selects_a_mask(run, daemon):
    """A file of program changes, played by PipeWire's own player."""
    write("a.wav", response(100)), write("b.wav", response(200))
    event = bytes.fromhex("18c001")  # a quarter of a second later: program 2
    track = event * 40 + bytes.fromhex("00ff2f00")
    pathlib.Path("song.mid").write_bytes(b"MThd" + bytes.fromhex("00000006 0000 0001 0030") + b"MTrk"
                                         + len(track).to_bytes(4, "big") + track)
    client = session(run, "a.wav", "b.wav", "--osc", 0, "--midi-connect", "pw-cat", ready="OSC on port")
    client.says("--midi-connect pw-cat: this output does not exist; .*pw-link -o")
    player = run.process(["pw-cat", "--midi", "--playback", "song.mid"], stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL)
    with control_of(client) as control:
        wait_for("the mask", lambda: control.stats()["mask"] == "b.wav")
    [link] = daemon.links()
    daemon.tool("pw-link", "-d", *link)
    time.sleep(0.3)
    assert daemon.links() == set(), "a link that the user removed came back"
    stop(player)
    client.end()


@needs_osc
def test_a_session_manager_leaves_a_device_its_name(run, daemon):
    manager = Manager(daemon)
    client = run.client("pipewire", write("h.wav", response(100)), "--sink", "room", "--backend", "cpu", env=manager.env,
                        ready=None)
    manager.welcome()
    manager.opens(pathlib.Path("haloconv.nABCD").resolve(), "haloconv.nABCD")
    client.says("room: 2 in, 2 out")
    assert '"node.name": "room"' in daemon.tool("pw-dump") and "MIDI" not in client.said()
    manager.socket.close()
    client.end()


def latencies(daemon):
    """{port of hc: {direction: largest latency in frames}}."""
    result = {}
    for thing in json.loads(daemon.tool("pw-dump")):
        info = thing.get("info") or {}
        properties = info.get("props", {})
        if thing["type"] == "PipeWire:Interface:Port" and properties.get("port.alias", "").startswith("hc:"):
            entries = info["params"].get("Latency", [])
            result[properties["port.name"]] = {entry["direction"]: entry["maxRate"] for entry in entries}
    return result


def test_latency_passes_where_a_route_leads(run, daemon):
    """Output 1 has the latency of input 1; output 2 has no route from it."""
    write("h.wav", np.eye(1, 100)[0][:, None])
    pathlib.Path("two.conf").write_text("/convolver/new 2 2 256 100\n/impulse/read 1 1 1 0 0 0 1 h.wav\n"
                                        "/impulse/read 2 2 1 0 0 0 1 h.wav\n")
    client = session(run, "two.conf")
    noise(9600, 2).astype(np.float32).tofile("x.f32")
    stage = run.process(list(map(str, [STAGE, "x.f32", 2, "hc:in-", "hc:out-", 2, "y.f32", 4800000, "latency", 480])),
                        stdout=subprocess.DEVNULL)
    wait_for("the latency", lambda: latencies(daemon)["out-1"].get("Output") == 480)
    assert latencies(daemon)["out-2"].get("Output", 0) == 0
    stop(stage)
    client.end()


def test_a_preset_names_the_command(run, daemon, monkeypatch, folder):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))
    (folder / "haloconv").mkdir()
    (folder / "haloconv/desk.conf").write_text("command = pipewire\nmask = h.wav\nname = hc\noutput = desk\n")
    write("haloconv/h.wav", response(100))
    client = run.client("run", "desk")
    wait_for("links", lambda: daemon.links() >= CONNECTED)
    client.end()
