"""patch() and unpatch(): other projects convolve by haloconv in place of their own functions."""

import contextlib
import functools
import importlib
import importlib.metadata
import re
import threading
import types
import warnings
from typing import Any, Dict, Iterator, List, NamedTuple

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


_lock = threading.RLock()
_patches: Dict[str, _Patch] = {}  # by project


def _release(version):
    """What versions are compared by: (numbers, whether it is final); "1.33rc1" is below "1.33"."""
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


def _rows(project):
    """What an adapter replaces; the same function in several places has one replacement."""
    adapter = importlib.import_module(f"{_adapters.__name__}.{project}")
    made, rows = {}, []
    for name, make in adapter.replacements().items():
        module, path = name.split(":")
        *owner, attribute = path.split(".")
        owner = functools.reduce(getattr, owner, importlib.import_module(module))
        theirs = vars(owner)[attribute]
        if theirs not in made:
            made[theirs] = make(theirs)
            if isinstance(made[theirs], types.FunctionType):  # pickles and tracebacks have the project's names
                functools.update_wrapper(made[theirs], theirs)
                del made[theirs].__wrapped__  # torch.jit.script would compile it
        rows.append(_Row(owner, attribute, theirs, made[theirs]))
    return rows


def patch(project: str) -> "contextlib.AbstractContextManager[List[str]]":
    """Let a project, which must be installed, convolve by haloconv: "lhotse", "speechbrain", "espnet", "nemo",
    "torchaudio", "audiomentations", "torch_audiomentations" or "pyroomacoustics".

    Its functions are replaced in this process from now on, until unpatch(project), or until the end of the block of
    `with patch(project) as names:`; names are those that were replaced. Arguments, shapes, types, random numbers and
    levels stay those of the original; results agree within 1e-5 of their peak. Of several calls the last block that
    ends gives the originals back; a call without a block keeps ours until unpatch(project). Processes that begin by
    spawn must call it again.

    Raises ValueError for an unknown project, ModuleNotFoundError if it is not installed, RuntimeError for a version
    that was not tested. Any thread may call it.
    """
    with _lock:
        if project not in _patches:
            _check_version(project)
            rows = _rows(project)  # all are found before one is replaced
            for row in rows:
                setattr(row.owner, row.attribute, row.ours)
            _patches[project] = _Patch(rows)
        _patches[project].users += 1
        return _block(project, _patches[project])


@contextlib.contextmanager
def _block(project, entry) -> Iterator[List[str]]:
    try:
        yield [str(row) for row in entry.rows]
    finally:
        with _lock:
            entry.users -= 1
            if entry.users == 0 and _patches.get(project) is entry:
                unpatch(project)


def unpatch(project: str) -> None:
    """Give a project its own functions back, also inside of blocks. Nothing happens if it is not patched.

    A function that another program has put over ours stays there, and a RuntimeWarning names it.
    """
    with _lock:
        entry = _patches.pop(project, None)
        for row in entry.rows if entry else ():
            if vars(row.owner).get(row.attribute) is row.ours:
                setattr(row.owner, row.attribute, row.theirs)
            else:
                warnings.warn(f"unpatch({project!r}): another program has replaced {row} since; its function "
                              "stays, and may still call haloconv", RuntimeWarning, stacklevel=2)
