"""Settings: a declaration each, and their values, of which some apply only beside certain others."""

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
_MOST_VALUES = 4  # Of more, with which a setting goes, the others are named, where they are fewer.
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
    """A number that is given by a flag, such as a policy's hyperparameter.

    Attributes:
      default: Value if the flag is not given.
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
        """Returns what is wrong with a value; nothing if it is sound, within float32's range."""
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
            return f"{value:g} is beyond the numbers of 32 bits, {_FLOAT32[0]:.2g} to {_FLOAT32[1]:.2g}"
        return ""


@dataclasses.dataclass(frozen=True)
class Setting:
    """A setting: a flag, a key of presets and of `--config`, and a keyword in Python.

    Attributes:
      name: Its name in all of these.
      type: bool, int, float, str, `pathlib.Path`, or list for a text that may be given several times; the words that it
        may be, each with a line of help if they are a mapping; or a parser of absl's.
      help: A noun phrase.
      default: Value if it is not given.
      low: Smallest number.
      high: Largest number; None for that of the type.
      above: Whether `low` itself is excluded.
      below: Whether `high` itself is excluded.
      only: The choices that it applies to: by other setting the values, True for any, False for none. Beside another
        choice it is refused; see `Settings.settled`.
      filled: Value where it applies and is not given; elsewhere it then has none.
      basic: Whether a newcomer needs it: `--help` shows it, not `--helpfull` alone.
      spelled: Another spelling of the name, which other programs have.
      spellings: Other spellings of words.
      complaint: Takes a value; returns what else is wrong with it.
      of: By value of the one setting in `only`, what the number is there; they may differ in default, bounds and help.
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
        """The words that it may be, each with its help; none if it is something else."""
        if isinstance(self.type, Mapping):
            return self.type
        return dict.fromkeys(self.type, "") if isinstance(self.type, list | tuple) else {}

    def parser(self) -> flags.ArgumentParser:
        """Returns what makes a value of a text."""
        if self.words:
            return _Words(list(self.words), self.spellings)
        kinds = {int: flags.IntegerParser, float: flags.FloatParser, bool: flags.BooleanParser}
        return (
            self.type if isinstance(self.type, flags.ArgumentParser) else kinds.get(self.type, flags.ArgumentParser)()
        )

    def wrong(self, value: Any) -> str:
        """Returns what is wrong with a value; nothing if it is sound."""
        if value is None:
            return ""
        if self.type in (int, float):
            high = _MOST if self.type is int and self.high is None else self.high
            kinds = list(self.of.values()) or [Parameter(None, "", self.low, high, self.above, self.below)]
            return min((kind.complaint(value) for kind in kinds), key=bool)
        if value == "" != self.default and self.type in (str, pathlib.Path):
            return "is empty: give it a value, or leave it out"
        return self.complaint(value)

    def taken(self, value: Any) -> Any:
        """Returns a value of a file as the command line would have it.

        Raises:
          UsageError: If the command line would not take it.
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
    """Returns a `Setting` that is an attribute of a class, which says the rest; see `declared`.

    Args:
      default: Value if it is not given.
      words: What it may be, if only a few words are.
      **others: Further attributes of `Setting`.
    """
    return Setting(type=words, default=default, **others)


def declared(group: type, **changes: Mapping[str, Any]) -> list[Setting]:
    """Returns the settings that a class declares: an annotated attribute each, whose help its docstring has.

    Args:
      group: The class.
      **changes: By setting, attributes that have other values here, such as its default.
    """
    types = typing.get_type_hints(group)
    entries = re.findall(r"^ {6}(\w+): (.*(?:\n {8}.*)*)", group.__doc__ or "", re.MULTILINE)
    helps = {name: " ".join(text.split()).removesuffix(".") for name, text in entries}
    own = {name: value for name, value in vars(group).items() if isinstance(value, Setting)}
    return [
        dataclasses.replace(
            value, **{"name": name, "type": value.type or types[name], "help": helps[name], **changes.get(name, {})}
        )
        for name, value in own.items()
    ]


def title(group: type) -> str:
    """Returns the title of the settings that a class declares: the first line of its docstring."""
    return (group.__doc__ or "").partition("\n")[0].removesuffix(".")


def names(*groups: type) -> tuple[str, ...]:
    """Returns the names of the settings that classes declare."""
    return tuple(setting.name for group in groups for setting in declared(group))


