"""haloconv.jax - convolution of JAX arrays, differentiable in reverse mode, on the CPU and on CUDA GPUs.

    from haloconv.jax import convolve, convolve_packed
    y = convolve(x, h, mode="causal")    # x [batch, channels, frames], h [channels, taps]
    y = convolve(x, bank, "causal", index=index)     # bank [filters, taps], index [batch, 1]: h = bank[index], no copy
    y = convolve_packed(x, h, cu_seqlens)            # x [channels, frames of all sequences]: no padding
    gx, gh = jax.grad(loss, argnums=(0, 1))(x, h)

Precision: computed in float32. The norm of the error is at most 1e-6 of the norm of the result, and so is that of both
gradients, unless the terms of the sums nearly cancel: the error is relative to the norms of x and h. A result in half
precision is rounded once. float32, float16 and bfloat16 are read in place, other real types as float32. The result has
the dtype that JAX promotes both to after that, a gradient that of its array.

jit, grad to any order in reverse mode, vmap, checkpoint and scan work; forward mode (jvp, jacfwd, hessian) does not.
vmap computes item by item: leading dimensions are faster. On a GPU the kernels go to XLA's stream, memory comes from
its allocator, and nothing waits. An array that is sharded over devices is gathered first.

Needs jax 0.5 or newer. `import haloconv` does not import jax; this module does.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from . import _arrays, _jax_calls
from ._tensors import CONVOLVE, GRADIENT_H, GRADIENT_X, check_mode, check_packed, fits, frames_of

__all__ = ["convolve", "convolve_packed"]

_FLOATS = (jnp.float32, jnp.float16, jnp.bfloat16)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1, 2, 3))
def _operation(op, mode, size, dtype, a, b, index, offsets):
    return _jax_calls.operation(op, mode, size, dtype, a, b, index, offsets)


def _forward(op, mode, size, dtype, *arrays):
    return _operation(op, mode, size, dtype, *arrays), arrays


def _backward(op, mode, _size, _dtype, kept, g):
    """The operations are the three gradients of one sum, as in torch.py; each one's gradients are the other two."""
    a, b, *lists = kept
    if op == CONVOLVE:  # x, h
        calls = (GRADIENT_X, a.shape[-1], a, g, b), (GRADIENT_H, b.shape, b, g, a)
    elif op == GRADIENT_X:  # gy, h
        calls = (CONVOLVE, None, a, g, b), (GRADIENT_H, b.shape, b, a, g)
    else:  # gy, x
        calls = (CONVOLVE, None, a, b, g), (GRADIENT_X, b.shape[-1], b, a, g)
    gradients = [(_operation(op, mode, size, like.dtype, *pair, *lists), like) for op, size, like, *pair in calls]
    return (*(_summed(gradient, like.shape) for gradient, like in gradients), None, None)


def _summed(gradient, shape):
    """The gradient of x, summed over the items or channels that share it."""
    axes = tuple(i for i, (n, own) in enumerate(zip(gradient.shape, shape)) if n != own)
    return gradient.sum(axes, keepdims=True) if axes else gradient


_operation.defvjp(_forward, _backward)


def _array(value, name):
    value = jnp.asarray(value)
    if jnp.iscomplexobj(value):
        raise TypeError(f"{name} is complex; convolve its real and imaginary parts separately")
    return value if value.dtype in _FLOATS else value.astype(jnp.float32)


def _whole_numbers(values, name):
    values = jnp.asarray(values)
    if not jnp.issubdtype(values.dtype, jnp.integer):
        raise TypeError(f"{name} has {values.dtype} numbers; give whole numbers")
    return values


def _cut(h, lengths):
    """h with zeros for the taps from the lengths on."""
    if lengths is None:
        return h
    lengths = jnp.asarray(lengths)
    if lengths.shape != h.shape[:-1] or not jnp.issubdtype(lengths.dtype, jnp.integer):
        raise ValueError(f"lengths are {lengths.dtype} of shape {lengths.shape}, and h has shape {h.shape}; give "
                         f"whole numbers of shape {h.shape[:-1]}")
    return jnp.where(jnp.arange(h.shape[-1]) < lengths[..., None], h, jnp.zeros((), h.dtype))


def _bank_check(h):
    if h.ndim != 2 or h.shape[0] < 1:
        raise ValueError(f"h has shape {h.shape}; with an index, give a bank [filters, taps] of at least one filter")


