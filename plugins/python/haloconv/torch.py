"""haloconv.torch - convolution of PyTorch tensors, differentiable, on the CPU and on CUDA GPUs.

    from haloconv.torch import convolve, fftconvolve, ApplyImpulseResponse
    y = convolve(x, h, mode="causal")    # x [batch, channels, frames], h [channels, taps]: a long convolution
    y = fftconvolve(x, h, mode="full")   # the signature of torchaudio.functional.fftconvolve
    augment = ApplyImpulseResponse(responses, p=0.5)

Precision: float32 throughout, within 1e-6 of the exact result (norm of the error over norm of the result), and so are
both gradients. Results do not depend on the run: the same tensors give the same bits. A NaN or Inf passes through: one
reaches more frames of its channel than its taps reach, and no other item or channel.

dtypes: float32. float16 and bfloat16 are computed in float32; the result has their dtype, or float32 inside of
torch.autocast, as torch.fft has. float64 is a TypeError: the precision that it promises is not there.

Devices: tensors on the CPU are computed by torch.get_num_threads() threads. On a GPU the kernels go to torch's current
stream, nothing waits, memory comes from torch's allocator, and a CUDA graph may capture the call. All tensors of a call
must be on one device. Any thread may call anything here.

Memory: inputs may be views and expanded tensors. Only frames that are not adjacent (x.transpose(-1, -2)) are copied.

Autograd: gradients to any order, and forward mode. torch.compile(fullgraph=True), torch.export and FakeTensor see the
operators torch.ops.haloconv.convolve, .gradient_x and .gradient_h. torch.func.vmap works (gradients item by item), as
do grad and jvp of torch.func, which torch does not take inside of torch.compile.

Needs torch 2.4 or newer; with 1.13 to 2.3 everything but torch.compile and torch.func. `import haloconv` does not
import torch; this module does.
"""

import os

import torch

from ._banks import Bank
from ._tensors import CONVOLVE, GRADIENT_H, GRADIENT_X, Plans, check_mode, fits, frames_of, make_plan, split

__all__ = ["convolve", "fftconvolve", "ApplyImpulseResponse"]


# ---- running an operation -------------------------------------------------------------------------------------------
_plans = Plans()
_find_plan = _plans.by_key.get
_CPU = torch.device("cpu")  # not the device of torch.set_default_device
_HAS_OPERATORS = hasattr(torch.library, "register_autograd")  # torch 2.4


def _plan_of(key):
    op, mode, index, a_shape, a_strides, b_shape, b_strides, size, n_threads, has_lengths = key
    backend = b"cpu" if index < 0 else b"cuda:%d" % index
    return _plans.keep(key, make_plan(op, mode, backend, n_threads, (a_shape, a_strides), (b_shape, b_strides), size,
                                      has_lengths))


def _execute(op, mode, a, b, size, lengths):
    """Run an operation now: tensors as in make_plan(), without autograd."""
    index = a.get_device()  # -1: the CPU
    if a.dtype is not torch.float32 or b.dtype is not torch.float32 or index != b.get_device():
        raise TypeError(f"the tensors are {a.dtype} on {a.device} and {b.dtype} on {b.device}; give float32 on one "
                        "device")
    if a.is_neg():
        a = a.resolve_neg()
    if b.is_neg():
        b = b.resolve_neg()
    key = (op, mode, index, a.shape, a.stride(), b.shape, b.stride(), size,
           torch.get_num_threads() if index < 0 else 0, lengths is not None)
    plan = _find_plan(key) or _plan_of(key)
    copies_a, copies_b = plan.copies
    if copies_a:
        a = a.contiguous()
    if copies_b:
        b = b.contiguous()
    taps_at = None
    if lengths is not None:
        filters = (size if op == GRADIENT_H else b.shape)[:-1]
        if lengths.dtype is not torch.int64 or lengths.get_device() != index or tuple(lengths.shape) != tuple(filters):
            raise ValueError(f"lengths are {lengths.dtype} {tuple(lengths.shape)} on {lengths.device}; give int64 "
                             f"{tuple(filters)} on {a.device}")
        lengths = lengths.contiguous()
        taps_at = lengths.data_ptr()
    out = torch.empty(plan.shape, dtype=torch.float32, device=a.device)
    if plan.is_empty:
        return out.zero_()
    # Only on a GPU. The caching allocator aligns to 512 bytes, and reuses the memory in the order of the stream.
    workspace = torch.empty(plan.bytes, dtype=torch.uint8, device=a.device) if plan.bytes else None
    plan.run(a.data_ptr(), b.data_ptr(), out.data_ptr(), None if workspace is None else workspace.data_ptr(),
             None if index < 0 else _current_stream(index), taps_at)
    return out


