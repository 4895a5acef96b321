"""haloconv design target, invert and minphase next to scipy in float64, and next to their formulas."""

import json

import numpy as np
import pytest
import scipy.signal
from conftest import generator, good, read, refused, write

RATE = 48000


def made(*args, output="f.wav"):
    """The taps of each channel, and the report."""
    report = json.loads(good("design", *args, "-o", output, "--json", "-q").stdout)
    return read(output), report


def test_design_points_to_its_commands_of_two_words(folder):
    commands = ["correct", "target", "invert", "minphase", "crossover"]
    text = " ".join(good("design", "--help").stdout.split())
    assert all(f"design {command}" in text for command in commands), text
    refused("design", "-q", "correct", "-o", "f.wav", exit=2, says=["begin with", *commands])


# ---- target ---------------------------------------------------------------------------------------------------------
CURVE = [(30, 6), (120, 4), (1000, 0), (4000, -1.5), (15000, -5)]


def curve_db(hz):
    """Straight in dB over the logarithm of the frequency, flat beyond the ends."""
    return np.interp(np.log(np.maximum(hz, 1e-9)), np.log([p[0] for p in CURVE]), [p[1] for p in CURVE])


@pytest.mark.parametrize("text", ["* REW\n" + "".join(f"{hz} {db}\n" for hz, db in CURVE),
                                  "frequency,raw\n" + "".join(f"{hz},{db}\n" for hz, db in CURVE),
                                  "GraphicEQ: " + "; ".join(f"{hz} {db}" for hz, db in CURVE)])
def test_linear_target_is_firwin2(folder, text):
    """The same window method on the same grid of frequencies: equal to the precision of the file (float, 6e-8)."""
    (folder / "curve.txt").write_text(text)
    for taps in [1023, 1024]:
        got, report = made("target", "curve.txt", "--phase", "linear", "--taps", taps, "--window", "hamming")
        grid = np.linspace(0, RATE / 2, (1 << 15) + 1)  # that of the transform: the power of two from the rate on
        gain = 10 ** (curve_db(grid) / 20)
        if taps % 2 == 0:
            gain[-1] = 0  # firwin2 asks for it; the real part of half a frame of delay gives it
        want = scipy.signal.firwin2(taps, grid, gain, nfreqs=len(grid), window="hamming", fs=RATE)
        assert np.abs(got[:, 0] - want).max() < 1e-7
        assert report["delay"] == (taps - 1) / 2


@pytest.mark.parametrize("rate", [44100, 96000])
def test_target_follows_its_curve(folder, rate):
    """Within 0.1 dB from 20 Hz to 20 kHz with the default length; the report says how far."""
    (folder / "curve.txt").write_text("".join(f"{hz}; {db}\n" for hz, db in CURVE))
    for phase in ["minimum", "linear"]:
        h, report = made("target", "curve.txt", "--phase", phase, "--rate", rate)
        hz = np.fft.rfftfreq(1 << 18, 1 / rate)
        db = 20 * np.log10(np.abs(np.fft.rfft(h[:, 0], 1 << 18)))
        inside = (hz >= 20) & (hz <= 20000)
        error = np.abs(db - curve_db(hz))[inside].max()
        assert error < 0.1 and report["error_db"] < 0.1, (phase, error, report)
        assert abs(report["largest_gain_db"] - db.max()) < 0.01
        if phase == "minimum":
            assert np.argmax(np.abs(h[:, 0])) == 0


def test_curves_are_refused_with_their_line(folder):
    (folder / "bad.txt").write_text("20 1\n30 x\n")
    (folder / "binary.txt").write_bytes(b"20 1\0")
    write("m.wav", np.eye(9600, 1), RATE)
    for name, says in [("bad.txt", "bad.txt:2: "), ("binary.txt", "not text"), ("none.txt", "none.txt")]:
        refused("design", "target", name, "-o", "f.wav", says=says)
        refused("design", "correct", "m.wav", "--target", name, "-o", "f.wav", says=says)


