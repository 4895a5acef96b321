"""Every allocation, thread and input/output call of a command fails once, and from then on, in turn.

Exit status 0 means the same output as without the fault; another one means a message, no crash, no hang, no partly
written file and an old output kept. tests/tools/fault_calls.h says which calls fail. A sample of them fails in
`make test`; `make fault-test` (HC_TEST_FAULTS=all) takes them all.
"""

import json
import os
import shutil
import subprocess
import tarfile

import numpy as np
import pytest
import soundfile
from conftest import BUILD, SAN, chance, good, noise, write

try:
    import h5py
except ImportError:
    h5py = None

PROGRAM = BUILD / "tests/haloconv_faults"
SAMPLE = 0 if os.environ.get("HC_TEST_FAULTS") == "all" else 8 if SAN else 20  # faults a command; 0: all
LEAK = 99  # exit status of a sanitizer
OLD = {"y.wav", "y.flac", "y.txt", "y.svg"}  # an output that is there before the command runs
TIMES = {"time", "times", "seconds", "times_realtime", "files_a_second"}  # in reports
# Commands run in a new folder beside the folder `in`.
CONVOLVE = ["convolve", "-q", "--backend", "cpu"]
BATCH = ["batch", "../in/list.csv", "-q", "-o", "out", "--backend", "cpu", "--workers", "2"]
SWEEP = ["--rate", "4000", "--from", "100", "--to", "1600", "--length", "0.1", "--silence", "0.1", "--outputs", "2"]
COMMANDS = {
    "wav": [*CONVOLVE, "../in/x.wav", "../in/h.wav", "-o", "y.wav"],
    "long": [*CONVOLVE, "../in/long.wav", "../in/h.wav", "-o", "y.wav", "--json"],
    "flac": [*CONVOLVE, "../in/x.flac", "../in/h.txt", "-o", "y.flac"],
    "pipes": [*CONVOLVE, "-", "../in/h.wav", "-o", "-", "--format", "flac"],
    "resampled": [*CONVOLVE, "../in/x.wav", "../in/h-%r.wav", "-o", "y.wav"],
    "configuration": [*CONVOLVE, "../in/x.wav", "../in/room.conf", "-o", "y.wav"],
    "scaled": [*CONVOLVE, "../in/x.wav", "../in/h.wav", "-o", "y.wav", "--level", "rms"],
    "batch": BATCH,
    "json_list": [*BATCH[:1], "../in/list.json", *BATCH[2:], "--level", "peak", "--json", "--report",
                  "report.jsonl"],
    "resume": [*BATCH, "--resume"],
    "tar": ["batch", "--inputs", "../in/shard.tar.gz", "--masks", "../in/h.wav", *BATCH[2:], "--report", "report.jsonl"],
    "moving": [*CONVOLVE, "../in/x.wav", "../in/bank.csv", "--path", "../in/path.csv", "-o", "y.wav", "--mix"],
    "moving_batch": ["batch", "../in/moving.csv", *BATCH[2:], "--report", "report.jsonl"],
    "patterns": ["batch", "--inputs", "../in/x.*", "--masks", "../in/h*.wav", "--pairs", "random:1", *BATCH[2:]],
    "design": ["design", "lowpass", "--cutoff", "8000", "--taps", "31", "-o", "y.wav", "--json"],
    "design_text": ["design", "room", "--rt60", "0.01", "-o", "y.txt"],
    "crossover": ["design", "crossover", "--cutoff", "3000", "--type", "linear", "-o", "y.wav", "--json"],
    "mask": ["mask", "convolve", "-", "../in/h.txt", "-o", "y.wav", "--json"],
    "correct": ["design", "correct", "../in/x.wav", "--target", "../in/house.txt", "--rate", "8000", "--taps", "256",
                "--calibration", "../in/house.txt", "-o", "y.wav", "--json", "--plot", "y.svg"],
    "invert": ["design", "invert", "../in/h.wav", "--taps", "256", "-o", "y.wav"],
    "sweep": ["measure", "--write-sweep", "y.flac", "-q", *SWEEP],
    "measure": ["measure", "--from-recording", "../in/sweep.flac", "--sweep", "../in/sweep.flac", "-o", "y.wav",
                "--calibration", "../in/house.txt", "--json"],
    "info": ["info", "../in/h.wav", "--json"],
    "info_text": ["info", "../in/room.conf"],
    "info_room": ["info", "../in/room.wav"],
    "info_list": ["info", "../in/bank.csv", "--json"],
    "info_sofa": ["info", "../in/bank.sofa", "--rate", "24000", "--grid", "20", "--normalise"],
    "plot": ["info", "-q", "../in/room.conf", "--plot", "y.svg", "--panels", "magnitude,decay,spectrogram"],
    "check": ["check", "../in/room.conf", "--json"],
    "check_text": ["check", "../in/room.conf"],
}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("faults") / "in"
    folder.mkdir()
    write(folder / "x.wav", noise(3000, 2))
    # A title in WAV is a LIST chunk: libsndfile never ends if all reads after that word fail.
    with soundfile.SoundFile(folder / "x.flac", "w", 48000, 2, "PCM_16") as sound:
        sound.title = "noise"
        sound.write(noise(3000, 2))
    write(folder / "long.wav", noise(1100000, 2), subtype="PCM_16")
    write(folder / "h.wav", noise(300, 2))
    write(folder / "h-44100.wav", noise(300, 2), rate=44100)
    write(folder / "room.wav", noise(6000, 4) * 10 ** (-3 * np.arange(6000)[:, None] / 4800).astype(np.float32))
    np.savetxt(folder / "h.txt", noise(300, 2))
    (folder / "house.txt").write_text("20 3\n1000 0\n")
    good("measure", "--write-sweep", folder / "sweep.flac", *SWEEP)
    (folder / "bank.csv").write_text("azimuth,elevation,file\n-30,0,h.wav\n30,0,x.wav\n0,20,h.wav\n")
    if h5py:
        with h5py.File(folder / "bank.sofa", "w") as f:
            f.attrs.update({name: np.bytes_(text) for name, text in (
                ("Conventions", "SOFA"), ("SOFAConventions", "SimpleFreeFieldHRIR"), ("DataType", "FIR"))})
            f["Data.IR"] = noise(5 * 2 * 64).reshape(5, 2, 64)
            f["Data.Delay"], f["Data.SamplingRate"] = [[0.5, 3]], [48000.0]
            f["SourcePosition"] = [[40.0 * i, 10 * i, 1] for i in range(5)]
            f["SourcePosition"].attrs["Type"] = np.bytes_("spherical")
    (folder / "leaks").write_text("leak:libsndfile.so\nleak:libFLAC.so\nleak:libmysofa.so\n")  # of a file that it fails to open
    (folder / "room.conf").write_text("/convolver/new 2 2 256 1000\n/impulse/read 1 1 0.5 0 0 0 1 h.wav\n"
                                      "/impulse/read 2 2 0.5 0 0 0 2 h.wav\n/impulse/dirac 1 2 0.1 10\n")
    rows = [("x.wav", "h.wav", "a.wav"), ("x.flac", "h.txt", "b.wav"), ("x.wav", "room.conf", "c.flac")]
    paths = [[str(folder / row[0]), str(folder / row[1]), row[2]] for row in rows]
    (folder / "list.csv").write_text("input,mask,output\n" + "".join(",".join(p) + "\n" for p in paths))
    with tarfile.open(folder / "shard.tar.gz", "w:gz") as tar:
        for name in ("x.wav", "h.txt"):  # one sound: a tar file without it would not be made
            tar.add(folder / name, name)
    cells = [{"noise": f"{folder}/x.*", "snr": 10, "early": 2}, {"start": 0.01, "align": True}, {}]
    (folder / "list.json").write_text("".join(
        json.dumps({"input": p[0], "mask": p[1], "output": p[2], **more}) + "\n" for p, more in zip(paths, cells)))
    (folder / "bank.csv").write_text("azimuth,elevation,file\n0,0,h.wav\n90,0,room2.wav\n180,0,h.wav\n0,90,h.wav\n")
    write(folder / "room2.wav", noise(300, 2, seed=4))
    (folder / "path.csv").write_text("time,source,azimuth\n0,1,0\n0,2,90\n0.05,1,100\n")
    (folder / "moving.csv").write_text("input,mask,path,output\n" + "".join(
        f"{folder}/x.wav,{folder}/{mask},{path},{name}\n" for mask, path, name in (
            ("bank.csv", f"{folder}/path.csv", "a.wav"), ("bank.csv", "random:speed=900", "b.wav"),
            ("h.wav", "", "c.wav"))))
    return folder


