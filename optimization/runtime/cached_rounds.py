"""Disk cache of compiled rounds, which later programs with the same rounds reuse.

A file holds computations as TFF messages and the names of the Python containers of their structures, but no data of a
run. Callers must keep weights, noise and noise seeds out of the computations. A worker executes the content, so the
cache only reads files that this user owns and that nobody else can access.
"""

import base64
import contextlib
import functools
import hashlib
import importlib
import json
import os
import pathlib
import pkgutil
import sys
import weakref
from collections.abc import Callable, Sequence

import numpy as np
import psutil
import tensorflow as tf
import tensorflow_federated as tff
import tensorflow_privacy

from data import files
from data.errors import Failure
from optimization.runtime import private

_MOST = 100  # Maximum number of files. A TFF process has up to four, of at most half a megabyte each.
_PACKAGES = (np, tf, tff, tensorflow_privacy)
_CLOCK_SECONDS = 2  # Error of the start time that the system reports for a process.
_PROJECT = ("bandits", "data", "optimization")
_places: weakref.WeakKeyDictionary[tff.Computation, tuple[pathlib.Path, str]] = weakref.WeakKeyDictionary()


def is_versioned(*parts: object) -> bool:
    """Whether all parts are of classes that are built in or defined in this project, so that `_version` covers them."""
    return all(type(part).__module__.partition(".")[0] in (*_PROJECT, "builtins") for part in parts)


def process(
    folder: pathlib.Path, key: str, build: Callable[[], tff.templates.IterativeProcess]
) -> tff.templates.IterativeProcess:
    """Returns the process that an earlier program cached, or builds and caches it.

    Args:
      folder: Cache folder, which is created if missing.
      key: Everything that determines the process, except for the versions of the project and its packages.
      build: Function that builds the process.
    """

    def make() -> list[tff.Computation]:
        built = build()
        return [built.initialize, built.next]

    made = _cached(folder, key, make)
    for index, computation in enumerate(made):
        _places[computation] = folder, f"{key} {index}"
    return tff.templates.IterativeProcess(*made)


def derived(
    computation: tff.Computation, what: str, derive: Callable[[], Sequence[tff.Computation]]
) -> Sequence[tff.Computation]:
    """Derives computations from one computation. The result is cached if the computation came from `process`.

    Args:
      computation: The computation that `derive` uses.
      what: Name of the derived result.
      derive: Function that derives it; an empty result is not cached.
    """
    if computation not in _places:
        return derive()
    folder, key = _places[computation]
    return _cached(folder, f"{key} {what}", derive)


def _cached(folder: pathlib.Path, key: str, make: Callable[[], Sequence[tff.Computation]]) -> Sequence[tff.Computation]:
    version = _version()
    if version is None:
        return make()
    path = folder / hashlib.sha256(f"{version}\n{key}".encode()).hexdigest()
    if (cached := _read(path)) is not None:
        return cached
    made = make()
    _write(path, made)
    return made


@functools.cache
def _version() -> str | None:
    """Version of the project and of the packages that it uses.

    None if a module changed after this program started, because the program may have loaded the earlier version.
    """
    root = pathlib.Path(__file__).resolve().parents[2]
    sources = _digest_of_sources(root, psutil.Process().create_time() - _CLOCK_SECONDS)
    return sources and repr([sources, sys.version, *(package.__version__ for package in _PACKAGES)])


def _digest_of_sources(root: pathlib.Path, before: float) -> str | None:
    """Digest of the modules below a folder; None if one of them changed after `before`."""
    digest = hashlib.sha256()
    for path in sorted(path for package in _PROJECT for path in (root / package).rglob("*.py")):
        if path.stat().st_ctime > before:
            return None
        digest.update(repr((str(path.relative_to(root)), path.read_bytes())).encode())
    return digest.hexdigest()


def _read(path: pathlib.Path) -> list[tff.Computation] | None:
    """Reads the computations in a file; None if it is missing or damaged, or if other users own it or can access it."""
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW)) as file:
            if not _is_users(os.fstat(file.fileno())) or not _is_users(path.parent.lstat()):
                return None
            digest, _, content = file.read().partition(b"\n")
        if digest != _digest(path, content):
            return None
        os.utime(path)
    except OSError:
        return None
    return [_decoded(**computation) for computation in json.loads(content)]


def _write(path: pathlib.Path, computations: Sequence[tff.Computation]) -> None:
    """Caches computations. Does nothing if there are none, others can access the folder, or a container has no name."""
    try:
        content = json.dumps([_encoded(computation) for computation in computations]).encode()
    except LookupError:
        return
    with contextlib.suppress(OSError, Failure):
        path.parent.parent.mkdir(parents=True, exist_ok=True)
        path.parent.mkdir(0o700, exist_ok=True)
        if computations and _is_users(path.parent.lstat()):
            with files.whole(path, 0o600) as file:
                file.write(_digest(path, content) + b"\n" + content)
            cached = path.parent.glob("[0-9a-f]" * len(path.name))  # Ignores files that are not part of the cache.
            for oldest in sorted(cached, key=lambda one: one.stat().st_mtime)[:-_MOST]:
                oldest.unlink()


def _is_users(status: os.stat_result) -> bool:
    return status.st_uid == os.geteuid() and not status.st_mode & 0o077


def _digest(path: pathlib.Path, content: bytes) -> bytes:
    return hashlib.sha256(path.name.encode() + content).hexdigest().encode()


def _encoded(computation: tff.Computation) -> dict[str, str | list[str]]:
    """Encodes a computation for JSON.

    Raises:
      LookupError: If a Python container in its structures cannot be imported by name.
    """
    containers = []

    def note(part: tff.Type) -> tuple[tff.Type, bool]:
        if isinstance(part, tff.StructType):
            containers.append(_name(part.python_container))
        return part, False

    private.transform_type(computation.type_signature, note)
    message = tff.framework.serialize_computation(computation).SerializeToString(deterministic=True)
    return {"message": base64.b64encode(message).decode(), "containers": containers}


def _decoded(message: str, containers: Sequence[str]) -> tff.Computation:
    waiting = iter(containers)

    def contain(part: tff.Type) -> tuple[tff.Type, bool]:
        if not isinstance(part, tff.StructType) or not (name := next(waiting)):
            return part, False
        return tff.StructWithPythonType(tff.structure.iter_elements(part), pkgutil.resolve_name(name)), True

    parsed = private.computations.Computation.FromString(base64.b64decode(message))
    computation = tff.framework.deserialize_computation(parsed)
    signature, _ = private.transform_type(computation.type_signature, contain)
    return tff.framework.ConcreteComputation.with_type(computation, signature)


def _name(container: type | None) -> str:
    """Name under which a container class can be imported; empty without a container. See `_encoded` for errors."""
    if container is None:
        return ""
    module = vars(importlib.import_module(container.__module__))
    # The qualified name of a `collections.namedtuple` inside a class does not include that class.
    owners = (f"{name}." for name, value in module.items() if isinstance(value, type))
    for owner in ("", *owners):
        name = f"{container.__module__}:{owner}{container.__qualname__}"
        with contextlib.suppress(AttributeError, ValueError):
            # `__main__` is a different module in another program.
            if container.__module__ != "__main__" and pkgutil.resolve_name(name) is container:
                return name
    raise LookupError(f"{container} cannot be imported by a name.")
