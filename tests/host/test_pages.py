"""The pages are true: files that they name exist, pictures are what their scripts draw, and the figures of BENCHMARKS.md
are in the results that tests/bench/record.py wrote."""

import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from conftest import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *(page for folder in ["kernels", "tests", "impulses", "dsp"]
                                      for page in (ROOT / folder).rglob("*.md"))])
FOLDERS = "dsp|kernels|host|plugins|impulses|tests"
ABSENT = r"\b(design|house|style|record|seed)\.md\b|\bfig(?:ure)?\. ?\d+ of 0\d\d\b|\b0\d\d fig\b"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_a_page_names_exist(page):
    text = page.read_text()
    named = re.findall(rf"`((?:{FOLDERS})/[\w./*-]*)`", text)
    named += [link for link in re.findall(r"\]\(([\w./-]+)\)", text) if "://" not in link]
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
    assert len((ROOT / "README.md").read_text().splitlines()) <= 130


def numbers(text):
    """The numbers of a text, without the commas of thousands; no digits of a word such as float32."""
    return set(re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?:e-\d+)?", re.sub(r"(?<=\d),(?=\d{3})", "", text)))


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
