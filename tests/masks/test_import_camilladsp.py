"""Configurations of CamillaDSP. CamillaDSP is in no Debian release, so its pipeline is computed here in float64.

The biquads come from analog prototypes and scipy's bilinear transform, the crossovers from scipy's Butterworth design
and the fractional delays from Thiran's formula, as CamillaDSP's README describes them.
"""

import json
import math
import pathlib

import numpy as np
import pytest
import scipy.signal
from conftest import convolve, generator, good, haloconv, noise, read, refused, residual_db, write
from scipy.signal import lfilter

NULL_DB = -110
RATE = 48000
HAS_YAML = "yaml" in haloconv("--version").stdout
pytestmark = pytest.mark.skipif(not HAS_YAML, reason="no libyaml in the build; make setup installs it")
DEVICES = """
devices:
  samplerate: {rate}
  chunksize: 1024
  target_level: 512
  resampler: {{type: AsyncSinc, profile: Balanced}}
  capture: {{type: Alsa, channels: {n_in}, device: "hw:0", format: S32LE}}
  playback: {{type: Alsa, channels: {n_out}, device: "hw:1", format: S32LE}}
"""


# ---- the oracle -----------------------------------------------------------------------------------------------------
def digital(b, a, hz):
    """The prototype with its corner at 1 rad/s, by the bilinear transform that keeps `hz`."""
    return scipy.signal.bilinear(b, a, fs=0.5 / math.tan(math.pi * hz / RATE))


def width(hz, q=None, bandwidth=None, slope=None, gain=0.0):
    """1 / q."""
    A, w = 10 ** (gain / 40), 2 * math.pi * hz / RATE
    if bandwidth:
        return 2 * math.sinh(math.log(2) / 2 * bandwidth * w / math.sin(w))
    return math.sqrt((A + 1 / A) * (1 / (slope / 12) - 1) + 2) if slope else 1 / q


def biquad(kind, freq, gain=0.0, **steepness):
    A = 10 ** (gain / 40)
    if kind.endswith("FO"):
        b, a = {"LowpassFO": ([1], [1, 1]), "HighpassFO": ([1, 0], [1, 1]), "AllpassFO": ([-1, 1], [1, 1]),
                "LowshelfFO": ([1, A], [1, 1 / A]), "HighshelfFO": ([A * A, A], [1, A])}[kind]
        return digital(b, a, freq)
    d, root = width(freq, gain=gain, **steepness), math.sqrt(A)
    b, a = {"Lowpass": ([1], [1, d, 1]), "Highpass": ([1, 0, 0], [1, d, 1]), "Bandpass": ([d, 0], [1, d, 1]),
            "Notch": ([1, 0, 1], [1, d, 1]), "Allpass": ([1, -d, 1], [1, d, 1]),
            "Peaking": ([1, d * A, 1], [1, d / A, 1]),
            "Lowshelf": ([A, A * root * d, A * A], [A, root * d, 1]),
            "Highshelf": ([A * A, A * root * d, A], [1, root * d, A])}[kind]
    return digital(b, a, freq)


def general_notch(freq_p, freq_z, q_p, normalize_at_dc=False):
    p, z = math.tan(math.pi * freq_p / RATE), math.tan(math.pi * freq_z / RATE)
    gain = (p / z) ** 2 if normalize_at_dc else 1
    return scipy.signal.bilinear([gain, 0, gain * z * z], [1, p / q_p, p * p], fs=0.5)


def linkwitz_transform(freq_act, q_act, freq_target, q_target):
    act, target, hz = 2 * math.pi * freq_act, 2 * math.pi * freq_target, (freq_act + freq_target) / 2
    return scipy.signal.bilinear([1, act / q_act, act ** 2], [1, target / q_target, target ** 2],
                                 fs=math.pi * hz / math.tan(math.pi * hz / RATE))


def thiran(delay):
    """(b, a) of whole frames, and an allpass for the rest."""
    order = 1 if delay < 1.1 else 2
    whole = 0 if order == 1 else max(math.floor(delay - 1.1), 0)
    d = delay - whole
    a = [(-1) ** k * math.comb(order, k) * math.prod((d - order + n) / (d - order + k + n) for n in range(order + 1))
         for k in range(order + 1)]
    return [0] * whole + a[::-1], a


def series(*filters):
    def run(x):
        for b, a in filters:
            x = lfilter(b, a, x)
        return x
    return run


