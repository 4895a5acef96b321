"""Each reader says what it does not understand: a key with a letter wrong, a value of a wrong kind, a section or a column
that it does not know, is obeyed (the output differs), refused with the file's name, or named in a line about the file.

In the texts below «KEY» is a key and ‹VALUE› a value; each is changed in turn.
"""

import pathlib
import re
import typing

import numpy as np
import pytest
from conftest import BUILD, good, haloconv, noise, write

RATE = 48000
WRONG = ["abc", "-1e30", "nan", "[ 7 ]", "{ z = 7 }", "7 7"]


class Reader(typing.NamedTuple):
    file: str
    text: str
    unknown: list = []  # (a text in the file, what replaces it): a section, a column, a line that no version knows
    commands: tuple = ("check FILE", "info FILE", "convolve x.wav FILE -o y.wav --backend cpu --format float")


def letters_wrong(key):
    """One letter is another, is missing, and has changed places with the next."""
    at = len(key) // 2
    other = key[:at] + ("q" if key[at] != "q" else "w") + key[at + 1:]
    swapped = key[:at - 1] + key[at] + key[at - 1] + key[at + 1:] if at > 0 else key
    return {other, key[:-1], swapped} - {key, ""}


def changes(text):
    """Yields the text with a key or value changed, the words that may name the change, and: is it a value?"""
    parts = re.split("(«.*?»|‹.*?›)", text)
    plain = [part.strip("«»‹›") for part in parts]
    key = ""
    for i, part in enumerate(parts):
        key = plain[i] if part[:1] == "«" else key
        for wrong in sorted(letters_wrong(key)) if part[:1] == "«" else WRONG if part[:1] == "‹" else ():
            words = [wrong.strip('"[]{} '), *([key] if part[:1] == "‹" and key else ())]
            changed = "".join([*plain[:i], wrong, *plain[i + 1:]])
            yield changed, words, part[:1] == "‹"


def unknown(text, replacements):
    for was, new, *words in replacements:
        added = [word for word in re.findall(r"[\w.]+", new) if word not in was]
        yield text.replace(was, new, 1), words or added or [new], False


def outcome(reader, want=None):
    """The exit status, what the commands print and write, up to the first that differs from `want`, and what they say."""
    got, said, status, written = [], [], 0, pathlib.Path("y.wav")
    for i, command in enumerate(reader.commands):
        written.unlink(missing_ok=True)
        done = haloconv(*command.replace("FILE", reader.file).split())
        status = done.returncode
        said += done.stderr.splitlines()
        got.append((done.stdout, written.read_bytes() if written.exists() and not status else b""))
        if status or (want and got[i] != want[i]):
            break
    return status, got, said


