"""The ways to convolve tensors that bench_tensors.py compares, and the float64 definition. Runs in its worker.

A way is a class: Way(shape, device) prepares and raises NotHere if it cannot take the shape, inputs() gives tensors in
its dtype, way(x, h) gives y with autograd.
"""

import dataclasses
import importlib
import os
import pathlib
import sys

import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def our_module(name):
    """A module of this source tree's haloconv, with the library of its build if there is one."""
    build = ROOT / os.environ.get("BUILD", "build") / "libhaloconv.so"
    if build.exists():
        os.environ.setdefault("HALOCONV_LIBRARY", str(build))
    if str(ROOT / "plugins/python") not in sys.path:
        sys.path.insert(0, str(ROOT / "plugins/python"))
    return importlib.import_module(f"haloconv.{name}")


class NotHere(Exception):
    """A way that this machine does not have, or that does not take the shape."""


@dataclasses.dataclass(frozen=True)
class Shape:
    """x [batch, channels, frames], h [h_batch, h_channels, taps]; h_batch and h_channels: 1 where shared."""
    batch: int
    channels: int
    frames: int
    taps: int
    h_batch: int
    h_channels: int
    mode: str

    @property
    def first(self):
        """The frame of the full convolution that y begins with."""
        return {"full": 0, "causal": 0, "same": (self.taps - 1) // 2,
                "valid": min(self.frames, self.taps) - 1}[self.mode]

    @property
    def y_frames(self):
        return {"full": self.frames + self.taps - 1, "causal": self.frames, "same": self.frames,
                "valid": abs(self.frames - self.taps) + 1}[self.mode]

    @property
    def sizes(self):
        return ((self.batch, self.channels, self.frames), (self.h_batch, self.h_channels, self.taps),
                (self.batch, self.channels, self.y_frames))

    @property
    def floats(self):
        """Numbers of floats of x, h and y."""
        return [a * b * c for a, b, c in self.sizes]

    def __str__(self):
        own = "own filters" if self.h_batch > 1 else "one filter" if self.h_channels == 1 else "a filter a channel"
        return f"{self.batch} x {self.channels} x {self.frames:,}, {own} of {self.taps:,}, {self.mode}"


def power_of_two(n):
    return 1 << (n - 1).bit_length()


def crop(full, shape):
    return full[..., shape.first:shape.first + shape.y_frames]


class Way:
    dtype = torch.float32
    checks_gradients = False

    def __init__(self, shape, device):
        self.shape, self.device = shape, device

    def inputs(self, x, h, gy):
        """x, h, gy of float32 as this way takes them; h may have another shape."""
        return x, h, gy


class Haloconv(Way):
    checks_gradients = True

    def __init__(self, shape, device):
        super().__init__(shape, device)
        self.convolve = our_module("torch").convolve

    def __call__(self, x, h):
        return self.convolve(x, h, mode=self.shape.mode)


class HaloconvIndex(Haloconv):
    """A filter for each item, as a bank in that order, and its index."""

    def __init__(self, shape, device):
        super().__init__(shape, device)
        if shape.h_batch != shape.batch or shape.h_channels != 1:
            raise NotHere("takes a filter for each item only")
        self.index = torch.arange(shape.batch, device=device)[:, None]

    def inputs(self, x, h, gy):
        return x, h[:, 0], gy

    def __call__(self, x, h):
        return self.convolve(x, h, mode=self.shape.mode, index=self.index)


class HaloconvBfloat16(Haloconv):
    """x, h, gy and the results in bfloat16."""
    dtype = torch.bfloat16

    def inputs(self, x, h, gy):
        return x.bfloat16(), h.bfloat16(), gy.bfloat16()


class Rfft(Way):
    """torch.fft in float32, zeros up to a power of two."""

    def __init__(self, shape, device):
        super().__init__(shape, device)
        self.n_fft = power_of_two(shape.frames + shape.taps - 1)

    def __call__(self, x, h):
        spectrum = torch.fft.rfft(x, n=self.n_fft) * torch.fft.rfft(h, n=self.n_fft)
        return crop(torch.fft.irfft(spectrum, n=self.n_fft), self.shape)


