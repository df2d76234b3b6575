"""Declares settings as fields of frozen dataclasses, with help, bounds and the choices to which they apply.

A setting is declared once, with `setting`. The flag, its check and help, the key in presets and files, and the Python
keyword are derived from this declaration.
"""

import dataclasses
import math
import pathlib
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypeAlias, TypeVar

from absl import flags

from data import files, objects
from data.errors import UsageError, did_you_mean, near_names

_Options = TypeVar("_Options")


@dataclasses.dataclass(frozen=True)
class Bounds:
    """Bounds `low`, `high` and `above` of a number, as an annotation of its type; `Setting` explains them."""

    low: float = 0
    high: float | None = None
    above: bool = False


Count: TypeAlias = Annotated[int, Bounds(low=1)]
Positive: TypeAlias = Annotated[float, Bounds(above=True)]
Fraction: TypeAlias = Annotated[float, Bounds(high=1.0)]  # From 0 to 1.
PositiveFraction: TypeAlias = Annotated[float, Bounds(high=1.0, above=True)]
_KEY = "setting"  # Key of a field's metadata.
_FLOAT32 = (2.0**-126, (2 - 2.0**-23) * 2.0**127)  # The smallest normal number, and the largest.
_MOST = 2**31 - 1  # The largest whole number.
# For each type of flag: the Python types of its values in a file, and how messages describe them.
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
    """A number that is set with a flag, such as a hyperparameter of a policy.

    Attributes:
      default: Value if the user sets none; None for no default.
      help: One line of help.
      low: Smallest value.
      high: Largest value; None for no limit.
      above: Whether `low` itself is excluded.
      below: Whether `high` itself is excluded.
      whole: Whether the value must be a whole number.
    """

    default: float | None
    help: str
    low: float = 0.0
    high: float | None = None
    above: bool = False
    below: bool = False
    whole: bool = False

    def complaint(self, value: float | None) -> str:
        """Returns what is wrong with a value, such as that float32 cannot hold it; an empty text if nothing is."""
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
        if abs(value) > _FLOAT32[1] or (self.above and abs(value) < _FLOAT32[0]):  # Rounds to infinity or 0.
            return f"{value:g} is outside the range of float32, {_FLOAT32[0]:.2g} to {_FLOAT32[1]:.2g}"
        return ""


