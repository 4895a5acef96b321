"""Configurations of BruteFIR: BruteFIR itself plays each construct of its manual, and `haloconv convolve` the same."""

import json
import shutil
import subprocess

import numpy as np
import pytest
import soundfile

from conftest import convolve, generator, good, haloconv

NULL = 10 ** (-110 / 20)  # of the output's peak
RATE, BLOCK, BLOCKS = 48000, 128, 4
FRAMES = 2000

HEAD = f"""# BruteFIR
float_bits: 64;             # internal resolution
sampling_rate: {RATE};
filter_length: {BLOCK},{BLOCKS};
modules_path: ".";
convolver_config: "wisdom";
"""
IO = """
input "l", "r" {
        device: "file" { path: "in.raw"; };
        sample: "FLOAT64_LE";
        channels: 2;
%s};
output "L", "R" { device: "file" { path: "out.raw"; }; sample: "FLOAT64_LE"; channels: 2; %s };
"""
COEFFS = """
coeff "text" { filename: "a.txt"; format: "text"; };
coeff 1 { filename: "b.f64"; format: "FLOAT64_LE"; attenuation: 6.5; blocks: 2; };
coeff "skip" { filename: "c.s16"; format: "S16_LE"; skip: 44; shared_mem: false; };
coeff "dirac" { filename: "dirac pulse"; format: "text"; attenuation: -3; };
"""


def write_coefficients():
    """a.txt shorter than the filters, b.f64 and c.s16 longer."""
    rng = generator(1)
    np.savetxt("a.txt", rng.uniform(-0.3, 0.3, 301))
    rng.uniform(-0.3, 0.3, 700).astype("<f8").tofile("b.f64")
    whole = np.round(rng.uniform(-9000, 9000, 701)).astype("<i2")
    with open("c.s16", "wb") as file:
        file.write(bytes(range(44)) + whole.tobytes())


def signal(channels=2):
    return generator(2).uniform(-0.5, 0.5, (FRAMES, channels)).astype("<f4").astype("<f8")


def by_brutefir(text, x, n_out=2):
    if not shutil.which("brutefir"):
        pytest.skip("no brutefir")
    x.tofile("in.raw")
    with open("b.conf", "w", encoding="utf-8") as file:
        file.write(text)
    done = subprocess.run(["brutefir", "-nodefault", "-quiet", "b.conf"], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, text=True, check=False)
    assert done.returncode == 0, done.stdout
    return np.fromfile("out.raw", "<f8").reshape(-1, n_out)


def by_haloconv(x, mask="b.conf"):
    soundfile.write("x.wav", x, RATE, subtype="FLOAT")
    convolve("x.wav", mask, "y.wav", "--format", "float")
    return soundfile.read("y.wav", always_2d=True)[0]


def assert_null(want, got):
    """BruteFIR with files has no delay, and ends with its input."""
    n = len(want)
    assert len(got) >= n and want.shape[1] == got.shape[1]
    peak = np.abs(want).max()
    error = np.abs(got[:n] - want).max() / peak
    assert error <= NULL and peak > 0.01, f"{20 * np.log10(error):.1f} dB of {peak}"


