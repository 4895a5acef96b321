"""haloconv design and info compared with scipy and numpy, and the masks that are installed."""

import json
import os
import re
import shutil
import subprocess

import numpy as np
import pytest
import scipy.signal
from conftest import BUILD, HALOCONV, ROOT, assert_close, convolve, copy_program, generator, good, haloconv, noise, read, refused, write

FILTERS = [("lowpass", [8000], True), ("highpass", [3000], False), ("bandpass", [1000, 4000], False),
           ("bandstop", [1000, 4000], True)]


def designed(*args):
    good("design", *args, "-o", "h.wav")
    return read("h.wav")[:, 0]


@pytest.mark.parametrize("kind,cutoffs,pass_zero", FILTERS)
@pytest.mark.parametrize("taps", [3, 101, 511, 4001])
@pytest.mark.parametrize("window", ["hamming", "hann", "blackman", "rectangular", "blackmanharris"])
def test_filters_equal_firwin(folder, kind, cutoffs, pass_zero, taps, window):
    got = designed(kind, "--cutoff", ",".join(map(str, cutoffs)), "--taps", taps, "--window", window, "--rate", 48000)
    name = {"rectangular": "boxcar"}.get(window, window)
    want = scipy.signal.firwin(taps, cutoffs, window=name, pass_zero=pass_zero, fs=48000)
    assert np.abs(got - want).max() <= 1e-6 * np.abs(want).max(), np.abs(got - want).max()


def test_the_default_window_is_that_of_firwin(folder):
    got = designed("lowpass", "--cutoff", "8000", "--taps", "511", "--rate", "48000")
    assert_close(got[:, None], scipy.signal.firwin(511, 8000, fs=48000))


@pytest.mark.parametrize("taps", [2, 64, 500])
def test_even_filters_equal_firwin(folder, taps):
    got = designed("lowpass", "--cutoff", "8000", "--taps", taps)
    assert_close(got[:, None], scipy.signal.firwin(taps, 8000, fs=48000))
    got = designed("bandpass", "--cutoff", "800,8000", "--taps", taps)
    assert_close(got[:, None], scipy.signal.firwin(taps, [800, 8000], pass_zero=False, fs=48000))


def test_a_window_that_leaves_nothing_is_refused(folder):
    refused("design", "lowpass", "--cutoff", "8000", "--taps", "2", "--window", "hann", "-o", "h.txt", says="hann")
    assert not (folder / "h.txt").exists()


@pytest.mark.parametrize("kind,cutoffs,pass_zero", FILTERS)
@pytest.mark.parametrize("attenuation,transition", [(30, 2000), (60, 500), (96, 300), (20.5, 1000)])
def test_kaiser_filters_equal_kaiserord(folder, kind, cutoffs, pass_zero, attenuation, transition):
    got = designed(kind, "--cutoff", ",".join(map(str, cutoffs)), "--attenuation", attenuation, "--transition",
                   transition)
    taps, beta = scipy.signal.kaiserord(attenuation, transition / 24000)
    if kind in ("highpass", "bandstop"):
        taps |= 1
    want = scipy.signal.firwin(taps, cutoffs, window=("kaiser", beta), pass_zero=pass_zero, fs=48000)
    assert len(got) == taps
    assert np.abs(got - want).max() <= 1e-6 * np.abs(want).max()


def test_kaiser_filter_keeps_its_promise(folder):
    got = designed("lowpass", "--cutoff", 6000, "--attenuation", 80, "--transition", 1000)
    frequency, response = scipy.signal.freqz(got, worN=1 << 15, fs=48000)
    level = 20 * np.log10(np.abs(response) + 1e-12)
    assert level[frequency > 6500].max() < -79 and np.abs(level[frequency < 5500]).max() < 0.01


SPECIFIED = ["--attenuation", 70, "--transition", 500]
MADE = [("lowpass", ["--cutoff", 8000, *SPECIFIED], []), ("highpass", ["--cutoff", 3000, *SPECIFIED], []),
        ("bandpass", ["--cutoff", "1000,4000", *SPECIFIED], []), ("hilbert", ["--taps", 201], []),
        ("bandstop", ["--cutoff", "1000,4000", "--taps", 4001, "--window", "blackman"], []),
        ("lowpass", ["--cutoff", 8000, "--attenuation", 110, "--transition", 500], ["--format", "pcm16"])]


