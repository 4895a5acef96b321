"""The live hosts on real servers with no sound card: jackd's dummy driver, PortAudio on top of it, and ALSA's file
plugin.

Every server has a name of its own, so that several run at once. In the synchronous mode of jackd no cycle is lost,
however slow the machine: what is recorded is compared frame by frame. jack_stage plays and records. A test waits for
what it sees happen, or plays a number of frames (Server.play, silence): on a busy machine nothing has a promised
duration.
"""

import contextlib
import ctypes
import fcntl
import json
import os
import pathlib
import re
import resource
import select
import shutil
import signal
import socket
import struct
import subprocess
import termios
import time

import numpy as np
import pytest
from conftest import (BUILD, HALOCONV, ROOT, SAN, assert_close, convolve, generator, haloconv, noise, read, refused,
                      write)
from scipy.signal import fftconvolve

STAGE = BUILD / "tests/jack_stage"
FAULTY = BUILD / "tests/haloconv_faulty"
FEATURES = subprocess.run([str(HALOCONV), "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
HAS_JACK = "jack" in FEATURES and shutil.which("jackd") is not None
needs_jack = pytest.mark.skipif(not HAS_JACK, reason="no JACK in the build, or no jackd; make setup-test installs it")
PATIENCE = 120 if SAN else 60
if "thread" in SAN or "address" in SAN:  # jackd's and PortAudio's leaks are not ours
    os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"


@pytest.fixture(scope="module", autouse=True)
def alone():
    """The JACK servers of a machine share a registry in /dev/shm with places for 8, and a process killed at the wrong
    moment can block it for all. As root, the tests of a file get a /dev/shm and System V semaphores of their own; idle
    servers are kept only there."""
    libc, NEW_MOUNTS, NEW_IPC, PRIVATE = ctypes.CDLL(None, use_errno=True), 0x20000, 0x08000000, 1 << 18 | 1 << 14
    Server.keeps_idle = libc.unshare(NEW_MOUNTS | NEW_IPC) == 0
    if Server.keeps_idle:
        libc.mount(b"none", b"/", None, PRIVATE, None)
        libc.mount(b"none", b"/dev/shm", b"tmpfs", 0, b"size=512m")
    yield
    while Server.idle:
        Server.idle.popitem()[1].close()


# ---- servers and clients ---------------------------------------------------------------------------------------------
def wait_for(what, truth, seconds=PATIENCE):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        answer = truth()
        if answer:
            return answer
        time.sleep(0.005)
    raise AssertionError(f"waited {seconds} s for {what}")


def stop(process, how=signal.SIGTERM):
    if process.poll() is None:
        process.send_signal(how)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


OWN_PORTS = ["system:capture_1", "system:capture_2", "system:playback_1", "system:playback_2"]
AFTER_SWAP = 12000  # frames; tail levels of masks of these tests are ready after 4224 (hc_info.swap_delay)


class Server:
    count = 0
    keeps_idle = False
    idle = {}  # by their periods: synchronous servers of 48000 Hz that a test has left without clients

    @classmethod
    def get(cls, period, **kwargs):
        """An idle server, else a new one."""
        server = cls.idle.pop(period, None) if not kwargs else None
        if not server:
            return cls(period, **kwargs)
        server.env = server.environment()
        return server

    def leave(self):
        """It becomes idle if it is as it was at its start, and no other of its period is; else it ends."""
        if (Server.keeps_idle and self.period not in Server.idle and self.is_usual and self.process.poll() is None
                and self.ports().split() == OWN_PORTS):
            Server.idle[self.period] = self
            self.process.kept = True
        else:
            self.close()

    def environment(self):
        return {**os.environ, "JACK_DEFAULT_SERVER": self.name, "JACK_NO_AUDIO_RESERVATION": "1",
                "JACK_NO_START_SERVER": "1"}

    def __init__(self, period, name=None, synchronous=True, rate=48000, realtime=False):
        Server.count += 1
        self.period, self.is_usual = period, synchronous and rate == 48000 and name is None and not realtime
        self.name = name or f"hc{os.getpid()}-{Server.count}"
        self.env = self.environment()
        # -S: a cycle ends when every client is done, -t: and this long is waited for one (ms)
        mode = ["-S", "-t", "3000"] if synchronous else []
        self.command = ["jackd", *(["-R", "-P20"] if realtime else ["-r"]), *mode, "-p", "128", "-n", self.name,
                        "-d", "dummy", "-r", str(rate), "-p", str(period)]
        self.start()

    def start(self):
        self.clean = True
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=open(f"{self.name}.log", "a"),
                                        stderr=subprocess.STDOUT, env=self.env)
        wait_for(f"server {self.name}", lambda: "system:playback_2" in self.ports())

    def close(self):
        """A killed server keeps its place, of which JACK has 8 on a machine, until it has run again: start it once
        more."""
        if not self.clean:
            self.start()
        stop(self.process)

    def tool(self, *args, **kwargs):
        return subprocess.run(list(map(str, args)), env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=60, **kwargs)

    def haloconv(self, *args, **kwargs):
        return self.tool(HALOCONV, *args, **kwargs)

    def ports(self, *options):
        done = self.tool("jack_lsp", *options)
        return done.stdout if done.returncode == 0 else ""

    def kill(self):
        self.clean = self.is_usual = False
        self.process.kill()
        self.process.wait()

    def stage(self, x, n_out, n_frames, *options, first="hc", last=None, silence=0):
        """Play x [frames][channels] into `first`, record n_frames of `last`'s outputs. 50 ms of silence come before x,
        in which ramps end (20 ms), and so many frames more: AFTER_SWAP, if the mask has just been loaded."""
        name = f"{self.name}-{Server.count}"
        if options:  # it may end with another period, and freewheel if this fails
            self.is_usual = False
        x.astype(np.float32).tofile(f"{name}.x")
        self.said = pathlib.Path(f"{name}.said")
        command = [STAGE, self.name, f"{name}.x", x.shape[1], first, last or first, n_out, f"{name}.y", n_frames,
                   "silence", silence, *options]
        self.finish = subprocess.Popen(list(map(str, command)), env=self.env, stdin=subprocess.DEVNULL,
                                       stdout=open(self.said, "w"), stderr=subprocess.PIPE, text=True, errors="replace")

        def result():
            err = self.finish.communicate(timeout=120)[1]
            assert self.finish.returncode == 0, err
            return np.fromfile(f"{name}.y", np.float32).reshape(-1, n_out).astype(np.float64)

        return result

    def play(self, *args, **kwargs):
        return self.stage(*args, **kwargs)()

    def play_silence(self, n_frames):
        self.play(np.zeros((1, 2)), 2, n_frames)


class Client:
    """The running program, with its messages and its report."""

    def __init__(self, *args, program=HALOCONV, env=None, ready=r"\d+ Hz, ", **kwargs):
        Server.count += 1
        self.log, self.report = pathlib.Path(f"client-{Server.count}.log"), pathlib.Path(f"client-{Server.count}.json")
        # The report's path is absolute: a reader elsewhere may want it.
        self.process = subprocess.Popen([str(program), *map(str, args), "--stats", str(self.report.resolve())],
                                        **{"stdin": subprocess.DEVNULL, **kwargs}, stdout=subprocess.DEVNULL,
                                        stderr=open(self.log, "w"), env={**os.environ, **(env or {})})
        if ready:
            self.says(ready)

    def said(self):
        return self.log.read_text(errors="replace")

    def says(self, pattern):
        def seen():
            has_ended = self.process.poll() is not None  # asked first: it may speak and end while this looks
            return re.search(pattern, self.said()) or (has_ended and self.gone())

        wait_for(f"'{pattern}' in: {self.said()}", seen)

    def gone(self):
        time.sleep(0.05)
        raise AssertionError(f"exit {self.process.returncode}: {self.said()}")

    def end(self, how=signal.SIGTERM, status=0):
        """Its statistics."""
        if how:
            self.process.send_signal(how)
        assert self.process.wait(PATIENCE) == status, self.said()
        return json.loads(self.report.read_text()) if self.report.exists() else None


@pytest.fixture
def run(folder):
    """Makes servers and clients that are gone after the test."""
    with contextlib.ExitStack() as stack:
        class Run:
            @staticmethod
            def server(*args, **kwargs):
                server = Server.get(*args, **kwargs)
                stack.callback(server.leave)
                return server

            @staticmethod
            def client(*args, **kwargs):
                client = Client(*args, **kwargs)
                stack.callback(stop, client.process)
                return client

            @staticmethod
            def process(*args, end=signal.SIGTERM, **kwargs):
                process = subprocess.Popen(*args, **kwargs)
                stack.callback(stop, process, end)
                return process

            @staticmethod
            def jack(server, mask, *options, **kwargs):
                return Run.client("jack", mask, "--server", server.name, "--name", "hc", *options, **kwargs)

        yield Run


def response(n_frames=12000, n_channels=2, seed=4):
    """A decaying room [n_frames][n_channels]; sum of squares about 1."""
    decay = np.exp(-6 * np.arange(n_frames) / n_frames)[:, None]
    h = generator(seed).normal(size=(n_frames, n_channels)) * decay
    return (h / np.sqrt((h ** 2).sum(0))).astype(np.float32)


def wet(x, h, n_frames):
    """Channel by channel, in float64; the first n_frames."""
    y = np.stack([fftconvolve(x[:, c].astype(np.float64), h[:, c].astype(np.float64)) for c in range(x.shape[1])], 1)
    return np.pad(y, ((0, max(0, n_frames - len(y))), (0, 0)))[:n_frames]


# ---- OSC -------------------------------------------------------------------------------------------------------------
needs_osc = pytest.mark.skipif("osc" not in FEATURES, reason="no liblo in the build")
OSC = ["--osc", 0] if "osc" in FEATURES else []
PANEL = ["--panel", "0.0.0.0:0"] if "websockets" in FEATURES else []


def osc(path, *args):
    """An OSC message: strings, floats, integers, booleans."""
    def padded(text):
        return text.encode() + b"\0" * (4 - len(text) % 4)

    tags, data = ",", b""
    for arg in args:
        if isinstance(arg, bool):
            tags += "T" if arg else "F"
        elif isinstance(arg, str):
            tags, data = tags + "s", data + padded(arg)
        else:
            tag = "i" if isinstance(arg, int) else "f"
            tags, data = tags + tag, data + struct.pack(">" + tag, arg)
    return padded(path) + padded(tags) + data


def read_osc(packet):
    """[path, argument, ...] of an OSC message of strings, integers and floats."""
    at = 0

    def text():
        nonlocal at
        end = packet.index(b"\0", at)
        value, at = packet[at:end].decode(errors="replace"), end + 4 - end % 4
        return value

    def number(tag):
        nonlocal at
        at += 4
        return struct.unpack_from(">" + tag, packet, at - 4)[0]

    path, tags = text(), text()[1:]
    return [path, *(text() if tag == "s" else number(tag) for tag in tags)]


class Control:
    def __init__(self, client, sock):
        self.port, self.socket = int(re.search(r"OSC on port (\d+)", client.said()).group(1)), sock

    def raw(self, packet):
        self.socket.sendto(packet, ("127.0.0.1", self.port))

    def send(self, *message):
        self.raw(osc(*message))

    def answer(self, *paths):
        """The next message, or the next one of these paths."""
        while True:
            message = read_osc(self.socket.recv(65536))
            if not paths or message[0] in paths:
                return message

    def ask(self, *message):
        self.send(*message)
        return self.answer()

    def settle(self):
        """The messages that were sent before have been obeyed."""
        self.ask("/wet")

    def stats(self):
        self.send("/stats")
        return json.loads(self.answer("/stats")[1])


@contextlib.contextmanager
def control_of(client):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(PATIENCE)
        yield Control(client, sock)


# ---- JACK ------------------------------------------------------------------------------------------------------------
@needs_jack
def test_several_servers_to_the_frame(run, backend):
    """Different periods at once; what is recorded is what `haloconv convolve` makes, with no frame of latency."""
    h, x = response(), noise(24000, 2)
    write("h.wav", h), write("x.wav", x)
    convolve("x.wav", "h.wav", "y.wav", "--format", "wav:float")
    want, servers, clients, results = read("y.wav"), [], [], []
    for period in [64, 256, 1024]:
        servers.append(run.server(period))
        clients.append(run.jack(servers[-1], "h.wav", "--backend", backend, "--wait-us", 1000000))
    for server in servers:
        results.append(server.stage(x, 2, len(want)))
    for result in results:
        assert_close(result(), want)
    for period, client in zip([64, 256, 1024], clients):
        stats = client.end()
        assert stats["block"] == period and stats["late"] == stats["lost"] == 0 and stats["backend"] == backend, stats
        assert 0 < stats["callback_us"]["p50"] <= stats["callback_us"]["p99"] <= stats["callback_us"]["max"], stats


@needs_jack
def test_freewheel_is_complete(run):
    h, x = response(), noise(96000, 2)
    server = run.server(128)
    client = run.jack(server, write("h.wav", h))
    assert_close(server.play(x, 2, 240000, "freewheel"), wet(x, h, 240000))
    client.end()


@needs_jack
@needs_osc
def test_freewheel_waits_for_a_slow_device(run):
    """Every 200th block takes the device too long. While the server freewheels no block is late, and the CPU does not
    take over."""
    h, x = response(), noise(60000, 2)
    server = run.server(128)
    client = run.jack(server, write("h.wav", h), "--backend", "cuda", "--wait-us", 100000, "--osc", 0,
                      ready="OSC on port", program=FAULTY, env={"HC_FAULT": "slow 100 150 200"})
    assert_close(server.play(x, 2, 80000, "freewheel"), wet(x, h, 80000))
    with control_of(client) as control:
        stats = wait_for("a late block by the clock", lambda: (lambda s: s["late"] > 0 and s)(control.stats()))
    assert stats["backend"] == "cuda" and stats["state"] == "ok", stats
    client.end()


@needs_jack
def test_the_buffer_size_changes_while_playing(run, backend):
    h, x = response(), noise(70000, 2)
    server = run.server(64)
    client = run.jack(server, write("h.wav", h), "--backend", backend, "--wait-us", 1000000)
    sizes = ["resize", 10000, 512, "resize", 28000, 128, "resize", 46000, 64]
    assert_close(server.play(x, 2, 64000, *sizes), wet(x, h, 64000))
    client.says("blocks of 512 frames[^$]*blocks of 128 frames[^$]*blocks of 64 frames")
    assert client.end()["engines"] == 4


@needs_jack
def test_two_chained_clients(run):
    h, g, x = response(seed=5), response(3000, seed=6), noise(24000, 2)
    server = run.server(64)
    one = run.jack(server, write("h.wav", h))
    two = run.client("jack", write("g.wav", g), "--server", server.name, "--name", "hc2")
    for ch in [1, 2]:
        assert server.tool("jack_connect", f"hc:out-{ch}", f"hc2:in-{ch}").returncode == 0
    n = 30000
    assert_close(server.play(x, 2, n, first="hc", last="hc2"), wet(wet(x, h, n), g, n))
    one.end(), two.end()


DEBIAN = pathlib.Path("/usr/share/jconvolver/config-files/ambisonic/uhjenc.conf")


@needs_jack
@pytest.mark.skipif(not (shutil.which("jconvolver") and DEBIAN.exists()),
                    reason="jconvolver and its configurations are not installed")
def test_a_configuration_sounds_as_in_jconvolver(run):
    """One of Debian's, as it is: Hilbert transforms, diracs and copies, with its own names of client and ports."""
    server, x = run.server(1024), noise(16000, 3)
    text = DEBIAN.read_text()
    text = re.sub(r"(/convolver/new +\d+ +\d+ +)\d+", r"\g<1>1024", text)  # without latency only where it is the period
    text = re.sub(r"^/(input|output)/name.*\n", "", text, flags=re.M) + "/input/name 1 W\n/input/name 2 X\n" \
        "/input/name 3 Y\n/output/name 1 L system:playback_1\n/output/name 2 R\n"
    text = re.sub(r"^/jack/client.*$", "", text, flags=re.M)
    text = text.replace("/convolver/new", "/jack/client uhj\n/convolver/new", 1)
    pathlib.Path("uhj.conf").write_text(text)
    outputs, peer = {}, pathlib.Path("jconvolver.log")
    for name, start in {
            "jconvolver": lambda: subprocess.Popen(["jconvolver", "-s", server.name, "uhj.conf"], env=server.env,
                                                   stdin=subprocess.DEVNULL, stdout=open(peer, "w"),
                                                   stderr=subprocess.STDOUT),
            "haloconv": lambda: run.client("jack", "uhj.conf", "--server", server.name).process}.items():
        process = start()
        wait_for(f"{name}'s ports", lambda: "uhj:R" in server.ports())
        wait_for("its connection", lambda: re.search(r"uhj:L\n   system:playback_1", server.ports("-c")))
        try:
            outputs[name] = server.play(x, 2, 16000, first="uhj:W,uhj:X,uhj:Y", last="uhj:L,uhj:R")
        except AssertionError:
            if "CPU overload" in peer.read_text():
                pytest.skip("jconvolver leaves a server on a machine as busy as this")
            raise
        stop(process, signal.SIGINT)
        wait_for("its end", lambda: "uhj:" not in server.ports())
    assert np.abs(outputs["jconvolver"]).max() > 0.05
    if "late" in peer.read_text() and np.abs(outputs["haloconv"] - outputs["jconvolver"]).max() > 1e-4:
        pytest.skip("jconvolver was late on a machine as busy as this")
    assert_close(outputs["haloconv"], outputs["jconvolver"])


@needs_jack
def test_ports_connect_only_where_asked(run):
    server = run.server(256)
    client = run.jack(server, write("h.wav", response(100)))
    assert "midi" not in server.ports()  # without --midi
    assert "hc:" not in re.sub(r"^hc:.*$", "", server.ports("-c"), flags=re.M)
    client.end()
    client = run.jack(server, "h.wav", "--connect")
    wires = server.ports("-c")
    for port in ["in-1\n   system:capture_1", "in-2\n   system:capture_2", "out-1\n   system:playback_1",
                 "out-2\n   system:playback_2"]:
        assert re.search(f"^hc:{port}$", wires, re.M), wires
    client.end()


@needs_jack
def test_channels_of_an_equalizer_are_inputs_and_outputs(run):
    """JACK has one list of a client's port names."""
    pathlib.Path("eq.txt").write_text("Channel: L\nFilter 1: ON PK Fc 100 Hz Gain -3 dB Q 1\nChannel: R\nPreamp: -2 dB\n")
    server = run.server(256)
    client = run.jack(server, "eq.txt")
    assert {"hc:L", "hc:R", "hc:out-L", "hc:out-R"} <= set(server.ports().split())
    client.end()


def latency(server, port, kind):
    block = re.search(rf"^{port}$((?:\n\t.*)+)", server.ports("-l"), re.M).group(1)
    return list(map(int, re.search(rf"{kind} latency = \[ (\d+) (\d+) \]", block).groups()))


@needs_jack
def test_latency_follows_the_paths_of_the_matrix(run):
    """in-1 is connected to the sound card, in-2 to nothing: the range of an output's latency shows its inputs."""
    server = run.server(64)
    masks = {"diagonal": response(50, 2), "true stereo": response(50, 4)}
    masks["true stereo"][:, 2] = 0  # R>L is a route still
    for name, mask in masks.items():
        client = run.jack(server, write(f"{name}.wav", mask))
        assert server.tool("jack_connect", "system:capture_1", "hc:in-1").returncode == 0
        assert server.tool("jack_connect", "hc:out-2", "system:playback_2").returncode == 0
        captured = latency(server, "system:capture_1", "capture")
        played = latency(server, "system:playback_2", "playback")
        assert captured[0] > 0 and played[0] > 0
        crossed = name == "true stereo"
        want = [0, captured[1]] if crossed else captured
        wait_for("latencies", lambda: latency(server, "hc:out-1", "capture") == want)
        assert latency(server, "hc:out-2", "capture") == ([0, captured[1]] if crossed else [0, 0])
        assert latency(server, "hc:in-2", "playback") == ([0, played[1]] if crossed else played)
        assert latency(server, "hc:in-1", "playback") == ([0, played[1]] if crossed else [0, 0])
        client.end()


@needs_jack
def test_measured_latency_is_the_reported_one(run):
    """jack_iodelay through the client: as many frames as with a plain wire, and as its ports say: none more."""
    if not shutil.which("jack_iodelay"):
        pytest.skip("no jack_iodelay")
    server = run.server(64, synchronous=False)  # jack_iodelay does not close its client
    pathlib.Path("one.txt").write_text("1\n")
    client = run.jack(server, "one.txt", "--inputs", 1)

    def measure(*wires):
        probe = subprocess.Popen(["stdbuf", "-oL", "jack_iodelay"], env=server.env, stdin=subprocess.DEVNULL,
                                 stdout=open("iodelay", "w"), stderr=subprocess.STDOUT)
        try:
            wait_for("jack_iodelay", lambda: "jack_delay:in" in server.ports())
            for a, b in wires:
                assert server.tool("jack_connect", a, b).returncode == 0

            def steady():
                """The same measurement three times in a row: a lost cycle would change it."""
                found = re.findall(r"^ *([\d.]+) frames.*$", pathlib.Path("iodelay").read_text(), re.M)[-3:]
                return len(found) == 3 and len(set(found)) == 1 and found

            return float(wait_for("a measurement", steady)[-1])
        finally:
            stop(probe, signal.SIGINT)
            wait_for("jack_iodelay's end", lambda: "jack_delay" not in server.ports())

    wire = measure(("jack_delay:out", "jack_delay:in"))
    through = measure(("jack_delay:out", "hc:in-1"), ("hc:out-1", "jack_delay:in"))
    assert abs(through - wire) < 0.01, f"{through} frames through the client, {wire} by wire"
    assert latency(server, "hc:out-1", "capture") == [0, 0]
    client.end()


@needs_jack
def test_a_killed_server_ends_it_cleanly(run):
    server = run.server(256)
    client = run.jack(server, write("h.wav", response(100)))
    server.play_silence(1000)
    server.kill()
    stats = client.end(how=None, status=1)
    assert "the JACK server: went away;" in client.said() and stats["blocks"] > 0, client.said()


@needs_jack
def test_reconnect_waits_for_the_server(run):
    """Before the first server, and between two with different periods; connections come back, those of --connect and
    one made by hand. jack_reconnect_test lets the server die at other moments."""
    h, x = response(), noise(30000, 2)
    name = f"hc{os.getpid()}-late"
    client = run.client("jack", write("h.wav", h), "--server", name, "--name", "hc", "--reconnect", "--connect", *OSC,
                        ready="waits until it answers")
    server = run.server(128, name=name)
    client.says(r"\d+ Hz")
    assert server.tool("jack_connect", "hc:out-1", "system:playback_2").returncode == 0

    def is_connected():
        return re.search(r"hc:out-1\n(?:   .*\n)*   system:playback_2", server.ports("-c"))

    wait_for("the connection", is_connected)
    if OSC:
        client.says("OSC on port")
        with control_of(client) as control:
            control.stats(), control.stats()  # between two answers connections are looked at
    else:
        time.sleep(3)
    server.kill()
    client.says("went away; waiting for its return")
    server.command[-1] = "64"
    server.start()
    client.says("is back, 5 of 5 connections")
    wait_for("the connection", is_connected)
    client.says("blocks of 64 frames")
    assert_close(server.play(x, 2, 40000), wet(x, h, 40000))
    assert client.end()["block"] == 64


@needs_jack
def test_no_server_is_an_error_with_a_remedy(folder):
    write("h.wav", noise(100, 2))
    refused("jack", "h.wav", "--server", "hc-nobody", says=["jack", "no server", "jackd"])
    refused("jack", exit=2, says="needs a MASK")
    refused("jack", "h.wav", "--late", "loud", exit=2, says="silence or dry")
    for port in ["99999", "65536", "-1", "localhost:99999", "localhost:", "osc"]:
        refused("jack", "h.wav", "--osc", port, exit=2, says=["--osc", "from 0 to 65535"])


# ---- real-time priority ----------------------------------------------------------------------------------------------
def has_realtime():
    return subprocess.run(["chrt", "-f", "20", "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0


needs_realtime = pytest.mark.skipif(not has_realtime(), reason="the system grants no real-time priority")
RTTIME, NO_LIMIT = 200000, resource.RLIM_INFINITY  # us, as RTKit sets it


@needs_jack
@needs_realtime
def test_a_session_with_real_time_priority_does_not_deny_it(run, short_mask):
    client = run.jack(run.server(128, synchronous=False, realtime=True), short_mask, "--backend", "cpu")
    client.says("mask: ")
    time.sleep(0.5)  # a denial comes in the first turn of the loop after a callback
    assert client.end()["blocks"] > 0
    assert "real-time priority" not in client.said()


@needs_jack
@needs_realtime
@pytest.mark.parametrize("when", ["hard", "soft", "later"])
def test_an_overload_under_a_limit_on_real_time_ends_no_session(run, when):
    """48 x 48 responses of 6 s on two processors without AVX: the threads of the tail are never done."""
    write("h.wav", 1e-3 * noise(288000, 1))
    pathlib.Path("big.conf").write_text("/convolver/new 48 48 256 288000\n" + "".join(
        f"/impulse/read {i} {o} 1 0 0 0 1 h.wav\n" for i in range(1, 49) for o in range(1, 49)))
    limit = (NO_LIMIT, NO_LIMIT) if when == "later" else (RTTIME, RTTIME if when == "hard" else NO_LIMIT)

    def limited():
        resource.setrlimit(resource.RLIMIT_RTTIME, limit)
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])

    server = run.server(64, synchronous=False, realtime=True)
    client = run.jack(server, "big.conf", "--backend", "cpu", env={"HALOCONV_SIMD": "baseline"}, preexec_fn=limited)
    client.says("mask: ")
    if when == "later":
        time.sleep(0.5)
        assert "RLIMIT_RTTIME" not in client.said()
        resource.prlimit(client.process.pid, resource.RLIMIT_RTTIME, (RTTIME, RTTIME))
    client.says(r"limit on real-time processor time \(RLIMIT_RTTIME\): .* 200 ms, .*; .*ulimit -R.*rt\.time\.soft")
    time.sleep(2)
    assert resource.prlimit(client.process.pid, resource.RLIMIT_RTTIME)[0] == RTTIME, "SIGXCPU raises it by a second"
    client.end()
    assert client.said().count("RLIMIT_RTTIME") == 1


@needs_jack
def test_sigxcpu_ends_no_session(run, short_mask):
    client = run.jack(run.server(128), short_mask, preexec_fn=lambda: resource.setrlimit(
        resource.RLIMIT_RTTIME, (50000, NO_LIMIT)))
    client.says(r"\(RLIMIT_RTTIME\): 50 ms, and helper threads need 100 ms; .*; raise it with ulimit -R")
    client.says("mask: ")
    resource.prlimit(client.process.pid, resource.RLIMIT_RTTIME, (RTTIME, NO_LIMIT))
    for _ in range(3):
        client.process.send_signal(signal.SIGXCPU)
        time.sleep(0.1)
    client.says(r"\(RLIMIT_RTTIME\): the load is too high for 200 ms")
    client.end()


@pytest.fixture
def short_mask(folder):
    write("h.wav", noise(100, 2))
    return "h.wav"


@pytest.fixture(params=["jack", "live"])
def silent(folder, request):
    """A command and an environment without audio: the error of an audio server or device would come first."""
    if {"jack": "jack", "live": "portaudio"}[request.param] not in FEATURES:
        pytest.skip(f"haloconv {request.param} is not in the build")
    write("h.wav", noise(100, 2))
    return request.param, dict(os.environ, JACK_DEFAULT_SERVER="hc-nobody", JACK_NO_START_SERVER="1",
                               ALSA_CONFIG_PATH="/nonexistent", ALSA_CONFIG_DIR="/nonexistent")


def test_a_report_that_cannot_be_written_is_found_before_the_audio_starts(silent):
    command, none = silent
    pathlib.Path("old.json").write_text("old")
    refused(command, "h.wav", "--stats", "no/such.json", env=none, says=["no/such.json: cannot be written", "choose"])
    refused(command, "h.wav", "--stats", "old.json", env=none)
    assert pathlib.Path("old.json").read_text() == "old" and not list(pathlib.Path().glob(".*part"))


@needs_osc
def test_a_taken_osc_port_is_found_before_the_audio_starts(silent):
    command, none = silent
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        refused(command, "h.wav", "--osc", port, env=none, says=[f"--osc 127.0.0.1:{port}: ", "choose another port"])


# ---- while it runs ---------------------------------------------------------------------------------------------------
@needs_jack
def test_masks_load_while_audio_plays(run):
    """SIGHUP, a watched file, and one that fails: it changes nothing and says why."""
    h, g, x = response(seed=7), response(20000, seed=8), noise(20000, 2)
    server = run.server(128)
    client = run.jack(server, write("h.wav", h), "--watch", ready="(?m)^mask: ")
    assert_close(server.play(x, 2, 25000), wet(x, h, 25000))
    write("new.wav", g), os.rename("new.wav", "h.wav")
    client.says(r"h\.wav: loaded, 0\.417 s")
    assert_close(server.play(x, 2, 25000, silence=AFTER_SWAP), wet(x, g, 25000))
    pathlib.Path("h.wav").write_text("no sound")
    client.says(r"haloconv: h\.wav: .*; ")
    client.process.send_signal(signal.SIGHUP)
    wait_for("a second refusal", lambda: client.said().count("haloconv: h.wav: ") >= 2)
    assert_close(server.play(x, 2, 25000, silence=AFTER_SWAP), wet(x, g, 25000))
    write("new.wav", h), os.rename("new.wav", "h.wav")
    wait_for("the mask again", lambda: client.said().count("h.wav: loaded") == 2)
    stats = client.end(signal.SIGINT)
    assert stats["swaps"] == 2 and stats["mask"] == "h.wav", stats
    for key in ["seconds", "blocks", "late", "lost", "overruns", "over", "xruns", "swaps", "non_finite"]:
        assert key in stats
    assert "xruns" in client.said() and "p99.9" in client.said()


@needs_jack
def test_the_file_of_the_rate_is_watched(run):
    """A better file that appears is a change, too."""
    h, g = response(seed=7), response(20000, seed=8)
    server = run.server(128)
    write("h-96000.wav", h, 96000)
    client = run.jack(server, "h-%r.wav", "--watch", ready="(?m)^mask: ")  # it watches then
    assert "h-48000.wav is missing" in client.said()
    write("new.wav", g), os.rename("new.wav", "h-48000.wav")
    client.says(r"h-%r\.wav: loaded, 0\.417 s")
    write("new.wav", h), os.rename("new.wav", "h-48000.wav")
    wait_for("a second change", lambda: client.said().count("h-%r.wav: loaded") == 2)
    assert client.end()["mask"] == "h-%r.wav"


@needs_jack
@needs_osc
def test_a_mask_of_the_list_is_ready_before_it_is_asked_for(run):
    """It plays although its file is gone meanwhile; a mask beyond --preload does not."""
    h, g, x = response(seed=9), response(4000, seed=10), noise(10000, 2)
    names = [write("h.wav", h), write("g.wav", g), write("k.wav", h)]
    server = run.server(128)
    client = run.jack(server, *names, "--preload", 1, "--osc", 0, ready=r"2 masks ready, \d+ MB")
    os.remove("g.wav"), os.remove("k.wav")
    with control_of(client) as control:
        control.send("/next")
        client.says(r"g\.wav: loaded, 0\.083 s")
        assert_close(server.play(x, 2, 10000, silence=AFTER_SWAP), wet(x, g, 10000))
        control.send("/next")
        client.says(r"haloconv: k\.wav: No such file")
        assert control.stats()["mask"] == "g.wav"
    client.end()


@needs_jack
@needs_osc
def test_osc_controls_it(run):
    h, g, x = response(seed=9), response(4000, seed=10), noise(10000, 2)
    write("g.wav", g)
    server = run.server(128)
    client = run.jack(server, write("h.wav", h), "--osc", 0, ready=r"OSC on port \d+")
    with control_of(client) as control:
        control.send("/gain", -20.0), control.send("/dry", -6), control.send("/wet", 0.0), control.stats()
        want = 10 ** (-20 / 20) * (wet(x, h, 10000) + 10 ** (-6 / 20) * x)
        assert_close(server.play(x, 2, 10000), want)
        control.send("/bypass", True), control.stats()
        assert_close(server.play(x, 2, 10000), x)
        control.send("/bypass", 0), control.send("/gain", 0.0)
        control.send("/dry", "off")
        assert control.ask("/mask", "g.wav") == ["/mask", "g.wav", 0]
        wait_for("the mask", lambda: control.stats()["mask"] == "g.wav")
        # A bundle, and packets that haloconv does not know.
        parts = [osc("/gain", -6.0), osc("/no")]
        sized = b"".join(struct.pack(">i", len(part)) + part for part in parts)
        control.raw(b"#bundle\0" + struct.pack(">Q", 1) + sized)
        assert control.answer()[:2] == ["/error", "/no"]
        for packet in [b"rubbish", b"", b"#bundle\0" * 9, b"/gain\0\0\0,zz\0"]:
            control.raw(packet)
        assert_close(server.play(x, 2, 10000, silence=AFTER_SWAP), 10 ** (-6 / 20) * wet(x, g, 10000))
        assert sum(control.stats()[count] for count in ("late", "lost")) == 0
        ours = subprocess.run(["ss", "-Hlun"], stdout=subprocess.PIPE, text=True).stdout if shutil.which("ss") else ""
        assert f"0.0.0.0:{control.port}" not in ours, "listens to the world"
    client.end()


@needs_jack
@needs_osc
def test_a_flood_of_osc_leaves_a_short_log(run):
    """20,000 messages that are refused, or whose mask is. The log has the first lines of each 10 s, the number of the
    others, and no control character. The program still obeys."""
    server, start = run.server(128), time.monotonic()
    client = run.jack(server, write("h.wav", response(100)), "--osc", 0, ready=r"OSC on port \d+")
    hostile = [osc("/no/such"), osc("/gain", "loud"), osc("/mask", 1), osc("/mask", "x" * 5000), osc("/mask", "no.wav"),
               osc("/a\n\x1b[2Jb\x9b1m"), osc("/mask", "no\n\x1b[2J\x9b1m.wav"), osc("/" + "y" * 3000)]
    with control_of(client) as control, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        for message in hostile:
            part = struct.pack(">i", len(message)) + message
            n = min(2500, 60000 // len(part))
            for _ in range(2500 // n):
                stranger.sendto(b"#bundle\0" + struct.pack(">Q", 1) + n * part, ("127.0.0.1", control.port))
                control.stats()  # the program keeps up
        control.send("/gain", -6.0)
        control.stats()
    client.end()
    said, periods = client.said(), 1 + (time.monotonic() - start) // 10  # of 10 s, with so many lines each
    assert said.count("\n") < 70 * periods and len(said) < 20000 * periods, (periods, len(said), said[:2000])
    assert re.search(r"^\d{4,} more lines about refused OSC messages$", said, re.M), said[:20000]
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", said), said[:20000]


# ---- MIDI ------------------------------------------------------------------------------------------------------------
def send_midi(server, name, *messages):
    """A client of this name sends messages, such as "c001", once its output is connected."""
    done = server.tool(STAGE, "midi", server.name, name, *messages)
    assert done.returncode == 0, done.stderr


@needs_jack
def test_midi_controls_it(run):
    """The default map, on one channel, from a device that is unplugged once. A message about a mask shows that the
    messages before it have been obeyed."""
    h, g, x = response(seed=9), response(4000, seed=10), noise(10000, 2)
    write("h.wav", h), write("g.wav", g)
    server = run.server(128)
    client = run.jack(server, "h.wav", "g.wav", "--midi-channel", 2, "--midi-connect", "pad")
    client.says("MIDI on hc:midi-in[^$]*--midi-connect pad: this output does not exist")
    # Between -6 dB of dry and -20 dB of gain are a clock, a note and an exclusive message; bypass is on channel 1.
    send_midi(server, "keypads", "b11567", "f8", "913c40", "f07e7ff7", "b1164b", "b0507f", "c101")
    client.says("g.wav: loaded")
    want = 10 ** (-20 / 20) * (wet(x, g, 10000) + 10 ** (-6 / 20) * x)
    assert_close(server.play(x, 2, 10000, silence=AFTER_SWAP), want)
    send_midi(server, "pad", "b1507f", "c107", "c107", "b1527f", "b15200")
    client.says("h.wav: loaded")
    assert_close(server.play(x, 2, 10000), x)
    assert client.end()["swaps"] == 2
    assert client.said().count("MIDI: mask 8 does not exist; the list has 2 masks") == 1, client.said()


def test_a_wrong_midi_map_is_refused_whole(folder):
    write("h.wav", noise(100, 2))
    pathlib.Path("map.txt").write_text("cc 20 wet\nprogram mask\nnote 60 louder\n")
    for command, feature in {"jack": "jack", "live": "portaudio"}.items():
        if feature in FEATURES:
            done = haloconv(command, "h.wav", "--midi-map", "map.txt")
            assert done.returncode == 1 and re.fullmatch(r"haloconv: map.txt:1: .*; .*\nhaloconv: map.txt:3: .*; .*\n",
                                                         done.stderr), done.stderr
            refused(command, "h.wav", "--midi-map", "no.txt", says="no.txt: cannot be read")
        refused(command, "h.wav", "--midi-channel", 17, exit=2, says="from 1 to 16")


@needs_jack
def test_the_start_names_mask_ports_and_connections(run):
    """Without a terminal: as in a journal."""
    server = run.server(256)
    write("one.wav", response(500)), write("two.wav", response(500))
    client = run.jack(server, "one.wav", "two.wav", ready=r"mask 1 of 2: one\.wav")
    client.says(r"(?m)^none of 4 ports is connected; use --connect or a patchbay$")
    client.end()
    client = run.jack(server, "one.wav", "--connect", ready=r"(?m)^mask: one\.wav$")
    client.says(r"(?m)^4 ports, 4 of 4 connections$")
    client.end()


@needs_jack
def test_keys_on_a_terminal(run):
    server = run.server(256)
    write("one.wav", response(500, seed=1)), write("two.wav", response(500, seed=2))
    main, terminal = os.openpty()
    client = run.client("jack", "one.wav", "two.wav", "--server", server.name, ready=None, stdin=terminal,
                        start_new_session=True,
                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
    def modes():
        return subprocess.run(["stty", "-F", os.ttyname(terminal), "-a"], stdout=subprocess.PIPE, text=True).stdout

    wait_for("the terminal", lambda: "-icanon" in modes())
    client.says(r"(?m)^mask 1 of 2: one\.wav; h: keys$")
    for keys, says in [(b"n", "two.wav: loaded"), (b"+", "gain 1 dB"), (b"-", r"gain 0 dB"), (b"dD", "dry -20 dB"), (b"d" * 61, "dry off"), (b"w", "wet -1 dB"),
                       (b"h", "keys: b bypass"), (b"p", "one.wav: loaded"),
                       (b"r", "one.wav: loaded[^$]*one.wav: loaded")]:
        os.write(main, keys)
        client.says(says)
    os.write(main, b"q")
    assert client.end(how=None)["swaps"] == 3
    assert "-icanon" not in modes(), "the terminal was not put back"
    os.close(main), os.close(terminal)


def shows(main, pattern):
    """A status line that the terminal gets and that matches."""
    text, end = b"", time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if select.select([main], [], [], 0.1)[0]:
            text += os.read(main, 4096)
        for line in text.split(b"\r\x1b[K")[1:-1]:
            if re.search(pattern, line.split(b"\n")[-1]):
                return line
    raise AssertionError(f"no {pattern} in {text[-800:]}")


@needs_jack
def test_a_status_line_fits_its_terminal(run):
    """The mask comes first, then BYPASSED and the gains; a narrow terminal gets fewer statistics."""
    server = run.server(256)
    hall = "h\x1b[2J\x9b1m-\u00e9\u00e9\u00e9\u00e9\u00e9-of-a-long-name-48k.wav"  # must not steer the terminal
    write("two.wav", response(500)), shutil.copy("two.wav", hall)
    main, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 24, 200, 0, 0))
    shown = subprocess.Popen([str(HALOCONV), "jack", "two.wav", hall, "--server", server.name, "--wet=-3"],
                             stdin=terminal, stderr=terminal, start_new_session=True,
                             preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
    try:
        shows(main, rb"^two\.wav 1/2 \| wet -3 dB \| xruns \d+, late \d+(?:, overruns \d+)? \| in silence, out silence \| cpu "
                    rb"\| load \d+ %, p99 \d+ %, worst \d+ %$")
        os.write(main, b"nb++D")
        gains = rb" 2/2 BYPASSED \| gain 2 dB, wet -3 dB, dry -20 dB"
        for columns, pattern in [(200, rb"^h\?\[2J\?1m-.*-long-name-48k\.wav" + gains + rb" \| xruns .* \| load .*%$"),
                                 (80, rb"^h\?\[2J.*\.\..*\.wav" + gains),
                                 (40, rb"^h\?\[2J.*\.\..*\.wav 2/2 BYPASSED")]:
            fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
            line = shows(main, pattern)
            assert len(line.decode()) < columns, line  # the name is cut between two characters
            assert b"\x1b[2J" not in line and b"\xc2\x9b" not in line, line
    finally:
        stop(shown, signal.SIGINT)
        os.close(main), os.close(terminal)


@needs_jack
def test_the_status_line_waits_for_a_server(run):
    server = run.server(256)
    write("one.wav", response(500))
    main, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 24, 120, 0, 0))
    shown = run.process([str(HALOCONV), "jack", "one.wav", "--reconnect", "--server", server.name], stderr=terminal)
    shows(main, rb"^one\.wav \| xruns")
    server.kill()
    shows(main, rb"^one\.wav WAITING for the JACK server \| xruns")
    stop(shown, signal.SIGINT)
    os.close(main), os.close(terminal)


@needs_jack
def test_the_end_is_faded(run):
    """SIGTERM while a tone plays: the output goes down over some milliseconds, not in a step."""
    server = run.server(64)
    pathlib.Path("one.txt").write_text("1\n")
    client = run.jack(server, "one.txt", "--inputs", 1)
    result = server.stage(np.ones((2400000, 1)), 1, 2400000)
    wait_for("the tone", lambda: "begun" in server.said.read_text())
    client.end()
    server.finish.send_signal(signal.SIGINT)
    y = result()[:, 0]
    assert y[0] == 1 and y[-1] == 0
    assert np.abs(np.diff(y[10:])).max() < 0.01, np.abs(np.diff(y[10:])).max()


# ---- devices that fail -----------------------------------------------------------------------------------------------
@needs_jack
@pytest.mark.parametrize("fault,state", [("fail", "standby"), ("stall", "standby"), ("stall 5", "ok")])
def test_the_audio_survives_its_device(run, fault, state):
    """faulty_device.c fails, hangs or is late in mid run; the CPU plays on with the same history. If the machine is
    too busy, a block is silent and counted, and no other sample is off. failover_test and session_test limit the number
    of lost blocks."""
    n, block = 88 * 1024, 1024  # long blocks: the CPU of a busy machine can carry the mask, also under a sanitizer
    h, x, now = response(), noise(n, 2), pathlib.Path("./now")  # the fault comes when this file does
    kind, *ms = fault.split()
    server = run.server(block)
    client = run.jack(server, write("h.wav", h), "--backend", "cuda", "--wait-us", 100000, "--standby", 100,
                      program=FAULTY, env={"HC_FAULT": " ".join([kind, "./now", *ms])})
    result = server.stage(x, 2, n)
    wait_for("the sound", lambda: "begun" in server.said.read_text())
    now.touch()
    y, want = result(), wet(x, h, n)
    off = ~(np.abs(y - want).max(1) <= 1e-6 * np.abs(want).max())
    silent = np.flatnonzero(off.reshape(-1, block).any(1))
    assert not off[-40000:].any(), f"it did not come back: {client.said()}"
    assert (y.reshape(-1, block, 2)[silent] == 0).all(), f"blocks {silent} are off"
    if state == "standby":
        client.says("the CPU replaces it")
    stats = client.end()
    assert stats["late"] + stats["lost"] >= max(len(silent), 7 if fault == "stall" else 0), stats
    assert stats["backend"] == ("cuda" if state == "ok" else "cpu") and stats["state"] == state, stats


# ---- the callback ----------------------------------------------------------------------------------------------------
@needs_jack
@pytest.mark.parametrize("plant", ["", "malloc", "lock", "call"])
def test_the_callback_neither_allocates_nor_locks_nor_calls_the_kernel(run, plant):
    """The trap watches the program over mask swaps and a new period, and catches the faults that a test plants."""
    if SAN:
        pytest.skip("a sanitizer brings its own malloc and its own system calls")
    h, x = response(), noise(48000, 2)
    server = run.server(64)
    env = {"LD_PRELOAD": str(BUILD / "tests/callback_trap.so"), **({"HC_TRAP_PLANT": plant} if plant else {})}
    client = run.jack(server, write("h.wav", h), "--dry", 0, "--midi-connect", "pad", env=env)
    client.says("trap: ")
    if plant == "call" and "lets system calls by" in client.said():
        pytest.skip("the kernel has no system call user dispatch")
    if plant:
        client.end(how=None, status=99)
        assert "trap: the callback reached" in client.said()
        server.kill()  # it would not obey SIGTERM for 10 s after a client ended in its callback
        return
    result = server.stage(x, 2, 48000, "resize", 20000, 256)
    for _ in range(3):
        time.sleep(0.2)
        client.process.send_signal(signal.SIGHUP)
    send_midi(server, "pad", *["b05000"] * 20)
    assert_close(result(), wet(x, h, 48000) + x)
    client.says("h.wav: loaded")
    assert client.end()["swaps"] >= 1


def test_it_builds_and_says_so_without_the_libraries(folder):
    """jack, pipewire, portaudio and osc without their libraries compile clean and answer what to install."""
    silent = ["devices/audio_device_choice", "devices/portaudio_device", "remotes/nsm", "servers/jack_server",
              *(f"servers/pipewire_{part}" for part in ["channels", "client", "graph", "stream"])]
    spoken = ["devices/async_resampler", "devices/portaudio", "remotes/alsa_midi", "remotes/osc", "servers/jack", "servers/pipewire"]
    silent, spoken = ([f"live/{name}" for name in names] for names in (silent, spoken))
    for name in [*silent, *spoken, "panel/panel", "measure/take_jack", "measure/take_portaudio"]:
        flags = "-std=c11 -D_GNU_SOURCE -Wall -Wextra -Wpedantic -Wshadow -Werror -fsyntax-only".split()
        source = ROOT / f"host/{name}.c"
        folders = [f"-I{ROOT}", f"-I{ROOT}/dsp", f"-I{ROOT}/host"]
        done = subprocess.run([os.environ.get("CC", "cc"), *flags, *folders, source], stderr=subprocess.PIPE, text=True)
        assert done.returncode == 0, done.stderr
        if name not in silent:
            says = r'MESSAGE_NO_PART\("\w+", "[a-z0-9.-]+"\)'
            assert re.search(says, source.read_text())


# ---- PortAudio -------------------------------------------------------------------------------------------------------
needs_portaudio = pytest.mark.skipif("portaudio" not in FEATURES, reason="no PortAudio in the build")
ON_JACK = "JACK Audio Connection Kit: system"


def live_on_jack(run, server, mask, *options, **kwargs):
    return run.client("live", mask, "--input", ON_JACK, "--output", ON_JACK, *options, env=server.env,
                      **{"ready": r"latency [\d.]+ ms: input [\d.]+, output [\d.]+", **kwargs})


def devices(env):
    return subprocess.run([str(HALOCONV), "devices"], env=env, stdout=subprocess.PIPE, text=True,
                          stdin=subprocess.DEVNULL).stdout


def ports_of(server, client=""):
    """PortAudio's ports, between which Server.stage plays and records."""
    ins, outs = ([p for p in server.ports().splitlines() if re.search(rf"{client}.*:{side}_\d+$", p)]
                 for side in ["in", "out"])
    assert len(ins) == 2 and len(outs) == 2, server.ports()
    return {"first": ",".join(ins), "last": ",".join(outs)}


def offered(server):
    return ON_JACK in devices(server.env)


@needs_jack
@needs_portaudio
def test_portaudio_on_a_jack_server(run):
    """PortAudio's JACK ports are wired to the stage's; its own latency is allowed for, none may be added."""
    h, x = response(3000), noise(24000, 2)
    server = run.server(128)
    if not offered(server):
        pytest.skip("this PortAudio has no JACK host API")
    client = live_on_jack(run, server, write("h.wav", h))
    y = server.play(x, 2, 30000, **ports_of(server))
    want = wet(x, h, 30000)
    shift = int(np.argmax(fftconvolve(y[:, 0], want[::-1, 0]))) - len(want) + 1
    assert 0 <= shift <= 1024, f"{shift} frames late"
    assert_close(y[shift:], want[:len(want) - shift])
    stats = client.end()
    assert stats["late"] == stats["lost"] == 0 and stats["block"] == 128 and "drift_ppm" in stats, stats
    assert stats["clocks"] == 1 and "none added" in client.said(), client.said()
    assert re.search(r"48000 Hz, blocks of the device's size[^$]*48000 Hz in blocks of 128 frames", client.said())


def level(server):
    """The median of the output for a constant of 0.1."""
    return float(np.median(server.play(np.full((12000, 2), 0.1), 2, 12000, **ports_of(server))[6000:]))


@needs_jack
@needs_portaudio
@needs_osc
def test_a_device_that_disappears(run):
    """The program ends, or waits for the device (--reconnect) and goes on with its mask, gain, bypass, OSC port,
    panel and statistics."""
    server = run.server(128)
    if not offered(server):
        pytest.skip("this PortAudio has no JACK host API")
    pathlib.Path("one.txt").write_text("1\n"), pathlib.Path("two.txt").write_text("1\n1\n")
    lost = live_on_jack(run, server, "one.txt", "--inputs", 2)
    patient = live_on_jack(run, server, "one.txt", "two.txt", "--inputs", 2, "--reconnect", "--osc", 0, *PANEL)
    patient.says("OSC on port")
    with control_of(patient) as control:
        control.send("/next"), control.send("/gain", -12.0), control.send("/bypass", True)
        before = wait_for("the mask", lambda: (lambda s: s["mask"] == "two.txt" and s["blocks"] > 100 and s)(
            control.stats()))
        server.kill()
        patient.says("went away; waiting for its return")
        server.command[-1] = "512"
        server.start()
        patient.says("is back")
        patient.says("is back[^$]*blocks of 512 frames")
        if PANEL:
            patient.says(r"(panel: http://\S+/#[0-9a-f]{32}\n)[^$]*is back[^$]*\1")
        after = control.stats()
        assert after["mask"] == "two.txt" and after["swaps"] == 1, after
        for counter in ["seconds", "blocks", "frames", "engines"]:
            assert after[counter] > before[counter], (counter, before, after)
        assert after["callback_us"]["max"] >= before["callback_us"]["max"]
        assert abs(level(server) - 0.1) < 1e-6, "it was bypassed"
        control.send("/bypass", False), control.stats()
        assert abs(level(server) - 0.2 * 10 ** (-12 / 20)) < 1e-6, "another mask or gain"
        control.send("/next")
        wait_for("the next mask", lambda: control.stats()["mask"] == "one.txt")
    assert patient.end()["block"] == 512
    lost.end(how=None, status=1)
    assert "the audio device: went away;" in lost.said()


ALSA = """</usr/share/alsa/alsa.conf>
pcm.filemic {{
  type file slave.pcm "null" file "/dev/null" infile "{mic}" format "raw" hint {{ show on description "file" }}
}}
pcm.filespeakers {{ type file slave.pcm "null" file "{out}" format "raw" hint {{ show on description "file" }} }}
"""

JACK_PCM = """</usr/share/alsa/alsa.conf>
pcm.onecard {{ type jack {ports} hint {{ show on description "jack" }} }}
pcm.othercard {{ type jack {ports} hint {{ show on description "jack" }} }}
""".format(ports=" ".join(f"{side}_ports {{ 0 system:{side}_1 1 system:{side}_2 }}"
                          for side in ["capture", "playback"]))


@needs_jack
@needs_portaudio
def test_two_cards_are_joined(run):
    """Two devices of ALSA, each with callbacks of its own: the sound gets from one to the other, and the latency is
    printed. On a busy machine these cards lose cycles and the sound is interrupted; async_resampler_test plays hours
    without an interruption, on simulated clocks."""
    server = run.server(256)
    pathlib.Path("asound.conf").write_text(JACK_PCM)
    env = {**server.env, "ALSA_CONFIG_PATH": str(pathlib.Path("asound.conf").resolve())}
    listed = devices(env)
    if "othercard" not in listed or "samplerate" not in FEATURES:
        pytest.skip(f"no libsamplerate, or ALSA has no jack plugin: {listed}")
    pathlib.Path("half.txt").write_text("0.5\n")
    # Races between JACK's thread and ALSA's, none of them in haloconv.
    pathlib.Path("theirs").write_text("race:libasound_module_pcm_jack.so\nrace:snd_pcm_area_copy\n")
    env["TSAN_OPTIONS"] = f"suppressions={pathlib.Path('theirs').resolve()}"
    client = run.client("live", "half.txt", "--inputs", 2, "--input", "onecard", "--output", "othercard",
                        "--rate", 48000, env=env)
    client.says(r"latency [\d.]+ ms: input [\d.]+, output [\d.]+, [\d.]+ added to join two clocks")
    ports = ports_of(server, "haloconv")

    def has_arrived():
        y = server.play(np.full((24000, 2), 0.1), 2, 24000, **ports)
        return np.convolve(np.abs(y - 0.05).max(1) < 1e-4, np.ones(2000), "valid").max() == 2000

    wait_for("the sound", has_arrived)
    stats = client.end()
    assert stats["clocks"] == 2 and stats["latency_ms"] > 0 and abs(stats["drift_ppm"]) <= 1000, stats


@needs_portaudio
def test_alsa_file_as_microphone(run):
    """ALSA's file plugin plays a file as the microphone and writes the speakers to another."""
    if not pathlib.Path("/usr/share/alsa/alsa.conf").exists():
        pytest.skip("no ALSA here")
    h, x = response(3000), noise(96000, 2)
    mic, out, config = (pathlib.Path(name).resolve() for name in ["mic.raw", "out.raw", "asound.conf"])
    x.tofile(mic)
    config.write_text(ALSA.format(out=out, mic=mic))
    env = {**os.environ, "ALSA_CONFIG_PATH": str(config), "JACK_NO_START_SERVER": "1"}
    listed = devices(env)
    if "filespeakers" not in listed:
        pytest.skip(f"ALSA shows no file plugin: {listed}")
    client = run.client("live", write("h.wav", h), "--input", "filemic", "--output", "filespeakers",
                        "--rate", 48000, "--block", 256, "--no-feedback-limiter", "--one-clock", env=env)
    wait_for("the speakers' file", lambda: out.exists() and out.stat().st_size > 8 * 96000)
    stats = client.end()
    assert stats["blocks"] > 300
    y = np.fromfile(out, np.float32)[:2 * 96000].reshape(-1, 2).astype(np.float64)
    want = wet(x, h, 96000)
    shift = int(np.argmax(fftconvolve(y[:, 0], want[::-1, 0]))) - len(want) + 1
    assert abs(shift) < 8192, shift  # ALSA may let some frames go by before it starts
    n, first = len(want) - 10000, 9000  # after the fade at the start
    assert_close(y[first + shift:n + shift], want[first:n])


@needs_portaudio
def test_no_device_is_an_error_with_a_remedy(folder):
    write("h.wav", noise(100, 2))
    none = dict(os.environ, ALSA_CONFIG_PATH="/nonexistent", ALSA_CONFIG_DIR="/nonexistent",
                JACK_DEFAULT_SERVER="hc-nobody", JACK_NO_START_SERVER="1")
    refused("live", "h.wav", env=none, says="live: ")
    env = {**os.environ, "JACK_NO_START_SERVER": "1"}
    if "audio 0" in devices(env):
        refused("live", "h.wav", "--input", "no such microphone", says="--input no such microphone", env=env)
