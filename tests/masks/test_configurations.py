"""Configurations (.conf): their meaning, compared with numpy and fconvolver, and the report of all faults at once."""

import json
import pathlib
import re
import shutil
import subprocess

import numpy as np
import pytest
from conftest import assert_close, good, haloconv, noise, read, refused, write

DEBIAN = pathlib.Path("/usr/share/jconvolver/config-files")
NEW = "/convolver/new 2 2 256 4096\n"


def conf(folder, text, name="t.conf"):
    (folder / name).write_text(text)
    return name


@pytest.fixture
def files(folder):
    """a.wav and b.wav, two channels each; x.wav, the input."""
    write("a.wav", noise(300, 2, seed=2))
    write("b.wav", noise(171, 2, seed=3))
    write("x.wav", noise(1000, 2, seed=4))
    return folder


def hilbert(length):
    h = np.zeros(length)
    half = length // 2
    for i in range(1, half, 2):
        v = (2 / np.pi) / i * (0.43 + 0.57 * np.cos(i * np.pi / half))
        h[half - i], h[half + i] = v, -v
    return h


def expected(x, n_out, responses):
    """x through [(in, out, taps)], counted from 1, in float64."""
    length = max(len(taps) for _, _, taps in responses)
    y = np.zeros((len(x) + length - 1, n_out))
    for i, o, taps in responses:
        z = np.convolve(x[:, i - 1].astype(np.float64), taps)
        y[:len(z), o - 1] += z
    return y


def delayed(taps, delay, gain=1.0):
    return np.concatenate([np.zeros(delay), gain * np.asarray(taps, np.float64)])


def plays(folder, text, responses, n_out=2, options=()):
    good("convolve", "x.wav", conf(folder, text), "-o", "y.wav", "-q", "--backend", "cpu", *options)
    assert_close(read("y.wav"), expected(read("x.wav"), n_out, responses))


def says(text, *words, exit=1):
    """haloconv check, its standard error, which has all words."""
    done = haloconv("check", text)
    assert done.returncode == exit, done.stderr
    for word in words:
        assert word in done.stderr, f"want '{word}' in: {done.stderr}"
    return done.stderr


# ---- steered sources ------------------------------------------------------------------------------------------------
@pytest.fixture
def banks(files):
    """two.csv: two entries for two outputs, a.wav ahead and b.wav on the left."""
    (files / "two.csv").write_text("azimuth,elevation,distance,file\n0,0,1,a.wav\n90,0,1,b.wav\n")
    return files


def test_check_and_info_tell_banks_and_sources(banks):
    conf(banks, "/convolver/new 3 2 64 4096\n/bank/read two.csv\n/bank/read 'a.wav'\n/source/new 2 2 -30 0\n"
         "/source/new 1 1 90 45 2.5 # left, above\n/impulse/dirac 3 1 1 0\n")
    assert good("check", "t.conf").stdout.endswith(", 2 sources with 2 banks\n")
    text = good("info", "t.conf").stdout
    assert "1: two.csv\n" in text and "2 entries, 2 outputs, 300 frames" in text and "without positions" in text
    assert "input 1, bank 1, azimuth 90, elevation 45, distance 2.5 m\n" in text
    report = json.loads(good("info", "t.conf", "--json").stdout)
    assert [(s["input"], s["bank"], s["azimuth"], s["elevation"], s["distance"]) for s in report["sources"]] == [
        (1, 1, 90, 45, 2.5), (2, 2, -30, 0, 1)]
    assert [(b["file"], b["entries"], b["outputs"], b["positions"]) for b in report["banks"]] == [
        ("two.csv", 2, 2, True), ("a.wav", 1, 2, False)]
    assert report["suggested_gain_db"] is None
    check = json.loads(good("check", "t.conf", "--json").stdout)
    assert check["sources"] == 2 and check["banks"] == 2


