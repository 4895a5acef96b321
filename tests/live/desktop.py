"""A desktop of a test's own: PipeWire and WirePlumber in a temporary folder, on a private D-Bus, with null sinks."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile

import numpy as np
import pytest
from conftest import BUILD, noise, residual_db
from scipy.signal import fftconvolve
from test_live import PATIENCE, stop, wait_for

STAGE = BUILD / "tests/pipewire_stage"
TRIES = 10
NULL_DB = -120
TOOLS = ("pipewire", "wireplumber", "dbus-run-session", "pw-jack", "pw-link", "pw-cat", "pw-cli", "pw-metadata",
         "wpctl")
DAEMON = """
context.properties = { core.daemon = true core.name = pipewire-0 support.dbus = false
    default.clock.rate = %d default.clock.allowed-rates = [ 44100 48000 96000 ]
    default.clock.quantum = 1024 default.clock.min-quantum = 16 default.clock.max-quantum = 8192 }
context.spa-libs = { audio.convert.* = audioconvert/libspa-audioconvert support.* = support/libspa-support }
context.modules = [
    { name = libpipewire-module-rt flags = [ ifexists nofail ]
      args = { rtkit.enabled = false rtportal.enabled = false } }
    { name = libpipewire-module-protocol-native } { name = libpipewire-module-metadata }
    { name = libpipewire-module-spa-node-factory } { name = libpipewire-module-client-node }
    { name = libpipewire-module-client-device } { name = libpipewire-module-session-manager }
    { name = libpipewire-module-access args = { } } { name = libpipewire-module-adapter }
    { name = libpipewire-module-link-factory }
]
context.objects = [
    { factory = spa-node-factory args = { factory.name = support.node.driver node.name = Dummy-Driver
      node.group = pipewire.dummy priority.driver = 20000 } }
    %s
]
"""
DEVICES = {"phones": ("Audio/Sink", "FL FR", 1000), "speakers": ("Audio/Sink", "FL FR", 900),
           "eight": ("Audio/Sink", "FL FR FC LFE RL RR SL SR", 800), "mic": ("Audio/Source/Virtual", "FL FR", 700)}


BURST, REST, SETTLES = 6000, 18000, 12000  # frames: of noise, of the silence after it, of a change in that silence


def bursts(n_channels, quanta):
    """Noise [frames][channels] in bursts, and the stage's options that force another quantum at the end of each."""
    x = noise((len(quanta) + 1) * (BURST + REST), n_channels)
    for k in range(len(quanta) + 1):
        x[k * (BURST + REST) + BURST:(k + 1) * (BURST + REST)] = 0
    return x, [word for k, quantum in enumerate(quanta) for word in ("resize", k * (BURST + REST) + BURST, quantum)]