def butter(order, hz, kind, times=1):
    sos = scipy.signal.butter(order, hz, kind, fs=RATE, output="sos")
    return lambda x: scipy.signal.sosfilt(np.tile(sos, (times, 1)), x)


def graphic(gains, low=20.0, high=20000.0):
    octaves = math.log2(high / low) / len(gains)
    return series(*[biquad("Peaking", low * 2 ** ((i + 0.5) * octaves), gain, bandwidth=octaves)
                    for i, gain in enumerate(gains) if gain])


def delayed(frames, gain=1.0):
    return series(([0] * frames + [gain], [1]))


def a_biquad(kind, **parameters):
    text = ", ".join(f"{key}: {value}" for key, value in parameters.items())
    return f"type: Biquad\n    parameters: {{type: {kind}, {text}}}", series(biquad(kind, **parameters))


def a_filter(kind, text, oracle):
    return f"type: {kind}\n    parameters: {{{text}}}", oracle


FREE = ([1.0051540967655406, -1.9114181152906082, 0.9103652925755905], [1, -1.9114181152906082, 0.9155193893411311])
VALUES = [0.5, -0.25, 0.125, 1e-3]
CONSTRUCTS = {
    "lowpass": a_biquad("Lowpass", freq=1000, q=1.0),
    "highpass": a_biquad("Highpass", freq=80, q=0.5),
    "lowpass of first order": a_biquad("LowpassFO", freq=1000),
    "highpass of first order": a_biquad("HighpassFO", freq=300),
    "peaking by q": a_biquad("Peaking", freq=100, gain=-7.3, q=3),
    "peaking by bandwidth": a_biquad("Peaking", freq=1000, gain=12.0, bandwidth=2.0),
    "lowshelf by slope": a_biquad("Lowshelf", freq=200, gain=-12, slope=6),
    "lowshelf by q": a_biquad("Lowshelf", freq=1000, gain=5, q=0.6),
    "highshelf by slope": a_biquad("Highshelf", freq=1000, gain=-12, slope=9.5),
    "highshelf by q": a_biquad("Highshelf", freq=4000, gain=6, q=1.5),
    "lowshelf of first order": a_biquad("LowshelfFO", freq=100, gain=-6),
    "highshelf of first order": a_biquad("HighshelfFO", freq=100, gain=-6),
    "notch by q": a_biquad("Notch", freq=50, q=2.0),
    "notch by bandwidth": a_biquad("Notch", freq=1000, bandwidth=2.0),
    "bandpass by q": a_biquad("Bandpass", freq=1000, q=0.5),
    "bandpass by bandwidth": a_biquad("Bandpass", freq=9000, bandwidth=1.2),
    "allpass by q": a_biquad("Allpass", freq=1000, q=0.5),
    "allpass by bandwidth": a_biquad("Allpass", freq=400, bandwidth=1.2),
    "allpass of first order": a_biquad("AllpassFO", freq=1000),
    "general notch": a_filter("Biquad", "type: GeneralNotch, freq_p: 1000, freq_z: 2000, q_p: 2.0, normalize_at_dc: "
                              "true", series(general_notch(1000, 2000, 2.0, True))),
    "general notch above": a_filter("Biquad", "type: GeneralNotch, freq_p: 2500, freq_z: 800, q_p: 0.8",
                                    series(general_notch(2500, 800, 0.8))),
    "linkwitz transform": a_filter("Biquad", "type: LinkwitzTransform, freq_act: 100, q_act: 1.2, freq_target: 25, "
                                   "q_target: 0.7", series(linkwitz_transform(100, 1.2, 25, 0.7))),
    "free": a_filter("Biquad", "type: Free, a1: -1.9114181152906082, a2: 0.9155193893411311, b0: 1.0051540967655406, "
                     "b1: -1.9114181152906082, b2: 0.9103652925755905", series(FREE)),
    "butterworth low": a_filter("BiquadCombo", "type: ButterworthLowpass, freq: 500, order: 5", butter(5, 500, "low")),
    "butterworth high": a_filter("BiquadCombo", "type: ButterworthHighpass, freq: 70, order: 4", butter(4, 70, "high")),
    "first order": a_filter("BiquadCombo", "type: ButterworthLowpass, freq: 500, order: 1", butter(1, 500, "low")),
    "linkwitz-riley low": a_filter("BiquadCombo", "type: LinkwitzRileyLowpass, freq: 1000, order: 4",
                                   butter(2, 1000, "low", 2)),
    "linkwitz-riley high": a_filter("BiquadCombo", "type: LinkwitzRileyHighpass, freq: 300, order: 6",
                                    butter(3, 300, "high", 2)),
    "linkwitz-riley 2": a_filter("BiquadCombo", "type: LinkwitzRileyHighpass, freq: 900, order: 2",
                                 butter(1, 900, "high", 2)),
    "tilt": a_filter("BiquadCombo", "type: Tilt, gain: -5.0", series(biquad("Lowshelf", 110, 2.5, q=0.35),
                                                                     biquad("Highshelf", 3500, -2.5, q=0.35))),
    "five points": a_filter(
        "BiquadCombo", "type: FivePointPeq, fls: 125, gls: 1.0, qls: 0.7, fp1: 400, gp1: -0.5, qp1: 0.7, fp2: 1000, "
        "gp2: 1.5, qp2: 0.8, fp3: 2500, gp3: -0.25, qp3: 0.9, fhs: 8000, ghs: 0.5, qhs: 0.6",
        series(biquad("Lowshelf", 125, 1, q=0.7), biquad("Peaking", 400, -0.5, q=0.7),
               biquad("Peaking", 1000, 1.5, q=0.8), biquad("Peaking", 2500, -0.25, q=0.9),
               biquad("Highshelf", 8000, 0.5, q=0.6))),
    "graphic": a_filter("BiquadCombo", "type: GraphicEqualizer, gains: [0.0, 1.0, -2.0, 1.0, 3.0]",
                        graphic([0, 1, -2, 1, 3])),
    "graphic with ends": a_filter("BiquadCombo", "type: GraphicEqualizer, freq_min: 50, freq_max: 5000, gains: [2, -2]",
                                  graphic([2, -2], 50, 5000)),
    "difference equation": a_filter("DiffEq", "a: [1.0, -0.5, 0.3, -0.2], b: [0.2, 0.1, -0.4]",
                                    series(([0.2, 0.1, -0.4], [1, -0.5, 0.3, -0.2]))),
    "difference equation without a": a_filter("DiffEq", "b: [0.2, 0.1]", series(([0.2, 0.1], [1]))),
    "gain": a_filter("Gain", "gain: -6.5, inverted: true", delayed(0, -(10 ** (-6.5 / 20)))),
    "linear gain": a_filter("Gain", "gain: 0.3, scale: linear, mute: false", delayed(0, 0.3)),
    "delay in ms": a_filter("Delay", "delay: 2.51", delayed(120)),
    "delay in us": a_filter("Delay", "delay: 333, unit: us", delayed(16)),
    "delay in mm": a_filter("Delay", "delay: 1000, unit: mm", delayed(140)),
    "delay in samples": a_filter("Delay", "delay: 70, unit: samples, subsample: null", delayed(70)),
    "delay of half a frame": a_filter("Delay", "delay: 0.5, unit: samples, subsample: true", series(thiran(0.5))),
    "delay of two frames": a_filter("Delay", "delay: 2.05, unit: samples, subsample: true", series(thiran(2.05))),
    "fractional delay": a_filter("Delay", "delay: 0.71, unit: ms, subsample: true", series(thiran(0.71 * RATE / 1000))),
    "values": a_filter("Conv", f"type: Values, values: {VALUES}", series((VALUES, [1]))),
    "dummy": a_filter("Conv", "type: Dummy, length: 65536", delayed(0)),
    "volume": a_filter("Volume", "ramp_time: 200, fader: Aux1, limit: -3", delayed(0, 10 ** (-3 / 20))),
}