def _public_stream(index):
    return torch.cuda.current_stream(index).cuda_stream


_current_stream = getattr(torch._C, "_cuda_getCurrentRawStream", _public_stream)


# ---- autograd -------------------------------------------------------------------------------------------------------
# convolve, gradient_x and gradient_h are the three gradients of one sum, sum over m of gy[m] y[m], which is linear in
# each of x, h and gy. The gradients of each of them are therefore the other two.
def _gradients(op, mode, a, b, lengths, g, needs_a, needs_b):
    """Gradients of an operation's result for its inputs a and b; g: of the result."""
    if op == CONVOLVE:  # x, h
        return (_call(GRADIENT_X, mode, g, b, a.shape[-1], lengths) if needs_a else None,
                _call(GRADIENT_H, mode, g, a, tuple(b.shape), lengths) if needs_b else None)
    if op == GRADIENT_X:  # gy, h
        return (_call(CONVOLVE, mode, g, b, None, lengths) if needs_a else None,
                _call(GRADIENT_H, mode, a, g, tuple(b.shape), lengths) if needs_b else None)
    return (_call(CONVOLVE, mode, b, g, None, lengths) if needs_a else None,  # gy, x
            _call(GRADIENT_X, mode, a, g, b.shape[-1], lengths) if needs_b else None)


class _Operation(torch.autograd.Function):
    """An operation under autograd in eager mode; it costs less than half of an operator of torch.library."""

    @staticmethod
    def forward(ctx, op, mode, a, b, size, lengths):
        ctx.save_for_backward(a, b, lengths)
        ctx.save_for_forward(a, b, lengths)
        ctx.call = op, mode, size
        return _execute(op, mode, a, b, size, lengths)

    @staticmethod
    def backward(ctx, g):
        a, b, lengths = ctx.saved_tensors
        op, mode, _ = ctx.call
        _, _, needs_a, needs_b, _, _ = ctx.needs_input_grad
        return (None, None, *_gradients(op, mode, a, b, lengths, g, needs_a, needs_b), None, None)

    @staticmethod
    def jvp(ctx, _op, _mode, da, db, _size, _lengths):
        a, b, lengths = ctx.saved_tensors
        op, mode, size = ctx.call
        terms = [_call(op, mode, *pair, size, lengths) for given, pair in ((da, (da, b)), (db, (a, db)))
                 if given is not None]
        return sum(terms[1:], terms[0])


class _Transformed(_Operation):
    """An operation under torch.func: grad, vmap, jvp and what is made of them. They want forward() without ctx."""

    @staticmethod
    def forward(op, mode, a, b, size, lengths):
        return _execute(op, mode, a, b, size, lengths)

    @staticmethod
    def setup_context(ctx, inputs, output):
        op, mode, a, b, size, lengths = inputs
        ctx.save_for_backward(a, b, lengths)
        ctx.save_for_forward(a, b, lengths)
        ctx.call = op, mode, size

    @staticmethod
    def vmap(info, in_dims, op, mode, a, b, size, lengths):
        return _vmap(_call, op, mode, info.batch_size, (in_dims[2], in_dims[3], in_dims[5]), (a, b, lengths), size)


def _vmap(call, op, mode, n, dims, tensors, size):
    """The operation for all n items at once; of gradient_h, and with lengths, one call for each item.

    call  _call, or _call_operator in the rule of an operator, where torch takes no autograd.Function
    """
    a, b, lengths = tensors
    if op != GRADIENT_H and lengths is None:
        a = a.unsqueeze(0) if dims[0] is None else a.movedim(dims[0], 0)
        b = b.unsqueeze(0) if dims[1] is None else b.movedim(dims[1], 0)
        if b.dim() > a.dim():
            raise ValueError(f"shapes {tuple(a.shape[1:])} and {tuple(b.shape[1:])} do not belong together; give h the "
                             "leading dimensions of x, or 1")
        b = b.reshape(b.shape[:1] + (1,) * (a.dim() - b.dim()) + b.shape[1:])
        return _fold(op, mode, a, b, size, None, call), 0
    items = [[value if dim is None else value.select(dim, i) for value, dim in zip(tensors, dims)] for i in range(n)]
    return torch.stack([call(op, mode, a, b, size, lengths) for a, b, lengths in items]), 0


