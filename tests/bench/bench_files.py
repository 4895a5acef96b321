"""The bench of files: haloconv, fconvolver, BruteFIR and ffmpeg's afir in one run:

    stereo   600 s of stereo, 48 kHz, 16 bits, through a 3 s stereo mask
    matrix   60 s of 16 channels through a 16 x 16 matrix of 1 s responses
    hour     3600 s of stereo, 48 kHz, 24 bits, through a 10 s stereo mask; only if asked for
    minutes  600 s of stereo, and as much as the mask has, through stereo masks of 60, 120, 300 and 600 s, beside scipy

    make bench-files            BENCH_CASES (stereo matrix minutes), BENCH_SECONDS (0: as above), BENCH_REPEATS (5),
                                BENCH_BACKENDS (cpu; "cpu cuda") change it

All take turns, on files in /dev/shm, after a check that all give the same sound. Prints medians of wall seconds and CPU
seconds (user + system) and the largest peak memory, and haloconv's times (on the last backend named) as a share of each
peer's. A peer that takes over ten seconds runs once. BruteFIR reads and writes raw samples, without headers; fconvolver
chooses the format of its output; ffmpeg has no matrix: a graph of 16 filters of 16 channels replaces it. sox takes no
part: its fir effect has one filter for all channels.

Masks of minutes are compared with scipy.signal's fftconvolve and oaconvolve. Their times are those of the call alone,
on arrays in memory, in a process of its own; haloconv's are those of the whole command, which reads and writes files.
"""

import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

import numpy as np
import soundfile

RATE = 48000
REPEATS = int(os.environ.get("BENCH_REPEATS", 5))
SEED = int(os.environ.get("HC_TEST_SEED", 0))  # other numbers, other sounds
BACKENDS = os.environ.get("BENCH_BACKENDS", "cpu").split()
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MEASURE = (ROOT / os.environ.get("BUILD", "build") / "tests/measure").resolve()
HALOCONV = (ROOT / os.environ.get("BUILD", "build") / "haloconv").resolve()
BRUTEFIR_PARTITION = 32768  # the fastest of 2048 to 65536 here, in CPU time; latency is of no concern
SLOW_S = 10
MINUTES = [("minutes", 16, seconds, 2, mask) for mask in (60, 120, 300, 600) for seconds in sorted({600, mask})]
# Writes what tests/measure writes: wall seconds, CPU seconds, peak memory in MB. Ten seconds are kept for the check.
SCIPY = """
import resource, sys, time
import soundfile
from scipy import signal
x, h = (soundfile.read(name, dtype=sys.argv[2])[0].T.copy() for name in ("in.wav", "mask.wav"))
wall, cpu = time.perf_counter(), time.process_time()
y = getattr(signal, sys.argv[1])(x, h, axes=1)
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
open("usage", "w").write(f"{wall} {cpu} {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000}")
soundfile.write(sys.argv[3], y[:, :480000].T, 48000, "FLOAT")
"""


