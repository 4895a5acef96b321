"""Plain files: a device decodes and encodes their samples, and several threads read and write them. The output equals
that of libsndfile, whatever the format, the length and the part that is written."""

import os
import subprocess

import numpy as np
import pytest
import soundfile
from conftest import HALOCONV, SAN, assert_close, convolve, haloconv, noise, peak_mb, read, write

FORMATS = [("WAV", "PCM_16"), ("WAV", "PCM_24"), ("WAV", "PCM_32"), ("WAV", "FLOAT"), ("WAVEX", "PCM_24"),
           ("RF64", "PCM_16"), ("W64", "PCM_24"), ("AIFF", "PCM_16"), ("AIFF", "PCM_24"), ("AIFF", "PCM_32"),
           ("AIFF", "FLOAT")]
LARGE = 8 << 20  # bytes of samples from which on the output is written in several places at once


def quantum(subtype):
    return {"PCM_16": 2.0 ** -15, "PCM_24": 2.0 ** -23, "PCM_32": 2.0 ** -31, "FLOAT": 0}[subtype]


def wet(x, h, skip=0, n=None):
    y = np.stack([np.convolve(x[:, ch], h[:, ch]) for ch in range(x.shape[1])], axis=1)
    return y[skip:][:n]


def mask(n_channels, taps=50):
    """A short mask, so that np.convolve is the reference; the gain makes a few samples clip."""
    h = noise(taps, n_channels, seed=2, scale=0.2)
    h[0] = 0.9
    return write("h.wav", h), h.astype(np.float64)


@pytest.mark.parametrize("container,subtype", FORMATS)
def test_every_plain_format_is_read_and_written(folder, backend, container, subtype):
    n = 120000  # over 1 MiB of 32 bits: read in several places at once; else from one end to the other
    write("x", noise(n, 3, seed=1, scale=0.8), subtype=subtype, format=container)
    _, h = mask(3)
    x = read("x")
    for tail, skip, frames in [("full", 0, n + 49), ("same", 0, n), ("centre", 24, n)]:
        report = convolve("x", "h.wav", "y", "--tail", tail, "--dither", "off", backend=backend)
        with soundfile.SoundFile("y") as file:
            assert (file.format, file.subtype, file.frames) == (container, subtype, frames)
        want = wet(x, h, skip, frames)
        limit = np.inf if subtype == "FLOAT" else 1
        assert_close(read("y"), np.clip(want, -limit, limit), quantum=1.01 * quantum(subtype))
        assert report["peak"] == pytest.approx(np.abs(want).max(), rel=1e-5)
        borderline = (np.abs(np.abs(want) - 1) < 1e-5).sum()
        clipped = 0 if subtype == "FLOAT" else (np.abs(want) > 1).sum()
        assert abs(report["clipped"] - clipped) <= borderline and report["frames_in"] == n


@pytest.mark.parametrize("container,subtype,channels,dither",
                         [("WAV", "PCM_16", 2, "off"), ("WAV", "PCM_16", 2, "tpdf"), ("AIFF", "PCM_24", 2, "off"),
                          ("RF64", "FLOAT", 7, "off")])
def test_a_large_file_is_whole(folder, backend, container, subtype, channels, dither):
    bytes_each = {"PCM_16": 2, "PCM_24": 3, "FLOAT": 4}[subtype]
    n = LARGE // (bytes_each * channels) * 3 // 2 + 12345
    write("x", noise(n, channels, seed=3, scale=0.5), subtype=subtype, format=container)
    _, h = mask(channels, taps=3)
    report = convolve("x", "h.wav", "y", "--dither", dither, backend=backend)
    assert report["frames_out"] == n + 2
    steps = 3.01 if dither == "tpdf" else 1.01  # the dither adds up to a step
    assert_close(read("y"), wet(read("x"), h), quantum=steps * quantum(subtype))


@pytest.mark.parametrize("source,target", [("WAV:PCM_24", "flac:pcm16"), ("FLAC:PCM_16", "wav:pcm24"),
                                           ("AIFF:PCM_16", "wav:float"), ("AU:PCM_16", "aiff:pcm24"),
                                           ("WAV:PCM_U8", "wav:pcmu8"), ("WAV:DOUBLE", "wav:pcm16")])