@pytest.mark.parametrize("kind,options,format", MADE)
def test_design_tells_what_it_made(folder, kind, options, format):
    """Ripple and attenuation are those of the file, also if its format rounds the taps."""
    done = good("design", kind, *options, *format, "-o", "h.wav", "--json")
    made, h = json.loads(done.stdout), read("h.wav")[:, 0]
    assert made["taps"] == len(h) and made["delay"] == (len(h) - 1) / 2
    assert f"h.wav: {kind}, {len(h)} taps at 48000 Hz, delay {made['delay']:g} frames" in done.stderr
    for bands, figure in [("pass_hz", "ripple_db"), ("stop_hz", "attenuation_db")]:
        if (kind, figure) == ("hilbert", "attenuation_db"):
            assert made[bands] == [] and made[figure] is None
            continue
        grid = np.concatenate([np.linspace(low, high, 1 << 14) for low, high in made[bands]])
        level = 20 * np.log10(np.abs(scipy.signal.freqz(h, worN=grid, fs=48000)[1]) + 1e-12)
        want = np.abs(level).max() if figure == "ripple_db" else -level.max()
        assert made[figure] == pytest.approx(want, abs=1e-5, rel=0.005)
        shown = f"{made[figure]:.2g}" if figure == "ripple_db" else f"{made[figure]:.1f}"
        assert f"{figure[:-3]} {shown} dB from " in done.stderr
    if SPECIFIED[0] in options and not format:
        assert made["attenuation_db"] > 68 and made["ripple_db"] < 0.01
        apart = [abs(edge - cutoff) for edge in np.ravel(made["stop_hz"]) for cutoff in made["cutoff"]]
        assert sorted(apart)[0] < 300, made


@pytest.mark.parametrize("kind,cutoff,taps,bands", [
    ("lowpass", "1000", 101, {"pass": (0, 1000)}), ("highpass", "23000", 101, {"pass": (23000, 24000)}),
    ("highpass", "500", 101, {"stop": (0, 500)}), ("bandstop", "300,5000", 201, {"pass": (0, 300)})])
def test_a_band_that_is_all_transition_has_no_figure(folder, kind, cutoff, taps, bands):
    done = good("design", kind, "--cutoff", cutoff, "--taps", taps, "-o", "h.wav", "--json")
    made, h = json.loads(done.stdout), read("h.wav")[:, 0]
    for name, (low, high) in bands.items():
        level = np.abs(scipy.signal.freqz(h, worN=np.linspace(low, high, 1000), fs=48000)[1])
        assert (np.diff(level) <= 1e-9).all() or (np.diff(level) >= -1e-9).all(), "there is an extremum"
        assert f"the {name} band from {low} to {high} Hz is all transition; use more taps" in done.stderr
    assert np.allclose(made["transition_hz"], list(bands.values()), atol=1)
    figures = {"pass": "ripple_db", "stop": "attenuation_db"}
    assert [made[figures[name]] is None for name in figures] == [made[f"{name}_hz"] == [] for name in figures]


@pytest.mark.parametrize("taps", [11, 65, 511])
def test_hilbert_turns_by_90_degrees(folder, taps):
    got = designed("hilbert", "--taps", taps)
    assert len(got) == taps
    assert np.abs(got + got[::-1]).max() <= 1e-7, "not antisymmetric"
    half = taps // 2
    assert np.abs(got[half % 2::2]).max() <= 1e-7, "every other tap from the centre is 0"
    n = np.arange(taps) - half
    ideal = np.where(n % 2 == 0, 0.0, 2 / (np.pi * np.where(n == 0, 1, n)))
    want = ideal * np.hamming(taps)
    assert_close(got[:, None], want)
    frequency, response = scipy.signal.freqz(got, worN=4096, fs=48000)
    middle = (frequency > 24000 * 4 / taps) & (frequency < 24000 * (1 - 4 / taps))
    turned = response * np.exp(2j * np.pi * frequency / 48000 * half)
    assert np.abs(turned[middle] + 1j).max() < 0.02  # times -j


def test_design_writes_text(folder):
    want = designed("lowpass", "--cutoff", "5000", "--taps", "31").astype(np.float32)
    for name, separator in [("h.txt", None), ("h.csv", ",")]:
        good("design", "lowpass", "--cutoff", "5000", "--taps", "31", "-o", name)
        assert (np.loadtxt(name, delimiter=separator).astype(np.float32) == want).all()
        assert json.loads(good("info", name, "--json").stdout)["frames"] == 31


