"""haloconv mask: every operation beside numpy or scipy in float64; operations that undo each other; pipes; refusals.

A result is rounded to float: within 2^-24 of each sample. Transforms in double precision add 1e-14 of the norms.
"""

import json
import subprocess

import numpy as np
import pytest
import scipy.signal
from conftest import HALOCONV, good, generator, noise, read, refused, write

RATE = 48000
EDGE = 1000  # onset of a.wav, in frames


@pytest.fixture
def masks(folder):
    """a.wav: silence, then decaying noise, two channels; b.wav: two; one.wav: one channel."""
    a = noise(5001, 2, seed=1) * np.exp(-np.arange(5001) / 600)[:, None]
    a[:EDGE] *= 1e-4
    a[EDGE] = 0.3, -0.2
    write("a.wav", a.astype(np.float32))
    write("b.wav", noise(257, 2, seed=2))
    write("one.wav", noise(1024, seed=3))
    return read("a.wav"), read("b.wav"), read("one.wav")


def mask(operation, *args):
    good("mask", operation, *args, "-o", "y.wav", "-q")
    return read("y.wav")


def report(operation, *args):
    return json.loads(good("mask", operation, *args, "-o", "y.wav", "-q", "--json").stdout)


def assert_float(got, want, slack=0.0):
    """Is `got` what remains of `want` as a float?"""
    assert got.shape == want.shape, (got.shape, want.shape)
    over = np.abs(got - want) - (np.abs(want) * 2.0**-24 + slack + 1e-40)
    assert (over <= 0).all(), f"{(over > 0).sum()} samples are off, by up to {np.abs(got - want).max():.3g}"


def padded(h, n):
    return np.vstack([h, np.zeros((n - len(h), h.shape[1]))])


def rise(n):
    return np.sin(np.pi / 2 * (np.arange(n) + 0.5) / n) ** 2


def faded(h, n_in, n_out):
    w = np.ones(len(h))
    w[:n_in] *= rise(n_in)
    w[len(h) - n_out:] *= rise(n_out)[::-1]
    return h * w[:, None]


def convolved(a, b):
    return np.stack([np.convolve(a[:, ch], b[:, ch % b.shape[1]]) for ch in range(a.shape[1])], axis=1)


def db(value):
    return 10 ** (value / 20)


CASES = {
    "convolve a.wav b.wav": lambda a, b, one: convolved(a, b),
    "convolve b.wav one.wav a.wav": lambda a, b, one: convolved(convolved(b, one), a),
    "add a.wav b.wav one.wav --gains 0,-6,off": lambda a, b, one: a + db(-6) * padded(b, 5001),
    "add b.wav one.wav": lambda a, b, one: padded(b, 1024) + one,
    "blend a.wav one.wav --mix 0.3": lambda a, b, one: 0.7 * a + 0.3 * padded(one, 5001),
    "blend b.wav a.wav --mix 0.25 --level peak":
        lambda a, b, one: 0.75 * padded(b, 5001) + 0.25 * a * np.abs(b).max() / np.abs(a).max(),
    "blend b.wav one.wav --mix 1 --level energy":
        lambda a, b, one: np.repeat(one, 2, 1) * np.sqrt((b**2).sum() / 2 / (one**2).sum()),
    "channels a.wav one.wav --channels 3,1,1": lambda a, b, one: np.hstack([padded(one, 5001), a[:, :1], a[:, :1]]),
    "channels a.wav b.wav": lambda a, b, one: np.hstack([a, padded(b, 5001)]),
    "channels a.wav --mono": lambda a, b, one: a.mean(axis=1, keepdims=True),
    "fade a.wav --in 1 --out 20": lambda a, b, one: faded(a, 48, 960),
    "reverse a.wav": lambda a, b, one: a[::-1],
    "trim a.wav --start --below 60": lambda a, b, one: a[first(a, 1e-3):last(a, 1e-3) + 1],
    "trim a.wav --below 30": lambda a, b, one: a[:last(a, db(-30)) + 1],
    "align a.wav --at 0": lambda a, b, one: a[EDGE:],
    "align a.wav --at 50": lambda a, b, one: np.vstack([np.zeros((2400 - EDGE, 2)), a]),
    "align a.wav b.wav --by peak": lambda a, b, one: a[loudest(a) - loudest(b):],
    "decay a.wav --from 0.1 --to 0.05":
        lambda a, b, one: a * 10 ** (-3 * np.maximum(0, np.arange(5001) - EDGE) / RATE * (1 / 0.05 - 1 / 0.1))[:, None],
    "normalise a.wav --to -1": lambda a, b, one: a * db(-1) / np.abs(a).max(),
    "normalise a.wav --by energy --to 6": lambda a, b, one: a * db(6) / np.sqrt((a**2).sum(axis=0).max()),
    "normalise a.wav --by energy --each": lambda a, b, one: a / np.sqrt((a**2).sum(axis=0)),
}


