"""The calls of haloconv_tensors.h through ctypes; tests/plugins/test_tensors_python.py compares the struct.

torch.py and _arrays.py keep plans by shape and strides: a call with known shapes is one look-up and one call of the
library.
"""

import ctypes
import threading

from ._library import _ask_library, _lib, _pointer, _text

FULL, SAME, VALID, CAUSAL = range(4)  # enum hc_tensors_mode
MODES = {"full": FULL, "same": SAME, "valid": VALID, "causal": CAUSAL}
CONVOLVE, GRADIENT_X, GRADIENT_H, GRADIENTS = range(4)  # enum hc_tensors_op
FLOAT32, BFLOAT16, FLOAT16 = range(3)  # enum hc_tensor_type
ALIGNMENT = 256  # bytes; of a workspace
MAX_PLANS = 4096  # shapes; a program whose every call has a new shape must not fill the memory


class Tensors(ctypes.Structure):
    """hc_tensors"""
    _fields_ = [("size", ctypes.c_size_t), ("backend", ctypes.c_char_p), ("mode", ctypes.c_int),
                ("n_threads", ctypes.c_int), ("n_batch", ctypes.c_int64), ("n_channels", ctypes.c_int64),
                ("n_frames", ctypes.c_int64), ("n_taps", ctypes.c_int64), ("h_batch", ctypes.c_int64),
                ("h_channels", ctypes.c_int64), ("x_stride", ctypes.c_int64 * 2), ("h_stride", ctypes.c_int64 * 2),
                ("y_stride", ctypes.c_int64 * 2), ("x_type", ctypes.c_int), ("h_type", ctypes.c_int),
                 ("y_type", ctypes.c_int), ("n_filters", ctypes.c_int64), ("n_sequences", ctypes.c_int64),
                 ("gx_stride", ctypes.c_int64 * 2), ("gh_stride", ctypes.c_int64 * 2)]


class Data(ctypes.Structure):
    """hc_tensor_data"""
    _fields_ = [("size", ctypes.c_size_t), ("a", ctypes.c_void_p), ("b", ctypes.c_void_p), ("out", ctypes.c_void_p),
                ("lengths", ctypes.c_void_p), ("workspace", ctypes.c_void_p), ("bytes", ctypes.c_size_t),
                 ("stream", ctypes.c_void_p), ("index", ctypes.c_void_p), ("offsets", ctypes.c_void_p),
                 ("c", ctypes.c_void_p), ("out_h", ctypes.c_void_p)]


for _name, _result, _arguments in [
        ("hc_tensors_frames", ctypes.c_int64, [ctypes.POINTER(Tensors)]),
        ("hc_tensor_plan_open", ctypes.c_int, [ctypes.POINTER(Tensors), ctypes.c_int, ctypes.POINTER(_pointer),
                                               ctypes.POINTER(ctypes.c_size_t), _text, ctypes.c_size_t]),
        ("hc_tensor_plan_run", ctypes.c_int, [_pointer, ctypes.POINTER(Data), _text, ctypes.c_size_t]),
        ("hc_tensor_plan_close", None, [_pointer])]:
    getattr(_lib, _name).restype, getattr(_lib, _name).argtypes = _result, _arguments
_run, _DATA_BYTES = _lib.hc_tensor_plan_run, ctypes.sizeof(Data)


def check_mode(mode):
    if not isinstance(mode, str) or mode not in MODES:
        raise ValueError(f"mode {mode!r} is unknown; give full, same, valid or causal")


def check_packed(x_shape, name, shape, numbers=None):
    """Refuse packed sequences whose offsets, of a name and a shape, do not fit x; numbers: those of the offsets."""
    if len(x_shape) > 2:
        raise ValueError(f"x has shape {tuple(x_shape)}; give [channels, frames] or [frames]")
    if len(shape) != 1 or shape[0] < 2:
        raise ValueError(f"{name} has shape {tuple(shape)}; give [sequences + 1] numbers")
    if numbers is not None and (numbers[0] != 0 or numbers[-1] != x_shape[-1] or (numbers[1:] < numbers[:-1]).any()):
        raise ValueError(f"{name} must begin with 0, ascend and end with the {x_shape[-1]} frames of x")


def frames_of(mode, n_frames, n_taps, n_sequences=0):
    """Frames of y, as hc_tensors_frames counts them; the arguments may be symbols of torch.compile."""
    if mode == "full":
        return n_frames + (n_sequences or 1) * (n_taps - 1)
    if mode == "valid":
        return (n_frames - n_taps if n_frames >= n_taps else n_taps - n_frames) + 1
    return n_frames


