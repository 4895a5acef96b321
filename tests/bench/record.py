#!/usr/bin/env python3
"""Runs a bench and records what it prints in tests/bench/results/MACHINE/BENCH.md.

    tests/bench/record.py [--results FOLDER] TITLE COMMAND ...
    tests/bench/record.py 'A file' python3 tests/bench/bench_files.py

BENCH is the name that the command has: `bench_files.py` and `haloconv bench files` are both `files`; `upstream` is that
of tests/plugins/upstream.py. A file has the entries of one bench on one machine. An entry is a title with the machine,
the command, the date and the output. An entry with the same title is replaced. Output that contains a Markdown table is
kept as it is; other output becomes a code block. Standard error is not kept. The last line names the sections of
BENCHMARKS.md that have figures of this bench: bring their tables up to date by hand. Exit: that of the bench; if it
fails, nothing is written.
"""

import argparse
import datetime
import os
import pathlib
import platform
import re
import shlex
import shutil
import subprocess
import sys

RESULTS = pathlib.Path(__file__).resolve().parent / "results"
PAGE = RESULTS.parent.parent.parent / "BENCHMARKS.md"


def machine():
    """Processor, cores, and the GPU with its driver."""
    cpu = platform.machine()
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            cpu = line.split(":")[1].strip()
            break
    name = f"{cpu}, {len(os.sched_getaffinity(0))} cores"
    if shutil.which("nvidia-smi"):
        query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
        done = subprocess.run(query, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
        gpus = done.stdout.strip().splitlines() if done.returncode == 0 else []
        if gpus:
            gpu, driver = gpus[0].split(", ")
            name = f"{gpu}, driver {driver}; {name}"
    return name


def folder_of(name):
    """The machine as a folder's name, without its driver: nvidia-h200-intel-xeon-16-cores."""
    name = re.sub(r", driver [^;]*|\((R|TM)\)|\bProcessor\b", "", name)
    return "-".join(re.findall(r"[a-z0-9]+", name.lower()))


def bench_of(command):
    """files of `python3 tests/bench/bench_files.py`, scene of `haloconv bench scene`, upstream of upstream.py, or None."""
    found = re.search(r"\bbench[_ ]([a-z0-9]+)|\b(upstream)\.py\b", command)
    return found and (found.group(1) or found.group(2))


def write(path, title, entry):
    """Replaces the entry of this title in the file, or adds it."""
    old = path.read_text() if path.exists() else f"# {path.stem}\n"
    head, *parts = re.split(r"^## ", old, flags=re.MULTILINE)
    entries = {part.split("\n", 1)[0]: part.split("\n", 1)[1].strip("\n") for part in parts}
    entries[title] = entry
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n\n".join([head.strip(), *(f"## {name}\n\n{text}" for name, text in entries.items())]) + "\n")


def entry_of(command, output):
    """The machine, the command with the variables that benches read, the date, and the output, as Markdown."""
    body = output.strip("\n")
    if not re.search(r"^\|[-:| ]+\|$", body, flags=re.MULTILINE):
        body = f"```\n{body}\n```"
    return f"{machine()}\n\n`{command}`, {datetime.date.today()}\n\n{body}"


def sections_of(bench):
    """The headings of BENCHMARKS.md whose sections link to results of this bench."""
    parts = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[1:]
    return [part.split("\n", 1)[0] for part in parts if f"/{bench}.md)" in part]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS)
    parser.add_argument("title")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    given = [f"{name}={shlex.quote(value)} " for name, value in sorted(os.environ.items())
             if re.match(r"(BENCH|LIVE|SHAPE)_|(BACKEND|PERIOD)$", name)]
    words = [os.path.basename(word) if word == sys.executable else word for word in options.command]
    bench = bench_of(shlex.join(words))
    if not bench:
        parser.error("the command names no bench: neither bench_NAME nor bench NAME")
    done = subprocess.run(options.command, stdout=subprocess.PIPE, text=True, check=False)
    sys.stdout.write(done.stdout)
    if done.returncode != 0:
        sys.exit(done.returncode)
    path = options.results / folder_of(machine()) / f"{bench}.md"
    write(path, options.title, entry_of("".join(given) + shlex.join(words), done.stdout))
    print(f"recorded in {path}; bring up to date in BENCHMARKS.md: {', '.join(sections_of(bench)) or 'no section has this bench'}")


if __name__ == "__main__":
    main()