READERS = {
    "jconvolver": Reader("a.conf", """«/jack/client» ‹hall›
«/convolver/new» ‹2› ‹3› ‹256› ‹1000› ‹0.5›
«/cd» ‹folder›
«/input/name» ‹1› ‹left›
«/output/name» ‹1› ‹L›
«/impulse/read» ‹1› ‹1› ‹0.5› ‹3› ‹1› ‹20› ‹2› ‹ir.wav›
«/impulse/dirac» ‹1› ‹2› ‹0.5› ‹3›
«/impulse/hilbert» ‹1› ‹3› ‹0.5› ‹64› ‹64›
«/impulse/copy» ‹2› ‹2› ‹1› ‹1›
""", [("/cd", "/impulse/noise 1 1\n/cd"), ("/cd", "[section]\n/cd")]),
    "packed matrix": Reader("a.conf", "«/impulse/packedmatrix» ‹2› ‹0.5› ‹3› ‹0› ‹0› ‹folder/ir.wav›\n"),
    "BruteFIR": Reader("a.conf", """«float_bits»: ‹64›;
«sampling_rate»: ‹48000›;
«filter_length»: ‹128›,‹2›;
«convolver_config»: ‹"wisdom"›;
«powersave»: ‹-80›;
«safety_limit»: ‹20›;
«sdf_length»: ‹-1›;
«logic»: "cli" { «port»: 3000; «echo»: false; };
«coeff» "c" { «filename»: ‹"t.txt"›; «format»: ‹"text"›; «attenuation»: ‹6.5›; «blocks»: ‹1›; «skip»: ‹4›; «shared_mem»: ‹false›; };
«input» "l", "r" { «device»: "jack" { «ports»: ‹"system:capture_1"›, ‹"b"›; «clientname»: ‹"c"›; };
    «sample»: ‹"FLOAT_LE"›; «channels»: ‹2›/‹0›,‹1›; «delay»: ‹3›,‹4›; «mute»: ‹false›, ‹false›; «maxdelay»: ‹100›;
    «subdelay»: ‹5›, ‹6›; };
«input» "s", "t" { «device»: "alsa" { «device»: "hw"; «ignore_xrun»: true; }; «sample»: ‹"S16_LE"›; «channels»: ‹1›; «mapping»: ‹0›, ‹0›; };
«output» "L" { «device»: "file" { «path»: "o.raw"; «skip»: 4; «append»: false; };
    «sample»: ‹"S16_LE"›; «channels»: ‹1›; «dither»: ‹true›; «merge»: ‹false›; };
«filter» "f" { «from_inputs»: "l"/‹6.5›/‹0.5›, ‹1›; «to_filters»: ‹"g"›; «coeff»: ‹"c"›; «delay»: ‹1›; «process»: ‹0›; };
«filter» "g" { «from_filters»: "f"/‹3›; «to_outputs»: "L"/‹2›; «coeff»: ‹-1›; «crossfade»: ‹false›; };
""", [("coeff", "equaliser \"x\" { a: 1; };\ncoeff"), ("coeff", "foo: 3;\ncoeff"),
      ("sampling_rate: 48000", "sampling_rate: 48000 { foo: 1; }"),
      ("\"text\"", "\"text\" { foo: 1; }"), ("4; shared", "4 { foo: 1; }; shared"), ("\"c\" {", "\"c\" { foo: 1;"),
      ("3000", "3000 { foo: 1; }"), ("\"g\"; coeff", "\"g\" { foo: 1; }; coeff"), ("mute: false, false", "mute: false, false { foo: 1; }")]),
    "Convolver": Reader("a.cfg", """‹48000› ‹2› ‹2› ‹3›
‹0› ‹1.5›
‹0.5› ‹0›
‹folder/ir.wav›
‹0›
‹0.0› ‹1.5›
‹-1.25›
‹folder/ir.wav›
‹1›
‹1.0›
‹0.0›
""", [("48000 2 2 3", "48000 2 2 3 foo"), ("48000 2 2 3", "48000 2 2 3 3"), ("0 1.5", "0 1.5 foo"), ("folder", "[section]\nfolder")]),
    "PipeWire": Reader("a.conf", """«context.properties» = { log.level = 0 }
«context.modules» = [
  { name = libpipewire-module-rt args = { nice.level = -11 } }
  { «name» = libpipewire-module-filter-chain «flags» = [ nofail ] «args» = {
    «node.description» = d «media.name» = ‹m› «audio.rate» = ‹48000› «node.name» = n
    «filter.graph» = {
      «nodes» = [
        { «type» = ‹builtin› «name» = a «label» = ‹mixer› «control» = { "«Gain 1»" = ‹0.5› "«Gain 2»" = ‹0.25› } }
        { type = builtin name = b label = convolver «config» = { «filename» = ‹folder/ir.wav› «gain» = ‹0.5› «delay» = ‹3› «offset» = ‹1› «length» = ‹20› «channel» = ‹1› «resample_quality» = ‹4› } }
        { type = builtin name = c label = bq_peaking control = { «Freq» = ‹1000› «Q» = ‹2› «Gain» = ‹3› } }
        { type = builtin name = d label = param_eq config = { «filters» = [ { «type» = ‹bq_peaking› «freq» = ‹100› «gain» = ‹3› «q» = ‹2› } ] } }
        { type = builtin name = e label = bq_raw config = { «coefficients» = [ { «rate» = ‹48000› «b0» = ‹0.5› «a1» = ‹0.1› } ] } }
      ]
      «links» = [ { «output» = ‹"a:Out"› «input» = ‹"b:In"› } { output = "b:Out" input = "c:In" } { output = "c:Out" input = "d:In 1" }
        { output = "d:Out 1" input = "e:In" } ]
      «inputs» = [ ‹"a:In 1"› "a:In 2" ] «outputs» = [ ‹"e:Out"› ]
      «n_inputs» = ‹2› «n_outputs» = ‹1› «inputs.audio.position» = [ ‹FL› FR ] «outputs.audio.position» = [ ‹MONO› ]
      «capture.volumes» = [ { control = "a:Gain 1" } ] «playback.volumes» = []
    }
    «capture.props» = { «audio.position» = [ ‹FL› FR ] «media.class» = Audio/Sink «node.name» = x }
    «playback.props» = { «audio.channels» = ‹1› «target.object» = card «node.passive» = ‹true› }
  } }
]
""", [("n_inputs", "foo = 3 n_inputs"), ("n_inputs", "foo.bar = 3 n_inputs"), ("context.modules", "stream.section = {}\ncontext.modules"),
      ("context.modules", "section = { a = 1 }\ncontext.modules"),
      ("module-rt", "module-loopback"), ("flags", "flag.s = 1 flags")]),
    "CamillaDSP": Reader("a.yml", """«devices»:
  «samplerate»: ‹48000›
  «chunksize»: ‹1024›
  «enable_rate_adjust»: ‹true›
  «volume_limit»: ‹-3›
  «resampler»: { type: Synchronous }
  «capture»: { «type»: ‹File›, «channels»: ‹2›, «filename»: ‹a.raw›, «format»: ‹S16LE›, «skip_bytes»: ‹44›, «labels»: ["L", "R"] }
  «playback»: { type: Alsa, channels: ‹1›, «device»: ‹hw›, format: S16LE }
«filters»:
  g: { «type»: ‹Gain›, «description»: d, «parameters»: { «gain»: ‹-3›, «inverted»: ‹false›, «mute»: ‹false›, «scale»: ‹dB› } }
  d: { type: Delay, parameters: { «delay»: ‹3›, «unit»: ‹ms›, «subsample»: ‹true› } }
  b: { type: Biquad, parameters: { «type»: ‹Peaking›, «freq»: ‹1000›, «q»: ‹1›, «gain»: ‹3› } }
  c: { type: Conv, parameters: { «type»: ‹Wav›, «filename»: ‹folder/ir.wav›, «channel»: ‹1› } }
«mixers»:
  m:
    «description»: x
    «channels»: { «in»: ‹2›, «out»: ‹1› }
    «mapping»: [ { «dest»: ‹0›, «mute»: ‹false›, «sources»: [ { «channel»: ‹1›, «gain»: ‹-2›, «inverted»: ‹true›, «mute»: ‹false›, «scale»: ‹dB› } ] } ]
«pipeline»:
  - { «type»: ‹Mixer›, «name»: ‹m›, «description»: y }
  - { type: Filter, «channels»: [ ‹0› ], «names»: [ ‹g›, ‹d›, b, c ], «bypassed»: ‹false› }
""", [("devices:", "section: { a: 1 }\ndevices:"), ("chunksize", "foo: 3\n  chunksize"), ("{ in:", "{ foo: 1, in:"), ("{ dest", "{ foo: 1, dest"),
      ("type: File", "foo: 1, type: File"), ("type: Alsa", "foo: 1, type: Alsa"), ("type: Gain", "foo: 1, type: Gain"), ("gain: -3", "foo: 1, gain: -3")]),
    "Equalizer APO": Reader("a.txt", """«Preamp»: ‹-6› dB
«Device»: ‹all›
«Stage»: ‹pre-mix›
«Channel»: ‹L›
«Filter» 1: ‹ON› ‹PK› «Fc» ‹1000› Hz «Gain» ‹3› dB «Q» ‹2›
«Filter»: ON LSC ‹6› dB Fc ‹100› Hz Gain 2 dB
«Delay»: ‹2› ‹ms›
«Copy»: ‹R›=‹0.5›*‹L›+R
«GraphicEQ»: ‹20› ‹-1›; 100 ‹2›
«Convolution»: ‹folder/ir.wav›
""", [("Preamp", "Loudness: 3\nPreamp"), ("Preamp", "[section]\nPreamp"), ("Q 2", "Q 2 foo"), ("Q 2", "Q 2 Q 3", "Q"), ("Gain 3 dB", "Gain 3 dB Gain 5 dB", "Gain"), ("-6 dB", "-6 dB foo"), ("all", "all foo"), ("2 ms", "2 ms foo"), ("20 -1;", "20 -1 foo;")]),
    "EasyEffects": Reader("a.json", """{ "«output»": {
  "blocklist": [],
  "«convolver#0»": {"«bypass»": ‹false›, "«input-gain»": ‹-3.0›, "«output-gain»": ‹1.0›, "«kernel-name»": ‹"ir.wav"›, "«ir-width»": ‹80›,
    "«autogain»": ‹true›, "«dry»": ‹-20.0›, "«wet»": ‹-1.0›},
  "«equalizer#0»": {"«bypass»": ‹false›, "«input-gain»": ‹-3.0›, "«output-gain»": ‹1.0›, "«mode»": ‹"IIR"›, "«num-bands»": ‹1›,
    "«split-channels»": ‹false›, "«balance»": ‹0.0›, "«pitch-left»": ‹0.0›, "«pitch-right»": ‹0.0›, "«decramp»": ‹"Off"›,
    "«left»": {"«band0»": {"«type»": ‹"Bell"›, "«mode»": ‹"RLC (BT)"›, "«slope»": ‹"x1"›, "«solo»": ‹false›, "«mute»": ‹false›, "«gain»": ‹3.5›, "«frequency»": ‹900.0›, "«q»": ‹1.5›, "«width»": 4.0}},
    "«right»": {"«band0»": {"type": "Bell", "mode": "RLC (BT)", "slope": "x1", "solo": false, "mute": false, "gain": 3.5, "frequency": 900.0, "q": 1.5, "width": 4.0}} },
  "«limiter#0»": {"bypass": ‹false›},
  "«plugins_order»": [ ‹"equalizer#0"›, "convolver#0", ‹"limiter#0"› ]
} }
""", [('"output"', '"foo": {}, "output"'), ('"blocklist"', '"foo": {}, "blocklist"'), ('"gain"', '"foo": 1, "gain"'),
      ('"ir-width"', '"foo": 1, "ir-width"'), ('"num-bands"', '"foo": 1, "num-bands"')]),
    "JamesDSP": Reader("a.conf", """«master_enable»=‹true›
«convolver_enable»=‹true›
«convolver_file»="‹ir.wav›"
«convolver_optimization_mode»=‹0›
«convolver_waveform_edit»=‹-80;-100;0;0;0;0›
«graphiceq_enable»=‹true›
«graphiceq_param»="GraphicEQ: ‹25› ‹3›; 1000 -2"
«tone_enable»=‹true›
«tone_eq»="25;40;63;100;160;250;400;630;1000;1600;2500;4000;6300;10000;‹16000›;‹3›;0;0;0;0;0;0;-2;0;0;0;0;0;0;0"
«tone_filtertype»=‹0›
«tone_interpolation»=‹0›
«master_postgain»=‹-3›
«bass_enable»=‹true›
«reverb_width»=1.00000
""", [("convolver_enable", "foo=3\nconvolver_enable"), ("convolver_enable", "[section]\nconvolver_enable"),
      ("convolver_enable", "convolver_enable=true\nconvolver_enable", "convolver_enable"), ("master_postgain", "master_postgain=2\nmaster_postgain", "master_postgain")]),
    "REW": Reader("a.txt", """* Impulse Response data saved by REW V5.20.13
* «IR is not norma»lised
0.5 // «Peak value» before normalisation
0 // «Peak index»
3 // «Response length»
2.0833333333333333E-5 // «Sample interval» (seconds)
-0.001 // «Start time» (seconds)
* «Data start»
‹1›
0.5
0.25
""", [("* Data", "3 // Delay (samples)\n* Data"), ("0.25", "0.25 // foo"), ("0 //", "x //"), ("3 //", "3 3 //"), ("3 //", "4 //"),
               ("2.08", "y2.08"), ("-0.001", "nan"), ("0.5 //", "[ 1 ] //")]),
    "coefficients": Reader("a.csv", "«left»,«right»\n‹1›,‹0.5›\n0.25,‹0›\n", [("0.25", "section\n0.25"), ("0.25", "0.25,3")]),
    "list of a bank": Reader("a.csv", "«file»,«azimuth»,«elevation»,«distance»\n‹folder/ir.wav›,‹30›,‹10›,‹2›\nfolder/ir.wav,-30,0,1\n",
                             [("file", "foo,file"), ("-30,0,1", "-30,0,1,4"), ("folder", "[section]\nfolder")], commands=("info FILE",)),
    "path": Reader("p.csv", "«time»,«azimuth»,«elevation»,«distance»,«gain»\n‹0›,‹30›,‹0›,‹1›,‹-3›\n0.004,-30,0,1,0\n",
                   [("time", "foo,time"), ("0.004,-30,0,1,0", "0.004,-30,0,1,0,4")],
                   commands=("convolve mono.wav bank.csv --path FILE -o y.wav --backend cpu --format float",)),
    "curve": Reader("a.txt", "‹20› ‹1› 0\n‹100› ‹-3› 10\n1000 0 20\n", [("1000 0 20", "1000 0 20 foo"), ("1000", "section\n1000")],
                    commands=("design target FILE -o y.wav --format float --rate 48000",)),
    "calibration": Reader("a.txt", "\"Sens Factor =-1.2dB, SERNO: 1\"\n‹20› ‹1›\n‹100› ‹-3›\n1000 0\n",
                          [("Sens", "Sense", "no sensitivity"), ("-1.2dB", "dB", "no sensitivity")],
                          commands=("design correct long.wav --calibration FILE -o y.wav --format float",)),
    "manifest": Reader("m.csv", "«input»,«mask»,«output»,«gain»,«tail»,«level»,«seed»,«start»,«length»,«noise»,«snr»,«align»,«early»\n"
                       "‹mono.wav›,‹ir.wav›,y.wav,‹-3›,‹same›,‹peak›,‹3›,‹0.001›,‹0.003›,‹x1.wav›,‹20›,‹yes›,‹2›\n",
                       [("input", "foo,input"), ("yes,2", "yes,2,3"), ("mono", "[section]\nmono")],
                       commands=("batch FILE -o . --backend cpu --format float",)),
    "JSON lines": Reader("m.jsonl", """{"«input»": "‹mono.wav›", "«mask»": "‹ir.wav›", "«output»": "y.wav", "«gain»": ‹-3›, "«tail»": "‹same›", "«align»": ‹true›}\n""",
                         [("{", '{"foo": 1, '), ("}", "}\n[1]")], commands=("batch FILE -o . --backend cpu --format float",)),
    "preset": Reader("config/haloconv/a.conf", "«command» = ‹live›\n«mask» = ir.wav\n«gain» = ‹-3›\n«latency» = ‹5›\n«place» = ‹1:30,0›\n«watch» = ‹yes›\n",
                     [("gain", "[section]\ngain"), ("gain", "foo = 3\ngain")], commands=("presets",)),
    "MIDI map": Reader("a.txt", "«cc» ‹20› «wet» ‹-57› ‹6›\n«note» ‹60› «mask» ‹1›\n«program» mask\n«cc» 80 «bypass»\n",
                       [("cc 80", "[section]\ncc 80"), ("bypass", "bypass foo"), ("cc 80", "pedal 3 mask\ncc 80")],
                       commands=("live no.wav --midi-map FILE",)),
}


