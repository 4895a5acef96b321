"""`haloconv import`: the configuration that it writes plays the same as the file that it read."""

import json
import os
import pathlib
import re

import numpy as np
import pytest
import soundfile

from conftest import convolve, generator, good, haloconv, refused

RATE = 48000
FILES = {
    "brutefir.conf": f"""sampling_rate: {RATE}; filter_length: 256,2;
        coeff 0 {{ filename: "bare.f64"; format: "FLOAT64_LE"; attenuation: 3; }};
        coeff 1 {{ filename: "bare.f64"; format: "FLOAT64_LE"; skip: 800; }};
        input "left", "right" {{ device: "jack" {{ ports: "system:capture_1", ""; clientname: "room"; }};
                                 sample: "AUTO"; channels: 2; delay: 5,0; }};
        output 0, 1 {{ device: "jack" {{ }}; sample: "AUTO"; channels: 2; }};
        filter 0 {{ inputs: 0; outputs: 0, 1//0.5; coeff: 0; }};
        filter 1 {{ inputs: 1; outputs: 1; coeff: 1; }};
        filter 2 {{ inputs: 1/2; outputs: 0; coeff: -1; }};""",
    "roon.cfg": f"{RATE} 2 2 3\n0 1\n0 2\nstereo.wav\n0\n0.0\n0.5 1.0\nstereo.wav\n1\n1.0\n1.0\n",
    "jconvolver.conf": """/jack/client "a \\"b\\" c"
/jack/server s
/convolver/new 3 2 256 4000
/input/name 2 "with blanks" system:capture_2
/impulse/read 1 1 0.5 7 0 0 1 stereo.wav
/impulse/read 1 1 -1 90 10 20 2 stereo.wav
/impulse/copy 2 1 1 1
/impulse/dirac 2 2 0.7 300
/impulse/hilbert 3 2 1 64 128
/impulse/read 3 1 1 0 0 0 2 stereo.wav
""",
    "equalizer.txt": "Preamp: -6 dB\nFilter 1: ON PK Fc 1000 Hz Gain 6 dB Q 2\n",
    "rates.conf": "/convolver/new 2 2 256 400\n/impulse/read 2 1 1 0 0 0 2 of-%r.wav\n",
    "stereo.wav": None,
}
INPUTS = {"jconvolver.conf": 3, "equalizer.txt": 1}


@pytest.fixture(autouse=True)
def files(folder):
    rng = generator(1)
    rng.uniform(-0.5, 0.5, 600).astype("<f8").tofile("bare.f64")
    soundfile.write("stereo.wav", rng.uniform(-0.5, 0.5, (300, 2)).astype("f4"), RATE, subtype="FLOAT")
    soundfile.write("of-96000.wav", np.ones((50, 2), "f4"), 96000, subtype="FLOAT")
    soundfile.write("of-48000.wav", rng.uniform(-0.5, 0.5, (70, 2)).astype("f4"), RATE, subtype="FLOAT")
    for name, text in FILES.items():
        if text:
            pathlib.Path(name).write_text(text, encoding="utf-8")


def played(mask, n_in):
    soundfile.write("in.wav", generator(2).uniform(-0.5, 0.5, (2000, n_in)).astype("f4"), RATE, subtype="FLOAT")
    convolve("in.wav", mask, "out.wav", "--format", "float")
    return soundfile.read("out.wav", always_2d=True)[0]


@pytest.mark.parametrize("name", FILES)
def test_what_is_written_plays_the_same(name):
    n_in = INPUTS.get(name, 2)
    pathlib.Path("to").mkdir()
    report = json.loads(good("import", name, "-o", "to/x.conf", "--rate", RATE, "--json").stdout)
    want, got = played(name, n_in), played("to/x.conf", n_in)
    assert want.shape == got.shape
    error = np.abs(want - got).max() / np.abs(want).max()
    assert error <= 1e-6, error
    assert report["ok"] and report["inputs"] == n_in and report["outputs"] == want.shape[1]
    assert len(report["files"]) == len(list(pathlib.Path("to").glob("*.wav")))


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith((".conf", ".cfg"))])
def test_ports_client_and_counts_stay(name):
    good("import", name, "-o", "x.conf")
    want, got = (json.loads(good("info", mask, "--json").stdout) for mask in (name, "x.conf"))
    for key in ("inputs", "outputs", "routes", "responses", "input", "output", "client", "server", "rate", "frames"):
        assert want[key] == got[key], key


def test_a_whole_channel_of_a_sound_file_is_not_copied():
    good("import", "roon.cfg", "-o", "x.conf")
    assert not os.path.exists("x-1.wav") and "\"stereo.wav\"" in pathlib.Path("x.conf").read_text(encoding="utf-8")
    pathlib.Path("to").mkdir()
    good("import", "roon.cfg", "-o", "to/x.conf")
    assert str(pathlib.Path("stereo.wav").resolve()) in pathlib.Path("to/x.conf").read_text(encoding="utf-8")
    good("import", "roon.cfg", "-o", "x.conf", "--rate", "96000")  # resampled: another response
    assert soundfile.info("x-1.wav").samplerate == 96000


