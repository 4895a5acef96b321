"""`haloconv batch`: every listed file is made once, the same however the work is divided; failures are reported."""

import contextlib
import csv
import hashlib
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest
import scipy.signal
import soundfile
from conftest import BUILD, HALOCONV, SAN, assert_close, copy_program, good, haloconv, measured, noise, peak_mb, read, refused, write

RATE = 16000


@pytest.fixture
def sounds(folder):
    """Twelve inputs of mixed lengths and channels in in/, five masks in masks/; a list of every column in list.csv."""
    (folder / "in").mkdir()
    (folder / "masks").mkdir()
    lengths = [9000, 16000, 16001, 15000, 40000, 16000, 100, 16500, 9001, 30000, 16002, 1]
    for i, n in enumerate(lengths):
        write(folder / f"in/u{i}.wav", noise(n, 2 if i == 5 else 1, seed=i), RATE, "PCM_16" if i % 2 else "FLOAT")
    for i, n in enumerate([1600, 1601, 8000, 1, 3000]):
        write(folder / f"masks/m{i}.wav", noise(n, 1, seed=100 + i, scale=0.02), RATE, "FLOAT")
    rows = ["input,mask,output,gain,tail,level,speaker"]
    tails, levels = ["", "full", "same", "centre"], ["", "none", "peak", "rms"]
    for i in range(12):
        name = f'"sub {i % 3}/out, {i}.wav"' if i % 2 else ""
        gain, tail, level = "-6" if i % 4 == 0 else "", tails[i % 4], levels[(i // 2) % 4]
        rows.append(f"in/u{i}.wav,masks/m{i % 5}.wav,{name},{gain},{tail},{level},somebody")
    (folder / "list.csv").write_text("\n".join(rows) + "\n")
    return folder


def wanted(folder, i):
    """Row i of list.csv by definition, and its output's name."""
    x, h = read(folder / f"in/u{i}.wav"), read(folder / f"masks/m{i % 5}.wav")
    y = scipy.signal.fftconvolve(x, h, axes=0)
    tail, level = ["full", "full", "same", "centre"][i % 4], ["none", "none", "peak", "rms"][(i // 2) % 4]
    if tail != "full":
        skip = (len(h) - 1) // 2 if tail == "centre" else 0
        y = y[skip:skip + len(x)]
    size = {"none": lambda a: 1, "peak": lambda a: np.abs(a).max(), "rms": lambda a: np.sqrt((a ** 2).mean())}[level]
    y = y * (size(x) / size(y) if size(y) else 1)
    if i % 4 == 0:
        y = y * 10 ** (-6 / 20)
    return y, f"sub {i % 3}/out, {i}.wav" if i % 2 else f"u{i}_m{i % 5}.wav"


def wait_for(condition, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


def batch(*args, backend="cpu", **kwargs):
    """Run; the report as a dict."""
    return json.loads(good("batch", *args, "--backend", backend, "--json", "-q", **kwargs).stdout)


def tree(path):
    """Every sound below a folder: name -> digest of its bytes."""
    return {str(p.relative_to(path)): hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(path.rglob("*.wav"))}


def test_every_column_is_obeyed(sounds, backend):
    report = batch("list.csv", "-o", "out", backend=backend)
    assert report["done"] == 12 and report["failed"] == 0 and report["backend"] == backend
    for i in range(12):
        want, name = wanted(sounds, i)
        info = soundfile.info(sounds / "out" / name)
        assert info.subtype == ("PCM_16" if i % 2 else "FLOAT") and info.samplerate == RATE
        assert_close(read(sounds / "out" / name), want, quantum=1.5 / 32768 if i % 2 else 0)  # dithered
    assert len(tree(sounds / "out")) == 12


def test_json_lines_are_the_same_list(sounds):
    with open(sounds / "list.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    lines = [json.dumps({k: (float(v) if k == "gain" else v) for k, v in row.items() if v}) for row in rows]
    (sounds / "list.jsonl").write_text("\n".join(lines))
    batch("list.csv", "-o", "a")
    batch("-", "-o", "b", input=(sounds / "list.jsonl").read_text())
    assert tree(sounds / "a") == tree(sounds / "b")


def test_any_sharing_out_is_identical(sounds, backend):
    batch("list.csv", "-o", "one", "--workers", "1", backend=backend)
    want = tree(sounds / "one")
    assert len(want) == 12
    batch("list.csv", "-o", "five", "--workers", "5", "--cache", "0", backend=backend)
    assert tree(sounds / "five") == want
    n = [batch("list.csv", "-o", "shards", "--shard", f"{i}/3", backend=backend)["done"] for i in (1, 2, 3)]
    assert sum(n) == 12 and tree(sounds / "shards") == want


def test_the_report_divides_the_time_of_the_workers(sounds):
    """They are measured in each worker, so that their sum is the time from its start to its end."""
    report = batch("list.csv", "-o", "out", "--workers", "2")
    times = report["times"]
    assert list(times) == ["read", "masks", "convolve", "write", "other"] and min(times.values()) > 0
    assert sum(times.values()) < 2 * report["seconds"]


@pytest.mark.parametrize("limits", [(128, None), (100, 100)], ids=["a low limit", "a low hard limit"])
@pytest.mark.parametrize("program", ["cpu", "cuda"])
def test_many_workers_fit_into_few_files_and_little_memory(folder, program, limits):
    """A group on a GPU has many files open, and the engines of all workers do not fit into the GPU's memory."""
    run = {"cpu": HALOCONV, "cuda": BUILD / "cuda_on_cpu/haloconv"}[program]
    if not run.exists():
        pytest.skip("no program on the emulated device")
    (folder / "in").mkdir()
    for i in range(256):
        write(folder / f"in/{i}.wav", noise(400, seed=i), RATE)
    write(folder / "h.wav", noise(64, seed=999), RATE)
    soft, hard = limits[0], limits[1] or resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    done = subprocess.run(
        [str(run), "batch", "--inputs", "in/*.wav", "--masks", "h.wav", "-o", "out", "--backend", program, "--workers",
         "64", "--json"], env={**os.environ, "CUDA_ON_CPU_MIB": "300"}, stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=300, check=False, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard)))
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["done"] == 256 and report["backend"] == program and report["failed"] == 0
    assert (report["workers"] == 64) == (limits[1] is None) == ("ulimit" not in done.stderr), done.stderr
    h = read(folder / "h.wav")[:, 0]
    for i in range(0, 256, 51):
        want = scipy.signal.fftconvolve(read(folder / f"in/{i}.wav")[:, 0], h)
        assert_close(read(folder / f"out/{i}_h.wav"), want)


@pytest.mark.parametrize("column", ["", ",level\nx.wav,h.wav,y.wav,rms"])
def test_samples_of_an_input_that_are_no_numbers_are_said_once(folder, backend, column):
    """Also in a file that is read twice, for its level."""
    x = noise(3000, 2)
    x[[5, 7, 2999], [0, 1, 1]] = np.nan, np.inf, -np.inf
    write("x.wav", x, RATE, "FLOAT")
    write("h.wav", noise(40), RATE)
    pathlib.Path("l.csv").write_text("input,mask,output" + (column or "\nx.wav,h.wav,y.wav") + "\n")
    said = good("batch", "l.csv", "-o", "out", "--backend", backend, "--format", "float").stderr
    assert said.count("x.wav: replaced 3 NaN or infinite samples of the input by 0") == said.count("replaced") == 1, said
    assert np.isfinite(read("out/y.wav")).all()


SLURM = {"SLURM_ARRAY_TASK_COUNT": "3", "SLURM_ARRAY_TASK_MIN": "0", "SLURM_ARRAY_TASK_MAX": "2"}


def slurm(monkeypatch, **variables):
    """Run a share as a process of Slurm with these variables and those of an array with ids 0, 1, 2; its row count."""
    with monkeypatch.context() as environment:
        for name, value in {**SLURM, **variables}.items():
            environment.setenv(name, str(value))
        return batch("list.csv", "-o", "slurm", "--shard", "slurm")["done"]


@pytest.mark.parametrize("first, step, n_tasks", [(0, 1, {}), (1, 1, {}), (4, 3, {"SLURM_NTASKS": 1})])
def test_the_ids_of_a_slurm_array_share_the_list(sounds, monkeypatch, first, step, n_tasks):
    """Slurm sets SLURM_NTASKS where the script gives --ntasks."""
    variables = {"SLURM_ARRAY_TASK_MIN": first, "SLURM_ARRAY_TASK_STEP": step, "SLURM_PROCID": 0, **n_tasks}
    done = [slurm(monkeypatch, SLURM_ARRAY_TASK_ID=first + i * step, **variables) for i in range(3)]
    batch("list.csv", "-o", "one")
    assert sum(done) == 12 and min(done) > 0 and tree(sounds / "slurm") == tree(sounds / "one")


def test_the_tasks_of_srun_share_the_list(sounds, monkeypatch):
    """Also in an array, and where Slurm could start MPI: the shares are then those of the tasks alone."""
    step = {"SLURM_NTASKS": 2, "SLURM_STEP_NUM_TASKS": 2, "PMI_SIZE": 2}
    done = [slurm(monkeypatch, SLURM_ARRAY_TASK_ID=i, SLURM_PROCID=task, **step)
            for i in range(3) for task in range(2)]
    batch("list.csv", "-o", "one")
    assert sum(done) == 12 and max(done) < 5 and tree(sounds / "slurm") == tree(sounds / "one")
    assert len(list((sounds / "slurm").glob("*of6.journal"))) == 6


@pytest.mark.parametrize("variables, reason", [
    ({"SLURM_ARRAY_TASK_ID": "5", "SLURM_ARRAY_TASK_MIN": "5", "SLURM_ARRAY_TASK_COUNT": "1"}, "the whole list"),
    ({}, "Slurm has not started this process"), ({"SLURM_PROCID": "0", "SLURM_NTASKS": "4"}, "by srun"),
    ({**SLURM, "SLURM_ARRAY_TASK_ID": "7"}, "gaps"), ({"SLURM_PROCID": "1", "SLURM_NTASKS": "1"}, "is not a share"),
    ({"SLURM_PROCID": "0", "OMPI_COMM_WORLD_SIZE": "2"}, "mpirun")])
def test_what_is_no_share_of_slurm_is_refused(sounds, monkeypatch, variables, reason):
    for name in ("SLURM_PROCID", "SLURM_ARRAY_TASK_ID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert reason in refused("batch", "list.csv", "-o", "out", "--shard", "slurm", exit=2)


def entries(journal):
    """The lines of finished files in a journal."""
    return [line for line in journal.read_text().splitlines() if not line.startswith("#")]


def test_a_share_killed_in_mid_run_is_made_up_for(sounds):
    """The others go on. Every file is whole or absent, and --resume makes the absent ones only."""
    n = 1200
    rows = [f"in/u{i % 11}.wav,masks/m{i % 5}.wav,{i}.wav" for i in range(n)]
    (sounds / "many.csv").write_text("input,mask,output\n" + "\n".join(rows))
    args = ["many.csv", "-o", "shares", "--workers", "2"]
    shares = [subprocess.Popen([str(HALOCONV), "batch", *args, "--backend", "cpu", "-q", "--shard", f"{i}/3"])
              for i in (1, 2, 3)]
    while shares[1].poll() is None and len(list((sounds / "shares").glob("[0-9]*.wav"))) < 100:
        time.sleep(0.002)
    assert shares[1].poll() is None, "the run was over before a share could be killed"
    shares[1].kill()
    assert [share.wait(timeout=120) for share in shares] == [0, -signal.SIGKILL, 0]
    for part in (sounds / "shares").glob(".*.part"):  # the killed one could not clean up
        part.unlink()
    batch("many.csv", "-o", "whole")
    before, want = tree(sounds / "shares"), tree(sounds / "whole")
    assert 100 <= len(before) < n and all(want[name] == data for name, data in before.items())
    report = batch(*args, "--resume")
    assert report["done"] + report["resumed"] == n
    assert len(before) - 2 <= report["resumed"] <= len(before)  # a worker may die before it writes the journal
    assert tree(sounds / "shares") == want


@pytest.mark.parametrize("variable", ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"])
def test_mpirun_needs_shares(sounds, monkeypatch, variable):
    """Without them each process would convolve the whole list."""
    monkeypatch.setenv(variable, "2")
    said = refused("batch", "list.csv", "-o", "out", exit=1)
    assert "mpirun has started 2 processes" in said and "--shard I/N" in said and not (sounds / "out").exists()
    assert [batch("list.csv", "-o", "out", "--shard", f"{i}/2")["done"] > 0 for i in (1, 2)] == [True, True]
    batch("list.csv", "-o", "one", "--shard", "1/1")
    assert tree(sounds / "out") == tree(sounds / "one")


def test_patterns_pair_up(sounds):
    ins, masks = "in/u[0-3].wav", "masks/m*.wav"
    assert batch("--inputs", ins, "--masks", masks, "-o", "all")["done"] == 20
    assert set(tree(sounds / "all")) == {f"u{i}_m{m}.wav" for i in range(4) for m in range(5)}
    batch("--inputs", ins, "--masks", "masks/m[0-3].wav", "--pairs", "zip", "-o", "zip")
    assert set(tree(sounds / "zip")) == {f"u{i}_m{i}.wav" for i in range(4)}
    assert tree(sounds / "zip")["u2_m2.wav"] == tree(sounds / "all")["u2_m2.wav"]
    draws = []
    for seed in (1, 1, 2, 3):
        shutil.rmtree(sounds / "random", ignore_errors=True)
        report = batch("--inputs", ins, "--masks", masks, "--pairs", "random:3", "--seed", seed, "-o", "random")
        assert report["done"] == 12
        draws.append(set(tree(sounds / "random")))
        assert all(sum(name.startswith(f"u{i}_") for name in draws[-1]) == 3 for i in range(4)), draws[-1]
    assert draws[0] == draws[1] and len({frozenset(d) for d in draws}) == 3
    refused("batch", "--inputs", ins, "--masks", masks, "--pairs", "zip", "-o", "x", says=["4 inputs", "5 masks"])
    refused("batch", "--inputs", ins, "--masks", masks, "--pairs", "random:6", "-o", "x", says="5 masks")
    refused("batch", "--inputs", "nothing*", "--masks", masks, "-o", "x", says="matches no file")


def test_a_row_draws_its_mask_by_its_seed(sounds):
    rows = [f"in/u1.wav,masks/m*.wav,{i}.wav,{i // 2}" for i in range(40)]
    (sounds / "draw.csv").write_text("input,mask,output,seed\n" + "\n".join(rows))
    batch("draw.csv", "-o", "out")
    got = tree(sounds / "out")
    assert all(got[f"{i}.wav"] == got[f"{i + 1}.wav"] for i in range(0, 40, 2))
    assert len(set(got.values())) == 5  # twenty draws of five


def test_a_mask_may_have_the_name_of_a_pattern(sounds):
    (sounds / "masks/[1].wav").write_bytes((sounds / "masks/m1.wav").read_bytes())
    (sounds / "l.csv").write_text("input,mask,output\nin/u1.wav,masks/[1].wav,a.wav\nin/u1.wav,masks/m1.wav,b.wav\n")
    assert batch("l.csv", "-o", "out")["done"] == 2
    assert tree(sounds / "out")["a.wav"] == tree(sounds / "out")["b.wav"]


def test_names_that_meet_are_numbered(sounds):
    (sounds / "twice.csv").write_text("input,mask,gain\nin/u0.wav,masks/m0.wav,0\nin/u0.wav,masks/m0.wav,-20\n")
    assert batch("twice.csv", "-o", "out")["done"] == 2
    assert set(tree(sounds / "out")) == {"u0_m0-1.wav", "u0_m0-2.wav"}


def test_bad_files_are_left_out_and_listed(sounds):
    (sounds / "in/u3.wav").write_bytes(b"not a sound")
    (sounds / "in/u4.wav").write_bytes((sounds / "in/u4.wav").read_bytes()[:-1000])
    (sounds / "masks/m0.wav").unlink()
    bad = {3, 4, 0, 5, 10}
    done = subprocess.run([str(HALOCONV), "batch", "list.csv", "-o", "out", "--backend", "cpu"], capture_output=True,
                          text=True, check=False)
    assert done.returncode == 1 and "5 files failed:" in done.stderr and "7 files, 5 failed" in done.stderr, done.stderr
    assert done.stderr.count("not a sound file") == 1, done.stderr  # each reason once
    for i in range(12):
        want, name = wanted(sounds, i) if i not in bad else (None, None)
        if i in bad:
            assert done.stderr.count(f"in/u{i}.wav -> ") == 1, done.stderr
        else:
            assert_close(read(sounds / "out" / name), want, quantum=1.5 / 32768 if i % 2 else 0)  # dithered
    assert len(tree(sounds / "out")) == 7
    assert not list((sounds / "out").rglob("*.part"))
    few = subprocess.run([str(HALOCONV), "batch", "list.csv", "-o", "fast", "--fail-fast", "--workers", "1", "-q"],
                         capture_output=True, text=True, check=False)
    assert few.returncode == 1 and few.stderr.count("haloconv: ") == 1 and len(tree(sounds / "fast")) < 7


def test_an_interrupted_run_is_resumed(sounds):
    """Killed in the middle: every file is whole or absent, and --resume makes the absent ones only."""
    (sounds / "many.csv").write_text("input,mask,output\n"
                                     + "\n".join(f"in/u{i % 11}.wav,masks/m{i % 5}.wav,{i}.wav" for i in range(750)))
    whole = batch("many.csv", "-o", "whole")
    args = [str(HALOCONV), "batch", "many.csv", "-o", "cut", "-q", "--backend", "cpu", "--workers", "2"]
    for stop in (signal.SIGKILL, signal.SIGTERM):
        process = subprocess.Popen([*args, "--resume"], stdin=subprocess.DEVNULL)
        enough = 100 if stop == signal.SIGKILL else 300
        while process.poll() is None and len(list((sounds / "cut").glob("*.wav"))) < enough:
            time.sleep(0.002)
        process.send_signal(stop)
        status = process.wait()
        assert status in (-stop, 128 + stop), "it was through before it could be stopped"
        if stop == signal.SIGKILL:  # nobody could clean up
            for part in (sounds / "cut").glob(".*.part"):
                part.unlink()
    left = [p.name for p in (sounds / "cut").iterdir() if p.name.endswith(".part")]
    assert not left, left
    before, want = tree(sounds / "cut"), tree(sounds / "whole")
    assert 300 <= len(before) < 750 and all(want[name] == data for name, data in before.items())
    report = batch("many.csv", "-o", "cut", "--resume")
    assert report["done"] + report["resumed"] == 750 == whole["done"]
    assert report["resumed"] >= len(before) - 2  # a worker may die before it writes the journal
    assert tree(sounds / "cut") == want
    assert batch("many.csv", "-o", "cut", "--resume")["done"] == 0
    assert batch("many.csv", "-o", "cut", "--resume", "--gain", "-1")["resumed"] == 0  # another result is not done yet


def test_an_output_of_another_size_is_made_again(sounds):
    """A file may be cut by a crash of the machine after its line was written."""
    batch("list.csv", "-o", "out", "--workers", 1)
    want = tree(sounds / "out")
    for name, change in [("u0_m0.wav", -1), ("u2_m2.wav", 1)]:
        size = (sounds / "out" / name).stat().st_size
        os.truncate(sounds / "out" / name, size + change)
    done = good("batch", "list.csv", "-o", "out", "--resume", "--json")
    assert json.loads(done.stdout)["resumed"] == 10
    notes = [line for line in done.stderr.splitlines() if "is made again" in line]
    assert sorted(note.split(": ")[0] for note in notes) == ["out/u0_m0.wav", "out/u2_m2.wav"]
    assert tree(sounds / "out") == want


def test_files_of_an_older_journal_are_made_again(sounds):
    """It does not say when the inputs and the masks were changed."""
    batch("list.csv", "-o", "out")
    journal = sounds / "out/haloconv-batch.journal"
    without_states = re.sub(r"\t[0-9a-f]+(,[0-9a-f]+){5}\t", "\t", journal.read_text())
    without_figures = re.sub(r"\t\{\S+ ", " ", without_states)
    for text in without_states, without_figures, re.sub(r"\t\d+ ", " ", without_figures):
        journal.write_text(text)
        done = good("batch", "list.csv", "-o", "out", "--resume", "--json")
        assert json.loads(done.stdout)["done"] == 12
        assert "the journal of an older version has 12 files" in done.stderr, done.stderr
        done = good("batch", "list.csv", "-o", "out", "--resume", "--json")
        assert json.loads(done.stdout)["resumed"] == 12 and "older version" not in done.stderr, done.stderr


def test_the_last_entry_of_a_file_counts_after_the_clock_was_set_back(sounds):
    batch("list.csv", "-o", "out")
    journal, mask, want = sounds / "out/haloconv-batch.journal", sounds / "masks/m1.wav", tree(sounds / "out")
    journal.write_text(re.sub(r"(\t[0-9a-f]+,)([0-9a-f]+)", lambda m: m[1] + f"{int(m[2], 16) + 10**12:x}",
                              journal.read_text()))  # the clock was eleven days ahead
    kept, times = mask.read_bytes(), mask.stat()
    rewritten(mask)
    rows = batch("list.csv", "-o", "out", "--resume")["done"]
    assert 0 < rows < 12 and tree(sounds / "out") != want
    assert batch("list.csv", "-o", "out", "--resume")["resumed"] == 12
    mask.write_bytes(kept)
    os.utime(mask, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert batch("list.csv", "-o", "out", "--resume")["done"] == rows and tree(sounds / "out") == want


def rewritten(path):
    """Write other sounds of the same size; or, in a text, another line end."""
    if path.suffix == ".wav":
        data = bytearray(path.read_bytes())
        data[-8:] = bytes(8) if any(data[-8:]) else b"\1\0\0\0" * 2
        path.write_bytes(data)
    else:
        path.write_text(path.read_text() + "\n")


@pytest.fixture
def linked(folder):
    """Rows whose files name other files: a configuration with a sound, masks of two rates, a bank in a folder and in a
    list, a noise, and a path; a row with none of them."""
    for name in ("x", "y", "h", "n", "part", "r-16000", "r-48000"):
        write(folder / f"{name}.wav", noise(800, seed=len(name)), RATE, "FLOAT")
    (folder / "c.conf").write_text("/convolver/new 1 1 256 800\n/impulse/read 1 1 1 0 0 0 1 part.wav\n")
    for bank in "bank", "sounds":
        (folder / bank).mkdir()
        for azimuth in 0, 90, 180, 270:
            write(folder / f"{bank}/az{azimuth}_el0.wav", noise(64, 2, seed=azimuth), RATE, "FLOAT")
    (folder / "set.csv").write_text("file,azimuth,elevation\n"
                                    + "".join(f"sounds/az{a}_el0.wav,{a},0\n" for a in (0, 90, 180, 270)))
    (folder / "p.csv").write_text("time,azimuth\n0,0\n1,90\n")
    (folder / "l.csv").write_text("input,mask,output,noise,snr,path\nx.wav,h.wav,a.wav,,,\ny.wav,c.conf,b.wav,,,\n"
                                  "y.wav,r-%r.wav,c.wav,,,\ny.wav,bank,d.wav,,,p.csv\ny.wav,set.csv,e.wav,,,p.csv\n"
                                  "y.wav,r-48000.wav,f.wav,n.wav,3,\n")
    return folder


@pytest.mark.parametrize("file,rows,says", [
    ("x.wav", "a", "1 row made again: input x.wav has changed"),
    ("y.wav", "bcdef", "5 rows made again: input y.wav has changed"),
    ("h.wav", "a", "1 row made again: mask h.wav has changed"),
    ("c.conf", "b", "1 row made again: mask c.conf has changed"),
    ("part.wav", "b", "1 row made again: mask c.conf has changed"),
    ("r-16000.wav", "c", "1 row made again: mask r-%r.wav has changed"),
    ("r-48000.wav", "cf", "2 rows made again: mask r-%r.wav and others have changed"),
    ("bank/az90_el0.wav", "d", "1 row made again: mask bank has changed"),
    ("sounds/az90_el0.wav", "e", "1 row made again: mask set.csv has changed"),
    ("set.csv", "e", "1 row made again: mask set.csv has changed"),
    ("n.wav", "f", "1 row made again: noise n.wav has changed"),
    ("p.csv", "de", "2 rows made again: path p.csv has changed")])
def test_resume_makes_the_rows_again_whose_files_changed(linked, file, rows, says):
    batch("l.csv", "-o", "out")
    assert batch("l.csv", "-o", "out", "--resume")["resumed"] == 6
    rewritten(linked / file)
    first = {p.name: p.stat().st_ino for p in (linked / "out").glob("*.wav")}
    done = good("batch", "l.csv", "-o", "out", "--resume", "--json", "--backend", "cpu")
    assert json.loads(done.stdout)["done"] == len(rows) and says in done.stderr, done.stderr
    again = {p.name[0] for p in (linked / "out").glob("*.wav") if p.stat().st_ino != first[p.name]}
    assert again == set(rows)
    batch("l.csv", "-o", "whole")
    assert tree(linked / "out") == tree(linked / "whole")
    assert batch("l.csv", "-o", "out", "--resume")["resumed"] == 6


@pytest.mark.parametrize("link", ["masks", "masks/h.wav"])
def test_a_link_that_leads_to_another_file_of_the_same_size_and_time_is_a_change(folder, link):
    """Archives are often unpacked with one time for all files. A tree that moves as a whole keeps what is done."""
    (folder / "tree").mkdir()
    os.chdir(folder / "tree")
    write("x.wav", noise(400), RATE)
    for version in 1, 2:
        (folder / f"tree/v{version}").mkdir()
        write(f"v{version}/h.wav", noise(64, seed=version), RATE)
        os.utime(f"v{version}/h.wav", (1_700_000_000, 1_700_000_000))
    if link != "masks":
        (folder / "tree/masks").mkdir()

    def lead(version):
        pathlib.Path(link).unlink(missing_ok=True)
        os.symlink(f"v{version}" if link == "masks" else f"../v{version}/h.wav", link)

    lead(1)
    pathlib.Path("l.csv").write_text("input,mask,output\nx.wav,masks/h.wav,y.wav\n")
    batch("l.csv", "-o", "out")
    os.rename(folder / "tree", folder / "moved")
    os.chdir(folder / "moved")
    assert batch("l.csv", "-o", "out", "--resume")["done"] == 0
    lead(2)
    assert batch("l.csv", "-o", "out", "--resume")["done"] == 1
    batch("l.csv", "-o", "whole")
    assert tree(folder / "moved/out") == tree(folder / "moved/whole")


def test_the_newest_entry_of_an_output_counts(sounds):
    """Shards, ranks and other settings have left entries of the same outputs, in journals of any names."""
    old = sounds / "old.wav"
    shutil.copy2("masks/m1.wav", old)
    for shard in "1/2", "2/2":
        batch("list.csv", "-o", "out", "--shard", shard)
    rewritten(sounds / "masks/m1.wav")
    assert batch("list.csv", "-o", "out", "--resume")["done"] == 3
    assert batch("list.csv", "-o", "out", "--resume")["done"] == 0
    shutil.copy2(old, "masks/m1.wav")  # with its old time: the entries of the shards match again
    assert batch("list.csv", "-o", "out", "--resume")["done"] == 3
    assert batch("list.csv", "-o", "out", "--resume", "--gain", "-3")["done"] == 12
    assert batch("list.csv", "-o", "out", "--resume")["done"] == 12
    batch("list.csv", "-o", "whole")
    assert tree(sounds / "out") == tree(sounds / "whole")


def test_a_file_changed_just_before_the_run_may_change_again_within_its_second(sounds):
    """As on file systems whose times are whole seconds."""
    now = time.time()
    os.utime("masks/m1.wav", (int(now), int(now)))
    os.utime("masks/m2.wav", (int(now) - 9, int(now) - 9))
    report = batch("list.csv", "-o", "out", "--report", "r.jsonl")
    assert report["done"] == 12 and len((sounds / "r.jsonl").read_text().splitlines()) == 12
    time.sleep(3)
    assert batch("list.csv", "-o", "out", "--resume")["done"] == 3
    assert batch("list.csv", "-o", "out", "--resume")["done"] == 0


def test_a_row_that_fails_when_it_is_made_again_is_not_in_the_report(sounds):
    batch("list.csv", "-o", "out", "--report", "r.jsonl")
    (sounds / "masks/m1.wav").write_text("no sound any more")
    done = haloconv("batch", "list.csv", "-o", "out", "--resume", "--report", "r.jsonl", "-q")
    assert done.returncode == 1, done.stderr
    assert len((sounds / "r.jsonl").read_text().splitlines()) == 9


@pytest.mark.parametrize("damage", [b"0123", b"\0" * 5000], ids=["a torn line", "zeros"])
def test_a_damaged_line_costs_no_other_line(sounds, damage):
    journal = sounds / "out/haloconv-batch.journal"
    batch("list.csv", "-o", "out")
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:-1]) + damage)
    assert batch("list.csv", "-o", "out", "--resume")["resumed"] == 11
    assert batch("list.csv", "-o", "out", "--resume")["resumed"] == 12


def test_a_journal_that_cannot_be_read_is_reported(sounds):
    (sounds / "out/haloconv-batch.1of2.journal").mkdir(parents=True)
    refused("batch", "list.csv", "-o", "out", "--resume", "-q", says="leave --resume out")


@pytest.mark.parametrize("name", ["haloconv-batch.journal", "u0_m0.wav", "sub", "sub/x.wav"])
@pytest.mark.parametrize("kind", ["link", "fifo"])
def test_links_and_pipes_in_the_output_folder_lead_nowhere(sounds, name, kind):
    """Others may write to the folder: what they put there changes no other file, and nothing waits for them."""
    elsewhere = sounds / "elsewhere"
    elsewhere.mkdir()
    (sounds / "precious").write_text("precious")
    (sounds / "out/sub").mkdir(parents=True)
    if name == "sub":
        (sounds / "out/sub").rmdir()
    path = sounds / "out" / name
    path.symlink_to(elsewhere if name == "sub" else sounds / "precious") if kind == "link" else os.mkfifo(path)
    (sounds / "l.csv").write_text("input,mask,output\nin/u0.wav,masks/m0.wav,\nin/u0.wav,masks/m0.wav,sub/x.wav\n")
    done = haloconv("batch", "l.csv", "-o", "out", "--backend", "cpu", "--workers", "1", timeout=60)
    assert done.returncode == 1 and "remove it" in done.stderr and str(name) in done.stderr, done.stderr
    assert (sounds / "precious").read_text() == "precious" and not list(elsewhere.iterdir())


def test_links_inside_the_output_folder_are_followed(sounds):
    (sounds / "real/a").mkdir(parents=True)
    (sounds / "out").symlink_to("real")
    (sounds / "real/b").symlink_to("a")
    (sounds / "l.csv").write_text("input,mask,output\nin/u0.wav,masks/m0.wav,b/x.wav\n")
    assert batch("l.csv", "-o", "out")["done"] == 1 and (sounds / "real/a/x.wav").stat().st_size > 0


@pytest.mark.parametrize("name", ["haloconv-batch.1of2.journal", "haloconv-batch.journal"])
def test_a_journal_without_end_is_refused(sounds, name):
    (sounds / "out").mkdir()
    (sounds / "out" / name).symlink_to("/dev/zero")
    refused("batch", "--inputs", "in/u0.wav", "--masks", "masks/m0.wav", "-o", "out", "--resume", timeout=60,
            says=[f"out/{name}: ", "regular file"])


def test_a_second_batch_into_the_folder_is_refused(sounds):
    """It would empty the journal of the first, which waits here for an input from a pipe."""
    os.mkfifo("in/pipe.wav")
    (sounds / "wait.csv").write_text("input,mask\nin/u1.wav,masks/m1.wav\nin/pipe.wav,masks/m1.wav\n")
    (sounds / "more.csv").write_text("input,mask\nin/u1.wav,masks/m1.wav\nin/u3.wav,masks/m1.wav\n")
    journal = sounds / "out/haloconv-batch.journal"
    first = subprocess.Popen([str(HALOCONV), "batch", "wait.csv", "-o", "out", "--workers", "1", "-q"],
                             stdin=subprocess.DEVNULL)
    wait_for(lambda: first.poll() is not None or journal.exists() and "u1_m1.wav" in journal.read_text())
    before = journal.read_bytes()
    for resume in ([], ["--resume"]):
        refused("batch", "more.csv", "-o", "out", *resume, says=[f"process {first.pid} on {os.uname().nodename}"])
    assert journal.read_bytes() == before and first.poll() is None
    assert batch("more.csv", "-o", "out", "--shard", "1/2")["done"] == 2  # a shard has a journal of its own
    first.kill()
    first.wait()
    assert batch("more.csv", "-o", "out", "--resume")["resumed"] == 2  # the lock ended with its process


def test_a_long_file_gets_its_level_too(folder, backend):
    x, h = noise(17 << 20, seed=1), noise(50, seed=2)
    write(folder / "x.wav", x, 48000)
    write(folder / "h.wav", h, 48000)
    (folder / "l.csv").write_text("input,mask,level\nx.wav,h.wav,peak\n")
    batch("l.csv", "-o", "out", backend=backend)
    want = scipy.signal.oaconvolve(x[:, 0].astype(np.float64), h[:, 0].astype(np.float64))
    want *= np.abs(x).max() / np.abs(want).max()
    assert_close(read(folder / "out/x_h.wav"), want)


def test_files_of_many_blocks_go_side_by_side(folder, backend):
    """Inputs and masks of one class of length: on a GPU four at a time share an engine and end in different blocks."""
    lengths = [650000, 600000, 640000, 610000, 600000, 530001, 590000, 570000]
    xs = [noise(n, seed=i)[:, 0] for i, n in enumerate(lengths)]
    xs[5][[5, 300000, 530000]] = np.nan, np.inf, -np.inf
    hs = [noise(900 + i, seed=9 + i)[:, 0] for i in range(4)]
    for i, x in enumerate(xs):
        write(folder / f"x{i}.wav", x, 48000)
        write(folder / f"h{i % 4}.wav", hs[i % 4], 48000)
    (folder / "l.csv").write_text("input,mask\n" + "".join(f"x{i}.wav,h{i % 4}.wav\n" for i in range(8)))
    assert batch("l.csv", "-o", "out", "--workers", 1, backend=backend)["done"] == 8
    for i, x in enumerate(xs):
        x = np.where(np.isfinite(x), x, 0).astype(np.float64)  # such numbers count as zeros
        want = scipy.signal.oaconvolve(x, hs[i % 4].astype(np.float64))
        assert_close(read(folder / f"out/x{i}_h{i % 4}.wav"), want)


def test_formats_and_clipping(sounds):
    (sounds / "loud.csv").write_text("input,mask,gain\nin/u1.wav,masks/m0.wav,40\n")
    done = good("batch", "loud.csv", "-o", "out", "--format", "flac")
    assert "clipped in 1 file;" in done.stderr and soundfile.info(sounds / "out/u1_m0.flac").format == "FLAC"
    good("batch", "loud.csv", "-o", "out", "--format", "wav:pcm24", "-q")
    assert soundfile.info(sounds / "out/u1_m0.wav").subtype == "PCM_24"


GOOD_LISTS = {  # a row each, of the name
    "a quote inside a name": ('input,mask\n5" snare.wav,m.wav\n', '5" snare.wav'),
    "a quoted one": ('"input","mask"\n"5"" snare.wav","m.wav"\n', '5" snare.wav'),
    "two lines": ('input,mask\n"two\nlines.wav",m.wav\n', "two\nlines.wav"),
    "a comma": ('input,mask\r\n"a, b.wav",m.wav\r\n', "a, b.wav"),
    "a quoted header behind a mark": ('\ufeff"input","mask"\nx.wav,m.wav\n', "x.wav"),
    "JSON behind a mark": ('\ufeff{"input": "x.wav", "mask": "m.wav"}\n', "x.wav"),
}


@pytest.mark.parametrize("what", GOOD_LISTS)
def test_names_are_taken_as_they_are(folder, what):
    text, name = GOOD_LISTS[what]
    write(folder / name, noise(100), 48000)
    write("m.wav", noise(10), 48000)
    write("z.wav", noise(200), 48000)
    last = '{"input": "z.wav", "mask": "m.wav"}\n' if "{" in text else "z.wav,m.wav\n"  # nothing may swallow it
    (folder / "list.csv").write_bytes((text + last).encode())
    assert batch("list.csv", "-o", "out")["done"] == 2
    assert set(tree(folder / "out")) == {name.replace(".wav", "_m.wav"), "z_m.wav"}


@pytest.mark.parametrize("output", ["u0.wav", "../in/u1.wav", "link.wav", "masks.wav"])
def test_no_output_is_an_input(sounds, output):
    """Else the input of another row would depend on the order of the rows."""
    (sounds / "in/link.wav").symlink_to("u0.wav")
    (sounds / "in/masks.wav").hardlink_to(sounds / "masks/m0.wav")
    before = tree(sounds / "in")
    (sounds / "l.csv").write_text(f"input,mask,output\nin/u0.wav,masks/m1.wav,new.wav\n"
                                  f"in/u1.wav,masks/m0.wav,{output}\n")
    refused("batch", "l.csv", "-o", "in", says="below the folder" if ".." in output else "row 2: in/")
    assert tree(sounds / "in") == before


def test_outputs_that_are_one_file_are_reported(sounds):
    """Their names differ, but the later one replaces the earlier one."""
    (sounds / "out/a").mkdir(parents=True)
    (sounds / "out/b").symlink_to("a")
    (sounds / "l.csv").write_text("input,mask,output\nin/u0.wav,masks/m0.wav,a/x.wav\n"
                                  "in/u1.wav,masks/m1.wav,c.wav\nin/u2.wav,masks/m1.wav,b/x.wav\n")
    refused("batch", "l.csv", "-o", "out", "-q", says=["row 1: ", "row 3, ", "a/x.wav", "b/x.wav", "the same file"])


def test_a_folder_is_no_list(folder):
    refused("batch", ".", "-o", "out", says="is a directory")


BAD_LISTS = {
    "input,gain\na,1\n": "mask",
    "input,mask\na.wav\n": "list.csv:2: row 1: has no mask",
    "input,mask,gain\n\na,b,\na,b,loud\n": "list.csv:4: row 2: gain is \"loud\"",
    "input,mask,tail\na,b,long\n": "full, same or centre",
    "input,mask,level\na,b,max\n": "none, peak or rms",
    "input,mask,seed\na,b,-1\n": "whole number",
    "input,mask,start\na,b,-1\n": 'start is "-1"; give seconds from 0 on',
    "input,mask,start\na,b,nan\n": 'start is "nan"; give seconds',
    'input,mask,start\na,b,"0,5"\n': 'start is "0,5"; give seconds',
    "input,mask,length\na,b,0\n": 'length is "0"; give seconds above 0',
    "input,mask,noise,snr\na,b,c,inf\n": 'snr is "inf"; give decibels',
    "input,mask,noise\na,b,c\n": "row 1: has noise without snr",
    "input,mask,snr\na,b,3\n": "row 1: has snr without noise",
    "input,mask,noise,snr\na,b,c*,3\n": "row 1: c*: matches no file",
    "input,mask,align\na,b,maybe\n": 'align is "maybe"; give yes or no',
    "input,mask,early\na,b,0\n": 'early is "0"; give milliseconds above 0',
    '{"input": "a", "mask": "b", "align": 2}\n': 'align is "2"; give yes or no',
    "input,mask,output\na,b,../c.wav\n": "below the folder",
    "input,mask,output\na,b,/c.wav\n": "below the folder",
    "input,mask,output\na,b,.\n": "below the folder",
    "input,mask,output\na,b,c/./\n": "below the folder",
    "input,mask,output\na,b,./haloconv-batch.1of2.journal\n": "the journal has this one",
    "input,mask,output\na,b,c.wav\nd,e,c.wav\n": "rows 1 and 2 both write it",
    "input,mask,output\na,b,c/d.wav\nd,e,./c//./d.wav\n": "rows 1 and 2 both write it",
    "input,mask,mask\na,b,c\n": 'names the column "mask" twice',
    "input;mask\na;b\n": "put commas between",
    "input\tmask\na\tb\n": "put commas between",
    "input,mask\na\0.wav,b\n": "list.csv:2: is not text",
    "input,mask\n" + "a" * 500 + "\0,b\n": "list.csv:2: is not text",
    "inp\0ut,mask\na,b\n": "list.csv:1: is not text",
    "\n \r\n\ninput,mask\na\n": "list.csv:5: row 1: has no mask",
    "\n{\"input\": 1}\n": "list.csv:2: row 1: has no mask",
    'input,mask\n"a,b\n': "a quote has no end",
    "input,mask\na,b,c\n": "list.csv:2: row 1: has 3 fields",
    "input,mask\n": "lists no file",
    "": "lists no file",
    '{"input": "a", "mask": "b"}\n{"input": "a"\n': "list.csv:2: is not an object of JSON",
    '{"input": "a", "mask": ["b"]}\n': "neither a text nor a number",
    '{"input": "a", "mask": "b", "mask": "c"}\n': "duplicate",
    '{"input": "a", "mask": "b"}\0\n': "list.csv:1: is not text",
    'input,mask,text\na,b,"one\nc,d,"two"\n': "list.csv:3: text follows a quote",
    'input,mask,"text\na,b,c\n': "list.csv:2: a quote has no end",
}


@pytest.mark.parametrize("text", BAD_LISTS)
def test_bad_lists_are_refused_with_their_line(folder, text):
    (folder / "list.csv").write_text(text)
    refused("batch", "list.csv", "-o", "out", says=BAD_LISTS[text])
    assert not (folder / "out").exists()


def test_all_wrong_cells_of_a_row_are_said_at_once(folder):
    cells = {"output": "../a", "gain": "loud", "tail": "long", "level": "max", "seed": "x", "start": "-1",
             "length": "0", "snr": "?", "align": "so", "early": "-2"}
    wanted = [f'{name} is "{text}"; give ' for name, text in cells.items()]
    (folder / "l.csv").write_text(f"input,mask,{','.join(cells)}\na,b{',' * len(cells)}\n"
                                  f"a,x*,{','.join(cells.values())}\n")
    refused("batch", "l.csv", "-o", "out", says=["l.csv:3: row 2: ", *wanted, "has snr without noise",
                                                "x*: matches no file"])
    (folder / "l.jsonl").write_text(json.dumps({"input": ["a"], "mask": "b", "gain": {}, **cells, "noise": True}))
    refused("batch", "l.jsonl", "-o", "out", says=['"input" is neither', '"noise" is neither', *wanted])


def test_columns_that_are_not_used_are_said_once(sounds):
    row = {"input": "in/u1.wav", "mask": "masks/m1.wav", "snr_db": 3, "text": "a"}
    (sounds / "l.jsonl").write_text(f"{json.dumps({**row, 'output': 'a.wav'})}\n{json.dumps(row)}\n")
    said = good("batch", "l.jsonl", "-o", "out").stderr
    assert said.count("these columns are not used: snr_db, text\n") == 1, said


@pytest.mark.parametrize("head", [b"input,mask,text\na,b,c\n", b'\n{"input": "a", "mask": "b"}\n'], ids=["CSV", "JSON"])
@pytest.mark.parametrize("line, says", [(b"", "list:3: is not text"), (b"x" * (2 << 20), "list:3: is longer than")],
                         ids=["zeros", "a long line"])
def test_a_huge_line_is_refused_early(folder, head, line, says):
    """Its memory is bounded, and no row behind it is lost in silence."""
    with open("list", "wb") as file:
        file.write(head + line)
        file.truncate(1 << 30)
    done, megabytes = measured("batch", "list", "-o", "out", capture_output=True, text=True)
    assert done.returncode == 1 and says in done.stderr and megabytes < 300, f"{done.stderr}, {megabytes} MB"


def test_a_folder_that_cannot_be_searched_is_reported(sounds):
    """Its files would be missing from the list in silence. root may search all folders, unless it gives that up."""
    lowered = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    if lowered and subprocess.run([*lowered, "true"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        pytest.skip("root cannot give up its rights here")
    shutil.copytree(sounds / "masks", sounds / "in/b")
    shutil.copytree(sounds / "masks", sounds / "in/c")
    os.chmod(sounds / "in/b", 0)
    done = subprocess.run([*lowered, str(HALOCONV), "batch", "--inputs", "in/*/*.wav", "--masks", "masks/m0.wav", "-o",
                           "out"], capture_output=True, text=True, timeout=60, check=False)
    os.chmod(sounds / "in/b", 0o700)
    assert done.returncode == 1 and "in/b: cannot be searched: Permission denied; " in done.stderr, done.stderr
    assert not (sounds / "out").exists()


@pytest.mark.parametrize("args", [
    ["list.csv"], ["-o", "out"], ["--inputs", "a", "-o", "out"], ["a", "b", "-o", "out"],
    ["--inputs", "a", "--masks", "b", "-o", "out", "--pairs", "random:0"],
    *(["list.csv", "-o", "out", *wrong] for wrong in [
        ["--shard", "0/3"], ["--shard", "4/3"], ["--shard", "1/99999999999"], ["--shard", "1/3x"], ["--pairs", "all"],
        ["--seed", "-1"], ["--backend", "tpu"], ["--level", "loud"], ["--report", "-", "--json"]])], ids=" ".join)
def test_wrong_usage(folder, args):
    refused("batch", *args, exit=2)


def test_memory_stays_bounded(folder):
    """A long file costs no more than a short one: it goes through in blocks."""
    write(folder / "h.wav", noise(4000, seed=2), 48000)
    peaks = []
    for seconds in (20, 400):
        write(folder / "x.wav", np.tile(noise(48000 * 20, seed=1), (seconds // 20, 1)), 48000, "PCM_16")
        (folder / "l.csv").write_text("input,mask\nx.wav,h.wav\n")
        peaks.append(peak_mb("batch", "l.csv", "-o", "out", "-q", "--backend", "cpu"))
    assert peaks[1] < peaks[0] * 1.5 + 8, f"peak memory {peaks} MB for 20 and 400 s"
