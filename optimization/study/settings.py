"""Values of flags, and what becomes of those that belong to a choice: to certain values of another flag."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from data.errors import UsageError

_FLOAT32 = (2.0**-126, (2 - 2.0**-23) * 2.0**127)  # The smallest normal number, and the largest.


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
        kind = "number" if math.isfinite(value) else "finite number"
        if self.whole and not float(value).is_integer():
            return f"{value:g} is not a whole number"
        wanted = f"a {kind} {'above' if self.above else 'of at least'} {self.low:g}"
        if self.high is not None:
            wanted += f" and {'below' if self.below else 'at most'} {self.high:g}"
        is_low = value <= self.low if self.above else value < self.low
        is_high = self.high is not None and (value >= self.high if self.below else value > self.high)
        if not math.isfinite(value) or is_low or is_high:
            return f"{value:g} is not {wanted}"
        if abs(value) > _FLOAT32[1] or (self.above and abs(value) < _FLOAT32[0]):  # Infinite, or no longer above 0.
            return f"{value:g} is beyond the numbers of 32 bits, {_FLOAT32[0]:.2g} to {_FLOAT32[1]:.2g}"
        return ""


@dataclasses.dataclass(frozen=True)
class Owner:
    """A flag with whose choice another flag goes.

    Attributes:
      flag: Its name.
      values: Those with which it goes; True if any does, False if it may have none.
      others: All other values, where they are fewer.
    """

    flag: str
    values: Sequence[str] | bool
    others: Sequence[str] = ()

    def help(self) -> str:
        """Returns when the other flag is read, in words."""
        if isinstance(self.values, bool):
            return f"{'only' if self.values else 'not'} with --{self.flag}"
        return f"{'not' if self.others else 'only'} for --{self.flag}={', '.join(self.others or self.values)}"

    def check(self, name: str, value: Any) -> None:
        """Refuses another flag that does not go with this one's value.

        Raises:
          UsageError: Naming both.
        """
        if isinstance(self.values, bool):
            if (value is not None and value is not False) == self.values:
                return
            if self.values:
                raise UsageError(f"--{name} belongs to --{self.flag}: give both, or neither.")
            raise UsageError(f"--{name} does not go with --{self.flag}: leave one out.")
        if not set(self.values).isdisjoint(names(value)):
            return
        chosen = ", ".join(names(value)) or "its default"
        if self.others:
            raise UsageError(f"--{name} does not belong to --{self.flag}={chosen}.")
        raise UsageError(f"--{name} belongs to --{self.flag}={' or '.join(self.values)}, not to {chosen}.")


def names(value: str | None) -> list[str]:
    """Returns the words of a flag's value, separated by commas."""
    return [] if value is None else [word.strip() for word in value.split(",")]


class Settings(Mapping[str, Any]):
    """Values of all flags, read as `settings.name` or `settings["name"]`."""

    def __init__(
        self,
        values: Mapping[str, Any],
        given: frozenset[str],
        owners: Mapping[str, Sequence[Owner]] | None = None,
        parameters: Mapping[str, tuple[str, Mapping[str, Parameter]]] | None = None,
        checked: Callable[[str, Any], Any] = lambda _, value: value,
        from_file: frozenset[str] = frozenset(),
    ):
        """Takes the flags' values.

        Args:
          values: By flag.
          given: Flags of the command line, and of the file that it names.
          owners: By flag, what it belongs to.
          parameters: By flag, another one, and what the flag is for its values.
          checked: Takes a flag and a value that did not come from the command line; returns it as the flag's.
          from_file: Those of them that the file gives.
        """
        self._values = dict(values)
        self.given = given
        self.from_file = from_file
        self._owners = owners or {}
        self._parameters = parameters or {}
        self._checked = checked

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
        """Returns a copy with some values changed, and the same flags counted as given."""
        return self._with(values, self.given)

    def give(self, **values: Any) -> "Settings":
        """Returns a copy with some values changed, whose flags count as given."""
        return self._with(values, self.given | set(values))

    def _with(self, values: Mapping[str, Any], given: frozenset[str]) -> "Settings":
        values = {**self._values, **values}
        return Settings(values, given, self._owners, self._parameters, self._checked, self.from_file)

    def with_defaults(self, defaults: Mapping[str, Any]) -> "Settings":
        """Returns a copy in which flags that were not given take these values.

        Raises:
          UsageError: If one of all these is not a flag's, or not as the command line would take it.
        """
        values = {name: self._checked(name, value) for name, value in defaults.items()}
        return self.replace(**{name: value for name, value in values.items() if name not in self.given})

    def filled(self, defaults: Mapping[str, Any]) -> "Settings":
        """Returns a copy in which flags without a value take these."""
        return self.replace(**{name: value for name, value in defaults.items() if self[name] is None})

    def settled(self) -> "Settings":
        """Returns a copy with the defaults of what was chosen, see `with_own_defaults`.

        Raises:
          UsageError: If a flag is given that belongs to another choice, or a value does not suit what was chosen.
        """
        for name in self._owners:
            for owner in self._owners[name] if name in self.given else ():
                owner.check(name, self[owner.flag])
        for name, (flag, parameters) in self._parameters.items():
            for choice in set(names(self[flag])) & set(parameters):
                if told := parameters[choice].complaint(self[name]):
                    raise UsageError(f"--{name}={self[name]}: {told}, as --{flag}={choice} needs.")
        return self.with_own_defaults()

    def with_own_defaults(self) -> "Settings":
        """Returns a copy in which parameters without a value have the chosen owner's, or else the first owner's."""
        values = {}
        for name, (flag, parameters) in self._parameters.items():
            readers = [choice for choice in names(self[flag]) if choice in parameters] or list(parameters)[:1]
            if len({parameters[choice].default for choice in readers}) == 1:  # Of several, each has its own run.
                values[name] = parameters[readers[0]].default
        return self.filled(values)