@pytest.mark.parametrize("lines,word", [
    ("/source/new 1 1 0 0\n/bank/read two.csv", "3: /source/new: bank 1 does not exist: the lines above read 0"),
    ("/bank/read two.csv\n/source/new 1 1 0 0\n/source/new 1 1 9 0", "5: /source/new: input 1 is a source since line 4"),
    ("/bank/read two.csv\n/source/new 2 1 0 0", "4: /source/new: input 2 is a source, but there is 1"),
    ("/bank/read\n/bank/read two.csv\n/source/new 1 2 0 0", "3: /bank/read: the file is missing"),
    ("/bank/read no.sofa\n/source/new 1 1 0 0", "3: /bank/read: no.sofa: No such file"),
    ("/bank/read h-%r.csv\n/source/new 1 1 0 0", "3: /bank/read: h-%r.csv: "),
    ("/bank/read none.csv\n/source/new 1 1 0 0", "missing.wav: No such file"),
    ("/bank/read two.csv\n/source/new 3 1 0 0", "input 3 is above the 2 inputs of /convolver/new"),
    ("/bank/read two.csv\n/source/new 1 x 0 0", 'the bank "x" is not a whole number'),
    ("/bank/read two.csv\n/source/new 1 1 361 0", "azimuth 361 is out of range; give -360 to 360"),
    ("/bank/read two.csv\n/source/new 1 1 nan 0", "azimuth nan is out of range;"),
    ("/bank/read two.csv\n/source/new 1 1 0 -90.5", "elevation -90.5 is out of range;"),
    ("/bank/read two.csv\n/source/new 1 1 0 0 0", "distance 0 is out of range;"),
    ("/bank/read two.csv\n/source/new 1 1 0", "the elevation is missing; write INPUT BANK AZIMUTH ELEVATION [DISTANCE]"),
])
def test_errors_of_sources_have_their_line(banks, lines, word):
    (banks / "none.csv").write_text("azimuth,elevation,distance,file\n0,0,1,missing.wav\n")
    conf(banks, NEW + "/impulse/dirac 1 1 1 0\n" + lines + "\n")
    err = says("t.conf", word)
    assert err.count("t.conf:") <= 2, err


def test_a_bank_that_nobody_plays_is_a_warning(banks):
    conf(banks, NEW + "/bank/read two.csv\n/impulse/dirac 1 1 1 0\n")
    assert "t.conf:2: warning: /bank/read: no source plays this bank" in good("check", "t.conf").stderr
    good("convolve", "x.wav", "t.conf", "-o", "y.wav", "-q")
    conf(banks, NEW + "/bank/read two.csv\n/bank/read two.csv\n/source/new 1 2 0 0\n")
    err = good("check", "t.conf").stderr
    assert err.count("no source plays this bank") == 1 and "t.conf:2: warning: /bank/read:" in err


def test_a_bank_with_more_outputs_than_the_configuration(banks):
    conf(banks, "/convolver/new 2 1 64 4096\n/bank/read two.csv\n/source/new 1 1 0 0\n")
    says("t.conf", "two.csv: is for 2 outputs, but /convolver/new has 1; make both equal")


def test_files_need_a_bank_and_a_path(banks):
    conf(banks, NEW + "/bank/read two.csv\n/source/new 1 1 0 0\n")
    (banks / "list.csv").write_text("input,mask,output\nx.wav,t.conf,y.wav\n")
    refused("convolve", "x.wav", "t.conf", "-o", "y.wav", says=["t.conf:3: /source/new: sources play live only", "path"])
    done = haloconv("batch", "list.csv", "-o", ".")
    assert done.returncode == 1 and "t.conf:3: /source/new: sources play live only" in done.stderr, done.stderr
    refused("mask", "trim", "t.conf", "-o", "y.wav", says="/source/new: sources play live only")


def test_a_second_new_drops_sources(banks):
    conf(banks, NEW + "/bank/read two.csv\n/source/new 1 1 0 0\n" + NEW + "/impulse/dirac 1 1 1 0\n")
    assert "drops its 0 responses and 1 sources" in good("check", "t.conf").stderr
    good("convolve", "x.wav", "t.conf", "-o", "y.wav", "-q")


# ---- meaning --------------------------------------------------------------------------------------------------------
def test_read(files):
    a, b = read("a.wav"), read("b.wav")
    plays(files, NEW + "/impulse/read 1 1 0.5 0 0 0 1 a.wav\n/impulse/read 2 2 -2 17 0 0 2 a.wav\n"
          "/impulse/read 1 2 1 3 100 50 2 a.wav\n/impulse/read 1 1 1 40 0 0 1 b.wav\n",
          [(1, 1, 0.5 * a[:, 0]), (2, 2, delayed(a[:, 1], 17, -2)), (1, 2, delayed(a[100:150, 1], 3)),
           (1, 1, delayed(b[:, 0], 40))])


def test_dirac_and_hilbert(files):
    plays(files, NEW + "/impulse/dirac 1 1 0.7 12\n/impulse/dirac 1 1 0.1 2000\n/impulse/hilbert 1 2 0.8 100 64\n"
          "/impulse/hilbert 2 2 -1 50 101\n",
          [(1, 1, delayed([1], 12, 0.7)), (1, 1, delayed([1], 2000, 0.1)), (1, 2, delayed(hilbert(64), 68, 0.8)),
           (2, 2, delayed(hilbert(101)[:100], 0, -1))])
    assert abs(hilbert(64)[31] - 0.63487) < 1e-5


