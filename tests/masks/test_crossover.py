"""haloconv design crossover beside scipy's Butterworth filters in float64, its sums, and its configurations.

The filters are floats: a response is off by their rounding, -140 dB, and by what is cut off, as --error says.
"""

import json

import numpy as np
import pytest
import scipy.signal
from conftest import assert_close, convolve, good, noise, read, refused, write

RATE = 48000
SIZE = 1 << 16  # of the transforms: twice the longest filter and more
HZ = np.fft.rfftfreq(SIZE, 1 / RATE)[1:-1]


def made(*args):
    """The filters [way][tap], and the report."""
    done = good("design", "crossover", *args, "-o", "xo.wav", "--json", "-q")
    return read("xo.wav").T, json.loads(done.stdout)


def sections(cutoffs, order, way):
    """The exact filters of a way, as second-order sections; the sign is that of order 2."""
    parts = []
    for k, hz in enumerate(cutoffs):
        side = "lowpass" if k >= way else "highpass"
        butterworth = scipy.signal.butter(order // 2, hz, side, fs=RATE, output="sos")
        if k > way:  # low-pass and high-pass together: an all-pass, whose zeros are its poles mirrored
            mirrored = butterworth.copy()
            for row in mirrored:
                poles = row[3:5] if row[5] == 0 else row[3:6]
                row[:3] = np.append(poles[::-1], [0] * (3 - len(poles)))
            parts.append(mirrored)
        else:
            parts += [butterworth, butterworth]
    all_parts = np.vstack(parts)
    all_parts[0, :3] *= -1 if order == 2 and way % 2 else 1
    return all_parts


def exact(cutoffs, order, way):
    return scipy.signal.sosfreqz(sections(cutoffs, order, way), HZ, fs=RATE)[1]


def responses(filters):
    assert filters.shape[1] <= SIZE
    return np.fft.rfft(filters, SIZE)[:, 1:-1].T


def db(h):
    return 20 * np.log10(np.abs(h))


@pytest.mark.parametrize("order", [2, 4, 8])
@pytest.mark.parametrize("cutoffs", [[1000], [300, 3000], [80, 400, 2500, 12000]], ids=len)
@pytest.mark.parametrize("type", ["linkwitz-riley", "linear"])
def test_filters_are_linkwitz_riley(folder, order, cutoffs, type):
    filters, report = made("--cutoff", ",".join(map(str, cutoffs)), "--order", order, "--type", type)
    got = responses(filters)
    assert len(filters) == len(cutoffs) + 1 == report["ways"] and filters.shape[1] == report["taps"]
    for way in range(len(filters)):
        want = exact(cutoffs, order, way)
        if type == "linear":
            want = np.abs(want) * np.exp(-2j * np.pi * HZ / RATE * report["delay"])
        off = np.abs(got[:, way] - want).max()
        assert off <= 1e-6 and off <= 1.1 * 10 ** (report["error_db"] / 20), (off, report["error_db"])
        heard = db(want) > -75
        assert np.abs(db(got[heard, way]) - db(want[heard])).max() < 0.01
    total = got.sum(axis=1)
    assert np.abs(db(total)).max() < 0.01 and np.abs(db(total)).max() <= 1.1 * report["sum_db"] + 1e-7


@pytest.mark.parametrize("args", [["--type", "linear"], ["--type", "linear", "--order", 8, "--error", -60],
                                  ["--type", "steep"], ["--type", "steep", "--transition", 60, "--attenuation", 120]])
def test_ways_of_linear_phase_add_up_to_a_delay(folder, args):
    filters, report = made("--cutoff", "200,1000,9000", *args)
    total = filters.sum(axis=0)
    total[report["delay"]] -= 1
    assert np.abs(total).sum() <= 1e-6, np.abs(total).sum()  # at no frequency above -120 dB
    assert np.abs(filters - filters[:, ::-1]).max() <= 1e-9


def test_steep_ways_keep_their_attenuation(folder):
    filters, report = made("--cutoff", "500,4000", "--type", "steep", "--attenuation", 90, "--transition", 200)
    levels = db(responses(filters))
    least = 200  # Kaiser's formula estimates the attenuation; the edge of a stop band is some dB above it
    for way, (low, high) in enumerate([(0, 500), (500, 4000), (4000, RATE)]):
        stops, edges = ((HZ < low - width) | (HZ > high + width) for width in (110, 100))
        passes = (HZ > low + 100) & (HZ < high - 100)
        least = min(least, -levels[edges, way].max())
        assert levels[stops, way].max() < -89 and np.abs(levels[passes, way]).max() < 0.001
    assert least > 86 and abs(least - report["attenuation_db"]) < 1  # the edge lies between bins


@pytest.mark.parametrize("type,order", [("linkwitz-riley", 2), ("linkwitz-riley", 8), ("linear", 4), ("steep", None)])
def test_the_configuration_plays_the_ways_of_each_channel(folder, type, order):
    (folder / "my folder").mkdir()
    cutoffs = [300, 3000]
    done = good("design", "crossover", "--cutoff", "300,3000", "--type", type, *(["--order", order] if order else []),
                "-o", 'my folder/two "ways".wav', "--json")
    delay, configuration = map(json.loads(done.stdout).get, ["delay", "configuration"])
    assert configuration == 'my folder/two "ways".conf'
    x = noise(4000, 2)
    convolve(write("x.wav", x), configuration, "y.wav")
    y = read("y.wav")
    delayed = np.vstack([np.zeros((delay, 2)), x, np.zeros((len(y) - delay - len(x), 2))])
    for ch in range(2):
        if type == "linkwitz-riley":  # the same as the recursive filters
            want = [scipy.signal.sosfilt(sections(cutoffs, order, way), delayed[:, ch]) for way in range(3)]
            assert_close(y[:, 3 * ch:3 * ch + 3], np.stack(want, axis=1), share=2e-6)
        else:
            assert_close(y[:, 3 * ch:3 * ch + 3].sum(axis=1)[:, None], delayed[:, [ch]], share=3e-6)  # three outputs
    text = (folder / configuration).read_text()
    names = [f"/output/name {3 * ch + i + 1} {ch + 1}-{band}Hz\n" for ch in range(2)
             for i, band in enumerate(["to-300", "300-3000", "from-3000"])]
    assert all(name in text for name in names), text
    assert good("check", configuration).stdout.startswith("ok: 2 inputs, 6 outputs, 6 responses (3 distinct)")


@pytest.mark.parametrize("delays,gains,polarity", [([0, 0.25, 0.4], [0, -3, -4.5], [1, -1, 1]),
                                                   ([1.01, 0, 0], [-1, 2.5, 0], None), (None, None, [-1, -1, 1])])
def test_delays_gains_and_polarity_of_the_ways_are_played(folder, delays, gains, polarity):
    """The filters stay as they are; a delay is a whole number of frames."""
    options = [f"--delays={','.join(map(str, delays))}"] if delays else []
    options += ["--gains", ",".join(map(str, gains))] if gains else []
    options += ["--polarity", ",".join("-+"[sign > 0] for sign in polarity)] if polarity else []
    filters, _ = made("--cutoff", "300,3000", *options)
    x = noise(4000, 2)
    convolve(write("x.wav", x), "xo.conf", "y.wav")
    y = read("y.wav")
    for ch in range(2):
        for way in range(3):
            want = np.zeros(len(y))
            frames = round((delays or [0] * 3)[way] * RATE / 1000)
            part = scipy.signal.fftconvolve(x[:, ch], filters[way])
            want[frames:frames + len(part)] = part * (polarity or [1] * 3)[way] * 10 ** ((gains or [0] * 3)[way] / 20)
            assert_close(y[:, [3 * ch + way]], want[:, None], share=2e-6)


def test_lists_of_ways_are_checked(folder):
    for words, says in {"--delays 1": "has 1 value, but there are 2 ways", "--delays 1,-1": "from 0 to 1000",
                        "--delays 1,x": "from 0 to 1000", "--gains 0,1,2": "3 values", "--gains 0,nan": "from -100 to 40",
                        "--polarity +-": "such as +,-,+", "--polarity +,": "such as +,-,+",
                        "--polarity ,": "such as +,-,+"}.items():
        refused("design", "crossover", "--cutoff", 1000, "-o", "xo.wav", *words.split(), exit=2, says=says)
    assert not list(folder.iterdir())


def test_an_edited_configuration_is_never_replaced(folder):
    def design(output, *options):
        return ["design", "crossover", "--cutoff", *options, "-o", output]
    configuration = folder / "xo.conf"
    good(*design("xo.wav", 1000))
    first = configuration.read_text()
    good(*design("xo.wav", 2000, "--gains", "0,-3"))  # nobody edited it
    second = configuration.read_text()
    assert second != first
    refused(*design("xo.txt", 2000), says="xo.conf: belongs to another output; give another -o")
    filters = (folder / "xo.wav").read_bytes()
    for edited in (second.replace(" 0 0 0 1 ", " 0 12 0 1 ", 1), second + "# mine\n", first.replace("1000", "1001"),
                   second.rsplit("\n", 2)[0] + "\n", "/convolver/new 1 1 256 1\n", ""):
        assert edited not in (first, second)
        configuration.write_text(edited)
        refused(*design("xo.wav", 3000), says="xo.conf: was edited, or another program made it, and is not replaced")
        refused(*design("xo.txt", 3000), says="xo.conf: was edited")
        if edited:
            good("import", "xo.conf", "-o", "xo-2.conf", "--rate", RATE)
        assert configuration.read_text() == edited and (folder / "xo.wav").read_bytes() == filters
    with open("xo-2.conf", "a") as file:
        file.write("# mine\n")
    configuration.write_text(second)
    refused("import", "xo.conf", "-o", "xo-2.conf", says="xo-2.conf: was edited")
    assert (folder / "xo-2.conf").read_text().endswith("# mine\n") and not (folder / "xo.txt").exists()


def test_wrong_usage_is_refused(folder):
    for words, says in {"": "--cutoff", "--cutoff 3000,300": "rising", "--cutoff 30000": "half the rate",
                        "--cutoff 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16": "at most 15",
                        "--cutoff 99 --order 3": "2, 4 or 8",
                        "--cutoff 99 --type steep --order 4": "--transition", "--cutoff 99 --attenuation 90": "steep",
                        "--cutoff 1000,1200 --type steep": "at most 400",
                        "--cutoff 99,999 --channels 512": "1024"}.items():
        refused("design", "crossover", *words.split(), "-o", "xo.wav", exit=2, says=says)
    refused("design", "crossover", "--cutoff", 99, "-o", "-", exit=2, says="configuration")
    refused("design", "crossover", "--cutoff", 99, "-o", "a\nb.wav", exit=2, says="control")
    assert not list(folder.iterdir())
