"""Stream and Mask: convolvers with state between calls; convolve(): whole signals."""

import contextlib
import ctypes
import threading
import warnings
from functools import partial
from typing import Any, Dict, List, Optional, Sequence, TypeVar, Union, overload

import numpy as np
import numpy.typing as npt

from ._arrays import HostArray, check_channels, convolve_columns, device_of, on_cpu, on_gpu
from ._banks import Bank, _xyz
from ._library import (Error, _Config, _Info, _Level, _MAX_MIX, _Route, _SteerLevel, _bytes, _floats, _lib,
                       _open_handle, _pointer, _set, _threads)

BLOCK_FILES = -1   # Stream(block): for files; the engine chooses the block
NO_FADE = -1       # Stream(fade_frames): no crossfade
WAIT_FOREVER = -1  # Stream(wait_us): wait until the device is done
WAIT_NONE = -2     # Stream(wait_us): a block that is not done yet is late
_ENGINE_FRAMES = 1 << 24  # convolve() of more frames and taps (of all pairs) opens an engine: less memory, as fast


# ---- responses ------------------------------------------------------------------------------------------------------
def _routes(h, n_in):
    """Apply the channel rule of convolve() to h: ([(input, output, taps [frames]), ...], n_out)."""
    h = _floats("h", h)
    check_channels(h.shape, n_in)
    if h.ndim == 3:
        taps = np.require(h.transpose(1, 2, 0), np.float32, "CA")
        return [(i, o, taps[i, o]) for o in range(h.shape[2]) for i in range(n_in)], h.shape[2]
    taps = np.require(h.reshape(len(h), -1).T, np.float32, "CA")
    m = len(taps)
    if n_in == 1:
        return [(0, o, taps[o]) for o in range(m)], m
    if m in (1, n_in):
        return [(i, i, taps[i % m]) for i in range(n_in)], n_in
    return [(r // 2, r % 2, taps[r]) for r in range(4)], 2  # true stereo


def _warn_of_overflow(n):
    warnings.warn(f"{n} samples of the result are beyond the range of a float32 and count as 0; lower the level of the "
                  "sound or of the response", RuntimeWarning, stacklevel=3)


def _planar(x):
    """Convert [frames] or [frames, channels] to contiguous float32 [channels, frames]."""
    x = _floats("the sound", x)
    if x.ndim not in (1, 2) or (x.ndim == 2 and x.shape[1] == 0):
        raise ValueError(f"the sound has shape {x.shape}; give [frames] or [frames, channels]")
    return np.require(x[None, :] if x.ndim == 1 else x.T, np.float32, "CA")  # A: C reads aligned floats


class Mask:
    """Impulse responses prepared for one Stream, by Stream.mask(). Freed with the stream, or when Python forgets it."""

    def __init__(self, stream: "Stream", pointer: Any) -> None:
        self._stream, self._pointer = stream, pointer

    def __del__(self):
        with contextlib.suppress(ValueError), self._stream._open() as engine:  # a closed stream has freed it
            _lib.hc_mask_free(engine, self._pointer)

    def __reduce__(self):
        raise TypeError("a Mask belongs to its Stream and cannot be pickled; send the responses")


_Self = TypeVar("_Self", bound="Stream")


# ---- streams --------------------------------------------------------------------------------------------------------
class Stream:
    """A convolver that runs until it is closed. 0 and None mean the default of hc_config in haloconv.h.

    n_in, n_out  channels; n_in None: `sources`, or 2; n_out None: as many as the bank's outputs, or as n_in
    max_taps     longest response of a mask in frames; sets the memory. None: 48000, or 1 if all inputs are sources
    rate         Hz; the bank's must be the same. Backend "auto" and the levels of steered sources depend on it. None:
                 the bank's, or 48000
    block        max. frames that the engine processes at once; for live audio that of the sound card; BLOCK_FILES: the
                 engine chooses one for files
    n_routes     number of (input, output) pairs that a mask will have, a hint; 0: one a channel
    wait_us      longest wait for a GPU in microseconds, WAIT_FOREVER or WAIT_NONE
    fade_frames  crossfade of a swap; NO_FADE
    n_frames     length of the whole sound, a hint for backend "auto"; 0: unknown
    backend      "auto", "cpu", "cuda", "cuda:1", "hybrid" (head on the CPU, tail levels on the GPU)
    method       "auto", "direct" (time domain), "fft" (partitions)
    n_threads    CPU threads with BLOCK_FILES; 0: this process's share, help(haloconv). The output does not depend on it
    spin         1: the thread that serves a GPU keeps a core busy between blocks, and blocks return some us sooner
    sources      number of moving sources, which are the first inputs. They are silent until steer() moves them
    bank         a Bank for them, or None: add_bank() adds banks later
    bank_taps    longest response of a bank in frames; sets the memory. None: the bank's, or 48000
    steer_fade   frames of a source's fade; 0: one block

    Raises Error if the engine cannot be opened (its text names the cause), ValueError for a number that is too large or
    a bank that does not fit. Attributes: n_in, n_out, max_taps, rate, sources. A closed stream raises ValueError in
    every call.
    """

    n_in: int
    n_out: int
    max_taps: int
    rate: int
    sources: int
    _engine = None  # closed, or not open yet

    def __init__(self, n_in: Optional[int] = None, n_out: Optional[int] = None, max_taps: Optional[int] = None,
                 rate: Optional[int] = None, block: int = 64, n_routes: int = 0, wait_us: int = WAIT_FOREVER,
                 fade_frames: int = 512, n_frames: int = 0, backend: str = "auto", method: str = "auto",
                 n_threads: int = 0, spin: int = 0, sources: int = 0, bank: Optional[Bank] = None,
                 bank_taps: Optional[int] = None, steer_fade: int = 0) -> None:
        if bank is not None and not sources:
            raise ValueError("a bank needs sources; give sources=1 or more")
        if n_in is None and sources:
            n_in = sources
        if n_out is None:
            n_out = bank.outputs if bank is not None else n_in
        if max_taps is None and sources and sources == n_in:
            max_taps = 1
        if bank is not None:
            rate, bank_taps = rate or bank.rate, bank_taps or bank.taps
        config = _Config()
        _lib.hc_config_init(ctypes.byref(config))
        wanted = {**locals(), "n_sources": sources, "backend": _bytes("backend", backend),
                  "method": _bytes("method", method), "n_threads": _threads(n_threads)}
        for name, _ in _Config._fields_:
            if wanted.get(name):  # other fields keep the library's defaults
                _set(config, name, wanted[name])
        self._engine, self._playing, self._users = _open_handle(_lib.hc_open, ctypes.byref(config)), None, 0
        self._left, self._turn, self._adding = threading.Condition(), threading.Lock(), threading.Lock()
        self._banks, self._bank = {}, None
        self.n_in, self.n_out, self.max_taps = config.n_in, config.n_out, config.max_taps
        self.rate, self.sources = config.rate, config.n_sources
        info = self.info
        self._block = info["block"]
        self._device = (info["backend"], info["device"], config.rate, config.block, config.bank_taps, config.steer_fade)
        if bank is not None:
            try:
                self.add_bank(bank)
            except BaseException:
                self.close()
                raise

    def __reduce__(self):
        raise TypeError("a Stream has an engine and cannot be pickled; open one in each process")

    def __enter__(self: _Self) -> _Self:
        with self._open():
            return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextlib.contextmanager
    def _open(self):
        """Hold the engine during a call; close() waits until no call holds it."""
        with self._left:
            self._users += 1
        try:
            if not self._engine:
                raise ValueError("the stream is closed; open another one")
            yield self._engine
        finally:
            with self._left:
                self._users -= 1
                self._left.notify_all()

    def close(self) -> None:
        """Wait for the calls of other threads, then free the engine and its masks. Closing again does nothing."""
        if not self._engine:
            return
        with self._left:
            engine, self._engine = self._engine, None
            while self._users:
                self._left.wait()
        if engine:
            _lib.hc_close(engine)
            self._banks.clear()

    __del__ = close

    def mask(self, h: npt.ArrayLike, gain: float = 1.0, delay: int = 0) -> Mask:
        """Prepare impulse responses and return a Mask; a thread may do this while another runs process().

        h      [frames], [frames, M] or [frames, inputs, outputs], as in convolve(); at most max_taps frames
        gain   linear
        delay  frames of silence before every response; delay and frames together are at most max_taps

        Raises ValueError if the shape does not match the stream's channels, TypeError if h is complex, Error if the
        library refuses it (too long, NaN or infinite samples, no memory).
        """
        pairs, n_out = _routes(h, self.n_in)
        if n_out != self.n_out:
            raise ValueError(f"h makes {n_out} outputs, but the stream has {self.n_out}; open it with n_out={n_out}")
        routes = (_Route * len(pairs))()
        for route, (i, o, taps) in zip(routes, pairs):
            setattr(route, "in", i)
            route.out, route.taps, route.n_taps, route.gain = o, taps.ctypes.data, len(taps), gain
            _set(route, "delay", delay)
        with self._open() as engine:
            return Mask(self, _open_handle(_lib.hc_mask_make, engine, routes, ctypes.sizeof(_Route), len(pairs)))

    def swap(self, mask: Union[Mask, npt.ArrayLike, None]) -> None:
        """Crossfade to a mask, from the next process() on. The last of several swaps before it counts.

        mask  a Mask of this stream, an array as for mask(), or None for silence. Raises ValueError for the Mask of
              another stream, and whatever mask() raises.
        """
        if mask is not None and not isinstance(mask, Mask):
            mask = self.mask(mask)
        if mask is not None and mask._stream is not self:
            raise ValueError("the mask belongs to another stream; make one with this stream's mask()")
        with self._open() as engine:
            _lib.hc_mask_swap(engine, mask._pointer if mask else None)
        self._playing = mask  # keeps the mask alive while it plays

    def add_bank(self, bank: Bank) -> None:
        """Copy a Bank to the engine's device, for steer(); a thread may do this while another runs process().

        Streams of the same device, rate, block, bank_taps and steer_fade share the copy. Raises ValueError if the bank
        has another rate or more outputs than the stream, Error if the library refuses it (longer than bank_taps, no
        memory).
        """
        if bank.rate and bank.rate != self.rate:
            raise ValueError(f"the bank is for {bank.rate} Hz, but the stream has {self.rate}; make a Bank with "
                             f"rate={self.rate}")
        if bank.outputs > self.n_out:
            raise ValueError(f"the bank has {bank.outputs} outputs, but the stream has {self.n_out}; open it with "
                             f"n_out={bank.outputs}")
        with self._open() as engine, self._adding:
            self._banks[bank] = bank._prepare(engine, self._device)
            bank._index()  # not in the first steer(), which may be between two blocks
            self._bank = bank

    def drop_bank(self, bank: Bank) -> None:
        """Release a bank's copy; its memory is freed when no source plays it. A closed stream drops all banks."""
        with self._open(), self._adding:
            self._banks.pop(bank, None)
            if self._bank is bank:
                self._bank = None

    def steer(self, source: int, entry: Optional[int] = None, *, azimuth: Optional[float] = None,
              elevation: float = 0.0, distance: float = 1.0, xyz: Union[Sequence[float], npt.NDArray[Any], None] = None,
              entries: Union[Sequence[int], npt.NDArray[Any], None] = None,
              weights: Union[Sequence[float], npt.NDArray[Any], None] = None, gain: float = 1.0, mix: bool = True,
              bank: Optional[Bank] = None) -> None:
        """Fade a source to other responses of a bank, from the next block on. Any thread may call this, as often as it
        likes; the call copies nothing and needs some microseconds. The last of several calls before a block counts.

        source     0 to sources - 1
        entry      number of an entry; or, instead of it,
        azimuth, elevation, distance   the entries around this direction, at the nearest distance
        xyz        the entries around this position, in metres
        entries    up to four numbers of entries, with `weights` (None: 1 for each); []: silence
        gain       linear; the distance itself changes no level
        mix        True: a mix of the entries around a direction (Bank.mix); False: the nearest entry (Bank.nearest)
        bank       a bank of add_bank(); None: the last one

        The first taps of the responses change with the next block, later ones after the delays of `steer_levels`.
        Raises ValueError if a number is out of range, the bank has no positions, or the stream does not have the bank.
        """
        given = [name for name, value in [("entry", entry), ("azimuth", azimuth), ("xyz", xyz), ("entries", entries)]
                 if value is not None]
        if len(given) != 1:
            raise ValueError(f"the target is {' and '.join(given) or 'missing'}; give one of entry, azimuth, xyz, "
                             "entries")
        if weights is not None and entries is None:
            raise ValueError(f"weights belong to entries, not to {given[0]}; use gain")
        if not 0 <= source < self.sources:
            raise ValueError(f"source {source} is out of range; the stream has {self.sources} sources")
        bank = self._bank if bank is None else bank
        with self._open() as engine:
            prepared = self._banks.get(bank)
            if prepared is None:
                raise ValueError("the stream does not have this bank; add it with add_bank()")
            if entry is not None:
                entries = [entry]
            elif entries is None:
                entries, weights = bank._find(_xyz(azimuth, elevation, distance) if xyz is None else xyz, mix)
            n = len(entries)
            weights = [1.0] * n if weights is None else weights
            if n > _MAX_MIX or len(weights) != n:
                raise ValueError(f"there are {n} entries and {len(weights)} weights; give at most {_MAX_MIX} entries "
                                 "and a weight for each")
            bank._check_entries(entries)
            code = _lib.hc_steer(engine, source, prepared.pointer, (ctypes.c_int * n)(*map(int, entries)),
                                 (ctypes.c_float * n)(*(gain * weight for weight in weights)), n)
        if code < 0:
            raise ValueError("a weight or the gain is not a finite number; give finite ones")

    def process(self, x: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """Convolve the next frames of the sound; continues where the last call ended.

        x  [frames] if n_in is 1, or [frames, n_in]; any number of frames. NaN and infinite samples count as 0,
           and samples beyond 2**100 (1.27e30) unless block is BLOCK_FILES; info["non_finite"] is their number.
           A result beyond the range of a float32 is 0; info["overflowed"] is the number of such samples.

        Returns float32 [frames] if x has one dimension and n_out is 1, else [frames, n_out].

        A block that the device does not deliver within wait_us is silence or, with "hybrid", lacks its tail; it counts
        as info["late"]. Raises Error if the device is lost, ValueError for another number of channels, TypeError if x
        is complex.
        """
        planar = _planar(x)
        if planar.shape[0] != self.n_in:
            raise ValueError(f"the sound has {planar.shape[0]} channels, but the stream has {self.n_in} inputs; "
                             f"give [frames, {self.n_in}]")
        n = planar.shape[1]
        out = np.empty((self.n_out, n), np.float32)
        ins, outs = (_pointer * self.n_in)(), (_pointer * self.n_out)()
        with self._open() as engine, self._turn:
            for at in range(0, n, self._block):
                for ch in range(self.n_in):
                    ins[ch] = planar.ctypes.data + 4 * (ch * n + at)
                for ch in range(self.n_out):
                    outs[ch] = out.ctypes.data + 4 * (ch * n + at)
                code = _lib.hc_process(engine, ins, outs, min(self._block, n - at))
                if code < 0:
                    raise Error(code, self.info["error"])
        return out[0] if np.ndim(x) == 1 and self.n_out == 1 else out.T

    def reset(self) -> None:
        """Clear the input history and end all fades; the mask and the positions of sources stay."""
        with self._open() as engine, self._turn:
            _lib.hc_reset(engine)

    @property
    def latency(self) -> int:
        """Added latency in frames: 0."""
        with self._open():
            return 0

    @property
    def info(self) -> Dict[str, Any]:
        """The engine's properties and counters: a dict with the names of hc_info in haloconv.h."""
        info = _Info(size=ctypes.sizeof(_Info))
        with self._open() as engine:
            _lib.hc_get_info(engine, ctypes.byref(info))
        values = {name: getattr(info, name) for name, _ in _Info._fields_ if name != "size"}
        levels = [{name: getattr(level, name) for name, _ in _Level._fields_} for level in info.levels[:info.n_levels]]
        steer_levels = [{name: getattr(level, name) for name, _ in _SteerLevel._fields_}
                        for level in info.steer_levels[:info.n_steer_levels]]
        texts = {name: value.decode(errors="replace") for name, value in values.items() if isinstance(value, bytes)}
        return {**values, **texts, "levels": levels, "steer_levels": steer_levels}

    @property
    def steer_levels(self) -> List[Dict[str, int]]:
        """The delays with which responses of moving sources change: a dict for each range of taps (`offset`, `n_taps`).

        At frames that are multiples of `hop` a level applies the last steer(); its fade begins `delay` frames later and
        lasts `fade` frames, or over several hops if steer_fade is longer than the hop. The first level is the head.
        """
        return self.info["steer_levels"]


@overload
def convolve(x: HostArray, h: HostArray, mode: str = ..., backend: str = ..., method: str = ...,
             n_threads: int = ..., rate: int = ...) -> npt.NDArray[np.float32]:
    ...


@overload
def convolve(x: Any, h: Any, mode: str = ..., backend: str = ..., method: str = ..., n_threads: int = ...,
             rate: int = ...) -> Any:
    ...


def convolve(x: Any, h: Any, mode: str = "full", backend: str = "auto", method: str = "auto", n_threads: int = 0,
             rate: int = 48000) -> Any:
    """Convolve a sound of N frames with impulse responses of K frames (linear convolution).

    x     [frames] or [frames, channels]
    h     [frames] or [frames, M]. M = 1: the same response for every channel. M = channels: one response for each.
          One channel in x: M outputs. Two channels and M = 4: true stereo, in the order L>L L>R R>L R>R.
          Or [frames, inputs, outputs]: a matrix of responses.
    mode  "full": N + K - 1 frames; "causal": the first N of them; "same": N of them from (K - 1) // 2 on, as in scipy
    backend, method, n_threads, rate: as for Stream. "auto" opens no engine if (N + K) times the number of pairs of an
          input and an output is less than 2^24: they are convolved as by convolve_tensors() on the CPU, where method
          and rate mean nothing

    Returns float32 [frames] if x and h have one dimension, else [frames, outputs]. NaN and infinite samples in x count
    as 0 and cause a RuntimeWarning with their number, and so do samples of the result beyond the range of a float32.

    x and h may be arrays on a CUDA GPU: CuPy, JAX, torch, anything with `__dlpack__`, both on one device. The result is
    of that kind, on that device; streams and copies are as in convolve_tensors(), plus a copy of arrays
    [frames, channels], whose frames are not adjacent. NaN and infinite samples pass through there. A matrix of
    responses needs the memory of inputs x outputs channels. method, n_threads and rate change nothing.

    Raises ValueError if a shape or the mode is wrong, TypeError if x or h is complex, Error if the library refuses
    (NaN or infinite samples in h, no such device, no memory).
    """
    if mode not in ("full", "causal", "same"):
        raise ValueError(f"mode {mode!r} is unknown; give full, causal or same")
    device = device_of(x)
    if device is not None or device_of(h) is not None:
        if backend not in ("auto", "cuda", f"cuda:{device}"):
            raise ValueError(f"backend {backend!r} cannot convolve arrays on a GPU; move them to the CPU")
        return convolve_columns(x, h, mode, on_gpu)
    planar = _planar(x)
    n_in, n = planar.shape
    if n_in > 64 and n_in > n:
        warnings.warn(f"the sound has {n_in} channels of {n} frames; give [frames, channels], or convolve_tensors() "
                      "[..., frames]", stacklevel=2)
    pairs, n_out = _routes(h, n_in)
    taps = len(pairs[0][2])
    if backend in ("auto", "cpu") and method == "auto" and n > 0 and len(pairs) * (n + taps) < _ENGINE_FRAMES:
        _set(_Config(), "rate", rate or 0)
        if rate and rate < 1:
            raise Error(-1, f"rate is {rate} Hz; give a positive rate")  # HC_EINVAL, as an engine says it
        responses = _floats("h", h)
        if np.isfinite(planar).all() and np.isfinite(responses).all():  # an engine counts them, or refuses them
            sound = planar[0] if np.ndim(x) == 1 else planar.T
            y = convolve_columns(sound, responses, mode, partial(on_cpu, n_threads=n_threads))
            if np.isfinite(y).all():  # an engine replaces an overflow by 0, and counts it
                return y
    skip = (taps - 1) // 2 if mode == "same" else 0
    end = skip + n + (taps - 1 if mode == "full" else 0)
    with Stream(n_in, n_out, max_taps=taps, rate=rate, block=BLOCK_FILES, n_routes=len(pairs), fade_frames=NO_FADE,
                n_frames=end, backend=backend, method=method, n_threads=n_threads) as stream:
        stream.swap(h)
        info = stream.info
        step = info["partition"] if info["n_partitions"] else 1
        padded = np.zeros((n_in, -(-end // step) * step), np.float32)  # whole partitions are faster
        padded[:, :n] = planar
        y = stream.process(padded.T)
        non_finite, overflowed = stream.info["non_finite"], stream.info["overflowed"]
    if overflowed:
        _warn_of_overflow(overflowed)
    if non_finite:
        warnings.warn(f"{non_finite} samples of the sound are NaN or infinite and count as 0", RuntimeWarning,
                      stacklevel=2)
    y = y[skip:end]
    return y[:, 0] if np.ndim(x) == 1 and np.ndim(h) == 1 else y