class Run:
    """A command in the folder `run`: exit status, standard streams, and all files but the journal."""

    def __init__(self, inputs, command, fault="", log=""):
        folder = inputs.parent / "run"
        environment = dict(os.environ, TMPDIR=str(folder / "tmp"), HALOCONV_COSTS="builtin",
                           ASAN_OPTIONS=f"detect_stack_use_after_return=1:exitcode={LEAK}",
                           LSAN_OPTIONS=f"suppressions={inputs / 'leaks'}:print_suppressions=0")
        environment.update({"HC_FAULT": fault} if fault else {}, **{"HC_FAULT_LOG": str(log)} if log else {})
        self.command, self.hangs = command, False
        with open(inputs / "x.wav", "rb") as source:
            process = subprocess.Popen([str(PROGRAM), *command], cwd=folder, env=environment, stdin=source,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            self.out, self.err = process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            process.kill()
            self.out, self.err = process.communicate()
            self.hangs = True
        self.status = process.returncode
        self.files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*")
                      if path.is_file() and path.suffix != ".journal"}

    def report(self):
        """Standard output; times differ from run to run."""
        if "--json" not in self.command:
            return self.out
        try:
            return {key: value for key, value in json.loads(self.out).items() if key not in TIMES}
        except ValueError:
            return self.out


