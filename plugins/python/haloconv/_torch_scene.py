"""haloconv.torch.convolve_moving: responses of a bank that change from step to step.

Each step is a row of a batch. The row has the frames of x that its entry hears, with the history that the taps reach,
and one filter. It yields the step itself and the step after it, where the entry fades out:

    step              0          1          2
    x padded   [taps - 1][===========]
                          [taps - 1][===========]          rows overlap: a view of x, no copy
    y of row 0            1          fade out
    y of row 1                       fade in    fade out
    y of row 2                                  fade in
"""

import numbers
from typing import Sequence, Union

import torch

from ._banks import Bank
from .torch import (CONVOLVE, GRADIENT_H, _call_for, _check, _gradients, _is_autocast, _is_compiling, _is_eager,
                    _is_transformed)

_CPU = torch.device("cpu")  # not the device of torch.set_default_device
MAX_FLOATS = 1 << 24  # of the filters and frames of the steps that are computed at once; 64 MiB


# ---- operations with filters of a bank ------------------------------------------------------------------------------
def _gather(op, a, bank, size, steps):
    """An operation whose filters are entries of a bank; the gradient of a filter is added to its entry.

    bank   [entries, taps]; of GRADIENT_H: x [rows, steps, frames], as b of the operation
    size   as of the operation; of GRADIENT_H: the shape of the bank
    steps  (entries int64 [rows, steps], their lengths or None)
    """
    entries, lengths = steps
    call = _call_for(None, None, a, bank)
    if op != GRADIENT_H:
        h = bank.index_select(0, entries.reshape(-1)).reshape(*entries.shape, bank.shape[-1])
        return call(op, "valid", a, h, size, lengths)
    each = call(op, "valid", a, bank, (*entries.shape, size[-1]), lengths).reshape(-1, size[-1])
    sums, at = each.new_zeros(size), entries.reshape(-1)
    # index_put adds in a fixed order on a GPU, index_add on the CPU; neither does on the other device.
    return sums.index_put((at,), each, accumulate=True) if each.is_cuda else sums.index_add(0, at, each)


class _Gathered(torch.autograd.Function):
    """_gather() under autograd. It keeps the bank for the gradients, and gathers again: the filters of all steps may
    need more memory than the device has."""

    @staticmethod
    def forward(ctx, op, a, bank, size, steps):
        ctx.save_for_backward(a, bank)
        ctx.call = op, steps
        return _gather(op, a, bank, size, steps)

    @staticmethod
    def backward(ctx, g):
        a, bank = ctx.saved_tensors
        op, steps = ctx.call
        return (None, *_gradients(_with_bank, op, "valid", a, bank, steps, g, *ctx.needs_input_grad[1:3]), None, None)


def _is_plain(*tensors):
    """Whether only autograd's backward mode observes an operation."""
    return (not _is_compiling() and _is_eager(*tensors) and not _is_transformed()
            and torch.autograd.forward_ad._current_level < 0)


def _with_bank(op, _mode, a, bank, size, steps, _dtype=torch.float32):
    if torch.is_grad_enabled() and (a.requires_grad or bank.requires_grad) and _is_plain(a, bank):
        return _Gathered.apply(op, a, bank, size, steps)
    return _gather(op, a, bank, size, steps)


