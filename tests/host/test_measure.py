"""haloconv measure: sweeps through rooms that numpy simulates by convolution, in float64."""

import json
import os
import re

import numpy as np
import pytest
import scipy.signal
import scipy.special
from conftest import BUILD, generator, good, read, refused, soundfile, write

RATE = 8000
BAND = (20, 3200)  # --from and --to
CLOSE = 10 ** (-90 / 20)


# ---- the simulated room ---------------------------------------------------------------------------------------------
def write_sweep(*options, length=1, silence=0.25, rate=RATE):
    """Writes sweep.wav; its samples [n_frames][n_outputs]."""
    good("measure", "--write-sweep", "sweep.wav", "--rate", rate, "--to", BAND[1], "--length", length,
         "--silence", silence, *options)
    return read("sweep.wav")


def make_room(n_outputs, n_inputs, delay=37, n=1200, seed=1):
    """[n_outputs][n_inputs][n]: a direct sound after `delay` frames and more, and noise that decays by 60 dB."""
    h = generator(seed).standard_normal((n_outputs, n_inputs, n)) * 10 ** (-3 * np.arange(n) / n)
    for o, i in np.ndindex(n_outputs, n_inputs):
        direct = delay + 11 * i + 5 * o
        h[o, i, :direct] = 0
        h[o, i, direct] = 5
    return 0.1 * h


def play(x, room):
    """[n_frames][n_inputs]: what the inputs hear of the outputs x."""
    return sum(np.stack([scipy.signal.fftconvolve(x[:, o], h) for h in room[o]], 1) for o in range(len(room)))


def limits(hz):
    """The limits of a response as the man page states them."""
    high_pass = scipy.signal.butter(2, BAND[0] / 4, "high", analog=True)
    return scipy.signal.freqs(*high_pass, hz)[1] * 0.5 * scipy.special.erfc(
        (hz - 1.05 * BAND[1]) / (0.0125 * BAND[1] * np.sqrt(2)))


def limited(h, shift, n_frames):
    """h, limited to the band, `shift` frames later (or a part of a frame)."""
    hz = np.fft.rfftfreq(1 << 17, 1 / RATE)
    return np.fft.irfft(np.fft.rfft(h, 1 << 17) * limits(hz) * np.exp(-2j * np.pi * hz * shift / RATE))[:n_frames]


def measure(y, *options, rate=RATE):
    """Writes rec.wav; the report and the responses [n_frames][n_pairs]."""
    write("rec.wav", y, rate)
    done = good("measure", "--from-recording", "rec.wav", "--sweep", "sweep.wav", "-o", "h.wav", "--json", *options)
    report = json.loads(done.stdout)
    report["said"] = done.stderr
    return report, read("h.wav")


def errors(report, got, room, started=0):
    """[n_frames][n_pairs]: the difference from the room, over its peak. started: frames of the recording before the
    sweep's file began."""
    shift = report["reference_frame"] - report["latency_s"] * RATE + started
    want = np.stack([limited(h, shift, len(got)) for pairs in room for h in pairs], 1)
    assert got.shape == want.shape
    return (got - want) / np.abs(want).max()


# ---- accuracy -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("n_outputs,n_inputs,started", [(1, 1, 4321), (8, 2, -3000)])
def test_measured_responses_are_those_of_the_room(folder, n_outputs, n_inputs, started):
    """Whenever the recorder was started."""
    x = write_sweep("--outputs", n_outputs)
    room = make_room(n_outputs, n_inputs)
    y = play(x, room)
    y = np.concatenate([np.zeros((max(started, 0), n_inputs)), y[max(-started, 0):]])
    report, got = measure(y)
    assert np.abs(errors(report, got, room, started)).max() < CLOSE
    assert report["latency_s"] == pytest.approx((37 + started) / RATE) and abs(report["clock_ppm"]) < 1e-4
    assert [(p["output"], p["input"]) for p in report["pairs"]] == [(o + 1, i + 1) for o, i in np.ndindex(n_outputs,
                                                                                                          n_inputs)]
    delays = [5 * o + 11 * i for o, i in np.ndindex(n_outputs, n_inputs)]
    assert [p["direct_s"] * RATE for p in report["pairs"]] == pytest.approx(delays, abs=1.01)  # or the frame before


