"""haloconv convolve --path: moving sources beside a float64 sum over all entries; paths, their interpolation and errors."""

import json
import os
import subprocess

import numpy as np
import pytest
import scipy.signal
import soundfile

from conftest import BUILD, HALOCONV, assert_close, generator, good, haloconv, refused

RATE = 16000
STEP = 256


def unit(azimuth, elevation=0.0):
    a, e = np.radians(azimuth), np.radians(elevation)
    return np.stack([np.cos(e) * np.cos(a), np.cos(e) * np.sin(a), np.sin(e) + 0 * a], axis=-1)


def bank_make(folder, rows, n_taps=700, n_out=2, seed=5, pulse_at=None):
    """A bank of decaying noise at the places of `rows` (azimuth, elevation); the responses [entry][tap][out]. pulse_at: the
    frame of a pulse, for each row, at which a response begins."""
    taps = generator(seed).standard_normal((len(rows), n_taps, n_out)) * np.exp(-np.arange(n_taps) / 90)[:, None] * 0.1
    for i, at in enumerate(pulse_at or []):
        taps[i, :at + 24], taps[i, at] = 0, 2
    taps = taps.astype(np.float32)
    lines = ["azimuth,elevation,distance,file"]
    for i, (azimuth, elevation) in enumerate(rows):
        soundfile.write(folder / f"r{i}.wav", taps[i], RATE, subtype="FLOAT")
        lines.append(f"{azimuth},{elevation},1,r{i}.wav")
    (folder / "bank.csv").write_text("\n".join(lines) + "\n")
    return taps


def ring_make(folder, **options):
    return bank_make(folder, [(10 * i, 0) for i in range(36)], **options)


def dry_make(folder, n_frames=20000, n_channels=1, seed=6):
    x = (generator(seed).standard_normal((n_frames, n_channels)) * 0.1).astype(np.float32)
    soundfile.write(folder / "dry.wav", x, RATE, subtype="FLOAT")
    return x