def through(text, x, rate=RATE):
    pathlib.Path("a.yml").write_text(text)
    write("x.wav", x, rate)
    convolve("x.wav", "a.yml", "y.wav")
    return read("y.wav")[:len(x)]


def test_every_filter_nulls_against_its_definition(folder):
    """One input goes to all filters, each on a channel of its own."""
    n, x = len(CONSTRUCTS), noise(40000, seed=4)
    text = DEVICES.format(rate=RATE, n_in=1, n_out=n) + "filters:\n"
    for i, (body, _) in enumerate(CONSTRUCTS.values()):
        text += f"  f{i}:\n    {body}\n"
    text += f"mixers:\n  fan:\n    channels: {{in: 1, out: {n}}}\n    mapping:\n"
    for i in range(n):
        text += f"      - {{dest: {i}, sources: [{'*in' if i else '&in {channel: 0, gain: 0}'}]}}\n"
    text += "pipeline:\n  - {type: Mixer, name: fan}\n"
    for i in range(n):  # `channel` until version 2, `channels` since version 3
        which = f"channel: {i}" if i % 2 else f"channels: [{i}]"
        text += f"  - {{type: Filter, {which}, names: [f{i}]}}\n"
    y = through(text, x)
    found = [(name, residual_db(y[:, i], oracle(x[:, 0].astype(float))))
             for i, (name, (_, oracle)) in enumerate(CONSTRUCTS.items())]
    assert max(db for _, db in found) <= NULL_DB, "\n".join(f"{name}: {db:.1f} dB" for name, db in found)


