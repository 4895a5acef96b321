"""The bench of many files: 10,000 utterances of 10 s at 16 kHz through 1,000 rooms of 1 s, 16-bit files in /dev/shm.

    make bench-batch     BENCH_FILES (10000), BENCH_ROOMS (1000), BENCH_REPEATS (3), BENCH_PROCESSES (all processors),
                         BENCH_PEER_FILES (1600; a share of the files for the slow peer), HALOCONV (build/haloconv),
                         BENCH_WORKERS (0: as many as the program takes), HC_TEST_SEED (0; other sounds)

    haloconv        `haloconv batch`, the whole command, on the CPU and on a GPU if there is one; with its CPU seconds
                    (user + system, spinning included), in all and for each file, and its peak memory
    ..., tar        the same files from 100 tar files to 100 tar files, each file with a room that is drawn
    torchaudio      torchaudio.functional.fftconvolve (without torchaudio: the same by torch.fft; without torch: scipy),
                    file by file on the GPU if there is one, read and written by soundfile, in BENCH_PROCESSES processes
    read and write  soundfile reads and writes the same files in as many processes: a lower limit of any program
    copy bytes      the same bytes copied in as many processes: the limit of the file system

Checks some outputs against float64 first; then medians of the repeats. A peer's seconds are scaled from its share of
the files.
"""

import multiprocessing
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time

import numpy as np
import soundfile

RATE, SECONDS = 16000, 10
FILES = int(os.environ.get("BENCH_FILES", 10000))
ROOMS = int(os.environ.get("BENCH_ROOMS", 1000))
REPEATS = int(os.environ.get("BENCH_REPEATS", 3))
PROCESSES = int(os.environ.get("BENCH_PROCESSES", len(os.sched_getaffinity(0))))
PEER_FILES = min(FILES, int(os.environ.get("BENCH_PEER_FILES", 1600)))
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = (ROOT / os.environ.get("BUILD", "build")).resolve()
HALOCONV = pathlib.Path(os.environ.get("HALOCONV", BUILD / "haloconv")).resolve()
WORKERS = int(os.environ.get("BENCH_WORKERS", 0))
SEED = int(os.environ.get("HC_TEST_SEED", 0))


def names(i):
    return f"in/u{i:05d}.wav", f"rooms/r{i * 7919 % ROOMS:04d}.wav"


def make(span):
    rng = np.random.default_rng(SEED + span[0])
    long = (rng.uniform(-0.5, 0.5, 3 * RATE * SECONDS) * 32767).astype("<i2")
    for i in range(*span):
        at = int(rng.integers(0, 2 * RATE * SECONDS))
        soundfile.write(f"in/u{i:05d}.wav", long[at:at + RATE * SECONDS], RATE, "PCM_16")
        if i < ROOMS:
            h = rng.standard_normal(RATE) * np.exp(-6.9 * np.arange(RATE) / RATE)
            soundfile.write(f"rooms/r{i:04d}.wav", h * 0.3 / np.sqrt((h ** 2).sum()), RATE, "PCM_16")


def spans(n, parts):
    edges = np.linspace(0, n, parts + 1).astype(int)
    return [(int(a), int(b)) for a, b in zip(edges, edges[1:]) if b > a]


# ---- the peers ------------------------------------------------------------------------------------------------------
def copy_bytes(span):
    tail = bytes(2 * (RATE - 1))
    for i in range(*span):
        with open(names(i)[0], "rb") as source, open(f"out/{i}.wav", "wb") as target:
            target.write(source.read() + tail)


def read_and_write(span):
    tail = np.zeros(RATE - 1, np.float32)
    for i in range(*span):
        x, _ = soundfile.read(names(i)[0], dtype="float32")
        soundfile.write(f"out/{i}.wav", np.concatenate([x, tail]), RATE, "PCM_16")


def convolver():
    """A function that convolves two arrays, and its name."""
    try:
        import torch
    except ImportError:
        import scipy.signal
        return lambda x, h: scipy.signal.fftconvolve(x, h), "scipy fftconvolve"
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_num_threads(1)
    try:
        from torchaudio.functional import fftconvolve
        name = "torchaudio fftconvolve"
    except ImportError:
        def fftconvolve(x, h):
            n = x.shape[-1] + h.shape[-1] - 1
            return torch.fft.irfft(torch.fft.rfft(x, n) * torch.fft.rfft(h, n), n)
        name = "torch.fft as torchaudio does it"
    return lambda x, h: fftconvolve(torch.from_numpy(x).to(device),
                                    torch.from_numpy(h).to(device)).cpu().numpy(), f"{name} ({device})"


STATE = {}


def prepare(_):
    convolve, name = convolver()
    STATE["convolve"] = convolve
    convolve(np.zeros(RATE * SECONDS, np.float32), np.zeros(RATE, np.float32))
    time.sleep(0.5)  # so that every process of the pool gets one call
    return name


def convolve_files(span):
    for i in range(*span):
        x, _ = soundfile.read(names(i)[0], dtype="float32")
        h, _ = soundfile.read(names(i)[1], dtype="float32")
        soundfile.write(f"out/{i}.wav", STATE["convolve"](x, h), RATE, "PCM_16")


