"""Studies: TOML files in `presets/`, read by `--preset`.

A file is a study. Its table `study` holds what all its settings share, and `figures` what is drawn of them. Every other
table is a setting, or, where values are lists, a grid of settings.
"""

import dataclasses
import itertools
import pathlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from optimization.study import cli, presets

PRESETS = pathlib.Path(__file__).parent / "presets"
_STUDY = "study"
_FIGURES = "figures"


@dataclasses.dataclass(frozen=True)
class Setting:
    """One setting of a study.

    Attributes:
      table: Its table in the file.
      values: Flags and their values.
      name: The table and the values that vary in it.
    """

    table: str
    values: Mapping[str, Any]
    name: str


@dataclasses.dataclass(frozen=True)
class Study:
    """One file.

    Attributes:
      about: What it is, and where it was published.
      settings: In the order of the file.
      figures: Arguments of `figures.draw`, one mapping a figure.
    """

    about: str
    settings: Sequence[Setting]
    figures: Sequence[Mapping[str, Any]]


def load() -> dict[str, Study]:
    """All studies by name."""
    by_name = {}
    for path, shared, tables in presets.tables(PRESETS, _STUDY):
        figures = tables.pop(_FIGURES, [])
        about = shared.pop("about")
        settings = [one for table, values in tables.items() for one in _grid(table, shared | values)]
        by_name[path.stem] = Study(about, settings, figures)
    return by_name


def chosen(preset: str | None) -> tuple[Sequence[Setting], Study | None]:
    """Settings of `--preset`, STUDY or STUDY/SETTING; without it, one setting without values.

    Returns:
      (the settings, the study if they are all of it).

    Raises:
      UsageError: If there is no preset of this name.
    """
    if not preset:
        return [Setting("", {}, "")], None
    known = load()
    name, _, only = preset.partition("/")
    names = list(known)
    if name in known:
        names = [name, *(f"{name}/{setting.name}" for setting in known[name].settings)]
    if preset not in names:
        raise cli.unknown("preset", preset, names, "--list_presets prints their names.")
    study = known[name]
    return [one for one in study.settings if only in ("", one.name)], None if only else study


def whole(preset: str | None, names: Collection[str]) -> Study | None:
    """The study of a preset, if these names are those of all its settings."""
    study = load().get((preset or "").partition("/")[0])
    return study if study and {one.name for one in study.settings} == set(names) else None


def _grid(table: str, values: Mapping[str, Any]) -> list[Setting]:
    varied = {name: choices for name, choices in values.items() if isinstance(choices, list)}
    settings = []
    for combination in itertools.product(*varied.values()):
        chosen = dict(zip(varied, combination, strict=True))
        suffix = "".join(f"_{name.removeprefix('rule_')}={value}" for name, value in chosen.items())
        settings.append(Setting(table, {**values, **chosen}, table + suffix))
    return settings


def text() -> str:
    """Lines that list the studies and their settings."""
    lines = []
    for name, study in load().items():
        lines += [f"{name:<60}{study.about}", *(f"  {name}/{setting.name}" for setting in study.settings)]
    return "\n".join(lines)