@pytest.fixture(autouse=True)
def files(folder, request, monkeypatch):
    (folder / "folder").mkdir()
    write("x.wav", noise(300, 3 if "BruteFIR" in request.node.name else 2), RATE)
    write("folder/ir.wav", noise(60, 2), RATE)
    write("ir.wav", noise(60, 1), RATE), write("long.wav", noise(30000, 1) * np.exp(-np.arange(30000) / 3000)[:, None], RATE), write("mono.wav", noise(300, 1), RATE), write("x1.wav", noise(300, 1, seed=3), RATE)
    (folder / "bank.csv").write_text("file,azimuth\\nfolder/ir.wav,30\\nfolder/ir.wav,-30\\n".replace("\\n", "\n"))
    (folder / "config/haloconv").mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
    (folder / "t.txt").write_text("1\n0.5\n0.25\n" * 30)


@pytest.mark.parametrize("name", READERS)
def test_a_key_or_value_that_a_reader_does_not_know_is_obeyed_refused_or_named(name, files):
    """A key with a letter wrong cannot be obeyed: what it said would be dropped, also if the output differs."""
    reader = READERS[name]
    valid = re.sub("[«»‹›]", "", reader.text)
    path = pathlib.Path(reader.file)
    path.write_text(valid)
    usual, want, said = outcome(reader)
    assert usual == 0 or not any(path.name in line for line in said), said
    silent = []
    for text, words, is_value in [*changes(reader.text), *unknown(valid, reader.unknown)]:
        assert text != valid, words
        path.write_text(text)
        status, got, said = outcome(reader, want)
        names_file = any(path.name in line and (status or any(word in line for word in words)) for line in said)
        names_value = status and any(words[0] in line for line in said)  # such as a file that does not exist
        if not (names_file or names_value or (is_value and status == 0 and got != want)):
            silent.append((words, status, said))
    assert not silent, "\n".join(map(str, silent))