def timed(pool, work, n):
    shutil.rmtree("out", ignore_errors=True)
    os.mkdir("out")
    start = time.perf_counter()
    pool.map(work, spans(n, PROCESSES * 4), chunksize=1)
    return time.perf_counter() - start


# ---- ours -----------------------------------------------------------------------------------------------------------
LIST = ["list.csv"]
DRAWN = ["--masks", "rooms/*.wav", "--pairs", "random:1"]
TARS = ["--inputs", "shard-{00..99}.tar", *DRAWN]


def ours(backend, source):
    """Wall seconds, CPU seconds, peak memory in MB."""
    shutil.rmtree("out", ignore_errors=True)
    workers = ["--workers", str(WORKERS)] if WORKERS else []
    done = subprocess.run([str(BUILD / "tests/measure"), "usage", str(HALOCONV), "batch", *source, "-o", "out",
                           "--backend", backend, "-q", *workers], check=False)
    if done.returncode:
        sys.exit(f"haloconv batch --backend {backend}: exit {done.returncode}")
    return [float(word) for word in pathlib.Path("usage").read_text(encoding="utf-8").split()]


def measure_ours(backend, source):
    ours(backend, source)
    (check if source is LIST else check_tars)(backend)
    return [statistics.median(column) for column in zip(*(ours(backend, source) for _ in range(REPEATS)))]


def pack_tars():
    edges = np.linspace(0, FILES, 101).astype(int)
    for shard, (begin, end) in enumerate(zip(edges, edges[1:])):
        with tarfile.open(f"shard-{shard:02d}.tar", "w") as tar:
            for i in range(begin, end):
                tar.add(names(i)[0])


def check_tars(backend):
    """The members of the first tar file are what the same files become without a tar file."""
    with tarfile.open("out/shard-00.tar") as tar:
        packed = {pathlib.Path(member.name).stem: tar.extractfile(member).read() for member in tar}
    ours(backend, ["--inputs", "in/*.wav", *DRAWN])
    for stem, data in packed.items():
        if [path.read_bytes() for path in pathlib.Path("out").glob(f"{stem}_*.wav")] != [data]:
            sys.exit(f"check failed: {stem} differs in the tar file; no times are given")


def check(_):
    import scipy.signal
    for i in range(0, FILES, max(1, FILES // 20)):
        x, h, y = (soundfile.read(name)[0] for name in (*names(i), f"out/{i}.wav"))
        want = scipy.signal.fftconvolve(x, h)
        off = np.abs(y - want).max() * 32768 if y.shape == want.shape else np.inf
        if not off <= 1.51:  # half a step, and the dither
            sys.exit(f"check failed: output {i} is off by {off:.2f} steps of 16 bits; no times are given")


def main():
    memory = pathlib.Path("/dev/shm")
    print(f"HC_TEST_SEED={SEED}")
    folder = tempfile.mkdtemp(prefix="haloconv-bench-", dir=memory if memory.is_dir() else None)
    os.chdir(folder)
    rows = {}
    try:
        os.mkdir("in")
        os.mkdir("rooms")
        spawn = multiprocessing.get_context("spawn")
        with spawn.Pool(PROCESSES) as pool:
            pool.map(make, spans(FILES, PROCESSES), chunksize=1)
            pack_tars()
            with open("list.csv", "w", encoding="utf-8") as file:
                file.write("input,mask,output\n")
                file.writelines(",".join((*names(i), f"{i}.wav\n")) for i in range(FILES))
            for name, work in [("copy bytes", copy_bytes), ("read and write (soundfile)", read_and_write)]:
                rows[name] = [statistics.median(timed(pool, work, FILES) for _ in range(REPEATS))]
                print(f"{name}: {rows[name][0]:.3f} s", flush=True)
        backends = ["cpu"]
        if "cuda:0" in subprocess.run([str(HALOCONV), "devices"], capture_output=True, text=True, check=False).stdout:
            backends.append("cuda")
        for backend in backends:
            for source, note in [(LIST, ""), (TARS, ", tar")]:
                wall, cpu, mb = rows[f"haloconv batch ({backend}{note})"] = measure_ours(backend, source)
                print(f"haloconv {backend}{note}: {wall:.3f} s, CPU {cpu:.3f} s, {mb:.0f} MB", flush=True)
        with spawn.Pool(PROCESSES) as pool:
            name = pool.map(prepare, range(PROCESSES), chunksize=1)[0]
            rows[name] = [timed(pool, convolve_files, PEER_FILES) * FILES / PEER_FILES]
    finally:
        os.chdir("/")
        shutil.rmtree(folder)
    print(f"\n{FILES} files of {SECONDS} s, {ROOMS} rooms of 1 s, {RATE} Hz, 16 bits; "
          f"{platform.machine()}, {PROCESSES} processes\n")
    print("| | s | files a second | CPU s | CPU ms a file | peak MB |\n|---|--:|--:|--:|--:|--:|")
    for name, (seconds, *usage) in rows.items():
        cpu = f"{usage[0]:.2f} | {usage[0] / FILES * 1e3:.2f} | {usage[1]:.0f}" if usage else "| |"
        print(f"| {name} | {seconds:.2f} | {FILES / seconds:.0f} | {cpu} |")


if __name__ == "__main__":
    main()
