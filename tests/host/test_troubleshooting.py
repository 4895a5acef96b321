"""docs/troubleshooting.md: every message that it quotes exists in the sources, and small files provoke some of them. A
message is bold code, with ... in place of the parts that vary. Also commands inside sentences and tables of pages for
users of other programs, docs/tested.md and CITATION.cff."""

import pathlib
import re
import shlex

import pytest
from conftest import ROOT, haloconv, noise, write

PAGE = ROOT / "docs/troubleshooting.md"
STRING = r'"((?:[^"\\\n]|\\.)*)"'
JOINED = re.compile(rf"{STRING}(?:\s*(?:PRI\w+\s*)?{STRING})*")
CONVERSION = r"%(?:\.\*|[-+ #0-9.*])*(?:hh|h|ll|l|z|j|t)?[a-zA-Z]|\{[^{}]*\}"
VARIES = "\0"


def quoted_messages():
    """The messages of the page; a line break is a blank."""
    found = re.findall(r"\*\*(`{1,2})(.+?)\1\*\*", PAGE.read_text(), re.S)
    return [re.sub(r"\s+", " ", text) for _, text in found]


def pattern_of(message):
    """A regular expression: ... is any part of one line."""
    return re.compile("[^\n]*?".join(re.escape(part) for part in message.split("...")))


def texts_of_sources():
    """The texts of the sources in three forms each: with plurals, without the parts that vary, and with them."""
    texts = []
    for folder in ["dsp", "host", "plugins", "kernels"]:
        for path in (ROOT / folder).rglob("*.*"):
            if path.suffix in {".c", ".h", ".cu", ".py"}:
                source = re.sub(r"'\\?\"'", "' '", path.read_text())
                joined = ("".join(re.findall(STRING, found.group())) for found in JOINED.finditer(source))
                texts += [text.replace('\\"', '"') for text in joined if " " in text]
    plurals = [re.sub(CONVERSION, VARIES, re.sub(r"(?<=[a-z])%s", "s", text)) for text in texts]
    return [form for text, plural in zip(texts, plurals)
            for form in (plural, re.sub(CONVERSION, "", text), re.sub(CONVERSION, VARIES, text))]


def is_in(texts, message):
    longest, pattern = max(message.split("..."), key=len), pattern_of(message)
    return any(pattern.search(text) for text in texts if longest in text)


def test_every_message_that_the_page_quotes_is_in_the_sources():
    texts, quoted = texts_of_sources(), quoted_messages()
    assert len(quoted) > 40
    unknown = [message for message in quoted if not is_in(texts, message)]
    assert not unknown, unknown
    assert not is_in(texts, "... samples clipped; ask a friend")


REW = "* Impulse Response data saved by REW\n0.5 // Peak value\n2 // Peak index\n4 // Response length\n" \
      "2.0833333333333333E-5 // Sample interval (seconds)\n-0.05 // Start time (seconds)\n* Data start\n0\n0\n0.5\n0\n"
CONF = "/convolver/new 2 2 64 100\n/impulse/dirac 1 1 1 0\n"


@pytest.mark.parametrize("words,line", [
    ("convolve voice.wav loud.txt -o y.wav --format pcm16", r"samples clipped; --gain -\d"),
    ("convolve voice.wav curve.txt -o y.wav", r"curve\.txt: its first column rises as frequencies do; `haloconv design"),
    ("design target filters.txt -o y.wav", "has no points"),
    ("check filters.txt", "names no rate"),
    ("convolve stereo.wav three.wav -o y.wav", "3 channels do not fit 2 input channels"),
    ("convolve voice.wav two.conf -o y.wav", "has 2 input channels, but there is 1; give it 2"),
    ("convolve voice.wav damaged.wav -o y.wav", "is not a sound file that"),
    ("convolve voice.wav rate.wav -o y.wav", "resampled from 44100 to 48000 Hz"),
    ("check rew.txt", "t = 0 is at frame")])
def test_small_files_provoke_the_messages_as_the_page_quotes_them(folder, words, line):
    write("voice.wav", noise(500)), write("stereo.wav", noise(500, 2)), write("three.wav", noise(50, 3))
    write("rate.wav", noise(50), rate=44100)
    texts = {"loud.txt": "9\n", "curve.txt": "20 -1\n100 2\n1000 0\n20000 0\n", "two.conf": CONF, "rew.txt": REW,
             "filters.txt": "Filter 1: ON PK Fc 100 Hz Gain -3 dB Q 1\n", "damaged.wav": "nothing\n" * 9}
    for name, text in texts.items():
        pathlib.Path(name).write_text(text)
    done = haloconv(*words.split())
    said = [text for text in (done.stderr + done.stdout).splitlines() if re.search(line, text)]
    assert said, done.stderr + done.stdout
    matching = [message for message in quoted_messages() if pattern_of(message).search(said[0])]
    assert matching, said[0]


@pytest.mark.parametrize("page", ["faq", "troubleshooting", "from-camilladsp", "from-easyeffects", "from-hesuvi",
                                  "from-jconvolver", "from-torchaudio"])
def test_commands_inside_sentences_and_tables_have_options_that_exist(folder, page):
    """The option parser reads each; the blocks of the pages are run by test_pages.py."""
    text = re.sub(r"^```.*?^```", "", (ROOT / f"docs/{page}.md").read_text(), flags=re.M | re.S)
    pathlib.Path("phones").write_text("command = pipewire\nmask = a.wav\n")
    for command in re.findall(r"(?<!`)`haloconv ([^`]+)`(?!`)", text):
        words = ["./phones" if word == "phones" and "run" in command else word for word in shlex.split(command)]
        done = haloconv(*words, "--help")
        assert done.returncode == 0 and done.stdout.startswith("Usage: "), f"haloconv {command}\n{done.stderr}"


def test_what_was_tried_has_a_day_and_says_how():
    """docs/tested.md: each row has a day, or nobody; its tests and goals exist; releases are those of patch()."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")]
            for line in (ROOT / "docs/tested.md").read_text().splitlines() if re.match(r"\| (?!.*---)", line)]
    rows = [row for row in rows if "day" not in row]
    goals = "\n".join(path.read_text() for path in [ROOT / "Makefile", *ROOT.glob("*/*.mk")])
    assert len(rows) > 40
    for row in rows:
        day = [cell for cell in row if re.fullmatch(r"2026-\d\d-\d\d|nobody", cell)]
        assert len(day) == 1 and (row[-1] or day == ["nobody"]), row
        for file in re.findall(r"`(tests/[^`]*)`", row[-1]):
            assert (ROOT / file).is_file(), row
        for goal in re.findall(r"`make ([a-z-]+)", row[-1]):
            assert re.search(rf"^[a-z -]*\b{goal}\b[a-z -]*:", goals, re.M), row
    adapters = (ROOT / "plugins/python/haloconv_adapters/projects/__init__.py").read_text()
    known = re.findall(r'Project\("([\w-]+)", "([^"]+)"\)', adapters)
    assert len(known) > 5 and {tuple(row[:2]) for row in rows} >= set(known)


def test_the_citation_names_this_version():
    version = re.search(r'#define HC_VERSION "(.*)"', (ROOT / "dsp/haloconv.h").read_text())[1]
    assert re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.M)[1] == version
