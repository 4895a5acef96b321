"""tests/run: every program runs once, and a test that fails beside the others runs once more, alone."""

import os
import subprocess

import pytest
from conftest import ROOT


def script(folder, name, text):
    path = folder / name
    path.write_text("#!/bin/bash\n" + text)
    path.chmod(0o755)
    return str(path)


def result(*args):
    """(all lines, 'N passed, N failed, N skipped') of tests/run"""
    env = {name: value for name, value in os.environ.items() if name != "HC_TEST_AGAIN"}
    done = subprocess.run([ROOT / "tests/run", *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, env=env, timeout=300)
    lines = done.stdout.splitlines()
    assert (done.returncode == 0) == (" 0 failed," in lines[-1] and not lines[-1].startswith("0 passed,")), done.stdout
    return lines, lines[-1]


@pytest.mark.parametrize("n", [0, 1, 2, 9])
def test_every_program_runs_once(folder, n):
    """Two halves of the tests share the programs: one begins with the first, and the other, after the files, with the
    last but one."""
    programs = [script(folder, f"program_{i}", f"echo {i} >>{folder}/log; sleep 0.1; echo 'ok   -    program/{i}'\n")
                for i in range(n)]
    (folder / "test_nothing.py").write_text("def test_nothing():\n    pass\n")
    for files in [[], [str(folder / "test_nothing.py")]]:
        (folder / "log").write_text("")
        lines, last = result(*programs, *files)
        assert last == f"{n} passed, 0 failed, 0 skipped"
        assert sorted(map(int, (folder / "log").read_text().split())) == list(range(n))
        assert sum(line.startswith("ok   -    program/") for line in lines) == n


def test_a_program_that_ends_early_is_a_failure(folder):
    programs = [script(folder, "crash", "echo 'ok   -    crash/first'; kill -SEGV $$\n"),
                script(folder, "quiet", "exit 1\n"), script(folder, "none", "echo 'skip -    none'; exit 77\n")]
    lines, last = result(*programs)
    assert last == "1 passed, 2 failed, 1 skipped"
    assert f"FAIL -    {programs[0]} ended with status 139" in lines
    assert f"FAIL -    {programs[1]} ended with status 1" in lines


@pytest.mark.parametrize("n, passed, failed", [(3, 3, 0), (4, 4, 4), (20, 20, 20), (21, 0, 21)])
def test_failures_run_again_alone(folder, n, passed, failed):
    """More than 3 that pass only then fail the run. After more than 20 failures none runs again: the build is broken."""
    fails = script(folder, "fails_once", f"""
for i in $(seq {n}); do
  if [ "${{ALONE:-}}" ]; then [ $i = $ALONE ] && echo "ok   -    fails_once/$i"; continue; fi
  echo "FAIL -    fails_once/$i"
  echo "    again: ALONE=$i $0"
done
[ "${{ALONE:-}}" ]
""")
    lines, last = result(fails)
    assert last == f"{passed} passed, {failed} failed, 0 skipped"
    counted = [line for line in lines if line.startswith(f"unsteady: {n} failed, and passed alone")]
    assert len(counted) == (1 if passed else 0)
    assert lines.count("    -    fails_once/1") == (1 if passed else 0)


def test_the_slowest_tests_are_listed(folder):
    lines, _ = result(script(folder, "many", "for i in $(seq 40); do echo \"ok   -    many/$i [a b]  $i ms\"; done\n"))
    first = lines.index("the slowest:") + 1
    assert lines[first:first + 31] == [*(f"ok   -    many/{i} [a b]  {i} ms" for i in range(40, 10, -1)), ""]


def test_a_failure_that_stays_is_one(folder):
    fails = script(folder, "fails", "echo 'FAIL -    fails/always'; echo \"    again: $0\"; exit 1\n")
    lines, last = result(fails, script(folder, "good", "echo 'ok   -    good/one'\n"))
    assert last == "1 passed, 1 failed, 0 skipped" and f"    again: {fails}" in lines