def _never():
    return False


# Without the operators the compiler gets _Operation, which it refuses or leaves out of its graph.
_is_compiling = torch.compiler.is_compiling if _HAS_OPERATORS else _never
_tracing_state = getattr(torch._C, "_get_tracing_state", lambda: None)
_is_transformed = getattr(torch._C, "_are_functorch_transforms_active", _never)
_n_modes = getattr(torch._C, "_len_torch_dispatch_stack", _never)
_PLAIN = (torch.Tensor, torch.nn.Parameter)


def _is_eager(a, b):
    """Whether nothing but autograd and torch.func look at the operation: no compiler, mode or subclass of Tensor."""
    return (type(a) in _PLAIN and type(b) in _PLAIN and (a.is_cpu or a.is_cuda) and not _n_modes()
            and _tracing_state() is None)


def _call_operator(op, mode, a, b, size, lengths):
    if op == CONVOLVE:
        return torch.ops.haloconv.convolve(a, b, mode, lengths)
    if op == GRADIENT_X:
        return torch.ops.haloconv.gradient_x(a, b, mode, size, lengths)
    return torch.ops.haloconv.gradient_h(a, b, mode, size, lengths)


def _call(op, mode, a, b, size, lengths):
    """Run an operation so that autograd, torch.func, torch.compile and whatever else looks at tensors see it."""
    if _is_compiling() or ((_HAS_OPERATORS or a.is_meta) and not _is_eager(a, b)):
        return _call_operator(op, mode, a, b, size, lengths)
    if _is_transformed():
        return _Transformed.apply(op, mode, a, b, size, lengths)
    if ((torch.is_grad_enabled() and (a.requires_grad or b.requires_grad))
            or torch.autograd.forward_ad._current_level >= 0):
        return _Operation.apply(op, mode, a, b, size, lengths)
    return _execute(op, mode, a, b, size, lengths)


# ---- the operators --------------------------------------------------------------------------------------------------
_library = torch.library.Library("haloconv", "DEF")
_SCHEMAS = {CONVOLVE: "convolve(Tensor x, Tensor h, str mode, Tensor? lengths=None) -> Tensor",
            GRADIENT_X: "gradient_x(Tensor gy, Tensor h, str mode, SymInt n_frames, Tensor? lengths=None) -> Tensor",
            GRADIENT_H: "gradient_h(Tensor gy, Tensor x, str mode, SymInt[] shape, Tensor? lengths=None) -> Tensor"}


def _unpack(op, arguments):
    """(mode, a, b, size, lengths) of an operator's arguments."""
    a, b, mode, *rest = arguments
    size = rest.pop(0) if op != CONVOLVE else None
    return mode, a, b, tuple(size) if op == GRADIENT_H else size, rest[0] if rest else None


def _register(op):
    name = _SCHEMAS[op].partition("(")[0]
    tags = {"tags": torch.Tag.pt2_compliant_tag} if hasattr(torch.Tag, "pt2_compliant_tag") else {}
    _library.define(_SCHEMAS[op], **tags)

    def execute(*arguments):
        mode, *rest = _unpack(op, arguments)
        return _execute(op, mode, *rest)

    def fake(*arguments):
        mode, a, b, size, _ = _unpack(op, arguments)
        if op == GRADIENT_H:
            return a.new_empty(size)
        return a.new_empty((*a.shape[:-1], size if op == GRADIENT_X else frames_of(mode, a.shape[-1], b.shape[-1])))

    def setup(ctx, inputs, output):
        mode, a, b, _, lengths = _unpack(op, inputs)
        ctx.save_for_backward(a, b, lengths)
        ctx.mode = mode

    def backward(ctx, g):
        a, b, lengths = ctx.saved_tensors
        rest = (None,) * (2 if op == CONVOLVE else 3)
        return (*_gradients(op, ctx.mode, a, b, lengths, g, *ctx.needs_input_grad[:2]), *rest)

    for key in ("CPU", "CUDA"):
        _library.impl(name, execute, key)
    if not _HAS_OPERATORS:
        _library.impl(name, fake, "Meta")
        return
    full_name = f"haloconv::{name}"
    torch.library.register_fake(full_name, fake, lib=_library)
    torch.library.register_autograd(full_name, backward, setup_context=setup, lib=_library)
    if hasattr(torch.library, "register_vmap"):
        def vmap(info, dims, *arguments):
            mode, a, b, size, lengths = _unpack(op, arguments)
            dims = (*dims[:2], dims[-1] if lengths is not None else None)
            return _vmap(_call_operator, op, mode, info.batch_size, dims, (a, b, lengths), size)

        torch.library.register_vmap(full_name, vmap, lib=_library)


