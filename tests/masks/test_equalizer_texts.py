"""Filters of Equalizer APO, AutoEq and REW as masks; REW's impulse responses; HeSuVi's 14 channels.

The oracle is a float64 recursion with the coefficients of the Audio EQ Cookbook, computed here.
"""

import json
import math
import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.fft
import scipy.signal
from conftest import HALOCONV, assert_close, convolve, good, haloconv, noise, read, refused, write

NULL = 10 ** (-110 / 20)  # of the peak


# ---- the oracle ------------------------------------------------------------------------------------------------------
def section(kind, hz, gain=0.0, q=math.sqrt(0.5), slope=None, octaves=None, rate=48000):
    """(b, a) of a section of the cookbook."""
    w = 2 * np.pi * hz / rate
    c, s, A = np.cos(w), np.sin(w), 10 ** (gain / 40)
    alpha = s / (2 * q)
    if slope is not None:
        alpha = s / 2 * math.sqrt((A + 1 / A) * (1 / slope - 1) + 2)
    if octaves is not None:
        alpha = s * math.sinh(math.log(2) / 2 * octaves * w / s)
    root = 2 * math.sqrt(A) * alpha
    sign = {"low": 1, "high": -1}.get(kind, 0)
    if sign:
        b = [A * ((A + 1) - sign * (A - 1) * c + root), sign * 2 * A * ((A - 1) - sign * (A + 1) * c),
             A * ((A + 1) - sign * (A - 1) * c - root)]
        a = [(A + 1) + sign * (A - 1) * c + root, -sign * 2 * ((A - 1) + sign * (A + 1) * c),
             (A + 1) + sign * (A - 1) * c - root]
        return np.array(b), np.array(a)
    b = {"peak": [1 + alpha * A, -2 * c, 1 - alpha * A], "lp": [(1 - c) / 2, 1 - c, (1 - c) / 2],
         "hp": [(1 + c) / 2, -(1 + c), (1 + c) / 2], "bp": [alpha, 0, -alpha], "notch": [1, -2 * c, 1],
         "ap": [1 - alpha, -2 * c, 1 + alpha]}[kind]
    a = [1 + alpha / A, -2 * c, 1 - alpha / A] if kind == "peak" else [1 + alpha, -2 * c, 1 - alpha]
    return np.array(b), np.array(a)


def corner(sign, hz, gain, slope):
    return hz * 10 ** (sign * abs(gain) / 80 / slope)


def slope_of(q, gain):
    A = 10 ** (gain / 40)
    return 1 / ((1 / q ** 2 - 2) / (A + 1 / A) + 1)


