"""Banks in files: SOFA, lists and folders of sound files, as hc_bank_load reads them (tests/banks/bank_dump.c)."""

import ctypes
import ctypes.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zlib
from xml.etree import ElementTree

import numpy as np
import pytest
import soundfile
from conftest import BUILD, ROOT, SAN, convolve, generator, good, measured, noise, read, refused, write
from scipy import signal

h5py = pytest.importorskip("h5py", reason="no h5py; make setup-test installs it")
BUILT = (BUILD / "flags").read_text()
KEMAR = pathlib.Path("/usr/share/libmysofa/MIT_KEMAR_normal_pinna.sofa")
needs_hdf5 = pytest.mark.skipif("HC_WITH_HDF5" not in BUILT, reason="no HDF5 in the build; make setup-test installs it")
SOFALIZER_SHARE = 1e-6  # measured: 2.3e-7


@pytest.fixture(autouse=True)
def leaks(tmp_path_factory, monkeypatch):
    """libmysofa leaks attributes of files that it refuses."""
    if SAN:
        path = tmp_path_factory.mktemp("leaks") / "list"
        path.write_text("leak:libmysofa\n")
        monkeypatch.setenv("LSAN_OPTIONS", f"suppressions={path}:print_suppressions=0")


class Bank:
    """A bank as the library reads it: `taps` is [entries][outputs][taps]."""

    def __init__(self, path, rate=0, grid=0, normalise=0):
        done = subprocess.run([BUILD / "tests/bank_dump", path, str(rate), str(grid), str(normalise)],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300, check=False)
        assert done.returncode == 0, done.stderr.decode()
        head, samples = done.stdout.split(b"\n", 1)
        self.__dict__.update(json.loads(head))
        self.samples = np.frombuffer(samples, "<f4").reshape(self.entries, self.outputs, self.taps)
        if self.positions:
            self.positions = np.array(self.positions)


def to_xyz(spherical):
    az, el, r = np.moveaxis(np.asarray(spherical, float), -1, 0)
    az, el = np.radians(az), np.radians(el)
    return np.stack([r * np.cos(az) * np.cos(el), r * np.sin(az) * np.cos(el), r * np.sin(el)], -1)


DEFAULTS = {"Data.SamplingRate": [48000.0], "ListenerPosition": [[0.0, 0, 0]], "ListenerView": [[1.0, 0, 0]],
            "ListenerUp": [[0.0, 0, 1]]}


def sofa(path, ir, source, convention="SimpleFreeFieldHRIR", kind="FIR", types=None, dtype="f8", libver="latest",
         compress=False, without=(), attributes=None, units=None, **variables):
    """Write a SOFA file. types: coordinates of a variable, spherical for SourcePosition unless told. units: of a variable,
    the usual ones unless told."""
    types = {"SourcePosition": "spherical", **(types or {})}
    values = {"Data.IR": ir, "SourcePosition": source, **DEFAULTS,
              **{name.replace("_", "."): value for name, value in variables.items()}}
    with h5py.File(path, "w", libver=libver) as f:
        for name, text in {"Conventions": "SOFA", "SOFAConventions": convention, "DataType": kind,
                           **(attributes or {})}.items():
            f.attrs[name] = np.bytes_(text)
        for name, value in values.items():
            if name in without:
                continue
            value = np.asarray(value, dtype if name.startswith("Data.IR") else "f8")
            options = {"compression": "gzip", "shuffle": True} if compress and value.size > 1 else {}
            data = f.create_dataset(name, data=value, **options)
            if name.endswith(("Position", "View", "Up")):
                data.attrs["Type"] = np.bytes_(types.get(name, "cartesian"))
                data.attrs["Units"] = np.bytes_("metre" if types.get(name) != "spherical" else "degree, degree, metre")
            if name in (units or {}):
                data.attrs["Units"] = np.bytes_(units[name])
    return path


def directions(n, seed=1):
    random = generator(seed)
    return np.stack([random.uniform(-180, 360, n), random.uniform(-90, 90, n), random.uniform(0.3, 3, n)], -1)


def responses(*shape, seed=2):
    return generator(seed).standard_normal(shape)


# ---- SOFA ------------------------------------------------------------------------------------------------------------
@pytest.mark.skipif(not KEMAR.exists() or ("MYSOFA" not in BUILT and "HDF5" not in BUILT),
                    reason="no file of libmysofa")
def test_the_kemar_set_is_read_as_it_is(folder):
    bank = Bank(KEMAR)
    with h5py.File(KEMAR) as f:
        np.testing.assert_array_equal(bank.samples, f["Data.IR"][()].astype("f4"))
        np.testing.assert_allclose(bank.positions, to_xyz(f["SourcePosition"][()]), atol=1e-6)
    assert (bank.rate, bank.file_rate, bank.file_entries) == (44100, 44100, 710)
    assert "SimpleFreeFieldHRIR" in bank.notes[0]


@needs_hdf5
@pytest.mark.parametrize("how", [{}, {"dtype": "f4"}, {"libver": "earliest"}, {"compress": True}, {"dtype": "<i2"},
                                 {"dtype": ">f8"}], ids=str)
def test_sofa_files_of_any_layout_are_read(folder, how):
    ir, source = np.round(1000 * responses(7, 2, 33)), directions(7)
    bank = Bank(sofa("a.sofa", ir, source, **how))
    np.testing.assert_array_equal(bank.samples, ir.astype("f4"))
    np.testing.assert_allclose(bank.positions, to_xyz(source), atol=1e-6)


@needs_hdf5
@pytest.mark.parametrize("kind", ["FIR-E", "FIRE"])
def test_each_loudspeaker_of_each_view_is_an_entry(folder, kind):
    """MultiSpeakerBRIR: a listener who looks left by 90 degrees sees the loudspeaker ahead on the right."""
    m, r, e, n = 3, 2, 4, 21
    ir = responses(m, r, e, n)
    speakers = np.array([[2, 0, 0], [0, 2, 0], [-2, 0, 0], [1, 1, 1.0]])
    views = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1]])
    ups = np.array([[0.0, 0, 1], [0, 0, 1], [-1, 0, 0]])
    stored = np.moveaxis(ir, 3, 2) if kind == "FIR-E" else ir
    bank = Bank(sofa("a.sofa", stored, [[0.5, 0, 0]], "MultiSpeakerBRIR", kind,
                     types={"SourcePosition": "cartesian"}, ListenerView=views, ListenerUp=ups,
                     ListenerPosition=[[0.5, 0, 0]], EmitterPosition=speakers[:, :, None]))
    np.testing.assert_array_equal(bank.samples, ir.transpose(0, 2, 1, 3).reshape(m * e, r, n).astype("f4"))
    left = np.cross(ups, views)
    want = [[s @ views[i], s @ left[i], s @ ups[i]] for i in range(m) for s in speakers]
    np.testing.assert_allclose(bank.positions, want, atol=1e-6)
    np.testing.assert_allclose(bank.positions[e], [0, -2, 0], atol=1e-6)  # ahead, seen by who looks left


