"""haloconv info: acoustics compared with closed formulas and with numpy, sine gains with scipy's optimisation.

Bounds: 0.5 % for times, 0.05 dB for ratios of energies, 0.001 dB for gains.
"""

import json
import re

import numpy as np
import pytest
import scipy.optimize
import scipy.signal
from conftest import BUILD, generator, good, write

RATE = 48000
TIMES = {"edt_s": (0, -10), "t20_s": (-5, -25), "t30_s": (-5, -35)}
OCTAVES = [63, 125, 250, 500, 1000, 2000, 4000, 8000]
RATIO = 10 ** 0.3  # of two midband frequencies, IEC 61260-1


def info(h, rate=RATE, *options):
    h = np.asarray(h, np.float32)
    return json.loads(good("info", write("h.wav", h, rate), "--json", *options).stdout)


def acoustics(h, rate=RATE):
    return info(h, rate)["channel"][0]["acoustics"]


def signs(n, seed):
    return generator(seed).choice([-1.0, 1.0], n)


def decay(seconds, t60, seed=1, rate=RATE):
    """A wide band whose square is an exact exponential."""
    n = int(seconds * rate)
    return 10 ** (-3 * np.arange(n) / rate / t60) * signs(n, seed)


def clarity(t60, te):
    return 10 * np.log10(10 ** (6 * te / t60) - 1)


def fitted(curve, rate=RATE):
    """EDT, T20 and T30 of a decay curve in dB."""
    for name, (high, low) in TIMES.items():
        frames = np.flatnonzero(curve < low)[0]
        frames = np.arange(frames)[curve[:frames] <= high]
        yield name, -60 / np.polyfit(frames / rate, curve[frames], 1)[0]


# ---- broadband ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("t60,seconds,noise_db,rate", [
    (1.0, 1.5, None, 48000), (0.1, 0.2, None, 44100), (3.0, 3.2, None, 16000), (1.0, 0.7, None, 48000),
    (1.0, 2.0, -60, 48000), (1.0, 3.0, -50, 48000), (0.3, 1.0, -55, 96000), (2.5, 4.0, -75, 16000)])
def test_an_exponential_decay_has_the_figures_of_its_formula(folder, t60, seconds, noise_db, rate):
    """Also above a noise floor, and if it is cut 42 dB below its start."""
    h = decay(seconds, t60, rate=rate)
    if noise_db:
        h += generator(2).standard_normal(len(h)) * 10 ** (noise_db / 20)
    got = acoustics(np.concatenate([np.zeros(777), h]), rate)
    assert got["start_frame"] == 777
    for name in TIMES:
        assert got[name] == pytest.approx(t60, rel=0.005), name
    assert got["c50_db"] == pytest.approx(clarity(t60, 0.05), abs=0.05)
    assert got["c80_db"] == pytest.approx(clarity(t60, 0.08), abs=0.05)
    assert got["d50"] == pytest.approx(1 - 10 ** (-6 * 0.05 / t60), abs=0.003)
    assert got["centre_time_s"] == pytest.approx(t60 / np.log(1e6), rel=0.005)
    assert got["drr_db"] == pytest.approx(clarity(t60, 0.0025), abs=0.05)
    if noise_db:
        assert got["noise_dbfs"] == pytest.approx(noise_db, abs=0.3)
        assert got["noise_db"] == pytest.approx(noise_db - 20 * np.log10(np.abs(h).max()), abs=0.3)
        assert got["noise_time_s"] == pytest.approx(-noise_db / 60 * t60, rel=0.03)
    else:
        assert got["noise_dbfs"] is None and got["reasons"]["noise_dbfs"] == "it decays until it ends"


def test_the_missing_tail_is_added(folder):
    """Of a response that is cut 18 dB below its start."""
    got = acoustics(decay(0.3, 1))
    assert got["edt_s"] == pytest.approx(1, rel=0.005) and got["t20_s"] is None
    assert got["c50_db"] == pytest.approx(clarity(1, 0.05), abs=0.05)
    assert got["centre_time_s"] == pytest.approx(1 / np.log(1e6), rel=0.005)