FILTERS = {
    "PK Fc 50.0 Hz Gain -10.0 dB Q 2.50": section("peak", 50, -10, 2.5),
    "Modal    Fc     100 Hz  Gain   3.0 dB  Q  5.41  T60 target   100 ms": section("peak", 100, 3, 5.41),
    "PEQ  Fc 100 Hz  Gain 1.0 dB  BW Oct 0.167": section("peak", 100, 1, octaves=0.167),
    "LP       Fc   8000 Hz": section("lp", 8000),
    "LPQ      Fc  10000 Hz  Q  0.400": section("lp", 10000, q=0.4),
    "HP       Fc    30.0 Hz": section("hp", 30),
    "HPQ      Fc    20.0 Hz  Q  0.500": section("hp", 20, q=0.5),
    "BP Fc 1000 Hz Q 0.100": section("bp", 1000, q=0.1),
    "NO       Fc     800 Hz": section("notch", 800, q=30),
    "AP       Fc     900 Hz  Q  0.707": section("ap", 900, q=0.707),
    "LS       Fc     300 Hz  Gain   5.0 dB": section("low", 300, 5, slope=0.9),
    "HS       Fc   1000 Hz  Gain  -3.0 dB": section("high", 1000, -3, slope=0.9),
    "LSC 10.8 dB Fc     300 Hz  Gain   5.0 dB": section("low", 300, 5, slope=0.9),
    "LSC Fc     300 Hz  Gain   5.0 dB Q 0.6473": section("low", 300, 5, 0.6473),
    "HSC 6 dB Fc     100 Hz  Gain   -6.0 dB": section("high", 100, -6, slope=0.5),
    "LS 6dB   Fc    50.0 Hz  Gain   7.2 dB": section("low", corner(1, 50, 7.2, 0.5), 7.2, slope=0.5),
    "HS 12dB  Fc     500 Hz  Gain   5.0 dB": section("high", corner(-1, 500, 5, 1), 5, slope=1),
    "LS Fc 200 Hz Gain 6 dB Q 0.6": section("low", corner(1, 200, 6, slope_of(0.6, 6)), 6, 0.6),
    "PK Fc 1,500 Hz Gain 6,0 dB Q 1,41": section("peak", 1500, 6, 1.41),  # a separator of thousands, decimal commas
    **{f"PK Fc {hz} Hz Gain {minus}6.0 dB Q 1.41": section("peak", 1250, -6, 1.41)
       for hz, minus in [("1 250", "-"), ("1\u00a0250", "-"), ("1\u202f250,0", "\u2212"),
                         ("1\u2019250", "-"), ("1.250,00", "-")]},
    "LS 6\u00a0dB   Fc\u00a050.0\u00a0Hz  Gain   7.2\u00a0dB": section("low", corner(1, 50, 7.2, 0.5), 7.2, slope=0.5),
    "IIR Order 2 Coefficients 0.0380602 0.0761205 0.0380602 1.2706 -1.84776 0.729402":
        (np.array([0.0380602, 0.0761205, 0.0380602]), np.array([1.2706, -1.84776, 0.729402])),
    "IIR Order 3 Coefficients 1 2 0 -1 2 0.5 0.25 0.125": (np.array([1, 2, 0, -1]), np.array([2, 0.5, 0.25, 0.125])),
}


def through(text, x, rate=48000):
    """x [n][channels] through the text, by the program."""
    with open("eq.txt", "w", encoding="utf-8") as file:
        file.write(text)
    write("x.wav", x, rate)
    convolve("x.wav", "eq.txt", "y.wav")
    return read("y.wav")


def assert_null(got, want):
    n = max(len(got), len(want))
    got, want = (np.pad(y, ((0, n - len(y)), (0, 0))) for y in (got, want))
    error = np.abs(got - want).max() / np.abs(want).max()
    assert error <= NULL, f"{20 * np.log10(error):.1f} dB"


def recursion(x, *sections):
    """x through sections in series, and 4 s of their decay."""
    y = np.pad(x.astype(np.float64), ((0, 192000), (0, 0)))
    for b, a in sections:
        y = scipy.signal.lfilter(b, a, y, axis=0)
    return y


# ---- filters ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("line", FILTERS)
def test_every_filter_nulls_with_the_cookbook(folder, line):
    x = noise(2000)
    assert_null(through(f"Filter 1: ON {line}\n", x), recursion(x, FILTERS[line]))


def test_filters_in_series_with_preamp_and_delay(folder):
    x = noise(2000, 2)
    lines = list(FILTERS)[:8]
    text = "Room EQ V5.19\nNotes:Average\nEqualiser: Generic\n" + "".join(
        f"Filter {i:2}: ON  {line}\n" for i, line in enumerate(lines))
    text += "Filter 20: ON  None\nFilter 21: OFF PK Fc 100 Hz Gain 20 dB Q 1\nPreamp: -6.5 dB\nDelay: 2 ms\n# Filter\n"
    want = recursion(x, *(FILTERS[line] for line in lines)) * 10 ** (-6.5 / 20)
    assert_null(through(text, x), np.pad(want, ((96, 0), (0, 0))))


