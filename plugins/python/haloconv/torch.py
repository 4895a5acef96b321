"""haloconv.torch - convolution of PyTorch tensors, differentiable, on the CPU and on CUDA GPUs.

    from haloconv.torch import convolve, convolve_packed, fftconvolve, conv1d, convolve_moving, ApplyImpulseResponse
    y = convolve(x, h, mode="causal")    # x [batch, channels, frames], h [channels, taps]: a long convolution
    y = convolve(x, bank, "causal", index=index)     # bank [filters, taps], index [batch, 1]: h = bank[index], no copy
    y = convolve_packed(x, h, cu_seqlens)            # x [channels, frames of all sequences]: no padding
    y = fftconvolve(x, h, mode="full")   # the signature of torchaudio.functional.fftconvolve
    y = conv1d(x, weight, padding="same")            # torch's conv1d for long filters, summed over the input channels
    y = convolve_moving(x, bank, entries, step=256)  # bank [entries, taps]: a response for each step of a moving source
    augment = ApplyImpulseResponse(responses, p=0.5)
    install()                            # torchaudio.functional.fftconvolve is haloconv's from now on

Precision: computed in float32. The norm of the error is at most 1e-6 of the norm of the result, and so is that of both
gradients, unless the terms of the sums nearly cancel: the error is relative to the norms of x and h. Numbers below
1.2e-38 (denormals), in tensors, in their transforms or in products, may count as 0: sounds of 1e-20 times filters of 1e-16
have larger errors. A result in half precision is rounded once. Results do not depend on the run: the same tensors give the same bits. A NaN or Inf passes
through: one reaches more frames of its channel than its taps reach, and no other item or channel.

dtypes: float32, bfloat16 and float16, in any mix: tensors are read and written in place, without a copy in float32. The
result has the dtype that torch promotes both to, or float32 inside of torch.autocast, as torch.fft has; a gradient has
that of its tensor. float64 is a TypeError, because haloconv does not have its precision.

Devices: tensors on the CPU are computed by torch.get_num_threads() threads. On a GPU the kernels go to torch's current
stream, nothing waits, memory comes from torch's allocator, and a CUDA graph may capture the call. All tensors of a call
must be on one device. Any thread may call anything here.

Memory: inputs may be views and expanded tensors. Copied are only frames that are not adjacent (x.transpose(-1, -2)), and
three or more leading dimensions that no view folds into two.
On a GPU a thread keeps 1 MiB for each stream that it uses, the workspace of its small calls.

Autograd: gradients to any order, and forward mode. torch.compile(fullgraph=True), torch.export and FakeTensor see the
operators torch.ops.haloconv.convolve, .gradient_x, .gradient_h and .gradients (both in one run). grad, jvp, jacfwd,
linearize, vmap and the others of torch.func work (gradients, lengths and an index item by item), also inside of
torch.compile and make_fx, below dispatch modes and with subclasses of Tensor.

Needs torch 2.4 or newer; with 1.13 to 2.3 everything but torch.compile and torch.func. `import haloconv` does not
import torch; this module does.
"""

import functools
from contextlib import AbstractContextManager
from threading import get_ident
from typing import List, Optional, Sequence, Union

import torch

from ._adapters import patch, unpatch
from ._library import devices
from ._tensors import (BFLOAT16, CONVOLVE, FLOAT16, FLOAT32, GRADIENT_H, GRADIENT_X, GRADIENTS, Plans, check_mode,
                       check_packed, check_shapes, fits, make_plan, split)

__all__ = ["convolve", "convolve_packed", "fftconvolve", "conv1d", "convolve_moving", "ApplyImpulseResponse",
           "install", "uninstall"]


# ---- running an operation -------------------------------------------------------------------------------------------
_plans = Plans()
_find_plan = _plans.by_key.get
_HAS_OPERATORS = hasattr(torch.library, "register_autograd")  # torch 2.4
_TYPES = {torch.float32: FLOAT32, torch.bfloat16: BFLOAT16, torch.float16: FLOAT16}
_KEPT_BYTES, _MAX_KEPT = 1 << 20, 64
_kept = {}  # workspaces of _KEPT_BYTES by thread, device and stream


def _plan_of(op, mode, a, b, size, dtype, index=None, offsets=None, c=None):
    """The plan of an operation on tensors as in make_plan(), with a result of a dtype; of GRADIENTS: that of c."""
    device = a.get_device()  # -1: the CPU
    key = (op, mode, device, b.get_device(), a.shape, a.stride(), b.shape, b.stride(), size,
           torch.get_num_threads() if device < 0 else 0, a.dtype, b.dtype, dtype)
    if index is not None or offsets is not None or c is not None:
        key += (None if index is None else index.shape, 0 if offsets is None else len(offsets) - 1)
    if c is not None:
        key += ((c.shape, c.stride()), c.get_device())
    return _find_plan(key) or _new_plan(key, *((a, b) if c is None else (a, b, c)))