def moving_sum(x, taps, weights, step=STEP):
    """The definition. weights(source, edge) -> {entry: weight}."""
    n = len(x) + taps.shape[1] - 1
    n_steps = -(-n // step)
    y = np.zeros((n_steps * step, taps.shape[2]))
    g = (np.arange(step) + 1) / step
    for source in range(x.shape[1]):
        gains = np.zeros((n_steps, len(taps)))
        for k in range(n_steps):
            for entry, weight in weights(source, k * step).items():
                gains[k, entry] += weight
        before = np.vstack([gains[:1], gains[:-1]])
        for entry in np.flatnonzero(gains.any(axis=0)):
            fade = before[:, entry, None] + g * (gains[:, entry] - before[:, entry])[:, None]
            wet = scipy.signal.fftconvolve(x[:, source, None].astype(float), taps[entry].astype(float), axes=0)
            wet = np.vstack([wet, np.zeros((len(y) - len(wet), y.shape[1]))])
            y += fade.reshape(-1, 1) * wet
    return y[:n]


def play(folder, path, *options, dry="dry.wav", bank="bank.csv", output="out.wav", backend="cpu", by="--nearest"):
    (folder / "p.csv").write_text(path)
    good("convolve", dry, bank, "--path", "p.csv", "-o", output, "--backend", backend, "--format", "float",
         *options, *[by] * bool(by))
    return soundfile.read(folder / output, always_2d=True, dtype="float64")[0]


def nearest_on_ring(azimuth):
    return int(round(azimuth / 10)) % 36


# ---- what is heard ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("step", [16, 100, 256, 4096])
def test_entries_change_at_the_edges_of_steps(folder, backend, step):
    taps, x = ring_make(folder), dry_make(folder)
    rows = [(0, 3), (0.2, 7), (0.21, 30), (0.5, 7), (1.1, 0)]
    path = "time,entry\n" + "".join(f"{t},{e}\n" for t, e in rows)
    heard = play(folder, path, "--step", step, backend=backend)
    want = moving_sum(x, taps, lambda s, edge: {[e for t, e in rows if t * RATE <= edge][-1]: 1}, step)
    assert_close(heard, want)


def test_positions_move_between_rows(folder):
    taps, x = ring_make(folder), dry_make(folder, 40000)
    heard = play(folder, "time,azimuth\n0.1,-40\n1.1,61\n2.0,350\n")

    def weights(_, edge):
        t = edge / RATE
        azimuth = np.interp(t, [0.1, 1.1, 2.0], [-40, 61, -10])  # 61 to 350: the short way
        return {nearest_on_ring(azimuth): 1}
    assert_close(heard, moving_sum(x, taps, weights))


def test_azimuths_beyond_a_turn_turn_round(folder):
    taps, x = ring_make(folder), dry_make(folder, 40000)
    heard = play(folder, "time,azimuth\n0,0\n2,721\n")
    assert_close(heard, moving_sum(x, taps, lambda s, edge: {nearest_on_ring(min(edge / RATE / 2, 1) * 721): 1}))


def test_rows_hold_if_asked(folder):
    taps, x = ring_make(folder), dry_make(folder, 30000)
    heard = play(folder, "time,azimuth\n0,0\n1,90\n", "--hold")
    assert_close(heard, moving_sum(x, taps, lambda s, edge: {9 if edge >= RATE else 0: 1}))


def test_many_sources_go_into_one_output(folder, backend):
    taps, x = ring_make(folder), dry_make(folder, 30000, n_channels=3)
    path = ("frame,source,x,y,gain\n0,1,1,0,\n0,3,-2,0,-6\n1000,2,0,1,off\n"
            "20000,1,-1,0.5,\n20000,2,0,-3,0\n29000,3,-2,2,6\n")
    heard = play(folder, path, backend=backend)
    places = [([0, 20000], [1, -1], [0, 0.5], [1, 1]), ([1000, 20000], [0, 0], [1, -3], [0, 1]),
              ([0, 29000], [-2, -2], [0, 2], [10**(-6 / 20), 10**(6 / 20)])]

    def weights(source, edge):
        frames, x, y, gain = places[source]
        azimuth = np.degrees(np.arctan2(np.interp(edge, frames, y), np.interp(edge, frames, x)))
        return {nearest_on_ring(azimuth): np.interp(edge, frames, gain)}
    assert_close(heard, moving_sum(x, taps, weights))


def test_distance_is_a_gain_on_request(folder):
    taps, x = ring_make(folder), dry_make(folder, 30000)
    path = "time,azimuth,elevation,distance\n0,20,0,0.5\n1,20,0,4\n2,20,0,0.001\n"
    plain = play(folder, path)
    assert_close(plain, moving_sum(x, taps, lambda s, edge: {2: 1}))
    heard = play(folder, path, "--distance-gain", 2)
    assert_close(heard, moving_sum(x, taps, lambda s, edge: {
        2: min(2 / np.interp(edge / RATE, [0, 1, 2], [0.5, 4, 0.001]), 10)}))


def test_mix_plays_neighbours_with_weights(folder, backend):
    """On the octahedron the weights of a direction are its coordinates, divided by their sum."""
    rows = [(0, 0), (90, 0), (180, 0), (-90, 0), (0, 90), (0, -90)]
    taps, x = bank_make(folder, rows, pulse_at=[3] * 6), dry_make(folder, 30000)
    heard = play(folder, "time,azimuth,elevation\n0,10,15\n1.5,70,40\n", backend=backend, by=None)
    a, b = unit(10, 15), unit(70, 40)
    angle = np.arccos(a @ b)

    def weights(_, edge):
        t = min(edge / RATE / 1.5, 1)
        d = (np.sin((1 - t) * angle) * a + np.sin(t * angle) * b) / np.sin(angle)
        return dict(zip([0, 1, 4], d / d.sum()))
    assert_close(heard, moving_sum(x, taps, weights))


def turning_tone(n_frames):
    """A tone of 1 kHz at RATE, and a path that turns once in this time."""
    x = 0.5 * np.sin(2 * np.pi * 1000 / RATE * np.arange(n_frames))
    return x.astype(np.float32), f"frame,azimuth\n0,0\n{n_frames},360\n"


def beside_tone(y):
    """Power beyond 40 Hz beside the tone of 1 kHz, in dB of the whole; the start and the end are left out."""
    y = y[RATE // 10:-RATE // 10]
    power = np.abs(np.fft.rfft(y * np.blackman(len(y))[:, None], axis=0)) ** 2
    far = np.abs(np.fft.rfftfreq(len(y), 1 / RATE) - 1000) > 40
    return 10 * np.log10(power[far].sum() / power.sum())


def test_a_tone_moved_over_a_bank_does_not_step(folder):
    """With no option, in convolve and batch. The nearest entries step."""
    tone, path = turning_tone(4 * RATE)
    soundfile.write(folder / "dry.wav", tone, RATE, subtype="FLOAT")
    heard = {by: play(folder, path, bank="head", by=by) for by in (None, "--mix", "--nearest")}
    assert beside_tone(heard[None]) < -70 and beside_tone(heard["--nearest"]) > -50
    assert np.array_equal(heard[None], heard["--mix"])
    for by, want in heard.items():
        good("batch", "--inputs", "dry.wav", "--masks", str(BUILD / "impulses/head"), "--path", "p.csv", "-o", "wet", "--format",
             "float", "--backend", "cpu", *[by] * bool(by))
        assert np.array_equal(soundfile.read(next((folder / "wet").glob("*.wav")))[0], want), by


def test_a_path_of_entries_has_no_mixes_and_no_grid(folder):
    """The bank is not interpolated for it, so that the tail keeps its length."""
    ring_make(folder)
    x = dry_make(folder)
    path = "frame,entry\n0,3\n9000,17\n"
    whole, nearest = play(folder, path, by=None), play(folder, path, output="b.wav")
    assert len(whole) == len(x) + 700 - 1 and np.array_equal(whole, nearest)


def test_a_mix_of_entries_that_begin_apart_gets_a_grid(folder):
    """A pulse comes 0.25 ms later from entry to entry: halfway the sum of two is silent at 2 kHz, and the grid's entry is a
    pulse. Of 45 degrees, as asked for, no two entries are mixed."""
    bank_make(folder, [(0, 0), (45, 0), (90, 0)], pulse_at=[4, 8, 12], n_taps=13)
    soundfile.write(folder / "dry.wav", np.eye(1, 300)[0], RATE, subtype="FLOAT")
    for options, onset in (([], 6), (["--grid", 45], 8), (["--grid", "off"], 8)):
        heard = play(folder, "time,azimuth\n0,24\n" if options else "time,azimuth\n0,22.5\n", *options, by=None)
        levels = 20 * np.log10(np.abs(np.fft.rfft(heard[:, 0], 1024)[64:384]))  # 1 to 6 kHz
        assert np.ptp(levels) < 1, (options, levels)
        assert abs(np.argmax(np.abs(heard[:, 0])) - onset) <= 1


def test_a_mix_of_many_distances_plays_the_entries_of_the_file(folder):
    """65 distances with two pulses that begin apart: no grid is made for so many."""
    bank_make(folder, [(0, 0), (90, 0)], pulse_at=[4, 12], n_taps=13)
    (folder / "bank.csv").write_text("azimuth,distance,file\n" + "".join(
        f"{90 * i},{1.02**d},r{i}.wav\n" for d in range(65) for i in range(2)))
    soundfile.write(folder / "dry.wav", np.eye(1, 300)[0], RATE, subtype="FLOAT")
    heard = play(folder, "time,azimuth\n0,60\n", by=None)
    assert np.argmax(np.abs(heard[:, 0])) == 12


def test_great_circles(folder):
    """The way leads over the pole; entries on the meridian tell."""
    rows = [(0, 10 * i) for i in range(9)] + [(0, 90)] + [(180, 10 * i) for i in range(9)]
    taps, x = bank_make(folder, rows), dry_make(folder, 30000)
    heard = play(folder, "time,azimuth,elevation\n0,0,42\n1.5,180,31\n")

    def weights(_, edge):
        angle = 42 + min(edge / RATE / 1.5, 1) * 107
        near = int(round(angle / 10))
        return {near if near <= 9 else 10 + (18 - near): 1}
    assert_close(heard, moving_sum(x, taps, weights))


# ---- exactness -------------------------------------------------------------------------------------------------------
def test_runs_have_the_same_bits(folder):
    ring_make(folder)
    dry_make(folder, 300000, n_channels=2)
    (folder / "p.csv").write_text("time,source,azimuth\n0,1,0\n9,1,3000\n0,2,5\n4,2,170\n")
    command = [str(HALOCONV), "convolve", "dry.wav", "bank.csv", "--path", "p.csv", "--backend", "cpu", "-q", "-o"]
    usable = os.sched_getaffinity(0)
    for name, processors in (("a", {min(usable)}), ("b", {min(usable)}), ("c", usable)):
        subprocess.run([*command, f"{name}.wav"], check=True, timeout=300, stdin=subprocess.DEVNULL,
                       preexec_fn=lambda on=processors: os.sched_setaffinity(0, on))
    first = (folder / "a.wav").read_bytes()
    assert first == (folder / "b.wav").read_bytes() == (folder / "c.wav").read_bytes()


def test_the_output_does_not_depend_on_later_input(folder):
    ring_make(folder)
    x = dry_make(folder, 600000)
    (folder / "p.csv").write_text("time,azimuth\n0,0\n40,3000\n")
    heard = play(folder, (folder / "p.csv").read_text())
    short = x[:-1000]
    soundfile.write(folder / "short.wav", short, RATE, subtype="FLOAT")
    cut = play(folder, (folder / "p.csv").read_text(), dry="short.wav", output="cut.wav")
    n = len(short) // STEP * STEP  # the shorter input ends in the next step
    assert np.array_equal(heard[:n], cut[:n])


@pytest.mark.parametrize("tail", ["same", "centre"])
def test_tails(folder, tail):
    ring_make(folder)
    x = dry_make(folder)
    path = "time,azimuth\n0,0\n1,90\n"
    whole, part = play(folder, path), play(folder, path, "--tail", tail, output="part.wav")
    first = 0 if tail == "same" else (700 - 1) // 2
    assert np.array_equal(part, whole[first:first + len(x)])


# ---- random paths ----------------------------------------------------------------------------------------------------
def test_random_paths_repeat_by_seed(folder):
    ring_make(folder)
    dry_make(folder, 30000, n_channels=2)
    outputs = []
    for i, options in enumerate((["random:speed=80"], ["random:speed=80"], ["random:speed=80", "--seed", 1],
                                 ["random:speed=80,seed=1"], ["random:speed=80,pause=0.1..0.5,elevation=-30..30"])):
        good("convolve", "dry.wav", "bank.csv", "-o", f"{i}.wav", "--backend", "cpu", "--path", *options)
        outputs.append((folder / f"{i}.wav").read_bytes())
    assert outputs[0] == outputs[1] and outputs[2] == outputs[3]
    assert len(set(outputs)) == 3


def test_a_random_path_stays_in_its_ranges(folder):
    """Only the entries of the range may be heard: the others are loud."""
    taps, x = ring_make(folder), dry_make(folder, 60000)
    for i in range(36):
        if not 4 <= i <= 9:
            soundfile.write(folder / f"r{i}.wav", taps[i] * 1000, RATE, subtype="FLOAT")
    good("convolve", "dry.wav", "bank.csv", "-o", "out.wav", "--backend", "cpu", "--format", "float", "--path",
         "random:azimuth=40..90,speed=200,seed=3")
    heard = soundfile.read(folder / "out.wav")[0]
    assert 0 < np.abs(heard).max() < 10


# ---- the report ------------------------------------------------------------------------------------------------------
def test_the_level_of_the_bank_is_told(folder):
    ring_make(folder)
    dry_make(folder)
    (folder / "p.csv").write_text("time,azimuth\n0,0\n")
    done = good("convolve", "dry.wav", "bank.csv", "--path", "p.csv", "-o", "out.wav", "--json", "--nearest")
    assert "36 entries, 2 outputs, 700 taps, largest gain +" in done.stderr
    report = json.loads(done.stdout)
    assert report["partition"] == STEP and report["channels_out"] == 2 and report["mask_frames"] == 700
    done = good("convolve", "dry.wav", "bank.csv", "--path", "p.csv", "-o", "out.wav", "--normalise-bank")
    assert "largest gain +0.0 dB" in done.stderr or "largest gain -0.0 dB" in done.stderr
    done = good("convolve", "dry.wav", "bank.csv", "--path", "p.csv", "-o", "out.wav", "--grid", "20")
    assert "interpolated to a grid of 20 degrees" in done.stderr


def test_nan_in_the_input_counts_as_zero(folder):
    ring_make(folder)
    x = dry_make(folder)
    x[5000] = np.nan
    soundfile.write(folder / "dry.wav", x, RATE, subtype="FLOAT")
    (folder / "p.csv").write_text("time,azimuth\n0,0\n")
    done = good("convolve", "dry.wav", "bank.csv", "--path", "p.csv", "-o", "out.wav")
    assert "replaced 1 NaN or infinite sample of the input" in done.stderr
    assert np.isfinite(soundfile.read(folder / "out.wav")[0]).all()


def test_clipping_is_counted(folder):
    ring_make(folder)
    dry_make(folder)
    (folder / "p.csv").write_text("time,azimuth\n0,0\n")
    done = good("convolve", "dry.wav", "bank.csv", "--path", "p.csv", "-o", "out.wav", "--format", "pcm16", "--gain",
                "20")
    assert "clipped" in done.stderr
    good("convolve", "dry.wav", "bank.csv", "--path", "p.csv", "-o", "out.wav", "--format", "float", "--normalise", -3)
    assert abs(np.abs(soundfile.read(folder / "out.wav")[0]).max() - 10**(-3 / 20)) < 1e-6


# ---- errors ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("text,says", [
    ("time,azimuth\n0,0\n1,x\n", ["p.csv:3", 'azimuth is "x"']),
    ("time,azimuth\n0,0\n1,1,1\n", ["p.csv:3", "3 fields, but the header has 2"]),
    ("time,azimuth\n1,0\n0.5,1\n", ["p.csv:3", "goes back in time"]),
    ("time,azimuth\n0,\n", ["p.csv:2", "has no azimuth"]),
    ("time,elevation\n0,0\n", ["p.csv:1", "no azimuth"]),
    ("time,azimuth,x,y\n0,0,1,1\n", ["p.csv:1", "one kind of position"]),
    ("azimuth\n0\n", ["p.csv:1", "time"]),
    ("time,frame,azimuth\n0,0,0\n", ["p.csv:1", "one of the columns"]),
    ("time,azimuth,azimuth\n0,0,0\n", ["p.csv:1", "two columns"]),
    ("time,angle\n0,0\n", ["p.csv:1", '"angle"']),
    ("0,10\n1,20\n", ["p.csv:1", "the header has an unknown column"]),
    ("time,source,azimuth\n0,2,0\n", ["p.csv:2", "source is 2, but the input has 1 channel"]),
    ("time,source,azimuth\n0,1.5,0\n", ["p.csv:2", "whole number"]),
    ("time,entry\n0,36\n", ["p.csv:2", "entries 0 to 35"]),
    ("time,azimuth\n0,nan\n", ["p.csv:2", "azimuth"]),
    ("time,azimuth,elevation\n0,0,91\n", ["p.csv:2", "elevation"]),
    ("time,azimuth\n-1,0\n", ["p.csv:2", "time"]),
    ("time,azimuth,gain\n0,0,loud\n", ["p.csv:2", "gain"]),
    ("time,azimuth\n", ["p.csv", "no rows"]), ("", ["p.csv", "no rows"]),
    ('time,azimuth\n0,"1\n', ["p.csv", "quote"]), ("time,azimuth\n\0,1\n", ["p.csv:2", "not text"])])