def heard_across(y, x, wet):
    """Compares a recording y with wet(x) across the changes of bursts. PipeWire 1.4 and later suspend the graph for each
    change, and the recorder may count more or fewer frames of that time than the program hears: the sound before may be
    shifted by a number of frames, for which this searches in the tail after the change. Returns the residual in dB of each
    burst and of each tail, and the shifts. NaN: a cycle is missing, not in a change."""
    period, peak = BURST + REST, np.abs(wet(x)).max()
    parts, found, shifts = [], [], []  # parts: [n + SETTLES] of each burst up to now, from frame -SETTLES on

    def sound(first, last):
        return sum(part[SETTLES + first:SETTLES + last] for part in parts)

    for start in range(0, len(x), period):
        alone = np.zeros_like(x)
        alone[start:start + BURST] = x[start:start + BURST]
        parts.append(np.pad(wet(alone), ((SETTLES, 0), (0, 0))))
        change, tail = start + BURST, slice(start + BURST + SETTLES, start + period)
        found.append(np.abs(y[start:change] - sound(start, change)).max())
        if start + period < len(x):
            around = sound(tail.start - SETTLES, tail.stop + SETTLES // 2)[:, 0]
            shift = SETTLES - int(np.argmax(fftconvolve(around, np.nan_to_num(y[tail, 0])[::-1], "valid")))
            parts = [np.roll(part, shift, axis=0) for part in parts]
            shifts.append(shift)
        found.append(np.abs(y[tail] - sound(tail.start, tail.stop)).max())
    return 20 * np.log10(np.array(found) / peak + 1e-15), shifts


def missing():
    """The tools that this machine lacks."""
    return [tool for tool in TOOLS if not shutil.which(tool)]


class Desktop:
    def __init__(self, rate=48000):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="hcdesk"))  # a socket's path is short
        self.env = {key: value for key, value in os.environ.items() if key != "DBUS_SESSION_BUS_ADDRESS"}
        self.env |= {"XDG_RUNTIME_DIR": str(self.folder), "PIPEWIRE_RUNTIME_DIR": str(self.folder),
                     "HOME": str(self.folder), "XDG_CONFIG_HOME": str(self.folder / "config"),
                     "XDG_STATE_HOME": str(self.folder / "state")}
        objects = "\n".join(
            f"{{ factory = adapter args = {{ factory.name = support.null-audio-sink node.name = {name} "
            f"media.class = {kind} audio.position = [ {position} ] priority.session = {priority} priority.driver = {priority} }} }}"
            for name, (kind, position, priority) in DEVICES.items())
        (self.folder / "daemon.conf").write_text(DAEMON % (rate, objects))
        self.processes = []

    def start(self):
        # A sanitizer's library must not be asked of programs that are not ours.
        env = {**self.env, "ASAN_OPTIONS": "detect_leaks=0"}
        for name, command in {"daemon": ["pipewire", "-c", self.folder / "daemon.conf"],
                              "manager": ["dbus-run-session", "--", "wireplumber"]}.items():
            with open(self.folder / f"{name}.log", "w", encoding="utf-8") as log:
                self.processes.append(subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=log,
                                                       stderr=subprocess.STDOUT, start_new_session=True))
            if name == "daemon":
                wait_for("the daemon", lambda: (self.folder / "pipewire-0").exists())
        wait_for("the session manager", lambda: "default.audio.sink" in self.tool("pw-metadata", "-n", "default"))
        return self

    def end(self, how=signal.SIGTERM):
        """Ends the session manager and the daemon."""
        for process in reversed(self.processes):
            if process.poll() is None:
                os.killpg(process.pid, how)
            stop(process)
        self.processes = []

    def close(self):
        self.end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def tool(self, *args):
        done = subprocess.run(list(map(str, args)), env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", timeout=PATIENCE, check=False)
        return done.stdout

    def play(self, x, first, last, n_out, *options):
        """Plays x [frames][channels] into ports, and records as many frames of other ports in the same cycles. NaN
        where the recorder missed a cycle. Before x come 50 ms of silence, in which ramps end."""
        x.astype(np.float32).tofile("stage.x")
        command = [STAGE, "stage.x", x.shape[1], first, last, n_out, "stage.y", len(x), "silence", 2400, *options]
        self.tool("pw-metadata", "-n", "settings", 0, "clock.force-quantum", 0)
        done = subprocess.run(list(map(str, command)), env=self.env, stdin=subprocess.DEVNULL, check=False, text=True,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=PATIENCE + len(x) / 10000)
        assert done.returncode == 0, done.stderr
        return np.fromfile("stage.y", np.float32).reshape(-1, n_out).astype(np.float64)

    def null(self, x, want, first, last, *options):
        """The output for x is `want` [frames][channels]. A busy machine makes nodes miss cycles: then x is played
        again."""
        found = []
        while len(found) < TRIES and (not found or found[-1] > NULL_DB):
            y = self.play(x, first, last, want.shape[1], *options)
            found.append(residual_db(y, want) if not np.isnan(y).any() else 0)
        assert found[-1] <= NULL_DB, f"residuals in dB: {found}"

    def links(self):
        """{(output, input)}: names of ports."""
        found, port = set(), ""
        for line in self.tool("pw-link", "-l").splitlines():
            if line.startswith("  |-> "):
                found.add((port, line[6:]))
            elif not line.startswith("  "):
                port = line
        return found

    def follows(self, output, target):
        """Waits until an output is linked to a port, and to nothing else."""
        wait_for(f"{output} to {target}: {self.links()}",
                 lambda: {to for port, to in self.links() if port == output} == {target})

    def choose(self, device):
        """The user makes a device the default one."""
        self.tool("wpctl", "set-default", self.number(device))

    def number(self, node):
        """The id of a node."""
        return re.search(rf"id (\d+), type PipeWire:Interface:Node(?:(?!\tid ).|\n)*?node.name = \"{node}\"",
                         self.tool("pw-cli", "ls", "Node"))[1]


@pytest.fixture(scope="module")
def shared_desktop():
    """A desktop of a file's own; None: tools are missing."""
    if missing():
        yield None
        return
    desktop = Desktop()
    try:
        yield desktop.start()
    finally:
        desktop.close()
