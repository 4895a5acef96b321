"""Configurations of Convolver, which Roon and JRiver read too, against the rules of its manual in numpy."""

import json

import numpy as np
import pytest
import soundfile

from conftest import convolve, generator, haloconv

RATE = 44100
NULL = 10 ** (-110 / 20)  # of the output's peak


@pytest.fixture(autouse=True)
def responses(folder):
    rng = generator(1)
    folder.joinpath("Impulses").mkdir()
    for name, channels in (("L.wav", 1), ("R.wav", 1), ("stereo.wav", 2), ("Impulses/far.wav", 1)):
        soundfile.write(name, rng.uniform(-0.3, 0.3, (200, channels)).astype("f4"), RATE, subtype="FLOAT")
    (rng.uniform(-0.3, 0.3, 150)).astype("<f8").tofile("bare.dbl")


def taps(name, channel):
    if name == "bare.dbl":
        return np.fromfile(name, "<f8")
    return soundfile.read(name, always_2d=True)[0][:, channel]


def weights(text):
    """[(channel, factor)] of "1.5 -0.25": the digits behind the dot are the factor, none of them or zeros are 1."""
    for word in text.split():
        channel, _, fraction = word.lstrip("-").partition(".")
        factor = int(fraction or 0) / 10 ** len(fraction) or 1
        yield int(channel), -factor if word.startswith("-") else factor


def delayed(x, ms):
    return np.concatenate([np.zeros(round(ms * RATE / 1000)), x])


def by_numpy(x, n_out, in_ms, out_ms, paths):
    out = np.zeros((len(x) + 2000, n_out))
    for name, channel, inputs, outputs in paths:
        total = np.zeros(len(x) + 1000)
        for ch, factor in weights(inputs):
            one = delayed(x[:, ch], in_ms[ch]) * factor
            total[:len(one)] += one
        y = np.convolve(total, taps(name, channel))
        for ch, factor in weights(outputs):
            one = delayed(y, out_ms[ch]) * factor
            out[:len(one), ch] += one[:len(out)]
    return out


CASES = {  # inputs, outputs, delays of inputs and of outputs, paths
    "channel by channel": (2, 2, [0, 0], [0, 0], [("L.wav", 0, "0.0", "0.0"), ("R.wav", 0, "1.0", "1.0")]),
    "a stereo file": (2, 2, [0, 0], [0, 0], [("stereo.wav", 0, "0.0", "0.0"), ("stereo.wav", 1, "1", "1.00")]),
    "crosstalk cancellation": (2, 2, [0, 0], [0, 0], [
        ("stereo.wav", 0, "0.0", "0.0"), ("stereo.wav", 1, "0.0", "1.0"),
        ("stereo.wav", 1, "1.0", "0.0"), ("stereo.wav", 0, "1.0", "1.0")]),
    "mixes with factors": (3, 2, [0, 0, 0], [0, 0], [
        ("L.wav", 0, "0.5 1.25 -2.125", "0.0 1.75"), ("R.wav", 0, "-0.99999 2.0", "-1.5")]),
    "delays": (2, 3, [1, 2.5], [0, 10, 0.5], [
        ("L.wav", 0, "0.0 1.5", "0.0 1.0 2.0"), ("R.wav", 0, "1.0", "2.0")]),
    "bare floats": (1, 1, [0], [0], [("bare.dbl", 0, "0.0", "0.0")]),
    "a folder": (1, 1, [0], [0], [("Impulses/far.wav", 0, "0.0", "0.0")]),
}