# ---- minimum phase --------------------------------------------------------------------------------------------------
def test_minphase_is_the_response_with_its_zeros_inside(folder):
    """The direct formula: every zero outside the unit circle is reflected into it, and the gain kept. The zeros are 8 %
    off the circle or more, so the cepstrum falls by 0.92^n and the error is that of the file."""
    rng = generator(4)
    wanted = []
    for _ in range(2):
        angle = (np.arange(12) + rng.uniform(0.3, 0.7, 12)) * np.pi / 12  # apart: close zeros would be ill-conditioned
        radius = rng.choice([0.3, 0.7, 0.92, 1.09, 1.5], 12)
        zeros = radius * np.exp(1j * angle)
        inside = np.where(radius > 1, 1 / np.conj(zeros), zeros)
        h = np.real(np.poly(np.r_[zeros, zeros.conj()]))
        m = np.real(np.poly(np.r_[inside, inside.conj()])) * np.prod(np.maximum(radius, 1)) ** 2
        wanted.append((h / np.abs(h).max(), m / np.abs(h).max()))
    write("h.wav", np.stack([h for h, _ in wanted], 1), RATE, subtype="DOUBLE")
    got, report = made("minphase", "h.wav", "--rate", RATE)
    for ch, (_, want) in enumerate(wanted):
        assert np.abs(got[:, ch] - want).max() < 1e-6 * np.abs(want).max()
    assert report["error_db"] < -110 and report["taps"] == 25


def test_minphase_is_that_of_scipy(folder):
    """scipy's homomorphic method makes a filter whose magnitude is the square root; so it gets h * reversed h. It adds
    a millionth of the least magnitude, and this program none: equal within -100 dB."""
    rng = generator(5)
    h = rng.standard_normal(500) * np.exp(-np.arange(500) / 60)
    h[100:] += 0.5 * h[:-100]  # an early reflection
    write("h.wav", h / 4, RATE)
    got, report = made("minphase", "h.wav")
    h = read("h.wav")[:, 0]
    want = scipy.signal.minimum_phase(np.convolve(h, h[::-1]), method="homomorphic", n_fft=1 << 21)
    got = got[:, 0] * np.sign(got[0, 0] * want[0])
    assert np.abs(got - want).max() < 1e-5 * np.abs(want).max(), np.abs(got - want).max() / np.abs(want).max()
    assert report["error_db"] < -100


def test_minphase_bears_zeros_of_the_magnitude(folder):
    """A comb has a magnitude of 0 at many frequencies. It is its own minimum phase; -80 dB is what the floor leaves."""
    h = np.zeros(64)
    h[5], h[21] = 0.5, 0.5
    write("h.wav", h, RATE)
    got, report = made("minphase", "h.wav")
    assert np.abs(got[:, 0] - np.roll(h, -5)).max() < 1e-4, report


# ---- inversion ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("boost,most", [(60, -110), (5, -10)])
def test_inverse_undoes_a_response(folder, boost, most):
    """A response of mixed phase, two channels: with its inverse a delayed impulse. The report's error is that of the
    taps before they are rounded to float, which adds -140 dB. A boost limit leaves a larger error."""
    rng = generator(6)
    h = np.zeros((400, 2))
    h[50] = 0.9, -0.8
    h[50:] += 0.03 * rng.standard_normal((350, 2)) * np.exp(-np.arange(350) / 40)[:, None]
    h[40] += 0.3, 0.2  # before the direct sound: not of minimum phase
    write("h.wav", h, RATE)
    inverse, report = made("invert", "h.wav", "--taps", 8192, "--delay", 3000, "--boost", boost, "--regularise", 200)
    for ch in range(2):
        y = scipy.signal.fftconvolve(read("h.wav")[:, ch], inverse[:, ch])
        y[3000] -= 1
        error = 10 * np.log10(np.sum(y ** 2) + 1e-13)
        said = 10 * np.log10(10 ** (report["channels"][ch]["error_db"] / 10) + 1e-13)
        assert error < most and abs(error - said) < 1, (error, report)


def test_inverse_is_that_of_kirkeby(folder):
    """The formula of the paper on the whole transform, for a beta that is the same at all frequencies."""
    rng = generator(7)
    h = rng.standard_normal(64) * np.exp(-np.arange(64) / 10)
    write("h.wav", h, RATE)
    got, _ = made("invert", "h.wav", "--taps", 16384, "--delay", 8000, "--regularise", 20, "--boost", 200)
    response = np.fft.rfft(read("h.wav")[:, 0], 1 << 16)
    hz = np.fft.rfftfreq(1 << 16, 1 / RATE)
    grid = np.rint(2 ** (np.arange(0, 15 * 48 + 1) / 48)).astype(int)  # the level: the mean in dB over octaves
    level = np.exp(np.log(np.abs(response[grid]) ** 2).mean())
    inverse = response.conj() / (np.abs(response) ** 2 + level / 100)
    want = np.fft.irfft(inverse * np.exp(-2j * np.pi * hz / RATE * 8000))
    # A point more or less in the mean changes beta by 0.2 %.
    assert np.abs(got[:, 0] - want[:16384]).max() < 2e-3 * np.abs(want).max()


