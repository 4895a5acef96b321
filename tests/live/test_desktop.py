"""haloconv on a desktop with PipeWire: virtual sinks and microphones, JACK's programs through PipeWire.

pipewire_stage plays and records in the same cycle: a residual of -120 dB proves that no frame is added."""

import os
import pathlib
import time

import numpy as np
import pytest
from conftest import BUILD, HALOCONV, SAN, noise, read, refused, residual_db, write
from desktop import NULL_DB, TRIES, Desktop, bursts, heard_across, missing, shared_desktop
from scipy.signal import fftconvolve
from test_live import FEATURES, control_of, needs_osc, response, run, stop, wait_for, wet
from test_service import systemd

assert run and systemd and shared_desktop  # fixtures

if "pipewire" not in FEATURES or "jack" not in FEATURES or missing():
    pytest.skip(f"no PipeWire or JACK in the build, or no {' '.join(missing())}; make setup-test installs it",
                allow_module_level=True)
TRAP = BUILD / "tests/callback_trap.so"
HESUVI = {"FL": (0, 1), "FR": (8, 7), "FC": (6, 13), "LFE": (6, 13), "RL": (4, 5), "RR": (12, 11), "SL": (2, 3),
          "SR": (10, 9)}


@pytest.fixture
def desktop(shared_desktop, folder):
    """The desktop as it was at its start."""
    shared_desktop.tool("pw-metadata", "-n", "settings", 0, "clock.force-quantum", 0)
    shared_desktop.choose("phones")
    return shared_desktop


def surround(x, h):
    """Eight loudspeakers to two ears, in float64."""
    return np.stack([sum(fftconvolve(x[:, i].astype(float), h[:, ears[ear]].astype(float))
                         for i, ears in enumerate(HESUVI.values())) for ear in (0, 1)], 1)[:len(x)]


def plays_to(desktop, sink, positions, device):
    for position in positions:
        desktop.follows(f"output.{sink}:output_{position}", f"{device}:playback_{position}")


def device(run, desktop, *options, **kwargs):
    client = run.client("pipewire", *options, env=desktop.env, **kwargs)
    client.says("mask")
    return client


def cat(run, desktop, path, sink, device):
    """pw-cat plays a file into a sink; what pw-record has from the monitor of a device."""
    record = run.process(["pw-record", "--format", "f32", "--target", device, "-P", "{ stream.capture.sink = true }",
                          "record.wav"], env=desktop.env)
    wait_for("the recorder", lambda: (f"{device}:monitor_FR", "pw-record:input_FR") in desktop.links())
    desktop.tool("pw-cat", "-p", "--target", sink, path)
    stop(record)
    return read("record.wav")


# ---- sinks -----------------------------------------------------------------------------------------------------------
def test_a_sink_of_eight_channels_plays_hesuvis_file_in_the_same_cycle(run, desktop):
    """The sound goes on while the quantum changes. Names, positions and the volume are a desktop's."""
    h = write("hrir.wav", noise(30000, 14, seed=2) * np.exp(-np.arange(30000) / 6000)[:, None], 48000)
    client = device(run, desktop, "--sink", "surround", "--description", "Surround phones", "--channels", "8", h)
    plays_to(desktop, "surround", ["FL", "FR"], "phones")
    into, out = "surround:playback_", "output.surround:capture_"
    x, options = bursts(8, [512 if SAN else 64, 2048])
    for _ in range(TRIES):
        y = desktop.play(x, into, out, 2, *options, "silence", 32000)
        found, shifts = heard_across(y, x, lambda x: surround(x, read(h)))
        if (found < NULL_DB).all():
            break
    assert (found < NULL_DB).all(), f"residuals in dB {np.round(found)}, shifts {shifts}"
    x = noise(9000, 8, seed=3)
    want = surround(x, read(h))
    number = desktop.number("surround")
    assert '"Surround phones"' in desktop.tool("wpctl", "inspect", number)
    desktop.tool("wpctl", "set-volume", number, "50%")  # the cube of it is the gain, of no other sink
    desktop.null(x, want / 8, into, out, "silence", 32000)
    assert client.end()["state"] == "ok"


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
    x = noise(9000, 2, seed=3)
    desktop.null(x, wet(x[:, [0, 1] * 4], read(h), len(x)), "xo:playback_", "output.xo:capture_")
    client.end()


