"""haloconv.patch() and unpatch(): other projects convolve by haloconv in place of their own functions."""

import contextlib
import functools
import importlib
import importlib.metadata
import inspect
import itertools
import os
import threading
import types
import warnings
from typing import Any, Dict, List, NamedTuple

import numpy as np

from . import projects
from .projects import PROJECTS


class _Row(NamedTuple):
    owner: Any  # a module or class
    attribute: str
    theirs: Any
    ours: Any
    trial: Any

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


def _installed(project):
    """Refuse a project that is unknown or not installed, before anything imports it. Returns its name and release."""
    if project not in PROJECTS:
        raise ValueError(f"patch({project!r}): this project is unknown; known are {', '.join(PROJECTS)}")
    package = PROJECTS[project].package
    try:
        return f"{package} {importlib.metadata.version(package)}"
    except importlib.metadata.PackageNotFoundError:
        raise ModuleNotFoundError(f"patch({project!r}): {package} is not installed; install it (tried: "
                                  f"{PROJECTS[project].tried})", name=project) from None


def _rows(adapter):
    """Returns the rows of an adapter; the same function in several places has one replacement. Raises _Misfit."""
    made, rows = {}, []
    for name, (make, trial) in adapter.replacements().items():
        module, path = name.split(":")
        *owner, attribute = path.split(".")
        try:
            owner = functools.reduce(getattr, owner, importlib.import_module(module))
            theirs = vars(owner)[attribute]
        except (AttributeError, KeyError):
            raise _Misfit(f"{module} has no {path}") from None
        except ModuleNotFoundError as error:
            if not f"{module}.".startswith(f"{error.name}."):
                raise  # of something that the project needs
            raise _Misfit(f"there is no module {error.name}") from None
        if theirs not in made:
            made[theirs] = make(theirs)
            if isinstance(made[theirs], types.FunctionType):  # tracebacks, and pickles of functions, name the project's
                functools.update_wrapper(made[theirs], theirs)
                del made[theirs].__wrapped__  # torch.jit.script would compile it
                vars(made[theirs]).pop("__signature__", None)  # of theirs
        rows.append(_Row(owner, attribute, theirs, made[theirs], trial))
    return rows


class _Misfit(Exception):
    """Why a project cannot be patched: it has no such function, or other arguments or results."""


def _check_arguments(name, theirs, ours):
    """Refuse a function whose arguments ours does not take; of a module, each function that its copy has of ours."""
    if isinstance(theirs, types.ModuleType):
        for key in [key for key, value in vars(ours).items() if value is not vars(theirs)[key]]:
            _check_arguments(f"{name}.{key}", vars(theirs)[key], vars(ours)[key])
        return
    try:
        own, given = (inspect.signature(function).parameters.values() for function in (theirs, ours))
    except (TypeError, ValueError) as error:  # no function; or one of C, which may have none
        raise _Misfit(f"{name} does not tell its arguments ({error})") from error
    variadic = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
    if [argument.kind for argument in own] == list(variadic):
        return  # another program's wrapper, which gives all on
    named = [argument for argument in given if argument.kind not in variadic]
    for argument, expected in itertools.zip_longest(own, named):
        if argument is None:
            raise _Misfit(f"{name} has no argument {expected.name}")
        if expected is None and len(named) == len(given):
            raise _Misfit(f"{name} has an argument {argument.name}, which haloconv does not know")
        if expected is not None and (argument.name, argument.default) != (expected.name, expected.default):
            argument, expected = (each.replace(annotation=each.empty) for each in (argument, expected))
            raise _Misfit(f"{name} has the argument {str(argument)!r}, where haloconv expects {str(expected)!r}")


def _check_results(name, row):
    """Refuse a function whose results on a small signal are not ours."""
    results = []
    for function in (row.theirs, row.ours):
        try:
            result = row.trial(function)
            results.append([np.asarray(value) for value in (result if isinstance(result, list) else [result])])
        except Exception as error:
            raise _Misfit(f"{name}, called with a small signal: {type(error).__name__}: {error}") from error
    if len(results[0]) != len(results[1]):
        raise _Misfit(f"{name} returns {len(results[0])} results for a small signal, and haloconv {len(results[1])}")
    for theirs, ours in zip(*results):
        if (theirs.shape, theirs.dtype) != (ours.shape, ours.dtype):
            raise _Misfit(f"{name} returns {theirs.dtype} {theirs.shape} for a small signal, and haloconv {ours.dtype} "
                          f"{ours.shape}")
        error, peak = abs(theirs - ours).max(), abs(theirs).max()
        if not error <= 1e-5 * peak:
            raise _Misfit(f"the results of {name} and haloconv for a small signal differ by {error / peak:.1g} of "
                          "their peak")


def _check_fit(project, adapter, release):
    """Refuse a release of a project whose functions are not those that its adapter knows."""
    try:
        for row in _rows(adapter):
            _check_arguments(str(row), row.theirs, row.ours)
            if row.trial:
                _check_results(str(row), row)
    except _Misfit as why:
        raise RuntimeError(f"patch({project!r}): {release}: {why}; install a release that was tried "
                           f"({PROJECTS[project].tried}), or a newer haloconv") from why.__cause__


def patch(project: str) -> "contextlib.AbstractContextManager[List[str]]":
    """haloconv.patch."""
    release = _installed(project)
    adapter = importlib.import_module(f"{projects.__name__}.{project}")
    if project not in _patches:
        _check_fit(project, adapter, release)  # not under the lock: other threads may import modules that call patch()
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
        _warn(self._project, foreign, 3)


def _restore(project) -> List[_Row]:
    """Put the originals back. Returns the rows that another program has replaced since; they stay."""
    entry, foreign = _patches.pop(project, None), []
    for row in entry.rows if entry else ():
        if vars(row.owner).get(row.attribute) is row.ours:
            setattr(row.owner, row.attribute, row.theirs)
        else:
            foreign.append(row)
    return foreign


def _warn(project, foreign, stacklevel) -> None:
    if foreign:
        warnings.warn(f"unpatch({project!r}): another program has replaced {', '.join(map(str, foreign))} since; that "
                      "stays, and may still call haloconv", RuntimeWarning, stacklevel)


def unpatch(project: str) -> None:
    """haloconv.unpatch, which calls it."""
    with _lock:
        foreign = _restore(project)
    _warn(project, foreign, 4)
