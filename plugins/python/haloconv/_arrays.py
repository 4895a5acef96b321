"""convolve_tensors, and haloconv.convolve for arrays on a GPU: CuPy, JAX and others, through DLPack.

The kernels run on the library's current stream for the device, where the library has one (torch, CuPy), and nothing
waits. Otherwise they run on CUDA's legacy default stream: `__dlpack__(stream=1)` makes it wait for the inputs, and the
call returns when the result is complete. The result and the workspace are arrays of the same library, from its
allocator. A JAX array is immutable only for programs: the kernels write into one that jax.numpy.empty has made and
nobody has seen yet.
"""

import contextlib
import ctypes
import math
import sys
from typing import Any, Optional, Sequence, Union, overload

import numpy as np
import numpy.typing as npt

from ._library import _numbers_in, _threads
from ._tensors import ALIGNMENT, BFLOAT16, CONVOLVE, FLOAT16, FLOAT32, Plans, check_mode, check_packed, make_plan, split

_CUDA, _CUDA_MANAGED = 2, 13  # DLDeviceType
_CPUS = (1, 3)  # memory of the host, pinned or not
_INT64, _COMPLEX = (0, 64, 1), 5  # DLDataType, and the code of one
_TYPES = {(2, 32, 1): FLOAT32, (4, 16, 1): BFLOAT16, (2, 16, 1): FLOAT16}  # by DLDataType
_NUMPY_TYPES = {np.dtype(np.float32): FLOAT32, np.dtype(np.float16): FLOAT16}  # and ml_dtypes' bfloat16, once seen
_LEGACY_STREAM = 1

# For annotations: the result is a NumPy array. For others (CuPy, JAX, torch, ...) it is of their kind.
HostArray = Union[npt.NDArray[Any], Sequence[float], Sequence[Sequence[float]]]


# ---- reading DLPack -------------------------------------------------------------------------------------------------
class _DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned; a DLManagedTensor begins with its DLTensor."""
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("manager_ctx", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _DLTensor)]


_api = ctypes.pythonapi
_capsule_is = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_IsValid", _api))
_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", _api))


class _View:
    """Where an array lies: address, shape, strides in elements, device, dtype. Holds its memory while it lives.

    The capsule stays unconsumed: its own destructor gives the memory back, as the DLPack specification has it.
    """

    def __init__(self, array, stream):
        try:
            self._capsule = array.__dlpack__(stream=stream, max_version=(1, 1))
        except TypeError:  # older than DLPack 1.0
            self._capsule = array.__dlpack__(stream=stream)
        if _capsule_is(self._capsule, b"dltensor_versioned"):
            managed = _Versioned.from_address(_capsule_pointer(self._capsule, b"dltensor_versioned"))
            if managed.major != 1:
                raise BufferError(f"{type(array).__name__} has version {managed.major} of DLPack; give version 1")
            tensor = managed.tensor
        else:
            tensor = _DLTensor.from_address(_capsule_pointer(self._capsule, b"dltensor"))
        n = tensor.ndim
        self.shape = tuple(tensor.shape[:n])
        if tensor.strides:
            self.strides = tuple(tensor.strides[:n])
        else:  # no strides: rows are adjacent
            self.strides = tuple(int(np.prod(self.shape[i + 1:])) for i in range(n))
        self.address = (tensor.data or 0) + tensor.byte_offset
        self.dtype = (tensor.code, tensor.bits, tensor.lanes)

    def is_dense(self):
        dense = 1
        for size, stride in zip(reversed(self.shape), reversed(self.strides)):
            if size != 1 and stride != dense:
                return False
            dense *= size
        return True


def device_of(array):
    """The number of the CUDA device that holds the array; None: memory of the CPU, or not an array.

    Raises TypeError for any other device.
    """
    if isinstance(array, np.ndarray) or not hasattr(array, "__dlpack_device__"):
        return None
    kind, number = array.__dlpack_device__()
    if int(kind) in (_CUDA, _CUDA_MANAGED):
        return int(number)
    if int(kind) in _CPUS:
        return None
    raise TypeError(f"a {type(array).__name__} is on a device of DLPack's type {int(kind)}; move it to the CPU or to a "
                    "CUDA GPU")


# ---- array libraries ------------------------------------------------------------------------------------------------
class _Library:
    """The operations on arrays of a library; this class: any library that follows the Python array API."""
    has_stream = False

    def __init__(self, like, device):
        self.like, self.device = like, device

    def names(self):
        """The module of the library's functions."""
        return self.like.__array_namespace__()

    def active(self):
        """A context in which the library's default device is that of the arrays."""
        return contextlib.nullcontext()

    def stream(self):
        return _LEGACY_STREAM

    def empty(self, shape):
        names = self.names()
        return names.empty(shape, dtype=names.float32, device=self.like.device)

    def dense(self, array):
        return array.__array_namespace__().asarray(array, copy=True)

    def float32(self, array):
        names = array.__array_namespace__()
        return names.astype(array, names.float32)


