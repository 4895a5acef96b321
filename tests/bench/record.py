#!/usr/bin/env python3
"""Runs a bench and writes what it prints into BENCHMARKS.md, below the machine that it ran on.

    tests/bench/record.py [--file BENCHMARKS.md] TITLE COMMAND ...
    tests/bench/record.py 'A file' python3 tests/bench/bench_files.py

A section of the page is a machine; an entry is a title with its command, date and output. An entry with the same title
on the same machine is replaced. Output that contains a Markdown table is kept as it is; other output
becomes a code block. Standard error is not kept. Exit: that of the bench; if it fails, nothing is written.
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

PAGE = pathlib.Path(__file__).resolve().parent.parent.parent / "BENCHMARKS.md"


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


def sections(text):
    """The page in parts: the lines before the first machine, then {machine: {title: entry}}."""
    intro, *rest = re.split(r"^## ", text, flags=re.MULTILINE)
    machines = {}
    for part in rest:
        head, *entries = re.split(r"^### ", part, flags=re.MULTILINE)
        machines[head.strip()] = {entry.split("\n", 1)[0]: entry.split("\n", 1)[1].strip("\n") for entry in entries}
    return intro, machines


def page(intro, machines):
    text = intro
    for name, entries in machines.items():
        text += f"## {name}\n\n"
        for title, entry in entries.items():
            text += f"### {title}\n\n{entry.strip()}\n\n"
    return text.rstrip("\n") + "\n"


def entry_of(command, output):
    """The command with the variables that benches read, the date, and the output, as Markdown."""
    given = [f"{name}={shlex.quote(value)} " for name, value in sorted(os.environ.items())
             if re.match(r"(BENCH|LIVE|SHAPE)_|(BACKEND|PERIOD)$", name)]
    shown = "".join(given) + shlex.join(os.path.basename(word) if word == sys.executable else word for word in command)
    body = output.strip("\n")
    if not re.search(r"^\|[-:| ]+\|$", body, flags=re.MULTILINE):
        body = f"```\n{body}\n```"
    return f"\n`{shown}`, {datetime.date.today()}\n\n{body}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--file", type=pathlib.Path, default=PAGE)
    parser.add_argument("title")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    done = subprocess.run(options.command, stdout=subprocess.PIPE, text=True, check=False)
    sys.stdout.write(done.stdout)
    if done.returncode != 0:
        sys.exit(done.returncode)
    intro, machines = sections(options.file.read_text() if options.file.exists() else "# Benchmarks\n\n")
    machines.setdefault(machine(), {})[options.title] = entry_of(options.command, done.stdout)
    options.file.write_text(page(intro, machines))


if __name__ == "__main__":
    main()
