"""haloconv.jax - convolution of JAX arrays, differentiable in reverse mode, on the CPU and on CUDA GPUs.

    from haloconv.jax import convolve
    y = convolve(x, h, mode="causal")    # x [batch, channels, frames], h [channels, taps]
    gx, gh = jax.grad(loss, argnums=(0, 1))(x, h)

Precision: computed in float32, within 1e-6 of the exact result (norm of the error over norm of the result), and so are
both gradients; a result in half precision is rounded once. float32, float16 and bfloat16 are read in place, other real
types as float32. The result has the dtype that JAX promotes both to, a gradient that of its array.

jit, grad to any order in reverse mode, vmap, checkpoint and scan work; forward mode (jvp, jacfwd, hessian) does not.
vmap computes item by item: leading dimensions are faster. On a GPU the kernels go to XLA's stream, memory comes from
its allocator, and nothing waits. An array that is sharded over devices is gathered first.

Needs jax 0.5 or newer. `import haloconv` does not import jax; this module does.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp

from . import _arrays, _jax_calls
from ._tensors import CONVOLVE, GRADIENT_H, GRADIENT_X, check_mode, frames_of

__all__ = ["convolve"]

_FLOATS = (jnp.float32, jnp.float16, jnp.bfloat16)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1, 2, 5))
def _operation(op, mode, size, a, b, dtype):
    return _jax_calls.operation(op, mode, size, a, b, dtype)


def _forward(op, mode, size, a, b, dtype):
    return _operation(op, mode, size, a, b, dtype), (a, b)


def _backward(op, mode, _size, _dtype, kept, g):
    """The operations are the three gradients of one sum, as in torch.py; each one's gradients are the other two."""
    a, b = kept
    if op == CONVOLVE:  # x, h
        calls = (GRADIENT_X, a.shape[-1], g, b), (GRADIENT_H, b.shape, g, a)
    elif op == GRADIENT_X:  # gy, h
        calls = (CONVOLVE, None, g, b), (GRADIENT_H, b.shape, a, g)
    else:  # gy, x
        calls = (CONVOLVE, None, b, g), (GRADIENT_X, b.shape[-1], a, g)
    return tuple(_operation(op, mode, *call, value.dtype) for (op, *call), value in zip(calls, kept))


_operation.defvjp(_forward, _backward)


def _array(value, name):
    value = jnp.asarray(value)
    if jnp.iscomplexobj(value):
        raise TypeError(f"{name} is complex; convolve its real and imaginary parts separately")
    return value if value.dtype in _FLOATS else value.astype(jnp.float32)


def convolve(x: Any, h: Any, mode: str = "full", lengths: Any = None) -> jax.Array:
    """Convolve along the last dimension: y[..., n] = sum over k of h[..., k] x[..., n - k].

    x        [..., frames]
    h        [..., taps]: its leading dimensions are aligned at the right with those of x; 1, or none: shared. x
             broadcasts likewise. A shared filter's gradient is the sum over the items that share it
    mode     "full": frames + taps - 1 frames; "causal": the first `frames` of them; "same": `frames` of them from
             (taps - 1) // 2 on; "valid": |frames - taps| + 1, those that all taps (or all of x) reach. Under jit static
    lengths  whole numbers of shape h.shape[:-1]: the taps of a filter from its length on count as 0. None: all taps

    Returns [..., frames of the mode]. Raises ValueError for shapes, modes and devices that do not fit, TypeError for
    complex arrays, haloconv.Error if the library refuses.
    """
    check_mode(mode)
    x, h = _array(x, "x"), _array(h, "h")
    _arrays._check_shapes(x.shape, h.shape)
    dtype = jnp.result_type(x, h)
    if lengths is not None:
        lengths = jnp.asarray(lengths)
        if lengths.shape != h.shape[:-1] or not jnp.issubdtype(lengths.dtype, jnp.integer):
            raise ValueError(f"lengths are {lengths.dtype} of shape {lengths.shape}, and h has shape {h.shape}; give "
                             f"whole numbers of shape {h.shape[:-1]}")
        h = jnp.where(jnp.arange(h.shape[-1]) < lengths[..., None], h, jnp.zeros((), h.dtype))
    x, h, _, whole = _arrays._fold(jnp, x, h, None)
    if 0 in whole:
        return jnp.zeros((*whole, frames_of(mode, x.shape[-1], h.shape[-1])), dtype)
    y = _operation(CONVOLVE, mode, None, x, h, dtype)
    return y.reshape(*whole, y.shape[-1])
