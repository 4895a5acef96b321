"""The columns of a batch's list that cut the input and the mask, and add noise: each by its definition, in numpy."""

import csv
import io
import json
import subprocess

import numpy as np
import pytest
import scipy.signal
import soundfile
from conftest import HALOCONV, assert_close, good, noise, read, write
from test_batch import batch, tree

RATE = 16000


def rows_to(path, rows):
    """Write dicts as a list, CSV."""
    text = io.StringIO()
    names = list(dict.fromkeys(name for row in rows for name in row))
    out = csv.DictWriter(text, names)
    out.writeheader()
    out.writerows(rows)
    path.write_text(text.getvalue())


def run_rows(folder, *rows, out="out", backend="cpu"):
    """Convolve rows; the sounds, in the order of the rows. Rows without mask get a mask of one frame."""
    if not (folder / "one.wav").exists():
        write(folder / "one.wav", np.ones((1, 1)), RATE)
    rows_to(folder / "l.csv", [{"mask": "one.wav", **row, "output": f"{i}.wav"} for i, row in enumerate(rows)])
    batch("l.csv", "-o", out, "--format", "wav:float", backend=backend)
    return [read(folder / f"{out}/{i}.wav") for i in range(len(rows))]


def fails(folder, *rows):
    """Convolve rows that fail; the error line of each, by row number."""
    rows_to(folder / "bad.csv", [{"mask": "one.wav", **row, "output": f"{i}.wav"} for i, row in enumerate(rows)])
    done = subprocess.run([str(HALOCONV), "batch", "bad.csv", "-o", "bad", "-q"], capture_output=True, text=True,
                          check=False)
    lines = done.stderr.splitlines()
    assert done.returncode == 1 and len(lines) == len(rows) and not tree(folder / "bad"), done.stderr
    found = {int(line.split("row ")[1].split(":")[0]): line for line in lines}
    assert all(line.startswith("haloconv: row ") and "; " in line for line in lines), lines
    return [found[i + 1] for i in range(len(rows))]


# ---- the input ------------------------------------------------------------------------------------------------------
KINDS = {"PCM_16": "wav", "PCM_24": "wav", "FLOAT": "wav", "ULAW": "au", "PCM_S8": "flac", "VORBIS": "ogg",
         "IMA_ADPCM": "wav", "MPEG_LAYER_III": "mp3"}


@pytest.mark.parametrize("subtype", KINDS)
def test_start_and_length_cut_the_input(folder, subtype):
    name = f"x.{KINDS[subtype]}"
    if subtype not in soundfile.available_subtypes():
        pytest.skip(f"libsndfile has no {subtype}")
    write(folder / name, noise(50000, 2), RATE, subtype)
    whole, = run_rows(folder, {"input": name}, out="whole")
    rows = [{"input": name, "start": start, "length": length}
            for start, length in [(0, ""), (0.5, ""), ("", 0.25), (1.25, 1), (2, 1e8), (1e-5, 1e-9), (3, 0.1)]]
    edges = [(0, None), (8000, None), (0, 4000), (20000, 36000), (32000, None), (0, 1), (48000, 49600)]
    for got, (first, end) in zip(run_rows(folder, *rows), edges, strict=True):
        assert_close(got, whole[first:end], share=0)


def test_a_cut_input_has_the_level_of_the_cut(folder):
    x = noise(40000)
    x[20000:] *= 0.01
    write(folder / "x.wav", x, RATE)
    write(folder / "h.wav", noise(300, seed=2), RATE)
    row = {"input": "x.wav", "mask": "h.wav", "level": "rms", "start": 1.25, "length": 0.5}
    got, = run_rows(folder, row)
    want = scipy.signal.fftconvolve(x[20000:28000], read(folder / "h.wav"), axes=0)
    want *= np.sqrt((x[20000:28000].astype(float) ** 2).mean() / (want ** 2).mean())
    assert_close(got, want)


def test_a_start_behind_the_end_fails(folder):
    for name, subtype in [("x.wav", "PCM_16"), ("x.ogg", "VORBIS"), ("x.mp3", "MPEG_LAYER_III")]:
        write(folder / name, noise(16000), RATE, subtype)
    run_rows(folder, {"input": "x.wav"})
    for said in fails(folder, *({"input": f"x.{end}", "start": 1.25} for end in ("wav", "ogg", "mp3"))):
        assert "the start is 1.25 s, but the file ends after 1" in said, said


# ---- the mask -------------------------------------------------------------------------------------------------------
def room(n_channels=1, silence=400, n=6000, seed=7):
    """A mask with faint noise, the direct sound, and a decay."""
    h = noise(silence + n, n_channels, seed=seed, scale=0.4) * np.exp(-np.arange(silence + n) / 900)[:, None]
    h[:silence] *= 0.1
    h[silence, 0] = -1
    return h.astype(np.float32)


