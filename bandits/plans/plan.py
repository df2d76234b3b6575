"""Which runs are planned: configurations, grids of command lines, published grids, and points with their folders.

A point is one choice of all flags but the seed.
"""

import dataclasses
import hashlib
import itertools
import json
import math
import pathlib
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from bandits import studies
from bandits.plans import executors
from data.errors import UsageError
from optimization.study import cli, presets, run_folder

_PUBLISHED = pathlib.Path(__file__).parent / "published"
# A grid sets these itself, or they make a binary run several runs.
_OWN = ("root_output_dir", "experiment_name", "repeat", "restart")
_SEED = "seed"
_ROUNDS = "total_rounds"
_NAME_LENGTH, _KEY_LENGTH = 120, 12
_SERIES = (1, 2, 5)
_LARGEST_SEED = 2**32 - 1

Axes = Mapping[str, Sequence[str]]


@dataclasses.dataclass(frozen=True)
class Run:
    """One run.

    Attributes:
      module: Its binary's.
      point: Name of its point, which runs of other seeds share; with the key of its flags.
      seed: Its seed.
      configuration: Its swept flags that are words: for each of these, the best numbers are searched.
      numbers: Names of its swept flags that are numbers.
      arguments: Its flags as they were given: those of the command, of the grid and of the point.
      settings: Its flags' values, all filled in.
    """

    module: str
    point: str
    seed: int
    configuration: str
    numbers: tuple[str, ...]
    arguments: tuple[str, ...]
    settings: cli.Settings

    @property
    def name(self) -> str:
        """Folder of the run, below that of all runs."""
        return f"{self.point}/seed_{self.seed}"

    @property
    def rounds(self) -> int:
        """Rounds after which it is finished."""
        return self.settings.total_rounds

    def job(self, folder: pathlib.Path) -> executors.Job:
        """Returns the job that executes it below the folder of all runs."""
        where = (f"--root_output_dir={folder}", f"--experiment_name={self.name}")
        return executors.Job(self.module, (*self.arguments, *where), str(folder / self.name), self.rounds)

    def with_seed(self, seed: int) -> "Run":
        """Returns the run of the same point with another seed."""
        arguments = (*self.arguments, f"--{_SEED}={seed}")
        return dataclasses.replace(
            self, seed=seed, arguments=arguments, settings=studies.resolve(self.module, arguments)
        )

    def at_rounds(self, rounds: int) -> "Run":
        """Returns this run with fewer rounds, which the whole run continues.

        Raises:
          UsageError: If its rounds would not be those of the whole run.
        """
        arguments = (*self.arguments, f"--{_ROUNDS}={rounds}")
        settings = studies.resolve(self.module, arguments)
        for name in settings:
            if settings[name] != self.settings[name] and name not in {_ROUNDS, *run_folder.FREE_FLAGS}:
                raise UsageError(f"--early_stop needs --{name}: its default depends on --{_ROUNDS}.")
        if settings.get("tuning_rounds"):
            raise UsageError("--early_stop does not go with --tuning_rounds, which follow the last round.")
        return dataclasses.replace(self, arguments=arguments, settings=settings)