def test_a_linear_phase_low_pass_is_measured(folder):
    room = [[np.pad(scipy.signal.firwin(201, 2000, fs=RATE), (50, 0))]]
    report, got = measure(play(write_sweep(), room))
    assert np.abs(errors(report, got, room)).max() < CLOSE


def test_latency_is_kept(folder):
    room = make_room(1, 1, delay=300)
    report, got = measure(play(write_sweep("--averages", 1), room), "--latency", "keep")
    assert report["reference_frame"] == 300 and report["clock_ppm"] is None
    want = limited(room[0, 0], 0, len(got))
    assert np.abs(got[:, 0] - want).max() < CLOSE * np.abs(want).max()


def test_noise_is_as_low_as_theory_says(folder):
    """White noise, 60 dB below the sweep. Each frame of the response has the noise of all frames of the division's
    kernel, limits / sweep; averages divide its power."""
    x, averages = write_sweep("--averages", 3, silence=0.5), 3
    room = make_room(1, 2)
    y = play(x, room)
    sigma = 1e-3 * 0.1 / np.sqrt(2)
    report, got = measure(y + sigma * generator(2).standard_normal(y.shape))
    start = x[RATE:RATE + RATE, 0]  # one section's sweep
    hz = np.fft.rfftfreq(1 << 15, 1 / RATE)
    spectrum = np.fft.rfft(start, 1 << 15)
    kernel = np.fft.irfft(limits(hz) / np.where(hz > 0, spectrum, 1))
    want = sigma * np.sqrt((kernel ** 2).sum() / averages)
    noise = errors(report, got, room) * np.abs(limited(room[0, 0], 0, 1000)).max()
    rms_db = 20 * np.log10(np.sqrt((noise ** 2).mean()) / want)
    assert abs(rms_db) < 0.7, rms_db
    for pair in report["pairs"]:
        floor_db = 20 * np.log10(want) - pair["peak_db"]
        assert pair["silence_dbfs"] == pytest.approx(20 * np.log10(sigma), abs=0.3)
        assert pair["noise_before_db"] == pytest.approx(floor_db, abs=0.7)
        assert pair["noise_floor_db"] == pytest.approx(floor_db, abs=1.5)  # of 400 frames
        assert pair["dynamic_range_db"] == -pair["noise_floor_db"]
        for harmonic in pair["harmonics"]:  # of a linear room
            assert harmonic["db"] == pytest.approx(harmonic["noise_db"], abs=3), harmonic


def in_another_clock(y, ppm):
    """Frame m is that of y at m / (1 + ppm / 1e6), by its Fourier series."""
    bins = np.fft.rfft(y, axis=0) / len(y)
    bins[1:] *= 2
    return scipy.signal.czt(bins, len(y), np.exp(2j * np.pi / len(y) / (1 + 1e-6 * ppm)), axis=0).real


@pytest.mark.parametrize("ppm", [3, -40])
def test_the_clock_of_the_recorder_is_corrected(folder, ppm):
    room = make_room(1, 1)
    report, got = measure(in_another_clock(play(write_sweep(), room), ppm))
    assert report["clock_ppm"] == pytest.approx(ppm, abs=1e-3)
    assert np.abs(errors(report, got, room)).max() < CLOSE


def test_a_clock_that_is_right_has_no_minus_sign(folder):
    report, _ = measure(in_another_clock(play(write_sweep(), make_room(1, 1)), -3e-4))
    assert -5e-4 < report["clock_ppm"] < 0
    said = good("measure", "--from-recording", "rec.wav", "--sweep", "sweep.wav", "-o", "h.wav").stdout
    assert re.search(r"clock difference +\+0\.000 ppm, corrected", said), said


