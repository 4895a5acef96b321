"""tests/run counts results, and runs tests that failed once more, alone: a few may pass only then."""

import os
import subprocess

import pytest
from conftest import ROOT


def run(folder, lines, status=1):
    """tests/run with one program, which prints these lines; its exit status and its last lines."""
    program = folder / "program_test"
    program.write_text("#!/bin/sh\ncat <<'END'\n" + "\n".join(lines) + f"\nEND\nexit {status}\n")
    program.chmod(0o755)
    env = {key: value for key, value in os.environ.items() if key != "HC_TEST_AGAIN"}
    done = subprocess.run([str(ROOT / "tests/run"), str(program)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          text=True, env=env, timeout=60)
    return done.returncode, done.stdout


def failures(n, again):
    return [line for i in range(n) for line in (f"FAIL -    x/{i}", f"    again: {again.format(i)}")]


@pytest.mark.parametrize("n", [1, 3, 4])
def test_a_few_tests_may_pass_only_alone(folder, n):
    """The last lines say how many; more than three fail the run."""
    status, out = run(folder, ["ok   -    x/good  5 ms", *failures(n, "echo 'ok   -    x/{}  1 ms'")])
    assert f"unsteady: {n} failed, and passed alone" in out.splitlines()[-n - 2]
    assert (status, out.splitlines()[-1]) == ((0, f"{n + 1} passed, 0 failed, 0 skipped") if n <= 3 else
                                              (1, f"{n + 1} passed, {n} failed, 0 skipped"))


def test_a_failure_that_repeats_is_one(folder):
    status, out = run(folder, ["ok   -    x/good  5 ms", *failures(1, "echo 'FAIL -    x/0'; false")])
    assert (status, out.splitlines()[-1]) == (1, "1 passed, 1 failed, 0 skipped")
    assert "unsteady" not in out


def test_the_slowest_tests_are_listed(folder):
    status, out = run(folder, [f"ok   -    x/{i} [a b]  {i} ms" for i in range(40)], status=0)
    listed = out[out.index("the slowest:"):].splitlines()[1:31]
    assert status == 0 and listed == [f"ok   -    x/{i} [a b]  {i} ms" for i in range(39, 9, -1)]


def test_a_program_that_crashes_is_a_failure(folder):
    status, out = run(folder, ["ok   -    x/good  5 ms"], status=139)
    assert status == 1 and "ended with status 139" in out and out.splitlines()[-1] == "1 passed, 1 failed, 0 skipped"
