"""`--osc`: every message of the page and its answer, subscribers, and the page's examples, on a JACK server."""

import contextlib
import math
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys

import numpy as np
import pytest
from conftest import BUILD, noise, write
from test_live import PATIENCE, alone, control_of, needs_jack, needs_osc, osc, read_osc, run, wait_for

assert alone and run  # fixtures
pytestmark = [needs_jack, needs_osc]
STATE = ["/mask", "/gain", "/wet", "/dry", "/bypass", "/ab/state", "/late", "/load", "/peaks"]
REPLACED = "another mask was asked for before this one was loaded"


@pytest.fixture
def client(run):
    for name in ["one", "two", "other"]:
        pathlib.Path(f"{name}.txt").write_text("1\n")
    return run.jack(run.server(128), "one.txt", "two.txt", "--osc", 0, ready=r"OSC on port \d+")


@pytest.fixture
def controls(client):
    """Two controls of the session, at ports of their own."""
    with control_of(client) as one, control_of(client) as other:
        yield one, other


def test_a_mask_is_answered_when_it_is_loaded_or_refused(controls):
    one, other = controls
    for message, answer in [(["/mask", "two.txt"], ["/mask", "two.txt", 2]),
                            (["/mask", 1], ["/mask", "one.txt", 1]),
                            (["/mask", 2.0], ["/mask", "two.txt", 2]),
                            (["/mask", "other.txt"], ["/mask", "other.txt", 0]),
                            (["/next"], ["/mask", "one.txt", 1]),
                            (["/prev"], ["/mask", "two.txt", 2]),
                            (["/prev"], ["/mask", "one.txt", 1]),
                            (["/reload"], ["/mask", "one.txt", 1]),
                            (["/mask", 3], ["/error", "/mask", "mask 3 does not exist; the list has 2 masks"]),
                            (["/mask", 0], ["/error", "/mask", "mask 0 does not exist; the list has 2 masks"])]:
        assert one.ask(*message) == answer, message
    path, what, why = one.ask("/mask", "no.wav")
    assert (path, what) == ("/error", "/mask") and why.startswith("no.wav: "), why
    path, mask, number = one.ask("/mask", "spring")  # by its name
    assert (path, number) == ("/mask", 0) and mask.endswith("/impulses/spring.wav"), mask
    # Each asker gets its own answer, also when packets of others come in between.
    one.send("/mask", "two.txt")
    assert other.ask("/no")[:2] == ["/error", "/no"]
    assert other.ask("/bypass") == ["/bypass", 0]
    assert one.answer() == ["/mask", "two.txt", 2]
    for _ in range(10):
        one.send("/mask", "one.txt"), other.send("/next")
    answers = [control.answer() for _ in range(10) for control in controls]
    assert all(a[0] == "/mask" or a == ["/error", a[1], REPLACED] for a in answers), answers
    # Two connections of a panel have no common order, so which of the ten came last is open.
    assert one.ask("/mask", "one.txt") == ["/mask", "one.txt", 1] and other.ask("/next") == ["/mask", "two.txt", 2]


