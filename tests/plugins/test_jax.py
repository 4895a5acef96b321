"""haloconv.jax: results and gradients against NumPy's FFT in float64, inside and outside of jit, on every device.

Needs jax 0.5 or newer. On a machine with a GPU and a jax for it the tests run there too.
"""

import ctypes

import numpy as np
import pytest
from conftest import generator
from test_python import hc  # noqa: F401  (a fixture)

try:
    import jax
    import jax.numpy as jnp
except ImportError:
    jax = None

MODES = ("full", "same", "valid", "causal")
SHAPES = [((50,), (9,)), ((9,), (50,)), ((2, 3, 500), (3, 90)), ((2, 3, 500), (2, 3, 90)), ((1, 300), (4, 50)),
          ((2, 3, 4, 60), (2, 1, 4, 9)), ((1, 1), (1, 1)), ((2, 1, 3, 1, 33), (2, 1, 4, 9))]
BOUND = 1e-6  # norm of the error over norm of the result


@pytest.fixture(params=("cpu", "gpu"))
def put(request, hc):
    """Puts an array on a device; hc: so that the library is that of the build."""
    if jax is None:
        pytest.skip("no jax")
    try:
        device = jax.devices(request.param)[0]
    except RuntimeError:
        pytest.skip(f"this jax has no {request.param}")
    with jax.default_device(device):
        yield lambda values: jax.device_put(values, device)


def array(shape, seed=1):
    return generator(seed).standard_normal(shape).astype(np.float32)


