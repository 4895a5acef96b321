"""The measurements of bench_tensors.py, one function for each kind of task. Runs in its worker.

A task is a tuple of a function's name and its arguments; the result is a dict, {"failed": text} if it failed.
Times are medians in ms: groups of calls between two CUDA events on the current stream, queued without waiting, each
call on the next of several input sets, which together exceed the L2 cache of the device.
"""

import gc
import math
import statistics
import time
import traceback

import torch

import tensors_loop
import tensors_ways

GROUP_MS = 2.0  # a group of calls lasts this long at least, for an event resolves about 1 us


class Bench:
    def __init__(self, device, seconds, seed):
        self.device, self.seconds, self.seed = torch.device(device), seconds, seed
        self.on_gpu = self.device.type == "cuda"
        if self.on_gpu:
            if not torch.cuda.is_available():
                raise tensors_ways.NotHere("torch finds no CUDA GPU")
            torch.cuda.set_device(self.device)
            self.l2 = getattr(torch.cuda.get_device_properties(self.device), "L2_cache_size", 64 << 20)
        else:
            self.l2 = 1 << 20

    def wait(self):
        if self.on_gpu:
            torch.cuda.synchronize(self.device)

    def clean(self):
        gc.collect()
        if self.on_gpu:
            torch.cuda.empty_cache()

    # ---- time ----
    def groups(self, run, n_groups, group):
        """[ms of a call, one of each group]; run(i) makes call i."""
        if not self.on_gpu:
            times = []
            for g in range(n_groups):
                start = time.perf_counter()
                for i in range(group):
                    run(g * group + i)
                times.append((time.perf_counter() - start) * 1e3 / group)
            return times
        events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(n_groups)]
        for g, (start, end) in enumerate(events):
            start.record()
            for i in range(group):
                run(g * group + i)
            end.record()
        self.wait()
        return [start.elapsed_time(end) / group for start, end in events]

    def median(self, run, seconds=None, least=5):
        """ms of a call; run(i) makes call i."""
        seconds = self.seconds if seconds is None else seconds
        run(0)
        self.wait()
        one = max(min(self.groups(run, 2, 2)), 1e-3)
        group = max(1, math.ceil(GROUP_MS / one))
        n_groups = max(least, min(200, int(seconds * 1e3 / (group * one))))
        return statistics.median(self.groups(run, n_groups, group))

    # ---- inputs ----
    def sets(self, shape, most=16):
        """[(x, h, gy)]: as many as together are four times the L2 cache; the same numbers in each call."""
        torch.manual_seed(self.seed)
        n_sets = max(1, min(most, math.ceil(4 * self.l2 / (4 * sum(shape.floats)))))
        fall = torch.exp(-4 * torch.arange(shape.taps, device=self.device) / shape.taps)
        x_size, h_size, y_size = shape.sizes
        return [(torch.randn(x_size, device=self.device), torch.randn(h_size, device=self.device).mul_(fall),
                 torch.randn(y_size, device=self.device)) for _ in range(n_sets)]


def forward(way, inputs):
    """run(i) for the forward pass. As many results live as there are sets, so that y is not always the same memory."""
    kept = [None] * len(inputs)

    def run(i):
        with torch.no_grad():
            x, h, _ = inputs[i % len(inputs)]
            if len(inputs) == 1:
                kept[0] = None
            kept[i % len(inputs)] = way(x, h)
    return run


def both(way, inputs):
    """run(i) for the forward and the backward pass; returns y and the gradients."""
    leaves = [(x.detach().requires_grad_(), h.detach().requires_grad_(), gy) for x, h, gy in inputs]

    def run(i):
        x, h, gy = leaves[i % len(leaves)]
        y = way(x, h)
        return y, *torch.autograd.grad(y, (x, h), gy)
    return run


def peak_extra(bench, run):
    """(bytes that run(0) takes at its peak beyond inputs and results, its results); on the CPU no bytes: None."""
    if not bench.on_gpu:
        return None, run(0)
    bench.wait()
    bench.clean()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    results = run(0)
    bench.wait()
    peak = torch.cuda.max_memory_allocated()
    held = results if isinstance(results, tuple) else (results,)
    return max(0, peak - before - sum(t.numel() * t.element_size() for t in held)), results


