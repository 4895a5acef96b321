"""patch() and unpatch(): other projects convolve by haloconv in place of their own functions."""

import contextlib
import functools
import importlib
import importlib.metadata
import pkgutil
import re
import threading
from typing import Any, Dict, Iterator, List, Tuple

from . import _adapters

_lock = threading.RLock()
_replaced: Dict[str, List[Tuple[Any, str, Any]]] = {}  # by project: (object, attribute, the original)


def _numbers(version):
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


def _adapter(project):
    """The module of _adapters for a project that is installed in a version that it knows."""
    known = [module.name for module in pkgutil.iter_modules(_adapters.__path__)
             if not module.name.startswith("_")]
    if project not in known:
        raise ValueError(f"patch({project!r}): this project is unknown; known are {', '.join(known)}")
    adapter = importlib.import_module(f"{_adapters.__name__}.{project}")
    version, (first, end) = importlib.metadata.version(adapter.DISTRIBUTION), adapter.VERSIONS
    if not _numbers(first) <= _numbers(version) < _numbers(end):
        raise RuntimeError(f"patch({project!r}): {adapter.DISTRIBUTION} {version} was not tested; install one from "
                           f"{first} on and below {end}, or a newer haloconv")
    return adapter


def patch(project: str) -> "contextlib.AbstractContextManager[List[str]]":
    """Let a project convolve by haloconv: "lhotse", for instance. It must be installed.

    Its functions are replaced in this process from now on, until unpatch(project), or until the end of the block of
    `with patch(project) as names:`; names are those that were replaced. Arguments, shapes, types, random numbers and
    levels stay those of the original; results agree within 1e-5 of their peak. A second call changes nothing. Processes
    that begin by spawn must call it again.

    Raises ValueError for an unknown project, importlib.metadata.PackageNotFoundError if it is not installed,
    RuntimeError for a version that was not tested. Any thread may call it.
    """
    with _lock:
        is_new = project not in _replaced
        if is_new:
            names = _adapter(project).replacements()
            found = []
            for name, function in names.items():  # find all before replacing one
                module, path = name.split(":")
                *owner, attribute = path.split(".")
                owner = functools.reduce(getattr, owner, importlib.import_module(module))
                found.append((owner, attribute, vars(owner)[attribute], function))
            for owner, attribute, _, function in found:
                setattr(owner, attribute, function)
            _replaced[project] = [row[:3] for row in found]
        names = [f"{owner.__name__}.{attribute}" for owner, attribute, _ in _replaced[project]]
        return _undone(project if is_new else None, names)


@contextlib.contextmanager
def _undone(project, names) -> Iterator[List[str]]:
    try:
        yield names
    finally:
        if project is not None:
            unpatch(project)


def unpatch(project: str) -> None:
    """Give a project its own functions back. Nothing happens if it is not patched."""
    with _lock:
        for owner, attribute, original in _replaced.pop(project, []):
            setattr(owner, attribute, original)
