"""`haloconv batch` on tar files: each becomes a tar file with the same members in the same order, its sounds convolved."""

import gzip
import io
import json
import os
import shlex
import shutil
import subprocess
import tarfile

import numpy as np
import pytest
import scipy.signal
import soundfile
from conftest import HALOCONV, SAN, assert_close, good, haloconv, noise, read, refused, write

RATE = 16000
LONG = "a/" * 60 + "n" * 120


def pack(path, members, mode="w", **options):
    """Writes (name, bytes) as a tar file; None: a folder."""
    with tarfile.open(path, mode, **options) as tar:
        for i, (name, content) in enumerate(members):
            info = tarfile.TarInfo(name)
            info.mtime, info.mode = 1000000 + i, 0o640
            if content is None:
                info.type = tarfile.DIRTYPE
            else:
                info.size = len(content)
            tar.addfile(info, io.BytesIO(content or b""))


def unpack(path):
    with tarfile.open(path) as tar:
        return [(m.name, tar.extractfile(m).read() if m.isfile() else None, m.mtime, m.mode) for m in tar]


def sound(n, seed, kind="WAV"):
    data = io.BytesIO()
    soundfile.write(data, noise(n, seed=seed), RATE, format=kind, subtype="PCM_16")
    return data.getvalue()


@pytest.fixture
def shards(folder):
    """Three tar files with sounds of mixed lengths between other members, and four masks."""
    (folder / "rooms").mkdir()
    for i in range(4):
        write(folder / f"rooms/r{i}.wav", noise(1000 + 500 * i, 1, seed=100 + i, scale=0.02), RATE)
    for s in range(3):
        members = [("data", None)] if s == 1 else []
        for k in range(7):
            name = f"{LONG if k == 2 else 'data'}/ü {s}.{k}" if s == 1 else f"{s}{k}"
            kind = "flac" if k % 2 else "wav"
            texts = [(f"{name}.json", json.dumps({"k": k}).encode()), (f"{name}.txt", b"x" * (k * 300))]
            members += [texts[0], (f"{name}.{kind}", sound(900 * k + 100, 10 * s + k, kind.upper())), texts[1]]
        pack(folder / f"s-{s:03d}.tar", members, format=tarfile.PAX_FORMAT if s else tarfile.GNU_FORMAT)
    return folder


def batch(*args, backend="cpu", **kwargs):
    return json.loads(good("batch", *args, "--backend", backend, "--json", "-q", **kwargs).stdout)


def outputs(path):
    return {p.name: p.read_bytes() for p in sorted(path.glob("*.tar"))}


def test_order_names_and_other_members_are_kept(shards, backend):
    report = batch("--inputs", "s-{000..002}.tar", "--masks", "rooms/r3.wav", "-o", "out",
                   "--dither", "off", backend=backend)
    assert report["done"] == 21 and report["failed"] == 0
    h = read(shards / "rooms/r3.wav")
    for s in range(3):
        before, after = unpack(shards / f"s-{s:03d}.tar"), unpack(shards / f"out/s-{s:03d}_r3.tar")
        assert [(m[0], *m[2:]) for m in before] == [(m[0], *m[2:]) for m in after]
        for (name, x, *_), (_, y, *_) in zip(before, after):
            if not name.endswith((".wav", ".flac")):
                assert x == y
                continue
            x, y = (soundfile.read(io.BytesIO(data), always_2d=True)[0] for data in (x, y))
            assert_close(y, scipy.signal.fftconvolve(x, h, axes=0), quantum=1 / 32768)


def test_any_sharing_out_is_identical(shards, backend):
    args = ["--inputs", "s-*.tar", "--masks", "rooms/*.wav", "--pairs", "random:1", "--seed", "5"]
    batch(*args, "-o", "one", "--workers", "1", backend=backend)
    batch(*args, "-o", "five", "--workers", "5", "--cache", "0", backend=backend)
    done = [batch(*args, "-o", "shares", "--shard", f"{i}/2", backend=backend)["done"] for i in (1, 2)]
    want = outputs(shards / "one")
    assert list(want) == ["s-000.tar", "s-001.tar", "s-002.tar"] and done == [14, 7]
    assert outputs(shards / "five") == want and outputs(shards / "shares") == want