@dataclasses.dataclass(frozen=True)
class Grid:
    """What is run.

    Attributes:
      binary: Module of the experiment binary.
      base: Flags that all runs share, as arguments.
      blocks: Flags and the values to try, as text; points are the cross product of each block. Words are single: each
        combination of them is a configuration.
      seeds: Seeds of every point.
      expandable: Flags whose values may be added to.
      first: The blocks before any value was added.
      known: Names of points by their keys, where they were named before, perhaps by a grid that swept other flags.
    """

    binary: str
    base: tuple[str, ...]
    blocks: tuple[Axes, ...]
    seeds: tuple[int, ...]
    expandable: tuple[str, ...] = ()
    first: tuple[Axes, ...] = ()
    known: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def swept(self) -> tuple[str, ...]:
        """Names of all swept flags, in order."""
        return tuple(dict.fromkeys(name for block in self.blocks for name in block))

    def fresh_seeds(self, count: int) -> range:
        """Returns so many seeds after those that it searches with.

        Raises:
          UsageError: If there are no such seeds.
        """
        first = max(self.seeds) + 1
        if count and first + count - 1 > _LARGEST_SEED:
            raise UsageError(f"--reporting_repeat={count} needs seeds above {_LARGEST_SEED}, the largest.")
        return range(first, first + count)

    def in_folder(self, folder: pathlib.Path) -> "Grid":
        """Returns a grid whose points have the names of those that lie in a folder already."""
        names = [path.name for path in folder.glob(f"*-{'?' * _KEY_LENGTH}")]
        return dataclasses.replace(self, known={name[-_KEY_LENGTH:]: name for name in names})

    def renamed(self, some: Sequence[Run]) -> list[Run]:
        """Returns runs with the names that their points have already."""
        names = [self.known.get(run.point[-_KEY_LENGTH:], run.point) for run in some]
        return [dataclasses.replace(run, point=name) for run, name in zip(some, names, strict=True)]

    def runs(self) -> list[Run]:
        """Returns the runs of all points and seeds.

        Raises:
          UsageError: If a run's flags are not sound, or two points are the same run.
        """
        found: dict[str, tuple[str, ...]] = {}
        runs = []
        for block in self.blocks:
            numbers = tuple(name for name, values in block.items() if not is_words(values))
            for values in itertools.product(*block.values()):
                words = tuple(f"--{name}={value}" for name, value in zip(block, values, strict=True))
                key, name = self._key(words)
                if key in found:
                    raise UsageError(f"{shlex.join(found[key])} and {shlex.join(words)} are the same run.")
                found[key] = words
                point = f"{name}-{key}"
                for seed in self.seeds:
                    arguments = studies.without_file(self.binary, (*self.base, *words, f"--{_SEED}={seed}"))
                    settings = self._resolve(arguments, words)
                    runs.append(Run(self.binary, point, seed, _configuration(block), numbers, arguments, settings))
        return self.renamed(runs)

    def _key(self, words: Sequence[str]) -> tuple[str, str]:
        """Returns the key of a point, which comes of what is computed, not of how that is said; and words for it."""
        settings = self._resolve((*self.base, *words, f"--{_SEED}=0"), words)
        left_out = run_folder.FREE_FLAGS | {_SEED, "list_presets", "repeat"}
        if _ROUNDS not in self.swept:  # A run may be made longer.
            left_out |= {_ROUNDS}
        # Without what is not set: a flag that is new to the binary leaves the keys of runs without it as they were.
        values = {name: value for name, value in settings.items() if name not in left_out and value is not None}
        canonical = json.dumps([self.binary, values], sort_keys=True)
        key = hashlib.sha256(canonical.encode()).hexdigest()[:_KEY_LENGTH]
        swept = [word.removeprefix("--").partition("=")[0] for word in words]
        name = ",".join(f"{flag}={as_text(settings[flag])}" for flag in swept) or "run"
        return key, re.sub("[^A-Za-z0-9_.,=+-]", "_", name)[:_NAME_LENGTH]

    def _resolve(self, arguments: Sequence[str], words: Sequence[str]) -> cli.Settings:
        try:
            return studies.resolve(self.binary, arguments)
        except UsageError as error:
            raise UsageError(f"{error} (run {shlex.join(words)})" if words else str(error)) from error

    def widened(self, best: Run, most: int) -> tuple["Grid", list[str]]:
        """Returns this grid with a value more on every edge on which the best run of a configuration lies.

        Args:
          best: That run.
          most: Values that may be added to one side.

        Returns:
          (grid, the flags added); the same grid and nothing if the best lies inside.
        """
        first = self.first or self.blocks
        blocks, added = [], []
        for block, before in zip(self.blocks, first, strict=True):
            wider = dict(block)
            for name in self.expandable if _configuration(block) == best.configuration else ():
                if len(before.get(name, ())) < 2:  # One value has no edges.
                    continue
                value = beyond([float(text) for text in block[name]], best.settings[name])
                tried = [float(text) for text in before[name]]
                if value is None or _steps(block[name], tried, value) >= most or not self._takes(name, value):
                    continue
                wider[name] = (*block[name], as_text(value))
                added.append(f"--{name}={as_text(value)}")
            blocks.append(wider)
        return dataclasses.replace(self, blocks=tuple(blocks), first=first), added

    def _takes(self, name: str, value: float) -> bool:
        try:
            studies.parse(self.binary, [f"--{name}={as_text(value)}"])
        except UsageError:
            return False
        return True


