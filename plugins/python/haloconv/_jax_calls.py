"""Operations on JAX arrays, inside and outside of jit: a handler for XLA's foreign function interface, through ctypes.

XLA calls the handler when it executes an operation, with the addresses of its buffers and, on a GPU, its stream. The
structs are those of xla/ffi/api/c_api.h (version 0), which jaxlib includes; pointers to structs are addresses here.
"""

import ctypes
import math

import jax
import jax.numpy as jnp
import numpy as np

from ._tensors import (ALIGNMENT, BFLOAT16, CONVOLVE, FLOAT16, FLOAT32, GRADIENT_H, MODES, Plans, frames_of,
                       make_plan)

_pointer = ctypes.c_void_p
_TYPES = {11: FLOAT32, 16: BFLOAT16, 10: FLOAT16}  # by XLA_FFI_DataType
_MODES = {number: name for name, number in MODES.items()}
_X_AT = {CONVOLVE: 0, GRADIENT_H: 1}  # the number of the input that is x
_METADATA, _INTERNAL = 1, 13  # XLA_FFI_Extension_Metadata, XLA_FFI_Error_Code_INTERNAL
_XLA_ALIGNMENT = 16  # bytes; XLA refuses to align more
_DEVICE_ORDINAL = 9  # CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL


# ---- structs; those that begin with a size and an extension have them from _struct ----------------------------------
def _struct(name, *fields):
    return type(name, (ctypes.Structure,), {"_fields_": [("struct_size", ctypes.c_size_t), ("extension", _pointer),
                                                         *fields]})


_Version = _struct("_Version", ("major", ctypes.c_int), ("minor", ctypes.c_int))
_List = _struct("_List", ("size", ctypes.c_int64), ("types", _pointer), ("items", ctypes.POINTER(_pointer)))
_Attributes = _struct("_Attributes", ("size", ctypes.c_int64), ("types", _pointer), ("names", _pointer),
                      ("items", ctypes.POINTER(_pointer)))
_Buffer = _struct("_Buffer", ("dtype", ctypes.c_int), ("data", _pointer), ("rank", ctypes.c_int64),
                  ("dims", ctypes.POINTER(ctypes.c_int64)))
_Api = _struct("_Api", ("version", _Version), ("internal", _pointer), ("error_create", _pointer),
               ("error_message", _pointer), ("error_destroy", _pointer), ("register", _pointer),
               ("stream_get", _pointer), ("type_register", _pointer), ("context_get", _pointer),
               ("state_set", _pointer), ("state_get", _pointer), ("allocate", _pointer), ("free", _pointer))
_Frame = _struct("_Frame", ("api", ctypes.POINTER(_Api)), ("context", _pointer), ("stage", ctypes.c_int),
                 ("arguments", _List), ("results", _List), ("attributes", _Attributes))
_Error = _struct("_Error", ("message", ctypes.c_char_p), ("code", ctypes.c_int))
_Stream = _struct("_Stream", ("context", _pointer), ("stream", _pointer))
_Allocation = _struct("_Allocation", ("context", _pointer), ("size", ctypes.c_size_t),
                      ("alignment", ctypes.c_size_t), ("data", _pointer))
_Release = _struct("_Release", ("context", _pointer), ("size", ctypes.c_size_t), ("data", _pointer))


class _Metadata(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("version", _Version)]


class _Extension(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("type", ctypes.c_int), ("next", _pointer),
                ("metadata", ctypes.POINTER(_Metadata))]


class _Scalar(ctypes.Structure):
    _fields_ = [("dtype", ctypes.c_int), ("value", ctypes.POINTER(ctypes.c_int32))]


_call = ctypes.CFUNCTYPE(_pointer, _pointer)


def _ask(function, kind, *values):
    """Fill in a struct by a function of XLA and return it."""
    asked = kind(ctypes.sizeof(kind), None, *values)
    if _call(function)(ctypes.addressof(asked)):
        raise MemoryError(f"XLA refuses {kind.__name__[1:].lower()}")
    return asked


# ---- the handler ----------------------------------------------------------------------------------------------------
_plans = Plans()


def _plan(*key):
    op, mode, backend, a, b, out, types, groups, n_sequences = key
    plan = _plans.by_key.get(key)
    if plan is None:
        size = None if op == CONVOLVE else out if op == GRADIENT_H else out[-1]
        strided = [(shape, tuple(math.prod(shape[i + 1:]) for i in range(len(shape)))) for shape in (a, b)]
        if op in _X_AT:  # x may have one item or channel, for all
            at, lead = _X_AT[op], (out if op == CONVOLVE else a)[:-1]
            shape, strides = strided[at]
            steps = (step if own == n else 0 for step, own, n in zip(strides, shape, lead))
            strided[at] = (*lead, shape[-1]), (*steps, 1)
        plan = _plans.keep(key, make_plan(op, _MODES[mode], backend, 0, *strided, size, types, groups, n_sequences))
        assert tuple(plan.shape) == out
    return plan