def test_a_tar_file_draws_what_its_unpacked_files_would(shards):
    args = ["--masks", "rooms/*.wav", "--pairs", "random:2"]
    subprocess.run(["tar", "xf", "s-000.tar", "--one-top-level=plain"], check=True)
    batch("--inputs", "s-000.tar", *args, "-o", "out")
    batch("--inputs", "plain/*.[fw]*", *args, "-o", "files")
    files = {p.read_bytes() for p in (shards / "files").iterdir() if p.suffix != ".journal"}
    assert list(outputs(shards / "out")) == ["s-000-1.tar", "s-000-2.tar"] and len(files) == 14
    packed = [m for i in (1, 2) for m in unpack(shards / f"out/s-000-{i}.tar") if m[0].endswith(("wav", "flac"))]
    assert {m[1] for m in packed} == files


def pack_pairs(path, n=8):
    """Samples with two recordings each, of a speaker in a room."""
    pack(path, [member for i in range(n) for member in [
        (f"d/{i}.json", b"{}"), (f"d/{i}.mix.wav", sound(400, i)), (f"d/{i}.ref.wav", sound(300, 100 + i))]])


@pytest.mark.parametrize("way", ["pairs", "list"])
def test_the_sounds_of_a_sample_share_one_draw(shards, way):
    pack_pairs("p.tar")
    (shards / "list.csv").write_text("input,mask,noise,snr,seed\np.tar,rooms/*.wav,s?.wav,20,3\n")
    for i in range(2):
        write(f"s{i}.wav", noise(500, seed=i), RATE)
    args = ["list.csv"] if way == "list" else ["--inputs", "p.tar", "--masks", "rooms/*.wav", "--pairs", "random:1"]
    batch(*args, "-o", "out", "--report", "r.jsonl")
    lines = [json.loads(line) for line in (shards / "r.jsonl").read_text().splitlines()]
    draws = [tuple(line.get(key) for key in ("mask", "noise", "seed")) for line in lines]
    assert draws[::2] == draws[1::2] and len({draw[0] for draw in draws}) > 1, draws


def test_members_chooses_what_is_convolved(shards):
    pack_pairs("p.tar")
    args = ["--inputs", "p.tar", "--masks", "rooms/*.wav", "--pairs", "random:1"]
    assert batch(*args, "-o", "all")["done"] == 16 and batch(*args, "-o", "out", "--members", "*.mix.wav")["done"] == 8
    before, both, after = (unpack(path) for path in ("p.tar", "all/p.tar", "out/p.tar"))
    for (name, x, *_), (_, all_wet, *_), (_, y, *_) in zip(before, both, after):
        assert y == (all_wet if ".mix." in name else x), name
    report = batch(*args, "-o", "out", "--members", "d/*.ref.wav", "--resume")
    assert report["done"] == 8 and [m[1] == b[1] for m, b in zip(unpack("out/p.tar"), before)] == [True, True, False] * 8


def test_members_that_choose_nothing_are_refused(shards):
    args = ["--masks", "rooms/r0.wav", "-o", "out", "--members", "*.mix.wav", "--inputs"]
    refused("batch", *args, "s-000.tar", says=["s-000.tar", "has no sound that matches *.mix.wav"])
    refused("batch", *args, "rooms/r1.wav", says=["--members is for tar files"])


def test_a_list_names_tar_files_with_all_its_columns(shards):
    rows = ["input,mask,output,gain,tail,seed", "s-000.tar,rooms/r0.wav,sub/new.tar,-6,same,",
            "s-001.tar,rooms/*.wav,,,,9", "s-002.tar,rooms/*.wav,again.tar,,,9", "s-001.tar,rooms/*.wav,copy.tar,,,9"]
    (shards / "list.csv").write_text("\n".join(rows) + "\n")
    assert batch("list.csv", "-o", "out", "--dither", "off")["done"] == 28
    assert sorted(outputs(shards / "out")) == ["again.tar", "copy.tar", "s-001.tar"]
    assert (shards / "out/s-001.tar").read_bytes() == (shards / "out/copy.tar").read_bytes()
    h = read(shards / "rooms/r0.wav")
    for (name, x, *_), (_, y, *_) in zip(unpack("s-000.tar"), unpack("out/sub/new.tar")):
        if name.endswith(".wav"):
            x, y = (soundfile.read(io.BytesIO(data), always_2d=True)[0] for data in (x, y))
            assert_close(y, scipy.signal.fftconvolve(x, h, axes=0)[:len(x)] * 10 ** (-6 / 20), quantum=1 / 32768)


