"""haloconv.torch.conv1d: layers of long filters, with sums over the input channels, groups, stride and dilation.

A stride of s is a sum over s phases, which become channels: no result is computed that the stride skips.

    x      x0 x1 x2 x3 x4 x5 ..     stride 2     channels   x0 x2 x4 ..     filters   w0 w2 ..
                                                            x1 x3 x5 ..               w1 w3 ..
"""

import numbers
from typing import Optional, Tuple, Union

import torch

from ._torch_scene import MAX_FLOATS
from .torch import _check, _convolve, _type_of

_Size = Union[int, Tuple[int]]


def _number(name, value, minimum):
    """A whole number, or a tuple of one, as torch.nn.Conv1d keeps it."""
    number = value[0] if isinstance(value, (tuple, list)) and len(value) == 1 else value
    if not isinstance(number, numbers.Integral) or number < minimum:
        raise ValueError(f"{name} is {value!r}; give a whole number from {minimum} on")
    return number


def _summed(x, h, dtype):
    """Convolutions ("valid") of x [N, groups, 1, inputs, frames] and h [groups, outputs, inputs, taps], summed over the
    inputs; as many inputs at once as fit into 64 MiB."""
    n_inputs, y = h.shape[2], None
    floats = x.shape[0] * h.shape[0] * h.shape[1] * 2 * x.shape[-1]
    at_once = max(1, MAX_FLOATS // max(floats, 1))
    for first in range(0, n_inputs, at_once):
        some = slice(first, first + at_once)
        term = _convolve(x[..., some, :], h[:, :, some], "valid", None, dtype if n_inputs == 1 else torch.float32)
        term = term.squeeze(3) if term.shape[3] == 1 else term.sum(3)
        y = term if y is None else y + term
    return y


def conv1d(input: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor] = None, stride: _Size = 1,
           padding: Union[str, _Size] = 0, dilation: _Size = 1, groups: int = 1) -> torch.Tensor:
    """torch.nn.functional.conv1d for long filters: y[n, o, i] = sum over c and k of weight[o, c, k] x[n, c, i + k].

    input     [N, C_in, frames] or [C_in, frames]
    weight    [C_out, C_in / groups, taps]: not reversed, as torch's
    bias      [C_out]
    stride, dilation, groups  as torch's
    padding   zeros at both ends; "valid": none; "same": as many frames as the input has, with stride 1

    Returns [N, C_out, frames] or [C_out, frames]; dtypes, devices, gradients and forward mode are those of convolve().
    The sum over the inputs is computed in float32.

    Cost: a convolution for each item, output and input of its group; with a stride, of as many frames and taps in all.
    Memory: that of the results for one input, or for as many as fit into 64 MiB. Gradients keep views, no copies, of
    input and weight, unless there is padding, a stride or dilation. torch's conv1d is faster for short filters.

    Raises what convolve() raises.
    """
    _check(input, weight, ("input", "weight"))
    if input.dim() not in (2, 3) or weight.dim() != 3:
        raise ValueError(f"input has shape {tuple(input.shape)} and weight {tuple(weight.shape)}; give "
                         "[N, C_in, frames] or [C_in, frames], and [C_out, C_in / groups, taps]")
    stride, dilation, groups = (_number(name, value, 1) for name, value in (
        ("stride", stride), ("dilation", dilation), ("groups", groups)))
    n_in, (n_out, n_inputs, n_taps) = input.shape[-2], weight.shape
    if n_in < 1 or n_out < 1 or n_inputs * groups != n_in or n_out % groups:
        raise ValueError(f"input has {n_in} channels, weight has shape {tuple(weight.shape)}, and groups is {groups}; "
                         "give a weight of C_in / groups inputs, and outputs that groups divides")
    if bias is not None and (not isinstance(bias, torch.Tensor) or bias.shape != (n_out,)):
        raise ValueError(f"bias is {tuple(bias.shape) if isinstance(bias, torch.Tensor) else bias!r}; give [C_out], "
                         f"{n_out} numbers")
    reach = dilation * (n_taps - 1)  # from the first tap to the last one
    if padding == "same" and stride != 1:
        raise ValueError(f"padding is same and stride {stride}; give a number of frames as padding, or stride 1")
    if padding in ("same", "valid"):
        before, after = (reach // 2, reach - reach // 2) if padding == "same" else (0, 0)
    else:
        before = after = _number("padding", padding, 0)
    n_frames = input.shape[-1] + before + after
    if n_frames <= reach:
        raise ValueError(f"the taps reach over {reach + 1} frames, and the padded input has {n_frames}; give more "
                         "frames or padding")
    dtype, pad = _type_of(input, weight), torch.nn.functional.pad
    x = input if input.dim() == 3 else input.unsqueeze(0)
    if dilation > 1 and n_taps > 1:
        weight = pad(weight.unsqueeze(-1), (0, dilation - 1)).flatten(-2)[..., :reach + 1]
    n_results = (n_frames - reach - 1) // stride + 1
    if stride > 1:
        n_taps = -(-weight.shape[-1] // stride)
        after += (n_results + n_taps - 1) * stride - n_frames
        weight = pad(weight, (0, n_taps * stride - weight.shape[-1]))
        weight = weight.unflatten(-1, (n_taps, stride)).transpose(-1, -2).flatten(1, 2)
    if before or after:
        x = pad(x, (before, after))
    if stride > 1:
        x = x.unflatten(-1, (n_results + n_taps - 1, stride)).transpose(-1, -2).flatten(1, 2)
    h = weight.flip(-1).reshape(groups, n_out // groups, *weight.shape[1:])
    y = _summed(x.reshape(x.shape[0], groups, 1, h.shape[2], x.shape[-1]), h, dtype).flatten(1, 2)
    y = (y if bias is None else y + bias.unsqueeze(-1)).to(dtype)
    return y if input.dim() == 3 else y.squeeze(0)