def _device_of(address):
    number = ctypes.c_int()
    error = ctypes.CDLL("libcuda.so.1").cuPointerGetAttribute(ctypes.byref(number), _DEVICE_ORDINAL, _pointer(address))
    if error:
        raise RuntimeError(f"CUDA error {error}: XLA's buffer is not in the memory of a GPU")
    return number.value


def _execute(frame, on_gpu):
    a, b, *lists = (_Buffer.from_address(item) for item in frame.arguments.items[:frame.arguments.size])
    out = _Buffer.from_address(frame.results.items[0])
    # XLA sorts them by name.
    has_index, mode, op = (_Scalar.from_address(item).value[0] for item in frame.attributes.items[:3])
    index = lists.pop(0) if has_index else None
    offsets = lists.pop() if lists else None
    plan = _plan(op, mode, b"cuda:%d" % _device_of(out.data) if on_gpu else b"cpu",
                 *(tuple(buffer.dims[:buffer.rank]) for buffer in (a, b, out)),
                 tuple(_TYPES[buffer.dtype] for buffer in (a, b, out)),
                 tuple(index.dims[:2]) if index else None, offsets.dims[0] - 1 if offsets else 0)
    numbers = {"index": index.data if index else None, "offsets": offsets.data if offsets else None}
    if not on_gpu:
        plan.run(a.data, b.data, out.data, None, **numbers)
        return
    api = frame.api[0]
    stream = _ask(api.stream_get, _Stream, frame.context, None).stream
    if not plan.bytes:
        plan.run(a.data, b.data, out.data, None, stream, **numbers)
        return
    size = plan.bytes + ALIGNMENT
    memory = _ask(api.allocate, _Allocation, frame.context, size, _XLA_ALIGNMENT, None).data
    try:
        plan.run(a.data, b.data, out.data, memory + -memory % ALIGNMENT, stream, **numbers)
    finally:
        _ask(api.free, _Release, frame.context, size, memory)  # XLA reuses it in the order of the stream


def _handler(on_gpu):
    def handle(address):
        frame = _Frame.from_address(address)
        try:
            if frame.extension and _Extension.from_address(frame.extension).type == _METADATA:
                version = _Extension.from_address(frame.extension).metadata[0].version
                version.major, version.minor = frame.api[0].version.major, frame.api[0].version.minor
            else:
                _execute(frame, on_gpu)
            return None
        except BaseException as error:  # XLA raises it where the result is used
            text = f"haloconv: {error}".encode()
            create = _Error(ctypes.sizeof(_Error), None, text, _INTERNAL)
            return _call(frame.api[0].error_create)(ctypes.addressof(create))
    return _call(handle)


_handlers = {"cpu": _handler(False), "CUDA": _handler(True)}  # kept: XLA has their addresses
for _platform, _function in _handlers.items():
    jax.ffi.register_ffi_target("haloconv_operation", jax.ffi.pycapsule(_function), platform=_platform)


def _words(numbers):
    """int64 numbers as words of 32 bits, [..., 2], the lower one first: JAX has no int64 without jax_enable_x64."""
    if numbers.dtype.itemsize == 8:
        return jax.lax.bitcast_convert_type(numbers, jnp.int32)
    numbers = numbers.astype(jnp.int32)
    return jnp.stack([numbers, numbers >> 31], -1)


def operation(op, mode, size, dtype, a, b, index, offsets):
    """An operation as in make_plan() on arrays [batch, channels, frames or taps] of at least one item and channel.

    x may have one item or channel for all of h or of the index.
    index    whole numbers [h_batch, h_channels], and h is a bank [filters, taps]; or None
    offsets  whole numbers [sequences + 1], and x and y are [channels, frames]; or None
    """
    if op == CONVOLVE:
        size = frames_of(mode, a.shape[-1], b.shape[-1], 0 if offsets is None else offsets.shape[0] - 1)
    if op != GRADIENT_H:
        lead = a.shape[:-1]
        if op == CONVOLVE and offsets is None:
            lead = jnp.broadcast_shapes(lead, b.shape[:-1] if index is None else index.shape)
        size = (*lead, size)
    call = jax.ffi.ffi_call("haloconv_operation", jax.ShapeDtypeStruct(size, dtype), vmap_method="sequential")
    return call(a, b, *(_words(numbers) for numbers in (index, offsets) if numbers is not None),
                has_index=np.int32(index is not None), mode=np.int32(MODES[mode]), op=np.int32(op))