def test_inverse_keeps_its_limits(folder):
    """No boost beyond the limit in the band, and next to nothing outside."""
    low_pass = scipy.signal.firwin(301, 5000, fs=RATE)
    write("h.wav", np.convolve(low_pass, [1, 0, 0, 0, 0.98]), RATE)  # notches of 40 dB as well
    h, report = made("invert", "h.wav", "--band", "50,15000", "--boost", 9, "--taps", 16384)
    response = np.abs(np.fft.rfft(read("h.wav")[:, 0], 1 << 17))
    hz = np.fft.rfftfreq(1 << 17, 1 / RATE)
    grid = 50 * 2 ** (np.arange(0, np.log2(300), 1 / 48))
    level = np.interp(grid, hz, 20 * np.log10(response)).mean()
    gain = 20 * np.log10(np.abs(np.fft.rfft(h[:, 0], 1 << 17))) + level
    inside = (hz > 50) & (hz < 15000)
    assert 8.5 < gain[inside].max() < 9.3, gain[inside].max()
    assert gain[hz > 22500].max() < -35 and gain[hz < 30].max() < -20, (gain[hz > 22500].max(), gain[hz < 30].max())


@pytest.mark.parametrize("command", ["invert", "correct"])
def test_a_band_between_two_bins_is_refused(folder, command):
    write("h.wav", np.eye(9600, 1), RATE)
    refused("design", command, "h.wav", "--band", "0.1,0.7", "-o", "f.wav", exit=2, says="1 or more")


@pytest.mark.parametrize("command", ["invert", "minphase"])
def test_what_has_no_inverse_is_refused(folder, command):
    write("silent.wav", np.zeros((100, 1)), RATE)
    write("half.wav", np.stack([np.eye(100, 1)[:, 0], np.zeros(100)], 1), RATE)
    (folder / "m.conf").write_text("/convolver/new 1 1 64 64\n/impulse/dirac 1 1 1 0\n")
    refused("design", command, "silent.wav", "-o", "f.wav", says="channel 1 is silent")
    refused("design", command, "half.wav", "-o", "f.wav", says="channel 2 is silent")
    refused("design", command, "m.conf", "-o", "f.wav", says="give a sound file that `haloconv import` makes of it")
    assert not (folder / "f.wav").exists()


def test_a_curve_and_an_impulse_response_name_the_command_for_each_other(folder):
    """Numbers that fall, that stay below 1000 or that have four columns without names are responses, and play."""
    write("x.wav", np.zeros((100, 1)), 48000)
    texts = {"curve.txt": "20 0\n100 3\n20000 -3\n", "phase.csv": "hz,db,degrees\n20,0,1\n1000,3,2\n",
             "rew.txt": "* Freq(Hz) SPL(dB) Phase(degrees)\n20 0 0\n20000 1 0\n",
             "dayton.txt": "*1000Hz -37\n20 0\n2000 1\n", "fall.txt": "20000 0\n20 3\n", "low.txt": "20 0\n900 3\n",
             "wide.txt": "20 0 0 0\n2000 0 0 0\n", "table.csv": "Frequency,raw,error,target\n20,0,0,0\n2000,1,2,3\n", "taps.txt": "1\n0.5\n"}
    for name, text in texts.items():
        (folder / name).write_text(text)
    for name in ["curve.txt", "phase.csv", "table.csv", "rew.txt", "dayton.txt"]:
        refused("convolve", "x.wav", name, "-o", "y.wav", says="design target")
    for name in ["fall.txt", "low.txt", "wide.txt"]:
        assert "design target" not in good("convolve", "x.wav", name, "-o", f"{name}.wav").stderr, name
    for name in ["x.wav", "taps.txt"]:
        refused("design", "target", name, "-o", "y.wav", says=[name, "haloconv convolve"])


@pytest.mark.parametrize("header,column", [
    ("frequency,raw,equalization", "raw"), ("Frequency;SPL;smoothed", "SPL"), ("hz,db,degrees", ""),
    ("Freq(Hz), SPL(dB), Phase(degrees)", ""), ("my curve, of Monday", ""), ("* a,b,c", "b")])
def test_a_table_whose_further_columns_are_skipped_names_the_column_that_is_the_gain(folder, header, column):
    (folder / "t.csv").write_text(f"{header}\n20,1,2\n20000,3,4\n")
    said = good("design", "target", "t.csv", "-o", "y.wav").stderr
    named = [line for line in said.splitlines() if line.startswith("t.csv: ")]
    assert named == ([f't.csv: the gain is the column "{column}" of the table; the columns behind it are skipped']
                     if column else []), said
