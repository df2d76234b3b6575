"""Flags in files: named published settings in each binary's `presets/` folder, and the user's own file."""

import dataclasses
import functools
import pathlib
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from data.errors import UsageError
from data.settings import setting
from optimization.study import cli

_SHARED, _ABOUT = "shared", "about"
# Flags that a file cannot set, because they name a source of values or an action.
_NOT_IN_FILES = ("config", "list_presets", "restart")


@dataclasses.dataclass(frozen=True)
class Preset:
    """A published setting.

    Attributes:
      about: The publication and the setting in it.
      values: Flags and their values.
    """

    about: str
    values: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Presets:
    """Settings that name sources of other settings."""

    preset: str = setting(None, "Name of a published setting; flags on the command line override it", basic=True)
    config: pathlib.Path = setting(
        None,
        "TOML file with your settings, one per line as name = value, with texts in quotes; it overrides --preset, "
        "and the command line overrides it. Relative paths are relative to the working directory",
        basic=True,
    )
    list_presets: bool = setting(False, "Print the names of all presets, and exit", basic=True)


def tables(
    folder: pathlib.Path, shared: str = _SHARED
) -> Iterator[tuple[pathlib.Path, dict[str, Any], dict[str, Any]]]:
    """For each TOML file in a folder, yields its path, the values that its tables share, and its tables by name.

    Args:
      folder: Folder that holds the files.
      shared: Name of the table whose values all other tables in its file share. It is optional.
    """
    for path in sorted(folder.glob("*.toml")):
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
        yield path, tables.pop(shared, {}), tables


@functools.cache  # Called once per run.
def load(folder: pathlib.Path) -> Mapping[str, Preset]:
    """All presets in a folder by name, in the order of its files."""
    loaded = {}
    for _, shared, settings in tables(folder):
        for name, values in settings.items():
            about = values.pop(_ABOUT)
            loaded[name] = Preset(about, shared | values)
    return loaded


def read(path: str) -> Mapping[str, Any]:
    """Reads flags and values from the user's file. Its key `about` is a note.

    Raises:
      UsageError: If the file cannot be read, is not TOML, has headings, or has flags that belong on the command line.
    """
    try:
        values = tomllib.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"it cannot be read ({error.strerror}).") from error
    except ValueError as error:
        raise UsageError(f"it is not TOML ({error}): write lines like flag = value, with texts in quotes.") from error
    values.pop(_ABOUT, None)
    for name, value in values.items():
        if isinstance(value, dict):
            raise UsageError(f"{name} has parts: write lines like flag = value, without [headings] and dots.")
        if name in _NOT_IN_FILES:
            raise UsageError(f"{name} belongs on the command line: remove it from the file.")
    return values


def located(error: UsageError, settings: cli.Settings) -> UsageError:
    """Adds to an error message which of the flags in it were set by `--config`."""
    named = [name for name in dict.fromkeys(re.findall(r"--(\w+)", str(error))) if name in settings.from_file]
    if not named:
        return error
    return UsageError(f"{error} {cli.shown_path(settings.config)} sets {', '.join(f'--{name}' for name in named)}.")


def values(name: str | None, folder: pathlib.Path) -> Mapping[str, Any]:
    """Values that the preset `name` sets, by flag; empty for None.

    Raises:
      UsageError: If there is no preset of this name.
    """
    if name is None:
        return {}
    known = load(folder)
    if name not in known:
        raise cli.unknown("preset", name, known, "--list_presets prints their names.")
    return known[name].values


def applied(settings: cli.Settings, folder: pathlib.Path) -> cli.Settings:
    """Settings with the preset's values for flags that the user did not set.

    Raises:
      UsageError: If there is no preset of this name.
    """
    return settings.with_defaults(values(settings.preset, folder))


def table(folder: pathlib.Path, shown: Sequence[str], rates: Callable[[str], Mapping[str, float]]) -> str:
    """Lists the presets as text, one per line.

    Args:
      folder: Folder of the presets.
      shown: Flags whose values are shown if the preset sets them.
      rates: Function from a preset's name to its learning rates, including defaults that the preset does not set.
    """
    rows = []
    for name, preset in load(folder).items():
        known = {**rates(name), **{flag: preset.values[flag] for flag in shown if flag in preset.values}}
        values = ", ".join(f"{flag.removeprefix('bandits_')} {plain(value)}" for flag, value in known.items())
        rows.append((name, preset.about, values))
    first, second = (max(map(len, column)) for column in list(zip(*rows, strict=True))[:2])
    return "\n".join(f"{name:<{first}}  {about:<{second}}  {values}".rstrip() for name, about, values in rows)


def plain(value: Any) -> str:
    """Formats a value as users write it: 5000, not 5e+03 or 5000.0."""
    return f"{value:.12g}" if isinstance(value, float) else str(value)