def test_a_wrong_path_is_refused_with_its_line(folder, text, says):
    ring_make(folder, n_taps=10)
    dry_make(folder, 1000)
    (folder / "p.csv").write_text(text)
    refused("convolve", "dry.wav", "bank.csv", "--path", "p.csv", "-o", "out.wav", says=says)
    assert not (folder / "out.wav").exists()


def test_every_source_needs_a_row(folder):
    ring_make(folder, n_taps=10)
    dry_make(folder, 1000, n_channels=2)
    (folder / "p.csv").write_text("time,azimuth\n0,0\n")
    refused("convolve", "dry.wav", "bank.csv", "--path", "p.csv", "-o", "out.wav", says=["source 2", "column source"])


def test_a_bank_without_positions_needs_entries(folder):
    dry_make(folder, 1000)
    soundfile.write(folder / "one.wav", np.eye(10, 1), RATE)
    (folder / "p.csv").write_text("time,azimuth\n0,0\n")
    refused("convolve", "dry.wav", "one.wav", "--path", "p.csv", "-o", "out.wav", says=["one.wav", "entry"])
    refused("convolve", "dry.wav", "one.wav", "--path", "random", "-o", "out.wav", says=["one.wav", "positions"])
    (folder / "p.csv").write_text("time,entry\n0,0\n")
    good("convolve", "dry.wav", "one.wav", "--path", "p.csv", "-o", "out.wav")