class Case:
    """n channels in and out; routes as (input, output, mask file, channel of it), counted from 0."""

    def __init__(self, name, bits, seconds, n, mask_seconds, folder):
        self.name, self.bits, self.n, self.folder = name, bits, n, folder
        self.seconds = int(os.environ.get("BENCH_SECONDS", 0)) or seconds
        self.taps = int(mask_seconds * RATE)
        self.rng = np.random.default_rng(SEED + 1)
        self.make_input()
        if name != "matrix":
            self.write_mask("mask", 2)
            self.routes = [(ch, ch, "mask", ch) for ch in range(2)]
            self.mask = "mask.wav"
            graph = "[0][1]afir=gtype=none:dry=1:wet=0.5"
            self.ffmpeg = ["-i", "mask.wav", "-filter_complex", graph]
        else:
            for out in range(n):
                self.write_mask(f"mask{out}", n)
            self.routes = [(i, out, f"mask{out}", i) for out in range(n) for i in range(n)]
            self.mask = "matrix.conf"
            masks = [word for out in range(n) for word in ("-i", f"mask{out}.wav")]
            every = "+".join(f"c{i}" for i in range(n))
            graph = f"[0]asplit={n}" + "".join(f"[i{o}]" for o in range(n)) + ";"
            graph += "".join(f"[i{o}][{o + 1}]afir=gtype=none:dry=1:wet=0.5,pan=mono|c0={every}[o{o}];"
                             for o in range(n))
            graph += "".join(f"[o{o}]" for o in range(n)) + f"amerge={n}"
            self.ffmpeg = [*masks, "-filter_complex", graph]
        self.write_matrix_conf()
        self.write_brutefir_conf()

    def title(self):
        seconds = f"{self.taps / RATE:g} s"
        stereo, matrix = f"{self.n} channels, mask {seconds}", f"{self.n} x {self.n} responses of {seconds}"
        what = matrix if self.name == "matrix" else stereo
        return f"{self.seconds} s, {RATE} Hz, {self.bits} bits, {what}"

    def make_input(self):
        with soundfile.SoundFile(self.folder / "in.wav", "w", RATE, self.n, f"PCM_{self.bits}") as wav, \
                open(self.folder / "in.raw", "wb") as raw:
            for _ in range(self.seconds):
                second = (self.rng.uniform(-0.5, 0.5, (RATE, self.n)) * (2 ** 31 - 1)).astype("<i4")
                wav.write(second)
                raw.write(second.view("u1").reshape(-1, 4)[:, 4 - self.bits // 8:].tobytes())

    def write_mask(self, name, n_channels):
        decay = np.exp(-6.9078 * np.arange(self.taps)[:, None] / self.taps)
        mask = self.rng.standard_normal((self.taps, n_channels)) * decay
        mask *= 0.3 / np.sqrt((mask ** 2).sum(0) * (n_channels if self.name == "matrix" else 1))
        soundfile.write(self.folder / f"{name}.wav", mask.astype(np.float32), RATE, "FLOAT")
        for ch in range(n_channels):
            mask[:, ch].astype("<f4").tofile(self.folder / f"{name}.{ch}.f32")

    def write_matrix_conf(self):
        reads = "".join(f"/impulse/read {i + 1} {o + 1} 1 0 0 0 {ch + 1} {self.folder}/{mask}.wav\n"
                        for i, o, mask, ch in self.routes)
        (self.folder / "matrix.conf").write_text(f"/convolver/new {self.n} {self.n} 8192 {self.taps}\n{reads}")

    def write_brutefir_conf(self):
        parts = -(-self.taps // BRUTEFIR_PARTITION)
        names = lambda kind: ", ".join(f'"{kind}{ch}"' for ch in range(self.n))
        coeffs = "".join(f'coeff "c{k}" {{ filename: "{self.folder}/{mask}.{ch}.f32"; format: "FLOAT_LE"; }};\n'
                         for k, (_, _, mask, ch) in enumerate(self.routes))
        filters = "".join(f'filter "f{k}" {{ from_inputs: "i{i}"; to_outputs: "o{o}"; coeff: "c{k}"; }};\n'
                          for k, (i, o, _, _) in enumerate(self.routes))
        (self.folder / "brutefir.conf").write_text(f"""
sampling_rate: {RATE}; filter_length: {BRUTEFIR_PARTITION},{parts}; float_bits: 32; overflow_warnings: false;
show_progress: false; max_dither_table_size: 0; allow_poll_mode: false; monitor_rate: false;
convolver_config: "{self.folder}/brutefir_convolver";
{coeffs}
input {names("i")} {{ device: "file" {{ path: "{self.folder}/in.raw"; }}; sample: "S{self.bits}_LE"; channels: {self.n}; }};
output {names("o")} {{ device: "file" {{ path: "{self.folder}/brutefir.raw"; }}; sample: "S{self.bits}_LE"; channels: {self.n};
  dither: false; }};
{filters}""")

    def contestants(self):
        rows = {of(backend): [str(HALOCONV), "convolve", "in.wav", self.mask, "-o", f"haloconv-{backend}.wav",
                              "--backend", backend, "-q"] for backend in BACKENDS}
        if self.name == "minutes":
            for function in ("fftconvolve", "oaconvolve"):
                for kind in ("float32", "float64"):
                    name = f"{function} {kind}"
                    rows[name] = [sys.executable, "-c", SCIPY, function, kind, f"{name}.wav"]
            return rows
        if shutil.which("fconvolver"):
            rows["fconvolver -V"] = ["fconvolver", "-V", "matrix.conf", "in.wav", "fconvolver.wav"]
        if shutil.which("brutefir"):
            rows["brutefir"] = ["brutefir", "-quiet", "brutefir.conf"]
        if shutil.which("ffmpeg"):
            rows["ffmpeg afir"] = ["ffmpeg", "-loglevel", "error", "-y", "-i", "in.wav", *self.ffmpeg, "-c:a",
                                   f"pcm_s{self.bits}le", "ffmpeg.wav"]
        return rows

    def run(self, command):
        """Wall seconds, CPU seconds, peak memory in MB."""
        home = {**os.environ, "HOME": str(self.folder)}  # brutefir writes its defaults there
        measure = [] if command[0] == sys.executable else [str(MEASURE), "usage"]
        done = subprocess.run([*measure, *command], cwd=self.folder, env=home, stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr.decode(errors='replace')}")
        return [float(word) for word in (self.folder / "usage").read_text().split()]

    def check(self, rows):
        """All give the same sound, within the steps of 16 bits, rounded or not."""
        ours = soundfile.read(self.folder / f"haloconv-{BACKENDS[-1]}.wav", frames=10 * RATE)[0]
        for name, file, raw in [("fconvolver -V", "fconvolver.wav", None), ("brutefir", "brutefir.raw", "RAW"),
                                ("ffmpeg afir", "ffmpeg.wav", None),
                                *((name, f"{name}.wav", None) for name in rows if name.split()[0].endswith("convolve")),
                                *((of(backend), f"haloconv-{backend}.wav", None) for backend in BACKENDS[:-1])]:
            if name not in rows:
                continue
            kind = dict(format="RAW", samplerate=RATE, channels=self.n, subtype=f"PCM_{self.bits}") if raw else {}
            theirs = soundfile.read(self.folder / file, frames=10 * RATE, **kind)[0]
            n = min(len(ours), len(theirs))
            ours, theirs, gain = ours[:n], theirs[:n], 1
            # ffmpeg 5.1 doubles the sound, other versions do not: wet=0.5 avoids clipping, and the gain is fitted here
            if name == "ffmpeg afir":
                gain = (ours * theirs).sum() / (theirs ** 2).sum()
            off = np.abs(ours - gain * theirs).max()
            print(f"check: {self.name}: {name} differs by at most {off * 32768:.2f} steps of 16 bits in the first "
                  f"{n / RATE:.0f} s" + (f", its gain ({1 / gain:.3f}) aside" if gain != 1 else ""))
            if not (n > 0 and off <= 2.5 / 32768):
                sys.exit("check failed: not the same sound; no times are given")

    def measure(self):
        rows = self.contestants()
        # to warm up, and to compare the outputs
        seen = {name: [self.run(command)] for name, command in rows.items()}
        self.check(rows)
        seen = {name: runs if runs[0][0] > SLOW_S else [] for name, runs in seen.items()}
        for _ in range(REPEATS):
            for name, command in rows.items():
                if not (seen[name] and seen[name][0][0] > SLOW_S):
                    seen[name].append(self.run(command))
        return {name: [statistics.median(r[i] for r in runs) for i in range(2)] + [max(r[2] for r in runs)]
                for name, runs in seen.items()}


def of(backend):
    return f"haloconv ({backend})"


def lines_of(case, middle):
    yield f"{case.title()}; medians of {REPEATS} runs each in turn."
    yield ""
    yield f"| program             | wall s | CPU s | peak MB | x real time | our wall | our CPU |"
    yield "|---|---|---|---|---|---|---|"
    ours = middle[of(BACKENDS[-1])]
    for name, (wall, cpu_s, mb) in middle.items():
        yield (f"| {name:19} | {wall:6.2f} | {cpu_s:5.2f} | {mb:7.0f} | {case.seconds / wall:11.0f} | "
               f"{ours[0] / wall:8.2f} | {ours[1] / cpu_s:7.2f} |")
    yield ""


def main():
    memory = pathlib.Path("/dev/shm")
    print(f"HC_TEST_SEED={SEED}")
    lines = []
    cases = [("stereo", 16, 600, 2, 3), ("matrix", 16, 60, 16, 1), ("hour", 24, 3600, 2, 10), *MINUTES]
    for name, *shape in cases:
        if name not in os.environ.get("BENCH_CASES", "stereo matrix minutes").split():
            continue
        folder = pathlib.Path(tempfile.mkdtemp(prefix="haloconv-bench-", dir=memory if memory.is_dir() else None))
        try:
            case = Case(name, *shape, folder)
            lines += lines_of(case, case.measure())
        finally:
            shutil.rmtree(folder)
    print("\n".join(["", *lines]))


main()
