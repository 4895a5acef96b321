"""`python -m haloconv.ray`: `haloconv batch` on a Ray cluster, a task for each share of the list.

    list --> haloconv batch --shard 1/N --resume   a task of Ray on some node     --> outputs, journal 1ofN
             haloconv batch --shard 2/N --resume   another one                    --> outputs, journal 2ofN  ...

The rules are those of the program: a file has its name once it is complete, and the share's journal lists it then. A
task that dies (its worker, its node, no memory) takes its program along and runs again, on any node, for the rows that
the journals lack. The nodes see the list, the sounds and the output folder under the same paths.
"""

import argparse
import collections
import contextlib
import ctypes
import errno
import fcntl
import functools
import glob
import json
import os
import signal
import subprocess
import sys
import time
from typing import Any, Dict, List, NoReturn, Optional, Sequence, Tuple

from haloconv._program import find

_SUMS = ("done", "frames_in", "frames_out", "clipped_samples", "clipped_files")
_RETRY_WAIT_S, _MAX_WAIT_S = 2, 60  # from the second retry on, while another process holds the journal; doubles
_END_WAIT_S = 10  # for shares that are cancelled
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)  # of a file system without locks
_prctl = ctypes.CDLL(None).prctl  # looked up here: a child of fork() must not wait for the dynamic linker's lock
Ended = Tuple[int, Optional[Dict[str, Any]], str]  # exit status, report, and the last messages of a program


def _die_with(parent: int) -> None:
    _prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:  # it ended before the call
        os._exit(1)


def _run(folder: str, arguments: Sequence[str], wait_s: float) -> Ended:
    """A task: run `haloconv batch` in a folder. If Ray ends the task's worker, the kernel ends the program.

    Raises FileNotFoundError on a node without the program: the share runs again, perhaps on another node.
    """
    time.sleep(wait_s)
    done = subprocess.run([find(), "batch", *arguments], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, errors="replace", preexec_fn=functools.partial(_die_with, os.getpid()))
    try:
        report = json.loads(done.stdout)
    except ValueError:  # the program ended before its report, or amid it
        report = None
    return done.returncode, report, done.stderr[-2000:].strip()


def _error(text: str, status: int = 1) -> NoReturn:
    print(f"haloconv: error: {text}", file=sys.stderr)
    sys.exit(status)


def _parse(arguments: Optional[Sequence[str]]) -> Tuple[argparse.Namespace, List[str]]:
    """Our options, and the arguments for `haloconv batch`."""
    parser = argparse.ArgumentParser(
        "python -m haloconv.ray", allow_abbrev=False, usage="%(prog)s [OPTION...] LIST -o FOLDER",
        description="Runs `haloconv batch` on a Ray cluster. All other options are those of `haloconv batch`, and so "
                    "are journal, report and exit status. All nodes need the same paths to the files.")
    add = parser.add_argument
    add("-o", "--output", metavar="FOLDER", required=True, help="output folder, on a file system that all nodes share")
    add("--address", default="auto", help="address of the cluster [the one that this machine belongs to]")
    add("--cpus", type=int, metavar="N", help="processors of a share, and its --workers [those of the smallest node]")
    add("--gpus", type=float, default=0, metavar="N", help="GPUs of a share [0]")
    add("--shares", type=int, metavar="N", help="shares of the list [4 for each that can run at the same time]")
    add("--actors", type=int, metavar="N", help="shares that run at the same time [as many as the cluster can]")
    add("--retries", type=int, default=3, metavar="N", help="how often a share that failed runs again [3]")
    for name in ("--resume", "--json", "--fail-fast"):
        add(name, action="store_true", help="as for haloconv batch")
    add("-q", "--quiet", action="store_true", help="print errors only")
    add("--report", metavar="FILE", help="as for haloconv batch")
    own, others = parser.parse_known_args(arguments)
    if any(word.split("=")[0] == "--shard" for word in others):
        parser.error("--shard is given to each share by Ray; omit it")
    if "-" in others:
        parser.error("a list on standard input cannot be shared out; give the path of a file")
    if own.report == "-":
        parser.error("--report - has no file; give the report a file")
    for name in ("cpus", "shares", "actors"):
        if getattr(own, name) is not None and getattr(own, name) < 1:
            parser.error(f"--{name} needs a number from 1")
    if own.gpus < 0:
        parser.error("--gpus needs a number from 0")
    return own, others


def _reason(error: Exception) -> str:
    """Returns one line: the exception of a task of Ray, or why its worker ended."""
    return (str(getattr(error, "cause", None) or error).strip() or type(error).__name__).splitlines()[0]


