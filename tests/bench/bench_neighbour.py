#!/usr/bin/env python3
"""Live blocks beside other work of the same GPU: what the blocks lose, and how much slower the other work becomes.

    make bench-neighbour
    tests/bench/bench_neighbour.py [--seconds 60] [--backend cuda] [--loads ...] [--jobs ...] [--modes ...]
                                   [--partition 16] [--json FILE]

    loads  stereo   2 in, 2 out, diagonal, 144,000 taps, blocks of 64 frames at 48 kHz
           matrix   512 x 512 of 48,000 taps; 256 x 256 on a GPU whose memory is too small
           sources  2,048 moving sources of 24,000 taps, 2 outputs, each steered before every block
           A number behind the name, as in matrix:64, sets the inputs (and, of a matrix, the outputs).
    jobs   alone    no other work; needs no torch
           products torch.matmul of 8192 x 8192 in bf16, back to back
           training a step of a transformer encoder of 6 layers in torch, bf16 autocast and AdamW, of 20 to 50 ms
    modes  shared   the job is in the same process, in a stream of the highest priority, as our streams are: priorities
                    do not distinguish the two
           priority the job is in the default stream; our streams have the highest priority
           green    our streams have HALOCONV_PARTITION; the job is in a green context of the other multiprocessors
           process  the job is in a process of its own
           mps      so, and an MPS server of this bench shares the GPU out: the job has MPS_PERCENT of it. The server
                    starts only where the driver has it

The audio thread is a thread of a library (neighbour_player.c) that needs no lock of Python. Each load in each mode is a
process of its own. Progress goes to standard error, the table to standard output, a row as soon as it is measured.
Needs build/tests/libneighbour.so, and build/libhaloconv_cuda.so for a GPU.
"""

import argparse
import collections
import contextlib
import ctypes
import importlib.util
import json
import multiprocessing
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = (ROOT / os.environ.get("BUILD", "build")).resolve()
SETUP_S = 240      # opening an engine, or loading torch and warming up, takes less
ALONE_S = 15       # max. for the job without live blocks, and no longer than the blocks
WARM_S = 2
AHEAD = 2          # steps of a job that wait on the GPU while one runs: it is never idle
STEP_MS = 20       # the smallest power of two as batch whose training step takes so long
RESOURCE = 144     # bytes of the driver's CUdevResource; its number of multiprocessors is at SM_COUNT
SM_COUNT = 96
MPS_PERCENT = 88   # of the multiprocessors; the rest is about as large as the partition of mode green

Load = collections.namedtuple("Load", "name n_in n_out diagonal moves taps")
LOADS = {"stereo": Load("stereo", 2, 2, True, False, 144000), "matrix": Load("matrix", 512, 512, False, False, 48000),
         "sources": Load("sources", 2048, 2, False, True, 24000)}
JOBS = ("alone", "products", "training")
MODES = ("shared", "priority", "green", "process", "mps")


class Refused(Exception):
    """This machine cannot do it; the text says why."""


def load_of(text):
    name, _, n = text.partition(":")
    load = LOADS[name]
    n = int(n) if n else load.n_in
    return load._replace(n_in=n, n_out=n if name == "matrix" else load.n_out)


def title_of(load):
    kind = "moving sources x" if load.moves else "x"
    return f"{load.n_in:,} {kind} {load.n_out:,}{' diagonal' if load.diagonal else ''}, {load.taps:,} taps"


