"""Declarations of settings, and their values; some apply only with certain other values."""

import dataclasses
import math
import pathlib
import re
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from absl import flags

from data.errors import UsageError
from optimization.study import texts

_FLOAT32 = (2.0**-126, (2 - 2.0**-23) * 2.0**127)  # The smallest normal number, and the largest.
_MOST = 2**31 - 1
_MOST_VALUES = 4  # If a setting applies to more values, the excluded ones are listed instead when they are fewer.
# By flag's type: the types of Python that a file's values of it may have, and what they are to the user.
_TYPES: Mapping[str, tuple[Any, str]] = {
    "bool": (bool, "true or false"),
    "int": (int, "a whole number"),
    "float": ((float, int), "a number"),
    "number or word": ((int, str), "a whole number, or a word"),
    "number or quantile": ((float, int, str), "a number, or a text such as quantile:0.5"),
}
_TEXT = (str, "a text in quotes")


@dataclasses.dataclass(frozen=True)
class Parameter:
    """A number that a flag sets, such as a policy's hyperparameter.

    Attributes:
      default: Value if the user sets none.
      help: One line.
      low: Smallest value.
      high: Largest value, or None.
      above: Whether `low` itself is excluded.
      below: Whether `high` itself is excluded.
      whole: Whether it is a whole number.
    """

    default: float | None
    help: str
    low: float = 0.0
    high: float | None = None
    above: bool = False
    below: bool = False
    whole: bool = False

    def complaint(self, value: float | None) -> str:
        """Error in a value; empty if it is valid, within float32's range."""
        if value is None:
            return ""
        if self.whole and not float(value).is_integer():
            return f"{value:g} is not a whole number"
        kind = "number" if math.isfinite(value) else "finite number"
        wanted = f"a {kind} {'above' if self.above else 'of at least'} {self.low:g}"
        if self.high is not None:
            wanted += f" and {'below' if self.below else 'at most'} {self.high:.10g}"
        is_low = value <= self.low if self.above else value < self.low
        is_high = self.high is not None and (value >= self.high if self.below else value > self.high)
        if not math.isfinite(value) or is_low or is_high:
            return f"{value:.10g} is not {wanted}"
        if abs(value) > _FLOAT32[1] or (self.above and abs(value) < _FLOAT32[0]):  # Infinite, or no longer above 0.
            return f"{value:g} is outside the range of float32, {_FLOAT32[0]:.2g} to {_FLOAT32[1]:.2g}"
        return ""


@dataclasses.dataclass(frozen=True)
class Setting:
    """A setting: a flag, a key of presets and of `--config`, and a keyword in Python.

    Attributes:
      name: Its name in all of these.
      type: bool, int, float, str, `pathlib.Path`, or list for a text that may be repeated; the words that it may
        be, each with a line of help if they are a mapping; or a parser of absl's.
      help: A noun phrase.
      default: Value if the user sets none.
      low: Smallest number.
      high: Largest number; None for that of the type.
      above: Whether `low` itself is excluded.
      below: Whether `high` itself is excluded.
      only: The choices that it applies to: the values by other setting, True for any, False for none. With another
        choice it is refused; see `Settings.settled`.
      filled: Default where it applies; elsewhere it then has none.
      basic: Whether beginners need it: `--help` shows it, too, not only `--helpfull`.
      spelled: Another spelling of the name, from other programs.
      spellings: Other spellings of words.
      complaint: Returns a further error in a value.
      of: Number by value of the single setting in `only`; numbers may differ in default, bounds and help.
    """

    name: str = ""
    type: Any = None
    help: str = ""
    default: Any = None
    _: dataclasses.KW_ONLY
    low: float = 0
    high: float | None = None
    above: bool = False
    below: bool = False
    only: Mapping[str, Sequence[str] | bool] = dataclasses.field(default_factory=dict)
    filled: Any = None
    basic: bool = False
    spelled: str = ""
    spellings: Mapping[str, str] = dataclasses.field(default_factory=dict)
    complaint: Callable[[Any], str] = lambda _: ""
    of: Mapping[str, Parameter] = dataclasses.field(default_factory=dict)

    @property
    def words(self) -> Mapping[str, str]:
        """The allowed words with their help; empty for another type."""
        if isinstance(self.type, Mapping):
            return self.type
        return dict.fromkeys(self.type, "") if isinstance(self.type, list | tuple) else {}

    def parser(self) -> flags.ArgumentParser:
        """Parser of a value's text."""
        if self.words:
            return _Words(list(self.words), self.spellings)
        kinds = {int: flags.IntegerParser, float: flags.FloatParser, bool: flags.BooleanParser}
        return (
            self.type if isinstance(self.type, flags.ArgumentParser) else kinds.get(self.type, flags.ArgumentParser)()
        )

    def wrong(self, value: Any) -> str:
        """Error in a value; empty if it is valid."""
        if value is None:
            return ""
        if self.type in (int, float):
            high = _MOST if self.type is int and self.high is None else self.high
            kinds = list(self.of.values()) or [Parameter(None, "", self.low, high, self.above, self.below)]
            return min((kind.complaint(value) for kind in kinds), key=bool)
        if value == "" != self.default and self.type in (str, pathlib.Path):
            return "is empty: give it a value, or leave it out"
        return self.complaint(value)

    def converted(self, value: Any) -> Any:
        """Converts a value of a file to that of the command line.

        Raises:
          UsageError: If the command line would refuse it.
        """
        if value is None:
            return None
        parser = self.parser()
        types, wanted = _TYPES.get(parser.flag_type(), _TEXT)
        if not isinstance(value, types) or (isinstance(value, bool) and types is not bool):
            raise UsageError(f"{self.name} takes {wanted}, not {value!r}.")
        try:
            value = parser.parse(value)
            wrong = self.wrong(value)
        except ValueError as error:
            wrong = str(error)
        if wrong:
            raise UsageError(f"{self.name} = {value}: {wrong}")
        return value