def test_two_masks_are_compared_at_equal_loudness(run):
    """The louder one, A, is turned down to the level of B."""
    names, gains = ["one.txt", "quarter.txt", "half.txt"], [1, 0.25, 0.5]
    for name, gain in zip(names, gains):
        pathlib.Path(name).write_text(f"{gain}\n")
    server, x = run.server(128), noise(24000, 2)
    client = run.jack(server, *names, "--osc", 0, ready="3 masks ready")
    client.says("OSC on port")

    def heard(n=4800, silence=0):
        y = server.play(x, 2, n, silence=silence)[n // 2:]
        return np.sqrt(np.mean(y ** 2) / np.mean(x[n // 2:n].astype(float) ** 2))

    with control_of(client) as control:
        control.send("/ab"), control.ask("/wet")
        heard(24000)  # the loudness of 400 ms is needed; the ready thread, which measures B, may be behind
        playing, *gains_db = control.ask("/ab/state")[1:]
        assert playing == 1 and gains_db == [pytest.approx(-12, abs=0.5), 0]
        compared = control.stats()["ab"]
        assert compared["plays"] == "A" and compared["gain_db"] == [pytest.approx(gains_db[0], abs=0.1), 0]
        assert compared["loudness_lufs"][0] - compared["loudness_lufs"][1] == pytest.approx(12, abs=0.5)
        assert heard(24000) == pytest.approx(0.25, rel=0.05)
        assert control.ask("/ab") == ["/mask", "quarter.txt", 2]
        assert heard() == pytest.approx(0.25, rel=1e-4)
        for wrong, why in [(["no.wav"], "no.wav is not in the list of masks; name it on the command line"),
                           ([9], "mask 9 does not exist; the list has 3 masks"),
                           ([2, 2], "A and B are the same mask; name another"),
                           ([1, 2, 3],
                            "ab needs no argument, off, or one or two masks (paths or numbers in the list)")]:
            assert control.ask("/ab", *wrong) == ["/error", "/ab", why]
        assert control.ask("/ab", "half.txt", "quarter.txt") == ["/mask", "half.txt", 3]
        assert control.ask("/ab") == ["/mask", "quarter.txt", 2] and control.ask("/ab") == ["/mask", "half.txt", 3]
        control.send("/ab", "off"), control.ask("/wet")
        assert heard(silence=4000) == pytest.approx(0.5, rel=1e-4)
        assert control.ask("/ab/state")[1] == 0 and control.stats()["ab"] is None and control.stats()["ready"] == 3
    client.end()


def test_both_masks_of_a_comparison_stay_ready(run):
    """The list has room for one mask besides the one that plays. A's file is gone when A is asked for again."""
    names = ["one.txt", "two.txt", "other.txt"]
    for name in names:
        pathlib.Path(name).write_text("1\n")
    server = run.server(128)
    client = run.jack(server, *names, "--preload", 1, "--osc", 0, ready="2 masks ready")
    client.says("OSC on port")
    with control_of(client) as control:
        control.send("/ab"), control.ask("/wet")
        assert control.ask("/ab") == ["/mask", "two.txt", 2]
        client.says("two.txt: loaded")
        server.play_silence(12000)
        os.remove("one.txt")
        assert control.ask("/ab") == ["/mask", "one.txt", 1]
    client.end()


def test_every_message_is_answered_or_silent(controls):
    one, _ = controls
    needs = "needs a gain of at most 60 dB, or off"
    for message, answer in [(["/gain"], ["/gain", 0.0]), (["/wet"], ["/wet", 0.0]), (["/dry"], ["/dry", -math.inf]),
                            (["/bypass"], ["/bypass", 0]), (["/mask"], ["/mask", "one.txt", 1]),
                            (["/gain", "loud"], ["/error", "/gain", f"gain {needs}"]),
                            (["/wet", 61], ["/error", "/wet", f"wet {needs}"]),
                            (["/dry", math.nan], ["/error", "/dry", f"dry {needs}"]),
                            (["/bypass", "on"], ["/error", "/bypass", "bypass needs 0 or 1"]),
                            (["/mask/add", 1], ["/error", "/mask/add", "/mask/add needs the path of a mask"]),
                            (["/preset", "../x"], ["/error", "/preset", "preset needs the name of a preset"])]:
        assert one.ask(*message) == answer, message
    for message in ["/no", "/load", "/late"]:
        assert one.ask(message, "x")[:2] == ["/error", message]
    for message in [["/gain", -6], ["/dry", -12.0], ["/wet", "off"], ["/bypass", True]]:
        one.send(*message)  # silent: the next answer is that of the next question
    assert abs(one.ask("/gain")[1] + 6) < 1e-5 and abs(one.ask("/dry")[1] + 12) < 1e-5
    assert one.ask("/wet") == ["/wet", -math.inf] and one.ask("/bypass") == ["/bypass", 1]
    for question in ["/late", "/load", "/peaks"]:
        assert one.ask(question)[0] == question
    assert one.stats()["mask"] == "one.txt"


def test_a_path_that_is_too_long_is_refused(controls):
    why = "the path has 4096 bytes or more; use a shorter one"
    for path in ["/mask", "/mask/add"]:
        assert controls[0].ask(path, "x" * 5000) == ["/error", path, why]


def test_a_subscriber_gets_the_state_and_its_changes(client, controls):
    one, other = controls
    assert one.ask("/subscribe") == ["/subscribe", 60]
    state = {message[0]: message[1:] for message in (one.answer() for _ in STATE)}
    assert list(state) == STATE and state["/mask"] == ["one.txt", 1] and state["/bypass"] == [0], state
    other.send("/gain", -6.0)
    assert abs(one.answer("/gain")[1] + 6) < 1e-5
    other.send("/bypass", 1)
    assert one.answer("/bypass") == ["/bypass", 1]
    other.send("/next")
    assert one.answer("/mask") == ["/mask", "two.txt", 2]
    assert other.answer() == ["/mask", "two.txt", 2]  # and nothing before: it is no subscriber
    assert one.answer("/load")[1] >= 0
    one.send("/unsubscribe")
    one.answer("/unsubscribe")
    other.send("/bypass", 0), other.stats()
    assert one.ask("/late")[0] == "/late"
    # At another port, as oscdump needs it.
    assert other.ask("/subscribe", 0)[:2] == ["/error", "/subscribe"]
    other.send("/subscribe", one.socket.getsockname()[1])
    assert one.answer() == ["/subscribe", 60]
    client.end()
    one.answer("/unsubscribe")


def test_subscribers_are_few_and_go_with_their_port(controls):
    one, other = controls
    with contextlib.ExitStack() as stack:
        for _ in range(8):
            sock = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            sock.settimeout(PATIENCE)
            sock.sendto(osc("/subscribe"), ("127.0.0.1", one.port))
            assert read_osc(sock.recv(65536)) == ["/subscribe", 60]
        assert one.ask("/subscribe")[2].startswith("there are 8 subscribers already")
    def is_free():  # their ports are closed: the next messages to them find nobody
        other.send("/bypass", 1), other.send("/bypass", 0)
        return one.ask("/subscribe") == ["/subscribe", 60]
    wait_for("a free place", is_free)


@pytest.mark.parametrize("option, said", [([], "resampled from 44100 to 48000 Hz"),
                                          (["--no-resample"], "its samples at 44100 Hz are played at 48000 Hz")])
def test_a_mask_at_another_rate_is_said(run, option, said):
    for name in ["first.wav", "second.wav"]:
        write(name, np.array([[0.5]], np.float32), rate=44100)
    client = run.jack(run.server(128), "first.wav", *option, "--osc", 0, ready=r"OSC on port \d+")
    assert f"first.wav: {said}" in client.said()
    with control_of(client) as control:
        assert control.ask("/mask", "second.wav") == ["/mask", "second.wav", 0]
    assert f"second.wav: {said}" in client.said()
    client.end()


def examples(page="haloconv-osc.7"):
    """The lines of each example of the page: those of the shell, and those of Python."""
    section = (BUILD / page).read_text().replace("\\-", "-").replace("\\e", "\\")
    return [[line.strip() for line in block.strip().split("\n")] for block in re.findall(r"\.nf\n(.*?)\.fi", section, re.S)]


def is_taken(port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return True
    return False


@pytest.mark.skipif(not shutil.which("oscsend"), reason="no liblo-tools; make setup-test installs them")
def test_the_examples_of_the_page_work(client, controls):
    one, other = controls
    shell, python = examples()
    pathlib.Path("hall.wav").write_bytes(b"no sound file")
    listens = pathlib.Path("dump.txt")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    dump = None
    try:
        for line in shell:
            line = line.replace("9000", str(one.port)).replace("9001", port)
            if line.endswith("&"):
                dump = subprocess.Popen(["stdbuf", "-oL", *line[:-1].split()], stdout=open(listens, "w"))
                wait_for("oscdump", lambda: is_taken(int(port)))
            else:
                subprocess.run(line.split(), check=True)
        wait_for("the state at oscdump", lambda: re.search(r'/mask si "two.txt" 2', listens.read_text()))
        assert re.search(r"/subscribe i 60[^$]*/wet f -6\.0", listens.read_text()), listens.read_text()
    finally:
        if dump:
            dump.kill(), dump.wait()
    done = subprocess.run([sys.executable, "-c", "\n".join(python).replace("9000", str(one.port))], timeout=PATIENCE,
                          stdout=subprocess.PIPE, text=True, check=True)
    assert "/error" in done.stdout and "hall.wav: " in done.stdout, done.stdout
    client.process.send_signal(signal.SIGHUP)  # the session goes on
    assert other.ask("/bypass") == ["/bypass", 0]
