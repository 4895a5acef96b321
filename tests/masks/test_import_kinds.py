"""Values of a wrong kind in the files of other programs, and in manifests and sessions: each is refused with one line.

A valid text has a value of each wrong kind in each place in turn; the places are those that the reader looks at.
"""

import copy
import json
import pathlib
import re

import pytest
from conftest import SAN, haloconv, noise, write

RATE = 48000
KINDS = {"a number": 7, "a text": "abc", "an empty text": "", "an empty list": [], "a list": [1],
         "a list of lists": [[1]], "a list of texts": ["x"], "a list of mappings": [{"a": 1}], "an empty mapping": {},
         "a mapping": {"a": 1}, "a mapping of lists": {"a": [1]}, "null": None, "a boolean": True}
FOUND = {dict: "a mapping", list: "a list"}


def places(value, path=()):
    """The path of each value inside."""
    for key, inside in value.items() if isinstance(value, dict) else enumerate(value):
        yield (*path, key)
        if isinstance(inside, (dict, list)):
            yield from places(inside, (*path, key))


def get(value, path):
    for key in path:
        value = value[key]
    return value


def put(value, path, new):
    value = copy.deepcopy(value)
    get(value, path[:-1])[path[-1]] = new
    return value


def sweep(valid, write_text, name, needs, under=(), accepts=()):
    """Puts each kind in each place below the path `under`. write_text makes the text; the line of a value is that where
    its marker is. needs: texts without which the file is not of this program. accepts: keys of a list or a text."""
    write_text(valid)
    done = haloconv("check", name)
    assert done.returncode == 0, done.stderr
    for path in places(get(valid, under), under):
        line = write_text(put(valid, path, "MARK")).split("MARK")[0].count("\n") + 1
        want = get(valid, path)
        for kind, new in KINDS.items():
            text = write_text(put(valid, path, new))
            others = ("info", "import -o b.conf") if type(new) in FOUND and not SAN else ()
            for command in ("check", *others):
                done = haloconv(*command.split(), name)
                at = f"{command}: {'.'.join(map(str, path))} is {kind}: exit {done.returncode}: {done.stderr}\n{text}"
                assert done.returncode in (0, 1) and "(null)" not in done.stderr + done.stdout, at
                errors = [said for said in done.stderr.splitlines() if "warning: " not in said and "note: " not in said]
                assert bool(errors) == bool(done.returncode) and all(name in said for said in errors), at
                # A mapping for a list, a list for a text, ...: the first error has its line, key, kind and form.
                is_wrong = type(new) is not type(want) if type(new) in FOUND else type(want) in FOUND
                if new is None or not is_wrong or not all(word in text for word in needs):
                    continue
                if path[-1] in accepts and not isinstance(new, dict):
                    continue
                key = next(part for part in reversed(path) if isinstance(part, str))
                said = rf"{name}:{line}: .*\b{re.escape(key)} is {FOUND.get(type(new), 'a ')}[^;]*; (write|indent|put) "
                assert done.returncode == 1 and re.search(said, errors[0]), f"want {said}: {at}"


# ---- PipeWire -------------------------------------------------------------------------------------------------------
def node(label, **more):
    return {"type": "builtin", "name": label, "label": label, **more}


OURS = ("filter.graph", "nodes")
NODES = [
    node("mixer", control={"Gain 1": 0.5, "2": 1}),
    node("linear", control={"Mult": 0.5}),
    node("delay", config={"max-delay": 0.1}, control={"Delay (s)": 0.01, "Feedback": 0.5}),
    node("bq_peaking", control={"Freq": 1000, "Q": 1, "Gain": 3}),
    node("bq_raw", config={"coefficients": [{"rate": RATE, "b0": 1.0, "a1": 0.1}]}),
    node("param_eq", config={"filters": [{"type": "bq_peaking", "freq": 100, "gain": 3, "q": 1}],
                             "filters2": [{"type": "bq_notch"}]}),
    node("dcblock", control={"R": 0.99}),
    node("convolver", config={"filename": "ir.wav", "gain": 0.5, "delay": 3, "offset": 1, "length": 9, "channel": 0}),
    node("convolver", config={"filename": ["ir.wav"]}),
    node("convolver2", config={"impulses": [{"filename": "ir.wav"}]}),
    {"type": "sofa", "name": "sp", "label": "spatializer", "config": {"filename": "bank.csv", "gain": 1},
     "control": {"Azimuth": 30, "Elevation": 0, "Radius": 1}},
]


def port(name, way):
    several = {"In": ("mixer", "param_eq", "dcblock"), "Out": ("param_eq", "dcblock", "convolver2")}
    if (name, way) == ("sp", "Out"):
        return "sp:Out L"
    return f"{name}:{way} 1" if name in several[way] else f"{name}:{way}"


def chain(args):
    return {"context.modules": [{"name": "libpipewire-module-filter-chain", "args": args}]}


def graph(of, **more):
    return {"filter.graph": {"nodes": [of], "inputs": [port(of["name"], "In")], "outputs": [port(of["name"], "Out")]},
            **more}


def write_chain(value):
    text = json.dumps(value, indent=1)
    pathlib.Path("a.conf").write_text(text)
    return text


@pytest.fixture
def responses(folder):
    write("ir.wav", noise(50, 2), RATE)
    pathlib.Path("bank.csv").write_text("file,azimuth,elevation\nir.wav,30,0\n")