def _new_plan(key, *tensors):
    op, mode, device, _, a_shape, a_strides, b_shape, b_strides, size, n_threads, *dtypes = key[:13]
    if not set(dtypes) <= set(_TYPES) or any(value.get_device() != device for value in tensors):
        what = ", ".join(f"{value.dtype} on {value.device}" for value in tensors)
        raise TypeError(f"the tensors are {what}, the result is {dtypes[2]}; give float32, bfloat16 or float16 on one "
                        "device")
    backend = b"cpu" if device < 0 else b"cuda:%d" % device
    types = [_TYPES[dtype] for dtype in dtypes]
    plan = make_plan(op, mode, backend, n_threads, (a_shape, a_strides), (b_shape, b_strides), size, types,
                     *key[13:16])  # without the device of c
    plan.call = op, mode, size, dtypes[2]
    return _plans.keep(key, plan)


def _address(name, values, shape, device):
    """The address of int64 numbers, and what holds their memory."""
    if values is None:
        return None, None
    if values.dtype is not torch.int64 or values.get_device() != device or tuple(values.shape) != tuple(shape):
        raise ValueError(f"{name} are {values.dtype} {tuple(values.shape)} on {values.device}; give int64 "
                         f"{tuple(shape)} on the device of the tensors")
    values = values.contiguous()
    return values.data_ptr(), values


def _empty(shape, dtype, like):
    """torch.empty on the device of a tensor; a result of its shape and dtype costs half as much."""
    if shape == like.shape and dtype is like.dtype:
        return torch.empty_like(like, memory_format=torch.contiguous_format)
    return torch.empty(shape, dtype=dtype, device=like.device)


def _workspace(n_bytes, like, device, stream, may_keep):
    """Memory of the device for a run, which the caller holds until the run is in the stream; None on the CPU.

    The caching allocator aligns to 512 bytes, and reuses memory in the order of the stream. Small runs of a thread in
    a stream use one workspace in that order, too: an allocation takes a fifth of a call's time. A CUDA graph needs
    its own memory, because other streams may replay it; _is_capturing looks at the current device.
    """
    if not n_bytes:
        return None
    if not may_keep or n_bytes > _KEPT_BYTES or device != _current_device() or _is_capturing():
        return _empty((n_bytes,), torch.uint8, like)
    key = get_ident(), device, stream
    kept = _kept.get(key)
    if kept is None:
        if len(_kept) >= _MAX_KEPT:
            _kept.clear()
        kept = _kept[key] = _empty((_KEPT_BYTES,), torch.uint8, like)
    return kept


def _run(plan, a, b, lengths, index=None, offsets=None, may_keep=True, c=None):
    """Run a plan on the tensors that it is for, without autograd; of GRADIENTS: (gx, gh).

    may_keep  whether a workspace may stay allocated; not in torch.compile, which counts what its memory pool holds
    """
    op, _, size, dtype = plan.call
    device = a.get_device()
    if plan.copies:
        a, b, c = (value.contiguous() if is_apart else value for value, is_apart in zip((a, b, c), plan.copies))
    taps_at = index_at = offsets_at = c_at = gh = gh_at = None
    if lengths is not None:
        h_shape = size if op == GRADIENT_H else b.shape if c is None else c.shape
        taps_at, lengths = _address("lengths", lengths, h_shape[:-1], device)
    if index is not None:
        index_at, index = _address("numbers of the index", index, index.shape, device)
    if offsets is not None:
        offsets_at, offsets = _address("cu_seqlens", offsets, offsets.shape, device)
    if c is None:
        out = _empty(plan.shape, dtype, a)
    else:
        out, gh = _empty(b.shape, b.dtype, b), _empty(c.shape, c.dtype, c)
        c_at, gh_at = c.data_ptr(), gh.data_ptr()
    if plan.is_empty:
        return out.zero_() if c is None else (out, gh.zero_())
    stream = None if device < 0 else _current_stream(device)
    workspace = _workspace(plan.bytes, a, device, stream, may_keep)
    plan.run(a.data_ptr(), b.data_ptr(), out.data_ptr(), None if workspace is None else workspace.data_ptr(), stream,
             taps_at, index_at, offsets_at, c_at, gh_at)
    return out if c is None else (out, gh)


def _execute(op, mode, a, b, size, lengths, dtype, index=None, offsets=None):
    """Run an operation now, without autograd.

    index    with it, h is a bank
    offsets  of packed sequences
    """
    return _run(_plan_of(op, mode, a, b, size, dtype, index, offsets), a, b, lengths, index, offsets, False)


def _execute_both(mode, gy, x, h, lengths, index=None, offsets=None, may_keep=True):
    """Both gradients of convolve, of the dtypes of x and h, without autograd."""
    plan = _plan_of(GRADIENTS, mode, gy, x, None, h.dtype, index, offsets, h)
    return _run(plan, gy, x, lengths, index, offsets, may_keep, h)


def _public_stream(device):
    return torch.cuda.current_stream(device).cuda_stream


_current_stream = getattr(torch._C, "_cuda_getCurrentRawStream", _public_stream)
_is_capturing = getattr(torch._C, "_cuda_isCurrentStreamCapturing", torch.cuda.is_current_stream_capturing)
_current_device = getattr(torch._C, "_cuda_getDevice", torch.cuda.current_device)


