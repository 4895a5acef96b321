"""haloconv as a service: presets, systemd's notifications and journal, the units."""

import os
import pathlib
import re
import select
import signal
import socket
import subprocess
import time

import numpy as np
import pytest
from conftest import HALOCONV, assert_close, good, haloconv, noise, refused, write
from test_live import PATIENCE, alone, control_of, needs_jack, needs_osc, response, run, wait_for, wet

assert alone and run  # fixtures


def said(*args, journal=None, **kwargs):
    """Standard error of the program; journal: JOURNAL_STREAM names this file, or (True) standard error itself."""
    with open("said", "w+", encoding="utf-8") as file:
        status = os.fstat(file.fileno()) if journal is True else os.stat(journal or ".")
        env = {**os.environ, "JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"}
        subprocess.run([str(HALOCONV), *map(str, args)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                       stderr=file, timeout=60, check=False, env=env)
        file.seek(0)
        return file.read()


# ---- the journal -----------------------------------------------------------------------------------------------------
def test_lines_carry_their_priority_into_the_journal(folder):
    """An error and its details are <3>, a note <6>; a name that begins with a priority stays inside its line."""
    error, note, detail = ["info", "<0>no.wav"], ["info", "--nothing"], ["check", "wrong.conf"]
    pathlib.Path("wrong.conf").write_text("/convolver/new 1 1 64 100\n/nothing\n/nothing\n")
    assert said(*error, journal=True).startswith("<3><0>no.wav: ")
    assert said(*note, journal=True).endswith("\n<6>see `haloconv info --help`\n")
    assert said(*detail, journal=True).startswith("<3>wrong.conf:2: ")
    assert said(*detail).startswith("wrong.conf:2: ")
    assert said(*error).startswith("haloconv: <0>no.wav: "), "JOURNAL_STREAM is another file"
    assert said(*note).endswith("\nsee `haloconv info --help`\n")


# ---- presets ---------------------------------------------------------------------------------------------------------
@pytest.fixture
def presets(folder, monkeypatch):
    """The user's folder of presets; NAME.conf is made by presets(NAME, text)."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
    monkeypatch.setenv("HOME", str(folder / "home"))
    (folder / "config/haloconv").mkdir(parents=True), (folder / "home").mkdir()

    def add(name, text):
        path = folder / "config/haloconv" / f"{name}.conf"
        path.write_text(text)
        return path

    return add


@needs_jack
@needs_osc
def test_a_preset_plays_and_the_command_line_wins(run, presets, folder):
    """The masks are relative to the preset, "~/" is the user's home; a later option on the command line wins. A byte
    order mark is no part of the first line."""
    h, x, server = response(4000), noise(10000, 2), run.server(128)
    path = presets("hall", "\ufeff# a hall\ncommand = jack\nmask = ir/h.wav\nmask = \"~/a = b.wav\"\n"
                           f"server = {server.name}\nname = hc\ngain = -40\n  dry=-6  \n"
                           "osc = 0\nwatch = no\nconnect = yes\nspin\n")
    (path.parent / "ir").mkdir()
    write(path.parent / "ir/h.wav", h), write(folder / "home/a = b.wav", h)
    client = run.client("run", "hall", "--gain", -20, ready="OSC on port")
    with control_of(client) as control:
        assert control.stats()["mask"] == str(path.parent / "ir/h.wav")
        assert "hc:in-1\n   system:capture_1" in server.ports("-c")
        assert_close(server.play(x, 2, 15000), 0.1 * (wet(x, h, 15000) + np.pad(10 ** -0.3 * x, ((0, 5000), (0, 0)))))
        control.send("/next")
        wait_for("the second mask", lambda: control.stats()["mask"] == str(folder / "home/a = b.wav"))
    client.end()
    client = run.client("jack", "ir/h.wav", "--preset", path, cwd=path.parent, ready="OSC on port")
    assert client.end()["mask"] == "ir/h.wav"
    presets("ships", f"command = jack\nserver = {server.name}\nmask = spring\n")
    assert run.client("run", "ships").end()["mask"].endswith("/impulses/spring.wav")


def test_every_wrong_line_of_a_preset_is_named(presets):
    """An option is refused as on the command line, with the file and the line."""
    path = presets("bad", "command = jack\ngain = 1x\nlate = loud\nosc = 99999\nwatch = maybe\ngain =\nmask =\n"
                          "latency = 5\npreset = x\nhello\n")
    wants = {2: "gain 1x: needs a number", 3: "late loud: needs silence or dry", 4: "osc 99999: needs a whole number",
             5: "watch: needs yes or no", 6: "gain: needs DB", 7: "mask: needs the path", 8: "latency: is not an option of a preset",
             9: "preset: is not an option of a preset", 10: "hello: is not a line KEY = VALUE"}
    lines = refused("jack", "--preset", "bad", exit=2).splitlines()
    assert len(lines) == len(wants), lines
    for line, (number, want) in zip(lines, wants.items()):
        assert line.startswith(f"haloconv: {path}:{number}: {want}") and line.endswith("`haloconv jack --help`"), line
    refused("live", "--preset", "bad", exit=2, says=f"{path}:1: the preset is for haloconv jack; start that")
    path.write_text("gain = 1\n")
    refused("run", "-q", "bad", exit=2, says="needs a MASK; see `haloconv jack")
    path.write_text("command = bench\n")
    refused("run", "bad", exit=2, says=f"{path}:1: command: needs \"jack\", \"pipewire\" or \"live\"")
    for content in [b"gain = 1\0", b"#" * 65537]:
        path.write_bytes(content)
        refused("run", "bad", exit=2, says=[f"{path}: is not a text of at most 65536 bytes"])
    path.write_text("command = live\nmask = h.wav\n")
    refused("run", "bad", says="live: ", env={**os.environ, "ALSA_CONFIG_PATH": "/nonexistent",
                                              "JACK_DEFAULT_SERVER": "hc-nobody", "JACK_NO_START_SERVER": "1"})
    refused("run", "good", exit=2, says=["preset good: this file is not in", str(path.parent), "/etc/haloconv"])
    refused("run", "./bad.conf", exit=2, says="./bad.conf: No such file")
    refused("run", exit=2, says="needs PRESET")
    for words in [["-"], ["-q", "-"], ["--", "-x"]]:
        refused("run", *words, exit=2, says=f"preset {words[-1]}: this file is not in")


def test_wrong_lines_of_presets_are_named_in_the_list(presets):
    path = presets("bad", "mask = a.wav\ngain = loud\n")
    presets("none", "command = bench\nmask = a.wav\n")
    presets("good", "command = live\nmask = a.wav\nlatency = 5\nplace = 1:30,0\n")
    presets("nul", "mask = a.wav\0\n")
    done = haloconv("presets")
    for row in ["bad                  jack, 1 mask; has errors", "none                 bench, 1 mask; has errors",
                "good                 live, 1 mask", f"nul                  {path.parent}/nul.conf: is not a text of"]:
        assert f"\n  {row}" in done.stdout, done.stdout
    assert f"{path}:2: gain loud: needs a number" in done.stderr and "none.conf:1: command: needs" in done.stderr
    assert done.returncode == 0 and len(done.stderr.splitlines()) == 2, done.stderr


def test_presets_are_listed_with_their_folders(presets):
    """A preset of the user's hides one of the system's; /etc is another folder for this process and its children."""
    path = presets("hall", "mask = a.wav\nmask = b.wav\n")
    presets("room", "command = live\nmask = a.wav\n")
    (path.parent / "notes.txt").write_text("no preset")
    said = good("presets").stdout
    assert said.startswith(f"{path.parent}:\n  hall                 jack, 2 masks\n"
                           "  room                 live, 1 mask\n/etc/haloconv:"), said
    script = ("mount -t tmpfs none /etc && mkdir /etc/haloconv && cd /etc/haloconv && "
              "echo command = live >hall.conf && echo mask = c.wav >stage.conf && \"$0\" presets && \"$0\" run stage")
    done = subprocess.run(["unshare", "-m", "sh", "-c", script, str(HALOCONV)], stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.PIPE, check=False, timeout=60)
    if "/etc/haloconv:\n" not in done.stdout:
        pytest.skip(f"no mount namespace here: {done.stderr}")
    assert done.stdout.endswith("/etc/haloconv:\n  hall                 live, 0 masks; hidden by the preset of this "
                                "name above\n  stage                jack, 1 mask\n"), done.stdout
    assert "/etc/haloconv/stage.conf" not in done.stderr and "haloconv: " in done.stderr, done.stderr


# ---- systemd ---------------------------------------------------------------------------------------------------------
class Systemd:
    """The socket to which a service sends its notifications: datagrams of lines NAME=VALUE."""

    def __init__(self, address):
        self.socket, self.lines = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM), []
        self.socket.bind(address.replace("@", "\0"))
        self.env = {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "1000000"}

    def told(self, pattern, seconds=PATIENCE):
        """Waits for a line; the lines before it."""
        end, before = time.monotonic() + seconds, []
        while time.monotonic() < end:
            self.socket.settimeout(end - time.monotonic())
            while not self.lines:
                datagram = self.socket.recv(65536).decode()
                assert datagram.endswith("\n"), datagram
                self.lines = datagram.splitlines()
            before.append(self.lines.pop(0))
            if re.fullmatch(pattern, before[-1]):
                return before[:-1]
        raise AssertionError(f"waited for '{pattern}' in: {before}")

    def told_last(self, pattern, seconds):
        """Waits for a line after which nothing comes for some seconds."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            self.told(pattern)
            if not self.lines and not select.select([self.socket], [], [], seconds)[0]:
                return
        raise AssertionError(f"more comes after each '{pattern}'")


@pytest.fixture
def systemd(folder):
    systemd = Systemd(f"@haloconv-test-{os.getpid()}-{folder.name}")
    yield systemd
    systemd.socket.close()


@needs_jack
def test_systemd_is_told_what_the_service_does(run, systemd):
    """Ready while it waits for a server, so that its start does not time out; then what it plays. A name of a file
    with a line end is no message of its own. A mask that is loaded again is a reload."""
    name, mask = f"hc{os.getpid()}-notify", write("h\nMAINPID=1.wav", response(100))
    client = run.client("jack", mask, "--server", name, "--reconnect", "--name", "hc", env=systemd.env, ready=None)
    before = systemd.told("STATUS=waits: jack: no server .* answers; start one, .*")
    assert before == ["READY=1"]
    systemd.told("WATCHDOG=1")
    server = run.server(128, name=name)
    before = systemd.told(r"STATUS=plays h\?MAINPID=1\.wav")
    assert all(line.startswith(("WATCHDOG=1", "STATUS=")) for line in before), before
    systemd.told("WATCHDOG=1")
    client.process.send_signal(signal.SIGHUP)
    systemd.told("RELOADING=1"), systemd.told(r"MONOTONIC_USEC=\d+"), systemd.told("READY=1")
    client.says("loaded")
    server.kill()
    systemd.told(r"STATUS=waits for the JACK server; h\?MAINPID=1\.wav")
    systemd.told("WATCHDOG=1")
    client.process.send_signal(signal.SIGTERM)
    systemd.told("STOPPING=1")
    client.end(how=None)


@needs_jack
def test_the_watchdog_gets_nothing_while_no_audio_comes(run, systemd):
    """A server that hangs is no server that is away: systemd must restart the service."""
    server = run.server(128)
    client = run.jack(server, write("h.wav", response(100)), "--reconnect", env=systemd.env)
    systemd.told("WATCHDOG=1")
    server.is_usual = False  # no other test gets it
    server.process.send_signal(signal.SIGSTOP)
    try:
        systemd.told_last(r"STATUS=hangs: no block of audio comes; h\.wav", 1)
        client.says("haloconv: no block of audio comes from the server or device; restart that if no block follows")
    finally:
        server.process.send_signal(signal.SIGCONT)
    systemd.told(r"STATUS=plays h\.wav"), systemd.told("WATCHDOG=1")
    client.end()