for _op in _SCHEMAS:
    _register(_op)


# ---- what users call ------------------------------------------------------------------------------------------------
def _fold(op, mode, a, h, size, lengths, call=_call):
    """CONVOLVE or GRADIENT_X of any number of leading dimensions, which broadcast."""
    if fits(a.shape[:-1], h.shape[:-1]):
        return call(op, mode, a, h, size, lengths)
    try:
        whole = torch.broadcast_shapes(a.shape[:-1], h.shape[:-1])
    except RuntimeError:
        raise ValueError(f"the leading dimensions of {tuple(a.shape)} and {tuple(h.shape)} do not broadcast; give both "
                         "the same, or 1") from None
    a = a.expand(*whole, a.shape[-1])
    if len(whole) <= 2:
        return call(op, mode, a, h, size, lengths)
    own = (1,) * (len(whole) - h.dim() + 1) + tuple(h.shape[:-1])
    cut = split(whole, own)
    if cut is None:  # a shared dimension between two own ones: every item gets its own copy of the filter
        h, cut = h.expand(*whole, h.shape[-1]), len(whole) - 1
        lengths = None if lengths is None else lengths.expand(whole)
        own = whole
    a = a.reshape(_product(whole[:cut]), _product(whole[cut:]), a.shape[-1])
    h = h.reshape(_product(own[:cut]), _product(own[cut:]), h.shape[-1])
    lengths = None if lengths is None else lengths.reshape(h.shape[:-1])
    y = call(op, mode, a, h, size, lengths)
    return y.reshape(*whole, y.shape[-1])


def _product(sizes):
    product = 1
    for size in sizes:
        product = product * size
    return product


def _is_autocast(device):
    if device.type == "meta":
        return False
    try:
        return torch.is_autocast_enabled(device.type)
    except TypeError:  # before torch 2.4
        return torch.is_autocast_enabled() if device.type == "cuda" else torch.is_autocast_cpu_enabled()


def _check(x, h, names):
    if (type(x) in _PLAIN and type(h) in _PLAIN and x.dtype is torch.float32 and h.dtype is torch.float32
            and ((x.is_cpu and h.is_cpu) or (x.is_cuda and x.get_device() == h.get_device())) and x.dim() and h.dim()):
        return  # the usual case, quickly; make_plan() refuses tensors without frames
    for name, value in zip(names, (x, h)):
        if not isinstance(value, torch.Tensor):
            raise TypeError(f"{name} is {type(value).__name__}; give a torch.Tensor (haloconv.convolve takes arrays)")
        if value.is_complex():
            raise TypeError(f"{name} is complex; convolve its real and imaginary parts separately")
        if value.dtype is torch.float64:
            raise TypeError(f"{name} is float64, and haloconv computes in float32; give {name}.float(), or use "
                            "torch.fft for float64")
        if value.dtype not in (torch.float32, torch.float16, torch.bfloat16):
            raise TypeError(f"{name} is {value.dtype}; give {name}.float()")
        if value.device.type not in ("cpu", "cuda", "meta"):
            raise ValueError(f"{name} is on {value.device}; haloconv computes on cpu and cuda, move it there")
        if value.dim() < 1 or value.shape[-1] < 1:
            raise ValueError(f"{name} has shape {tuple(value.shape)}; give [..., frames] with at least one frame")
    if x.device != h.device:
        raise ValueError(f"{names[0]} is on {x.device} and {names[1]} on {h.device}; move them to one device")