def exact(x, h, mode, gy=None):
    """y in float64; with gy, the gradients of sum(gy * y) for x and h."""
    n, k = x.shape[-1], h.shape[-1]
    size = n + k - 1
    start = {"full": 0, "causal": 0, "same": (k - 1) // 2, "valid": min(n, k) - 1}[mode]
    frames = {"full": size, "causal": n, "same": n, "valid": abs(n - k) + 1}[mode]
    x_spectrum, h_spectrum = (np.fft.rfft(value.astype(np.float64), size) for value in (x, h))
    if gy is None:
        return np.fft.irfft(x_spectrum * h_spectrum, size)[..., start:start + frames]
    whole = np.zeros((*gy.shape[:-1], size))
    whole[..., start:start + frames] = gy
    g_spectrum = np.fft.rfft(whole)
    return [summed(np.fft.irfft(g_spectrum * other.conj(), size)[..., :like.shape[-1]], like.shape)
            for other, like in ((h_spectrum, x), (x_spectrum, h))]


def summed(values, shape):
    """The sums over the dimensions that a tensor of this shape shares."""
    values = values.sum(tuple(range(values.ndim - len(shape))))
    return values.sum(tuple(i for i, n in enumerate(shape[:-1]) if n == 1), keepdims=True)


def close(got, want, bound=BOUND):
    got = np.asarray(got, np.float64)
    assert got.shape == want.shape
    assert np.linalg.norm(got - want) <= bound * np.linalg.norm(want), f"{got.shape}: {np.linalg.norm(got - want)}"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("jit", (False, True))
def test_results_and_gradients_are_exact(hc, put, mode, jit):
    wrap = jax.jit if jit else lambda function: function
    for shapes in SHAPES:
        x, h = (array(shape, i) for i, shape in enumerate(shapes))
        y = wrap(lambda x, h: hc.jax.convolve(x, h, mode))(put(x), put(h))
        assert isinstance(y, jax.Array) and y.dtype == jnp.float32
        close(y, exact(x, h, mode))
        gy = array(y.shape, 7)
        got = wrap(jax.grad(lambda x, h: (gy * hc.jax.convolve(x, h, mode)).sum(), (0, 1)))(put(x), put(h))
        for one, want in zip(got, exact(x, h, mode, gy)):
            close(one, want)


def test_a_shared_x_is_not_written_out(hc, put, monkeypatch):
    from haloconv import _jax_calls
    x, h, seen, run = array((1, 300)), array((64, 50), 2), [], _jax_calls.operation
    monkeypatch.setattr(_jax_calls, "operation", lambda *given: seen.append(given[4].shape) or run(*given))
    for index in (None, np.arange(64)):
        close(hc.jax.convolve(put(x), put(h), "causal", index=index), exact(x, h, "causal"))
    assert seen == [(1, 1, 300)] * 2


def test_second_derivatives(hc, put):
    """y is linear in x and in h: the gradient for h of v * gx is that of gy * convolve(v, h)."""
    x, h, v = array((2, 3, 50)), array((3, 9), 2), array((2, 3, 50), 3)
    for mode in MODES:
        gy = array(exact(x, h, mode).shape, 4)

        def gradient(at, x, h, gy):
            return jax.grad(lambda x, h: (gy * hc.jax.convolve(x, h, mode)).sum(), at)(x, h)
        close(jax.grad(lambda h: (v * gradient(0, x, h, gy)).sum())(put(h)), exact(v, h, mode, gy)[1])
        close(jax.grad(lambda gy: (v * gradient(0, x, h, gy)).sum())(put(gy)), exact(v, h, mode))
        w = array(h.shape, 5)
        close(jax.grad(lambda x: (w * gradient(1, x, h, gy)).sum())(put(x)), exact(x, w, mode, gy)[0])
        close(jax.grad(lambda gy: (w * gradient(1, x, h, gy)).sum())(put(gy)), exact(x, w, mode))


def row_by_row(x, h, filters, offsets, mode, gy=None):
    """exact() of rows [sequence][channel] of x [channels, frames]; filters: number of each row's filter, -1: none."""
    gap = h.shape[-1] - 1 if mode == "full" else 0
    ends = [offsets[i:i + 2] + np.array([i, i + 1]) * gap for i in range(len(offsets) - 1)]
    results = [np.zeros((len(x), ends[-1][1]))] if gy is None else [np.zeros(x.shape), np.zeros(h.shape)]
    for (i, channel), number in np.ndenumerate(filters):
        own, (begin, end) = x[channel, offsets[i]:offsets[i + 1]], ends[i]
        if number < 0 or len(own) == 0:
            continue
        if gy is None:
            results[0][channel, begin:end] = exact(own, h[number], mode)
            continue
        gx, gh = exact(own, h[number], mode, gy[channel, begin:end])
        results[0][channel, offsets[i]:offsets[i + 1]] = gx
        results[1][number] += gh
    return results if gy is not None else results[0]


def agrees(call, x, h, want, want_gradients):
    """call(x, h), inside of jit, and its gradients are right; want_gradients(gy)."""
    y = jax.jit(call)(x, h)
    close(y, want)
    gy = array(y.shape, 7)
    for got, right in zip(jax.jit(jax.grad(lambda x, h: (gy * call(x, h)).sum(), (0, 1)))(x, h), want_gradients(gy)):
        close(got, right.reshape(got.shape))


@pytest.mark.parametrize("mode", MODES)
def test_filters_by_index(hc, put, mode):
    """-1 and 6 are no filters; 2^32 + 1 is filter 1 for a reader of 32 bits."""
    bank = array((6, 40), 2)
    for x_shape, index in [((50,), [4]), ((5, 3, 50), [[0], [5], [-1], [5], [6]]), ((5, 3, 50), [[1, 1, 0]]),
                           ((2, 60), [3, -1]), ((2, 3, 2, 9), [[[3, 0]], [[1, 2]]])]:
        x, index = array(x_shape, 1), np.array(index)
        whole = np.broadcast_shapes(x_shape[:-1], index.shape)
        rows, numbers = np.broadcast_to(x, (*whole, x.shape[-1])), np.broadcast_to(index, whole)
        filters = bank[np.clip(numbers, 0, 5)] * ((numbers >= 0) & (numbers < 6))[..., None]

        def gradients(gy):
            gx, gh = exact(rows, filters, mode, gy)
            want = np.zeros(bank.shape)
            np.add.at(want, np.clip(numbers, 0, 5), gh * ((numbers >= 0) & (numbers < 6))[..., None])
            return summed(gx, x.shape), want
        agrees(lambda x, h: hc.jax.convolve(x, h, mode, index=index), put(x), put(bank), exact(rows, filters, mode),
               gradients)
    lengths = np.array([0, 40, 7, 30, 1, 9])
    cut = bank * (np.arange(40) < lengths[:, None])
    close(hc.jax.convolve(put(x), put(bank), mode, lengths, index), exact(x, cut[index], mode))
    twice = jax.vmap(lambda x, index: hc.jax.convolve(x, bank, mode, index=index))
    close(twice(array((2, 3, 50)), jnp.array([[0], [4]])), exact(array((2, 3, 50)), bank[[[0], [4]]], mode))
    jax.config.update("jax_enable_x64", True)
    try:
        far = hc.jax.convolve(put(array((3, 50))), put(bank), mode, index=jnp.array([2, (1 << 32) + 1, -1]))
        assert far.dtype == jnp.float32 and np.array_equal(np.abs(far).max(-1) > 0, [True, False, False])
    finally:
        jax.config.update("jax_enable_x64", False)


@pytest.mark.parametrize("mode", ("causal", "same", "full"))
@pytest.mark.parametrize("offsets", ([0, 50], [0, 0, 17, 250, 250, 300], [0, 1, 2, 3, 300, 300]))
def test_packed_sequences(hc, put, offsets, mode):
    n, x = len(offsets) - 1, array((3, offsets[-1]))
    for shape, filters in [((40,), np.zeros((n, 3), int)), ((3, 40), np.tile([0, 1, 2], (n, 1))),
                           ((n, 1, 40), np.tile(np.arange(n)[:, None], 3)),
                           ((n, 3, 40), np.arange(3 * n).reshape(n, 3))]:
        h, flat = array(shape, 2), array((max(1, int(np.prod(shape[:-1]))), 40), 2)
        agrees(lambda x, h: hc.jax.convolve_packed(x, h, jnp.array(offsets), mode), put(x), put(h),
               row_by_row(x, flat, filters, offsets, mode), lambda gy: row_by_row(x, flat, filters, offsets, mode, gy))
    bank, index = array((4, 40), 2), generator(4).integers(-1, 4, (n, 3))
    agrees(lambda x, h: hc.jax.convolve_packed(x, h, offsets, mode, index=index), put(x), put(bank),
           row_by_row(x, bank, index, offsets, mode), lambda gy: row_by_row(x, bank, index, offsets, mode, gy))
    want = row_by_row(x[:1], bank, index[:, :1], offsets, mode)[0]
    close(hc.jax.convolve_packed(put(x[0]), put(bank), offsets, mode, index=index[:, 0]), want)
    lengths = np.array([40, 0, 3, 39])
    cut = bank * (np.arange(40) < lengths[:, None])
    close(hc.jax.convolve_packed(put(x[0]), put(cut[index[:, 0]]), offsets, mode),
          row_by_row(x[:1], cut, np.where(index[:, :1] < 0, 3, index[:, :1]), offsets, mode)[0])
    y = hc.jax.convolve_packed(put(x), put(bank), offsets, mode, lengths, index)
    close(y, row_by_row(x, cut, index, offsets, mode))
    half = hc.jax.convolve_packed(*(put(v).astype(jnp.bfloat16) for v in (x, bank)), offsets, mode, index=index)
    assert half.dtype == jnp.bfloat16 and half.shape == y.shape


def test_lengths_end_filters(hc, put):
    x, h, lengths = array((2, 3, 60)), array((3, 9), 2), np.array([0, 4, 9])
    cut = h * (np.arange(9) < lengths[:, None])
    close(hc.jax.convolve(put(x), put(h), lengths=lengths), exact(x, cut, "full"))
    gh = jax.grad(lambda h: hc.jax.convolve(x, h, lengths=lengths).sum())(put(h))
    assert np.array_equal(np.asarray(gh) != 0, np.arange(9) < lengths[:, None])


def test_half_precision(hc, put):
    """Read in place and rounded once; a gradient has the dtype of its array."""
    x, h = put(array((2, 3, 60))).astype(jnp.bfloat16), put(array((3, 9), 2)).astype(jnp.float16)
    wide = [np.asarray(value.astype(jnp.float32)) for value in (x, h)]
    assert hc.jax.convolve(x, h).dtype == jnp.float32
    close(hc.jax.convolve(x, h), exact(*wide, "full"))
    y = hc.jax.convolve(x, x[0])
    assert y.dtype == jnp.bfloat16
    want = jnp.asarray(exact(wide[0], wide[0][0], "full"), jnp.float32).astype(jnp.bfloat16)
    assert np.mean(np.asarray(y == want)) > 0.99  # a sum between two numbers may be rounded to the other
    gx, gh = jax.grad(lambda x, h: hc.jax.convolve(x, h).sum(), (0, 1))(x, h)
    assert gx.dtype == jnp.bfloat16 and gh.dtype == jnp.float16
    close(gh, exact(*wide, "full", np.ones((2, 3, 68)))[1], 1e-3)


def test_transforms(hc, put):
    x, h = array((5, 3, 60)), array((5, 3, 9), 2)
    close(jax.vmap(hc.jax.convolve)(put(x), put(h)), exact(x, h, "full"))
    close(jax.vmap(lambda x: hc.jax.convolve(x, h[0]))(put(x)), exact(x, h[0], "full"))
    close(jax.lax.scan(lambda carry, x: (carry, hc.jax.convolve(x, h[0])), 0, put(x))[1], exact(x, h[0], "full"))
    by_index = lambda x, h: hc.jax.convolve(x[0], h[0], index=jnp.array([1, 0, 2]))
    gradient = lambda x, h: jax.grad(lambda x: (hc.jax.convolve(x, h[:, :1]) ** 2).sum())(x[:, :1])
    for f in (hc.jax.convolve, by_index, lambda x, h: hc.jax.convolve_packed(x[0], h[0], [0, 9, 60]), gradient):
        for place in (lambda: jax.jvp(f, (x, h), (x, h)), lambda: jax.jit(lambda: jax.jvp(f, (x, h), (x, h)))(),
                      lambda: jax.linearize(f, x, h)[1](x, h), lambda: jax.jacfwd(f)(x, h)):
            with pytest.raises(TypeError, match="forward-mode"):
                place()


def test_empty_batches(hc, put):
    h = put(array((3, 9)))
    assert hc.jax.convolve(put(np.zeros((0, 3, 5), np.float32)), h).shape == (0, 3, 13)
    gh = jax.grad(lambda h: hc.jax.convolve(np.zeros((0, 3, 5)), h).sum())(h)
    assert gh.shape == h.shape and not gh.any()
    assert hc.jax.convolve(np.zeros((0, 3, 5)), h, index=np.zeros((0, 1), int)).shape == (0, 3, 13)
    assert hc.jax.convolve_packed(np.zeros((0, 5)), h[:1], [0, 2, 5], "full").shape == (0, 21)


def test_a_failed_run_frees_its_memory(hc, monkeypatch):
    if jax is None:
        pytest.skip("no jax")
    from haloconv import _jax_calls as calls
    freed = []

    def stream_get(_address):
        return None

    def allocate(address):
        calls._Allocation.from_address(address).data = 4096

    def free(address):
        freed.append(calls._Release.from_address(address).data)

    class Plan:
        bytes = 64

        def run(self, *_places, **_numbers):
            raise hc.Error(-1, "no such device")

    monkeypatch.setattr(calls, "_plan", lambda *_: Plan())
    monkeypatch.setattr(calls, "_device_of", lambda _: 0)
    functions = {call.__name__: calls._call(call) for call in (stream_get, allocate, free)}
    api, frame, buffer, zero = calls._Api(), calls._Frame(), calls._Buffer(dtype=11), ctypes.c_int32(0)
    for name, function in functions.items():
        setattr(api, name, ctypes.cast(function, ctypes.c_void_p))
    scalar = calls._Scalar(value=ctypes.pointer(zero))
    frame.api = ctypes.pointer(api)
    for items, one, n in ((frame.arguments, buffer, 2), (frame.results, buffer, 1), (frame.attributes, scalar, 3)):
        items.size, items.items = n, (ctypes.c_void_p * n)(*[ctypes.addressof(one)] * n)
    with pytest.raises(hc.Error, match="no such device"):
        calls._execute(frame, True)
    assert freed == [4096]


def test_refusals_say_what_to_do(hc, put, monkeypatch):
    x, h, packed = put(array((2, 3, 50))), put(array((3, 9))), hc.jax.convolve_packed
    for call, kind, text in [(lambda: hc.jax.convolve(x, h, "circular"), ValueError, "mode 'circular' is unknown"),
                             (lambda: hc.jax.convolve(x, h, ["full"]), ValueError, "mode .'full'. is unknown"),
                             (lambda: hc.jax.convolve(x + 0j, h), TypeError, "is complex"),
                             (lambda: hc.jax.convolve(x, h[:2]), ValueError, "do not broadcast"),
                             (lambda: hc.jax.convolve(x, h[:, :0]), ValueError, "at least one"),
                             (lambda: hc.jax.convolve(x, h, lengths=[1, 2]), ValueError, "give whole numbers of"),
                             (lambda: hc.jax.convolve(x, x, index=[0]), ValueError, "give a bank"),
                             (lambda: hc.jax.convolve(x, h[:0], index=[0]), ValueError, "at least one filter"),
                             (lambda: hc.jax.convolve(x, h, index=[0, 1]), ValueError, "do not broadcast"),
                             (lambda: hc.jax.convolve(x, h, index=[0.0]), TypeError, "give whole numbers"),
                             (lambda: packed(x, h, [0, 50]), ValueError, "give .channels, frames. or"),
                             (lambda: packed(x[0], h, [50]), ValueError, "sequences . 1"),
                             (lambda: packed(x[0], h, [0, 49]), ValueError, "end with the 50 frames"),
                             (lambda: packed(x[0], h, [1, 50]), ValueError, "begin with 0"),
                             (lambda: packed(x[0], h, [0, 30, 20, 50]), ValueError, "ascend"),
                             (lambda: packed(x[0], h[:2], [0, 50]), ValueError, "leading dimensions .2,.; give .1, 3."),
                             (lambda: packed(x[0], h, [0, 50], index=[[0, 1]]), ValueError, "index has leading"),
                             (lambda: packed(x[0], h, [0, 50], "valid"), ValueError, "no mode valid")]:
        with pytest.raises(kind, match=text):
            call()

    def refuse(*_):
        raise hc.Error(-1, "no such device")
    from haloconv import _jax_calls
    monkeypatch.setattr(_jax_calls, "_plan", refuse)
    with pytest.raises(Exception, match="haloconv: no such device"):
        hc.jax.convolve(x, h).block_until_ready()