@pytest.mark.parametrize("of", range(len(NODES)), ids=[one["label"] for one in NODES])
def test_a_value_of_a_wrong_kind_in_a_node_of_pipewire_is_refused_in_one_line(of, responses):
    accepts = ("filename",) if NODES[of]["label"].startswith("convolver") else ()
    under = ("context.modules", 0, "args", "filter.graph", "nodes", 0)
    sweep(chain(graph(NODES[of])), write_chain, "a.conf", OURS, under, accepts)


def test_a_value_of_a_wrong_kind_around_the_nodes_of_pipewire_is_refused_in_one_line(folder):
    """A list or a text may name the channels."""
    both = {"audio.channels": 1, "audio.position": ["FL"], "node.name": "a", "media.class": "Audio/Sink"}
    graph_of_two = {"nodes": [node("copy"), node("invert")], "links": [{"output": "copy:Out", "input": "invert:In"}],
                    "inputs": ["copy:In"], "outputs": ["invert:Out"], "capture.volumes": []}
    args = {"node.name": "n", "node.description": "d", "filter.graph": graph_of_two, "capture.props": both,
            "audio.rate": RATE, "playback.props": {"target.object": "card", "audio.channels": 1}}
    sweep(chain(args), write_chain, "a.conf", OURS, accepts=("audio.position",))


# ---- CamillaDSP -----------------------------------------------------------------------------------------------------
FILTERS = {
    "gain": ("Gain", {"gain": -3, "inverted": True, "mute": False, "scale": "dB"}),
    "delay": ("Delay", {"delay": 3, "unit": "ms", "subsample": False}),
    "peak": ("Biquad", {"type": "Peaking", "freq": 1000, "q": 1, "gain": 3}),
    "low": ("BiquadCombo", {"type": "LinkwitzRileyLowpass", "freq": 1000, "order": 4}),
    "bands": ("BiquadCombo", {"type": "GraphicEqualizer", "freq_min": 20, "freq_max": 20000, "gains": [1, 2]}),
    "difference": ("DiffEq", {"a": [1, 0.1], "b": [1]}),
    "values": ("Conv", {"type": "Values", "values": [1, 0.5]}),
    "sound": ("Conv", {"type": "Wav", "filename": "ir.wav", "channel": 1}),
    "raw": ("Conv", {"type": "Raw", "filename": "ir.txt", "format": "TEXT", "skip_bytes_lines": 0,
                     "read_bytes_lines": 1}),
    "limiter": ("Limiter", {"soft_clip": False, "clip_limit": 0}),
}


def write_yaml(value):
    """JSON is YAML; each section begins a line."""
    text = "".join(f"{key}: {json.dumps(section, indent=1)}\n" for key, section in value.items())
    pathlib.Path("a.yml").write_text(text)
    return text


def camilla(filters=None, mixers=None, pipeline=None):
    return {"devices": {"samplerate": RATE, "volume_limit": 0, "capture": {"channels": 2, "labels": ["L", "R"]},
                        "playback": {"channels": 2}},
            "filters": filters or {}, "mixers": mixers or {}, "pipeline": pipeline or []}


needs_yaml = pytest.mark.skipif("yaml" not in haloconv("--version").stdout, reason="no libyaml in the build")


@needs_yaml
@pytest.mark.parametrize("name", FILTERS)
def test_a_value_of_a_wrong_kind_in_a_filter_of_camilladsp_is_refused_in_one_line(name, responses):
    pathlib.Path("ir.txt").write_text("1\n")
    kind, parameters = FILTERS[name]
    valid = camilla({name: {"type": kind, "parameters": parameters}},
                    pipeline=[{"type": "Filter", "channels": [0], "names": [name]}])
    sweep(valid, write_yaml, "a.yml", ("samplerate",), ("filters",))


@needs_yaml
def test_a_value_of_a_wrong_kind_around_the_filters_of_camilladsp_is_refused_in_one_line(folder):
    mixer = {"channels": {"in": 2, "out": 2}, "labels": ["a", "b"],
             "mapping": [{"dest": 0, "mute": False, "sources": [{"channel": 0, "gain": 1, "inverted": True}]}]}
    sweep(camilla({"g": {"type": "Gain", "parameters": {"gain": 1}}}, {"m": mixer},
                  [{"type": "Mixer", "name": "m"}, {"type": "Filter", "channels": [1], "names": ["g"]},
                   {"type": "Filter", "channel": 0, "names": ["g"], "bypassed": False}]),
          write_yaml, "a.yml", ("samplerate",))


# ---- manifests ------------------------------------------------------------------------------------------------------
def test_a_value_of_a_wrong_kind_in_a_manifest_is_refused_in_one_line(folder):
    """The keys of a row; a key that is missing or null is as in a row without it."""
    write("a.wav", noise(50), RATE)
    write("ir.wav", noise(50), RATE)
    row = {"input": "a.wav", "output": "b.wav", "mask": "ir.wav", "gain": 1, "align": True}
    for key in row:
        for kind, new in KINDS.items():
            pathlib.Path("rows.jsonl").write_text("\n" + json.dumps({**row, key: new}) + "\n")
            done = haloconv("batch", "rows.jsonl", "-o", f"{key} {kind}")
            at = f"{key} is {kind}: exit {done.returncode}: {done.stderr}"
            assert done.returncode in (0, 1) and "(null)" not in done.stderr + done.stdout, at
            if isinstance(new, (dict, list)):
                assert done.returncode == 1 and re.search(rf"rows\.jsonl:2: .*\b{key}\b.*; ", done.stderr), at
    for kind, new in KINDS.items():
        pathlib.Path("rows.jsonl").write_text(json.dumps(new) + "\n")
        done = haloconv("batch", "rows.jsonl", "-o", "out")
        assert done.returncode == 1 and "rows.jsonl:1: " in done.stderr, f"{kind}: {done.stderr}"
