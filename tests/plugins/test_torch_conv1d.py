"""haloconv.torch.conv1d against torch's conv1d in float64, with its gradients, and in forward mode."""

import functools
import sys

import pytest
from test_python import hc  # noqa: F401  (a fixture)
from test_torch import BOUND, HAS_OPERATORS, close, dev, ht, needs_operators, rounded_once, tensor, torch  # noqa: F401

CASES = [  # shapes of input and weight, options
    ((2, 1, 50), (1, 1, 9), {}), ((1, 3, 50), (4, 3, 9), {}), ((3, 50), (4, 3, 9), {"padding": 5}),
    ((2, 6, 50), (4, 3, 9), {"groups": 2}), ((2, 4, 50), (4, 1, 9), {"groups": 4, "padding": "same"}),
    ((2, 3, 50), (6, 1, 9), {"groups": 3, "padding": "valid"}), ((2, 3, 9), (2, 3, 9), {}),
    ((2, 3, 5), (2, 3, 9), {"padding": (2,)}), ((2, 3, 50), (2, 3, 1), {"stride": 3}),
    ((2, 3, 50), (2, 3, 9), {"stride": 3}), ((2, 3, 50), (2, 3, 10), {"stride": (4,), "padding": 7}),
    ((2, 3, 50), (2, 3, 4), {"stride": 7, "dilation": 3}), ((2, 3, 7), (2, 3, 7), {"stride": 60}),
    ((2, 3, 50), (2, 3, 8), {"dilation": 2, "padding": "same"}), ((2, 3, 50), (2, 3, 1), {"dilation": 9}),
    ((2, 4, 61), (6, 2, 7), {"stride": 2, "dilation": (3,), "groups": 2, "padding": 4}),
    ((0, 3, 50), (2, 3, 9), {"stride": 2}), ((2, 2, 3000), (3, 2, 2000), {"padding": "same"})]


def module_of(ht):
    return sys.modules[f"{ht.__name__.rpartition('.')[0]}._torch_conv1d"]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_results_and_gradients_are_those_of_torch(ht, backend, dev, monkeypatch, case, bias):
    """All inputs at once, and one after the other."""
    shape, taps, options = case
    given = [tensor(shape, dev).requires_grad_(), tensor(taps, dev, 2).requires_grad_()]
    given += [tensor(taps[:1], dev, 3).requires_grad_()] if bias else []
    exact = [value.detach().double().requires_grad_() for value in given]
    want = torch.nn.functional.conv1d(*exact, **options)
    gy = tensor(want.shape, dev, 4)
    wanted = torch.autograd.grad(want, exact, gy.double(), create_graph=True)
    second = torch.autograd.grad(sum((g * g).sum() for g in wanted), exact, allow_unused=True)
    for max_floats in (1 << 24, 1):
        monkeypatch.setattr(module_of(ht), "MAX_FLOATS", max_floats)
        y = ht.conv1d(*given, **options)
        close(y, want)
        gradients = torch.autograd.grad(y, given, gy, create_graph=True)
        for got, right in zip(gradients, wanted):
            close(got, right, 2 * BOUND)
        loss = sum((g * g).sum() for g in gradients)
        for got, right in zip(torch.autograd.grad(loss, given, allow_unused=True), second):
            if right is not None:  # torch has none for the bias, and for no items
                close(got, right, 4 * BOUND)
            else:
                assert got is None or not got.any()


def test_results_in_half_precision_are_rounded_once(ht, backend, dev):
    x, w = tensor((2, 5, 300), dev).bfloat16(), tensor((4, 5, 90), dev, 2).bfloat16()
    y = ht.conv1d(x, w, stride=2)
    assert y.dtype == torch.bfloat16
    rounded_once(y, torch.nn.functional.conv1d(x.double(), w.double(), stride=2))


def test_memory_is_that_of_some_inputs(ht, monkeypatch):
    """No tensor has all outputs and all inputs."""
    monkeypatch.setattr(module_of(ht), "MAX_FLOATS", 2 * 16 * 400 * 3)
    seen, own = [], module_of(ht)._convolve
    monkeypatch.setattr(module_of(ht), "_convolve", lambda *given: seen.append(own(*given)) or seen[-1])
    close(ht.conv1d(tensor((1, 32, 400)), tensor((16, 32, 50))),
          torch.nn.functional.conv1d(tensor((1, 32, 400)).double(), tensor((16, 32, 50)).double()))
    assert len(seen) == 11 and max(value.numel() for value in seen) <= 16 * 351 * 3


