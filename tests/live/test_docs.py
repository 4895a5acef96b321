"""The pages of docs/: every command and every program runs as it stands there, in the order of its page and in one
folder, which has the small files of tests/host/test_pages.py. A session (jack, pipewire, run) plays on a JACK server
without a sound card or on a desktop with PipeWire of the test's own, until the next session or the end of its block;
OSC messages reach it. Each command that does not run is printed with the reason."""

import ast
import importlib.util
import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys

import pytest
from conftest import BUILD, ROOT, SAN, good, has_cuda, noise, write
from desktop import missing, shared_desktop
from test_live import FEATURES, HAS_JACK, alone, run

sys.path.insert(0, str(ROOT / "tests/host"))
from test_pages import BLOCK, DOCS, PARSED, example_folder, files, run_example  # noqa: E402

assert alone and run and files and example_folder and shared_desktop  # fixtures

SESSION = r"haloconv (jack|pipewire|run)\b"
ON_GPU = r"--backend (cuda|hybrid(?!:cpu))"
OSC_PORT = r"\b(?:9000|9001|8000)\b"  # those of the pages; a test takes free ones
HAS_DESKTOP = "pipewire" in FEATURES and not missing()
OF_OTHERS = r"(systemctl|journalctl|osc\w+|sbatch|srun|mpirun|pip|python3? -m|make|ssh|sudo|nvidia-smi)\b"
COMPILED = [(r"\bcuda\b", "a GPU"), (r"\bimport ray\b", "a cluster of Ray")]  # why a program is not run


@pytest.fixture
def page_folder(example_folder, monkeypatch):
    """The folder of a page: HOME, the Python module, and the library as pkg-config finds it."""
    for names, channels in {"guitar": 1, "music song stereo verified": 2, "surround": 8}.items():
        for name in names.split():
            write(example_folder / f"{name}.wav", noise(4800, channels, seed=len(name)))
    (example_folder / "bin/python3").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    (example_folder / "bin/python3").chmod(0o755)
    (example_folder / ".config").mkdir()
    shutil.rmtree("haloconv")  # presets and configurations of the other examples
    (example_folder / "crossover.conf").unlink()
    library = example_folder / "lib"
    library.mkdir()
    for name in ["libhaloconv.so", "libhaloconv.so.1"]:
        (library / name).symlink_to(BUILD / "libhaloconv.so")
    text = (ROOT / "dsp/haloconv.pc.in").read_text().replace("${prefix}/include", str(ROOT / "dsp"))
    for name, value in {"PREFIX": "/usr", "LIBDIR": str(library), "VERSION": "0", "LIBS": ""}.items():
        text = text.replace(f"@{name}@", value)
    (library / "haloconv.pc").write_text(text)
    monkeypatch.delenv("XDG_CONFIG_HOME")
    for name, value in {"HOME": example_folder, "PKG_CONFIG_PATH": library, "LD_LIBRARY_PATH": library,
                        "HALOCONV_LIBRARY": BUILD / "libhaloconv.so", "PYTHONPATH": ROOT / "plugins/python"}.items():
        monkeypatch.setenv(name, str(value))
    return example_folder


def commands_of(text):
    """The commands of a block with their continuation lines and here-documents, without comments."""
    found = [match[0] for match in re.finditer(r"^.*<<'(\w+)'\n(?:.*\n)*?\1$|^(?:.*\\\n)*.+$", text, re.M)]
    return [command for command in found if not command.startswith("#")]


def lacks(program):
    """What a program in Python imports and this machine has not, or why it cannot run here."""
    nodes = list(ast.walk(ast.parse(program)))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    needs = {part for name in names for part in name.split(".")[:2 if name.startswith("haloconv.") else 1]}
    gone = [name for name in sorted(needs - {"haloconv"}) if not importlib.util.find_spec(name)]
    why = [why for pattern, why in COMPILED if re.search(pattern, program) and not (why == "a GPU" and has_cuda())]
    return gone + why + ["a sanitized Python"] * bool(SAN)


