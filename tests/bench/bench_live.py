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
  pipewire  stereo masks of 1 s and 3 s in virtual sinks, by turns, on one desktop in cycles of 256 and 1024 frames:
         `haloconv pipewire --sink`, PipeWire's own convolver (module filter-chain) and, where it is installed,
         EasyEffects with its convolver alone. The processor time of the whole process and of the daemon; before, each
         plays an impulse, and what comes out is compared with the mask. A turn takes LIVE_SECONDS / 6

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


def run_nanoseconds(pid):
    """Processor time of all threads; zombies and threads that ended are left out."""
    return sum(int(file.read_text().split()[0]) for file in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat"))


def pink(frames, channels):
    """Noise with as much power in each octave, RMS 0.1."""
    spectrum = np.fft.rfft(np.random.default_rng(SEED).standard_normal((frames, channels)), axis=0)
    x = np.fft.irfft(spectrum / np.sqrt(np.maximum(np.arange(len(spectrum)), 1))[:, None], frames, axis=0)
    return (x * 0.1 / x.std()).astype(np.float32)


def write_chain(path, mask):
    """A filter-chain as a virtual sink."""
    convolvers = " ".join(f"{{ type = builtin label = convolver name = c{ch} config = "
                          f"{{ filename = \"{mask}\" channel = {ch} }} }}"
                          for ch in [0, 1])
    path.write_text(f"""
context.spa-libs = {{ audio.convert.* = audioconvert/libspa-audioconvert support.* = support/libspa-support }}
context.modules = [
    {{ name = libpipewire-module-rt args = {{ rtkit.enabled = false rtportal.enabled = false }}
      flags = [ ifexists nofail ] }}
    {{ name = libpipewire-module-protocol-native }} {{ name = libpipewire-module-client-node }}
    {{ name = libpipewire-module-adapter }}
    {{ name = libpipewire-module-filter-chain args = {{ filter.graph = {{ nodes = [ {convolvers} ]
            inputs = [ "c0:In" "c1:In" ] outputs = [ "c0:Out" "c1:Out" ] }}
        audio.channels = 2 audio.position = [ FL FR ]
        capture.props = {{ node.name = chain media.class = Audio/Sink }}
        playback.props = {{ node.name = output.chain node.passive = true }} }} }}
]""")


def write_easyeffects(config, mask):
    """EasyEffects' settings: its convolver alone, without a gain, to the default device."""
    folder = config / "glib-2.0/settings"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "keyfile").write_text(f"""[com/github/wwmm/easyeffects/streamoutputs]
plugins=['convolver#0']

[com/github/wwmm/easyeffects/streamoutputs/convolver/0]
kernel-path='{mask}'
autogain=false

[com/github/wwmm/easyeffects/streaminputs]
use-default-input-device=false
""")


def pipewire():
    if not shutil.which("wireplumber") or not (BUILD / "tests/pipewire_stage").exists():
        print("pipewire: no desktop here, or no PipeWire in the build; .ci/setup test installs it")
        return
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/live")]
    from desktop import Desktop, residual_db, stop, wait_for
    mask, chain = pathlib.Path("h.wav").resolve(), pathlib.Path("chain.conf").resolve()
    # name: its command, its sink, where its result comes out
    ways = {"haloconv": ([HALOCONV, "pipewire", "--sink", "halo", mask, "--backend", "cpu", *OPTIONS], "halo",
                         "output.halo"),
            "filter-chain": (["pipewire", "-c", chain], "chain", "output.chain"),
            "EasyEffects": (["easyeffects", "--gapplication-service"], "easyeffects_sink", "ee_soe_output_level")}
    if not shutil.which("easyeffects") or not shutil.which("xvfb-run"):
        print("pipewire: no easyeffects or no xvfb-run here, so without EasyEffects")
        del ways["EasyEffects"]
    desktop, seconds = Desktop(), SECONDS / 6
    env = {**desktop.env, "GSETTINGS_BACKEND": "keyfile", "NO_AT_BRIDGE": "1"}
    noise_in = pink(int(48000 * seconds), 2)

    def play(x, sink, output):
        x.tofile("in.f32")
        subprocess.run([BUILD / "tests/pipewire_stage", "in.f32", "2", f"{sink}:playback_", f"{output}:capture_", "2",
                        "out.f32", str(len(x)), "silence", "9600"], env=env, stdout=log, stderr=log, check=True)
        return np.fromfile("out.f32", np.float32).reshape(-1, 2)

    def turn(name, h):
        command, sink, output = ways[name]
        under = ["dbus-run-session", "--", "xvfb-run", "-a"] if name == "EasyEffects" else []
        process = subprocess.Popen([*under, "sh", "-c", 'echo $$ > pid; exec "$@"', "sh", *command], env=env,
                                   stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        try:
            wait_for(name, lambda: {(f"{output}:output_{ear}", f"phones:playback_{ear}")
                                    for ear in ["FL", "FR"]} <= desktop.links())
            time.sleep(1)
            impulse = np.zeros((len(h) + 4800, 2), np.float32)
            impulse[0] = 1
            for _ in range(5):  # a busy machine misses cycles
                response = play(impulse, sink, output)
                error = 0 if np.isnan(response).any() else residual_db(response, np.pad(h, ((0, 4800), (0, 0))))
                if error < -100:
                    break
            pids = [int(pathlib.Path("pid").read_text()), desktop.processes[0].pid]
            began, start = [run_nanoseconds(pid) for pid in pids], time.monotonic()
            y = play(noise_in, sink, output)
            took = time.monotonic() - start
            used = [1e-7 * (run_nanoseconds(pid) - was) / took for pid, was in zip(pids, began)]
            return *used, np.isnan(y[:, 0]).sum(), error
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            stop(process)

    with open("pipewire.log", "w") as log:
        try:
            desktop.start()
            for taps, quantum in [(48000, 256), (48000, 1024), (144000, 256), (144000, 1024)]:
                h = noise(1, taps, 2, 1 / 200)
                soundfile.write(mask, h, 48000, subtype="FLOAT")
                write_chain(chain, mask)
                desktop.tool("pw-metadata", "-n", "settings", 0, "clock.force-quantum", quantum)
                results = {name: [] for name in ways}
                for _ in range(3):
                    for name in ways:
                        write_easyeffects(desktop.folder / "config", mask)
                        results[name].append(turn(name, h))
                print(f"pipewire: stereo, {taps // 48000} s, cycles of {quantum} frames, 3 turns of {seconds:.0f} s")
                for name, turns in results.items():
                    core, daemon = (statistics.median(t[i] for t in turns) for i in [0, 1])
                    print(f"      {name:12s} {core:5.2f} % of a core "
                          f"(each turn {', '.join(f'{t[0]:.2f}' for t in turns)}), the daemon "
                          f"{daemon:.2f}; cycles missing {sum(t[2] for t in turns) // quantum}, error of an impulse "
                          f"{max(t[3] for t in turns):.0f} dB", flush=True)
        finally:
            desktop.close()


print(f"HC_TEST_SEED={SEED}")
with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    for part in PARTS:
        {"hold": hold, "matrix": matrix, "load": load, "pipewire": pipewire}[part]()