@needs_hdf5
def test_a_microphone_array_has_an_output_for_each_receiver(folder):
    """SingleRoomSRIR: the listener moves, in room coordinates, and a turned source does not matter."""
    ir, listeners = responses(5, 4, 50), generator(5).uniform(-3, 3, (5, 3))
    bank = Bank(sofa("a.sofa", ir, [[4.0, 1, 1.5]], "SingleRoomSRIR", types={"SourcePosition": "cartesian"},
                     ListenerPosition=listeners, SourceView=[[-1.0, 0, 0]]))
    np.testing.assert_array_equal(bank.samples, ir.astype("f4"))
    np.testing.assert_allclose(bank.positions, [4, 1, 1.5] - listeners, atol=1e-5)


@needs_hdf5
def test_spherical_views_and_listeners_are_converted(folder):
    bank = Bank(sofa("a.sofa", responses(1, 1, 4), [[60.0, 0, 2]], types={"ListenerView": "spherical"},
                     ListenerView=[[20.0, 0, 1]]))
    np.testing.assert_allclose(bank.positions, to_xyz([[40, 0, 2]]), atol=1e-6)


UNITS = {  # of a variable, and the factors from its usual units
    "SourcePosition": {"radian, radian, metre": [np.pi / 180, np.pi / 180, 1], "Degrees,degrees, cm": [1, 1, 100],
                       "rad, degree, millimeters": [np.pi / 180, 1, 1000], "radians": [np.pi / 180, np.pi / 180, 1]},
    "ListenerPosition": {"metre": 1, "meter, meter, meter": 1, "centimetre": 100, "m, cm, mm": [1, 100, 1000]},
    "Data.SamplingRate": {"hertz": 1, "Hz": 1, "kHz": 1e-3, "kilohertz": 1e-3},
    "Data.Delay": {"samples": 1, "second": 1 / 44100, "ms": 1e3 / 44100, "microseconds": 1e6 / 44100}}


@needs_hdf5
@pytest.mark.parametrize("name, unit", [(name, unit) for name in UNITS for unit in UNITS[name]])
def test_units_are_converted(folder, name, unit):
    values = {"SourcePosition": directions(3), "ListenerPosition": np.array([[1.0, -2, 0.5]]),
              "Data.SamplingRate": np.array([44100.0]), "Data.Delay": np.array([[0.0, 13]])}

    def bank(units=None):
        given = {name.replace(".", "_"): value for name, value in values.items() if name != "SourcePosition"}
        return Bank(sofa("a.sofa", responses(3, 2, 4), values["SourcePosition"], units=units, **given))

    want = bank()
    values[name] = values[name] * UNITS[name][unit]
    got = bank({name: unit})
    np.testing.assert_allclose(got.positions, want.positions, atol=1e-6)
    assert got.rate == want.rate == 44100
    np.testing.assert_array_equal(got.samples, want.samples)


@needs_hdf5
@pytest.mark.parametrize("name, unit", [
    ("SourcePosition", "gradian, gradian, metre"), ("SourcePosition", "metre"), ("SourcePosition", "degree, degree"),
    ("SourcePosition", "degree, metre, metre"), ("SourcePosition", "degree, degree, metre, metre"),
    ("SourcePosition", "degree, degree, foot"), ("ListenerPosition", "degree, degree, metre"),
    ("ListenerPosition", ","), ("ListenerView", "\x1b[31m"), ("Data.SamplingRate", "second"),
    ("Data.SamplingRate", "hertz, hertz"), ("Data.Delay", "hertz"), ("Data.Delay", "fortnight")])
def test_a_unit_that_is_unknown_or_contradicts_the_coordinates_is_refused(folder, name, unit):
    sofa("a.sofa", responses(3, 2, 4), directions(3), units={name: unit}, Data_Delay=[[0.0, 0]])
    refused("info", "a.sofa", says=[f"a.sofa: {name} ", unit.replace("\x1b", "?"), "repair its attribute"])


@needs_hdf5
def test_units_without_coordinates_say_which_they_are(folder):
    for unit, want in (("radian, radian, metre", [0, 1, 0]), ("cm", [np.pi / 200, 0, 0.01]), ("", [np.pi / 2, 0, 1])):
        sofa("a.sofa", responses(1, 2, 4), [[np.pi / 2, 0, 1]], units={"SourcePosition": unit})
        with h5py.File("a.sofa", "a") as f:
            del f["SourcePosition"].attrs["Type"]
        np.testing.assert_allclose(Bank("a.sofa").positions, [want], atol=1e-6)


@needs_hdf5
@pytest.mark.parametrize("shape", ["one", "each"])
def test_whole_delays_are_exact(folder, shape):
    ir, delay = responses(3, 2, 20), np.array([[0, 5], [7, 1], [2, 30]], float)
    delay = delay[:1] if shape == "one" else delay
    bank = Bank(sofa("a.sofa", ir, directions(3), Data_Delay=delay))
    assert bank.taps == 20 + delay.max()
    for m in range(3):
        for r in range(2):
            d = int(delay[m % len(delay), r])
            want = np.zeros(bank.taps)
            want[d:d + 20] = ir[m, r]
            np.testing.assert_array_equal(bank.samples[m, r], want.astype("f4"))
    assert any("delays" in line for line in bank.notes)


@needs_hdf5
@pytest.mark.parametrize("shape", [(1, 2, 3), (3, 2), (3, 2, 1), (3, 2, 3), (1, 2)])
def test_delays_of_as_many_views_as_loudspeakers_are_told_apart(folder, shape):
    m, r, e, n = 3, 2, 3, 10
    ir = responses(m, r, e, n)
    delay = generator(3).integers(0, 9, shape).astype(float)
    bank = Bank(sofa("a.sofa", ir, [[0.0, 0, 0]], "MultiSpeakerBRIR", "FIRE", Data_Delay=delay,
                     types={"SourcePosition": "cartesian"}, EmitterPosition=np.eye(e)[:, :, None]))
    every = np.broadcast_to(delay[..., None] if delay.ndim == 2 else delay, (m, r, e))
    for i, j, k in np.ndindex(m, r, e):
        d = int(every[i, j, k])
        np.testing.assert_array_equal(bank.samples[i * e + k, j, d:d + n], ir[i, j, k].astype("f4"), str((i, j, k)))


def band_limited(t, rate, cutoff=12000, width=4500):
    """A pulse of little above `cutoff` + `width` Hz."""
    return 2 * cutoff / rate * np.sinc(2 * cutoff * t) * np.exp(-(t * width) ** 2)


@needs_hdf5
def test_fractions_of_delays_are_applied(folder):
    rate, n = 48000, 256
    t = (np.arange(n) - 100) / rate
    delays = np.array([[0.25, 3.5], [12.9, 0.001]])
    bank = Bank(sofa("a.sofa", np.broadcast_to(band_limited(t, rate), (2, 2, n)), directions(2), Data_Delay=delays))
    t = (np.arange(bank.taps) - 100) / rate
    want = [[band_limited(t - d / rate, rate) for d in row] for row in delays]
    np.testing.assert_allclose(bank.samples, want, atol=1e-5 * np.max(want))