def test_plain_and_other_formats_mix(folder, backend, source, target):
    container, subtype = source.split(":")
    write("x", noise(70000, 2, seed=4, scale=0.3), subtype=subtype, format=container)
    _, h = mask(2)
    convolve("x", "h.wav", "y", "--format", target, "--dither", "off", backend=backend)
    steps = {"pcm16": 2.0 ** -15, "pcm24": 2.0 ** -23, "float": 0, "pcmu8": 2.0 ** -7}
    assert_close(read("y"), wet(read("x"), h), quantum=1.01 * steps[target.split(":")[1]])


def test_nan_in_a_plain_file_counts_as_zero(folder, backend):
    x = noise(400000, 1, seed=5)
    write("clean.wav", np.where(np.arange(400000)[:, None] % 100003 == 7, 0, x))
    x[7::100003] = [[np.nan], [np.inf], [-np.inf], [np.nan]]
    write("x.wav", x)
    mask(1)
    assert convolve("x.wav", "h.wav", "y.wav", backend=backend)["non_finite"] == 4
    convolve("clean.wav", "h.wav", "want.wav", backend=backend)
    assert (read("y.wav") == read("want.wav")).all()


def test_a_sample_beyond_a_float_is_refused(folder, backend):
    write("x.wav", np.full((300000, 1), 3e38, np.float32))
    write("h.wav", np.full((3, 1), 2, np.float32))
    done = haloconv("convolve", "x.wav", "h.wav", "-o", "y.wav", "--backend", backend)
    assert done.returncode == 1 and "exceeds the range of a float" in done.stderr
    assert not (folder / "y.wav").exists()


@pytest.mark.parametrize("cut", [1, 100000])
def test_a_plain_file_that_was_cut_is_refused(folder, backend, cut):
    write("x.wav", noise(600000, 1, seed=6), subtype="PCM_24")
    whole = (folder / "x.wav").read_bytes()
    (folder / "x.wav").write_bytes(whole[:-cut])
    mask(1)
    done = haloconv("convolve", "x.wav", "h.wav", "-o", "y.wav", "--backend", backend)
    assert done.returncode == 1 and "cut short" in done.stderr
    assert not (folder / "y.wav").exists()


def test_memory_does_not_grow_with_the_file(folder, backend):
    """A file that stays mapped as a whole, or an output whose pages are kept, adds its whole growth to the peak memory.
    Blocks in flight, and the pages that the system maps around them, add a few MiB for each reader and writer."""
    peaks, mib, block = [], [64, 256], noise(1 << 20, 2)  # a block has 4 MiB of samples
    mask(2, taps=1)
    for size in mib:
        with soundfile.SoundFile("x.wav", "w", 48000, 2, "PCM_16") as file:
            for _ in range(size // 4):
                file.write(block)
        peaks.append(peak_mb("convolve", "x.wav", "h.wav", "-o", "y.wav", "--backend", backend, "-q"))
    assert peaks[1] - peaks[0] < (mib[1] - mib[0]) / 2, f"{peaks} MiB for files of {mib} MiB"


@pytest.mark.skipif(bool(SAN), reason="a sanitizer keeps freed memory")
def test_each_block_uses_the_memory_of_an_earlier_one(folder):
    """Memory that is taken anew is cleared by the system, page by page."""
    faults, frames = [], [1 << 21, 1 << 24]  # 8 and 64 blocks
    mask(2, taps=1)
    for n in frames:
        write("x.wav", np.zeros((n, 2), np.int16), subtype="PCM_16")
        child = subprocess.Popen([HALOCONV, "convolve", "x.wav", "h.wav", "-o", "y.wav", "--backend", "cpu", "-q"])
        _, status, usage = os.wait4(child.pid, 0)
        assert status == 0
        faults.append(usage.ru_minflt)
    assert faults[1] - faults[0] < 128, f"{faults} page faults for files of {frames} frames"


def test_a_full_disk_is_said(folder, backend):
    """The program reserves the disk space before it writes."""
    write("x.wav", noise(1 << 20, 2, seed=7))
    mask(2)
    limited = f"ulimit -f 2000; exec {HALOCONV} convolve x.wav h.wav -o y.wav --backend {backend}"
    done = subprocess.run(["bash", "-c", limited], stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1 and "cannot be written" in done.stderr, done.stderr
    assert not (folder / "y.wav").exists()
