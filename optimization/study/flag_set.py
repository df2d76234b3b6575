"""The flags of a program, in groups, on absl's parser; values from files are checked as those of the command line."""

import dataclasses
import difflib
import math
import os
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from absl import flags

from data.errors import UsageError
from optimization.study.settings import Owner, Parameter, Settings

_MOST_NAMES = 3
_ALIKE = 0.95  # A letter of twenty.


def near_names(word: str, known: Iterable[str]) -> list[str]:
    """Returns the names that a word may stand for, the likeliest first; none if nothing is near.

    They are those of which hardly a letter differs; else those that have all the parts of the word; else parts that
    begin so; else those of whose parts it is the initials; and else those that are spelt alike. Short names come first.

    Args:
      word: What was written.
      known: All names; their parts are separated by underscores.
    """
    known, wanted = list(known), _parts(word)
    if not wanted:
        return []
    if alike := difflib.get_close_matches(word, known, n=_MOST_NAMES, cutoff=_ALIKE):
        return alike
    whole = [name for name in known if set(wanted) <= set(_parts(name))]
    begun = [name for name in known if all(any(map(_begins(part), _parts(name))) for part in wanted)]
    initials = [name for name in known if len(word) > 1 and word.lower() in "".join(one[0] for one in _parts(name))]
    found = sorted(whole or begun or initials, key=lambda name: len(_parts(name)))
    return found or difflib.get_close_matches(word, known, n=_MOST_NAMES)


def did_you_mean(names: Iterable[str], otherwise: str) -> str:
    """Returns the question whether the first of some names were meant; what to do `otherwise` if there are none."""
    first = list(names)[:_MOST_NAMES]
    return f"did you mean {' or '.join(filter(None, (', '.join(first[:-1]), first[-1])))}?" if first else otherwise


def _parts(name: str) -> list[str]:
    return [part for part in re.split("[^0-9a-z]+", name.lower()) if part]


def _begins(part: str) -> Callable[[str], bool]:
    return lambda other: other == part or (len(part) > 1 and other.startswith(part))


WORKING_DIRECTORY = "BUILD_WORKING_DIRECTORY"  # Where the user is, under `bazel run`.
_MOST = 2**31 - 1
_MOST_VALUES = 4  # Of more, with which a flag goes, the others are named, where they are fewer.
# By flag's type: the types of Python that a file's values of it may have, and what they are to the user.
_TYPES: Mapping[str, tuple[Any, str]] = {
    "bool": (bool, "true or false"),
    "int": (int, "a whole number"),
    "float": ((float, int), "a number"),
    "number or quantile": ((float, int, str), "a number, or a text such as quantile:0.5"),
}
_TEXT = (str, "a text in quotes")
_KINDS: Mapping[type, str] = {str: "a text", list: "a list", dict: "a table"}


@dataclasses.dataclass(frozen=True)
class _Group:
    """Flags under one title of `--help`, each with its help and that of its choices, and what all belong to."""

    title: str
    owners: Mapping[str, Sequence[str] | bool]
    flags: list[tuple[str, str, Mapping[str, str]]] = dataclasses.field(default_factory=list)