def test_another_format_changes_the_extension(shards):
    batch("--inputs", "s-000.tar", "--masks", "rooms/r0.wav", "--format", "wav:float", "-o", "out")
    names = [m[0] for m in unpack(shards / "out/s-000_r0.tar")]
    assert names == [m[0].replace(".flac", ".wav") for m in unpack("s-000.tar")]


def test_only_what_is_missing_is_made_again(shards):
    args = ["--inputs", "s-*.tar", "--masks", "rooms/r0.wav", "-o", "out"]
    batch(*args)
    want = outputs(shards / "out")
    (shards / "out/s-001_r0.tar").unlink()
    (shards / "out/s-002_r0.tar").write_bytes(want["s-002_r0.tar"][:-512])
    report = batch(*args, "--resume")
    assert (report["done"], report["resumed"]) == (14, 7) and outputs(shards / "out") == want


def test_a_tar_file_whose_input_or_mask_changed_is_made_again(shards):
    (shards / "l.csv").write_text("input,mask,seed\ns-000.tar,rooms/r*.wav,1\ns-001.tar,rooms/r0.wav,1\n")
    batch("l.csv", "-o", "out")
    assert batch("l.csv", "-o", "out", "--resume")["resumed"] == 14
    os.utime("s-000.tar", (1e9, 1e9))
    done = good("batch", "l.csv", "-o", "out", "--resume", "--json", "--backend", "cpu")
    assert json.loads(done.stdout)["done"] == 7
    assert "7 rows made again: input s-000.tar has changed" in done.stderr, done.stderr
    os.utime("rooms/r0.wav", (1e9, 1e9))
    done = good("batch", "l.csv", "-o", "out", "--resume", "--json", "--backend", "cpu")
    assert json.loads(done.stdout)["done"] >= 7 and "made again: mask rooms/r0.wav has changed" in done.stderr
    assert batch("l.csv", "-o", "out", "--resume")["resumed"] == 14


def test_the_report_has_a_line_for_each_sound(shards):
    args = ["--inputs", "s-*.tar", "--masks", "rooms/*.wav", "--pairs", "random:1"]
    batch(*args, "-o", "out", "--report", "a.jsonl", "--workers", "1")
    lines = [json.loads(line) for line in (shards / "a.jsonl").read_text().splitlines()]
    assert [line["row"] for line in lines] == list(range(1, 22))
    assert (lines[0]["input"], lines[0]["output"]) == ("s-000.tar/00.wav", "s-000.tar/00.wav")
    (shards / "out/s-001.tar").unlink()
    batch(*args, "-o", "out", "--report", "b.jsonl", "--resume", "--workers", "3")
    assert (shards / "b.jsonl").read_bytes() == (shards / "a.jsonl").read_bytes()
    for i, n in [(1, 14), (2, 7)]:  # a share has whole tar files
        batch(*args, "-o", "shares", "--shard", f"{i}/2", "--report", "part.jsonl")
        part = [json.loads(line) for line in (shards / "part.jsonl").read_text().splitlines()]
        assert len(part) == n and all(line in lines for line in part)


def compress(tar, path):
    path.write_bytes(gzip.compress(tar.read_bytes()))
    tar.unlink()


def test_compressed_tar_files_become_tar_files(shards, monkeypatch):
    """No other program unpacks them; their unpacked content is in $TMPDIR while they are convolved, and not longer."""
    batch("--inputs", "s-*.tar", "--masks", "rooms/*.wav", "--pairs", "random:1", "--seed", "5", "-o", "plain")
    for s, name in enumerate(["s-000.tar.gz", "s-001.tgz", "s-002.tar.gz"]):
        compress(shards / f"s-{s:03d}.tar", shards / name)
    with open(shards / "s-001.tgz", "ab") as file:
        file.write(b"gzip ignores what is behind its end")
    (shards / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(shards / "tmp"))
    monkeypatch.setenv("PATH", "")
    args = ["--inputs", "s-*.t*gz", "--masks", "rooms/*.wav", "--pairs", "random:1", "--seed", "5", "-o", "out"]
    assert batch(*args)["done"] == 21
    assert outputs(shards / "out") == outputs(shards / "plain") and len(outputs(shards / "out")) == 3
    assert not list((shards / "tmp").iterdir())
    assert batch(*args, "--resume")["resumed"] == 21