class ExactRfft(Rfft):
    """torch.fft in float32, as few frames as there are; this is the algorithm of torchaudio's fftconvolve."""

    def __init__(self, shape, device):
        super().__init__(shape, device)
        self.n_fft = shape.frames + shape.taps - 1


class Torchaudio(Way):
    def __init__(self, shape, device):
        super().__init__(shape, device)
        try:
            import torchaudio.functional  # pylint: disable=import-outside-toplevel
        except ImportError:
            self.convolve, self.note = ExactRfft(shape, device), "the algorithm of torchaudio, which is not installed"
            return
        self.note = f"torchaudio {torchaudio.__version__}"
        self.convolve = lambda x, h: crop(torchaudio.functional.fftconvolve(x, h, mode="full"), shape)

    def __call__(self, x, h):
        return self.convolve(x, h)


class Flash(Way):
    """FlashFFTConv in bfloat16, causal, a filter a channel, of as many taps as frames."""
    dtype = torch.bfloat16

    def __init__(self, shape, device):
        super().__init__(shape, device)
        self.n_fft = 2 * shape.frames
        if shape.mode != "causal" or shape.h_batch != 1 or shape.frames != shape.taps or self.n_fft > 65536:
            raise NotHere("takes other shapes, or none of this size")
        try:
            from flashfftconv import FlashFFTConv  # pylint: disable=import-outside-toplevel
        except ImportError as error:
            raise NotHere(f"not installed ({error})") from error
        self.convolve = FlashFFTConv(self.n_fft, dtype=torch.bfloat16).to(device)

    def inputs(self, x, h, gy):
        return x.bfloat16(), h[0].contiguous(), gy.bfloat16()

    def __call__(self, x, h):
        return self.convolve(x, h)


class Nvidia(Way):
    """fft_causal_conv1d of NVIDIA's subquadratic-ops-torch, or of cuDNN, which has the same kernels."""
    checks_gradients = True

    def __init__(self, shape, device):
        super().__init__(shape, device)
        if shape.mode != "causal" or shape.h_batch != 1 or shape.h_channels != shape.channels:
            raise NotHere("takes causal convolution with a filter a channel only")
        try:
            self.convolve = importlib.import_module("subquadratic_ops_torch.fft_causal_conv1d").fft_causal_conv1d
        except ImportError as error:
            try:
                self.convolve, self.note = importlib.import_module("cudnn").ops.fft_causal_conv1d, "of cuDNN"
            except (ImportError, AttributeError):
                raise NotHere(f"not installed ({error})") from error

    def inputs(self, x, h, gy):
        return tuple(value.to(self.dtype) for value in (x, h[0], gy))

    def __call__(self, x, h):
        return self.convolve(x, h)


class NvidiaBfloat16(Nvidia):
    """x, h, gy and the results in bfloat16."""
    dtype = torch.bfloat16


WAYS = {"haloconv.torch": Haloconv, "haloconv.torch index": HaloconvIndex, "haloconv.torch bf16": HaloconvBfloat16,
        "nvidia": Nvidia, "nvidia bf16": NvidiaBfloat16, "rfft": Rfft, "torchaudio": Torchaudio, "exact": ExactRfft,
        "flash": Flash}


