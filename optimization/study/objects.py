"""Python objects of the user, such as a policy, and how `config.json` records them."""

import ast
import dataclasses
import hashlib
import importlib
import inspect
import pathlib
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from data.errors import UsageError

FLAG = "python_"  # Prefix of the flags that record objects.
_PLAIN = (bool, int, float, str, type(None))  # Types of parameters whose values can be restored from text.
_TEXT = re.compile(r"([\w.]+):([\w.]+)(\(.*\)) ([0-9a-f]+)", re.DOTALL)


class Recorded(NamedTuple):
    """An object as `config.json` records it.

    Attributes:
      text: `module:Class(parameter=value) digest`, with the digest of the module's source; or the object's name.
      problem: Reason why a later process cannot create the object from this text; empty if it can.
    """

    text: str
    problem: str = ""


def recorded(value: Any) -> Recorded:
    """Text of a frozen dataclass that can be imported; for any other object, its name and the problem."""
    kind = type(value)
    if inspect.isfunction(value) or not dataclasses.is_dataclass(kind):
        return Recorded(getattr(value, "__qualname__", kind.__qualname__), "is no frozen dataclass")
    path, problem = _source(kind), ""
    values = {field.name: getattr(value, field.name) for field in dataclasses.fields(kind)}
    if not kind.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        problem = "is no frozen dataclass"
    elif path is None:
        problem = "is defined in a notebook, a program or a function, not in a module"
    elif not all(map(_is_plain, values.values())):
        problem = "has parameters that are neither numbers, texts nor tuples of these"
    if problem:
        return Recorded(kind.__qualname__, problem)
    assert path is not None
    arguments = ", ".join(f"{name}={one!r}" for name, one in values.items())
    return Recorded(f"{kind.__module__}:{kind.__qualname__}({arguments}) {_digest(path)}")


def short(text: str) -> str:
    """Class and parameters of a recorded object."""
    match = _TEXT.fullmatch(text)
    return match[2] + match[3] if match else text


def rebuilt(text: str) -> Any:
    """Creates the object from the text of `recorded`.

    Raises:
      UsageError: If the object was only in memory, cannot be imported, or its module's source has changed.
    """
    match = _TEXT.fullmatch(text)
    if not match:
        raise UsageError(f"{text} was an object in memory, and is gone.")
    module, name, arguments, digest = match.groups()
    try:
        kind = getattr(importlib.import_module(module), name)
        path = _source(kind)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"{module}:{name} cannot be imported ({error}): the run needs it.") from error
    if path is None or _digest(path) != digest:
        raise UsageError(f"The source of {module}:{name} has changed since the run.")
    call = ast.parse(f"made{arguments}", mode="eval").body
    assert isinstance(call, ast.Call)
    return kind(**{str(one.arg): ast.literal_eval(one.value) for one in call.keywords})


def _is_plain(value: Any) -> bool:
    return all(map(_is_plain, value)) if type(value) is tuple else type(value) in _PLAIN


def _source(kind: type) -> pathlib.Path | None:
    """Source file of the module from which a class can be imported; None if it cannot be imported."""
    module = importlib.import_module(kind.__module__)
    if kind.__module__ == "__main__" or getattr(module, kind.__qualname__, None) is not kind:
        return None
    file = getattr(module, "__file__", None)
    return pathlib.Path(file) if file and file.endswith(".py") else None


def _digest(path: pathlib.Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def problems(objects: Mapping[str, Recorded]) -> list[str]:
    """One sentence for each object that exists only in this process."""
    return [f"{name} {one.text} {one.problem}" for name, one in objects.items() if one.problem]