# ---- autograd -------------------------------------------------------------------------------------------------------
# convolve, gradient_x and gradient_h are the three gradients of one sum, sum over m of gy[m] y[m], which is linear in
# each of x, h and gy. The gradients of each of them are therefore the other two.
def _gradients(call, op, mode, a, b, lengths, g, needs_a, needs_b):
    """Gradients of an operation's result for its inputs a and b; g: of the result.

    call  _call, the partial of it that _call_for makes, or another function that runs an operation
    """
    both, function, lists = None, getattr(call, "func", call), getattr(call, "keywords", {})
    if function is _call and op == CONVOLVE and needs_a and needs_b:
        both = _both(mode, g, a, b, lengths, **lists)
    if both is not None:
        return both
    if op == CONVOLVE:  # x, h
        return (call(GRADIENT_X, mode, g, b, a.shape[-1], lengths, a.dtype) if needs_a else None,
                call(GRADIENT_H, mode, g, a, tuple(b.shape), lengths, b.dtype) if needs_b else None)
    if op == GRADIENT_X:  # gy, h
        return (call(CONVOLVE, mode, g, b, None, lengths, a.dtype) if needs_a else None,
                call(GRADIENT_H, mode, a, g, tuple(b.shape), lengths, b.dtype) if needs_b else None)
    return (call(CONVOLVE, mode, b, g, None, lengths, a.dtype) if needs_a else None,  # gy, x
            call(GRADIENT_X, mode, a, g, b.shape[-1], lengths, b.dtype) if needs_b else None)


def _call_for(index, offsets, *gradients):
    """_call, with an index and offsets; _call_operator for gradients that is_grads_batched=True has batched."""
    is_batched = not _is_compiling() and any(_is_batched(g) for g in gradients if g is not None)
    call = _call_operator if is_batched else _call
    if index is None and offsets is None:
        return call
    return functools.partial(call, index=index, offsets=offsets)


class _Operation(torch.autograd.Function):
    """An operation under autograd in eager mode; it costs less than half of an operator of torch.library."""

    @staticmethod
    def forward(ctx, plan, a, b, *lists):
        ctx.save_for_backward(a, b, *lists)
        if _forward_level() >= 0:
            ctx.save_for_forward(a, b, *lists)
        ctx.call = plan.call
        return _run(plan, a, b, *lists)

    @staticmethod
    def backward(ctx, g):
        a, b, lengths, index, offsets = ctx.saved_tensors
        op, mode, _, _ = ctx.call
        _, needs_a, needs_b, *_ = ctx.needs_input_grad
        call = _call_for(index, offsets, g)
        return (None, *_gradients(call, op, mode, a, b, lengths, g, needs_a, needs_b), None, None, None)

    @staticmethod
    def jvp(ctx, _call_or_plan, da, db, *_lists):
        a, b, lengths, *rest = ctx.saved_tensors
        op, mode, size, dtype = ctx.call
        call = _call_for(*rest, da, db)
        terms = [call(op, mode, *pair, size, lengths, dtype) for given, pair in ((da, (da, b)), (db, (a, db)))
                 if given is not None]
        return sum(terms[1:], terms[0])


class _Transformed(_Operation):
    """An operation under torch.func: grad, vmap, jvp and their combinations, which need forward() without ctx.

    call  (op, mode, size, dtype)
    """

    @staticmethod
    def forward(call, a, b, lengths, index, offsets):
        op, mode, size, dtype = call
        # A level of torch.func hides a subclass of Tensor.
        run = _execute if _is_eager(a, b) else _call_operator
        return run(op, mode, a, b, size, lengths, dtype, index, offsets)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.call, *tensors = inputs
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)

    @staticmethod
    def vmap(info, in_dims, call, *tensors):
        op, mode, size, dtype = call
        return _vmap(_call, op, mode, info.batch_size, in_dims[1:], tensors, size, dtype)


def _vmap(call, op, mode, n, dims, tensors, size, dtype):
    """The operation for all n items at once; of gradient_h, and with lists, one call for each item.

    tensors  a, b and the lists
    call     _call, or _call_operator in the rule of an operator, where torch accepts no autograd.Function
    """
    a, b, *lists = tensors
    if op != GRADIENT_H and all(values is None for values in lists):
        a = a.unsqueeze(0) if dims[0] is None else a.movedim(dims[0], 0)
        b = b.unsqueeze(0) if dims[1] is None else b.movedim(dims[1], 0)
        if b.dim() > a.dim():
            raise ValueError(f"shapes {tuple(a.shape[1:])} and {tuple(b.shape[1:])} do not belong together; give h the "
                             "leading dimensions of x, or 1")
        b = b.reshape(b.shape[:1] + (1,) * (a.dim() - b.dim()) + b.shape[1:])
        return _fold(op, mode, a, b, size, None, dtype, call), 0
    items = [[value if dim is None else value.select(dim, i) for value, dim in zip(tensors, dims)] for i in range(n)]
    if not items:  # the result of one item of zeros has the shape
        items = [[value if dim is None else value.sum(dim) for value, dim in zip(tensors, dims)]]
    return torch.stack([call(op, mode, a, b, size, lengths, dtype, *rest) for a, b, lengths, *rest in items])[:n], 0


def _never(*_values):
    return False


