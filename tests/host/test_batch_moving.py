"""haloconv batch with moving sources: the outputs of `convolve --path`, random paths by seed, tar files, errors."""

import csv
import json
import shutil
import tarfile

import numpy as np
import pytest
import soundfile

from conftest import assert_close, generator, good, haloconv, refused
from test_convolve_moving import RATE, dry_make, ring_make


def dry_files(folder, lengths, n_channels=1):
    for i, n in enumerate(lengths):
        x = generator(i).standard_normal((n, n_channels)) * 0.1
        soundfile.write(folder / f"dry{i}.wav", x, RATE, subtype="PCM_16")


def manifest(folder, header, rows):
    with open(folder / "list.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return "list.csv"


def report_of(path):
    return [json.loads(line) for line in open(path, encoding="utf-8")]


def test_outputs_are_those_of_convolve(folder, backend):
    ring_make(folder)
    dry_files(folder, [20000, 5000, 400000, 1], n_channels=2)
    paths = ["time,source,azimuth\n0,1,0\n2,1,90\n0,2,-20\n1,2,170\n", "frame,source,entry\n0,1,3\n2000,1,4\n0,2,9\n"]
    for i, text in enumerate(paths):
        (folder / f"p{i}.csv").write_text(text)
    rows = [[f"dry{i % 4}.wav", "bank.csv", f"p{i % 2}.csv", f"{i}.wav", ["full", "same", "centre"][i % 3]]
            for i in range(8)]
    good("batch", manifest(folder, ["input", "mask", "path", "output", "tail"], rows), "-o", "wet", "--backend", backend,
         "--format", "float")
    for i, (source, _, path, name, tail) in enumerate(rows):
        good("convolve", source, "bank.csv", "--path", path, "-o", "one.wav", "--tail", tail, "--backend", "cpu",
             "--format", "float")
        got, want = (soundfile.read(folder / f, always_2d=True)[0] for f in (f"wet/{name}", "one.wav"))
        assert_close(got, want)
        assert backend != "cpu" or np.array_equal(got, want), (i, path)


def test_moving_and_still_rows_share_a_list(folder):
    ring_make(folder)
    dry_files(folder, [20000, 20000])
    soundfile.write(folder / "still.wav", np.eye(50, 1), RATE)
    (folder / "p.csv").write_text("time,azimuth\n0,0\n1,90\n")
    rows = [[f"dry{i % 2}.wav", "bank.csv" if i % 2 else "still.wav", "p.csv" if i % 2 else "", f"{i}.wav"]
            for i in range(6)]
    good("batch", manifest(folder, ["input", "mask", "path", "output"], rows), "-o", "wet", "--backend", "cpu")
    assert soundfile.info(folder / "wet/1.wav").channels == 2
    assert np.array_equal(soundfile.read(folder / "wet/1.wav")[0], soundfile.read(folder / "wet/3.wav")[0])
    assert soundfile.info(folder / "wet/0.wav").channels == 1


def test_random_paths_repeat_from_the_report(folder):
    ring_make(folder)
    dry_files(folder, [30000] * 3)
    shutil.copy(folder / "dry0.wav", folder / "dry3.wav")
    args = ["--backend", "cpu", "--path", "random:speed=50..90,distance=1..3", "--distance-gain", "1"]
    good("batch", "--inputs", "dry*.wav", "--masks", "bank.csv", "-o", "a", "--report", "a.jsonl", "--seed", 4, *args)
    good("batch", "--inputs", "dry*.wav", "--masks", "bank.csv", "-o", "b", "--seed", 4, "--workers", 1, *args)
    good("batch", "--inputs", "dry*.wav", "--masks", "bank.csv", "-o", "c", "--seed", 5, *args)
    lines = report_of("a.jsonl")
    assert len({line["seed"] for line in lines}) == 4
    assert all(line["path"].startswith("random:speed=50") and line["t30_s"] is None for line in lines)
    # the report is a list, too
    good("batch", "a.jsonl", "-o", "d", "--backend", "cpu", "--distance-gain", "1")
    files = sorted(p.name for p in (folder / "a").glob("*.wav"))
    assert len(files) == 4
    for name in files:
        first = (folder / "a" / name).read_bytes()
        assert first == (folder / "b" / name).read_bytes() == (folder / "d" / name).read_bytes()
        assert first != (folder / "c" / name).read_bytes()
    # two rows of the same sound move differently
    assert (folder / "a" / files[0]).read_bytes() != (folder / "a" / files[3]).read_bytes()


def test_rows_with_a_seed_of_their_own(folder):
    ring_make(folder)
    dry_files(folder, [30000])
    rows = [["dry0.wav", "bank.csv", "random", seed, f"{i}.wav"] for i, seed in enumerate([7, 7, 8])]
    good("batch", manifest(folder, ["input", "mask", "path", "seed", "output"], rows), "-o", "wet", "--backend", "cpu")
    a, b, c = ((folder / f"wet/{i}.wav").read_bytes() for i in range(3))
    assert a == b != c


def test_levels_and_noise_of_moving_sources(folder):
    ring_make(folder)
    dry_files(folder, [30000, 30000])
    soundfile.write(folder / "noise.wav", generator(9).standard_normal(9000) * 0.1, RATE)
    (folder / "p.csv").write_text("time,azimuth\n0,0\n1,90\n")
    rows = [["dry0.wav", "bank.csv", "random", "rms", "", "", "a.wav"],
            ["dry1.wav", "bank.csv", "p.csv", "none", "noise.wav", "10", "b.wav"]]
    good("batch", manifest(folder, ["input", "mask", "path", "level", "noise", "snr", "output"], rows), "-o", "wet",
         "--backend", "cpu", "--format", "float", "--seed", "3")
    dry, wet = soundfile.read(folder / "dry0.wav")[0], soundfile.read(folder / "wet/a.wav")[0]
    assert abs(np.sqrt((wet**2).mean()) / np.sqrt((dry**2).mean()) - 1) < 1e-3
    good("convolve", "dry1.wav", "bank.csv", "--path", "p.csv", "-o", "clean.wav", "--backend", "cpu", "--format", "float")
    clean, noisy = soundfile.read(folder / "clean.wav")[0], soundfile.read(folder / "wet/b.wav")[0]
    assert abs(10 * np.log10((clean**2).mean() / ((noisy - clean)**2).mean()) - 10) < 0.01


def test_members_of_tar_files_move(folder):
    ring_make(folder)
    dry_files(folder, [9000, 8000, 7000])
    with tarfile.open(folder / "dry.tar", "w") as tar:
        for i in range(3):
            tar.add(folder / f"dry{i}.wav", f"dry{i}.wav")
    (folder / "p.csv").write_text("time,azimuth\n0,0\n1,90\n")
    good("batch", manifest(folder, ["input", "mask", "path"], [["dry.tar", "bank.csv", "p.csv"]]), "-o", "wet",
         "--backend", "cpu")
    out = list((folder / "wet").glob("*.tar"))
    with tarfile.open(out[0]) as tar:
        tar.extractall(folder / "got")
    got = sorted((folder / "got").rglob("*.wav"))
    assert len(got) == 3
    for i, name in enumerate(got):
        good("convolve", f"dry{i}.wav", "bank.csv", "--path", "p.csv", "-o", "one.wav", "--backend", "cpu")
        assert np.array_equal(soundfile.read(name)[0], soundfile.read(folder / "one.wav")[0])


def test_resume_skips_what_is_done_and_follows_the_options(folder):
    ring_make(folder)
    dry_files(folder, [9000, 8000])
    args = ["batch", "--inputs", "dry*.wav", "--masks", "bank.csv", "-o", "wet", "--backend", "cpu", "--json", "--path",
            "random"]
    good(*args)
    done = json.loads(good(*args, "--resume").stdout)
    assert done["resumed"] == 2, done
    done = json.loads(good(*args, "--resume", "--mix").stdout)
    assert done["resumed"] == 2, done  # the default
    done = json.loads(good(*args, "--resume", "--nearest").stdout)
    assert done["resumed"] == 0, done
    done = json.loads(good(*args, "--nearest", "--resume", "--report", "r.jsonl").stdout)
    assert done["resumed"] == 2 and len(report_of("r.jsonl")) == 2


@pytest.mark.parametrize("row,says", [
    (["dry.wav", "bank.csv", "random:sped=1", ""], ["row 1", "sped=1"]),
    (["dry.wav", "bank.csv", "-", ""], ["row 1", "standard input"]),
    (["dry.wav", "bank.csv", "p.csv", "yes"], ["row 1", "both path and align"])])
def test_wrong_rows_are_refused(folder, row, says):
    refused("batch", manifest(folder, ["input", "mask", "path", "align"], [row]), "-o", "wet", says=says)


def test_a_wrong_path_fails_its_row_only(folder):
    ring_make(folder)
    dry_make(folder)
    (folder / "bad.csv").write_text("time,azimuth\n0,x\n")
    (folder / "p.csv").write_text("time,azimuth\n0,0\n")
    rows = [["dry.wav", "bank.csv", path, f"{i}.wav"] for i, path in enumerate(["bad.csv", "p.csv", "absent.csv"])]
    done = haloconv("batch", manifest(folder, ["input", "mask", "path", "output"], rows), "-o", "wet", "--backend",
                    "cpu")
    assert done.returncode == 1 and "bad.csv:2" in done.stderr and "absent.csv" in done.stderr
    assert [p.name for p in (folder / "wet").glob("*.wav")] == ["1.wav"]


def test_the_files_of_a_bank_are_not_overwritten(folder):
    ring_make(folder)
    dry_make(folder)
    rows = [["dry.wav", "bank.csv", "random", "a.wav"], ["dry.wav", "bank.csv", "random", "r35.wav"]]
    refused("batch", manifest(folder, ["input", "mask", "path", "output"], rows), "-o", ".",
            says="r35.wav: is a file that")


def test_options_without_a_path_are_refused(folder):
    dry_make(folder)
    soundfile.write(folder / "still.wav", np.eye(50, 1), RATE)
    for option in (["--mix"], ["--nearest"], ["--step", "64"]):
        refused("batch", "--inputs", "dry.wav", "--masks", "still.wav", "-o", "wet", *option, says=option[0])
    refused("batch", "--inputs", "dry.wav", "--masks", "still.wav", "-o", "wet", "--path", "-", exit=2,
            says="standard input")
    refused("batch", "--inputs", "dry.wav", "--masks", "still.wav", "-o", "wet", "--path", "random:x=1", exit=2,
            says="x=1")
