"""Flags of a program in groups, which are built from declared settings and parsed by absl."""

import copy
import dataclasses
import itertools
import re
import textwrap
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from absl import flags

from data.errors import UsageError, did_you_mean, near_names
from data.settings import Setting, declared
from optimization.study.settings import Settings, condition

_WIDTH = 110
# Regular expressions for messages of absl and Python about bad values -> messages of this program.
_PLAIN = {
    r"^flag --": "--",
    r"\n": " ",
    r"invalid literal for int\(\) with base 10: .*": "not a whole number",
    r"could not convert string to float: .*": "not a number",
    r"\('Non-boolean argument to boolean flag', .*\)": "neither true nor false",
}


def _plain(message: str) -> str:
    for pattern, words in _PLAIN.items():
        message = re.sub(pattern, words, message)
    return message


class FlagSet:
    """The flags of one program in groups, parsed by absl.

    Attributes:
      usage: First lines of `help`.
      declared: Declarations of the flags' settings, by name.
    """

    def __init__(self, usage: str, positional: str | None = None, *, known_only: bool = False):
        """Creates an empty set of flags.

        Args:
          usage: First lines of `--help`.
          positional: Name of the setting that holds the tuple of positional arguments; None if there must be none.
          known_only: Whether unknown flags are treated as positional arguments.
        """
        self.usage = usage.strip()
        self._positional = positional
        self._known_only = known_only
        self._flags = flags.FlagValues()
        self._flags.set_gnu_getopt(positional is not None)  # Flags may follow positional arguments.
        self._groups: list[tuple[str, dict[str, Sequence[str] | bool], list[str]]] = []
        self.declared: dict[str, Setting] = {}
        self._file: tuple[str, Callable[[str], Mapping[str, Any]]] | None = None
        self._lock = threading.Lock()

    def group(self, title: str, *settings: Setting | type, **only: Sequence[str] | bool) -> "FlagSet":
        """Starts a group of `--help`. Settings that are added later also belong to it, and have the conditions `only`.

        Args:
          title: Title of the group.
          *settings: Settings, or classes that declare them.
          **only: Values of other settings for which the settings of this group apply; see `Setting`.

        Returns:
          This set of flags.
        """
        self._groups.append((title, only, []))
        self.add(*settings)
        return self

    def add(self, *settings: Setting | type) -> None:
        """Adds the flags of settings, or of classes that declare them, to the current group."""
        _, only, names = self._groups[-1]
        for setting in itertools.chain(*([one] if isinstance(one, Setting) else declared(one) for one in settings)):
            shared: dict[str, Any] = {"help": setting.help, "flag_values": self._flags}
            if setting.type is bool:
                flags.DEFINE_boolean(setting.name, None, **shared)
            elif setting.type is list:
                flags.DEFINE_multi(setting.parser(), flags.ArgumentSerializer(), setting.name, [], **shared)
            else:
                flags.DEFINE(setting.parser(), setting.name, None, **shared)
            names.append(setting.name)
            self.declared[setting.name] = dataclasses.replace(setting, only={**only, **setting.only})

    def file(self, settings: type, name: str, read: Callable[[str], Mapping[str, Any]]) -> None:
        """Defines flags, one of which names a file with values of other settings; see `Settings.with_file`.

        Args:
          settings: Class that declares the flags.
          name: Name of the flag for the file.
          read: Function that maps the path of the file to values by setting. Error messages about the values start
            with the path.
        """
        self.add(settings)
        self._file = (name, read)

    def parse(self, argv: Sequence[str]) -> Settings:
        """Parses a command line.

        Args:
          argv: Program name and arguments.

        Returns:
          Values of all settings.

        Raises:
          UsageError: If there is an unknown flag, an invalid value or an unexpected positional argument, or an error in
            the file.
        """
        for word in argv[1:]:
            if found := re.match(r"--?(flagfile|undefok)(?==|$)", word):  # Flags of absl that this project lacks.
                raise self._unknown(found[1])
        try:
            with self._lock:  # absl's flag objects hold the values of a single command line.
                for name in self.declared:
                    self._flags[name].unparse()
                rest = self._flags([self._known(word) for word in argv], known_only=self._known_only)
                set_by_user = frozenset(name for name in self.declared if self._flags[name].present)
                values = {name: copy.copy(self._flags[name].value) for name in set_by_user}
        except flags.UnrecognizedFlagError as error:
            raise self._unknown(error.flagname) from error
        except (flags.Error, ValueError) as error:  # ValueError for --noNAME=value.
            raise UsageError(_plain(str(error))) from error
        if len(rest) > 1 and self._positional is None:
            raise UsageError(f"Unexpected argument {rest[1]!r}: write settings as --flag=value.")
        for name, value in values.items():
            if wrong := self.declared[name].wrong(value):
                raise UsageError(f"--{name}={value}: {wrong}")
        positional = {self._positional: tuple(rest[1:])} if self._positional is not None else {}
        settings = Settings(values | positional, set_by_user, self.declared)
        if self._file is None or not (path := settings[self._file[0]]):
            return settings
        try:
            return settings.with_file(self._file[1](path))
        except UsageError as error:
            raise UsageError(f"--{self._file[0]}={path}: {error}") from error

    def _known(self, word: str) -> str:
        """Replaces an alternative spelling of a flag in a command-line argument by the name of the flag."""
        spellings = {setting.alias: name for name, setting in self.declared.items() if setting.alias}
        match = re.match(r"--?(\w+)(?==|$)", word)
        name = match and spellings.get(match[1])
        return f"--{name}{word[match.end() :]}" if match and name else word

    def _unknown(self, name: str) -> UsageError:
        """Error for an unknown flag, which suggests similar flags."""
        near = [f"--{one}" for one in near_names(name, self.declared)]
        return UsageError(f"--{name} is not known: {did_you_mean(near, '--helpfull lists all flags.')}")

    def help(self, *, full: bool = True) -> str:
        """Text of `--helpfull`, or of `--help`, which lists only the basic flags, or all flags if none is basic."""
        full = full or not any(setting.basic for setting in self.declared.values())
        lines = [self.usage, ""]
        for heading, _, names in self._groups:
            headed: dict[str, list[Setting]] = {}
            for setting in (self.declared[name] for name in names):
                conditions = [condition(self.declared[flag], values) for flag, values in setting.only.items()]
                if full or setting.basic:
                    headed.setdefault(", ".join([heading, *conditions * full]), []).append(setting)
            for heading, settings in headed.items():
                lines += textwrap.wrap(f"{heading}:", _WIDTH, subsequent_indent="    ")
                for setting in settings:
                    lines += _help(setting, full=full)
                lines += [""]
        return "\n".join(lines if full else [*lines, f"--helpfull lists all {len(self.declared)} flags."])


def _help(setting: Setting, *, full: bool) -> list[str]:
    """Help lines of a setting. In the full text, each of its choices has its own line."""
    value = setting.applied_default if setting.default in (None, False) else setting.default
    value = None if callable(value) else value
    shown = str(value).lower() if isinstance(value, bool) else value
    shown = ",".join(map(str, value)) if isinstance(value, tuple) else shown
    default = "" if value in (None, False, [], "") else f" (default: {shown})"
    has_lines = full and any(setting.words.values())
    words = f": {', '.join(setting.words)}" if setting.words and not has_lines else ""
    text = f"--{setting.name}: {setting.help}{words}{default}"
    lines = textwrap.wrap(text, _WIDTH, initial_indent="  ", subsequent_indent="      ")
    return lines + [f"      {word:<28}{help_text}" for word, help_text in setting.words.items() if has_lines]