def test_copy_is_a_link(files):
    """A copy follows later additions to its source, through copies of copies; additions to a copy are ignored."""
    a = read("a.wav")[:, 0]
    text = ("/convolver/new 2 3 256 4096\n/impulse/read 1 1 1 0 0 0 1 a.wav\n/impulse/dirac 2 1 1 9\n"
            "/impulse/copy 2 1 1 1\n"
            "/impulse/copy 2 3 2 1\n/impulse/dirac 1 1 0.5 3000\n/impulse/dirac 2 1 1 5\n")
    both = delayed([1], 3000, 0.5)
    both[:300] += a
    plays(files, text, [(1, 1, both), (2, 1, both), (2, 3, both)], n_out=3)
    says("t.conf", "t.conf:4: warning: /impulse/copy: replaces the data",
         "t.conf:7: warning: /impulse/dirac: input 2, output 1 is a copy", exit=0)


def test_copy_of_nothing_is_nothing(files):
    plays(files, NEW + "/impulse/copy 1 2 1 1\n/impulse/dirac 1 1 1 5\n", [(1, 1, delayed([1], 5))])
    says("t.conf", "t.conf:2: warning: /impulse/copy: input 1, output 1 has no data above this line", exit=0)


def test_a_second_new_replaces_the_first(files):
    plays(files,
          NEW + "/input/name 1 foo\n/impulse/dirac 1 1 1 5\n/convolver/new 2 3 256 4096\n/impulse/dirac 1 2 1 7\n",
          [(1, 2, delayed([1], 7))], n_out=3)
    says("t.conf", "t.conf:4: warning: /convolver/new: replaces line 1, and drops its 1 responses", exit=0)
    report = json.loads(good("info", "t.conf", "--json").stdout)
    assert [p["name"] for p in report["input"]] == ["in-1", "in-2"] and report["routes"] == 1


def test_data_is_cut_at_the_maximum_length(files):
    a = read("a.wav")[:, 0]
    plays(files, "/convolver/new 2 2 256 200\n/impulse/read 1 1 1 50 0 0 1 a.wav\n/impulse/hilbert 2 2 1 190 64\n"
          "/impulse/dirac 1 1 1 200\n", [(1, 1, delayed(a[:150], 50)), (2, 2, delayed(hilbert(64)[:42], 158))])
    says("t.conf", "t.conf:2: warning: /impulse/read: is cut from 300 to 150 frames",
         "t.conf:4: warning: /impulse/dirac: a delay of 200", exit=0)


def test_packed_matrix(files):
    write("p.wav", noise(3 * 40, 2, seed=9))
    write("x.wav", noise(500, 3))
    p = read("p.wav")
    for line, start, stop, gain, delay in [("3 1 0 0 0 p.wav", 0, 40, 1, 0), ("3 -0.5 7 10 25 p.wav", 10, 35, -0.5, 7)]:
        want = [(i + 1, o + 1, delayed(p[i * 40 + start:i * 40 + stop, o], delay, gain)) for i in range(3)
                for o in range(2)]
        plays(files, f"/convolver/new 3 2 256 4096\n/impulse/packedmatrix {line}\n", want)
        plays(files, f"# mcfx's own: no /convolver/new\n/cd \n/impulse/packedmatrix {line}\n", want)
    (files / "p.wav").rename("p q.wav")
    plays(files, "/impulse/packedmatrix 3 1 0 0 0 p q.wav\n/impulse/dirac 1 4 1 0\n",
          [(i + 1, o + 1, p[i * 40:i * 40 + 40, o]) for i in range(3) for o in range(2)] + [(1, 4, [1])], n_out=4)
    conf(files, "/convolver/new 7 2 256 4096\n/impulse/packedmatrix 7 1 0 0 0 \"p q.wav\"\n")
    says("t.conf", "t.conf:2: /impulse/packedmatrix:", "120 frames, which 7 inputs do not divide")
    conf(files, "/convolver/new 3 1 256 4096\n/impulse/packedmatrix 3 1 0 0 0 \"p q.wav\"\n")
    says("t.conf", "t.conf:2: /impulse/packedmatrix:", "has 2 channels, but /convolver/new has 1 output")


def test_words_quotes_and_line_ends(files):
    shutil.copy("a.wav", "a b'c\".wav")
    a = read("a.wav")
    want = [(1, 1, a[:, 0]), (2, 2, a[:, 1])]
    for name in ['"a b\'c\\".wav"', "a\\ b\\'c\\\".wav", "\"a b'c\\\".wav\"   # a comment"]:
        plays(files, NEW + f"/impulse/read 1 1 1 0 0 0 1 {name}\n/impulse/read 2 2 1 0 0 0 2 {name}", want)
    shutil.copy("a.wav", "a \\b.wav")
    plays(files, NEW + "/impulse/read 1 1 1 0 0 0 1 'a \\b.wav'\n/impulse/read 2 2 1 0 0 0 2 a.wav # as it is", want)
    lines = "\ufeff# top\r\n\r\n   # indented\r\n" + NEW.strip() + " 0.5\r\n"
    lines += "/impulse/read\t1  1\t+1.0e0 0 0 0 1 a.wav\r\n/impulse/read 2 2 1 0 0 0 2 a.wav"
    plays(files, lines, want)
    long = NEW + "#" + "x" * 70000 + "\n/impulse/read 1 1 1 0 0 0 1 a.wav " + "#" * 60000
    long += "\n/impulse/read 2 2 1 0 0 0 2 a.wav"
    conf(files, long)
    says("t.conf", "t.conf:2: the line has 70001 bytes")
    plays(files, long.replace("x" * 70000, "x" * 60000), want)