def early_part(h, onset, early_ms, align):
    n = round(early_ms * RATE / 1000)
    fade = min(RATE * 2 // 1000, n // 2)
    h = h.astype(np.float64).copy()
    h[onset + n:] = 0
    fall = np.cos(np.pi * (np.arange(fade) + 0.5) / fade) / 2 + 0.5
    h[onset + n - fade:onset + n] *= fall[:, None]
    return h[onset if align else 0:]


@pytest.mark.parametrize("tail", ["full", "centre"])
def test_align_and_early_cut_the_mask_at_its_direct_sound(folder, tail):
    h = room(2)
    write(folder / "x.wav", noise(5000), RATE)
    write(folder / "h.wav", h, RATE)
    cases = [("no", ""), ("yes", ""), ("no", 50), ("yes", 50), ("yes", 1), ("yes", 0.01), ("no", 1e6)]
    rows = [{"input": "x.wav", "mask": "h.wav", "tail": tail, "align": align, "early": early} for align, early in cases]
    x = read(folder / "x.wav")
    for got, (align, early) in zip(run_rows(folder, *rows), cases, strict=True):
        cut = h[400:] if align == "yes" else h
        if early and early < 1000:
            cut = early_part(h, 400, max(early, 1000 / RATE), align == "yes")
        want = scipy.signal.fftconvolve(x, cut, axes=0)  # as long as with the whole mask: target and sound fit
        skip = (len(cut) - 1) // 2
        assert_close(got, want if tail == "full" else want[skip:skip + len(x)])


def test_the_direct_sound_is_within_20_db_of_the_peak(folder):
    """Of all channels: the channels keep their delays."""
    h = np.zeros((1000, 2), np.float32)
    h[100, 0], h[200, 0], h[300, 1], h[500, 0] = 0.099, 0.1, 0.5, -1
    write(folder / "h.wav", h, RATE)
    write(folder / "x.wav", np.ones((1, 1)), RATE)
    got, = run_rows(folder, {"input": "x.wav", "mask": "h.wav", "align": 1})
    assert_close(got, h[200:], share=1e-6)


def test_a_row_and_its_target_draw_the_same_mask(folder):
    for i in range(8):
        write(folder / f"h{i}.wav", room(seed=i), RATE)
    write(folder / "x.wav", noise(3000), RATE)
    write(folder / "n.wav", noise(9000, seed=3), RATE)
    rows = [{"input": "x.wav", "mask": "h*.wav", "seed": i // 2, "tail": "same", **kind} for i in range(8)
            for kind in [[{"noise": "n.wav", "snr": 0}, {"early": 50}][i % 2]]]
    got, x = run_rows(folder, *rows), read(folder / "x.wav")
    drawn = set()
    for target in got[1::2]:
        errors = [np.abs(target - scipy.signal.fftconvolve(x, early_part(room(seed=i), 400, 50, False), axes=0)[:3000])
                  .max() for i in range(8)]
        drawn.add(int(np.argmin(errors)))
        assert min(errors) < 1e-5
    plain = run_rows(folder, *({"input": "x.wav", "mask": "h*.wav", "seed": i, "tail": "same"} for i in range(4)))
    for sound, dry in zip(got[::2], plain, strict=True):  # the sound without its noise: the same mask
        assert abs(10 * np.log10((dry ** 2).mean() / ((sound - dry) ** 2).mean())) < 0.01
    assert len(drawn) > 1


def test_a_configuration_cannot_be_cut(folder):
    write(folder / "h.wav", room(), RATE)
    (folder / "h.conf").write_text("/convolver/new 1 1 256 8000\n/impulse/read 1 1 1 0 0 0 1 h.wav\n")
    write(folder / "x.wav", noise(3000), RATE)
    for said in fails(folder, *({"input": "x.wav", "mask": "h.conf", name: 1} for name in ("align", "early"))):
        assert "h.conf: is a configuration; align and early need" in said


# ---- the noise ------------------------------------------------------------------------------------------------------
def snr(sound, added):
    return 10 * np.log10((sound ** 2).mean() / (added ** 2).mean())


def place_of(added, file):
    """The frame of the file at which the noise begins, and the gain; the file is repeated as often as needed."""
    looped = np.tile(file, len(added) // len(file) + 2)
    match = scipy.signal.correlate(looped[:len(added) + len(file) - 1], added, "valid", "fft")
    start = int(np.argmax(match))
    part = looped[start:start + len(added)]
    return start, (part * added).sum() / (part ** 2).sum()


@pytest.mark.parametrize("source", ["x.wav", "x.mp3"], ids=["kept in memory", "convolved again"])
@pytest.mark.parametrize("tail", ["full", "same"])
def test_noise_is_added_at_its_snr(folder, source, tail, backend):
    """The length of an MP3 is not known before its end: it is convolved once for each gain."""
    write(folder / source, noise(20000), RATE, "MPEG_LAYER_III" if "mp3" in source else "FLOAT")
    write(folder / "h.wav", room(), RATE)
    files = {"long.wav": noise(90000, seed=4)[:, 0], "short.wav": noise(701, seed=5)[:, 0]}
    for name, file in files.items():
        write(folder / name, file, RATE)
    plain = {"input": source, "mask": "h.wav", "tail": tail, "gain": -3}
    cases = [(name, db, seed) for name in files for db, seed in [(10, 1), (-5, 2), (0, 2)]]
    levels = ["none", "peak", "rms"]
    rows = [{**plain, "noise": name, "snr": db, "seed": seed, "level": levels[i % 3]}
            for i, (name, db, seed) in enumerate(cases)]
    clean, *noisy = run_rows(folder, plain, *rows, backend=backend)
    x, starts = read(folder / source), []
    for i, (got, (name, db, _)) in enumerate(zip(noisy, cases, strict=True)):
        # got = g (clean + noise); the gain of the level is found from the definition
        file = files[name].astype(np.float64)
        g = 1
        if levels[i % 3] != "none":
            size = np.max if levels[i % 3] == "peak" else lambda a: np.sqrt((a ** 2).mean())
            assert size(np.abs(got)) == pytest.approx(size(np.abs(x)) * 10 ** (-3 / 20), rel=1e-5)
            start, _ = place_of((got - clean * (got * clean).sum() / (clean ** 2).sum())[:, 0], file)
            part = np.resize(np.roll(file, -start), len(got))
            g = np.linalg.lstsq(np.stack([clean[:, 0], part], 1), got[:, 0], rcond=None)[0][0]
        added = got / g - clean
        start, gain = place_of(added[:, 0], file)
        starts.append(start)
        assert snr(clean, added) == pytest.approx(db, abs=0.01)
        want = gain * np.resize(np.roll(file, -start), len(got))
        assert_close(added, want, share=1e-4)
        assert len(file) <= len(got) or start + len(got) <= len(file), "a long noise is cut, not repeated"
    assert starts[1] == starts[2] != starts[0] and starts[4] == starts[5] != starts[3]  # by the seed


def test_noise_is_resampled_and_fits_the_channels(folder):
    write(folder / "x.wav", noise(8000, 2), RATE)
    tone = np.sin(2 * np.pi * 1000 * np.arange(96000) / 48000)
    write(folder / "mono.wav", tone, 48000)
    write(folder / "two.wav", np.stack([tone, 3 * tone], 1), 48000)
    plain = {"input": "x.wav", "seed": 5}
    noisy = [{**plain, "noise": name, "snr": 6} for name in ("mono.wav", "two.wav")]
    clean, mono, two = run_rows(folder, plain, *noisy)
    for got, ratio in [(mono - clean, 1), (two - clean, 3)]:
        assert snr(clean, got) == pytest.approx(6, abs=0.01)
        assert_close(got[:, 1:], ratio * got[:, :1], share=1e-5)
        spectrum = np.abs(np.fft.rfft(got[:, 0] * np.hanning(len(got))))
        assert np.argmax(spectrum) * RATE / len(got) == pytest.approx(1000, abs=4)


def test_a_noise_that_cannot_be_added_fails_its_row(folder):
    write(folder / "x.wav", noise(3000), RATE)
    write(folder / "zero.wav", np.zeros((3000, 1)), RATE)
    write(folder / "nan.wav", np.full((3000, 1), np.nan), RATE)
    write(folder / "two.wav", noise(3000, 2), RATE)
    cases = [("x.wav", "zero.wav", "zero.wav: is silent for 0.188 s"), ("x.wav", "two.wav", "1 output channels"),
             ("zero.wav", "x.wav", "is silent after the convolution"), ("x.wav", "nan.wav", "nan.wav: "),
             ("x.wav", "gone.wav", "gone.wav: ")]
    run_rows(folder, {"input": "x.wav"})
    said = fails(folder, *({"input": source, "noise": name, "snr": 3} for source, name, _ in cases))
    for line, (_, _, words) in zip(said, cases, strict=True):
        assert words in line, line


def test_no_output_is_a_noise(folder):
    write(folder / "x.wav", noise(3000), RATE)
    write(folder / "n.wav", noise(3000, seed=2), RATE)
    (folder / "l.csv").write_text("input,mask,output,noise,snr\nx.wav,x.wav,n.wav,n.wav,3\n")
    before = tree(folder)
    done = subprocess.run([str(HALOCONV), "batch", "l.csv", "-o", "."], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "n.wav: is " in done.stderr and "would be overwritten" in done.stderr, done.stderr
    assert tree(folder) == before


def test_resume_makes_the_rows_whose_cells_changed(folder):
    write(folder / "x.wav", noise(3000), RATE)
    write(folder / "h.wav", room(), RATE)
    write(folder / "n.wav", noise(9000, seed=2), RATE)
    row = {"input": "x.wav", "mask": "h.wav", "output": "a.wav", "noise": "n.wav", "snr": 3, "seed": 1, "start": 0.01,
           "length": 0.1, "align": "no", "early": 20}
    rows_to(folder / "l.csv", [row])
    batch("l.csv", "-o", "out")
    assert batch("l.csv", "-o", "out", "--resume")["resumed"] == 1
    for name, value in {"snr": 4, "seed": 2, "start": 0.02, "length": 0.05, "align": "yes", "early": 30}.items():
        rows_to(folder / "l.csv", [{**row, name: value}])
        assert batch("l.csv", "-o", "out", "--resume")["done"] == 1, name
