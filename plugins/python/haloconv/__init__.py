"""haloconv - convolves NumPy arrays of audio with FIR filters and impulse responses, on the CPU or a CUDA GPU.

    import haloconv
    y = haloconv.convolve(x, h)                         # x [frames] or [frames, channels], h likewise
    with haloconv.Stream(n_in=2, n_out=2, max_taps=48000, block=256) as stream:
        stream.swap(h)                                  # crossfades; keeps the input history
        y = stream.process(x)                           # any number of frames, no added latency

    bank = haloconv.Bank("kemar.sofa", rate=48000)      # responses from many directions
    y = haloconv.convolve_moving(x, bank, lambda t, source: haloconv.position(90 * t))  # 90 degrees a second
    with haloconv.Stream(sources=2, bank=bank) as stream:
        stream.steer(0, azimuth=30)                     # any thread, at any time; stream.process(x) plays on

Sound is float32 with a row for each frame and a column for each channel, as in the module soundfile; other real types
are converted. All backends give the same result, within -120 dB of the output's peak.

Directions: azimuth in degrees from straight ahead, counter-clockwise (90: left), elevation in degrees (90: above),
distance in metres. Positions: x ahead, y left, z up of the listener, in metres.

Threads may share a Stream. mask(), add_bank() and steer() may run while process() runs; calls of process() take turns;
close() waits for all of them. Threads may share a Bank. Calls release the interpreter's lock.

The module calls libhaloconv.so through ctypes. It searches for the library in $HALOCONV_LIBRARY, beside itself (in
a wheel), in the folders above an installed module, in the build folder of the source tree, and in the system's library
path.
"""

import contextlib
import ctypes
import functools
import math
import numbers
import os
import pathlib
import threading
import warnings
import weakref

import numpy as np

__all__ = ["convolve", "convolve_moving", "Stream", "Mask", "Bank", "position", "Error", "devices", "version",
           "BLOCK_FILES", "NO_FADE", "WAIT_FOREVER", "WAIT_NONE"]

BLOCK_FILES = -1   # Stream(block): for files; the engine chooses the block
NO_FADE = -1       # Stream(fade_frames): no crossfade
WAIT_FOREVER = -1  # Stream(wait_us): wait until the device is done
WAIT_NONE = -2     # Stream(wait_us): a block that is not done yet is late


class Error(RuntimeError):
    """The library refused a call. The text is the library's; `code` is a negative value of enum hc_error."""

    def __init__(self, code, text):
        super().__init__(text or _lib.hc_strerror(code).decode())
        self.code = code


# ---- the structs and calls of haloconv.h and haloconv_scenes.h in dsp/; tests/plugins/test_python.py compares them ---
class _Config(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("rate", ctypes.c_int), ("block", ctypes.c_int), ("n_in", ctypes.c_int),
                ("n_out", ctypes.c_int), ("max_taps", ctypes.c_int), ("n_routes", ctypes.c_int),
                ("wait_us", ctypes.c_int), ("fade_frames", ctypes.c_int), ("n_frames", ctypes.c_int64),
                ("backend", ctypes.c_char_p), ("method", ctypes.c_char_p),
                ("in_samples", ctypes.c_int), ("out_samples", ctypes.c_int), ("queue_depth", ctypes.c_int),
                ("n_threads", ctypes.c_int), ("spin", ctypes.c_int), ("reserved", ctypes.c_int),
                ("n_sources", ctypes.c_int), ("bank_taps", ctypes.c_int), ("steer_fade", ctypes.c_int),
                ("reserved2", ctypes.c_int)]


class _Route(ctypes.Structure):
    _fields_ = [("in", ctypes.c_int), ("out", ctypes.c_int), ("taps", ctypes.c_void_p), ("n_taps", ctypes.c_int),
                ("gain", ctypes.c_float), ("delay", ctypes.c_int)]


class _Level(ctypes.Structure):
    _fields_ = [("offset", ctypes.c_int), ("n_taps", ctypes.c_int), ("size", ctypes.c_int),
                ("n_partitions", ctypes.c_int), ("n_slices", ctypes.c_int)]


class _SteerLevel(ctypes.Structure):
    _fields_ = [("offset", ctypes.c_int), ("n_taps", ctypes.c_int), ("hop", ctypes.c_int), ("delay", ctypes.c_int),
                ("fade", ctypes.c_int)]