def test_folders(files, monkeypatch):
    a = read("a.wav")
    want = [(1, 1, a[:, 0])]
    for place in ["c", "c/irs", "irs", "c/deep/irs"]:
        (files / place).mkdir(parents=True, exist_ok=True)
    shutil.move("a.wav", "c/irs/a.wav")

    def from_c(text):
        conf(files / "c", NEW + text)
        good("convolve", "x.wav", "c/t.conf", "-o", "y.wav", "-q", "--backend", "cpu")
        assert_close(read("y.wav"), expected(read("x.wav"), 2, want))
        return haloconv("check", "c/t.conf").stderr

    assert not from_c("/impulse/read 1 1 1 0 0 0 1 irs/a.wav\n")
    assert not from_c(f"/impulse/read 1 1 1 0 0 0 1 {files}/c/irs/a.wav\n")
    assert not from_c(f"/cd {files}/c\n/impulse/read 1 1 1 0 0 0 1 irs/a.wav\n")
    said = from_c("/cd irs\n/impulse/read 1 1 1 0 0 0 1 a.wav\n")
    assert "c/t.conf:2: warning: /cd: irs is read from the configuration's folder" in said
    shutil.move("c/irs", "irs/irs")
    shutil.move("irs/irs/a.wav", "irs/a.wav")
    said = from_c("/cd irs\n/impulse/read 1 1 1 0 0 0 1 a.wav\n")
    assert "c/t.conf:2: warning: /cd: irs is read from the working directory" in said
    monkeypatch.chdir(files / "c")
    (files / "c" / "irs").mkdir()
    shutil.move("../irs/a.wav", "irs/a.wav")
    assert not haloconv("check", "t.conf").stderr, "the same folder to both: nothing to say"


def test_another_rate(files):
    """A piece of a file is cut out in its own frames and then resampled, its delay counts the session's."""
    a = noise(600, 2, seed=5)
    write("a44.wav", a, rate=44100)
    write("piece.wav", a[100:400, 1:], rate=44100)
    write("packed.wav", np.concatenate([a[:300], a[300:]]), rate=44100)
    write("p11.wav", a[:300, :1], rate=44100)
    write("p21.wav", a[300:, :1], rate=44100)
    conf(files, NEW + "/impulse/read 1 1 1 30 100 300 2 a44.wav\n/impulse/dirac 2 2 1 5\n")
    done = good("convolve", "x.wav", "t.conf", "-o", "y.wav", "--backend", "cpu")
    assert "t.conf:2: warning: /impulse/read: a44.wav: resampled from 44100 to 48000 Hz" in done.stderr
    good("convolve", "x.wav", "piece.wav", "-o", "z.wav", "--backend", "cpu", "-q")
    y, z = read("y.wav"), read("z.wav")
    assert len(y) == len(z) + 30
    assert_close(y[30:, :1], z[:, :1])
    assert_close(y[:1005, 1:], delayed(read("x.wav")[:, 1], 5))
    conf(files, NEW + "/impulse/packedmatrix 2 1 0 0 0 packed.wav\n")
    good("convolve", "x.wav", "t.conf", "-o", "y.wav", "--backend", "cpu", "-q")
    for mask, ch in [("p11.wav", 0), ("p21.wav", 1)]:
        good("convolve", "x.wav", mask, "-o", f"z{ch}.wav", "--backend", "cpu", "-q")
    assert_close(read("y.wav")[:, :1], read("z0.wav")[:, :1] + read("z1.wav")[:, 1:])
    kept = NEW + "/impulse/read 1 1 1 30 100 300 2 a44.wav\n"
    plays(files, kept, [(1, 1, delayed(a[100:400, 1], 30))], options=["--no-resample"])
    done = good("convolve", "x.wav", "t.conf", "-o", "y.wav", "--no-resample")
    assert "t.conf:2: warning: /impulse/read: a44.wav: its samples at 44100 Hz are played at 48000 Hz" in done.stderr
    conf(files, kept + "/impulse/read 1 1 1 30 100 50 2 a.wav\n")
    says("t.conf", "different rates", exit=0)


