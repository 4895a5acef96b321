"""haloconv - convolves NumPy arrays of audio with FIR filters and impulse responses, on the CPU or a CUDA GPU.

    import haloconv
    y = haloconv.convolve(x, h)                         # x [frames] or [frames, channels], h likewise
    with haloconv.Stream(n_in=2, n_out=2, max_taps=48000, block=256) as stream:
        stream.swap(h)                                  # crossfades; keeps the input history
        y = stream.process(x)                           # any number of frames, no added latency

Sound is float32 with a row for each frame and a column for each channel, as in the module soundfile; other real types
are converted. All backends give the same result, within -120 dB of the output's peak.

Threads may share a Stream. mask() may run while process() runs; calls of process() take turns; close() waits for both.
Calls release the interpreter's lock.

The module calls libhaloconv.so through ctypes. It searches for the library in $HALOCONV_LIBRARY, in the folders above
an installed module, in the build folder of the source tree, and in the system's library path.
"""

import contextlib
import ctypes
import os
import pathlib
import threading
import warnings

import numpy as np

__all__ = ["convolve", "Stream", "Mask", "Error", "devices", "version", "BLOCK_FILES", "NO_FADE", "WAIT_FOREVER",
           "WAIT_NONE"]

BLOCK_FILES = -1   # Stream(block): for files; the engine chooses the block
NO_FADE = -1       # Stream(fade_frames): no crossfade
WAIT_FOREVER = -1  # Stream(wait_us): wait until the device is done
WAIT_NONE = -2     # Stream(wait_us): a block that is not done yet is late


class Error(RuntimeError):
    """The library refused a call. The text is the library's; `code` is a negative value of enum hc_error."""

    def __init__(self, code, text):
        super().__init__(text or _lib.hc_strerror(code).decode())
        self.code = code


# ---- the structs and calls of dsp/haloconv.h; tests/plugins/test_python.py compares them ----------------------------
class _Config(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("rate", ctypes.c_int), ("block", ctypes.c_int), ("n_in", ctypes.c_int),
                ("n_out", ctypes.c_int), ("max_taps", ctypes.c_int), ("n_routes", ctypes.c_int),
                ("wait_us", ctypes.c_int), ("fade_frames", ctypes.c_int), ("n_frames", ctypes.c_int64),
                ("backend", ctypes.c_char_p), ("method", ctypes.c_char_p),
                ("in_samples", ctypes.c_int), ("out_samples", ctypes.c_int), ("queue_depth", ctypes.c_int),
                ("n_threads", ctypes.c_int), ("spin", ctypes.c_int), ("reserved", ctypes.c_int)]


class _Route(ctypes.Structure):
    _fields_ = [("in", ctypes.c_int), ("out", ctypes.c_int), ("taps", ctypes.c_void_p), ("n_taps", ctypes.c_int),
                ("gain", ctypes.c_float), ("delay", ctypes.c_int)]


class _Level(ctypes.Structure):
    _fields_ = [("offset", ctypes.c_int), ("n_taps", ctypes.c_int), ("size", ctypes.c_int),
                ("n_partitions", ctypes.c_int), ("n_slices", ctypes.c_int)]


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
                ("swap_usual", ctypes.c_int), ("n_device_levels", ctypes.c_int), ("error", ctypes.c_char * 256)]


def _load():
    here = pathlib.Path(__file__).resolve()
    places = [os.environ.get("HALOCONV_LIBRARY"), *(p / "libhaloconv.so.1" for p in list(here.parents)[1:4]),
              here.parents[2] / "build/libhaloconv.so" if len(here.parents) > 2 else None]
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
        ("hc_list_devices", ctypes.c_int, [ctypes.c_int, _text, ctypes.c_size_t])]:
    getattr(_lib, _name).restype, getattr(_lib, _name).argtypes = _result, _arguments


def _check(code, why):
    if code < 0:
        raise Error(code, why.value.decode(errors="replace"))


def version():
    """Version of the library, as "1.2.3"."""
    return _lib.hc_version().decode()


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


class Stream:
    """A convolver that runs until it is closed. 0 means the default of hc_config in haloconv.h.

    n_in, n_out  channels; n_out None: as many as n_in
    max_taps     longest response in frames; sets the memory
    rate         Hz; only backend "auto" uses it
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

    Raises Error if the engine cannot be opened (its text names the cause), ValueError for a number that is too large.
    Attributes: n_in, n_out, max_taps. A closed stream raises ValueError in every call.
    """

    _engine = None  # closed, or not open yet

    def __init__(self, n_in=2, n_out=None, max_taps=48000, rate=48000, block=64, n_routes=0, wait_us=WAIT_FOREVER,
                 fade_frames=512, n_frames=0, backend="auto", method="auto", n_threads=0, spin=0):
        config, why = _Config(), ctypes.create_string_buffer(512)
        _lib.hc_config_init(ctypes.byref(config))
        wanted = {**locals(), "n_out": n_in if n_out is None else n_out, "backend": backend.encode(),
                  "method": method.encode()}
        for name, _ in _Config._fields_:
            if wanted.get(name):  # the others keep the library's defaults
                _set(config, name, wanted[name])
        engine = _pointer()
        _check(_lib.hc_open(ctypes.byref(config), ctypes.byref(engine), why, len(why)), why)
        self._engine, self._playing, self._users = engine, None, 0
        self._left, self._turn = threading.Condition(), threading.Lock()
        self.n_in, self.n_out, self.max_taps = config.n_in, config.n_out, config.max_taps
        self._block = self.info["block"]

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
        """Clear the input history and end a crossfade; the mask stays."""
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
        texts = {name: value.decode(errors="replace") for name, value in values.items() if isinstance(value, bytes)}
        return {**values, **texts, "levels": levels}


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
