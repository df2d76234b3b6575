"""Planned runs: configurations, grids from a command line, published grids, and points with their folders.

A point is a choice of values for all flags except the seed.
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
# Runs cannot set these flags: the grid sets them, or they would start several runs.
_GRID_FLAGS = ("root_output_dir", "experiment_name", "seed", "repeat", "restart")
_SEED = "seed"
_ROUNDS = "total_rounds"
_NAME_LENGTH, KEY_LENGTH = 120, 12
_LARGEST_SEED = 2**32 - 1

Axes = Mapping[str, Sequence[str]]


@dataclasses.dataclass(frozen=True)
class Run:
    """One run.

    Attributes:
      module: Module of the binary.
      point: Name of the point, which runs with other seeds share. It ends with the key of the point's flags.
      seed: Random seed.
      configuration: Swept words, such as `bandits_type=softmax`. A search selects the best numbers for each of them.
      numbers: Names of swept flags whose values are numbers.
      arguments: Flags from the command line, the grid and the point.
      settings: Values of all flags, with defaults filled in.
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
        """Folder of the run, relative to the folder of all runs."""
        return f"{self.point}/seed_{self.seed}"

    @property
    def rounds(self) -> int:
        """Number of rounds of the finished run."""
        return self.settings.total_rounds

    def job(self, folder: pathlib.Path) -> executors.Job:
        """Job that executes the run in a subfolder of the folder of all runs."""
        output = (f"--root_output_dir={folder}", f"--experiment_name={self.name}")
        return executors.Job(self.module, (*self.arguments, *output), str(folder / self.name), self.rounds)

    def with_flags(self, *flags: str) -> "Run":
        """The run with further flags, which override its own.

        Raises:
          UsageError: If the binary refuses them.
        """
        arguments = (*self.arguments, *flags)
        return dataclasses.replace(self, arguments=arguments, settings=studies.resolve(self.module, arguments))

    def with_seed(self, seed: int) -> "Run":
        """The run of the same point with another seed."""
        return dataclasses.replace(self.with_flags(f"--{_SEED}={seed}"), seed=seed)

    def at_rounds(self, rounds: int) -> "Run":
        """The run with fewer rounds, which the full run can continue.

        Raises:
          UsageError: If its rounds would differ from those of the full run.
        """
        shorter = self.with_flags(f"--{_ROUNDS}={rounds}")
        for name, value in shorter.settings.items():
            if value != self.settings[name] and name not in {_ROUNDS, *run_folder.FREE_FLAGS}:
                raise UsageError(f"--early_stop needs --{name}: its default depends on --{_ROUNDS}.")
        return shorter


@dataclasses.dataclass(frozen=True)
class Grid:
    """A grid of runs.

    Attributes:
      binary: Module of the experiment binary.
      base: Flags that all runs share, as arguments.
      blocks: Flags and the values to try, as text. Points are the cross product of the values in each block. A block
        has a single value for each flag whose values are words, so it belongs to one configuration.
      seeds: Seeds of every point.
      known: Names of existing points by their keys. The names may come from a grid that swept other flags.
    """

    binary: str
    base: tuple[str, ...]
    blocks: tuple[Axes, ...]
    seeds: tuple[int, ...]
    known: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def swept(self) -> tuple[str, ...]:
        """Names of all swept flags, in order."""
        return tuple(dict.fromkeys(name for block in self.blocks for name in block))

    def fresh_seeds(self, count: int) -> range:
        """The `count` seeds after those of the search.

        Raises:
          UsageError: If they exceed the largest possible seed.
        """
        first = max(self.seeds) + 1
        if count and first + count - 1 > _LARGEST_SEED:
            raise UsageError(f"--reporting_repeat={count} needs seeds above {_LARGEST_SEED}, the largest one allowed.")
        return range(first, first + count)

    def in_folder(self, folder: pathlib.Path) -> "Grid":
        """Copy of the grid whose points have the same names as the existing points in a folder."""
        names = [path.name for path in folder.glob(f"*-{'?' * KEY_LENGTH}")]
        return dataclasses.replace(self, known={name[-KEY_LENGTH:]: name for name in names})

    def runs(self) -> list[Run]:
        """Runs of all points and seeds.

        Raises:
          UsageError: If a run's flags are invalid, or two points are the same run.
        """
        words_by_key: dict[str, tuple[str, ...]] = {}
        runs = []
        for block in self.blocks:
            numbers = tuple(name for name, values in block.items() if not is_words(values))
            configuration = " ".join(f"{name}={values[0]}" for name, values in block.items() if name not in numbers)
            for values in itertools.product(*block.values()):
                words = tuple(f"--{name}={value}" for name, value in zip(block, values, strict=True))
                key, name = self._key(words)
                if key in words_by_key:
                    raise UsageError(f"{shlex.join(words_by_key[key])} and {shlex.join(words)} are the same run.")
                words_by_key[key] = words
                point = self.known.get(key, f"{name}-{key}")
                for seed in self.seeds:
                    arguments = studies.without_file(self.binary, (*self.base, *words, f"--{_SEED}={seed}"))
                    settings = self._resolve(arguments, words)
                    runs.append(Run(self.binary, point, seed, configuration, numbers, arguments, settings))
        return runs

    def _key(self, words: Sequence[str]) -> tuple[str, str]:
        """Key of a point, which depends only on the resolved settings, and its readable name."""
        settings = self._resolve((*self.base, *words, f"--{_SEED}=0"), words)
        left_out = run_folder.FREE_FLAGS | {_SEED, "list_presets", "repeat"}
        if _ROUNDS not in self.swept:  # A run with more rounds continues the same point.
            left_out |= {_ROUNDS}
        # Unset flags are left out, so that new flags of the binary do not change the keys of earlier runs.
        values = {name: value for name, value in settings.items() if name not in left_out and value is not None}
        canonical = json.dumps([self.binary, values], sort_keys=True)
        key = hashlib.sha256(canonical.encode()).hexdigest()[:KEY_LENGTH]
        swept = [word.removeprefix("--").partition("=")[0] for word in words]
        name = ",".join(f"{flag}={as_text(settings[flag])}" for flag in swept) or "run"
        return key, re.sub("[^A-Za-z0-9_.,=+-]", "_", name)[:_NAME_LENGTH]

    def _resolve(self, arguments: Sequence[str], words: Sequence[str]) -> cli.Settings:
        try:
            return studies.resolve(self.binary, arguments)
        except UsageError as error:
            raise UsageError(f"{error} (run {shlex.join(words)})" if words else str(error)) from error