def test_many_short_pieces_at_another_rate(files):
    """They are resampled together, with the same result as one by one."""
    n, length = 60, 9
    write("p.wav", noise(n * length, 2, seed=6), rate=44100)
    write("x.wav", noise(200, n))
    conf(files, f"/convolver/new {n} 2 256 4096\n/impulse/packedmatrix {n} 0.5 3 1 8 p.wav\n")
    reads = "".join(f"/impulse/read {i + 1} {o + 1} 0.5 3 {i * length + 1} 8 {o + 1} p.wav\n"
                    for i in range(n) for o in range(2))
    conf(files, f"/convolver/new {n} 2 256 4096\n{reads}", "one.conf")
    for mask in ["t", "one"]:
        good("convolve", "x.wav", f"{mask}.conf", "-o", f"{mask}.wav", "-q", "--backend", "cpu")
    assert_close(read("t.wav"), read("one.wav"))


def test_ports_client_and_server(files):
    conf(files, "/jack/client \"my hall\"\n/jack/server s\n" + NEW
         + "/input/name 1 left system:capture_1\n/output/name 2 \"out 2\"\n"
         "/input/name 2 in.R # not connected\n/impulse/dirac 1 1 1 0\n")
    report = json.loads(good("info", "t.conf", "--json").stdout)
    assert report["client"] == "my hall" and report["server"] == "s" and report["partition"] == 256
    assert report["input"] == [{"name": "left", "connect": "system:capture_1"}, {"name": "in.R", "connect": None}]
    assert report["output"] == [{"name": "out-1", "connect": None}, {"name": "out 2", "connect": None}]


@pytest.mark.parametrize("lines,word", [
    ("/cd nowhere", "t.conf:2: warning: /cd: the folder nowhere does not exist"),
    ("/cd /nowhere/at/all", "the folder /nowhere/at/all does not exist"),
    ("/cd x.wav", "the folder x.wav does not exist"),
    ("/input/name 1 a\n/input/name 1 b", "t.conf:3: warning: /input/name: replaces the name a of input 1"),
    ("/output/name 2 a\n/output/name 2 a", "t.conf:3: warning: /output/name: replaces the name a of output 2"),
    ("/input/name 1 a\n/input/name 2 a", "inputs 1 and 2 have one name, a, which JACK refuses"),
    ("/output/name 1 out-2", "outputs 1 and 2 have one name, out-2")])
def test_a_folder_or_port_name_without_effect_is_named(files, lines, word):
    conf(files, NEW + lines + "\n/impulse/dirac 1 1 1 0\n")
    assert len(says("t.conf", word, exit=0).splitlines()) == 1
    (files / "d").mkdir()
    conf(files, NEW + "/cd d\n/cd ir-%r\n/cd\n/input/name 1 a\n/output/name 1 a\n/impulse/dirac 1 1 1 0\n")
    assert not says("t.conf", exit=0)


