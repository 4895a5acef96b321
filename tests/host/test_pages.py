"""The pages are true: files that they name exist, pictures are what their scripts draw, and the figures of BENCHMARKS.md
are in the results that tests/bench/record.py wrote. README, man page and help: their examples run as they stand there,
their defaults are those of the program, and the names that they give exist. tests/live/test_docs.py runs docs/."""

import concurrent.futures
import functools
import io
import os
import pathlib
import re
import select
import shutil
import subprocess
import sys
import tarfile
import threading
import zlib

import numpy as np
import pytest
import soundfile
from conftest import BUILD, HALOCONV, MAN_PAGES, ROOT, good, haloconv, noise, write
from test_program import COMMANDS as LISTED

COMMANDS = [*LISTED, "import"]
PAGES = sorted([*ROOT.glob("*.md"), *(page for folder in ["kernels", "tests", "impulses", "dsp"]
                                      for page in (ROOT / folder).rglob("*.md"))])
FOLDERS = "dsp|kernels|host|plugins|impulses|tests|docs"
ABSENT = r"\b(design|house|style|record|seed)\.md\b|\bfig(?:ure)?\. ?\d+ of 0\d\d\b|\b0\d\d fig\b"
DOCS, README = sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md"
PAGES += DOCS
MAKEFILES = "".join(path.read_text() for path in [ROOT / "Makefile", *ROOT.glob("*/*.mk"), *ROOT.glob("*/*/*.mk")])
BLOCK = re.compile(r"^```(\w*)(?: (\S+))?\n(.*?)^```$", re.M | re.S)  # a block: its language, its file's name, its text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_a_page_names_exist(page):
    text = page.read_text()
    named = re.findall(rf"`((?:{FOLDERS})/[\w./*-]*)`", text)
    named += [link for link in re.findall(r"\]\(([\w./-]+)(?:#[\w-]*)?\)", text) if "://" not in link]
    named += re.findall(r'src="([\w./-]+)"', text)
    for name in named:
        there = list(ROOT.glob(name.rstrip("/"))) or list(page.parent.glob(name))
        assert there, f"{page.relative_to(ROOT)} names {name}, which does not exist"