def test_filters_in_series_are_no_longer_than_the_longest(folder):
    lengths = []
    for n in (1, 8):
        (folder / "eq.txt").write_text("Filter: ON PK Fc 50 Hz Gain -6 dB Q 2\n" * n)
        lengths.append(json.loads(good("info", "eq.txt", "--rate", 48000, "--json").stdout)["frames"])
    assert lengths[1] < 1.6 * lengths[0], lengths


@pytest.mark.parametrize("rate", [44100, 96000])
def test_filters_are_computed_for_the_rate_of_the_session(folder, rate):
    x = noise(2000)
    got = through("Filter: ON PK Fc 5000 Hz Gain 9 dB Q 3\n", x, rate)
    assert_null(got, recursion(x, section("peak", 5000, 9, 3, rate=rate)))


BANDS = {"a few bands": "20 -7.1; 25 -6; 100 -2; 1000 0; 16000 -3",
         "ISO bands, unsorted": "1000 0; 25 6; 40 4.5; 63 3; 100 1.5; 160 0; 6300 1.5; 10000 3; 16000 3"}


@pytest.mark.parametrize("bands", BANDS)
def test_a_graphic_equaliser_has_its_curve_and_minimum_phase(folder, bands):
    h = through(f"GraphicEQ: {BANDS[bands]}\n", np.ones((1, 1), np.float32))[:, 0]
    points = np.array(sorted(tuple(map(float, p.split())) for p in BANDS[bands].split(";")))
    hz = np.geomspace(10, 23000, 500)
    want = np.interp(np.log(hz), np.log(points[:, 0]), points[:, 1])
    got = scipy.signal.freqz(h, worN=hz, fs=48000)[1]
    error = np.abs(20 * np.log10(np.abs(got)) - want).max()
    assert error < 0.05, error  # at the kinks of the curve, whose responses are the longest
    spectrum = scipy.fft.fft(h, 1 << 19)
    least = -np.imag(scipy.signal.hilbert(np.log(np.abs(spectrum))))  # the phase with the least delay
    error = np.abs(np.angle(spectrum * np.exp(-1j * least))).max()
    assert error < 2e-3, error


def test_the_program_agrees_with_autoeq(folder):
    """The parametric filters of the package autoeq on the same text: within 0.01 dB."""
    sys.path.insert(0, os.environ.get("AUTOEQ", ""))
    peq = pytest.importorskip("autoeq.peq")
    hz = np.geomspace(20, 20000, 400)
    kinds = [peq.LowShelf(hz, 48000, fc=105, q=0.7, gain=5.5), peq.Peaking(hz, 48000, fc=1500, q=1.41, gain=-3),
             peq.HighShelf(hz, 48000, fc=10000, q=0.7, gain=-2)]
    want = sum(kind.fr for kind in kinds)
    h = through("Preamp: 0 dB\nFilter 1: ON LSC Fc 105 Hz Gain 5.5 dB Q 0.70\n"
                "Filter 2: ON PK Fc 1500 Hz Gain -3.0 dB Q 1.41\nFilter 3: ON HSC Fc 10000 Hz Gain -2.0 dB Q 0.70\n",
                np.ones((1, 1), np.float32))[:, 0]
    got = 20 * np.log10(np.abs(scipy.signal.freqz(h, worN=hz, fs=48000)[1]))
    assert np.abs(got - want).max() < 0.01


# ---- channels --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_a_text_in_utf_16_is_read(folder, encoding):
    x = noise(500, 2)
    text = "\ufeff# \u00e4\U0001f3a7\r\nChannel: R\r\nInclude: \u00fc.txt\r\n"
    (folder / "\u00fc.txt").write_bytes("\ufeffPreamp: -6 dB\r\n".encode(encoding))
    (folder / "eq.txt").write_bytes(text.encode(encoding))
    write("x.wav", x)
    convolve("x.wav", "eq.txt", "y.wav")
    assert_null(read("y.wav"), x * [1, 10 ** (-6 / 20)])


def test_a_text_without_channels_fits_any_number_of_inputs(folder):
    x = noise(500, 5)
    assert_null(through("Preamp: -6 dB\n", x), x * 10 ** (-6 / 20))