class _Words(flags.EnumParser):
    """Takes one of a few words, or another spelling of one; for another, it names those that are near, or all."""

    def __init__(self, words: Sequence[str], spellings: Mapping[str, str]):
        super().__init__(words)
        self._spellings = spellings

    def parse(self, argument: str) -> str:
        argument = self._spellings.get(argument, argument)
        if argument in self.enum_values:
            return argument
        otherwise = f"value should be one of <{'|'.join(self.enum_values)}>"
        raise ValueError(texts.did_you_mean(texts.near_names(argument, self.enum_values), otherwise))


class NumberOrQuantile(flags.ArgumentParser):
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


class NumberOrWord(flags.ArgumentParser):
    """Takes a whole number from 1 to another, or a word."""

    def __init__(self, word: str, high: int):
        super().__init__()
        self._word, self._high = word, high

    def parse(self, argument: Any) -> int | str:
        """Returns the number, or the word.

        Raises:
          ValueError: If it is neither.
        """
        if argument == self._word:
            return self._word
        if str(argument).isdecimal() and 1 <= int(argument) <= self._high:
            return int(argument)
        raise ValueError(f"must be a whole number from 1 to {self._high}, or {self._word}")

    def flag_type(self) -> str:
        """Returns the key of `_TYPES`."""
        return "number or word"


class Numbers(flags.ArgumentParser):
    """Takes numbers above 0 and up to another, separated by commas: a tuple, of integers if they are `whole`."""

    def __init__(self, whole: bool = False, high: float = math.inf):
        super().__init__()
        self._kind, self._high = int if whole else float, high

    def parse(self, argument: Any) -> tuple[float, ...]:
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


def parameters(prefix: str, flag: str, owned: Mapping[str, Mapping[str, Parameter]]) -> list[Setting]:
    """Returns a setting `PREFIX + NAME` for every number that the choices of another setting read.

    Choices may share a name, each with a default, bounds and help of its own; a value must suit the one chosen.

    Args:
      prefix: How the names begin.
      flag: The other setting.
      owned: By choice, its parameters by name.
    """
    found = []
    for name in dict.fromkeys(name for own in owned.values() for name in own):
        of = {choice: own[name] for choice, own in owned.items() if name in own}
        default, help_text = next(iter(of.values())).default, next(iter(of.values())).help
        if len(kinds := dict.fromkeys(of.values())) > 1:  # The default of the one that is chosen.
            default = None
            help_text = "; ".join(
                f"{', '.join(choice for choice in of if of[choice] == kind)}: {kind.help}"
                + (f" (default: {kind.default})" if kind.default is not None else "")
                for kind in kinds
            )
        found.append(Setting(f"{prefix}{name}", float, help_text, default, only={flag: list(of)}, of=of))
    return found


def no_folder(name: str) -> str:
    """Returns what is wrong with the name of a folder below another one."""
    if all(part.strip(". ") and part.isprintable() for part in name.split("/")):
        return ""
    return "must be the name of a folder below that of all output: no .., no / in front"


def condition(setting: Setting, values: Sequence[str] | bool) -> str:
    """Returns, in words of a heading, which values of a setting another one applies to."""
    if isinstance(values, bool):
        return f"{'only' if values else 'not'} with --{setting.name}"
    is_negative = _has_few_others(setting, values)
    told = [word for word in setting.words if word not in values] if is_negative else values
    return f"{'not' if is_negative else 'only'} for --{setting.name}={', '.join(told)}"


def _has_few_others(setting: Setting, values: Sequence[str]) -> bool:
    """Returns whether a setting has fewer other values than these, which are many."""
    return len(values) > max(_MOST_VALUES, len(set(setting.words) - set(values)))