def _lengths_of(lengths, h):
    lengths = torch.as_tensor(lengths, device=h.device)
    if lengths.is_floating_point() or lengths.is_complex() or lengths.dtype is torch.bool:
        raise TypeError(f"lengths are {lengths.dtype}; give whole numbers")
    if lengths.shape != h.shape[:-1]:
        raise ValueError(f"lengths have shape {tuple(lengths.shape)} and h {tuple(h.shape)}; give a length for each "
                         f"filter: {tuple(h.shape[:-1])}")
    return lengths.to(torch.int64).clamp(0, h.shape[-1]).contiguous()


def _convolve(x, h, mode, lengths):
    if x.dtype is torch.float32 and h.dtype is torch.float32:
        return _fold(CONVOLVE, mode, x, h, None, lengths)
    dtype = torch.float32 if _is_autocast(x.device) else torch.promote_types(x.dtype, h.dtype)
    return _fold(CONVOLVE, mode, x.float(), h.float(), None, lengths).to(dtype)


def convolve(x, h, mode="full", lengths=None):
    """Convolve along the last dimension: y[..., n] = sum over k of h[..., k] x[..., n - k].

    x        [..., frames]: [batch, channels, frames], [channels, frames] or [frames], or more dimensions
    h        [..., taps]: [taps], [channels, taps], [batch, channels, taps], ...: its leading dimensions are aligned at
             the right with those of x; 1, or none: shared. x broadcasts likewise: [1, frames] with 64 filters
             [64, taps] is [64, frames]. A shared filter's gradient is the sum over the items that share it
    mode     "full": frames + taps - 1 frames; "causal": the first `frames` of them; "same": `frames` of them from
             (taps - 1) // 2 on; "valid": |frames - taps| + 1, those that all taps (or all of x) reach
    lengths  whole numbers, as many as filters: shape h.shape[:-1]. The taps of a filter from its length on count as 0,
             and so do their gradients; lengths beyond 0 to taps count as the nearest of these. None: all taps

    Returns [..., frames of the mode], float32 (the module's text says when it is half precision). frames and taps: 1 to
    2^30. Leading dimensions may be 0: the result is empty, the gradient of h is 0.

    Raises TypeError for other dtypes, ValueError for shapes, modes and devices that do not fit, haloconv.Error if the
    library refuses (it was built without CUDA, for example).
    """
    _check(x, h, ("x", "h"))
    check_mode(mode)
    return _convolve(x, h, mode, None if lengths is None else _lengths_of(lengths, h))


def fftconvolve(x, y, mode="full"):
    """torchaudio.functional.fftconvolve: convolve x and y, of as many dimensions, along the last one.

    x, y  [..., N] and [..., M]; the leading dimensions broadcast
    mode  "full": N + M - 1 frames; "valid": max(N, M) - min(N, M) + 1; "same": N frames, from (M - 1) // 2 on

    Raises ValueError as torchaudio does, and what convolve() raises.
    """
    _check(x, y, ("x", "y"))
    if mode not in ("full", "valid", "same"):
        raise ValueError(f"mode {mode!r} is unknown; give full, valid or same")
    if x.dim() != y.dim():
        raise ValueError(f"x has {x.dim()} dimensions and y has {y.dim()}; give both as many (unsqueeze one)")
    # The shorter operand is the filter, which costs less; "same" is relative to x.
    if mode != "same" and (y.shape[-1], y.numel()) > (x.shape[-1], x.numel()):
        x, y = y, x
    return _convolve(x, y, mode, None)


# ---- augmentation ---------------------------------------------------------------------------------------------------
def _files(paths, rate):
    """The responses in files: a list of [channels, taps]."""
    if not rate:
        raise ValueError("impulse responses in files need a rate; give rate=, the Hz of the sound that they are for")
    paths = [paths] if isinstance(paths, (str, os.PathLike)) else paths
    return [torch.from_numpy(entry) for path in paths for entry in Bank(path, rate=rate).responses]


