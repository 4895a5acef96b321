#!/usr/bin/env python3
"""Convolution of tensors on a GPU: haloconv beside NVIDIA's call, torch's FFT, torchaudio and FlashFFTConv.

    make bench-tensors
    tests/bench/bench_tensors.py [--quick] [--device cuda:0] [--only PARTS] [--ways NAMES] [--json FILE]

    rows  eight shapes, forward and forward with backward: medians of CUDA events in ms, the relative error beside
          float64 (norm over norm), the memory beyond inputs and results, and the targets
    grid  hundreds of shapes, random in sizes, sharing and mode: haloconv.torch beside the faster of torch's rfft of the
          exact length and of a power of two; the median, and the ten worst
    index the shapes with a filter for each item, plainly and by an index of a bank of the same filters; from torch, and
          from C in a CUDA graph
    packed  64 sequences of 0.5 to 20 s at 16 kHz, each with a response of 1 s, beside a batch of as many frames
    loop  training of a separation network with reverberation on the fly: what the convolution takes of a step
    calls the host's time for a call of a tiny shape from Python

    HALOCONV_LIBRARY (build/libhaloconv.so), HC_TEST_SEED (0). Needs torch. torchaudio, FlashFFTConv and NVIDIA's
    call (subquadratic-ops-torch-cu13, or Python's cudnn) take part if Python finds them. Without NVIDIA's call the
    targets use times that were recorded on an H200.

A process of its own measures, so that a crash or a hang ends one measurement: that one is reported, the rest go on.
Progress goes to standard error, tables to standard output. A target that is missed does not change the exit status.
"""

import argparse
import json
import math
import multiprocessing
import os
import random
import statistics
import subprocess
import sys
import time

HANG_S = 150  # of one measurement
GRID_S, GRID_AGAIN_S, GRID_AGAIN = 0.02, 0.1, 20  # of a way on a shape; the 20 worst are measured again, longer
# By (batch, channels, frames) of a causal row with a filter a channel: fp32, bf16; forward, forward and backward; ms.
GOALS = {(64, 768, 1024): ((0.17, 0.52), (0.15, 0.48)), (64, 768, 4096): ((0.80, 2.5), (0.75, 2.3)),
         (16, 768, 32768): ((3.0, 8.5), (2.8, 8.0)), (2, 768, 1 << 20): ((22, 55), (18, 45))}  # on an H200
RECORDED_NVIDIA = {(64, 768, 1024): ((0.405, 1.18), (0.402, 1.16)), (64, 768, 4096): ((1.50, 4.43), (1.47, 4.17)),
                   (16, 768, 32768): ((5.73, 12.7), (5.12, 11.8)),
                   (2, 768, 1 << 20): ((33.0, 76.4), (25.9, 60.1))}  # 0.3.1 on an H200
OWN_TARGET, GRID_TARGET = (8, 6), 1.2  # times faster: forward, forward and backward; the slowest shape
INDEX_TARGET, PACKED_TARGET = 1.05, 1.15  # times of the same filters without an index, of a batch without gaps
PADDED_TARGET, ERROR_TARGET, SHARE_TARGET, SMALL, CALL_TARGET = 4, 1e-6, 0.02, 64 << 20, 15  # CALL_TARGET: us


class Missing(Exception):
    """There is no torch, or no such device."""


class Worker:
    """A process that measures; begun again after a crash."""

    def __init__(self, options):
        self.options, self.process, self.pipe, self.about = options, None, None, None

    def begin(self):
        import tensors_tasks  # pylint: disable=import-outside-toplevel
        context = multiprocessing.get_context("fork")  # torch is imported once; CUDA begins in the child alone
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=tensors_tasks.serve, daemon=True, args=(
            other, self.options.device, 0.05 if self.options.quick else 0.3, self.options.seed))
        self.process.start()
        other.close()
        hello = self.answer()
        if not hello.get("about"):
            self.end()
            raise Missing(hello["failed"])
        self.about = hello["about"]

    def answer(self):
        try:
            if not self.pipe.poll(HANG_S):
                self.end()
                return {"failed": f"hung for {HANG_S} s"}
            return self.pipe.recv()
        except (EOFError, ConnectionError):
            self.process.join(10)
            code = self.process.exitcode
            self.end()
            return {"failed": f"crashed ({code})"}

    def end(self):
        if self.process:
            self.process.kill()
            self.process.join()
        self.process = None

    def measure(self, *task):
        try:
            if not self.process:
                self.begin()
            self.pipe.send(task)
        except (Missing, ConnectionError) as error:  # the device is lost; or the process ended after its last result
            self.end()
            return {"failed": f"no process measures: {error}"}
        result = self.answer()
        if result.pop("broken", False):
            self.end()
        return result


