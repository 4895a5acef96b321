"""haloconv.torch: forward-mode derivatives wherever something observes tensors, beside those of float64.

Each place takes a function, its inputs and their tangents, and returns the tangent of the result. A place may refuse
with an error; a tangent of 0 or None in its stead is a fault.
"""

import functools

import pytest
from test_python import hc  # noqa: F401  (a fixture)
from test_torch import BOUND, HAS_OPERATORS, by_index, close, exact, ht, packed, tensor, torch  # noqa: F401

if not HAS_OPERATORS:
    pytest.skip("needs torch 2.4", allow_module_level=True)
fwd = torch.autograd.forward_ad


# ---- places ---------------------------------------------------------------------------------------------------------
def by_jvp(f, primals, tangents):
    return torch.func.jvp(f, primals, tangents)[1]


def by_dual(f, primals, tangents):
    with fwd.dual_level():
        return fwd.unpack_dual(f(*map(fwd.make_dual, primals, tangents))).tangent


def by_linearize(f, primals, tangents):
    return torch.func.linearize(f, *primals)[1](*tangents)


def by_make_fx(f, primals, tangents):
    from torch.fx.experimental.proxy_tensor import make_fx
    n = len(primals)
    others = [torch.ones_like(value) for value in (*primals, *tangents)]
    graph = make_fx(lambda *given: by_jvp(f, given[:n], given[n:]))(*others)
    return graph(*primals, *tangents)


def in_a_mode(f, primals, tangents):
    from torch.utils._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), options=None):
            return function(*arguments, **(options or {}))

    with Mode():
        return by_jvp(f, primals, tangents)


def dual_in_flop_counter(f, primals, tangents):
    from torch.utils.flop_counter import FlopCounterMode
    with FlopCounterMode(display=False):
        return by_dual(f, primals, tangents)


class Sound(torch.Tensor):
    pass


def of_a_subclass(f, primals, tangents):
    got = by_dual(f, [p.as_subclass(Sound) for p in primals], tangents)
    return got if got is None else got.as_subclass(torch.Tensor)


def transformed_subclass(f, primals, tangents):
    got = by_jvp(f, tuple(p.as_subclass(Sound) for p in primals), tuple(t.as_subclass(Sound) for t in tangents))
    return got.as_subclass(torch.Tensor)


