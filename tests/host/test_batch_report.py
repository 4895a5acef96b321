"""`haloconv batch --report`: a line an output, the same however the work is divided; and failures, by their rows."""

import json
import os
import re
import subprocess

import numpy as np
import pytest
import soundfile
from conftest import HALOCONV, good, noise, read, refused, write
from test_batch import batch, sounds, tree  # noqa: F401: a fixture is among them
from test_batch_columns import room, rows_to

RATE = 16000


@pytest.fixture
def listed(sounds):  # noqa: F811
    """Its rows draw masks and noises, and cut inputs and masks; row 13 fails, and row 14 clips."""
    for i in range(3):
        write(sounds / f"masks/r{i}.wav", room(seed=i), RATE)
        write(sounds / f"masks/n{i}.wav", noise(30000, seed=20 + i), RATE)
    write(sounds / "masks/slow.wav", room(seed=4), RATE // 2)
    rows = [{"input": f"in/u{i}.wav", "mask": "masks/r*.wav", "output": f"{i}.wav",
             "noise": "masks/n*.wav" if i % 3 else "", "snr": 10 if i % 3 else "",
             "align": ["no", "yes"][i % 2], "level": ["none", "rms"][i // 2 % 2],
             "early": "" if i % 4 else 20, "gain": -6 if i % 5 == 0 else "", "start": 0.125 if i == 4 else "",
             "length": 0.5 if i == 4 else ""} for i in range(12)]
    rows += [{"input": "in/gone.wav", "mask": "masks/m1.wav"},
             {"input": "in/u1.wav", "mask": "masks/slow.wav", "output": "loud.wav", "gain": 30},
             {"input": "in/u1.wav", "mask": "masks/m3.wav", "output": "quiet.wav", "gain": "off"}]
    rows_to(sounds / "rows.csv", rows)
    return sounds


def reported(*args, **kwargs):
    """Run a batch whose row 13 fails; its --json."""
    done = subprocess.run([str(HALOCONV), "batch", *map(str, args), "--backend", "cpu", "--json", "-q"],
                          capture_output=True, text=True, check=False, **kwargs)
    assert done.returncode == 1, done.stderr
    return json.loads(done.stdout)


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_line_says_what_was_drawn_and_measured(listed):
    reported("rows.csv", "-o", "out", "--report", "r.jsonl", "--seed", 3)
    lines = lines_of(listed / "r.jsonl")
    assert [line["row"] for line in lines] == [*range(1, 13), 14, 15]
    t30 = {name: json.loads(good("info", name, "--json").stdout)["channel"][0]["t30_s"]
           for name in {line["mask"] for line in lines}}
    for line in lines:
        y, info = read(listed / "out" / line["output"]), soundfile.info(listed / "out" / line["output"])
        assert (line["frames"], line["channels"], line["rate"]) == (*y.shape, RATE)
        limit = 1 if info.subtype == "PCM_16" else np.inf
        assert min(line["peak"], limit) == pytest.approx(np.abs(y).max(), abs=1e-4)
        assert (line["clipped"] > 0) == (line["peak"] > 1 and info.subtype == "PCM_16")
        if line["mask"] != "masks/slow.wav":  # it was resampled
            assert line["t30_s"] == pytest.approx(t30[line["mask"]] or 0, rel=1e-6) or line["t30_s"] is None
    by_row = {line["row"]: line for line in lines}
    assert by_row[14]["clipped"] > 0 == by_row[15]["clipped"]
    assert by_row[14]["t30_s"] == pytest.approx(t30["masks/slow.wav"], rel=0.02) and by_row[15]["t30_s"] is None
    assert by_row[15]["gain"] == "off" and by_row[1]["gain"] == -6 and by_row[1]["peak"] > 0
    assert by_row[5]["start"] == 0.125 and by_row[5]["length"] == 0.5 and by_row[1]["length"] is None
    assert by_row[1]["early"] == 20 and by_row[3]["early"] is None
    assert by_row[1]["direct_sound_s"] == 400 / RATE and by_row[3]["direct_sound_s"] is None
    assert len({line["mask"] for line in lines[:12]}) == 3 and len({line["seed"] for line in lines}) == 14
    assert [line["noise"] is None for line in lines[:6]] == [True, False, False] * 2
    # Row 2, an integer file, is remade from its line: input, mask, noise, its start and all gains.
    line, x = by_row[2], read(listed / "in/u1.wav")
    clean = np.convolve(x[:, 0], read(listed / line["mask"])[400:, 0])
    part = np.resize(np.roll(read(listed / line["noise"])[:, 0], -round(line["noise_start_s"] * RATE)), len(clean))
    want = clean + part * 10 ** (line["noise_gain_db"] / 20)
    want *= 10 ** ((line["level_gain_db"] + line["gain"]) / 20)
    assert np.abs(read(listed / "out/1.wav")[:, 0] - np.clip(want, -1, 1)).max() < 1e-4


def test_the_report_does_not_depend_on_the_sharing_out(listed):
    """Nor on --resume: also of a run without a report, and of a folder with journals of other runs."""
    reported("rows.csv", "-o", "one", "--report", "one.jsonl", "--workers", 1)
    want = (listed / "one.jsonl").read_bytes()
    reported("rows.csv", "-o", "five", "--report", "five.jsonl", "--workers", 5, "--cache", 0)
    assert (listed / "five.jsonl").read_bytes() == want
    for i in (1, 2, 3):
        subprocess.run([str(HALOCONV), "batch", "rows.csv", "-o", "shards", "--shard", f"{i}/3", "-q", "--report",
                        f"shard{i}.jsonl"], stderr=subprocess.DEVNULL, check=False)
    for i in (1, 2, 3):  # a share that is resumed has no lines of the others
        subprocess.run([str(HALOCONV), "batch", "rows.csv", "-o", "shards", "--shard", f"{i}/3", "-q", "--resume",
                        "--report", "again.jsonl"], stderr=subprocess.DEVNULL, check=False)
        assert (listed / "again.jsonl").read_bytes() == (listed / f"shard{i}.jsonl").read_bytes()
    parts = [line for i in (1, 2, 3) for line in (listed / f"shard{i}.jsonl").read_bytes().splitlines(True)]
    assert sorted(parts) == sorted(want.splitlines(True))
    assert reported("rows.csv", "-o", "shards", "--resume", "--report", "shards.jsonl")["resumed"] == 14
    assert (listed / "shards.jsonl").read_bytes() == want
    reported("rows.csv", "-o", "late")
    before = tree(listed / "late")
    (listed / "late/3.wav").unlink()
    assert reported("rows.csv", "-o", "late", "--resume", "--report", "late.jsonl")["done"] == 1
    assert (listed / "late.jsonl").read_bytes() == want and tree(listed / "late") == before
    reported("rows.csv", "-o", "shards", "--gain", 3, "--report", "other.jsonl")
    assert (listed / "other.jsonl").read_bytes() != want


def test_a_report_is_a_list(listed):
    """With the same cells it makes the same outputs."""
    reported("rows.csv", "-o", "out", "--report", "r.jsonl", "--seed", 9)
    batch("r.jsonl", "-o", "again", "--report", "again.jsonl")
    assert tree(listed / "again") == tree(listed / "out")
    numbers = [{k: v for k, v in line.items() if k != "row"} for line in lines_of(listed / "again.jsonl")]
    assert numbers == [{k: v for k, v in line.items() if k != "row"} for line in lines_of(listed / "r.jsonl")]


NAMES = [b"latin-\xe9\xff", b"half-\xed\xb3\xa9", b"cut-\xf0\x9f\x8e", b"u-\\u0000e9-\\udce9\xfe", b"quote-\"\\\xc3\"",
         "\u00e9-\U0001f0af-\U0001f3b5-\uffff".encode(), b"hex-\xe9e9"]


def test_a_report_has_names_of_any_bytes_and_makes_the_same_files_again(folder):
    """As Python reads them; also if another writer spells each character by its code."""
    names = [os.fsdecode(name) for name in NAMES]
    write("m.wav", noise(20))
    for n, name in enumerate(names):
        os.rename(write("x.wav", noise(100, seed=n)), name + ".wav")
    (folder / "l.csv").write_bytes(b"input,mask,output\n" + b"".join(
        b'"%s.wav",m.wav,"%s.out.wav"\n' % (name.replace(b'"', b'""'), name.replace(b'"', b'""')) for name in NAMES))
    batch("l.csv", "-o", "out", "--report", "r.jsonl")
    lines = lines_of(folder / "r.jsonl")
    assert [(line["input"], line["output"]) for line in lines] == [(name + ".wav", name + ".out.wav") for name in names]
    for dump in [None, json.dumps, lambda line: re.sub(r"(?<!\\)\\udc", r"\\uDC", json.dumps(line))]:
        if dump:
            (folder / "r.jsonl").write_text("".join(dump(line) + "\n" for line in lines))
        batch("r.jsonl", "-o", "again", "--report", "again.jsonl")
        assert lines_of(folder / "again.jsonl") == lines and tree(folder / "again") == tree(folder / "out")


@pytest.mark.parametrize("text", ["\\u0000e9", "\\udce9\\u0000", "\\ud83c", "\\udfff", "\\ud83c\\ud83c", "\\u", "\\udce",
                                  "\\u dce9", "a\\"])
def test_a_text_that_json_does_not_allow_is_refused(folder, text):
    (folder / "l.jsonl").write_text(f'{{"input": "{text}", "mask": "m.wav"}}\n')
    refused("batch", "l.jsonl", "-o", "out", says=["l.jsonl:1: is not an object of JSON"])


def test_failures_are_listed_with_their_rows(listed):
    text = (listed / "rows.csv").read_text().splitlines()
    (listed / "rows.csv").write_text("\n".join([text[0], "", *text[1:], "in/u0.wav,masks/gone.wav,z.wav"]) + "\n")
    for again in ([], ["--resume"]):  # what failed before does not count
        report = reported("rows.csv", "-o", "out", *again)
        assert report["failed"] == 2 == len(report["failures"])
        for failure, (row, name, bad) in zip(report["failures"], [(13, "in/gone.wav", "in/gone.wav: "),
                                                                  (16, "in/u0.wav", "masks/gone.wav: ")], strict=True):
            assert (failure["row"], failure["input"]) == (row, name) and failure["reason"].startswith(bad), failure
    (listed / "in/gone.wav").write_bytes((listed / "in/u1.wav").read_bytes())
    write(listed / "masks/gone.wav", room(), RATE)
    report = batch("rows.csv", "-o", "out", "--resume")
    assert report["done"] == 2 and report["failures"] == []


def test_a_report_replaces_nothing_that_is_read(listed):
    (listed / "l.jsonl").write_text('{"input": "in/u1.wav", "mask": "masks/m1.wav"}\n')
    (listed / "link.jsonl").symlink_to("l.jsonl")
    before = tree(listed)
    for path in ("l.jsonl", "link.jsonl", "in/u1.wav", "masks/m1.wav"):
        refused("batch", "l.jsonl", "-o", "out", "--report", path, says=[f"{path}: is ", "would be overwritten"])
    refused("batch", "l.jsonl", "-o", "out", "--report", "gone/r.jsonl", "-q", says="gone/r.jsonl: ")
    assert tree(listed) == before and "u1" in (listed / "l.jsonl").read_text()
    batch("l.jsonl", "-o", "out", "--report", "out/r.jsonl")
    assert len(lines_of(listed / "out/r.jsonl")) == 1


def test_a_name_that_cannot_be_made_fails_its_row_only(listed):
    long = "x" * 252 + ".wav"
    (listed / "l.csv").write_text(f"input,mask,output\nin/u4.wav,masks/m1.wav,a.wav\nin/u1.wav,masks/m1.wav,{long}\n"
                                  "in/u6.wav,masks/m1.wav,a.wav/b.wav\nin/u11.wav,masks/m1.wav,c.wav\n")
    report = reported("l.csv", "-o", "out", "--report", "r.jsonl", "--workers", 1)  # the longest input begins
    assert report["done"] == 2 and [failure["row"] for failure in report["failures"]] == [2, 3]
    assert "the name is too long; " in report["failures"][0]["reason"]
    assert [line["row"] for line in lines_of(listed / "r.jsonl")] == [1, 4]


def test_a_row_that_cannot_be_completed_fails(listed):
    """A run without a report leaves the decay time out, and then the mask is gone."""
    (listed / "l.csv").write_text("input,mask\nin/u1.wav,masks/m1.wav\nin/u2.wav,masks/r1.wav\n")
    batch("l.csv", "-o", "out")
    (listed / "masks/m1.wav").unlink()
    report = reported("l.csv", "-o", "out", "--resume", "--report", "r.jsonl")
    assert (report["done"], report["resumed"], report["failed"]) == (0, 1, 1) and report["failures"][0]["row"] == 1
    assert [line["row"] for line in lines_of(listed / "r.jsonl")] == [2] and len(tree(listed / "out")) == 2
