"""haloconv under a session manager (NSM); the test plays the manager on a socket."""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess

import pytest
from conftest import HALOCONV, SAN, assert_close, noise, write
from test_live import PATIENCE, Control, alone, needs_jack, needs_osc, osc, read_osc, response, run, stop, wait_for, wet

assert alone and run  # fixtures


class Manager:
    def __init__(self, server, host="localhost", address="127.0.0.1"):
        self.server, self.family = server, socket.AF_INET6 if ":" in address else socket.AF_INET
        self.socket = socket.socket(self.family, socket.SOCK_DGRAM)
        self.socket.bind((address, 0))
        self.socket.settimeout(PATIENCE)
        self.env = {**server.env, "NSM_URL": f"osc.udp://{host}:{self.socket.getsockname()[1]}/"}

    def receives(self, path):
        """The next message must be this one; its arguments."""
        packet, self.client = self.socket.recvfrom(65536)
        message = read_osc(packet)
        assert message[0] == path, message
        return message[1:]

    def says(self, *message, sender=None):
        (sender or self.socket).sendto(osc(*message), self.client)

    def welcome(self):
        application, can, executable, major, _, pid = self.receives("/nsm/server/announce")
        assert (application, can, major) == ("haloconv", ":dirty:message:", 1)
        self.says("/reply", "/nsm/server/announce", "hello", "a test", ":server-control:")
        return executable, pid

    def opens(self, folder, client):
        self.says("/nsm/client/open", str(folder), "a session", client)


@pytest.fixture
def manager(run):
    manager = Manager(run.server(128))
    yield manager
    manager.socket.close()


def control_of(manager):
    """A control over the OSC port that the client names in its message."""
    priority, text = manager.receives("/nsm/client/message")
    if text.startswith("restored: "):
        priority, text = manager.receives("/nsm/client/message")
    client = type("", (), {"said": lambda _: text})()
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.settimeout(PATIENCE)
    return Control(client, sock)


@needs_jack
@needs_osc
@pytest.mark.parametrize("file,mask", [("g.wav", "g.wav"), ("g-48000.wav", "g-%r.wav")])
def test_a_session_is_opened_saved_and_opened_again(run, manager, file, mask):
    g, x = response(4000, seed=10), noise(10000, 2)
    write(file, g)
    folder, name = pathlib.Path("haloconv.nABCD").resolve(), "haloconv.nABCD"
    client = run.client("jack", env=manager.env, ready=None)
    assert manager.welcome() == ("haloconv", client.process.pid)
    manager.opens(folder, name)
    assert manager.receives("/reply") == ["/nsm/client/open", "plays"]
    control = control_of(manager)
    assert all(f"{name}:{port}\n" in manager.server.ports() for port in ["in-2", "midi-in"])
    assert_close(manager.server.play(x, 2, 10000, first=name), x)  # a new one lets everything through
    control.send("/mask", mask), control.send("/gain", -6.0)
    manager.receives("/nsm/client/is_dirty")
    wait_for("the mask", lambda: control.stats()["mask"] == mask)
    manager.says("/nsm/client/save")
    assert manager.receives("/reply") == ["/nsm/client/save", "saved"]
    manager.receives("/nsm/client/is_clean")
    saved = json.loads((folder / "session.json").read_text())
    assert saved["mask"] == str(pathlib.Path(mask).resolve()) and abs(saved["gain"] - 10 ** (-6 / 20)) < 1e-6, saved
    control.send("/bypass", True)
    manager.receives("/nsm/client/is_dirty")
    control.send("/bypass", False)
    manager.receives("/nsm/client/is_clean")  # as it was saved
    manager.says("/nsm/client/show_optional_gui"), manager.says("/nsm/client/session_is_loaded")  # nothing to do
    manager.opens(folder, "another")
    assert manager.receives("/error")[:2] == ["/nsm/client/open", -8]
    client.end()

    # As a manager starts it: its name, and nothing else; from another folder.
    again = subprocess.Popen([str(HALOCONV)], cwd="/", env=manager.env, stdin=subprocess.DEVNULL,
                             stderr=open("again.log", "w"))
    try:
        assert manager.welcome()[1] == again.pid
        manager.opens(folder, "renamed")
        assert manager.receives("/reply")[0] == "/nsm/client/open"
        assert manager.receives("/nsm/client/message")[1] == f"restored: {pathlib.Path(mask).resolve()}"[:90] + ", gain -6.0 dB"
        manager.receives("/nsm/client/message")
        assert_close(manager.server.play(x, 2, 15000, first="renamed"), 10 ** (-6 / 20) * wet(x, g, 15000), share=2e-6)
    finally:
        stop(again)
    assert again.returncode == 0, pathlib.Path("again.log").read_text()