@needs_hdf5
@pytest.mark.parametrize("rate", [44100, 96000, 16000])
def test_responses_are_resampled_with_their_gain(folder, rate):
    t = (np.arange(600) - 200) / 48000
    cutoff, width = 4000, 1500
    ir = np.broadcast_to(band_limited(t, 48000, cutoff, width), (70, 1, 600))
    bank = Bank(sofa("a.sofa", ir, directions(70)), rate)
    t = np.arange(bank.taps) / rate - 200 / 48000
    want = band_limited(t, rate, cutoff, width)
    assert (bank.rate, bank.file_rate) == (rate, 48000)
    np.testing.assert_allclose(bank.samples, np.broadcast_to(want, bank.samples.shape), atol=3e-6 * want.max())


@needs_hdf5
def test_gain_is_told_and_normalised(folder):
    ir = responses(9, 2, 64) * np.arange(1, 10)[:, None, None]
    path = sofa("a.sofa", ir, directions(9))
    want = 20 * np.log10(np.abs(np.fft.rfft(ir.astype("f4").astype(float), 1 << 16)).max())
    assert abs(Bank(path).gain_db - want) < 0.002
    bank = Bank(path, normalise=1)
    assert bank.gain_db == 0 and any("normalised" in line for line in bank.notes)
    np.testing.assert_allclose(bank.samples, ir * 10 ** (-want / 20), rtol=3e-4, atol=1e-6)
    assert Bank(sofa("b.sofa", ir * 0, directions(9))).gain_db is None


# ---- beside ffmpeg ---------------------------------------------------------------------------------------------------
@pytest.mark.skipif(not KEMAR.exists() or not shutil.which("ffmpeg"), reason="no ffmpeg, or no file of libmysofa")
@pytest.mark.parametrize("azimuth, elevation", [(0, 0), (30, 0), (270, 0), (0, 40)])
def test_static_directions_are_those_of_sofalizer(folder, azimuth, elevation):
    """The time domain of sofalizer, with the measurement nearest to the direction. Its gain is 3 dB lower a channel."""
    if "sofalizer" not in subprocess.run(["ffmpeg", "-filters"], capture_output=True, text=True, check=False).stdout:
        pytest.skip("an ffmpeg without libmysofa")
    x = noise(8192, 1, seed=azimuth + elevation)
    write("x.wav", x, rate=44100)
    subprocess.run(["ffmpeg", "-nostdin", "-v", "error", "-i", "x.wav", "-af",
                    "aformat=channel_layouts=mono,sofalizer=sofa=" + str(KEMAR) +
                    f":type=time:normalize=0:interpolate=0:rotation={azimuth}:elevation={elevation}",
                    "-c:a", "pcm_f32le", "y.wav"], check=True, timeout=60)
    got = soundfile.read("y.wav", dtype="float64")[0]
    bank = Bank(KEMAR)
    entry = np.argmax(bank.positions @ to_xyz([azimuth, elevation, 1]))
    want = np.stack([signal.fftconvolve(x[:, 0], ear) for ear in bank.samples[entry].astype(float)], -1)
    want *= 10 ** (-3 / 20)
    n = min(len(got), len(x))
    error = np.abs(got[:n] - want[:n]).max() / np.abs(want).max()
    assert error < SOFALIZER_SHARE, f"{20 * np.log10(error):.1f} dB of the peak"


# ---- SOFA files of spectra -------------------------------------------------------------------------------------------
def tf_of(h=None, step=6000.0, first=0, **more):
    """What sofa() gets for spectra of h [M][R][taps], from bin `first` on."""
    h = np.ones((2, 2, 8)) if h is None else h
    bins = np.fft.rfft(h)[..., first:]
    n = bins.shape[-1]
    return {"ir": np.zeros((2, 2, 3)), "kind": "TF", "convention": "SimpleFreeFieldHRTF", "Data_Real": bins.real,
            "Data_Imag": bins.imag, "N": step * (first + np.arange(n)), **more,
            "without": ["Data.IR", "Data.SamplingRate", *more.get("without", [])]}


def heads(entries, taps, seed=3):
    """Responses to two ears that begin after 20 frames and decay."""
    h = responses(entries, 2, taps, seed=seed) * np.exp(-np.arange(taps) / (taps / 20))
    h[..., :20] = 0
    h[..., 20] = 8
    return h


@needs_hdf5
@pytest.mark.parametrize("taps,step,units", [(256, 187.5, "hertz"), (256, 0.172265625, "kHz"), (4, 12000.0, "Hz")])
def test_spectra_become_the_responses_that_they_are_of(folder, taps, step, units):
    h = heads(5, taps) if taps > 20 else np.abs(responses(5, 2, taps)) * [3, 1, 0.1, 0]
    bank = Bank(sofa("a.sofa", source=directions(5), units={"N": units}, **tf_of(h, step)))
    np.testing.assert_allclose(bank.samples, h, atol=1e-6 * np.abs(h).max())
    assert bank.rate == bank.file_rate == round(step * taps * (1000 if units == "kHz" else 1))
    assert any(f"became responses of {taps} frames" in note for note in bank.notes)
    assert len(bank.notes) == 3 and bank.positions.shape == (5, 3)