CONSTRUCTS = {
    "text and raw coefficients": ("", "", COEFFS + """
        filter "one" { from_inputs: "l"; to_outputs: "L"; coeff: "text"; };
        filter "two" { from_inputs: "r"; to_outputs: "R"; coeff: 1; };
        filter 2 { from_inputs: "r"; to_outputs: "L"; coeff: "skip"; };"""),
    "dirac pulse": ("", "", COEFFS + 'filter 0 { inputs: 0; outputs: 0; coeff: "dirac"; process: 0; };'),
    "attenuation and factors": ("", "", COEFFS + """
        filter 0 { inputs: "l"/6.5/-1, "r"//0.25; outputs: "L"/-1.5, 1/3/0.5; coeff: -1; crossfade: true; };
        filter 1 { inputs: 1/2; outputs: "R"//-.5; coeff: 0; };"""),
    "delays and mute": ("delay: 7, 100; maxdelay: 200; mute: false, true;\n", "delay: 0, 33; mute: false,false;",
                        COEFFS + """
        filter 0 { inputs: "l"; outputs: "L"; coeff: 0; };
        filter 1 { inputs: "l", "r"; outputs: "R"; coeff: "skip"; };"""),
    "a muted output": ("", "mute: false, true;", COEFFS + 'filter 0 { inputs: "l"; outputs: "L", "R"; coeff: 0; };'),
    "delay of blocks": ("", "", COEFFS + """
        filter 0 { inputs: "l"; outputs: "L"; coeff: "skip"; delay: 2; };
        filter 1 { inputs: "r"; outputs: "R"; coeff: 1; delay: 3; };
        filter 2 { inputs: "r"; outputs: "L"; coeff: -1; delay: 1; };
        filter 3 { inputs: "l"; outputs: "R"; coeff: "skip"; delay: -1; };"""),
    "filters into filters": ("", "", COEFFS + """
        filter "sum" { from_filters: "a"/3/-1, "b"//0.5; from_inputs: "r"/10; to_outputs: "L"; to_filters: "last";
                       coeff: "skip"; };
        filter "a" { inputs: "l"; to_filters: "sum"; coeff: "text"; };
        filter "b" { inputs: "r"; to_filters: "sum", "last"; outputs: "R"; coeff: 1; };
        filter "last" { from_filters: 0, 2; to_outputs: 1; coeff: -1; };"""),
}


@pytest.fixture(autouse=True)
def coefficients(folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder))  # without a file of defaults
    write_coefficients()


@pytest.mark.parametrize("name", CONSTRUCTS)
def test_brutefir_and_haloconv_null(name):
    of_inputs, of_outputs, rest = CONSTRUCTS[name]
    x = signal()
    want = by_brutefir(HEAD + IO % (of_inputs, of_outputs) + rest, x)
    assert_null(want, by_haloconv(x))


def test_channels_are_selected_and_mapped_as_in_brutefir():
    """Three of four channels of a device are used, and logical channels share one."""
    x = signal(4)
    text = HEAD + COEFFS + """
        input 0, 1, 2, 3 { device: "file" { path: "in.raw"; }; sample: "FLOAT64_LE"; channels: 4/3,0,1;
                           mapping: 2,0,1,0; delay: 3,0,5,9; };
        output "x", "1", "2", "y" { device: "file" { path: "out.raw"; }; sample: "FLOAT64_LE"; channels: 3/2,0,1;
                           mapping: 0,2,1,0; delay: 0,11; };
        filter 0 { inputs: 0; outputs: 3; coeff: 0; };
        filter 1 { inputs: 1, 2; outputs: 1; coeff: 1; };
        filter 2 { inputs: "3"; outputs: "x", "2"; coeff: 2; };"""
    want = by_brutefir(text, x, n_out=3)
    assert_null(want[:, [2, 0, 1]], by_haloconv(x[:, [3, 0, 1]]))


FORMATS = {"S8": "i1", "S16_LE": "<i2", "S16_BE": ">i2", "S24_LE": "<i3", "S24_3BE": ">i3", "S24_4LE": "<i4",
           "S24_4BE": ">i4", "S32_NE": "<i4", "S32_BE": ">i4", "float_le": "<f4", "FLOAT_BE": ">f4",
           "FLOAT64_NE": "<f8", "FLOAT64_BE": ">f8"}


def encode(values, numpy_format, bits):
    if "f" in numpy_format:
        return values.astype(numpy_format).tobytes()
    whole = np.round(values * 2 ** (bits - 1)).astype("i8")
    if "3" not in numpy_format:
        return whole.astype(numpy_format).tobytes()
    four = whole.astype("<i4").view("u1").reshape(-1, 4)[:, :3]
    return (four if "<" in numpy_format else four[:, ::-1]).tobytes()