def own_memory(bench):
    """Bytes in use on the device that are not of torch's allocator: the context, code and tables of libraries."""
    if not bench.on_gpu:
        return 0
    free, total = torch.cuda.mem_get_info()
    return total - free - torch.cuda.memory_reserved()


def row(bench, shape, name):
    """A way on a shape: forward, both (ms), error (forward), gx, gh (of some ways), extra, extra_both (bytes), note."""
    way = tensors_ways.WAYS[name](shape, bench.device)
    result = {"note": getattr(way, "note", "")}
    inputs = [way.inputs(*given) for given in bench.sets(shape)]
    x, h, gy = inputs[0]
    whole_h = h.reshape(shape.sizes[1])
    before = own_memory(bench)
    with torch.no_grad():
        way(x, h)
        bench.wait()
        result["tables"] = own_memory(bench) - before
        result["extra"], y = peak_extra(bench, lambda i: way(x, h))
    result["error"] = tensors_ways.errors(shape, x, whole_h, gy, y)["y"]
    del y
    bench.clean()
    try:
        result["forward"] = bench.median(forward(way, inputs))
        bench.clean()
        run = both(way, inputs)
        run(0)
        result["extra_both"], (y, gx, gh) = peak_extra(bench, run)
        if way.checks_gradients:
            found = tensors_ways.errors(shape, x, whole_h, gy, y, gx, gh.reshape(shape.sizes[1]))
            result["gx"], result["gh"] = found["gx"], found["gh"]
        del y, gx, gh
        bench.clean()
        result["both"] = bench.median(run)
    except Exception as error:  # pylint: disable=broad-exception-caught
        result["failed"] = text_of(error)
    return result


def captured(bench, run, n_calls):
    """run(i) of a CUDA graph that makes n_calls calls, and that number; without a GPU, the calls themselves."""
    if not bench.on_gpu:
        return run, 1
    run(0)
    bench.wait()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(n_calls):
            run(i)
    return lambda i: graph.replay(), n_calls


def c_calls(bench, shape, dtype_name="float32", at_once=False, by_index=False):
    """hc_tensor_plan_run in a CUDA graph, no Python between: forward, both (ms), error, gx, gh, extra (bytes).

    at_once, by_index  as in tensors_ways.Calls
    """
    dtype = getattr(torch, dtype_name)
    calls = tensors_ways.Calls(shape, bench.device, dtype, at_once, by_index)
    inputs = [tuple(value.to(dtype) for value in given) for given in bench.sets(shape)]
    sizes = shape.sizes[2], *shape.sizes[:2]
    outs = [tuple(torch.empty(size, dtype=dtype, device=bench.device) for size in sizes) for _ in inputs]
    result = {"extra": calls.bytes, "extra_both": calls.bytes, "note": "CUDA graph" if bench.on_gpu else ""}

    def fore(i):
        (x, h, _), (y, _, _) = inputs[i % len(inputs)], outs[i % len(inputs)]
        calls.run("convolve", x, h, y)

    def fore_and_back(i):
        (x, h, gy), (_, gx, gh) = inputs[i % len(inputs)], outs[i % len(inputs)]
        fore(i)
        if at_once:
            calls.run("gradients", gy, x, gx, h, gh)
            return
        calls.run("gradient_x", gy, h, gx)
        calls.run("gradient_h", gy, x, gh)
    fore(0)
    fore_and_back(0)
    bench.wait()
    found = tensors_ways.errors(shape, *inputs[0], *outs[0])
    result.update(error=found["y"], gx=found["gx"], gh=found["gh"])
    for name, run in (("forward", fore), ("both", fore_and_back)):
        try:
            replay, n_calls = captured(bench, run, max(4, len(inputs)) if sum(shape.floats) < 1 << 28 else 1)
        except RuntimeError as error:
            replay, n_calls = run, 1
            result["note"] = f"calls from Python; capture: {text_of(error)}"
        result[name] = bench.median(replay) / n_calls
    return result