@pytest.mark.parametrize("damage, says", [
    (lambda content: content[:-40], "is damaged or cut short"),
    (lambda content: content[:-6] + bytes(2) + content[-4:], "is damaged or cut short"),  # its checksum
    (lambda content: b"RIFF" * 400, "is not a tar file"),
], ids=["cut", "checksum", "no gzip"])
def test_a_damaged_compressed_tar_file_is_refused(shards, damage, says):
    (shards / "x.tgz").write_bytes(damage(gzip.compress((shards / "s-000.tar").read_bytes())))
    refused("batch", "--inputs", "x.tgz", "--masks", "rooms/r0.wav", "-o", "out", says=["x.tgz", says])


@pytest.mark.parametrize("name", ["s-001.tar", "s-001.tar.gz"])
def test_a_tar_file_that_is_lost_during_the_run_costs_no_other(shards, name):
    compress(shards / "s-000.tar", shards / "s-000.tar.gz")
    if name.endswith("gz"):
        compress(shards / "s-001.tar", shards / name)
    write(shards / "long.wav", noise(8000000, seed=1), RATE)  # the worker begins with it
    (shards / "list.csv").write_text("input,mask\n" + "".join(
        f"{path},rooms/r0.wav\n" for path in (name, "s-000.tar.gz", "s-002.tar", "long.wav")))
    with subprocess.Popen([HALOCONV, "batch", "list.csv", "-o", "out", "--json", "--workers", "1", "--backend", "cpu"],
                          stdout=subprocess.PIPE, text=True) as run:
        while not (shards / "out/haloconv-batch.journal").exists():
            assert run.poll() is None
        (shards / name).unlink()
        report = json.loads(run.communicate()[0])
    assert run.returncode == 1 and (report["done"], report["failed"]) == (15, 7)
    assert all(f"{name}: cannot be read: " in failure["reason"] for failure in report["failures"])
    assert list(outputs(shards / "out")) == ["s-000_r0.tar", "s-002_r0.tar"]


def test_the_unpacked_tar_files_of_a_report_are_closed_one_by_one(shards):
    for i in range(40):
        pack(f"t-{i}.tar.gz", [("a.wav", sound(50, i))])
        compress(shards / f"t-{i}.tar.gz", shards / f"u-{i}.tar.gz")
    args = ["--inputs", "u-*.tar.gz", "--masks", "rooms/r0.wav", "-o", "out"]
    assert batch(*args)["done"] == 40
    args += ["--workers", "1", "--resume", "--report", "a.jsonl", "-q"]
    run = ["bash", "-c", f"ulimit -n 30; exec {HALOCONV} batch {shlex.join(args)}"]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and len((shards / "a.jsonl").read_text().splitlines()) == 40, done.stderr


def test_a_broken_sound_costs_its_sample_only(shards):
    members = [(name, content) for name, content, *_ in unpack("s-000.tar")]
    at = [name for name, _ in members].index("03.flac")
    pack("bad.tar", members[:at] + [("03.flac", b"fLaC and nothing")] + members[at + 1:])
    done = haloconv("batch", "--inputs", "bad.tar", "--masks", "rooms/r0.wav", "-o", "out")
    assert done.returncode == 1 and "1 file failed" in done.stderr and "bad.tar/03.flac" in done.stderr
    assert [m[0] for m in unpack("out/bad_r0.tar")] == [name for name, _ in members if not name.startswith("03.")]
    shutil.copy("s-000.tar", "bad.tar")  # mended
    args = ["--inputs", "bad.tar", "--masks", "rooms/r0.wav", "-o", "out", "--resume"]
    assert batch(*args)["done"] == 7 and len(unpack("out/bad_r0.tar")) == len(members)


def test_a_sample_with_a_broken_sound_is_in_no_report(shards):
    pack_pairs("p.tar")
    members = [(name, content) for name, content, *_ in unpack("p.tar")]
    pack("p.tar", [(name, b"RIFF" if name == "d/3.ref.wav" else content) for name, content in members])
    args = ["--inputs", "p.tar", "--masks", "rooms/r0.wav", "-o", "out"]
    done = haloconv("batch", *args, "--json", "--report", "a.jsonl", "--backend", "cpu", "--workers", "2")
    report = json.loads(done.stdout)
    assert done.returncode == 1 and (report["done"], report["failed"]) == (14, 2), done.stderr
    assert [failure["row"] for failure in report["failures"]] == [7, 8]
    assert "another sound of its sample failed" in report["failures"][0]["reason"]
    reported = {json.loads(line)["output"].split(".tar/")[1] for line in (shards / "a.jsonl").read_text().splitlines()}
    assert reported == {m[0] for m in unpack("out/p_r0.tar") if m[0].endswith(".wav")} and len(reported) == 14


