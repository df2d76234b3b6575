"""Which runs a grid consists of: points, their keys and folders, wider grids."""

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

from bandits import binaries
from bandits.plans import player
from data.errors import UsageError
from optimization.study import cli, run_folder

_SEED = "seed"
_ROUNDS = "total_rounds"
_NAME_LENGTH, _KEY_LENGTH = 120, 12
_SERIES = (1, 2, 5)

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

    def job(self, folder: pathlib.Path) -> player.Job:
        """Returns the job that plays it below the folder of all runs."""
        return player.Job.of(self.module, self.arguments, folder, self.name, self.rounds)

    def with_seed(self, seed: int) -> "Run":
        """Returns the run of the same point with another seed."""
        arguments = (*self.arguments, f"--{_SEED}={seed}")
        return dataclasses.replace(
            self, seed=seed, arguments=arguments, settings=binaries.resolve(self.module, arguments)
        )

    def at_rounds(self, rounds: int) -> "Run":
        """Returns this run with fewer rounds, which the whole run continues.

        Raises:
          UsageError: If its rounds would not be those of the whole run.
        """
        arguments = (*self.arguments, f"--{_ROUNDS}={rounds}")
        settings = binaries.resolve(self.module, arguments)
        for name in settings:
            if settings[name] != self.settings[name] and name not in {_ROUNDS, *run_folder.FREE_FLAGS}:
                raise UsageError(f"--early_stop needs --{name}: its default depends on --{_ROUNDS}.")
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

    def with_base(self, *arguments: str) -> "Grid":
        """Returns a grid whose runs all have some flags more."""
        return dataclasses.replace(self, base=(*self.base, *arguments))

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
                    arguments = binaries.without_file(self.binary, (*self.base, *words, f"--{_SEED}={seed}"))
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
            return binaries.resolve(self.binary, arguments)
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
                if value is None or self._steps(block[name], tried, value) >= most or not self._takes(name, value):
                    continue
                wider[name] = (*block[name], as_text(value))
                added.append(f"--{name}={as_text(value)}")
            blocks.append(wider)
        return dataclasses.replace(self, blocks=tuple(blocks), first=first), added

    def _steps(self, texts: Sequence[str], tried: Sequence[float], value: float) -> int:
        """Returns how many values were added before on the side of a new value."""
        is_up = value > max(tried)
        return sum(float(text) > max(tried) if is_up else float(text) < min(tried) for text in texts)

    def _takes(self, name: str, value: float) -> bool:
        try:
            binaries.parse(self.binary, [f"--{name}={as_text(value)}"])
        except UsageError:
            return False
        return True


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
