"""convolve_moving: whole signals of moving sources."""

import ctypes
import numbers
import warnings
from typing import Any, Callable, Optional, Sequence, Tuple, Union

import numpy as np
import numpy.typing as npt

from ._banks import Bank
from ._library import _MAX_MIX, _STEP, _RenderJob, _ask_library, _lib, _pointer
from ._streams import _planar, _warn_of_overflow


_Place = Union[int, Sequence[float], npt.NDArray[Any], None]
_WHOLE = (numbers.Integral, np.integer)


def _target(bank, target, mix):
    """Entries and weights of a target: an entry, a position, or None for silence."""
    if target is None:
        return (), ()
    if np.ndim(target) == 0:
        if not isinstance(target, _WHOLE):
            raise ValueError(f"{target!r} is not an entry; give a whole number or x, y, z in metres")
        if target < 0:
            return (), ()
        bank._check_entries([target])
        return (target,), (1.0,)
    return bank._find(target, mix)


def _steps_of_array(path, bank, step, n_sources, mix):
    """Events of an array with a row for each step: entries [steps(, sources)] or positions [steps(, sources), 3]."""
    is_entry = np.issubdtype(path.dtype, np.integer)
    if path.ndim == (1 if is_entry else 2):
        path = path[:, None]
    if path.ndim != (2 if is_entry else 3) or path.shape[1] != n_sources or (not is_entry and path.shape[2] != 3):
        raise ValueError(f"the path has shape {path.shape}; give whole numbers [steps, {n_sources}] or positions "
                         f"[steps, {n_sources}, 3]")
    changes = np.ones(path.shape[:2], bool)
    changes[1:] = path[1:] != path[:-1] if is_entry else (path[1:] != path[:-1]).any(2)
    if is_entry:
        bank._check_entries(path[path >= bank.entries][:1])
    for i, source in np.argwhere(changes).tolist():
        target = path[i, source]
        if not is_entry:
            yield i * step, source, _target(bank, target, mix)
        else:
            yield i * step, source, ((target,), (1.0,)) if target >= 0 else ((), ())


def _steps_of_list(path, bank, rate, mix):
    """Events of a list of (time, source, target)."""
    for event in path:
        try:
            time, source, target = event
        except (TypeError, ValueError):
            raise ValueError(f"{event!r} is not a change of a path; give (time, source, target)") from None
        if not isinstance(time, _WHOLE):
            if not np.isfinite(time):
                raise ValueError(f"{time} is not a time of a path; give seconds or frames")
            time = round(time * _rate_of_path(rate))
        yield time, source, _target(bank, target, mix)


def _rate_of_path(rate):
    if not rate:
        raise ValueError("a path in seconds needs a rate; give rate=, or a Bank with a rate")
    return rate


def _steps(path, bank, step, rate, mix, n_sources, n):
    """The hc_steps of a path, sorted by frame."""
    if callable(path):
        rate = _rate_of_path(rate)
        events = [(frame, source, _target(bank, path(frame / rate, source), mix)) for frame in range(0, n, step)
                  for source in range(n_sources)]
    elif isinstance(path, np.ndarray) or (len(path) and all(isinstance(entry, _WHOLE) for entry in path)):
        events = _steps_of_array(np.asarray(path), bank, step, n_sources, mix)
    else:
        events = _steps_of_list(path, bank, rate, mix)
    rows, none = [], (0,) * _MAX_MIX
    for frame, source, (entries, weights) in events:
        if not 0 <= source < n_sources:
            raise ValueError(f"source {source} of the path is out of range; the sound has {n_sources} channels")
        k = len(entries)
        rows.append((frame, source, k, (*entries, *none[k:]), (*weights, *none[k:])))
    return np.array(sorted(rows, key=lambda row: row[0]), _STEP)


