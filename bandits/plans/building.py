"""Grids of command lines, and published ones."""

import dataclasses
import itertools
import pathlib
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from bandits import binaries, studies
from bandits.plans import plan
from data.errors import UsageError
from optimization.study import cli, presets

_FOLDER = pathlib.Path(__file__).parent / "published"
# A grid sets these itself, or they make a binary play several runs.
_OWN = ("root_output_dir", "experiment_name", "repeat", "restart")


@dataclasses.dataclass(frozen=True)
class Published:
    """A published grid.

    Attributes:
      about: What it is.
      binary: Name in `studies.STUDIES`.
      flags: Flags that it fixes, and their values.
      blocks: Flags and values to try: an axis of a single value is a word that names a configuration.
      expand: Flags that were widened where the best lay on an edge.
      by_scenario: Flags that it fixes in some of the scenarios alone, by scenario.
    """

    about: str
    binary: str
    flags: Mapping[str, Any]
    blocks: Sequence[Mapping[str, Sequence[Any]]]
    expand: Sequence[str]
    by_scenario: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)


def published() -> dict[str, Published]:
    """Returns the published grids by name."""
    found = {}
    for path in sorted(_FOLDER.glob("*.toml")):
        for name, table in tomllib.loads(path.read_text(encoding="utf-8")).items():
            blocks = [
                {flag: value if isinstance(value, list) else [value] for flag, value in configuration.items()}
                | table["sweep"]
                for configuration in table["configurations"]
            ]
            fixed, by_scenario = table["flags"], table.get("by_scenario", {})
            found[name] = Published(table["about"], table["binary"], fixed, blocks, table["expand"], by_scenario)
    return found


def build(
    rest: Sequence[str],
    *,
    sweeps: Sequence[str],
    repeat: int = 1,
    binary: str | None = None,
    grid: str | None = None,
) -> plan.Grid:
    """Returns the grid of a command line.

    Args:
      rest: Flags of the runs.
      sweeps: Values of `--sweep`, as `flag=v1,v2`; values that hold commas are separated by semicolons.
      repeat: Consecutive seeds of every point.
      binary: Name in `studies.STUDIES`; None for the grid's, or the first.
      grid: A published grid; what is given beside it wins.

    Raises:
      UsageError: If they do not go together.
    """
    known = published()
    if grid is not None and grid not in known:
        raise cli.unknown("grid", grid, known, f"it is one of {', '.join(known)}.")
    table = known[grid] if grid else None
    if table and binary not in (None, table.binary):
        raise UsageError(f"--grid={grid} is a grid of --binary={table.binary}, not {binary}.")
    chosen = studies.STUDIES[binary or (table.binary if table else next(iter(studies.STUDIES)))]
    given = binaries.parse(chosen, rest)
    axes = _sweeps(sweeps)
    for name in axes:
        if name in given.given - given.from_file:
            raise UsageError(f"--{name} is given, and swept: leave one out.")
        if name in _OWN:
            raise UsageError(f"--sweep={name}: the grid sets this flag of its runs itself.")
    if given.get("list_presets"):
        raise UsageError(f"--list_presets is a flag of {chosen}.")
    if given.get("restart"):
        raise UsageError(
            "--restart starts single runs over: give it with the command that config.json in the run's folder holds."
        )
    seeds = tuple(cli.seeds({"seed": given.seed, "repeat": repeat}))
    if "seed" in axes:
        if repeat > 1:
            raise UsageError("--repeat has no effect with --sweep=seed: leave one out.")
        seeds = tuple(int(text) for text in axes.pop("seed") if _is_seed(text))
    base, expandable = list(rest), [name for name in axes if _is_number(chosen, name, axes[name])]
    blocks: list[plan.Axes] = [axes]
    if table:
        preset = presets.values(given.preset, studies.load(chosen).presets)
        fixed = {name: value for name, value in preset.items() if name not in given.given}
        fixed |= {name: given[name] for name in given.given}
        flags = {**table.flags, **table.by_scenario.get(fixed.get("scenario", ""), {})}
        added = {name: value for name, value in flags.items() if name not in fixed and name not in axes}
        base += [f"--{name}={plan.as_text(value)}" for name, value in added.items()]
        blocks = _fitting(table, fixed, given.given, axes)
        if not blocks:
            raise UsageError(f"--grid={grid} has no values to try for these flags' --bandits_type.")
        expandable = list(dict.fromkeys((*table.expand, *expandable)))
    return plan.Grid(chosen, tuple(base), tuple(itertools.chain(*map(_split, blocks))), seeds, tuple(expandable))


def _fitting(table: Published, fixed: Mapping[str, Any], given: frozenset[str], axes: plan.Axes) -> list[plan.Axes]:
    """Returns the blocks of a published grid that agree with what is fixed, without axes that are given."""
    blocks: list[plan.Axes] = []
    for block in table.blocks:
        texts = {name: [plan.as_text(value) for value in values] for name, values in block.items()}
        names = [name for name, values in texts.items() if plan.is_words(values)]
        if all(plan.as_text(fixed[name]) in texts[name] for name in names if name in fixed):
            blocks.append({name: values for name, values in texts.items() if name not in given} | dict(axes))
    return blocks


def _split(block: plan.Axes) -> list[plan.Axes]:
    """Returns a block for each combination of words."""
    words = {name: values for name, values in block.items() if plan.is_words(values)}
    return [
        {**block, **{name: (value,) for name, value in zip(words, values, strict=True)}}
        for values in itertools.product(*words.values())
    ]


def _sweeps(texts: Sequence[str]) -> dict[str, tuple[str, ...]]:
    axes: dict[str, tuple[str, ...]] = {}
    for text in texts:
        name, equals, values = text.removeprefix("--").partition("=")
        found = tuple(value.strip() for value in values.split(";" if ";" in values else ","))
        if not equals or not name or "" in found:
            raise UsageError(f"--sweep={text} must be flag=value,value.")
        if name in axes:
            raise UsageError(f"--sweep={name} is given twice: put all its values into one.")
        axes[name] = found
    return axes


def _is_seed(text: str) -> bool:
    if not text.isdecimal():
        raise UsageError(f"--sweep=seed={text}: a seed is a whole number.")
    return True


def _is_number(binary: str, name: str, values: Sequence[str]) -> bool:
    """Returns whether a flag takes any number, so that values can be added."""
    if plan.is_words(values):
        return False
    return isinstance(binaries.parse(binary, [f"--{name}={values[0]}"])[name], float)