@pytest.mark.parametrize("options,says", [
    (["--mix"], "--path"), (["--nearest"], "--path"), (["--hold"], "--path"), (["--grid", "5"], "--path"), (["--step", "64"], "--path"),
    (["--path", "p.csv", "--dry", "0"], "--dry"), (["--path", "p.csv", "--block", "64"], "--step"),
    (["--path", "p.csv", "--method", "direct"], "--method"), (["--path", "random:sped=1"], "sped=1"),
    (["--path", "random:speed=5..1"], "speed"), (["--path", "random:speed=1..x"], "speed"),
    (["--path", "random:seed=-1"], "seed"), (["--path", "random:"], "option")])
def test_wrong_options_are_usage_errors(folder, options, says):
    refused("convolve", "dry.wav", "bank.csv", "-o", "out.wav", *options, exit=2, says=says)


def test_the_path_is_not_overwritten(folder):
    ring_make(folder, n_taps=10)
    dry_make(folder, 1000)
    (folder / "p.wav").write_text("time,azimuth\n0,0\n")
    refused("convolve", "dry.wav", "bank.csv", "--path", "p.wav", "-o", "p.wav", says="p.wav")


@pytest.mark.parametrize("kind", ["list", "folder"])
def test_the_files_of_a_bank_are_not_overwritten(folder, kind):
    (folder / "bank").mkdir()
    ring_make(folder / "bank", n_taps=10)
    dry_make(folder, 1000)
    (folder / "p.csv").write_text("frame,entry\n0,0\n")
    if kind == "folder":
        (folder / "bank/bank.csv").unlink()
    bank = "bank/bank.csv" if kind == "list" else "bank"
    refused("convolve", "dry.wav", bank, "--path", "p.csv", "-o", "bank/r7.wav", says="bank/r7.wav: is a file that")
    good("convolve", "dry.wav", bank, "--path", "p.csv", "-o", "bank/out.wav")


def test_paths_and_sounds_come_from_pipes(folder):
    ring_make(folder)
    dry_make(folder, 30000)
    (folder / "p.csv").write_text("time,azimuth\n0,0\n1,90\n")
    good("convolve", "dry.wav", "bank.csv", "--path", "p.csv", "-o", "a.wav", "--backend", "cpu")
    good("convolve", "dry.wav", "bank.csv", "--path", "-", "-o", "b.wav", "--backend", "cpu",
         input="time,azimuth\n0,0\n1,90\n")
    assert (folder / "a.wav").read_bytes() == (folder / "b.wav").read_bytes()
    done = haloconv("convolve", "-", "bank.csv", "--path", "p.csv", "-o", "c.wav", "--backend", "cpu", text=False,
                    input=(folder / "dry.wav").read_bytes())
    assert done.returncode == 0, done.stderr
    assert np.array_equal(soundfile.read(folder / "c.wav")[0], soundfile.read(folder / "a.wav")[0])