class Wrapper(torch.Tensor):
    """A subclass with __torch_dispatch__: each operator runs on the tensor inside."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, inner.stride(), dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, function, types, arguments=(), options=None):
        def map_of(kind, change, value):
            return torch.utils._pytree.tree_map_only(kind, change, value)
        inside = map_of(Wrapper, lambda value: value.inner, (arguments, options or {}))
        return map_of(torch.Tensor, Wrapper, function(*inside[0], **inside[1]))


def of_a_wrapper(f, primals, tangents):
    got = by_dual(f, *([Wrapper(v) for v in values] for values in (primals, tangents)))
    return got if got is None else got.inner


def compiled(f, primals, tangents, transform=by_jvp, fullgraph=True):
    torch._dynamo.reset()
    n = len(primals)
    run = torch.compile(lambda *given: transform(f, given[:n], given[n:]), fullgraph=fullgraph, backend="aot_eager")
    return run(*primals, *tangents)


def compiled_within(f, primals, tangents):
    """The function is compiled, and the transform looks at it from outside."""
    torch._dynamo.reset()
    return by_jvp(torch.compile(f, backend="aot_eager"), primals, tangents)


def by_columns(transform):
    """The product of a matrix of derivatives, for one of the inputs after the other, with the tangents."""
    def place(f, primals, tangents):
        matrices = transform(f, argnums=tuple(range(len(primals))))(*primals)
        return sum(torch.einsum("...n,n->...", m.flatten(-t.dim()), t.flatten()) for m, t in zip(matrices, tangents))
    return place


def by_vmap(f, primals, tangents):
    """Two tangents at once."""
    pair = torch.vmap(lambda *given: by_jvp(f, primals, given))(*(torch.stack([t, -2 * t]) for t in tangents))
    return torch.where(pair[0].abs() > 0, pair[1] / -2, pair[0])


def by_batch(f, primals, tangents):
    """Forward mode of vmap: two copies of all inputs."""
    twice = [tuple(torch.stack([v, v]) for v in values) for values in (primals, tangents)]
    got = by_jvp(torch.vmap(f), *twice)
    assert torch.equal(*got)
    return got[0]


def twice(f, primals, tangents):
    """Forward mode of forward mode: the derivative, in no direction, of the derivative, plus the derivative."""
    inner = lambda *given: torch.func.jvp(f, given, tangents)
    return torch.func.jvp(inner, primals, tangents)[1][0]


def within_a_mode_twice(f, primals, tangents):
    return in_a_mode(lambda *given: by_jvp(f, given, tangents), primals, tuple(torch.zeros_like(p) for p in primals)) \
        + in_a_mode(f, primals, tangents)


def functional_call(f, primals, tangents):
    """By parameters of a module, in a mode."""
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.taps = torch.nn.Parameter(torch.zeros_like(primals[-1]))

        def forward(self, *given):
            return f(*given, self.taps)

    net = Net()
    return in_a_mode(lambda *given: torch.func.functional_call(net, {"taps": given[-1]}, given[:-1]), primals, tangents)


PLACES = [by_jvp, by_dual, by_linearize, by_make_fx, in_a_mode, dual_in_flop_counter, of_a_subclass,
          transformed_subclass, of_a_wrapper, compiled, compiled_within, by_vmap, by_batch, twice, within_a_mode_twice,
          functional_call, pytest.param(functools.partial(compiled, transform=by_vmap), id="compiled_vmap"),
          pytest.param(by_columns(torch.func.jacfwd), id="jacfwd"),
          pytest.param(functools.partial(compiled, transform=by_columns(torch.func.jacfwd), fullgraph=False),
                       id="compiled_jacfwd")]


# ---- functions ------------------------------------------------------------------------------------------------------
INDEX, OFFSETS, LENGTHS = [[2, 0, -1], [1, 1, 3]], [0, 7, 7, 20], [[9, 3, 0]]


def moving(x, bank):
    """convolve_moving() of one row with entries 1, 0 and steps of 16 frames, causal."""
    y = [exact(x, bank[entry], "causal") for entry in (1, 0)]
    fade = torch.clamp((torch.arange(x.shape[-1], dtype=torch.float64) - 15) / 16, 0, 1)
    return y[0] * (1 - fade) + y[1] * fade


def gradient(f):
    """The gradients of a function's cubes for its inputs, in one row: reverse mode in forward mode."""
    def row(*given):
        loss = lambda *values: f(*values).pow(3).sum()
        return torch.cat([g.flatten() for g in torch.func.grad(loss, tuple(range(len(given))))(*given)])
    return row


# name: (shapes of the inputs, ours of the module, the same in float64)
FUNCTIONS = {
    "convolve": (((2, 3, 20), (3, 9)), lambda ht, x, h: ht.convolve(x, h, "same"), lambda x, h: exact(x, h, "same")),
    "folded": (((2, 2, 3, 20), (2, 1, 3, 9)), lambda ht, x, h: ht.convolve(x, h), lambda x, h: exact(x, h, "full")),
    "lengths": (((2, 3, 20), (1, 3, 9)), lambda ht, x, h: ht.convolve(x, h, "causal", torch.tensor(LENGTHS)),
                lambda x, h: exact(x, h, "causal", torch.tensor(LENGTHS))),
    "index": (((2, 3, 20), (4, 9)), lambda ht, x, h: ht.convolve(x, h, "valid", index=torch.tensor(INDEX)),
              lambda x, h: by_index(x, h, "valid", torch.tensor(INDEX))),
    "fftconvolve": (((3, 9), (3, 20)), lambda ht, x, h: ht.fftconvolve(x, h, "full"), lambda x, h: exact(x, h, "full")),
    "packed": (((3, 20), (3, 9)), lambda ht, x, h: ht.convolve_packed(x, h, OFFSETS),
               lambda x, h: packed(x, h[None], OFFSETS, "causal")),
    "moving": (((1, 32), (2, 9)), lambda ht, x, h: ht.convolve_moving(x, h, [1, 0], 16, "causal"), moving),
    "operator": (((2, 3, 20), (3, 9)), lambda ht, x, h: torch.ops.haloconv.convolve(x, h, "full"),
                 lambda x, h: exact(x, h, "full")),
    "gradients": (((2, 28), (2, 20), (2, 9)), lambda ht, *given: sum(
        g.pow(2).sum(-1) for g in torch.ops.haloconv.gradients(*given, "full")), lambda gy, x, h: (
        exact(gy, h.flip(-1), "valid").pow(2).sum(-1) + exact(gy, x.flip(-1), "valid").pow(2).sum(-1))),
    "gradient": (((2, 3, 20), (3, 9)), lambda ht, *given: gradient(lambda x, h: ht.convolve(x, h, "same"))(*given),
                 gradient(lambda x, h: exact(x, h, "same")))}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_forward_mode_is_right_wherever_tensors_are_observed(ht, place, name):
    shapes, ours, wanted = FUNCTIONS[name]
    primals, tangents = (tuple(tensor(shape, seed=seed + i) for i, shape in enumerate(shapes)) for seed in (1, 9))
    want = by_jvp(wanted, *(tuple(v.double() for v in values) for values in (primals, tangents)))
    got = place(functools.partial(ours, ht), primals, tangents)
    assert got is not None, "the tangent is lost"
    close(got.detach(), want, 4 * BOUND)