def test_a_time_that_the_noise_hides_has_a_reason(folder):
    h = decay(2, 1) + generator(2).standard_normal(2 * RATE) * 10 ** (-38 / 20)
    said = good("info", write("h.wav", h.astype(np.float32))).stdout
    assert "  decay time T30   none: the decay meets the noise at -38 dB; T30 needs -45 dB\n" in said
    noise = r"noise floor      -3[78].\d dBFS, 3[78].\d dB below the peak; the decay meets it after 0.6\d\d s\n"
    assert re.search(noise, said)
    got = acoustics(h)
    assert got["t20_s"] == pytest.approx(1, rel=0.01) and got["t30_s"] is None and list(got["reasons"]) == ["t30_s"]


def test_two_slopes(folder):
    """Energies with 0.5 and 2 s: EDT is mostly that of the first, T30 that of the second."""
    t, k1, k2, share = np.arange(3 * RATE) / RATE, np.log(1e6) / 0.5, np.log(1e6) / 2, 0.02
    h = np.sqrt(np.exp(-k1 * t) + share * np.exp(-k2 * t)) * signs(len(t), 3)
    curve = np.exp(-k1 * t) / k1 + share * np.exp(-k2 * t) / k2
    want, got = dict(fitted(10 * np.log10(curve / curve[0]))), acoustics(h)
    assert want["edt_s"] < 0.6 and want["t30_s"] > 1.7
    for name in TIMES:
        assert got[name] == pytest.approx(want[name], rel=0.005), name


def test_direct_sound_and_tail(folder):
    """The gap between both is no end of the decay."""
    h = np.zeros(RATE)
    h[100], h[100 + 960:] = 0.5, decay(1, 0.6)[:RATE - 1060] * 0.02
    got, tail = acoustics(h), (h[1000:] ** 2).sum()
    assert got["drr_db"] == pytest.approx(10 * np.log10(0.25 / tail), abs=0.05)
    assert got["t20_s"] == pytest.approx(0.6, rel=0.005)
    assert got["c50_db"] == pytest.approx(10 * np.log10((0.25 + (h[1000:2500] ** 2).sum()) / (h[2500:] ** 2).sum()),
                                          abs=0.05)


def test_the_response_starts_20_db_below_its_peak(folder):
    h = np.concatenate([np.full(50, 0.099), np.full(30, 0.101), decay(1, 0.5)])
    assert acoustics(h)["start_frame"] == 50


NO_ROOM = {"filter": scipy.signal.firwin(64, 0.3), "click": [0, 0, 0.5], "noise": signs(RATE, 4), "gate": np.ones(9999),
           "silence": np.zeros(99), "one": [1.0], "two": [1.0, -1.0], "cut": decay(0.2, 1)}


@pytest.mark.parametrize("name", NO_ROOM)
def test_no_room_has_no_table(folder, name):
    h = np.array(NO_ROOM[name], np.float32)
    said, got = good("info", write("h.wav", h)).stdout, acoustics(h)
    assert "octave" not in said and "acoustics" not in said and "  decay time T30   none: it " in said
    assert got["octave"] == [] and got["t30_s"] is None
    assert {key for key, value in got.items() if value is None} == set(got["reasons"])
    assert all(got["reasons"].values())


def test_without_a_rate_there_are_no_times(folder):
    np.savetxt("h.txt", decay(0.5, 0.3))
    got = json.loads(good("info", "h.txt", "--json").stdout)["channel"][0]
    assert got["t30_reason"] == "the rate is not known" == got["acoustics"]["reasons"]["c50_db"]
    got = json.loads(good("info", "h.txt", "--json", "--rate", RATE).stdout)["channel"][0]
    assert got["t30_s"] == pytest.approx(0.3, rel=0.005)


# ---- octaves --------------------------------------------------------------------------------------------------------
def midband(hz):
    return 1000 * RATIO ** round(np.log2(hz / 1000))