# ---- live blocks ----
class Player:
    """An engine. The library is loaded in this process only, after its environment is set."""

    def __init__(self, backend, load):
        if (BUILD / "libhaloconv_cuda.so").exists():
            os.environ.setdefault("HALOCONV_CUDA", str(BUILD / "libhaloconv_cuda.so"))
        self.library = ctypes.CDLL(str(BUILD / "tests/libneighbour.so"))
        self.library.player_open.restype = ctypes.c_void_p
        self.library.player_play.restype = ctypes.c_bool
        self.text = ctypes.create_string_buffer(4096)
        self.backend = backend.encode()  # the library keeps the pointer
        self.player = self.library.player_open(
            self.backend, load.n_in, load.n_out, ctypes.c_bool(load.diagonal), ctypes.c_bool(load.moves), load.taps,
            self.text, ctypes.c_size_t(len(self.text)))
        if not self.player:
            raise Refused(self.text.value.decode())
        self.device = self.text.value.decode()

    def play(self, seconds):
        good = self.library.player_play(ctypes.c_void_p(self.player), ctypes.c_double(seconds), self.text,
                                        ctypes.c_size_t(len(self.text)))
        if not good:
            raise Refused(self.text.value.decode())
        return json.loads(self.text.value)

    def close(self):
        self.library.player_close(ctypes.c_void_p(self.player))


def player_of(backend, load):
    try:
        return Player(backend, load), load
    except Refused as error:
        if load != LOADS["matrix"]:
            raise
        log(f"{title_of(load)}: {error}")
        load = load_of("matrix:256")
        return Player(backend, load), load


# ---- the other work ----
def driver(name, *args):
    code = getattr(ctypes.CDLL("libcuda.so.1"), name)(*args)
    if code != 0:
        raise Refused(f"{name}: error {code}")


def green_stream(number, ours):
    """A stream on the multiprocessors that a partition ("20 of 132 SMs") leaves. torch.cuda.green_contexts sets the
    context of the calling thread, but a backward pass runs in another thread. Work in a stream stays in its context."""
    found = re.search(r"(\d+) of (\d+) SMs", ours)
    if not found:
        raise Refused(f"the engine has no partition: {ours}")
    wanted = int(found[2]) - int(found[1])
    device, groups = ctypes.c_int(), ctypes.c_uint(1)
    first, every, rest = (ctypes.create_string_buffer(RESOURCE) for _ in range(3))
    description, context, stream = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    driver("cuDeviceGet", ctypes.byref(device), number)
    driver("cuDeviceGetDevResource", device, every, 1)
    driver("cuDevSmResourceSplitByCount", first, ctypes.byref(groups), every, rest, 0, wanted)
    got = int.from_bytes(first.raw[SM_COUNT:SM_COUNT + 4], sys.byteorder)
    if groups.value != 1 or got != wanted:
        raise Refused(f"the driver splits off {got} SMs, not {wanted}")
    driver("cuDevResourceGenerateDesc", ctypes.byref(description), first, 1)
    driver("cuGreenCtxCreate", ctypes.byref(context), description, device, 1)
    driver("cuGreenCtxStreamCreate", ctypes.byref(stream), context, 1, 0)
    return stream.value


def stream_of(torch, mode, number, ours):
    """The stream of the job. torch's own streams do not have the highest priority of a GPU."""
    torch.zeros(1, device="cuda")  # the context
    if mode == "shared":
        stream = ctypes.c_void_p()
        driver("cuStreamCreateWithPriority", ctypes.byref(stream), 1, -1000)  # the driver takes the nearest that exists
        return torch.cuda.ExternalStream(stream.value)
    if mode == "green":
        return torch.cuda.ExternalStream(green_stream(number, ours))
    return torch.cuda.default_stream()


def products(torch, device, _):
    n, kind = (8192, torch.bfloat16) if device == "cuda" else (256, torch.float32)
    a, b = (torch.randn(n, n, device=device, dtype=kind) for _ in range(2))
    c = torch.empty_like(a)
    return lambda: torch.matmul(a, b, out=c)


def training(torch, device, batch):
    width, heads, layers, frames = (1024, 16, 6, 512) if device == "cuda" else (32, 2, 1, 16)
    layer = torch.nn.TransformerEncoderLayer(width, heads, 4 * width, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, layers).to(device)
    adam = torch.optim.AdamW(model.parameters(), 1e-4)
    x, y = (torch.randn(batch, frames, width, device=device) for _ in range(2))

    def step():
        adam.zero_grad(set_to_none=True)
        with torch.autocast(device, torch.bfloat16):
            loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        adam.step()
    return step