def test_the_channels_of_a_bank_are_sources(run, desktop):
    """Each channel plays the entry at its place."""
    h = [read(write(f"{name}.wav", response(300, seed=seed), 48000)) for seed, name in enumerate("ab", 1)]
    pathlib.Path("bank.csv").write_text("file,azimuth,elevation\na.wav,30,0\nb.wav,-30,0\n")
    client = device(run, desktop, "--sink", "bank", "--channels", "2", "bank.csv", "--place", "1:-30,0", "--place",
                    "2:30,0")
    plays_to(desktop, "bank", ["FL", "FR"], "phones")
    x = noise(9000, 2, seed=7)
    want = wet(x[:, [0, 0]], h[1], len(x)) + wet(x[:, [1, 1]], h[0], len(x))
    desktop.null(x, want, "bank:playback_", "output.bank:capture_")
    client.end()


def test_programs_play_into_a_sink_and_the_sink_follows_the_default_device(run, desktop):
    """pw-cat plays, pw-record records the device's monitor. Then the user chooses another default device."""
    h, x = write("h.wav", response(2000), 48000), noise(24000, 2, seed=4)
    write("x.wav", x, 48000)
    client = device(run, desktop, "--sink", "room", h)
    want = wet(x, read(h), len(x))[:16000]
    for chosen in ("phones", "speakers"):
        desktop.choose(chosen)
        plays_to(desktop, "room", ["FL", "FR"], chosen)
        found = []
        while len(found) < TRIES and (not found or found[-1] > NULL_DB):
            y = cat(run, desktop, "x.wav", "room", chosen)
            start = np.argmax(np.abs(fftconvolve(y[:, 0], want[::-1, 0], "valid")))
            found.append(residual_db(y[start:start + len(want)], want))
        assert found[-1] <= NULL_DB, f"{chosen}: residuals in dB: {found}"
    client.end()


@needs_osc
def test_a_sink_plays_its_tail_out_and_rests_afterwards(run, desktop):
    """The graph runs for the mask's length after the only program has ended, and not for ever."""
    write("h.wav", response(72000), 48000), write("x.wav", noise(24000, 2, seed=4), 48000)
    client = device(run, desktop, "--sink", "room", "h.wav", "--osc", 0)
    plays_to(desktop, "room", ["FL", "FR"], "phones")
    with control_of(client) as control:
        for _ in range(2):
            runs_until(control)
            desktop.tool("pw-cat", "-p", "--target", "room", "x.wav")
            end = time.monotonic()
            assert 1.5 <= runs_until(control) - end < 8
    client.end()


def runs_until(control):
    """The time of the last block before half a second without one."""
    last, blocks = time.monotonic(), None
    while time.monotonic() < last + 0.5:
        now = control.stats()["blocks"]
        last, blocks = last if now == blocks else time.monotonic(), now
        time.sleep(0.02)
    return last


@pytest.mark.parametrize("named", ["usb", "My USB phones"])
def test_a_sink_plays_to_the_named_device_whenever_that_is_there(run, desktop, named):
    """It has a name and a description."""
    client = device(run, desktop, "--sink", "room", write("h.wav", response(500), 48000), "--output", named)
    for _ in range(2):
        plays_to(desktop, "room", ["FL", "FR"], "phones")
        desktop.tool("pw-cli", "create-node", "adapter", "{ factory.name = support.null-audio-sink node.name = usb "
                     'node.description = "My USB phones" media.class = Audio/Sink audio.position = [ FL FR ] '
                     "object.linger = true }")
        plays_to(desktop, "room", ["FL", "FR"], "usb")
        desktop.tool("pw-cli", "destroy", desktop.number("usb"))
    plays_to(desktop, "room", ["FL", "FR"], "phones")
    client.end()


@pytest.mark.parametrize("node", ["room", "output.room"])
def test_a_sink_that_the_daemon_removes_returns(run, desktop, node):
    """With --reconnect; else the program ends. An error of the session manager removes nothing."""
    h = write("h.wav", response(500), 48000)
    client = device(run, desktop, "--sink", "room", h, "--reconnect")
    plays_to(desktop, "room", ["FL", "FR"], "phones")
    desktop.tool("pw-cli", "destroy", desktop.number(node))
    client.says("the PipeWire daemon: went away; waiting for its return")
    client.says("is back")
    plays_to(desktop, "room", ["FL", "FR"], "phones")
    assert client.end()["state"] == "ok"


def test_the_service_of_a_sink_waits_for_the_daemon_and_returns_with_it(run, systemd):
    """The daemon and its session manager start later, end and start again; with `default` the sink is the one of the
    highest priority. It does not play into itself. An idle sink is ready, and does not hang."""
    write("h.wav", response(500), 48000)
    pathlib.Path("room.conf").write_text("command = pipewire\nsink = room\ndefault = yes\nmask = h.wav\n")
    own = Desktop()
    try:
        client = run.client("run", "./room.conf", "--reconnect", env={**own.env, **systemd.env}, ready="waits until")
        assert systemd.told("STATUS=waits: pipewire: no daemon answers.*") == ["READY=1"]
        own.start()
        for is_back in (False, True):
            plays_to(own, "room", ["FL", "FR"], "phones")
            wait_for("the default", lambda: '"name":"room"' in own.tool("pw-metadata", "0", "default.audio.sink"))
            systemd.told("STATUS=is idle; h.wav")
            if not is_back:
                own.end()
                client.says("the PipeWire daemon: went away; waiting for its return")
                own.start()
        client.end()
    finally:
        own.close()