def test_every_raw_format_is_read_as_brutefir_does():
    """A filter for each format, with a delay of its own, so that the two outputs separate them all."""
    rng, text = generator(3), ""
    for n, (name, numpy_format) in enumerate(FORMATS.items()):
        bits = int(name[1:].split("_")[0]) if name[0] == "S" else 0
        with open(f"{name}.raw", "wb") as file:
            file.write(encode(rng.uniform(-0.2, 0.2, 20 + n), numpy_format, bits))
        # BruteFIR 1.0o takes FLOAT_NE and FLOAT64_NE for integers, against its manual.
        text += f'coeff {n} {{ filename: "{name}.raw"; format: "{name.replace("FLOAT64_NE", "FLOAT64_LE")}"; }};\n'
        text += f'filter {n} {{ inputs: {n % 2}; outputs: {n // 2 % 2}; coeff: {n}; }};\n'
    x = signal()
    assert_null(by_brutefir(HEAD + IO % ("", "") + text, x), by_haloconv(x))


# ---- what is listed, with its line -----------------------------------------------------------------------------------
GOOD_IO = """input 0, 1 { device: "jack" { }; sample: "AUTO"; channels: 2; };
output 0, 1 { device: "jack" { }; sample: "AUTO"; channels: 2; };
"""
GOOD_FILTER = 'filter 0 { inputs: 0; outputs: 0; coeff: -1; };\n'
GOOD = f"sampling_rate: {RATE}; filter_length: 64,4;\n" + GOOD_IO + GOOD_FILTER  # four lines


def checked(text):
    """[(line, is an error, text)] as `haloconv check` lists them."""
    with open("e.conf", "w", encoding="utf-8") as file:
        file.write(text)
    done = haloconv("check", "e.conf", "--json")
    assert done.returncode in (0, 1), done.stderr
    return [(one["line"], one["kind"] == "error", one["text"]) for one in json.loads(done.stdout)["diagnostics"]]