@pytest.mark.parametrize("name", CASES)
def test_equals_the_rules(name):
    n_in, n_out, in_ms, out_ms, paths = CASES[name]
    lines = [f"{RATE} {n_in} {n_out} 0", " ".join(map(str, in_ms)), " ".join(map(str, out_ms))]
    for path in paths:
        lines += map(str, path)
    text = "\n".join(lines) + "\n"
    if name in ("delays", "a folder"):  # as on Windows; comments, blank lines, and both delays on one line
        lines[1:3] = ["# delays", f"{lines[1]}  {lines[2]} # ms", ""]
        text = "# made by hand\r\n" + "\r\n".join(lines).replace("Impulses/", ".\\Impulses\\")
    with open("c.cfg", "w", encoding="utf-8", newline="") as file:
        file.write(text)
    x = generator(2).uniform(-0.5, 0.5, (3000, n_in)).astype("f4").astype("f8")
    soundfile.write("x.wav", x, RATE, subtype="FLOAT")
    convolve("x.wav", "c.cfg", "y.wav", "--format", "float")
    got = soundfile.read("y.wav", always_2d=True)[0]
    want = by_numpy(x, n_out, in_ms, out_ms, paths)
    assert np.abs(want[len(got):]).max() < 1e-12
    error = np.abs(got - want[:len(got)]).max() / np.abs(want).max()
    assert error <= NULL, f"{20 * np.log10(error):.1f} dB"


def checked(text):
    with open("e.cfg", "w", encoding="utf-8") as file:
        file.write(text)
    done = haloconv("check", "e.cfg", "--json")
    assert done.returncode in (0, 1), done.stderr
    report = json.loads(done.stdout)
    return report, [(one["line"], one["kind"], one["text"]) for one in report["diagnostics"]]


HEAD = "44100 2 2 0\n0 0\n0 0\n"
LISTED = {  # text: line, kind, words
    "44100 0 2 0\n": (1, "error", "needs a rate"),
    "44100 2 2000 0\n": (1, "error", "1 to 1024"),
    "44100 2 2 0x\n": (1, "error", "is not a hexadecimal number"),
    "44100 2 2 7\n0 0\n0 0\nL.wav\n0\n0.0\n0.0\n": (1, "warning", "3 speakers, but the configuration has 2 outputs"),
    "44100 2 2 0\n0 -1\n": (2, "error", 'the delay "-1"'),
    "44100 2 2 0\n0 0\nL.wav\n": (3, "error", 'the delay "L.wav"'),
    "44100 2 2 0\n0 0\n0 0 0\n": (3, "error", "more than 2 delays"),
    "44100 2 2 0\n0 0\n": (2, "error", "fewer than 2 delays"),
    HEAD: (0, "error", "has no path"),
    HEAD + "L.wav\n0\n0.0\n": (4, "error", "ends early"),
    HEAD + "".join(f"{name}\n{channel}\n{inputs}\n{outputs}\n" for name, channel, inputs, outputs in [
        ("L.wav", -1, "0.0", "0.0"), ("L.wav", 1, "0.0", "0.0"), ("L.wav", 0, "0.x", "0.0"), ("L.wav", 0, "2.0", "0.0"),
        ("L.wav", 0, "0.0", "0.0 -7.5"), ("no.wav", 0, "0.0", "0.0"), ("D:\\Filters\\L.wav", 0, "0.0", "0.0"),
        ("\\\\nas\\L.wav", 0, "0.0", "0.0")]): [
            (5, "error", "is not a channel of a file"), (8, "error", "the channel is 2, but L.wav has 1"),
            (14, "error", '"0.x" is not a channel with a factor'), (18, "error", "input 2 of 2"),
            (23, "error", "output 7 of 2"), (24, "error", "No such file"),
            (28, "warning", "D:\\Filters\\L.wav is read from the folder"), (32, "warning", "as L.wav")],
}


def test_everything_is_listed_with_its_line():
    lost = []
    for text, wanted in LISTED.items():
        found = checked(text)[1]
        for line, kind, words in wanted if isinstance(wanted, list) else [wanted]:
            if not any((at, what) == (line, kind) and words in said for at, what, said in found):
                lost.append((line, kind, words, found))
    assert not lost, "\n".join(map(str, lost))


def test_a_mask_of_speakers_names_the_outputs():
    with open("n.cfg", "w", encoding="utf-8") as file:
        file.write("44100 1 3 209\n0\n0 0 0\nL.wav\n0\n0.0\n0.0 1.0 2.0\n")
    report = json.loads(haloconv("info", "n.cfg", "--json").stdout)
    assert [port["name"] for port in report["output"]] == ["FL", "LFE", "SL"]