# ---- errors ---------------------------------------------------------------------------------------------------------
BROKEN = [  # a line after /convolver/new 2 2 256 4096, and words of its error
    ("/impulse/reed 1 1 1 0 0 0 1 a.wav", "/impulse/reed is not a command"),
    ("impulse/read 1 1 1 0 0 0 1 a.wav", '"impulse/read" is not a command'),
    ("/impulse/read 3 1 1 0 0 0 1 a.wav", "input 3 is above the 2 inputs of /convolver/new"),
    ("/impulse/read 1 3 1 0 0 0 1 a.wav", "output 3 is above the 2 outputs of /convolver/new"),
    ("/impulse/read 0 1 1 0 0 0 1 a.wav", "input 0 is out of range;"),
    ("/impulse/read -1 1 1 0 0 0 1 a.wav", "input -1 is out of range;"),
    ("/impulse/read 1 1 1 -1 0 0 1 a.wav", "delay -1 is out of range;"),
    ("/impulse/read 1 1 1 0 -1 0 1 a.wav", "offset -1 is out of range;"),
    ("/impulse/read 1 1 1 0 0 -1 1 a.wav", "length -1 is out of range;"),
    ("/impulse/read 1 1 1 0 0 4294967297 1 a.wav", "length 4294967297 is out of range;"),
    ("/impulse/read 1 1 1 0 0 0 0 a.wav", "channel 0 is out of range;"),
    ("/impulse/read 1 1 1 0 0 0 3 a.wav", "the channel is 3, but a.wav has 2"),
    ("/impulse/read 1 1 1 0 300 0 1 a.wav", "the offset is 300, but a.wav has 300 frames"),
    ("/impulse/read 1 1 1 0 0 0 1 nix.wav", "nix.wav: No such file"),
    ("/impulse/read 1 1 1 0 0 0 1 t.conf", "t.conf: is not a sound file"),
    ("/impulse/read 1 1 1 0 0 0 1", "the file is missing"),
    ("/impulse/read 1 1 1 0 0 0 1 \"a.wav", "the file is not closed"),
    ("/impulse/read 1 1 1 0 0 0 1 ''", "the file is empty"),
    ("/impulse/read 1 1 1,5 0 0 0 1 a.wav", 'the gain "1,5" is not a number'),
    ("/impulse/read 1 1 nan 0 0 0 1 a.wav", "the gain nan is not finite"),
    ("/impulse/read 1 1 1e39 0 0 0 1 a.wav", "the gain 1e39 is not finite"),
    ("/impulse/read 1.5 1 1 0 0 0 1 a.wav", 'the input "1.5" is not a whole number'),
    ("/impulse/read 1 1 3e38 0 0 0 1 loud.wav", "the gain 3e+38 makes loud.wav infinite"),
    ("/impulse/read 1 1 1 0 0 0 1 nan.wav", "nan.wav: channel 1, frame 7 is NaN"),
    ("/impulse/dirac 1 1 1", "the delay is missing"),
    ("/impulse/dirac 1 1 1 16777217", "delay 16777217 is out of range;"),
    ("/impulse/hilbert 1 1 1 31 64", "the delay is 31, but the transformer's middle is at frame 32"),
    ("/impulse/hilbert 1 1 1 31 63", "length 63 is out of range;"),
    ("/impulse/hilbert 1 1 1 40000 65537", "length 65537 is out of range;"),
    ("/impulse/copy 1 1 1 1", "input 1, output 1 is copied to itself"),
    ("/impulse/copy 1 1 1 5", "from-output 5 is above the 2 outputs of /convolver/new"),
    ("/impulse/packedmatrix 3 1 0 0 0 a.wav", "inputs 3 is above the 2 inputs of /convolver/new"),
    ("/input/name 3 x", "input 3 is above"),
    ("/output/name 1", "the port name is missing"),
    ("/convolver/new 2 2 256 16777217", "maximum length 16777217 is out of range;"),
    ("/convolver/new 2 2 256 0", "maximum length 0 is out of range;"),
    ("/convolver/new 2 1025 256 4096", "outputs 1025 is out of range;"),
    ("/convolver/new 2 2 256 4096 1.5", "density 1.5 is out of range;"),
    ("/convolver/new 2 2 256 4096 -0.1", "density -0.1 is out of range;"),
    ("/bank/read", "the file is missing; write FILE"),
    ("/cd \"x", "the folder is not closed"),
    ("/jack/client", "the name is missing"),
]


@pytest.fixture
def broken_files(files):
    loud = np.ones((10, 1))
    loud[3] = 2
    write("loud.wav", loud)
    loud[7] = np.nan
    write("nan.wav", loud)
    return files


@pytest.mark.parametrize("line,word", BROKEN)
def test_every_error_has_its_line(broken_files, line, word):
    conf(broken_files, NEW + "# a comment\n\n" + line + "\n/impulse/dirac 1 2 1 0\n")
    err = says("t.conf", f"t.conf:4: {line.split()[0] + ': ' if line[0] == '/' and 'reed' not in line else ''}", word)
    assert "warning" in err or len([w for w in err.splitlines() if "t.conf:4: " in w]) == 1, err
    assert "\nTraceback" not in err and (";" in err)
    before = sorted(p.name for p in broken_files.iterdir())
    refused("convolve", "x.wav", "t.conf", "-o", "y.wav", says=["t.conf:4:", word])
    refused("info", "t.conf", says="t.conf:4:")
    assert sorted(p.name for p in broken_files.iterdir()) == before, "something was left behind"


def test_all_errors_at_once(broken_files):
    lines = [line for line, _ in BROKEN if not line.startswith("/convolver/new")]
    conf(broken_files, NEW + "\n".join(lines) + "\n")
    done = haloconv("check", "t.conf")
    assert done.returncode == 1 and not done.stdout
    for number, (line, word) in enumerate([b for b in BROKEN if not b[0].startswith("/convolver/new")], 2):
        says_it = re.search(rf"^t\.conf:{number}: .*{re.escape(word)}", done.stderr, re.M)
        assert says_it, f"line {number}, {line}: {done.stderr}"
    numbers = [int(n) for n in re.findall(r"^t\.conf:(\d+):", done.stderr, re.M)]
    assert numbers == sorted(numbers)
    report = json.loads(haloconv("check", "t.conf", "--json").stdout)
    assert report["ok"] is False and report["errors"] == len(lines)
    assert {r["line"] for r in report["diagnostics"] if r["kind"] == "error"} == set(range(2, 2 + len(lines)))
    err = refused("convolve", "x.wav", "t.conf", "-o", "y.wav",
                  says=f"(and {len(lines) - 1} more: haloconv check t.conf)")
    assert "t.conf:2: " in err