def loudest(h):
    return np.abs(h).max(axis=1).argmax()


def first(h, share):
    return (np.abs(h) >= share * np.abs(h).max()).any(axis=1).argmax()


def last(h, share):
    return len(h) - 1 - first(h[::-1], share)


@pytest.mark.parametrize("words", CASES)
def test_operation_equals_numpy(masks, words):
    want = CASES[words](*masks)
    norms = np.prod([np.linalg.norm(h) for h in masks]) if words.startswith("convolve") else 0
    assert_float(mask(*words.split()), want, 1e-14 * norms + 1e-15 * np.abs(want).max())


def pulse(t, middle, hz=4000.0, width=40.0):
    """A pulse, symmetrical about `middle`; times in frames, at 48 kHz. Its spectrum is a Gaussian about 4 kHz with a
    deviation of 190 Hz, so that nothing is lost by resampling."""
    return 0.5 * np.exp(-0.5 * ((t - middle) / width) ** 2) * np.cos(2 * np.pi * hz / RATE * (t - middle))


@pytest.mark.parametrize("factor", [0.5, 0.75, 1.333333, 2, 3.1])
def test_stretch_takes_the_same_curve_slower(folder, factor):
    write("h.wav", pulse(np.arange(2000), 900.3))
    got = mask("stretch", "h.wav", "--factor", factor)
    want = pulse(np.arange(len(got)) / factor, 900.3) / factor
    assert len(got) == int(np.ceil(2000 * factor))
    assert np.abs(got[:, 0] - want).max() <= 1e-6 * np.abs(want).max(), np.abs(got[:, 0] - want).max()


def test_stretch_by_1_changes_nothing(masks):
    assert_float(mask("stretch", "a.wav", "--factor", 1), masks[0])


def test_stretch_keeps_the_gain(folder):
    good("design", "lowpass", "--cutoff", 4000, "--taps", 301, "-o", "h.wav")
    y = mask("stretch", "h.wav", "--factor", 2)[:, 0]
    assert abs(y.sum() - 1) < 1e-4 and abs(np.abs(scipy.signal.freqz(y, 1, [2000], fs=RATE)[1][0]) - 0.5) < 1e-3


# The rounding of the input and of the output, and the end of the search at 1e-6 frames, times the slope.
SHIFTED = 2 * 2.0**-24 * 0.5 + 1e-6 / 2 * 0.5 * 2 * np.pi * 4000 / RATE


@pytest.mark.parametrize("at,middle", [(10, 300.37), (5, 411.5), (3.3333, 500)])
def test_a_fractional_shift_places_the_peak_between_frames(folder, at, middle):
    write("h.wav", np.stack([pulse(np.arange(1500), middle), -0.3 * pulse(np.arange(1500), middle + 20.1)], axis=1))
    got, to = mask("align", "h.wav", "--at", at, "--fractional"), at * RATE / 1000
    want = np.stack([pulse(np.arange(len(got)), to), -0.3 * pulse(np.arange(len(got)), to + 20.1)], axis=1)
    assert np.abs(got - want).max() <= SHIFTED, np.abs(got - want).max()
    each = mask("align", "h.wav", "--at", at, "--fractional", "--each")
    want[:, 1] = -0.3 * pulse(np.arange(len(got)), to)
    assert np.abs(each - want[:len(each)]).max() <= SHIFTED, np.abs(each - want[:len(each)]).max()


def test_channels_and_masks_are_aligned_to_each_other(folder):
    write("h.wav", np.stack([pulse(np.arange(1500), middle) for middle in (400, 433, 470)], axis=1))
    write("to.wav", pulse(np.arange(1000), 333))
    peaks = np.abs(mask("align", "h.wav", "to.wav", "--each", "--by", "peak")).argmax(axis=0)
    assert (peaks == 333).all(), peaks
    onsets = [first(mask("align", "h.wav", "--at", 2, "--each")[:, [ch]], 0.1) for ch in range(3)]
    assert onsets == [96] * 3, onsets