def octave_figures(h, hz):
    """Figures of a response that starts at frame 0, by scipy's analogue Butterworth filter, run backwards."""
    n, middle = 1 << 18, midband(hz)
    edges = 2 * np.pi * middle * np.array([RATIO ** -0.5, RATIO ** 0.5])
    response = scipy.signal.freqs(*scipy.signal.butter(3, edges, "band", analog=True),
                                  2 * np.pi * np.fft.rfftfreq(n, 1 / RATE))[1]
    energy = np.fft.irfft(np.fft.rfft(h, n) * response.conj(), n) ** 2
    total, delay = energy.sum(), 2.25 / (np.pi * middle * (RATIO ** 0.5 - RATIO ** -0.5))
    integral = np.cumsum(energy[len(h) - 1::-1])[::-1]
    figures = dict(fitted(10 * np.log10(integral / total)))
    for name, te in [("c50_db", 0.05), ("c80_db", 0.08)]:
        late = np.interp((te - delay) * RATE, np.arange(len(h)), integral) / total
        figures[name] = 10 * np.log10(1 / late - 1)
    figures["centre_time_s"] = (np.fft.fftfreq(n, RATE / n) * energy).sum() / total + delay
    return figures


def test_octaves_equal_scipy(folder):
    """Each octave of the noise has its own decay: 2.1 s at 63 Hz to 0.5 s at 8 kHz."""
    n, h = 3 * RATE, np.zeros(3 * RATE)
    for i, hz in enumerate(OCTAVES):
        edges = np.array([RATIO ** -0.5, RATIO ** 0.5]) * midband(hz)
        band = scipy.signal.sosfilt(scipy.signal.butter(4, edges, "band", fs=RATE, output="sos"),
                                    generator(10 + i).standard_normal(n))
        h += band / band.std() * 10 ** (-3 * np.arange(n) / RATE / (2.1 * 0.815 ** i))
    h[0] = np.abs(h).max()  # frame 0 is the start
    h = h.astype(np.float32)
    octaves = acoustics(h)["octave"]
    assert [band["hz"] for band in octaves] == OCTAVES
    for band in octaves:
        want = octave_figures(h.astype(np.float64), band["hz"])
        for name in [*TIMES, "centre_time_s"]:
            assert band[name] == pytest.approx(want[name], rel=0.005), (band["hz"], name)
        for name in ["c50_db", "c80_db"]:
            assert band[name] == pytest.approx(want[name], abs=0.05), (band["hz"], name)
        assert (band["drr_db"] is None) == (band["hz"] < 1000)
    assert octaves[0]["t30_s"] > 1.5 and octaves[-1]["t30_s"] < 0.6


@pytest.mark.parametrize("hz", [63, 125])
def test_the_filter_does_not_lengthen_a_short_decay(folder, hz):
    """The shortest decay that the filter allows is 0.09 s at 63 Hz; run forwards, its own ringing would take longer.
    2 %: the curve of a sine has steps."""
    shortest, t = 4 / (midband(hz) * (RATIO ** 0.5 - RATIO ** -0.5)), np.arange(RATE) / RATE
    for t60, is_there in [(1.02 * shortest, True), (0.95 * shortest, False)]:
        h = np.cos(2 * np.pi * midband(hz) * t) * 10 ** (-3 * t / t60)
        band = acoustics(h)["octave"][OCTAVES.index(hz)]
        for name in ["t20_s", "t30_s"]:
            assert band[name] == (pytest.approx(t60, rel=0.02) if is_there else None)
        assert is_there or f"it is shorter than the {shortest:.2g} s that" in band["reasons"]["t30_s"]


def test_octaves_stay_below_half_the_rate(folder):
    assert [band["hz"] for band in acoustics(decay(1, 0.5, rate=16000), 16000)["octave"]] == OCTAVES[:-1]
    assert len(acoustics(decay(1, 0.5, rate=22800), 22800)["octave"]) == 8


def test_the_table_shows_the_octaves(folder):
    h = decay(1.5, 1.0).astype(np.float32)
    said, got = good("info", write("h.wav", h)).stdout, acoustics(h)
    assert f"acoustics        EDT 1.00 s, T20 1.00 s, C50 -0.0 dB, C80 {got['c80_db']:+.1f} dB, D50 50 %, Ts" in said
    for band in got["octave"]:
        row = next(line.split() for line in said.splitlines() if line.startswith(f"  {band['hz']:>13} Hz"))
        assert row[2:6] == [f"{band[name]:.2f}" for name in TIMES] + [f"{band['c50_db']:+.1f}"]


