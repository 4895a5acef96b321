"""haloconv.torch: the operations and their gradients against torch's FFT in float64, on every device.

Needs torch (Debian: python3-torch). The tests of torch.compile and torch.func need torch 2.4. On a machine with a GPU,
PYTHON=python with a CUDA build of torch runs the tests named cuda too.
"""

import copy
import pickle
import threading

import numpy as np
import pytest
import soundfile
from conftest import SEED, generator
from test_python import hc  # noqa: F401  (a fixture)

try:
    import torch
except ImportError:
    torch = None

MODES = ("full", "same", "valid", "causal")
BOUND = 1e-6  # norm of the error over norm of the result
HAS_OPERATORS = torch is not None and hasattr(torch.library, "register_autograd")
needs_operators = pytest.mark.skipif(not HAS_OPERATORS, reason="needs torch 2.4")


@pytest.fixture(scope="module")
def ht(hc):
    if torch is None:
        pytest.skip("no torch")
    return hc.torch


@pytest.fixture
def dev(backend):
    if backend == "cuda" and not torch.cuda.is_available():
        pytest.skip("this torch has no CUDA device")
    return backend


def tensor(shape, dev="cpu", seed=1):
    return torch.from_numpy(generator(seed).standard_normal(shape).astype(np.float32)).to(dev)