class _CuPy(_Library):
    has_stream = True

    def names(self):
        return sys.modules["cupy"]

    def active(self):
        return self.names().cuda.Device(self.device)

    def stream(self):
        return self.names().cuda.get_current_stream().ptr or _LEGACY_STREAM

    def empty(self, shape):
        return self.names().empty(shape, np.float32)

    def dense(self, array):
        return self.names().ascontiguousarray(array)

    def float32(self, array):
        return array.astype(np.float32)


class _JAX(_Library):
    def names(self):
        return sys.modules["jax"].numpy

    def active(self):
        return sys.modules["jax"].default_device(next(iter(self.like.devices())))

    def empty(self, shape):
        return self.names().empty(shape, np.float32).block_until_ready()

    def dense(self, array):
        return self.names().array(array)

    def float32(self, array):
        return array.astype(np.float32)


_LIBRARIES = {"cupy": _CuPy, "jax": _JAX, "jaxlib": _JAX}


def _root(array):
    return type(array).__module__.partition(".")[0]


def _synchronise(device):
    """Wait for the legacy default stream of a device, through the driver: this module has no other CUDA call."""
    driver = ctypes.CDLL("libcuda.so.1")
    number, context = ctypes.c_int(), ctypes.c_void_p()
    error = (driver.cuDeviceGet(ctypes.byref(number), device)
             or driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), number))
    if error == 0:
        driver.cuCtxPushCurrent_v2(context)
        error = driver.cuStreamSynchronize(ctypes.c_void_p(_LEGACY_STREAM))
        driver.cuCtxPopCurrent_v2(ctypes.byref(context))
        driver.cuDevicePrimaryCtxRelease_v2(number)
    if error:
        raise RuntimeError(f"CUDA error {error} while cuda:{device} convolved; its results are undefined")


# ---- convolving -----------------------------------------------------------------------------------------------------
_plans = Plans()


def _plan(mode, backend, n_threads, x, h, types, groups=None, n_sequences=0):
    """The plan for x and h of at most two leading dimensions, (shape, strides) each, which broadcast.

    types  of x and h; the result is float32
    groups, n_sequences  as for make_plan()
    """
    key = (mode, backend, n_threads, x, h, types, groups, n_sequences)
    plan = _plans.by_key.get(key)
    if plan is None:
        (x_shape, x_strides), (h_shape, _) = x, h
        _check_shapes(x_shape, h_shape)
        own = h_shape if groups is None else (*groups, 1)
        whole = x_shape[:-1] if n_sequences else _broadcast(x_shape, own)
        lead = len(whole) - len(x_shape) + 1
        sizes = (1,) * lead + x_shape[:-1]
        steps = (0,) * lead + x_strides[:-1]
        steps = tuple(0 if size == 1 else step for size, step in zip(sizes, steps))
        plan = _plans.keep(key, make_plan(CONVOLVE, mode, backend, n_threads,
                                          ((*whole, x_shape[-1]), (*steps, x_strides[-1])), h, None,
                                          (*types, FLOAT32), groups, n_sequences))
    return plan


def _broadcast(x_shape, h_shape):
    try:
        return np.broadcast_shapes(x_shape[:-1], h_shape[:-1])
    except ValueError:
        raise ValueError(f"the leading dimensions of x {tuple(x_shape)} and h {tuple(h_shape)} do not broadcast; give "
                         "h those of x, or 1") from None