@needs_jack
@needs_osc
def test_a_copied_session_has_its_own_through_mask(run, manager):
    """The mask of a new client lies in its folder, and goes with it."""
    for folder in [pathlib.Path("one").resolve(), pathlib.Path("two").resolve()]:
        client = run.client("jack", env=manager.env, ready=None)
        manager.welcome()
        manager.opens(folder, "hc")
        assert manager.receives("/reply")[0] == "/nsm/client/open"
        if folder.name == "two":
            assert manager.receives("/nsm/client/message")[1] == "restored: through.txt"
        manager.receives("/nsm/client/message")
        manager.says("/nsm/client/save")
        assert manager.receives("/reply")[0] == "/nsm/client/save"
        assert "mask" not in json.loads((folder / "session.json").read_text())
        assert client.end()["mask"] == str(folder / "through.txt")
        if folder.name == "one":
            folder.rename(folder.parent / "two")


@needs_jack
@needs_osc
def test_the_list_is_restored_and_the_manager_is_told_what_else(run, manager):
    """First of all bypass, which would seem to be a broken program. Another folder is no reason to lose a mask."""
    folder = pathlib.Path("session").resolve()
    for name in ["one", "two", "three"]:
        pathlib.Path(f"{name}.txt").write_text("1\n")
    masks = [str(pathlib.Path(f"{name}.txt").resolve()) for name in ["one", "two", "three"]]
    for messages, said, number in [
            ([["/mask/add", "three.txt"], ["/wet", -6.0], ["/bypass", 1], ["/mask", 3]], None, 1),
            ([["/bypass", 0], ["/wet", "off"], ["/dry", -3.0], ["/gain", 2.0], ["/mask", 1]],
             "restored: bypass on, mask 3 of 3, wet -6.0 dB", 3),
            ([["/wet", 0.0], ["/dry", "off"], ["/gain", 0.0]],
             "restored: mask 1 of 3, gain 2.0 dB, wet off, dry -3.0 dB", 1), ([], "restored: mask 1 of 3", 1)]:
        options = [] if said else ["one.txt", "two.txt"]
        client = run.client("jack", *options, env=manager.env, ready=None, cwd="/" if said else None)
        manager.welcome()
        manager.opens(folder, "hc")
        assert manager.receives("/reply") == ["/nsm/client/open", "plays"]
        if said:
            assert manager.receives("/nsm/client/message")[1] == said
            client.says(re.escape(said))
        control = control_of(manager)
        assert control.ask("/mask")[2] == number
        for message in messages:
            control.send(*message)
        control.settle()
        if messages:
            manager.receives("/nsm/client/is_dirty")
        wanted = messages[-1][1] if messages and messages[-1][0] == "/mask" else number
        wait_for("the mask", lambda: control.ask("/mask")[2] == wanted)
        manager.says("/nsm/client/save")
        assert manager.receives("/reply") == ["/nsm/client/save", "saved"]
        if messages:
            manager.receives("/nsm/client/is_clean")
        assert json.loads((folder / "session.json").read_text())["masks"] == masks
        client.end()


