"""The LV2 bundle in others' hosts and checkers: lv2_validate, sord_validate, lv2info, lv2apply, lv2bench, jalv."""

import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest
from conftest import BUILD, SAN, assert_close, convolve, noise, read, write

BUNDLE = BUILD / "haloconv.lv2"
URI = "urn:haloconv:lv2:"
VARIANTS = {"mono": (1, 1), "mono_to_stereo": (1, 2), "stereo": (2, 2), "true_stereo": (2, 2),
            **{f"matrix_{n}": (n, n) for n in (4, 8, 16, 32, 64)}, "binaural": (1, 2)}
PRESETS = {"mono": 11, "mono_to_stereo": 11, "stereo": 12, "true_stereo": 12, "binaural": 0}  # a matrix has 5
HOST_LIBRARY = "a host without the sanitizer cannot load what is built with it"

pytestmark = pytest.mark.skipif(not BUNDLE.exists(), reason="built without the LV2 plugin")


def tool(name):
    if not shutil.which(name):
        pytest.skip(f"no {name}")
    return name


@pytest.fixture
def path(tmp_path):
    """LV2_PATH with our bundle and the specifications, and no other plugin."""
    (tmp_path / "lv2").mkdir()
    (tmp_path / "lv2/haloconv.lv2").symlink_to(BUNDLE)
    for manifest in pathlib.Path("/usr/lib/lv2").glob("*/manifest.ttl"):
        if "lv2:Specification" in manifest.read_text(errors="replace"):
            (tmp_path / "lv2" / manifest.parent.name).symlink_to(manifest.parent)
    return {**os.environ, "LV2_PATH": str(tmp_path / "lv2")}