@dataclasses.dataclass(frozen=True)
class Setting:
    """A setting: a flag, a key in presets and in `--config`, and a keyword argument in Python.

    Attributes:
      name: Name of the flag, key and keyword; by default the name of the field.
      type: One of bool, int, float, str, `pathlib.Path`, or list for a text that may be repeated; or the allowed words,
        as a sequence or as a mapping to their help; or an absl parser. By default the type of the field.
      help: Help text, a noun phrase.
      default: Value if the user sets none, or a function that computes it from the other settings.
      low: Smallest number.
      high: Largest number; None for the largest number of the type.
      above: Whether `low` itself is excluded.
      below: Whether `high` itself is excluded.
      only: When the setting applies: maps the names of other settings to the values that they must have, True for any
        value, or False for no value. Otherwise `optimization.study.settings.Settings.checked` refuses the setting.
      applied_default: Default value if the setting applies, or a function that computes it from the other settings. If
        the setting does not apply, it has no value.
      basic: Whether beginners need the setting. If so, `--help` lists it; otherwise only `--helpfull` does.
      alias: Another name of the flag on the command line.
      spellings: Alternative spellings, each with the word that it means.
      check: Function that returns a further error in a text or path; an empty text if there is none.
      convert: Function of the value and the other settings that returns the value to use, such as None for "none".
      takes_objects: Whether the value can be an object of the user, see `data.objects`, instead of one of the words.
      of: If `only` names a single setting and the default, bounds and help depend on its value: the `Parameter` for
        each of its values.
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
    applied_default: Any = None
    basic: bool = False
    alias: str = ""
    spellings: Mapping[str, str] = dataclasses.field(default_factory=dict)
    check: Callable[[Any], str] = lambda _: ""
    convert: Callable[[Any, Any], Any] | None = None
    takes_objects: bool = False
    of: Mapping[str, Parameter] = dataclasses.field(default_factory=dict)

    @property
    def words(self) -> Mapping[str, str]:
        """The allowed words with their help; empty for other types."""
        if isinstance(self.type, Mapping):
            return self.type
        return dict.fromkeys(self.type, "") if isinstance(self.type, list | tuple) else {}

    def parser(self) -> flags.ArgumentParser:
        """Parser for the text of a value."""
        if self.takes_objects:
            return objects.Parser(self.words)
        if self.words:
            return _Words(list(self.words), self.spellings)
        if self.type is pathlib.Path:
            return _PathParser()
        kinds = {int: flags.IntegerParser, float: flags.FloatParser, bool: flags.BooleanParser}
        return (
            self.type if isinstance(self.type, flags.ArgumentParser) else kinds.get(self.type, flags.ArgumentParser)()
        )

    def parsed(self, default: Any) -> Any:
        """Parses a default, so that it has the same type as values that the user sets."""
        if self.type is list:
            return list(default or [])
        if default is None or not (isinstance(self.type, flags.ArgumentParser) or self.type in (float, pathlib.Path)):
            return default
        return self.parser().parse(default) if isinstance(default, str) or self.type is float else default

    def of_objects(self, value: Any, recorded: Callable[[str, Any], objects.UserObject]) -> Any:
        """Converts an object that is passed in Python, or a list of objects and texts.

        Args:
          value: The object or the list.
          recorded: Function that takes the setting's name and an object, and returns the object with its text.
        """
        if self.type is not list:
            return recorded(self.name, value)
        values = value if isinstance(value, list | tuple) else [value]
        return [self.parser().parse(each) if isinstance(each, str) else recorded(self.name, each) for each in values]

    def wrong(self, value: Any) -> str:
        """Returns what is wrong with a value; an empty text if nothing is."""
        if value is None:
            return ""
        if self.type in (int, float):
            high = _MOST if self.type is int and self.high is None else self.high
            kinds = list(self.of.values()) or [Parameter(None, "", self.low, high, self.above, self.below)]
            return min((kind.complaint(value) for kind in kinds), key=bool)
        if value == "" != self.default and self.type in (str, pathlib.Path):
            return "is empty: give a value, or leave it out"
        return self.check(value)

    def converted(self, value: Any) -> Any:
        """Converts a value from a file to the value that the command line would set.

        Raises:
          UsageError: If the command line would refuse the value.
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


def setting(default: Any = None, help: str = "", words: Any = None, /, *, unset: Any = None, **others: Any) -> Any:
    """Declares a field of a frozen dataclass as a setting.

    Args:
      default: Value if the user sets none, or a function that computes it from the other settings.
      help: Help text, a noun phrase.
      words: `Setting.type`, if the field's type is not enough: the allowed words, `pathlib.Path`, or a parser.
      unset: Value of the field if the setting has no value.
      **others: Further attributes of `Setting`.
    """
    declaration = Setting(type=words, help=help, default=default, **others)
    value = unset if callable(default) or default is None else default
    return dataclasses.field(default=value, metadata={_KEY: declaration})


def none_of(word: Any) -> Callable[[Any, Any], Any]:
    """Returns a function for `Setting.convert` that replaces a certain word or number by None."""
    return lambda value, _: None if value == word else value


def declared(group: type, **changes: Mapping[str, Any]) -> list[Setting]:
    """Settings that a class declares, without those that it inherits, in order.

    Args:
      group: The class.
      **changes: Attributes to replace, such as the default, by the name of the setting.
    """
    types = typing.get_type_hints(group, include_extras=True)
    settings = []
    for attribute in group.__annotations__:
        one, kind = group.__dataclass_fields__[attribute].metadata.get(_KEY), types[attribute]  # type: ignore[attr-defined]
        if one is None:
            continue
        if type(None) in typing.get_args(kind):
            kind = typing.get_args(kind)[0]
        known, bounds = (
            (typing.get_args(kind)[0], vars(kind.__metadata__[0])) if hasattr(kind, "__metadata__") else (kind, {})
        )
        name = one.name or attribute
        own = {"name": name, "type": one.type or known}
        settings.append(dataclasses.replace(one, **{**bounds, **own, **changes.get(name, {})}))
    return settings


def names(*groups: type) -> tuple[str, ...]:
    """Names of the settings that some classes declare."""
    return tuple(setting.name for group in groups for setting in declared(group))


