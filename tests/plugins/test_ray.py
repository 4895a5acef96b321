"""haloconv.ray: a row is the same for any number of actors, also if one dies; so is a batch on Ray."""

import fcntl
import importlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import scipy.signal
from conftest import BUILD, HALOCONV, ROOT, SAN, assert_close, noise, read, write

RATE = 16000
sys.path.insert(0, str(ROOT / "plugins/python"))
os.environ["HALOCONV_LIBRARY"] = str(BUILD / "libhaloconv.so")
ENV = {"PYTHONPATH": f"{ROOT / 'plugins/python'}:{ROOT / 'tests'}", "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0"}
if SAN:
    pytest.skip("a sanitized library needs a sanitized Python", allow_module_level=True)
import haloconv  # noqa: E402
from haloconv.ray import Reverb  # noqa: E402
from haloconv_adapters import ray_batch  # noqa: E402


@pytest.fixture(scope="module")
def cluster():
    """The address of a cluster of one node with two processors."""
    ray = pytest.importorskip("ray.data", reason="no ray; pip install 'ray[data]'") and importlib.import_module("ray")
    os.environ.update(ENV)
    address = ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=100 << 20,
                       logging_level="ERROR").address_info["gcs_address"]
    ray.data.DataContext.get_current().enable_progress_bars = False
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # the actors cannot import this file
    yield address
    ray.shutdown()


@pytest.fixture
def sounds(folder):
    """Twelve sounds of unlike lengths in in/, at two rates; five rooms in rooms/."""
    (folder / "in").mkdir()
    (folder / "rooms").mkdir()
    for i in range(12):
        write(folder / f"in/u{i:02}.wav", noise(4000 + 977 * i, 1, seed=i), RATE if i % 3 else 8000, "FLOAT")
    for i, n in enumerate([1600, 1601, 3000, 1, 700]):
        room = noise(n, 1, seed=100 + i, scale=0.02)
        room[min(n - 1, 100 * i)] = 1
        write(folder / f"rooms/r{i}.wav", room, RATE, "FLOAT")
    return folder


def rows(folder, n_actors, reverb=Reverb, batch_size=2, n_blocks=6, **options):
    """The rows that n actors make of the sounds in in/, by path."""
    import ray
    data = ray.data.read_audio(str(folder / "in"), include_paths=True, override_num_blocks=n_blocks)
    data = data.map_batches(reverb, fn_constructor_args=[str(folder / "rooms")], fn_constructor_kwargs=options,
                            compute=ray.data.ActorPoolStrategy(size=n_actors), batch_size=batch_size, num_cpus=0.5)
    return {pathlib.Path(row["path"]).name: row for row in data.take_all()}