@pytest.mark.parametrize("at,fade", [(20, 2), (0, 2), (1, 10), (80, 0), (100, 400)])
def test_split_adds_up_to_the_mask(masks, at, fade):
    a = masks[0]
    early = mask("split", "a.wav", "--at", at, "--fade", fade, "--late", "late.wav")
    late, middle = read("late.wav"), EDGE + at * 48
    both = (padded(early, len(late)) + late).astype(np.float32)
    assert (np.abs(both - a) <= np.spacing(np.abs(a).astype(np.float32))).all()
    exact = np.abs(padded(early, len(late)) + late - a)  # only the late part is rounded
    assert (exact <= np.spacing(np.abs(late).astype(np.float32)) / 2).all()
    start = max(middle - fade * 24, 0)
    n = min(len(early) - start, fade * 48)
    assert n > 0 or fade == 0
    assert not late[:start].any() and len(early) == min(max(start + fade * 48, 1), len(a))
    assert_float(early[start:], a[start:start + n] * rise(fade * 48)[::-1][:n, None], 1e-17)


def test_reverse_twice_and_onto_the_input_itself(masks):
    for _ in range(2):
        good("mask", "reverse", "a.wav", "-o", "a.wav")
    assert (read("a.wav") == masks[0]).all()


def test_convolving_with_a_dirac_changes_nothing(masks):
    write("dirac.wav", np.ones((1, 1)))
    assert (mask("convolve", "a.wav", "dirac.wav") == masks[0]).all()


@pytest.mark.parametrize("target", [0.1, 0.3])
def test_decay_has_the_time_asked_for(folder, target):
    h = generator(5).standard_normal((16000, 2)) * 0.1 * 10 ** (-3 * np.arange(16000) / RATE / 0.2)[:, None]
    write("h.wav", h)
    y = mask("decay", "h.wav", "--to", target)[:, 0]
    level = 10 * np.log10(np.cumsum(y[::-1] ** 2)[::-1] / (y**2).sum())
    span = np.flatnonzero((level <= -5) & (level >= -35))
    slope = np.polyfit(span / RATE, level[span], 1)[0]
    # a fit to noise: its level fluctuates by 1 / sqrt(frames) of the decay
    assert abs(-60 / slope / target - 1) < 0.03, -60 / slope
    assert abs(report("decay", "h.wav", "--to", target)["from"] - 0.2) < 0.006


def test_decay_by_octaves_equals_numpy(masks):
    """A weight of each octave, half a cosine over the logarithm of the frequency to the next; the bands add up.
    The transform is the smallest of twice the length, as the bands ring beyond both ends."""
    a, times, octaves = masks[0], {125: 0.2, 1000: 0.05, 4000: 0.3}, [63, 125, 250, 500, 1000, 2000, 4000, 8000]
    hz = np.fft.rfftfreq(1 << 14, 1 / RATE)
    place = np.interp(np.log2(np.maximum(hz, 1)), np.log2(octaves), np.arange(8))
    slopes = np.interp(np.arange(8), [octaves.index(f) for f in times], [1 / s - 1 / 0.1 for s in times.values()])
    want = np.zeros_like(a)
    for k, slope in enumerate(slopes):
        gain = np.cos(np.pi / 2 * np.minimum(np.abs(place - k), 1)) ** 2
        band = np.fft.irfft(np.fft.rfft(a, 1 << 14, axis=0) * gain[:, None], axis=0)[:len(a)]
        want += band * 10 ** (-3 * np.maximum(0, np.arange(len(a)) - EDGE) / RATE * slope)[:, None]
    got = mask("decay", "a.wav", "--octaves", ",".join(f"{f}:{s}" for f, s in times.items()), "--from", 0.1)
    assert_float(got, want, 1e-14)
    equal = mask("decay", "a.wav", "--octaves", "125:0.05,1000:0.05", "--from", 0.1)
    assert_float(equal, mask("decay", "a.wav", "--to", 0.05, "--from", 0.1), 1e-7 * np.abs(a).max())