@dataclasses.dataclass(frozen=True)
class Configuration:
    """A planned configuration: a curve of a figure, or a row of a table.

    Attributes:
      label: Name of the configuration. Parts for several axes are joined by commas.
      words: The parts of the label, one for each axis.
      arguments: Flags of the binary.
      sweeps: Values to search, as in `--sweep` of the grid. Without any, there is one run per seed.
      grid: A published grid to search.
      is_drawn: Whether figures show the configuration; otherwise, it is only a reference.
    """

    label: str
    words: tuple[str, ...]
    arguments: tuple[str, ...]
    sweeps: tuple[str, ...] = ()
    grid: str | None = None
    is_drawn: bool = True

    @property
    def is_searched(self) -> bool:
        """Whether values of its flags are searched."""
        return bool(self.sweeps or self.grid)

    def edges(self, picked: Mapping[str, float]) -> list[str]:
        """Flags whose selected value is the smallest or largest of three or more in a sweep, except for one epoch."""
        sweeps = dict(sweep.split("=", 1) for sweep in self.sweeps)
        values = {flag: [*map(float, sweeps[flag].split(";"))] for flag in picked if flag in sweeps}
        on_edge = [flag for flag, tried in values.items() if len(tried) > 2 and is_edge(tried, picked[flag])]
        return [flag for flag in on_edge if picked[flag] != 1 or not flag.endswith("epochs_per_round")]

    def runs(
        self, binary: str, seeds: Sequence[int], base: Sequence[str] = (), folder: pathlib.Path | None = None
    ) -> list[Run]:
        """Runs of all points and seeds.

        Args:
          binary: Name in `studies.STUDIES`.
          seeds: Seeds of each point.
          base: Additional flags.
          folder: Folder of earlier runs, whose names are reused. None to get only the runs of the first point,
            because checking a whole search takes minutes.

        Raises:
          UsageError: If the configuration's flags are invalid.
        """
        grid = build((*self.arguments, *base), sweeps=self.sweeps, binary=binary, grid=self.grid)
        grid = dataclasses.replace(grid, seeds=tuple(seeds))
        if folder is not None:
            return grid.in_folder(folder).runs()
        first = {name: values[:1] for name, values in grid.blocks[0].items()}
        return dataclasses.replace(grid, blocks=(first,)).runs()


def published() -> dict[str, dict[str, Any]]:
    """Tables of published grids, by name; see `published/`.

    `blocks` has the flags and the values to try. A flag whose value is a word defines a configuration.
    """
    tables = {name: table for _, _, some in presets.tables(_PUBLISHED) for name, table in some.items()}
    for table in tables.values():
        table["blocks"] = [
            {flag: value if isinstance(value, list) else [value] for flag, value in one.items()} | table["sweep"]
            for one in table["configurations"]
        ]
    return tables