@pytest.mark.parametrize("edges,played", [((200, 3000), range(1, 7)), ((25, 80), range(0, 2))])
def test_octaves_outside_the_band_of_a_loudspeaker_are_marked(folder, edges, played):
    """Their figures would be those of the octaves beside them. The table fits 80 columns."""
    butter = scipy.signal.butter(4, edges, "band", fs=RATE, output="sos")
    h = scipy.signal.sosfilt(butter, decay(1, 0.4)) + generator(3).standard_normal(RATE) * 1e-5
    table = good("info", write("h.wav", h.astype(np.float32))).stdout.split("octave  ")[1].splitlines()[:10]
    octaves = acoustics(h)["octave"]
    for i, (row, band) in enumerate(zip(table[2:], octaves)):
        assert band["outside_band"] == ("outside the band: " in row) == (i not in played), row
        assert (band["level_db"] > -25) == (i in played) and (i in played or f"{band['level_db']:.0f} dB" in row)
    assert max(map(len, table)) < 80 and 0 in [band["level_db"] for band in octaves]


# ---- gains ----------------------------------------------------------------------------------------------------------
def largest_gain(*responses):
    """The maximum of the sum of |H|, by scipy's optimisation of the direct sum around the largest bins."""
    n = max(map(len, responses))
    size = 1 << int(np.ceil(np.log2(16 * n + 64)))
    bins = sum(np.abs(np.fft.rfft(h, size)) for h in responses)

    def total(w):
        return sum(abs(np.dot(h, np.exp(-1j * w * np.arange(len(h))))) for h in responses)

    tops = np.flatnonzero((bins >= np.roll(bins, 1)) & (bins >= np.roll(bins, -1)))
    tops = np.union1d(tops, [0, len(bins) - 1])
    best = bins.max()
    for k in tops[np.argsort(bins[tops])[-6:]]:
        found = scipy.optimize.minimize_scalar(lambda w: -total(w), bounds=2 * np.pi / size * np.array([k - 1, k + 1]),
                                               method="bounded", options={"xatol": 1e-7 / n})
        best = max(best, -found.fun)
    return 20 * np.log10(best)


