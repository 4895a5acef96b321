"""haloconv room, from start to end: the room is a JACK client with the responses of loudspeakers in a room."""

import pathlib
import re
import signal
import subprocess

import numpy as np
import pytest
from conftest import HALOCONV, assert_close, generator, noise, read, refused
from scipy.signal import fftconvolve, lfilter
from test_live import PATIENCE, alone, needs_jack, run, wait_for
from test_takes import PERIOD, freewheel, open_room, write_room

assert alone and run  # fixtures
RATE = 48000
SHORT = ["--length", 0.5, "--silence", 0.35, "--averages", 1]


def peak(x, hz, db, q):
    """A bell, by the Audio EQ Cookbook."""
    w, a = 2 * np.pi * hz / RATE, 10 ** (db / 40)
    alpha = np.sin(w) / (2 * q)
    return lfilter([1 + alpha * a, -2 * np.cos(w), 1 - alpha * a], [1 + alpha / a, -2 * np.cos(w), 1 - alpha / a], x)


def loudspeakers(n_frames=16000):
    """[2][1][n_frames]: a direct sound with bells, and a decay 20 dB below it."""
    h = np.zeros((2, 1, n_frames))
    for o in range(2):
        x = np.zeros(n_frames)
        x[300 + 40 * o] = 1
        tail = generator(20 + o).normal(size=n_frames) * np.exp(-6.9 * np.arange(n_frames) / (0.25 * RATE))
        tail[:400] = 0
        x += 0.005 * tail
        for hz, db, q in [(60, 7, 3), (150 + 50 * o, -4, 2), (900, 4, 1), (3000, -5, 1.5), (9000, 4, 1)]:
            x = peak(x, hz, db, q)
        h[o, 0] = 0.5 * x
    return h


def deviation_db(h, low=40, high=18000):
    """The largest and the RMS deviation of 1/6 octave means from flat."""
    power = np.abs(np.fft.rfft(h, 1 << 17)) ** 2
    total, bin_hz = np.concatenate([[0], np.cumsum(power)]), RATE / (1 << 17)
    centres = low * 2 ** np.arange(0, np.log2(high / low), 1 / 24)
    ends = [np.round(centres * 2 ** side / bin_hz).astype(int) for side in (-1 / 12, 1 / 12)]
    db = 10 * np.log10((total[ends[1] + 1] - total[ends[0]]) / (ends[1] + 1 - ends[0]))
    db -= db.mean()
    return np.abs(db).max(), np.sqrt((db ** 2).mean())


@pytest.fixture(params=[RATE])
def room(run, request):
    """A server with the room as its only other client."""
    server = run.server(PERIOD, rate=request.param)
    write_room(loudspeakers().astype(np.float32), "my room")
    open_room(run, server, "haloconv", n_in=1)
    server.env["XDG_CONFIG_HOME"] = str(pathlib.Path("config").resolve())
    return server


@needs_jack
def test_a_room_is_corrected_from_start_to_end(run, room):
    """Within 1 dB of the target, the bound of `design correct` (issue 17); then the preset plays the filter."""
    with freewheel(room):
        done = room.haloconv("room", "--yes", "--jack", "--play-to", "my room", "--record-from", "my room", *SHORT,
                             "-o", "out", "--preset", "den")
    assert done.returncode == 0, done.stderr
    before, after, filters = (read(f"out/{name}.wav") for name in ("measured-1", "verified", "filter"))
    for o in range(2):
        (rough, _), (most, rms) = deviation_db(before[:, o]), deviation_db(after[:, o])
        assert rough > 4 and most < 1 and rms < 0.3, (o, rough, most, rms)
    table = re.findall(r"loudspeaker \d (before|after) +([\d. -]+)", done.stderr)
    assert [max(map(float, row.split())) < 1 for _, row in table] == [False, True] * 2, done.stderr
    assert "--levels keep --delays keep" in done.stderr, done.stderr
    assert re.search(r"channel 2: .* dB, \+0\.8\d\d ms; behind the filters .* dB, \+0\.8", done.stderr), done.stderr
    assert max(len(row) for row in done.stderr.splitlines() if re.match(r"octave, Hz|.* (before|after)  ", row)) == 80
    assert "<svg" in pathlib.Path("out/room.svg").read_text()[:300]
    titles = re.findall(r"<title>(.*)</title>", pathlib.Path("out/room.svg").read_text())
    assert titles[1:] == [title for o in (1, 2)
                          for title in (f"magnitude, loudspeaker {o}", "before", "target", "after")]
    preset = run.client("run", "den", env=room.env)
    wait_for("its connections", lambda: re.search(r"haloconv:out-2\n   my room:in-2", room.ports("-c")))
    x = noise(20000, 2)
    heard = sum(fftconvolve(fftconvolve(x[:, o], filters[:, o]), loudspeakers()[o, 0])[:30000] for o in range(2))
    assert_close(room.play(x, 1, 30000, first="haloconv", last="my room"), heard, 1e-5)
    preset.end()