ERRORS = [  # a statement, which line of it has the error, and words of it
    ('"x": 1;', 0, "does not begin a statement"),
    ('mistyped: 1;', 0, "mistyped: is unknown"),
    ('sampling_rate: 44100;', 0, "occurs twice"),
    ('sdf_length: 1 2;', 0, "needs , / or ; between"),
    ('sdf_length: 1,;', 0, "ends behind ,"),
    ('powersave: maybe;', 0, '"maybe;" is neither a string'),
    ('}', 0, "does not close a block"),
    ('coeff 77 { filename: "a.txt"; format: "text"; };', 0, "has the number 77, but it is number"),
    ('coeff "a", "b" { filename: "a.txt"; format: "text"; };', 0, "needs one name"),
    ('coeff "b" { format: "text"; };', 0, "no filename"),
    ('coeff "c" {\nfilename: 3/4/5; format: "text"; };', 1, "shared memory"),
    ('coeff "d" {\nfilename: ""; format: "text"; };', 1, "is empty"),
    ('coeff "e" { filename: "x"; format: "processed"; };', 0, "own layout"),
    ('coeff "f" { filename: "x"; format: "S17_LE"; };', 0, 'S17_LE" is not a format'),
    ('coeff "g" { filename: "dirac pulse"; skip: 4; };', 0, "no bytes to skip"),
    ('coeff "h" { filename: "a.txt"; format: "text"; blocks: 1.5; };', 0, "1.5 is not possible; give a whole number"),
    ('coeff "i" { filename: "a.txt"; format: "text"; attenuation: "loud"; };', 0, "needs one number"),
    ('coeff "j" { filename: "a.txt"; format: "text"; blocks: 5; };', 0, "5 blocks, but filter_length has 4"),
    ('coeff "k" { filename: "no.txt"; format: "text"; }; filter "k" { inputs: 0; outputs: 1; coeff: "k"; };', 0,
     "No such"),
    ('input "a" { channels: 2; };', 0, "1 names for 2 channels"),
    ('input "b", "c" { channels: 1; };', 0, "a mapping for each"),
    ('input "d", "e" { channels: 1; mapping: 0,1; };', 0, '"e" is mapped to channel 1 of 1'),
    ('input "f", "g" { channels: 1; mapping: 0; };', 0, "1 values for 2"),
    ('input "h" { channels: 2/0,1; mute: true, true; };', 0, "2 values for 1 channels"),
    ('input "i" { channels: 2/2; };', 0, "2 is not possible; give a whole number from 0 to 1"),
    ('input "j" { channels: 3/1,1; };', 0, "occurs twice"),
    ('input "k" { channels: 1; delay: -1; };', 0, "-1 is not possible"),
    ('input "l" { channels: 1; sample: "text"; };', 0, "is not a sample format"),
    ('input "m" { channels: 1; dither: true; };', 0, "is unknown here"),
    ('input "0" { channels: 1; };', None, 'the name "0" occurs twice'),
    ('sdf_length: 31;\noutput "a" { channels: 1; subdelay: 50; };', 1, "a fraction of a frame"),
    ('output "b" { device: "jack" { ports: 1; }; channels: 1; };', 0, "needs a port for each of 1"),
    ('filter "a" { inputs: 99; outputs: 0; coeff: -1; };', 0, "the input of this number does not exist"),
    ('filter "b" { inputs: "99"; outputs: 0; coeff: -1; };', 0, 'input "99" does not exist'),
    ('filter "c" { inputs: 0; outputs: 0, 0; coeff: -1; };', 0, "names output 0 twice"),
    ('filter "d" { inputs: 0; outputs: 0; coeff: 99; };', 0, "coeff 99 is not defined"),
    ('filter "e" { inputs: 0; outputs: 0; coeff: "z"; };', 0, 'coeff "z" is not defined'),
    ('filter "f" { inputs: 0; outputs: 0; };', 0, "has no coeff"),
    ('filter "g" { outputs: 0; coeff: -1; };', 0, "no from_inputs"),
    ('filter "h" { inputs: 0; coeff: -1; };', 0, "no to_outputs"),
    ('filter "i" { inputs: 0/1/2/3; outputs: 0; coeff: -1; };', 0, "/ATTENUATION/FACTOR"),
    ('filter "j" { inputs: 0; to_filters: 0/3; coeff: -1; };', 0, "without attenuation"),
    ('filter "l" { inputs: 0; outputs: 0; coeff: -1; delay: 4; };', 0, "has a delay of 4 of the 4 blocks"),
    ('filter "m" { inputs: 0;\nto_filters: 0; coeff: -1; };', 1, "does not name this filter"),
    ('filter "n" { from_filters: "n"; to_filters: "n"; coeff: -1; };', 0, "in a loop of filters"),
    ('logic: "cli" { port: 3000;\nscript: "cfc 0 0;;"; };', 1, "while it plays"),
    ('logic: "eq" { { coeff: 0; }; };', 0, "debug_dump_filter"),
    ('logic: "mine" { };', 0, "is unknown, and may change"),
    ('logic: "cli" {{{{{{{{{{ }}}}}}}}}};', 0, "more than 8 braces"),
    ('powersave: 1', 0, "has no ;"),
]
LAST_ERRORS = [  # the text behind them is not read
    ('safety_limit: "x;', 0, "is neither a string"),
    ('coeff 0 { filename: "a.txt"; format: "text";', 0, "has no }"),
]
WARNINGS = [
    ('powersave: -80;', 0, "below -80 dB"),
    ('safety_limit: 3;', 0, "output above 3 dB"),
    ('input "a" { channels: 1; subdelay: 50; };', 0, "has no effect"),
    ('output "a" { channels: 1; dither: true; };', 0, "no dither"),
    ('output "b" { channels: 1; sample: "S16_LE"; };', 0, "S16_LE rounds"),
    ('output "c", "d" { channels: 8/5,4; };', 0, "2 of the 8 channels"),
    ('output "e", "f" { };', 0, "has no channels, and ~/.brutefir_defaults is not read, so that 2 is used"),
    ('coeff "w" { filename: "a.txt"; };', 0, "has no format, and ~/.brutefir_defaults"),
    ('lock_memory: true;\nlogic: "cli" { port: 1; };', 0, 'lock_memory (line 13), logic "cli" (line 14)'),
]


def missing(rows):
    """The rows whose error or warning is not listed with its line, and all that is listed."""
    text, wanted = GOOD, []
    for statement, offset, words in rows:
        wanted.append((0 if offset is None else text.count("\n") + 1 + offset, words))
        text += statement + "\n"
    found = checked(text)
    return [row for row in wanted if not any(at == row[0] and row[1] in what for at, _, what in found)], found