def test_channels_are_selected_by_name_and_number(folder):
    x = noise(500, 6)
    got = through("Channel: L 2\nPreamp: -6 dB\nChannel: SL\nPreamp: 3 dB\nChannel: all\nPreamp: 1 dB\n", x)
    db = np.array([-5, -5, 1, 1, 4, 1])
    assert_null(got, x * 10 ** (db / 20))


def test_copy_mixes_what_the_channels_had_before_the_line(folder):
    x = noise(500, 2)
    got = through("Copy: L=L+0.5*R R=-6dB*L V=R\nChannel: V\nPreamp: 6 dB\nCopy: R=R+V\n", x)
    want = np.stack([x[:, 0] + 0.5 * x[:, 1], x[:, 0] * 10 ** -0.3 + x[:, 1] * 10 ** 0.3], 1)
    assert_null(got, want)


def test_channels_of_a_convolution_file_go_round(folder):
    h, x = noise(50, 2, seed=2), noise(500, 4)
    write("room.wav", h)
    got = through("Channel: L R RL RR\nConvolution: room.wav\n", x)
    want = np.stack([scipy.signal.fftconvolve(x[:, c].astype(float), h[:, c % 2]) for c in range(4)], 1)
    assert_null(got, want)


def test_an_included_text_is_read_where_it_stands(folder):
    """Its paths are beside it, and the channels and the stage that it selects end with it."""
    x, h = noise(500, 2), noise(50, seed=3)
    (folder / "sub" / "sub").mkdir(parents=True)
    write("sub/h.wav", h)
    (folder / "sub" / "more.txt").write_text("Channel: L\nConvolution: h.wav\nInclude: sub\\one.txt\nStage: capture\n")
    (folder / "sub" / "sub" / "one.txt").write_text("Preamp: -6 dB\n")
    got = through("Include: sub\\more.txt\nPreamp: 3 dB\n", x)
    left = scipy.signal.fftconvolve(x[:, 0].astype(float), h[:, 0].astype(float)) * 10 ** (-6 / 20)
    want = np.stack([left, np.pad(x[:, 1].astype(float), (0, 49))], 1) * 10 ** (3 / 20)
    assert_null(got, want)


def test_included_texts_end(folder):
    """Texts that include each other, or more and more others: 10^6 times 1 MB."""
    (folder / "loop.txt").write_text("Include: loop.txt\n" * 1000)
    for i in range(6):
        (folder / f"t{i}.txt").write_text(f"Include: t{i + 1}.txt\n" * 10)
    (folder / "t6.txt").write_text("# nothing\n" * 100000)
    for text in ("loop.txt", "t0.txt"):
        refused("info", text, says="include each other", timeout=60)


def test_a_text_may_have_thousands_of_filters_in_series(folder):
    """On a small stack: nothing recurses along them."""
    (folder / "eq.txt").write_text("Filter: ON AP Fc 9000 Hz Q 0.5\n" * 4000)
    done = subprocess.run(["sh", "-c", 'ulimit -s 512; exec "$0" "$@"', HALOCONV, "check", "eq.txt"], timeout=300,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 0 and "ok: 1 channel" in done.stdout, done


def test_a_filter_of_several_channels_is_told_once(folder):
    write("room.wav", noise(50, 2))
    (folder / "eq.txt").write_text("Channel: L R\nConvolution: room.wav\nFilter: ON PK Fc 1000 Hz Gain 6 dB Q 2\n")
    done = good("import", "eq.txt", "-o", "x.conf")
    assert done.stderr.count("becomes") == 1, done.stderr


# ---- what has no effect ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("line,plays,says", [
    ("Filter: ON PK Fc 1000 Hz Gain 3 dB Gain 5 dB Q 2", ("peak", 1000, 3, 2), "Gain occurs twice, and the first counts"),
    ("Filter: ON PK Fc 1000 Hz Gain 3 dB Q 2 Q 3", ("peak", 1000, 3, 2), "Q occurs twice"),
    ("Filter: ON PK Fc 1000 Hz Fc 200 Hz Gain 3 dB Q 2", ("peak", 1000, 3, 2), "Fc occurs twice"),
    ("Filter: ON LP Fc 1000 Hz Gain 3 dB Q 2", ("lp", 1000, 0, 2), "Gain has no effect on LP"),
    ("Filter: ON LSC Fc 300 Hz Gain 5 dB Q 0.6 BW Oct 2", ("low", 300, 5, 0.6), "BW Oct has no effect on a shelf")])