def _padded(responses, lengths, rate):
    """The set of ApplyImpulseResponse: float32 [n, channels, taps], zeros after the end of each."""
    is_path = (str, os.PathLike)
    if isinstance(responses, Bank):
        if rate and responses.rate and rate != responses.rate:
            raise ValueError(f"the bank is for {responses.rate} Hz, but rate is {rate}; make a Bank with rate={rate}")
        responses = torch.from_numpy(responses.responses)
    elif isinstance(responses, is_path) or (not isinstance(responses, torch.Tensor) and len(responses)
                                            and all(isinstance(r, is_path) for r in responses)):
        responses = _files(responses, rate)
    if not isinstance(responses, torch.Tensor):
        if lengths is not None:
            raise ValueError("lengths belong to a tensor; the responses of a list have their own")
        responses = [torch.as_tensor(r) for r in responses]
        if not responses or any(r.dim() not in (1, 2) or r.numel() == 0 for r in responses):
            raise ValueError(f"responses have shapes {[tuple(r.shape) for r in responses][:8]}; give at least one, "
                             "each [taps] or [channels, taps]")
        responses = [r if r.dim() == 2 else r.unsqueeze(0) for r in responses]
        channels = {r.shape[0] for r in responses}
        if len(channels) > 1:
            raise ValueError(f"responses have {sorted(channels)} channels; give all as many")
        longest = max(r.shape[-1] for r in responses)
        responses = torch.stack([torch.nn.functional.pad(r, (0, longest - r.shape[-1])) for r in responses])
    if responses.dim() == 2:
        responses = responses.unsqueeze(1)
    if responses.dim() != 3 or responses.numel() == 0:
        raise ValueError(f"responses have shape {tuple(responses.shape)}; give [n, taps] or [n, channels, taps]")
    if responses.is_complex():
        raise TypeError("responses are complex; give real numbers")
    responses = responses.detach().float()
    if lengths is not None:
        lengths = torch.as_tensor(lengths, device=responses.device)
        if lengths.shape != responses.shape[:1]:
            raise ValueError(f"lengths have shape {tuple(lengths.shape)}; give one for each of "
                             f"{len(responses)} responses")
        taps = torch.arange(responses.shape[-1], device=responses.device)
        responses = responses.masked_fill(taps >= lengths[:, None, None], 0)
    if not torch.isfinite(responses).all():
        raise ValueError("responses have NaN or infinite taps; give numbers")
    return responses


def _aligned(responses):
    """Shift the direct sound (the largest tap) of all responses to one tap; ([n, channels, taps], that tap)."""
    direct = responses.abs().amax(1).argmax(-1).tolist()
    last, pad = max(direct), torch.nn.functional.pad
    rows = [pad(r, (last - at, 0)) for r, at in zip(responses, direct)]
    ends = [int(row.abs().amax(0).nonzero().max()) + 1 if row.any() else 1 for row in rows]
    taps = max(ends)
    return torch.stack([pad(row[:, :taps], (0, max(0, taps - row.shape[-1]))) for row in rows]), last