def fits(x, h):
    """Whether leading dimensions h fit leading dimensions x without a change: at most two, each own or shared (1)."""
    n = len(h)
    if n > len(x) or len(x) > 2:
        return False
    return n == 0 or ((h[-1] == x[-1] or h[-1] == 1) and (n == 1 or h[0] == x[0] or h[0] == 1))


def split(whole, h):
    """Where to cut leading dimensions into batch and channels so that each part of the filter is own or shared.

    whole, h  sizes of all dimensions of the result and of the filter, as many
    Returns how many dimensions belong to the batch; None: no such cut exists.
    """
    for cut in range(len(whole) - 1, -1, -1):
        parts = [(whole[:cut], h[:cut]), (whole[cut:], h[cut:])]
        if all(own == part or all(n == 1 for n in part) for own, part in parts):
            return cut
    return None


class Plan:
    """An hc_tensor_plan: an operation on tensors of known sizes and strides. Threads may share it.

    shape     of the result; of GRADIENTS: the shapes of both
    bytes     of workspace on the device
    copies    (a, b, c): whether the frames of an input are not adjacent, so that run() reads a dense copy; None: those
              of all are
    call      of torch.py: what the plan is for
    is_empty  there are no items or channels: the result is empty or, for GRADIENT_H, 0. run() is not called
    """
    __slots__ = ("bytes", "shape", "copies", "call", "is_empty", "_pointer")
    _close = _lib.hc_tensor_plan_close  # at the end of Python the names of the module go before the plans

    def __init__(self, op, tensors, shape, copies):
        self._pointer = None
        self.shape, self.copies, self.is_empty = shape, copies, not (tensors.n_batch and tensors.n_channels)
        pointer, size = _pointer(), ctypes.c_size_t()
        _ask_library(_lib.hc_tensor_plan_open, ctypes.byref(tensors), op, ctypes.byref(pointer), ctypes.byref(size))
        self._pointer, self.bytes = pointer.value, size.value

    def __del__(self):
        self._close(self._pointer)

    def run(self, a, b, out, workspace, stream=None, lengths=None, index=None, offsets=None, c=None, out_h=None):
        """Run the operation: all but stream, a cudaStream_t or None, are addresses."""
        data = Data(_DATA_BYTES, a, b, out, lengths, workspace, self.bytes, stream, index, offsets, c, out_h)
        _ask_library(_run, self._pointer, data)


def _rows(shape, strides, dense):
    """(sizes of batch and channels, their strides in elements, whether a copy must make the frames adjacent)."""
    frames, is_apart = shape[-1], shape[-1] > 1 and strides[-1] != 1
    if is_apart or dense:
        strides = [1] * len(shape)
        for i in range(len(shape) - 2, -1, -1):
            strides[i] = strides[i + 1] * max(shape[i + 1], 1)
    sizes = (1, 1, *shape[:-1])[-2:]
    steps = (frames, frames, *strides[:-1])[-2:]
    return sizes, steps, is_apart


def check_shapes(op, mode, a_shape, b_shape, size, groups=None, n_sequences=0, h_shape=None):
    """(shape of h, frames of x, frames of y, leading dimensions of h or of an index) of make_plan()'s arguments.

    h_shape  of GRADIENTS
    The sizes may be symbols of torch.compile. Raises ValueError if the shapes do not belong together.
    """
    check_mode(mode)
    lead = tuple(a_shape[:-1])
    h_shape = tuple(size if op == GRADIENT_H else h_shape if op == GRADIENTS else b_shape)
    if not (len(a_shape) and len(b_shape) and h_shape):
        raise ValueError("a tensor has no dimensions; give [..., frames]")
    n_frames = {CONVOLVE: a_shape[-1], GRADIENT_X: size, GRADIENT_H: b_shape[-1], GRADIENTS: b_shape[-1]}[op]
    if n_sequences and mode == "valid":
        raise ValueError("packed sequences have no mode valid; give full, same or causal")
    if groups is not None and len(h_shape) != 2:
        raise ValueError(f"h has shape {h_shape}; with an index, give [filters, taps]")
    own = h_shape[:-1] if groups is None else tuple(groups)
    rows = (n_sequences, *lead) if n_sequences else lead
    if not fits(rows, own) or (op >= GRADIENT_H and tuple(b_shape[:-1]) != lead):
        what = "h" if groups is None else f"the index, {own},"
        raise ValueError(f"shapes {tuple(a_shape)} and {tuple(b_shape)} do not belong together; give {what} the "
                         f"leading dimensions {rows if n_sequences else 'of x'}, or 1")
    y_frames = frames_of(mode, n_frames, h_shape[-1], n_sequences)
    if op != CONVOLVE and a_shape[-1] != y_frames:
        raise ValueError(f"gy has {a_shape[-1]} frames; mode {mode} with {n_frames} frames and {h_shape[-1]} taps "
                         f"makes {y_frames}")
    return h_shape, n_frames, y_frames, own


