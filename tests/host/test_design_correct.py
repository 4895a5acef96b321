"""haloconv design correct in rooms made by code, and next to its peers drc and AutoEq.

Levels over frequency are 1/6 octave means of the power, measured here from the taps, and relative to their mean.
"""

import functools
import json
import os
import pathlib
import re
import shutil
import subprocess

import numpy as np
import pytest
import scipy.signal
from conftest import generator, good, read, refused, write
from test_plot import SVG, picture, ranges, texts_are_readable

RATE, START = 48000, 200
DRC = pathlib.Path("/usr/share/drc")


def resonate(h, hz, gain_db, q):
    """A peak of the equaliser cookbook: a mode of the room, of minimum phase."""
    a, w = 10 ** (gain_db / 40), 2 * np.pi * hz / RATE
    alpha, c = np.sin(w) / (2 * q), -2 * np.cos(w)
    return scipy.signal.lfilter([1 + alpha * a, c, 1 - alpha * a], [1 + alpha / a, c, 1 - alpha / a], h)


@functools.lru_cache(None)
def room(seed, n=24000, reflection=0.1, noise=0.008, most_db=9):
    """A direct sound, six early reflections, noise that decays by 60 dB in 0.3 s, and five modes from 25 to 180 Hz."""
    rng = generator(seed)
    h = np.zeros(n)
    t = np.arange(n - START) / RATE
    h[START] = 1
    for delay in rng.uniform(0.002, 0.02, 6):
        h[START + int(delay * RATE)] += rng.choice([-1, 1]) * reflection
    h[START:] += noise * rng.standard_normal(n - START) * 10 ** (-3 * t / 0.3)
    for hz in rng.uniform(25, 180, 5):
        h = resonate(h, hz, rng.uniform(2, most_db), rng.uniform(2, 8))
    return h / 4


def mean_db(power, hz, octaves=1 / 6):
    """The mean of a power spectrum of RATE over a bandwidth around each frequency, by its integral."""
    bins = np.arange(len(power) + 1) - 0.5
    integral = np.r_[0, np.cumsum(power)]
    k = hz / (RATE / 2) * (len(power) - 1)
    low, high = k * 2 ** (-octaves / 2), k * 2 ** (octaves / 2)
    return 10 * np.log10((np.interp(high, bins, integral) - np.interp(low, bins, integral)) / (high - low))


def spectrum(h):
    return np.abs(np.fft.rfft(h, 1 << 18)) ** 2


def grid(low=20, high=20000):
    return low * 2 ** (np.arange(0, np.log2(high / low) * 24) / 24)


def deviation(power, target=lambda hz: 0 * hz, low=20, high=20000):
    hz = grid(low, high)
    db = mean_db(power, hz) - target(hz)
    return db - db.mean()


def corrected(h, *options, names=("m.wav",)):
    """The filter (channels as columns) and the report, for the measurement h or for the files with these names."""
    if h is not None:
        write("m.wav", h, RATE)
    if "--phase" not in options and "--taps" not in options:
        options = [*options, "--taps", 16384]  # half the default: half the time
    report = json.loads(good("design", "correct", *names, "-o", "f.wav", "--json", "-q", *options).stdout)
    return read("f.wav"), report


HOUSE = [(20, 6), (100, 3), (1000, 0), (20000, -6)]


def house(hz):
    return np.interp(np.log(hz), np.log([p[0] for p in HOUSE]), [p[1] for p in HOUSE])


# ---- the promise ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("seed,phase,boost,options,reflection", [
    (1, "minimum", 6, "", 0.1), (2, "minimum", 15, "--target house.txt", 0.1), (3, "linear", 6, "", 0.1),
    (4, "mixed", 15, "--target house.txt", 0.1), (5, "minimum", 40, "--band 15,22000", 0.25)])