def steps(torch, device, step, over):
    """Runs steps until over(); the steps a second."""
    begin, n, waiting = time.perf_counter(), 0, collections.deque()
    while not over() or n == 0:
        step()
        n += 1
        if device == "cuda":
            waiting.append(torch.cuda.Event(blocking=True))
            waiting[-1].record()
            if len(waiting) > AHEAD:
                waiting.popleft().synchronize()
    if device == "cuda":
        torch.cuda.current_stream().synchronize()
    return n / (time.perf_counter() - begin)


def until(seconds):
    end = time.perf_counter() + seconds
    return lambda: time.perf_counter() >= end


def batch_of(torch, device):
    """The batch of the training: a step of it takes STEP_MS to twice as long, without live blocks."""
    batch = 4
    while device == "cuda" and batch < 1024:
        step = training(torch, device, batch)
        steps(torch, device, step, until(0.5))
        if steps(torch, device, step, until(0.5)) <= 1e3 / STEP_MS:
            break
        batch *= 2
    return batch


def run_job(job, mode, number, ours, batch, ready, over):
    """Runs a job on a GPU (number None: on the CPU): warms up, calls ready(), and goes on until over(). batch 0: finds
    it. {"rate": steps a second, "batch": its batch}"""
    import torch  # pylint: disable=import-outside-toplevel
    device = "cpu" if number is None else "cuda"
    torch.manual_seed(0)
    if number is None:
        torch.set_num_threads(1)
        stream = contextlib.nullcontext()
    else:
        torch.cuda.set_device(number)
        stream = torch.cuda.stream(stream_of(torch, mode, number, ours))
    with stream:
        if job == "training":
            batch = batch or batch_of(torch, device)
        step = {"products": products, "training": training}[job](torch, device, batch)
        steps(torch, device, step, until(WARM_S if number is not None else 0))
        ready()
        return {"rate": steps(torch, device, step, over), "batch": batch}


def job_alone(pipe, job, number, seconds):
    """[process] Measures a job without live blocks."""
    clock = []
    try:
        pipe.send(run_job(job, "priority", number, "", 0, lambda: clock.append(time.perf_counter() + seconds),
                          lambda: time.perf_counter() >= clock[0]))
    except Exception as error:  # pylint: disable=broad-exception-caught
        pipe.send({"failed": f"{type(error).__name__}: {error}"})


def job_beside(pipe, job, number, batch, ready, over):
    """[process] Runs a job while another process plays."""
    try:
        pipe.send(run_job(job, "process", number, "", batch, ready.set, over.is_set))
    except Exception as error:  # pylint: disable=broad-exception-caught
        pipe.send({"failed": f"{type(error).__name__}: {error}"})