def build(
    rest: Sequence[str], *, sweeps: Sequence[str], repeat: int = 1, binary: str | None = None, grid: str | None = None
) -> Grid:
    """Grid from a command line.

    Args:
      rest: Flags of the runs.
      sweeps: Values of `--sweep`, as `flag=v1,v2`. Values that have commas are separated by semicolons.
      repeat: Number of consecutive seeds for every point.
      binary: Name in `studies.STUDIES`. None for the binary of the grid, or the first one without a grid.
      grid: Name of a published grid. Flags and sweeps override its values.

    Raises:
      UsageError: If the grid is unknown, or flags are invalid or conflict.
    """
    known = published()
    if grid is not None and grid not in known:
        raise cli.unknown("grid", grid, known, f"it is one of {', '.join(known)}.")
    table = known[grid] if grid else None
    if table and binary not in (None, table["binary"]):
        raise UsageError(f"--grid={grid} is a grid for --binary={table['binary']}, not {binary}.")
    chosen = studies.STUDIES[binary or (table["binary"] if table else next(iter(studies.STUDIES)))]
    parsed = studies.parse(chosen, rest)
    axes = _sweeps(sweeps)
    for name in axes:
        if name in parsed.set_by_user - parsed.from_file:
            raise UsageError(f"--{name} is both set and swept: leave out one of the two.")
        if name in _GRID_FLAGS:
            raise UsageError(f"--sweep={name}: the grid sets this flag for its runs: leave it out.")
    if parsed.get("list_presets"):
        raise UsageError(f"--list_presets is a flag of {chosen}.")
    if parsed.get("restart"):
        raise UsageError("--restart works for single runs only: add it to the command in a run's config.json.")
    seeds = tuple(cli.seeds({"seed": parsed.seed, "repeat": repeat}))
    base = list(rest)
    blocks: list[Axes] = [axes]
    if table:
        preset = presets.values(parsed.preset, studies.load(chosen).presets)
        fixed = {name: value for name, value in preset.items() if name not in parsed.set_by_user}
        fixed |= {name: parsed[name] for name in parsed.set_by_user}
        flags = {**table["flags"], **table["by_scenario"].get(fixed.get("scenario", ""), {})}
        added = {name: value for name, value in flags.items() if name not in fixed and name not in axes}
        base += [f"--{name}={as_text(value)}" for name, value in added.items()]
        blocks = _matching_blocks(table, fixed, parsed.set_by_user, axes)
        if not blocks:
            raise UsageError(f"--grid={grid} has no values to try for the --bandits_type that these flags set.")
    return Grid(chosen, tuple(base), tuple(itertools.chain(*map(_split, blocks))), seeds)


def _matching_blocks(
    table: Mapping[str, Any], fixed: Mapping[str, Any], given: frozenset[str], axes: Axes
) -> list[Axes]:
    """Blocks of a published grid that agree with fixed flags, without axes that the command line sets."""
    blocks: list[Axes] = []
    for block in table["blocks"]:
        texts = {name: [as_text(value) for value in values] for name, values in block.items()}
        names = [name for name, values in texts.items() if is_words(values)]
        if all(as_text(fixed[name]) in texts[name] for name in names if name in fixed):
            blocks.append({name: values for name, values in texts.items() if name not in given} | dict(axes))
    return blocks


def _split(block: Axes) -> list[Axes]:
    """One block for each combination of words."""
    words = {name: values for name, values in block.items() if is_words(values)}
    return [
        {**block, **{name: (value,) for name, value in zip(words, values, strict=True)}}
        for values in itertools.product(*words.values())
    ]


def _sweeps(texts: Sequence[str]) -> dict[str, tuple[str, ...]]:
    axes: dict[str, tuple[str, ...]] = {}
    for text in texts:
        name, equals, values = text.removeprefix("--").partition("=")
        parsed = tuple(value.strip() for value in values.split(";" if ";" in values else ","))
        if not equals or not name or "" in parsed:
            raise UsageError(f"--sweep={text} must be flag=value,value.")
        if name in axes:
            raise UsageError(f"--sweep={name} is given twice: put all values into one --sweep.")
        axes[name] = parsed
    return axes


def is_edge(values: Sequence[float], best: float) -> bool:
    """Whether a value is the smallest or largest of several that are not all equal."""
    return len(set(values)) > 1 and best in (min(values), max(values))


def is_words(values: Sequence[str]) -> bool:
    """Whether values are words, each of which makes a configuration, rather than numbers to search."""
    try:
        return not all(math.isfinite(float(value)) for value in values)
    except ValueError:
        return True


def as_text(value: Any) -> str:
    """A flag's value as text. Equal numbers have the same text."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.12g}" if isinstance(value, float) else str(value)