def new_folder(inputs, name):
    """The folder `run`, with an old output, or with what an earlier batch has done."""
    folder = inputs.parent / "run"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "tmp").mkdir(parents=True)
    for path in OLD & set(COMMANDS[name]):
        (folder / path).write_bytes(b"old")
    if name == "resume":
        shutil.copytree(inputs.parent / "half", folder / "out")


def wrong(inputs, run, want, may_leave):
    """What a run with a fault did wrong, or nothing."""
    files = {path: data for path, data in run.files.items()
             if not (may_leave and (path.startswith("tmp/") or path.endswith(".part")))}
    if run.hangs:
        return "hangs"
    if run.status < 0 or run.status == LEAK:
        return f"ends with {run.status}: {run.err.decode()[-3000:]}"
    if run.status == 0:
        differ = sorted(path for path in {*files, *want.files} if files.get(path) != want.files.get(path))
        same = not differ and run.report() == want.report()
        return "" if same else f"exit 0, but these files differ: {differ}; standard output: {run.out[-200:]!r}"
    if b"haloconv: " not in run.err and b'"ok": false' not in run.out:  # check --json has its errors there
        return f"exit {run.status} without a message: {run.err!r}"
    for path, data in files.items():
        if path == "report.jsonl" and set(data.splitlines()) < set(want.files[path].splitlines()):
            continue  # without the files that failed
        if data not in (want.files.get(path), path in OLD and b"old"):
            return f"exit {run.status}, but left {path}, {len(data)} bytes"
    if OLD & set(want.files) - set(files):
        return "the old output is lost"
    if run.command[0] == "batch" and not may_leave:
        again = Run(inputs, run.command + ["--resume"] * ("--resume" not in run.command))
        if again.status != 0 or again.files != want.files:
            return f"--resume does not correct it: exit {again.status}, {sorted(again.files)}: {again.err.decode()}"
    return ""


def callers(log):
    """The functions that the failed call was made from, innermost first: [(name, place)]."""
    addresses = log.read_text().split()[3:]
    done = subprocess.run(["addr2line", "-f", "-i", "-s", "-e", str(PROGRAM), *addresses], text=True,
                          capture_output=True, check=False)
    lines = done.stdout.splitlines()
    return [pair for pair in zip(lines[::2], lines[1::2]) if "fault_calls.c" not in pair[1]]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_fault_is_an_error_or_does_not_matter(inputs, name):
    if not PROGRAM.exists():
        pytest.skip("make builds no haloconv_faults here")
    if name == "info_sofa" and (not h5py or "HC_WITH_HDF5" not in (BUILD / "flags").read_text()):
        pytest.skip("no h5py, or no HDF5 in the build; make setup-test installs both")
    log = inputs.parent / "log"
    log.unlink(missing_ok=True)
    if name == "resume":  # two of three rows are done
        new_folder(inputs, "batch")
        assert Run(inputs, BATCH).status == 0
        (inputs.parent / "run/out/b.wav").unlink()
        (inputs.parent / "run/out").rename(inputs.parent / "half")
    new_folder(inputs, name)
    want = Run(inputs, COMMANDS[name], log=log)
    assert want.status == 0, want.err
    calls = {}  # the numbers of all calls with the same stack
    for line in log.read_text().splitlines():
        kind, n, stack = line.split(" ", 2)
        calls.setdefault((kind, stack), []).append(int(n))
    faults = [f"{kind} {n} {how}" for (kind, _), numbers in calls.items()
              for n in sorted({numbers[0], numbers[len(numbers) // 2], numbers[-1]})
              for how in ("once", "onward") if (kind, how) != ("eintr", "onward")]
    picked = faults if not SAMPLE else chance(name).sample(faults, min(SAMPLE, len(faults)))
    problems = []
    for fault in picked:
        log.unlink(missing_ok=True)
        new_folder(inputs, name)
        run = Run(inputs, COMMANDS[name], fault, log)
        call = next(iter(log.read_text().split()[2:]), "")  # none: threads made fewer calls this time
        # A file that cannot be removed stays.
        problem = wrong(inputs, run, want, fault.startswith("io") and (fault.endswith("onward") or call == "unlink"))
        if problem:
            places = " < ".join([call, *(f"{name} ({place})" for name, place in (callers(log) if call else []))])
            problems.append(f"HC_FAULT='{fault}': {problem}\n    {places}")
    if problems:
        command = " ".join(COMMANDS[name])
        pytest.fail("\n".join([f"{len(problems)} of {len(picked)} faults of '{command}':", *problems]), pytrace=False)
