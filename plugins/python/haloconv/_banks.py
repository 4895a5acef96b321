"""Bank: responses of moving sources, from files or arrays; entries by direction."""

import contextlib
import ctypes
import functools
import math
import os
import threading
import weakref
from typing import Optional, Tuple, Union

import numpy as np
import numpy.typing as npt

from ._library import (_BankData, _BankOptions, _MAX_MIX, _RenderConfig, _ask_library, _bytes, _floats, _lib,
                       _open_handle, _set, _threads)

Path, PATH_TYPES = Union[str, "os.PathLike[str]"], (str, os.PathLike)


def check_draws(p, normalise):
    """Check the options that all modules with random responses have."""
    if not 0 <= p <= 1:
        raise ValueError(f"p {p} is not a probability; give 0 to 1")
    if normalise not in (None, "peak", "energy"):
        raise ValueError(f"normalise {normalise!r} is unknown; give peak, energy or None")


def position(azimuth: npt.ArrayLike, elevation: npt.ArrayLike = 0.0,
             distance: npt.ArrayLike = 1.0) -> npt.NDArray[np.float64]:
    """Convert a direction to a position: float64 [3], or [..., 3] for arrays of directions."""
    azimuth, elevation = np.deg2rad(azimuth), np.deg2rad(elevation)
    across = distance * np.cos(elevation)
    return np.stack(np.broadcast_arrays(across * np.cos(azimuth), across * np.sin(azimuth),
                                        distance * np.sin(elevation)), -1)


def _xyz(azimuth, elevation, distance):
    """position() of one direction, without NumPy, which is slower than a call of the library."""
    azimuth, elevation = math.radians(azimuth), math.radians(elevation)
    across = distance * math.cos(elevation)
    return across * math.cos(azimuth), across * math.sin(azimuth), distance * math.sin(elevation)


_GRID_NONE = -1


def _gain_db(responses):
    """Largest gain for a sine in dB, within 0.01 dB: spectra of 16 points a frame, with a parabola at the peak."""
    best, n = 0.0, 16 * responses.shape[-1]
    for response in responses.reshape(-1, responses.shape[-1]):
        power = np.abs(np.fft.rfft(response.astype(float), n)) ** 2  # in double precision with every NumPy
        i = int(np.argmax(power))
        a, b, c = power[abs(i - 1)], power[i], power[min(i + 1, len(power) - 1)]
        best = max(best, b + (c - a) ** 2 / (8 * max(2 * b - a - c, 1e-30 + abs(c - a))))
    return 10 * np.log10(max(best, 1e-30))


def _of_pickle(responses, rate, positions, gain_db, notes, onsets=None):
    bank = Bank(responses, rate, positions)
    bank.notes = notes
    if onsets is not None:
        bank._onsets, bank._data.onsets = onsets, onsets.ctypes.data
    if gain_db is not None:
        bank.gain_db = gain_db
    return bank