def copies(bench, shape):
    """The bytes of x, h and y, half of them read and half written, by torch's copy: forward, both (ms)."""
    x, h, y = shape.floats  # the backward pass reads gy, h and x, and writes gx and gh
    result = {"note": "the same bytes, copied"}
    for name, floats in (("forward", x + h + y), ("both", (x + h + y) + (y + h + x) + (x + h))):
        result[name] = copy_ms(bench, max(floats // 2, 1))
        bench.clean()
    return result


def copy_ms(bench, floats):
    n_sets = max(1, min(16, math.ceil(4 * bench.l2 / (8 * floats))))
    pairs = [(torch.ones(floats, device=bench.device), torch.empty(floats, device=bench.device)) for _ in range(n_sets)]

    def run(i):
        pairs[i % n_sets][1].copy_(pairs[i % n_sets][0])
    replay, n_calls = captured(bench, run, max(4, n_sets))
    return bench.median(replay) / n_calls


def grid(bench, shape, with_backward, seconds, with_graph):
    """haloconv.torch beside torch's rfft: {"ours", "exact", "padded", "ours_both", ...} in ms; error where it is cheap.

    seconds: of a way; with_graph: "ours_graph", ... : forward in a CUDA graph, which has no time of Python.
    """
    inputs = bench.sets(shape, most=4)
    result = {}
    for key, name in (("ours", "haloconv.torch"), ("exact", "exact"), ("padded", "rfft")):
        way = tensors_ways.WAYS[name](shape, bench.device)
        run = forward(way, inputs)
        try:
            if key == "ours" and sum(shape.floats) <= 1 << 23:
                with torch.no_grad():
                    found = tensors_ways.errors(shape, *inputs[0], way(*inputs[0][:2]))
                result["error"] = found["y"]
            result[key] = bench.median(run, seconds)
            if with_backward:
                result[f"{key}_both"] = bench.median(both(way, inputs), seconds)
            if with_graph and bench.on_gpu:
                replay, n_calls = captured(bench, run, 4)
                result[f"{key}_graph"] = bench.median(replay, seconds) / n_calls
        except torch.cuda.OutOfMemoryError:
            if key == "ours":
                raise
            bench.clean()
    return result


def packed(bench, lengths, taps):
    """Packed sequences with a filter each, whose mean length is whole, beside batches of as many items.

    packed, equal (of the mean length), longest (padded to it): forward in ms, and with _both; error, gx, gh; the batch
    of equal lengths holds the same numbers
    """
    n, ours, result = len(lengths), tensors_ways.our_module("torch"), {}
    ends = torch.tensor([0, *lengths]).cumsum(0)
    offsets = ends.to(bench.device)
    shapes = {name: tensors_ways.Shape(n, 1, frames, taps, n, 1, "causal")
              for name, frames in (("equal", sum(lengths) // n), ("longest", max(lengths)))}
    sets = [(x.reshape(1, -1), h, gy.reshape(1, -1)) for x, h, gy in bench.sets(shapes["equal"])]

    def convolve(x, h):
        return ours.convolve_packed(x, h, offsets)
    x, h, gy = sets[0]
    y, gx, gh = both(convolve, sets[:1])(0)
    found = []
    for i, length in enumerate(lengths):
        own, row = tensors_ways.Shape(1, 1, length, taps, 1, 1, "causal"), slice(ends[i], ends[i + 1])
        x_i, gy_i, y_i, gx_i = (value[None, :, row] for value in (x, gy, y, gx))
        found.append(tensors_ways.errors(own, x_i, h[i:i + 1], gy_i, y_i, gx_i, gh[i:i + 1]))
    for key, name in (("error", "y"), ("gx", "gx"), ("gh", "gh")):
        result[key] = float(torch.tensor([f[name] for f in found]).max())  # NaN if one is
    del y, gx, gh, y_i, gx_i
    ways = {"packed": (convolve, sets)}
    for name, shape in shapes.items():
        ways[name] = tensors_ways.WAYS["haloconv.torch"](shape, bench.device), bench.sets(shape)
    for name, (way, inputs) in ways.items():
        result[name] = bench.median(forward(way, inputs))
        result[f"{name}_both"] = bench.median(both(way, inputs))
    return result


def loop(bench, way, with_autocast, small):
    return tensors_loop.measure(bench, way, with_autocast, small)


class Nothing(torch.autograd.Function):
    """Computes nothing: the cost of torch's autograd."""

    @staticmethod
    def forward(ctx, x, h):
        ctx.save_for_backward(x, h)
        return torch.empty_like(x)

    @staticmethod
    def backward(ctx, g):
        return tuple(torch.empty_like(value) for value in ctx.saved_tensors)


def calls(bench):
    """us that the host needs for a call of a tiny shape, which the device computes meanwhile: medians by name."""
    torch.set_num_threads(1)
    shape = tensors_ways.Shape(2, 4, 64, 16, 1, 4, "causal")
    x, h, gy = bench.sets(shape, most=1)[0]
    x_leaf, h_leaf, ours = x.clone().requires_grad_(), h.clone().requires_grad_(), tensors_ways.our_module("torch")
    c_call, (gx, gh, y) = tensors_ways.Calls(shape, bench.device, torch.float32), map(torch.empty_like, (x, h, gy))
    arrays = x.cpu().numpy(), h.cpu().numpy(), "causal", None, 1
    convolve_tensors = tensors_ways.our_module("_arrays").convolve_tensors
    ways = {"torch.empty": lambda: torch.empty(shape.sizes[2], device=bench.device), "torch, x * 2": lambda: x * 2,
            "hc_tensor_plan_run": lambda: c_call.run("convolve", x, h, y),
            "the same, gradient of x": lambda: c_call.run("gradient_x", gy, h, gx),
            "the same, gradient of h": lambda: c_call.run("gradient_h", gy, x, gh),
            "torch, an autograd.Function without work, and backward": lambda: torch.autograd.grad(
                Nothing.apply(x_leaf, h_leaf), (x_leaf, h_leaf), gy),
            "haloconv.torch.convolve": lambda: ours.convolve(x, h, "causal"),
            "the same, x and h need gradients": lambda: ours.convolve(x_leaf, h_leaf, "causal"),
            "the same, and backward": lambda: torch.autograd.grad(ours.convolve(x_leaf, h_leaf, "causal"),
                                                                  (x_leaf, h_leaf), gy),
            "haloconv.convolve_tensors, NumPy": lambda: convolve_tensors(*arrays)}
    return {name: statistics.median(host_us(bench, call, 100) for _ in range(50)) for name, call in ways.items()}


def host_us(bench, call, n):
    """us of each of n calls; the device's queue is empty before and has space for them."""
    bench.wait()
    start = time.perf_counter()
    for _ in range(n):
        call()
    return (time.perf_counter() - start) * 1e6 / n


TASKS = {f.__name__: f for f in (row, c_calls, copies, grid, packed, loop, calls)}


def text_of(error):
    if isinstance(error, torch.cuda.OutOfMemoryError) or "out of memory" in str(error):
        return "out of memory"
    if isinstance(error, tensors_ways.NotHere):
        return str(error)
    text = str(error).strip().split("\n")[0]
    return f"{type(error).__name__}: {text[:120]}"


def serve(pipe, device, seconds, seed):
    """Receives tasks until None, sends {"about": ...} first and then a result for each. A process of its own."""
    try:
        bench = Bench(device, seconds, seed)
        about = f"torch {torch.__version__}"
        if bench.on_gpu:
            properties = torch.cuda.get_device_properties(bench.device)
            torch.zeros(1, device=bench.device)
            about = f"{properties.name}, {bench.l2 >> 20} MiB of L2, {about} with CUDA {torch.version.cuda}"
        gc.freeze()  # collecting looks at what is new only, not at torch
        pipe.send({"about": about})
    except Exception as error:  # pylint: disable=broad-exception-caught
        pipe.send({"about": None, "failed": text_of(error)})
        return
    while True:
        task = pipe.recv()
        if task is None:
            return
        name, *arguments = task
        try:
            result = TASKS[name](bench, *arguments)
            bench.wait()
        except tensors_ways.NotHere as error:
            result = {"failed": text_of(error)}
        except Exception as error:  # pylint: disable=broad-exception-caught
            result = {"failed": text_of(error)}
            traceback.print_exc(limit=-3)
        try:
            bench.clean()
            bench.wait()
        except Exception as error:  # pylint: disable=broad-exception-caught
            result.setdefault("failed", text_of(error))
            result["broken"] = True  # the context of the device is lost: the next task needs another process
        pipe.send(result)