def test_a_value_without_effect_is_named_and_the_others_play(folder, line, plays, says):
    x = noise(2000)
    assert_null(through(line + "\n", x), recursion(x, section(*plays)))
    assert says in good("check", "eq.txt").stderr


@pytest.mark.parametrize("line,same,says", [
    ("Filter: ON PK Fc 1000 Hz Gain 3 dB BW Oct 1 Q 3", "Filter: ON PK Fc 1000 Hz Gain 3 dB BW Oct 1", "Q has no effect beside BW Oct"),
    ("Filter: ON LSC 6 dB Fc 300 Hz Gain 3 dB Q 2", "Filter: ON LSC 6 dB Fc 300 Hz Gain 3 dB", "Q has no effect beside the slope"),
    ("Copy: L=0.5*L L=R", "Copy: L=R", "assigns L twice, and the last counts")])
def test_of_two_that_contradict_each_other_the_one_without_effect_is_named(folder, line, same, says):
    x = noise(500, 2)
    got = through(line + "\n", x)
    assert says in good("check", "eq.txt").stderr
    assert np.array_equal(got, through(same + "\n", x))


@pytest.mark.parametrize("name", ["preamp", "PREAMP", "graphiceq", "filter 1", "FILTER", "convolution"])
@pytest.mark.parametrize("above", ["", "Preamp: 0 dB\n"])
def test_a_command_in_other_letters_is_refused_as_equalizer_apo_ignores_it(folder, name, above):
    (folder / "eq.txt").write_text(f"{above}{name}: -6 dB\n")
    refused("check", "eq.txt", says=f'"{name}" is not a command, as Equalizer APO heeds')