# Without the operators the compiler gets _Operation, which it refuses or leaves out of its graph.
_is_compiling = torch.compiler.is_compiling if _HAS_OPERATORS else _never
_tracing_state = getattr(torch._C, "_get_tracing_state", lambda: None)
_is_transformed = getattr(torch._C, "_are_functorch_transforms_active", _never)
_n_modes = getattr(torch._C, "_len_torch_dispatch_stack", _never)
_is_batched = getattr(getattr(torch._C, "_functorch", None), "is_legacy_batchedtensor", _never)
_PLAIN = (torch.Tensor, torch.nn.Parameter)


def _forward_level():
    return torch.autograd.forward_ad._current_level


def _is_eager(a, b):
    """Whether nothing but autograd and torch.func look at the operation: no compiler, mode or subclass of Tensor."""
    return (type(a) in _PLAIN and type(b) in _PLAIN and (a.is_cpu or a.is_cuda) and not _n_modes()
            and _tracing_state() is None)


def _call_operator(op, mode, a, b, size, lengths, dtype=torch.float32, index=None, offsets=None):
    if op == CONVOLVE:
        return torch.ops.haloconv.convolve(a, b, mode, lengths, dtype, index, offsets)
    if op == GRADIENT_X:
        return torch.ops.haloconv.gradient_x(a, b, mode, size, lengths, dtype, index, offsets)
    return torch.ops.haloconv.gradient_h(a, b, mode, size, lengths, dtype, index, offsets)


def _call(op, mode, a, b, size, lengths, dtype=torch.float32, index=None, offsets=None):
    """Run an operation so that autograd, torch.func, torch.compile and other observers of tensors see it."""
    if _is_compiling() or ((_HAS_OPERATORS or a.is_meta) and not _is_eager(a, b)):
        return _call_operator(op, mode, a, b, size, lengths, dtype, index, offsets)
    if a.is_neg() or b.is_neg():
        a, b = a.resolve_neg(), b.resolve_neg()
    if _is_transformed():
        return _Transformed.apply((op, mode, size, dtype), a, b, lengths, index, offsets)
    return _apply(_plan_of(op, mode, a, b, size, dtype, index, offsets), a, b, lengths, index, offsets)


def _both(mode, gy, x, h, lengths, index=None, offsets=None):
    """Both gradients of convolve in one run; None: torch.func, or autograd with a graph, must see two operations."""
    if _is_transformed():
        return None
    if _is_compiling() or not (_is_eager(gy, x) and type(h) in _PLAIN):
        return torch.ops.haloconv.gradients(gy, x, h, mode, lengths, index, offsets) if _HAS_OPERATORS else None
    if _forward_level() >= 0 or (torch.is_grad_enabled() and any(v.requires_grad for v in (gy, x, h))):
        return None
    return _execute_both(mode, *(value.resolve_neg() for value in (gy, x, h)), lengths, index, offsets)


def _apply(plan, a, b, lengths, index=None, offsets=None):
    """Run a plan under autograd."""
    if (torch.is_grad_enabled() and (a.requires_grad or b.requires_grad)) or _forward_level() >= 0:
        return _Operation.apply(plan, a, b, lengths, index, offsets)
    return _run(plan, a, b, lengths, index, offsets)


# ---- the operators --------------------------------------------------------------------------------------------------
_library = torch.library.Library("haloconv", "DEF")
_REST = "Tensor? lengths=None, ScalarType? dtype=None, Tensor? index=None, Tensor? offsets=None) -> Tensor"
_SCHEMAS = {CONVOLVE: f"convolve(Tensor x, Tensor h, str mode, {_REST}",
            GRADIENT_X: f"gradient_x(Tensor gy, Tensor h, str mode, SymInt n_frames, {_REST}",
            GRADIENT_H: f"gradient_h(Tensor gy, Tensor x, str mode, SymInt[] shape, {_REST}"}


def _unpack(op, arguments):
    """(mode, a, b, size, lengths, dtype, index, offsets) of an operator; dtype None: as torch promotes both."""
    size = arguments[3] if op != CONVOLVE else None
    a, b, mode, *rest = arguments[:3] + arguments[3 if op == CONVOLVE else 4:]  # torch leaves defaults out
    lengths, dtype, index, offsets = (*rest, None, None, None, None)[:4]
    return (mode, a, b, tuple(size) if op == GRADIENT_H else size, lengths,
            torch.promote_types(a.dtype, b.dtype) if dtype is None else dtype, index, offsets)