def test_values_of_camilladsps_own_tests(folder):
    """filters/biquad.rs, check_result: the first frames of a low pass, to three digits."""
    text = DEVICES.format(rate=44100, n_in=1, n_out=1) + (
        "filters: {l: {type: Biquad, parameters: {type: Lowpass, freq: 10000, q: 0.5}}}\n"
        "pipeline: [{type: Filter, names: [l]}]\n")
    y = through(text, np.eye(1, 8, dtype=np.float32).T, 44100)
    assert np.abs(y[:, 0] - [0.215, 0.461, 0.281, 0.039, 0.004, 0, 0, 0]).max() < 1e-3


PIPELINE = DEVICES.format(rate=RATE, n_in=2, n_out=3) + """
title: an active loudspeaker
filters:
  eq$: &eq
    type: Gain
    description: null
    parameters: {gain: -2}
  ir48000:
    type: Conv
    parameters: {type: Wav, filename: ir_$samplerate$_$channels$.wav, channel: 1}
  again: *eq
  dither: {type: Dither, parameters: {type: Shibata48, bits: 16}}
  limit: {type: Limiter, parameters: {clip_limit: -1}}
  loud: {type: Loudness, parameters: {reference_level: -25}}
  unused: {type: Conv, parameters: {type: Raw, filename: "missing.raw"}}
mixers:
  ways:
    channels: {in: 2, out: 3}
    mapping:
      - dest: 2
        sources: [{channel: 0, gain: -6}, {channel: 1, gain: 0.5, scale: linear, inverted: true}]
      - dest: 0
        sources: [{channel: 1, gain: null}, {channel: 0, mute: true}]
      - {dest: 1, mute: true, sources: [{channel: 0}]}
processors:
  squeeze: {type: Compressor, parameters: {channels: 2}}
pipeline:
  - {type: Filter, channels: [1], names: [eq$, again]}
  - {type: Processor, name: squeeze, bypassed: true}
  - {type: Mixer, name: ways}
  - {type: Filter, names: [ir$samplerate$], bypassed: false}
  - {type: Filter, channels: [0, 2], names: [dither, limit, loud]}
"""


def test_mixers_tokens_bypass_and_all_channels(folder):
    ir, x = noise(300, 2, seed=2), noise(3000, 2, seed=3)
    write("ir_48000_2.wav", ir, RATE)
    left, right = x[:, 0].astype(float), x[:, 1].astype(float) * 10 ** (-4 / 20)
    ways = [right, 0 * left, 10 ** (-6 / 20) * left - 0.5 * right]
    want = np.stack([np.convolve(way, ir[:, 1].astype(float))[:3000] for way in ways], 1)
    y = through(PIPELINE, x)
    assert residual_db(y, want) <= NULL_DB
    said = haloconv("check", "a.yml")
    assert said.returncode == 0
    for word in (":20: warning: filter dither", "limiter", "filter loud: loudness follows a volume control"):
        assert word in said.stdout + said.stderr, said.stdout + said.stderr


# bytes of a coefficient, its encoder, and what the encoder rounds to
RAW = {
    "S16LE": (2, lambda h: np.round(h * 32767).astype("<i2"), 1 / 32768),
    "S24LE": (4, lambda h: np.round(h * 8388607).astype("<i4") & 0xffffff, 1 / 8388608),
    "S24LE3": (3, lambda h: np.round(h * 8388607).astype("<i4").view("u1").reshape(-1, 4)[:, :3], 1 / 8388608),
    "S32LE": (4, lambda h: np.round(h * 2147483647).astype("<i4"), 1 / 2 ** 31),
    "FLOAT32LE": (4, lambda h: h.astype("<f4"), 0),
    "FLOAT64LE": (8, lambda h: h.astype("<f8"), 0),
    "S24_4_LJ_LE": (4, lambda h: np.round(h * 8388607).astype("<i4") << 8, 1 / 8388608),
    "F32_LE": (4, lambda h: h.astype("<f4"), 0),
    "TEXT": (1, None, 0),
}