def make_options(kind: Callable[..., _Options], values: Mapping[str, Any], /, **others: Any) -> _Options:
    """Creates a dataclass of options from the values of settings.

    Args:
      kind: The dataclass. Its fields are settings or have the names of settings, except for `others`. A field whose
        setting has no value keeps its default.
      values: Values of the settings.
      **others: Fields that are not settings, or that get a value different from their setting.
    """
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]
        declaration = field.metadata.get(_KEY)
        value = values.get(declaration.name if declaration and declaration.name else field.name)
        is_optional = declaration or field.default is not dataclasses.MISSING
        if field.name not in others and not (is_optional and value is None):
            others[field.name] = value
    return kind(**others)


class _PathParser(flags.ArgumentParser):
    """Parser for paths, which may be relative to the user's working directory."""

    def parse(self, argument: str) -> str:
        """Makes a path absolute. An empty one is refused later."""
        return files.user_path(argument) if argument else argument


class _Words(flags.EnumParser):
    """Parses one of a few words or an alternative spelling; errors list similar words, or all words."""

    def __init__(self, words: Sequence[str], spellings: Mapping[str, str]):
        super().__init__(words)
        self._spellings = spellings

    def parse(self, argument: str) -> str:
        argument = self._spellings.get(argument, argument)
        if argument in self.enum_values:
            return argument
        otherwise = f"value should be one of <{'|'.join(self.enum_values)}>"
        raise ValueError(did_you_mean(near_names(argument, self.enum_values), otherwise))


class Parsed(flags.ArgumentParser):
    """Parses a text with a function that raises ValueError if the text is invalid."""

    def __init__(self, read: Callable[[str], Any], wanted: str, kind: str = "string"):
        """Stores the function, the words that follow "must be" in an error, and the type of flag, as in `_TYPES`."""
        super().__init__()
        self._read, self._wanted, self._kind = read, wanted, kind

    def parse(self, argument: Any) -> Any:
        """Parses the text of a value.

        Raises:
          ValueError: If the text is invalid.
        """
        try:
            return self._read(str(argument))
        except ValueError:
            raise ValueError(f"must be {self._wanted}") from None

    def flag_type(self) -> str:
        """Type of the flag; types that are not in `_TYPES` take text."""
        return self._kind


def _checked(number: float, low: float, high: float) -> float:
    if not low <= number <= high:
        raise ValueError(number)
    return number


def number_or_quantile(low: float, high: float) -> Parsed:
    """Parser for a number between two bounds, or for `quantile:` followed by a number from 0 to 1."""

    def read(text: str) -> float | str:
        kind, _, number = text.rpartition(":")
        if kind == "quantile":
            return f"{kind}:{_checked(float(number), 0, 1):g}"
        return _checked(float(text), low, high)

    wanted = f"a number from {low:g} to {high:g}, or a quantile from 0 to 1, such as quantile:0.5"
    return Parsed(read, wanted, "number or quantile")


def number_or_word(word: str, high: int) -> Parsed:
    """Parser for a whole number from 1 to `high`, or for a word."""

    def read(text: str) -> float | str:
        return word if text == word else _checked(int(text), 1, high)

    return Parsed(read, f"a whole number from 1 to {high}, or {word}", "number or word")


def numbers(*, whole: bool = False, high: float = math.inf) -> Parsed:
    """Parser for a tuple of positive numbers up to a maximum, separated by commas; integers if `whole`."""

    def read(text: str) -> tuple[float, ...]:
        values = tuple(map(int if whole else float, text.split(",")))
        if not all(0 < value <= high and value < math.inf for value in values):
            raise ValueError(text)
        return values

    upper = f" up to {high:g}" if high < math.inf else ""
    return Parsed(read, f"{'whole numbers' if whole else 'numbers'} above 0{upper}, separated by commas")


def parameters(prefix: str, flag: str, owned: Mapping[str, Mapping[str, Parameter]]) -> list[Setting]:
    """Settings for the parameters that belong to the choices of another setting. Their names get a prefix.

    Several choices may have a parameter of the same name, with different defaults, bounds and help. The value must be
    valid for the choice that the user makes.

    Args:
      prefix: Prefix of the names.
      flag: The other setting.
      owned: For each choice, its parameters by name.
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
    """Returns what is wrong with the name of a subfolder; an empty text if nothing is."""
    if all(part.strip(". ") and part.isprintable() for part in name.split("/")):
        return ""
    return "must be the name of a subfolder, without .. and without a / in front"
