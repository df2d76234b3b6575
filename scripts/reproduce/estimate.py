"""How long figures take: a few rounds of each kind are played, and all others' time comes of theirs."""

import dataclasses
import pathlib
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bandits import flags, studies
from data.errors import UsageError
from optimization.study.metrics import SECONDS
from scripts import runs
from scripts.grid import binaries, players
from scripts.grid import results as grid_results
from scripts.grid.plan import Run
from scripts.grid.sweep import Sweep
from scripts.reproduce.plan import Figure

_ROUNDS = 4  # The first compiles; after another one's pre-training epochs the second does, too.
_INIT_ROUNDS = "init_rounds"
# Flags on which a round's time depends, where a binary has them.
_COSTLY = (
    "algorithm",
    "client_epochs_per_round",
    "client_selection",
    "clients_per_round",
    "max_examples_per_client",
    "model",
    "model_aggregation",
    "task_type",
)


@dataclasses.dataclass
class _Kind:
    """Runs whose rounds take equally long.

    Attributes:
      run: One of them.
      rounds: Of all of them, that are left to play.
      runs: How many are left.
    """

    run: Run
    rounds: int = 0
    runs: int = 0


def told(
    figures: Sequence[Figure],
    repeat: int | None,
    base: Sequence[str],
    folder: pathlib.Path,
    team: players.Team,
    workers: int,
) -> str:
    """Plays a few rounds of each kind of run, and returns in words how long what is left of figures takes.

    Args:
      figures: The figures.
      repeat: Seeds; None for each figure's own.
      base: Flags that all runs share.
      folder: The output's folder; measured rounds lie in `timing` below it, and are played once.
      team: Who plays them.
      workers: Runs at the same time.
    """
    kinds: dict[tuple, _Kind] = {}
    seen: set[str] = set()
    for figure in figures:
        for run, times in _all_runs(figure, repeat or figure.repeat, base, folder / "runs"):
            if run.name in seen:
                continue
            seen.add(run.name)
            kind = kinds.setdefault((run.module, *map(run.settings.get, _COSTLY)), _Kind(run))
            if grid_results.finished_rounds(folder / "runs" / run.name) < run.rounds:
                kind.runs += times
                kind.rounds += times * (run.rounds + init_rounds(run.settings))
    kinds = {key: kind for key, kind in kinds.items() if kind.runs}
    if not kinds:
        return "All runs are finished."
    measured = _measure([kind.run for kind in kinds.values()], folder / "timing", team)
    lines, total = [], 0.0
    for kind in kinds.values():
        words = f"{_words(kind.run)}: {kind.runs} runs, {kind.rounds:,} rounds"
        seconds = measured[kind.run.name]
        if isinstance(seconds, str):
            lines.append(f"{words}: not known: {seconds}")
            continue
        total += seconds * kind.rounds
        lines.append(f"{words} of {seconds:.3g} s: {duration(seconds * kind.rounds)}")
    unknown = sum(isinstance(seconds, str) for seconds in measured.values())
    left_out = f", without {unknown} kinds that could not be played" if unknown else ""
    at_once = f", {workers} at a time" if workers > 1 else ""
    return "\n".join(
        [*lines, f"In all {duration(total / workers)}{at_once}{left_out}; compiling and evaluation apart."]
    )


def _all_runs(figure: Figure, repeat: int, base: Sequence[str], folder: pathlib.Path) -> Iterator[tuple[Run, int]]:
    """Yields (run, how often it counts): a search's points, and as often as seeds one for what it will pick."""
    for arm in figure.arms:
        some = figure.runs_of(arm, repeat, base, folder)
        yield from ((run, 1) for run in some)
        if arm.is_searched:
            yield some[0].with_seed(0), repeat


def _measure(some: Sequence[Run], folder: pathlib.Path, team: players.Team) -> dict[str, float | str]:
    """Returns the seconds of each run's round, or why that is not known."""
    found: dict[str, float | str] = {}
    for run in some:
        arguments = (*run.arguments, f"--total_rounds={min(_ROUNDS, run.rounds)}")
        if init_rounds(run.settings):
            arguments = (*arguments, f"--{_INIT_ROUNDS}=1")
        sweep = Sweep(folder, team, studies.load(run.module).ranked_by, smallest=False)
        try:
            settings = binaries.resolve(run.module, arguments)
            short = dataclasses.replace(run, arguments=arguments, settings=settings)
            sweep.play([short])
            outcome = sweep.outcomes[short.name]
            if outcome.status == grid_results.FAILED:
                found[run.name] = outcome.error
                continue
            seconds = runs.read_metrics(folder / run.name, _ROUNDS)[SECONDS].tolist()
            found[run.name] = statistics.median(seconds[1:] or seconds)
        except UsageError as error:
            found[run.name] = str(error)
        finally:
            sweep.close()
    return found


def init_rounds(settings: Mapping[str, Any]) -> int:
    """Returns the rounds of a run's initial training, which count as its others; most scenarios have none."""
    return settings[_INIT_ROUNDS] if settings.get("scenario") in flags.PRETRAINED else 0


def _words(run: Run) -> str:
    settings = {name: run.settings.get(name) for name in ("task_type", "model", "clients_per_round")}
    values = [f"{name}={value}" for name, value in settings.items() if value is not None]
    return " ".join([run.module.rpartition(".")[2], *values])


def duration(seconds: float) -> str:
    """Returns a duration as text, in minutes, hours or days."""
    for size, name in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= size:
            return f"{seconds / size:.1f} {name}"
    return f"{seconds:.0f} seconds"
