"""patch() and unpatch(): other projects convolve by haloconv in place of their own functions."""

import contextlib
import functools
import importlib
import importlib.metadata
import os
import re
import threading
import types
import warnings
from typing import Any, Dict, List, NamedTuple

from . import _adapters
from ._adapters import PROJECTS


class _Row(NamedTuple):
    owner: Any  # a module or class
    attribute: str
    theirs: Any
    ours: Any

    def __str__(self):
        return f"{self.owner.__name__}.{self.attribute}"


class _Patch:
    def __init__(self, rows: List[_Row]) -> None:
        self.rows, self.users = rows, 0  # users: calls of patch() whose block has not ended


_lock = threading.Lock()
_patches: Dict[str, _Patch] = {}  # by project


def _renew_lock() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)  # another thread may have held it


def _release(version):
    """Returns the sort key of a version: (numbers, whether it is final); "1.33rc1" is below "1.33"."""
    found = re.match(r"v?(\d+(?:\.\d+)*)(.*)", str(version))
    numbers, rest = found.groups() if found else ("0", "")
    numbers = [int(number) for number in numbers.split(".")]
    return (numbers + [0, 0])[:3], not re.match(r"[._-]?(a|b|c|rc|pre|dev)", rest)


def _check_version(project):
    """Refuse a project that is not installed in a version that its adapter knows, before anything imports it."""
    if project not in PROJECTS:
        raise ValueError(f"patch({project!r}): this project is unknown; known are {', '.join(PROJECTS)}")
    package, first, end = PROJECTS[project]
    try:
        version = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        raise ModuleNotFoundError(f"patch({project!r}): {package} is not installed; install {first} or newer, "
                                  f"below {end}", name=project) from None
    if not (_release(first) <= _release(version) and _release(version)[0] < _release(end)[0]):
        raise RuntimeError(f"patch({project!r}): {package} {version} was not tested; install one from {first} on and "
                           f"below {end}, or a newer haloconv")


def _rows(adapter):
    """Returns the rows of an adapter; the same function in several places has one replacement."""
    made, rows = {}, []
    for name, make in adapter.replacements().items():
        module, path = name.split(":")
        *owner, attribute = path.split(".")
        owner = functools.reduce(getattr, owner, importlib.import_module(module))
        theirs = vars(owner)[attribute]
        if theirs not in made:
            made[theirs] = make(theirs)
            if isinstance(made[theirs], types.FunctionType):  # tracebacks, and pickles of functions, name the project's
                functools.update_wrapper(made[theirs], theirs)
                del made[theirs].__wrapped__  # torch.jit.script would compile it
        rows.append(_Row(owner, attribute, theirs, made[theirs]))
    return rows


def patch(project: str) -> "contextlib.AbstractContextManager[List[str]]":
    """Let a project, which must be installed, convolve by haloconv: "lhotse", "speechbrain", "espnet", "nemo",
    "torchaudio", "audiomentations", "torch_audiomentations" or "pyroomacoustics".

    Its functions are replaced in this process from now on, until unpatch(project), or until the end of the block of
    `with patch(project) as names:`; names are those that were replaced. Arguments, shapes, types, random numbers and
    levels stay those of the original; results agree within 1e-5 of their peak. If several blocks are open, the
    originals return when the last one ends; a call without a block keeps ours until unpatch(project). Processes that
    begin by spawn must call it again.

    Raises ValueError for an unknown project, ModuleNotFoundError if it is not installed, RuntimeError for a version
    that was not tested. Any thread may call it.
    """
    _check_version(project)
    adapter = importlib.import_module(f"{_adapters.__name__}.{project}")
    for name in adapter.replacements():  # not under the lock: another thread may import a module that calls patch()
        importlib.import_module(name.split(":")[0])
    with _lock:
        if project not in _patches:
            rows = _rows(adapter)  # all are found before one is replaced
            for row in rows:
                setattr(row.owner, row.attribute, row.ours)
            _patches[project] = _Patch(rows)
        _patches[project].users += 1
        return _Block(project, _patches[project])


class _Block(contextlib.AbstractContextManager):
    """The block of one call of patch()."""

    def __init__(self, project: str, patched: _Patch) -> None:
        self._project, self._patch = project, patched

    def __enter__(self) -> List[str]:
        return [str(row) for row in self._patch.rows]

    def __exit__(self, *_exception: Any) -> None:
        with _lock:
            self._patch.users -= 1
            is_last = self._patch.users == 0 and _patches.get(self._project) is self._patch
            foreign = _restore(self._project) if is_last else []
        _warn(self._project, foreign)


def _restore(project) -> List[_Row]:
    """Put the originals back. Returns the rows that another program has replaced since; they stay."""
    entry, foreign = _patches.pop(project, None), []
    for row in entry.rows if entry else ():
        if vars(row.owner).get(row.attribute) is row.ours:
            setattr(row.owner, row.attribute, row.theirs)
        else:
            foreign.append(row)
    return foreign


def _warn(project, foreign) -> None:
    if foreign:
        warnings.warn(f"unpatch({project!r}): another program has replaced {', '.join(map(str, foreign))} since; that "
                      "stays, and may still call haloconv", RuntimeWarning, stacklevel=3)


def unpatch(project: str) -> None:
    """Give a project its own functions back, also inside of blocks. Nothing happens if it is not patched.

    A function that another program has put over ours stays there, and a RuntimeWarning names it.
    """
    with _lock:
        foreign = _restore(project)
    _warn(project, foreign)