def _register_autograd(name, n, setup, backward, jvp=None, parts=None):
    """Derivatives of an operator in both modes; with torch.library.register_autograd those of forward mode are 0.

    The dispatcher calls kernel() at each level of torch.func, and also above modes and subclasses of Tensor.
    n         inputs that have derivatives; they are the first ones
    setup     (ctx, *arguments): keeps what the others need
    backward  (ctx, which inputs need a gradient, *gradients of the results): those of all inputs
    jvp       (ctx, *tangents of all inputs): that of the result
    parts     (*arguments): the results by other operators, which forward mode takes then
    """
    operator, unpack = getattr(torch.ops.haloconv, name).default, torch._VF._unpack_dual

    def below(keyset, *arguments):
        with torch._C._AutoDispatchBelowAutograd():
            return operator.redispatch(keyset & torch._C._after_autograd_keyset, *arguments)

    class Recorded(torch.autograd.Function):
        @staticmethod
        def forward(ctx, keyset, *arguments):
            setup(ctx, *arguments)
            with torch.enable_grad(), torch.autograd.forward_ad._set_fwd_grad_enabled(True):  # for the levels below
                return below(keyset, *arguments)

        @staticmethod
        def backward(ctx, *gradients):
            return (None, *backward(ctx, ctx.needs_input_grad[1:], *gradients))

        @staticmethod
        def jvp(ctx, _keyset, *tangents):
            return jvp(ctx, *tangents)

    def kernel(keyset, *arguments):
        with torch._C.DisableTorchFunctionSubclass():
            is_dual = any(unpack(value, level=0)[1] is not None for value in arguments[:n])  # torch has one level
        if is_dual and parts:
            return parts(*arguments)
        if not (is_dual or (torch.is_grad_enabled() and any(value.requires_grad for value in arguments[:n]))):
            return below(keyset, *arguments)
        if not _is_transformed():
            return Recorded.apply(keyset, *arguments)
        # Function.apply begins at the innermost level of torch.func again; torch's own functions record here.
        from torch._functorch.autograd_function import enable_single_level_autograd_function
        with enable_single_level_autograd_function():
            return super(torch.autograd.Function, Recorded).apply(keyset, *arguments)

    _library.impl(name, kernel, "Autograd", with_keyset=True)


def _define(schema, execute, fake, *derivatives, **parts):
    """Define an operator.

    execute      computes it now
    fake         (the same arguments): empty tensors as the results
    derivatives, parts  the arguments of _register_autograd after the name
    """
    name = schema.partition("(")[0]
    tags = {"tags": torch.Tag.pt2_compliant_tag} if hasattr(torch.Tag, "pt2_compliant_tag") else {}
    _library.define(schema, **tags)
    for key in ("CPU", "CUDA"):
        _library.impl(name, execute, key)
    if _HAS_OPERATORS:
        torch.library.register_fake(f"haloconv::{name}", fake, lib=_library)
        _register_autograd(name, *derivatives, **parts)
    else:
        _library.impl(name, fake, "Meta")


def _register(op):
    name = _SCHEMAS[op].partition("(")[0]

    def execute(*arguments):
        mode, *rest = _unpack(op, arguments)
        return _execute(op, mode, *rest)

    def fake(*arguments):
        mode, a, b, size, _, dtype, index, offsets = _unpack(op, arguments)
        _, n_frames, y_frames, _ = check_shapes(op, mode, a.shape, b.shape, size,
                                                None if index is None else index.shape,
                                                0 if offsets is None else offsets.shape[0] - 1)
        if op != GRADIENT_H:
            size = (*a.shape[:-1], y_frames if op == CONVOLVE else n_frames)
        return a.new_empty(size, dtype=dtype)

    def setup(ctx, *arguments):
        mode, a, b, _, lengths, _, index, offsets = _unpack(op, arguments)
        ctx.save_for_backward(a, b, lengths, index, offsets)
        ctx.save_for_forward(a, b)
        ctx.mode, ctx.rest = mode, arguments[2:]

    def backward(ctx, needs, g):
        a, b, lengths, index, offsets = ctx.saved_tensors
        call = _call_for(index, offsets, g)
        return (*_gradients(call, op, ctx.mode, a, b, lengths, g, *needs[:2]), *(None,) * 6)

    def jvp(ctx, da, db, *_):
        (a, b), operator = ctx.saved_tensors, getattr(torch.ops.haloconv, name)
        terms = [operator(*pair, *ctx.rest) for given, pair in ((da, (da, b)), (db, (a, db))) if given is not None]
        return sum(terms[1:], terms[0])

    _define(_SCHEMAS[op], execute, fake, 2, setup, backward, jvp)
    if hasattr(torch.library, "register_vmap"):
        def vmap(info, dims, *arguments):
            mode, a, b, size, lengths, dtype, *lists = _unpack(op, arguments)
            at = 3 if op == CONVOLVE else 4  # of lengths, then dtype, index and offsets
            dims = [*dims, None, None, None, None]
            dims = (*dims[:2], dims[at], dims[at + 2], dims[at + 3])
            return _vmap(_call_operator, op, mode, info.batch_size, dims, (a, b, lengths, *lists), size, dtype)

        torch.library.register_vmap(f"haloconv::{name}", vmap, lib=_library)


