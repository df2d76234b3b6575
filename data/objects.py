"""The user's own objects as values of settings, such as a policy, and the texts that record them.

A command line names an object as `module:name`, or as a call with literal arguments: `module:Class(share=0.25)`.
In Python, a setting takes the object itself, or the same text.
"""

import ast
import contextlib
import dataclasses
import hashlib
import importlib
import importlib.util
import inspect
import itertools
import pathlib
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from absl import flags

from data import files
from data.errors import Failure, UsageError, did_you_mean, near_names

_PLAIN = (bool, int, float, str, type(None))  # Types of parameters whose values can be restored from text.
_TEXT = re.compile(r"(?P<module>[\w.]+):(?P<name>[\w.]+)(?P<call>\(.*\))?( (?P<digest>[0-9a-f]{16}))?", re.DOTALL)
_numbers = itertools.count(1)  # Objects in memory need texts that no later object has; `id` would be reused.
# For each imported module: its spec, which a reload replaces, and the digest of its source when it was first used.
_imports: dict[str, tuple[Any, str]] = {}
_LONGEST = 400  # Maximum length of an error message of the user's code.
_IN_MEMORY = re.compile(r"(.*) in memory \d+", re.DOTALL)
_WANTED = "must be module:name or module:Class(parameter=value), such as my_rules:Tempered(temperature=0.1)"


class UserObject(str):
    """An object of the user, as the text that `config.json` records.

    The text is `module:name digest` or `module:Class(share=0.25) digest`, with a digest of the module's source. Equal
    texts mean equal objects.

    Attributes:
      problem: Reason why the text does not describe the object; empty if it does.
    """

    problem: str = ""
    _value: Any

    @property
    def value(self) -> Any:
        """The object. If only the text is known, it is imported.

        Raises:
          UsageError: If it was only in memory, cannot be imported, or its module's source has changed.
        """
        if "_value" not in vars(self):
            self._value = _rebuilt(self)
        return self._value

    def made(self, name: str, kind: Any, wanted: str) -> Any:
        """The object, or what it returns if it is a function.

        Args:
          name: Name of the setting.
          kind: Required type.
          wanted: The type in words.

        Raises:
          UsageError: If it has another type, or the function fails.
        """
        with blamed(f"{name} {self.label}"):
            made = self.value() if inspect.isfunction(self.value) else self.value
        if isinstance(made, type) or not isinstance(made, kind):
            raise UsageError(f"{name} must be {wanted}, or a function that returns one, not {made!r}.")
        return made

    def release(self) -> None:
        """Forgets the object, which caches would keep in memory after its run."""
        vars(self).pop("_value", None)

    @property
    def label(self) -> str:
        """The name, with the parameters if there are any."""
        return label(self)

    @property
    def short(self) -> str:
        """The name alone, in letters and digits."""
        return "".join(filter(str.isalnum, re.split("[.]", self.label.partition("(")[0])[-1]))


@contextlib.contextmanager
def blamed(name: str) -> Iterator[None]:
    """Turns errors of the user's code into a `UsageError` that starts with the name of an object."""
    try:
        yield
    except UsageError:
        raise
    except (Exception, SystemExit) as error:  # The user's code can raise anything.
        raise UsageError(f"{name} fails: {first_line(error)}") from error


def first_line(error: BaseException) -> str:
    """Type and first line of an error that the user's code raised, shortened."""
    text = (str(error).strip().splitlines() or ["no message"])[0]
    kind = "" if isinstance(error, Failure) else f"{type(error).__name__}: "  # A failure explains itself.
    return kind + textwrap.shorten(text, _LONGEST)


def of(value: Any, text: str = "") -> UserObject:
    """Converts an object that is passed in Python.

    Args:
      value: The object. A text describes an optimizer of TFF, and a function or frozen dataclass at the top level of a
        file, if parameters are plain. Other objects exist only in memory.
      text: Text of the object, if the caller knows a better one.
    """
    if isinstance(value, UserObject):
        return value
    made = UserObject(text) if text else _described(value)
    made._value = value
    return made


