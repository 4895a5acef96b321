"""haloconv.torch.convolve_moving: beside haloconv.convolve_moving, and a direct sum in float64 with its gradients.

Needs torch, as test_torch.py does; the tests of torch.compile and torch.func need torch 2.4.
"""

import itertools

import numpy as np
import pytest
from conftest import assert_close, generator
from test_python import hc  # noqa: F401  (a fixture)
from test_torch import BOUND, close, dev, doubles, gpu, ht, needs_operators, tensor, torch  # noqa: F401  (fixtures)


def moving_sum(x, bank, entries, step, mode="full"):
    """convolve_moving() of [rows, frames], [entries, outputs, taps] and [rows, steps], by its definition.

    Every entry plays the whole signal, tap by tap; frames choose by weights.
    """
    n, n_taps = x.shape[-1], bank.shape[-1]
    n_frames = n + (n_taps - 1 if mode == "full" else 0)
    heard = torch.nn.functional.pad(x, (n_taps - 1, n_frames - n)).unfold(-1, n_taps, 1).flip(-1)
    each = torch.einsum("rnk,eok->reon", heard, bank)
    t = torch.arange(n_frames, device=x.device)
    now = (t // step).clamp(max=entries.shape[-1] - 1)
    before = (t // step - 1).clamp(0, entries.shape[-1] - 1)
    g = ((t % step + 1).to(x.dtype) / step)
    g = torch.where(t < step, torch.ones_like(g), g)
    numbers = torch.arange(len(bank), device=x.device)[:, None]
    share = g * (entries[:, None, now] == numbers) + (1 - g) * (entries[:, None, before] == numbers)
    return (each * share.unsqueeze(2)).sum(1)


def draw_entries(shape, n_entries, dev="cpu", seed=1, lowest=0):
    return torch.from_numpy(generator(seed).integers(lowest, n_entries, shape)).to(dev)


# rows, frames, entries, outputs, taps, step, steps
CASES = [(1, 1, 1, 1, 1, 1, 1), (2, 100, 3, 2, 1, 16, 7), (3, 257, 4, 2, 30, 16, 17), (2, 256, 4, 1, 256, 64, 4),
         (1, 300, 5, 3, 17, 299, 2), (2, 300, 5, 1, 17, 301, 2), (2, 40, 3, 2, 90, 7, 3), (2, 120, 3, 2, 20, 1, 139),
         (4, 90, 6, 1, 9, 1 << 30, 1), (2, 200, 3, 2, 33, 25, 60)]


@pytest.mark.parametrize("mode", ("full", "causal"))
@pytest.mark.parametrize("case", CASES, ids=str)
def test_moving_results_and_gradients_are_exact(ht, backend, dev, case, mode):
    """The results, and the first and second gradients, match a direct sum."""
    n_rows, n, n_entries, n_outputs, n_taps, step, n_steps = case
    x, bank = tensor((n_rows, n), dev).requires_grad_(), tensor((n_entries, n_outputs, n_taps), dev, 2).requires_grad_()
    entries = draw_entries((n_rows, n_steps), n_entries, dev, 3, lowest=-1)
    check_orders(ht, x, bank, entries, step, mode)


def check_orders(ht, x, bank, entries, step, mode):
    x64, bank64 = doubles(x, bank)
    y, y64 = ht.convolve_moving(x, bank, entries, step, mode), moving_sum(x64, bank64, entries, step, mode)
    close(y, y64)
    gy = tensor(y.shape, y.device, 7).requires_grad_()
    gy64, = doubles(gy)
    g, g64 = (torch.autograd.grad(a, b, c, create_graph=True)
              for a, b, c in ((y, (x, bank), gy), (y64, (x64, bank64), gy64)))
    for got, want in zip(g, g64):
        close(got, want)
    loss, loss64 = (sum(((t * t + t) * tensor(t.shape, t.device, 8 + i).to(t.dtype)).sum() for i, t in enumerate(ts))
                    for ts in (g, g64))
    for got, want in zip(torch.autograd.grad(loss, (x, bank, gy)), torch.autograd.grad(loss64, (x64, bank64, gy64))):
        close(got, want, 3 * BOUND)


@pytest.mark.parametrize("n,taps,step", [(1, 1, 16), (5000, 700, 256), (5001, 3000, 100), (20000, 5, 1000),
                                         (900, 50, 4096)])
def test_moving_is_the_renderers(ht, hc, backend, dev, n, taps, step):
    """haloconv.convolve_moving of the same bank and entries: which entry plays when, its fades, and the length."""
    x, bank = tensor((2, n), seed=n), tensor((9, 2, taps), seed=taps)
    entries = draw_entries((2, -(-n // step)), 9, seed=n, lowest=-1)
    for path, steps in ((entries, entries), (entries[:, :1], entries[:, :1]),
                        (entries, torch.cat([entries, entries], 1) if taps == 1 else entries)):
        got = ht.convolve_moving(x.to(dev), bank.to(dev), steps, step)
        causal = ht.convolve_moving(x.to(dev), bank.to(dev), steps, step, "causal")
        for row in range(2):
            for mode, mine in (("full", got), ("causal", causal)):
                want = hc.convolve_moving(x[row].numpy(), bank.numpy(), path[row].numpy(), step, mode, backend=backend)
                assert_close(mine[row].cpu().numpy().T, want)
    scene = hc.convolve_moving(x.numpy().T, bank.numpy(), entries.numpy().T, step, backend=backend)
    assert_close(ht.convolve_moving(x.to(dev), bank.to(dev), entries, step).sum(0).cpu().numpy().T, scene)
    nothing = ht.convolve_moving(x.to(dev), bank.to(dev), [], step)
    assert nothing.shape == got.shape and (nothing == 0).all()


def test_moving_with_one_entry_is_convolve(ht, backend, dev):
    x, bank = tensor((3, 500), dev), tensor((2, 40), dev, 2)
    for mode in ("full", "causal"):
        want = ht.convolve(x, bank[1], mode).double()
        close(ht.convolve_moving(x, bank, [1], 64, mode), want)
        close(ht.convolve_moving(x, bank, [1] * 20, 64, mode), want)


def test_moving_shapes_broadcast(ht, backend, dev):
    """One signal along many paths, many signals along one, and banks of one output without a dimension for it."""
    bank = tensor((5, 2, 30), dev, 2)
    for x_lead, entries_lead in (((), ()), ((4,), ()), ((), (4,)), ((2, 1), (3,)), ((2, 3), (2, 3)), ((1,), (2, 3))):
        x = tensor((*x_lead, 200), dev).requires_grad_()
        entries = draw_entries((*entries_lead, 5), 5, dev)
        lead = torch.broadcast_shapes(x_lead, entries_lead)
        rows = doubles(x)[0].expand(*lead, 200).reshape(-1, 200), entries.expand(*lead, 5).reshape(-1, 5)
        want = moving_sum(rows[0], bank.double(), rows[1], 40).reshape(*lead, 2, 229)
        y = ht.convolve_moving(x, bank, entries, 40)
        close(y, want)
        close(ht.convolve_moving(x, bank[:, 1], entries, 40), want[..., 1, :])
        close(torch.autograd.grad(y.sum(), x)[0], torch.autograd.grad(want.sum(), rows[0])[0].reshape(*lead, 200)
              .sum_to_size(*x.shape))
    for kind in (torch.int32, torch.uint8):
        close(ht.convolve_moving(x, bank, entries.to(kind), 40), want)
    close(ht.convolve_moving(x, bank, entries.cpu().numpy(), 40), want)
    close(ht.convolve_moving(x, bank, entries.tolist(), 40), want)


def test_moving_views(ht, backend, dev):
    x, bank = tensor((300, 6), dev).t()[::2], tensor((40, 3, 8), dev, 2).permute(2, 1, 0)[::2]
    check_orders(ht, x.requires_grad_(), bank.requires_grad_(), draw_entries((3, 9), 4, dev, lowest=-1), 32, "full")


def test_moving_chunks_change_nothing(ht, backend, dev, monkeypatch):
    """Beyond rounding, in the result and the gradients: one step at once, two, and all."""
    from haloconv import _torch_scene
    x, bank = tensor((2, 400), dev).requires_grad_(), tensor((5, 2, 60), dev, 2).requires_grad_()
    entries = draw_entries((2, 13), 5, dev, lowest=-1)
    gathered = []
    whole = _torch_scene._gather

    def count(op, a, b, size, steps):
        gathered.append(steps[0].shape[-1])
        return whole(op, a, b, size, steps)

    monkeypatch.setattr(_torch_scene, "_gather", count)
    first = None
    for most, at_once in ((1 << 24, 15), (2 * 2 * 187, 2), (1, 1)):
        monkeypatch.setattr(_torch_scene, "MAX_FLOATS", most)
        gathered.clear()
        y = ht.convolve_moving(x, bank, entries, 32)
        got = [y, *torch.autograd.grad(y.square().sum(), (x, bank))]
        assert max(gathered) == at_once, gathered
        first = first or [t.detach().double() for t in got]
        for a, b in zip(got, first):
            close(a, b)
        check_orders(ht, x, bank, entries, 32, "full")


def test_moving_keeps_no_filters(ht):
    """Gradients need the bank, not the filters of all steps."""
    x, bank = tensor((1, 4000)).requires_grad_(), tensor((3, 500)).requires_grad_()
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        ht.convolve_moving(x, bank, draw_entries((1, 250), 3), 16)
    assert max(t.storage().nbytes() for t in kept) <= 4 * 10000, "steps x taps floats are 500,000 bytes"


def test_moving_takes_any_default_dtype_and_whole_numbers(ht, backend, dev):
    x, bank, entries = tensor((2, 700), dev), tensor((5, 40), dev, 2), np.array([1, 4, 0, 3], np.uint16)
    want = ht.convolve_moving(x, bank, entries.astype(np.int64), 200)
    before = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float16)
        assert torch.equal(ht.convolve_moving(x, bank, entries.tolist(), 200), want)
    finally:
        torch.set_default_dtype(before)
    if hasattr(torch, "uint16"):
        assert torch.equal(ht.convolve_moving(x, bank, entries, 200), want)


def test_moving_empty_batches(ht, backend, dev):
    for x_lead, entries_lead in (((0,), ()), ((), (0,)), ((2, 0), (0,)), ((0, 3), (3,))):
        x, bank = tensor((*x_lead, 50), dev).requires_grad_(), tensor((4, 2, 9), dev).requires_grad_()
        y = ht.convolve_moving(x, bank, draw_entries((*entries_lead, 4), 4, dev), 16)
        assert y.shape == (*torch.broadcast_shapes(x_lead, entries_lead), 2, 58) and y.dtype == torch.float32
        gx, gb = torch.autograd.grad(y.sum(), (x, bank))
        assert gx.shape == x.shape and gb.shape == bank.shape and (gb == 0).all() and (gx == 0).all()


def test_moving_nan_stays_in_its_row(ht, backend, dev):
    """NaN in a signal, and in an entry: the rows that do not play the entry are as they were. Silence never has it."""
    x, bank = tensor((3, 400), dev), tensor((4, 2, 20), dev, 2)
    entries = torch.tensor([[0, 1, 0, 1], [2, 3, 2, 3], [-1, 1, -1, 1]], device=dev)
    want = moving_sum(x.double(), bank.double(), entries, 100)
    broken = x.clone()
    broken[1, 200] = float("nan")
    y = ht.convolve_moving(broken, bank, entries, 100)
    assert y[1, :, 200:219].isnan().all()
    close(y[::2], want[::2])
    broken = bank.clone()
    broken[0, 1, 3] = float("nan")
    y = ht.convolve_moving(x, broken, entries, 100)
    assert y[0, 1, :200].isnan().any() and not y[0, 0].isnan().any()
    close(y[1:], want[1:])
    x.requires_grad_()
    gradient = torch.autograd.grad(ht.convolve_moving(x, broken, entries, 100)[1:].sum(), x)[0]
    assert gradient[1:].isfinite().all()


def test_moving_gives_the_same_bits_in_every_run(ht, backend, dev):
    x, bank = tensor((3, 5000), dev).requires_grad_(), tensor((4, 2, 700), dev).requires_grad_()
    entries = draw_entries((3, 40), 4, dev)

    def run():
        y = ht.convolve_moving(x, bank, entries, 128)
        return [y, *torch.autograd.grad(y.square().sum(), (x, bank))]

    first = run()
    for _ in range(3):
        assert all(torch.equal(a, b) for a, b in zip(first, run()))


def test_moving_half_precision(ht, backend, dev):
    x, bank, entries = tensor((2, 200), dev), tensor((3, 20), dev, 2), draw_entries((2, 7), 3, dev)
    for dtype in (torch.float16, torch.bfloat16):
        low, responses = x.to(dtype).requires_grad_(), bank.to(dtype).requires_grad_()
        y = ht.convolve_moving(low, responses, entries, 32)
        want = ht.convolve_moving(low.float(), responses.float(), entries, 32).to(dtype)
        assert y.dtype == dtype and torch.equal(y, want)
        assert [g.dtype for g in torch.autograd.grad(y.float().sum(), (low, responses))] == [dtype, dtype]
        with torch.autocast(dev, dtype=torch.bfloat16):
            assert ht.convolve_moving(low, responses, entries, 32).dtype == torch.float32


def test_moving_refusals_say_what_to_do(ht, hc, backend, dev):
    x, bank, entries = tensor((2, 300), dev), tensor((3, 2, 20), dev), torch.tensor([[0, 1], [2, 0]])
    for arguments, kind, text in [
            ((x.double(), bank, entries), TypeError, "x is float64"),
            ((x, bank.double(), entries), TypeError, "bank is float64"),
            ((x.tolist(), bank, entries), TypeError, "x is list"),
            ((x, hc.Bank(bank.cpu().numpy()), entries), TypeError, r"give torch.from_numpy\(bank.responses\)"),
            ((x, bank[0, 0], entries), ValueError, r"bank has shape \(20,\); give \[entries, taps\]"),
            ((x, bank[:0], entries), ValueError, "at least one of each"),
            ((x, bank[:, :0], entries), ValueError, "at least one of each"),
            ((x[:, :0], bank, entries), ValueError, "at least one frame"),
            ((x, bank.to("meta"), entries), ValueError, "bank on meta; move them to one device"),
            ((x, bank, entries + 0.5), TypeError, "give whole numbers"),
            ((x, bank, entries > 0), TypeError, "entries are torch.bool; give whole numbers"),
            ((x, bank, 1), ValueError, r"give \[..., steps\]"),
            ((x, bank, entries[[0, 1, 0]]), ValueError, r"x \(2, 300\) and entries \(3, 2\) do not broadcast"),
            ((x, bank, entries + 1), ValueError, "entry 3 is out of range; the bank has entries 0 to 2"),
            ((x, bank, entries, 0), ValueError, "step 0 is not a number of frames"),
            ((x, bank, entries, 2.5), ValueError, "step 2.5 is not a number of frames"),
            ((x, bank, entries, 16, "same"), ValueError, "mode 'same' is unknown; give full or causal")]:
        with pytest.raises(kind, match=text):
            ht.convolve_moving(*arguments)


def test_moving_second_derivatives_are_of_finite_differences(ht):
    """Of a small case whose result is a polynomial: differences of its gradients in float32."""
    x, bank = tensor((1, 12)).requires_grad_(), tensor((2, 1, 3), seed=2).requires_grad_()
    entries = torch.tensor([[0, 1, 0]])
    weights = tensor((1, 1, 14), seed=3)

    def gradients(x, bank, **options):
        return torch.autograd.grad((ht.convolve_moving(x, bank, entries, 4) * weights).sum(), (x, bank), **options)

    for of, by in itertools.product(range(2), range(2)):
        value = (x, bank)[by]
        direction = tensor(value.shape, seed=4)
        first = gradients(x, bank, create_graph=True)[of]
        along = tensor(first.shape, seed=5)
        second = torch.autograd.grad((first * along).sum(), value, allow_unused=True)[0]
        got = 0.0 if second is None else (second * direction).sum().item()
        moved = [[t + sign * direction if i == by else t for i, t in enumerate((x, bank))] for sign in (1, -1)]
        above, below = ((gradients(*pair)[of] * along).sum().item() for pair in moved)
        assert abs(got - (above - below) / 2) < 1e-5 * (1 + abs(got)), (of, by)


@needs_operators
def test_moving_batched_gradients_are_those_of_each(ht):
    x, bank = tensor((2, 90)).requires_grad_(), tensor((3, 9), seed=2).requires_grad_()
    y = ht.convolve_moving(x, bank, [[0, 2, 1], [1, -1, 0]], 32)
    gy = tensor((4, *y.shape), seed=3)
    for i, got in enumerate(torch.autograd.grad(y, (x, bank), gy, retain_graph=True, is_grads_batched=True)):
        for each, g in zip(got, gy):
            close(each, torch.autograd.grad(y, (x, bank), g, retain_graph=True)[i])


def test_moving_forward_mode(ht):
    forward_ad = torch.autograd.forward_ad
    x, bank, dx, dbank = tensor((2, 90)), tensor((3, 2, 9), seed=2), tensor((2, 90), seed=3), tensor((3, 2, 9), seed=4)
    entries = draw_entries((2, 6), 3, lowest=-1)
    want = (moving_sum(dx.double(), bank.double(), entries, 16) + moving_sum(x.double(), dbank.double(), entries, 16))
    with forward_ad.dual_level():
        y = ht.convolve_moving(forward_ad.make_dual(x, dx), forward_ad.make_dual(bank, dbank), entries, 16)
        close(forward_ad.unpack_dual(y).tangent, want)


@needs_operators
def test_moving_default_devices_change_nothing(ht):
    x, bank = tensor((2, 90)), tensor((3, 9), seed=2)
    torch.set_default_device("meta")
    try:
        y, nothing = (ht.convolve_moving(x, bank, entries, 16) for entries in ([0, -1, 2], []))
    finally:
        torch.set_default_device(None)
    close(y, moving_sum(x.double(), bank[:, None].double(), torch.tensor([[0, -1, 2]] * 2), 16)[:, 0])
    assert y.is_cpu and (nothing == 0).all()
    assert ht.convolve_moving(x.to("meta"), bank.to("meta"), [0, -1, 2], 16).shape == y.shape


@needs_operators
def test_moving_compiles_to_one_graph(ht, backend, dev):
    def loss(x, bank, entries):
        return ht.convolve_moving(x, bank, entries, 32).square().sum()

    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    for n in (200, 330):
        x, bank = tensor((2, n), dev).requires_grad_(), tensor((3, 2, 20), dev, 2).requires_grad_()
        entries = draw_entries((2, 6), 3, dev, lowest=-1)
        for got, want in zip(torch.autograd.grad(compiled(x, bank, entries), (x, bank)),
                             torch.autograd.grad(loss(x, bank, entries), (x, bank))):
            close(got, want.double(), 3 * BOUND)
    torch._dynamo.reset()


@needs_operators
def test_moving_transforms_of_torch_func(ht, backend, dev):
    x, bank, entries = tensor((4, 90), dev), tensor((3, 2, 9), dev, 2), draw_entries((4, 6), 3, dev, lowest=-1)
    want = moving_sum(x.double(), bank.double(), entries, 16)
    close(torch.vmap(lambda x, entries: ht.convolve_moving(x, bank, entries, 16))(x, entries), want)
    gradient = torch.func.grad(lambda bank: ht.convolve_moving(x, bank, entries, 16).square().sum())(bank)
    bank64 = bank.double().requires_grad_()
    want = torch.autograd.grad(moving_sum(x.double(), bank64, entries, 16).square().sum(), bank64)[0]
    close(gradient, want, 3 * BOUND)


def test_moving_cuda_marks_entries_out_of_range(ht, gpu):
    """Nothing waits for entries on a GPU: their steps are NaN, and the fade after them."""
    x, bank = tensor((2, 300), "cuda"), tensor((3, 20), "cuda")
    entries = torch.tensor([[0, 1, 2, 0], [0, 3, 2, 0]], device="cuda")
    y = ht.convolve_moving(x, bank, entries, 64, "causal")
    assert y[1, 64:192].isnan().all() and not y[0].isnan().any() and not y[1, :64].isnan().any()
    assert not y[1, 192:].isnan().any()


def test_moving_cuda_graph(ht, gpu):
    x, bank = tensor((2, 3000), "cuda").requires_grad_(), tensor((4, 2, 500), "cuda").requires_grad_()
    entries = draw_entries((2, 24), 4, "cuda", lowest=-1)

    def run():
        y = ht.convolve_moving(x, bank, entries, 128)
        return y, *torch.autograd.grad(y.square().sum(), (x, bank))

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        got = run()
    with torch.no_grad():
        entries.copy_(draw_entries((2, 24), 4, "cuda", 9))
        x.copy_(tensor((2, 3000), "cuda", 5))
    graph.replay()
    for a, b in zip(got, [t.detach().clone() for t in run()]):
        close(a, b.double())