class FlagSet:
    """The flags of one binary, in groups, on absl's parser."""

    def __init__(self, usage: str, positional: str | None = None, *, known_only: bool = False):
        """Makes an empty set.

        Args:
          usage: First lines of `--help`.
          positional: Name of the setting that holds the arguments that are no flags, as a tuple; None refuses them.
          known_only: Whether flags of other programs are such arguments too.
        """
        self._usage = usage
        self._positional = positional
        self._known_only = known_only
        self._flags = flags.FlagValues()
        self._flags.set_gnu_getopt(positional is not None)  # Flags may follow the other arguments.
        self._groups: list[_Group] = []
        self._owners: dict[str, dict[str, Sequence[str] | bool]] = {}
        self._parameters: dict[str, tuple[str, Mapping[str, Parameter]]] = {}
        self._paths: list[str] = []
        self._checks: dict[str, list[Callable[[Any], str]]] = {}
        self._file: tuple[str, Callable[[str], Mapping[str, Any]]] | None = None
        self._spellings: dict[str, str] = {}
        self._elsewhere: dict[str, str] = {}

    def group(self, title: str, **owners: Sequence[str] | bool) -> None:
        """Starts a group; flags that are defined next belong to it in `--help`, and to the owners, see `belong`."""
        self._groups.append(_Group(title, owners))

    def belong(self, *names: str, **owners: Sequence[str] | bool) -> None:
        """Declares that flags are read only where other flags have certain values, all of them.

        Args:
          *names: The flags. Given beside another choice, they are refused; see `Settings.settled`.
          **owners: By flag, these values; True for any, False for none.
        """
        for name in names:
            known = self._owners[name]
            for flag, values in owners.items():
                before = known.get(flag, values)
                known[flag] = values if before is values else [one for one in before if one in values]  # type: ignore

    def _owners_of(self, name: str) -> list[Owner]:
        return [self._owner(flag, values) for flag, values in self._owners[name].items()]

    def _owner(self, flag: str, values: Sequence[str] | bool) -> Owner:
        if isinstance(values, bool):
            return Owner(flag, values)
        others = [value for value in getattr(self._flags[flag].parser, "enum_values", ()) if value not in values]
        return Owner(flag, values, others if len(values) > max(_MOST_VALUES, len(others)) else ())

    def _note(self, name: str, help_text: str, choices: Mapping[str, str] | None = None) -> None:
        self._groups[-1].flags.append((name, help_text, choices or {}))
        self._owners[name] = {}
        self.belong(name, **self._groups[-1].owners)

    def text(self, name: str, default: str | None, help_text: str) -> None:
        """Defines a string flag, which may be left out but not empty."""
        flags.DEFINE_string(name, default, help_text, flag_values=self._flags)
        self._note(name, help_text)
        self._check(name, lambda value: "is empty: give it a value, or leave it out" if value == "" != default else "")

    def path(self, name: str, default: str | None, help_text: str) -> None:
        """Defines a flag for a path, whose value is absolute; see `user_path`."""
        self.text(name, default, help_text)
        self._paths.append(name)

    def folder(self, name: str, help_text: str) -> None:
        """Defines the name of a folder below another flag's; it may have several parts, separated by slashes."""
        self.text(name, None, help_text)

        def complaint(value: str | None) -> str:
            parts = value.split("/") if value is not None else ["name"]
            if all(part.strip(". ") and part.isprintable() for part in parts):
                return ""
            return "must be the name of a folder below that of all output: no .., no / in front"

        self._check(name, complaint)

    def file(self, name: str, read: Callable[[str], Mapping[str, Any]], help_text: str) -> None:
        """Defines a flag for a file of other flags' values, which count as given unless the command line says more.

        A value that does not go with what the command line chooses is left out: the command line wins.

        Args:
          name: The flag.
          read: Takes the file's path, returns the flags and their values. What is wrong with one is told with the path.
          help_text: Its help.
        """
        self.path(name, None, help_text)
        self._file = (name, read)

    def texts(self, name: str, help_text: str) -> None:
        """Defines a string flag that may be given several times; its value is a list."""
        flags.DEFINE_multi_string(name, [], help_text, flag_values=self._flags)
        self._note(name, help_text)

    def switch(self, name: str, default: bool | None, help_text: str) -> None:
        """Defines a boolean flag, `--name` or `--noname`."""
        flags.DEFINE_boolean(name, default, help_text, flag_values=self._flags)
        self._note(name, help_text)

    def spelled(self, name: str, other: str) -> None:
        """Declares another spelling of a flag, which other programs have."""
        self._spellings[other] = name

    def elsewhere(self, name: str, remedy: str) -> None:
        """Declares a flag of another program, which is refused with the words that say where it belongs."""
        self._elsewhere[name] = remedy

    def choice(
        self,
        name: str,
        default: str | None,
        choices: Sequence[str] | Mapping[str, str],
        help_text: str,
        spellings: Mapping[str, str] | None = None,
    ) -> None:
        """Defines a flag that takes one of a few words.

        Args:
          name: The flag.
          default: Its value if it is not given.
          choices: The words, each with a line of help if this is a mapping.
          help_text: Its help.
          spellings: Other spellings of words, which other programs have.
        """
        parser = _Choice(list(choices), spellings or {})
        flags.DEFINE(parser, name, default, help_text, flag_values=self._flags)
        if isinstance(choices, Mapping):
            self._note(name, help_text, choices)
        else:
            self._note(name, f"{help_text}: {', '.join(choices)}")

    def integer(self, name: str, default: int | None, help_text: str, *, low: int = 0, high: int | None = None) -> None:
        """Defines a whole number in [low, high]; without `high`, of at most 31 bits."""
        flags.DEFINE_integer(name, default, help_text, lower_bound=low, upper_bound=high, flag_values=self._flags)
        self._note(name, help_text)
        if high is None:
            self._check(name, lambda value: f"is more than {_MOST}" if (value or 0) > _MOST else "")

    def number(
        self,
        name: str,
        default: float | None,
        help_text: str,
        *,
        low: float = 0.0,
        high: float | None = None,
        above: bool = False,
        below: bool = False,
    ) -> None:
        """Defines a number from `low` (excluded if `above`) to `high` (excluded if `below`), within float32's range."""
        self._number(name, [Parameter(default, help_text, low, high, above, below)], default, help_text)

    def numbers(
        self, name: str, default: str | None, help_text: str, *, whole: bool = False, high: float = math.inf
    ) -> None:
        """Defines numbers above 0 and up to `high`, separated by commas: a tuple, of integers if they are `whole`."""
        flags.DEFINE(_Numbers(whole, high), name, default, help_text, flag_values=self._flags)
        self._note(name, help_text)

    def number_or_quantile(self, name: str, default: float | None, help_text: str, *, low: float, high: float) -> None:
        """Defines a number in [low, high], or `quantile:Q`, the quantile Q in [0, 1] of what a run observes."""
        flags.DEFINE(_NumberOrQuantile(low, high), name, default, help_text, flag_values=self._flags)
        self._note(name, help_text)

    def _number(self, name: str, kinds: Sequence[Parameter], default: float | None, help_text: str) -> None:
        """Defines a number that one of several parameters takes."""
        flags.DEFINE_float(name, default, help_text, flag_values=self._flags)
        self._note(name, help_text)
        self._check(name, lambda value: min((parameter.complaint(value) for parameter in kinds), key=bool))

    def parameters(self, prefix: str, flag: str, owned: Mapping[str, Mapping[str, Parameter]]) -> None:
        """Defines `--PREFIX + NAME` for every number that the choices of another flag read.

        Choices may share a name, each with a default, bounds and help of its own; a value must suit the one chosen.

        Args:
          prefix: How the flags begin.
          flag: The other flag.
          owned: By choice, its parameters by name.
        """
        for name in dict.fromkeys(name for parameters in owned.values() for name in parameters):
            readers = {choice: parameters[name] for choice, parameters in owned.items() if name in parameters}
            kinds: dict[Parameter, list[str]] = {}
            for choice, parameter in readers.items():
                kinds.setdefault(parameter, []).append(choice)
            first, *others = kinds
            default, help_text = first.default, first.help
            if others:  # The default of the one that is chosen; see `Settings.settled`.
                default = None
                help_text = "; ".join(
                    f"{', '.join(choices)}: {parameter.help}{_default(parameter.default)}"
                    for parameter, choices in kinds.items()
                )
            self._number(f"{prefix}{name}", list(kinds), default, help_text)
            self.belong(f"{prefix}{name}", **{flag: list(readers)})
            self._parameters[f"{prefix}{name}"] = (flag, readers)

    def _check(self, name: str, complaint: Callable[[Any], str]) -> None:
        """Has a flag's value refused with what `complaint` returns; nothing if it is sound."""

        def check(value: Any) -> bool:
            if told := complaint(value):
                raise flags.ValidationError(told)
            return True

        self._checks.setdefault(name, []).append(complaint)
        flags.register_validator(name, check, flag_values=self._flags)

    def parse(self, argv: Sequence[str]) -> Settings:
        """Parses a command line.

        Args:
          argv: Program name and arguments.

        Returns:
          All flags' values.

        Raises:
          UsageError: On an unknown flag, a bad value or, unless they are wanted, an argument that is no flag.
        """
        try:
            rest = self._flags([self._known(word) for word in argv], known_only=self._known_only)
        except flags.UnrecognizedFlagError as error:
            raise self._unknown(error.flagname, error.flagvalue) from error
        except flags.Error as error:
            raise UsageError(str(error).replace("flag --", "--").replace("\n", " ")) from error
        if len(rest) > 1 and self._positional is None:
            raise UsageError(f"Unexpected argument {rest[1]!r}: settings are given as --flag=value.")
        names = [name for group in self._groups for name, _, _ in group.flags]
        given = frozenset(name for name in names if self._flags[name].present)
        values = {name: self._flags[name].value for name in names}
        values |= {name: user_path(values[name]) for name in self._paths if values[name]}
        if self._positional is not None:
            values[self._positional] = tuple(rest[1:])
        owners = {name: self._owners_of(name) for name in names}
        added = {name: value for name, value in self._added(values).items() if name not in given}
        values |= added
        lost = {
            name for name in added for owner in owners[name] if owner.flag in given and not _goes(owner, name, values)
        }
        values |= {name: self._flags[name].default for name in lost}
        from_file = frozenset(added) - lost
        return Settings(values, given | from_file, owners, self._parameters, self.checked, from_file)

    def _known(self, word: str) -> str:
        """Returns a word of the command line with the flag, if it is another spelling of one, as it is known."""
        found = re.match(r"--?(\w+)(?==|$)", word)
        name = found and self._spellings.get(found[1])
        return f"--{name}{word[found.end() :]}" if found and name else word

    def _added(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the values of the file that the command line names."""
        if self._file is None or not (path := values[self._file[0]]):
            return {}
        try:
            return {name: self.checked(name, value) for name, value in self._file[1](path).items()}
        except UsageError as error:
            raise UsageError(f"{path}: {error}") from error

    def checked(self, name: str, value: Any) -> Any:
        """Returns a value that did not come from the command line as the flag's, or None for none.

        Raises:
          UsageError: If there is no such flag, or it takes no such value, as on the command line.
        """
        if name not in self._owners:
            raise UsageError(f"{name} is no flag: {did_you_mean(near_names(name, self._owners), '--help lists all.')}")
        if value is None:
            return None
        flag = self._flags[name]
        types, wanted = _TYPES.get(flag.flag_type(), _TEXT)
        if not isinstance(value, types) or (isinstance(value, bool) and types is not bool):
            found = str(value).lower() if isinstance(value, int | float) else _KINDS.get(type(value), "a date or time")
            raise UsageError(f"{name} takes {wanted}, not {found}.")
        try:
            value = flag.parser.parse(value)
            told = next(filter(None, (complaint(value) for complaint in self._checks.get(name, ()))), None)
        except ValueError as error:
            told = str(error)
        if told:
            raise UsageError(f"{name} = {value}: {told}")
        return user_path(value) if name in self._paths else value

    def _unknown(self, name: str, argument: str) -> UsageError:
        """Returns the error of a flag that is not known, with those that are near and take the value."""
        if remedy := self._elsewhere.get(name):
            return UsageError(f"--{name} is not a flag of this program: {remedy}.")
        near = near_names(name, self._owners)
        _, equals, value = argument.partition("=")
        taking = [one for one in near if not equals or self._takes(one, value)]
        return UsageError(
            f"--{name} is not known: {did_you_mean([f'--{one}' for one in taking or near], '--help lists all flags.')}"
        )

    def _takes(self, name: str, text: str) -> bool:
        try:
            self._flags[name].parser.parse(text)
        except ValueError:
            return False
        return True

    def help(self) -> str:
        """Returns the text of `--help`."""
        lines = [self._usage.strip(), ""]
        for group in self._groups:
            shared = [self._owner(*owner).help() for owner in group.owners.items()]
            lines.append(f"{', '.join([group.title, *shared])}:")
            for name, help_text, choices in group.flags:
                own = [owner.help() for owner in self._owners_of(name)]
                only = "".join(f"; {told}" for told in own if told not in shared)
                text = f"--{name}: {help_text}{_default(self._flags[name].default)}{only}"
                lines += textwrap.wrap(text, 110, initial_indent="  ", subsequent_indent="      ")
                lines += [f"      {choice:<28}{help_line}" for choice, help_line in choices.items()]
            lines.append("")
        return "\n".join(lines)


def _goes(owner: Owner, name: str, values: Mapping[str, Any]) -> bool:
    try:
        owner.check(name, values[owner.flag])
    except UsageError:
        return False
    return True


class _Choice(flags.EnumParser):
    """Takes one of a few words, or another spelling of one; told of another, it names those that are near, or all."""

    def __init__(self, words: Sequence[str], spellings: Mapping[str, str]):
        """Takes the words, and which of them is meant by other spellings."""
        super().__init__(words)
        self._spellings = spellings

    def parse(self, argument: str) -> str:
        """Returns the word.

        Raises:
          ValueError: If it is another.
        """
        argument = self._spellings.get(argument, argument)
        if argument in self.enum_values:
            return argument
        otherwise = f"value should be one of <{'|'.join(self.enum_values)}>"
        raise ValueError(did_you_mean(near_names(argument, self.enum_values), otherwise))


class _Numbers(flags.ArgumentParser):
    """Takes numbers above 0, separated by commas."""

    def __init__(self, whole: bool, high: float):
        super().__init__()
        self._kind, self._high = int if whole else float, high

    def parse(self, argument: str) -> tuple[float, ...]:
        """Returns the numbers.

        Raises:
          ValueError: If one is no number, or out of bounds.
        """
        try:
            found = tuple(map(self._kind, str(argument).split(",")))
        except ValueError:
            found = (0,)
        if not all(0 < number <= self._high and number < math.inf for number in found):
            kind = "whole numbers" if self._kind is int else "numbers"
            upper = f" up to {self._high:g}" if self._high < math.inf else ""
            raise ValueError(f"must be {kind} above 0{upper}, separated by commas")
        return found


class _NumberOrQuantile(flags.ArgumentParser):
    """Takes a number between two others, or `quantile:` and a number from 0 to 1."""

    def __init__(self, low: float, high: float):
        super().__init__()
        self._bounds = {"": (low, high), "quantile": (0.0, 1.0)}

    def parse(self, argument: Any) -> float | str:
        """Returns the number, or the quantile with its number in short.

        Raises:
          ValueError: If it is neither.
        """
        kind, _, number = str(argument).rpartition(":")
        low, high = self._bounds[""]
        try:
            least, most = self._bounds[kind]
            if not least <= float(number) <= most:
                raise ValueError(number)
        except (KeyError, ValueError):
            told = f"must be a number from {low:g} to {high:g}, or a quantile from 0 to 1, such as quantile:0.5"
            raise ValueError(told) from None
        return f"{kind}:{float(number):g}" if kind else float(number)

    def flag_type(self) -> str:
        """Returns the key of `_TYPES`."""
        return "number or quantile"


def _default(value: Any) -> str:
    """Returns how `--help` shows a flag's default."""
    shown = ",".join(map(str, value)) if isinstance(value, tuple) else str(value).lower()
    return "" if value in (None, []) else f" (default: {shown})"


def shown_path(path: str) -> str:
    """Returns a path as the user would write it: relative, if it lies below where the user is."""
    relative = os.path.relpath(path, user_path("."))
    return path if relative.startswith("..") else relative


def user_path(path: str) -> str:
    """Returns an absolute path; under `bazel run`, relative ones start where the user is."""
    base = os.environ.get(WORKING_DIRECTORY, os.getcwd())
    return os.path.normpath(os.path.join(base, os.path.expanduser(path)))