@needs_jack
@pytest.mark.parametrize("room", [16000], indirect=True)
def test_a_room_asks_what_no_option_says(run, room):
    """A wrong answer is asked again; the session for listening ends by a signal, and the walk goes on."""
    answers = ["jack", "none", "99", "1", "my room:in-1", "my room", "", "", "snug", "", "yes", ""]
    with freewheel(room):
        walk = run.process([str(HALOCONV), "room", *map(str, SHORT)], env=room.env, stdin=subprocess.PIPE,
                           stdout=subprocess.DEVNULL, stderr=open("said", "w"), text=True)
        walk.stdin.write("\n".join(answers) + "\n")
        walk.stdin.flush()
        wait_for("the session", lambda: "ports, 1 of 1 connections" in pathlib.Path("said").read_text()
                 or walk.poll() is not None)  # jack_lsp could hold up a server that freewheels
        walk.send_signal(signal.SIGTERM)
        assert walk.wait(PATIENCE) == 0, pathlib.Path("said").read_text()
    said = pathlib.Path("said").read_text()
    for word in ("How many loudspeakers? [2]", "a number from 1", "Position 1 of 1", "Listen to it? [yes]", "run snug"):
        assert word in said, said
    assert read("room/filter.wav").shape[1] == 1 and read("room/verified.wav").shape[1] == 1
    assert "server" not in pathlib.Path("config/haloconv/snug.conf").read_text()


@needs_jack
@pytest.mark.parametrize("room", [16000], indirect=True)
def test_a_second_run_replaces_no_file_of_the_first(room):
    """The second run has made its folder when it fails, by a sweep that is too short."""
    sound = ["--jack", "--play-to", "my room", "--record-from", "my room", "--outputs", 1]
    first = pathlib.Path("room/measured-2.wav")
    pathlib.Path("mic.txt").write_text("*1000Hz -37.1\n20 0\n20000 1\n")
    for path in [first, pathlib.Path("config/haloconv/room.conf")]:
        path.parent.mkdir(parents=True)
        path.write_text("# Made by haloconv room.\n")
    with freewheel(room):
        done = room.haloconv("room", "--yes", *sound, "--length", 0.01, "--calibration", "mic.txt")
    assert done.returncode == 1 and "too short" in done.stderr and "--calibration mic.txt" in done.stderr, done.stderr
    assert [path.name for path in first.parent.iterdir()] == ["measured-2.wav"] and first.read_text()[0] == "#"
    assert pathlib.Path("room-2").is_dir() and "/room-2/measured-1.wav" in done.stderr, done.stderr
    refused("room", "--jack", "--yes", "-o", "room", says=["room/measured-2.wav", "give another -o"])
    with freewheel(room):  # until standard input has no answer
        done = room.haloconv("room", *sound, "--positions", 1, "--target", "")
    assert "Name of the preset? [room-2]" in done.stderr, done.stderr


@needs_jack
def test_a_walk_through_a_room_that_ends_early_says_why(room):
    """No such client, no answers, a preset that the user wrote, and filters that do not fit."""
    pathlib.Path("config/haloconv").mkdir(parents=True)
    pathlib.Path("config/haloconv/mine.conf").write_text("mask = hall.wav\n")
    sound = ["--jack", "--play-to", "my room", "--record-from", "my room"]
    for command, words in [(["room", "--yes", "--jack", "--play-to", "nowhere"], "no port or client 'nowhere'"),
                           (["room", *sound], "has no answer to 'How many loudspeakers?'"),
                           (["room", *sound, "--yes", "--preset", "mine"], "mine.conf: haloconv room did not write"),
                           (["room", *sound, "--yes", "--preset", "a/b"], "is not a name of a file"),
                           (["room", *sound, "--yes", "-o", "room.conf"], "give a folder"),
                           (["measure", *sound, "--filter", "room.conf", "-o", "h.wav"], "is a configuration"),
                           (["measure", *sound, "--filter", "room.wav", "-o", "h.wav"], "has 2 channels; it needs 1")]:
        with freewheel(room):
            done = room.haloconv(command[0], "-q", *command[1:])
        assert done.returncode == 1 and words in done.stderr and done.stderr.count("haloconv: ") == 1, done.stderr
        assert not pathlib.Path("room").exists() and not pathlib.Path("h.wav").exists()
    refused("room", "--jack", "--portaudio", exit=2, says="give one of them")
    refused("room", "--levels", "loud", exit=2, says="each, keep or align")