@needs_hdf5
@pytest.mark.parametrize("taps,first,last", [(400, 0, 201), (400, 1, 201), (400, 0, 180), (441, 1, 221), (256, 1, 129)])
def test_spectra_of_any_length_keep_every_frequency(folder, taps, first, last):
    """The responses are longer by the next power of two, at a higher rate: their spectra are those of the file, and 0
    above. The level at 0 Hz, if it is missing, is that of the first frequency."""
    h, how = heads(3, taps), tf_of(heads(3, taps), 100.0, first)
    for name in ["Data_Real", "Data_Imag", "N"]:
        how[name] = how[name][..., :last - first]
    bank = Bank(sofa("a.sofa", source=directions(3), **how))
    assert bank.taps == 1 << (taps - 1).bit_length() and bank.rate == 100 * bank.taps
    want, got = np.zeros((3, 2, bank.taps // 2 + 1), complex), np.fft.rfft(bank.samples.astype(float))
    want[..., :last] = np.fft.rfft(h)[..., :last]
    if first:
        want[..., 0] = np.abs(want[..., 1]) * np.sign(want[..., 1].real)
    if 2 * (last - 1) == taps < bank.taps:  # half the rate of the file: at both signs of the frequency now
        want[..., last - 1] /= 2
    np.testing.assert_allclose(got, want, atol=1e-5 * np.abs(want).max())


@needs_hdf5
def test_spectra_of_responses_before_t_0_are_delayed_together(folder):
    h = heads(4, 256)
    turned = np.stack([np.roll(x, -30 - 5 * n, axis=-1) for n, x in enumerate(h)])  # the last begins 25 frames before 0
    bank = Bank(sofa("a.sofa", source=directions(4), **tf_of(turned, 187.5)))
    assert any("responses begin before t = 0: all are 73 frames later" in note for note in bank.notes)  # and 1 ms
    np.testing.assert_allclose(bank.samples, np.roll(turned, 73, axis=-1), atol=1e-5)
    assert np.abs(bank.samples[..., :48]).max() < 1e-5


# ---- SOFA files that are broken or of another kind -------------------------------------------------------------------
BROKEN = {  # what the file is written with, and what the error says
    "nan": (lambda: {"ir": np.where(np.arange(12).reshape(2, 2, 3) == 8, np.nan, 1.0)},
            "measurement 2, receiver 1, emitter 1: sample 3 is NaN"),
    "inf": (lambda: {"ir": np.full((2, 2, 3), np.inf)}, "sample 1 is infinite"),
    "no_measurements": (lambda: {"ir": np.zeros((0, 2, 3))}, "dimension 1 of Data.IR is 0"),
    "no_taps": (lambda: {"ir": np.zeros((2, 2, 0))}, "dimension 3 of Data.IR is 0"),
    "two_dimensions": (lambda: {"ir": np.zeros((2, 3))}, "Data.IR has 2 dimensions"),
    "text": (lambda: {"ir": None}, "Data.IR is missing"),
    "no_ir": (lambda: {"without": ["Data.IR"]}, "Data.IR is missing"),
    "no_source": (lambda: {"without": ["SourcePosition"]}, "no SourcePosition"),
    "no_rate": (lambda: {"without": ["Data.SamplingRate"]}, "no Data.SamplingRate"),
    "rate_0": (lambda: {"Data_SamplingRate": [0.0]}, "the rate is 0 Hz"),
    "rate_nan": (lambda: {"Data_SamplingRate": [np.nan]}, "the rate is nan Hz"),
    "two_rates": (lambda: {"Data_SamplingRate": [44100.0, 48000.0]}, "different rates"),
    "three_rates": (lambda: {"Data_SamplingRate": [1.0, 2, 3]}, "has 3 values"),
    "short_source": (lambda: {"source": [[0.0, 0]]}, "SourcePosition has 2 values"),
    "source_nan": (lambda: {"source": [[0.0, np.nan, 1], [0, 0, 1]]}, "value 2 of SourcePosition is NaN"),
    "source_far": (lambda: {"source": [[3e38, 3e38, 3e38]], "types": {"SourcePosition": "cartesian"},
                            "ListenerPosition": [[-3e38, 0, 0]]}, "too far away"),
    "type": (lambda: {"types": {"SourcePosition": "polar"}}, '"polar" coordinates'),
    "harmonics": (lambda: {"types": {"SourcePosition": "spherical harmonics"}}, "spherical harmonics"),
    "view": (lambda: {"ListenerView": [[0.0, 0, 0]]}, "ListenerView and ListenerUp of measurement 1"),
    "up": (lambda: {"ListenerUp": [[2.0, 0, 0]]}, "ListenerView and ListenerUp"),
    "delay_shape": (lambda: {"Data_Delay": [1.0, 2, 3]}, "Data.Delay has 3 values"),
    "delay_negative": (lambda: {"Data_Delay": [[0.0, -1]]}, "value 2 of Data.Delay is -1 frames"),
    "delay_huge": (lambda: {"Data_Delay": [[0.0, 1e9]]}, "of Data.Delay is 1e+09 frames"),
    "delay_nan": (lambda: {"Data_Delay": [[np.nan, 0]]}, "of Data.Delay is nan frames"),
    "overflow": (lambda: {"ir": np.full((2, 2, 3), 3.3e38) * [1, 1, -1], "Data_Delay": [[0.0, 0.5]]},
                 "entry 0, output 1: tap 2 is too large"),
    "sos": (lambda: {"kind": "SOS", "convention": "SimpleFreeFieldSOS"}, ["SimpleFreeFieldSOS", "second order"]),
    "spectra": (lambda: {"kind": "TF-E", "convention": "FreeFieldHRTF"}, ["FreeFieldHRTF", "spectra for each emitter"]),
    "tf_no_real": (lambda: {"kind": "TF"}, "Data.Real is missing"),
    "tf_no_imag": (lambda: tf_of(without=["Data.Imag"]), "Data.Imag cannot be read"),
    "tf_imag_short": (lambda: tf_of(Data_Imag=np.zeros((2, 2, 4))), "Data.Imag cannot be read"),
    "tf_no_n": (lambda: tf_of(without=["N"]), "N has 0 frequencies for spectra of 5 values"),
    "tf_n_short": (lambda: tf_of(N=[0.0, 1, 2, 3]), "N has 4 frequencies"),
    "tf_nan": (lambda: tf_of(Data_Real=np.full((2, 2, 5), np.nan)), "sample 1 is NaN"),
    **{f"tf_n_{n}": (lambda hz=hz: tf_of(N=hz), "not at equal steps from 0 Hz or one step on") for n, hz in enumerate(
        [[0.0, 100, 200, 300, 401], [300.0, 400, 500, 600, 700], [50.0, 150, 250, 350, 450], [0.0, 0, 0, 0, 0],
         [400.0, 300, 200, 100, 0], [100.0, 200, 400, 800, 1600], [0.0, np.nan, 2, 3, 4], [0.0, 1, 2, 3, np.inf],
         [-100.0, 0, 100, 200, 300]])},
    "tf_unit": (lambda: tf_of(units={"N": "second"}), "only hertz and kilohertz"),
    "tf_rate": (lambda: tf_of(N=np.arange(5) * 1e9), "the rate is 8e+09 Hz"),
    "other": (lambda: {"kind": "x\x1b[31m"}, "has no impulse responses"),
    "not_sofa": (lambda: {"attributes": {"Conventions": "CF-1.6"}}, "Conventions is not SOFA"),
    "outputs": (lambda: {"ir": np.zeros((1, 1025, 1))}, "1025 outputs"),
    "entries": (lambda: {"ir": np.zeros((65537, 1, 1))}, "65537 measurements"),
}


@needs_hdf5
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_refused_with_its_fault(folder, name):
    how = {"ir": np.ones((2, 2, 3)), "source": [[0.0, 0, 1]], **BROKEN[name][0]()}
    if how["ir"] is None:
        how["without"] = ["Data.IR"]
        how["ir"] = np.zeros(1)
        sofa("a.sofa", **how)
        with h5py.File("a.sofa", "a") as f:
            f["Data.IR"] = "text"
    else:
        sofa("a.sofa", **how)
    refused("info", "a.sofa", says=["a.sofa", *np.atleast_1d(BROKEN[name][1])])
    refused("check", "a.sofa", says="a.sofa")


@needs_hdf5
def test_a_cut_file_is_refused(folder):
    data = sofa("a.sofa", responses(9, 2, 500), directions(9)) and pathlib.Path("a.sofa").read_bytes()
    for n in (1, 8, 100, 600, len(data) // 2, len(data) - 1):
        pathlib.Path("b.sofa").write_bytes(data[:n])
        refused("info", "b.sofa", says="b.sofa")
    for content in (b"", b"x" * 5000, b"\x89HDF\r\n\x1a\n" + bytes(4000)):
        pathlib.Path("b.sofa").write_bytes(content)
        refused("info", "b.sofa", says="b.sofa")
    refused("info", "none.sofa", says="No such file")


@needs_hdf5
@pytest.mark.parametrize("shape", [(60000, 2, 1 << 20), (1, 1, 1 << 40), (1 << 62, 1 << 62, 4), (65536, 1024, 1 << 28)])
def test_a_huge_file_is_refused_before_it_is_read(folder, shape):
    sofa("a.sofa", np.zeros((1, 1, 1)), [[0.0, 0, 1]], without=["Data.IR"])
    with h5py.File("a.sofa", "a") as f:  # chunks that were never written
        space = h5py.h5s.create_simple(tuple(min(n, (1 << 63) - 1) for n in shape))
        layout = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        layout.set_chunk((1, 1, 4))
        try:
            h5py.h5d.create(f.id, b"Data.IR", h5py.h5t.IEEE_F64LE, space, layout)
        except (ValueError, RuntimeError) as error:
            pytest.skip(f"HDF5 does not write it: {error}")
    done, megabytes = measured("info", "a.sofa", capture_output=True, text=True)
    assert done.returncode == 1 and "a.sofa" in done.stderr and ";" in done.stderr, done.stderr
    assert megabytes < (400 if SAN else 80), f"{megabytes} MB"


@needs_hdf5
@pytest.mark.parametrize("chunk", [b"", zlib.compress(bytes(16)), zlib.compress(bytes(200000))],
                         ids=["no_stream", "short", "long"])
def test_chunks_that_do_not_unpack_are_refused(folder, chunk):
    sofa("a.sofa", responses(9, 2, 500), directions(9), compress=True)
    with h5py.File("a.sofa") as f:
        place = f["Data.IR"].id.get_chunk_info(0)
    data = bytearray(pathlib.Path("a.sofa").read_bytes())
    data[place.byte_offset:place.byte_offset + place.size] = chunk.ljust(place.size, b"\0")
    pathlib.Path("a.sofa").write_bytes(data)
    refused("info", "a.sofa", says="Data.IR cannot be read")


@needs_hdf5
@pytest.mark.parametrize("compress", [False, True])
def test_checksums_of_chunks_are_compared(folder, compress):
    """Without them a damaged sample would be played. Zeros, bytes of 0xff and an odd number of bytes are special."""
    for values in ([[[0] * 33]], [[[-1] * 33]], np.round(3000 * responses(9, 2, 501))):
        values = np.asarray(values)
        sofa("a.sofa", np.zeros((1, 1, 1)), [[0.0, 0, 1]], without=["Data.IR"])
        with h5py.File("a.sofa", "a") as f:
            data = f.create_dataset("Data.IR", data=values.astype("i1" if values.size == 33 else "<i2"),
                                    fletcher32=True, chunks=values.shape, compression="gzip" if compress else None)
            place = data.id.get_chunk_info(0)
        np.testing.assert_array_equal(Bank("a.sofa").samples, values)
    data = bytearray(pathlib.Path("a.sofa").read_bytes())
    data[place.byte_offset + place.size // 2] ^= 1
    pathlib.Path("a.sofa").write_bytes(data)
    refused("info", "a.sofa", says="Data.IR cannot be read")


def linked_data(f, name, to):
    f[name] = h5py.ExternalLink(to, "/x")


def linked_by_a_soft_link(f, name, to):
    f["elsewhere"] = h5py.ExternalLink(to, "/x")
    f[name] = h5py.SoftLink("/elsewhere")


def raw_data_elsewhere(f, name, to):
    f.create_dataset(name, (3, 2, 4), "f8", external=[(to, 0, h5py.h5f.UNLIMITED)])


def virtual_data(f, name, to):
    layout = h5py.VirtualLayout((3, 2, 4), "f8")
    layout[:] = h5py.VirtualSource(to, "/x", shape=(3, 2, 4))
    f.create_virtual_dataset(name, layout)


@needs_hdf5
@pytest.mark.parametrize("name", ["Data.IR", "Data.Delay", "SourcePosition"])
@pytest.mark.parametrize("store", [linked_data, linked_by_a_soft_link, raw_data_elsewhere, virtual_data])
def test_no_other_file_is_opened(folder, store, name):
    """A FIFO would never open."""
    os.mkfifo("fifo")
    sofa("a.sofa", responses(3, 2, 4), directions(3), without=[name])
    with h5py.File("a.sofa", "a") as f:
        store(f, name, "fifo")
    refused("info", "a.sofa", says=f"a.sofa: the values of {name} are in another file", timeout=20)


@needs_hdf5
def test_a_link_within_the_file_is_followed(folder):
    ir = responses(3, 2, 4)
    sofa("a.sofa", ir, directions(3))
    with h5py.File("a.sofa", "a") as f:
        f.move("Data.IR", "Samples")
        f["Data.IR"] = h5py.SoftLink("/Samples")
    np.testing.assert_array_equal(Bank("a.sofa").samples, ir.astype("f4"))


# ---- sound files -----------------------------------------------------------------------------------------------------
def sounds(n, rate=48000, channels=2):
    files = [noise(40 + i, channels, seed=i) for i in range(n)]
    for i, x in enumerate(files):
        write(f"{i}.wav", x, rate=rate)
    return files


def padded(files):
    longest = max(map(len, files))
    return np.stack([np.pad(x, ((0, longest - len(x)), (0, 0))).T for x in files])


def test_a_list_has_positions_and_files(folder):
    files, source = sounds(5), directions(5)
    (folder / "sub").mkdir()
    shutil.move("3.wav", "sub/a, b.wav")
    names = ["0.wav", "1.wav", f"{folder}/2.wav", '"sub/a, b.wav"', "4.wav"]
    pathlib.Path("list.csv").write_text("\ufeffAzimuth, elevation,Distance,file\r\n# a comment\n\n" + "".join(
        f"{a:.9g}, {e:.9g} ,{r:.9g},{name}\n" for (a, e, r), name in zip(source, names)))
    bank = Bank(folder / "list.csv")
    np.testing.assert_array_equal(bank.samples, padded(files))
    np.testing.assert_allclose(bank.positions, to_xyz(source), atol=1e-6)
    assert "padded" in bank.notes[1]
    pathlib.Path("xyz.csv").write_text("file,z,y,x\n0.wav,3,2,1\n")
    np.testing.assert_array_equal(Bank("xyz.csv").positions, [[1, 2, 3]])
    pathlib.Path("azimuth.csv").write_text("file,azimuth\n0.wav,90\n")
    np.testing.assert_allclose(Bank("azimuth.csv").positions, [[0, 1, 0]], atol=1e-6)


LISTS = {
    "name": ("azimut,file\n1,0.wav\n", "column 1 has an unknown name"),
    "twice": ("file,azimuth,file\n", "two columns are named file"),
    "no_angle": ("elevation,file\n1,0.wav\n", "not a position and a file"),
    "two_of_three": ("x,y,file\n1,2,0.wav\n", "not a position and a file"),
    "both": ("x,y,z,azimuth,file\n1,2,3,4,0.wav\n", "not a position and a file"),
    "cells": ("azimuth,file\n1\n", "1 cell, but the first line has 2"),
    "many_cells": ("azimuth,file\n" + "," * 100 + "\n", "more than 32 cells"),
    "number": ("azimuth,file\n1x,0.wav\n", ":2: azimuth is not a number"),
    "nan": ("azimuth,file\nnan,0.wav\n", "azimuth is nan"),
    "elevation": ("azimuth,elevation,file\n0,91,0.wav\n", "elevation is 91"),
    "distance": ("azimuth,distance,file\n0,-1,0.wav\n", "distance is -1"),
    "empty": ("azimuth,file\n", "lists no sound files"),
    "no_name": ("azimuth,file\n0,\n", "the name of a sound file is missing"),
    "quote": ('azimuth,file\n0,"0.wav\n', "quotation mark"),
    "missing": ("azimuth,file\n0,7.wav\n", "7.wav: No such file"),
    "channels": ("azimuth,file\n0,0.wav\n1,mono.wav\n", "has 1 channel, but 0.wav has 2"),
    "rates": ("azimuth,file\n0,0.wav\n1,slow.wav\n", "has a rate of 8000 Hz, but 0.wav has 48000 Hz"),
    "nul": ("azimuth,file\n0,0.wav\n\0", "is not text"),
    "text_wav": ("azimuth,file\n0,list.csv\n", "list.csv"),
}


@pytest.mark.parametrize("name", LISTS)
def test_a_wrong_list_is_refused_with_its_fault(folder, name):
    sounds(1)
    write("mono.wav", noise(10, 1))
    write("slow.wav", noise(10, 2), rate=8000)
    pathlib.Path("list.csv").write_text(LISTS[name][0])
    refused("info", "list.csv", says=LISTS[name][1])


def test_a_list_of_two_rates_is_read_at_one(folder):
    write("a.wav", noise(480, 1), rate=48000)
    write("b.wav", noise(80, 1), rate=8000)
    pathlib.Path("list.csv").write_text("azimuth,file\n0,a.wav\n1,b.wav\n")
    bank = Bank("list.csv", 24000)
    assert bank.rate == 24000 and bank.taps == 240 and any("resampled" in line for line in bank.notes)


def test_a_csv_of_coefficients_is_no_bank(folder):
    pathlib.Path("h.csv").write_text("left,right\n1,0.5\n")
    assert "2 channels" in good("info", "h.csv").stdout


@pytest.mark.parametrize("start", ["# a, file\n", "\ufeff# comment\n", "  # " + 1000 * "long " + "\n\n", "\r\n"],
                         ids=["comment", "mark", "long", "blank"])
def test_a_list_may_begin_with_comments(folder, start):
    sounds(1)
    pathlib.Path("list.csv").write_text(start + '"File" ,azimuth\n0.wav,90\n')
    np.testing.assert_allclose(Bank("list.csv").positions, [[0, 1, 0]], atol=1e-6)


def test_a_folder_has_positions_in_its_names(folder):
    (folder / "set").mkdir()
    names = {"azi_30_ele_-15.wav": (30, -15, 1), "azi_-100.5_ele_7_dist_2.5.wav": (-100.5, 7, 2.5),
             "room-az180el+20.wav": (180, 20, 1), "Azimuth=10.wav": (10, 0, 1)}
    files = {name: noise(30, 2, seed=i) for i, name in enumerate(names)}
    for name, x in files.items():
        write(f"set/{name}", x)
    pathlib.Path("set/readme.txt").write_text("no sound")
    write("set/.hidden.wav", noise(10))
    bank = Bank("set/")
    for position, taps in zip(bank.positions, bank.samples):
        name = min(names, key=lambda one: np.abs(to_xyz(names[one]) - position).max())
        np.testing.assert_allclose(position, to_xyz(names[name]), atol=1e-6)
        np.testing.assert_array_equal(taps, files[name].T)
    write("set/11.wav", noise(30, 2))
    refused("info", "set", says="name all files in the same way")


def test_a_folder_without_positions_is_in_the_order_of_numbers(folder):
    (folder / "set").mkdir()
    for i in (10, 9, 2):
        write(f"set/{i}.wav", noise(20, 1, seed=i))
    bank = Bank("set")
    assert bank.positions is None
    np.testing.assert_array_equal(bank.samples, padded([noise(20, 1, seed=i) for i in (2, 9, 10)]))
    assert "no positions" in good("info", "set").stdout
    (folder / "empty").mkdir()
    refused("info", "empty", says="has no sound files")


def test_one_sound_file_is_one_entry(folder):
    write("a.wav", noise(50, 3))
    bank = Bank("a.wav")
    assert (bank.entries, bank.positions) == (1, None)
    np.testing.assert_array_equal(bank.samples[0], noise(50, 3).T)


# ---- receivers -------------------------------------------------------------------------------------------------------
EARS = [[0.0, 0.09, 0.01], [0.0, -0.09, 0.01]]  # left, right


def ears(of, form):
    """ReceiverPosition, its type and its units in a form."""
    of = np.asarray(of)
    flat = np.hypot(of[..., 0], of[..., 1])
    angles = [np.arctan2(of[..., 1], of[..., 0]), np.arctan2(of[..., 2], flat)]
    if form == "millimetre":
        return 1000 * of, "cartesian", form
    if form == "metre":
        return of, "cartesian", form
    turned = np.degrees(angles) if form == "degree" else angles
    return np.stack([*turned, np.hypot(flat, of[..., 2])], -1), "spherical", f"{form}, {form}, metre"


def two_files(positions, form, kind="FIR", order=(0, 1), each=False, **more):
    """The banks of two files: receivers in the order of positions, and in another order."""
    m, n = 3, 40
    r = len(positions)
    shape = (m, r, 2, n) if kind == "FIRE" else (m, r, n, 2) if kind == "FIR-E" else (m, r, n)
    ir, delay = responses(*shape), np.arange(3.0 * r).reshape(m, r)
    banks = []
    for taken in (range(r), order):
        values, coordinates, units = ears(np.asarray(positions)[list(taken)], form)
        values = np.repeat(values[:, :, None], m if each else 1, axis=2)
        if kind != "FIR":
            more["EmitterPosition"] = np.array([[2.0, 0, 0], [0, 2, 0]])[:, :, None]
        banks += [Bank(sofa("a.sofa", ir[:, list(taken)], directions(m), kind=kind, ReceiverPosition=values,
                            types={"SourcePosition": "spherical", "ReceiverPosition": coordinates},
                            units={"ReceiverPosition": units}, Data_Delay=delay[:, list(taken)], **more))]
    return banks


def same(a, b):
    return np.array_equal(a.samples, b.samples) and np.array_equal(a.positions, b.positions)


@needs_hdf5
@pytest.mark.parametrize("each", [False, True], ids=["R,C,I", "R,C,M"])
@pytest.mark.parametrize("form", ["metre", "millimetre", "degree", "radian"])
@pytest.mark.parametrize("kind", ["FIR", "FIRE", "FIR-E"])
def test_the_left_ear_is_output_0_whichever_ear_is_stored_first(folder, kind, form, each):
    """Delays and samples, bit for bit; `info` says it in a line."""
    left_first, right_first = two_files(EARS, form, kind, (1, 0), each)
    assert same(left_first, right_first)
    told = [[line for line in bank.notes if "left" in line] for bank in (left_first, right_first)]
    assert told == [[], ["the right receiver is stored first: the outputs are left, right"]]


@needs_hdf5
def test_pairs_of_receivers_are_ordered_and_the_microphones_of_an_array_are_not(folder):
    """Two pairs of a hearing aid; a tetrahedron and a row of microphones, whose neighbours do not mirror each other."""
    pairs = [*EARS, [0.02, 0.08, 0.03], [0.02, -0.08, 0.03]]
    for form, order in (("metre", (1, 0, 3, 2)), ("degree", (0, 1, 3, 2))):
        assert same(*two_files(pairs, form, order=order))
    tetrahedron = np.array([[1.0, -1, -1], [1, 1, 1], [-1, 1, -1], [-1, -1, 1]]) / 50
    row = [[0, y, 0] for y in (-0.03, 0.01, 0.02, 0.03)]
    for array in (tetrahedron, row, row[:3]):
        values, ir = np.asarray(array, float)[:, :, None], responses(3, len(array), 40)
        bank = Bank(sofa("a.sofa", ir, directions(3), ReceiverPosition=values))
        np.testing.assert_array_equal(bank.samples, ir.astype("f4"))
        assert not [note for note in bank.notes if "receiver" in note.lower()], bank.notes


@needs_hdf5
def test_ears_that_change_sides_are_ordered_in_each_measurement(folder):
    ir = responses(3, 2, 40)
    at = np.array([[[0.0, 0, 0], [-0.09, 0.09, -0.09], [0, 0, 0]], [[0.0, 0, 0], [0.09, -0.09, 0.09], [0, 0, 0]]])
    bank = Bank(sofa("a.sofa", ir, directions(3), ReceiverPosition=at))
    np.testing.assert_array_equal(bank.samples, np.stack([ir[0, ::-1], ir[1], ir[2, ::-1]]).astype("f4"))


@needs_hdf5
@pytest.mark.parametrize("version", ["0.4.0", "1.0.0", "1.1.0", "1.1.1", "2.0.0"])
def test_names_of_ears_by_old_versions_of_the_api_for_matlab_are_not_believed(folder, version):
    """Their files are left, right, whatever ReceiverPosition says: libmysofa plays them so, too."""
    ir, right_first = responses(3, 2, 40), np.array(EARS)[::-1, :, None]
    bank = Bank(sofa("a.sofa", ir, directions(3), ReceiverPosition=right_first, attributes={
        "APIName": "ARI SOFA API for Matlab/Octave", "APIVersion": version}))
    is_old = version <= "1.1.0"
    np.testing.assert_array_equal(bank.samples, (ir if is_old else ir[:, ::-1]).astype("f4"))
    assert any(("ARI API" if is_old else "stored first") in line for line in bank.notes), bank.notes


@needs_hdf5
@pytest.mark.parametrize("at,says", [(None, "has no ReceiverPosition"), ([[0, 0, 0], [0, 0, 0]], "does not tell"),
                                     ([[0, -0.2, 0], [0, -0.05, 0]], "does not tell"),
                                     ([[0.1, 0, 0], [-0.1, 0, 0]], "does not tell")])
def test_ears_that_positions_do_not_tell_apart_are_in_the_order_of_the_file(folder, at, says):
    ir = responses(3, 2, 40)
    more = {} if at is None else {"ReceiverPosition": np.array(at, float)[:, :, None]}
    bank = Bank(sofa("a.sofa", ir, directions(3), **more))
    np.testing.assert_array_equal(bank.samples, ir.astype("f4"))
    assert [says in line for line in bank.notes].count(True) == 1, bank.notes
    assert says in good("info", "a.sofa").stdout


@needs_hdf5
@pytest.mark.parametrize("at,says", [([[0, np.nan, 0], [0, -0.1, 0]], "ReceiverPosition is NaN"),
                                     ([[0, 0.1, 0]], "3 values, but needs 6 or 18")])
def test_positions_of_receivers_that_are_damaged_are_refused(folder, at, says):
    path = sofa("a.sofa", responses(3, 2, 40), directions(3), ReceiverPosition=np.array(at)[:, :, None])
    refused("info", path, says=says)
    for units, kind in (("furlong", "cartesian"), ("degree, degree, metre", "cartesian")):
        path = sofa("a.sofa", responses(3, 2, 40), directions(3), types={"ReceiverPosition": kind},
                    ReceiverPosition=np.array(EARS)[:, :, None], units={"ReceiverPosition": units})
        refused("info", path, says="ReceiverPosition")


@needs_hdf5
@pytest.mark.skipif(not KEMAR.exists() or "MYSOFA" not in BUILT, reason="no file of libmysofa, or no libmysofa")
def test_libmysofa_and_hdf5_order_receivers_alike(folder):
    """A copy of libmysofa's file, which libmysofa reads, with the ears changed round."""
    shutil.copy(KEMAR, "a.sofa")
    with h5py.File("a.sofa", "r+") as f:
        for name in ("Data.IR", "ReceiverPosition"):
            f[name][...] = f[name][()][:, ::-1] if name == "Data.IR" else f[name][()][::-1]
    library, code = ctypes.CDLL(ctypes.util.find_library("mysofa")), ctypes.c_int()
    library.mysofa_load.restype = ctypes.c_void_p
    assert library.mysofa_load(b"a.sofa", ctypes.byref(code)), code
    assert same(Bank(KEMAR), Bank("a.sofa"))
    assert any("stored first" in line for line in Bank("a.sofa").notes)


@needs_hdf5
def test_convolve_pipewire_and_python_play_the_ears_of_a_file_that_has_the_right_one_first(folder):
    """The same samples as from the file with the left ear first."""
    ir, source = responses(8, 2, 64) / 8, [[45.0 * i, 0, 1.5] for i in range(8)]
    write("x.wav", noise(500, 1), 48000)
    played = []
    for name, way in (("left", 1), ("right", -1)):
        path = sofa(f"{name}.sofa", ir[:, ::way], source, ReceiverPosition=np.array(EARS)[::way, :, None])
        pathlib.Path("path.csv").write_text("time,source,azimuth,elevation\n0,1,50,0\n")
        convolve("x.wav", path, "a.wav", "--path", "path.csv")
        pathlib.Path("a.conf").write_text(
            "context.modules = [ { name = libpipewire-module-filter-chain args = { filter.graph = { nodes = [ { "
            f"type = sofa label = spatializer name = s config = {{ filename = {path} }} "
            "control = { Azimuth = 50 } } ] } } } ]")
        convolve("x.wav", "a.conf", "b.wav")
        code = f"import haloconv; haloconv.Bank('{path}').responses.astype('<f4').tofile('c.f4')"
        played += [[read("a.wav"), read("b.wav")]]
        if not SAN:  # a Python without sanitizers cannot load the library
            ours = {"PYTHONPATH": str(ROOT / "plugins/python"), "HALOCONV_LIBRARY": str(BUILD / "libhaloconv.so")}
            subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, **ours})
            played[-1] += [np.fromfile("c.f4", "<f4")]
    for one, other in zip(*played):
        np.testing.assert_array_equal(one, other)
    assert np.abs(played[0][0][:, 0] - played[0][0][:, 1]).max() > 0.01  # the ears differ


@needs_hdf5
def test_the_emitter_of_a_fir_may_be_beside_its_source(folder):
    """In the axes of the source, at each measurement; the emitters of headphones have no places of their own."""
    ir, at = responses(3, 2, 20), generator(3).uniform(-1, 1, (1, 3, 3))
    turned = {"SourceView": [[0.0, 1, 0]], "SourceUp": [[0.0, 0, 1]], "types": {"SourcePosition": "cartesian"}}
    bank = Bank(sofa("a.sofa", ir, [[0.0, 0, 0]], EmitterPosition=at, **turned))
    np.testing.assert_allclose(bank.positions, np.stack([-at[0, 1], at[0, 0], at[0, 2]], -1), atol=1e-6)
    bank = Bank(sofa("a.sofa", ir, [[1.0, 2, 3]], EmitterPosition=np.full((1, 3, 1), 0.5), **turned))
    np.testing.assert_allclose(bank.positions, 3 * [[0.5, 2.5, 3.5]], atol=1e-6)
    for several in (np.ones((2, 3, 1)), np.ones((3, 3, 1)), np.zeros((1, 3, 1))):
        bank = Bank(sofa("a.sofa", ir, [[1.0, 2, 3]], EmitterPosition=several,
                         **{**turned, "SourceView": [[0.0, 0, 0]]}))
        np.testing.assert_allclose(bank.positions, 3 * [[1, 2, 3]], atol=1e-6)


# ---- info ------------------------------------------------------------------------------------------------------------
@needs_hdf5
def test_info_tells_the_bank(folder):
    path = sofa("a.sofa", responses(9, 2, 64), [[10.0 * i, 5 * i, 2] for i in range(9)], "FreeFieldHRIR")
    report = json.loads(good("info", path, "--rate", "24000", "--normalise", "--json").stdout)
    assert report["entries"] == 9 and report["outputs"] == 2 and report["rate"] == 24000 and report["taps"] == 32
    np.testing.assert_allclose(report["positions"]["azimuth_deg"], [0, 80], atol=1e-4)
    np.testing.assert_allclose(report["positions"]["elevation_deg"], [0, 40], atol=1e-4)
    assert report["largest_response_db"] == 0 and "FreeFieldHRIR" in report["notes"] and "resampled" in report["notes"]
    text = good("info", path, "--grid", "3").stdout
    assert "interpolated to a grid of 3 degrees" in text and "azimuth" in text
    assert good("check", path).stdout.startswith("ok: ")
    assert json.loads(good("check", path, "--json").stdout)["bank"]["entries"] == 9


def test_info_lists_entries(folder):
    """Position, onset and level of each. Onsets are early, all by as much."""
    (folder / "set").mkdir()
    for i, at in enumerate((20, 32)):
        x = np.zeros((64, 6))
        x[at, :], x[at + i, 1] = 0.5, 0.25
        write(f"set/azi_{90 * i}_ele_{10 * i}.wav", x)
    report = json.loads(good("info", "set", "--entries", "--json").stdout)
    one, two = report["entry_list"]
    assert report["entries"] == 2 and (two["azimuth_deg"], two["elevation_deg"]) == pytest.approx((90, 10), abs=1e-4)
    np.testing.assert_allclose(np.subtract(two["onset_ms"], one["onset_ms"])[2:], 12 / 48, atol=1e-3)
    np.testing.assert_allclose(one["level_db"], [-6.02, -12.04] + 4 * [-6.02], atol=0.01)
    head, first, second = good("info", "set", "--entries").stdout.splitlines()[-3:]
    assert "onset ms" in head and "all 6 outputs" in head and second.split()[:4] == ["1", "90.00", "10.00", "1.000"]
    assert len(first.split()) == 4 + 2 * 4
    write("set/azi_180_ele_0.wav", np.zeros((64, 6)))
    silent = good("info", "set", "--entries").stdout.splitlines()[-1].split()
    assert silent[4:] == 4 * ["-", "silence"], silent


def test_info_draws_the_directions_of_a_bank(folder):
    """A mark for each entry, those of a grid apart."""
    (folder / "set").mkdir()
    places = [(az, el) for el in (-30, 0, 30) for az in range(0, 360, 45)]
    for az, el in places:
        write(f"set/azi_{az}_ele_{el}.wav", np.eye(1, 8).T)

    def marks(*options):
        n = json.loads(good("info", "set", "--plot", "p.svg", "--json", *options).stdout)["entries"]
        paths = ElementTree.parse("p.svg").getroot().iter("{http://www.w3.org/2000/svg}path")
        named = {path[0].text: path.get("d") for path in paths if len(path)}
        return n, {name: [np.array(re.findall(r"-?[\d.]+", mark), float) for mark in d.split("M")[1:]]
                   for name, d in named.items()}
    n, found = marks()
    assert n == len(places) == len(found["entries"]) and "interpolated" not in found
    top = np.array([mark[:2] for mark in found["entries"]])
    assert len(np.unique(top[:, 0].round())) == 8 and len(np.unique(top[:, 1].round())) == 3
    n, found = marks("--grid", 15)
    assert len(found["entries"]) == len(places) and len(found["interpolated"]) == n - len(places) > 50
    refused("info", "set", "set", "--plot", "p.svg", exit=2, says="one bank at a time")


def test_info_refuses_options_that_do_nothing(folder):
    (folder / "set").mkdir()
    write("set/1.wav", noise(20))
    for option in (["--plan"], ["--plot", "a.svg"]):
        refused("info", "set", *option, exit=2, says="for masks only")
    for option in (["--grid", "5"], ["--normalise"], ["--entries"]):
        refused("info", "set/1.wav", *option, exit=2, says="for banks only")