# ---- what cannot be done ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("line,says", [
    ("Filter 1: ON PK Gain 3 dB Q 1", "Fc"), ("Filter 1: ON PK Fc 100 Hz Q 1", "Gain"),
    ("Filter 1: ON PK Fc 100 Hz Gain 3 dB", "BW Oct"), ("Filter 1: ON XX Fc 100 Hz", "XX"),
    ("Filter 1: ON PK Fc -5 Hz Gain 3 dB Q 1", "Fc"), ("Filter 1: ON LS 40 dB Fc 50 Hz Gain 90 dB", "slope"),
    ("Filter: ON IIR Order 2 Coefficients 1 2 3", "coefficient 4"), ("Filter 1: maybe", "ON"),
    ("Filter: ON IIR Order 2 Coefficients 1 0 0 1 -2.1 1.1", "not stable"),
    ("Filter: ON PK Fc 1 k Hz Gain 3 dB Q 1", '"1 k Hz'), ("Filter: ON PK Fc 1 25 Hz Gain 3 dB Q 1", '"1 25 Hz'),
    ("Filter: ON PK Fc 100 Hz Gain 3 dB Q 2 7", '"2 7" behind Q'), ("Filter: ON PK Fc 100 Hz 200 Hz Gain 3 dB Q 1", "behind Fc"),
    ("Preamp: -6 dB 3", "is not a gain"), ("Delay: 2 ms 3", "is not a delay"),
    ("Filter: ON PK Fc 1kHz Gain 3 dB Q 1", '"1kHz'), ("Filter: ON PK Fc 12 500 0 Hz Gain 3 dB Q 1", '"12 500 0'),
    ("Filter: ON PK Fc 100 Hz Gain 3 x dB Q 1", '"3 x dB'), ("Filter: ON PK Fc 100 Hz Gain 3 dB Q 1/2", '"1/2'),
    ("Filter: ON PK Fc 100 Hz Gain 3 dB BW Oct 1/3", '"1/3'), ("Filter: ON LS 6 x dB Fc 50 Hz Gain 9 dB", '"6 x dB'),
    ("Filter: ON IIR Order 1 Coefficients 1 0x 0 0.5", "coefficient 2"), ("GraphicEQ: 20 -7; 1 250 -3", "1250 for 1 250"),
    ("Preamp: -3 x dB", "gain"), ("Delay: 1 x ms", "delay"), ("Copy: L=0,5*R", "factor"),
    ("Preamp: loud", "gain"), ("Delay: 5 m", "delay"), ("Copy: L=1.0", "1.0 adds a constant (DC)"), ("Copy: L", "assignment"),
    ("Channel: L XX", "XX"), ("If: sampleRate == 48000", "expressions"), ("Filter: ON PK Fc `f` Hz", "expressions"),
    ("VSTPlugin: Library x.dll", "filter"), ("MultiConvolution: L brir.wav", "MultiConvolution: no linear filter"),
    ("Convolutoin: room.wav", "write Convolution"), ("Fliter: ON PK Fc 100 Hz Gain 3 dB Q 1", "write Filter"),
    ("Chanel: L", "write Channel"), ("Preamb: -3 dB", "write Preamp"), ("Include: nowhere.txt", "nowhere.txt: No such file"),
    ("Include: .", "is a directory"),
    pytest.param("Copy: " + "L=L " * 65, "more than 64 assignments", id="65 assignments"),
    ("Convolution: nowhere.wav", "nowhere.wav"), ("GraphicEQ: 20", "GraphicEQ"),
    ("Device: A\nDevice: B", "several devices"),
])
def test_a_line_that_cannot_be_done_is_refused_with_its_number(folder, line, says):
    (folder / "eq.txt").write_text(f"Preamp: -3 dB\n{line}\n")
    done = haloconv("check", "eq.txt")
    assert done.returncode == 1
    assert any(f"eq.txt:{2 + line.count(chr(10))}:" in text and says in text for text in done.stderr.splitlines()), \
        done.stderr


@pytest.mark.parametrize("line,says", [("Unknown: 1", "is ignored"), ("Device: Headphones", "Headphones"),
                                       ("Stage: capture", "capture")])
def test_a_line_without_effect_is_told(folder, line, says):
    (folder / "eq.txt").write_text(f"Preamp: -3 dB\n{line}\n")
    done = haloconv("check", "eq.txt")
    assert done.returncode == 0 and "eq.txt:2:" in done.stderr and says in done.stderr, done.stderr


@pytest.mark.parametrize("name,type", [("h.pcm", "<f4"), ("h.raw", "<f4"), ("h.bin", "<f4"), ("h.dbl", "<f8")])
def test_bare_floats_of_drc_and_rephase_are_masks(folder, name, type):
    h, x = noise(50, seed=5), noise(300, 2)
    h.astype(type).tofile(name)
    write("x.wav", x, 44100)
    convolve("x.wav", name, "y.wav")
    assert_close(read("y.wav"), scipy.signal.fftconvolve(x.astype(float), h.astype(float), axes=0))


def test_integers_are_not_taken_for_bare_floats(folder):
    (noise(400) * 32767).astype("<i2").tofile("h.pcm")
    refused("info", "h.pcm", says="h.pcm")


# ---- REW and HeSuVi --------------------------------------------------------------------------------------------------
REW = """* Impulse Response data saved by REW V5.20.13
* IR is not normalised
* Source: 5 m, Left
* Dated: 1 May 2024 10:00:00
* Excitation: 256k Log Swept Sine, 1 sweep at -12.0 dBFS
0.5 // Peak value before normalisation
2 // Peak index
{n} // Response length
{interval!r} // Sample interval (seconds)
-0.001 // Start time (seconds)
* Data start
"""