def log(text):
    print(text, file=sys.stderr, flush=True)


def number(value, form=".3g"):
    return "" if value is None else format(value, form)


def mib(n_bytes):
    return "" if n_bytes is None else f"{n_bytes / 2**20:.0f}"


class Verdicts:
    def __init__(self):
        self.lines = []

    def at_least(self, what, target, ratio):
        """A ratio that should reach the target; None: not measured."""
        met = "not measured" if ratio is None else f"{ratio:.2f} x: {'met' if ratio >= target else 'MISSED'}"
        self.lines.append(f"| {what} | at least {target} x | {met} |")

    def at_most(self, what, target, value, form):
        met = "not measured" if value is None else f"{form(value)}: {'met' if value <= target else 'MISSED'}"
        self.lines.append(f"| {what} | at most {form(target)} | {met} |")

    def holds(self, what, target, found, is_met):
        self.lines.append(f"| {what} | {target} | {found}: {'met' if is_met else 'MISSED'} |")


def largest(errors):
    """NaN if one of them is; None without any."""
    return next((error for error in errors if math.isnan(error)), max(errors, default=None))


def ratio(peer, ours):
    return peer / ours if peer and ours else None


# ---- rows ----
def rows_of(options):
    from tensors_ways import Shape  # pylint: disable=import-outside-toplevel
    rows = [Shape(64, 768, 1024, 1024, 1, 768, "causal"), Shape(64, 768, 4096, 4096, 1, 768, "causal"),
            Shape(16, 768, 32768, 32768, 1, 768, "causal"), Shape(4, 768, 1 << 17, 1 << 17, 1, 768, "causal"),
            Shape(2, 768, 1 << 18, 1 << 18, 1, 768, "causal"), Shape(2, 768, 1 << 20, 1 << 20, 1, 768, "causal"),
            Shape(64, 1, 160000, 16000, 64, 1, "full"), Shape(16, 1, 480000, 96000, 16, 1, "full")]
    if options.device == "cpu":
        rows = [Shape(4, 6, 256, 256, 1, 6, "causal"), Shape(1, 3, 4096, 4096, 1, 3, "causal"),
                Shape(4, 1, 10000, 1000, 4, 1, "full")]
    return rows


ROW_WAYS = [("haloconv.torch", "row", "haloconv.torch"), ("haloconv C call", "c_calls", None),
            ("haloconv.torch bf16", "row", "haloconv.torch bf16"), ("haloconv C call bf16", "c_calls", "bfloat16"),
            ("NVIDIA fft_causal_conv1d", "row", "nvidia"), ("NVIDIA fft_causal_conv1d bf16", "row", "nvidia bf16"),
            ("torch rfft, a power of two", "row", "rfft"), ("torchaudio fftconvolve", "row", "torchaudio"),
            ("FlashFFTConv bf16", "row", "flash"), ("copy", "copies", None)]


def is_wanted(title, options):
    return not options.ways or any(title.lower().startswith(name.lower()) for name in options.ways.split(","))