@pytest.mark.skipif(bool(SAN), reason="a sanitizer allocates and locks")
def test_the_callback_of_a_sink_never_allocates_locks_or_calls_the_system(run, desktop):
    """HC_TRAP_SECONDS (1) of noise while the quantum changes. A planted call is caught."""
    mask, n = write("h.wav", response(8000), 48000), int(48000 * float(os.environ.get("HC_TRAP_SECONDS", "1")))
    x, options = noise(n, 2), [word for i in range(6) for word in ("resize", i * n // 6, [64, 1024, 256][i % 3])]
    write("x.wav", x, 48000)
    env = {**desktop.env, "LD_PRELOAD": str(TRAP)}
    for plant in (True, False):
        client = run.client("pipewire", "--sink", "trap", mask, "--backend", "cpu", ready="mask",
                            env={**env, "HC_TRAP_PLANT": "call"} if plant else env)
        plays_to(desktop, "trap", ["FL", "FR"], "phones")
        if plant:
            desktop.tool("pw-metadata", "-n", "settings", 0, "clock.force-quantum", 256)
            cat = run.process(["pw-cat", "-p", "--target", "trap", "x.wav"], env=desktop.env)
            client.says("trap: the callback reached system call")
            stop(cat)
        else:
            desktop.play(x, "trap:playback_", "output.trap:capture_", 2, *options)
            client.says("trap: watching system calls too")
            assert client.end()["blocks"] > 100, client.said()


# ---- microphones -----------------------------------------------------------------------------------------------------
def test_a_source_records_from_the_microphone_that_is_named(run, desktop):
    h, x = write("h.wav", response(2000), 48000), noise(9000, 2, seed=5)
    client = device(run, desktop, "--source", "clean", "--description", "Clean mic", "--channels", "FL,FR", h,
                    "--input", "mic")
    wait_for("the link", lambda: ("mic:capture_FL", "input.clean:input_FL") in desktop.links())
    late = np.zeros((1024, 2))  # the null source drives the graph: pw-loopback plays its input a cycle later, too
    desktop.null(x, np.concatenate([late, wet(x, read(h), len(x))])[:len(x)], "mic:playback_", "clean:capture_")
    client.end()


# ---- options ---------------------------------------------------------------------------------------------------------
def test_options_that_no_sink_can_have_are_refused(folder):
    write("h.wav", response(100))
    for options, says in {("--channels", "FL,XX"): "positions such as FL,FR,FC,LFE", ("--channels", "65"): "up to 64",
                          ("--channels", "4294967298"): "up to 64", ("--channels", "FL,FL"): "positions such as",
                          ("--midi",): "--midi cannot be with --sink",
                          ("--source", "b"): "--source cannot be with"}.items():
        refused("pipewire", "h.wav", "--sink", "a", *options, says=says, exit=2)
    refused("pipewire", "h.wav", "--channels", "2", says="--channels belongs to --sink or --source", exit=2)


def test_channels_that_the_mask_lacks_are_refused_at_once(desktop, folder):
    """Also with --reconnect, which waits for all else."""
    h = write("h.wav", response(100), 48000)
    refused("pipewire", "--source", "a", "--channels", "FL,FR,FC", h, "--reconnect", env=desktop.env, exit=2,
            says="the mask has 2 outputs")


# ---- JACK through PipeWire -------------------------------------------------------------------------------------------
def test_jack_plays_through_pipewire(run, desktop):
    """To the default device, which the session manager chooses, and which is no card here."""
    h, x = write("h.wav", response(2000), 48000), noise(9000, 2, seed=6)
    client = run.client(HALOCONV, "jack", h, "--name", "hc", "--connect", program="pw-jack", env=desktop.env,
                        ready="mask")
    desktop.follows("hc:out-1", "phones:playback_FL")
    desktop.null(x, wet(x, read(h), len(x)), "hc:in-", "hc:out-")
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
                      "long": f"no PipeWire answers at /{'x' * 150}/pipewire-0; start it",
                      "without": "XDG_RUNTIME_DIR is not set; start haloconv as the user"}.items():
        env = {"nobody": nobody, "long": {**nobody, "PIPEWIRE_RUNTIME_DIR": "/" + "x" * 150}, "without": without}[env]
        refused("jack", "h.wav", env={**env, "LD_LIBRARY_PATH": library}, says=says)