def test_design_to_standard_output(folder):
    wanted = designed("lowpass", "--cutoff", "5000", "--taps", "31")
    (folder / "o.wav").write_bytes(good("design", "lowpass", "--cutoff", "5000", "--taps", "31", "-o", "-",
                                        text=False).stdout)
    assert (read("o.wav")[:, 0] == wanted).all()


# ---- rooms ----------------------------------------------------------------------------------------------------------
def decay_time(h, rate=48000):
    """T30 by backward integration: the line through -5...-35 dB, prolonged to -60."""
    integral = np.cumsum(h[::-1] ** 2)[::-1]
    level = 10 * np.log10(integral / integral[0] + 1e-30)
    first, last = np.argmax(level < -5), np.argmax(level < -35)
    slope = np.polyfit(np.arange(first, last) / rate, level[first:last], 1)[0]
    return -60 / slope


@pytest.mark.parametrize("rt60", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("rate", [44100, 96000])
def test_room_decays_in_the_time_asked_for(folder, rt60, rate):
    good("design", "room", "--rt60", rt60, "--rate", rate, "-o", "room.wav")
    h = read("room.wav")
    assert h.shape[1] == 2 and abs(len(h) - rt60 * rate) <= 1
    for ch in range(2):
        assert decay_time(h[:, ch], rate) == pytest.approx(rt60, rel=0.03)
        assert (h[:, ch] ** 2).sum() == pytest.approx(1, rel=1e-5)
    assert abs(np.corrcoef(h[:, 0], h[:, 1])[0, 1]) < 0.05, "the channels are alike"


def test_room_is_the_same_for_the_same_seed(folder):
    for name, seed in [("a.wav", 7), ("b.wav", 7), ("c.wav", 8)]:
        said = good("design", "room", "--rt60", "0.2", "--predelay", 10, "--seed", seed, "-o", name).stderr
        assert said == (f"{name}: room, 10080 taps at 48000 Hz, delay 480 frames (10.00 ms); 2 channels, 60 dB in 0.2 s; "
                        f"seed {seed}\n")
    assert (folder / "a.wav").read_bytes() == (folder / "b.wav").read_bytes()
    assert np.abs(read("a.wav") - read("c.wav")).max() > 0.01


def test_room_options(folder):
    good("design", "room", "--rt60", "0.5", "--length", "0.25", "--predelay", "20", "--channels", "4", "--seed", "3",
         "-o", "room.wav")
    h = read("room.wav")
    assert h.shape == (12000 + 960, 4)
    assert not h[:960].any() and h[960:1000].any()


# ---- info -----------------------------------------------------------------------------------------------------------
@pytest.fixture
def room(folder):
    rng = generator(5)
    n = 48000
    h = rng.standard_normal((n, 2)) * np.exp(-6.9078 * np.arange(n)[:, None] / 48000 / [0.8, 0.4]) * [0.1, 0.05]
    h[:300] = 0
    return write("room.wav", h.astype(np.float32)), h.astype(np.float32).astype(np.float64)


def test_info_equals_numpy(room):
    path, h = room
    info = json.loads(good("info", path, "--json").stdout)
    assert (info["channels"], info["rate"], info["frames"], info["seconds"]) == (2, 48000, 48000, 1.0)
    assert info["format"] == "wav:float"
    for ch in range(2):
        got, x = info["channel"][ch], h[:, ch]
        spectrum = np.abs(np.fft.rfft(x, 1 << 19))
        assert got["peak"] == pytest.approx(np.abs(x).max(), rel=1e-6)
        assert got["peak_db"] == pytest.approx(20 * np.log10(np.abs(x).max()), abs=1e-4)
        assert got["peak_frame"] == np.argmax(np.abs(x))
        assert got["rms"] == pytest.approx(np.sqrt((x ** 2).mean()), rel=1e-6)
        assert got["leading_silence"] == np.argmax(np.abs(x) > 1e-3 * np.abs(x).max())
        assert got["t30_s"] == pytest.approx(decay_time(x), rel=0.01)
        assert got["l1"] == pytest.approx(np.abs(x).sum(), rel=1e-6)
        assert got["dc_gain"] == pytest.approx(x.sum(), rel=1e-4)
        assert got["response_peak"] == pytest.approx(spectrum.max(), rel=0.005)
        assert got["response_peak_hz"] == pytest.approx(np.argmax(spectrum) * 48000 / (1 << 19), abs=1)
    assert info["largest_gain_db"] == pytest.approx(20 * np.log10(np.abs(h).sum(0).max()), abs=1e-3)


def test_largest_gain_is_reached_and_not_passed(room):
    """The signal that a mask makes loudest is the sign of its reversal: its peak is the L1 that info tells."""
    path, h = room
    write("worst.wav", np.sign(h[::-1]) * 0.01, subtype="FLOAT")
    report = convolve("worst.wav", path, "y.wav", "--method", "fft")
    info = json.loads(good("info", path, "--json").stdout)
    assert report["peak"] == pytest.approx(0.01 * 10 ** (info["largest_gain_db"] / 20), rel=1e-4)


def test_info_in_words(room):
    path, _ = room
    said = good("info", path).stdout
    assert re.findall("^channel .*", said, re.M) == ["channel 1", "channel 2"]
    for word in ["2 channels", "48000 Hz", "48000 frames", "peak", "RMS", "leading silence", "T30"]:
        assert word in said, said


def test_info_shows_the_plan_if_it_is_asked_for(room):
    path, _ = room
    said, more = good("info", path).stdout, good("info", path, "--plan").stdout
    assert more.startswith(said + "plan for blocks of 64 frames") and "plan" not in said


def test_info_shows_every_level_of_the_plan(room):
    path, _ = room
    info = json.loads(good("info", path, "--json").stdout)
    plan = info["plan"]
    assert plan["backend"] == "cpu" and plan["block"] == 64
    assert sum(level["taps"] for level in plan["levels"]) == info["frames"]
    assert plan["levels"][0]["offset"] == 0 and plan["memory_bytes"] > 8 * info["frames"] * info["channels"]
    assert len(plan["levels"]) > 1
    assert all(level["slices"] * plan["hop"] == level["partition"] for level in plan["levels"][1:])
    assert plan["swap_delay"] >= 2 * plan["levels"][-1]["partition"]
    assert plan["block"] < plan["swap_usual"] < plan["swap_delay"] / 4


def test_info_of_a_single_click(folder):
    h = np.zeros((100, 1), np.float32)
    h[10] = 0.5
    info = json.loads(good("info", write("click.wav", h), "--json").stdout)
    got = info["channel"][0]
    assert got["leading_silence"] == 10 and got["t30_s"] is None
    assert got["response_peak"] == pytest.approx(0.5, rel=1e-6)
    assert info["plan"]["backend"] == "cpu" and info["plan"]["block"] == 64


@pytest.mark.parametrize("frequency,phase,low,high", [
    (0.25, 45, -0.1, 0.1), (0.25, 22.5, -0.17, 0.1), (1 / 6, 30, -0.1, 0.1), (0.01, 0, -0.1, 0.1), (1 / 3, 60, -0.1, 0.1)])
def test_the_true_peak_is_that_of_the_waveform(folder, frequency, phase, low, high):
    """A sine of amplitude 1 that fades in and out; the samples of a quarter of the rate at 45 degrees stay at -3.01 dB.
    ITU-R BS.1770-4: at 4 times the rate at most 0.17 dB are missed at a quarter of the rate."""
    n = np.arange(4800)
    x = np.sin(2 * np.pi * frequency * n + np.radians(phase)) * np.minimum(1, np.minimum(n, n[::-1]) / 1000)
    write("s.wav", np.stack([x, x / 2], 1).astype(np.float32))
    done = json.loads(good("info", "s.wav", "--json").stdout)["channel"]
    assert low < done[0]["true_peak_db"] < high
    assert done[1]["true_peak"] == pytest.approx(done[0]["true_peak"] / 2, rel=1e-6)
    assert done[0]["peak_db"] == pytest.approx(20 * np.log10(np.abs(x).max()), abs=1e-4)
    if (frequency, phase) == (0.25, 45):
        assert done[0]["peak_db"] == pytest.approx(-3.01, abs=0.01)
        assert re.search(r"peak +-3\.01 dBFS\n +true peak +[-+]?0\.\d\d dBTP\n", good("info", "s.wav").stdout)


@pytest.mark.parametrize("at", [0, 1, 7, 9])
def test_the_true_peak_counts_the_edges(folder, at):
    """Two equal samples beside each other exceed their level between them, at the edges too; one does not."""
    x = np.zeros((10, 1), np.float32)
    x[at] = -0.5
    write("c.wav", x)
    assert json.loads(good("info", "c.wav", "--json").stdout)["channel"][0]["true_peak"] == 0.5
    x[max(at - 1, 0):at + 1 + (at == 0)] = -0.5
    write("c.wav", x)
    got = json.loads(good("info", "c.wav", "--json").stdout)["channel"][0]["true_peak"]
    assert got == pytest.approx(0.5 * 2 * 2 / np.pi, rel=0.02)  # two sinc at half a sample


def test_info_of_silence(folder):
    info = json.loads(good("info", write("silence.wav", np.zeros((1000, 2), np.float32)), "--json").stdout)
    assert info["channel"][0]["peak"] == 0 and info["channel"][0]["peak_db"] is None


# ---- the masks that ship --------------------------------------------------------------------------------------------
MASKS = {"hall": (2, 1.7), "room": (2, 0.4), "chamber": (4, 1.1), "plate": (2, 1.7), "spring": (1, 1.4),
         "cabinet": (1, None)}


@pytest.mark.parametrize("name", MASKS)
def test_shipped_mask_is_as_described(folder, name):
    path = BUILD / "impulses" / f"{name}.wav"
    channels, t30 = MASKS[name]
    info = json.loads(good("info", path, "--json").stdout)
    assert info["channels"] == channels and info["rate"] == 48000
    assert path.stat().st_size < 1000000
    assert f"`{name}.wav`" in (ROOT / "impulses/README.md").read_text()
    h = read(path)
    assert np.abs(h).max() < 1 and np.isfinite(h).all()
    energy = (h ** 2).sum(0)
    heard = [energy[0] + energy[2], energy[1] + energy[3]] if channels == 4 else energy
    assert 10 * np.log10(heard) == pytest.approx(-10 if name == "cabinet" else -3, abs=0.1)
    for ch in range(channels):
        if t30:
            assert decay_time(h[:, ch]) == pytest.approx(t30, abs=0.1)
    if channels > 1:
        late = h[len(h) // 8:]
        assert np.abs(np.corrcoef(late.T) - np.eye(channels)).max() < 0.1, "the tails are alike"


def test_shipped_demo_sound_does_not_clip(folder):
    for name in MASKS:
        report = convolve(BUILD / "impulses/drums.wav", BUILD / f"impulses/{name}.wav", "y.wav")
        assert report["clipped"] == 0 and 0.1 < report["peak"] < 1, (name, report["peak"])


def test_shipped_masks_are_the_same_every_time(folder):
    subprocess.run([str(BUILD / "synthesis"), "."], check=True, timeout=120)
    for path in (BUILD / "impulses").glob("*.wav"):
        assert path.read_bytes() == (folder / path.name).read_bytes(), path.name


# ---- a mask for each rate -------------------------------------------------------------------------------------------
@pytest.fixture
def halls(folder):
    """A mask of one tap for each of two rates; the gain tells which one was read. An input for each of three rates."""
    for rate, tap in [(44100, 0.25), (96000, 0.5)]:
        write(f"hall-{rate}.wav", np.full((1, 1), tap, np.float32), rate)
    (folder / "hall.conf").write_text("/convolver/new 1 1 64 64\n/impulse/read 1 1 1 0 0 0 1 hall-%r.wav\n")
    return {rate: read(write(f"x-{rate}.wav", noise(1000, seed=rate), rate)) for rate in (44100, 48000, 96000)}


@pytest.mark.parametrize("mask", ["hall-%r.wav", "hall.conf"])
def test_files_take_the_mask_of_their_rate(folder, halls, mask):
    good("batch", "--inputs", "x-*.wav", "--masks", mask, "-o", "out", "--backend", "cpu", "--workers", 2)
    for rate, tap in [(44100, 0.25), (96000, 0.5)]:
        good("convolve", f"x-{rate}.wav", mask, "-o", "y.wav", "--backend", "cpu")
        for output in ("y.wav", *folder.glob(f"out/x-{rate}*")):
            assert_close(read(output), tap * halls[rate])
    said = good("convolve", "x-48000.wav", mask, "-o", "y.wav").stderr
    assert "hall-48000.wav is missing; hall-96000.wav is used" in said and "resampled from 96000 to 48000" in said
    assert len(list(folder.glob("out/*.wav"))) == 3


def test_info_and_check_take_a_mask_of_a_rate(folder, halls):
    for options, rate in [([], 96000), (["--rate", 96000], 96000), (["--rate", 44100], 44100)]:
        info = json.loads(good("info", "hall-%r.wav", "--json", *options).stdout)
        assert (info["file"], info["rate"], info["diagnostics"]) == (f"hall-{rate}.wav", rate, []), info
        checked = good("check", "hall-%r.wav", *options)
        assert f"at {rate} Hz" in checked.stdout and checked.stderr == "", checked
    for command in ("info", "check"):
        assert "hall-48000.wav is missing; hall-96000" in good(command, "hall-%r.wav", "--rate", 48000).stderr
    os.rename("hall.conf", "hall-96000.conf")
    said = good("check", "hall-%r.conf", "--rate", 48000).stderr
    assert "hall-48000.conf is missing; hall-96000.conf is used, and its delays are not resampled" in said


def test_a_mask_for_no_rate_is_said(halls):
    for command in (["convolve", "x-44100.wav", "room-%r.wav", "-o", "y.wav"], ["info", "room-%r.wav", "--rate", 44100]):
        refused(*command, says=["room-%r.wav: ", "room-44100.wav; check the path"])


@pytest.mark.parametrize("bank", ["b.csv", "b.sofa", "folder"])
def test_a_bank_where_a_mask_is_expected_says_path(folder, bank):
    write("x.wav", noise(10))
    (folder / "b.csv").write_text("file,azimuth\nx.wav,0\n")
    (folder / "b.sofa").write_bytes(b"\x89HDF")
    (folder / "folder").mkdir()
    refused("convolve", "x.wav", bank, "-o", "y.wav", says=[bank, "--path"])
    refused("mask", "trim", bank, "-o", "y.wav", says=[bank, "--path"])
    assert "--path" in haloconv("batch", "--inputs", "x.wav", "--masks", bank, "-o", "out").stderr


def test_masks_that_ship_have_names(folder):
    """In each command, also in lists and presets; a file of that name comes first."""
    write("x.wav", noise(300))
    good("convolve", "x.wav", "hall", "-o", "y.wav")
    good("convolve", "x.wav", BUILD / "impulses/hall.wav", "-o", "z.wav")
    assert np.array_equal(read("y.wav"), read("z.wav"))
    (folder / "list.csv").write_text("input,mask,output\nx.wav,hall,y2.wav\n")
    good("batch", "list.csv", "-o", ".")
    good("batch", "--inputs", "x.wav", "--masks", "spring", "-o", ".")
    assert np.array_equal(read("y2.wav"), read("z.wav")) and os.path.exists("x_spring.wav")
    assert "bank of 266 entries" in good("check", "head").stdout
    write("seven.wav", noise(7))
    os.rename("seven.wav", "hall")
    assert json.loads(good("info", "hall", "--json").stdout)["frames"] == 7
    os.mkdir("room")  # as haloconv room makes it
    assert json.loads(good("info", "room", "--json").stdout)["frames"] > 1000
    os.mkdir("head")
    refused("info", "head", says="no sound files")
    refused("info", "halls", says="No such file")


def test_the_masks_that_ship_are_listed(folder):
    """Beside a program that is not installed, and in share/haloconv/impulses."""
    files = {path.stem for path in (BUILD / "impulses").iterdir()} - {"drums", "made"}
    lines = good("masks").stdout.splitlines()
    assert lines[0] == f"{BUILD / 'impulses'}:" and {line.split()[0] for line in lines[1:]} == files, lines
    (folder / "bin").mkdir()
    shutil.copytree(BUILD / "impulses", "share/haloconv/impulses")
    copy_program("bin/haloconv")
    done = subprocess.run(["bin/haloconv", "info", "plate", "--json"], stdout=subprocess.PIPE, check=True)
    assert json.loads(done.stdout)["file"].endswith("bin/../share/haloconv/impulses/plate.wav")
    shutil.rmtree("share")
    done = subprocess.run(["bin/haloconv", "masks"], stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1 and "make impulses" in done.stderr
