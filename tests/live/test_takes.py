"""Takes (host/measure/take.h) through rooms that are JACK clients with a known response: haloconv and jconvolver.

The servers freewheel where time plays no part: nothing is late then, and ten seconds of sound take one.
"""

import contextlib
import pathlib
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest
from conftest import BUILD, HALOCONV, SAN, assert_close, generator, noise, write
from scipy.signal import fftconvolve
from test_live import PATIENCE, alone, needs_jack, needs_portaudio, run, stop, wait_for

assert alone and run  # fixtures

STAGE = BUILD / "tests/take_stage"
N_OUT, N_IN, PERIOD, LENGTH, PLAYED, RECORDED = 8, 2, 1024, 4000, 6000, 11000
ROOMS = {"haloconv": lambda server: [str(HALOCONV), "jack", "room.conf", "--server", server.name],
         "jconvolver": lambda server: ["jconvolver", "-s", server.name, "room.conf"]}


def room_responses():
    """[N_OUT][N_IN][LENGTH]: every loudspeaker at every microphone."""
    h = generator(11).normal(size=(N_OUT, N_IN, LENGTH)) * np.exp(-6 * np.arange(LENGTH) / LENGTH)
    return (h / np.sqrt((h ** 2).sum(2, keepdims=True))).astype(np.float32)


def write_room(h, client="room"):
    """room.conf, of a client with the ports in-1 ... and out-1 ..., as both programs read it."""
    n_out, n_in, length = h.shape
    write("room.wav", h.reshape(n_out * n_in, length).T)
    lines = [f"/jack/client '{client}'", f"/convolver/new {n_out} {n_in} {PERIOD} {length}"]
    lines += [f"/input/name {o + 1} in-{o + 1}" for o in range(n_out)]
    lines += [f"/output/name {i + 1} out-{i + 1}" for i in range(n_in)]
    lines += [f"/impulse/read {o + 1} {i + 1} 1 0 0 0 {o * n_in + i + 1} room.wav"
              for o in range(n_out) for i in range(n_in)]
    pathlib.Path("room.conf").write_text("\n".join(lines) + "\n")


def open_room(run, server, kind, n_in=N_IN):
    """The running room; it ends with the test."""
    if not shutil.which(ROOMS[kind](server)[0]):
        pytest.skip(f"{kind} is not installed")
    room = run.process(ROOMS[kind](server), env=server.env, stdin=subprocess.DEVNULL, stdout=open(f"{kind}.log", "w"),
                       stderr=subprocess.STDOUT, end=signal.SIGINT)  # jconvolver does not obey SIGTERM
    wait_for("the room's ports", lambda: f"room:out-{n_in}" in server.ports())
    return room


def write_sound():
    x = noise(PLAYED)[:, 0]
    x.tofile("x.f32")
    return x


def command(server, outputs, inputs, n_out, n_in, n_frames=RECORDED, api="jack"):
    return [str(word) for word in (STAGE, api, server.name, outputs, inputs, n_out, n_in, "x.f32", "y.f32", n_frames)]


@contextlib.contextmanager
def freewheel(server):
    """While it freewheels, a server hangs on a connection to the sound card, and does not obey SIGTERM."""
    is_usual, server.is_usual = server.is_usual, False
    assert server.tool("jack_freewheel", "y").returncode == 0
    yield
    assert server.tool("jack_freewheel", "n").returncode == 0
    server.is_usual = is_usual


def takes(server, *args, **kwargs):
    """The sounds [n_out][n_in][RECORDED] of takes on each output in turn."""
    with freewheel(server):
        done = server.tool(*command(server, *args, **kwargs))
    assert done.returncode == 0, done.stderr
    return np.fromfile("y.f32", np.float32).reshape(*args[2:4], RECORDED).astype(np.float64)


def gap(server):
    """Stops the server for longer than its driver waits."""
    server.process.send_signal(signal.SIGSTOP)
    time.sleep(0.2)
    server.process.send_signal(signal.SIGCONT)


def hang(server, take):
    """The server answers no call of the take any more, which a user ends."""
    server.process.send_signal(signal.SIGSTOP)
    take.send_signal(signal.SIGINT)


def through(h, x):
    """x by each response, [N_OUT][N_IN][RECORDED] in float64."""
    y = fftconvolve(np.broadcast_to(x.astype(np.float64), (*h.shape[:2], len(x))), h.astype(np.float64), axes=2)
    return np.pad(y, ((0, 0), (0, 0), (0, RECORDED)))[:, :, :RECORDED]