def hard_filters():
    for n in [1, 2, 3, 5, 31, 32, 33, 64, 101, 127, 128, 129, 255, 256, 257, 700]:
        rng, m = generator(n), np.arange(n)
        for decays in [0, 4]:
            yield rng.standard_normal(n) * np.exp(-decays * m / n)
        middle, size = rng.uniform(0.1, 0.4), 1 << int(np.ceil(np.log2(max(2 * n, 64))))
        yield np.cos(2 * np.pi * middle * m)
        yield np.cos(2 * np.pi * middle * m) + np.cos(2 * np.pi * (middle + 0.7 / n) * m + 1)  # two close resonances
        yield np.cos(2 * np.pi * (size // 5 + 0.5) / size * (m - n // 2))  # halfway between two bins
        yield np.ones(n)  # at 0 Hz
        yield (-1.0) ** m  # at half the rate
        yield np.hanning(n + 2)[1:-1] * np.cos(np.pi * (1 - 0.3 / n) * (m - (n - 1) / 2))  # beside half the rate
    yield scipy.signal.firwin(513, 0.3)  # many equal maxima
    yield np.sin(np.pi * np.arange(512) ** 2 / 512)  # nearly flat


def test_the_largest_sine_gain_is_exact(folder):
    filters = [np.asarray(h, np.float32) for h in hard_filters()]
    assert len(filters) > 120
    h = np.zeros((777, len(filters)), np.float32)
    for ch, one in enumerate(filters):
        h[ch % 70:ch % 70 + len(one), ch] = one
    report = info(h)
    got = np.array([channel["response_peak_db"] for channel in report["channel"]])
    want = np.array([largest_gain(one.astype(np.float64)) for one in filters])
    assert np.abs(got - want).max() <= 0.001, (np.abs(got - want).max(), np.argmax(np.abs(got - want)))
    for channel, one in zip(report["channel"], filters):  # and it is reached at the frequency that is named
        w = 2 * np.pi * channel["response_peak_hz"] / RATE
        at = abs(np.dot(one.astype(np.float64), np.exp(-1j * w * np.arange(len(one)))))
        assert 20 * np.log10(at) == pytest.approx(channel["response_peak_db"], abs=0.001)
    assert report["largest_response_db"] == got.max()


def test_headroom_of_a_configuration(folder):
    """Of each output: the sum over its inputs of |H|, with gains; delays change nothing."""
    h = generator(5).standard_normal((300, 3)).astype(np.float32) * 0.2
    write("h.wav", h)
    (folder / "t.conf").write_text(
        "/convolver/new 3 4 256 4096\n/impulse/read 1 1 1 0 0 0 1 h.wav\n/impulse/read 2 1 -0.5 100 0 0 2 h.wav\n"
        "/impulse/read 3 1 0.7 33 0 0 1 h.wav\n/impulse/read 1 2 1 0 0 0 3 h.wav\n/output/name 3 none\n"
        "/impulse/read 1 4 1 0 0 0 3 h.wav\n")
    report = json.loads(good("info", "t.conf", "--json").stdout)
    x = h.astype(np.float64)
    want = [largest_gain(x[:, 0] * 1.7, x[:, 1] * 0.5), largest_gain(x[:, 2]), None, largest_gain(x[:, 2])]
    got = [output["response_peak_db"] for output in report["output_gain"]]
    assert got[2] is None and report["output_gain"][2]["suggested_gain_db"] == 0
    for ch in (0, 1, 3):
        assert got[ch] == pytest.approx(want[ch], abs=0.001)
    gain = -int(np.ceil(want[0]))
    assert report["suggested_gain_db"] == report["output_gain"][0]["suggested_gain_db"] == gain < 0
    said = good("info", "t.conf").stdout
    hz = report["output_gain"][0]["response_peak_hz"]
    assert f"largest gain {want[0]:+.1f} dB (output 1, all inputs, {hz:.0f} Hz): use --gain {gain}\n" in said
    assert "output 3 none: silent\n" in said
    assert "plan for" not in said and "plan for" in good("info", "t.conf", "--plan").stdout


def test_headroom_of_a_mask(folder):
    h = np.zeros((100, 2), np.float32)
    h[3] = [0.9, 0.5]
    write("h.wav", h)
    said = good("info", "h.wav").stdout
    assert "largest gain -0.9 dB (channel 1, 0 Hz): no sine clips, and no --gain is needed\n" in said
    write("h.wav", h * np.float32(2.76))
    assert "largest gain +7.9 dB (channel 1, 0 Hz): use --gain -8\n" in good("info", "h.wav").stdout
    write("h.wav", h * 2)
    assert info(h * 2)["suggested_gain_db"] == -6 and info(h)["suggested_gain_db"] == 0
    write("h.wav", h * 0)
    assert "largest gain" not in good("info", "h.wav").stdout


def test_headroom_of_true_stereo_counts_both_inputs(folder):
    h = generator(6).standard_normal((200, 4)).astype(np.float32)
    x = h.astype(np.float64)
    report = info(h)
    want = max(largest_gain(x[:, 0], x[:, 2]), largest_gain(x[:, 1], x[:, 3]))
    assert report["true_stereo"]["response_peak_db"] == pytest.approx(want, abs=0.001)
    assert f"largest gain {want:+.1f} dB (true stereo, both inputs" in good("info", "h.wav").stdout
    assert info(h[:, :2])["true_stereo"] is None


def test_the_suggested_gain_is_enough(folder):
    """The loudest sine through the shipped hall comes out below full scale with it, and above without."""
    report = json.loads(good("info", BUILD / "impulses/hall.wav", "--json").stdout)
    channel = max(report["channel"], key=lambda c: c["response_peak"])
    x = np.sin(2 * np.pi * channel["response_peak_hz"] * np.arange(8 * RATE) / RATE)
    write("x.wav", x * scipy.signal.windows.tukey(len(x), 0.5))
    for gain, clips in [("0", True), (str(report["suggested_gain_db"]), False)]:
        done = good("convolve", "x.wav", BUILD / "impulses/hall.wav", "-o", "y.wav", "--backend", "cpu", "--json", "-q",
                    "--gain", gain, "--format", "wav:float")
        assert (json.loads(done.stdout)["peak"] > 1) == clips
