"""haloconv.convolve_tensors, and arrays on a GPU by DLPack: NumPy arrays, and arrays that say that they are on a GPU.

No GPU is needed: the stand-ins of CuPy and of an array API library keep their frames in NumPy, and their plans are
those of the CPU. They check what the module reads, copies, allocates, and which stream it takes.
"""

import contextlib
import ctypes
import subprocess
import sys
import types

import numpy as np
import pytest
import scipy.signal
from conftest import ROOT, assert_close, generator, has_cuda
from test_python import hc  # noqa: F401  (a fixture)

MODES = ("full", "same", "valid", "causal")


def array(shape, seed=1):
    return generator(seed).standard_normal(shape).astype(np.float32)


def exact(x, h, mode, lengths=None):
    x, h = np.asarray(x, np.float64), np.asarray(h, np.float64)
    n, k = x.shape[-1], h.shape[-1]
    if lengths is not None:
        h = h * (np.arange(k) < np.asarray(lengths)[..., None])
    lead = np.broadcast_shapes(x.shape[:-1], h.shape[:-1])
    full = scipy.signal.fftconvolve(np.broadcast_to(x, (*lead, n)), np.broadcast_to(h, (*lead, k)), axes=-1)
    start = {"full": 0, "causal": 0, "same": (k - 1) // 2, "valid": min(n, k) - 1}[mode]
    return full[..., start:start + {"full": n + k - 1, "causal": n, "same": n, "valid": abs(n - k) + 1}[mode]]


def close(got, want):
    assert got.shape == want.shape and got.dtype == np.float32, f"got {got.shape} {got.dtype}, want {want.shape}"
    assert_close(got.reshape(-1, got.shape[-1]).T, want.reshape(-1, want.shape[-1]).T)


# ---- NumPy ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("mode", MODES)
def test_numpy_arrays_are_convolved(hc, mode):
    for x_shape, h_shape in [((50,), (9,)), ((1,), (1,)), ((9,), (50,)), ((2, 3, 500), (3, 90)), ((2, 3, 500), (90,)),
                             ((2, 3, 500), (2, 1, 501)), ((1, 300), (4, 50)), ((50,), (2, 3, 9)),
                             ((2, 3, 4, 90), (2, 1, 4, 9)), ((2, 3, 4, 90), (2, 3, 1, 9)), ((2, 1, 4, 90), (3, 1, 9))]:
        x, h = array(x_shape), array(h_shape, 2)
        close(hc.convolve_tensors(x, h, mode), exact(x, h, mode))
        lengths = generator(3).integers(0, h_shape[-1] + 1, h_shape[:-1])
        close(hc.convolve_tensors(x, h, mode, lengths=lengths, n_threads=1), exact(x, h, mode, lengths))


@pytest.mark.parametrize("mode", MODES)
def test_filters_by_index(hc, mode):
    bank, lengths = array((5, 40), 2), np.array([40, 0, 3, 17, 40])
    for x_shape, index_shape in [((90,), ()), ((90,), (3,)), ((2, 3, 90), (3,)), ((2, 3, 90), (2, 1)),
                                 ((2, 3, 4, 90), (2, 1, 4)), ((2, 1, 4, 90), (3, 1))]:
        x, index = array(x_shape), generator(3).integers(-1, 6, index_shape)
        is_filter = (index >= 0) & (index < 5)
        for ends in (None, lengths):
            number = np.where(is_filter, index, 0)
            want = exact(x, bank[number], mode, None if ends is None else ends[number]) * is_filter[..., None]
            close(hc.convolve_tensors(x, bank, mode, ends, index=index), want)
    with pytest.raises(ValueError, match=r"give \[filters, taps\]"):
        hc.convolve_tensors(x, bank[0], index=[0])
    with pytest.raises(ValueError, match="whole numbers"):
        hc.convolve_tensors(x, bank, index=[0.5])


@pytest.mark.parametrize("mode", ("full", "same", "causal"))
def test_packed_sequences(hc, mode):
    offsets = np.array([0, 0, 100, 101, 300])
    x = array((3, 300))

    def want(x, h):
        return np.concatenate([exact(x[..., a:b], h[i], mode) if b > a
                               else np.zeros((*x.shape[:-1], h.shape[-1] - 1 if mode == "full" else 0))
                               for i, (a, b) in enumerate(zip(offsets, offsets[1:]))], -1)

    for shape in ((9,), (3, 9), (4, 1, 30), (4, 3, 30)):
        h = array(shape, 2)
        close(hc.convolve_packed(x, h, offsets, mode), want(x, np.broadcast_to(h, (4, 3, shape[-1]))))
    own, index = array((4, 20), 3), np.array([3, 0, 0, 2])
    close(hc.convolve_packed(x[0], own, offsets.tolist(), mode), want(x[0], own))
    close(hc.convolve_packed(x[0], own, offsets, mode, index=index), want(x[0], own[index]))
    with pytest.raises(ValueError, match="end with the 300 frames"):
        hc.convolve_packed(x, own[0], offsets[:-1], mode)
    with pytest.raises(ValueError, match="no mode valid"):
        hc.convolve_packed(x, own[0], offsets, "valid")


def test_numpy_arrays_of_any_layout_and_type(hc):
    x, h = array((6, 400, 4)), array((50, 6), 2)
    for a, b in [(x.transpose(2, 0, 1), h.T), (x[::-1, ::-3, 1], h.T[:, ::-1]), (x[..., 0], h[:, ::2].T[0]),
                 (array((4, 100))[::-1], h[:, 0].copy()),
                 (np.broadcast_to(x[0, :, 0], (5, 400)), np.broadcast_to(h[:, 0], (5, 50))),
                 (x[:1, ::2, 1], h.T), (x[0, ::2, 1], h.T), (x[:1, None, ::2, 1], h.T), (x[..., 0], h.T[:1, ::2]),
                 (x[0, :, 0].astype(">f8"), h[:, 0].tolist()), (np.arange(30), [1, 2, 3])]:
        close(hc.convolve_tensors(a, b, "same"), exact(a, b, "same"))
    bytes_ = np.zeros(4 * 100 + 1, np.uint8)
    unaligned = bytes_[1:].view(np.float32)
    unaligned[:] = array(100)
    close(hc.convolve_tensors(unaligned, array(9)), exact(unaligned, array(9), "full"))


def bfloat16(values):
    """An array whose dtype has the name, and the bits, of ml_dtypes.bfloat16."""
    class Type:
        name, itemsize, isnative, kind, names = "bfloat16", 2, True, "V", None

    class Array(np.ndarray):
        dtype = Type
    bits = values.view(np.uint32) + np.uint32(0x8000)
    return (bits >> 16).astype(np.uint16).view(Array), (bits & np.uint32(0xffff0000)).view(np.float32)


def test_numpy_arrays_in_half_precision_are_read_in_place(hc, monkeypatch):
    """float16, bfloat16 and float32 in any mix; the result is float32."""
    from haloconv import _arrays
    seen, plan = [], _arrays._plan

    def record(*arguments):
        seen.append(arguments[5])
        return plan(*arguments)

    monkeypatch.setattr(_arrays, "_plan", record)
    x, h = array((2, 3, 300)), array((3, 40), 2)
    kinds = [lambda a: (a, a), bfloat16, lambda a: (a.astype(np.float16), a.astype(np.float16))]
    for i, x_kind in enumerate(kinds):
        for j, h_kind in enumerate(kinds):
            (x_low, x_exact), (h_low, h_exact) = x_kind(x[:, ::2]), h_kind(h[::2])
            with monkeypatch.context() as patch:
                patch.setattr(np, "asarray", np.asanyarray)  # keeps the subclass of bfloat16
                y = hc.convolve_tensors(x_low, h_low, "causal")
            close(y, exact(x_exact, h_exact, "causal"))
            assert seen.pop() == (i, j)


def test_empty_and_nan(hc):
    assert hc.convolve_tensors(array((0, 3, 20)), array((3, 5))).shape == (0, 3, 24)
    x = array((2, 300))
    x[1, 100] = np.nan
    y = hc.convolve_tensors(x, array(20))
    assert np.isnan(y[1, 100:120]).all()
    close(y[:1], exact(x[:1], array(20), "full"))


def test_refusals_say_what_to_do(hc):
    x, h = array((2, 3, 50)), array((3, 9))
    for call, kind, text in [
            (lambda: hc.convolve_tensors(x, h[:2]), ValueError, r"\(2, 3, 50\) and h \(2, 9\) do not broadcast"),
            (lambda: hc.convolve_tensors(x + 0j, h), TypeError, "x is complex"),
            (lambda: hc.convolve_tensors(x[..., :0], h), ValueError, "at least one frame"),
            (lambda: hc.convolve_tensors(x, 3.0), ValueError, r"h has shape \(\)"),
            (lambda: hc.convolve_tensors(x, h, "centre"), ValueError, "give full, same, valid or causal"),
            (lambda: hc.convolve_tensors(x, h, ["full"]), ValueError, "give full, same, valid or causal"),
            (lambda: hc.convolve_packed(x[0, 0], 3.0, [0, 50]), ValueError, r"h has shape \(\)"),
            (lambda: hc.convolve_tensors(x, h, lengths=[1, 2]), ValueError, r"int64 numbers of shape \(3,\)"),
            (lambda: hc.convolve_tensors(x, h, lengths=[1.0, 2.0, 3.0]), ValueError, "int64 numbers")]:
        with pytest.raises(kind, match=text):
            call()


@pytest.mark.parametrize("kind", ["M8[s]", "m8[s]", "U9", "S9", [("left", "f4")], "mask"])
def test_arrays_that_hold_no_real_numbers_are_refused(hc, kind):
    """NumPy makes numbers of a date and of a text, and drops a mask."""
    x = np.arange(20, dtype=np.float32)
    given = np.ma.array(x, mask=x > 4) if kind == "mask" else np.zeros(20, kind)
    text = r"is a masked array; give \.filled" if kind == "mask" else "give real numbers"
    for call in (lambda: hc.convolve_tensors(given, x), lambda: hc.convolve_tensors(x, given),
                 lambda: hc.convolve_packed(given, x[:3], [0, 20]), lambda: hc.convolve_packed(x, given, [0, 20]),
                 lambda: hc.convolve(given, x, backend="cpu"), lambda: hc.convolve(x, given, backend="cpu"),
                 lambda: hc.Bank(given[None])):
        with pytest.raises(TypeError, match=text):
            call()


def test_the_structures_are_the_headers(hc, folder):
    from haloconv import _tensors
    kinds = {"hc_tensors": _tensors.Tensors, "hc_tensor_data": _tensors.Data}
    places = [f"offsetof({struct}, {name})" for struct, kind in kinds.items() for name, _ in kind._fields_]
    lines = [f'printf("%zu\\n", {place});' for place in [*(f"sizeof({struct})" for struct in kinds), *places]]
    names = ["HC_FULL", "HC_SAME", "HC_VALID", "HC_CAUSAL", "HC_CONVOLVE", "HC_GRADIENT_X", "HC_GRADIENT_H",
             "HC_GRADIENTS", "HC_FLOAT32", "HC_BFLOAT16", "HC_FLOAT16"]
    lines += [f'printf("%d\\n", {name});' for name in names]
    (folder / "sizes.c").write_text('#include "haloconv_tensors.h"\n#include <stddef.h>\n#include <stdio.h>\n'
                                    "int main(void) {" + "\n".join(lines) + "}\n")
    subprocess.run(["cc", "-I", str(ROOT / "dsp"), "sizes.c", "-o", "sizes"], check=True)
    seen = list(map(int, subprocess.run(["./sizes"], check=True, capture_output=True, text=True).stdout.split()))
    assert seen[:2] == [ctypes.sizeof(kind) for kind in kinds.values()]
    assert seen[2:-11] == [getattr(kind, name).offset for kind in kinds.values() for name, _ in kind._fields_]
    assert seen[-11:] == [*_tensors.MODES.values(), _tensors.CONVOLVE, _tensors.GRADIENT_X, _tensors.GRADIENT_H,
                          _tensors.GRADIENTS, _tensors.FLOAT32, _tensors.BFLOAT16, _tensors.FLOAT16]
    tensors = _tensors.Tensors(ctypes.sizeof(_tensors.Tensors), b"cpu", 0, 0, 2, 3, 50, 9)
    for mode, number in _tensors.MODES.items():
        for n, k in ((50, 9), (9, 50), (1, 1), (7, 7)):
            tensors.mode, tensors.n_frames, tensors.n_taps = number, n, k
            assert hc._library._lib.hc_tensors_frames(ctypes.byref(tensors)) == _tensors.frames_of(mode, n, k)


def test_importing_the_module_imports_no_torch(hc):
    code = f"import sys; sys.path.insert(0, {str(ROOT / 'plugins/python')!r}); import haloconv; " \
           "assert haloconv.convolve_tensors([1.0], [2.0])[0] == 2 and 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="has no attribute 'tensorflow'"):
        hc.tensorflow


# ---- arrays on a GPU ------------------------------------------------------------------------------------------------
class GpuArray:
    """An array that says that it is on cuda:0, and follows the array API."""
    __module__ = "gpulib"
    streams = []  # that its __dlpack__ has seen
    versioned = False
    held = []  # memory of versioned capsules

    def __init__(self, values):
        self.a = values
        self.shape, self.ndim, self.device = values.shape, values.ndim, "cuda:0"

    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, *, stream=None, max_version=None):
        type(self).streams.append(stream)
        is_versioned = self.versioned or not self.a.flags.writeable  # NumPy exports no broadcast array
        return versioned_capsule(self.a) if is_versioned else self.a.__dlpack__()

    def __array_namespace__(self):
        kind = type(self)
        return types.SimpleNamespace(
            float32=np.float32, empty=lambda shape, dtype, device: kind(np.full(shape, np.nan, dtype)),
            asarray=lambda x, copy: kind(np.ascontiguousarray(x.a)), astype=lambda x, dtype: kind(x.a.astype(dtype)),
            broadcast_to=lambda x, shape: kind(np.broadcast_to(x.a, shape)), reshape=lambda x, shape: x.reshape(shape))

    def __getitem__(self, i):
        return type(self)(self.a[i])

    def reshape(self, *shape):
        return type(self)(self.a.reshape(*shape))

    def sum(self, axis):
        return type(self)(self.a.sum(axis))

    def astype(self, dtype):
        return type(self)(self.a.astype(dtype))

    @property
    def T(self):
        return type(self)(self.a.T)