def test_no_file_refers_to_a_document_that_is_not_here():
    done = shutil.which("git") and subprocess.run(["git", "ls-files"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if not done or done.returncode != 0:
        pytest.skip("no git checkout")
    for name in done.stdout.splitlines():
        path = ROOT / name
        if path == pathlib.Path(__file__) or not path.exists() or path.suffix not in {
                ".c", ".h", ".cu", ".cuh", ".cpp", ".py", ".md", ".1", ".in", ""}:
            continue
        found = re.search(ABSENT, path.read_text(errors="replace"))
        assert not found, f"{name} refers to {found.group()}"


def test_the_signal_flow_is_what_its_script_draws(tmp_path):
    subprocess.run([sys.executable, str(ROOT / "dsp/pictures/signal_flow.py"), str(tmp_path / "new.svg")], check=True)
    assert (tmp_path / "new.svg").read_text() == (ROOT / "dsp/pictures/signal_flow.svg").read_text()


def test_readme_is_short():
    lines = README.read_text().splitlines()
    assert len(lines) <= 90
    assert not [line for line in lines if len(line) > 120 and line[0] not in "|<" and not line.startswith("make demo")]


def test_pictures_of_docs_are_small_and_each_is_shown():
    """screenshots_test and test_panel_page.py compare them with what the window and the page draw."""
    pictures = {path.name: path.stat().st_size for path in (ROOT / "docs/pictures").iterdir()}
    assert pictures and max(pictures.values()) <= 150_000 and sum(pictures.values()) <= 1_000_000, pictures
    text = "".join(page.read_text() for page in [README, *DOCS])
    assert set(re.findall(r"[\"/(]pictures/([\w.-]+)[\")]", text)) >= set(pictures)


# ---- docs/ -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.name)
def test_a_page_of_docs_has_one_title_and_a_moderate_length(page):
    text = page.read_text()
    lines = text.splitlines()
    assert lines[0].startswith("# ") and len(re.findall(r"^# ", BLOCK.sub("", text), re.M)) == 1
    assert page.name == "README.md" or 40 <= len(lines) <= 120, f"{len(lines)} lines; 40 to 120 are wanted"
    assert max(len(re.sub(r"\]\(.*?\)", "]", line)) for line in lines) <= 120  # a link's target is not read
    assert len(re.findall(r"^```", text, re.M)) == 2 * len(BLOCK.findall(text)), "a block of an unknown form"


def test_the_index_of_docs_has_a_line_for_each_page():
    linked = re.findall(r"^(?:- |\| )\[.*?\]\(([\w-]+\.md)\)", (ROOT / "docs/README.md").read_text(), re.M)
    assert sorted(linked) == [page.name for page in DOCS if page.name != "README.md"]


def test_no_paragraph_stands_in_two_pages_of_readme_and_docs():
    """Paragraphs, items and rows of tables; the lines of programs may be equal."""
    seen = {}
    for page in [README, *DOCS]:
        text = re.sub(r"\n(?=[-|] |\d+\. )", "\n\n", BLOCK.sub("\n", page.read_text()))
        for paragraph in re.split(r"\n\s*\n", text):
            words = " ".join(re.findall(r"\w+", paragraph))
            if not paragraph.strip().startswith("#") and len(words) >= 60:
                assert seen.setdefault(words, page) is page, f"{page.name} repeats {seen[words].name}: {paragraph}"


def test_the_figures_of_readme_and_docs_are_those_of_the_benchmarks():
    """A row of a table whose first cell names a workload of BENCHMARKS.md by a link; it stands in one page."""
    known, pattern = numbers((ROOT / "BENCHMARKS.md").read_text()), r"^\| \[.*\]\((?:\.\./)?BENCHMARKS\.md.*$"
    rows = [row for page in [README, *DOCS] for row in re.findall(pattern, page.read_text(), re.M)]
    results = [re.sub(r"^\| \[.*?\]\(.*?\) \|", "", row).split("|")[0].strip() for row in rows]
    assert len(re.findall(pattern, README.read_text(), re.M)) == 4 and len(set(results)) == len(results)
    for row in rows:
        given = numbers(re.sub(r"\]\(.*?\)", "", row))
        assert given <= known, f"not in BENCHMARKS.md: {sorted(given - known)}: {row}"


def numbers(text):
    """The numbers of a text, without the commas of thousands; no digits of a word such as float32."""
    return set(re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?:e-\d+)?", re.sub(r"(?<=\d),(?=\d{3})", "", text)))


def test_each_row_of_what_was_tried_has_a_day_and_a_way_to_see_it_again():
    """A day and a test, a goal of make or a commit, or "nobody"."""
    git = ["git", "-C", str(ROOT), "rev-parse"]
    whole = shutil.which("git") and subprocess.run(
        [*git, "--is-shallow-repository"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        check=False).stdout == "false\n"
    rows = re.findall(r"^\| (?!---).*\|$", (ROOT / "docs/tested.md").read_text(), re.M)
    titles = [row for row in rows if "| day |" in row]
    assert len(titles) >= 6 and len(rows) > 40
    for row in set(rows) - set(titles):
        by = row.split("|")[-2]
        if "| nobody |" in row and not by.strip():
            continue
        assert re.search(r"\| (\d{4}-\d\d-\d\d|nobody) \|", row), row
        ways = re.findall(r"`make ([\w-]+)`|`(tests/[\w/.]+)`|\b([0-9a-f]{8})\b", by)
        assert ways, f"no way to see it again: {row}"
        for goal, test, commit in ways:
            assert not goal or re.search(rf"^(?:run-)?{goal}:", MAKEFILES, re.M), row
            assert not test or (ROOT / test).exists(), row
            assert not (commit and whole) or subprocess.run([*git, "-q", "--verify", commit + "^{commit}"], check=False,
                                                            stdout=subprocess.DEVNULL).returncode == 0, row


def test_figures_are_those_of_the_results():
    intro, short, *sections = re.split(r"^## .*\n", (ROOT / "BENCHMARKS.md").read_text(), flags=re.MULTILINE)
    linked = set()
    for section in sections:
        links = re.findall(r"\]\(([\w./-]+)\)", section)
        linked.update(links)
        results = "".join((ROOT / link).read_text() for link in links)
        given = numbers(re.sub(r"\]\(.*?\)|before 0\.2's transform", "", section))
        assert given <= numbers(results), f"not in {links}: {sorted(given - numbers(results))}"
    given = numbers(re.sub(r"\]\(.*?\)|before 0\.2's transform", "", short))
    assert given <= numbers("".join(sections)), f"not in a section: {sorted(given - numbers(''.join(sections)))}"
    results = {str(path.relative_to(ROOT)) for path in (ROOT / "tests/bench/results").rglob("*.md")}
    assert linked == results and linked


def test_a_bench_is_recorded_and_replaced(tmp_path):
    record = [sys.executable, str(ROOT / "tests/bench/record.py"), "--results", str(tmp_path)]
    for word in ["first", "second"]:
        done = subprocess.run([*record, "One", "echo", "bench_zita", word], check=True, stdout=subprocess.PIPE, text=True)
    subprocess.run([*record, "Two", "printf", "| bench_zita |\n|---|\n| 1 |\n"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([*record, "One", "echo", "haloconv", "bench", "scene"], check=True, stdout=subprocess.DEVNULL)
    failed = subprocess.run([*record, "One", "false", "bench_zita"], check=False)
    no_bench = subprocess.run([*record, "One", "echo", "zita"], check=False, stderr=subprocess.DEVNULL)
    zita, scene = sorted(tmp_path.glob("*/*.md"), key=lambda path: path.name, reverse=True)
    page = zita.read_text()
    assert (zita.name, scene.name) == ("zita.md", "scene.md") and zita.parent == scene.parent
    assert failed.returncode == 1 and no_bench.returncode == 2
    assert "first" not in page and "```\nbench_zita second\n```" in page and "\n| bench_zita |\n|---|\n| 1 |\n" in page
    assert page.count("\n## ") == 2
    assert done.stdout.endswith("bring up to date in BENCHMARKS.md: Live, beside zita-convolver\n")


# ---- examples -------------------------------------------------------------------------------------------------------
KEMAR = pathlib.Path("/usr/share/libmysofa/MIT_KEMAR_normal_pinna.sofa")
SERVER, CARD, GPU, LONG = "a JACK server or PipeWire", "a sound card", "a GPU", "a minute or more"
PARSED = [  # the first that matches is why an example is read by the option parser alone
    (r"haloconv (jack|pipewire|run)\b|(measure|room) .*--jack", SERVER), (r"haloconv (live|room)\b|--portaudio", CARD),
    (r"--backend (cuda|hybrid)", GPU), (r"bench (engine .*--time 60|capacity|scene --find)", LONG)]
OF_OTHERS = r"systemctl|journalctl|oscdump|oscsend|sbatch|mpirun |#SBATCH|#!|batch \.\.\.|pip |python -m"  # other programs


def help_of(command, **environment):
    return good(*command.split(), "--help", env={**os.environ, **environment}).stdout


def examples_of(text):
    """The examples of a help or page: lines that begin with a program, with their continuation lines."""
    return [re.sub(r"^[ \t]+", "", line) for line in
            re.findall(r"^(?:  |\t|)(?:haloconv|sox) (?:.*\\\n)*.*$", text, re.M)]


def plain(roff):
    """The text of a part of the man page without fill."""
    text = re.sub(r"\\f[BIRP]|\\&", "", roff).replace("\\-", "-").replace("\\e", "\\")
    return text.replace("\\(aq", "'").replace("\\(dq", '"')


def manual():
    """All man pages, one behind the other."""
    return "".join(page.read_text() for page in MAN_PAGES)


def man_blocks():
    """The parts of the man pages without fill: each is an example, a table or a file."""
    return [plain(text) for text in re.findall(r"^\.(?:nf|EX)\n(.*?)^\.(?:fi|EE)", manual(), re.M | re.S)]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with a small file of each name that an example reads."""
    folder = tmp_path_factory.mktemp("examples")
    sounds = {"voice dry speech/1 speech/2 before after left right speaker denoise": 1,
              "hall plate stereo early late left_and_right correction linear h": 2, "hrir": 14, "cross same": 1,
              "rooms/1 rooms/2 room brutefir L R seat1 seat2 seat3": 1, "a b": 1, "noises/1": 1}
    for name in ["speech", "rooms", "noises"]:
        (folder / name).mkdir()
    decay = np.exp(-np.arange(9600) / 800)[:, None]
    for names, channels in sounds.items():
        for n, name in enumerate(names.split()):
            x = noise(9600, channels, seed=n + 1) * decay
            x[:20] *= 0.01
            x[20] = 0.5  # a direct sound
            write(folder / f"{name}.wav", x.astype(np.float32))
    write(folder / "in.flac", noise(4800), subtype="PCM_16")
    for n in range(100):
        with tarfile.open(folder / f"shards-{n:03}.tar", "w") as tar:
            tar.add(folder / "a.wav", f"{n}.wav")
    for name in ["walk", "way"]:
        (folder / f"{name}.csv").write_text("time,azimuth\n0,0\n0.1,90\n")
    (folder / "list.csv").write_text("input,mask\nvoice.wav,hall.wav\n")
    (folder / "house.txt").write_text("20 3\n1000 0\n20000 -3\n")
    (folder / "xo.conf").write_text("/convolver/new 1 1 64 100\n/impulse/dirac 1 1 1 0\n")
    for name in ["hall.conf", "crossover.conf"]:
        shutil.copy(folder / "xo.conf", folder / name)
    (folder / "xo.conf").unlink()
    (folder / "brutefir.conf").write_text(
        "float_bits: 32;\nsampling_rate: 48000;\nfilter_length: 4096;\ncoeff 0 { filename: \"dirac pulse\"; };\n"
        "input 0 { device: \"file\" { path: \"/dev/stdin\"; }; sample: \"FLOAT_LE\"; channels: 1; };\n"
        "output 0 { device: \"file\" { path: \"/dev/stdout\"; }; sample: \"FLOAT_LE\"; channels: 1; };\n"
        "filter 0 { inputs: 0; outputs: 0; coeff: 0; };\n")
    good("design", "room", "--rt60", "0.2", "-o", folder / "recorded.wav")
    return folder


@pytest.fixture
def example_folder(files, folder, monkeypatch):
    """A copy of `files`, and a PATH with haloconv."""
    shutil.copytree(files, folder, dirs_exist_ok=True)
    if KEMAR.exists():
        shutil.copy(KEMAR, "kemar.sofa")
    (folder / "bin").mkdir()
    (folder / "bin/haloconv").symlink_to(HALOCONV)
    (folder / "bin/play").write_text("#!/bin/sh\nexec cat >/dev/null\n")  # a sound card that takes anything
    (folder / "bin/play").chmod(0o755)
    (folder / "haloconv").mkdir()
    (folder / "haloconv/stage.conf").write_text(f"command = jack\nmask = {folder}/hall.wav\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))
    monkeypatch.setenv("PATH", f"{folder}/bin:{os.environ['PATH']}")
    return folder


def run_example(example):
    """Runs an example as it stands on its page, or the option parser alone (PARSED); returns whether it was run."""
    if re.search(OF_OTHERS, example):
        return False
    why = [why for pattern, why in PARSED if re.search(pattern, example)]
    why += ["libmysofa's file"] * ("kemar.sofa" in example and not KEMAR.exists())
    if "rec.wav" in example:
        x, rate = soundfile.read("sweep.wav", always_2d=True)
        soundfile.write("rec.wav", x.sum(1), rate, "FLOAT")  # a room that changes nothing, at one microphone
    line = re.split(r" &| +# ", example)[0] + " --help" if why else example
    slurm = {"SLURM_PROCID": "0", "SLURM_NTASKS": "1"} if "--shard slurm" in example else {}
    done = subprocess.run(["bash", "-e", "-o", "pipefail", "-c", line], text=True, timeout=300, check=False,
                          env={**os.environ, **slurm},
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert done.returncode == 0, f"{example}\nexit {done.returncode}: {done.stderr}"
    assert not why or done.stdout.startswith("Usage: "), example
    return not why


@pytest.mark.parametrize("command", [command for command in COMMANDS if command != "bench"])
def test_examples_of_the_help_run_as_they_stand_there(example_folder, command):
    text = help_of(command)
    examples = examples_of(text[text.rindex("\n\n  haloconv "):])
    assert examples == examples_of(help_of(command, ARGP_HELP_FMT="rmargin=250"))[-len(examples):], "a line is broken"
    assert not re.search(r"^ +$", text, re.M), "a line of blanks"
    for example in examples:
        run_example(example)


def test_examples_of_the_man_page_run_as_they_stand_there(example_folder):
    """Commands, configurations, a list, a preset; programs in Python are compiled."""
    seen, midi = set(), []
    for block in man_blocks():
        first = block.split()[0]
        if re.match(r"\s*(input,mask)", block):
            (example_folder / "pairs.csv").write_text(block.replace("\t", ""))
            good("batch", "pairs.csv", "-o", "pairs")
        elif first == "/convolver/new":
            (example_folder / "cross.conf").write_text(block.replace("\t", ""))
            good("check", "cross.conf")
        elif "command = jack" in block:
            (example_folder / "haloconv/hall.conf").write_text(block.replace("\t", "").replace("~/masks/", "~+/"))
            assert "hall" in good("presets").stdout
        elif first in ("import", "from"):
            compile(re.sub(r"^(?:\t|  )", "", block, flags=re.M), "the man page", "exec")
        elif first in ("program", "cc"):
            (example_folder / "stage.map").write_text(block.replace("\t", ""))
            done = haloconv("jack", "hall.wav", "--midi-map", "stage.map", "--server", "nowhere")
            assert "stage.map" not in done.stderr
            midi.append(first)
        elif not re.match(r"@audio|ADM-OSC|/jack/client", first):
            commands = [re.sub(r"^(?:\t|  )", "", line) for line in re.findall(r"^(?:[^\n]*\\\n)*[^\n]+$", block, re.M)]
            assert all(re.match(r"(haloconv|sox|#|[a-z]+) ?", command) for command in commands), block
            first = {run_example(command) for command in commands}
        seen.add(str(first))
    assert len(seen) >= 10 and midi == ["program", "cc"]


def test_commands_of_the_readme_run_as_they_stand_there(example_folder):
    """Those of its blocks and of its table. What installs is not run; its goals of make exist."""
    text = README.read_text()
    lines = [line for _, _, block in BLOCK.findall(text) for line in block.splitlines()]
    goals = set(re.findall(r"\bmake ([a-z][\w-]*)", "\n".join(re.split(" # ", line)[0] for line in lines)))
    assert goals >= {"demo", "test", "deb", "install"}
    assert not [goal for goal in goals if not re.search(rf"^(?:run-)?{goal}:", MAKEFILES, re.M)]
    shutil.copytree(BUILD / "impulses/head", "head")
    cells = re.findall(r"^\|[^|]*\| `(haloconv [^`]*)` \|", text, re.M)
    commands = [line for line in lines if line.startswith("haloconv")] + cells
    assert len(cells) >= 6 and all(re.match(r"(haloconv|make|pip|sudo) ?", line) for line in lines)
    assert sum(map(run_example, commands)) >= 4


# ---- defaults -------------------------------------------------------------------------------------------------------
GIVEN = [  # a command, and its defaults as options, which then change nothing
    ("design lowpass --cutoff 1000 --taps 101 -o y.wav", "--window hamming"),
    ("design room --rt60 0.1 -o y.wav", "--length 0.1"),
    ("design crossover --cutoff 1000 -o y.wav",
     "--order 4 --error -170 --delays 0,0 --gains 0,0 --polarity +,+ --format wav:float"),
    ("design crossover --type steep --cutoff 1000 -o y.wav", "--attenuation 80 --transition 500"),
    ("design correct speaker.wav -o y.wav", "--taps 32768 --rate 48000 --phase minimum"),
    ("design target house.txt -o y.wav", "--taps 16384"),
    ("design target house.txt --phase linear -o y.wav", "--taps 16383"),
    ("design invert speaker.wav -o y.wav", "--taps 32768 --delay 16384 --rate 48000"),
    ("design minphase speaker.wav -o y.wav", "--taps 9600 --rate 48000"),
    ("mask add left.wav right.wav -o y.wav", "--gains 0,0 --format wav:float"),
    ("mask channels stereo.wav -o y.wav", "--channels 1,2 --rate 48000"),
    ("measure --write-sweep y.wav", "--rate 48000 --to 20000 --format pcm24"),
    ("measure --write-sweep y.wav --rate 16000", "--to 7200"),
    ("info stereo.wav --json --plot y.svg", "--smooth 1/24 --frequencies 20,20000 --backend cpu --rate 48000 "
     "--panels impulse,step,magnitude,phase,group-delay"),
    ("batch --inputs shards-00[01].tar --masks rooms/*.wav -o y", "--pairs all --members *"),
    ("bench scene --entries 1 --sources 1 --json --seconds 0.01 --time 0.01", "--steer-threads 0")]
STATED = {"fade": ("dsp/live/open.c", "c->fade_ms = {};"), "standby": ("dsp/live/open.c", "c->standby_share = 0.{:.1}"),
          "sources": ("host/live/session/session.c", "n_sources > 0 ? n_sources : {}"),
          "first-mask": ("host/live/session/live_command.c", "s->first_mask ? s->first_mask : {}"),
          "outputs": ("host/measure/room.c", '"How many loudspeakers?", {}'),
          "positions": ("host/measure/room.c", '"At how many positions do you measure?", {}'),
          "inputs": ("host/measure/measure.c", "if (take.n_inputs == 0) take.n_inputs = {};")}
IN_WORDS = ["all", "both", "flat", "never", "none", "unchanged", "NAME"]  # and defaults of several words


@pytest.mark.parametrize("command", [command for command in COMMANDS if command not in ("bench", "mask")])
def test_defaults_of_the_help_are_those_of_the_program(command):
    """The program compares the default in an option's help with the settings before it reads the command line."""
    given = {word for line, options in GIVEN for word in options.split()
             if line.startswith(command.split()[0]) or "--plot" in line}
    done = haloconv(*command.split(), "--_defaults")
    assert done.returncode == 0, done.stderr
    for line in done.stdout.splitlines():
        option, default, verdict = line.split("\t")
        in_words = " " in default or default in IN_WORDS
        if verdict == "same" or f"--{option}" in given or in_words and verdict in ("unset", "unread"):
            continue
        assert option in STATED, f"{command} --{option} [{default}] {verdict}"
        file, text = STATED[option]
        assert text.format(default) in (ROOT / file).read_text(), f"{command} --{option} [{default}]"


@functools.lru_cache(maxsize=None)
def options_of(command):
    """Options and keywords in the help of a command and of its parts."""
    texts = [help_of(name) for name in {*COMMANDS, "import"} if name.split()[0] == command]
    return set(re.findall(r"(?<![\w-])-{1,2}[a-z][a-z0-9-]*", " ".join(texts)))


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.name)
def test_a_command_within_a_sentence_has_a_name_and_options_that_exist(page):
    """It may have placeholders, and files that are not there: it is not run."""
    for words in re.findall(r"`haloconv ([a-z]+)\b([^`]*)`", BLOCK.sub("", page.read_text())):
        given = set(re.findall(r"(?<!\S)-{1,2}[a-z][a-z0-9-]*", words[1]))
        assert options_of(words[0]) and given <= options_of(words[0]), f"haloconv {words[0]}{words[1]}"


def outcome(words):
    """The checksums of what `info` prints, and of the files that a command writes."""
    said = good(*words).stdout if "info" in words else good(*words) and ""
    made = sorted(pathlib.Path().glob("y*/*.tar")) + sorted(pathlib.Path().glob("y*.*"))
    sums = {str(path): zlib.crc32(path.read_bytes()) for path in made}
    for path in made:
        path.unlink()
    shutil.rmtree("y", ignore_errors=True)
    return zlib.crc32(said.encode()), sums


@pytest.mark.parametrize("line,options", GIVEN)
def test_a_default_that_is_given_changes_nothing(example_folder, line, options):
    assert outcome(line.split()) == outcome(line.split() + options.split())


# ---- names and formats ----------------------------------------------------------------------------------------------
SOURCES = {path: path.read_text() for folder in ["dsp", "host", "plugins", "kernels"]
           for path in (ROOT / folder).rglob("*.*") if path.suffix in {".c", ".h", ".cu", ".cpp", ".py"}}
LITERALS = {path: re.findall(r'"((?:[^"\\\n]|\\.)*)"', text) for path, text in SOURCES.items() if path.suffix != ".py"}
OTHERS_VARIABLES = {"OMPI_COMM_WORLD_RANK", "CUDA_VISIBLE_DEVICES", "LV2_PATH", "USER",  # of CUDA, of hosts, of the shell
                    "CUDA_LAUNCH_BLOCKING", "DISPLAY", "HOME", "PATH", "PIPEWIRE_DEBUG", "PIPEWIRE_REMOTE",
                    "PIPEWIRE_RUNTIME_DIR", "WATCHDOG_PID"}
NO_VARIABLES = r"WITH_\w+|AF_INET|SOCK_DGRAM|RLIMIT_\w+|S24_4LE|WAVE_\w+"
OTHERS_OPTIONS = {"--user", "--now", "--array", "--wait", "--ntasks", "--cpus-per-task",  # systemctl, Slurm
                  "--cpus", "--gpus", "--shares", "--actors", "--retries", "--address",  # python -m haloconv.ray
                  "--version", "--help", "--config", "--cflags", "--libs",
                  "--concatenate", "--dereference", "--hard-dereference", "--list", "--sparse"}  # tar
FILES = ["haloconv-batch.journal", "session.json", "filter.wav", "verified.wav", "room.svg", "room.conf",
         "libhaloconv_cuda.so"]


def test_variables_of_the_man_page_are_those_that_the_program_reads():
    page, code = plain(manual()), "\n".join(SOURCES.values())
    named = set(re.findall(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b", page)) | set(re.findall(r"\$([A-Z]+)\b", page))
    named = {name for name in named if not re.fullmatch(NO_VARIABLES, name)}
    read = set(re.findall(r'getenv\("(\w+)"\)', code))
    unknown = {name for name in named - read - OTHERS_VARIABLES if f'"{name}"' not in code}
    assert unknown <= {"SLURM_ARRAY_TASK_ID"} and '"SLURM_ARRAY_TASK_%s"' in code or not unknown, unknown
    assert read - named <= OTHERS_VARIABLES, read - named - OTHERS_VARIABLES


def test_files_of_the_man_page_are_those_of_the_program():
    page, code = plain(manual()), "\n".join(SOURCES.values())
    for name in FILES:
        assert name in page and name in code.replace("%s.conf", "room.conf"), name


def named_in(texts, pattern):
    return {found for text in texts for found in re.findall(pattern, text)}


def test_commands_and_options_that_pages_and_messages_name_exist():
    pages = [plain(manual()), (ROOT / "README.md").read_text()]
    said = [text for path, texts in LITERALS.items() if "kernels" not in path.parts for text in texts]
    commands = {command.split()[0] for command in COMMANDS} | {"COMMAND", "help"}
    assert named_in(pages + said, r"[`(]haloconv ([a-z]+)\b") <= commands
    assert named_in(pages, r"\n\.BI?R? \"?haloconv ([a-z]+)") <= commands
    known = set().union(*(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", help_of(command)) for command in COMMANDS))
    named = named_in(pages + said, r"(?<![\w-])--[a-z][a-z0-9-]*[a-z0-9]")
    assert named - known <= OTHERS_OPTIONS, sorted(named - known - OTHERS_OPTIONS)


def comes_before_the_end(format, container):
    """Do 50,000 bytes come out while the input of 12 s is a pipe that stays open?"""
    sound = io.BytesIO()
    soundfile.write(sound, noise(576000, 2), 48000, subtype="PCM_16", format=container)
    data, early = sound.getvalue(), b""
    with subprocess.Popen([str(HALOCONV), "convolve", "-", "one.txt", "-o", "-", "-q", "--format", format,
                           "--backend", "cpu"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        threading.Thread(target=lambda: (process.stdin.write(data[:-4]), process.stdin.flush())).start()
        patience = 60 if format in STREAMED and container in READ else 1
        while len(early) < 50000 and select.select([process.stdout], [], [], patience)[0]:
            early += os.read(process.stdout.fileno(), 65536)
        threading.Timer(0.2, lambda: (process.stdin.write(data[-4:]), process.stdin.close())).start()
        rest = process.stdout.read()
    assert process.returncode == 0 and len(early + rest) > 50000, (format, container)
    return len(early) >= 50000


SENTENCE = r"WAV and\s+AU are read as they\s+come.*?and AU, raw,\s+Ogg, IRCAM, PVF and PAF are written as they\s+come"
READ, STREAMED = ["WAV", "AU"], ["au", "raw", "ogg", "ircam", "pvf", "paf"]


def test_what_goes_through_pipes_as_it_comes(folder):
    """The formats of the sentence in man page and help, and those that it does not name."""
    for page in [manual(), help_of("convolve")]:
        assert re.search(SENTENCE, page, re.S)
    (folder / "one.txt").write_text("1\n")
    cases = [*(("au", container, container in READ) for container in [*READ, "AIFF", "FLAC", "W64", "CAF"]),
             *((format, "WAV", True) for format in STREAMED),
             *((format, "WAV", False) for format in ["wav", "aiff", "flac", "w64", "caf", "mp3"])]
    with concurrent.futures.ThreadPoolExecutor(len(cases)) as pool:  # most of the time is patience
        for case, came in zip(cases, pool.map(lambda case: comes_before_the_end(*case[:2]), cases)):
            assert came == case[2], case


def test_the_formats_that_are_dithered_are_those_of_the_man_page():
    named = re.search(r"16 bits or fewer \(([^)]*)\)", manual())[1]
    named = named.replace("\n", " ").split(", ")
    code = SOURCES[ROOT / "host/files/sound_format.c"]
    cases = re.search(r"bool sound_format_can_dither.*?return true", code, re.S)[0]
    names = dict(re.findall(r'"(\w+)", (SF_FORMAT_\w+)', code))
    assert {names[name] for name in named} == set(re.findall(r"case (SF_FORMAT_\w+)", cases))


def extensions(page, title):
    """The extensions in the brackets behind a title of FILES OF OTHER PROGRAMS."""
    text = re.search(rf"{title}\n(.*?)\)[,:]", page, re.S)[1]
    return re.findall(r"\.[a-z][a-z0-9_]+", re.sub(r"^\.[A-Z]+ ", "", plain(text), flags=re.M))


def test_files_of_other_programs_are_read_under_each_extension_of_the_man_page(example_folder):
    page = manual()
    camilladsp = ("devices: {samplerate: 48000, chunksize: 64, capture: {type: Stdin, channels: 1,\n"
                  "          format: FLOAT32LE}, playback: {type: Stdout, channels: 1, format: FLOAT32LE}}\n"
                  "filters: {g: {type: Gain, parameters: {gain: -6.0}}}\n"
                  "pipeline: [{type: Filter, channels: [0], names: [g]}]\n")
    files = {"Configurations of BruteFIR": ((example_folder / "brutefir.conf").read_text(), 4),
             "Configurations of CamillaDSP": (camilladsp, 2),
             "Configurations of Convolver, Roon and JRiver": ("48000 1 1 0\n0\n0\nhall.wav\n0\n0.0\n0.0\n", 1),
             "Filters of Equalizer APO, AutoEq and REW": ("Filter 1: ON PK Fc 100 Hz Gain 3 dB Q 1\n", 1),
             "Raw floats of DRC and rePhase": (np.array([1.0, 0.5], "<f4").tobytes(), 6)}
    for title, (content, n) in files.items():
        found = extensions(page, title)
        assert len(found) == n, (title, found)
        for ending in [*found, *([""] if "no extension" in page and "BruteFIR" in title else [])]:
            path = example_folder / f"other{ending}"
            data = content if isinstance(content, bytes) else content.encode()
            path.write_bytes(np.frombuffer(data, "<f4").astype("<f8").tobytes() if ending in (".dbl", ".f64") else data)
            good("check", path)


def test_uploads_have_the_extensions_of_the_man_page():
    page, code = plain(manual()), SOURCES[ROOT / "host/panel/panel_upload.c"]
    named = re.search(r"extension is not (\.wav.*?): other configurations", page, re.S)[1]
    assert re.findall(r"\.\w+", named) == re.findall(r'"(\.\w+)"', re.search(r"known\[\] = \{(.*?)\}", code)[1])