def _register_both():
    def execute(gy, x, h, mode, lengths=None, index=None, offsets=None):
        return _execute_both(mode, gy, x, h, lengths, index, offsets, may_keep=False)

    def fake(gy, x, h, mode, lengths=None, index=None, offsets=None):
        check_shapes(GRADIENTS, mode, gy.shape, x.shape, None, None if index is None else index.shape,
                     0 if offsets is None else offsets.shape[0] - 1, h.shape)
        return x.new_empty(x.shape), h.new_empty(h.shape)

    def setup(ctx, gy, x, h, mode, *lists):
        ctx.save_for_backward(gy, x, h, *(*lists, None, None, None)[:3])
        ctx.mode = mode

    def backward(ctx, needs, ggx, ggh):
        gy, x, h, lengths, index, offsets = ctx.saved_tensors
        needs_gy, needs_x, needs_h = needs[:3]
        call = _call_for(index, offsets, ggx, ggh)
        by_gx, g_h = _gradients(call, GRADIENT_X, ctx.mode, gy, h, lengths, ggx, needs_gy, needs_h)
        by_gh, g_x = _gradients(call, GRADIENT_H, ctx.mode, gy, x, lengths, ggh, needs_gy, needs_x)
        return (by_gx + by_gh if needs_gy else None, g_x, g_h, *(None,) * 4)

    def parts(gy, x, h, mode, lengths=None, index=None, offsets=None):
        return (_call_operator(GRADIENT_X, mode, gy, h, x.shape[-1], lengths, x.dtype, index, offsets),
                _call_operator(GRADIENT_H, mode, gy, x, tuple(h.shape), lengths, h.dtype, index, offsets))

    _define("gradients(Tensor gy, Tensor x, Tensor h, str mode, Tensor? lengths=None, Tensor? index=None, "
            "Tensor? offsets=None) -> (Tensor, Tensor)", execute, fake, 3, setup, backward, parts=parts)


for _op in _SCHEMAS:
    _register(_op)
_register_both()


# ---- what users call ------------------------------------------------------------------------------------------------
def _broadcast(a, h):
    """The leading dimensions of both together."""
    try:
        return torch.broadcast_shapes(a.shape[:-1], h.shape[:-1])
    except RuntimeError:
        raise ValueError(f"the leading dimensions of {tuple(a.shape)} and {tuple(h.shape)} do not broadcast; give both "
                         "the same, or 1") from None


def _fold(op, mode, a, h, size, lengths, dtype, call=_call):
    """CONVOLVE or GRADIENT_X of any number of leading dimensions, which broadcast."""
    if fits(a.shape[:-1], h.shape[:-1]):
        return call(op, mode, a, h, size, lengths, dtype)
    whole = _broadcast(a, h)
    a = a.expand(*whole, a.shape[-1])
    if len(whole) <= 2:
        return call(op, mode, a, h, size, lengths, dtype)
    own = (1,) * (len(whole) - h.dim() + 1) + tuple(h.shape[:-1])
    cut = split(whole, own)
    if cut is None:  # a shared dimension between two own ones: copy the filter for every item
        h, cut = h.expand(*whole, h.shape[-1]), len(whole) - 1
        lengths = None if lengths is None else lengths.expand(whole)
        own = whole
    a = a.reshape(_product(whole[:cut]), _product(whole[cut:]), a.shape[-1])
    h = h.reshape(_product(own[:cut]), _product(own[cut:]), h.shape[-1])
    lengths = None if lengths is None else lengths.reshape(h.shape[:-1])
    y = call(op, mode, a, h, size, lengths, dtype)
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
    if (type(x) in _PLAIN and type(h) in _PLAIN and x.dtype in _TYPES and h.dtype in _TYPES
            and ((x.is_cpu and h.is_cpu) or (x.is_cuda and x.get_device() == h.get_device())) and x.dim() and h.dim()
            and x.layout is h.layout is torch.strided and not (x.is_nested or h.is_nested)):
        return  # the usual case, quickly; make_plan() refuses tensors without frames
    for name, value in zip(names, (x, h)):
        if not isinstance(value, torch.Tensor):
            raise TypeError(f"{name} is {type(value).__name__}; give a torch.Tensor (arrays: haloconv.convolve)")
        if value.is_nested:
            raise TypeError(f"{name} is a nested tensor; give a padded one with lengths, or call convolve_packed")
        if value.layout is not torch.strided:
            raise TypeError(f"{name} is a tensor of layout {value.layout}; give {name}.to_dense()")
        if value.is_complex():
            raise TypeError(f"{name} is complex; convolve its real and imaginary parts separately")
        if value.dtype is torch.float64:
            raise TypeError(f"{name} is float64, and haloconv computes in float32; give {name}.float(), or use "
                            "torch.fft for float64")
        if value.dtype not in _TYPES:
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


def _known_plan(x, h, mode, index=None):
    """The plan that an earlier call made for such x, h and index, which are right then; None: make all checks.

    A call that needs more than a plan and autograd gets None, too: broadcasting, torch.func, modes, unlike dtypes.
    """
    if not _is_eager(x, h) or _is_transformed() or x.is_neg() or h.is_neg():
        return None
    dtype, device = x.dtype, x.get_device()
    if h.dtype is not dtype or (dtype is not torch.float32 and _is_autocast(x.device)):
        return None
    lists = ()
    if index is not None:
        if type(index) not in _PLAIN or index.dtype is not torch.int64 or index.get_device() != device:
            return None
        lists = index.shape, 0
    return _find_plan((CONVOLVE, mode, device, h.get_device(), x.shape, x.stride(), h.shape, h.stride(), None,
                       torch.get_num_threads() if device < 0 else 0, dtype, dtype, dtype, *lists))


def _type_of(x, h):
    """The dtype of a result."""
    if x.dtype is torch.float32 and h.dtype is torch.float32:
        return torch.float32
    return torch.float32 if _is_autocast(x.device) else torch.promote_types(x.dtype, h.dtype)


def _convolve(x, h, mode, lengths, dtype=None):
    if dtype is None:
        dtype = _type_of(x, h)
    return _fold(CONVOLVE, mode, x, h, None, lengths, dtype)


