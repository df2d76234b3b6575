"""Flags, their checks and exit statuses, shared by all experiment binaries.

Nothing here imports TensorFlow, so that `--help` and a mistyped flag are answered at once. Exit status 0 is success,
1 a failure, 2 bad usage, 130 and 143 an interruption by Ctrl-C and SIGTERM.
"""

import dataclasses
import difflib
import errno
import os
import pathlib
import shlex
import signal
import sys
import textwrap
import traceback
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from absl import flags

from data.errors import Failure, UsageError
from optimization.study import interruption
from optimization.study.settings import Owner, Parameter, Settings

# What the world outside may be to blame for: errors that need no traceback.
_OUTSIDE = {
    errno.EACCES,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EIO,
    errno.EISDIR,
    errno.ENOSPC,
    errno.ENOTDIR,
    errno.EPERM,
    errno.EROFS,
}
_WORKING_DIRECTORY = "BUILD_WORKING_DIRECTORY"  # Where the user is, under `bazel run`.
_DATA_DIR = "FEDBANDITS_DATA_DIR"  # Where the user's data is, if no flag says so.
# Who repeats a run's command does not want to start it over once it is done.
_NOT_REPEATED = {"--restart", "-restart", "--restart=true"}
_MOST_REPEATS = 500  # The folders of all runs are claimed beforehand, an open file each.
_MOST = 2**31 - 1
_MOST_VALUES = 4  # Of more, with which a flag goes, the others are named, where they are fewer.


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

    def texts(self, name: str, help_text: str) -> None:
        """Defines a string flag that may be given several times; its value is a list."""
        flags.DEFINE_multi_string(name, [], help_text, flag_values=self._flags)
        self._note(name, help_text)

    def switch(self, name: str, default: bool | None, help_text: str) -> None:
        """Defines a boolean flag, `--name` or `--noname`."""
        flags.DEFINE_boolean(name, default, help_text, flag_values=self._flags)
        self._note(name, help_text)

    def choice(
        self, name: str, default: str | None, choices: Sequence[str] | Mapping[str, str], help_text: str
    ) -> None:
        """Defines a flag that takes one of a few words, each with a line of help if `choices` is a mapping."""
        flags.DEFINE_enum(name, default, list(choices), help_text, flag_values=self._flags)
        if isinstance(choices, Mapping):
            self._note(name, help_text, choices)
        else:
            self._note(name, f"{help_text}: {', '.join(choices)}")

    def integer(
        self,
        name: str,
        default: int | None,
        help_text: str,
        *,
        low: int = 0,
        high: int | None = None,
    ) -> None:
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
            rest = self._flags(list(argv), known_only=self._known_only)
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
        return Settings(values, given, {name: self._owners_of(name) for name in names}, self._parameters)

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


def _default(value: Any) -> str:
    """Returns how `--help` shows a flag's default."""
    return "" if value in (None, []) else f" (default: {str(value).lower()})"


def seeds(settings: Mapping[str, Any]) -> range:
    """Returns the seeds of `--seed` and `--repeat`.

    Raises:
      UsageError: If they are too many, or one has more than 32 bits.
    """
    first, count = settings["seed"], settings["repeat"]
    if count > _MOST_REPEATS:
        raise UsageError(f"--repeat={count} is more than {_MOST_REPEATS} runs of one command.")
    if first + count > 2**32:
        raise UsageError(f"--seed={first} with --repeat={count} ends above {2**32 - 1}, the largest seed.")
    return range(first, first + count)


def whole_numbers(flag: str, text: str) -> list[int]:
    """Returns the numbers of a flag, separated by commas.

    Raises:
      UsageError: If one is no whole number above 0.
    """
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and int(word) for word in words):
        raise UsageError(f"--{flag}={text} must be whole numbers above 0, separated by commas.")
    return [int(word) for word in words]


def unknown(flag: str, name: str, known: Iterable[str], otherwise: str) -> UsageError:
    """Returns the error of a name that is not known: it tells those that are near, or what to do `otherwise`."""
    near = difflib.get_close_matches(name, known, n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else otherwise
    return UsageError(f"--{flag}={name} is not known: {hint}")


def user_path(path: str) -> str:
    """Returns an absolute path; under `bazel run`, relative ones start where the user is."""
    base = os.environ.get(_WORKING_DIRECTORY, os.getcwd())
    return os.path.normpath(os.path.join(base, os.path.expanduser(path)))


def command_line() -> str:
    """Returns the command of this process as it runs from the repository's root, quoted for a shell.

    What the environment says of folders, where relative paths start and where data lies, stands before it.
    """
    root = pathlib.Path(__file__).resolve().parents[2]
    program = pathlib.Path(sys.argv[0]).resolve()
    words = ["./scripts/python", str(program)]
    if program.is_relative_to(root):
        words[1:] = ["-m", ".".join(program.relative_to(root).with_suffix("").parts).removesuffix(".__main__")]
    words += [word for word in sys.argv[1:] if word not in _NOT_REPEATED]
    folder = os.environ.get(_WORKING_DIRECTORY, os.getcwd())
    variables = {} if pathlib.Path(folder).resolve() == root else {_WORKING_DIRECTORY: folder}
    if data_dir := os.environ.get(_DATA_DIR):
        variables[_DATA_DIR] = os.path.abspath(data_dir)
    return "".join(f"{name}={shlex.quote(value)} " for name, value in variables.items()) + shlex.join(words)


def main(flag_set: FlagSet, program: Callable[[Settings], int | None]) -> None:
    """Runs a program on this process's command line and exits with its status.

    Args:
      flag_set: The program's flags.
      program: Takes the flags' values; returns the exit status, None for 0.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # TensorFlow's start-up chatter, before it is imported.
    warnings.filterwarnings("ignore", message="pkg_resources is deprecated")
    interruption.install()
    try:
        if {"--help", "-help", "-h", "--helpfull"} & set(sys.argv[1:]):
            print(flag_set.help())
            sys.exit(0)
        status = program(flag_set.parse(sys.argv))
        sys.stdout.flush()  # Here, where it can still be told that nobody took it.
    except UsageError as error:
        print(f"Usage error: {error}", file=sys.stderr)
        status = 2
    except Failure as error:
        print(error, file=sys.stderr)
        status = 1
    except KeyboardInterrupt:
        status = 128 + signal.SIGINT
    except BrokenPipeError:
        sys.stderr.close()
        status = 1
    except OSError as error:
        if error.errno not in _OUTSIDE:
            traceback.print_exc()
        else:
            where = f"{error.filename} cannot be used" if error.filename else "A file cannot be written"
            print(f"{where} ({error.strerror}). What was written before is kept.", file=sys.stderr)
        status = 1
    except Exception:
        traceback.print_exc()
        status = 1
    sys.exit(status or 0)