def compare_rows(worker, options, verdicts):
    print("**Rows**, ms; extra: MiB at the peak beyond x, h, y (and the gradients)\n")
    print("| x, h, mode | way | forward | and backward | error y | gx | gh | extra | extra, both | |")
    print("|---|---|--:|--:|--:|--:|--:|--:|--:|---|")
    results = []
    for shape in rows_of(options):
        found = {}
        for title, task, way in ROW_WAYS:
            if (way in ("flash", "nvidia", "nvidia bf16") and shape.mode != "causal") or not is_wanted(title, options):
                continue
            start = time.perf_counter()
            r = worker.measure(task, shape, way) if way else worker.measure(task, shape)
            log(f"{shape}: {title}: {r} ({time.perf_counter() - start:.1f} s)")
            found[way or task] = r
            notes = [r.get("note"), r.get("failed")]
            if r.get("tables", 0) > 1 << 20:
                notes.append(f"{mib(r['tables'])} MiB for code and tables, once")
            errors = " | ".join(number(r.get(key), ".1e") for key in ("error", "gx", "gh"))
            notes = "; ".join(note for note in notes if note)
            print(f"| {shape} | {title} | {number(r.get('forward'))} | {number(r.get('both'))} | {errors} | "
                  f"{mib(r.get('extra'))} | {mib(r.get('extra_both'))} | {notes} |", flush=True)
        results.append((shape, found))
        judge_row(shape, found, verdicts, options)
    print(flush=True)
    return [{"shape": str(shape), **found} for shape, found in results]


def judge_row(shape, found, verdicts, options):
    ours, c_call = found.get("haloconv.torch", {}), found.get("c_calls", {})
    name = f"{shape.batch} x {shape.channels} x {shape.frames:,}"
    for i, key in enumerate(("forward", "both")):
        what = f"{name}, {'forward' if key == 'forward' else 'forward and backward'}"
        if shape.mode == "causal":
            judge_causal(what, shape, found, i, key, verdicts, options)
            continue
        mine, audio, padded = (found.get(way, {}).get(key) for way in ("haloconv.torch", "torchaudio", "rfft"))
        verdicts.at_least(f"{what}: beside torchaudio", OWN_TARGET[i], ratio(audio, mine))
        if key == "forward":
            verdicts.at_least(f"{what}: beside the padded rfft", PADDED_TARGET, ratio(padded, mine))
        if c_call.get(key):
            verdicts.at_least(f"{what}: the C call beside torchaudio", OWN_TARGET[i], ratio(audio, c_call[key]))
    found_errors = [r[key] for r in (ours, c_call) for key in ("error", "gx", "gh") if key in r]
    verdicts.at_most(f"{name}, relative error of y, gx and gh", ERROR_TARGET, largest(found_errors), "{:.1e}".format)
    quarter = max(sum(shape.floats), SMALL)  # bytes: floats of four bytes, a quarter of them
    extras = [r[key] for r in (ours, c_call) for key in ("extra", "extra_both") if r.get(key) is not None]
    verdicts.at_most(f"{name}, extra memory", quarter, max(extras, default=None), lambda n: f"{mib(n)} MiB")


def judge_causal(what, shape, found, i, key, verdicts, options):
    sizes = shape.batch, shape.channels, shape.frames
    for dtype, (title, suffix) in enumerate((("fp32", ""), ("bf16", " bf16"))):
        mine, nvidia = (found.get(way + suffix, {}).get(key) for way in ("haloconv.torch", "nvidia"))
        source = "NVIDIA"
        if nvidia is None and sizes in RECORDED_NVIDIA:
            nvidia, source = RECORDED_NVIDIA[sizes][dtype][i], "NVIDIA as recorded on an H200"
        if sizes in GOALS:
            verdicts.at_most(f"{what}, {title} (goal for an H200)", GOALS[sizes][dtype][i], mine, "{:.3g} ms".format)
        if options.device != "cpu":
            verdicts.at_least(f"{what}, {title}: beside {source}", 1, ratio(nvidia, mine))


