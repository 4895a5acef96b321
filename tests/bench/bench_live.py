#!/usr/bin/env python3
"""A live session by the clock, on jackd's dummy driver: LIVE_SECONDS (60) for each part, PERIOD (64) frames at 48 kHz.

  hold   a stereo mask of 3 s in `haloconv jack`, and on the same server two clients that show how many periods the
         machine loses by itself: `copy` is connected to the sound card's ports as haloconv is, but only copies its
         input to its output; `idle` does nothing and is not connected. If copy misses as many periods as haloconv,
         the machine is the cause. jackd says of a client that missed its period that it was Triggered (woken, but not
         yet run by the system) or Running (too slow itself, or the system took the processor away).
  matrix the same with 32 x 32 responses of 1 s; only on request: a heavy load for a CPU, a light one for a GPU
  load   8 x 8 responses of 1 s, haloconv and jconvolver on the same server, by turns: JACK's load (what the callbacks
         take) and the processor time of the whole process with all its threads
  pipewire  a stereo mask of 3 s in `haloconv pipewire` and in PipeWire's own convolver (module filter-chain), by turns, on
         one daemon in cycles of PERIOD frames: the processor time of the whole process

HALOCONV or BUILD chooses the program; BACKEND (cpu) and LIVE_OPTIONS ("--spin") are passed on to hold and matrix.
HC_TEST_SEED (0) chooses the responses.
"""

import collections
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import soundfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("BUILD", "build")).resolve()
HALOCONV = os.environ.get("HALOCONV", str(BUILD / "haloconv"))
SECONDS = float(os.environ.get("LIVE_SECONDS", "60"))
PERIOD = int(os.environ.get("PERIOD", "64"))
BACKEND = os.environ.get("BACKEND", "cpu")
OPTIONS = os.environ.get("LIVE_OPTIONS", "").split()
SEED = int(os.environ.get("HC_TEST_SEED", 0))
PARTS = sys.argv[1:] or ["hold", "load", "pipewire"]


class Server:
    def __init__(self, name, n_ports=8):
        self.name, self.log = f"{name}-{os.getpid()}", pathlib.Path(f"{name}.log").resolve()
        self.env = {**os.environ, "JACK_DEFAULT_SERVER": self.name, "JACK_NO_AUDIO_RESERVATION": "1",
                    "JACK_NO_START_SERVER": "1"}
        command = ["jackd", "-r", "-n", self.name, "-d", "dummy", "-r", "48000", "-p", str(PERIOD), "-C", str(n_ports),
                   "-P", str(n_ports)]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=open(self.log, "w"),
                                        stderr=subprocess.STDOUT, env=self.env)
        for _ in range(200):
            if "playback_1" in self.run("jack_lsp").stdout:
                return
            time.sleep(0.05)
        sys.exit(f"bench_live: no server; see {self.log}: {self.log.read_text()}")

    def run(self, *args):
        return subprocess.run(args, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                              check=False)

    def lost(self):
        text = self.log.read_text(errors="replace")
        return {"driver late": text.count("Process XRun"), "not finished": text.count("was not finished")}

    def missed(self):
        """Periods that each client missed, by its state: Triggered = woken, but not yet run by the system."""
        found = re.findall(r"client = (\w+) was not finished, state = (\w+)", self.log.read_text(errors="replace"))
        return {name: dict(collections.Counter(state for client, state in found if client == name))
                for name in ["haloconv", "copy", "idle"]}

    def stop(self):
        self.process.terminate()
        self.process.wait()


def ports(server, client):
    for _ in range(200):
        if f"{client}:" in server.run("jack_lsp").stdout:
            return
        time.sleep(0.05)
    print(f"bench_live: {client} does not come up, or is gone already")


def cpu_seconds(pid):
    if not pathlib.Path(f"/proc/{pid}/stat").exists():
        return 0
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def finish(process):
    process.send_signal(signal.SIGINT)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()