@needs_operators
def test_derivatives_and_compilers(ht):
    """Forward mode, also in a mode and in a graph; items by vmap."""
    from test_torch_forward import by_dual, by_jvp, by_linearize, compiled, in_a_mode
    options = {"stride": 2, "padding": 3, "groups": 2, "dilation": 2}
    primals, tangents = ((tensor((2, 4, 40), seed=seed), tensor((6, 2, 5), seed=seed + 1)) for seed in (1, 5))
    want = torch.func.jvp(functools.partial(torch.nn.functional.conv1d, **options),
                          *(tuple(v.double() for v in values) for values in (primals, tangents)))[1]
    for place in (by_dual, by_jvp, by_linearize, compiled, in_a_mode):
        close(place(functools.partial(ht.conv1d, **options), primals, tangents), want, 2 * BOUND)
    torch._dynamo.reset()
    run = torch.compile(functools.partial(ht.conv1d, **options), fullgraph=True, backend="aot_eager")
    for n in (40, 57, 80):
        x = tensor((2, 4, n))
        close(run(x, primals[1]), torch.nn.functional.conv1d(x.double(), primals[1].double(), **options))
    each = torch.vmap(functools.partial(ht.conv1d, **options), (0, None))(primals[0], primals[1])
    close(each, torch.nn.functional.conv1d(primals[0].double(), primals[1].double(), **options))


def test_a_layer_of_torch_may_call_it(ht, monkeypatch):
    layer = torch.nn.Conv1d(3, 5, 21, stride=2, padding=4, dilation=2)
    x = tensor((2, 3, 100))
    want = copy_of(layer)(x.double())
    monkeypatch.setattr(torch.nn.functional, "conv1d", ht.conv1d)
    close(layer(x), want)


def copy_of(layer):
    twin = torch.nn.Conv1d(3, 5, 21, stride=2, padding=4, dilation=2).double()
    twin.load_state_dict(layer.state_dict())
    return twin


def test_refusals_say_what_to_do(ht):
    x, w = tensor((2, 4, 50)), tensor((6, 2, 9))
    for call, kind, text in [
            (lambda: ht.conv1d(x.double(), w, groups=2), TypeError, "input is float64"),
            (lambda: ht.conv1d(x, w.double(), groups=2), TypeError, "weight is float64"),
            (lambda: ht.conv1d(x[0, 0], w), ValueError, r"input has shape \(50,\) .* give \[N, C_in, frames\]"),
            (lambda: ht.conv1d(x, w[0]), ValueError, r"weight \(2, 9\); give"),
            (lambda: ht.conv1d(x, w), ValueError, "input has 4 channels, .* groups is 1; give a weight"),
            (lambda: ht.conv1d(x, w[:5], groups=2), ValueError, "outputs that groups divides"),
            (lambda: ht.conv1d(x, w[:0], groups=2), ValueError, "give|at least one"),
            (lambda: ht.conv1d(x, w, tensor((5,)), groups=2), ValueError, r"bias is \(5,\); give \[C_out\], 6 numbers"),
            (lambda: ht.conv1d(x, w, 1.0, groups=2), ValueError, "bias is 1.0; give"),
            (lambda: ht.conv1d(x, w, groups=2, stride=0), ValueError, "stride is 0; give a whole number from 1 on"),
            (lambda: ht.conv1d(x, w, groups=2, stride=1.5), ValueError, "stride is 1.5"),
            (lambda: ht.conv1d(x, w, groups=2, stride=(1, 2)), ValueError, r"stride is \(1, 2\)"),
            (lambda: ht.conv1d(x, w, groups=0), ValueError, "groups is 0"),
            (lambda: ht.conv1d(x, w, groups=2, dilation=-1), ValueError, "dilation is -1"),
            (lambda: ht.conv1d(x, w, groups=2, padding=-1), ValueError, "padding is -1; give a whole number from 0 on"),
            (lambda: ht.conv1d(x, w, groups=2, padding="full"), ValueError, "padding is 'full'"),
            (lambda: ht.conv1d(x, w, groups=2, padding="same", stride=2), ValueError, "or stride 1"),
            (lambda: ht.conv1d(x, w, groups=2, dilation=7), ValueError, "over 57 frames, and the padded input has 50")]:
        with pytest.raises(kind, match=text):
            call()