class _Info(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("block", ctypes.c_int), ("partition", ctypes.c_int),
                ("n_partitions", ctypes.c_int), ("queue_depth", ctypes.c_int), ("in_samples", ctypes.c_int),
                ("out_samples", ctypes.c_int), ("backend", ctypes.c_char_p), ("method", ctypes.c_char_p),
                ("device", ctypes.c_char * 128), ("hop", ctypes.c_int), ("n_levels", ctypes.c_int),
                ("levels", _Level * 25), ("bytes_a_frame", ctypes.c_double), ("flops_a_frame", ctypes.c_double),
                ("cost_ns", ctypes.c_double), ("measured", ctypes.c_int), ("memory", ctypes.c_uint64),
                ("blocks", ctypes.c_uint64), ("frames", ctypes.c_uint64), ("late", ctypes.c_uint64),
                ("non_finite", ctypes.c_uint64), ("clipped", ctypes.c_uint64), ("peak", ctypes.c_float),
                ("swaps", ctypes.c_uint64), ("swap_frame", ctypes.c_uint64), ("swap_delay", ctypes.c_int),
                ("swap_usual", ctypes.c_int), ("n_device_levels", ctypes.c_int), ("error", ctypes.c_char * 256),
                ("n_sources", ctypes.c_int), ("n_steer_levels", ctypes.c_int), ("steer_levels", _SteerLevel * 4),
                ("bank_memory", ctypes.c_uint64)]


class _BankData(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("n_entries", ctypes.c_int), ("n_out", ctypes.c_int),
                ("n_taps", ctypes.c_int), ("rate", ctypes.c_int), ("taps", ctypes.c_void_p),
                ("position", ctypes.c_void_p), ("gain_db", ctypes.c_float), ("file_rate", ctypes.c_int),
                ("n_file_entries", ctypes.c_int), ("notes", ctypes.c_char_p), ("memory", ctypes.c_void_p)]


class _BankOptions(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("grid_deg", ctypes.c_double), ("normalise", ctypes.c_int)]


class _RenderConfig(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("backend", ctypes.c_char_p), ("step", ctypes.c_int),
                ("n_threads", ctypes.c_int)]


class _RenderJob(ctypes.Structure):
    _fields_ = [("n_sources", ctypes.c_int), ("in", ctypes.c_void_p), ("in_from", ctypes.c_int64),
                ("n_in_frames", ctypes.c_int64), ("steps", ctypes.c_void_p), ("n_steps", ctypes.c_int),
                ("out", ctypes.c_void_p), ("from", ctypes.c_int64), ("n_out_frames", ctypes.c_int64)]


_MOST_MIX = 4  # HC_MOST_MIX
_STEP = np.dtype([("frame", np.int64), ("source", np.intc), ("n", np.intc), ("entry", np.intc, _MOST_MIX),
                  ("weight", np.float32, _MOST_MIX)], align=True)  # hc_step


def _load():
    here = pathlib.Path(__file__).resolve()
    places = [os.environ.get("HALOCONV_LIBRARY"), here.with_name("libhaloconv.so"),
              *(p / "libhaloconv.so.1" for p in list(here.parents)[2:5]),
              here.parents[3] / "build/libhaloconv.so" if len(here.parents) > 3 else None]
    for place in places:
        if place and pathlib.Path(place).exists():
            return ctypes.CDLL(str(place))
    return ctypes.CDLL("libhaloconv.so.1")


_lib = _load()
_pointer, _text = ctypes.c_void_p, ctypes.c_char_p
for _name, _result, _arguments in [
        ("hc_version", _text, []),
        ("hc_strerror", _text, [ctypes.c_int]),
        ("hc_config_init", None, [ctypes.POINTER(_Config)]),
        ("hc_open", ctypes.c_int, [ctypes.POINTER(_Config), ctypes.POINTER(_pointer), _text, ctypes.c_size_t]),
        ("hc_close", None, [_pointer]),
        ("hc_mask_make", ctypes.c_int, [_pointer, ctypes.POINTER(_Route), ctypes.c_int, ctypes.POINTER(_pointer), _text,
                                        ctypes.c_size_t]),
        ("hc_mask_free", None, [_pointer, _pointer]),
        ("hc_mask_swap", ctypes.c_int, [_pointer, _pointer]),
        ("hc_process", ctypes.c_int, [_pointer, _pointer, _pointer, ctypes.c_int]),
        ("hc_reset", None, [_pointer]),
        ("hc_latency", ctypes.c_int, [_pointer]),
        ("hc_get_info", ctypes.c_int, [_pointer, ctypes.POINTER(_Info)]),
        ("hc_list_devices", ctypes.c_int, [ctypes.c_int, _text, ctypes.c_size_t]),
        ("hc_bank_load", ctypes.c_int, [_text, ctypes.c_int, ctypes.POINTER(_BankOptions), ctypes.POINTER(_BankData),
                                        _text, ctypes.c_size_t]),
        ("hc_bank_data_free", None, [ctypes.POINTER(_BankData)]),
        ("hc_bank_nearest", ctypes.c_int, [ctypes.POINTER(_BankData), _pointer]),
        ("hc_bank_mix", ctypes.c_int, [ctypes.POINTER(_BankData), _pointer, _pointer, _pointer]),
        ("hc_bank_make", ctypes.c_int, [_pointer, ctypes.POINTER(_BankData), ctypes.POINTER(_pointer), _text,
                                        ctypes.c_size_t]),
        ("hc_bank_free", None, [_pointer]),
        ("hc_steer", ctypes.c_int, [_pointer, ctypes.c_int, _pointer, _pointer, _pointer, ctypes.c_int]),
        ("hc_renderer_open", ctypes.c_int, [ctypes.POINTER(_RenderConfig), ctypes.POINTER(_BankData),
                                            ctypes.POINTER(_pointer), _text, ctypes.c_size_t]),
        ("hc_render", ctypes.c_int, [_pointer, ctypes.POINTER(_RenderJob), ctypes.c_int, _text, ctypes.c_size_t]),
        ("hc_renderer_close", None, [_pointer])]:
    getattr(_lib, _name).restype, getattr(_lib, _name).argtypes = _result, _arguments