class DiesOnce(Reverb):
    """The first call of all actors ends its process in mid work."""

    def __init__(self, *args, marker, **options):
        super().__init__(*args, **options)
        self.marker = marker

    def __call__(self, batch):
        out = super().__call__(batch)
        try:
            os.close(os.open(self.marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return out
        os._exit(1)


def test_rows_are_the_same_for_any_actors_also_if_one_dies(cluster, sounds):
    options = {"p": 0.5, "seed": 3, "keep_level": True}
    one = rows(sounds, 1, **options)
    two = rows(sounds, 2, DiesOnce, batch_size=3, n_blocks=4, marker=str(sounds / "died"), **options)
    assert (sounds / "died").exists() and sorted(one) == sorted(two) == [f"u{i:02}.wav" for i in range(12)]
    plain = Reverb(str(sounds / "rooms"), **options)  # no Ray: NumPy alone
    for name, row in one.items():
        x = read(sounds / "in" / name).T.astype(np.float32)
        batch = {"amplitude": [x], "sample_rate": [row["sample_rate"]], "path": [row["path"]]}
        want = plain(batch)
        assert want["response"][0] == row["response"] == two[name]["response"]
        assert want["amplitude"][0].tobytes() == row["amplitude"].tobytes() == two[name]["amplitude"].tobytes()
        if row["response"] < 0:
            assert row["amplitude"].tobytes() == x.tobytes()
    drawn = [row["response"] for row in one.values()]
    assert {-1} < set(drawn)


def wanted(folder, x, rate, number, align, tail):
    h = haloconv.Bank(folder / f"rooms/r{number}.wav", rate=rate).responses[0, 0].astype(np.float64)
    y = scipy.signal.fftconvolve(x, h)
    at = int(np.abs(h).argmax()) if align else 0
    end = np.flatnonzero(h)[-1] + len(x) if tail == "full" else at + len(x)
    return np.concatenate([y, np.zeros(at)])[at:end]


@pytest.mark.parametrize("align, tail", [(True, "same"), (True, "full"), (False, "same"), (False, "full")])
def test_a_row_is_convolved_with_its_response(sounds, align, tail):
    reverb = Reverb(str(sounds / "rooms"), p=1, key="id", align=align, tail=tail)
    x = [noise(3000 + i, 1, seed=i)[:, 0].astype(np.float32) for i in range(20)]
    rates = [8000 if i % 2 else RATE for i in range(20)]
    out = reverb({"amplitude": x, "sample_rate": rates, "id": np.arange(20)})
    assert len(set(out["response"])) == 5
    for i in range(20):
        want = wanted(sounds, x[i], rates[i], out["response"][i], align, tail)
        assert out["amplitude"][i].shape == want.shape
        assert_close(out["amplitude"][i][:, None], want[:, None])


def test_the_amplitudes_become_arrow_without_a_copy(cluster, sounds):
    from ray.data._internal.tensor_extensions.arrow import ArrowVariableShapedTensorArray
    x = [noise(900 + i, 2, seed=i).T for i in range(8)]
    out = Reverb(str(sounds / "rooms"), key="id")({"amplitude": x, "sample_rate": [RATE] * 8, "id": list("abcdefgh")})
    array = ArrowVariableShapedTensorArray.from_numpy(out["amplitude"])
    assert np.shares_memory(array.to_numpy(zero_copy_only=False)[3], out["amplitude"][3])


@pytest.mark.parametrize("n_channels", [1, 2])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_one_call_for_a_batch_is_as_good(sounds, device, n_channels):
    """What a GPU computes, and the same calls on the CPU."""
    torch = pytest.importorskip("torch", reason="no torch")
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("this torch has no CUDA device")
    h = [noise(n, n_channels, seed=n, scale=0.1).T for n in (900, 901, 17)]
    bank = np.stack([np.pad(one, [(0, 0), (0, 901 - one.shape[1])]) for one in h])
    batch = {"amplitude": [noise(2000 + 7 * i, 2, seed=i).T.astype(np.float32) for i in range(12)],
             "sample_rate": [RATE] * 12, "path": list("abcdefghijkl")}
    for options in ({"tail": "full"}, {"align": False, "keep_level": True}):
        want = Reverb(bank, p=0.8, device="cpu", **options)(batch)
        together = Reverb(bank, p=0.8, device=device, **options)
        together._by_torch = True
        got = together(batch)
        assert (got["response"] == want["response"]).all() and len(set(got["response"])) == 4
        for a, b in zip(got["amplitude"], want["amplitude"]):
            assert_close(a.T, b.T)


@pytest.mark.parametrize("counts", [(1, 2, 1, 2), (2, 1, 1)])
def test_one_call_takes_mono_and_stereo_responses_together(folder, counts):
    pytest.importorskip("torch", reason="no torch")
    for i, n_channels in enumerate(counts):
        write(folder / f"r{i}.wav", noise(300 + 9 * i, n_channels, seed=i, scale=0.1), RATE, "FLOAT")
    paths = [str(folder / f"r{i}.wav") for i in range(len(counts))]
    batch = {"amplitude": [noise(2000 + i, 2, seed=i).T for i in range(16)], "sample_rate": [RATE] * 16,
             "path": list(range(16))}
    want = Reverb(paths, p=1, device="cpu")(batch)
    together = Reverb(paths, p=1, device="cpu")
    together._by_torch = True
    got = together(batch)
    assert set(got["response"]) == set(range(len(counts)))
    for a, b in zip(got["amplitude"], want["amplitude"]):
        assert_close(a.T, b.T)


def test_a_reverb_starts_no_cluster():
    pytest.importorskip("ray", reason="no ray")
    code = ("import numpy, ray; from haloconv.ray import Reverb; Reverb(numpy.ones((1, 4), numpy.float32)); "
            "assert not ray.is_initialized()")
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, **ENV}, timeout=60)