# ---- steps ----------------------------------------------------------------------------------------------------------
def _one_output(x, bank, entries, lengths, step, n_frames):
    """One output of all rows, [rows, n_frames].

    x        [rows, taps - 1 + frames]: zeros, then the signal, then zeros up to the last frame of the last step's row
    bank     [entries, taps]
    entries  [rows, steps], lengths likewise or None
    """
    n_rows, n_steps = entries.shape
    n_taps = bank.shape[-1]
    played = 2 * step if n_steps > 1 else n_frames
    used = n_taps - 1 + played
    at_once = max(1, MAX_FLOATS // (max(n_rows, 1) * (n_taps + used)))
    outputs = []
    for first in range(0, n_steps, at_once):
        n = min(at_once, n_steps - first)
        frames = x[:, first * step:(first + n - 1) * step + used].unfold(-1, used, step)  # [rows, n, used]
        some = slice(first, first + n)
        steps = entries[:, some], None if lengths is None else lengths[:, some]
        outputs.append(_with_bank(CONVOLVE, "valid", frames, bank, None, steps))
    y = outputs[0] if len(outputs) == 1 else torch.cat(outputs, 1)  # [rows, steps, played]
    if n_steps == 1:
        return y.squeeze(1)
    fade = torch.arange(1, step + 1, dtype=torch.float32, device=y.device) / step
    faded = y[:, 1:, :step] * fade + y[:, :-1, step:] * (1 - fade)
    return torch.cat([y[:, :1, :step], faded], 1).reshape(n_rows, n_steps * step)[:, :n_frames]


def _entries_of(entries, n_entries, device):
    """(entries int64 [..., steps] on the device, whether their values are known to be in range, whether some may be
    silent)."""
    if not isinstance(entries, torch.Tensor):
        entries = torch.as_tensor(entries, device=_CPU)
        entries = entries if entries.numel() else entries.long()  # an empty list is of floats
    if entries.is_floating_point() or entries.is_complex() or entries.dtype is torch.bool:
        raise TypeError(f"entries are {entries.dtype}; give whole numbers: the entry of each step")
    if entries.dim() < 1:
        raise ValueError("entries have no dimensions; give [..., steps]")
    is_known, is_silent = entries.is_cpu and _is_plain(entries, entries), True
    if is_known and entries.numel():
        entries = entries.long()  # uint16 and uint32 have no max
        if entries.max() >= n_entries:
            raise ValueError(f"entry {int(entries.max())} is out of range; the bank has entries 0 to {n_entries - 1}")
        is_silent = bool(entries.min() < 0)
    if is_known and entries.is_pinned():
        entries = entries.clone()  # the copy to a GPU reads pinned memory later; the caller may change it
    return entries.to(device, torch.int64, non_blocking=True), is_known, is_silent


def _fit_steps(entries, n_steps):
    """Entries of n_steps steps: the last entry stays; silence if there is none."""
    n = entries.shape[-1]
    if n >= n_steps:
        return entries[..., :n_steps]
    if n == 0:
        return entries.new_full((*entries.shape[:-1], n_steps), -1)
    return torch.cat([entries, entries[..., -1:].expand(*entries.shape[:-1], n_steps - n)], -1)


def convolve_moving(x: torch.Tensor, bank: torch.Tensor, entries: Union[torch.Tensor, Sequence[int]], step: int = 256,
                    mode: str = "full") -> torch.Tensor:
    """Convolve signals with responses that change from step to step, as haloconv.convolve_moving; differentiable.

    x        [..., frames]: a source in each row. Nothing is added up: y.sum(0) is the scene of sources [sources, ...]
    bank     [entries, taps] or [entries, outputs, taps]: the responses, on the device of x
    entries  whole numbers [..., steps]: the entry from frame i * step on; below 0: silence. The leading dimensions
             broadcast with those of x. The last one stays; entries after the result are ignored; none: silence
    step     frames between two changes, at least 1. From frame i * step on a row fades to its new entry, linearly over
             one step: frame i * step + j has (j + 1) / step of it. Step 0 plays without a fade
    mode     "full": frames + taps - 1 frames; "causal": the first `frames` of them

    Returns [..., frames of the mode] for a bank [entries, taps], else [..., outputs, frames of the mode]; dtypes and
    devices are those of convolve(). Gradients of any order flow to x and the bank.

    Each row is as haloconv.convolve_moving plays it, within the precision of both; but a NaN or Inf passes through, to
    more frames of its row than its taps reach and to no other row. One in an entry reaches the rows that play it.

    Entries on the CPU are checked. Those on a GPU are not, and nothing waits: a CUDA graph may capture the call. Steps
    whose entry is too large are NaN then.

    Cost: each step of each row and output is a convolution of taps + 2 * step - 1 frames with `taps` taps; a step much
    shorter than the taps costs much. Memory, beside x and the results: the responses and frames of as many steps
    as fit into 64 MiB (at least one step of all rows), and the workspace of their convolution; so do the gradients.
    torch.compile, torch.func and forward mode may keep the responses of all steps.

    Raises TypeError for other dtypes, ValueError for shapes, modes, devices and entries that do not fit, haloconv.Error
    if the library refuses.
    """
    if isinstance(bank, Bank):
        raise TypeError("bank is a haloconv.Bank; give torch.from_numpy(bank.responses), on the device of x")
    _check(x, bank, ("x", "bank"))
    if x.shape[-1] < 1:
        raise ValueError(f"x has shape {tuple(x.shape)}; give [..., frames] with at least one frame")
    if bank.dim() not in (2, 3) or bank.numel() == 0:
        raise ValueError(f"bank has shape {tuple(bank.shape)}; give [entries, taps] or [entries, outputs, taps], at "
                         "least one of each")
    if mode not in ("full", "causal"):
        raise ValueError(f"mode {mode!r} is unknown; give full or causal")
    if not isinstance(step, numbers.Integral) or step < 1:
        raise ValueError(f"step {step!r} is not a number of frames; give a whole number from 1 on")
    entries, is_known, is_silent = _entries_of(entries, bank.shape[0], x.device)
    try:
        lead = torch.broadcast_shapes(x.shape[:-1], entries.shape[:-1])
    except RuntimeError:
        raise ValueError(f"the leading dimensions of x {tuple(x.shape)} and entries {tuple(entries.shape)} do not "
                         "broadcast; give both the same, or 1") from None
    dtype = torch.float32 if _is_autocast(x.device) else torch.promote_types(x.dtype, bank.dtype)
    n_entries, n_taps = bank.shape[0], bank.shape[-1]
    n_frames = x.shape[-1] + (n_taps - 1 if mode == "full" else 0)
    step = min(int(step), n_frames)
    n_steps = (n_frames + step - 1) // step
    n_rows = lead.numel()
    entries = _fit_steps(entries, n_steps).expand(*lead, n_steps).reshape(n_rows, n_steps)
    lengths = (entries >= 0) * n_taps if is_silent else None  # a filter of length 0 is silent, also a NaN in it
    played = entries.clamp(0, n_entries - 1)
    last = (n_steps - 1) * step + (2 * step if n_steps > 1 else n_frames)  # the end of the last step's row
    padded = torch.nn.functional.pad(x.float(), (n_taps - 1, last - x.shape[-1]))
    padded = padded.expand(*lead, padded.shape[-1]).reshape(n_rows, padded.shape[-1])
    outputs = bank.float().unsqueeze(1) if bank.dim() == 2 else bank.float()
    y = torch.stack([_one_output(padded, output, played, lengths, step, n_frames) for output in outputs.unbind(1)], 1)
    if not is_known:
        beyond = entries >= n_entries
        beyond = torch.cat([beyond[:, :1], beyond[:, 1:] | beyond[:, :-1]], 1).repeat_interleave(step, 1)
        y = y.masked_fill(beyond[:, None, :n_frames], float("nan"))
    return y.reshape(*lead, *bank.shape[1:-1], n_frames).to(dtype)