def exact(x, h, mode, lengths=None):
    """convolve() by torch's FFT, in float64 if x and h are."""
    n, k = x.shape[-1], h.shape[-1]
    if lengths is not None:
        h = h * (torch.arange(k, device=h.device) < lengths[..., None])
    size = n + k - 1
    full = torch.fft.irfft(torch.fft.rfft(x, size) * torch.fft.rfft(h, size), size)
    start = {"full": 0, "causal": 0, "same": (k - 1) // 2, "valid": min(n, k) - 1}[mode]
    return full[..., start:start + {"full": size, "causal": n, "same": n, "valid": abs(n - k) + 1}[mode]]


def close(got, want, bound=BOUND):
    assert got.shape == want.shape, f"shape {tuple(got.shape)}, want {tuple(want.shape)}"
    assert got.dtype == torch.float32
    norm = want.double().norm().item()
    error = (got.double() - want.double()).norm().item()
    assert error <= bound * norm, f"{tuple(got.shape)}: relative error {error / max(norm, 1e-300):.3g}"


def doubles(*tensors):
    return [t.detach().double().requires_grad_(t.requires_grad) for t in tensors]


def check_orders(ht, x, h, mode, lengths=None):
    """The result, both gradients, and the gradients of these."""
    x64, h64 = doubles(x, h)
    y, y64 = ht.convolve(x, h, mode, lengths=lengths), exact(x64, h64, mode, lengths)
    close(y, y64)
    gy = tensor(y.shape, y.device, 7).requires_grad_()
    gy64, = doubles(gy)
    g, g64 = (torch.autograd.grad(a, b, c, create_graph=True) for a, b, c in ((y, (x, h), gy), (y64, (x64, h64), gy64)))
    for got, want in zip(g, g64):
        close(got, want)
    # A sum of squares and of values: every second derivative is in it, also where a gradient is 0.
    loss, loss64 = (sum(((t * t + t) * tensor(t.shape, t.device, 8 + i).to(t.dtype)).sum() for i, t in enumerate(ts))
                    for ts in (g, g64))
    for got, want in zip(torch.autograd.grad(loss, (x, h, gy)), torch.autograd.grad(loss64, (x64, h64, gy64))):
        close(got, want, 3 * BOUND)  # three operations one after the other


SHAPES = [((7,), (3,)), ((1,), (1,)), ((3,), (8,)), ((2, 3, 100), (3, 17)), ((2, 3, 100), (17,)),
          ((2, 3, 64), (2, 1, 65)), ((2, 3, 64), (1, 3, 31)), ((2, 3, 64), (2, 3, 64)), ((5, 1, 1023), (1025,)),
          ((1, 90), (4, 50)), ((4, 1, 90), (3, 50)), ((90,), (2, 3, 50)),
          ((2, 3, 4, 90), (4, 5)), ((2, 3, 4, 90), (2, 1, 4, 5)), ((2, 3, 4, 90), (2, 3, 1, 5)),
          ((2, 1, 3, 1, 33), (2, 1, 4, 9))]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_results_and_gradients_are_exact(ht, backend, dev, shapes, mode):
    """Of the first and second order, for filters that are own or shared in each dimension."""
    x, h = (tensor(shape, dev, seed).requires_grad_() for seed, shape in enumerate(shapes))
    check_orders(ht, x, h, mode)


@pytest.mark.parametrize("mode", MODES)
def test_random_sizes_are_exact(ht, backend, dev, mode):
    draw = generator(MODES.index(mode))
    for _ in range(12):
        n, k = (int(10 ** draw.uniform(0, 3.7)) for _ in range(2))
        batch, channels = (int(v) for v in draw.integers(1, 4, 2))
        h_shape = (batch if draw.integers(2) else 1, channels if draw.integers(2) else 1, k)
        x, h = tensor((batch, channels, n), dev, n), tensor(h_shape, dev, k)
        check_orders(ht, x.requires_grad_(), h.requires_grad_(), mode)


@pytest.mark.parametrize("mode", MODES)
def test_lengths_end_filters(ht, backend, dev, mode):
    """Taps behind a filter's length are 0, also NaN, and so are their gradients."""
    lengths = torch.tensor([[5, 0, 33], [1, 40, 17]], device=dev)
    x, h = tensor((2, 3, 300), dev).requires_grad_(), tensor((2, 3, 40), dev, 2).requires_grad_()
    check_orders(ht, x, h, mode, lengths)
    check_orders(ht, x, tensor((2, 1, 40), dev, 3).requires_grad_(), mode, lengths[:, 1:2])
    beyond = lengths.clone()
    beyond[0, 1], beyond[0, 2] = -7, 1 << 40
    assert torch.equal(ht.convolve(x, h, mode, lengths=beyond),
                       ht.convolve(x, h, mode, lengths=beyond.clamp(0, 40)))
    behind = h.detach().clone()
    behind[0, 0, 5:] = float("nan")
    close(ht.convolve(x, behind.requires_grad_(), mode, lengths=lengths), exact(*doubles(x, h), mode, lengths))
    g = torch.autograd.grad(ht.convolve(x, h, mode, lengths=lengths).sum(), h)[0]
    assert (g[0, 1] == 0).all() and (g[0, 0, 5:] == 0).all()
    assert torch.equal(ht.convolve(x, h, mode, lengths=lengths.tolist()), ht.convolve(x, h, mode, lengths=lengths))
    four = tensor((2, 2, 3, 50), dev)
    close(ht.convolve(four, h, mode, lengths=lengths), exact(four.double(), h.double(), mode, lengths))


INDEXES = [((2, 3, 100), (3,)), ((2, 3, 100), (2, 1)), ((2, 3, 100), (2, 3)), ((2, 3, 100), ()), ((100,), (5,)),
           ((2, 3, 4, 90), (2, 1, 4)), ((2, 1, 3, 33), (2, 4, 1)), ((1, 90), (3, 4))]


def by_index(x, bank, mode, index, lengths=None):
    """convolve(x, bank[index]); zeros where a number is no filter."""
    is_filter = (index >= 0) & (index < len(bank))
    number = torch.where(is_filter, index, torch.zeros_like(index))
    y = exact(x, bank[number], mode, None if lengths is None else lengths[number])
    return torch.where(is_filter[..., None], y, torch.zeros_like(y))


def check_gradients(call, want, tensors):
    """The result and its gradients, in one run and of the second order, beside the same in float64."""
    doubled = doubles(*tensors)
    y, y64 = call(*tensors), want(*doubled)
    close(y, y64)
    gy = tensor(y.shape, y.device, 7).requires_grad_()
    gy64, = doubles(gy)
    g = torch.autograd.grad(y, tensors, gy, create_graph=True)
    g64 = torch.autograd.grad(y64, doubled, gy64, create_graph=True)
    at_once = torch.autograd.grad(y, tensors, gy.detach(), retain_graph=True)
    for got, right in zip((*g, *at_once), g64 * 2):
        close(got, right)
    loss, loss64 = (sum((value * value).sum() for value in values) for values in (g, g64))
    for got, right in zip(torch.autograd.grad(loss, (*tensors, gy)), torch.autograd.grad(loss64, (*doubled, gy64))):
        close(got, right, 3 * BOUND)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shapes", INDEXES, ids=str)
def test_filters_by_index(ht, backend, dev, shapes, mode):
    x_shape, index_shape = shapes
    x, bank = tensor(x_shape, dev).requires_grad_(), tensor((5, 40), dev, 2).requires_grad_()
    index = torch.from_numpy(generator(3).integers(-1, 6, index_shape)).to(dev)
    check_gradients(lambda x, h: ht.convolve(x, h, mode, index=index), lambda x, h: by_index(x, h, mode, index),
                    (x, bank))
    lengths = torch.tensor([0, 40, 7, 1, 33], device=dev)
    check_gradients(lambda x, h: ht.convolve(x, h, mode, lengths, index),
                    lambda x, h: by_index(x, h, mode, index, lengths), (x, bank))
    assert torch.equal(ht.convolve(x, bank, mode, index=index.tolist()), ht.convolve(x, bank, mode, index=index.int()))
    none = torch.full_like(index, -1)
    g = torch.autograd.grad(ht.convolve(x, bank, mode, index=none).sum(), (x, bank))
    assert not g[0].any() and not g[1].any()


def packed(x, h, offsets, mode):
    """convolve_packed(), one sequence after the other; h [sequences, channels, taps] or its like."""
    return torch.cat([exact(x[..., a:b], h[i] if len(h) > 1 else h[0], mode) if b > a
                      else x.new_zeros(*x.shape[:-1], h.shape[-1] - 1 if mode == "full" else 0)
                      for i, (a, b) in enumerate(zip(offsets, offsets[1:]))], -1)


PACKED = [[0, 300], [0, 0, 17, 250, 250, 300], [0, 1, 2, 3, 300, 300]]


@pytest.mark.parametrize("mode", ("full", "same", "causal"))
@pytest.mark.parametrize("offsets", PACKED, ids=str)
def test_packed_sequences(ht, backend, dev, offsets, mode):
    n, x = len(offsets) - 1, tensor((3, 300), dev).requires_grad_()
    cu_seqlens = torch.tensor(offsets, device=dev, dtype=torch.int32)
    for shape in ((9,), (3, 9), (n, 1, 40), (n, 3, 40)):
        h = tensor(shape, dev, 2).requires_grad_()
        check_gradients(lambda x, h: ht.convolve_packed(x, h, cu_seqlens, mode),
                        lambda x, h: packed(x, h.expand((n, 3, h.shape[-1])), offsets, mode), (x, h))
    flat, own = x.detach()[0].clone().requires_grad_(), tensor((n, 20), dev, 3).requires_grad_()
    check_gradients(lambda x, h: ht.convolve_packed(x, h, offsets, mode), lambda x, h: packed(x, h, offsets, mode),
                    (flat, own))
    index = torch.from_numpy(generator(4).integers(0, 4, (n, 3))).to(dev)
    bank, lengths = tensor((4, 30), dev, 5).requires_grad_(), torch.tensor([30, 2, 0, 9], device=dev)
    ends = torch.arange(30, device=dev) < lengths[:, None]
    check_gradients(lambda x, h: ht.convolve_packed(x, h, cu_seqlens, mode, lengths, index),
                    lambda x, h: packed(x, (h * ends)[index], offsets, mode), (x, bank))
    y = ht.convolve_packed(flat, bank, cu_seqlens, mode, index=index[:, 0])
    close(y, packed(flat.double(), bank.double()[index[:, 0]], offsets, mode))
    assert ht.convolve_packed(x.bfloat16(), bank.bfloat16(), cu_seqlens, mode, index=index).dtype == torch.bfloat16


def test_lists_are_refused_with_a_remedy(ht):
    x, h = tensor((2, 3, 50)), tensor((4, 9))
    for call, kind, text in [
            (lambda: ht.convolve(x, h[0], index=[0]), ValueError, "give a bank"),
            (lambda: ht.convolve(x, h, index=[0, 1]), ValueError, "does not broadcast"),
            (lambda: ht.convolve(x, h, index=[0.0]), TypeError, "index is torch.float32; give whole numbers"),
            (lambda: ht.convolve(x, h[:0], index=[0]), ValueError, "at least one filter"),
            (lambda: ht.convolve(x, h, index=[0], lengths=[1, 2]), ValueError, "a length for each filter"),
            (lambda: ht.convolve_packed(x, h, [0, 50]), ValueError, "give .channels, frames. or"),
            (lambda: ht.convolve_packed(x[0], h[0], [0]), ValueError, "sequences . 1"),
            (lambda: ht.convolve_packed(x[0], h[0], [0, 49]), ValueError, "end with the 50 frames"),
            (lambda: ht.convolve_packed(x[0], h[0], [1, 50]), ValueError, "begin with 0"),
            (lambda: ht.convolve_packed(x[0], h[0], [0, 30, 20, 50]), ValueError, "ascend"),
            (lambda: ht.convolve_packed(x[0], h, [0, 50]), ValueError, "leading dimensions .1, 3., or 1"),
            (lambda: ht.convolve_packed(x[0], h[0], [0, 50], "valid"), ValueError, "no mode valid"),
            (lambda: ht.convolve_packed(x[0], h[0], [0, 50], ["full"]), ValueError, "mode .'full'. is unknown")]:
        with pytest.raises(kind, match=text):
            call()


def test_views_and_expanded_tensors(ht, backend, dev):
    x, h = tensor((4, 200, 6), dev), tensor((30, 6), dev, 2)
    base = tensor((2, 500), dev, 3)
    cases = [(x.transpose(1, 2), h.t()), (x[::2, 10:, :3].transpose(1, 2), h[::2, 1:4].t()),
             (base[:, None, 100:].expand(2, 5, 400), base[:1, :40].expand(5, 40)),
             (base.unfold(1, 100, 7), base[0, 3:50]),
             (base[0, ::3], base[1, ::50]), (base[:, :1], base[:, 1:2])]
    for x, h in cases:
        x, h = x.detach().requires_grad_(), h.detach().requires_grad_()
        for mode in MODES:
            check_orders(ht, x, h, mode)
    z, h = torch.randn(3, 50, dtype=torch.complex64, device=dev), tensor((9,), dev)
    for x in (z.conj().imag, torch._neg_view(base)):  # memory whose sign torch changes when it reads
        close(ht.convolve(x, h), exact(x.double(), h.double(), "full"))
        close(ht.convolve(base, x[0, :9]), exact(base.double(), x[0, :9].double(), "full"))


def test_gradients_of_sums_are_expanded(ht, backend, dev):
    x, h = tensor((2, 3, 50), dev).requires_grad_(), tensor((3, 9), dev).requires_grad_()
    g = torch.autograd.grad(ht.convolve(x, h, "valid").sum(), (x, h))
    for got, want in zip(g, torch.autograd.grad(exact(*(d := doubles(x, h)), "valid").sum(), d)):
        close(got, want)


def test_both_gradients_are_one_run(ht, backend, dev, monkeypatch):
    """Also of views, of expanded tensors whose strides are all 0, of half precision, by index, of packed sequences."""
    runs = []
    monkeypatch.setattr(ht, "_execute_both", lambda *given, run=ht._execute_both: runs.append(run(*given)) or runs[-1])
    row, taps = tensor((1, 1, 300), dev), tensor((1, 1, 40), dev, 2)
    for x, h, lengths in [(tensor((2, 3, 300), dev), tensor((3, 40), dev, 2), None),
                          (tensor((2, 300, 3), dev).transpose(1, 2), tensor((2, 40, 3), dev, 2).transpose(1, 2), None),
                          (tensor((2, 3, 300), dev), tensor((3, 40), dev, 2), torch.tensor([5, 0, 40], device=dev)),
                          (row.expand(2, 3, 300), taps.expand(2, 3, 40), None)]:
        for mode in MODES:
            x, h = x.detach().requires_grad_(), h.detach().requires_grad_()
            y = ht.convolve(x, h, mode, lengths=lengths)
            for gy in (tensor(y.shape, dev, 3), tensor(y.shape[-1:], dev, 4).expand(y.shape)):
                x64, h64 = doubles(x, h)
                y64 = exact(x64, h64, mode, lengths)
                for got, want in zip(torch.autograd.grad(y, (x, h), gy, retain_graph=True),
                                     torch.autograd.grad(y64, (x64, h64), gy.double())):
                    close(got, want)
    assert len(runs) == 32
    x, h = (value.detach().to(torch.bfloat16).requires_grad_() for value in (x, h))
    assert [g.dtype for g in torch.autograd.grad(ht.convolve(x, h).sum(), (x, h))] == [torch.bfloat16] * 2
    assert len(runs) == 33
    index, offsets = torch.tensor([[2], [-1]], device=dev), torch.tensor([0, 90, 300], device=dev)
    for call in (lambda x, h: ht.convolve(x, h, "same", index=index),
                 lambda x, h: ht.convolve_packed(x[0], h, offsets, index=index)):
        x, h = tensor((2, 3, 300), dev).requires_grad_(), tensor((4, 40), dev, 2).requires_grad_()
        torch.autograd.grad(call(x, h).sum(), (x, h))
    assert len(runs) == 35


def test_empty_batches(ht, backend, dev):
    for lead in ((0, 3), (2, 0), (0,), (0, 2, 3)):
        x, h = tensor((*lead, 20), dev).requires_grad_(), tensor((5,), dev).requires_grad_()
        y = ht.convolve(x, h, "causal")
        assert y.shape == (*lead, 20)
        gx, gh = torch.autograd.grad(y.sum(), (x, h))
        assert gx.shape == x.shape and gh.shape == h.shape and (gh == 0).all()


def test_nan_stays_in_its_channel(ht, backend, dev):
    x, h = tensor((2, 3, 400), dev), tensor((3, 20), dev, 2)
    x[1, 2, 200] = float("nan")
    y = ht.convolve(x, h, "causal")
    want = exact(x[:1].double(), h.double(), "causal")
    assert y[1, 2, 200:220].isnan().all() and not y[1, :2].isnan().any()
    close(y[:1], want)


def test_the_same_bits_in_every_run(ht, backend, dev):
    x, h = tensor((3, 2, 5000), dev).requires_grad_(), tensor((2, 700), dev).requires_grad_()
    first = [ht.convolve(x, h), *torch.autograd.grad(ht.convolve(x, h).square().sum(), (x, h))]
    for _ in range(3):
        again = [ht.convolve(x, h), *torch.autograd.grad(ht.convolve(x, h).square().sum(), (x, h))]
        assert all(torch.equal(a, b) for a, b in zip(first, again))


TYPES = (torch.float32, torch.bfloat16, torch.float16)


def rounded_once(got, want):
    """Whether a result in half precision is the nearest number to the result in float64, but for errors of float32."""
    assert got.shape == want.shape
    off = (got.double() - want).abs()
    spacing = want.abs().log2().floor().exp2() * torch.finfo(got.dtype).eps
    smallest = torch.finfo(got.dtype).tiny * torch.finfo(got.dtype).eps
    error = 4e-6 * want.square().mean().sqrt()
    largest = (off / spacing).max()
    assert (off <= spacing.clamp(min=smallest) / 2 + error).all(), f"{got.dtype}: {largest} of the spacing"


@pytest.mark.parametrize("n, k", ((60, 9), (3000, 2900), (40000, 33000)))
def test_half_precision(ht, backend, dev, n, k):
    """Any mix of dtypes is computed in float32. Results have the dtype that torch promotes to, and inside of autocast
    float32; gradients that of their tensor. Each is rounded once."""
    x, h = tensor((2, 3, n), dev), tensor((3, k), dev, 2)
    for x_type in TYPES:
        for h_type in TYPES:
            low, taps = x.to(x_type).requires_grad_(), h.to(h_type).requires_grad_()
            wide, wide_taps = (value.detach().double().requires_grad_() for value in (low, taps))
            y, want = ht.convolve(low, taps, "same"), exact(wide, wide_taps, "same")
            assert y.dtype == torch.promote_types(x_type, h_type)
            rounded_once(y, want.detach())
            gy = tensor(y.shape, dev, 3).to(y.dtype)
            for got, exactly, dtype in zip(torch.autograd.grad(y, (low, taps), gy),
                                           torch.autograd.grad(want, (wide, wide_taps), gy.double()), (x_type, h_type)):
                assert got.dtype == dtype
                rounded_once(got, exactly)
            with torch.autocast(dev, dtype=torch.bfloat16):
                y = ht.convolve(low, taps, "same")
                close(y, want.detach())
                assert [g.dtype for g in torch.autograd.grad(y.sum(), (low, taps))] == [x_type, h_type]


def test_half_precision_is_not_copied(ht, backend, dev, monkeypatch):
    """The plan reads and writes the dtypes: no tensor of the call is converted, forward or backward."""
    def refuse(*_, **__):
        raise AssertionError("a tensor was converted")

    x, h = (tensor(shape, dev).to(torch.bfloat16).requires_grad_() for shape in ((2, 3, 60), (3, 9)))
    gy = tensor((2, 3, 68), dev).to(torch.bfloat16)
    for name in ("float", "to", "type"):
        monkeypatch.setattr(torch.Tensor, name, refuse)
    grads = torch.autograd.grad(ht.convolve(x, h), (x, h), gy)
    second = torch.autograd.grad(ht.convolve(x, h), x, gy, create_graph=True)
    monkeypatch.undo()
    assert [g.dtype for g in (*grads, *second)] == [torch.bfloat16] * 3


def test_refusals_say_what_to_do(ht, backend, dev):
    x, h = tensor((2, 3, 50), dev), tensor((3, 9), dev)
    for call, kind, text in [
            (lambda: ht.convolve(x.double(), h), TypeError, "x is float64, .* give x.float"),
            (lambda: ht.convolve(x, h.double()), TypeError, "h is float64"),
            (lambda: ht.convolve(x.int(), h), TypeError, "x is torch.int32; give x.float"),
            (lambda: ht.convolve(x > 0, h), TypeError, "x is torch.bool; give x.float"),
            (lambda: ht.convolve(x + 0j, h), TypeError, "x is complex"),
            (lambda: ht.convolve(x.tolist(), h), TypeError, "x is list; give a torch.Tensor"),
            (lambda: ht.convolve(x, h.cpu().numpy()), TypeError, "h is ndarray"),
            (lambda: ht.convolve(x, h[:2]), ValueError, r"\(2, 3, 50\) and \(2, 9\) do not broadcast"),
            (lambda: ht.convolve(x[..., :0], h), ValueError, "at least one"),
            (lambda: ht.convolve(x, h[..., :0]), ValueError, "at least one"),
            (lambda: ht.convolve(x.sum(), h), ValueError, r"x has shape \(\)"),
            (lambda: ht.convolve(x, h, "circular"), ValueError, "mode 'circular' is unknown; give full"),
            (lambda: ht.convolve(x, h, ["full"]), ValueError, "mode .'full'. is unknown; give full"),
            (lambda: ht.convolve(x, h, lengths=[1, 2]), ValueError, "a length for each filter"),
            (lambda: ht.convolve(x, h, lengths=[1.0, 2.0, 3.0]), TypeError, "whole numbers"),
            (lambda: ht.convolve(x, h.to("meta")), ValueError, "h on meta; move them to one device"),
            (lambda: ht.fftconvolve(x, h), ValueError, "x has 3 dimensions and y has 2"),
            (lambda: ht.fftconvolve(x[:, 0, :9], x[0]), ValueError, r"of \(2, 9\) and \(3, 50\) do not broadcast"),
            (lambda: ht.fftconvolve(x[0], x[:, 0, :9]), ValueError, r"of \(3, 50\) and \(2, 9\) do not broadcast"),
            (lambda: ht.fftconvolve(x[..., :0], x), ValueError, r"x has shape \(2, 3, 0\); .* at least one frame"),
            (lambda: ht.fftconvolve(x, x[..., :0]), ValueError, "50 frames and 0 taps"),
            (lambda: ht.fftconvolve(x, x, "causal"), ValueError, "mode 'causal' is unknown")]:
        with pytest.raises(kind, match=text):
            call()
    if dev == "cuda":
        with pytest.raises(ValueError, match="x is on cuda:0 and h on cpu"):
            ht.convolve(x, h.cpu())


def test_tensors_without_strides_are_refused(ht, hc):
    """Also of the shape of an earlier call, whose plan is known."""
    x, h = tensor((2, 20)), tensor((3,))
    ht.convolve(x, h)
    odd = [(x.to_sparse(), "layout torch.sparse_coo; give [xy].to_dense"),
           (x.to_sparse_csr(), "layout torch.sparse_csr"),
           (torch.nested.nested_tensor([x[0], x[0, :9]]), "nested tensor; give a padded one")]
    if torch.backends.mkldnn.is_available():
        odd.append((x.to_mkldnn(), "layout torch._mkldnn"))
    for given, text in odd:
        calls = [lambda: ht.convolve(given, h), lambda: ht.convolve(x, given), lambda: ht.fftconvolve(x, given),
                 lambda: ht.convolve_packed(given, h, [0, 20]), lambda: ht.convolve_moving(given, x, [0]),
                 lambda: ht.conv1d(given, h), lambda: ht.conv1d(x, given), lambda: hc.convolve_tensors(given, h)]
        for call in calls:
            with pytest.raises(TypeError, match=text.replace("[xy]", r"\w+")):
                call()


def test_operators_check_shapes(ht):
    """They are public as torch.ops.haloconv; no call of them reads beyond a tensor."""
    x, h = tensor((2, 3, 50)), tensor((3, 9))
    ops = torch.ops.haloconv
    for call in (lambda: ops.convolve(x, h, "circular"), lambda: ops.gradient_h(x, x, "same", []),
                 lambda: ops.convolve(x, h[:2], "full"), lambda: ops.convolve(x, tensor((1, 2, 3, 9)), "full"),
                 lambda: ops.gradient_x(x, h, "full", 50), lambda: ops.gradient_h(x, x[:1], "same", [9]),
                 lambda: ops.convolve(x, h, "full", torch.tensor([1, 2])),
                 lambda: ops.convolve(x, h, "full", torch.tensor([1, 2, 3]).int()),
                 lambda: ops.gradient_h(x, x, "same", [3, 9], torch.tensor([1, 2])),
                 lambda: ops.gradient_h(x, x, "valid", [3, 9]), lambda: ops.gradient_h(x, x, "same", [2, 9])):
        with pytest.raises((ValueError, RuntimeError), match="give|makes"):
            call()
    with pytest.raises((TypeError, RuntimeError), match="float32"):
        ops.convolve(x.double(), h, "full")


@pytest.mark.parametrize("mode", ("full", "same", "valid"))
def test_fftconvolve_is_torchaudios(ht, backend, dev, mode):
    """By the definition: both operands broadcast; "same" is relative to x; the longer one may be y."""
    for x_shape, y_shape in [((20,), (7,)), ((7,), (20,)), ((3, 1, 50), (1, 4, 50)), ((3, 1, 20), (1, 4, 51)),
                             ((64, 30), (1, 9)), ((1, 30), (6, 9)), ((2, 1, 3, 40), (1, 5, 3, 8))]:
        x, y = tensor(x_shape, dev).requires_grad_(), tensor(y_shape, dev, 2).requires_grad_()
        got, want = ht.fftconvolve(x, y, mode), exact(*(d := doubles(x, y)), mode)
        close(got, want)
        for a, b in zip(torch.autograd.grad(got.square().sum(), (x, y)), torch.autograd.grad(want.square().sum(), d)):
            close(a, b, 3 * BOUND)
    assert ht.fftconvolve(x, y).shape == exact(x, y, "full").shape


def test_columns_keep_their_gradients(ht, hc, backend, dev, monkeypatch):
    """haloconv.convolve of tensors on a GPU has the channel rule of NumPy arrays, and gradients."""
    from haloconv import _arrays, _streams
    if dev == "cpu":  # they say that they are on a GPU
        for module in (_arrays, _streams):
            monkeypatch.setattr(module, "device_of", lambda value: 0 if isinstance(value, torch.Tensor) else None)
    x = tensor((300, 2), dev).requires_grad_()
    for shape in ((40,), (40, 1), (40, 2), (40, 4), (40, 2, 3)):
        h = tensor(shape, dev, 2).requires_grad_()
        y = hc.convolve(x, h, mode="same")
        want = hc.convolve(x.detach().cpu().numpy(), h.detach().cpu().numpy(), mode="same", backend="cpu")
        close(y.cpu(), torch.from_numpy(np.ascontiguousarray(want)))
        gx, gh = torch.autograd.grad(y.sum(), (x, h))
        assert gx.shape == x.shape and gh.shape == h.shape and gh.abs().min() > 0
    close(hc.convolve_tensors(x.double().t(), h[:, 0, 0]), exact(x.double().t(), h[:, 0, 0].double(), "full"))
    with pytest.raises(TypeError, match="x is complex"):
        hc.convolve_tensors(x + 0j, h)


def test_arrays_may_be_tensors(ht, hc):
    class Sound(torch.Tensor):
        pass

    x, h = tensor((2, 3, 50)).requires_grad_(), tensor((3, 9))
    for given in (x, x.as_subclass(Sound)):
        y = hc.convolve_tensors(given, torch.nn.Parameter(h))
        assert isinstance(y, torch.Tensor) and y.requires_grad
        assert torch.equal(y, ht.convolve(x, h))


def test_threads_share_the_module(ht):
    x, h = tensor((2, 3, 3000)), tensor((3, 500))
    want, wrong = ht.convolve(x, h), []

    def work(seed):
        for i in range(20):
            n = 100 + (seed * 20 + i) % 37
            if not torch.equal(ht.convolve(x, h), want) or ht.convolve(x[..., :n], h, "causal").shape[-1] != n:
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_forward_mode(ht):
    forward_ad = torch.autograd.forward_ad
    x, h, dx, dh = tensor((2, 40)), tensor((2, 9), seed=2), tensor((2, 40), seed=3), tensor((2, 9), seed=4)
    want = exact(dx.double(), h.double(), "same") + exact(x.double(), dh.double(), "same")
    with forward_ad.dual_level():
        y = ht.convolve(forward_ad.make_dual(x, dx), forward_ad.make_dual(h, dh), "same")
        close(forward_ad.unpack_dual(y).tangent, want)


@needs_operators
def test_batched_gradients_are_those_of_each(ht, backend, dev):
    """torch batches them for is_grads_batched=True, and for jacobian and hessian with vectorize=True."""
    x, h, bank = (tensor(shape, dev, i).requires_grad_() for i, shape in enumerate(((2, 3, 50), (3, 7), (4, 7))))
    for call, inputs in [(lambda: ht.convolve(x, h, "causal"), (x, h)), (lambda: ht.convolve(x, h[0], "same"), (x,)),
                         (lambda: ht.convolve_packed(x[0], h, [0, 20, 50]), (x, h)),
                         (lambda: ht.convolve(x, bank, index=[2, -1, 0]), (x, bank))]:
        y = call()
        gy = tensor((5, *y.shape), dev, 4)
        for i, got in enumerate(torch.autograd.grad(y, inputs, gy, retain_graph=True, is_grads_batched=True)):
            for each, g in zip(got, gy):
                close(each, torch.autograd.grad(y, inputs, g, retain_graph=True)[i])
    functional = torch.autograd.functional
    for transform in (functional.jacobian, functional.hessian):
        for strategy in ("reverse-mode", "forward-mode"):
            def loss(x, h):
                y = ht.convolve(ht.convolve(x, h), h, "same")
                return y if transform is functional.jacobian else y.pow(3).sum()

            name = "strategy" if transform is functional.jacobian else "outer_jacobian_strategy"
            want = transform(loss, (x[0].detach(), h.detach()))
            got = transform(loss, (x[0].detach(), h.detach()), vectorize=True, **{name: strategy})
            for i, j in ((0, 0), (0, 1), (1, 0), (1, 1))[:2 if transform is functional.jacobian else 4]:
                one, other = ((got[i][j], want[i][j]) if transform is functional.hessian else (got[j], want[j]))
                close(one, other)


# ---- compilers and transforms ---------------------------------------------------------------------------------------
@needs_operators
def test_operators_pass_opcheck(ht, backend, dev):
    ops = torch.ops.haloconv
    x, h = tensor((2, 3, 50), dev).requires_grad_(), tensor((3, 9), dev).requires_grad_()
    lengths, low = torch.tensor([3, 9, 0], device=dev), x.detach().bfloat16().requires_grad_()
    index, offsets = torch.tensor([[2, 0, -1]], device=dev), torch.tensor([0, 20, 50], device=dev)
    for op, arguments in [(ops.convolve, (x, h, "same")), (ops.convolve, (x, h, "full", lengths)),
                          (ops.convolve, (low, h, "same", None, torch.bfloat16)),
                          (ops.gradient_x, (x, h, "causal", 50)), (ops.gradient_h, (x, x, "same", [3, 9])),
                          (ops.gradient_h, (x, x, "causal", [2, 1, 9], lengths[:2, None])),
                          (ops.convolve, (x, h, "full", lengths, None, index)),
                          (ops.convolve, (x[0].detach(), h, "full", lengths, None, None, offsets)),
                          (ops.gradient_x, (x, h, "causal", 50, None, None, index)),
                          (ops.gradient_h, (x, x, "causal", [3, 9], None, None, index)),
                          (ops.gradients, (x.detach().neg().requires_grad_(), x, h, "causal", lengths)),
                          (ops.gradients, (x, x.detach(), h, "causal", lengths, index)),
                          (ops.gradients, (x[0].detach(), x[0].detach(), h, "causal", None, None, offsets))]:
        torch.library.opcheck(op.default, arguments)


@needs_operators
@pytest.mark.parametrize("mode", MODES)
def test_compile_is_one_graph(ht, backend, dev, mode):
    def loss(x, h, gy):
        return (ht.convolve(x, h, mode) * gy).sum() + ht.fftconvolve(x[:, 0], h[None, 0]).square().sum()

    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    for n, k in ((40, 9), (57, 9), (80, 20), (9, 90)):  # the second size is compiled with symbols for sizes
        x, h = tensor((2, 3, n), dev).requires_grad_(), tensor((3, k), dev).requires_grad_()
        gy = tensor(ht.convolve(x, h, mode).shape, dev)
        for got, want in zip(torch.autograd.grad(compiled(x, h, gy), (x, h)),
                             torch.autograd.grad(loss(x, h, gy), (x, h))):
            close(got, want)
    index, offsets = torch.tensor([[2], [-1]], device=dev), torch.tensor([0, 5, 9], device=dev)
    for call in (lambda x, h: ht.convolve(x, h, mode, index=index),
                 lambda x, h: ht.convolve_packed(x[0], h, offsets, "full", index=index)):
        compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
        y, want = compiled(x, h), call(x, h)
        assert torch.equal(y, want)
        for got, right in zip(torch.autograd.grad(y.sum(), (x, h)), torch.autograd.grad(want.sum(), (x, h))):
            assert torch.equal(got, right)
    half = torch.compile(lambda x, h: ht.convolve(x, h, mode), fullgraph=True, backend="aot_eager")
    assert half(x.bfloat16(), h).dtype == torch.float32
    low, taps = x.detach().bfloat16().requires_grad_(), h.detach().half().requires_grad_()
    y = half(low, taps)
    assert torch.equal(y, ht.convolve(low, taps, mode))
    for got, want in zip(torch.autograd.grad(y.sum(), (low, taps)),
                         torch.autograd.grad(ht.convolve(low, taps, mode).sum(), (low, taps))):
        assert torch.equal(got, want) and got.dtype == want.dtype
    torch._dynamo.reset()


@needs_operators
def test_default_devices_change_nothing(ht):
    x, h = tensor((2, 3, 50)).requires_grad_(), tensor((3, 9)).requires_grad_()
    torch.set_default_device("meta")
    try:
        y = ht.convolve(x, h)
        g = torch.autograd.grad(y, (x, h), y.detach())
    finally:
        torch.set_default_device(None)
    close(y, exact(x.double(), h.double(), "full"))
    assert [value.device.type for value in g] == ["cpu", "cpu"]


@needs_operators
def test_fake_tensors(ht):
    from torch._subclasses import FakeTensorMode
    with FakeTensorMode() as mode:
        x, h = (mode.from_tensor(tensor(shape)) for shape in ((2, 3, 50), (3, 9)))
        for name in MODES:
            assert ht.convolve(x, h, name).shape == exact(torch.empty(2, 3, 50), torch.empty(3, 9), name).shape
    meta = ht.convolve(torch.empty(2, 3, 50, device="meta"), torch.empty(9, device="meta"))
    assert meta.shape == (2, 3, 58) and meta.is_meta
    for x_type in TYPES:
        for h_type in TYPES:
            low = ht.convolve(meta.to(x_type), meta[0, 0].to(h_type), "same")
            assert low.dtype == torch.promote_types(x_type, h_type) and low.shape == meta.shape


@needs_operators
def test_meta_tensors_are_refused_as_others(ht):
    x, h = torch.empty(3, 50, device="meta"), torch.empty(4, 7, device="meta")
    offsets = torch.empty(3, dtype=torch.int64, device="meta")
    for call, text in [(lambda: ht.convolve_packed(x, h[0], offsets, "valid"), "no mode valid"),
                       (lambda: ht.convolve_packed(x, h, offsets), "leading dimensions"),
                       (lambda: ht.convolve_packed(x, h, offsets, index=offsets[:2]), "leading dimensions"),
                       (lambda: torch.ops.haloconv.gradient_x(x, h[0], "full", 50), "makes 56"),
                       (lambda: torch.ops.haloconv.gradients(x, x, h, "same"), "do not belong together")]:
        with pytest.raises(ValueError, match=text):
            call()


@needs_operators
def test_transforms_of_torch_func(ht, backend, dev):
    x, h = tensor((4, 2, 3, 50), dev), tensor((4, 3, 9), dev, 2)
    got = torch.vmap(lambda x, h: ht.convolve(x, h, "same"))(x, h)
    close(got, exact(x.double(), h[:, None].double(), "same"))
    close(torch.vmap(lambda x: ht.convolve(x, h[0]), 1, 1)(x), exact(x.double(), h[0].double(), "full"))
    if hasattr(torch.library, "register_vmap"):
        ops = torch.ops.haloconv
        close(torch.vmap(lambda x: ops.convolve(x, h[0], "full"))(x), exact(x.double(), h[0].double(), "full"))
        each = torch.vmap(lambda x: ops.gradient_h(x, x, "causal", (3, 9)))(x)
        for i in range(4):
            close(each[i], ops.gradient_h(x[i].contiguous(), x[i], "causal", (3, 9)).double())
        with pytest.raises(ValueError, match="do not belong together"):
            torch.vmap(lambda x: ops.convolve(x, h[0], "full"))(x[0, 0])
    lengths = torch.tensor([[9, 3, 0]] * 4, device=dev)
    close(torch.vmap(ht.convolve, (0, 0, None, 0))(x, h, "full", lengths),
          exact(x.double(), h[:, None].double(), "full", lengths[:, None]))

    def loss(h, x):
        return ht.convolve(x, h, "valid").pow(3).sum()

    each = torch.vmap(torch.func.grad(loss))(h, x)
    for i in range(4):
        h64, x64 = h[i].double().requires_grad_(), x[i].double()
        close(each[i], torch.autograd.grad(exact(x64, h64, "valid").pow(3).sum(), h64)[0], 3 * BOUND)
    index = torch.tensor([2, 0, -1, 1], device=dev)
    close(torch.vmap(lambda x, index: ht.convolve(x, h[0], "causal", index=index))(x, index),
          by_index(x.double(), h[0].double(), "causal", index[:, None, None]))
    for size in ((0, 3, 9), (0, 3, 1)):  # a vmap over no items, with lists
        none = x[:0].detach().requires_grad_()
        taps = torch.zeros(size[:2], dtype=torch.int64, device=dev)
        y = torch.vmap(lambda x, h, taps: ht.convolve(x, h, "full", taps))(none, torch.zeros(size, device=dev), taps)
        assert y.shape == (0, 2, 3, 49 + size[-1]) and torch.autograd.grad(y.sum(), none)[0].shape == none.shape
    y = torch.vmap(lambda x, index: ht.convolve(x, h[0], "causal", index=index))(x[:0], index[:0])
    assert y.shape == (0, 2, 3, 50)
    tangent = torch.func.jvp(lambda h: ht.convolve(x, h[:, None]), (h,), (h,))[1]
    close(tangent, exact(x.double(), h[:, None].double(), "full"))
    jacobian = torch.func.jacrev(lambda h: ht.convolve(x[0, 0, 0], h, "causal"))(h[0, 0])
    assert torch.allclose(jacobian[:, 0], x[0, 0, 0], atol=1e-5)


# ---- CUDA -----------------------------------------------------------------------------------------------------------
@pytest.fixture
def gpu():
    if not torch.cuda.is_available():
        pytest.skip("this torch has no CUDA device")


def test_small_runs_of_a_thread_and_stream_keep_a_workspace(ht, monkeypatch):
    """Other threads, streams and CUDA graphs have others: nothing orders their runs. No device is needed."""
    monkeypatch.setattr(ht, "_is_capturing", lambda: capturing)
    monkeypatch.setattr(ht, "_kept", {})
    monkeypatch.setattr(ht, "_current_device", lambda: 0)
    x, capturing, others = torch.zeros(3), False, []

    def workspace(n_bytes=100, stream=0, may_keep=True, device=0):
        return ht._workspace(n_bytes, x, device, stream, may_keep)
    kept = workspace()
    assert workspace() is kept and kept.numel() == ht._KEPT_BYTES and workspace(0) is None
    thread = threading.Thread(target=lambda: others.append(workspace()))
    thread.start()
    thread.join()
    others += [workspace(stream=1), workspace(may_keep=False), workspace(ht._KEPT_BYTES + 1), workspace(device=1)]
    capturing = True
    others.append(workspace())
    assert all(other is not kept for other in others)
    assert [other.numel() for other in others[2:]] == [100, ht._KEPT_BYTES + 1, 100, 100]
    capturing = False
    for stream in range(200):
        workspace(stream=stream)
    assert len(ht._kept) <= 64


def test_cuda_side_stream(ht, gpu):
    """The call follows the work of its stream, which is late here, and the next work of the stream follows the call."""
    x, h = tensor((8, 2, 50000), "cuda"), tensor((2, 3000), "cuda")
    want = exact(2 * x.double(), h.double(), "causal")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    for _ in range(5):
        with torch.cuda.stream(stream):
            late = torch.zeros_like(x)
            torch.cuda._sleep(20_000_000)
            late.copy_(2 * x)
            y = ht.convolve(late, h, "causal")
            late.zero_()
            y = y + 0
        stream.synchronize()
        close(y, want)


def test_cuda_graph(ht, gpu):
    x, h = tensor((4, 3, 5000), "cuda").requires_grad_(), tensor((3, 700), "cuda").requires_grad_()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.autograd.grad(ht.convolve(x, h, "same").square().sum(), (x, h))
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = ht.convolve(x, h, "same")
        gx, gh = torch.autograd.grad(y.square().sum(), (x, h))
    for seed in (5, 6):
        with torch.no_grad():
            x.copy_(tensor(x.shape, "cuda", seed))
        graph.replay()
        x64, h64 = doubles(x, h)
        want = exact(x64, h64, "same")
        close(y, want)
        for got, exact_gradient in zip((gx, gh), torch.autograd.grad(want.square().sum(), (x64, h64))):
            close(got, exact_gradient, 3 * BOUND)


def test_cuda_threads_and_graphs_share_no_workspace(ht, gpu):
    """Small calls at the same time: of threads in one stream, and of a graph that another stream replays."""
    sets = [(tensor((2, 4, 64), "cuda", i), tensor((4, 16), "cuda", 9 + i)) for i in range(4)]
    want, got = [ht.convolve(x, h, "causal") for x, h in sets], [None] * 4

    def work(i):
        got[i] = torch.stack([ht.convolve(*sets[i], "causal") for _ in range(500)])
    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all((ours == right).all() for ours, right in zip(got, want))
    graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.graph(graph):
        of_graph = torch.stack([ht.convolve(*sets[0], "causal") for _ in range(50)])
    side.wait_stream(torch.cuda.current_stream())
    for i in range(1, 4):
        with torch.cuda.stream(side):
            graph.replay()
        work(i)
        torch.cuda.synchronize()
        assert (of_graph == want[0]).all() and (got[i] == want[i]).all()


def test_cuda_waits_for_nothing(ht, gpu):
    x, h = tensor((4, 3, 5000), "cuda").requires_grad_(), tensor((3, 700), "cuda").requires_grad_()
    torch.autograd.grad(ht.convolve(x, h).sum(), (x, h))
    torch.cuda.synchronize()
    torch.cuda._sleep(400_000_000)
    busy = torch.cuda.Event()
    busy.record()
    torch.autograd.grad(ht.convolve(x, h).sum(), (x, h))
    assert not busy.query(), "a call waited for the device"


def test_cuda_second_device(ht, gpu):
    if torch.cuda.device_count() < 2:
        pytest.skip("one CUDA device")
    x, h = tensor((4, 3, 5000), "cuda:1").requires_grad_(), tensor((3, 700), "cuda:1").requires_grad_()
    check_orders(ht, x, h, "causal")
    assert torch.cuda.current_device() == 0 and ht.convolve(x, h).device == x.device
    with pytest.raises(ValueError, match="cuda:1 and h on cuda:0"):
        ht.convolve(x, h.to("cuda:0"))


# ---- augmentation ---------------------------------------------------------------------------------------------------
def rooms(n=6, taps=400, channels=1, seed=9):
    """Responses of different lengths, whose direct sound is at 3, 14, 25, ..."""
    draw, found = generator(seed), []
    for i in range(n):
        h = draw.standard_normal((channels, taps - 20 * i)).astype(np.float32) * 0.05
        h[:, 3 + 11 * i] = 1
        found.append(torch.from_numpy(h))
    return found


def test_augmentation_applies_the_drawn_response(ht, backend, dev):
    """The output has the input's length, and the direct sound is where the sound was."""
    hs = rooms()
    x = tensor((40, 2, 1000), dev)
    for align in (True, False):
        augment = ht.ApplyImpulseResponse(hs, p=0.6, align=align, seed=SEED).to(dev)
        y = augment(x)
        assert y.shape == x.shape and augment.chosen.shape == (40,)
        assert {-1, *range(6)} >= set(augment.chosen.tolist()) and len(set(augment.chosen.tolist())) > 3
        for i, room in enumerate(augment.chosen.tolist()):
            if room < 0:
                assert torch.equal(y[i], x[i])
            else:
                at = 3 + 11 * room if align else 0
                close(y[i], exact(x[i].double(), hs[room].to(dev).double(), "full")[..., at:at + 1000])


def test_augmentation_draws_per(ht):
    x = tensor((8, 3, 300))
    channels = ht.ApplyImpulseResponse(rooms(), p=1, per="channel", align=False, seed=1)
    y = channels(x)
    assert channels.chosen.shape == (8, 3) and len(set(channels.chosen.flatten().tolist())) > 3
    close(y[2, 1], exact(x[2, 1].double(), rooms()[channels.chosen[2, 1]][0].double(), "causal"))
    batch = ht.ApplyImpulseResponse(rooms(channels=3), p=1, per="batch", align=False, seed=2)
    y = batch(x)
    assert len(set(batch.chosen.tolist())) == 1
    close(y, exact(x.double(), rooms(channels=3)[batch.chosen[0]].double(), "causal"))
    flat = ht.ApplyImpulseResponse(rooms(), p=1, align=False, seed=3)
    assert flat(x[:, 0]).shape == (8, 300) and flat.chosen.shape == (8,) and flat(x[0, 0]).shape == (300,)
    for per in ("example", "channel", "batch"):
        empty = ht.ApplyImpulseResponse(rooms(), per=per, keep_level=True)
        assert empty(x[:0]).shape == (0, 3, 300) and empty(x[:0, 0]).shape == (0, 300)


def test_augmentation_keeps_the_dtype(ht, backend, dev):
    """In training, in eval mode and inside of autocast; examples that are not drawn stay bit for bit."""
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        x = tensor((30, 1, 300), dev).to(dtype)
        for keep_level in (False, True):
            augment = ht.ApplyImpulseResponse(rooms(), keep_level=keep_level, seed=1).to(dev)
            with torch.autocast(dev, dtype=torch.bfloat16):
                assert augment(x).dtype == dtype
            y = augment(x)
            stays = augment.chosen.to(dev) < 0
            assert y.dtype == dtype and stays.any() and torch.equal(y[stays], x[stays])
            assert augment.eval()(x).dtype == dtype


def test_augmentation_has_its_own_copy(ht):
    given = tensor((3, 40))
    augment = ht.ApplyImpulseResponse(given, align=False)
    given.zero_()
    assert (augment.responses != 0).all()


def test_augmentation_repeats_by_its_seed(ht):
    x = tensor((16, 1, 100))
    one, two = (ht.ApplyImpulseResponse(rooms(), seed=5) for _ in range(2))
    first = one(x)
    assert torch.equal(first, two(x)) and not torch.equal(first, ht.ApplyImpulseResponse(rooms(), seed=6)(x))
    assert b"_augmentation" not in pickle.dumps(one)  # pickles name the public module
    copies = [copy.deepcopy(one), pickle.loads(pickle.dumps(one))]
    second = one(x)
    assert not torch.equal(first, second) and all(torch.equal(second, other(x)) for other in copies)
    free = ht.ApplyImpulseResponse(rooms())
    results = []
    for _ in range(2):
        torch.manual_seed(3)
        results.append(free(x))
    assert torch.equal(*results)
    assert free.eval()(x) is x and not free.state_dict()
    assert torch.equal(ht.ApplyImpulseResponse(rooms(), p=0)(x), x)


def test_augmentation_levels(ht):
    x = tensor((8, 2, 2000))
    loud = [30 * h for h in rooms()]
    y = ht.ApplyImpulseResponse(loud, p=1, keep_level=True, seed=1)(x)
    assert torch.allclose(y.square().mean((1, 2)), x.square().mean((1, 2)), rtol=1e-4)
    for per in ("example", "channel", "batch"):
        y = ht.ApplyImpulseResponse(loud, p=0.5, per=per, keep_level=True, seed=1)(x)
        assert torch.allclose(y.square().mean((1, 2)), x.square().mean((1, 2)), rtol=1e-4)
    silent = ht.ApplyImpulseResponse(loud, p=1, keep_level=True, seed=1)(torch.zeros_like(x))
    assert (silent == 0).all()
    peak = ht.ApplyImpulseResponse(loud, normalise="peak")
    assert torch.allclose(peak.responses.abs().amax((1, 2)), torch.ones(6))
    energy = ht.ApplyImpulseResponse([h.expand(2, -1) for h in loud], normalise="energy")
    assert torch.allclose(energy.responses.square().sum(2), torch.ones(6, 2))


@pytest.mark.parametrize("per", ("example", "channel", "batch"))
@pytest.mark.parametrize("channels", (1, 2))
def test_augmentation_convolves_what_is_drawn(ht, monkeypatch, per, channels):
    """Only that, and copies no response; results and gradients are those of the drawn responses."""
    if per == "channel" and channels > 1:
        return
    from haloconv import _augmentation
    calls = []

    def record(x, h, mode, index):
        calls.append((h, index))
        return ht.convolve(x, h, mode, index=index)

    monkeypatch.setattr(_augmentation, "convolve", record)
    x, n_drawn = tensor((12, 2, 500)).requires_grad_(), set()
    for seed in range(5):
        augment = ht.ApplyImpulseResponse(rooms(channels=channels), p=0.4, per=per, align=False, seed=seed)
        y = augment(x)
        (bank, index), chosen = calls.pop(), augment.chosen
        assert bank.data_ptr() == augment.responses.data_ptr() and not calls
        numbers = chosen[:1] if per == "batch" else chosen.flatten()
        want = numbers[:, None] * channels + torch.arange(channels)
        assert torch.equal(index, torch.where(numbers[:, None] < 0, numbers[:, None], want))
        if per != "channel":
            chosen = chosen[:, None].expand(12, 2)
        rows = augment.responses.expand(-1, 2, -1)[chosen.clamp(min=0), torch.arange(2)].double()
        x64, = doubles(x)
        y64 = torch.where(chosen[..., None] < 0, x64, exact(x64, rows, "causal"))
        close(y, y64)
        gy = tensor(y.shape, seed=3)
        close(*(torch.autograd.grad(a, b, gy.to(a.dtype))[0] for a, b in ((y, x), (y64, x64))))
        assert torch.equal(y[chosen < 0], x[chosen < 0])
        n_drawn.add((chosen < 0).sum().item())
    assert len(n_drawn) > 1


def test_augmentation_of_nan_stays_in_its_example(ht):
    """Also where the example is not drawn."""
    for per in ("example", "channel"):
        x = tensor((12, 2, 500))
        x[3, 1, 7] = x[8, 0, 400] = float("nan")
        y = ht.ApplyImpulseResponse(rooms(), p=0.5, per=per, keep_level=True, seed=2)(x)
        assert y[[3, 8]].isnan().any(2).any(1).all() and not y[[0, 1, 2, 4, 5, 6, 7, 9, 10, 11]].isnan().any()


def test_augmentation_takes_files_banks_and_tensors(ht, hc, folder):
    hs = rooms(3)
    for i, h in enumerate(hs):
        soundfile.write(f"{i}.wav", h[0].numpy(), 16000, subtype="FLOAT")
    padded = torch.stack([torch.nn.functional.pad(h[0], (0, 400 - h.shape[-1])) for h in hs])
    want = ht.ApplyImpulseResponse(hs, align=False).responses
    assert torch.equal(ht.ApplyImpulseResponse(padded, align=False).responses, want)
    garbage = padded.clone()
    garbage[1, 380:], garbage[2, 360:] = 7, float("nan")
    assert torch.equal(ht.ApplyImpulseResponse(garbage, lengths=[400, 380, 360], align=False).responses, want)
    assert torch.equal(ht.ApplyImpulseResponse(hc.Bank(padded.numpy()), align=False).responses, want)
    assert torch.equal(ht.ApplyImpulseResponse([f"{i}.wav" for i in range(3)], rate=16000, align=False).responses, want)
    assert torch.equal(ht.ApplyImpulseResponse(str(folder), rate=16000, align=False).responses, want)
    other = ht.ApplyImpulseResponse("0.wav", rate=8000, align=False).responses
    assert abs(other.shape[-1] - 200) < 60


def test_augmentation_refuses(ht, hc):
    x = tensor((2, 2, 100))
    for call, kind, text in [
            (lambda: ht.ApplyImpulseResponse([]), ValueError, "at least one"),
            (lambda: ht.ApplyImpulseResponse("a.wav"), ValueError, "rate="),
            (lambda: ht.ApplyImpulseResponse(hc.Bank(np.ones((2, 3)), rate=8000), rate=16000), ValueError, "8000 Hz"),
            (lambda: ht.ApplyImpulseResponse(rooms(), p=1.5), ValueError, "probability"),
            (lambda: ht.ApplyImpulseResponse(rooms(), per="item"), ValueError, "give example"),
            (lambda: ht.ApplyImpulseResponse(rooms(), normalise="rms"), ValueError, "give peak"),
            (lambda: ht.ApplyImpulseResponse(rooms(channels=2), per="channel"), ValueError, "one channel"),
            (lambda: ht.ApplyImpulseResponse([rooms()[0], rooms(channels=2)[0]]), ValueError, "give all the same number"),
            (lambda: ht.ApplyImpulseResponse(rooms()[0] / 0), ValueError, "NaN or infinite"),
            (lambda: ht.ApplyImpulseResponse(rooms(channels=3), p=1)(x), ValueError, "responses of 1 or 2"),
            (lambda: ht.ApplyImpulseResponse(rooms(), p=1).to("meta")(x), ValueError, r"call .to\(x.device\)"),
            (lambda: ht.ApplyImpulseResponse(rooms(), p=1)(x[None]), ValueError, "give .batch")]:
        with pytest.raises(kind, match=text):
            call()


def test_augmentation_has_gradients(ht, backend, dev):
    x = tensor((4, 2, 200), dev).requires_grad_()
    augment = ht.ApplyImpulseResponse([1e5 * h for h in rooms()], p=1, seed=1, keep_level=True).to(dev)
    gradient = torch.autograd.grad(augment(x).square().sum(), x)[0]
    close(gradient, 2 * x.detach().double(), 1e-4)  # the energy is that of x
    silent = x.detach() * torch.tensor([1.0, 0, 1e-24, 1], device=dev)[:, None, None]
    assert torch.autograd.grad(augment(silent.requires_grad_()).square().sum(), silent)[0].isfinite().all()


def test_nothing_hangs_behind_a_live_engine(hc, ht):
    """Calls that wait for the whole GPU return while the kernel of a live engine stays on it, and no block is lost."""
    if not torch.cuda.is_available():
        pytest.skip("this torch has no CUDA device")
    taps = np.zeros(500, np.float32)
    taps[[0, 499]] = 1
    stream = hc.Stream(n_in=1, n_out=1, max_taps=500, block=64, backend="cuda:resident")
    stream.swap(taps)
    ends, blocks = threading.Event(), []

    def play():
        while not ends.is_set():
            blocks.append(stream.process(np.ones((64, 1), np.float32)).copy())

    thread = threading.Thread(target=play)
    thread.start()
    try:
        for _ in range(10):
            x, h = tensor((4, 2, 4096), "cuda"), tensor((2, 512), "cuda", 2)
            y = ht.convolve(x, h, mode="causal")
            torch.cuda.synchronize()
            close(y, exact(x.double(), h.double(), "causal"))
            del x, y
            torch.cuda.empty_cache()  # cudaFree
    finally:
        ends.set()
        thread.join()
    assert len(blocks) > 10
    np.testing.assert_allclose(blocks[-1], 2)