def wait_idle(process, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None:
        time.sleep(0.2)


def noise(seed, taps, n, gain):
    decay = np.exp(-6 * np.arange(taps) / taps)[:, None] * gain
    return (np.random.default_rng(SEED + seed).standard_normal((taps, n), np.float32) * decay).astype(np.float32)


def write_matrix(n, gain):
    """matrix.conf: n x n responses of 1 s, a file for each output."""
    lines = [f"/convolver/new {n} {n} {PERIOD} 48000 1.0"]
    for out in range(n):
        soundfile.write(f"h{out}.wav", noise(2 + out, 48000, n, gain), 48000, subtype="FLOAT")
        lines += [f"/impulse/read {i + 1} {out + 1} 1 0 0 0 {i + 1} h{out}.wav" for i in range(n)]
    pathlib.Path("matrix.conf").write_text("\n".join(lines) + "\n")


def hold():
    soundfile.write("h.wav", noise(1, 3 * 48000, 2, 1 / 200), 48000, subtype="FLOAT")
    play("hold: stereo, 3 s", "h.wav", 8)


def matrix():
    write_matrix(32, 1 / 4000)
    play("matrix: 32 x 32, 1 s", "matrix.conf", 32)


def play(title, mask, n_ports):
    server = Server("hold", n_ports)
    stats = pathlib.Path("stats.json")
    others = {what: subprocess.Popen([str(BUILD / "tests/jack_stage"), what, server.name], env=server.env,
                                     stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
              for what in ["copy", "idle"]}
    start = time.monotonic()
    ours = subprocess.Popen([HALOCONV, "jack", mask, "--server", server.name, "--connect", "--stats", str(stats),
                             "--backend", BACKEND, *OPTIONS], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for client in ["haloconv", *others]:
        ports(server, client)
    began = cpu_seconds(ours.pid)
    wait_idle(ours, SECONDS)
    used, took = cpu_seconds(ours.pid) - began, time.monotonic() - start
    for process in [ours, *others.values()]:
        finish(process)
    told = ", ".join(f"{what} {process.stdout.read().strip()}" for what, process in others.items())
    seen, period = json.loads(stats.read_text()), 1e6 * PERIOD / 48000
    us = seen["callback_us"]
    print(f"{title}, {PERIOD} frames, {seen['seconds']:.0f} s, {seen['blocks']} blocks on {seen['device']}")
    shares = [f"{k} {us[k]:.0f} us ({100 * us[k] / period:.1f} %)" for k in ["p50", "p99", "p99.9", "max"]]
    print(f"      callback {', '.join(shares)} of {period:.0f} us; {100 * used / took:.1f} % of a core")
    print(f"      late {seen['late']}, overruns {seen['overruns']}, xruns {seen['xruns']}; {told}")
    print(f"      the driver was late {server.lost()['driver late']} times; periods missed: {server.missed()}",
          flush=True)
    server.stop()


def load():
    if not shutil.which("jconvolver"):
        print("load: no jconvolver here; .ci/setup bench installs it")
        return
    n = 8
    write_matrix(n, 1 / 2000)
    server = Server("load")
    results = {"haloconv": [], "jconvolver": []}
    turns = 3
    commands = {"haloconv": [HALOCONV, "jack", "matrix.conf", "--server", server.name, "--name", "haloconv",
                             "--backend", "cpu"],
                "jconvolver": ["jconvolver", "-s", server.name, "-N", "jconvolver", "matrix.conf"]}
    for _ in range(turns):
        for name, command in commands.items():
            lost = server.lost()
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=open(f"{name}.log", "w"),
                                       stderr=subprocess.STDOUT, env=server.env)
            ports(server, name)
            for ch in range(1, n + 1):
                server.run("jack_connect", f"system:capture_{ch}", f"{name}:in-{ch}")
                server.run("jack_connect", f"{name}:out-{ch}", f"system:playback_{ch}")
            time.sleep(2)
            began, start = cpu_seconds(process.pid), time.monotonic()
            meter = subprocess.Popen(["stdbuf", "-oL", "jack_cpu_load"], env=server.env, stdout=subprocess.PIPE,
                                     stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, text=True)
            wait_idle(process, SECONDS / (2 * turns))
            if process.poll() is not None:  # jconvolver does so when its threads are late too often
                finish(meter)
                results[name].append(None)
                text = pathlib.Path(f"{name}.log").read_text(errors="replace")
                said = [line for line in text.splitlines() if "late" not in line]
                print(f"load: {name} ended by itself: {said[-1] if said else ''}")
                time.sleep(1)
                continue
            core = 100 * (cpu_seconds(process.pid) - began) / (time.monotonic() - start)
            finish(meter), finish(process)
            loads = [float(x) for x in re.findall(r"DSP load ([\d.]+)", meter.stdout.read())]
            missed = server.lost()["not finished"] - lost["not finished"]
            results[name].append((statistics.median(loads) if loads else float("nan"), core, missed))
            time.sleep(1)
    print(f"load: 8 x 8, 1 s, {PERIOD} frames, {turns} turns each")
    for name, turns_of in results.items():
        rows = [row for row in turns_of if row]
        if not rows:
            print(f"      {name:10s} held none of its turns")
            continue
        jack, core = (statistics.median(row[i] for row in rows) for i in [0, 1])
        print(f"      {name:10s} JACK load {jack:5.1f} %, {core:5.1f} % of a core, "
              f"periods missed {sum(r[2] for r in rows)}, turns held {len(rows)} of {turns}", flush=True)
    server.stop()


def nodes(env, name):
    """Ports of the nodes whose name begins so, as pw-link has them: inputs, outputs."""
    def lines(option):
        done = subprocess.run(["pw-link", option], env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                              check=False)
        return [line for line in done.stdout.splitlines() if line.startswith(name)]
    return lines("-i"), lines("-o")


def dsp_ports(env, node, direction):
    """What a session manager would do: the stream of a filter-chain gets a port for each channel."""
    audio = "mediaType: audio mediaSubtype: raw format: F32P rate: 48000 channels: 2 position: [ FL FR ]"
    subprocess.run(["pw-cli", "set-param", node, "PortConfig", f"{{ direction: {direction} mode: dsp format: {{ {audio} }} }}"],
                   env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


def run_nanoseconds(pid):
    """Processor time of all threads; zombies and threads that ended are left out."""
    return sum(int(file.read_text().split()[0]) for file in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat"))


def pipewire():
    if not shutil.which("pipewire") or not (BUILD / "tests/pipewire_stage").exists():
        print("pipewire: no daemon here, or none in the build; .ci/setup test installs it")
        return
    folder = pathlib.Path("runtime").resolve()
    folder.mkdir()
    env = {**os.environ, "XDG_RUNTIME_DIR": str(folder), "PIPEWIRE_RUNTIME_DIR": str(folder),
           "XDG_CONFIG_HOME": str(folder), "DBUS_SESSION_BUS_ADDRESS": "unix:path=/nonexistent"}
    soundfile.write("h.wav", noise(1, 3 * 48000, 2, 1 / 200), 48000, subtype="FLOAT")
    (np.random.default_rng(SEED).standard_normal((int(48000 * SECONDS), 2), np.float32) / 100).tofile("noise.f32")
    convolvers = " ".join(f"{{ type = builtin label = convolver name = c{ch} config = {{ filename = \"{pathlib.Path('h.wav').resolve()}\""
                          f" channel = {ch} }} }}" for ch in [0, 1])
    pathlib.Path("chain.conf").write_text(f"""
context.spa-libs = {{ audio.convert.* = audioconvert/libspa-audioconvert support.* = support/libspa-support }}
context.modules = [
    {{ name = libpipewire-module-rt args = {{ rtkit.enabled = false rtportal.enabled = false }} flags = [ ifexists nofail ] }}
    {{ name = libpipewire-module-protocol-native }} {{ name = libpipewire-module-client-node }}
    {{ name = libpipewire-module-adapter }}
    {{ name = libpipewire-module-filter-chain args = {{ filter.graph = {{ nodes = [ {convolvers} ]
            inputs = [ "c0:In" "c1:In" ] outputs = [ "c0:Out" "c1:Out" ] }}
        audio.channels = 2 audio.position = [ FL FR ]
        capture.props = {{ node.name = chain-in }} playback.props = {{ node.name = chain-out }} }} }}
]""")
    log = open("daemon.log", "w")
    daemon = subprocess.Popen(["pipewire", "-c", str(ROOT / "tests/live/pipewire.conf")], env=env, stdin=subprocess.DEVNULL,
                              stdout=log, stderr=log)
    commands = {"haloconv": [HALOCONV, "pipewire", "h.wav", "--backend", "cpu", *OPTIONS],
                "filter-chain": ["pipewire", "-c", str(pathlib.Path("chain.conf").resolve())]}
    time.sleep(0.5)
    subprocess.run(["pw-metadata", "-n", "settings", "0", "clock.force-quantum", str(PERIOD)], env=env, stdout=log, check=True)
    results = {name: [] for name in commands}
    for _ in range(3):
        for name, command in commands.items():
            process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            time.sleep(1)
            prefixes = ("chain-in:", "chain-out:") if name == "filter-chain" else ("haloconv:", "haloconv:")
            if name == "filter-chain":
                dsp_ports(env, "chain-in", "Input"), dsp_ports(env, "chain-out", "Output")
                time.sleep(0.5)
            ends = ("in-", "out-") if name == "haloconv" else ("playback_", "capture_")
            began, start = run_nanoseconds(process.pid), time.monotonic()
            subprocess.run([str(BUILD / "tests/pipewire_stage"), "noise.f32", "2", prefixes[0] + ends[0],
                            prefixes[1] + ends[1], "2", "out.f32", str(int(48000 * SECONDS))], env=env, stdout=log,
                           stderr=log, check=True)
            core = 1e-7 * (run_nanoseconds(process.pid) - began) / (time.monotonic() - start)
            out = np.fromfile("out.f32", np.float32).reshape(-1, 2)
            results[name].append((core, np.isnan(out[:, 0]).sum() // PERIOD, float(np.nanstd(out[-48000:]))))
            finish(process)
    print(f"pipewire: stereo, 3 s, cycles of {PERIOD} frames, 3 turns of {SECONDS:.0f} s")
    for name, turns in results.items():
        print(f"      {name:12s} {statistics.median(t[0] for t in turns):5.2f} % of a core (each turn "
              f"{', '.join(f'{t[0]:.2f}' for t in turns)}), cycles missing {sum(t[1] for t in turns)}, RMS of the output "
              f"{turns[0][2]:.4f}", flush=True)
    daemon.terminate()
    daemon.wait()


print(f"HC_TEST_SEED={SEED}")
with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    for part in PARTS:
        {"hold": hold, "matrix": matrix, "load": load, "pipewire": pipewire}[part]()