def _fold(names, x, h, lengths):
    """(x, h, lengths, the leading dimensions of the result): x and h as [batch, channels, ...]; names: their module.

    x with one item, or one channel, keeps it: it need not be written out.
    """
    whole = _broadcast(x.shape, h.shape)
    own, x_own = ((1,) * (len(whole) - value.ndim + 1) + tuple(value.shape[:-1]) for value in (h, x))
    cut = split(whole, own)
    if cut is None:  # a shared dimension between two own ones: copy the filter for every item
        lengths = None if lengths is None else names.broadcast_to(lengths, whole)
        h, own, cut = names.broadcast_to(h, (*whole, h.shape[-1])), whole, len(whole) - 1
    parts = slice(cut), slice(cut, None)
    x_own = sum((x_own[part] if set(x_own[part]) <= {1} else whole[part] for part in parts), ())
    x = names.broadcast_to(x, (*x_own, x.shape[-1]))
    x, h = (names.reshape(value, (*(math.prod(lead[part]) for part in parts), value.shape[-1]))
            for value, lead in ((x, x_own), (h, own)))
    return x, h, None if lengths is None else names.reshape(lengths, h.shape[:-1]), whole


def _check_shapes(x_shape, h_shape):
    for name, shape in (("x", x_shape), ("h", h_shape)):
        if len(shape) < 1 or shape[-1] < 1:
            raise ValueError(f"{name} has shape {tuple(shape)}; give [..., frames] with at least one frame")


def _check_lengths(shape, dtype_is_right, h_shape):
    if tuple(shape) != tuple(h_shape[:-1]) or not dtype_is_right:
        raise ValueError(f"lengths have shape {tuple(shape)}, and h {tuple(h_shape)}; give int64 numbers of shape "
                         f"{tuple(h_shape[:-1])} on the device of h")


def _has_adjacent_frames(shape, strides):
    """Whether the library reads an array in place, which may be expanded (stride 0) in other dimensions."""
    return (shape[-1] == 1 or strides[-1] == 1) and min(strides) >= 0


