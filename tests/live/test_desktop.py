"""haloconv on a desktop with PipeWire: virtual sinks and microphones, JACK's programs through PipeWire.

jack_stage plays and records through pw-jack in the same cycle: a residual of -120 dB proves that no frame is added."""

import os
import pathlib
import subprocess

import numpy as np
import pytest
from conftest import BUILD, HALOCONV, SAN, noise, read, refused, write
from desktop import Desktop, missing
from scipy.signal import fftconvolve
from test_live import STAGE, response, run, stop, wait_for, wet

assert run  # a fixture

NULL_DB = -120
FEATURES = (BUILD / "flags").read_text()
pytestmark = pytest.mark.skipif(bool(missing()) or "HC_WITH_PIPEWIRE" not in FEATURES or "HC_WITH_JACK" not in FEATURES,
                                reason=f"no PipeWire or JACK in the build, or no {' '.join(missing())}")
HESUVI = {"FL": (0, 1), "FR": (8, 7), "FC": (6, 13), "LFE": (6, 13), "RL": (4, 5), "RR": (12, 11), "SL": (2, 3), "SR": (10, 9)}


@pytest.fixture(scope="module")
def shared_desktop():
    desktop = Desktop()
    try:
        yield desktop.start()
    finally:
        desktop.close()


@pytest.fixture
def desktop(shared_desktop, folder):
    """The desktop as it was at its start."""
    shared_desktop.tool("pw-metadata", "-n", "settings", 0, "clock.force-quantum", 0)
    shared_desktop.choose("phones")
    return shared_desktop


def residual_db(got, want):
    return 20 * np.log10(np.abs(got - want).max() / np.abs(want).max() + 1e-15)