def test_a_file_that_is_read_is_never_overwritten():
    """A second import of its own output takes other names, and any command spares the files of a text."""
    good("import", "brutefir.conf", "-o", "x.conf")
    before = pathlib.Path("x-1.wav").read_bytes(), played("x.conf", 2)
    text = pathlib.Path("x.conf").read_text(encoding="utf-8").replace(" 0 0 1 ", " 0 99 1 ")
    pathlib.Path("y.conf").write_text(text, encoding="utf-8")
    os.rename("x.conf", "old.conf")
    good("import", "y.conf", "-o", "x.conf")
    assert pathlib.Path("x-1.wav").read_bytes() == before[0] and os.path.exists("x-2.wav")
    refused("import", "y.conf", "-o", "y.conf", says="choose another output")
    assert not os.path.exists("y-1.wav")
    refused("convolve", "in.wav", "roon.cfg", "-o", "stereo.wav", says="choose another output")
    refused("convolve", "in.wav", "brutefir.conf", "-o", "bare.f64", "--format", "wav", says="choose another output")


@pytest.mark.parametrize("name", ["brutefir.conf", "roon.cfg", "room_brutefir"])
def test_every_command_takes_the_file_itself(name):
    """The commands that need no sound card; jack and live load masks by the same call."""
    os.rename("brutefir.conf" if name.startswith("room") else name, name)
    played(name, 2)
    pathlib.Path("list.csv").write_text(f"input,mask,output\nin.wav,{name},made.wav\n", encoding="utf-8")
    good("batch", "list.csv", "-o", ".", "--format", "float")
    assert np.array_equal(soundfile.read("made.wav")[0], soundfile.read("out.wav")[0])
    assert "configuration, 2 inputs, 2 outputs" in good("info", name).stdout
    assert good("check", name).stdout.startswith("ok: 2 inputs, 2 outputs")


def test_every_computed_filter_is_told_with_length_and_rest():
    done = good("import", "equalizer.txt", "-o", "x.conf", "--rate", RATE)
    n = soundfile.info("x-1.wav").frames
    assert f"becomes {n} taps, and the rest that is cut off is 15" in done.stderr and "dB below the filter" in done.stderr


def test_many_computed_filters_are_one_note():
    pathlib.Path("many.txt").write_text("".join(f"Filter: ON PK Fc {hz} Hz Gain 3 dB Q 2\n" for hz in (50, 500, 5000)))
    pathlib.Path("longest.txt").write_text("Filter: ON PK Fc 50 Hz Gain 3 dB Q 2\n")
    good("import", "longest.txt", "-o", "x.conf", "--rate", RATE)
    n = soundfile.info("x-1.wav").frames
    said = good("import", "many.txt", "-o", "y.conf", "--rate", RATE).stderr
    assert re.fullmatch(f"many.txt: note: 3 filters became FIRs of up to {n} taps, and the rest that is cut off is 15[0-9] dB or "
                        "more below each filter\n", said), said
    report = json.loads(good("import", "many.txt", "-o", "z.conf", "--rate", RATE, "--json").stdout)
    assert (report["warnings"], [one["kind"] for one in report["diagnostics"]]) == (0, ["note"])


def test_what_has_no_effect_on_the_sound_is_a_note():
    text = pathlib.Path("brutefir.conf").read_text()
    pathlib.Path("run.conf").write_text("lock_memory: true;\n" + text)
    report = json.loads(good("check", "run.conf", "--json").stdout)
    assert ("note", 1) in [(one["kind"], one["line"]) for one in report["diagnostics"]], report
    assert "run.conf:1: note: has no effect here, because it controls BruteFIR's run" in good("check", "run.conf").stderr
    assert "controls BruteFIR's run" not in good("info", "run.conf").stderr


def test_errors_are_listed_and_nothing_is_written():
    pathlib.Path("bad.cfg").write_text(f"{RATE} 2 2 0\n0 0\n0 0\nno.wav\n0\n0.0\n0.0\nstereo.wav\n0\n7.0\n0.0\n",
                                       encoding="utf-8")
    done = haloconv("import", "bad.cfg", "-o", "x.conf")
    assert done.returncode == 1 and not list(pathlib.Path().glob("x*"))
    lines = done.stderr.splitlines()
    assert "bad.cfg:4:" in lines[0] and "bad.cfg:10:" in lines[1] and "2 errors" in lines[2]
    report = haloconv("import", "bad.cfg", "-o", "x.conf", "--json")
    assert report.returncode == 1 and json.loads(report.stdout)["errors"] == 2
    refused("import", "roon.cfg", "-o", "x.wav", exit=2, says="end it with .conf")
    refused("import", "roon.cfg", exit=2, says="give -o")
    pathlib.Path("t.conf").write_text("/convolver/new 1 1 256 99\n/impulse/read 1 1 1 0 1 0 1 t.txt\n",
                                      encoding="utf-8")
    pathlib.Path("t.txt").write_text("1\n2\n3\n", encoding="utf-8")
    refused("import", "t.conf", "-o", "x.conf", says="--rate")