def _check(code, why):
    if code < 0:
        raise Error(code, why.value.decode(errors="replace"))


def version():
    """Version of the library, as "1.2.3"."""
    return _lib.hc_version().decode()


__version__ = version()


def devices():
    """List the devices as [(name for the argument `backend`, description), ...]. Initialises CUDA."""
    found, text = [], ctypes.create_string_buffer(512)
    while _lib.hc_list_devices(len(found), text, len(text)) == 0:
        found.append(tuple(text.value.decode(errors="replace").split("\t", 1)))
    return found


def _set(structure, name, value):
    """Set a field and check it: ctypes would silently store 2**32 as 0."""
    setattr(structure, name, value)
    if getattr(structure, name) != value:
        raise ValueError(f"{name} {value} is too large for the library; give less")


def _floats(what, values):
    values = np.asarray(values)
    if np.iscomplexobj(values):
        raise TypeError(f"{what} is complex; convolve its real and imaginary parts separately")
    return np.asarray(values, np.float32)


# ---- responses ------------------------------------------------------------------------------------------------------
def _routes(h, n_in):
    """Apply the channel rule of convolve() to h: ([(input, output, taps [frames]), ...], n_out)."""
    h = _floats("h", h)
    if h.ndim not in (1, 2, 3) or h.size == 0:
        raise ValueError(f"h has shape {h.shape}; give [frames], [frames, M] or [frames, inputs, outputs]")
    if h.ndim == 3:
        if h.shape[1] != n_in:
            raise ValueError(f"h has {h.shape[1]} inputs, but the sound has {n_in} channels; "
                             "give h as [frames, inputs, outputs]")
        taps = np.ascontiguousarray(h.transpose(1, 2, 0))
        return [(i, o, taps[i, o]) for o in range(h.shape[2]) for i in range(n_in)], h.shape[2]
    taps = np.ascontiguousarray(h.reshape(len(h), -1).T)
    m = len(taps)
    if m == 1:
        return [(i, i, taps[0]) for i in range(n_in)], n_in
    if m == n_in:
        return [(i, i, taps[i]) for i in range(n_in)], n_in
    if n_in == 1:
        return [(0, o, taps[o]) for o in range(m)], m
    if n_in == 2 and m == 4:
        return [(r // 2, r % 2, taps[r]) for r in range(4)], 2
    raise ValueError(f"h has {m} channels, but the sound has {n_in}; give h 1 or {n_in} channels, "
                     "or the shape [frames, inputs, outputs]")


def _planar(x):
    """Convert [frames] or [frames, channels] to contiguous float32 [channels, frames]."""
    x = _floats("the sound", x)
    if x.ndim not in (1, 2) or (x.ndim == 2 and x.shape[1] == 0):
        raise ValueError(f"the sound has shape {x.shape}; give [frames] or [frames, channels]")
    return np.ascontiguousarray(x[None, :] if x.ndim == 1 else x.T)


class Mask:
    """Impulse responses prepared for one Stream, by Stream.mask(). Freed with the stream, or when Python forgets it."""

    def __init__(self, stream, pointer):
        self._stream, self._pointer = stream, pointer

    def __del__(self):
        with contextlib.suppress(ValueError), self._stream._open() as engine:  # a closed stream has freed it
            _lib.hc_mask_free(engine, self._pointer)


# ---- banks ----------------------------------------------------------------------------------------------------------
def position(azimuth, elevation=0.0, distance=1.0):
    """Convert a direction to a position: float64 [3], or [..., 3] for arrays of directions."""
    azimuth, elevation = np.deg2rad(azimuth), np.deg2rad(elevation)
    across = distance * np.cos(elevation)
    return np.stack(np.broadcast_arrays(across * np.cos(azimuth), across * np.sin(azimuth),
                                        distance * np.sin(elevation)), -1)


def _xyz(azimuth, elevation, distance):
    """position() of one direction, without NumPy, which takes longer than a call of the library."""
    azimuth, elevation = math.radians(azimuth), math.radians(elevation)
    across = distance * math.cos(elevation)
    return across * math.cos(azimuth), across * math.sin(azimuth), distance * math.sin(elevation)


def _directions(xyz):
    """Unit vectors [..., 3] of positions, and their distances [...]. A position at the listener counts as ahead."""
    distance = np.linalg.norm(xyz, axis=-1)
    units = np.divide(xyz, distance[..., None], where=distance[..., None] > 0,
                      out=np.broadcast_to([1.0, 0.0, 0.0], np.shape(xyz)).copy())
    return units, distance


_SAME = np.deg2rad(0.001)  # the largest angle between entries of one direction, as in the library


class _Directions:
    """Directions of an array's entries. Finds mixes as hc_bank_mix does, which needs a bank of hc_bank_load."""

    def __init__(self, xyz):
        self.units, self.distances = _directions(np.asarray(xyz, np.float64))
        axes = np.concatenate([np.eye(3), -np.eye(3)])
        helpers = axes[(self.units @ axes.T).max(0) < np.cos(np.deg2rad(35))]  # then the origin is inside the hull
        points = np.concatenate([self.units, helpers])
        # Four directions of a regular grid are in one plane, with two pairs of triangles: radii that differ choose one.
        self.points = points * (1 + 1e-7 * (np.arange(len(points)) * 0.618 % 1))[:, None]
        self.last = None  # the corners that triangle() found last: paths are smooth

    def triangle(self, unit):
        """The corners of the convex hull's facet around a direction, and their weights.

        Of all weights, 0 or more, with which the points add up to the direction, the facet's have the least sum: the
        simplex method finds them.
        """
        dummies = 1e-3 * np.diag(np.where(unit < 0, -1.0, 1.0))  # a first triangle, deep inside the hull
        points = np.concatenate([self.points, dummies])
        corners = np.arange(len(self.points), len(points))
        last = self.last
        if last is not None and (np.linalg.solve(points[last].T, unit) >= 0).all():
            corners = last.copy()
        for _ in range(1000):
            inverse = np.linalg.inv(points[corners].T)
            weights = inverse @ unit
            outside = points @ inverse.sum(0) - 1  # of the plane through the corners
            new = int(np.argmax(outside))
            if not outside[new] > 1e-11:
                break
            change = inverse @ points[new]
            ratios = np.where(change > 1e-12, weights / np.where(change > 1e-12, change, 1), np.inf)
            corners[np.argmin(ratios)] = new
        self.last = corners
        return corners, weights

    def mix(self, xyz):
        (unit,), (distance,) = _directions(np.asarray([xyz], np.float64))
        corners, weights = self.triangle(unit)
        heard = (corners < len(self.units)) & (weights > 1e-6 * weights.sum())
        if not heard.any():
            return None
        entries = []
        for corner in corners[heard]:  # the entry of each direction that is nearest in distance
            same = np.flatnonzero(np.linalg.norm(self.units - self.units[corner], axis=1) <= _SAME)
            entries.append(same[np.argmin(np.abs(self.distances[same] - distance))])
        return np.array(entries), weights[heard] / weights[heard].sum()


def _gain_db(responses):
    """Largest gain for a sine in dB, within 0.01 dB: spectra of 16 points a frame, with a parabola at the peak."""
    best, n = 0.0, 16 * responses.shape[-1]
    for response in responses.reshape(-1, responses.shape[-1]):
        power = np.abs(np.fft.rfft(response, n)) ** 2
        i = int(np.argmax(power))
        a, b, c = power[abs(i - 1)], power[i], power[min(i + 1, len(power) - 1)]
        best = max(best, b + (c - a) ** 2 / (8 * max(2 * b - a - c, 1e-30 + abs(c - a))))
    return 10 * np.log10(max(best, 1e-30))


class Bank:
    """Responses of moving sources: entries, each with a response to every output. It never changes.

    source     path of a file as hc_bank_load of haloconv_scenes.h reads it (SOFA, a CSV list, a folder, a sound file),
               or an array [entries, outputs, taps] or [entries, taps]
    rate       Hz. A file is resampled to it; None keeps the file's. The rate of an array is that of its samples; None:
               unknown, and fits every stream
    positions  of an array: [entries, 3] in metres (see position()), or [entries, 2]: azimuth and elevation
    grid       of a file: interpolate to directions this many degrees apart, 0.5 to 45
    normalise  scale all responses together so that the largest gain is 0 dB

    Attributes: entries, outputs, taps (numbers), rate (None: unknown), positions (float32 [entries, 3] or None),
    gain_db (largest gain for a sine), notes (what loading has done to the file), responses (a copy).

    Raises ValueError if a shape does not match, TypeError if the array is complex, Error if the library refuses the
    file (its text names the cause).
    """

    _loaded = None

    def __init__(self, source, rate=None, positions=None, grid=None, normalise=False):
        self._lock, self._made, self._renderers = threading.Lock(), weakref.WeakValueDictionary(), (None, [])
        if isinstance(source, (str, os.PathLike)):
            if positions is not None:
                raise ValueError("positions are for arrays; a file has its own")
            self._load(os.fsencode(source), rate, grid, normalise)
        else:
            if grid is not None:
                raise ValueError("grid is for files; give an array with the directions that you want")
            self._take(_floats("the bank", source), rate, positions, normalise)
        self.entries, self.outputs, self.taps = self._data.n_entries, self._data.n_out, self._data.n_taps
        self.rate = self._data.rate or None

    def _load(self, path, rate, grid, normalise):
        data, why = _BankData(size=ctypes.sizeof(_BankData)), ctypes.create_string_buffer(512)
        options = _BankOptions(ctypes.sizeof(_BankOptions), grid or 0, bool(normalise))
        wanted = ctypes.c_int(rate or 0)
        if wanted.value != (rate or 0):
            raise ValueError(f"rate {rate} is not a whole number of Hz that the library can take")
        _check(_lib.hc_bank_load(path, wanted, ctypes.byref(options), ctypes.byref(data), why, len(why)), why)
        self._data, self._loaded, self._directions = data, data, None
        self.gain_db, self.notes, self.positions = data.gain_db, data.notes.decode(errors="replace"), None
        if data.position:
            shape = ctypes.c_float * 3 * data.n_entries
            self.positions = np.array(shape.from_address(data.position), np.float32)

    def _take(self, responses, rate, positions, normalise):
        if responses.ndim == 2:
            responses = responses[:, None]
        if responses.ndim != 3 or responses.size == 0:
            raise ValueError(f"the bank has shape {responses.shape}; give [entries, outputs, taps] or [entries, taps]")
        if not np.isfinite(responses).all():
            place = ", ".join(map(str, np.argwhere(~np.isfinite(responses))[0]))
            raise ValueError(f"the bank is not finite at [{place}]; give numbers")
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
        self._directions = None if positions is None else _Directions(self.positions)
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
        if self._loaded is not None:
            _lib.hc_bank_data_free(ctypes.byref(self._loaded))

    @functools.cached_property
    def gain_db(self):
        """Largest gain for a sine of any frequency in dB, over all entries and outputs."""
        return _gain_db(self._responses)

    def __repr__(self):
        return f"<haloconv.Bank of {self.entries} entries, {self.outputs} outputs, {self.taps} taps>"

    @property
    def responses(self):
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
            place = (ctypes.c_float * 3)(*xyz)
        except (TypeError, IndexError):
            place = ()
        if len(xyz) != 3 or not place or not math.isfinite(sum(place)):
            raise ValueError(f"{xyz} is no position; give x, y, z in metres")
        found = self._directions.mix(place) if mix and self._directions else None
        if found:
            return found
        if not mix or self._directions:
            return (_lib.hc_bank_nearest(ctypes.byref(self._data), place),), (1.0,)
        entries, weights = (ctypes.c_int * _MOST_MIX)(), (ctypes.c_float * _MOST_MIX)()
        n = _lib.hc_bank_mix(ctypes.byref(self._data), place, entries, weights)
        return entries[:n], weights[:n]

    def nearest(self, azimuth, elevation=0.0, distance=1.0):
        """Find the entry nearest to a direction: by the angle, then by distance. ValueError without positions."""
        return int(self._find(_xyz(azimuth, elevation, distance), mix=False)[0][0])

    def mix(self, azimuth, elevation=0.0, distance=1.0):
        """Find up to four entries around a direction: (entries, weights), with weights that add up to 1.

        The weights are barycentric in the triangle of directions around it. Raises ValueError without positions.
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
                pointer, why = _pointer(), ctypes.create_string_buffer(512)
                _check(_lib.hc_bank_make(engine, ctypes.byref(self._data), ctypes.byref(pointer), why, len(why)), why)
                prepared = self._made[key] = _PreparedBank(pointer)
            return prepared

    @contextlib.contextmanager
    def _renderer(self, backend, step, n_threads):
        """A hc_renderer that no other thread uses. The bank keeps those of the last arguments for later calls."""
        key, renderer = (backend, step, n_threads), None
        with self._lock:
            if self._renderers[0] == key and self._renderers[1]:
                renderer = self._renderers[1].pop()
        if renderer is None:
            renderer, why = _pointer(), ctypes.create_string_buffer(512)
            config = _RenderConfig(ctypes.sizeof(_RenderConfig), backend.encode())
            _set(config, "step", step)
            _set(config, "n_threads", n_threads)
            _check(_lib.hc_renderer_open(ctypes.byref(config), ctypes.byref(self._data), ctypes.byref(renderer), why,
                                         len(why)), why)
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


# ---- streams --------------------------------------------------------------------------------------------------------
class Stream:
    """A convolver that runs until it is closed. 0 and None mean the default of hc_config in haloconv.h.

    n_in, n_out  channels; n_in None: `sources`, or 2; n_out None: as many as the bank's outputs, or as n_in
    max_taps     longest response of a mask in frames; sets the memory. None: 48000, or 1 if all inputs are sources
    rate         Hz; the bank's must be the same. Backend "auto" and the levels of steered sources depend on it. None:
                 the bank's, or 48000
    block        most frames that the engine processes at once; for live audio that of the sound card; BLOCK_FILES: the
                 engine chooses one for files
    n_routes     number of (input, output) pairs that a mask will have, a hint; 0: one a channel
    wait_us      longest wait for a GPU in microseconds, WAIT_FOREVER or WAIT_NONE
    fade_frames  crossfade of a swap; NO_FADE
    n_frames     length of the whole sound, a hint for backend "auto"; 0: unknown
    backend      "auto", "cpu", "cuda", "cuda:1", "hybrid" (head on the CPU, tail levels on the GPU)
    method       "auto", "direct" (time domain), "fft" (partitions)
    n_threads    CPU threads with BLOCK_FILES; 0: all processors. The output does not depend on it.
    spin         1: the thread that serves a GPU keeps a core busy between blocks, and blocks return some us sooner
    sources      the first inputs are so many moving sources, which steer() moves. They are silent until then
    bank         a Bank for them, or None: add_bank() adds banks later
    bank_taps    longest response of a bank in frames; sets the memory. None: the bank's, or 48000
    steer_fade   frames of a source's fade; 0: one block

    Raises Error if the engine cannot be opened (its text names the cause), ValueError for a number that is too large or
    a bank that does not fit. Attributes: n_in, n_out, max_taps, rate, sources. A closed stream raises ValueError in
    every call.
    """

    _engine = None  # closed, or not open yet

    def __init__(self, n_in=None, n_out=None, max_taps=None, rate=None, block=64, n_routes=0, wait_us=WAIT_FOREVER,
                 fade_frames=512, n_frames=0, backend="auto", method="auto", n_threads=0, spin=0, sources=0, bank=None,
                 bank_taps=None, steer_fade=0):
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
        config, why = _Config(), ctypes.create_string_buffer(512)
        _lib.hc_config_init(ctypes.byref(config))
        wanted = {**locals(), "n_sources": sources, "backend": backend.encode(), "method": method.encode()}
        for name, _ in _Config._fields_:
            if wanted.get(name):  # the others keep the library's defaults
                _set(config, name, wanted[name])
        engine = _pointer()
        _check(_lib.hc_open(ctypes.byref(config), ctypes.byref(engine), why, len(why)), why)
        self._engine, self._playing, self._users = engine, None, 0
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

    def __enter__(self):
        with self._open():
            return self

    def __exit__(self, *_):
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

    def close(self):
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

    def mask(self, h, gain=1.0, delay=0):
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
        routes, why, pointer = (_Route * len(pairs))(), ctypes.create_string_buffer(512), _pointer()
        for route, (i, o, taps) in zip(routes, pairs):
            setattr(route, "in", i)
            route.out, route.taps, route.n_taps, route.gain = o, taps.ctypes.data, len(taps), gain
            _set(route, "delay", delay)
        with self._open() as engine:
            _check(_lib.hc_mask_make(engine, routes, len(pairs), ctypes.byref(pointer), why, len(why)), why)
        return Mask(self, pointer)

    def swap(self, mask):
        """Crossfade to a mask, from the next process() on. The last of several swaps before it counts.

        mask  a Mask of this stream, an array as mask() takes it, or None for silence. Raises ValueError for the Mask of
              another stream, and whatever mask() raises.
        """
        if mask is not None and not isinstance(mask, Mask):
            mask = self.mask(mask)
        if mask is not None and mask._stream is not self:
            raise ValueError("the mask belongs to another stream; make one with this stream's mask()")
        with self._open() as engine:
            _lib.hc_mask_swap(engine, mask._pointer if mask else None)
        self._playing = mask  # keeps the mask alive while it plays

    def add_bank(self, bank):
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
            self._bank = bank

    def drop_bank(self, bank):
        """Give a bank's copy up; the memory is freed once nothing plays it. A stream that is closed drops all banks."""
        with self._open(), self._adding:
            self._banks.pop(bank, None)
            if self._bank is bank:
                self._bank = None

    def steer(self, source, entry=None, *, azimuth=None, elevation=0.0, distance=1.0, xyz=None, entries=None,
              weights=None, gain=1.0, mix=False, bank=None):
        """Fade a source to other responses of a bank, from the next block on. Any thread may call this, as often as it
        likes; the call copies nothing and takes some microseconds. The last of several calls before a block counts.

        source     0 to sources - 1
        entry      number of an entry; or, instead of it,
        azimuth, elevation, distance   the entry nearest to this direction, then to this distance
        xyz        the entry nearest to this position, in metres
        entries    up to four numbers of entries, with `weights` (None: 1 for each); []: silence
        gain       linear; the distance itself changes no level
        mix        True: instead of the nearest entry the mix of the entries around it (Bank.mix)
        bank       one that add_bank() has added; None: the last one

        The first taps of the responses change with the next block, later ones after the delays of `steer_levels`.
        Raises ValueError if a number is out of range, the bank has no positions, or the stream does not have the bank.
        """
        given = [name for name, value in [("entry", entry), ("azimuth", azimuth), ("xyz", xyz), ("entries", entries)]
                 if value is not None]
        if len(given) != 1:
            raise ValueError(f"give one of entry, azimuth, xyz, entries; got {', '.join(given) or 'none'}")
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
            if n > _MOST_MIX or len(weights) != n:
                raise ValueError(f"{n} entries and {len(weights)} weights; give at most {_MOST_MIX} entries and a "
                                 "weight for each")
            bank._check_entries(entries)
            code = _lib.hc_steer(engine, source, prepared.pointer, (ctypes.c_int * n)(*map(int, entries)),
                                 (ctypes.c_float * n)(*(gain * weight for weight in weights)), n)
        if code < 0:
            raise ValueError("a weight or the gain is not a finite number")

    def process(self, x):
        """Convolve the next frames of the sound; continues where the last call ended.

        x  [frames] if n_in is 1, or [frames, n_in]; any number of frames. NaN and infinite samples count as 0.
        Returns float32 [frames] if x has one dimension and n_out is 1, else [frames, n_out].

        A block that the device does not deliver within wait_us is silence and counts as info["late"]. Raises Error if
        the device is lost, ValueError for another number of channels, TypeError if x is complex.
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

    def reset(self):
        """Clear the input history and end all fades; the mask and the places of sources stay."""
        with self._open() as engine, self._turn:
            _lib.hc_reset(engine)

    @property
    def latency(self):
        """Added latency in frames: 0."""
        with self._open() as engine:
            return _lib.hc_latency(engine)

    @property
    def info(self):
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
    def steer_levels(self):
        """When the responses of moving sources change: a dict for each range of taps (`offset`, `n_taps`).

        At frames that are multiples of `hop` the level takes the last steer(); its fade begins `delay` frames later and
        lasts `fade` frames, or over several hops if steer_fade is longer than the hop. The first level is the head.
        """
        return self.info["steer_levels"]


def convolve(x, h, mode="full", backend="auto", method="auto", n_threads=0, rate=48000):
    """Convolve a sound of N frames with impulse responses of K frames (linear convolution).

    x     [frames] or [frames, channels]
    h     [frames] or [frames, M]. M = 1: the same response for every channel. M = channels: one response for each.
          One channel in x: M outputs. Two channels and M = 4: true stereo, in the order L>L L>R R>L R>R.
          Or [frames, inputs, outputs]: a matrix of responses.
    mode  "full": N + K - 1 frames; "same": the first N of them; "centre": N of them, from (K - 1) // 2 on
    backend, method, n_threads, rate: as for Stream

    Returns float32 [frames] if x and h have one dimension, else [frames, outputs]. NaN and infinite samples in x count
    as 0 and cause a RuntimeWarning with their number.

    Raises ValueError if a shape or the mode is wrong, TypeError if x or h is complex, Error if the library refuses
    (NaN or infinite samples in h, no such device, no memory).
    """
    if mode not in ("full", "same", "centre"):
        raise ValueError(f"mode {mode!r} is unknown; give full, same or centre")
    planar = _planar(x)
    n_in, n = planar.shape
    pairs, n_out = _routes(h, n_in)
    taps = len(pairs[0][2])
    skip = (taps - 1) // 2 if mode == "centre" else 0
    end = skip + n + (taps - 1 if mode == "full" else 0)
    with Stream(n_in, n_out, max_taps=taps, rate=rate, block=BLOCK_FILES, n_routes=len(pairs), fade_frames=NO_FADE,
                n_frames=end, backend=backend, method=method, n_threads=n_threads) as stream:
        stream.swap(h)
        info = stream.info
        step = info["partition"] if info["n_partitions"] else 1
        padded = np.zeros((n_in, -(-end // step) * step), np.float32)  # whole partitions are faster
        padded[:, :n] = planar
        y = stream.process(padded.T)
        non_finite = stream.info["non_finite"]
    if non_finite:
        warnings.warn(f"{non_finite} samples of the sound are NaN or infinite and count as 0", RuntimeWarning,
                      stacklevel=2)
    y = y[skip:end]
    return y[:, 0] if np.ndim(x) == 1 and np.ndim(h) == 1 else y


# ---- moving sources, whole signals ----------------------------------------------------------------------------------
_WHOLE = (numbers.Integral, np.integer)


def _place(bank, place, mix):
    """Entries and weights of a place: an entry, a position, or None for silence."""
    if place is None:
        return (), ()
    if np.ndim(place) == 0:
        if not isinstance(place, _WHOLE):
            raise ValueError(f"{place!r} is no entry; give a whole number or x, y, z in metres")
        if place < 0:
            return (), ()
        bank._check_entries([place])
        return (place,), (1.0,)
    return bank._find(place, mix)


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
        place = path[i, source]
        if not is_entry:
            yield i * step, source, _place(bank, place, mix)
        else:
            yield i * step, source, ((place,), (1.0,)) if place >= 0 else ((), ())


def _steps_of_list(path, bank, rate, mix):
    """Events of a list of (time, source, place)."""
    for event in path:
        try:
            time, source, place = event
        except (TypeError, ValueError):
            raise ValueError(f"{event!r} is no change of a path; give (time, source, place)") from None
        if not isinstance(time, _WHOLE):
            if not np.isfinite(time):
                raise ValueError(f"{time} is no time of a path; give seconds or frames")
            time = round(time * _rate_of_path(rate))
        yield time, source, _place(bank, place, mix)


def _rate_of_path(rate):
    if not rate:
        raise ValueError("a path in seconds needs a rate; give rate=, or a Bank that has one")
    return rate


def _steps(path, bank, step, rate, mix, n_sources, n):
    """The hc_steps of a path, sorted by frame."""
    if callable(path):
        rate = _rate_of_path(rate)
        events = [(frame, source, _place(bank, path(frame / rate, source), mix)) for frame in range(0, n, step)
                  for source in range(n_sources)]
    elif isinstance(path, np.ndarray) or (len(path) and all(isinstance(entry, _WHOLE) for entry in path)):
        events = _steps_of_array(np.asarray(path), bank, step, n_sources, mix)
    else:
        events = _steps_of_list(path, bank, rate, mix)
    rows, none = [], (0,) * _MOST_MIX
    for frame, source, (entries, weights) in events:
        if not 0 <= source < n_sources:
            raise ValueError(f"source {source} of the path is out of range; the sound has {n_sources} channels")
        k = len(entries)
        rows.append((frame, source, k, (*entries, *none[k:]), (*weights, *none[k:])))
    return np.array(sorted(rows, key=lambda row: row[0]), _STEP)


def convolve_moving(x, bank, path, step=256, mode="full", mix=False, rate=None, backend="auto", n_threads=0):
    """Convolve a sound of N frames with responses that change along a path; the same call gives the same output.

    x        [frames] or [frames, sources]; the outputs of all sources are added
    bank     a Bank, or an array [entries, outputs, taps]
    path     where the sources are. A place is the number of an entry (below 0: silence), a position (x, y, z) in
             metres, or None for silence. Give one of
               a list of (time, source, place): a float is a time in seconds, a whole number is a frame
               a function of (seconds, source) that returns a place; it is called for each step and source
               an array with a row for each step: whole numbers [steps] or [steps, sources], or positions [steps, 3] or
               [steps, sources, 3]. The last row stays
             A source is silent until its first place.
    step     frames between two changes, 16 to 65536. From the first multiple of `step` at or after its time, a source
             fades to its new place, linearly over one step; a place at frame 0 or before plays without a fade
    mode     "full": N + taps - 1 frames; "same": the first N of them
    mix      True: a position plays the mix of the entries around it (Bank.mix), not the nearest one
    rate     Hz, for paths in seconds; None: the bank's
    backend  "auto", "cpu", "cuda", "cuda:1"
    n_threads  CPU threads; 0: all processors. The output does not depend on it

    Returns float32 [frames] if x has one dimension and the bank one output, else [frames, outputs]. NaN and infinite
    samples in x count as 0 and cause a RuntimeWarning with their number. Threads may call this with the same bank.

    Raises ValueError if a shape, the mode or the path is wrong, or the rate is not the bank's; TypeError if x is
    complex; Error if the library refuses (no such device, no memory).
    """
    if mode not in ("full", "same"):
        raise ValueError(f"mode {mode!r} is unknown; give full or same")
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
                     n_out_frames=n_frames, out=ctypes.addressof(outs))
    setattr(job, "in", ctypes.addressof(ins))
    why = ctypes.create_string_buffer(512)
    with bank._renderer(backend, step, n_threads) as renderer:
        _check(_lib.hc_render(renderer, ctypes.byref(job), 1, why, len(why)), why)
    return out[0] if np.ndim(x) == 1 and bank.outputs == 1 else out.T