# ---- grid ----
def grid_shapes(options):
    """Shapes without end, in an order that does not depend on the sizes: any part of them is a fair sample."""
    from tensors_ways import Shape  # pylint: disable=import-outside-toplevel
    draw = random.Random(options.seed)
    most_rows, most_log, most_floats = (16, 12, 1 << 15) if options.device == "cpu" else (4096, 22, 1 << 27)

    def length():
        n = 2**draw.uniform(0, most_log)
        return 1 << round(draw.uniform(0, most_log)) if draw.random() < 0.4 else max(1, round(n))
    while True:
        rows = min(most_rows, 1 << draw.randrange(13))
        batch = 1 << draw.randrange(rows.bit_length())
        channels = rows // batch
        kind = draw.choice(("shared", "channel", "own"))
        shape = Shape(batch, channels, length(), length(), batch if kind == "own" else 1,
                      1 if kind == "shared" else channels, draw.choice(("causal", "full")))
        if rows * (shape.frames + shape.taps) <= most_floats:
            yield shape


def peer_of(r, suffix=""):
    times = [r[key + suffix] for key in ("exact", "padded") if r.get(key + suffix)]
    return min(times, default=None)


def compare_grid(worker, options, verdicts):
    results, failed = [], []
    end = time.perf_counter() + options.grid_seconds
    for i, shape in enumerate(grid_shapes(options)):
        if time.perf_counter() > end or i >= options.grid_shapes:
            break
        r = worker.measure("grid", shape, i % 4 == 0, GRID_S, False)
        r["shape"] = shape
        (failed if "failed" in r else results).append(r)
        if i % 50 == 49:
            log(f"grid: {i + 1} shapes, {len(failed)} failed")

    def rate(r, suffix=""):
        return ratio(peer_of(r, suffix), r.get("ours" + suffix))

    def rate_both(r):
        return rate(r, "_both")
    forward, backward = ([r for r in results if of(r)] for of in (rate, rate_both))
    again = sorted(forward, key=rate)[:GRID_AGAIN] + sorted(backward, key=rate_both)[:GRID_AGAIN]
    for r in {id(r): r for r in again}.values():
        r.update(worker.measure("grid", r["shape"], "ours_both" in r, GRID_AGAIN_S, True))
        if "failed" in r:
            failed.append(r)
            results.remove(r)
    print("**Grid**: random shapes of 1 to 4,096 rows, 1 to 2^22 frames and taps. Times faster than torch's rfft (the "
          "faster of the exact length and a power of two)\n")
    print("| | shapes | median | a tenth is below | slower than rfft |\n|---|--:|--:|--:|--:|")
    for title, some, of in (("forward", forward, rate), ("forward and backward", backward, rate_both)):
        rates = sorted(of(r) for r in some)
        if rates:
            print(f"| {title} | {len(rates)} | {statistics.median(rates):.2f} | {rates[len(rates) // 10]:.2f} | "
                  f"{sum(n < 1 for n in rates)} |")
    print("\n| the ten worst | haloconv ms | rfft ms | times faster | alone on the GPU (CUDA graphs) |")
    print("|---|--:|--:|--:|--:|")
    for r in sorted(forward, key=rate)[:10]:
        print(f"| {r['shape']} | {number(r['ours'])} | {number(peer_of(r))} | {rate(r):.2f} | "
              f"{number(rate(r, '_graph'))} |")
    for r in sorted(backward, key=rate_both)[:10]:
        print(f"| {r['shape']}, and backward | {number(r['ours_both'])} | {number(peer_of(r, '_both'))} | "
              f"{rate_both(r):.2f} | |")
    for r in failed[:10]:
        print(f"| {r['shape']} | {r['failed']} | | | |")
    print(flush=True)
    slow = sum(rate(r) < 1 for r in forward) + sum(rate_both(r) < 1 for r in backward)
    verdicts.holds("grid: shapes slower than torch's rfft", "none", f"{slow} of {len(forward) + len(backward)}",
                   slow == 0 and len(forward) > 0)
    worst = min([*map(rate, forward), *map(rate_both, backward)], default=None)
    verdicts.at_least("grid: the slowest shape beside torch's rfft", GRID_TARGET, worst)
    verdicts.holds("grid: shapes that fail", "none", f"{len(failed)} of {len(failed) + len(results)}", not failed)
    inexact = [r for r in results if not r.get("error", 0) <= ERROR_TARGET]
    worst = largest([r["error"] for r in results if "error" in r])
    verdicts.at_most(f"grid: relative error (over it: {len(inexact)})", ERROR_TARGET, worst, "{:.1e}".format)
    for r in inexact[:10]:
        log(f"inexact: {r}")
    return [{**r, "shape": str(r["shape"])} for r in results + failed]