def play(desktop, x, into, out, *options):
    """Plays x [frames][channels] into ports, and records other ports in the same cycles."""
    x.astype(np.float32).tofile("x.f32")
    done = subprocess.run(["pw-jack", STAGE, "pipewire-0", "x.f32", str(x.shape[1]), ",".join(into), ",".join(out),
                           str(len(out)), "y.f32", str(len(x)), *map(str, options)], env=desktop.env, check=False,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == 0, done.stderr
    return np.fromfile("y.f32", np.float32).reshape(-1, len(out)).astype(np.float64)


def surround(x, h):
    """Eight loudspeakers to two ears, in float64."""
    return np.stack([sum(fftconvolve(x[:, i].astype(float), h[:, ears[ear]].astype(float))
                         for i, ears in enumerate(HESUVI.values())) for ear in (0, 1)], 1)[:len(x)]


def ports(node, kind, positions):
    return [f"{node}:{kind}_{position}" for position in positions]


def plays_to(desktop, sink, positions, device):
    for position in positions:
        desktop.follows(f"output.{sink}:output_{position}", f"{device}:playback_{position}")


def device(run, desktop, *options, **kwargs):
    client = run.client("pipewire", *options, env=desktop.env, **kwargs)
    client.says("mask")
    return client


# ---- sinks -----------------------------------------------------------------------------------------------------------
def test_a_sink_of_eight_channels_plays_hesuvis_file_in_the_same_cycle(run, desktop):
    """While the quantum changes from 1024 to 64 and 2048. Names, positions and the volume are a desktop's."""
    h = write("hrir.wav", noise(3000, 14, seed=2) * np.exp(-np.arange(3000) / 500)[:, None], 48000)
    client = device(run, desktop, "--sink", "surround", "--description", "Surround phones", "--channels", "8", h)
    plays_to(desktop, "surround", ["FL", "FR"], "phones")
    x = noise(60000, 8, seed=3)
    into, out = ports("Surround phones", "playback", HESUVI), ports("Surround phones output", "output", ["FL", "FR"])
    want = surround(x, read(h))
    y = play(desktop, x, into, out, "resize", 20000, 64, "resize", 40000, 2048)
    assert residual_db(y, want) <= NULL_DB
    number = desktop.number("surround")
    assert '"Surround phones"' in desktop.tool("wpctl", "inspect", number)
    desktop.tool("wpctl", "set-volume", number, "50%")  # the cube of it is the gain
    y = play(desktop, x[:30000], into, out)
    assert residual_db(y[15000:], want[15000:30000] / 8) <= NULL_DB + 10  # a volume that changes is a ramp at first
    report = client.end()
    assert report["xruns"] + report["late"] + report["lost"] == 0, report


def test_a_crossover_plays_two_channels_to_eight(run, desktop):
    """The ports of the configuration are positions; the device is named."""
    h = write("h.wav", response(2000, 8), 48000)
    names = list(HESUVI)
    lines = ["/convolver/new 2 8 64 2000", "/input/name 1 FL", "/input/name 2 FR"]
    lines += [f"/output/name {i + 1} {name}" for i, name in enumerate(names)]
    lines += [f"/impulse/read {1 + i % 2} {i + 1} 1 0 0 0 {i + 1} h.wav" for i in range(8)]
    pathlib.Path("xo.conf").write_text("\n".join(lines) + "\n")
    client = device(run, desktop, "--sink", "xo", "xo.conf", "--output", "eight")
    plays_to(desktop, "xo", names, "eight")
    x = noise(20000, 2, seed=3)
    y = play(desktop, x, ports("xo", "playback", ["FL", "FR"]), ports("xo output", "output", names))
    assert residual_db(y, wet(x[:, [0, 1] * 4], read(h), len(x))) <= NULL_DB
    client.end()


def test_programs_play_into_a_sink_and_the_sink_follows_the_default_device(run, desktop):
    """pw-cat plays, pw-record records the device's monitor. Then the user chooses another default device."""
    h, x = write("h.wav", response(2000), 48000), noise(40000, 2, seed=4)
    write("x.wav", x, 48000)
    client = device(run, desktop, "--sink", "room", h)
    for chosen in ("phones", "speakers"):
        desktop.choose(chosen)
        plays_to(desktop, "room", ["FL", "FR"], chosen)
        record = run.process(["pw-record", "--format", "f32", "--target", chosen, "-P", "{ stream.capture.sink = true }",
                              f"{chosen}.wav"], env=desktop.env)
        wait_for("the recorder", lambda: (f"{chosen}:monitor_FR", "pw-record:input_FR") in desktop.links())
        desktop.tool("pw-cat", "-p", "--target", "room", "x.wav")
        stop(record)
        y, want = read(f"{chosen}.wav"), wet(x, read(h), len(x))[:30000]
        start = np.argmax(np.abs(fftconvolve(y[:, 0], want[::-1, 0], "valid")))
        assert residual_db(y[start:start + 30000], want) <= NULL_DB, chosen
    client.end()


def test_a_sink_returns_with_the_daemon_and_can_be_the_default(run, desktop):
    """The daemon and its session manager end and start again; with --default the sink is the one of the highest
    priority. It does not play into itself."""
    own = Desktop().start()
    try:
        client = device(run, own, "--sink", "room", write("h.wav", response(500), 48000), "--reconnect", "--default")
        for _ in range(2):
            plays_to(own, "room", ["FL", "FR"], "phones")
            wait_for("the default", lambda: '"name":"room"' in own.tool("pw-metadata", "0", "default.audio.sink"))
            own.end()
            client.says("the PipeWire daemon: went away; waiting for its return")
            own.start()
            client.says("the PipeWire daemon: is back")
        plays_to(own, "room", ["FL", "FR"], "phones")
        client.end()
    finally:
        own.close()


# ---- microphones -----------------------------------------------------------------------------------------------------
def test_a_source_records_from_the_microphone_that_is_named(run, desktop):
    h, x = write("h.wav", response(2000), 48000), noise(20000, 2, seed=5)
    client = device(run, desktop, "--source", "clean", "--description", "Clean mic", "--channels", "FL,FR", h, "--input",
                    "mic")
    wait_for("the link", lambda: ("mic:capture_FL", "input.clean:input_FL") in desktop.links())
    y = play(desktop, x, ports("mic", "input", ["FL", "FR"]),
             ports("mic", "capture", ["FL", "FR"]) + ports("Clean mic", "capture", ["FL", "FR"]))
    assert residual_db(y[:, 2:], wet(y[:, :2], read(h), len(x))) <= NULL_DB
    client.end()


# ---- options ---------------------------------------------------------------------------------------------------------
def test_options_that_no_sink_can_have_are_refused(folder):
    write("h.wav", response(100))
    for options, says in {("--channels", "FL,XX"): "positions such as FL,FR,FC,LFE", ("--channels", "65"): "up to 64",
                          ("--midi",): "--midi cannot be with --sink", ("--source", "b"): "--source cannot be with"}.items():
        refused("pipewire", "h.wav", "--sink", "a", *options, says=says, exit=2)
    refused("pipewire", "h.wav", "--channels", "2", says="--channels belongs to --sink or --source", exit=2)


# ---- JACK through PipeWire -------------------------------------------------------------------------------------------
def test_jack_plays_through_pipewire(run, desktop):
    h, x = write("h.wav", response(2000), 48000), noise(20000, 2, seed=6)
    client = run.client(HALOCONV, "jack", h, "--name", "hc", "--connect", program="pw-jack", env=desktop.env, ready="mask")
    desktop.follows("hc:out-1", "phones:playback_FL")
    y = play(desktop, x, ["hc:in-1", "hc:in-2"], ["hc:out-1", "hc:out-2"], "resize", 10000, 256)
    assert residual_db(y, wet(x, read(h), len(x))) <= NULL_DB
    client.end()


def test_without_a_server_the_message_names_the_remedy_for_this_system(desktop, folder):
    """libjack is JACK's or PipeWire's; PipeWire runs, or it does not."""
    write("h.wav", response(100))
    nobody = {**desktop.env, "XDG_RUNTIME_DIR": str(folder), "PIPEWIRE_RUNTIME_DIR": str(folder),
              "JACK_DEFAULT_SERVER": f"hc-nobody-{os.getpid()}", "JACK_NO_START_SERVER": "1"}
    runs = {**nobody, **desktop.env}
    without = {key: value for key, value in nobody.items() if not key.endswith("RUNTIME_DIR")}
    refused("jack", "h.wav", env=runs, says="no JACK server answers, but PipeWire does; start the command with pw-jack")
    refused("jack", "h.wav", env={**runs, "PATH": "/nowhere"}, says="install pipewire-jack")
    refused("jack", "h.wav", env=nobody, says="start one, as with: jackd -d alsa")
    library = desktop.tool("pw-jack", "printenv", "LD_LIBRARY_PATH").strip()
    for env, says in {"nobody": f"no PipeWire answers at {folder}/pipewire-0; start it, as with: systemctl --user",
                      "without": "XDG_RUNTIME_DIR is not set; start haloconv as the user"}.items():
        env = {"nobody": nobody, "without": without}[env]
        refused("jack", "h.wav", env={**env, "LD_LIBRARY_PATH": library}, says=says)