class Player:
    """Plays the sessions of a page, one after the other."""

    def __init__(self, run, desktop):
        self.run, self.desktop, self.server, self.process, self.ports = run, desktop, None, None, {}

    def own_ports(self, command):
        def free(found):
            if found[0] not in self.ports:
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
                    sock.bind(("127.0.0.1", 0))
                    self.ports[found[0]] = str(sock.getsockname()[1])
            return self.ports[found[0]]

        return re.sub(OSC_PORT, free, command)

    def environment(self, kind):
        """Where a session of this kind can play; None: nowhere on this machine."""
        if kind == "pipewire":
            return self.desktop and self.desktop.env
        if HAS_JACK and not self.server:
            self.server = self.run.server(256)
        return self.server and self.server.env

    def play(self, command):
        """Starts a session, and waits until it plays; returns whether there is a place for it."""
        words = shlex.split(command, comments=True)
        kind = words[1]
        if kind == "run":
            preset = (pathlib.Path.home() / f".config/haloconv/{words[2]}.conf").read_text()
            kind = re.search(r"^command = (\w+)", preset, re.M)[1]
        self.end()
        is_lacking = "kemar.sofa" in command and not pathlib.Path("kemar.sofa").exists()
        env = None if is_lacking or re.search(ON_GPU, command) and not has_cuda() else self.environment(kind)
        if not env:
            return False
        env = {**env, "HOME": str(pathlib.Path.home()), "XDG_CONFIG_HOME": str(pathlib.Path.home() / ".config")}
        command = re.sub(r" *(?:&|  #.*)$", "", self.own_ports(command))
        self.process = self.run.client(*shlex.split(command)[1:], env=env, ready="mask|Hz, ")
        return True

    def end(self):
        """Ends the session that plays."""
        if self.process:
            self.process.end(signal.SIGTERM)
        self.process = None


RUN_PROGRAMS = """import sys
for program in sys.stdin.read().split("\\0"):
    exec(compile(program, program, "exec"), {"__name__": "__main__"})
"""


def run_programs(page, programs):
    """Runs the programs in Python of a page in one interpreter: torch is imported once."""
    done = subprocess.run([sys.executable, "-c", RUN_PROGRAMS], input="\0".join(programs), text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
    assert done.returncode == 0, f"{page.name}: {done.stdout}"


def run_page(page, player):
    """Runs the blocks of a page. Returns {command or first line of a program: why it was not run}."""
    left, programs, text, compiler = {}, [], page.read_text(), os.environ.get("CC", "cc")
    for language, name, block in BLOCK.findall(text):
        if name:
            assert text.count(name) >= 2, f"{page.name}: the text does not say that a block is {name}"
            path = pathlib.Path(os.path.expanduser(name))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block)
        elif language == "python":
            compile(block, page.name, "exec")
            why = lacks(block)
            if why:
                left[block] = ", ".join(why)
            else:
                programs.append(block)
        elif language in ("", "sh"):
            for command in commands_of(block):
                if re.match(SESSION, command) and player.play(command):
                    continue
                if command.startswith("osc") and player.process:
                    subprocess.run(["bash", "-c", player.own_ports(command)], stdin=subprocess.DEVNULL, timeout=60,
                                   check=True)
                    continue
                if re.match(r"cc |\./|python3 (?!-m)", command) and SAN:
                    left[command] = "a sanitized library"
                elif re.match(OF_OTHERS, command):
                    left[command] = "another program"
                elif not run_example(re.sub(r"^cc ", f"{compiler} ", command)):
                    reasons = [why for pattern, why in PARSED if re.search(pattern, command)]
                    left[command] = ", ".join(reasons) or "libmysofa's file"
            player.end()
        else:
            assert language == "text", f"{page.name}: a block of {language} is no file"
    if programs:
        run_programs(page, programs)
    return left


@pytest.mark.skipif(bool(SAN), reason="each command has its own tests with this sanitizer")
@pytest.mark.parametrize("page", [page for page in DOCS if BLOCK.search(page.read_text())], ids=lambda page: page.name)
def test_commands_and_programs_of_a_page_run_as_they_stand_there(page, page_folder, shared_desktop, run, capsys):
    player = Player(run, shared_desktop if HAS_DESKTOP else None)
    try:
        left = run_page(page, player)
    finally:
        player.end()
    with capsys.disabled():
        for command, why in left.items():
            print(f"    {page.name}: not run: {command.splitlines()[0]} ({why})")
    presets = re.findall(r"^```ini ~/\.config/haloconv/(\S+)\.conf", page.read_text(), re.M)
    said = good("presets").stdout if presets else ""
    assert all(re.search(rf"\b{name}\b", said) for name in presets), said