def setting(default: Any = None, words: Mapping[str, str] | Sequence[str] | None = None, **others: Any) -> Any:
    """A `Setting` as a class attribute; the class supplies the rest, see `declared`.

    Args:
      default: Value if the user sets none.
      words: Its possible values, if they are a few words.
      **others: Further attributes of `Setting`.
    """
    return Setting(type=words, default=default, **others)


def declared(group: type, **changes: Mapping[str, Any]) -> list[Setting]:
    """Settings that a class declares: one annotated attribute each, with its help in the class docstring.

    Args:
      group: The class.
      **changes: By setting, attributes that have other values here, such as its default.
    """
    types = typing.get_type_hints(group)
    entries = re.findall(r"^ {6}(\w+): (.*(?:\n {8}.*)*)", group.__doc__ or "", re.MULTILINE)
    helps = {name: " ".join(text.split()).removesuffix(".") for name, text in entries}
    settings = {name: value for name, value in vars(group).items() if isinstance(value, Setting)}
    return [
        dataclasses.replace(
            value, **{"name": name, "type": value.type or types[name], "help": helps[name], **changes.get(name, {})}
        )
        for name, value in settings.items()
    ]


def title(group: type) -> str:
    """Title of the settings that a class declares: the first line of its docstring."""
    return (group.__doc__ or "").partition("\n")[0].removesuffix(".")


def names(*groups: type) -> tuple[str, ...]:
    """Names of the settings that classes declare."""
    return tuple(setting.name for group in groups for setting in declared(group))


class _Words(flags.EnumParser):
    """Parses one of a few words, or another spelling of one; an error lists similar words, or all."""

    def __init__(self, words: Sequence[str], spellings: Mapping[str, str]):
        super().__init__(words)
        self._spellings = spellings

    def parse(self, argument: str) -> str:
        argument = self._spellings.get(argument, argument)
        if argument in self.enum_values:
            return argument
        otherwise = f"value should be one of <{'|'.join(self.enum_values)}>"
        raise ValueError(texts.did_you_mean(texts.near_names(argument, self.enum_values), otherwise))


class Parsed(flags.ArgumentParser):
    """Parses a text by a function that raises ValueError for a wrong one."""

    def __init__(self, read: Callable[[str], Any], wanted: str, kind: str = "string"):
        """Stores the function, the error after "must be", and a key of `_TYPES`."""
        super().__init__()
        self._read, self._wanted, self._kind = read, wanted, kind

    def parse(self, argument: Any) -> Any:
        """Parses the text of a value.

        Raises:
          ValueError: If it is wrong.
        """
        try:
            return self._read(str(argument))
        except ValueError:
            raise ValueError(f"must be {self._wanted}") from None

    def flag_type(self) -> str:
        """Key of `_TYPES`."""
        return self._kind


def _checked(number: float, low: float, high: float) -> float:
    if not low <= number <= high:
        raise ValueError(number)
    return number


def number_or_quantile(low: float, high: float) -> Parsed:
    """Parser of a number between two others, or of `quantile:` and a number from 0 to 1, to its short form."""

    def read(text: str) -> float | str:
        kind, _, number = text.rpartition(":")
        if kind == "quantile":
            return f"{kind}:{_checked(float(number), 0, 1):g}"
        return _checked(float(text), low, high)

    wanted = f"a number from {low:g} to {high:g}, or a quantile from 0 to 1, such as quantile:0.5"
    return Parsed(read, wanted, "number or quantile")


