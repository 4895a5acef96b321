#!/usr/bin/env python3
"""Runs the tests of the projects that haloconv.patch() knows, without and with haloconv's convolution.

    make adapter-test
    tests/plugins/upstream.py [--sources DIR] [PROJECT ...]

DIR has the source of each project, in a folder of its name; what is not there is cloned into it, at the version that is
installed [build/upstream]. Projects that are not installed are left out, and ESPnet and NeMo, whose tests do not
reverberate. The output is a Markdown table. Exit 1: a test that passes without haloconv fails with it, no test of a
project calls haloconv, or a project could not be tested. Needs pytest in this Python.
"""

import argparse
import importlib.metadata
import os
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("BUILD", ROOT / "build")).resolve()
GITHUB = "https://github.com/"
# project: its package, repository, and the tests that call the replaced functions
PROJECTS = {
    "lhotse": ("lhotse", "lhotse-speech/lhotse", ["test/cut/test_cut_augmentation.py",
               "test/cut/test_cut_mixing.py", "test/cut/test_multi_cut_augmentation.py",
               "test/augmentation/test_torchaudio.py", "test/audio/test_recording_set.py"]),
    "speechbrain": ("speechbrain", "speechbrain/speechbrain", ["tests/unittests/test_augment.py",
                    "--doctest-modules", "--pyargs", "speechbrain.processing.signal_processing",
                    "speechbrain.augment.time_domain", "-k", "not signal_processing.convolve1d"]),
    "audiomentations": ("audiomentations", "iver56/audiomentations", ["tests/test_apply_impulse_response.py"]),
    "torchaudio": ("torchaudio", "pytorch/audio", ["test/torchaudio_unittest/functional/functional_cpu_test.py",
                   "test/torchaudio_unittest/functional/torchscript_consistency_cpu_test.py",
                   "test/torchaudio_unittest/functional/autograd_cpu_test.py", "-k", "convolve"]),
    "torch_audiomentations": ("torch-audiomentations", "asteroid-team/torch-audiomentations",
                              ["tests/test_impulse_response.py", "tests/test_convolution.py"]),
    "pyroomacoustics": ("pyroomacoustics", "LCAV/pyroomacoustics", ["tests/test_room_mix.py",
                        "tests/test_anechoic_room.py"])}
RUN = """
import importlib, pathlib, random, sys
import numpy
project, calls, *arguments = sys.argv[1:]  # calls: a file for the number of calls of haloconv; "": without haloconv
importlib.import_module(project)  # the installed one, before the source's folder is on the path
if calls:
    import haloconv
    haloconv.patch(project)
    adapter, name, seen = importlib.import_module("haloconv_adapters.projects." + project), "ours", []
    if not hasattr(adapter, name):
        adapter, name = importlib.import_module("haloconv_adapters.projects._scipy"), "convolve_tensors"
    ours = getattr(adapter, name)
    setattr(adapter, name, lambda *arguments: seen.append(1) or ours(*arguments))
import pytest
random.seed(1)
numpy.random.seed(1)  # some tests draw without a seed
pytest.main(arguments)
if calls:
    pathlib.Path(calls).write_text(str(len(seen)))
"""


def outcomes(project, patched, tests, folder):
    """({test: passed, failed or skipped}, calls of haloconv)"""
    with tempfile.TemporaryDirectory() as scratch:
        report, calls = pathlib.Path(scratch, "report.xml"), pathlib.Path(scratch, "calls")
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "plugins/python")}
        options = ["-q", "-p", "no:cacheprovider", "-o", "addopts=", f"--junitxml={report}"]
        subprocess.run([sys.executable, "-P", "-c", RUN, project, str(calls) if patched else "", *options, *tests],
                       cwd=folder, env=environment, stdout=sys.stderr, check=False)
        if not report.exists():
            return {}, 0
        cases = xml.etree.ElementTree.parse(report).iter("testcase")
        results = {(case.get("classname"), case.get("name")): "skipped" if case.find("skipped") is not None else
                   "failed" if case.find("failure") is not None or case.find("error") is not None else "passed"
                   for case in cases}
        return results, int(calls.read_text()) if calls.exists() else 0


def counts(results):
    return ", ".join(str(list(results.values()).count(outcome)) for outcome in ("passed", "failed", "skipped"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sources", type=pathlib.Path, default=BUILD / "upstream", metavar="DIR")
    parser.add_argument("projects", nargs="*", metavar="PROJECT", default=list(PROJECTS))
    options, worse = parser.parse_args(), 0
    rows = []
    for project in options.projects:
        distribution, repository, tests = PROJECTS[project]
        try:
            version = importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            print(f"{project}: not installed", file=sys.stderr)
            continue
        folder = options.sources / project
        if not folder.exists():
            done = subprocess.run(["git", "clone", "-q", "--depth", "1", "--branch", f"v{version}",
                                   f"{GITHUB}{repository}", folder], check=False)
            if done.returncode != 0:
                print(f"{project}: no source of {version}", file=sys.stderr)
                worse += 1
                continue
        (theirs, _), (ours, calls) = (outcomes(project, patched, tests, folder) for patched in (False, True))
        lost = [name for name, outcome in theirs.items() if outcome == "passed" and ours.get(name) != "passed"]
        for name in lost:
            print(f"{project}: fails with haloconv: {'::'.join(name)}", file=sys.stderr)
        worse += len(lost) + (not theirs) + (not calls)
        rows.append(f"| {project} | {version} | {' | '.join(map(counts, (theirs, ours)))} | {calls} |")
    print("| project | version | its own: passed, failed, skipped | with haloconv | calls of haloconv |\n"
          "|---|---|--:|--:|--:|")
    print("\n".join(rows))
    sys.exit(worse > 0 or not rows)


if __name__ == "__main__":
    main()