@contextlib.contextmanager
def mps_server():
    """Starts an MPS server for this process and its children, with folders of its own; it ends with the block."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["CUDA_MPS_PIPE_DIRECTORY"] = os.environ["CUDA_MPS_LOG_DIRECTORY"] = folder
        try:
            subprocess.run(["nvidia-cuda-mps-control", "-d"], check=True, stdout=subprocess.DEVNULL, timeout=SETUP_S)
        except (OSError, subprocess.SubprocessError) as error:
            raise Refused(f"no MPS: {error}") from error
        try:
            yield
        finally:
            subprocess.run(["nvidia-cuda-mps-control"], input=b"quit -t 5\n", stdout=subprocess.DEVNULL, check=False,
                           timeout=SETUP_S)


# ---- both ----
def play_beside(player, job, mode, number, batch, seconds):
    """Plays while the job runs in this process."""
    result = {}

    def play():
        try:
            result.update(player.play(seconds))
        except Refused as error:
            result["failed"] = str(error)
    audio = threading.Thread(target=play)
    found = run_job(job, mode, number, player.device, batch, audio.start, lambda: not audio.is_alive())
    audio.join()
    return {**result, "job_rate": found["rate"]}


def play_beside_process(player, job, number, batch, seconds):
    context = multiprocessing.get_context("spawn")
    ready, over = context.Event(), context.Event()
    ours, theirs = context.Pipe()
    process = context.Process(target=job_beside, args=(theirs, job, number, batch, ready, over), daemon=True)
    os.environ["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = str(MPS_PERCENT)  # without a server it has no effect
    process.start()
    theirs.close()
    try:
        while not ready.wait(0.1):
            if not process.is_alive():
                raise Refused(ours.recv()["failed"] if ours.poll() else "the job's process ended")
        result = player.play(seconds)
        over.set()
        found = ours.recv() if ours.poll(SETUP_S) else {"failed": "the job's process hung"}
    finally:
        process.kill()
        process.join()
    if "failed" in found:
        raise Refused(found["failed"])
    return {**result, "job_rate": found["rate"]}


def measure(pipe, settings, mode, load, jobs):
    """[process] Plays a load alone and beside jobs; sends a result for each."""
    if mode == "green":
        os.environ["HALOCONV_PARTITION"] = str(settings["partition"])
    try:
        with mps_server() if mode == "mps" else contextlib.nullcontext():
            measure_here(pipe, settings, mode, load, jobs)
    except Refused as error:
        pipe.send({"failed": str(error)})


def measure_here(pipe, settings, mode, load, jobs):
    """[process] measure, in a process whose environment is set."""
    try:
        player, load = player_of(settings["backend"], load)
    except (Refused, OSError) as error:
        pipe.send({"failed": str(error)})
        return
    for job in jobs:
        batch, seconds, number = settings["batch"].get(job, 0), settings["seconds"], settings["number"]
        try:
            if job == "alone":
                result = player.play(seconds)
            elif mode in ("process", "mps"):
                result = play_beside_process(player, job, number, batch, seconds)
            else:
                result = play_beside(player, job, mode, number, batch, seconds)
        except Exception as error:  # pylint: disable=broad-exception-caught
            result = {"failed": f"{type(error).__name__}: {error}"}
        pipe.send({**result, "title": title_of(load)})
    player.close()


def results_of(target, args, n, limit_s):
    """Runs target(pipe, *args) in a process; yields the n results that it sends."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=target, args=(theirs, *args))
    process.start()
    theirs.close()
    try:
        for _ in range(n):
            try:
                result = ours.recv() if ours.poll(limit_s) else {"failed": f"hung for {limit_s} s"}
            except EOFError:
                process.join(10)
                result = {"failed": f"crashed ({process.exitcode})"}
            yield result
            if "failed" in result and "title" not in result:
                break
        process.join(SETUP_S)
    finally:
        process.kill()
        process.join()


# ---- the table ----
def log(text):
    print(text, file=sys.stderr, flush=True)