def _numbers_of(name, values, like):
    """Whole numbers as int64 on the device of a tensor."""
    values = torch.as_tensor(values, device=like.device)
    if values.is_floating_point() or values.is_complex() or values.dtype is torch.bool:
        raise TypeError(f"{name} is {values.dtype}; give whole numbers")
    return values.to(torch.int64)


def _bank_check(h):
    if h.dim() != 2:
        raise ValueError(f"h has shape {tuple(h.shape)}; with an index, give a bank [filters, taps]")


def _convolve_by_index(x, h, mode, lengths, index, dtype):
    """_convolve with h[index] as filters."""
    _bank_check(h)
    index = _numbers_of("index", index, x)
    if x.dim() == 3 and index.dim() == 2 and fits(x.shape[:-1], index.shape):
        return _call(CONVOLVE, mode, x, h, None, lengths, dtype, index)
    try:
        whole = torch.broadcast_shapes(x.shape[:-1], index.shape)
    except RuntimeError:
        raise ValueError(f"index {tuple(index.shape)} does not broadcast to the leading dimensions of x, "
                         f"{tuple(x.shape[:-1])}") from None
    own, frames = (1,) * (len(whole) - index.dim()) + tuple(index.shape), x.shape[-1]
    cut = split(whole, own)
    if cut is None:  # a shared dimension between two own ones
        index, own, cut = index.expand(whole), whole, len(whole) - 1
    a = x.expand(*whole, frames).reshape(_product(whole[:cut]), _product(whole[cut:]), frames)
    y = _call(CONVOLVE, mode, a, h, None, lengths, dtype, index.reshape(_product(own[:cut]), _product(own[cut:])))
    return y.reshape(*whole, y.shape[-1])


def convolve(x: torch.Tensor, h: torch.Tensor, mode: str = "full",
             lengths: Optional[Union[torch.Tensor, Sequence[int]]] = None,
             index: Optional[Union[torch.Tensor, Sequence[int]]] = None) -> torch.Tensor:
    """Convolve along the last dimension: y[..., n] = sum over k of h[..., k] x[..., n - k].

    x        [..., frames]: [batch, channels, frames], [channels, frames] or [frames], or more dimensions
    h        [..., taps]: [taps], [channels, taps], [batch, channels, taps], ...: its leading dimensions are aligned at
             the right with those of x; 1, or none: shared. x broadcasts likewise: [1, frames] with 64 filters
             [64, taps] is [64, frames]. A shared filter's gradient is the sum over the items that share it
    mode     "full": frames + taps - 1 frames; "causal": the first `frames` of them; "same": `frames` of them from
             (taps - 1) // 2 on; "valid": |frames - taps| + 1, those that all taps (or all of x) reach
    lengths  whole numbers, as many as filters: shape h.shape[:-1]. The taps of a filter from its length on count as 0,
             and so do their gradients; lengths beyond 0 to taps count as the nearest of these. None: all taps
    index    whole numbers: h is then a bank [filters, taps], and the call computes what it computes with h[index], but
             copies no filter; the shape of index takes the place of h.shape[:-1], lengths are [filters]. A number that
             is no filter, as -1, means none: the result is 0 there, and costs nearly nothing. The gradient of the bank
             is summed over the rows that use a filter

    Returns [..., frames of the mode], float32 (the module's text says when it is half precision). frames and taps: 1 to
    2^30. Leading dimensions may be 0: the result is empty, the gradient of h is 0.

    Raises TypeError for other dtypes, ValueError for shapes, modes and devices that do not fit, haloconv.Error if the
    library refuses (it was built without CUDA, for example).
    """
    return _convolve_arrays(x, h, mode, lengths, None, index)


def _convolve_arrays(x, h, mode, lengths, dtype, index=None):
    """convolve() with a result of a given dtype; None: see convolve()."""
    is_plain = type(mode) is str and dtype is None and lengths is None
    try:
        plan = _known_plan(x, h, mode, index) if is_plain and not _is_compiling() else None
        if plan is not None:
            return _apply(plan, x, h, None, index)
    except RuntimeError:  # of tensors without strides, as sparse ones, which _check() refuses in plain words
        _check(x, h, ("x", "h"))
        raise
    _check(x, h, ("x", "h"))
    check_mode(mode)
    lengths = None if lengths is None else _lengths_of(lengths, h)
    if index is None:
        return _convolve(x, h, mode, lengths, dtype)
    return _convolve_by_index(x, h, mode, lengths, index, dtype or _type_of(x, h))