def test_levels_channels_and_rates(sounds):
    x = noise(5000, 2, seed=1).T
    batch = {"amplitude": [x], "sample_rate": [RATE], "path": ["a"]}
    h = np.zeros((1, 2, 50), np.float32)
    h[0, :, 9] = 3, 4
    out = Reverb(h, p=1, normalise="energy")(batch)["amplitude"][0]  # mean energy of a channel: 12.5
    assert_close(out.T, (x * np.array([[3], [4]]) / np.sqrt(12.5)).T)
    out = Reverb(h, p=1, keep_level=True, tail="full")(batch)["amplitude"][0]
    assert np.isclose(np.square(out).mean(), np.square(x).mean(), rtol=1e-5)
    with pytest.raises(ValueError, match="2 channels and a row has 1"):
        Reverb(h, p=1)({**batch, "amplitude": [x[:1]]})
    with pytest.raises(ValueError, match="bank is for 8000 Hz, and a row has 16000 Hz"):
        Reverb(haloconv.Bank(h, rate=8000), p=1)(batch)


def test_a_batch_without_its_columns_is_refused():
    reverb, batch = Reverb(np.ones((1, 4), np.float32)), {"amplitude": [np.ones(9)], "sample_rate": [RATE]}
    with pytest.raises(ValueError, match="include_paths=True"):
        reverb(batch)
    with pytest.raises(ValueError, match="no column 'sample_rate'"):
        reverb({"amplitude": [], "path": []})
    with pytest.raises(ValueError, match='batch_format="numpy"'):
        reverb([1])
    for wrong in ({"p": 2}, {"normalise": "rms"}, {"tail": "long"}, {"device": "tpu"}):
        with pytest.raises(ValueError, match="; give "):
            Reverb(np.ones((1, 4), np.float32), **wrong)