@pytest.mark.parametrize("name", RAW)
def test_raw_files_of_every_format(name, folder):
    """A header is skipped, and a rest not read: in bytes, of a text in lines."""
    size, encode, step = RAW[name]
    h, skip = generator(9).uniform(-0.5, 0.5, 40), 6
    if encode:
        pathlib.Path("h.bin").write_bytes(b"header" + np.ascontiguousarray(encode(h)).tobytes())
    else:
        pathlib.Path("h.bin").write_text("4 3\nlength: 40\n" * 3 + "\n".join(map(repr, map(float, h))))
    text = DEVICES.format(rate=RATE, n_in=1, n_out=1) + (
        f"filters: {{c: {{type: Conv, parameters: {{type: Raw, filename: h.bin, format: {name}, "
        f"skip_bytes_lines: {skip}, read_bytes_lines: {30 * size}}}}}}}\n"
        "pipeline: [{type: Filter, channels: [0], names: [c]}]\n")
    y = through(text, np.eye(1, 60, dtype=np.float32).T)
    assert np.abs(y[:30, 0] - h[:30]).max() <= 2 * step + 1e-7 and np.abs(y[30:]).max() <= 1e-7


def test_another_session_rate_gets_the_same_filters(folder):
    """At 44.1 kHz: sections for that rate; delays and given coefficients in their own time."""
    text = DEVICES.format(rate=RATE, n_in=1, n_out=1) + """
filters:
  peak: {type: Biquad, parameters: {type: Peaking, freq: 1000, gain: 6, q: 1}}
  late: {type: Delay, parameters: {delay: 10}}
pipeline: [{type: Filter, channels: [0], names: [peak, late]}]
"""
    x = noise(8000, seed=6)
    w, A = 2 * np.pi * 1000 / 44100, 10 ** (6 / 40)
    alpha = np.sin(w) / 2
    want = lfilter([1 + alpha * A, -2 * np.cos(w), 1 - alpha * A], [1 + alpha / A, -2 * np.cos(w), 1 - alpha / A],
                   np.r_[np.zeros(441), x[:-441, 0].astype(float)])
    assert residual_db(through(text, x, 44100)[:, 0], want) <= NULL_DB


FILTERS = """
filters:
  f: {type: %s, parameters: {%s}}
pipeline:
  - {type: Filter, channels: [0], names: [f]}
"""
LONG = {"computed": ("Biquad", "type: Peaking, freq: 1, gain: 12, q: 30"),
        "a given recursion": ("DiffEq", "a: [1, -0.9999999], b: [1]"),
        "a given biquad": ("Biquad", "type: Free, a1: -0.9999999, a2: 0, b0: 1, b1: 0, b2: 0")}


@pytest.mark.parametrize("what", LONG)
def test_length_and_error_are_stated(what, folder):
    """A filter that rings for longer than 22 s is cut, and the warning says how much is missing."""
    pathlib.Path("a.yml").write_text(DEVICES.format(rate=RATE, n_in=1, n_out=1) + FILTERS % LONG[what])
    done = good("check", "a.yml")
    said = done.stdout + done.stderr
    assert "filter f: becomes 1048576 taps: the rest that is cut off is only" in said, said