# ---- filters by index, packed sequences ----
def is_small(options):
    return options.quick and options.device == "cpu"


def print_times(title, r, key="forward", both="both"):
    errors = " | ".join(number(r.get(name), ".1e") for name in ("error", "gx", "gh"))
    print(f"| {title} | {number(r.get(key))} | {number(r.get(both))} | {errors} | {r.get('failed', '')} |", flush=True)


def compare_index(worker, options, verdicts):
    from tensors_ways import Shape  # pylint: disable=import-outside-toplevel
    sizes = [(4, 10000, 1000)] if is_small(options) else [(64, 160000, 16000), (16, 480000, 96000)]
    print("**Index**: a filter for each item, ms\n\n| x, h, mode | forward | and backward | error y | gx | gh | |")
    print("|---|--:|--:|--:|--:|--:|---|")
    results = []
    for batch, frames, taps in sizes:
        shape = Shape(batch, 1, frames, taps, batch, 1, "full")
        plain, index = (worker.measure("row", shape, way) for way in ("haloconv.torch", "haloconv.torch index"))
        c_plain, c_index = (worker.measure("c_calls", shape, "float32", True, by_index) for by_index in (False, True))
        log(f"{shape}: {plain}, by index: {index}; from C: {c_plain}, by index: {c_index}")
        print_times(f"{shape}", plain)
        print_times("the same by index", index)
        print_times("C call, both gradients in one run", c_plain)
        print_times("the same by index", c_index)
        for key, title in (("forward", "forward"), ("both", "forward and backward")):
            for name, mine, beside in (("", index, plain), (", C call", c_index, c_plain)):
                verdicts.at_most(f"{batch} x {frames:,}, {title}{name}: by index / plain", INDEX_TARGET,
                                 ratio(mine.get(key), beside.get(key)), "{:.2f}".format)
        results.append({"shape": str(shape), "plain": plain, "index": index, "c_plain": c_plain, "c_index": c_index})
        for name, r in (("", index), (", C call", c_index)):
            judge_errors(f"{batch} x {frames:,} by index{name}", r, verdicts)
    print(flush=True)
    return results


def judge_errors(what, r, verdicts):
    verdicts.at_most(f"{what}, relative error of y, gx and gh", ERROR_TARGET,
                     largest([r[key] for key in ("error", "gx", "gh") if key in r]), "{:.1e}".format)


