"""The bench of files: 600 s of stereo at 48 kHz and 16 bits through a 3 s stereo mask, beside fconvolver and BruteFIR.

    make bench-files            BENCH_SECONDS (600), BENCH_REPEATS (5), BENCH_BACKEND (cpu) change it

The three take turns in one run, on files in /dev/shm, after a check that all give the same sound. Prints medians of wall
seconds and CPU seconds (user + system) and the largest peak memory, and what haloconv takes as a share of each peer.
BruteFIR reads and writes raw samples, so it is spared the headers; fconvolver's output is of the format that it chooses.
"""

import datetime
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile

import numpy as np
import soundfile

RATE, MASK_SECONDS = 48000, 3
SECONDS = int(os.environ.get("BENCH_SECONDS", 600))
REPEATS = int(os.environ.get("BENCH_REPEATS", 5))
BACKEND = os.environ.get("BENCH_BACKEND", "cpu")
ROOT = pathlib.Path(__file__).resolve().parent.parent
MEASURE = (ROOT / os.environ.get("BUILD", "build") / "tests/measure").resolve()
HALOCONV = (ROOT / os.environ.get("BUILD", "build") / "haloconv").resolve()


def make_files(folder):
    rng = np.random.default_rng(1)
    n = MASK_SECONDS * RATE
    mask = rng.standard_normal((n, 2)) * np.exp(-6.9078 * np.arange(n)[:, None] / n)
    mask *= 0.3 / np.sqrt((mask ** 2).sum(0))
    soundfile.write(folder / "mask.wav", mask.astype(np.float32), RATE, "FLOAT")
    for ch in range(2):
        mask[:, ch].astype("<f4").tofile(folder / f"mask{ch}.f32")
    with soundfile.SoundFile(folder / "in.wav", "w", RATE, 2, "PCM_16") as wav, open(folder / "in.raw", "wb") as raw:
        for _ in range(SECONDS):
            second = (rng.uniform(-0.5, 0.5, (RATE, 2)) * 32767).astype("<i2")
            wav.write(second)
            raw.write(second.tobytes())
    (folder / "fconvolver.conf").write_text(
        f"/convolver/new 2 2 8192 {n}\n/impulse/read 1 1 1 0 0 0 1 {folder}/mask.wav\n/impulse/read 2 2 1 0 0 0 2 {folder}/mask.wav\n")
    # Partitions of 32768 are the fastest of 2048 to 65536 here, in CPU time; latency is of no concern.
    partition, parts = 32768, -(-n // 32768)
    (folder / "brutefir.conf").write_text(f"""
sampling_rate: {RATE}; filter_length: {partition},{parts}; float_bits: 32; overflow_warnings: false; show_progress: false;
max_dither_table_size: 0; allow_poll_mode: false; monitor_rate: false;
convolver_config: "{folder}/brutefir_convolver";
coeff "left" {{ filename: "{folder}/mask0.f32"; format: "FLOAT_LE"; }};
coeff "right" {{ filename: "{folder}/mask1.f32"; format: "FLOAT_LE"; }};
input "l", "r" {{ device: "file" {{ path: "{folder}/in.raw"; }}; sample: "S16_LE"; channels: 2; }};
output "L", "R" {{ device: "file" {{ path: "{folder}/brutefir.raw"; }}; sample: "S16_LE"; channels: 2; dither: false; }};
filter "fl" {{ from_inputs: "l"; to_outputs: "L"; coeff: "left"; }};
filter "fr" {{ from_inputs: "r"; to_outputs: "R"; coeff: "right"; }};
""")


def contestants(folder):
    rows = {"haloconv": [str(HALOCONV), "convolve", "in.wav", "mask.wav", "-o", "haloconv.wav", "--backend", BACKEND, "-q"]}
    if shutil.which("fconvolver"):
        rows["fconvolver -V"] = ["fconvolver", "-V", "fconvolver.conf", "in.wav", "fconvolver.wav"]
    if shutil.which("brutefir"):
        rows["brutefir"] = ["brutefir", "-quiet", "brutefir.conf"]
    return rows


def run(command, folder):
    """Wall seconds, CPU seconds, peak memory in MB."""
    home = {**os.environ, "HOME": str(folder)}  # brutefir writes its defaults there
    done = subprocess.run([str(MEASURE), "usage", *command], cwd=folder, env=home, stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr.decode(errors='replace')}")
    return [float(word) for word in (folder / "usage").read_text().split()]


def check(rows, folder):
    """All the same sound, to what 16 bits with or without rounding allow."""
    ours = soundfile.read(folder / "haloconv.wav", frames=10 * RATE)[0]
    for name, file, raw in [("fconvolver -V", "fconvolver.wav", None), ("brutefir", "brutefir.raw", "RAW")]:
        if name not in rows:
            continue
        kind = dict(format="RAW", samplerate=RATE, channels=2, subtype="PCM_16") if raw else {}
        theirs = soundfile.read(folder / file, frames=10 * RATE, **kind)[0]
        n = min(len(ours), len(theirs))
        off = np.abs(ours[:n] - theirs[:n]).max()
        print(f"check: {name} differs by at most {off * 32768:.2f} steps of 16 bits in the first {n / RATE:.0f} s")
        if not off <= 2.5 / 32768:
            sys.exit("check failed: not the same sound; no times are given")


def main():
    memory = pathlib.Path("/dev/shm")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="haloconv-bench-", dir=memory if memory.is_dir() else None))
    try:
        make_files(folder)
        rows = contestants(folder)
        for command in rows.values():  # once to warm up, and to compare what comes out
            run(command, folder)
        check(rows, folder)
        seen = {name: [] for name in rows}
        for _ in range(REPEATS):
            for name, command in rows.items():
                seen[name].append(run(command, folder))
    finally:
        shutil.rmtree(folder)
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        cpu = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), platform.machine())
    middle = {name: [statistics.median(r[i] for r in runs) for i in range(2)] + [max(r[2] for r in runs)] for name, runs in seen.items()}
    what = f"{SECONDS} s, 2 channels, {RATE} Hz, 16 bits, mask {MASK_SECONDS} s; medians of {REPEATS} runs each in turn"
    where = f"{cpu}, {os.cpu_count()} cores, {datetime.date.today()}"
    print(f"\n{what}; {where}\n")
    for line in table(middle):
        print(line)
    if len(sys.argv) == 3 and sys.argv[1] == "--write-table":
        write_table(pathlib.Path(sys.argv[2]), [f"{what}; {where}.", "", *table(middle)])


def table(middle):
    yield f"| {'program':16} | wall s | CPU s | peak MB | x real time | our wall | our CPU |"
    yield "|---|---|---|---|---|---|---|"
    ours = middle["haloconv"]
    for name, (wall, cpu_s, mb) in middle.items():
        label = f"{name} ({BACKEND})" if name == "haloconv" else name
        yield (f"| {label:16} | {wall:6.2f} | {cpu_s:5.2f} | {mb:7.0f} | {SECONDS / wall:11.0f} | {ours[0] / wall:8.2f} |"
               f" {ours[1] / cpu_s:7.2f} |")


def write_table(page, lines):
    """Replace what stands in the page between its two marks."""
    text, mark, end = page.read_text(), "<!-- bench files -->\n", "<!-- end -->"
    start = text.index(mark) + len(mark)
    page.write_text(text[:start] + "\n".join(lines) + "\n" + text[text.index(end, start):])


main()