def convolve(x: Any, h: Any, mode: str = "full", lengths: Any = None, index: Any = None) -> jax.Array:
    """Convolve along the last dimension: y[..., n] = sum over k of h[..., k] x[..., n - k].

    x        [..., frames]
    h        [..., taps]: its leading dimensions are aligned at the right with those of x; 1, or none: shared. x
             broadcasts likewise. A shared filter's gradient is the sum over the items that share it
    mode     "full": frames + taps - 1 frames; "causal": the first `frames` of them; "same": `frames` of them from
             (taps - 1) // 2 on; "valid": |frames - taps| + 1, those that all taps (or all of x) reach. Under jit static
    lengths  whole numbers of shape h.shape[:-1]: the taps of a filter from its length on count as 0. None: all taps
    index    whole numbers: h is then a bank [filters, taps], and the call computes what it computes with h[index], but
             copies no filter; the shape of index takes the place of h.shape[:-1], lengths are [filters]. A number that
             is no filter, as -1, means none: the result is 0 there, and costs nearly nothing. The gradient of the bank
             is summed over the rows that use a filter

    Returns [..., frames of the mode]. Raises ValueError for shapes, modes and devices that do not fit, TypeError for
    complex arrays and an index that is not of whole numbers, haloconv.Error if the library refuses.
    """
    check_mode(mode)
    x, h = _array(x, "x"), _array(h, "h")
    _arrays._check_shapes(x.shape, h.shape)
    dtype = jnp.result_type(x, h)
    h = _cut(h, lengths)
    if index is None:
        x, h, _, whole = _arrays._fold(jnp, x, h, None)
    else:
        _bank_check(h)
        x, index, whole = _arrays._fold_index(jnp, x, _whole_numbers(index, "index"))
    if 0 in whole:
        return jnp.zeros((*whole, frames_of(mode, x.shape[-1], h.shape[-1])), dtype)
    y = _operation(CONVOLVE, mode, None, dtype, x, h, index, None)
    return y.reshape(*whole, y.shape[-1])


def convolve_packed(x: Any, h: Any, cu_seqlens: Any, mode: str = "causal", lengths: Any = None,
                    index: Any = None) -> jax.Array:
    """Convolve sequences of unlike lengths that lie one after the other: a batch of speech without padding.

    x           [channels, frames] or [frames]: the frames of all sequences
    h           as for convolve() with x [sequences, channels, frames] or [sequences, frames]: [taps], [channels, taps],
                [sequences, 1, taps], [sequences, channels, taps]; for x [frames]: [taps], [sequences, taps]
    cu_seqlens  whole numbers [sequences + 1], as FlashAttention has them: 0 first, ascending, the frames of x last.
                Sequence i has frames cu_seqlens[i] to cu_seqlens[i + 1] - 1, maybe none. A JAX array is not checked,
                for nothing waits for its numbers: wrong ones leave the result undefined
    mode        "causal", "same": as many frames, at the same places; "full": sequence i of the result begins at
                cu_seqlens[i] + i * (taps - 1) and has taps - 1 frames more. Under jit static
    lengths, index  as for convolve()

    No frame of a sequence reaches another. Returns [channels, frames] or [frames]. Raises what convolve() raises.
    """
    check_mode(mode)
    x, h = _array(x, "x"), _array(h, "h")
    _arrays._check_shapes(x.shape, h.shape)
    dtype, n_frames, is_flat = jnp.result_type(x, h), x.shape[-1], x.ndim == 1
    if mode == "valid":
        raise ValueError("packed sequences have no mode valid; give full, same or causal")
    offsets = _whole_numbers(cu_seqlens, "cu_seqlens")
    check_packed(x.shape, "cu_seqlens", offsets.shape,
                 None if isinstance(cu_seqlens, jax.Array) else np.asarray(cu_seqlens))
    h = _cut(h, lengths)
    if index is not None:
        _bank_check(h)
        index = _whole_numbers(index, "index")
    if is_flat:  # one channel
        x = x[None]
        if index is not None:
            index = index[..., None]
        else:
            h = h[..., None, :]
    n_sequences, own = offsets.shape[0] - 1, h.shape[:-1] if index is None else index.shape
    if not fits((n_sequences, x.shape[0]), own):
        raise ValueError(f"{'h' if index is None else 'index'} has leading dimensions {own}; give "
                         f"{(n_sequences, x.shape[0])}, or 1")
    own = (1, 1, *own)[-2:]
    if index is None:
        h = h.reshape(*own, h.shape[-1])
    else:
        index = index.reshape(own)
    if x.shape[0] == 0:
        return jnp.zeros((0, frames_of(mode, n_frames, h.shape[-1], n_sequences)), dtype)
    y = _operation(CONVOLVE, mode, None, dtype, x, h, index, offsets)
    return y[0] if is_flat else y