@dataclasses.dataclass(frozen=True)
class Configuration:
    """What is planned to be run and compared: a curve of a figure, or a row of a table.

    Attributes:
      label: Its name; parts of several axes are joined by commas.
      words: The parts of its label, one an axis.
      arguments: Flags of the binary.
      sweeps: Values to search, as `--sweep` of the grid; without any, it is one run a seed.
      grid: A published grid to search.
      is_drawn: Whether it is drawn, or only compared with.
    """

    label: str
    words: tuple[str, ...]
    arguments: tuple[str, ...]
    sweeps: tuple[str, ...] = ()
    grid: str | None = None
    is_drawn: bool = True

    @property
    def is_searched(self) -> bool:
        """Whether its flags are searched."""
        return bool(self.sweeps or self.grid)

    def edges(self, picked: Mapping[str, float]) -> list[str]:
        """Returns the flags of which a sweep's pick is the least or largest value of three or more; of a grid, none."""
        tried = dict(sweep.split("=", 1) for sweep in self.sweeps)
        values = {flag: [*map(float, tried[flag].split(";"))] for flag in picked if flag in tried}
        return [flag for flag, some in values.items() if len(some) > 2 and is_edge(some, picked[flag])]

    def runs(
        self, binary: str, seeds: Sequence[int], base: Sequence[str] = (), folder: pathlib.Path | None = None
    ) -> list[Run]:
        """Returns its runs: those of all points and seeds.

        Args:
          binary: Name in `studies.STUDIES`.
          seeds: Seeds of each point.
          base: Flags beside its own.
          folder: Where earlier runs lie; what is the same run has the same folder. None for the runs of the first
            point alone: checking all of a search takes minutes.

        Raises:
          UsageError: If its flags are not sound.
        """
        grid = build((*self.arguments, *base), sweeps=self.sweeps, binary=binary, grid=self.grid)
        grid = dataclasses.replace(grid, seeds=tuple(seeds))
        if folder is not None:
            return grid.in_folder(folder).runs()
        first = {name: values[:1] for name, values in grid.blocks[0].items()}
        return dataclasses.replace(grid, blocks=(first,)).runs()


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
    for _, _, tables in presets.tables(_PUBLISHED):
        for name, table in tables.items():
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
) -> Grid:
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
    given = studies.parse(chosen, rest)
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
        words = axes.pop("seed")
        if bad := [word for word in words if not word.isdecimal()]:
            raise UsageError(f"--sweep=seed={bad[0]}: a seed is a whole number.")
        seeds = tuple(map(int, words))
    base, expandable = list(rest), [name for name in axes if _is_number(chosen, name, axes[name])]
    blocks: list[Axes] = [axes]
    if table:
        preset = presets.values(given.preset, studies.load(chosen).presets)
        fixed = {name: value for name, value in preset.items() if name not in given.given}
        fixed |= {name: given[name] for name in given.given}
        flags = {**table.flags, **table.by_scenario.get(fixed.get("scenario", ""), {})}
        added = {name: value for name, value in flags.items() if name not in fixed and name not in axes}
        base += [f"--{name}={as_text(value)}" for name, value in added.items()]
        blocks = _fitting(table, fixed, given.given, axes)
        if not blocks:
            raise UsageError(f"--grid={grid} has no values to try for these flags' --bandits_type.")
        expandable = list(dict.fromkeys((*table.expand, *expandable)))
    return Grid(chosen, tuple(base), tuple(itertools.chain(*map(_split, blocks))), seeds, tuple(expandable))


def _fitting(table: Published, fixed: Mapping[str, Any], given: frozenset[str], axes: Axes) -> list[Axes]:
    """Returns the blocks of a published grid that agree with what is fixed, without axes that are given."""
    blocks: list[Axes] = []
    for block in table.blocks:
        texts = {name: [as_text(value) for value in values] for name, values in block.items()}
        names = [name for name, values in texts.items() if is_words(values)]
        if all(as_text(fixed[name]) in texts[name] for name in names if name in fixed):
            blocks.append({name: values for name, values in texts.items() if name not in given} | dict(axes))
    return blocks


def _split(block: Axes) -> list[Axes]:
    """Returns a block for each combination of words."""
    words = {name: values for name, values in block.items() if is_words(values)}
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


def _is_number(binary: str, name: str, values: Sequence[str]) -> bool:
    """Returns whether a flag takes any number, so that values can be added."""
    if is_words(values):
        return False
    return isinstance(studies.parse(binary, [f"--{name}={values[0]}"])[name], float)


def _steps(texts: Sequence[str], tried: Sequence[float], value: float) -> int:
    """Returns how many values were added before on the side of a new value."""
    is_up = value > max(tried)
    return sum(float(text) > max(tried) if is_up else float(text) < min(tried) for text in texts)


def is_edge(values: Sequence[float], best: float) -> bool:
    """Returns whether a value is the least or largest of several that were tried."""
    return len(set(values)) > 1 and best in (min(values), max(values))


def beyond(values: Sequence[float], best: float) -> float | None:
    """Returns the next value beyond the edge at `best`; None if it lies inside, or numbers are not positive.

    Values of the form {1, 2, 5} * 10^n continue that series, others the ratio of the two outermost.
    """
    ordered = sorted(values)
    if not is_edge(values, best) or ordered[0] <= 0:
        return None
    edge, inner = (ordered[-1], ordered[-2]) if best == ordered[-1] else (ordered[0], ordered[1])
    series = [float(f"{digit}e{power}") for power in range(-12, 13) for digit in _SERIES]
    if set(values) <= set(series):
        return series[series.index(edge) + (1 if edge > inner else -1)]
    return float(f"{edge * edge / inner:.4g}")


def _configuration(block: Axes) -> str:
    words = [f"{name}={values[0]}" for name, values in block.items() if is_words(values)]
    return " ".join(words)


def is_words(values: Sequence[str]) -> bool:
    """Returns whether values are words, of which each makes a configuration, not numbers to search."""
    try:
        return not all(math.isfinite(float(value)) for value in values)
    except ValueError:
        return True


def as_text(value: Any) -> str:
    """Returns a flag's value as text; equal numbers give equal texts."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.12g}" if isinstance(value, float) else str(value)