class VersionedArray(GpuArray):
    versioned = True


def versioned_capsule(values, major=1):
    """A capsule of DLPack 1.0 of a float32 or int64 array."""
    from haloconv._arrays import _Versioned
    managed = _Versioned(major=major, minor=0)
    shape, strides = ((ctypes.c_int64 * values.ndim)(*numbers)
                      for numbers in (values.shape, [s // values.itemsize for s in values.strides]))
    tensor = managed.tensor
    tensor.data, tensor.byte_offset = values.ctypes.data - 16, 16
    tensor.device_type, tensor.ndim, tensor.shape, tensor.strides = 2, values.ndim, shape, strides
    tensor.code, tensor.bits, tensor.lanes = {"f": 2, "i": 0, "c": 5}[values.dtype.kind], 8 * values.itemsize, 1
    GpuArray.held.append((managed, shape, strides, values))
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return make(("PyCapsule_New", ctypes.pythonapi))(ctypes.addressof(managed), b"dltensor_versioned", None)


@pytest.fixture
def runs(hc, monkeypatch):
    """Plans for cuda:0 run on the CPU; the streams that they get, and "done" for each wait."""
    from haloconv import _arrays, _tensors
    seen = []
    make_plan, run = _tensors.make_plan, _tensors.Plan.run

    def make(op, mode, backend, *rest):
        assert backend == b"cuda:0"
        return make_plan(op, mode, b"cpu", *rest)

    def record(plan, a, b, out, workspace, stream=None, lengths=None):
        assert workspace % 256 == 0
        seen.append(stream)
        run(plan, a, b, out, workspace, stream, lengths)

    monkeypatch.setattr(_arrays, "make_plan", make)
    monkeypatch.setattr(_arrays, "_plans", _tensors.Plans())
    monkeypatch.setattr(_tensors.Plan, "run", record)
    monkeypatch.setattr(_arrays, "_synchronise", lambda device: seen.append("done"))
    GpuArray.streams.clear()
    GpuArray.held.clear()
    return seen


@pytest.mark.parametrize("kind", [GpuArray, VersionedArray])
@pytest.mark.parametrize("mode", MODES)
def test_arrays_on_a_gpu(hc, runs, kind, mode):
    """The result is of their kind; the legacy default stream waits for them, and the call for the result."""
    for x_shape, h_shape in [((50,), (9,)), ((2, 3, 500), (3, 90)), ((1, 300), (4, 50)), ((50,), (2, 3, 9)),
                             ((2, 1, 90), (3, 9)), ((2, 3, 4, 60), (3, 1, 9)), ((2, 3, 4, 60), (2, 1, 4, 9)),
                             ((4, 60), (5, 2, 3, 4, 9)), ((2, 1, 3, 1, 60), (9,))]:
        x, h = array(x_shape), array(h_shape, 2)
        y = hc.convolve_tensors(kind(x), kind(h), mode)
        assert type(y) is kind
        close(y.a, exact(x, h, mode))
    assert runs == [1, "done"] * 9 and set(kind.streams) == {1}


def test_gpu_arrays_are_read_in_place(hc, runs, monkeypatch):
    """Expanded arrays and views are not copied; arrays whose frames are not adjacent are, and other types."""
    copies = []

    def dense(library, values):
        copies.append(values)
        return GpuArray(np.ascontiguousarray(values.a))

    from haloconv import _arrays
    monkeypatch.setattr(_arrays._Library, "dense", dense)
    x, h = array((4, 6, 200)), array((6, 30), 2)
    y = hc.convolve_tensors(GpuArray(x[::2, 1:, 7:]), GpuArray(h[1:, 3:]))
    close(y.a, exact(x[::2, 1:, 7:], h[1:, 3:], "full"))
    assert not copies
    close(hc.convolve_tensors(GpuArray(x.transpose(0, 2, 1)), GpuArray(h[0])).a,
          exact(x.transpose(0, 2, 1), h[0], "full"))
    assert len(copies) == 1
    close(hc.convolve_tensors(GpuArray(x.astype(np.float64)), GpuArray(h)).a, exact(x, h, "full"))
    monkeypatch.setattr(_arrays._Library, "float32", None)  # float16 is not converted
    low = x.astype(np.float16)
    for kind in (GpuArray, VersionedArray):
        close(hc.convolve_tensors(kind(low), kind(h)).a, exact(low, h, "full"))
    lengths = np.array([3, 0, 30, 7, 1, 2])
    for some in (lengths, np.repeat(lengths, 2)[::2]):
        close(hc.convolve_tensors(GpuArray(x), GpuArray(h), lengths=GpuArray(some)).a, exact(x, h, "full", lengths))
    x, h, lengths = array((2, 3, 4, 60)), array((2, 1, 4, 9)), np.arange(8).reshape(2, 1, 4)
    close(hc.convolve_tensors(GpuArray(x), GpuArray(h), lengths=GpuArray(lengths)).a, exact(x, h, "full", lengths))


def test_columns_on_a_gpu_follow_the_channel_rule(hc, runs):
    """haloconv.convolve gives for GPU arrays what it gives for NumPy arrays."""
    x = array((300, 3))
    for sound, h in [(x[:, 0], array(40)), (x, array(40)), (x, array((40, 1))), (x, array((40, 3))),
                     (x[:, :1], array((40, 5))), (x[:, 0], array((40, 5))), (x[:, :2], array((40, 4))),
                     (x, array((40, 3, 2))), (x[:, 0], array((40, 1, 2)))]:
        for mode in ("full", "causal", "same"):
            y = hc.convolve(GpuArray(sound), GpuArray(h), mode=mode)
            close(np.atleast_2d(y.a.T), np.atleast_2d(hc.convolve(sound, h, mode=mode, backend="cpu", method="fft").T))
            assert y.a.ndim == (1 if sound.ndim == h.ndim == 1 else 2)
    with pytest.raises(ValueError, match="h has 2 channels, but the sound has 3"):
        hc.convolve(GpuArray(x), GpuArray(array((40, 2))))
    with pytest.raises(ValueError, match="h has 2 inputs, but the sound has 3"):
        hc.convolve(GpuArray(x), GpuArray(array((40, 2, 2))))
    with pytest.raises(ValueError, match="backend 'cpu'.*move them"):
        hc.convolve(GpuArray(x), GpuArray(array(40)), backend="cpu")


def test_gpu_refusals_say_what_to_do(hc, runs):
    x, h = array((2, 3, 50)), array((3, 9))

    class Metal(GpuArray):
        def __dlpack_device__(self):
            return 8, 0

    class Bare(GpuArray):
        __array_namespace__ = property()

    class Later(GpuArray):
        def __dlpack__(self, *, stream=None, max_version=None):
            return versioned_capsule(self.a, 2)

    class Columns(GpuArray):
        def __array_namespace__(self):  # a copy keeps the order of the axes in memory, as NumPy's does
            return types.SimpleNamespace(asarray=lambda x, copy: Columns(np.array(x.a, order="K")))

    for call, kind, text in [
            (lambda: hc.convolve_tensors(Columns(x.transpose(0, 2, 1)), GpuArray(h[0])), ValueError, "not adjacent"),
            (lambda: hc.convolve_tensors(Later(x), Later(h)), BufferError, "version 2 of DLPack; give version 1"),
            (lambda: hc.convolve_tensors(GpuArray(x), h), ValueError, "x is on cuda:0 and h on the CPU; move"),
            (lambda: hc.convolve_tensors(x, GpuArray(h)), ValueError, "x is on the CPU and h on cuda:0; move"),
            (lambda: hc.convolve(h, GpuArray(h)), ValueError, "x is on the CPU and h on cuda:0; move"),
            (lambda: hc.convolve_tensors(Metal(x), h), TypeError, "DLPack's type 8; move"),
            (lambda: hc.convolve_tensors(Bare(x), Bare(h)), TypeError, "no __array_namespace__"),
            (lambda: hc.convolve_tensors(VersionedArray(x + 0j), GpuArray(h)), TypeError, "is complex"),
            (lambda: hc.convolve_tensors(GpuArray(x), GpuArray(h[:2])), ValueError, "do not broadcast"),
            (lambda: hc.convolve_tensors(GpuArray(x), GpuArray(h), lengths=[1, 2, 3]), ValueError,
             "on the device of h"),
            (lambda: hc.convolve_tensors(GpuArray(x), GpuArray(h[:, :0])), ValueError, "at least one")]:
        with pytest.raises(kind, match=text):
            call()


class CupyArray(GpuArray):
    __module__ = "cupy._core.core"


def test_cupy_arrays_stay_on_their_stream(hc, runs, monkeypatch):
    """The current stream of their device; nothing waits."""
    active = []

    @contextlib.contextmanager
    def device(number):
        active.append(number)
        yield
        active.pop()

    def empty(shape, dtype):
        assert active == [0]
        return CupyArray(np.full(shape, np.nan, dtype))

    streams = [0, 7777]
    cuda = types.SimpleNamespace(Device=device,
                                 get_current_stream=lambda: types.SimpleNamespace(ptr=streams[len(active) - 1]))
    monkeypatch.setitem(sys.modules, "cupy", types.SimpleNamespace(
        cuda=cuda, empty=empty, ascontiguousarray=lambda x: CupyArray(np.ascontiguousarray(x.a))))
    x, h = array((2, 3, 50)), array((3, 9))
    for stream, wanted in ((0, 1), (7777, 7777)):
        streams[0] = stream
        CupyArray.streams.clear()
        y = hc.convolve_tensors(CupyArray(x), CupyArray(h), "causal")
        close(y.a, exact(x, h, "causal"))
        assert runs.pop() == wanted and not runs and set(CupyArray.streams) == {wanted}
    close(hc.convolve(CupyArray(array((90, 3)).astype(np.float64)), CupyArray(array((9, 3)))).a.T,
          exact(array((90, 3)).T, array((9, 3)).T, "full"))


class JaxArray(GpuArray):
    __module__ = "jaxlib._jax"

    def devices(self):
        return {"a device"}

    def block_until_ready(self):
        return self


def test_jax_arrays_are_complete_when_the_call_returns(hc, runs, monkeypatch):
    """On the legacy default stream, with results on their device."""
    active = []

    @contextlib.contextmanager
    def default_device(device):
        active.append(device)
        yield
        active.pop()

    def empty(shape, dtype):
        assert active == ["a device"]
        return JaxArray(np.full(shape, np.nan, dtype))

    numpy = types.SimpleNamespace(empty=empty, array=lambda x: JaxArray(np.ascontiguousarray(x.a)))
    monkeypatch.setitem(sys.modules, "jax", types.SimpleNamespace(default_device=default_device, numpy=numpy))
    x, h = array((2, 50, 3)), array((3, 9))
    y = hc.convolve_tensors(JaxArray(x.transpose(0, 2, 1)), JaxArray(h.astype(np.float64)), "causal")
    assert type(y) is JaxArray and runs == [1, "done"] and not active
    close(y.a, exact(x.transpose(0, 2, 1), h, "causal"))


# ---- errors ---------------------------------------------------------------------------------------------------------
def test_an_operation_that_fails_runs_once(hc, monkeypatch):
    """And its error's text is that of this run: a second one may fail differently, or succeed."""
    from haloconv import _tensors
    plan = _tensors.make_plan(_tensors.CONVOLVE, "causal", b"cpu", 1, ((50,), (1,)), ((9,), (1,)), None, (0, 0, 0))
    codes, run = [], _tensors._run

    def counted(*arguments):
        codes.append(run(*arguments))
        return codes[-1]

    monkeypatch.setattr(_tensors, "_run", counted)
    x, h = array((50,)), array((9,), 2)
    with pytest.raises(hc.Error, match="out is NULL; pass a tensor"):
        plan.run(x.ctypes.data, h.ctypes.data, None, None)
    assert len(codes) == 1 and codes[0] < 0
    y = np.zeros_like(x)
    plan.run(x.ctypes.data, h.ctypes.data, y.ctypes.data, None)
    assert codes[1:] == [0]
    close(y, exact(x, h, "causal"))


# ---- the libraries themselves, on a machine with a GPU --------------------------------------------------------------
GPU_ARRAYS = [(array((3, 2, 5000)), array((2, 700), 2)), (array((2, 3, 4, 500)), array((2, 1, 4, 90), 2)),
              (array((4, 500)), array((5, 2, 3, 4, 90), 2))]


@pytest.fixture
def gpu():
    if not has_cuda():
        pytest.skip("no CUDA device")


@pytest.mark.parametrize("mode", ("full", "same", "valid", "causal"))
def test_cupy_on_a_gpu(hc, gpu, mode):
    cupy = pytest.importorskip("cupy")
    for x, h in GPU_ARRAYS:
        with cupy.cuda.Stream(non_blocking=True):
            y = hc.convolve_tensors(cupy.asarray(x), cupy.asarray(h), mode)
            assert isinstance(y, cupy.ndarray)
            close(cupy.asnumpy(y), exact(x, h, mode))


@pytest.mark.parametrize("mode", ("full", "same", "valid", "causal"))
def test_jax_on_a_gpu(hc, gpu, mode):
    jax = pytest.importorskip("jax")
    try:
        device = jax.devices("gpu")[0]
    except RuntimeError:
        pytest.skip("this jax has no GPU")
    for x, h in GPU_ARRAYS:
        y = hc.convolve_tensors(jax.device_put(x, device), jax.device_put(h, device), mode)
        assert isinstance(y, jax.Array)
        close(np.asarray(y), exact(x, h, mode))
