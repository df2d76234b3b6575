"""Which runs a grid consists of: sweeps and published grids as points, their keys and folders, wider grids.

Nothing here reads data or imports TensorFlow: every run's flags are checked by its own binary's parser first.
"""

import dataclasses
import difflib
import hashlib
import importlib
import itertools
import json
import math
import pathlib
import re
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from data.errors import UsageError
from optimization.study import cli, presets, run_folder

_GRIDS = pathlib.Path(__file__).parent / "published"
_SEED = "seed"
_ROUNDS = "total_rounds"
# A grid sets these itself, or they make a binary play several runs.
_OWN = ("root_output_dir", "experiment_name", "repeat", "restart")
_NAME_LENGTH, _KEY_LENGTH = 120, 12
_SERIES = (1, 2, 5)


@dataclasses.dataclass(frozen=True)
class Binary:
    """An experiment binary.

    Attributes:
      module: Its module, with `program(settings)` and, in its module `flags`, `define()` and `resolve(settings)`.
      metric: Column of `metrics.csv` by which points are ranked.
      smallest: Whether less of it is better.
    """

    module: str
    metric: str
    smallest: bool = False


BINARIES = {
    "run_federated": Binary("bandits.run_federated", "bandits/average_rewards"),
    "run_client_selection": Binary("bandits.client_selection.run_client_selection", "eval/global_loss", True),
    "run_mab_fl": Binary("bandits.mab_fl.run_mab_fl", "best_auc"),
    "run_ads": Binary("bandits.ads.run_ads", "federated_total_reward"),
    "run_posterior": Binary("optimization.posterior.run_posterior", "running/eval/accuracy"),
}

Axes = Mapping[str, Sequence[str]]


@dataclasses.dataclass(frozen=True)
class Run:
    """One run.

    Attributes:
      point: Name of its point, which runs of other seeds share; with the key of its flags.
      seed: Its seed.
      configuration: Its swept flags that are words: for each of these, the best numbers are searched.
      numbers: Names of its swept flags that are numbers.
      arguments: Its flags as they were given: those of the command, of the grid and of the point.
      settings: Its flags' values, all filled in.
    """

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


@dataclasses.dataclass(frozen=True)
class Grid:
    """What is run.

    Attributes:
      binary: The experiment binary.
      base: Flags that all runs share, as arguments.
      blocks: Flags and the values to try, as text; points are the cross product of each block. Words are single: each
        combination of them is a configuration.
      seeds: Seeds of every point.
      expandable: Flags whose values may be added to.
      first: The blocks before any value was added.
      known: Names of points by their keys, where they were named before, perhaps by a grid that swept other flags.
    """

    binary: Binary
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
            numbers = tuple(name for name, values in block.items() if not _is_words(values))
            for values in itertools.product(*block.values()):
                words = tuple(f"--{name}={value}" for name, value in zip(block, values, strict=True))
                key, name = self._key(words)
                if key in found:
                    raise UsageError(f"{shlex.join(found[key])} and {shlex.join(words)} are the same run.")
                found[key] = words
                point = f"{name}-{key}"
                for seed in self.seeds:
                    arguments = (*self.base, *words, f"--{_SEED}={seed}")
                    settings = self._resolve(arguments, words)
                    runs.append(Run(point, seed, _configuration(block), numbers, arguments, settings))
        return self.renamed(runs)

    def _key(self, words: Sequence[str]) -> tuple[str, str]:
        """Returns the key of a point, which comes of what is computed, not of how that is said; and words for it."""
        settings = self._resolve((*self.base, *words, f"--{_SEED}=0"), words)
        left_out = run_folder.FREE_FLAGS | {_SEED, "list_presets", "repeat"}
        if _ROUNDS not in self.swept:  # A run may be made longer.
            left_out |= {_ROUNDS}
        # Without what is not set: a flag that is new to the binary leaves the keys of runs without it as they were.
        values = {name: value for name, value in settings.items() if name not in left_out and value is not None}
        canonical = json.dumps([self.binary.module, values], sort_keys=True)
        key = hashlib.sha256(canonical.encode()).hexdigest()[:_KEY_LENGTH]
        swept = [word.removeprefix("--").partition("=")[0] for word in words]
        name = ",".join(f"{flag}={as_text(settings[flag])}" for flag in swept) or "run"
        return key, re.sub("[^A-Za-z0-9_.,=+-]", "_", name)[:_NAME_LENGTH]

    def _resolve(self, arguments: Sequence[str], words: Sequence[str]) -> cli.Settings:
        try:
            return resolve(self.binary.module, arguments)
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
            parse(self.binary.module, [f"--{name}={as_text(value)}"])
        except UsageError:
            return False
        return True

    def at_rounds(self, run: Run, rounds: int) -> Run:
        """Returns a run with fewer rounds, which the whole run continues.

        Raises:
          UsageError: If its rounds would not be those of the whole run.
        """
        arguments = (*run.arguments, f"--{_ROUNDS}={rounds}")
        settings = resolve(self.binary.module, arguments)
        for name in settings:
            if settings[name] != run.settings[name] and name not in {_ROUNDS, *run_folder.FREE_FLAGS}:
                raise UsageError(f"--early_stop needs --{name}: its default depends on --{_ROUNDS}.")
        if settings.get("tuning_rounds"):
            raise UsageError("--early_stop does not go with --tuning_rounds, which follow the last round.")
        return dataclasses.replace(run, arguments=arguments, settings=settings)