def make_plan(op, mode, backend, n_threads, a, b, size, types, groups=None, n_sequences=0, c=None):
    """Make the plan of an operation.

    a, b     (shape, strides in elements) of its inputs, as enum hc_tensors_op lists them: one to three dimensions, the
             last is time; those of h are aligned at the right, 1 where items or channels share a filter
    size     of GRADIENT_X: frames of x; of GRADIENT_H: shape of h; else None
    backend  bytes, as b"cuda:1"
    types    enum hc_tensor_type of a, b and the result; of GRADIENTS: of gy, x and h
    groups   with an index: its shape, as the leading dimensions of h without one; h is then [filters, taps]
    n_sequences  packed sequences: x and y have no batch, and that of h and of an index is the sequences
    c        of GRADIENTS: (shape, strides) of h

    Raises ValueError if the shapes do not belong together, Error if the library refuses.
    """
    (a_shape, a_strides), (b_shape, b_strides) = a, b
    h_shape, n_frames, y_frames, own = check_shapes(op, mode, a_shape, b_shape, size, groups, n_sequences,
                                                    None if c is None else c[0])
    lead, n_taps = tuple(a_shape[:-1]), h_shape[-1]
    if n_frames < 1 or n_taps < 1:
        raise ValueError(f"there are {n_frames} frames and {n_taps} taps; give at least one of each")
    a_sizes, a_steps, copies_a = _rows(a_shape, a_strides, False)
    _, b_steps, copies_b = _rows(b_shape, b_strides, False)
    h_sizes, n_filters = (1, 1, *own)[-2:], 0 if groups is None else h_shape[0]
    if groups is not None and n_filters < 1:
        raise ValueError("h has no filters; give [filters, taps] with at least one filter")
    if op == GRADIENTS:
        _, c_steps, copies_c = _rows(*c, False)
        if groups is not None:
            c_steps = c_steps[1], 0
        if not any((*a_steps, *b_steps, *c_steps)):  # which would mean that all are dense
            copies_a, a_steps = True, _rows(a_shape, a_shape, True)[1]
        tensors = Tensors(ctypes.sizeof(Tensors), backend, MODES[mode], n_threads, *a_sizes, n_frames, n_taps, *h_sizes,
                          b_steps, c_steps, a_steps, types[1], types[2], types[0], n_filters, n_sequences)
        copies = copies_a, copies_b, copies_c
        return Plan(op, tensors, (tuple(b_shape), h_shape), copies if any(copies) else None)
    shape = {CONVOLVE: (*lead, y_frames), GRADIENT_X: (*lead, n_frames), GRADIENT_H: h_shape}[op]
    _, out_steps, _ = _rows(shape, shape, True)
    order = {CONVOLVE: (0, 1, 2), GRADIENT_X: (2, 1, 0), GRADIENT_H: (1, 2, 0)}[op]  # of x, h and y in a, b, result
    steps = [(a_steps, b_steps, out_steps)[i] for i in order]
    if groups is not None:  # from a filter to the next
        steps[1] = (steps[1][1], 0)
    tensors = Tensors(ctypes.sizeof(Tensors), backend, MODES[mode], n_threads, *a_sizes, n_frames, n_taps, *h_sizes,
                      *steps, *(types[i] for i in order), n_filters, n_sequences)
    return Plan(op, tensors, shape, (copies_a, copies_b, False) if copies_a or copies_b else None)


class Plans:
    """Plans by key. Threads share it; a plan that two threads make at once is made twice."""

    def __init__(self):
        self.by_key, self._lock = {}, threading.Lock()

    def keep(self, key, plan):
        with self._lock:
            if len(self.by_key) >= MAX_PLANS:
                self.by_key.clear()
            self.by_key[key] = plan
        return plan