def test_a_recorder_may_have_another_rate(folder):
    room = make_room(1, 1)
    y = play(write_sweep(silence=0.5), room)
    y = np.pad(y, ((0, -len(y) % 4), (0, 0)))
    _, got = measure(scipy.signal.resample(y, len(y) // 4 * 5), rate=RATE * 5 // 4)
    got = np.abs(np.fft.rfft(got[:, 0], RATE * 5 // 4))[30:3100]  # at whole Hz
    want = np.abs(np.fft.rfft(limited(room[0, 0], 200, RATE), RATE))[30:3100]
    assert np.abs(got - want).max() < 1e-3 * want.max()


def test_a_loopback_is_the_time_reference_and_is_divided_out(folder):
    """The converters filter and delay both inputs; the loopback on input 1 hears output 2 only."""
    x = write_sweep("--outputs", 2)
    room = make_room(2, 1)
    y = np.stack([np.pad(x[:, 1], (0, room.shape[2] - 1)), play(x, room)[:, 0]], 1)
    section = scipy.signal.butter(1, 3, "high", fs=RATE, output="sos")
    low_pass = np.pad(scipy.signal.firwin(801, 3900, fs=RATE), (250, 0))
    y = scipy.signal.sosfilt(section, scipy.signal.fftconvolve(y, low_pass[:, None], axes=0), axis=0)
    report, got = measure(y, "--loopback", 1)
    report["latency_s"] = 0
    assert np.abs(errors(report, got, room)).max() < CLOSE
    assert [round(p["direct_s"] * RATE) for p in report["pairs"]] == pytest.approx([37, 42], abs=3)
    refused("measure", "--from-recording", "rec.wav", "--sweep", "sweep.wav", "-o", "h.wav", "--loopback", 3,
            says=["--loopback 3", "2 channels"])


def microphone(hz):
    """A capsule with a resonance at 1200 Hz, of minimum phase."""
    z = np.exp(-2j * np.pi * hz / RATE)
    r, w = 0.8, 2 * np.pi * 1200 / RATE
    return 1 / (1 - 2 * r * np.cos(w) * z + r * r * z * z)


def write_calibration(name, columns, low=5, high=4000):
    """The curve of the microphone, with its phase if there are 3 columns; a maker's line comes first."""
    hz = np.geomspace(low, high, 800)
    bins = microphone(hz)
    table = np.stack([hz, 20 * np.log10(np.abs(bins)), np.degrees(np.angle(bins))])[:columns]
    lines = ["\t".join(f"{value:.8g}" for value in row) for row in table.T]
    open(name, "w").write("\n".join(['"Sens Factor =-.7dB, SERNO: 7000001"', *lines, ""]))


@pytest.mark.parametrize("columns,bound_db", [(2, -60), (3, -60)])
def test_the_response_of_the_microphone_is_divided_out(folder, columns, bound_db):
    """By the magnitude alone with minimum phase, which this microphone has. The curve has 80 points an octave."""
    room = make_room(1, 1)
    y = play(write_sweep(), room)
    r, w = 0.8, 2 * np.pi * 1200 / RATE
    heard = scipy.signal.lfilter([1], [1, -2 * r * np.cos(w), r * r], y, axis=0)
    write_calibration("mic.txt", columns)
    report, got = measure(heard, "--calibration", "mic.txt")
    assert np.abs(errors(report, got, room)).max() < 10 ** (bound_db / 20)
    assert report["calibration"]["sensitivity_db"] == -0.7 and report["calibration"]["phase"] == (columns == 3)
    assert "mic.txt: calibration from 5 to 4000 Hz" in report["said"] and "beyond" not in report["said"]
    assert np.abs(errors(*measure(heard), room)).max() > 0.1


def test_a_calibration_beside_a_loopback_is_of_the_microphone_alone(folder):
    room = make_room(1, 1)
    x = write_sweep()
    y = np.pad(x, ((0, room.shape[2] - 1), (0, 0)))
    write_calibration("mic.txt", 2, 100, 1000)
    _, with_loopback = measure(np.concatenate([y, play(x, room)], 1), "--loopback", 1, "--calibration", "mic.txt")
    report, alone = measure(play(x, room), "--calibration", "mic.txt")
    n = min(len(alone), len(with_loopback))
    lag = np.argmax(np.abs(with_loopback)) - np.argmax(np.abs(alone))
    assert np.abs(np.roll(with_loopback, -lag, 0)[:n - 100] - alone[:n - 100]).max() < 1e-3 * np.abs(alone).max()
    assert "covers 100 to 1000 Hz, but the measurement covers 20 to 3200 Hz" in report["said"]
    (folder / "bad.txt").write_text("20 1\nend\n")
    for name, says in [("bad.txt", "bad.txt:2"), ("none.txt", "none.txt")]:
        refused("measure", "--from-recording", "rec.wav", "--sweep", "sweep.wav", "-o", "h2.wav", "--calibration", name,
                says=says)


# ---- distortion -----------------------------------------------------------------------------------------------------
def test_harmonics_are_those_of_a_known_polynomial(folder):
    """Chebyshev's polynomial of order n turns a sine into its n-th harmonic. The band leaves space for five."""
    x = write_sweep("--to", 1400, length=2, rate=16000)
    shares = {2: 0.02, 3: 0.01, 4: 0.003, 5: 0.002}
    y = x.copy()
    for order, share in shares.items():
        term = np.polynomial.Chebyshev.basis(order)(x / 0.1)
        y += 0.1 * share * (term - np.polynomial.Chebyshev.basis(order)(0))  # silence stays silence
    report, _ = measure(y, rate=16000)
    pair = report["pairs"][0]
    for harmonic in pair["harmonics"]:
        want = 20 * np.log10(shares[harmonic["order"]])
        assert harmonic["db"] == pytest.approx(want, abs=0.1), harmonic
        assert harmonic["percent"] == pytest.approx(100 * 10 ** (want / 20), rel=0.012)
        octaves = [octave["db"] for octave in harmonic["octaves"] if octave["hz"] > 60]
        assert len(octaves) >= 2 and octaves == pytest.approx([want] * len(octaves), abs=0.1)
    total = np.sqrt(sum(share ** 2 for share in shares.values()))
    assert pair["distortion_percent"] == pytest.approx(100 * total, rel=0.012)


# ---- recordings that cannot be right --------------------------------------------------------------------------------
@pytest.mark.parametrize("change,says", [
    (lambda y: np.clip(20 * y, -1, 1), ["input 1", "clipped"]),
    (lambda y: 0.95 * y / np.abs(y).max(), ["too loud", "lower its gain by 6 dB"]),
    (lambda y: 1e-3 * y, ["input 1", "too quiet", "dB"]),
    (lambda y: y + 0.1 * generator(3).standard_normal(y.shape), ["above the noise", "--averages"]),
    (lambda y: y * [1, 0] + 1e-6 * generator(3).standard_normal(y.shape), ["output 1 is not heard by input 2"])],
                         ids=["clipped", "loud", "quiet", "noisy", "deaf"])
def test_a_recording_with_a_wrong_level_is_named(folder, change, says):
    report, _ = measure(change(play(write_sweep(), make_room(1, 2))))
    for word in says:
        assert word in report["said"], report["said"]
    assert ("clipped" in says) == (report["recorded"][0]["clipped"] > 0)


def test_a_good_recording_gives_no_warning(folder):
    report, _ = measure(play(write_sweep(), make_room(1, 2)))
    assert report["said"] == ""
    report, _ = measure(play(write_sweep(silence=0.1), make_room(1, 1, n=12000)))
    assert "not decayed" in report["said"]


@pytest.mark.parametrize("change,says", [
    (lambda y: y[:RATE], "record all of it"),
    (lambda y: 0.01 * generator(4).standard_normal(y.shape), "does not fit the sweep"),
    (lambda y: np.full_like(y, np.nan), "finite")], ids=["short", "noise", "nan"])
def test_a_recording_without_the_sweep_is_refused(folder, change, says):
    write("rec.wav", change(play(write_sweep(), make_room(1, 1))), RATE)
    refused("measure", "--from-recording", "rec.wav", "--sweep", "sweep.wav", "-o", "h.wav", says=says)
    assert not (folder / "h.wav").exists()


def lose(y, start, n):
    """n frames are lost from y at a time; n < 0: -n frames are doubled."""
    at = int(start * RATE)
    return np.concatenate([y[:at], y[at + n:]])


@pytest.mark.parametrize("start,lost", [(1.6, 20), (1.6, 1000), (2.85, 512), (2.85, -64)])
def test_a_gap_in_one_of_two_sweeps_is_refused(folder, start, lost):
    write("rec.wav", lose(play(write_sweep(), make_room(1, 1)), start, lost), RATE)
    refused("measure", "--from-recording", "rec.wav", "--sweep", "sweep.wav", "-o", "h.wav", says="a gap")


@pytest.mark.parametrize("change,says", [
    (lambda y: lose(y, 2.2, 5), ["clocks", "ppm", "gap between the sweeps"]),
    (lambda y: y + np.where(np.arange(len(y)) // 200 == 75, 0.02, 0)[:, None] * generator(4).normal(size=y.shape),
     ["output 1, input 1: the sweeps differ by", "dB from their average"]),
    (lambda y: y[7000:], ["the recording starts", "ms after the sweep"]),
    (lambda y: np.clip(y, -0.02, 0.02), ["output 1, input 1:", "distortion is"])],
                         ids=["clock", "noise", "start", "cut"])
def test_a_recording_that_may_be_wrong_is_named(folder, change, says):
    report, _ = measure(change(play(write_sweep(), 0.3 * make_room(1, 1))))
    for word in says:
        assert word in report["said"], report["said"]
    assert report["said"].count("warning:") <= 2, report["said"]


def test_noise_that_does_not_change_is_no_difference_of_sweeps(folder):
    """Noise that falls by 10 dB an octave from 100 Hz on, and is as loud as the sweep below."""
    y = play(write_sweep("--averages", 4), make_room(1, 1))
    noise = scipy.signal.lfilter([0.1, 0], [1, -0.92], generator(8).standard_normal(y.shape), axis=0)
    report, _ = measure(y + 0.05 * noise)
    assert "sweeps differ" not in report["said"] and report["pairs"][0]["repeat_error_db"] < 1, report
    report, _ = measure(y)
    assert report["pairs"][0]["repeat_error_db"] < 0.02


def test_the_highest_band_of_two_sweeps_ends_below_half_the_rate(folder):
    good("measure", "--write-sweep", "sweep.wav", "--from", 31, "--to", 20000, "--rate", 44100, "--length", 0.5,
         "--silence", 0.5)
    report, _ = measure(read("sweep.wav"), rate=44100)
    assert report["said"] == "" and report["pairs"][0]["repeat_error_db"] < 0.01, report


def test_noise_is_not_a_fault_of_a_recording_without_silence(folder):
    y = play(write_sweep(), make_room(1, 1))
    noise = scipy.signal.lfilter([0.1, 0], [1, -0.98], generator(8).standard_normal(y.shape), axis=0)
    report, _ = measure((y + 0.05 * noise)[int(0.78 * RATE):])
    pair = report["pairs"][0]
    assert "differ by" not in report["said"] and "distortion" not in report["said"], report
    assert pair["silence_dbfs"] is pair["repeat_error_db"] is pair["harmonics"][0]["noise_db"] is None
    text = good("measure", "--from-recording", "rec.wav", "--sweep", "sweep.wav", "-o", "h.wav").stdout
    assert "not compared; there is too little silence" in text and ", noise not measured" in text, text


def test_a_recording_may_end_before_the_last_silence(folder):
    room = make_room(1, 1)
    report, got = measure(play(write_sweep("--averages", 1, silence=6), room)[:2 * RATE + 1300])
    assert np.abs(errors(report, got, room)).max() < CLOSE


def test_the_reference_is_a_pair_that_is_heard(folder):
    room = make_room(1, 2)
    report, got = measure(play(write_sweep(), room) * [0, 1] + 1e-6 * generator(5).standard_normal((1, 2)))
    assert report["latency_s"] * RATE == pytest.approx(48) and report["pairs"][1]["direct_s"] == 0
    assert np.abs(errors(report, got, room)[:, 1]).max() < CLOSE


def test_a_pair_that_is_not_heard_has_no_figures(folder):
    x = write_sweep("--outputs", 2)
    write("rec.wav", x, RATE)  # each output reaches one input only
    text = good("measure", "--from-recording", "rec.wav", "--sweep", "sweep.wav", "-o", "h.wav").stdout
    assert text.count(": not heard") == 2 and "nan" not in text and "inf" not in text, text
    report = json.loads(good("measure", "--from-recording", "rec.wav", "--sweep", "sweep.wav", "-o", "h.wav",
                             "--json").stdout)
    assert [pair["heard"] for pair in report["pairs"]] == [True, False, False, True]
    assert report["pairs"][1]["direct_s"] is report["pairs"][1]["dynamic_range_db"] is None
    assert report["pairs"][1]["harmonics"] == []


@pytest.mark.parametrize("options,says", [
    (("--length", 1.1), "repeats after 1.2500 s, not 1.3500 s"),
    (("--silence", 0.2), "repeats after 1.2500 s, not 1.2000 s"),
    (("--averages", 4), "does not fit the sweep"),
    (("--outputs", 2), "lasts 4.90 s, but the sweep lasts 7.00 s")], ids=str)
def test_another_sweep_is_refused(folder, options, says):
    """The sweep differs from the one that was played."""
    write("rec.wav", play(write_sweep("--averages", 3), make_room(1, 1)), RATE)
    write_sweep(*options)
    refused("measure", "--from-recording", "rec.wav", "--sweep", "sweep.wav", "-o", "h.wav", says=says)


def test_a_file_without_a_sweep_is_refused(folder):
    write("rec.wav", play(write_sweep(), make_room(1, 1)), RATE)
    for comment in [None, "haloconv", "haloconv sweep: outputs 1 averages 2 from 20 to nan length 1 silence 1 level 1",
                    "haloconv sweep: outputs 9999 averages 2 from 20 to 3000 length 1 silence 1 level 0.1"]:
        with soundfile.SoundFile("other.wav", "w", RATE, 1, "PCM_16") as file:
            if comment:
                file.comment = comment
            file.write(np.zeros(100))
        refused("measure", "--from-recording", "rec.wav", "--sweep", "other.wav", "-o", "h.wav",
                says=["other.wav", "--write-sweep"])
    refused("measure", "--write-sweep", "s.au", says="WAV or FLAC")


@pytest.mark.parametrize("change,says", [
    (lambda x: np.pad(x, ((3, 0), (0, 0))), "not the sweep"), (lambda x: 0.5 * x, "not the sweep"),
    (lambda x: scipy.signal.lfilter([1, 0, 0.2], [1], x, axis=0), "not the sweep"),
    (lambda x: x[:12000], "not the sweep"), (lambda x: 0 * x, "not the sweep"),
    (lambda x: np.repeat(x, 2, 1), "2 channels")],
                         ids=["late", "quiet", "filtered", "cut", "silent", "stereo"])
def test_samples_that_are_not_the_sweep_are_refused(folder, change, says):
    """The comment of a sweep alone makes no sweep: convolve copies it to its output."""
    x = write_sweep()
    write("rec.wav", x, RATE)
    with soundfile.SoundFile("sweep.wav") as file:
        comment = file.comment
    y = change(x)
    with soundfile.SoundFile("other.wav", "w", RATE, y.shape[1], "FLOAT") as file:
        file.comment = comment
        file.write(y)
    refused("measure", "--from-recording", "rec.wav", "--sweep", "other.wav", "-o", "h.wav",
            says=["other.wav", says, "--write-sweep"])


@pytest.mark.parametrize("name,format", [("s.flac", "pcm16"), ("s.wav", "pcm16"), ("s.ogg", None), ("s.opus", None),
                                         ("s.mp3", None), ("s.wav", "ulaw")])
def test_every_format_that_keeps_a_comment_keeps_a_sweep(folder, name, format):
    options = ["--format", format] if format else []
    good("measure", "--write-sweep", name, "--rate", RATE, "--to", BAND[1], "--length", 1, "--outputs", 2, *options)


@pytest.mark.parametrize("format,level", [("ulaw", -60), ("pcm16", -80)])
def test_a_quiet_sweep_in_a_coarse_format_is_the_sweep(folder, format, level):
    write_sweep("--format", format, "--level", level)


def test_a_format_that_is_too_coarse_for_a_sweep_is_named(folder):
    refused("measure", "--write-sweep", "sweep.wav", "--rate", RATE, "--to", BAND[1], "--length", 1, "--format",
            "ulaw", "--level", -90, says=["--format wav:ulaw: is too coarse for --level -90; use pcm24"])
    assert not (folder / "sweep.wav").exists()


def test_a_filter_may_be_a_mask_that_ships(folder):
    os.symlink(BUILD / "impulses/hall.wav", "link.wav")
    refused("measure", "--jack", "--filter", "hall", "-o", "link.wav", says=["link.wav", "this run reads"])


def test_a_recording_is_a_sound_file(folder):
    write_sweep()
    (folder / "y.txt").write_text("1\n" * 100)
    (folder / "y.conf").write_text("/convolver/new 1 1 256 1000\n/impulse/dirac 1 1 1 0\n")
    for name in ("y.txt", "y.conf"):
        refused("measure", "--from-recording", name, "--sweep", "sweep.wav", "-o", "h.wav", says="give a sound file")


@pytest.mark.parametrize("args,exit,says", [
    ((), 2, "needs one of --jack, --portaudio, --write-sweep and --from-recording"),
    (("--write-sweep", "s.wav", "--from-recording", "r.wav"), 2, "needs"),
    (("--write-sweep", "s.wav", "--to", 23000), 1, "--to 21817"),
    (("--write-sweep", "s.wav", "--from", 6000), 1, "two octaves"),
    (("--write-sweep", "s.wav", "--length", 0.3), 1, "use 0.4"),
    (("--write-sweep", "s.wav", "--level", 3), 2, "0 dB or less"),
    (("--write-sweep", "s.wav", "--outputs", 64, "--length", 60), 1, "at most 3600 s"),
    (("--write-sweep", "s.wav", "--rate", 1000000, "--length", 300, "--averages", 4), 1, "at most 1073 s"),
    (("--write-sweep", "-"), 2, "needs a file"),
    (("--jack",), 2, "-o"),
    (("--jack", "-o", "h.wav", "--loopback", 1), 2, "too small for this input"),
    (("--from-recording", "r.wav", "-o", "h.wav"), 2, "need each other"),
    (("--from-recording", "r.wav", "--sweep", "s.wav", "-o", "h.wav"), 1, "r.wav")], ids=str)
def test_wrong_options_are_named(folder, args, exit, says):
    refused("measure", *args, exit=exit, says=says)