def beyond(values: Sequence[float], best: float) -> float | None:
    """Returns the next value beyond the edge at `best`; None if it lies inside, or numbers are not positive.

    Values of the form {1, 2, 5} * 10^n continue that series, others the ratio of the two outermost.
    """
    ordered = sorted(values)
    if best not in (ordered[0], ordered[-1]) or ordered[0] <= 0:
        return None
    edge, inner = (ordered[-1], ordered[-2]) if best == ordered[-1] else (ordered[0], ordered[1])
    series = [float(f"{digit}e{power}") for power in range(-12, 13) for digit in _SERIES]
    if set(values) <= set(series):
        return series[series.index(edge) + (1 if edge > inner else -1)]
    return float(f"{edge * edge / inner:.4g}")


def _configuration(block: Axes) -> str:
    words = [f"{name}={values[0]}" for name, values in block.items() if _is_words(values)]
    return " ".join(words)


def _is_words(values: Sequence[str]) -> bool:
    try:
        return not all(math.isfinite(float(value)) for value in values)
    except ValueError:
        return True


def as_text(value: Any) -> str:
    """Returns a flag's value as text; equal numbers give equal texts."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def _flags(module: str):
    return importlib.import_module(module).flags


def parse(module: str, arguments: Sequence[str]) -> cli.Settings:
    """Returns flags as they were given to a binary.

    Raises:
      UsageError: If it does not know them.
    """
    return _flags(module).define().parse([module, *arguments])


def resolve(module: str, arguments: Sequence[str]) -> cli.Settings:
    """Returns the flags of one run of a binary, all values filled in.

    Raises:
      UsageError: If the binary refuses them, or would play several runs.
    """
    found = _flags(module).resolve(parse(module, arguments))
    if isinstance(found, cli.Settings):
        return found
    # Client selection and MAB-FL compare several settings in one command.
    runs = found.runs if hasattr(found, "runs") else [setting.settings for setting in found[0]]
    if len(runs) != 1:
        raise UsageError(f"These flags make {module} play {len(runs)} runs: name one, and --sweep the others.")
    return runs[0]


@dataclasses.dataclass(frozen=True)
class Published:
    """A published grid.

    Attributes:
      about: What it is.
      binary: Name in BINARIES.
      flags: Flags that it fixes, and their values.
      blocks: Flags and values to try: an axis of a single value is a word that names a configuration.
      expand: Flags that were widened where the best lay on an edge.
    """

    about: str
    binary: str
    flags: Mapping[str, Any]
    blocks: Sequence[Mapping[str, Sequence[Any]]]
    expand: Sequence[str]


def published() -> dict[str, Published]:
    """Returns the published grids by name."""
    found = {}
    for path in sorted(_GRIDS.glob("*.toml")):
        for name, table in tomllib.loads(path.read_text(encoding="utf-8")).items():
            blocks = [
                {flag: value if isinstance(value, list) else [value] for flag, value in configuration.items()}
                | table["sweep"]
                for configuration in table["configurations"]
            ]
            found[name] = Published(table["about"], table["binary"], table["flags"], blocks, table["expand"])
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
      binary: Name in BINARIES; None for the grid's, or the first.
      grid: A published grid; what is given beside it wins.

    Raises:
      UsageError: If they do not go together.
    """
    known = published()
    if grid is not None and grid not in known:
        near = difflib.get_close_matches(grid, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"it is one of {', '.join(known)}."
        raise UsageError(f"--grid={grid} is not known: {hint}")
    table = known[grid] if grid else None
    if table and binary not in (None, table.binary):
        raise UsageError(f"--grid={grid} is a grid of --binary={table.binary}, not {binary}.")
    chosen = BINARIES[binary or (table.binary if table else next(iter(BINARIES)))]
    given = parse(chosen.module, rest)
    axes = _sweeps(sweeps)
    for name in axes:
        if name in given.given:
            raise UsageError(f"--{name} is given, and swept: leave one out.")
        if name in _OWN:
            raise UsageError(f"--sweep={name}: the grid sets this flag of its runs itself.")
    if given.get("list_presets"):
        raise UsageError(f"--list_presets is a flag of {chosen.module}.")
    if given.get("restart"):
        raise UsageError(
            "--restart starts single runs over: give it with the command that config.json in the run's folder holds."
        )
    seeds = tuple(cli.seeds({"seed": given.seed, "repeat": repeat}))
    if _SEED in axes:
        if repeat > 1:
            raise UsageError("--repeat has no effect with --sweep=seed: leave one out.")
        seeds = tuple(int(text) for text in axes.pop(_SEED) if _is_seed(text))
    base, blocks, expandable = list(rest), [axes], [name for name in axes if _is_number(chosen, name, axes[name])]
    if table:
        preset = presets.values(given.preset, _flags(chosen.module).PRESETS)
        fixed = {name: value for name, value in preset.items() if name not in given.given}
        fixed |= {name: given[name] for name in given.given}
        added = {name: value for name, value in table.flags.items() if name not in fixed and name not in axes}
        base += [f"--{name}={as_text(value)}" for name, value in added.items()]
        blocks = _fitting(table, fixed, given.given, axes)
        if not blocks:
            raise UsageError(f"--grid={grid} has no values to try for these flags' --bandits_type.")
        expandable = list(dict.fromkeys((*table.expand, *expandable)))
    return Grid(chosen, tuple(base), tuple(itertools.chain(*map(_split, blocks))), seeds, tuple(expandable))


def _fitting(
    table: Published, fixed: Mapping[str, Any], given: frozenset[str], axes: Axes
) -> list[dict[str, Sequence[str]]]:
    """Returns the blocks of a published grid that agree with what is fixed, without axes that are given."""
    blocks = []
    for block in table.blocks:
        texts = {name: [as_text(value) for value in values] for name, values in block.items()}
        names = [name for name, values in texts.items() if _is_words(values)]
        if all(as_text(fixed[name]) in texts[name] for name in names if name in fixed):
            kept = {name: values for name, values in texts.items() if name not in given}
            blocks.append(kept | axes)
    return blocks


def _split(block: Axes) -> list[Axes]:
    """Returns a block for each combination of words."""
    words = {name: values for name, values in block.items() if _is_words(values)}
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


def _is_number(binary: Binary, name: str, values: Sequence[str]) -> bool:
    """Returns whether a flag takes any number, so that values can be added."""
    if _is_words(values):
        return False
    return isinstance(parse(binary.module, [f"--{name}={values[0]}"])[name], float)