# ---- python -m haloconv.ray ------------------------------------------------------------------------------------------
def on_ray(address, *args):
    """Start the program on the cluster."""
    command = [sys.executable, "-m", "haloconv.ray", *args, "--address", address, "--cpus", "1", "--json"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def journal_lines(folder):
    """Every entry of the journals of a folder: hash, bytes, figures, name."""
    lines = [line for path in folder.glob("haloconv-batch*.journal") for line in path.read_text().splitlines()]
    return [line for line in lines if not line.startswith("#")]


def tree(path):
    return {p.name: p.read_bytes() for p in sorted(path.rglob("*.wav"))}


@pytest.fixture
def long_list(sounds):
    """A list of 100 rows that takes a processor about two seconds, with one bad row; the report of `haloconv batch`."""
    write(sounds / "in/long.wav", noise(40 * RATE, 1, seed=50), RATE, "FLOAT")
    rows = [f"in/long.wav,rooms/r*.wav,{i:03}.wav,{i}" for i in range(99)]
    (sounds / "list.csv").write_text("\n".join(["input,mask,output,seed", *rows, "in/none.wav,rooms/r0.wav,bad.wav,1"]))
    done = subprocess.run([HALOCONV, "batch", "list.csv", "-o", "plain", "--json", "-q", "--report", "plain.jsonl"],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return json.loads(done.stdout)


def test_a_batch_on_ray_loses_no_file_if_a_worker_is_killed(cluster, sounds, long_list):
    process = on_ray(cluster, "list.csv", "-o", "out", "--report", "out.jsonl", "--shares", "4", "--retries", "2")
    end = time.monotonic() + 30
    while not (killed := [path for path in (sounds / "out").glob("*.journal") if path.read_text().count(".wav") > 2]):
        assert process.poll() is None and time.monotonic() < end, process.stderr.read()
        time.sleep(0.002)
    program = int(killed[0].read_text().split("process ")[1].split()[0])
    worker = int(pathlib.Path(f"/proc/{program}/stat").read_text().rsplit(")", 1)[1].split()[1])
    assert b"ray::" in pathlib.Path(f"/proc/{worker}/cmdline").read_bytes()
    os.kill(worker, signal.SIGKILL)
    out, messages = process.communicate(timeout=60)
    assert out.startswith("{"), (out, messages)
    report = json.loads(out)
    assert process.returncode == 1 and "no such file" in messages.lower(), messages  # of the bad row
    assert tree(sounds / "out") == tree(sounds / "plain") and len(tree(sounds / "out")) == 99
    assert sorted(journal_lines(sounds / "out")) == sorted(set(journal_lines(sounds / "out")))  # no row twice
    assert (sounds / "out.jsonl").read_text() == (sounds / "plain.jsonl").read_text()
    assert not list((sounds / "out").glob("*.report")) and report["shares"] == 4
    for name in ("done", "resumed", "failed", "failures"):
        assert report[name] == long_list[name]
    assert killed[0].name.split(".")[1].split("of")[0] in [str(one["share"]) for one in report["retried"]]

    (sounds / "out/007.wav").unlink()
    process = on_ray(cluster, "list.csv", "-o", "out", "--resume", "--retries", "0", "--shares", "1")
    out, messages = process.communicate(timeout=60)
    report = json.loads(out)
    assert (report["done"], report["resumed"], report["failed"]) == (1, 98, 1), messages
    assert tree(sounds / "out") == tree(sounds / "plain")


def test_nothing_writes_any_more_when_fail_fast_has_ended(cluster, sounds, long_list):
    lines = (sounds / "list.csv").read_text().splitlines()
    (sounds / "list.csv").write_text("\n".join([lines[0], lines[-1], *lines[1:-1]]))  # the bad row first
    process = on_ray(cluster, "list.csv", "-o", "out", "--fail-fast", "--shares", "2")
    out, messages = process.communicate(timeout=60)
    files = {path.name: path.stat().st_mtime_ns for path in (sounds / "out").iterdir()}
    time.sleep(0.5)
    assert files == {path.name: path.stat().st_mtime_ns for path in (sounds / "out").iterdir()}
    assert process.returncode == 1 and json.loads(out)["failed"] == 1, messages
    assert "no such file" in messages.lower()


def test_a_driver_that_is_killed_and_started_again_loses_no_file(cluster, sounds, long_list):
    arguments = ["list.csv", "-o", "out", "--report", "out.jsonl", "--resume", "--shares", "4", "--retries", "4"]
    process = on_ray(cluster, *arguments)
    end = time.monotonic() + 30
    while sum(".wav" in line for line in journal_lines(sounds / "out")) < 5:
        assert process.poll() is None and time.monotonic() < end, process.stderr.read()
        time.sleep(0.002)
    process.kill()
    process.communicate()
    (sounds / "out/haloconv-batch.1of9.report").write_text('{"row": 1')  # of another number of shares
    process = on_ray(cluster, *arguments)
    out, messages = process.communicate(timeout=60)
    assert process.returncode == 1 and out.startswith("{"), (out, messages)
    report = json.loads(out)
    assert report["done"] + report["resumed"] == 99 and report["resumed"] >= 5 and report["failed"] == 1
    assert tree(sounds / "out") == tree(sounds / "plain")
    assert sorted(journal_lines(sounds / "out")) == sorted(set(journal_lines(sounds / "out")))
    assert (sounds / "out.jsonl").read_text() == (sounds / "plain.jsonl").read_text()
    assert sorted(path.name for path in (sounds / "out").iterdir() if path.suffix not in (".wav", ".journal")) == []


def test_a_full_disk_is_one_sentence_and_leaves_no_half_file(sounds, monkeypatch):
    """The program may write files of 100 kB: the largest of three does not fit."""
    write(sounds / "in/long.wav", noise(40 * RATE, 1, seed=50), RATE, "FLOAT")
    rows = [f"in/{sound}.wav,rooms/r0.wav,{name}.wav\n" for sound, name in [("u00", "a"), ("long", "b"), ("u01", "c")]]
    (sounds / "list.csv").write_text("input,mask,output\n" + "".join(rows))
    program = sounds / "small_files"
    program.write_text(f"#!/bin/sh\ntrap '' XFSZ\nulimit -f 200\nexec {HALOCONV.resolve()} \"$@\"\n")
    program.chmod(0o755)
    monkeypatch.setattr(ray_batch, "find", lambda: str(program))
    shares = ray_batch._Shares(ray_batch._parse(["list.csv", "-o", "out", "--retries", "1"])[0], ["list.csv"], 1)
    assert shares.add(1, *ray_batch._run(str(sounds), shares.arguments(1), 0))
    assert not shares.add(1, *ray_batch._run(str(sounds), shares.arguments(1), 0))
    summary = shares.summary(1)
    reason = summary["failures"][0]["reason"]
    assert "b.wav" in reason and "File too large" in reason and "\n" not in reason
    assert summary["failed"] == 1 and summary["retried"] == [{"share": 1, "reason": reason}]
    files = {path.name for path in (sounds / "out").iterdir() if path.suffix != ".journal"}
    assert files <= {"a.wav", "c.wav"} and len(files) == summary["done"]  # the program stops where the disk is full


def test_a_report_that_does_not_fit_leaves_no_half_file(folder):
    own = ray_batch._parse(["list.csv", "-o", ".", "--report", "all.jsonl"])[0]
    shares = ray_batch._Shares(own, ["list.csv"], 1)
    pathlib.Path(shares.report_path(1)).write_text('{"row": 1}\n' * 1000)
    code = ("import resource, signal; from haloconv_adapters import ray_batch as b; "
            "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)); "
            "b._Shares(b._parse(['list.csv', '-o', '.', '--report', 'all.jsonl'])[0], [], 1).write_report()")
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, **ENV}, stderr=subprocess.PIPE, text=True)
    assert "File too large" in done.stderr
    assert [path.name for path in folder.iterdir()] == ["haloconv-batch.1of1.report"]