@needs_jack
@needs_osc
def test_a_session_that_cannot_be_opened_is_told(run, manager):
    folder = pathlib.Path("broken").resolve()
    folder.mkdir()
    for state, says in [('{"mask": "/nonexistent/hall.wav"}', "/nonexistent/hall.wav"), ("{no", r"session\.json:1: "),
                        ("[]", r"session\.json: is not an object"), ('{"mask": 5}', r"session\.json: mask is not"),
                        ('{"gain": [1]}', r"session\.json: gain is not a number"), ('{"wet": "1"}', "wet is not a number"),
                        ('{"masks": "a.wav"}', "masks is not a list"), ('{"masks": ["a.wav", 5]}', "masks is not a list"),
                        ('{"masks": [""]}', "masks is not a list"), ('{"bypass": 1}', "bypass is not true"), ('{"scene": {"sources": 1}}', "scene is not one")]:
        (folder / "session.json").write_text(state)
        client = run.client("jack", env=manager.env, ready=None)
        manager.welcome()
        manager.opens(folder, "hc")
        path, code, why = manager.receives("/error")
        assert path == "/nsm/client/open" and code == -1 and re.search(says, why), why
        client.end(how=None, status=1)


@needs_jack
@needs_osc
@pytest.mark.parametrize("host,address", [("localhost", "127.0.0.1"), ("127.0.1.1", "0.0.0.0"), ("[::1]", "::1")])
def test_only_the_manager_is_obeyed(run, host, address):
    """Another program knows the client's port. Its messages have no effect, and the manager gets no answer to them. The
    packets of the second manager come from 127.0.0.1."""
    try:
        manager = Manager(run.server(128), host, address)
    except OSError as error:
        pytest.skip(f"{address}: {error}")
    run.client("jack", env=manager.env, ready=None)
    manager.receives("/nsm/server/announce")
    with manager.socket, socket.socket(manager.family, socket.SOCK_DGRAM) as stranger:
        for message in [("/error", "/nsm/server/announce", -2, "go away"), ("/nsm/client/open", "strange", "s", "hc")]:
            manager.says(*message, sender=stranger)
        manager.says("/reply", "/nsm/server/announce", "hello", "a test", "")
        manager.opens(pathlib.Path("own").resolve(), "hc")
        assert manager.receives("/reply")[0] == "/nsm/client/open"
        manager.receives("/nsm/client/message")
        manager.says("/nsm/client/save", sender=stranger)
        manager.opens("own", "hc")
        assert manager.receives("/error")[:2] == ["/nsm/client/open", -8]  # the next message: "save" had no answer
    assert not pathlib.Path("strange").exists() and not pathlib.Path("own/session.json").exists()


@needs_jack
@needs_osc
def test_a_session_is_not_written_through_links(run, manager):
    """The folder may come from a stranger: its files are used and kept if they are regular files, else refused."""
    folder = pathlib.Path("session").resolve()
    through, state, foreign = folder / "through.txt", folder / "session.json", pathlib.Path("foreign").resolve()
    folder.mkdir()
    foreign.write_text("{}")

    def opens():
        client = run.client("jack", env=manager.env, ready=None)
        manager.welcome()
        manager.opens(folder, "hc")
        return client

    for plant in [lambda: through.symlink_to(foreign), lambda: state.symlink_to(foreign), lambda: os.mkfifo(state),
                  lambda: state.write_text("{" + " " * 2200000 + "}")]:
        plant()
        client = opens()
        path, code, why = manager.receives("/error")
        assert path == "/nsm/client/open" and re.search(r"not a regular file|more than 2097152 bytes", why), why
        client.end(how=None, status=1)
        assert foreign.read_text() == "{}"
        for file in [through, state]:
            file.unlink(missing_ok=True)
    through.write_text("0.5\n")
    client = opens()
    assert manager.receives("/reply") == ["/nsm/client/open", "plays"]
    manager.receives("/nsm/client/message")
    assert through.read_text() == "0.5\n"
    state.symlink_to(foreign)
    manager.says("/nsm/client/save")
    path, code, why = manager.receives("/error")
    assert path == "/nsm/client/save" and "not a regular file" in why, why
    assert foreign.read_text() == "{}" and state.is_symlink()
    client.end()