def _aligned(address):
    return -(-address // ALIGNMENT) * ALIGNMENT


def _are_tensors(x, h):
    """Whether both are tensors of torch, of a subclass of torch.Tensor too, in whatever module it is."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor) and isinstance(h, torch.Tensor)


def _by_torch(x, h, mode, lengths, index, offsets):
    from . import torch as haloconv_torch
    x, h = (value if value.is_complex() or value.dtype in haloconv_torch._TYPES else value.float() for value in (x, h))
    float32 = sys.modules["torch"].float32
    if offsets is None:
        return haloconv_torch._convolve_arrays(x, h, mode, lengths, float32, index)
    return haloconv_torch._convolve_packed_arrays(x, h, offsets, mode, lengths, index, float32)


def _fold_index(names, x, index):
    """_fold() of x and an index."""
    x, index, _, whole = _fold(names, x, names.reshape(index, (*index.shape, 1)), None)
    return x, names.reshape(index, index.shape[:-1]), whole


def on_gpu(x, h, mode, lengths=None, index=None, offsets=None):
    """convolve_tensors of arrays on a GPU."""
    device = device_of(x)
    if device is None or device_of(h) != device:
        names = ["the CPU" if found is None else f"cuda:{found}" for found in (device, device_of(h))]
        raise ValueError(f"x is on {names[0]} and h on {names[1]}; move them to one device")
    if _are_tensors(x, h):
        return _by_torch(x, h, mode, lengths, index, offsets)
    library = _LIBRARIES.get(_root(x), _Library)(x, device)
    if type(library) is _Library and not hasattr(x, "__array_namespace__"):
        raise TypeError(f"a {type(x).__name__} has no __array_namespace__, which the result needs; convert the arrays "
                        "by from_dlpack of CuPy, JAX or torch")
    _check_shapes(x.shape, h.shape)
    if lengths is not None and (device_of(lengths) != device or tuple(lengths.shape) != tuple(h.shape[:-1])):
        _check_lengths(np.shape(lengths), False, h.shape)
    for name, numbers in (("index", index), ("offsets", offsets)):
        if numbers is not None and device_of(numbers) != device:
            raise ValueError(f"{name} is not on cuda:{device}; move it to the device of x")
    with library.active():
        stream, whole = library.stream(), None
        if index is not None and max(x.ndim, index.ndim + 1) > 3:
            x, index, whole = _fold_index(library.names(), x, index)
        elif max(x.ndim, h.ndim) > 3:
            x, h, lengths, whole = _fold(library.names(), x, h, lengths)
        views = []
        for array in (x, h):
            view = _View(array, stream)
            if view.dtype[0] == _COMPLEX:
                raise TypeError(f"a {type(array).__name__} is complex; convolve its real and imaginary parts "
                                "separately")
            if view.dtype not in _TYPES:
                array = library.float32(array)
                view = _View(array, stream)
            if not _has_adjacent_frames(view.shape, view.strides):
                view = _View(library.dense(array), stream)
                if not _has_adjacent_frames(view.shape, view.strides):
                    raise ValueError(f"the frames of a {type(array).__name__} are not adjacent, not even in "
                                     "the copy that its library makes; give a contiguous array")
            views.append(view)
        at = {}
        for name, numbers in (("lengths", lengths), ("index", index), ("offsets", offsets)):
            if numbers is None:
                continue
            view = _View(numbers, stream)
            if name == "lengths":
                _check_lengths(view.shape, view.dtype == _INT64, h.shape)
            elif view.dtype != _INT64:
                raise ValueError(f"{name} has other numbers than int64; convert them")
            views.append(view if view.is_dense() else _View(library.dense(numbers), stream))
            at[name] = views[-1].address
        plan = _plan(mode, b"cuda:%d" % device, 0, *((view.shape, view.strides) for view in views[:2]),
                     tuple(_TYPES[view.dtype] for view in views[:2]), None if index is None else tuple(index.shape),
                     0 if offsets is None else len(offsets) - 1)
        out = library.empty(plan.shape if whole is None else (*whole, plan.shape[-1]))
        if plan.is_empty:
            return out
        workspace = library.empty(((plan.bytes + ALIGNMENT) // 4 + 1,))
        places = [_View(array, stream) for array in (out, workspace)]
        plan.run(views[0].address, views[1].address, places[0].address, _aligned(places[1].address), stream, **at)
        if not library.has_stream:
            _synchronise(device)
        return out


def _rows(values, name):
    """(a NumPy array, (shape, strides), type of hc_tensors): aligned, frames adjacent, other strides 0 or more.

    Arrays that are not so are copied here, before they broadcast.
    """
    values = _numbers_in(name, values)
    kind = _NUMPY_TYPES.get(values.dtype)
    if kind is None:
        if values.dtype.name == "bfloat16" and values.dtype.isnative:
            kind = _NUMPY_TYPES[values.dtype] = BFLOAT16
        else:
            values, kind = np.asarray(values, np.float32), FLOAT32
    if values.ndim and not (values.flags.aligned and _has_adjacent_frames(*_strided(values))):
        values = np.ascontiguousarray(values)
    return values, _strided(values), kind


def _strided(values):
    size = values.itemsize
    return values.shape, tuple([stride // size for stride in values.strides])


def _numbers(name, values):
    values = np.asarray(values)
    if values.dtype.kind not in "iu":
        raise ValueError(f"{name} has {values.dtype} numbers; give whole numbers")
    return np.asarray(values, np.int64, order="C")


def on_cpu(x, h, mode, lengths=None, n_threads=0, index=None, offsets=None):
    (x, x_rows, x_type), (h, h_rows, h_type) = _rows(x, "x"), _rows(h, "h")
    if lengths is not None:
        lengths = np.asarray(lengths)
        _check_lengths(lengths.shape, lengths.dtype.kind in "iu", h.shape)
        lengths = np.ascontiguousarray(np.clip(lengths, 0, h.shape[-1]), np.int64)
    whole, groups = None, None
    if index is not None:
        index = _numbers("index", index)
        if max(x.ndim, index.ndim + 1) > 3:
            _check_shapes(x.shape, h.shape)
            x, index, whole = _fold_index(np, x, index)
            x_rows, index = _strided(x), np.asarray(index, order="C")
        groups = index.shape
    elif max(x.ndim, h.ndim) > 3:
        _check_shapes(x.shape, h.shape)
        x, h, lengths, whole = _fold(np, x, h, lengths)
        x_rows, h_rows = _strided(x), _strided(h)
        lengths = None if lengths is None else np.ascontiguousarray(lengths)
    plan = _plan(mode, b"cpu", _threads(n_threads), x_rows, h_rows, (x_type, h_type), groups,
                 0 if offsets is None else len(offsets) - 1)
    if plan.is_empty:
        out = np.zeros(plan.shape, np.float32)
    else:
        out = np.empty(plan.shape, np.float32)
        plan.run(x.ctypes.data, h.ctypes.data, out.ctypes.data, None, None,
                 *(None if numbers is None else numbers.ctypes.data for numbers in (lengths, index, offsets)))
    return out if whole is None else out.reshape(*whole, out.shape[-1])


@overload
def convolve_tensors(x: HostArray, h: HostArray, mode: str = ..., lengths: Optional[npt.ArrayLike] = ...,
                     n_threads: int = ..., index: Optional[npt.ArrayLike] = ...) -> npt.NDArray[np.float32]:
    ...


@overload
def convolve_tensors(x: Any, h: Any, mode: str = ..., lengths: Any = ..., n_threads: int = ...,
                     index: Any = ...) -> Any:
    ...


def convolve_tensors(x: Any, h: Any, mode: str = "full", lengths: Any = None, n_threads: int = 0,
                     index: Any = None) -> Any:
    """Convolve arrays along their last dimension: y[..., n] = sum over k of h[..., k] x[..., n - k].

    x        [..., frames], as [batch, channels, frames]; NumPy, torch, or any array on a CUDA GPU with `__dlpack__`
             (CuPy, JAX)
    h        [..., taps], on the same device: its leading dimensions are aligned at the right with those of x; 1, or
             none: shared. x broadcasts likewise
    mode     "full": frames + taps - 1 frames; "causal": the first `frames` of them; "same": `frames` of them from
             (taps - 1) // 2 on; "valid": |frames - taps| + 1, those that all taps (or all of x) reach
    lengths  int64 [...] of shape h.shape[:-1], on the device of h: the taps of a filter from its length on count as 0
    n_threads  CPU threads for NumPy arrays; 0: this process's share of the processors, see help(haloconv). The output
             does not depend on it
    index    int64 on the device of h: h is then a bank [filters, taps], and the result is that with h[index], but no
             filter is copied; lengths are [filters]. A number that is no filter, as -1, makes zeros

    Returns float32 [..., frames of the mode] of the kind of x, on its device; NumPy for other arrays on the CPU.
    float32, float16 and bfloat16 are read in place; other real types are converted. torch tensors go to
    haloconv.torch.convolve, with their gradients. NaN passes through; one reaches more frames of its channel than its
    taps reach.

    On a GPU: inputs whose frames are not adjacent, or of other types, are copied on the device by their library. CuPy:
    on its current stream, nothing waits. JAX, and other libraries: the call returns when the result is complete.
    haloconv.jax.convolve waits for nothing, has gradients and works inside of jax.jit.

    Raises ValueError for shapes, modes and devices that do not fit, TypeError for complex arrays and other devices,
    Error if the library refuses. Any thread may call it.
    """
    check_mode(mode)
    if _are_tensors(x, h):
        return _by_torch(x, h, mode, lengths, index, None)
    if device_of(x) is not None or device_of(h) is not None:
        return on_gpu(x, h, mode, lengths, index)
    return on_cpu(x, h, mode, lengths, n_threads, index)


@overload
def convolve_packed(x: HostArray, h: HostArray, offsets: npt.ArrayLike, mode: str = ...,
                    lengths: Optional[npt.ArrayLike] = ..., n_threads: int = ...,
                    index: Optional[npt.ArrayLike] = ...) -> npt.NDArray[np.float32]:
    ...


@overload
def convolve_packed(x: Any, h: Any, offsets: Any, mode: str = ..., lengths: Any = ..., n_threads: int = ...,
                    index: Any = ...) -> Any:
    ...


def convolve_packed(x: Any, h: Any, offsets: Any, mode: str = "causal", lengths: Any = None, n_threads: int = 0,
                    index: Any = None) -> Any:
    """Convolve sequences of unlike lengths that lie one after the other, without padding.

    x        [channels, frames] or [frames]: the frames of all sequences
    h        as for convolve_tensors with x [sequences, channels, frames] or [sequences, frames]
    offsets  int64 [sequences + 1] on the device of x: 0 first, ascending, the frames of x last. Sequence i has frames
             offsets[i] to offsets[i + 1] - 1, maybe none. On a GPU they are not checked: wrong ones leave the result
             undefined
    mode     "causal", "same": as many frames, at the same places; "full": sequence i of the result begins at
             offsets[i] + i * (taps - 1) and has taps - 1 frames more

    No frame of a sequence reaches another. All else is as for convolve_tensors.
    """
    check_mode(mode)
    if _are_tensors(x, h):
        return _by_torch(x, h, mode, lengths, index, offsets)
    is_gpu = device_of(x) is not None or device_of(h) is not None
    if not is_gpu:
        x, h, offsets = _numbers_in("x", x), _numbers_in("h", h), _numbers("offsets", offsets)
        index = None if index is None else np.asarray(index)
        lengths = None if lengths is None else np.asarray(lengths)
    _check_shapes(np.shape(x), np.shape(h))
    check_packed(x.shape, "offsets", offsets.shape, None if is_gpu else offsets)
    if x.ndim == 1:  # one channel
        if index is not None:
            index = index.reshape(*index.shape, 1)
        else:
            h = h.reshape(*h.shape[:-1], 1, h.shape[-1])
            lengths = None if lengths is None else lengths.reshape(*lengths.shape, 1)
    rows = x.reshape(1, -1) if x.ndim == 1 else x
    if is_gpu:
        y = on_gpu(rows, h, mode, lengths, index, offsets)
    else:
        y = on_cpu(rows, h, mode, lengths, n_threads, index, offsets)
    return y[0] if x.ndim == 1 else y


def check_channels(shape, n_in):
    """Refuse a shape of h that convolve()'s channel rule does not know for a sound of n_in channels."""
    if len(shape) not in (1, 2, 3) or 0 in shape:
        raise ValueError(f"h has shape {tuple(shape)}; give [frames], [frames, M] or [frames, inputs, outputs]")
    if len(shape) == 3 and shape[1] != n_in:
        raise ValueError(f"h has {shape[1]} inputs, but the sound has {n_in} channels; give h as "
                         "[frames, inputs, outputs]")
    if len(shape) == 2 and n_in != 1 and shape[1] not in (1, n_in) and (n_in, shape[1]) != (2, 4):
        raise ValueError(f"h has {shape[1]} channels, but the sound has {n_in}; give h 1 or {n_in} channels, "
                         "or the shape [frames, inputs, outputs]")


def convolve_columns(x, h, mode, tensors):
    """haloconv.convolve by tensors(x, h, mode), on_gpu or on_cpu: [frames] or [frames, channels], with its channel rule."""
    if x.ndim not in (1, 2) or 0 in x.shape:
        raise ValueError(f"the sound has shape {tuple(x.shape)}; give [frames] or [frames, channels]")
    is_flat = x.ndim == 1 and h.ndim == 1
    rows = x.reshape(1, -1) if x.ndim == 1 else x.T
    check_channels(h.shape, rows.shape[0])
    if h.ndim == 2 and (rows.shape[0], h.shape[1]) == (2, 4):
        h = h.reshape(-1, 2, 2)
    if h.ndim == 3:  # every input to every output, then the sum over the inputs
        taps = h.reshape(h.shape[0], -1).T.reshape(h.shape[1], h.shape[2], -1)
        y = tensors(rows[:, None], taps, mode).sum(0)
    else:
        y = tensors(rows, h.reshape(1, -1) if h.ndim == 1 else h.T, mode)
    return y[0] if is_flat else y.T
