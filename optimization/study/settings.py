"""Values of settings, which come from the user, a file, a preset or the program, or else from defaults."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from data.errors import UsageError, did_you_mean, near_names
from data.settings import Parameter, Setting
from optimization.study import formatting

_CONDITIONS = {True: "belongs to --{}: give both, or neither", False: "conflicts with --{}: leave one out"}
_MOST_VALUES = 4  # If a condition allows more values, it lists the excluded values instead, provided these are fewer.


def condition(setting: Setting, values: Sequence[str] | bool) -> str:
    """Heading for settings that apply only to some values of another setting, such as "only for --algorithm=fedbe"."""
    if isinstance(values, bool):
        return f"{'only' if values else 'not'} with --{setting.name}"
    is_negative = _lacks_few(setting, values)
    listed = [word for word in setting.words if word not in values] if is_negative else values
    return f"{'not' if is_negative else 'only'} for --{setting.name}={', '.join(listed)}"


def _lacks_few(setting: Setting, values: Sequence[str]) -> bool:
    """Whether the list of values is long, and the list of all other values is shorter."""
    return len(values) > max(_MOST_VALUES, len(set(setting.words) - set(values)))


class Settings(Mapping[str, Any]):
    """Values of all settings, read as `settings.name` or `settings["name"]`.

    A setting without a given value has its default, which may depend on other settings. Defaults are computed when they
    are read, so the order of declarations does not matter.

    Attributes:
      set_by_user: Names of the settings that the command line, or the file that it names, sets.
      from_file: Names of the settings that the file sets.
    """

    def __init__(
        self,
        given: Mapping[str, Any],
        set_by_user: frozenset[str] = frozenset(),
        declared: Mapping[str, Setting] | None = None,
        from_file: frozenset[str] = frozenset(),
    ):
        """Stores the given values, which replace the defaults, and the declarations of the settings, both by name."""
        self._given = dict(given)
        self._values: dict[str, Any] = {}
        self.set_by_user = set_by_user
        self.from_file = from_file
        self._declared = declared or {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._values:
            value = self._given[name] if name in self._given else self._default(name)
            convert = name in self._declared and self._declared[name].convert
            self._values[name] = convert(value, self) if convert and value is not None else value
        return self._values[name]

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __iter__(self) -> Iterator[str]:
        return iter({**self._declared, **self._given})

    def __len__(self) -> int:
        return len({**self._declared, **self._given})

    def _default(self, name: str) -> Any:
        declaration = self._declared[name]
        value = declaration.default
        if declaration.applied_default is not None:
            value = None if self._misfits(name) else declaration.applied_default
        elif numbers := [kind for _, _, kind in self._chosen(name)] or list(declaration.of.values())[:1]:
            defaults = {number.default for number in numbers}
            value = defaults.pop() if len(defaults) == 1 else None  # If they differ, each run has its own default.
        if callable(value):
            return value(self)
        return declaration.parsed(value)

    def is_given(self, name: str) -> bool:
        """Whether the user, a file, a preset or the program sets a value instead of the default."""
        return name in self._given

    def replace(self, **values: Any) -> "Settings":
        """Copy with these values. It does not change which settings count as set by the user."""
        return Settings({**self._given, **values}, self.set_by_user, self._declared, self.from_file)

    def with_user_values(self, **values: Any) -> "Settings":
        """Copy with these values, which count as set by the user."""
        return Settings({**self._given, **values}, self.set_by_user | set(values), self._declared, self.from_file)

    def without(self, *names: str) -> "Settings":
        """Copy in which some settings are reset to their defaults."""
        given = {name: value for name, value in self._given.items() if name not in names}
        return Settings(given, self.set_by_user - set(names), self._declared, self.from_file)

    def converted(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Converts values from a file or preset to the types of command-line values.

        Raises:
          UsageError: If there is no such setting, or its value is invalid.
        """
        converted = {}
        for name, value in values.items():
            if name not in self._declared:
                near = did_you_mean(near_names(name, self._declared), "--helpfull lists all.")
                raise UsageError(f"{name} is not a setting: {near}")
            converted[name] = self._declared[name].converted(value)
        return converted

    def with_file(self, values: Mapping[str, Any]) -> "Settings":
        """Copy with the values of a file, which count as set by the user; the command line takes precedence.

        A file's value is dropped if the command line sets the same setting, or sets another one that rules it out.

        Raises:
          UsageError: See `converted`.
        """
        applied = {name: value for name, value in self.converted(values).items() if name not in self.set_by_user}
        overruled, dropped = self.set_by_user, {""}
        while dropped:  # A setting that depends on a dropped value is dropped, too.
            changed = self.replace(**applied)
            dropped = {name for name in applied if not overruled.isdisjoint(changed._misfits(name))}
            applied = {name: value for name, value in applied.items() if name not in dropped}
            overruled = overruled | dropped
        return Settings(changed._given, self.set_by_user | set(applied), self._declared, frozenset(applied))

    def with_defaults(self, defaults: Mapping[str, Any]) -> "Settings":
        """Copy with these values for settings that the user did not set.

        Raises:
          UsageError: See `converted`. This also applies to values that are not used because the user set the setting.
        """
        applied = {name: value for name, value in self.converted(defaults).items() if name not in self.set_by_user}
        return self.replace(**applied)

    def default(self, name: str) -> Any:
        """Value that a setting has if the user does not set it; None if the setting is not declared."""
        if name not in self._declared:
            return None
        return self.without(name)[name] if name in self.set_by_user else self[name]

    def _misfits(self, name: str) -> dict[str, str]:
        """Settings whose values rule out the setting `name`, each with an error message."""
        errors = {}
        for flag, values in self._declared[name].only.items():
            value = self[flag]
            if isinstance(values, bool):
                if (value is not None and value is not False) != values:
                    errors[flag] = f"--{name} {_CONDITIONS[values].format(flag)}."
            elif set(values).isdisjoint(formatting.words(value)):
                chosen = ", ".join(formatting.words(value)) or "its default"
                error = f"does not belong to --{flag}={chosen}"
                if not _lacks_few(self._declared[flag], values):
                    error = f"belongs to --{flag}={' or '.join(values)}, not to {chosen}"
                errors[flag] = f"--{name} {error}."
        return errors

    def checked(self, *checks: Callable[["Settings"], None]) -> "Settings":
        """Returns these settings after checking them.

        Args:
          *checks: Further checks of settings that depend on each other.

        Raises:
          UsageError: If the user sets a setting that does not apply, or a value is invalid because of another setting.
        """
        for name in self._declared:
            for wrong in self._misfits(name).values() if name in self.set_by_user else ():
                raise UsageError(wrong)
            for flag, choice, kind in self._chosen(name):
                if wrong := kind.complaint(self[name]):
                    raise UsageError(f"--{name}={self[name]}: {wrong}, because of --{flag}={choice}.")
        for check in checks:
            check(self)
        return self

    def check_order(self, low: str, high: str) -> None:
        """Refuses a lower limit that is above the upper limit.

        Raises:
          UsageError: If `low` is above `high`; the message names both.
        """
        if self[low] > self[high]:
            raise UsageError(f"--{low}={self[low]:g} must be at most --{high}={self[high]:g}.")

    def _chosen(self, name: str) -> list[tuple[str, str, Parameter]]:
        """If a number depends on the value of another setting: that setting, each of its chosen values, and the bounds.

        Empty for other settings.
        """
        numbers = self._declared[name].of
        flag = next(iter(self._declared[name].only)) if numbers else ""
        return [
            (flag, choice, numbers[choice])
            for choice in (formatting.words(self[flag]) if numbers else ())
            if choice in numbers
        ]
