"""The pages are true: files that they name exist, pictures are what their scripts draw, and BENCHMARKS.md is what
tests/bench/record.py writes."""

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


def test_a_bench_is_recorded_and_replaced(tmp_path):
    record = [sys.executable, str(ROOT / "tests/bench/record.py"), "--file", str(tmp_path / "page.md")]
    for word in ["first", "second"]:
        subprocess.run([*record, "One", "echo", word], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([*record, "Two", "printf", "| a |\n|---|\n| 1 |\n"], check=True, stdout=subprocess.DEVNULL)
    failed = subprocess.run([*record, "One", "false"], check=False)
    page = (tmp_path / "page.md").read_text()
    assert failed.returncode == 1
    assert "first" not in page and "```\nsecond\n```" in page and "\n| a |\n|---|\n| 1 |\n" in page
    assert page.count("\n## ") == 1 and page.count("\n### ") == 2