def test_a_corrected_room_is_within_1_db_of_its_target(folder, seed, phase, boost, options, reflection):
    """From 20 Hz to 20 kHz, with the defaults. Rooms with reflections of 0.1 need at most 6 dB of boost, and 15 dB with
    a target that has more bass. Twelve of them came within 0.92 dB, and within 0.5 dB if the limit was not reached.
    Before they were 7 to 15 dB off. Nine rooms with reflections of 0.25, without a limit of the boost, came within 0.7
    dB; they are 2 to 3 dB off if only the windowed response is corrected."""
    (folder / "house.txt").write_text("".join(f"{hz} {db}\n" for hz, db in HOUSE))
    h = room(seed, reflection=reflection, noise=0.08 * reflection)
    f, report = corrected(h, "--phase", phase, "--boost", boost, *options.split())
    shape = house if "--target" in options else lambda hz: 0 * hz
    before, after = deviation(spectrum(h), shape), deviation(spectrum(h) * spectrum(f[:, 0]), shape)
    assert np.abs(after).max() < 1 < 4 < np.abs(before).max(), (np.abs(before).max(), np.abs(after).max())
    said = report["channels"][0]
    for name, db in [("before", before), ("after", after)]:
        assert abs(said[name]["max_db"] - np.abs(db).max()) < 0.3, (name, said)
        assert abs(said[name]["rms_db"] - db.std()) < 0.1, (name, said)
    gain = 10 * np.log10(spectrum(f[:, 0]))
    assert abs(report["largest_gain_db"] - gain.max()) < 0.05 and gain.max() < boost + 0.2
    assert abs(mean_db(spectrum(f[:, 0]), grid()).mean()) < 0.4  # the level stays
    assert report["delay"] == {"minimum": 0, "linear": (len(f) - 1) / 2, "mixed": 0.04 * RATE}[phase]


def test_the_picture_shows_before_target_and_after(folder):
    """A panel for each channel, in 1/6 octave means: what was measured, and what the filter in the file makes of it.
    The distance from the target is the one that is reported."""
    (folder / "house.txt").write_text("".join(f"{hz} {db}\n" for hz, db in HOUSE))
    h = np.stack([room(1), room(2)], 1)
    f, report = corrected(h, "--target", "house.txt", "--band", "30,15000", "--plot", "p.svg", "--normalise",
                          "--taps", 8192)
    texts_are_readable("p.svg")
    legend, panels = picture("p.svg")
    assert [text.text for text in legend.iter(f"{SVG}text")] == ["measured", "target", "corrected"]
    assert list(panels) == ["magnitude, channel 1", "magnitude, channel 2"]
    hz = grid(30, 15000)
    for ch, panel in enumerate(panels.values()):
        x, y = ranges(panel)
        assert x == pytest.approx((20, 20000), rel=1e-3) and y[1] - y[0] == pytest.approx(50, abs=0.1)
        assert len(panel.curves["target"]) == 1
        ends = panel.curves["target"][0][[0, -1], 0]
        assert ends == pytest.approx([30, 15000], rel=0.01)  # nothing is aimed at outside the band
        got = {name: np.interp(hz, *np.concatenate(strokes).T) for name, strokes in panel.curves.items()}
        before = mean_db(spectrum(h[:, ch]), hz)
        after = mean_db(spectrum(h[:, ch]) * spectrum(f[:, ch]), hz)
        for name, want in [("measured", before), ("corrected", after), ("target", house(hz))]:
            off = got[name] - want
            assert np.abs(off - off.mean()).max() < 0.3, (name, np.abs(off - off.mean()).max())
        for name, figure in [("measured", "before"), ("corrected", "after")]:
            off = got[name] - got["target"]
            assert np.abs(off - off.mean()).max() == pytest.approx(report["channels"][ch][figure]["max_db"], abs=0.1)
        assert abs(got["corrected"].mean() - got["target"].mean()) < 1  # as the filter is before --normalise