def machine():
    try:
        query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
        done = subprocess.run(query, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
        return f"{done.stdout.splitlines()[0]}, " if done.returncode == 0 and done.stdout else ""
    except OSError:
        return ""


CAPTION = """{machine}backend {backend}, {seconds:g} s a row, {date}

Blocks of 64 frames (1333 us), paced; the device thread polls. shared: the job is in a stream of the highest priority,
as our streams are. priority: our streams have the highest priority, the job has the default. green: our streams have a
partition of at least {partition} multiprocessors, the job a green context of the others. process: the job is in another
process. mps: so, and an MPS server gives the job {percent} % of the multiprocessors. job slower: the job's steps a
second alone, on the whole GPU, divided by those beside live blocks.
"""


def row_of(load, job, mode, result, alone):
    title = result.get("title", title_of(load))
    if mode == "green" and "device" in result:
        mode += ", " + re.search(r"\d+( of \d+)? SMs|$", result["device"])[0]
    if "failed" in result:
        return f"| {title} | {job} | {mode} | | | | | {result['failed']} |"
    slower = f"{alone[job]['rate'] / result['job_rate']:.2f}" if job in alone else ""
    woken = f" ({result['missed_by_wakeup']:,} woken late)" if result["missed_by_wakeup"] else ""
    return (f"| {title} | {job} | {mode} | {result['p50_us']:.1f} | {result['p99_us']:.1f} | {result['p999_us']:.1f} | "
            f"{result['missed']:,} of {result['blocks']:,}{woken} | {slower} |")


def jobs_of(mode, jobs, modes):
    """Without a job all modes are the same, but for the partition."""
    once = mode == "green" or mode == next((m for m in modes if m != "green"), None)
    return [job for job in jobs if job != "alone" or once]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seconds", type=float, default=60, help="of live blocks for each row (%(default)s)")
    parser.add_argument("--backend", default="cuda", help="cuda, cuda:N, cuda:resident, hybrid, or cpu (%(default)s)")
    parser.add_argument("--loads", default=",".join(LOADS), help="%(default)s; matrix:64 has 64 inputs")
    parser.add_argument("--jobs", default=",".join(JOBS), help="%(default)s")
    parser.add_argument("--modes", help=f"{','.join(MODES)}; with backend cpu: shared,process")
    parser.add_argument("--partition", type=int, default=16, help="multiprocessors for live blocks (%(default)s)")
    parser.add_argument("--json", help="write all figures to this file")
    options = parser.parse_args()
    on_gpu = not options.backend.startswith("cpu")
    jobs, known = options.jobs.split(","), MODES if on_gpu else ("shared", "process")
    modes = (options.modes or ",".join(known)).split(",")
    loads = [load.partition(":")[0] for load in options.loads.split(",")]
    for given, names in ((jobs, JOBS), (modes, known), (loads, LOADS)):
        if not set(given) <= set(names):
            parser.error(f"{','.join(given)}: the names are {', '.join(names)}")
    if jobs != ["alone"] and importlib.util.find_spec("torch") is None:
        sys.exit("bench_neighbour: no torch for the jobs; give it a Python with torch, or --jobs alone")
    number = re.search(r":(\d+)", options.backend)
    settings = {"backend": options.backend, "seconds": options.seconds, "partition": options.partition, "batch": {},
                "number": int(number[1]) if number else 0 if on_gpu else None}
    print(CAPTION.format(machine=machine(), date=time.strftime("%Y-%m-%d"), percent=MPS_PERCENT, **settings), flush=True)
    alone, figures = {}, []
    for job in jobs:
        if job == "alone":
            continue
        args = (job, settings["number"], min(options.seconds, ALONE_S))
        alone[job] = next(results_of(job_alone, args, 1, SETUP_S))
        log(f"{job} alone: {alone[job]}")
        if "failed" in alone[job]:
            sys.exit(f"bench_neighbour: {job}: {alone[job]['failed']}")
        settings["batch"][job] = alone[job]["batch"]
    print("| load | beside | mode | p50 us | p99 us | p99.9 us | missed | job slower |\n"
          "|---|---|---|--:|--:|--:|--:|--:|", flush=True)
    for load in map(load_of, options.loads.split(",")):
        for mode in modes:
            some = jobs_of(mode, jobs, modes)
            results = results_of(measure, (settings, mode, load, some), len(some), options.seconds + SETUP_S)
            for result, job in zip(results, some):  # so that the process can end
                print(row_of(load, job, mode, result, alone), flush=True)
                figures.append({"load": load.name, "job": job, "mode": mode, **result})
                if options.json:
                    pathlib.Path(options.json).write_text(json.dumps({"alone": alone, "rows": figures}, indent=1),
                                                          encoding="utf-8")
    sys.exit(all("failed" in result for result in figures))


if __name__ == "__main__":
    main()
