"""What tests/run and conftest.py do around a test: reports, processes, files."""

import os
import pathlib
import subprocess
import sys

from conftest import ROOT


def run_tests(folder, text):
    """Runs a file of tests as tests/run does; its output."""
    (folder / "test_it.py").write_text(text)
    done = subprocess.run([sys.executable, "-m", "pytest", "-p", "no:terminal", "-p", "no:cacheprovider", "-p", "no:logging",
                           "-p", "conftest", "--basetemp", folder / "base", folder / "test_it.py"], cwd=folder, text=True,
                          env={**os.environ, "PYTHONPATH": str(ROOT / "tests")}, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, check=False)
    return done.stdout


def test_a_failed_comparison_shows_both_sides_and_the_message(folder):
    said = run_tests(folder, "def test_it():\n    got = [1, 2]\n    assert got == [1, 3], 'the words'\n")
    assert "FAIL -    test_it.py::test_it" in said and "the words" in said and "[1, 2] == [1, 3]" in said, said


def is_running(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] not in "ZX"
    except FileNotFoundError:
        return False


def test_a_process_ends_with_the_test_that_fails_before_it_can_stop_it(folder):
    """Also the children of a process with a group of its own."""
    said = run_tests(folder, """if True:
        import pathlib, subprocess, time
        def runs(pid):
            try:
                return pathlib.Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] not in "ZX"
            except (FileNotFoundError, ProcessLookupError):
                return False
        def test_starts():
            words = ["sh", "-c", "sleep 1000 & echo $! $$ > pids; wait"]
            subprocess.Popen(words, start_new_session=True)
            while len(pathlib.Path("pids").read_text().split() if pathlib.Path("pids").exists() else "") < 2: pass
            raise RuntimeError
        def test_next():
            end = time.monotonic() + 10  # a killed process that waits for a busy processor ends later
            while any(map(runs, pathlib.Path("pids").read_text().split())): assert time.monotonic() < end
        """)
    pids = (folder / "pids").read_text().split()
    try:
        assert "FAIL -    test_it.py::test_starts" in said and "ok   -    test_it.py::test_next" in said, said
        assert not any(map(is_running, pids))
    finally:
        for pid in filter(is_running, pids):
            os.kill(int(pid), 9)


def test_files_of_tests_and_of_their_programs_are_removed(folder):
    """Those in the home folder, in the one for temporary files, and of the caches of torch."""
    for name in ["home", "tmp", "tests"]:
        (folder / name).mkdir()
    program = folder / "writes.sh"
    program.write_text("""#!/bin/sh
        mkdir -p "${XDG_CACHE_HOME:-$HOME/.cache}" "${TORCHINDUCTOR_CACHE_DIR:-$TMPDIR/torchinductor}"
        echo x >"${XDG_CACHE_HOME:-$HOME/.cache}/x"; echo x >"${TORCHINDUCTOR_CACHE_DIR:-$TMPDIR/torchinductor}/x"
        mktemp >/dev/null && echo "ok   - it  1 ms"
        """)
    program.chmod(0o755)
    clean = {k: v for k, v in os.environ.items() if k not in ("HC_TEST_TMP", "XDG_CACHE_HOME", "TORCHINDUCTOR_CACHE_DIR")}
    done = subprocess.run([ROOT / "tests/run", program], env={**clean, "HOME": str(folder / "home"), "TMPDIR": str(folder / "tmp")},
                          text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60,
                          check=False)
    assert done.returncode == 0, done.stdout
    assert not list((folder / "home").iterdir()) and not list((folder / "tmp").iterdir())