class Bank:
    """Responses of moving sources: entries, each with a response to every output. It never changes.

    source     path of a file as hc_bank_load of haloconv_scenes.h reads it (SOFA, a CSV list, a folder, a sound file),
               or an array [entries, outputs, taps] or [entries, taps]
    rate       Hz. A file is resampled to it; None keeps the file's. The rate of an array is that of its samples; None:
               unknown, and fits every stream
    positions  of an array: [entries, 3] in metres (see position()), or [entries, 2]: azimuth and elevation
    grid       of a file: interpolate to directions this many degrees apart, 0.5 to 45; 0: keep its entries; None: 2
               degrees, if mixes (Bank.mix) need them. The file's entries come first, with their numbers
    normalise  scale all responses together so that the largest gain is 0 dB

    Attributes: entries, outputs, taps (numbers), rate (None: unknown), positions (float32 [entries, 3] or None),
    gain_db (largest gain for a sine), notes (changes to the file's data), responses (a copy). A pickle holds all of them,
    and needs no file.

    Raises ValueError if a shape does not match, TypeError if the array is complex, Error if the library refuses the
    file (its text names the cause).
    """

    entries: int
    outputs: int
    taps: int
    rate: Optional[int]
    positions: Optional[npt.NDArray[np.float32]]
    notes: str

    def __init__(self, source: Union[Path, npt.ArrayLike], rate: Optional[int] = None,
                 positions: Optional[npt.ArrayLike] = None, grid: Optional[float] = None,
                 normalise: bool = False) -> None:
        self._lock, self._made, self._renderers = threading.Lock(), weakref.WeakValueDictionary(), (None, [])
        if isinstance(source, PATH_TYPES):
            if positions is not None:
                raise ValueError("positions are for arrays; omit them, the file has positions")
            self._load(_bytes("the path", source), rate, grid, normalise)
        else:
            if grid is not None:
                raise ValueError("grid is for files; give an array with all wanted directions")
            self._copy_array(_floats("the bank", source), rate, positions, normalise)
        self.entries, self.outputs, self.taps = self._data.n_entries, self._data.n_out, self._data.n_taps
        self.rate = self._data.rate or None

    def _load(self, path, rate, grid, normalise):
        data = _BankData(size=ctypes.sizeof(_BankData))
        options = _BankOptions(ctypes.sizeof(_BankOptions), 0 if grid is None else grid or _GRID_NONE, bool(normalise), True)
        wanted = ctypes.c_int(rate or 0)
        if wanted.value != (rate or 0):
            raise ValueError(f"rate {rate} is not a whole number of Hz in the library's range; give one")
        _ask_library(_lib.hc_bank_load, path, wanted, ctypes.byref(options), ctypes.byref(data))
        self._data = data
        self.gain_db, self.notes, self.positions = data.gain_db, data.notes.decode(errors="replace"), None
        if data.position:
            shape = ctypes.c_float * 3 * data.n_entries
            self.positions = np.array(shape.from_address(data.position), np.float32)

    def _copy_array(self, responses, rate, positions, normalise):
        if responses.ndim == 2:
            responses = responses[:, None]
        if responses.ndim != 3 or responses.size == 0:
            raise ValueError(f"the bank has shape {responses.shape}; give [entries, outputs, taps] or [entries, taps]")
        if not np.isfinite(responses).all():
            index = ", ".join(map(str, np.argwhere(~np.isfinite(responses))[0]))
            raise ValueError(f"the bank is not finite at [{index}]; give finite numbers")
        self.positions = None
        if positions is not None:
            positions = np.asarray(positions, np.float64)
            if positions.shape not in [(len(responses), 2), (len(responses), 3)] or not np.isfinite(positions).all():
                raise ValueError(f"positions have shape {positions.shape}; give [{len(responses)}, 3] metres or "
                                 f"[{len(responses)}, 2] degrees, all finite")
            if positions.shape[1] == 2:
                positions = position(*positions.T)
            self.positions = np.array(positions, np.float32, order="C")
            self.positions.flags.writeable = False  # the library reads them
        self.notes = ""
        if normalise:
            responses = responses * np.float32(10 ** (-_gain_db(responses) / 20))
            self.gain_db = 0.0
        self._responses = np.array(responses, np.float32, order="C")
        entries, outputs, taps = self._responses.shape
        self._pointers = (self._responses.ctypes.data + np.arange(entries * outputs, dtype=np.uintp) * (4 * taps))
        self._data = _BankData(ctypes.sizeof(_BankData), entries, outputs, taps, taps=self._pointers.ctypes.data)
        if self.positions is not None:
            self._data.position = self.positions.ctypes.data
        if rate is not None:
            _set(self._data, "rate", rate)

    def __del__(self):
        if hasattr(self, "_renderers"):
            for renderer in self._renderers[1]:
                _lib.hc_renderer_close(renderer)
        if hasattr(self, "_data"):
            _lib.hc_bank_data_free(ctypes.byref(self._data))

    def __reduce__(self):
        onsets = None
        if self._data.onsets:
            shape = ctypes.c_double * (self.entries * self.outputs)
            onsets = np.array(shape.from_address(self._data.onsets))
        return _of_pickle, (self.responses, self.rate, self.positions, self.__dict__.get("gain_db"), self.notes, onsets)

    @functools.cached_property
    def gain_db(self) -> float:
        """Largest gain for a sine of any frequency in dB, over all entries and outputs."""
        return _gain_db(self._responses)

    def __repr__(self) -> str:
        return f"<haloconv.Bank of {self.entries} entries, {self.outputs} outputs, {self.taps} taps>"

    @property
    def responses(self) -> npt.NDArray[np.float32]:
        """A copy of the responses: float32 [entries, outputs, taps]."""
        n = self.entries * self.outputs
        pointers = (ctypes.POINTER(ctypes.c_float) * n).from_address(self._data.taps)
        taps = [np.ctypeslib.as_array(pointers[i], (self.taps,)) for i in range(n)]
        return np.stack(taps).reshape(self.entries, self.outputs, self.taps)

    def _find(self, xyz, mix):
        """The entries and weights for a position."""
        if self.positions is None:
            raise ValueError("the bank has no positions; give entries, or make it with positions")
        try:
            point = (ctypes.c_float * 3)(*xyz)
        except (TypeError, IndexError):
            point = ()
        if len(xyz) != 3 or not point or not math.isfinite(sum(point)):
            raise ValueError(f"{xyz} is not a position; give x, y, z in metres")
        if not mix:
            return (_lib.hc_bank_nearest(ctypes.byref(self._data), point),), (1.0,)
        self._index()
        entries, weights = (ctypes.c_int * _MAX_MIX)(), (ctypes.c_float * _MAX_MIX)()
        n = _lib.hc_bank_mix(ctypes.byref(self._data), point, entries, weights)
        return entries[:n], weights[:n]

    def _index(self):
        """Makes the table for mixes; a bank of a file has it."""
        with self._lock:
            if self.positions is not None and not self._data.memory:
                _ask_library(_lib.hc_bank_index, ctypes.byref(self._data))

    def nearest(self, azimuth: float, elevation: float = 0.0, distance: float = 1.0) -> int:
        """Find the entry nearest to a direction: by the angle, then by distance. ValueError without positions."""
        return int(self._find(_xyz(azimuth, elevation, distance), mix=False)[0][0])

    def mix(self, azimuth: float, elevation: float = 0.0,
            distance: float = 1.0) -> Tuple[npt.NDArray[np.intp], npt.NDArray[np.float64]]:
        """Find up to four entries around a direction: (entries, weights), with weights that add up to 1.

        The weights are barycentric in the triangle of entries around the direction. Entries whose responses begin more
        than 20 us apart are not mixed, because that makes a comb filter: the entry with the largest weight remains.
        A file with such entries is therefore interpolated to a grid of 2 degrees. Raises ValueError without positions.
        """
        entries, weights = self._find(_xyz(azimuth, elevation, distance), mix=True)
        return np.asarray(entries), np.asarray(weights)

    def _check_entries(self, entries):
        for entry in entries:
            if not 0 <= entry < self.entries:
                raise ValueError(f"entry {entry} is out of range; the bank has entries 0 to {self.entries - 1}")

    def _prepare(self, engine, key):
        """The hc_bank for an engine; engines with the same key share it."""
        with self._lock:
            prepared = self._made.get(key)
            if prepared is None:
                pointer = _open_handle(_lib.hc_bank_make, engine, ctypes.byref(self._data))
                prepared = self._made[key] = _PreparedBank(pointer)
            return prepared

    @contextlib.contextmanager
    def _renderer(self, backend, step, n_threads):
        """A hc_renderer that no other thread uses. The bank keeps the last arguments' renderers for later calls."""
        n_threads = _threads(n_threads)
        key, renderer = (backend, step, n_threads), None
        with self._lock:
            if self._renderers[0] == key and self._renderers[1]:
                renderer = self._renderers[1].pop()
        if renderer is None:
            config = _RenderConfig(ctypes.sizeof(_RenderConfig), _bytes("backend", backend))
            _set(config, "step", step)
            _set(config, "n_threads", n_threads)
            renderer = _open_handle(_lib.hc_renderer_open, ctypes.byref(config), ctypes.byref(self._data))
        try:
            yield renderer
        finally:
            with self._lock:
                old = []
                if self._renderers[0] != key:
                    old, self._renderers = self._renderers[1], (key, [])
                self._renderers[1].append(renderer)
            for other in old:
                _lib.hc_renderer_close(other)


class _PreparedBank:
    """A bank in the memory of a device. The library frees it once no stream plays it."""

    def __init__(self, pointer):
        self.pointer = pointer

    def __del__(self):
        _lib.hc_bank_free(self.pointer)
