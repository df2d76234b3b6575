"""Flags in files: published settings by name, in a folder `presets/` beside each experiment binary, and one's own."""

import dataclasses
import functools
import pathlib
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from data.errors import UsageError
from optimization.study import cli
from optimization.study.settings import setting

_SHARED, _ABOUT = "shared", "about"
# What says where the values come from, or what to do, not what is run.
_NOT_IN_FILES = ("config", "list_presets", "restart")


@dataclasses.dataclass(frozen=True)
class Preset:
    """One published setting.

    Attributes:
      about: Where it was published.
      values: Flags and their values.
    """

    about: str
    values: Mapping[str, Any]


class Presets:
    """Presets.

    Attributes:
      preset: A published setting by name; flags given beside it win.
      config: Your own TOML file of settings, a line name = value each, texts in quotes; the command line wins over it,
        and it over --preset. Relative paths start in the working directory.
      list_presets: Print the names of all presets, and end.
    """

    preset: str = setting(basic=True)
    config: pathlib.Path = setting(basic=True)
    list_presets: bool = setting(False, basic=True)


def tables(
    folder: pathlib.Path, shared: str = _SHARED, pattern: str = "*.toml"
) -> Iterator[tuple[pathlib.Path, dict[str, Any], dict[str, Any]]]:
    """Yields each published TOML file of a folder, what all its tables share, and its tables by name.

    Args:
      folder: The folder.
      shared: Name of the table that all others of its file share; a file may lack it.
      pattern: Pattern of the files' names.
    """
    for path in sorted(folder.glob(pattern)):
        found = tomllib.loads(path.read_text(encoding="utf-8"))
        yield path, found.pop(shared, {}), found


@functools.cache  # Each of many runs asks whether its preset sets a flag.
def load(folder: pathlib.Path) -> Mapping[str, Preset]:
    """Returns all presets of a folder by name, in the order of its files."""
    found = {}
    for _, shared, settings in tables(folder):
        for name, values in settings.items():
            about = values.pop(_ABOUT)
            found[name] = Preset(about, shared | values)
    return found


def read(path: str) -> Mapping[str, Any]:
    """Returns the flags and values of one's own file; `about` in it is a note.

    Raises:
      UsageError: If it cannot be read, is no TOML, has headings, or flags that belong to the command line.
    """
    try:
        values = tomllib.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"it cannot be read ({error.strerror}).") from error
    except ValueError as error:
        raise UsageError(f"it is no TOML ({error}): write a line flag = value each, texts in quotes.") from error
    values.pop(_ABOUT, None)
    for name, value in values.items():
        if isinstance(value, dict):
            raise UsageError(f"{name} has parts: a config has lines flag = value alone, no [heading] and no dot.")
        if name in _NOT_IN_FILES:
            raise UsageError(f"{name} stands on the command line alone, not in a file.")
    return values


def located(error: UsageError, settings: cli.Settings) -> UsageError:
    """Returns an error that also says which of the flags it names are from `--config`; itself, if none is."""
    named = [name for name in dict.fromkeys(re.findall(r"--(\w+)", str(error))) if name in settings.from_file]
    if not named:
        return error
    return UsageError(f"{error} {cli.shown_path(settings.config)} gives {', '.join(f'--{name}' for name in named)}.")


def values(name: str | None, folder: pathlib.Path) -> Mapping[str, Any]:
    """Returns the flags that `--preset` sets; none if it is not given.

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
    """Returns settings in which flags that were not given have the values of `--preset`.

    Raises:
      UsageError: If there is no preset of this name.
    """
    return settings.with_defaults(values(settings.preset, folder))


def table(folder: pathlib.Path, shown: Sequence[str]) -> str:
    """Returns the presets as text, a line each: name, where it was published, and the values of the flags `shown`."""
    lines = []
    for name, preset in load(folder).items():
        told = ", ".join(
            f"{flag.removeprefix('bandits_')} {preset.values[flag]}" for flag in shown if flag in preset.values
        )
        lines.append(f"{name:<42}{preset.about:<26}{told}".rstrip())
    return "\n".join(lines)