def test_decay_of_an_octave_has_the_time_asked_for(folder):
    h = generator(6).standard_normal((24000, 12)) * 0.1 * 10 ** (-3 * np.arange(24000) / RATE / 0.4)[:, None]
    write("h.wav", h)
    y = mask("decay", "h.wav", "--octaves", "500:0.2,1000:0.2,4000:0.6,8000:0.6")
    for hz, seconds in [(500, 0.2), (8000, 0.6)]:
        band = scipy.signal.sosfiltfilt(scipy.signal.butter(3, [hz / 2**0.5, hz * 2**0.5], "bandpass", fs=RATE,
                                                            output="sos"), y, axis=0)
        energy = (band**2).sum(axis=1)
        level = 10 * np.log10(np.cumsum(energy[::-1])[::-1] / energy.sum())
        span = np.flatnonzero((level <= -5) & (level >= -25))
        assert abs(-60 / np.polyfit(span / RATE, level[span], 1)[0] / seconds - 1) < 0.1, hz


@pytest.mark.parametrize("rt60,noise_db", [(0.2, -60), (0.1, -40)])
def test_trim_ends_where_the_decay_meets_the_noise(folder, rt60, noise_db):
    n = int(2 * rt60 * RATE)
    h = generator(8).standard_normal((n, 2))
    h[:, 1] *= 0.3  # meets the noise sooner
    y = h * 10 ** (-3 * np.arange(n) / RATE / rt60)[:, None] + db(noise_db) * generator(9).standard_normal((n, 2))
    write("h.wav", np.vstack([np.zeros((500, 2)), y, np.zeros((n, 2))]).astype(np.float32))
    got = len(mask("trim", "h.wav"))
    want = 500 - noise_db / 60 * rt60 * RATE
    assert abs(got - want) < 0.1 * want, (got, want)


def test_trim_keeps_a_decay_without_noise(folder):
    h = generator(8).standard_normal((9600, 1)) * 0.1 * 10 ** (-3 * np.arange(9600) / RATE / 0.1)[:, None]
    write("h.wav", np.vstack([h, np.zeros((300, 1))]).astype(np.float32))
    assert (mask("trim", "h.wav") == read("h.wav")[:9600]).all()
    assert "--below" in good("mask", "trim", "y.wav", "-o", "y.wav").stderr


K_WEIGHTING = [([1.53512485958697, -2.69169618940638, 1.19839281085285], [1, -1.69065929318241, 0.73248077421585]),
               ([1, -2, 1], [1, -1.99004745483398, 0.99007225036621])]  # the tables of BS.1770-4, for 48 kHz


def k_weighted_energy(h):
    y = np.concatenate([h, np.zeros(RATE)])
    for b, a in K_WEIGHTING:
        y = scipy.signal.lfilter(b, a, y)
    return (y**2).sum()


def sine_gain(h):
    return np.abs(np.fft.rfft(h, 1 << 19)).max()


@pytest.mark.parametrize("by,level_of,within_db", [
    ("loudness", lambda h: np.sqrt(k_weighted_energy(h) / k_weighted_energy(np.ones(1))), 1e-5),
    ("sine", sine_gain, 0.001)])
def test_normalise_reaches_the_level(masks, by, level_of, within_db):
    y = mask("normalise", "a.wav", "--by", by, "--to", -3)
    assert abs(20 * np.log10(max(level_of(y[:, ch]) for ch in range(2))) + 3) < within_db
    assert np.abs(y[:, 0] * masks[0][2000, 1] - y[2000, 1] * masks[0][:, 0]).max() < 1e-7  # one gain for both
    y = mask("normalise", "a.wav", "--by", by, "--to", -3, "--each")
    assert max(abs(20 * np.log10(level_of(y[:, ch])) + 3) for ch in range(2)) < within_db


def test_pipes_equal_files(folder, masks):
    good("mask", "trim", "a.wav", "--start", "-o", "t.wav")
    want = mask("fade", "t.wav", "--out", 10)
    head = subprocess.Popen([HALOCONV, "mask", "trim", "a.wav", "--start", "-o", "-"], stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL)
    tail = subprocess.run([HALOCONV, "mask", "fade", "--out", "10", "-", "-o", "-"], stdin=head.stdout, timeout=300,
                          stdout=subprocess.PIPE, check=True)
    head.stdout.close()
    assert head.wait(timeout=300) == 0
    (folder / "piped.wav").write_bytes(tail.stdout)
    assert (read("piped.wav") == want).all()


def test_other_rates_are_resampled_to_the_first(masks):
    write("b44.wav", noise(300, seed=7), rate=44100)
    said = good("mask", "channels", "b44.wav", "--rate", RATE, "-o", "b48.wav").stderr
    assert "resampled from 44100 to 48000" in said
    assert (mask("convolve", "a.wav", "b44.wav") == mask("convolve", "a.wav", "b48.wav")).all()
    assert report("add", "b44.wav", "a.wav")["rate"] == 44100