# ---- SOFA and chunks of WAV -------------------------------------------------------------------------------------------
def sofa(path, names=None):
    """names: how variables and attributes (VARIABLE:ATTRIBUTE) are called instead."""
    h5py = pytest.importorskip("h5py", reason="no h5py; make setup-test installs it")
    called = lambda name: (names or {}).get(name, name)  # noqa: E731
    with h5py.File(path, "w") as f:
        for name, text in {"Conventions": "SOFA", "SOFAConventions": "SimpleFreeFieldHRIR", "DataType": "FIR"}.items():
            f.attrs[called(f":{name}").lstrip(":")] = np.bytes_(text)
        for name, value, kind, unit in [
                ("Data.IR", noise(80).reshape(2, 2, 20), "", ""), ("Data.SamplingRate", [48.0], "", "kilohertz"),
                ("Data.Delay", [[0.001, 0]], "", "second"), ("SourcePosition", [[30, 0, 1], [-30, 0, 1]], "spherical", "degree, degree, metre"),
                ("ReceiverPosition", [[[0.0], [-9], [0]], [[0], [9], [0]]], "cartesian", "centimetre"),
                ("EmitterPosition", [[[0.0], [50], [0]]], "cartesian", "centimetre"),
                ("ListenerPosition", [[10.0, 0, 0]], "cartesian", "centimetre"), ("ListenerView", [[0.0, 1, 0]], "cartesian", "metre"),
                ("ListenerUp", [[1.0, 0, 0]], "cartesian", "metre")]:
            data = f.create_dataset(called(name), data=np.asarray(value, "f8"))
            for attribute, text in (("Type", kind), ("Units", unit)):
                if text:
                    data.attrs[called(f"{name}:{attribute}").split(":")[-1]] = np.bytes_(text)


