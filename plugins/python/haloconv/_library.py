"""Finds and loads the library; its structs and calls through ctypes, and its errors."""

import ctypes
import os
import pathlib
import sys
import threading
from typing import List, Tuple

import numpy as np


class Error(RuntimeError):
    """The library refused a call. The text is the library's; `code` is a negative value of enum hc_error."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text or _lib.hc_strerror(code).decode())
        self.code = code

    def __reduce__(self):
        return type(self), (self.code, str(self))


# ---- the structs and calls of haloconv.h and haloconv_scenes.h in dsp/; tests/plugins/test_python.py compares them ---
class _Config(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("rate", ctypes.c_int), ("block", ctypes.c_int), ("n_in", ctypes.c_int),
                ("n_out", ctypes.c_int), ("max_taps", ctypes.c_int), ("n_routes", ctypes.c_int),
                ("fade_frames", ctypes.c_int), ("n_threads", ctypes.c_int), ("backend", ctypes.c_char_p),
                ("method", ctypes.c_char_p), ("n_frames", ctypes.c_int64), ("wait_us", ctypes.c_int),
                ("spin", ctypes.c_int), ("in_samples", ctypes.c_int), ("out_samples", ctypes.c_int),
                ("queue_depth", ctypes.c_int), ("n_sources", ctypes.c_int), ("bank_taps", ctypes.c_int),
                ("steer_fade", ctypes.c_int)]


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
    _fields_ = [("size", ctypes.c_size_t), ("backend", ctypes.c_char_p), ("method", ctypes.c_char_p),
                ("block", ctypes.c_int), ("partition", ctypes.c_int), ("n_partitions", ctypes.c_int),
                ("hop", ctypes.c_int), ("n_levels", ctypes.c_int), ("n_device_levels", ctypes.c_int),
                ("levels", _Level * 25), ("swap_delay", ctypes.c_int), ("swap_usual", ctypes.c_int),
                ("measured", ctypes.c_int), ("bytes_a_frame", ctypes.c_double), ("flops_a_frame", ctypes.c_double),
                ("cost_ns", ctypes.c_double), ("memory", ctypes.c_uint64), ("device", ctypes.c_char * 128),
                ("queue_depth", ctypes.c_int), ("in_samples", ctypes.c_int), ("out_samples", ctypes.c_int),
                ("n_sources", ctypes.c_int), ("n_steer_levels", ctypes.c_int), ("steer_levels", _SteerLevel * 4),
                ("error", ctypes.c_char * 256), ("peak", ctypes.c_float), ("clipped", ctypes.c_uint64),
                ("blocks", ctypes.c_uint64), ("frames", ctypes.c_uint64), ("late", ctypes.c_uint64),
                ("non_finite", ctypes.c_uint64), ("swaps", ctypes.c_uint64), ("swap_frame", ctypes.c_uint64),
                ("bank_memory", ctypes.c_uint64), ("overflowed", ctypes.c_uint64)]


class _BankData(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("n_entries", ctypes.c_int), ("n_out", ctypes.c_int),
                ("n_taps", ctypes.c_int), ("rate", ctypes.c_int), ("taps", ctypes.c_void_p),
                ("position", ctypes.c_void_p), ("gain_db", ctypes.c_float), ("file_rate", ctypes.c_int),
                ("n_file_entries", ctypes.c_int), ("notes", ctypes.c_char_p), ("memory", ctypes.c_void_p),
                ("onsets", ctypes.c_void_p)]


class _BankOptions(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("grid_deg", ctypes.c_double), ("normalise", ctypes.c_int),
                ("mix", ctypes.c_int), ("sizes_only", ctypes.c_int)]


class _RenderConfig(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("backend", ctypes.c_char_p), ("step", ctypes.c_int),
                ("n_threads", ctypes.c_int), ("device", ctypes.c_char_p)]


class _RenderJob(ctypes.Structure):
    _fields_ = [("n_sources", ctypes.c_int), ("n_steps", ctypes.c_int), ("in", ctypes.c_void_p),
                ("in_from", ctypes.c_int64), ("n_in_frames", ctypes.c_int64), ("steps", ctypes.c_void_p),
                ("step_size", ctypes.c_size_t), ("out", ctypes.c_void_p), ("from", ctypes.c_int64),
                ("n_out_frames", ctypes.c_int64)]


_MAX_MIX = 4  # HC_MAX_MIX
_STEP = np.dtype([("frame", np.int64), ("source", np.intc), ("n", np.intc), ("entry", np.intc, _MAX_MIX),
                  ("weight", np.float32, _MAX_MIX)], align=True)  # hc_step


def _load():
    here = pathlib.Path(__file__).resolve()
    paths = [here.with_name("libhaloconv.so"), *(p / "libhaloconv.so.1" for p in list(here.parents)[2:5]),
             *(p / "build/libhaloconv.so" for p in list(here.parents)[3:4])]
    found = next((str(path) for path in paths if path.exists()), "libhaloconv.so.1")
    try:
        return ctypes.CDLL(os.environ.get("HALOCONV_LIBRARY") or found)
    except OSError as error:
        raise OSError(f"{error}; set HALOCONV_LIBRARY to the path of libhaloconv.so, or install haloconv again") from None


_lib = _load()
_pointer, _text = ctypes.c_void_p, ctypes.c_char_p
for _name, _result, _arguments in [
        ("hc_version", _text, []),
        ("hc_strerror", _text, [ctypes.c_int]),
        ("hc_config_init", None, [ctypes.POINTER(_Config)]),
        ("hc_open", ctypes.c_int, [ctypes.POINTER(_Config), ctypes.POINTER(_pointer), _text, ctypes.c_size_t]),
        ("hc_close", None, [_pointer]),
        ("hc_mask_make", ctypes.c_int, [_pointer, ctypes.POINTER(_Route), ctypes.c_size_t, ctypes.c_int,
                                        ctypes.POINTER(_pointer), _text, ctypes.c_size_t]),
        ("hc_mask_free", None, [_pointer, _pointer]),
        ("hc_mask_swap", ctypes.c_int, [_pointer, _pointer]),
        ("hc_process", ctypes.c_int, [_pointer, _pointer, _pointer, ctypes.c_int]),
        ("hc_reset", None, [_pointer]),
        ("hc_get_info", ctypes.c_int, [_pointer, ctypes.POINTER(_Info)]),
        ("hc_list_devices", ctypes.c_int, [ctypes.c_int, _text, ctypes.c_size_t]),
        ("hc_bank_load", ctypes.c_int, [_text, ctypes.c_int, ctypes.POINTER(_BankOptions), ctypes.POINTER(_BankData),
                                        _text, ctypes.c_size_t]),
        ("hc_bank_data_free", None, [ctypes.POINTER(_BankData)]),
        ("hc_bank_nearest", ctypes.c_int, [ctypes.POINTER(_BankData), _pointer]),
        ("hc_bank_mix", ctypes.c_int, [ctypes.POINTER(_BankData), _pointer, _pointer, _pointer]),
        ("hc_bank_index", ctypes.c_int, [ctypes.POINTER(_BankData), _text, ctypes.c_size_t]),
        ("hc_bank_make", ctypes.c_int, [_pointer, ctypes.POINTER(_BankData), ctypes.POINTER(_pointer), _text,
                                        ctypes.c_size_t]),
        ("hc_bank_free", None, [_pointer]),
        ("hc_steer", ctypes.c_int, [_pointer, ctypes.c_int, _pointer, _pointer, _pointer, ctypes.c_int]),
        ("hc_renderer_open", ctypes.c_int, [ctypes.POINTER(_RenderConfig), ctypes.POINTER(_BankData),
                                            ctypes.POINTER(_pointer), _text, ctypes.c_size_t]),
        ("hc_render", ctypes.c_int, [_pointer, ctypes.POINTER(_RenderJob), ctypes.c_size_t, ctypes.c_int, _text,
                                     ctypes.c_size_t]),
        ("hc_renderer_close", None, [_pointer])]:
    getattr(_lib, _name).restype, getattr(_lib, _name).argtypes = _result, _arguments


class _ErrorText(threading.local):
    """The place of a thread for an error text: a new one for each call costs a short call time."""

    def __init__(self):
        self.why = ctypes.create_string_buffer(512)


_error_text = _ErrorText()


def _ask_library(function, *arguments):
    """Call a function of the library whose last arguments are the place for an error text and its size."""
    why = _error_text.why
    code = function(*arguments, why, len(why))
    if code < 0:
        text, why.value = why.value, b""
        raise Error(code, text.decode(errors="replace"))


def _open_handle(function, *arguments):
    """Call such a function that also has, before the error text, the place for a pointer. Returns the pointer."""
    pointer = _pointer()
    _ask_library(function, *arguments, ctypes.byref(pointer))
    return pointer


def version() -> str:
    """Version of the library, as "1.2.3"."""
    return _lib.hc_version().decode()


def devices() -> List[Tuple[str, str]]:
    """List the devices as [(name for the argument `backend`, description), ...]. Initialises CUDA."""
    found, text = [], ctypes.create_string_buffer(512)
    while _lib.hc_list_devices(len(found), text, len(text)) == 0:
        found.append(tuple(text.value.decode(errors="replace").split("\t", 1)))
    return found


def _threads(n_threads):
    """n_threads as the caller gave it; for 0 this process's share of the processors, 0 if nothing limits it.

    Eight worker processes that each start a thread for every processor slow each other down. In a torch DataLoader's
    worker the share is torch.get_num_threads(), which torch sets to 1 there. Elsewhere it is OMP_NUM_THREADS, which
    torchrun, Ray and job scripts set for each process. With 0 the library uses the processors of the affinity mask.
    """
    if n_threads:
        return n_threads
    worker = sys.modules.get("torch.utils.data._utils.worker")  # without an import of torch
    if worker is not None and worker.get_worker_info() is not None:
        return sys.modules["torch"].get_num_threads()
    share = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()  # a number for each level, as "4,2"
    if not (share.isascii() and share.isdigit()):
        return 0
    affinity = getattr(os, "sched_getaffinity", None)  # Linux
    return min(int(share), len(affinity(0)) if affinity else os.cpu_count() or 1)


def _bytes(what, text):
    """The bytes of a text or path for the library; refuses a NUL character, where the library would end the text."""
    text = os.fsencode(text)
    if b"\0" in text:
        raise ValueError(f"{what} {text!r} has a NUL character; remove it")
    return text


def _set(structure, name, value):
    """Set a field and check it: ctypes would silently store 2**32 as 0."""
    setattr(structure, name, value)
    if getattr(structure, name) != value:
        raise ValueError(f"{name} {value} is too large for the library; give less")


def _numbers_in(what, values):
    """An array; refuses what NumPy would make numbers of, and a mask, which it would drop."""
    if type(values) is not np.ndarray and isinstance(values, np.ma.MaskedArray):
        raise TypeError(f"{what} is a masked array; give .filled(0) of it")
    values = np.asarray(values)
    if values.dtype.kind == "c":
        raise TypeError(f"{what} is complex; convolve its real and imaginary parts separately")
    if values.dtype.kind in "mMSU" or values.dtype.names:
        raise TypeError(f"{what} is {values.dtype}; give real numbers")
    return values


def _floats(what, values):
    return np.asarray(_numbers_in(what, values), np.float32)