# ---- the C call ----
class Calls:
    """hc_tensor_plan_run on dense tensors of a device, without torch's operators. The operations share a workspace.

    at_once   both gradients in one run
    by_index  a filter for each item, as a bank in that order, and its index
    """

    def __init__(self, shape, device, dtype, at_once=False, by_index=False):
        ours = our_module("_tensors")
        types = ({torch.float32: ours.FLOAT32, torch.bfloat16: ours.BFLOAT16}[dtype],) * 3
        self.index = torch.arange(shape.batch, device=device) if by_index else None
        h_size, groups = ((shape.batch, shape.taps), (shape.batch, 1)) if by_index else (shape.sizes[1], None)
        sizes = shape.sizes[0], h_size, shape.sizes[2]
        x, h, y = ((size, torch.empty(size, device="meta").stride()) for size in sizes)
        kinds = {"convolve": (ours.CONVOLVE, x, h, None, None)}
        if at_once:
            kinds["gradients"] = ours.GRADIENTS, y, x, None, h
        else:
            kinds["gradient_x"] = ours.GRADIENT_X, y, h, shape.frames, None
            kinds["gradient_h"] = ours.GRADIENT_H, y, x, h_size, None
        self.plans = {name: ours.make_plan(op, shape.mode, str(device).encode(), 0, a, b, size, types, groups, 0, c)
                      for name, (op, a, b, size, c) in kinds.items()}
        self.bytes, self.device_index = max(plan.bytes for plan in self.plans.values()), device.index
        self.stream_of = our_module("torch")._current_stream if device.type == "cuda" else lambda index: None
        self.memory = torch.empty(self.bytes + ours.ALIGNMENT, dtype=torch.uint8, device=device)
        self.workspace = self.memory.data_ptr() + (-self.memory.data_ptr()) % ours.ALIGNMENT

    def run(self, op, a, b, out, c=None, out_h=None):
        index, c, out_h = (None if value is None else value.data_ptr() for value in (self.index, c, out_h))
        self.plans[op].run(a.data_ptr(), b.data_ptr(), out.data_ptr(), self.workspace, self.stream_of(self.device_index),
                           None, index, None, c, out_h)


# ---- the definition in float64 ----
def slices_of(n, size):
    return [slice(at, min(at + size, n)) for at in range(0, n, max(size, 1))]


class Norms:
    """Relative errors, as norms over all items that were added."""

    def __init__(self):
        self.sums = {}

    def add(self, name, got, want):
        error, norm = self.sums.get(name, (0, 0))
        got = got.detach().double()
        self.sums[name] = (error + float((got - want).square().sum()), norm + float(want.square().sum()))

    def result(self):
        return {name: (error / norm)**0.5 if norm else error**0.5 for name, (error, norm) in self.sums.items()}


def errors(shape, x, h, gy, y, gx=None, gh=None, budget=1 << 27):
    """{"y": relative error beside float64, ...}; budget: frames of float64 that are transformed at once."""
    n_fft = power_of_two(shape.frames + shape.taps - 1)
    norms = Norms()
    want_gh = torch.zeros(h.shape, dtype=torch.float64, device=h.device) if gh is not None else None
    channels = max(1, min(shape.channels, budget // n_fft))
    items = max(1, budget // n_fft // channels)
    for c in slices_of(shape.channels, channels):
        hc = slice(None) if shape.h_channels == 1 else c
        for b in slices_of(shape.batch, items):
            hb = slice(None) if shape.h_batch == 1 else b
            h_spectrum = torch.fft.rfft(h[hb, hc].detach().double(), n=n_fft)
            x_spectrum = torch.fft.rfft(x[b, c].detach().double(), n=n_fft)
            norms.add("y", y[b, c], crop(torch.fft.irfft(x_spectrum * h_spectrum, n=n_fft), shape))
            if gx is None:
                continue
            g_spectrum = torch.fft.rfft(torch.nn.functional.pad(gy[b, c].double(), (shape.first, 0)), n=n_fft)
            norms.add("gx", gx[b, c], torch.fft.irfft(g_spectrum * h_spectrum.conj(), n=n_fft)[..., :shape.frames])
            shared = [d for d, n in enumerate(h.shape[:2]) if n == 1]
            product = g_spectrum * x_spectrum.conj()
            want_gh[hb, hc] += torch.fft.irfft(product.sum(shared, keepdim=True) if shared else product,
                                               n=n_fft)[..., :shape.taps]
    if gh is not None:
        norms.add("gh", gh, want_gh)
    return norms.result()