def number_or_word(word: str, high: int) -> Parsed:
    """Parser of a whole number from 1 to another, or of a word."""

    def read(text: str) -> float | str:
        return word if text == word else _checked(int(text), 1, high)

    return Parsed(read, f"a whole number from 1 to {high}, or {word}", "number or word")


def numbers(*, whole: bool = False, high: float = math.inf) -> Parsed:
    """Parser of numbers above 0 up to a maximum, separated by commas, to a tuple; of integers if `whole`."""

    def read(text: str) -> tuple[float, ...]:
        values = tuple(map(int if whole else float, text.split(",")))
        if not all(0 < value <= high and value < math.inf for value in values):
            raise ValueError(text)
        return values

    upper = f" up to {high:g}" if high < math.inf else ""
    return Parsed(read, f"{'whole numbers' if whole else 'numbers'} above 0{upper}, separated by commas")


def parameters(prefix: str, flag: str, owned: Mapping[str, Mapping[str, Parameter]]) -> list[Setting]:
    """Setting `PREFIX + NAME` for every number that the choices of another setting use.

    Choices may share a name, each with its default, bounds and help; a value must be valid for the chosen one.

    Args:
      prefix: How the names begin.
      flag: The other setting.
      owned: By choice, its parameters by name.
    """
    settings = []
    for name in dict.fromkeys(name for numbers in owned.values() for name in numbers):
        of = {choice: numbers[name] for choice, numbers in owned.items() if name in numbers}
        default, help_text = next(iter(of.values())).default, next(iter(of.values())).help
        if len(kinds := dict.fromkeys(of.values())) > 1:  # The default depends on the choice.
            default = None
            help_text = "; ".join(
                f"{', '.join(choice for choice in of if of[choice] == kind)}: {kind.help}"
                + (f" (default: {kind.default})" if kind.default is not None else "")
                for kind in kinds
            )
        settings.append(Setting(f"{prefix}{name}", float, help_text, default, only={flag: list(of)}, of=of))
    return settings


def no_folder(name: str) -> str:
    """Error in the name of a folder below another one."""
    if all(part.strip(". ") and part.isprintable() for part in name.split("/")):
        return ""
    return "must be the name of a folder below that of all output: no .., no / in front"


def condition(setting: Setting, values: Sequence[str] | bool) -> str:
    """Heading that names the values of another setting that a setting applies to."""
    if isinstance(values, bool):
        return f"{'only' if values else 'not'} with --{setting.name}"
    is_negative = _lacks_few(setting, values)
    listed = [word for word in setting.words if word not in values] if is_negative else values
    return f"{'not' if is_negative else 'only'} for --{setting.name}={', '.join(listed)}"


def _lacks_few(setting: Setting, values: Sequence[str]) -> bool:
    """Whether a setting has fewer other values than these, which are many."""
    return len(values) > max(_MOST_VALUES, len(set(setting.words) - set(values)))