def test_new_comes_first(files):
    conf(files, "/impulse/dirac 1 1 1 0\n")
    says("t.conf", "t.conf:1: /impulse/dirac: /convolver/new is missing")
    conf(files, "/input/name 1 x\n/impulse/dirac 1 1 1 0\n" + NEW + "/impulse/dirac 1 1 1 0\n")
    says("t.conf", "t.conf:1: /input/name: is above /convolver/new, which is in line 3")
    conf(files, "# nothing\n")
    says("t.conf", "t.conf: has no /convolver/new")
    conf(files, "/convolver/new 2 x 256 4096\n/impulse/dirac 9 9 1 0\n")
    err = says("t.conf", 't.conf:1: /convolver/new: the outputs "x" is not a whole number')
    assert "t.conf:2: /impulse/dirac: input 9" in err and "output 9" not in err, "a line must not be blamed for another"


@pytest.mark.parametrize("text,word",
                         [("", "is empty"), ("\0\0\0\n", "t.conf:1: is not text"),
                          (NEW + "a\0b\n", "t.conf:2: is not text")])
def test_files_that_are_no_configuration(files, text, word):
    conf(files, text)
    says("t.conf", word)
    refused("convolve", "x.wav", "t.conf", "-o", "y.wav", says=word)


def test_escape_sequences_do_not_reach_the_terminal(files):
    (files / "t.conf").write_bytes(NEW.encode() + b"\x1b[2J\xc2\x9b1m\n/impulse/read 1 1 1 0 0 0 1 \x1b]0;x\x07.wav\n"
                                   b"/input/name 1 \x1b[1m\xff\n")
    for run in ["check", "info"]:
        err = haloconv(run, "t.conf", text=False)
        assert b"\x1b" not in err.stderr + err.stdout and b"\x9b" not in err.stderr
    json.loads(haloconv("check", "t.conf", "--json").stdout)
    (files / "t.conf").write_bytes(NEW.encode() + b"/input/name 1 \x1b[1m\xff\n")
    assert b"\x1b" not in good("info", "t.conf", text=False).stdout
    json.loads(good("info", "t.conf", "--json").stdout)


def test_the_traps_of_jconvolver_are_absent(files):
    a = read("a.wav")[:, 0]
    plays(files, NEW + "/impulse/read 1 1 1 0 200 5000 1 a.wav\n", [(1, 1, a[200:])])
    says("t.conf", "t.conf:2: warning: /impulse/read: the length is 5000, but a.wav has only the 100 frames from", exit=0)
    plays(files, "/convolver/new 2 2 256 2000000\n/impulse/dirac 1 1 1 1500000\n", [(1, 1, delayed([1], 1500000))])
    assert len(read("y.wav")) == 1000 + 1500000, "input + response - 1 frames"


def test_channel_counts(files):
    conf(files, "/convolver/new 4 3 256 4096\n/impulse/dirac 1 1 1 0\n")
    refused("convolve", "x.wav", "t.conf", "-o", "y.wav", says=["t.conf:1:", "4 input channels", "there are 2"])
    conf(files, "/convolver/new 2 5 256 4096\n/impulse/dirac 2 2 1 0\n")
    good("convolve", "x.wav", "t.conf", "-o", "y.wav", "-q")
    y = read("y.wav")
    assert y.shape == (1000, 5) and not y[:, [0, 2, 3, 4]].any() and y[:, 1].any()
    done = good("convolve", "x.wav", conf(files, NEW), "-o", "y.wav")
    assert "t.conf: warning: has no responses" in done.stderr and not read("y.wav").any()
    assert "warning" not in good("convolve", "x.wav", "t.conf", "-o", "y.wav", "-q").stderr


def test_a_session_says_ten_warnings_and_where_the_others_are(files):
    conf(files, NEW + "/impulse/dirac 1 1 1 5000\n" * 25 + "/impulse/dirac 1 1 1 0\n")
    lines = good("convolve", "x.wav", "t.conf", "-o", "y.wav").stderr.splitlines()
    assert [line for line in lines if "/impulse/dirac" in line] == lines[:10] and lines[9].startswith("t.conf:11: ")
    assert lines[10] == "t.conf: has 15 more errors or warnings; see `haloconv check t.conf`"
    assert len(haloconv("check", "t.conf").stderr.splitlines()) == 25


def test_check_says_what_it_found(files):
    conf(files, "/convolver/new 2 3 256 4096\n/impulse/read 1 1 1 10 0 0 1 a.wav\n/impulse/copy 2 2 1 1\n")
    done = good("check", "t.conf")
    want = "ok: 2 inputs, 3 outputs, 2 responses (1 distinct), longest 310 frames (0.006 s at 48000 Hz)\n"
    assert done.stdout == want and not done.stderr
    report = json.loads(good("check", "t.conf", "--json").stdout)
    assert report["ok"] is True and report["responses"] == 2 and report["distinct"] == 1 and report["frames"] == 310
    refused("check", exit=2)
    refused("check", "a", "b", exit=2)
    assert haloconv("check", "nix.conf").returncode == 1
    assert good("check", "a.wav").stdout.startswith("ok: 2 channels, 300 frames")