def test_a_filter_replaces_nothing_that_is_read(folder):
    write("m.wav", room(1), RATE)
    (folder / "house.txt").write_text("20 1\n")
    for name in ("mic.txt", "mic.svg"):
        (folder / name).write_text("20 1\n20000 2\n")
    os.symlink("m.wav", "link.wav")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for name in ("m.wav", "link.wav", "house.txt", "mic.txt"):
        refused("design", "correct", "m.wav", "--target", "house.txt", "--calibration", "mic.txt", "-o", name,
                says=[name, "this run reads"])
    refused("measure", "--jack", "--calibration", "mic.txt", "-o", "mic.txt", says=["mic.txt", "this run reads"])
    refused("measure", "--jack", "--filter", "m.wav", "-o", "link.wav", says=["link.wav", "this run reads"])
    refused("measure", "--jack", "--calibration", "mic.svg", "-o", "f.wav", "--plot", "mic.svg",
            says=["mic.svg", "this run reads"])
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_picture_replaces_nothing_that_is_read_or_written(folder):
    write("m.svg", room(1), RATE, format="WAV")
    (folder / "house.svg").write_text("20 1\n")
    for name, options in [("m.svg", ""), ("house.svg", "--target house.svg"), ("f.svg", "--format wav")]:
        refused("design", "correct", "m.svg", "-o", "f.svg" if name == "f.svg" else "f.wav", "--plot", name,
                *options.split(), says=name)
    refused("design", "correct", "m.svg", "-o", "f.wav", "--plot", "p.pdf", exit=2, says=".svg")
    assert sorted(path.name for path in folder.iterdir()) == ["house.svg", "m.svg"]


@pytest.mark.parametrize("boost", [3, 6])
def test_a_null_is_not_filled(folder, boost):
    """Two paths that cancel at 400 Hz leave a null of 25 dB; the filter stays within the limit there and everywhere."""
    h = resonate(room(1, reflection=0, noise=0), 400, -25, 2)
    f, report = corrected(h, "--boost", boost)
    gain = 10 * np.log10(spectrum(f[:, 0]))
    hz = np.fft.rfftfreq(1 << 18, 1 / RATE)
    assert gain.max() < boost + 0.1 and report["channels"][0]["boost_db"] < boost + 0.1, gain.max()
    assert abs(gain[np.abs(hz - 400) < 20].mean() - boost) < 0.1
    after = mean_db(spectrum(h) * spectrum(f[:, 0]), np.array([400, 1500]))
    assert after[0] < after[1] - 10


def test_nothing_is_boosted_beyond_the_limits_of_a_loudspeaker(folder):
    """Found at -10 dB: a loudspeaker of 4th order with its corner at 60 Hz is there at 45.6 Hz, and one that ends at
    12 kHz at 15.5 kHz (bilinear transform). With --band the user decides."""
    h = scipy.signal.sosfilt(scipy.signal.butter(4, [60, 12000], "bandpass", fs=RATE, output="sos"), room(3))
    f, report = corrected(h)
    hz = np.fft.rfftfreq(1 << 18, 1 / RATE)
    gain = 10 * np.log10(spectrum(f[:, 0]))
    said = report["channels"][0]
    power = np.abs(scipy.signal.sosfreqz(scipy.signal.butter(4, [60, 12000], "bandpass", fs=RATE, output="sos"),
                                         hz[1:], fs=RATE)[1]) ** 2
    ends = hz[1:][power > 0.1][[0, -1]]
    assert said["limit_found"] == [True, True]
    assert np.abs(np.log2(said["band_hz"] / ends)).max() < 1 / 4, (said, ends)
    assert np.abs(gain[(hz < 0.6 * ends[0]) | (hz > 1.4 * ends[1])]).max() < 0.5
    assert gain[np.abs(hz - ends[0]) < 5].max() < 3
    f, report = corrected(h, "--band", "30,18000")
    assert report["channels"][0]["limit_found"] == [False, False]
    assert 10 * np.log10(spectrum(f[:, 0]))[(hz > 33) & (hz < 40)].min() > 5