@pytest.mark.parametrize("rows", [ERRORS, *([row] for row in LAST_ERRORS)], ids=["all", "string", "block"])
def test_every_error_is_listed_with_its_line(rows):
    lost, found = missing(rows)
    assert not lost and sum(is_error for _, is_error, _ in found) >= len(rows), (lost, found)


def test_every_warning_is_listed_with_its_line():
    lost, found = missing(WARNINGS)
    assert not lost and not any(is_error for _, is_error, _ in found), (lost, found)


@pytest.mark.parametrize("command", [("check",), ("info",), ("import", "-o", "out.conf")], ids=lambda c: c[0])
def test_coefficients_beyond_the_filter_length_are_named(command):
    """A text, raw samples, and a delay that leaves less of them; not what `blocks` leaves out."""
    np.savetxt("long.txt", generator(4).uniform(-1, 1, 515), footer="a comment\n")
    text = HEAD + IO % ("", "") + COEFFS + """coeff "long" { filename: "long.txt"; format: "text"; };
        filter 0 { inputs: 0; outputs: 0; coeff: "skip"; }; filter 1 { inputs: 1; outputs: 0; coeff: "long"; };
        filter 2 { inputs: 0; outputs: 1; coeff: 1; }; filter 3 { inputs: 1; outputs: 1; coeff: "text"; delay: 2; };"""
    with open("cut.conf", "w", encoding="utf-8") as file:
        file.write(text)
    said = good(command[0], "cut.conf", *command[1:]).stderr
    for name, all_frames, kept, by in [("c.s16", 701, 512, "filter_length; "), ("long.txt", 515, 512, "filter_length; "),
                                       ("a.txt", 301, 256, "filter_length and the delay")]:
        assert f"{name}: cut from {all_frames} to {kept} frames by {by}" in said, said
    assert "b.f64" not in said


def test_the_filter_length_of_the_defaults_file_is_used(folder):
    (folder / ".brutefir_defaults").write_text(
        'sampling_rate: 32000;\nfilter_length: 64,16;\ncoeff "all" { filename: "nowhere"; };\n')
    (folder / "d.conf").write_text(GOOD_IO + 'coeff 0 { filename: "b.f64"; format: "FLOAT64_LE"; };\n'
                                   "filter 0 { inputs: 0; outputs: 0; coeff: 0; };\n")
    report, said = json.loads(good("info", "d.conf", "--json").stdout), good("check", "d.conf").stderr
    assert (report["rate"], report["frames"]) == (32000, 700)
    assert f"filter_length 64,16 is from {folder}/.brutefir_defaults" in said and "65536" not in said, said
    (folder / ".brutefir_defaults").write_text("filter_length: 65;\n")
    said = good("check", "d.conf").stderr
    assert ".brutefir_defaults:1: filter_length: 65 is not a power of two" in said and "65536 is used" in said, said


def test_settings_that_a_text_leaves_to_the_defaults_are_said():
    found = checked(GOOD_IO + GOOD_FILTER)
    assert [what.split("has ")[1].split(";")[0] for _, _, what in found if "has no" in what] == [
        "no sampling_rate, and ~/.brutefir_defaults is not read, so that 44100 is used",
        "no filter_length, and ~/.brutefir_defaults is not read, so that 65536 is used"]


def test_names_and_jack_ports_become_ports():
    with open("ports.conf", "w", encoding="utf-8") as file:
        file.write(HEAD + """input "left", "right" { device: "jack" { ports: "system:capture_1", ""/"in B"; };
            sample: "AUTO"; channels: 2; };
            output "all" { device: "jack" { clientname: "room"; }; sample: "AUTO"; channels: 1; };
            filter 0 { inputs: 0, 1; outputs: 0; coeff: -1; };""")
    report = json.loads(good("info", "ports.conf", "--json").stdout)
    assert report["client"] == "room"
    assert report["input"] == [{"name": "left", "connect": "system:capture_1"}, {"name": "in B", "connect": None}]
    assert report["output"] == [{"name": "all", "connect": None}]