def run(*words, env=None, timeout=120):
    done = subprocess.run([*map(str, words)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, env=env, timeout=timeout)
    assert done.returncode == 0, f"{words}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


# ---- its data ------------------------------------------------------------------------------------------------------
def test_valid_for_the_specifications():
    """lv2_validate is sord_validate with the vocabularies of LV2."""
    said = run(tool("lv2_validate"), *sorted(BUNDLE.glob("*.ttl")))
    assert re.search(r"Found 0 errors among [1-9]", said), said


@pytest.mark.parametrize("variant", VARIANTS)
def test_lv2info(variant, path):
    said = run(tool("lv2info"), URI + variant, env=path)
    n_in, n_out = VARIANTS[variant]
    assert len(re.findall(r"Symbol: +in_\d+\n", said)) == n_in and len(re.findall(r"Symbol: +out_\d+\n", said)) == n_out
    own = ["azimuth", "elevation", "distance"] if variant == "binaural" else ["dry", "wet", "predelay", "trim"]
    symbols = re.findall(r"Symbol: +(\w+)\n", said)
    assert sorted(s for s in symbols if not re.match(r"(in|out)_", s)) == sorted(
        [*own, "gain", "enabled", "backend", "freewheel", "latency", "load", "late", "lost", "overruns", "control", "notify", "ab"])
    last = symbols[symbols.index("overruns"):]  # controls that came later are behind the ports that were the last ones
    assert last == ["overruns", "control", "notify", *(["trim"] if variant != "binaural" else []), "ab"], last
    for uri in ["core#enabled", "core#freeWheeling", "core#latency", "core#reportsLatency", "core#hardRTCapable",
                "state#interface", "worker#interface", "state#threadSafeRestore"]:
        assert uri in said, uri
    assert "Required Features" not in said, said
    names = said.split("Presets:")[1].split("Port 0:")[0].split("\n")
    assert len([n for n in names if n.strip()]) == PRESETS.get(variant, 5), names


def test_exports_its_entry_alone():
    if SAN:
        pytest.skip("a sanitizer's names are there too")
    for name, entry in [("haloconv.so", "lv2_descriptor"), ("haloconv_ui.so", "lv2ui_descriptor")]:
        if (BUNDLE / name).exists():  # the window is missing in a build without X11
            said = run(tool("nm"), "-D", "--defined-only", BUNDLE / name)
            assert [line.split()[-1] for line in said.splitlines()] == [entry], said


# ---- what it plays in lv2apply, which has no worker, no options, no URIs, and plays one frame at a time ------------
def bundle_with(folder, env, shipped, mask):
    """LV2_PATH with a copy of the bundle in which `shipped` is another mask."""
    (folder / "lv2/haloconv.lv2").unlink()
    shutil.copytree(BUNDLE, folder / "lv2/haloconv.lv2")
    write(folder / "lv2/haloconv.lv2" / shipped, mask)
    return env


@pytest.mark.parametrize("variant,shipped,n_mask",
                         [("mono", "cabinet.wav", 1), ("mono_to_stereo", "hall.wav", 2), ("stereo", "hall.wav", 2),
                          ("true_stereo", "chamber.wav", 4), ("matrix_8", None, 1)])
def test_lv2apply_is_haloconv_convolve(folder, path, variant, shipped, n_mask):
    tool("lv2apply")
    if SAN:
        pytest.skip(HOST_LIBRARY)
    n_in = VARIANTS[variant][0]
    write("x.wav", noise(20000, n_in))
    mask = BUNDLE / (shipped or "through.txt")
    for own in [False, True] if shipped else [False]:
        if own:
            path = bundle_with(folder, path, shipped, noise(30000, n_mask, seed=2, scale=0.02))
            mask = folder / "lv2/haloconv.lv2" / shipped
        run("lv2apply", "-i", "x.wav", "-o", "got.wav", "-c", "wet", "0", "-c", "backend", "1", URI + variant, env=path)
        convolve("x.wav", mask, "want.wav", "--tail", "same")
        assert_close(read("got.wav"), read("want.wav"))


def test_lv2apply_mixes(folder, path):
    tool("lv2apply")
    if SAN:
        pytest.skip(HOST_LIBRARY)
    x = write("x.wav", noise(9000, 2))
    knobs = ["-c", "dry", "-3", "-c", "wet", "-6", "-c", "gain", "2", "-c", "predelay", "10"]
    run("lv2apply", "-i", x, "-o", "got.wav", *knobs, URI + "stereo", env=path)
    convolve(x, BUNDLE / "hall.wav", "wet.wav", "--tail", "same")
    wet, want = read("wet.wav"), read(x) * 10 ** (-1 / 20)
    want[480:] += wet[:-480] * 10 ** (-4 / 20)
    assert_close(read("got.wav"), want)


def test_lv2apply_places_a_source(folder, path):
    """A direction of the bank is played as its file says, at the level of a bank that is normalised to 0 dB."""
    tool("lv2apply")
    if SAN:
        pytest.skip(HOST_LIBRARY)
    x = write("x.wav", noise(9000, 1))
    heads = np.stack([read(p) for p in sorted((BUNDLE / "head").glob("*.wav"))])
    gain = 2 / np.abs(np.fft.rfft(heads, 1 << 16, axis=1)).max()  # at 0.5 m
    for azimuth in (-60, 0, 90):
        knobs = ["-c", "azimuth", azimuth, "-c", "elevation", "30", "-c", "distance", "0.5"]
        run("lv2apply", "-i", x, "-o", "got.wav", *knobs, URI + "binaural", env=path)
        convolve(x, BUNDLE / f"head/azi_{azimuth % 360}_ele_30.wav", "want.wav", "--tail", "same")
        got, want = read("got.wav")[200:], read("want.wav")[200:] * gain  # the source comes from straight ahead
        assert_close(got / (np.vdot(got, want) / np.vdot(want, want)), want)
        assert abs(np.vdot(got, want) / np.vdot(want, want) - 1) < 3e-4


@pytest.mark.parametrize("block", [64, 256])
def test_lv2bench_runs_every_plugin(path, block):
    tool("lv2bench")
    if SAN:
        pytest.skip(HOST_LIBRARY)
    for variant in VARIANTS:
        said = run("lv2bench", "-b", block, "-n", 9600, URI + variant, env=path)
        assert re.search(rf"^\d+\.\d+ {URI}{variant}$", said, re.M), said


# ---- jalv on a JACK server of its own ------------------------------------------------------------------------------
@pytest.fixture
def jack(request, path, tmp_path):
    """A server with a period of the parameter, or 128 frames. -S, -t: a cycle waits up to 3 s for its clients."""
    tool("jackd"), tool("jack_lsp")
    if SAN:
        pytest.skip(HOST_LIBRARY)
    name, period = f"haloconv-{os.getpid()}", str(getattr(request, "param", 128))
    env = {**path, "JACK_DEFAULT_SERVER": name, "JACK_NO_AUDIO_RESERVATION": "1", "JACK_NO_START_SERVER": "1"}
    with open(tmp_path / "jackd.log", "w", encoding="utf-8") as log:
        server = subprocess.Popen(["jackd", "-n", name, "-r", "-S", "-t", "3000", "-d", "dummy", "-r", "48000",
                                   "-p", period], stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
    end = time.time() + 30
    while server.poll() is None and subprocess.run(["jack_lsp"], env=env, capture_output=True).returncode != 0:
        assert time.time() < end, "jackd does not answer: " + (tmp_path / "jackd.log").read_text()[-200:]
        time.sleep(0.1)
    if server.poll() is not None:
        pytest.skip("no JACK server: " + (tmp_path / "jackd.log").read_text()[-200:])
    yield env
    server.send_signal(signal.SIGTERM)
    try:
        server.wait(10)
    except subprocess.TimeoutExpired:
        server.kill()


class Jalv:
    def __init__(self, env, *options, variant="stereo"):
        words = ["stdbuf", "-oL", tool("jalv"), "-t", *map(str, options), URI + variant]
        self.process = subprocess.Popen(words, env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, bufsize=1)
        os.set_blocking(self.process.stdout.fileno(), False)
        self.said = ""

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def await_line(self, pattern, seconds=60):
        """Wait until the output of jalv, with the plugin's log, matches; the whole output."""
        end = time.time() + seconds
        while time.time() < end:
            chunk = os.read(self.process.stdout.fileno(), 65536).decode() if self.ready() else ""
            self.said += chunk
            if re.search(pattern, self.said):
                return self.said
        raise AssertionError(f"jalv did not say {pattern} in {seconds} s: {self.said}")

    def ready(self):
        return bool(select.select([self.process.stdout], [], [], 0.1)[0])

    def catches_interrupts(self):
        """jalv prints the state before it handles interrupts: an interrupt would end it then."""
        try:
            status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        except OSError:
            return True
        return int(re.search(r"SigCgt:\s*(\w+)", status).group(1), 16) >> (signal.SIGINT - 1) & 1

    def close(self):
        for _ in range(200):
            if self.process.poll() is not None or self.catches_interrupts():
                break
            time.sleep(0.05)
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise


def test_jalv_changes_masks_while_audio_runs(jack):
    jalv = Jalv(jack)
    try:
        jalv.await_line(r"hall\.wav: loaded, 2\.200 s \(105600 frames at 48000 Hz\), 2 routes; cpu")
        jalv.ask("presets")  # it knows those only that it has listed
        jalv.await_line(r"stereo:spring")
        for name, frames in [("plate", 96000), ("chamber", 67200), ("room", 28800), ("cabinet", 2048)]:
            jalv.ask(f"preset {URI}stereo:{name}")
            jalv.await_line(rf"{name}\.wav: loaded, \S+ s \({frames} frames at 48000 Hz\), \d routes; cpu")
        jalv.ask("wet = -3")
        for _ in range(100):  # the load is told now and then
            jalv.said = ""
            jalv.ask("monitors")
            said = jalv.await_line(r"overruns = \S+")
            load = float(re.search(r"load = (\S+)", said).group(1))
            if load > 0:
                break
            time.sleep(0.1)
        assert "late = 0.0" in said and "lost = 0.0" in said and load > 0, said
    finally:
        assert jalv.close() == 0
    assert "error" not in jalv.said.replace("error: invalid command", ""), jalv.said


def write_session(folder, variant, mask, wet):
    """A state folder as hosts write it; the mask is in it, or has an absolute path."""
    folder.mkdir()
    (folder / "manifest.ttl").write_text(
        "@prefix lv2: <http://lv2plug.in/ns/lv2core#> .\n@prefix pset: <http://lv2plug.in/ns/ext/presets#> .\n"
        "@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n"
        f"<state.ttl> a pset:Preset ; lv2:appliesTo <{URI}{variant}> ; rdfs:seeAlso <state.ttl> .\n")
    (folder / "state.ttl").write_text(
        f"@prefix lv2: <http://lv2plug.in/ns/lv2core#> .\n@prefix pset: <http://lv2plug.in/ns/ext/presets#> .\n"
        f"@prefix state: <http://lv2plug.in/ns/ext/state#> .\n"
        f"<> a pset:Preset ; lv2:appliesTo <{URI}{variant}> ;\n"
        f"  lv2:port [ lv2:symbol \"wet\" ; pset:value {wet} ] ;\n  state:state [ <{URI}mask> <{mask}> ] .\n")


def test_jalv_loads_a_session(jack, folder):
    write_session(folder / "session", "stereo", "own.wav", -7.5)
    write(folder / "session/own.wav", noise(5000, 2))
    jalv = Jalv(jack, "-l", folder / "session/")
    try:
        said = jalv.await_line(r"own\.wav: loaded, 0\.104 s \(5000 frames at 48000 Hz\), 2 routes; cpu")
        jalv.ask("controls")
        said = jalv.await_line(r"wet = -7\.5")
        assert "hall.wav" not in said, "the mask of a new instance was loaded for nothing"
    finally:
        assert jalv.close() == 0


def test_jalv_moves_a_source(jack):
    jalv = Jalv(jack, variant="binaural")
    try:
        jalv.await_line(r"head: loaded, .*cpu")
        for azimuth in (30, -170.5, 90):
            jalv.ask(f"azimuth = {azimuth}")
            jalv.said = ""
            jalv.ask("controls")
            jalv.await_line(rf"azimuth = {azimuth}")
        assert "distance = 1.0" in jalv.said, jalv.said
    finally:
        assert jalv.close() == 0
    assert "error" not in jalv.said.replace("error: invalid command", ""), jalv.said
