#!/usr/bin/env python3
"""Moving sources of whole signals, from memory to memory: haloconv and a loop in PyTorch on the same GPU.

    HALOCONV=build/haloconv tests/bench/bench_render.py

The loop does what the formula says: for each step of all signals one transform of the frames that the responses reach,
the products with the entries before and behind the fade, two transforms back, and the fade of the last frames. A few
output frames of the loop are compared with a sum in float64 first.
"""

import json
import os
import subprocess
import time

import torch

RATE, STEP, ENTRIES, OUTPUTS, TAPS, JOBS, SECONDS = 16000, 256, 1000, 2, 16000, 256, 10
FFT = 16384  # TAPS + STEP - 1 at least


def bank(device):
    torch.manual_seed(1)
    fall = torch.exp(-6.9 * torch.arange(TAPS) / TAPS) * 0.03
    return (torch.randn(ENTRIES, OUTPUTS, TAPS) * fall).to(device)


def render(spectra, x, entries, fade):
    """y [JOBS, OUTPUTS, n]; x [JOBS, n], entries [JOBS, steps] on the device."""
    n_steps = x.shape[1] // STEP
    padded = torch.nn.functional.pad(x, (FFT - STEP, 0))
    y = torch.empty(x.shape[0], OUTPUTS, x.shape[1], device=x.device)
    for w in range(n_steps):
        spectrum = torch.fft.rfft(padded[:, w * STEP:w * STEP + FFT])[:, None]
        new = torch.fft.irfft(spectrum * spectra[entries[:, w]], n=FFT)[..., -STEP:]
        if w:
            old = torch.fft.irfft(spectrum * spectra[entries[:, w - 1]], n=FFT)[..., -STEP:]
            new = old + fade * (new - old)
        y[..., w * STEP:(w + 1) * STEP] = new
    return y


def check(h, x, entries, y):
    """Three frames of the first signal against float64."""
    h, x, entries, y = h.double().cpu(), x[0].double().cpu(), entries[0].cpu(), y[0].double().cpu()
    for frame in (0, 20000, x.shape[0] - 1):
        w, i = divmod(frame, STEP)
        g = (i + 1) / STEP if w else 1.0
        reach = x[max(0, frame - TAPS + 1):frame + 1].flip(0)
        both = [(h[entries[k], :, :len(reach)] @ reach) for k in (max(w - 1, 0), w)]
        want = (1 - g) * both[0] + g * both[1]
        assert ((want - y[:, frame]).abs() <= 1e-5 * y.abs().max()).all(), (frame, want, y[:, frame])


def torch_hours():
    device = torch.device("cuda")
    h = bank(device)
    spectra = torch.fft.rfft(h, n=FFT)
    n = SECONDS * RATE // STEP * STEP
    x = torch.randn(JOBS, n).pin_memory()
    entries = torch.randint(ENTRIES, (JOBS, n // STEP), device=device)
    fade = (torch.arange(STEP, device=device) + 1) / STEP
    out = torch.empty(JOBS, OUTPUTS, n).pin_memory()
    check(h, x, entries, render(spectra, x.to(device), entries, fade))
    torch.cuda.synchronize()
    start, calls = time.perf_counter(), 0
    while time.perf_counter() - start < 4:
        out.copy_(render(spectra, x.to(device, non_blocking=True), entries, fade))
        torch.cuda.synchronize()
        calls += 1
    return calls * JOBS * n / RATE / (time.perf_counter() - start)


def haloconv_hours():
    command = [os.environ.get("BUILD", "build") + "/tests/bench_render", "--backend", "cuda", "--json", "--rate", str(RATE), "--step", str(STEP), "--entries", str(ENTRIES), "--outputs", str(OUTPUTS), "--taps",
               str(TAPS), "--jobs", str(JOBS), "--length", str(SECONDS), "--time", "4"]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)["hours_an_hour"]


if __name__ == "__main__":
    print(f"{JOBS} signals of {SECONDS} s at {RATE} Hz, one moving source each, {OUTPUTS} outputs, {ENTRIES} entries of "
          f"{TAPS} taps, another entry each {STEP} frames; memory to memory\n")
    print("| program | hours of output an hour |\n|---|--:|")
    print(f"| haloconv | {haloconv_hours():.0f} |", flush=True)
    print(f"| loop in PyTorch {torch.__version__} (cuFFT), all signals of a step at once | {torch_hours():.0f} |")