def compare_packed(worker, options, verdicts):
    n, rate = (8, 1600) if is_small(options) else (64, 16000)
    draw = random.Random(options.seed)
    lengths = [draw.randint(rate // 2, 20 * rate) for _ in range(n)]
    lengths[0] -= sum(lengths) % n  # so that a batch of equal lengths has as many frames
    r = worker.measure("packed", lengths, rate)
    log(f"packed: {r}")
    print(f"**Packed**: {n} sequences of {min(lengths):,} to {max(lengths):,} frames, {sum(lengths):,} in all, with a "
          f"filter of {rate:,} taps each, ms\n\n| | forward | and backward | error y | gx | gh | |")
    print("|---|--:|--:|--:|--:|--:|---|")
    print_times("packed", r, "packed", "packed_both")
    for key, title in (("equal", f"a batch of {n} x {sum(lengths) // n:,}"), ("longest", "padded to the longest")):
        print_times(title, {name: ms for name, ms in r.items() if name.startswith(key)}, key, f"{key}_both")
    for suffix, title in (("", "forward"), ("_both", "forward and backward")):
        verdicts.at_most(f"packed, {title}: / a batch of as many frames", PACKED_TARGET,
                         ratio(r.get(f"packed{suffix}"), r.get(f"equal{suffix}")), "{:.2f}".format)
    judge_errors("packed", r, verdicts)
    print(flush=True)
    return r


# ---- training loop ----
def compare_loops(worker, options, verdicts):
    results = []
    for with_autocast in (False, True):
        for way in ("haloconv.torch", "torchaudio"):
            r = worker.measure("loop", way, with_autocast, options.device == "cpu")
            log(f"loop, autocast {with_autocast}, {way}: {r}")
            results.append({**r, "way": way, "autocast": with_autocast})
    sizes = next((r for r in results if "step" in r), None)
    if sizes:
        print(f"**Training loop**: {sizes['parameters']:,} parameters, batch {sizes['batch']} of 2 speakers x "
              f"{sizes['frames']:,} frames, each with a response of its own of {sizes['taps']:,} taps\n")
    print("| network | convolution by | step ms | convolution ms | share | |\n|---|---|--:|--:|--:|---|")
    for r in results:
        share = f"{100 * r['share']:.2f} %" if "share" in r else ""
        network = "bf16 (autocast)" if r["autocast"] else "fp32, TF32 convolutions"
        print(f"| {network} | {r['way']} | {number(r.get('step'))} | {number(r.get('convolution'))} | {share} | "
              f"{r.get('failed', '')} |")
        if r["way"] == "haloconv.torch":
            verdicts.at_most(f"training loop, {network}: share of the convolution", SHARE_TARGET, r.get("share"),
                             lambda n: f"{100 * n:.2f} %")
    print(flush=True)
    return results


# ---- calls ----
def compare_calls(worker, options, verdicts):
    del options
    found = worker.measure("calls")
    print("**Calls** of 2 x 4 x 64 frames with 16 taps: the host's time\n\n| | us |\n|---|--:|")
    print("\n".join(f"| {name} | {us if name == 'failed' else number(us)} |" for name, us in found.items()), "\n")
    verdicts.at_most("host time of haloconv.torch.convolve, a tiny shape", CALL_TARGET,
                     found.get("haloconv.torch.convolve"), "{:.1f} us".format)
    return found


def driver():
    try:
        query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        done = subprocess.run(query, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
        return f", driver {done.stdout.splitlines()[0]}" if done.returncode == 0 and done.stdout else ""
    except OSError:
        return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="short measurements and a small grid")
    parser.add_argument("--device", default="cuda:0", help="cuda:0; cpu: small shapes, to try the bench itself")
    parser.add_argument("--only", default="rows,grid,index,packed,loop,calls", help="parts, separated by commas")
    parser.add_argument("--ways", help="of the rows, only the ways whose names begin so, separated by commas: "
                        "haloconv,NVIDIA")
    parser.add_argument("--grid-seconds", type=float, help="default 75; with --quick 15")
    parser.add_argument("--grid-shapes", type=int, default=500, help="at most so many shapes (%(default)s)")
    parser.add_argument("--json", help="write all figures to this file")
    options = parser.parse_args()
    options.seed = int(os.environ.get("HC_TEST_SEED", "0"))
    options.grid_seconds = options.grid_seconds or (15 if options.quick else 75)
    parts = options.only.split(",")
    kinds = {"rows": compare_rows, "grid": compare_grid, "index": compare_index, "packed": compare_packed,
             "loop": compare_loops, "calls": compare_calls}
    if not set(parts) <= set(kinds):
        parser.error(f"--only takes {', '.join(kinds)}")
    worker, verdicts, figures = Worker(options), Verdicts(), {}
    try:
        worker.begin()
    except (ImportError, Missing) as error:
        sys.exit(f"bench_tensors: {error}; give it a Python with torch, and a GPU or --device cpu")
    print(f"{worker.about}{driver()}, {time.strftime('%Y-%m-%d')}\n", flush=True)
    for part in parts:
        figures[part] = kinds[part](worker, options, verdicts)
        if options.json:
            with open(options.json, "w", encoding="utf-8") as file:
                json.dump({"about": worker.about, **figures}, file, default=str, indent=1)
    worker.end()
    print("**Targets**\n\n| | target | |\n|---|---|---|")
    print("\n".join(verdicts.lines))


if __name__ == "__main__":
    main()