def loss(f):
    return lambda *given: f(*given).pow(3).sum()


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("place", ["mode", "compiled"])
def test_gradients_of_torch_func_are_right_wherever_tensors_are_observed(ht, name, place):
    """Of the first order, of each item, and of the second order: reverse of reverse, and forward of reverse."""
    shapes, ours, wanted = FUNCTIONS[name]
    inputs = tuple(tensor(shape, seed=1 + i) for i, shape in enumerate(shapes))
    func, every = torch.func, tuple(range(len(shapes)))

    def each(f):
        return torch.vmap(func.grad(loss(f)), (0, *(None,) * (len(inputs) - 1)))

    transforms = [lambda f: func.grad(loss(f), every), lambda f: func.jacrev(func.grad(loss(f), len(every) - 1), 0),
                  lambda f: func.jacfwd(func.grad(loss(f), len(every) - 1), 0)]
    if name in ("convolve", "lengths", "operator"):  # the items of x need nothing of one another
        transforms.append(lambda f: lambda x, *rest: each(f)(x[:, None], *rest))
    for transform in transforms:
        run = transform(functools.partial(ours, ht))
        if place == "compiled":
            torch._dynamo.reset()
            got = torch.compile(run, backend="aot_eager")(*inputs)
        else:
            got = in_a_mode_by(run, inputs)
        want = transform(wanted)(*(value.double() for value in inputs))
        for one, other in zip(*(values if isinstance(values, tuple) else (values,) for values in (got, want))):
            close(one.detach(), other, 6 * BOUND)


def in_a_mode_by(run, inputs):
    from torch.utils.flop_counter import FlopCounterMode
    with FlopCounterMode(display=False):
        return run(*inputs)


def test_forward_mode_of_recorded_gradients(ht):
    """Gradients that autograd records, without torch.func, have tangents in a mode, too; so has reverse of forward."""
    x, h, dx = tensor((2, 3, 20)), tensor((3, 9), seed=2), tensor((2, 3, 20), seed=3)
    results = []
    for f, values in ((lambda a, b: ht.convolve(a, b, "same"), (x, h, dx)),
                      (lambda a, b: exact(a, b, "same"), [v.double() for v in (x, h, dx)])):
        taps = values[1].clone().requires_grad_()

        def run(dual):
            g, = torch.autograd.grad(f(dual, taps).pow(3).sum(), taps, create_graph=True)
            tangent = fwd.unpack_dual(g).tangent
            return tangent, *torch.autograd.grad(tangent.pow(2).sum(), taps)

        with fwd.dual_level():
            results.append(in_a_mode_by(run, [fwd.make_dual(values[0], values[2])]))
    for got, want in zip(*results):
        close(got.detach(), want.detach(), 6 * BOUND)


def test_augmentation_has_tangents_in_a_mode(ht):
    augment = ht.ApplyImpulseResponse(tensor((3, 40)), p=1, align=False, seed=4)
    x, dx = tensor((4, 2, 60)), tensor((4, 2, 60), seed=2)
    got = in_a_mode(augment, (x,), (dx,))
    close(got, exact(dx.double(), augment.responses[augment.chosen].double(), "causal"))