class ApplyImpulseResponse(torch.nn.Module):
    """Convolve the examples of a batch with random impulse responses: rooms and microphones for training.

        augment = ApplyImpulseResponse("rooms/", rate=16000, p=0.5)
        x = augment(x)                        # [batch, channels, frames] or [batch, frames]; the length stays

    responses     the set: a tensor [n, taps] or [n, channels, taps]; a list of tensors [taps] or [channels, taps] of
                  any lengths; a haloconv.Bank; a path, or a list of paths, of sound files, folders or SOFA files. One
                  channel fits every x; else as many as x has
    p             probability that an example is convolved; the others stay as they are, bit for bit
    per           each has its own draw: "example", "channel" (responses of one channel), or "batch"
    align         True: the direct sound (the largest tap) arrives when the sound was there, so that a dry target needs
                  no shift. False: after the response's own delay
    normalise     responses, when they are loaded: "peak": largest tap 1; "energy": sum of squares 1 for each channel on
                  average, which keeps the level of noise; None: as they are
    keep_level    True: every example leaves with the RMS that it came with, over all its channels
    rate          Hz of x; files are resampled to it (they need it). Tensors must have that rate already
    lengths       of a tensor: the taps of each response; later ones count as 0
    seed          None: draws on the device of x from torch's generator there, which torch.manual_seed sets; nothing
                  waits, and a CUDA graph may capture it. A number: draws on the CPU from a generator of its own, the
                  same on every device; the module's copies and pickles go on from its state, so that all workers
                  of a DataLoader draw the same

    In eval mode (module.eval()) x is returned as it is. `chosen` holds the last draw: the number of the response for
    each example (per="channel": for each channel), -1 where x stayed as it is.

    The result has the dtype of x; gradients flow to x. The responses are a buffer, which .to(device) moves and
    state_dict leaves out. Memory: a copy of the drawn responses. Raises ValueError if a shape does not fit,
    haloconv.Error if a file cannot be read.
    """

    def __init__(self, responses, p=0.5, per="example", align=True, normalise=None, keep_level=False, rate=None,
                 lengths=None, seed=None):
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"p {p} is no probability; give 0 to 1")
        if per not in ("example", "channel", "batch"):
            raise ValueError(f"per {per!r} is unknown; give example, channel or batch")
        if normalise not in (None, "peak", "energy"):
            raise ValueError(f"normalise {normalise!r} is unknown; give peak, energy or None")
        responses = _padded(responses, lengths, rate)
        if per == "channel" and responses.shape[1] != 1:
            raise ValueError(f'per "channel" needs responses of one channel; these have {responses.shape[1]}')
        if normalise:
            level = responses.abs().amax((1, 2)) if normalise == "peak" else responses.square().sum(2).mean(1).sqrt()
            responses = responses / torch.where(level > 0, level, torch.ones_like(level))[:, None, None]
        self.delay = 0  # frames by which all responses of the set are late
        if align:
            responses, self.delay = _aligned(responses)
        # A copy: the tensor that the caller gave may change later.
        self.register_buffer("responses", responses.clone(memory_format=torch.contiguous_format), persistent=False)
        self.p, self.per, self.keep_level, self.rate, self.chosen = p, per, keep_level, rate, None
        self._generator = None if seed is None else torch.Generator(_CPU).manual_seed(seed)

    def __getstate__(self):
        generator = self._generator
        return {**self.__dict__, "_generator": None if generator is None else generator.get_state()}

    def __setstate__(self, state):
        super().__setstate__(state)
        if self._generator is not None:
            generator = torch.Generator(_CPU)
            generator.set_state(self._generator)
            self._generator = generator

    def extra_repr(self):
        n, channels, taps = self.responses.shape
        return f"{n} responses, {channels} channels, {taps} taps, p={self.p}, per={self.per!r}"

    def _draw(self, size, device):
        """(numbers of responses, which of them are applied or None for all), both of `size`, on the device."""
        at = device if self._generator is None else "cpu"
        index = torch.randint(len(self.responses), size, generator=self._generator, device=at)
        applied = None
        if self.p < 1:
            applied = torch.rand(size, generator=self._generator, device=at) < self.p
        self.chosen = index if applied is None else torch.where(applied, index, torch.full_like(index, -1))
        return index.to(device, non_blocking=True), None if applied is None else applied.to(device, non_blocking=True)

    def forward(self, x):
        if not self.training or self.p == 0:
            return x
        if x.dim() not in (1, 2, 3):
            raise ValueError(f"x has shape {tuple(x.shape)}; give [batch, channels, frames], [batch, frames] or "
                             "[frames]")
        if x.device != self.responses.device:
            raise ValueError(f"x is on {x.device} and the responses on {self.responses.device}; call .to(x.device)")
        shape = x.shape
        if x.dim() < 3:
            x = x.reshape(-1, 1, shape[-1])
        n_batch, n_channels, n_frames = x.shape
        if self.responses.shape[1] not in (1, n_channels):
            raise ValueError(f"responses have {self.responses.shape[1]} channels and x has {n_channels}; give "
                             f"responses of 1 or {n_channels}")
        size = {"example": (n_batch, 1), "channel": (n_batch, n_channels), "batch": (1, 1)}[self.per]
        index, applied = self._draw(size, x.device)
        h = self.responses[index.reshape(-1)]  # [draws, channels, taps]
        if self.per == "channel":
            h = h.reshape(n_batch, n_channels, h.shape[-1])
        wet = x if self.delay == 0 else torch.nn.functional.pad(x, (0, self.delay))
        y = convolve(wet, h, mode="causal")[..., self.delay:].float()
        if self.keep_level:
            before, after = (tensor.float().square().mean((1, 2), keepdim=True) for tensor in (x, y))
            one = torch.ones_like(after)
            sounds = (before > 0) & (after > 0)  # silence stays silence, and its gradient finite
            y = y * torch.where(sounds, before / torch.where(sounds, after, one), one).sqrt()
        y = y.to(x.dtype)
        if applied is not None:
            y = torch.where(applied.unsqueeze(-1), y, x)
        if self.per != "channel":
            self.chosen = self.chosen.expand(n_batch, 1).squeeze(1)
        return y.reshape(shape)