def test_a_matrix_of_1024_by_1024(files):
    """A million lines: loaded in seconds, in memory that does not grow with the taps they name; info stays short."""
    write("m.wav", noise(48000, 4))
    n = 1024
    with open("t.conf", "w") as f:
        f.write(f"/convolver/new {n} {n} 256 48000\n")
        for i in range(1, n + 1):
            f.writelines(f"/impulse/read {i} {o} 0.5 0 0 0 {o % 4 + 1} m.wav\n" for o in range(1, n + 1))
    report = json.loads(good("check", "t.conf", "--json", timeout=60).stdout)
    assert (report["responses"], report["distinct"]) == (n * n, 4)
    done = good("info", "t.conf", timeout=60)
    assert len(done.stdout) < 2000 and "1048576 of 1048576 pairs" in done.stdout
    with open("t.conf", "w") as f:  # each a copy of the one before
        f.write(f"/convolver/new {n} {n} 256 48000\n/impulse/read 1 1 1 0 0 0 1 m.wav\n")
        pairs = [(i, o) for i in range(1, n + 1) for o in range(1, n + 1)]
        f.writelines(f"/impulse/copy {i} {o} {k} {l}\n" for (i, o), (k, l) in zip(pairs[1:], pairs))
    report = json.loads(good("check", "t.conf", "--json", timeout=60).stdout)
    assert (report["responses"], report["distinct"]) == (n * n, 1)


def test_more_memory_than_there_is(files):
    """Two samples far apart on each of many pairs would be terabytes of zeros: refused, not tried."""
    with open("t.conf", "w") as f:
        f.write("/convolver/new 1024 64 256 16777216\n")
        for i in range(1, 1025):
            f.writelines(f"/impulse/dirac {i} {o} 1 {d}\n" for o in range(1, 65) for d in (0, 16777215))
    says("t.conf", "t.conf: its responses need more than")


# ---- against fconvolver ---------------------------------------------------------------------------------------------
needs_debian = pytest.mark.skipif(not DEBIAN.is_dir(), reason="jconvolver-config-files is not installed")
debian_files = sorted(DEBIAN.rglob("*.conf")) if DEBIAN.is_dir() else [pathlib.Path("none")]


@needs_debian
@pytest.mark.parametrize("path", debian_files, ids=lambda p: p.name)
def test_every_file_of_debian_parses(path):
    """The only errors are missing sound files, each with its line."""
    done = haloconv("check", path, "--json")
    report = json.loads(done.stdout)
    lines = path.read_text(errors="replace").split("\n")
    for diagnostic in report["diagnostics"]:
        if diagnostic["kind"] == "error":
            assert "No such file or directory" in diagnostic["text"]
            assert lines[diagnostic["line"] - 1].startswith("/impulse/read")
    assert (done.returncode == 0) == (report["errors"] == 0)


def with_made_up_masks(path, folder):
    """Copies a configuration below `folder`, with noise for every file that it names; (inputs, rate)."""
    text, wanted, cd, rate = [], {}, folder, 44100 if "44" in path.name else 48000
    for line in path.read_text(errors="replace").split("\n"):
        fields = line.split()
        if line.startswith("/cd"):
            cd = folder / fields[1].lstrip("/")
            line = f"/cd {cd}"
        if line.startswith("/impulse/read"):
            name = cd / fields[8]
            wanted[name] = max(wanted.get(name, 1), int(fields[7]))
        if line.startswith("/convolver/new"):
            inputs = int(fields[1])
        text.append(line)
    for k, (name, channels) in enumerate(sorted(wanted.items())):
        name.parent.mkdir(parents=True, exist_ok=True)
        write(name, noise(4000, channels, seed=50 + k), rate, format="WAV")
    (folder / "t.conf").write_text("\n".join(text))
    return inputs, rate


@needs_debian
@pytest.mark.skipif(not shutil.which("fconvolver"), reason="jconvolver is not installed")
@pytest.mark.parametrize("path", debian_files, ids=lambda p: p.name)
def test_equal_to_fconvolver(folder, path):
    inputs, rate = with_made_up_masks(path, folder)
    x = np.concatenate([noise(3000, inputs, seed=8), np.zeros((23000, inputs), np.float32)])
    write("x.wav", x, rate)
    subprocess.run(["fconvolver", "-T", "t.conf", "x.wav", "theirs.wav"], check=True, timeout=120,
                   stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    good("convolve", "x.wav", "t.conf", "-o", "ours.wav", "-q", "--backend", "cpu", "--tail", "same")
    ours, theirs = read("ours.wav"), read("theirs.wav")
    assert np.abs(theirs).max() > 1e-3
    assert_close(ours, theirs)