@needs_jack
def test_a_take_is_the_response_of_each_output_to_the_frame(run):
    h, x = room_responses(), write_sound()
    write_room(h)
    want, server = through(h, x), run.server(PERIOD)
    open_room(run, server, "haloconv")
    for outputs, inputs, played, recorded in [("room", "room", range(N_OUT), range(N_IN)),
                                              ("room:in-5,room", "room:out-2", [4, 0], [1])]:
        got = takes(server, outputs, inputs, len(played), len(recorded))
        for sounds, o in zip(got, played):
            assert_close(sounds.T, want[o, recorded].T)


@needs_jack
@needs_portaudio
def test_a_take_through_portaudio_has_one_latency_for_all_outputs(run):
    """PortAudio's one client makes a loop of the graph, which JACK opens by a delay of whole cycles."""
    h, x = room_responses(), write_sound()
    write_room(h)
    want, server = through(h, x), run.server(PERIOD)
    open_room(run, server, "haloconv")
    device = "JACK Audio Connection Kit: room"
    got = takes(server, device, device, N_OUT, N_IN, api="portaudio")
    latency = int(np.flatnonzero(got[0, 0])[0]) - int(np.flatnonzero(want[0, 0])[0])
    assert 0 <= latency <= 4 * PERIOD
    for o in range(N_OUT):
        assert_close(got[o, :, latency:].T, want[o, :, :RECORDED - latency].T)


@needs_jack
@pytest.mark.parametrize("plant", ["", "call"])
def test_the_callbacks_of_a_take_neither_allocate_nor_lock_nor_call_the_kernel(run, plant):
    if SAN:
        pytest.skip("a sanitizer brings its own malloc and its own system calls")
    write_sound()
    write_room(room_responses())
    trap = [f"LD_PRELOAD={BUILD / 'tests/callback_trap.so'}", *([f"HC_TRAP_PLANT={plant}"] if plant else [])]
    server = run.server(PERIOD) if not plant else run.server(64, synchronous=False)
    if plant:
        done = server.tool("env", *trap, *command(server, "-", "-", 2, 2))
        server.kill()  # it would not obey SIGTERM for 6 s after a client ended in its callback
    else:
        open_room(run, server, "haloconv")
        with freewheel(server):
            done = server.tool("env", *trap, *command(server, "room", "room", 3, 2))
    assert "trap: " in done.stderr, done
    if plant and "lets system calls by" in done.stderr:
        pytest.skip("the kernel has no system call user dispatch")
    assert done.returncode == (99 if plant else 0) and ("reached" in done.stderr) == bool(plant), done


def ended_take(run, server, act):
    """What a take of a minute says that is acted upon once it has begun."""
    take = run.process(command(server, "-", "-", 1, 1, 48000 * 60), env=server.env, stdin=subprocess.DEVNULL,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if take.stdout.readline():
        act(take)
    said = take.communicate(timeout=PATIENCE)[1]
    assert take.returncode == 1, said
    return said


@needs_jack
def test_a_take_that_cannot_be_says_why(run):
    """No port, too few of them; then a gap, a signal, also while the server hangs, and the death of the server."""
    write_sound()
    server = run.server(PERIOD, synchronous=False)
    for outputs, inputs, n_out, words in [("nowhere", "-", 1, "no port or client 'nowhere' for an output; `jack_lsp`"),
                                          ("-", "system:capture_1,x", 1, "no port or client 'x' for an input"),
                                          ("-", "-", 3, "the sound card has 2 ports for outputs, and 3 are asked for")]:
        done = server.tool(*command(server, outputs, inputs, n_out, 2))
        assert done.returncode == 1 and words in done.stderr, done
    for act, words in [(lambda take: gap(server), "the sound was interrupted"),
                       (lambda take: take.send_signal(signal.SIGINT), "a signal ended"),
                       (lambda take: hang(server, take), "a signal ended"),
                       (lambda take: server.kill(), "the sound ended")]:
        for _ in range(20):  # a busy machine interrupts the sound, too
            said = ended_take(run, server, act)
            server.process.send_signal(signal.SIGCONT)
            if words in said:
                break
            assert "the sound was interrupted" in said, said
            if server.process.poll() is not None:
                server.start()
        assert words in said, said
    done = server.tool(*command(server, "-", "-", 1, 1))
    assert done.returncode == 1 and f"no server {server.name} answers" in done.stderr, done