def test_an_impulse_response_of_rew_is_read_with_its_rate(folder):
    h, x = noise(400, seed=3)[:, 0], noise(1000)
    (folder / "m.txt").write_text(REW.format(n=400, interval=1 / 44100) + "\n".join(f"{v:.9g}" for v in h) + "\n")
    assert json.loads(good("info", "m.txt", "--json").stdout)["rate"] == 44100
    write("x.wav", x, 44100)
    convolve("x.wav", "m.txt", "y.wav")
    assert_close(read("y.wav"), scipy.signal.fftconvolve(x[:, 0].astype(float), h.astype(float)))


def rew_text(path, h, peak="0.5", start="-0.001", statement="* IR is not normalised", rate=48000):
    head = REW.format(n=len(h), interval=1 / rate).replace("* IR is not normalised\n", statement and statement + "\n")
    head = head.replace("0.5 // Peak value before normalisation\n", peak and f"{peak} // Peak value before normalisation\n")
    path.write_text(head.replace("-0.001 //", f"{start} //") + "\n".join(f"{v:.9g}" for v in h) + "\n")


def played(path):
    """The response that convolve plays, and its messages."""
    write("one.wav", np.array([[1.0]]))
    done = good("convolve", "one.wav", path, "-o", "h.wav", "--format", "wav:float")
    return read("h.wav")[:, 0], done.stderr


@pytest.mark.parametrize("statement,peak,largest,scale,unknown", [
    ("* IR is normalised", "0.637", 1, 0.637, False),
    ("* IR is normalised", "6.37E-1", 0.9998, 0.637, False),     # the peak is between two samples
    ("* IR is normalised", "0.637", -1, 0.637, False),
    ("* IR is normalised", "-0.637", 1, -0.637, False),          # the polarity is that of the peak
    ("* IR is normalised", "-0.637", -1, 0.637, False),
    ("* IR is not normalised", "0.637", 0.637, 1, False),
    ("* IR is not normalised", "0", 0.25, 1, False),
    ("* IR is not normalised", "0.637", 1, 1, False),
    ("", "0.637", 1, 0.637, False),                              # nothing is said, but the samples reach 1
    ("", "0.637", 0.5, 1, False),
    ("", "", 1, 1, False),
    ("* IR is normalised", "", 1, 1, True),
    ("* IR is normalised", "0", 1, 1, True)])
def test_a_normalised_response_of_rew_has_its_level(folder, statement, peak, largest, scale, unknown):
    h = noise(90, seed=6)[:, 0].astype(float) * 2
    h[30] = largest
    rew_text(folder / "m.txt", h, peak, "0.0", statement)
    got, said = played("m.txt")
    assert_close(got[:, None], h * scale)
    assert ("its level is unknown" in said) == unknown and "header" not in said


def test_the_time_of_a_response_of_rew_is_told(folder):
    """t = 0 late in the file delays all that is played; the file is not cut without being asked."""
    h = np.zeros(48000)
    h[47779:47879] = noise(100, seed=2)[:, 0]
    h[47779] = 0.9
    h[30000] = 0.02  # 33 dB below: a cut by level stays before it
    for start, frame in (("-0.9953958333333333", 47779), ("-0.99539583", 47779), ("-0.99540", 47779), ("-0.5", 24000)):
        rew_text(folder / "m.txt", h, "1", start)
        got, said = played("m.txt")
        assert_close(got[:, None], h)
        ms = f"{-1000 * float(start):.2f} ms"
        assert said.count(f"m.txt: warning: t = 0 is at frame {frame} ({ms})") == 1 and "`haloconv mask trim`" in said
        assert f"t = 0 at frame {-48000 * float(start):.2f}" in good("info", "m.txt").stdout
        assert json.loads(good("info", "m.txt", "--json").stdout)["start_s"] == pytest.approx(float(start))
        good("mask", "trim", "m.txt", "--start", "--below", "300", "-o", "cut.wav")
        assert_close(read("cut.wav"), h[frame:47879])
    for start in ("0.0", "-0.009", "0.5"):
        rew_text(folder / "m.txt", h, "1", start)
        assert "t = 0" not in played("m.txt")[1]