def test_a_broken_sound_may_be_the_first_in_a_new_folder(shards):
    pack("bad.tar", [("a.wav", b"RIFF" * 9000), ("b.wav", sound(500, 1))])  # the largest begins
    (shards / "list.csv").write_text("input,mask,output\nbad.tar,rooms/r0.wav,deep/er/new.tar\n")
    done = haloconv("batch", "list.csv", "-o", "out", "--workers", "1")
    assert done.returncode == 1 and "1 file, 1 failed" in done.stderr, done.stderr
    assert [m[0] for m in unpack("out/deep/er/new.tar")] == ["b.wav"]


def test_a_tar_file_whose_name_is_too_long_costs_no_other(shards):
    (shards / "list.csv").write_text(f"input,mask,output\ns-000.tar,rooms/r0.wav,{'x' * 252}.tar\n"
                                     "s-001.tar,rooms/r0.wav,b.tar\n")
    done = haloconv("batch", "list.csv", "-o", "out")
    assert done.returncode == 1 and "7 files, 7 failed" in done.stderr and "the name is too long; " in done.stderr
    assert list(outputs(shards / "out")) == ["b.tar"]


def test_sounds_are_begun_in_about_the_order_of_the_tar_file(shards):
    """Else most of a large tar file would wait in memory for a short first sound, because long sounds begin."""
    pack("bad.tar", [("a.wav", b"RIFF"), *((f"{i}.txt", b"") for i in range(1100)), ("z.wav", b"RIFF" * 9000)])
    done = haloconv("batch", "--inputs", "bad.tar", "--masks", "rooms/r0.wav", "-o", "out", "--fail-fast", "-q",
                    "--workers", "1")
    assert done.returncode == 1 and "bad.tar/a.wav" in done.stderr and "z.wav" not in done.stderr


def test_a_tar_file_whose_sounds_all_fail_is_not_made(shards):
    pack("bad.tar", [("a.wav", b"RIFF"), ("a.txt", b"text")])
    done = haloconv("batch", "--inputs", "bad.tar", "--masks", "rooms/r0.wav", "-o", "out")
    assert done.returncode == 1 and "bad.tar/a.wav" in done.stderr
    assert not outputs(shards / "out")


def test_a_second_tar_file_behind_the_end_is_named(shards):
    joined = (shards / "s-000.tar").read_bytes() + (shards / "s-001.tar").read_bytes()
    (shards / "ab.tar").write_bytes(joined)
    args = ["--masks", "rooms/r0.wav", "-o", "out", "--inputs"]
    behind = (shards / "s-001.tar").stat().st_size
    assert f"ab.tar: {behind} bytes behind its end are not read; join" in good("batch", *args, "ab.tar").stderr
    assert "behind" not in good("batch", *args, "s-000.tar").stderr


def linked(path):
    with tarfile.open(path, "w") as tar:
        info = tarfile.TarInfo("a.wav")
        info.type, info.linkname = tarfile.SYMTYPE, "b.wav"
        tar.addfile(info)


@pytest.mark.parametrize("make, says", [
    (lambda path: path.write_bytes(b"RIFF" * 400), "is not a tar file"),
    (lambda path: tarfile.open(path, "w:gz").close(), "unpack a compressed one"),
    (lambda path: pack(path, [("a.txt", b"text")]), "has no sound"),
    (lambda path: (pack(path, [("a.wav", bytes(5000))]), os.truncate(path, 3000)), "is cut short"),
    (linked, "is a link"),
    (os.mkfifo, "is not a regular file"),
    (lambda path: pack(path, [("n" * 5000 + ".wav", sound(9, 1))], format=tarfile.PAX_FORMAT), "a name of 5004 bytes"),
    (lambda path: pack(path, [("n" * 1000000 + ".wav", sound(9, 1))], format=tarfile.PAX_FORMAT), "pax"),
], ids=["no tar", "compressed", "no sound", "cut", "link", "pipe", "name", "long name"])
def test_what_is_no_tar_file_of_sounds_is_refused(shards, make, says):
    make(shards / "x.tar")
    refused("batch", "--inputs", "x.tar", "--masks", "rooms/r0.wav", "-o", "out", says=["x.tar", says])


def test_every_number_of_a_range_must_be_there(shards):
    refused("batch", "--inputs", "s-{000..003}.tar", "--masks", "rooms/r0.wav", "-o", "out", says=["s-003.tar"])
    assert batch("--inputs", "s-{00{0,2},001}.tar", "--masks", "rooms/r0.wav", "-o", "out")["done"] == 21