def _left_over(folder: str, ending: str) -> List[str]:
    return glob.glob(os.path.join(glob.escape(folder), f"haloconv-batch*.{ending}"))


def _forget_journals(folder: str) -> None:
    """Remove the journals of earlier runs, so that no retry counts their rows as done."""
    paths = _left_over(folder, "journal")
    with contextlib.ExitStack() as locked:  # all of them, before one is removed
        for path in paths:
            journal = locked.enter_context(open(path, "r+b"))  # NFS locks no file that is open for reading only
            try:
                fcntl.flock(journal, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                _error(f"{path}: another process writes to this folder; wait until that ends, or choose another folder")
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    _error(f"{path}: cannot be locked: {error.strerror}; choose another folder, or use --resume")
        for path in paths:
            os.unlink(path)


def _fits(resources: Dict[str, float], cpus: int, gpus: float) -> int:
    """Returns how many shares of so many processors and GPUs a node can run at the same time."""
    n = int(resources.get("CPU", 0) // cpus)
    return min(n, int(resources.get("GPU", 0) // gpus)) if gpus else n


def _end_of(status: int) -> str:
    """An exit status as text; a negative one is a signal's number."""
    return f"exit status {status}" if status >= 0 else f"signal {-status} ({signal.strsignal(-status)})"


class _Shares:
    """The shares of a list, and what became of them."""

    def __init__(self, own: argparse.Namespace, others: Sequence[str], n: int) -> None:
        self.own, self.n = own, n
        self.common = [*others, "-o", own.output, "--resume", "--json"] + ["--fail-fast"] * own.fail_fast
        self.sums: Dict[str, float] = collections.Counter()
        self.times: Dict[str, float] = collections.Counter()
        self.have: Dict[int, int] = collections.Counter()  # the files of each share, by all of its reports
        self.last: Dict[int, Optional[Dict[str, Any]]] = {}  # the last report of each share
        self.problems: Dict[int, str] = {}
        self.retried: List[Dict[str, Any]] = []
        self.tries: Dict[int, int] = collections.Counter()

    def report_path(self, share: int) -> str:
        return os.path.join(self.own.output, f"haloconv-batch.{share}of{self.n}.report")

    def arguments(self, share: int) -> List[str]:
        report = ["--report", self.report_path(share)] if self.own.report else []
        return [*self.common, *report, "--shard", f"{share}/{self.n}"]

    def add(self, share: int, status: int, report: Optional[Dict[str, Any]], messages: str) -> bool:
        """Count a try of a share. Returns whether the share is to run again."""
        if status == 2:
            _error(messages.split("error: ", 1)[-1], 2)
        self.tries[share] += 1
        self.last[share] = report
        if report:
            # A try resumes what earlier ones made, unless it ends early, as on a full disk.
            self.have[share] = report["done"] + max(report["resumed"], self.have[share])
            for name in _SUMS:
                self.sums[name] += report[name]
            for name, seconds in report["times"].items():
                self.times[name] += seconds
            self.sums["sound_s"] += report["times_realtime"] * report["seconds"]
        self.problems.pop(share, None)
        if status == 0:
            return False
        reason = messages.splitlines()[-1].split("haloconv: ", 1)[-1] if messages else _end_of(status)
        if report and report["failures"]:
            reason = report["failures"][0]["reason"]
        again = self.tries[share] <= self.own.retries and not (self.own.fail_fast and report)
        if again:
            self.retried.append({"share": share, "reason": reason})
            if not self.own.quiet:
                print(f"haloconv: share {share} of {self.n} runs again: {reason}", file=sys.stderr)
        else:
            self.problems[share] = reason
        return again

    def summary(self, seconds: float) -> Dict[str, Any]:
        """The report of `haloconv batch`, summed, with `shares` and `retried`."""
        last = [report for report in self.last.values() if report]
        failures = sorted((one for report in last for one in report["failures"]), key=lambda one: one["row"])
        have = sum(self.have.values())
        if not self.own.resume:
            self.sums["done"] = have  # also those of a try that died before it could report
        first = last[0] if last else {}
        return {"done": int(self.sums["done"]), "resumed": int(have - self.sums["done"]),
                "failed": len(failures), "failures": failures,
                **{name: int(self.sums[name]) for name in ("frames_in", "frames_out")}, "seconds": seconds,
                "files_a_second": self.sums["done"] / seconds, "times_realtime": self.sums["sound_s"] / seconds,
                **{name: int(self.sums[name]) for name in ("clipped_samples", "clipped_files")},
                **{name: first.get(name) for name in ("backend", "device", "workers")},
                "times": self.times, "shares": self.n, "retried": self.retried}

    def write_report(self) -> None:
        """Join the reports of the shares in the order of the list. Raises OSError."""
        lines = []
        for share in range(1, self.n + 1):
            if os.path.exists(self.report_path(share)):
                with open(self.report_path(share), encoding="utf-8", errors="surrogateescape") as file:
                    lines += [(json.loads(line)["row"], line) for line in file]
        part = f"{self.own.report}.{os.getpid()}.part"
        try:
            with open(part, "w", encoding="utf-8", errors="surrogateescape") as file:
                file.writelines(line for _, line in sorted(lines, key=lambda one: one[0]))
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, self.own.report)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(part)
            raise
        for share in range(1, self.n + 1):
            if os.path.exists(self.report_path(share)):
                os.unlink(self.report_path(share))


def _work(shares: _Shares, cpus: int) -> None:
    """Run all shares, and again those that fail."""
    import ray
    task = ray.remote(_run).options(num_cpus=cpus, num_gpus=shares.own.gpus, max_retries=0,
                                    scheduling_strategy="SPREAD", name="haloconv batch")
    waiting = collections.deque(range(1, shares.n + 1))
    running: Dict[Any, int] = {}
    folder = os.getcwd()
    while waiting or running:
        while waiting and len(running) < (shares.own.actors or shares.n):
            share = waiting.popleft()
            tries = shares.tries[share]
            wait_s = min(_RETRY_WAIT_S * 2 ** (tries - 2), _MAX_WAIT_S) if tries > 1 and not shares.last[share] else 0
            running[task.remote(folder, shares.arguments(share), wait_s)] = share
        for ref in ray.wait(list(running))[0]:
            share = running.pop(ref)
            try:
                ended: Ended = ray.get(ref)
            except ray.exceptions.RayError as error:  # its worker, its node or its memory is gone
                ended = -1, None, _reason(error)
            if shares.add(share, *ended):
                waiting.append(share)
            elif shares.own.fail_fast and shares.problems:
                for other in running:
                    ray.cancel(other, force=True)
                if running:
                    ray.wait(list(running), num_returns=len(running), timeout=_END_WAIT_S)
                return


def main(arguments: Optional[Sequence[str]] = None) -> NoReturn:
    own, others = _parse(arguments)
    try:
        import ray
    except ImportError:
        _error("Ray is not installed; pip install 'ray[data]'")
    start = time.monotonic()
    stdout = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="surrogateescape")
    os.dup2(2, 1)  # Ray writes messages to standard output, where the report goes
    try:
        ray.init(address=own.address, log_to_driver=False, logging_level="ERROR")
    except ConnectionError as error:
        _error(f"no Ray cluster at {own.address}: {_reason(error)}; start one with `ray start --head`")
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    nodes = [node for node in nodes if _fits(node, own.cpus or 1, own.gpus)]
    if not nodes:
        _error(f"no node of the cluster has {own.cpus or 1} processors and {own.gpus:g} GPUs; lower --cpus or --gpus")
    cpus = own.cpus or int(min(node["CPU"] for node in nodes))
    at_once = own.actors or sum(_fits(node, cpus, own.gpus) for node in nodes)
    if not own.resume:
        _forget_journals(own.output)
    for path in _left_over(own.output, "report"):  # of a run that was killed
        os.unlink(path)
    if not any(word.split("=")[0] == "--workers" for word in others):
        others += ["--workers", str(cpus)]
    shares = _Shares(own, others, own.shares or 4 * at_once)
    _work(shares, cpus)
    summary = shares.summary(time.monotonic() - start)
    status = 1 if shares.problems else 0
    if own.report:
        try:
            shares.write_report()
        except OSError as error:
            status = 1
            print(f"haloconv: error: {own.report}: cannot be written: {error.strerror}; choose another --report, and "
                  "use --resume", file=sys.stderr)
    for one in summary["failures"]:
        print(f"haloconv: row {one['row']}: {one['reason']}", file=sys.stderr)
    for share, reason in shares.problems.items():
        if not (shares.last[share] or {}).get("failures"):  # else its rows are listed above
            print(f"haloconv: error: share {share} of {shares.n}: {reason}; run again with --resume", file=sys.stderr)
    if not own.quiet:
        print(f"haloconv: {own.output}: {summary['done']} files, {summary['resumed']} from an earlier run, "
              f"{summary['failed']} failed, {len(shares.retried)} shares retried; {summary['files_a_second']:.0f} a "
              f"second, {summary['times_realtime']:.0f} x real time", file=sys.stderr)
    if own.json:
        print(json.dumps(summary, ensure_ascii=False), file=stdout, flush=True)
    sys.exit(status)