def test_a_trim_keeps_a_peak_before_t_0(folder):
    h = np.zeros(2000)
    h[700], h[1000] = 0.9, 0.5
    rew_text(folder / "m.txt", h, "1", str(-1000 / 48000))
    good("mask", "trim", "m.txt", "--start", "--below", "300", "-o", "cut.wav")
    assert_close(read("cut.wav"), h[700:1001])


def test_an_unknown_line_in_the_head_of_rew_is_told(folder):
    rew_text(folder / "m.txt", [0.25, 0.5], "1", "0.0", "* IR is not normalised")
    text = (folder / "m.txt").read_text()
    assert "skipped" not in played("m.txt")[1]
    (folder / "m.txt").write_text(text.replace("* Data start", "80.0 // Data offset (dB)\n* Data start"))
    assert "skipped" not in played("m.txt")[1]
    (folder / "m.txt").write_text(text.replace("* Data start", "3 // Delay (samples)\n* Data start"))
    assert 'm.txt: warning: the header "3 // Delay (samples)" is skipped' in played("m.txt")[1]


@pytest.mark.parametrize("text,says", [
    (REW.format(n=1, interval=0.1).replace("-0.001 ", "-0,001 ") + "1\n", "m.txt:10: has a decimal comma"),
    (REW.format(n=1, interval=0.1).replace("0.5 ", "0,5 ") + "1\n", "m.txt:6: has a decimal comma"),
    (REW.format(n=1, interval=0.1).replace("-0.001 ", "later ") + "1\n", "m.txt:10: the start time in seconds is 0"),
    (REW.format(n=1, interval=0.1).replace("0.5 ", "nan ") + "1\n", "m.txt:6: the peak is nan"),
    ("* Freq(Hz)\tSPL(dB)\tPhase(degrees)\n20 70 1\n", "impulse response"),
    (REW.format(n=1, interval=0) + "1\n", "sample interval"),
    (REW.format(n=1, interval=0.1).replace("0.1 ", "0,1 ") + "1\n", "m.txt:9: has a decimal comma"),
    (REW.format(n=1, interval=0.1) + "0,25\n", "m.txt:12: has a decimal comma"),
    ("biquad1,\nb0=1.001,\nb1=-1.99,\nb2=0.99,\na1=1.99,\na2=-0.99\n", "biquads"),
    ("\xff\xfe1\0\n\0", "save it as UTF-8"),
    ("* Impulse\n* Data start\n1\n", "sample interval"),
], ids=["comma in start", "comma in peak", "no start", "no peak", "response", "no interval", "comma in interval", "comma in sample", "biquads", "UTF-16", "no head"])
def test_a_text_of_rew_that_is_no_impulse_response_is_refused(folder, text, says):
    (folder / "m.txt").write_text(text, encoding="latin-1")
    refused("info", "m.txt", says=says)


@pytest.mark.parametrize("n_in", [2, 6, 7, 8])
def test_hesuvi_plays_loudspeakers_to_two_ears(folder, n_in):
    h, x = noise(60, 14, seed=4).astype(float), noise(300, n_in).astype(float)
    write("h.wav", h)
    write("x.wav", x)
    convolve("x.wav", "h.wav", "y.wav")
    ears = [(0, 1), (8, 7), (6, 13), (6, 13), (4, 5), (12, 11), (2, 3), (10, 9)]  # FL FR FC LFE BL BR SL SR
    if n_in == 7:
        del ears[3]
    want = [sum(scipy.signal.fftconvolve(x[:, i], h[:, ears[i][ear]]) for i in range(n_in)) for ear in (0, 1)]
    assert_close(read("y.wav"), np.stack(want, 1))
