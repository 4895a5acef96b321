"""haloconv.jax: results and gradients against NumPy's FFT in float64, inside and outside of jit, on every device.

Needs jax 0.5 or newer. On a machine with a GPU and a jax for it the tests run there too.
"""

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
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jvp(hc.jax.convolve, (x, h), (x, h))


def test_empty_batches(hc, put):
    h = put(array((3, 9)))
    assert hc.jax.convolve(put(np.zeros((0, 3, 5), np.float32)), h).shape == (0, 3, 13)
    gh = jax.grad(lambda h: hc.jax.convolve(np.zeros((0, 3, 5)), h).sum())(h)
    assert gh.shape == h.shape and not gh.any()


def test_refusals_say_what_to_do(hc, put, monkeypatch):
    x, h = put(array((2, 3, 50))), put(array((3, 9)))
    for call, kind, text in [(lambda: hc.jax.convolve(x, h, "circular"), ValueError, "mode 'circular' is unknown"),
                             (lambda: hc.jax.convolve(x + 0j, h), TypeError, "is complex"),
                             (lambda: hc.jax.convolve(x, h[:2]), ValueError, "do not broadcast"),
                             (lambda: hc.jax.convolve(x, h[:, :0]), ValueError, "at least one"),
                             (lambda: hc.jax.convolve(x, h, lengths=[1, 2]), ValueError, "give whole numbers of")]:
        with pytest.raises(kind, match=text):
            call()

    def refuse(*_):
        raise hc.Error(-1, "no such device")
    from haloconv import _jax_calls
    monkeypatch.setattr(_jax_calls, "_plan", refuse)
    with pytest.raises(Exception, match="haloconv: no such device"):
        hc.jax.convolve(x, h).block_until_ready()