SOFA_NAMES = [":Conventions", ":SOFAConventions", ":DataType", "Data.IR", "Data.SamplingRate", "Data.SamplingRate:Units",
              "Data.Delay", "Data.Delay:Units", "SourcePosition", "SourcePosition:Type", "SourcePosition:Units", "ReceiverPosition",
              "ReceiverPosition:Units", "EmitterPosition:Units", "ListenerPosition", "ListenerPosition:Units", "ListenerView", "ListenerUp"]


@pytest.mark.skipif("HDF5" not in (BUILD / "flags").read_text(), reason="no HDF5 in the build")
def test_a_name_in_a_sofa_file_with_a_letter_wrong_is_named(files):
    sofa("a.sofa")
    want = good("info", "a.sofa")
    assert "the defaults count" not in want.stdout + want.stderr, want
    for name in SOFA_NAMES:
        stem, _, last = name.rpartition(":")
        for wrong in letters_wrong(last):
            sofa("a.sofa", {name: f"{stem}:{wrong}" if ":" in name else wrong})
            done = haloconv("info", "a.sofa")
            said = [line for line in (done.stdout + done.stderr).splitlines() if last in line or "(none)" in line]
            assert said if done.returncode == 0 else "a.sofa" in done.stderr, (name, wrong, done)