def test_an_output_for_a_tar_file_is_one_too(shards):
    (shards / "list.csv").write_text("input,mask,output\ns-000.tar,rooms/r0.wav,a.wav\n")
    refused("batch", "list.csv", "-o", "out", says=["list.csv:2: row 1", "a.wav", ".tar"])


def test_no_output_is_an_input(shards):
    (shards / "list.csv").write_text("input,mask,output\ns-000.tar,rooms/r0.wav,s-000.tar\n")
    before = (shards / "s-000.tar").read_bytes()
    refused("batch", "list.csv", "-o", ".", says=["s-000.tar"])
    assert (shards / "s-000.tar").read_bytes() == before


def test_a_full_disk_leaves_no_tar_file(shards):
    run = ["bash", "-c", f"ulimit -f 20; exec {HALOCONV} batch --inputs s-000.tar --masks rooms/r0.wav -o out --json"]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "cannot be written" in done.stderr and "out: 0 files" in done.stderr
    assert [json.loads(done.stdout)[key] for key in ("done", "frames_in", "frames_out")] == [0, 0, 0]
    assert not [p for p in (shards / "out").iterdir() if p.suffix != ".journal"]


def test_levels_are_matched_in_tar_files_too(shards):
    batch("--inputs", "s-002.tar", "--masks", "rooms/r1.wav", "--level", "peak", "-o", "out")
    for (name, x, *_), (_, y, *_) in zip(unpack("s-002.tar"), unpack("out/s-002_r1.tar")):
        if name.endswith(".wav"):
            x, y = (soundfile.read(io.BytesIO(data))[0] for data in (x, y))
            assert abs(np.abs(x).max() - np.abs(y).max()) < 1 / 16384


def test_a_bomb_is_not_unpacked(shards):
    """Zeros of 130 MB in 130 kB: the file that grows in TMPDIR ends at 64 MiB; silence of a usual length is unpacked."""
    silence = io.BytesIO()
    soundfile.write(silence, np.zeros(30 << 20), RATE, format="WAV", subtype="PCM_16")
    pack("silence.tar.gz", [("0.wav", silence.getvalue()[:20 << 20]), ("1.json", b"{}")], mode="w:gz")
    pack("bomb.tar.gz", [("0.wav", silence.getvalue() + bytes(70 << 20))], mode="w:gz")
    refused("batch", "--inputs", "bomb.tar.gz", "--masks", "rooms/r0.wav", "-o", "out",
            says=["bomb.tar.gz: unpacks to more than 100 times its size; unpack it yourself"])
    done = haloconv("batch", "--inputs", "silence.tar.gz", "--masks", "rooms/r0.wav", "-o", "out")
    assert "100 times" not in done.stderr and "0.wav: is cut short" in done.stderr, done.stderr


def test_unpacking_leaves_half_of_the_free_space(shards):
    """On a disk of 16 MB in memory, in a mount namespace of its own."""
    content = np.random.default_rng(1).integers(0, 255, 12 << 20, dtype=np.uint8).tobytes()
    pack("large.tar.gz", [("0.wav", content)], mode="w:gz")
    done = in_namespace("mkdir -p small && mount -t tmpfs -o size=16m none small && export TMPDIR=$PWD/small",
                        "batch", "--inputs", "large.tar.gz", "--masks", "rooms/r0.wav", "-o", "out")
    assert done.returncode == 1 and "it needs more than half of the free space; set TMPDIR" in done.stderr, done.stderr


def test_tar_files_and_shipped_masks_need_no_proc(shards):
    library = f"export LD_LIBRARY_PATH={shlex.quote(str(HALOCONV.parent))}"  # an RPATH with $ORIGIN needs /proc
    done = in_namespace(f"{library} && mount -t tmpfs none /proc", "batch", "--inputs", "s-000.tar", "--masks", "hall", "-o", "out",
                        "--backend", "cpu")
    assert done.returncode == 0 and outputs(shards / "out"), done.stderr


def in_namespace(prepare, *args):
    """Run the program after a shell has mounted something that this process does not see; skip without the right."""
    within = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
    if not shutil.which("unshare") or subprocess.run([*within, prepare], capture_output=True).returncode:
        pytest.skip("this user may not mount")
    if SAN:
        pytest.skip("sanitizers need /proc")
    return subprocess.run([*within, prepare + ' && exec "$@"', "sh", HALOCONV, *args], capture_output=True, text=True,
                          timeout=300)