# ---- phase ----------------------------------------------------------------------------------------------------------
def excess(h, low=30, high=250):
    """The phase beyond that of minimum phase and of a delay, in radians RMS over the octaves."""
    n = 1 << 17
    bins = np.fft.rfft(h, n)
    cepstrum = np.fft.irfft(np.log(np.abs(bins) + 1e-9))
    cepstrum[1:n // 2] *= 2
    cepstrum[n // 2 + 1:] = 0
    hz = np.fft.rfftfreq(n, 1 / RATE)
    phase = np.unwrap(np.angle(bins / np.exp(np.fft.rfft(cepstrum)) * np.exp(2j * np.pi * hz * np.argmax(np.abs(h)) /
                                                                           RATE)))
    inside = np.interp(grid(low, high), hz, phase)
    return np.sqrt(np.mean((inside - 2 * np.pi * np.round(inside.mean() / (2 * np.pi))) ** 2))


def test_mixed_phase_reverses_the_excess_phase_within_its_pre_ringing(folder):
    """A room behind a loudspeaker whose crossover turns the phase around 80 Hz (an all-pass of 2nd order). Mixed phase
    takes most of that away, and what comes before the direct sound stays 30 dB below it."""
    w, q = 2 * np.pi * 80 / RATE, 0.7
    alpha = np.sin(w) / (2 * q)
    b = [1 - alpha, -2 * np.cos(w), 1 + alpha]
    h = scipy.signal.lfilter(b, b[::-1], room(2, reflection=0.05, noise=0.004))
    plain, _ = corrected(h)
    mixed, report = corrected(h, "--phase", "mixed", "--preringing", 30)
    y = scipy.signal.fftconvolve(h, mixed[:, 0])
    assert report["delay"] == 0.03 * RATE
    direct = START + int(report["delay"])
    assert np.argmax(np.abs(y)) == direct
    assert excess(scipy.signal.fftconvolve(h, plain[:, 0])) > 1.5
    assert excess(y) < 0.5, excess(y)
    before = np.abs(y[:direct - RATE // 1000]).max() / np.abs(y).max()
    assert before < 10 ** (-30 / 20), 20 * np.log10(before)
    assert np.abs(y[:START]).max() < 1e-6 * np.abs(y).max()  # before --preringing: silence
    after = deviation(spectrum(h) * spectrum(mixed[:, 0]))
    assert np.abs(after).max() < 1
    short, _ = corrected(h, "--phase", "mixed", "--preringing", 8)  # cut, and faded in: it begins without a click
    assert np.abs(short[:RATE // 500]).max() < 0.003 * np.abs(short).max(), np.abs(short[:RATE // 500]).max()
    assert 0.5 < excess(scipy.signal.fftconvolve(h, short[:, 0])) < 1.5


# ---- the microphone -------------------------------------------------------------------------------------------------
def test_the_microphone_is_not_corrected(folder):
    """One with a bump of 4 dB at 8 kHz and a fall in the bass: with its calibration, of either kind, the filter is that
    of the measurement by a flat microphone; without, it is 4 dB off."""
    h = room(2, reflection=0.02)

    def mic(x):
        return scipy.signal.lfilter([1, -1], [1, -0.999], resonate(x, 8000, 4, 2))
    bins, hz = np.fft.rfft(mic(np.eye(1 << 17, 1)[:, 0])), np.fft.rfftfreq(1 << 17, 1 / RATE)
    at = np.geomspace(2, 23999, 2000)
    db, degrees = np.interp(at, hz, 20 * np.log10(np.abs(bins) + 1e-9)), np.interp(at, hz, np.degrees(np.angle(bins)))
    np.savetxt("mic.txt", np.stack([at, db], 1), header="1000Hz\t-37.1", comments="*")
    np.savetxt("phase.txt", np.stack([at, db, degrees], 1))
    flat, _ = corrected(h, "--taps", 4096)
    want = mean_db(spectrum(flat[:, 0]), grid())
    for name, sensitivity in [("mic.txt", -37.1), ("phase.txt", None)]:
        f, report = corrected(mic(h), "--taps", 4096, "--calibration", name)
        off = mean_db(spectrum(f[:, 0]), grid()) - want
        assert np.abs(off).max() < 0.1, (name, np.abs(off).max())
        assert report["calibration"]["file"] == name and report["calibration"]["sensitivity_db"] == sensitivity
    f, report = corrected(mic(h), "--taps", 4096)
    assert np.abs(mean_db(spectrum(f[:, 0]), grid()) - want).max() > 3 and report["calibration"] is None


# ---- positions and channels -----------------------------------------------------------------------------------------
def test_positions_are_averaged_at_one_level(folder):
    """The mean of two positions is within 1 dB of the target, although one is 12 dB below; complex differs."""
    a, b = room(1), room(6)
    write("a.wav", a, RATE)
    write("b.wav", np.r_[np.zeros(777), b] / 4, RATE)
    both, _ = corrected(None, "--boost", 12, names=["a.wav", "b.wav"])
    scale = [10 ** (np.median(mean_db(spectrum(h), grid())) / 10) for h in (a, b)]
    power = (spectrum(a) / scale[0] + spectrum(b) / scale[1]) * spectrum(both[:, 0])
    assert np.abs(deviation(power)).max() < 1
    one, _ = corrected(None, "--boost", 12, names=["a.wav"])
    twice, _ = corrected(None, "--boost", 12, names=["a.wav", "a.wav"])
    assert np.abs(one - twice).max() < 1e-6
    assert np.abs(deviation((spectrum(b) * spectrum(one[:, 0])))).max() > 3  # the other seat needs the average
    added, _ = corrected(None, "--boost", 12, "--average", "complex", names=["a.wav", "b.wav"])
    assert np.abs(added - both).max() > 1e-3


def test_each_channel_gets_its_own_correction(folder):
    h = np.stack([room(1), -0.3 * room(2)], 1)
    f, report = corrected(h)
    assert f.shape[1] == len(report["channels"]) == 2
    for ch in range(2):
        alone, _ = corrected(h[:, ch])
        assert np.abs(alone[:, 0] - f[:, ch]).max() < 1e-7
    scaled, _ = corrected(h, "--normalise")
    peak = np.sqrt(max(spectrum(f[:, ch]).max() for ch in range(2)))
    assert np.abs(scaled * peak - f).max() < 1e-3  # one factor: the balance stays
    assert abs(max(spectrum(scaled[:, ch]).max() for ch in range(2)) - 1) < 1e-2


def test_files_of_one_loudspeaker_each_are_channels(folder):
    """By their names, at one position or several; --positions and --channels decide otherwise. At 8 kHz, for speed."""
    seats = [np.stack([room(1 + i), -0.3 * room(3 + i)], 1)[:3000] for i in range(2)]
    for i, h in enumerate(seats):
        write(f"seat{i}.wav", h, 8000)
        for name, x in zip(["Left", "R"], h.T):
            write(f"{name} seat{i}.wav", x, 8000)
            write(f"{name[0]}{i}.wav", x, 8000)
    sides = ["Left seat0.wav", "R seat0.wav", "R seat1.wav", "Left seat1.wav"]
    one, _ = corrected(None, "--taps", 512, names=["seat0.wav"])
    two, _ = corrected(None, "--taps", 512, names=["seat0.wav", "seat1.wav"])
    for names, options, want in [(sides[:2], [], one), ([*sides[:2], *sides[:1:-1]], [], two),
                                 (["L0.wav", "R0.wav"], ["--channels"], one)]:
        assert np.abs(corrected(None, "--taps", 512, *options, names=names)[0] - want).max() < 1e-9, names
    mean, _ = corrected(None, "--taps", 512, names=["L0.wav", "R0.wav"])  # L0 names no loudspeaker: positions
    assert mean.shape[1] == 1
    assert np.abs(corrected(None, "--taps", 512, "--positions", names=sides[:2])[0] - mean).max() < 1e-9
    for names, options, says in [
            (sides[:2], [], "channel 1: Left seat0.wav, channel 2: R seat0.wav; --positions"),
            (["L0.wav", "R0.wav"], [], "the files are 2 positions of the microphone; --channels would"),
            (["seat0.wav", "seat1.wav"], [], "the files are 2 positions of the microphone\n"), (["seat0.wav"], [], "")]:
        said = good("design", "correct", *names, *options, "-o", "f.wav", "--taps", 512).stderr
        assert says in said and (says or "the files are" not in said), said
        pattern = r"channel 2: -\d+.\d\d dB, \+0.000 ms; behind the filters -\d+.\d\d dB, \+0.000 ms"
        assert bool(re.search(pattern, said)) == (names != ["L0.wav", "R0.wav"]), said
    refused("design", "correct", *sides[:3], "-o", "f2.wav",
            says=["R seat0.wav: its loudspeaker has 2 files", "Left seat0.wav has 1"])
    refused("design", "correct", "seat0.wav", "L0.wav", "--channels", "-o", "f2.wav", says="seat0.wav has 2 channels")
    refused("design", "correct", "L0.wav", "--channels", "--positions", "-o", "f2.wav", exit=2, says="one of them")


def test_levels_and_arrivals_of_rew_texts_are_those_of_their_heads(folder):
    """REW normalises both responses to 1 and puts both peaks at the same frame; the heads have level and time."""
    h = room(1)
    h = h / np.abs(h).max()
    for name, peak, start_ms in (("Left spkr.txt", 0.637, -5), ("Right spkr.txt", 0.637 * 10 ** (-1.13 / 20), -3)):
        (folder / name).write_text("* Impulse Response data saved by REW V5.20.13\n* IR is normalised\n"
                                   f"{peak!r} // Peak value before normalisation\n{1 / RATE!r} // Sample interval "
                                   f"(seconds)\n{start_ms / 1000!r} // Start time (seconds)\n* Data start\n" +
                                   "\n".join(f"{v:.9g}" for v in h) + "\n")
    names = ["Left spkr.txt", "Right spkr.txt"]
    plain, report = corrected(None, "--taps", 4096, names=names)
    right = report["channels"][1]
    assert right["level_db"] == pytest.approx(-1.13, abs=0.01) and right["arrival_s"] == pytest.approx(0.002, abs=1e-6)
    f, report = corrected(None, "--taps", 4096, "--levels", "align", "--delays", "align", names=names)
    right, late = report["channels"][1], round(0.002 * RATE)
    assert right["level_after_db"] == pytest.approx(0, abs=0.01) and report["channels"][0]["delay_frames"] == late
    assert np.abs(f[:late, 0]).max() == 0 and np.abs(f[:late, 1]).max() > 0
    levels = [mean_db(spectrum(scipy.signal.fftconvolve(h * gain, f[:, ch])), grid(100, 10000)).mean()
              for ch, gain in enumerate((1, 10 ** (-1.13 / 20)))]
    assert levels[0] == pytest.approx(levels[1], abs=0.1)


def test_levels_and_arrivals_of_channels_are_printed_kept_and_aligned(folder):
    """The right loudspeaker is smaller, 5 dB quieter, and 64 frames later. Levels are means over the octaves that both
    have; the arrival is that of the direct sound."""
    small = scipy.signal.sosfilt(scipy.signal.butter(4, [120, 15000], "bandpass", fs=RATE, output="sos"), room(4))
    h = np.stack([room(1), 10 ** (-5 / 20) * np.r_[np.zeros(64), small[:-64]]], 1)
    write("L.wav", h[:, 0], RATE)
    write("R.wav", h[:, 1], RATE)

    def look(*options):
        f, report = corrected(None, "--taps", 8192, *options, names=["L.wav", "R.wav"])
        y = scipy.signal.fftconvolve(h, f, axes=0)
        hz = grid(*report["shared_band_hz"])
        levels = [[mean_db(spectrum(x), hz).mean() for x in z.T] for z in (h, y)]
        starts = [np.argmax(np.abs(x)) for x in y.T]
        right = report["channels"][1]
        for level, name in zip(levels, ["level_db", "level_after_db"]):
            assert right[name] == pytest.approx(level[1] - level[0], abs=0.1), (options, name)
        assert report["channels"][0]["level_db"] == report["channels"][0]["arrival_s"] == 0
        assert right["arrival_s"] * RATE == pytest.approx(64, abs=2)
        gain = 10 * np.log10(max(spectrum(x).max() for x in f.T))
        assert report["largest_gain_db"] == pytest.approx(gain, abs=0.05)
        return levels[0][1] - levels[0][0], levels[1][1] - levels[1][0], starts[1] - starts[0], f

    before, after, later, plain = look()
    assert before < -4 and 64 <= later < 67 and len(plain) == 8192
    measured, kept, later, f = look("--levels", "keep")
    assert abs(kept - measured) < 0.1 < abs(after - measured) and 64 <= later < 67
    _, aligned, later, f = look("--levels", "align", "--delays", "align")
    assert abs(aligned) < 0.1 and abs(later) <= 1 and len(f) - 8192 in (64, 65, 66)
    assert np.abs(f[:64, 0]).max() == 0 and np.abs(f[64:, 0]).max() < np.abs(plain[:, 0]).max()  # later and quieter
    said = good("design", "correct", "L.wav", "R.wav", "--taps", 8192, "--delays", "align", "-o", "f.wav").stderr
    assert re.search(r"delay 0 frames \(0\.00 ms\); --delays align adds up to 6[456] frames\n", said), said


def test_channels_without_a_common_octave_keep_their_levels(folder):
    sos = [scipy.signal.butter(8, hz, kind, fs=RATE, output="sos") for hz, kind in [(80, "low"), (300, "high")]]
    h = np.stack([scipy.signal.sosfilt(section, room(1)) for section in sos], 1)
    f, report = corrected(h, "--levels", "align", "--taps", 2048)
    assert report["shared_band_hz"] is None and report["channels"][1]["level_db"] is None
    assert np.abs(f - corrected(h, "--taps", 2048)[0]).max() == 0
    assert "share no octave" in good("design", "correct", "m.wav", "-o", "f.wav", "--taps", 2048).stderr


def test_options_of_the_response_and_other_rates(folder):
    """Smoothing, window and limit of the cut do something, and each correction improves the room."""
    h = room(1)
    seen = [corrected(h)[0]]
    for options in [["--smooth", "variable"], ["--smooth", "1/3"], ["--smooth", "off", "--cycles", 0], ["--cycles", 4],
                    ["--cut", 3]]:
        f, report = corrected(h, *options)
        assert min(np.abs(f - other).max() for other in seen) > 1e-4, options
        seen.append(f)
        said = report["channels"][0]
        assert said["after"]["rms_db"] < 0.7 * said["before"]["rms_db"], (options, said)
        assert options[0] != "--cut" or said["cut_db"] < 3.2
    write("m.wav", h, RATE)
    done = good("design", "correct", "m.wav", "-o", "f.wav", "--rate", 44100, "--taps", 8192)
    assert "8192 taps at 44100 Hz" in done.stderr and "use --gain -" in done.stderr
    assert read("f.wav").shape == (8192, 1)


def test_what_cannot_be_corrected_is_refused(folder):
    h = room(1)
    write("silent.wav", np.stack([h, 0 * h], 1), RATE)
    write("short.wav", h[:START + 300], RATE)
    write("nan.wav", np.where(np.arange(len(h)) == 900, np.nan, h), RATE)
    write("mono.wav", h, RATE)
    write("stereo.wav", np.stack([h, h], 1), RATE)
    write("slow.wav", h, 500)
    write("sweep.wav", np.full(30000, 0.1), 1000)
    (folder / "m.conf").write_text("/convolver/new 1 1 64 64\n/impulse/dirac 1 1 1 0\n")
    for names, says in [(["silent.wav"], "channel 2 is silent"), (["short.wav"], "ends 6.25 ms after"),
                        (["nan.wav"], "frame"), (["mono.wav", "stereo.wav"], "2 channels"),
                        (["slow.wav"], "500 Hz"), (["sweep.wav"], "30 s"), (["m.conf"], "configuration"),
                        (["none.wav"], "none.wav")]:
        refused("design", "correct", *names, "-o", "f.wav", says=says)
    for options in [["--band", "20"], ["--band", "200,20"], ["--band", "20,30000"], ["--boost", "-3"],
                    ["--phase", "mixed", "--preringing", 500, "--taps", 4096], []]:
        names = ["mono.wav"] if options else []
        refused("design", "correct", *names, "-o", "f.wav", *options, exit=2)
    assert not (folder / "f.wav").exists()
    good("design", "correct", "mono.wav", "-o", "f.wav")  # so it was the option that was refused


# ---- peers ----------------------------------------------------------------------------------------------------------
@pytest.mark.skipif(not shutil.which("drc") or not DRC.exists(), reason="no drc")
def test_a_loudspeaker_in_a_field_is_corrected_as_by_drc(folder):
    """drc's normal configuration with filters of half the length, for one tenth of the time. The measurement has no
    reflections: 0.30 dB between both. With those of room(1) drc's response is 1.6 dB off the target, and this program's
    0.3 dB: drc brings the direct sound alone to the target at high frequencies, and this program the whole response."""
    h = np.eye(24000, 1, -START)[:, 0]
    for mode in [(50, 5, 3), (62, 4, 4), (110, 6, 3), (160, -3, 2), (2000, -3, 1), (6000, 3, 1)]:
        h = resonate(h, *mode)
    ours, _ = corrected(h)
    h.astype("<f4").tofile("m.pcm")
    lengths = {name: 32768 for name in ["MPLowerWindow", "RTLowerWindow", "MPPFFinalWindow", "RTOutWindow",
                                        "MPFilterLen", "EPFilterLen", "PTFilterLen", "RTFilterLen", "PSOutWindow"]}
    exponents = {name + "MultExponent": 1 for name in ["BCDL", "MPHD", "DL", "EPPFFG", "PTDL", "PL", "PS"]}
    options = {"BCInFile": "m.pcm", "PSOutFile": "d.pcm", "PSPointsFile": DRC / "target/48.0 kHz/flat-48.0.txt",
               "BCInitWindow": 65536, "PSFilterLen": 32767, "HDMultExponent": 2, "ISSMPMultExponent": 2, **lengths,
               **exponents}
    subprocess.run(["drc", *(f"--{name}={value}" for name, value in options.items()),
                    str(DRC / "config/48.0 kHz/normal-48.0.drc")], check=True, stdout=subprocess.DEVNULL, timeout=300)
    theirs = np.fromfile("d.pcm", "<f4").astype(float)
    apart = deviation(spectrum(h) * spectrum(ours[:, 0])) - deviation(spectrum(h) * spectrum(theirs))
    assert np.abs(apart).max() < 0.5, (np.abs(apart).max(), grid()[np.abs(apart).argmax()])


def test_a_headphone_is_corrected_as_by_autoeq(folder):
    """AutoEq's FIR for a measured curve and a target, next to the correction of the impulse response with that curve,
    up to 6 kHz (0.04 dB apart); above, AutoEq smooths by two octaves. Its GraphicEQ text as a target gives its FIR from
    30 Hz on: in that text it sets the first point, 20 Hz, to 0 dB."""
    frequency_response = pytest.importorskip("autoeq.frequency_response").FrequencyResponse
    hz = frequency_response.generate_frequencies()
    raw = sum(db * np.exp(-np.log2(hz / at) ** 2) for db, at in [(4, 90), (-4, 700), (3, 3000)])
    measured = frequency_response(name="measured", frequency=hz.copy(), raw=raw.copy())
    target = frequency_response(name="target", frequency=hz.copy(), raw=house(hz))
    measured.process(target=target, max_gain=12, min_mean_error=True)
    theirs = measured.minimum_phase_impulse_response(fs=RATE, f_res=5, normalize=False)
    for name, db in [("curve.txt", raw), ("house.txt", house(hz))]:
        (folder / name).write_text("".join(f"{f} {y}\n" for f, y in zip(hz, db)))
    good("design", "target", "curve.txt", "-o", "m.wav")
    ours, _ = corrected(None, "--target", "house.txt", "--boost", 12)
    apart = deviation(spectrum(ours[:, 0]), high=6000) - deviation(spectrum(theirs), high=6000)
    assert np.abs(apart).max() < 0.5, np.abs(apart).max()
    (folder / "eq.txt").write_text(measured.eqapo_graphic_eq(normalize=False))
    good("design", "target", "eq.txt", "-o", "t.wav")
    apart = mean_db(spectrum(read("t.wav")[:, 0]), grid(30)) - mean_db(spectrum(theirs), grid(30))
    assert np.abs(apart).max() < 0.5, np.abs(apart).max()