def test_a_chunk_with_a_letter_wrong_is_named_as_dropped(files):
    """Chunks that a program knows are kept (test_metadata.py); a chunk of any other name is named."""
    write("plain.wav", noise(300), RATE, "PCM_16")
    plain = pathlib.Path("plain.wav").read_bytes()
    assert "dropped" not in good("convolve", "plain.wav", "ir.wav", "-o", "y.wav", "--backend", "cpu").stderr
    for name in ("bext", "cue ", "smpl", "iXML", "cart", "inst", "LIST", "acid", "\x1b[2J"):
        wrong = [name] if name in ("acid", "\x1b[2J") else [one for one in letters_wrong(name) if len(one) == 4]
        for one in wrong:
            body = plain[8:] + one.encode() + (4).to_bytes(4, "little") + b"abcd"
            pathlib.Path("in.wav").write_bytes(b"RIFF" + len(body).to_bytes(4, "little") + body)
            done = good("convolve", "in.wav", "ir.wav", "-o", "y.wav", "--backend", "cpu")
            assert f"y.wav: dropped: {one.split()[0]}".replace("\x1b", "?") in done.stderr, (one, done.stderr)


@pytest.mark.parametrize("name", [b"bext", b"acid"])
def test_an_empty_chunk_in_a_sound_with_an_edited_header_ends_no_program(name, files):
    """libsndfile divided by the chunk's size: SIGFPE."""
    body = (b"WAVEfmt " + b"\x10\0\0\0\1\0\1\0\x40\x1f\0\0\0\x7d\0\0\4\0\x10\0data\x10\0\0\0" + bytes(16)
            + name + bytes(4))  # frames of 4 bytes, which "16 bits" contradicts
    pathlib.Path("in.wav").write_bytes(b"RIFF" + len(body).to_bytes(4, "little") + body)
    good("convolve", "in.wav", "ir.wav", "-o", "y.wav", "--backend", "cpu")


def test_the_largest_float_in_a_text_is_read_again(files):
    """Its nine digits are a little larger than it is."""
    pathlib.Path("big.txt").write_text("3.40282347e+38\n1\n")
    assert "3.4" in good("info", "big.txt", "--json").stdout
    pathlib.Path("big.txt").write_text("3.4028236e38\n")
    assert "out of the range" in haloconv("info", "big.txt").stderr