def _described(value: Any) -> UserObject:
    kind: Any = value if inspect.isfunction(value) else type(value)
    path, problem, arguments = _source(kind), "", ""
    if path is None:
        problem = "is defined in a notebook or inside a function, not in a module"
    elif stored := _stored_arguments(value):
        arguments = f"({', '.join(f'{name}={one!r}' for name, one in stored.items())})"
    elif kind is not value:
        names = [field.name for field in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else []
        values = {name: getattr(value, name) for name in names}
        shown = {name: repr(one) if _is_plain(one) else getattr(one, "__name__", "...") for name, one in values.items()}
        arguments = f"({', '.join(f'{name}={one}' for name, one in shown.items())})"
        if not dataclasses.is_dataclass(kind) or not kind.__dataclass_params__.frozen:
            problem = "is neither a function nor a frozen dataclass"
        elif not all(map(_is_plain, values.values())):
            problem = "has parameters that are neither numbers, texts nor tuples of these"
    if problem or path is None:
        made = UserObject(f"{kind.__qualname__}{arguments.removesuffix('()')} in memory {next(_numbers)}")
        made.problem = problem
        return made
    module = path.stem if kind.__module__ == "__main__" else kind.__module__
    return UserObject(f"{module}:{kind.__qualname__}{arguments} {_digest(kind.__module__, path)}")


def _stored_arguments(value: Any) -> dict[str, Any]:
    """Arguments of an optimizer of TFF, which stores them in their order; empty for any other object."""
    kind = type(value)
    if not kind.__module__.startswith("tensorflow_federated.") or not hasattr(value, "get_hparams"):
        return {}
    stored = [one for one in vars(value).values() if type(one) is not list]
    arguments = dict(zip(inspect.signature(kind).parameters, stored, strict=False))
    return arguments if all(map(_is_plain, stored)) and vars(kind(**arguments)) == vars(value) else {}


def read(text: str) -> UserObject:
    """Object that a text describes. It is not imported yet.

    Raises:
      ValueError: If the text does not have this form, or if there is no such module.
    """
    match = _TEXT.fullmatch(text)
    if match is None:
        raise ValueError(_WANTED)
    if match["digest"]:
        return UserObject(text)
    try:
        _arguments(match["call"] or "()")
        path = _path(match["module"])
    except (SyntaxError, ValueError):
        raise ValueError(_WANTED) from None
    except ImportError as error:
        raise ValueError(f"{error}: run the program in the folder that contains {match['module']}.py") from None
    return UserObject(f"{text} {_digest(match['module'], path)}")


def label(text: Any) -> str:
    """Name and parameters of an object that has this text; empty if it is not the text of an object."""
    if in_memory := _IN_MEMORY.fullmatch(str(text)):
        return in_memory[1]
    match = _TEXT.fullmatch(str(text))
    return match["name"] + (match["call"] or "") if match and match["digest"] else ""


class Parser(flags.ArgumentParser):
    """Parses the text of an object, or one of a few words."""

    def __init__(self, words: Mapping[str, str]):
        super().__init__()
        self._words = words

    def parse(self, argument: Any) -> Any:
        """Parses a text.

        Raises:
          ValueError: If it is neither a word nor the text of an object.
        """
        if argument in self._words or isinstance(argument, UserObject):
            return argument
        if self._words and ":" not in argument:
            otherwise = f"value should be one of <{'|'.join(self._words)}>, or {_WANTED.removeprefix('must be ')}"
            raise ValueError(did_you_mean(near_names(argument, self._words), otherwise))
        return read(argument)


def _rebuilt(text: str) -> Any:
    match = _TEXT.fullmatch(text)
    if match is None:
        raise UsageError(f"{label(text)} was an object in memory that no longer exists: pass it again from Python.")
    where = f"{match['module']}:{match['name']}"
    try:
        path = _path(match["module"])
        if _digest(match["module"], path) != match["digest"]:
            raise UsageError(f"The source of {where} has changed since the run: restore it.")
        value: Any = importlib.import_module(match["module"])
        for name in match["name"].split("."):
            value = getattr(value, name)
    except UsageError:
        raise
    except (Exception, SystemExit) as error:  # The module's code can raise anything.
        raise UsageError(f"{where} cannot be imported: {first_line(error)}.") from error
    if match["call"] is None and not isinstance(value, type):
        return value
    positional, named = _arguments(match["call"] or "()")
    with blamed(f"{where}{match['call'] or '()'}"):
        value = value(*positional, **named)
    return value


def _arguments(call: str) -> tuple[list[Any], dict[str, Any]]:
    """Arguments of a call, such as `(0.1, name="a")`."""
    parsed = ast.parse(f"made{call}", mode="eval").body
    if not isinstance(parsed, ast.Call) or not isinstance(parsed.func, ast.Name):
        raise ValueError(call)
    named = {str(one.arg): ast.literal_eval(one.value) for one in parsed.keywords}
    return [ast.literal_eval(one) for one in parsed.args], named


def _path(module: str) -> pathlib.Path:
    """Source file of a module, which may be in the user's working directory.

    Raises:
      ImportError: If there is none.
    """
    folder = files.user_path(".")
    if folder not in sys.path:
        sys.path.append(folder)
    importlib.invalidate_caches()
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.origin or not spec.origin.endswith(".py"):
        raise ImportError(f"there is no module {module}")
    return pathlib.Path(spec.origin)


def _is_plain(value: Any) -> bool:
    return all(map(_is_plain, value)) if type(value) is tuple else type(value) in _PLAIN


def _source(kind: Any) -> pathlib.Path | None:
    """Source file in which a class or function is defined at the top level; None if there is none."""
    module: Any = importlib.import_module(kind.__module__)
    if getattr(module, kind.__qualname__, None) is not kind:
        return None
    file = getattr(module, "__file__", None)
    return pathlib.Path(file) if file and file.endswith(".py") else None


def _digest(module: str, path: pathlib.Path) -> str:
    """Digest of a module's source.

    Raises:
      UsageError: If the source has changed since this process imported the module, whose old code would run.
    """
    digest, spec = (
        hashlib.sha256(path.read_bytes()).hexdigest()[:16],
        getattr(sys.modules.get(module), "__spec__", None),
    )
    imported, before = _imports.setdefault(module, (spec, digest))
    if digest != before and module in sys.modules and spec is imported:
        raise UsageError(f"{path} has changed since it was imported: restart Python, or call importlib.reload.")
    _imports[module] = (spec, digest)
    return digest


def problems(values: Mapping[str, Any]) -> list[str]:
    """For each object that no text describes, a sentence that starts with the name of its setting."""
    listed = [(name, each) for name, one in values.items() for each in (one if isinstance(one, list) else [one])]
    return [f"{name} {each.label} {each.problem}" for name, each in listed if each.problem]