def convolve_packed(x: torch.Tensor, h: torch.Tensor, cu_seqlens: Union[torch.Tensor, Sequence[int]],
                    mode: str = "causal", lengths: Optional[Union[torch.Tensor, Sequence[int]]] = None,
                    index: Optional[Union[torch.Tensor, Sequence[int]]] = None) -> torch.Tensor:
    """Convolve sequences of unlike lengths that lie one after the other: a batch of speech without padding.

    x           [channels, frames] or [frames]: the frames of all sequences
    h           as for convolve() with x [sequences, channels, frames] or [sequences, frames]: [taps], [channels, taps],
                [sequences, 1, taps], [sequences, channels, taps]; for x [frames]: [taps], [sequences, taps]
    cu_seqlens  whole numbers [sequences + 1], as FlashAttention has them: 0 first, ascending, the frames of x last.
                Sequence i has frames cu_seqlens[i] to cu_seqlens[i + 1] - 1, maybe none. On a GPU nothing waits for
                them, so they are not checked there: wrong ones leave the result undefined
    mode        "causal", "same": as many frames, at the same places; "full": sequence i of the result begins at
                cu_seqlens[i] + i * (taps - 1) and has taps - 1 frames more
    lengths, index  as for convolve()

    No frame of a sequence reaches another. Gradients flow to x and h, as with convolve(). The cost is that of all
    frames, and of about half a transform for each sequence. Raises what convolve() raises.
    """
    return _convolve_packed_arrays(x, h, cu_seqlens, mode, lengths, index, None)


def _convolve_packed_arrays(x, h, cu_seqlens, mode, lengths, index, dtype):
    """convolve_packed() with a result of a given dtype; None: see there."""
    _check(x, h, ("x", "h"))
    check_mode(mode)
    offsets = _numbers_of("cu_seqlens", cu_seqlens, x)
    is_known = offsets.is_cpu and not _is_compiling() and not _is_transformed() and _is_eager(offsets, offsets)
    check_packed(x.shape, "cu_seqlens", offsets.shape, offsets if is_known else None)
    lengths = None if lengths is None else _lengths_of(lengths, h)
    if index is not None:
        _bank_check(h)
        index = _numbers_of("index", index, x)
    is_flat = x.dim() == 1
    if is_flat:  # one channel
        x = x.unsqueeze(0)
        if index is not None:
            index = index.unsqueeze(-1)
        else:
            h, lengths = h.unsqueeze(-2), None if lengths is None else lengths.unsqueeze(-1)
    y = _call(CONVOLVE, mode, x, h, None, lengths, dtype or _type_of(x, h), index, offsets)
    return y.squeeze(0) if is_flat else y


def fftconvolve(x: torch.Tensor, y: torch.Tensor, mode: str = "full") -> torch.Tensor:
    """torchaudio.functional.fftconvolve: convolve x and y, of as many dimensions, along the last one.

    x, y  [..., N] and [..., M]; the leading dimensions broadcast
    mode  "full": N + M - 1 frames; "valid": max(N, M) - min(N, M) + 1; "same": N frames, from (M - 1) // 2 on

    Raises ValueError as torchaudio does, and what convolve() raises.
    """
    _check(x, y, ("x", "y"))
    if mode not in ("full", "valid", "same"):
        raise ValueError(f"mode {mode!r} is unknown; give full, valid or same")
    if x.dim() != y.dim():
        raise ValueError(f"x has {x.dim()} dimensions and y has {y.dim()}; give both the same number (unsqueeze one)")
    # The shorter operand is the filter, which costs less; "same" is relative to x.
    if mode != "same" and (y.shape[-1], y.numel()) > (x.shape[-1], x.numel()):
        if x.shape[-1] < 1:  # refused here, where x is the caller's x
            raise ValueError(f"x has shape {tuple(x.shape)}; give [..., frames] with at least one frame")
        _broadcast(x, y)
        x, y = y, x
    return _convolve(x, y, mode, None)


# ---- other projects ------------------------------------------------------------------------------------------------
@functools.lru_cache(None)
def _has_cuda():
    return any(name.startswith("cuda") for name, _ in devices())


def _can_convolve(x, y):
    """Whether convolve() takes two tensors; an adapter gives all others to the project's own function.

    torch.jit.trace records torch's own operators only. devices() is for GPU tensors only: it initialises CUDA.
    """
    return (not torch.jit.is_tracing() and isinstance(x, torch.Tensor) and isinstance(y, torch.Tensor)
            and x.dtype in _TYPES and y.dtype in _TYPES
            and x.device == y.device and (x.device.type == "cpu" or (x.is_cuda and (_is_compiling() or _has_cuda())))
            and x.dim() > 0 and y.dim() > 0 and x.numel() > 0 and y.numel() > 0
            and all(n == m or 1 in (n, m) for n, m in zip(x.shape[-2::-1], y.shape[-2::-1])))  # broadcast


def install() -> "AbstractContextManager[List[str]]":
    """Replace torchaudio.functional.fftconvolve, also of torchaudio.transforms: haloconv.patch("torchaudio").

    Arguments, errors and gradients stay torchaudio's; its own function computes what haloconv cannot (float64,
    integers, other devices, empty tensors, TorchScript). Call it before `from torchaudio.functional import ...`. It
    lasts until uninstall(), or to the end of a block `with install():`. Raises what haloconv.patch() raises.
    """
    return patch("torchaudio")


def uninstall() -> None:
    """Give torchaudio its own function back."""
    unpatch("torchaudio")


# ---- modules that use this one --------------------------------------------------------------------------------------
from ._augmentation import ApplyImpulseResponse  # noqa: E402  it needs convolve
from ._torch_conv1d import conv1d  # noqa: E402
from ._torch_scene import convolve_moving  # noqa: E402

for _public in (ApplyImpulseResponse, conv1d, convolve_moving):
    _public.__module__ = __name__  # in tracebacks, help() and pickles