REFUSED = {
    "compressor": ("processors: {c: {type: Compressor}}\npipeline:\n  - {type: Processor, name: c}\n",
                   ":11: pipeline: the processor"),
    "soft clipper": (FILTERS % ("Limiter", "soft_clip: true, clip_limit: 0"), ":11: filter f: a soft clipper"),
    "loudness at rest": (FILTERS % ("Loudness", "reference_level: 5"), "has an effect at rest"),
    "missing filter": ("pipeline: [{type: Filter, names: [nothing]}]\n", 'filter "nothing" does not exist'),
    "missing mixer": ("pipeline: [{type: Mixer, name: nothing}]\n", 'mixer "nothing" does not exist'),
    "unknown type": (FILTERS % ("Reverb", ""), '"Reverb" is unknown'),
    "unknown biquad": (FILTERS % ("Biquad", "type: Warp, freq: 5"), '"Warp" is unknown'),
    "unknown key": (FILTERS % ("Gain", "gain: 1, loudness: 3"), 'the key "loudness" is unknown'),
    "key twice": (FILTERS % ("Gain", "gain: 1, gain: 3"), 'the key "gain" occurs twice'),
    "name twice": ("filters:\n  f: {type: Gain, parameters: {gain: 1}}\n  f: {type: Gain, parameters: {gain: 2}}\n",
                   ':11: pipeline: the key "f" occurs twice'),
    "missing key": (FILTERS % ("Biquad", "type: Lowpass, freq: 100"), "q is missing"),
    "key of another type": (FILTERS % ("Biquad", "type: LowpassFO, freq: 100, q: 1"), 'the key "q" has no effect in LowpassFO'),
    "key of another width": (FILTERS % ("Biquad", "type: Peaking, freq: 100, gain: 1, bandwidth: 1, q: 1"), '"q" has no effect in Peaking'),
    "key of another combination": (FILTERS % ("BiquadCombo", "type: Tilt, gain: 3, order: 2"), '"order" has no effect in Tilt'),
    "key of another source": (FILTERS % ("Conv", "type: Values, values: [1], skip_bytes_lines: 3"), '"skip_bytes_lines" has no effect in Values'),
    "frequency": (FILTERS % ("Biquad", "type: Lowpass, freq: 24000, q: 1"), "between 0 and half the sample rate"),
    "not stable": (FILTERS % ("Biquad", "type: Free, a1: 0, a2: 1.1, b0: 1, b1: 0, b2: 0"), "not stable"),
    "difference equation that is not stable": (FILTERS % ("DiffEq", "a: [1, -1.2, 0.1], b: [1]"), "not stable"),
    "too many coefficients": (FILTERS % ("DiffEq", f"a: {[0] * 258}"), "258 coefficients a; give at most 257"),
    "odd order": (FILTERS % ("BiquadCombo", "type: LinkwitzRileyLowpass, freq: 100, order: 3"), "even order"),
    "no number": (FILTERS % ("Gain", "gain: loud"), '"loud" is not a number'),
    "unit": (FILTERS % ("Delay", "delay: 3, unit: miles"), "miles"),
    "negative delay": (FILTERS % ("Delay", "delay: -3"), "the delay is -3"),
    "channel": (FILTERS.replace("[0]", "[4]") % ("Gain", "gain: 1"), "channel 4 does not exist here; give 0 to 0"),
    "playback": ("mixers: {m: {channels: {in: 1, out: 3}, mapping: []}}\npipeline: [{type: Mixer, name: m}]\n",
                 "plays 1 channels, but 3 leave"),
    "mixer's inputs": ("mixers: {m: {channels: {in: 2, out: 1}, mapping: []}}\npipeline: [{type: Mixer, name: m}]\n",
                       "the mixer has 2 inputs, but 1 channels reach it"),
    "channel and channels": ("pipeline: [{type: Filter, channel: 0, channels: [0], names: []}]\n",
                             "has channel and channels"),
    "bypassed step": ("pipeline: [{type: Filter, namse: [], bypassed: true}]\n", '"namse" is unknown'),
    "key twice": ("pipeline: []\npipeline: []\n", 'a.yml:10: the key "pipeline" occurs twice'),
    "two documents": ("---\nfilters: {}\n", "a.yml:10: begins a second document"),
    "text behind": ("...\n}\n", "has text behind the document"),
    "no YAML": ("filters: [}\n", "name a file that is YAML"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_represented_is_refused_with_its_line(what, folder):
    text, says = REFUSED[what]
    pathlib.Path("a.yml").write_text(DEVICES.format(rate=RATE, n_in=1, n_out=1) + text)
    refused("check", "a.yml", says=says)


def test_a_byte_order_mark_is_skipped_and_filters_that_nothing_uses_are_named(folder):
    text = DEVICES.format(rate=RATE, n_in=1, n_out=1) + "filters: {spare: {type: Gaim, parametres: {}}}\n"
    pathlib.Path("a.yml").write_text(text.lstrip(), encoding="utf-8-sig", newline="\r\n")
    done = good("check", "a.yml")
    assert 'filters: 1 in no step that plays, and not checked: "spare"' in done.stdout + done.stderr


def test_length_of_values_and_dummies_is_no_error(folder):
    """Old versions wrote it."""
    for kind in ("type: Values, values: [1, 2], length: 8", "type: Dummy, length: 8"):
        pathlib.Path("a.yml").write_text(DEVICES.format(rate=RATE, n_in=1, n_out=1) + FILTERS % ("Conv", kind))
        done = good("check", "a.yml")
        assert ("length has no effect" in done.stdout + done.stderr) == ("Values" in kind), done


def test_mixers_and_processors_that_nothing_uses_are_named(folder):
    text = DEVICES.format(rate=RATE, n_in=1, n_out=1) + """mixers:
  m: {channels: {in: 1, out: 1}, mapping: [{dest: 0, sources: [{channel: 0}]}]}
  spare: {channels: {in: 1, out: 1}, mapping: []}
processors: {c: {type: Compressor}, g: {type: NoiseGate}}
pipeline: [{type: Mixer, name: m}, {type: Processor, name: c, bypassed: true}, {type: Mixer, name: spare, bypassed: true}]
"""
    pathlib.Path("a.yml").write_text(text)
    done = good("check", "a.yml")
    said = done.stdout + done.stderr
    assert 'mixers: 1 in no step that plays, and not checked: "spare"' in said, said
    assert 'processors: 2 in no step that plays, and not checked: "c" first' in said, said


def test_a_sound_with_other_channels_is_refused_with_the_statement_of_camilladsp(folder):
    pathlib.Path("a.yml").write_text(DEVICES.format(rate=RATE, n_in=3, n_out=3))
    write("x.wav", noise(300, 2), RATE)
    says = refused("convolve", "x.wav", "a.yml", "-o", "y.wav", says="devices: has 3 input channels, but there are 2")
    assert "/convolver/new" not in says


BOMBS = {
    "steps": ("filters: {f: {type: Gain, parameters: {gain: 0}}}\npipeline:\n"
              f"  - &s {{type: Filter, channels: [0], names: [{', '.join(['f'] * 3000)}]}}\n" + "  - *s\n" * 3000,
              "more than 65536 filters"),
    "lists": ("filters:\n  f: {type: Conv, parameters: {type: Values, values: &v [%s]}}\n" % ", ".join("0" * 8192) +
              "".join(f"  f{i}: {{type: Conv, parameters: {{type: Values, values: *v}}}}\n" for i in range(1024)) +
              "pipeline: [{type: Filter, channels: [], names: [f, %s]}]\n" % ", ".join(f"f{i}" for i in range(1024)),
              "filter f1023: the lists and recursions of all filters need more than 67108864 steps"),
    "brackets": ("x: " + "[" * 50000, "nested brackets"),
    "anchors": ("x: [" + ", ".join(f"&a{i} 1" for i in range(1025)) + "]\n", "1024 anchors"),
}


@pytest.mark.parametrize("what", BOMBS)
def test_short_texts_that_take_long_are_refused(what, folder):
    """An alias costs two bytes, and stands for a list, or for all filters of a step."""
    text, says = BOMBS[what]
    pathlib.Path("a.yml").write_text(DEVICES.format(rate=RATE, n_in=1, n_out=1) + text)
    refused("check", "a.yml", says=says)


def test_information_has_the_rate_and_the_labels(folder):
    text = DEVICES.format(rate=96000, n_in=2, n_out=2).replace("channels: 2, device: \"hw:0\"",
                                                               "channels: 2, labels: [L, null], device: \"hw:0\"")
    pathlib.Path("a.yml").write_text(text)
    said = json.loads(good("info", "--json", "a.yml").stdout)
    assert said["rate"] == 96000, said


@pytest.mark.parametrize("was,new,says", [
    ("volume_limit", "volume_limt", "write volume_limit"), ("labels", "lables", "write labels")])
def test_a_key_of_the_devices_with_one_letter_wrong_is_named(folder, was, new, says):
    text = ("devices:\n  samplerate: 48000\n  chunksize: 1024\n  volume_limit: -6\n  capture:\n    type: Stdin\n"
            "    channels: 1\n    format: S16LE\n    labels: [L]\n  playback:\n    type: Stdout\n    channels: 1\n"
            "    format: S16LE\n")
    (folder / "a.yml").write_text(text)
    right = good("check", "a.yml")
    assert "unknown" not in right.stdout + right.stderr
    (folder / "a.yml").write_text(text.replace(was, new))
    done = good("check", "a.yml")
    assert f'devices: unknown key "{new}" has no effect; {says}' in done.stdout + done.stderr, done