def convolve_moving(x: npt.ArrayLike, bank: Union[Bank, npt.ArrayLike],
                    path: Union[Sequence[Tuple[float, int, _Place]], Callable[[float, int], _Place], Sequence[int],
                                npt.NDArray[Any]],
                    step: int = 256, mode: str = "full", mix: bool = True, rate: Optional[int] = None,
                    backend: str = "auto", n_threads: int = 0) -> npt.NDArray[np.float32]:
    """Convolve a sound of N frames with responses that change along a path; the same call gives the same output.

    x        [frames] or [frames, sources]; the outputs of all sources are added
    bank     a Bank, or an array [entries, outputs, taps]
    path     targets of the sources. A target is the number of an entry (below 0: silence), a position (x, y, z) in
             metres, or None for silence. Give one of
               a list of (time, source, target): a float is a time in seconds, a whole number is a frame
               a function of (seconds, source) that returns a target; it is called for each step and source
               an array with a row for each step: whole numbers [steps] or [steps, sources], or positions [steps, 3] or
               [steps, sources, 3]. The last row stays
             A source is silent until its first target.
    step     frames between two changes, 16 to 65536. From the first multiple of `step` at or after its time, a source
             fades to its new target, linearly over one step; a target at frame 0 or before plays without a fade
    mode     "full": N + taps - 1 frames; "causal": the first N of them
    mix      True: a position plays the mix of the entries around it (Bank.mix); False: the nearest entry, which is
             faster, and steps as a source moves
    rate     Hz, for paths in seconds; None: the bank's
    backend  "auto", "cpu", "cuda", "cuda:1"
    n_threads  CPU threads; 0: this process's share, see help(haloconv). The output does not depend on it

    Returns float32 [frames] if x has one dimension and the bank one output, else [frames, outputs]. NaN and infinite
    samples in x count as 0 and cause a RuntimeWarning with their number, and so do samples of the result beyond the
    range of a float32. Threads may call this with the same bank.
    haloconv.torch.convolve_moving does the same for tensors, with gradients.

    Raises ValueError if a shape, the mode or the path is wrong, or the rate is not the bank's; TypeError if x is
    complex; Error if the library refuses (no such device, no memory).
    """
    if mode not in ("full", "causal"):
        raise ValueError(f"mode {mode!r} is unknown; give full or causal")
    if step < 1:
        raise ValueError(f"step {step} is too small; give 16 to 65536")
    if not isinstance(bank, Bank):
        bank = Bank(bank)
    if rate and bank.rate and rate != bank.rate:
        raise ValueError(f"the bank is for {bank.rate} Hz, but rate is {rate}; make a Bank with rate={rate}")
    planar = _planar(x)
    is_finite = np.isfinite(planar)
    if not is_finite.all():
        warnings.warn(f"{(~is_finite).sum()} samples of the sound are NaN or infinite and count as 0", RuntimeWarning,
                      stacklevel=2)
        planar = np.where(is_finite, planar, np.float32(0))
    n_sources, n = planar.shape
    n_frames = n + (bank.taps - 1 if mode == "full" else 0)
    out = np.zeros((bank.outputs, n_frames), np.float32)
    steps = _steps(path, bank, step, rate or bank.rate, mix, n_sources, n)
    ins = (_pointer * n_sources)(*(planar.ctypes.data + 4 * n * i for i in range(n_sources)))
    outs = (_pointer * bank.outputs)(*(out.ctypes.data + 4 * n_frames * i for i in range(bank.outputs)))
    job = _RenderJob(n_sources=n_sources, n_in_frames=n, steps=steps.ctypes.data, n_steps=len(steps),
                     step_size=_STEP.itemsize, n_out_frames=n_frames, out=ctypes.addressof(outs))
    setattr(job, "in", ctypes.addressof(ins))
    with bank._renderer(backend, step, n_threads) as renderer:
        _ask_library(_lib.hc_render, renderer, ctypes.byref(job), ctypes.sizeof(job), 1)
    overflowed = ~np.isfinite(out)
    if overflowed.any():
        _warn_of_overflow(overflowed.sum())
        out[overflowed] = 0
    return out[0] if np.ndim(x) == 1 and bank.outputs == 1 else out.T
