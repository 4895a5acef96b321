"""The bench of moving sources: files of 10 s at 16 kHz, each on a random path through a bank of responses of 1 s.

    make bench-moving    BENCH_FILES (on the CPU 400, on a GPU 20000), BENCH_ENTRIES (1000), BENCH_OUTPUTS (2),
                         BENCH_STEP (256), BENCH_REPEATS (3), BENCH_PEER_FILES (a fortieth), BENCH_PATH (the path),
                         HALOCONV (build/haloconv), BENCH_WORKERS (0: as many as the program takes), HC_TEST_SEED (0)

    haloconv        `haloconv batch`, the whole command: 16-bit files read from and written to /dev/shm, and the bank
                    loaded; on the CPU, and on a GPU if there is one
    ..., warm       the same without the time that a list of one file takes: start of the program and the bank
    torch           a loop over files, on the GPU if there is one: the bank transformed once; all steps of a file at once,
                    each through the entry of its step; rfft, product, irfft, overlap-add. No crossfade: each step is
                    computed once, haloconv computes two. numpy and scipy's fft if there is no torch. Reading and writing
                    by soundfile is included, in one process

Checks one output against float64 first; then medians of the repeats, as hours of output an hour.
"""

import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import scipy.fft
import scipy.signal
import soundfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = (ROOT / os.environ.get("BUILD", "build")).resolve()
HALOCONV = pathlib.Path(os.environ.get("HALOCONV", BUILD / "haloconv")).resolve()
RATE, SECONDS = 16000, 10
SEED = int(os.environ.get("HC_TEST_SEED", 0))
HAS_GPU = "cuda:0" in subprocess.run([str(HALOCONV), "devices"], stdout=subprocess.PIPE, text=True, check=False).stdout
FILES = int(os.environ.get("BENCH_FILES", 20000 if HAS_GPU else 400))
ENTRIES = int(os.environ.get("BENCH_ENTRIES", 1000))
OUTPUTS = int(os.environ.get("BENCH_OUTPUTS", 2))
STEP = int(os.environ.get("BENCH_STEP", 256))
REPEATS = int(os.environ.get("BENCH_REPEATS", 3))
PEER_FILES = int(os.environ.get("BENCH_PEER_FILES", max(FILES // 40, 5)))
WORKERS = int(os.environ.get("BENCH_WORKERS", 0))
# Mixes are the default; an older program plays the nearest entry, and has no such option.
NEAREST = ["--nearest"] * ("--nearest" in subprocess.run([str(HALOCONV), "batch", "--help"], stdout=subprocess.PIPE,
                                                         text=True, check=False).stdout)
PATH = os.environ.get("BENCH_PATH", "random:speed=20..90,elevation=-40..60")
TAPS = RATE


def make():
    """The files, and a bank on a spiral over the sphere. Returns the taps [entry][output][tap]."""
    rng = np.random.default_rng(SEED)
    for folder in ("in", "bank"):
        os.mkdir(folder)
    long = (rng.uniform(-0.5, 0.5, 3 * RATE * SECONDS) * 32767).astype("<i2")
    first = None
    for i in range(FILES):
        name = f"in/u{i:06d}.wav"
        if i < 100:
            at = int(rng.integers(0, 2 * RATE * SECONDS))
            soundfile.write(name, long[at:at + RATE * SECONDS], RATE, "PCM_16")
            first = first or name
        else:
            os.link(f"in/u{i % 100:06d}.wav", name)
    taps = np.empty((ENTRIES, OUTPUTS, TAPS), np.float32)
    decay = np.exp(-6.9 * np.arange(TAPS) / TAPS) * 0.3
    with open("bank/list.csv", "w", encoding="utf-8") as file:
        file.write("azimuth,elevation,distance,file\n")
        for e in range(ENTRIES):
            taps[e] = rng.standard_normal((OUTPUTS, TAPS)).astype(np.float32) * decay
            taps[e] /= np.sqrt((taps[e]**2).sum())
            soundfile.write(f"bank/r{e:05d}.wav", taps[e].T, RATE, "FLOAT")
            z = 1 - (2 * e + 1) / ENTRIES
            file.write(f"{np.degrees(e * 2.399963) % 360:.6f},{np.degrees(np.arcsin(z)):.6f},1,r{e:05d}.wav\n")
    return taps


def check(taps):
    """One file beside the float64 definition, on each device."""
    rng = np.random.default_rng(SEED + 1)
    x = soundfile.read("in/u000000.wav")[0]
    n_steps = len(x) // STEP
    entries = rng.integers(0, ENTRIES, n_steps)
    entries[1::2] = entries[0::2][:len(entries[1::2])]
    with open("check.csv", "w", encoding="utf-8") as file:
        file.write("frame,entry\n" + "".join(f"{k * STEP},{e}\n" for k, e in enumerate(entries)))
    want = np.zeros((len(x) + TAPS - 1, OUTPUTS))
    edge = np.arange(len(want)) // STEP
    g = (np.arange(len(want)) % STEP + 1) / STEP
    now = entries[np.minimum(edge, n_steps - 1)]
    before = entries[np.clip(edge - 1, 0, n_steps - 1)]
    before[:STEP] = now[:STEP]
    for e in np.unique(entries):
        gain = g * (now == e) + (1 - g) * (before == e)
        want += gain[:, None] * scipy.signal.fftconvolve(x[:, None], taps[e].T.astype(float), axes=0)
    for device in ["cpu"] + ["cuda"] * HAS_GPU:
        subprocess.run([str(HALOCONV), "convolve", "in/u000000.wav", "bank/list.csv", "--path", "check.csv", "-o",
                        "check.wav", "--format", "float", "--backend", device, "--step", str(STEP), "-q"], check=True)
        error = np.abs(soundfile.read("check.wav", always_2d=True)[0] - want).max() / np.abs(want).max()
        print(f"check on {device}: {20 * np.log10(error):.0f} dB of the peak beside float64", flush=True)
        assert error <= 1e-6, "wrong output"


def batch(device, n_files):
    """Seconds of a list of n_files."""
    shutil.rmtree("out", ignore_errors=True)
    with open("list.csv", "w", encoding="utf-8") as file:
        file.write("input,mask,path,output\n")
        file.writelines(f"in/u{i:06d}.wav,bank/list.csv,\"{PATH}\",o{i:06d}.wav\n" for i in range(n_files))
    start = time.perf_counter()
    subprocess.run([str(HALOCONV), "batch", "list.csv", "-o", "out", "-q", "--backend", device, "--step", str(STEP),
                    "--gain", "-12", "--cache", "65536", *NEAREST, *(["--workers", str(WORKERS)] if WORKERS else [])], check=True)
    return time.perf_counter() - start


def peer(taps):
    """Hours an hour of the loop over files, and its name."""
    n_fft = scipy.fft.next_fast_len(TAPS + STEP - 1, real=True)
    n_steps = RATE * SECONDS // STEP
    n_out = (n_steps - 1) * STEP + n_fft
    rng = np.random.default_rng(SEED)
    try:
        import torch  # pylint: disable=import-outside-toplevel
    except ImportError:
        torch = None
    os.makedirs("peer", exist_ok=True)
    if torch:
        device = "cuda" if HAS_GPU and torch.cuda.is_available() else "cpu"
        bank = torch.stack([torch.fft.rfft(torch.from_numpy(t).to(device), n_fft) for t in taps])
        at = (torch.arange(n_steps, device=device)[:, None] * STEP + torch.arange(n_fft, device=device)).reshape(-1)

        def convolve(x, entries):
            steps = torch.from_numpy(x[:n_steps * STEP].reshape(n_steps, STEP)).to(device)
            spectra = torch.fft.rfft(steps, n_fft)[:, None] * bank[torch.from_numpy(entries).to(device)]
            y = torch.fft.irfft(spectra, n_fft).transpose(0, 1).reshape(OUTPUTS, -1)
            out = torch.zeros((OUTPUTS, n_out), device=device).index_add_(1, at, y)
            return (out * 0.25).clamp(-1, 1).cpu().numpy().T
        name = f"torch {torch.__version__} on {torch.cuda.get_device_name() if device == 'cuda' else 'the CPU'}"
    else:
        bank = scipy.fft.rfft(taps, n_fft)

        def convolve(x, entries):
            spectra = scipy.fft.rfft(x[:n_steps * STEP].reshape(n_steps, STEP), n_fft, workers=-1)
            out = np.zeros((n_out, OUTPUTS), np.float32)
            for k in range(n_steps):
                out[k * STEP:k * STEP + n_fft] += scipy.fft.irfft(spectra[k] * bank[entries[k]], n_fft).T
            return np.clip(out * 0.25, -1, 1)
        name = "scipy on the CPU"
    for warm in (True, False):
        start = time.perf_counter()
        for i in range(1 if warm else PEER_FILES):
            x = soundfile.read(f"in/u{i:06d}.wav", dtype="float32")[0]
            soundfile.write(f"peer/{i}.wav", convolve(x, rng.integers(0, ENTRIES, n_steps)), RATE, "PCM_16")
    return PEER_FILES * SECONDS / (time.perf_counter() - start), name


def main():
    folder = tempfile.mkdtemp(prefix="haloconv-moving-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    os.chdir(folder)
    try:
        taps = make()
        check(taps)
        print(f"{FILES} files of {SECONDS} s at {RATE} Hz, a bank of {ENTRIES} entries x {OUTPUTS} outputs x 1 s, step "
              f"{STEP}, path {PATH}; hours of output an hour", flush=True)
        for device in ["cpu"] + ["cuda"] * HAS_GPU:
            n_files = FILES if device == "cuda" or not HAS_GPU else max(FILES // 20, 10)
            seconds = statistics.median(batch(device, n_files) for _ in range(REPEATS))
            one = statistics.median(batch(device, 1) for _ in range(REPEATS))
            print(f"haloconv, {device:4}        {n_files * SECONDS / seconds:10.0f}   ({n_files} files in {seconds:.2f} s)",
                  flush=True)
            if n_files > 1 and seconds > one:
                print(f"haloconv, {device:4}, warm  {(n_files - 1) * SECONDS / (seconds - one):10.0f}   (one file takes "
                      f"{one:.2f} s)", flush=True)
        hours, name = peer(taps)
        print(f"{name:20}  {hours:10.0f}   ({PEER_FILES} files, no crossfade)")
    finally:
        os.chdir("/")
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