class Settings(Mapping[str, Any]):
    """Values of all settings, read as `settings.name` or `settings["name"]`."""

    def __init__(
        self,
        values: Mapping[str, Any],
        given: frozenset[str] = frozenset(),
        declared: Mapping[str, Setting] | None = None,
        from_file: frozenset[str] = frozenset(),
    ):
        """Takes the values.

        Args:
          values: By setting.
          given: Settings of the command line, and of the file that it names.
          declared: The declarations by name.
          from_file: Those given that the file gives.
        """
        self._values = dict(values)
        self.given = given
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
        """Returns a copy with some values changed, and the same settings counted as given."""
        return self._with(values, self.given)

    def give(self, **values: Any) -> "Settings":
        """Returns a copy with some values changed, which count as given."""
        return self._with(values, self.given | set(values))

    def _with(self, values: Mapping[str, Any], given: frozenset[str]) -> "Settings":
        return Settings({**self._values, **values}, given, self._declared, self.from_file)

    def taken(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Returns values of a file or preset as the command line would have them.

        Raises:
          UsageError: If there is no such setting, or the command line would not take its value.
        """
        found = {}
        for name, value in values.items():
            if name not in self._declared:
                near = texts.did_you_mean(texts.near_names(name, self._declared), "--helpfull lists all.")
                raise UsageError(f"{name} is no setting: {near}")
            value = self._declared[name].taken(value)
            found[name] = texts.user_path(value) if value and self._declared[name].type is pathlib.Path else value
        return found

    def with_file(self, values: Mapping[str, Any]) -> "Settings":
        """Returns a copy with the values of a file, which count as given, unless the command line says more.

        A value that does not apply to what the command line chooses is left out: the command line wins.

        Raises:
          UsageError: See `taken`.
        """
        kept = {name: value for name, value in self.taken(values).items() if name not in self.given}
        overruled, lost = self.given, {""}
        while lost:  # What applies to a value that is left out is left out, too.
            found = self.replace(**kept)
            lost = {name for name in kept if not overruled.isdisjoint(found._misfits(name))}
            kept = {name: value for name, value in kept.items() if name not in lost}
            overruled = overruled | lost
        return Settings(found, self.given | set(kept), self._declared, frozenset(kept))

    def with_defaults(self, defaults: Mapping[str, Any]) -> "Settings":
        """Returns a copy in which settings that were not given take these values.

        Raises:
          UsageError: See `taken`; also for those that were given.
        """
        return self.replace(**{name: value for name, value in self.taken(defaults).items() if name not in self.given})

    def filled(self, defaults: Mapping[str, Any]) -> "Settings":
        """Returns a copy in which settings without a value take these."""
        return self.replace(**{name: value for name, value in defaults.items() if self[name] is None})

    def check_order(self, low: str, high: str) -> None:
        """Refuses a number above another one.

        Raises:
          UsageError: Naming both.
        """
        if self[low] > self[high]:
            raise UsageError(f"--{low}={self[low]:g} must be at most --{high}={self[high]:g}.")

    def default(self, name: str) -> Any:
        """Returns the value that a setting would have if nobody had given it one; None if it is not declared."""
        if name not in self._declared:
            return None
        return self.replace(**{name: self._declared[name].default}).with_own_defaults()[name]

    def _misfits(self, name: str) -> dict[str, str]:
        """Returns the settings whose values a setting does not apply to, each with what is wrong."""
        found = {}
        for flag, values in self._declared[name].only.items():
            value = self[flag]
            if isinstance(values, bool):
                if (value is not None and value is not False) != values:
                    belongs = (
                        "belongs to --{}: give both, or neither" if values else "does not go with --{}: leave one out"
                    )
                    found[flag] = f"--{name} {belongs.format(flag)}."
            elif set(values).isdisjoint(texts.words(value)):
                chosen = ", ".join(texts.words(value)) or "its default"
                told = f"does not belong to --{flag}={chosen}"
                if not _has_few_others(self._declared[flag], values):
                    told = f"belongs to --{flag}={' or '.join(values)}, not to {chosen}"
                found[flag] = f"--{name} {told}."
        return found

    def settled(self) -> "Settings":
        """Returns a copy with the defaults of what was chosen, see `with_own_defaults`.

        Raises:
          UsageError: If a setting is given that does not apply, or a value does not suit what was chosen.
        """
        found = self.with_own_defaults()
        for name in self._declared:
            for wrong in found._misfits(name).values() if name in self.given else ():
                raise UsageError(wrong)
            for flag, choice, kind in self._chosen(name):
                if wrong := kind.complaint(self[name]):
                    raise UsageError(f"--{name}={self[name]}: {wrong}, as --{flag}={choice} needs.")
        return found

    def _chosen(self, name: str) -> list[tuple[str, str, Parameter]]:
        """Returns (setting, its value, what a number is there) for the values that are chosen."""
        own = self._declared[name].of
        flag = next(iter(self._declared[name].only)) if own else ""
        return [(flag, choice, own[choice]) for choice in (texts.words(self[flag]) if own else ()) if choice in own]

    def with_own_defaults(self) -> "Settings":
        """Returns a copy in which settings without a value have that of the choice that they apply to.

        Numbers of several choices have the first choice's where none of them is chosen.
        """
        found = self
        for name, setting in self._declared.items():
            kinds = [kind for _, _, kind in found._chosen(name)] or list(setting.of.values())[:1]
            defaults = {kind.default for kind in kinds}
            if setting.filled is not None:
                defaults = set() if found._misfits(name) else {setting.filled}
            if len(defaults) == 1 and found[name] is None:  # Of several, each has its own run.
                found = found.replace(**{name: defaults.pop()})
        return found
