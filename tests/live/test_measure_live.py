"""haloconv measure --jack: the room is a JACK client with known responses, which numpy limits to the band."""

import json
import pathlib
import re
import signal
import subprocess

import numpy as np
import pytest
import scipy.signal
import scipy.special
from conftest import HALOCONV, read
from test_live import PATIENCE, alone, needs_jack, run
from test_takes import PERIOD, freewheel, open_room, room_responses, write_room

assert alone and run  # fixtures
RATE, CLOSE = 48000, 10 ** (-90 / 20)
SHORT = ["--from", "40", "--length", "0.25", "--silence", "0.1", "--averages", "1"]


def rooms_with_direct_sound(level=0.2):
    """[8][2][frames]: a direct sound each, 10 frames later for every output."""
    h = room_responses()
    for o, i in np.ndindex(h.shape[:2]):
        direct = 400 + 10 * o + 25 * i
        h[o, i, :direct] = 0
        h[o, i, direct] = 1
    return level * h


def limited(h, shift, n_frames):
    hz = np.fft.rfftfreq(1 << 17, 1 / RATE)
    high_pass = scipy.signal.freqs(*scipy.signal.butter(2, 10, "high", analog=True), hz)[1]
    skirt = 0.5 * scipy.special.erfc((hz - 21000) / (250 * np.sqrt(2)))
    turned = np.fft.rfft(h, 1 << 17) * high_pass * skirt * np.exp(-2j * np.pi * hz * shift / RATE)
    return np.fft.irfft(turned)[:n_frames]


def command(*options):
    return [str(HALOCONV), "measure", "--jack", "-o", "h.wav", *SHORT, *map(str, options)]


@needs_jack
@pytest.mark.parametrize("kind,n_out,n_in", [("haloconv", 1, 1), ("jconvolver", 8, 2)])
def test_the_room_of_a_jack_client_is_measured(run, kind, n_out, n_in):
    h, server = rooms_with_direct_sound(), run.server(PERIOD)
    write_room(h)
    open_room(run, server, kind)
    with freewheel(server):
        done = server.tool(*command("--play-to", "room", "--record-from", "room", "--outputs", n_out, "--inputs", n_in,
                                    "--json", "--latency", "keep"))
    assert done.returncode == 0, done.stderr
    report, got = json.loads(done.stdout), read("h.wav")
    for o, i in np.ndindex(n_out, n_in):
        want = limited(h[o, i].astype(np.float64), 0, len(got))
        assert np.abs(got[:, o * n_in + i] - want).max() < CLOSE * np.abs(want).max(), (o, i)
        pair = report["pairs"][o * n_in + i]
        assert pair["heard"] and pair["direct_s"] * RATE == pytest.approx(10 * o + 25 * i, abs=0.01)
    assert report["reference_frame"] == 400


@needs_jack
def test_levels_are_checked_before_the_sweep(run):
    """A room with an output for each fault."""
    faults = [(20, "clipped"), (5, "too loud"), (1e-4, "quiet"), (0, "no input recorded")]
    h, server = rooms_with_direct_sound(1)[:len(faults), :1], run.server(PERIOD)
    write_room(h * np.array([level for level, _ in faults], np.float32)[:, None, None])
    open_room(run, server, "haloconv", n_in=1)
    for o, (_, says) in enumerate(faults):
        with freewheel(server):
            done = server.tool(*command("--play-to", f"room:in-{o + 1}", "--record-from", "room"))
        assert says in done.stderr and done.returncode == (0 if says == "quiet" else 1), (says, done)
        assert pathlib.Path("h.wav").exists() == (done.returncode == 0)
        assert done.returncode == 0 or says.startswith("no") or re.search(r"by \d+ dB", done.stderr), done.stderr
        pathlib.Path("h.wav").unlink(missing_ok=True)


@needs_jack
def test_an_interrupted_measurement_leaves_nothing(run):
    server = run.server(PERIOD, synchronous=False)
    process = run.process(command("--averages", 100), env=server.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)
    assert "check of the levels" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=PATIENCE)[1]
    assert process.returncode == 1 and "a signal ended the measurement" in said, said
    assert not pathlib.Path("h.wav").exists()