class Settings(Mapping[str, Any]):
    """Values of all settings, read as `settings.name` or `settings["name"]`."""

    def __init__(
        self,
        values: Mapping[str, Any],
        set_by_user: frozenset[str] = frozenset(),
        declared: Mapping[str, Setting] | None = None,
        from_file: frozenset[str] = frozenset(),
    ):
        """Stores the values.

        Args:
          values: By setting.
          set_by_user: Settings of the command line, and of the file that it names.
          declared: The declarations by name.
          from_file: Those of them that the file sets.
        """
        self._values = dict(values)
        self.set_by_user = set_by_user
        self.from_file = from_file
        self._declared = declared or {}

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_values"][name]
        except KeyError:
            raise AttributeError(name) from None

    def __iter__(self):
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def replace(self, **values: Any) -> "Settings":
        """Copy with some values changed; the set of user-given settings stays the same."""
        return self._with(values, self.set_by_user)

    def with_user_values(self, **values: Any) -> "Settings":
        """Copy with some values changed, which count as set by the user."""
        return self._with(values, self.set_by_user | set(values))

    def _with(self, values: Mapping[str, Any], set_by_user: frozenset[str]) -> "Settings":
        return Settings({**self._values, **values}, set_by_user, self._declared, self.from_file)

    def converted(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Converts values of a file or preset to those of the command line.

        Raises:
          UsageError: If there is no such setting, or the command line would refuse its value.
        """
        converted = {}
        for name, value in values.items():
            if name not in self._declared:
                near = texts.did_you_mean(texts.near_names(name, self._declared), "--helpfull lists all.")
                raise UsageError(f"{name} is no setting: {near}")
            value = self._declared[name].converted(value)
            converted[name] = texts.user_path(value) if value and self._declared[name].type is pathlib.Path else value
        return converted

    def with_file(self, values: Mapping[str, Any]) -> "Settings":
        """Copy with the values of a file, which count as set by the user, where the command line does not decide.

        A value that does not apply to the command line's choices is dropped: the command line wins.

        Raises:
          UsageError: See `converted`.
        """
        kept = {name: value for name, value in self.converted(values).items() if name not in self.set_by_user}
        overruled, lost = self.set_by_user, {""}
        while lost:  # A setting that applies to a dropped value is dropped, too.
            changed = self.replace(**kept)
            lost = {name for name in kept if not overruled.isdisjoint(changed._misfits(name))}
            kept = {name: value for name, value in kept.items() if name not in lost}
            overruled = overruled | lost
        return Settings(changed, self.set_by_user | set(kept), self._declared, frozenset(kept))

    def with_defaults(self, defaults: Mapping[str, Any]) -> "Settings":
        """Copy with these values for settings that the user did not set.

        Raises:
          UsageError: See `converted`; also for settings of the user.
        """
        return self.replace(
            **{name: value for name, value in self.converted(defaults).items() if name not in self.set_by_user}
        )

    def filled(self, defaults: Mapping[str, Any]) -> "Settings":
        """Copy with these values for settings without a value."""
        return self.replace(**{name: value for name, value in defaults.items() if self[name] is None})

    def check_order(self, low: str, high: str) -> None:
        """Refuses a number above another one.

        Raises:
          UsageError: Naming both.
        """
        if self[low] > self[high]:
            raise UsageError(f"--{low}={self[low]:g} must be at most --{high}={self[high]:g}.")

    def default(self, name: str) -> Any:
        """Default of a setting; None if it is not declared."""
        if name not in self._declared:
            return None
        if name not in self.set_by_user:  # It may also come from a task, or from other settings.
            return self[name]
        return self.replace(**{name: self._declared[name].default}).with_choice_defaults()[name]

    def _misfits(self, name: str) -> dict[str, str]:
        """Settings whose values exclude a setting, each with the error."""
        errors = {}
        for flag, values in self._declared[name].only.items():
            value = self[flag]
            if isinstance(values, bool):
                if (value is not None and value is not False) != values:
                    belongs = (
                        "belongs to --{}: give both, or neither" if values else "does not go with --{}: leave one out"
                    )
                    errors[flag] = f"--{name} {belongs.format(flag)}."
            elif set(values).isdisjoint(texts.words(value)):
                chosen = ", ".join(texts.words(value)) or "its default"
                error = f"does not belong to --{flag}={chosen}"
                if not _lacks_few(self._declared[flag], values):
                    error = f"belongs to --{flag}={' or '.join(values)}, not to {chosen}"
                errors[flag] = f"--{name} {error}."
        return errors

    def settled(self) -> "Settings":
        """Copy with the defaults of the chosen values, see `with_choice_defaults`.

        Raises:
          UsageError: If the user sets a setting that does not apply, or a value is invalid for the choice.
        """
        settled = self.with_choice_defaults()
        for name in self._declared:
            for wrong in settled._misfits(name).values() if name in self.set_by_user else ():
                raise UsageError(wrong)
            for flag, choice, kind in self._chosen(name):
                if wrong := kind.complaint(self[name]):
                    raise UsageError(f"--{name}={self[name]}: {wrong}, as --{flag}={choice} needs.")
        return settled

    def _chosen(self, name: str) -> list[tuple[str, str, Parameter]]:
        """Chosen values of a number's setting: (setting, value, type of the number)."""
        numbers = self._declared[name].of
        flag = next(iter(self._declared[name].only)) if numbers else ""
        return [
            (flag, choice, numbers[choice])
            for choice in (texts.words(self[flag]) if numbers else ())
            if choice in numbers
        ]

    def with_choice_defaults(self) -> "Settings":
        """Copy in which settings without a value have the default of the choice that they apply to.

        A number of several choices has the first choice's default if none of them is chosen.
        """
        filled = self
        for name, setting in self._declared.items():
            kinds = [kind for _, _, kind in filled._chosen(name)] or list(setting.of.values())[:1]
            defaults = {kind.default for kind in kinds}
            if setting.filled is not None:
                defaults = set() if filled._misfits(name) else {setting.filled}
            if len(defaults) == 1 and filled[name] is None:  # With several, each run has its own.
                filled = filled.replace(**{name: defaults.pop()})
        return filled