@needs_jack
@needs_osc
def test_a_manager_that_refuses_or_is_not_there(run, manager):
    """Without a mask there is nothing to play; with one it goes on alone."""
    write("h.wav", response(100))
    for options, goes_on in [(["jack"], False), (["jack", "h.wav"], True)]:
        client = run.client(*options, env=manager.env, ready=None)
        manager.receives("/nsm/server/announce")
        manager.says("/error", "/nsm/server/announce", -2, "too new")
        client.says("refuses: too new" + ("[^$]*continues without a session manager[^$]*Hz" if goes_on else ""))
        client.end(signal.SIGTERM if goes_on else None, 0 if goes_on else 1)
    waiting = run.client("jack", env=manager.env, ready=None)
    manager.welcome()
    waiting.end(signal.SIGTERM, 0)  # a signal ends the wait for a session
    # A port that is closed, and a manager that is silent for 5 s.
    for changed in [{"NSM_URL": "osc.udp://localhost:9/"}, fast_clock()]:
        client = run.client("jack", "h.wav", env={**manager.env, **changed}, ready=None)
        client.says("no session manager answers[^$]*continues without a session manager[^$]*Hz")
        client.end()
    manager.receives("/nsm/server/announce")
    assert "NSM_URL" not in os.environ


def fast_clock():
    """Variables of the environment for a program whose clock runs 20 times as fast."""
    if SAN:
        return {}  # its runtime must be the first library
    pathlib.Path("fast.c").write_text("""#define _GNU_SOURCE
        #include <sys/syscall.h>
        #include <time.h>
        #include <unistd.h>
        int clock_gettime(clockid_t id, struct timespec *t)
        {
            int error = (int)syscall(SYS_clock_gettime, id, t);
            if (error || id != CLOCK_MONOTONIC) return error;
            long long ns = 20 * (t->tv_sec * 1000000000LL + t->tv_nsec);
            *t = (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
            return 0;
        }""")
    subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "fast.c", "-o", "fast.so"], check=True)
    return {"LD_PRELOAD": str(pathlib.Path("fast.so").resolve())}


@needs_jack
@needs_osc
def test_a_mask_whose_name_is_not_utf8_is_in_the_session(run, manager):
    """JSON has no such names: the statistics show it with U+FFFD, the session keeps its bytes."""
    name, folder = b"caf\xe9-\xed\xa0\x80.txt", pathlib.Path("haloconv.nABCD").resolve()
    pathlib.Path(os.fsdecode(name)).write_text("0.5\n")
    for start in ["first", "again"]:
        client = run.client("jack", env=manager.env, ready=None)
        manager.welcome()
        manager.opens(folder, start)
        manager.receives("/reply")
        control = control_of(manager)
        if start == "first":
            control.raw(b"/mask\0\0\0,s\0\0" + name.ljust(len(name) // 4 * 4 + 4, b"\0"))
            manager.receives("/nsm/client/is_dirty")
        wait_for("the mask", lambda: control.stats()["mask"].endswith("caf\ufffd-\ufffd\ufffd\ufffd.txt"))
        manager.says("/nsm/client/save")
        assert manager.receives("/reply") == ["/nsm/client/save", "saved"]
        if start == "first":
            manager.receives("/nsm/client/is_clean")
        saved = json.loads((folder / "session.json").read_text())["mask"]
        assert bytes(saved) == os.fsencode(pathlib.Path(os.fsdecode(name)).resolve())
        assert client.end()["mask"].endswith("caf\ufffd-\ufffd\ufffd\ufffd.txt")