def test_a_try_that_ends_early_forgets_no_file():
    shares = ray_batch._Shares(ray_batch._parse(["list.csv", "-o", "out", "-q"])[0], ["list.csv"], 1)
    zeros = dict.fromkeys(("frames_in", "frames_out", "clipped_samples", "clipped_files", "times_realtime"), 0)
    for done, resumed in [(5, 2), (0, 0), (1, 3), (0, 8)]:
        shares.add(1, 1, {"done": done, "resumed": resumed, "failures": [], "times": {}, "seconds": 1, **zeros}, "")
    assert shares.summary(1)["done"] == 8


def test_an_end_without_a_report_has_a_reason(folder, monkeypatch):
    program = folder / "dies"
    program.write_text("#!/bin/sh\nprintf '{\"done\": 1'\nkill -9 $$\n")
    program.chmod(0o755)
    monkeypatch.setattr(ray_batch, "find", lambda: str(program))
    assert ray_batch._run(str(folder), [], 0) == (-9, None, "")
    shares = ray_batch._Shares(ray_batch._parse(["list.csv", "-o", "out", "-q"])[0], ["list.csv"], 1)
    assert shares.add(1, -9, None, "") and shares.retried == [{"share": 1, "reason": "signal 9 (Killed)"}]
    assert ray_batch._reason(ConnectionError()) == "ConnectionError"
    assert ray_batch._reason(OSError("no\nroute")) == "no"


def test_what_ray_cannot_share_out_is_refused(cluster, sounds):
    for args, status, reason in [(["l.csv", "--shard", "1/2"], 2, "--shard is given"),
                                 (["-"], 2, "a list on standard input"), (["l.csv", "--level", "loud"], 2, "loud"),
                                 (["l.csv", "--gpus", "-1"], 2, "--gpus needs"),
                                 (["l.csv", "--gpus", "64"], 1, "1 processors and 64 GPUs")]:
        process = on_ray(cluster, *args, "-o", "out")
        _, messages = process.communicate(timeout=60)
        assert process.returncode == status and reason in messages, messages


def test_shares_that_fit_a_node():
    node = {"CPU": 16.0, "GPU": 2.0, "memory": 1e9}
    assert [ray_batch._fits(node, cpus, gpus) for cpus, gpus in
            [(1, 0), (4, 0), (4, 1), (4, 0.5), (16, 1), (17, 0), (1, 3)]] == [16, 4, 2, 4, 1, 0, 0]
    assert ray_batch._fits({"CPU": 4.0}, 1, 0.5) == 0


def test_a_node_without_the_program_fails_its_share_alone(monkeypatch):
    monkeypatch.setattr("haloconv._program.os.access", lambda path, mode: False)
    with pytest.raises(FileNotFoundError) as error:
        ray_batch._run(".", ["list.csv"], 0)
    shares = ray_batch._Shares(ray_batch._parse(["list.csv", "-o", "out", "-q"])[0], ["list.csv"], 2)
    assert shares.add(1, -1, None, ray_batch._reason(error.value))  # again, perhaps elsewhere
    assert "the program is not installed" in shares.retried[0]["reason"]


def test_no_journal_is_removed_while_one_is_in_use(folder, capsys):
    journals = [folder / f"haloconv-batch.{i}of3.journal" for i in (1, 2, 3)]
    for journal in journals:
        journal.write_text("")
    for held in journals:
        with open(held, "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            with pytest.raises(SystemExit):
                ray_batch._forget_journals(str(folder))
        assert str(held) in capsys.readouterr().err and all(map(pathlib.Path.exists, journals))
    ray_batch._forget_journals(str(folder))
    assert not any(map(pathlib.Path.exists, journals))