@pytest.mark.parametrize("text", ["Preamp: -6 dB\nFilter: ON PK Fc 1000 Hz Gain 9 dB Q 2\n", "1\n0.5\n0.25\n"])
def test_a_text_has_the_rate_of_the_masks_below(folder, text):
    (folder / "t.txt").write_text(text)
    write("b44.wav", noise(300, seed=7), rate=44100)
    want = mask("convolve", "b44.wav", "t.txt")
    for names in (("t.txt", "b44.wav"), ("t.txt", "-")):
        with open("b44.wav", "rb") as piped:
            done = subprocess.run([HALOCONV, "mask", "convolve", *names, "-o", "y.wav"], stdin=piped, capture_output=True, text=True)
        assert "44100 Hz" in done.stderr and "warning" not in done.stderr and "resampled" not in done.stderr, done
        assert_float(read("y.wav"), want, 1e-7)
    assert report("convolve", "t.txt", "b44.wav", "--rate", 32000)["rate"] == 32000
    assert report("convolve", "t.txt", "t.txt")["rate"] == RATE


def test_texts_have_the_rate_that_is_given(folder):
    (folder / "h.txt").write_text("1\n0.5\n0.25\n")
    good("mask", "align", "h.txt", "--at", 2, "--rate", 1000, "-o", "y.csv")
    assert (folder / "y.csv").read_text() == "0\n0\n1\n0.5\n0.25\n"
    assert "48000" in good("mask", "reverse", "h.txt", "-o", "y.txt").stderr


USAGE = {"": "operation", "mix a.wav": "operation", "trim": "MASK", "convolve a.wav": "two MASKs",
         "reverse a.wav": "-o",
         "fade a.wav -o y.wav": "--in", "add a.wav b.wav --gains 0 -o y.wav": "--gains",
         "add a.wav b.wav --gains 0,loud -o y.wav": "off", "blend a.wav b.wav -o y.wav": "--mix",
         "blend a.wav b.wav --mix 1.5 -o y.wav": "from 0 to 1", "channels a.wav --channels 0 -o y.wav": "from 1",
         "channels a.wav --channels 1.5 -o y.wav": "from 1",
         "align a.wav -o y.wav": "--at", "align a.wav b.wav --at 1 -o y.wav": "REFERENCE",
         "stretch a.wav -o y.wav": "--factor", "stretch a.wav --factor 21 -o y.wav": "20",
         "split a.wav --at 5 -o y.wav": "--late", "split a.wav --late z.wav -o y.wav": "--at",
         "split a.wav --at 5 --late y.wav -o y.wav": "same file", "split a.wav --at 5 --late x.conf -o y.wav": ".wav",
         "decay a.wav -o y.wav": "--to",
         "decay a.wav --octaves 100:1 -o y.wav": "63 to 8000", "decay a.wav --octaves 63:1 --to 1 -o y.wav": "--octaves",
         "convolve - - -o y.wav": "standard input",
         "normalise a.wav --by ear -o y.wav": "loudness", "reverse a.wav --json -o -": "--json"}
FAILURES = {"convolve a.wav three.wav": "mask channels", "channels a.wav --channels 3": "from 1 to 2",
            "fade b.wav --out 6": "shorten", "trim silent.wav": "silent", "align silent.wav --at 0": "silent",
            "align a.wav silent.wav": "silent.wav", "normalise silent.wav": "silent",
            "blend a.wav silent.wav --mix 0.1 --level energy": "--level none", "decay b.wav --to 1": "--from",
            "decay b.wav --octaves 63:1": "63 Hz",
            "split b.wav --at 20 --late z.wav": "--at", "reverse none.wav": "none.wav", "reverse -": "-: is empty",
            "reverse x.conf": "give a sound file that `haloconv import` makes of it",
            "add huge.wav b.wav --gains 300,0": "range of a float"}


def test_wrong_usage_is_refused(masks):
    for words, says in USAGE.items():
        refused("mask", *words.split(), exit=2, says=says)


def test_what_cannot_be_done_is_refused(folder, masks):
    write("three.wav", noise(10, 3))
    write("silent.wav", np.zeros((100, 2)))
    (folder / "x.conf").write_text("/convolver/new 1 1 64 64\n/impulse/dirac 1 1 1 0\n")
    write("huge.wav", np.full((10, 1), 1e38, np.float32))
    for words, says in FAILURES.items():
        refused("mask", *words.split(), "-o", "y.txt", says=says)
