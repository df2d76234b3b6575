"""A recommendation while it runs: its folder, its plan, the time that is left, and the runs.

Runs of searches, comparisons and noise lie in folders of their own, named by their flags, and are never run again.
What was decided by the clock is kept in `plan.json`, so that the same command, after a kill, runs the same runs.
"""

import contextlib
import dataclasses
import json
import math
import pathlib
import statistics
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from bandits import studies
from bandits.advice import plan as planning
from bandits.advice import strategies
from bandits.advice.plan import Plan
from bandits.plans import executors, outcomes
from bandits.plans.estimate import Pace, duration, round_seconds
from bandits.plans.outcomes import Outcome
from bandits.plans.plan import Run
from bandits.plans.sweep import Sweep
from bandits.results import runs
from data import files
from data.errors import Failure, UsageError
from optimization.study import cli, run_folder
from optimization.study.metrics import Metric

PLAN_FILE, ADVICE_FILE = "plan.json", "advice.json"
_MEASURED_ROUNDS = 6
_SAVE_SECONDS = 5.0
_LEAST_SECONDS = 0.1
_LAST_SECONDS = 15.0  # For reading runs and writing pages.
_PLANNED = 0.9  # Of the time that is left: where the pace drops, the stages after a comparison still run.
_TRUSTED_SECONDS = 20.0  # What took less says little about the pace.
_PACES = (0.5, 3.0)  # The pace is corrected by no more than that at once.


def tell(text: str) -> None:
    """Prints what the user should know while runs are executed."""
    print(text, file=sys.stderr, flush=True)


class State:
    """`plan.json`.

    Attributes:
      identity: What makes it this recommendation.
      minutes: What it may take.
      stages: The plan as it was decided at each stage.
      pace: How fast this machine runs; None before it was measured.
      earlier: Seconds that it took before, with other minutes.
      finished: Whether all is written and no run failed.
    """

    def __init__(self, folder: pathlib.Path, identity: Mapping[str, Any], minutes: float):
        """Reads it, if there is one of this recommendation.

        Args:
          folder: The recommendation's folder, which is claimed.
          identity: What makes it this one.
          minutes: What it may take. With other minutes than before it is planned anew; its runs count.

        Raises:
          UsageError: If it is damaged, or another recommendation's.
        """
        self.folder = folder
        self._path = folder / PLAN_FILE
        self.identity, self.minutes = identity, minutes
        self.stages: dict[str, Plan] = {}
        self.pace: Pace | None = None
        self.earlier = spent = 0.0
        self.finished = False
        if self._path.exists():
            spent = self._read(folder)
        self._start = time.monotonic() - spent

    def _read(self, folder: pathlib.Path) -> float:
        """Takes what was decided; returns the seconds spent."""
        before: Mapping[str, Any] = {}
        try:
            before = runs.read_json(self._path)
            plans = before["stages"].items()
            stages = {name: Plan(**one | {"strategies": tuple(one["strategies"])}) for name, one in plans}
            self.pace = Pace(**before["pace"]) if before["pace"] else None
            minutes, spent, self.earlier = (float(before[name]) for name in ("minutes", "spent", "earlier"))
            numbers = (minutes, spent, self.earlier, *(dataclasses.astuple(self.pace) if self.pace else ()))
            if not all(map(math.isfinite, numbers)):
                raise ValueError(f"{numbers} are not finite.")
            identity = dict(before["identity"])
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            if "format" in before:
                run_folder.check_format(folder, before, "plan of a recommendation")
            raise UsageError(
                f"{self._path} is damaged: delete it, and the rest is planned again, with the runs that exist."
            ) from error
        run_folder.check_format(folder, before, "plan of a recommendation")
        _check_identity(folder, identity, self.identity)
        if minutes == self.minutes:
            self.stages, self.finished = stages, before.get("finished") is True
            return spent
        # What was run already would be measured as if it took no time.
        self.earlier += spent
        return 0.0

    @property
    def spent(self) -> float:
        """Seconds that it has taken, in all starts with these minutes."""
        return time.monotonic() - self._start

    def save(self) -> None:
        """Writes it whole."""
        content = {
            "format": run_folder.FORMAT,
            "identity": self.identity,
            "minutes": self.minutes,
            "command": cli.command_line(),
            "stages": {name: dataclasses.asdict(one) for name, one in self.stages.items()},
            "pace": dataclasses.asdict(self.pace) if self.pace else None,
            "spent": round(self.spent, 1),
            "earlier": self.earlier,
            "finished": self.finished,
        }
        files.replace(self._path, json.dumps(content, indent=2).encode() + b"\n")


def _check_identity(folder: pathlib.Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuses the folder of another recommendation; names the first flags that differ."""
    now = json.loads(json.dumps(now))
    names = [name for name in sorted({*before, *now}) if before.get(name) != now.get(name)]
    if names:
        told = "; ".join(f"{name} was {before.get(name)}, is {now.get(name)}" for name in names[:3])
        raise UsageError(f"{folder} holds another recommendation: {told}. Choose another --experiment_name.")


class Session:
    """Runs the stages of a recommendation within its time."""

    def __init__(
        self,
        folder: pathlib.Path,
        state: State,
        full: Plan,
        base: Sequence[str],
        workers: int,
    ):
        """Executes nothing yet.

        Args:
          folder: The recommendation's folder.
          state: What was decided before.
          full: The plan with nothing left out.
          base: Flags of all runs.
          workers: Runs at the same time.
        """
        self.folder, self.state, self.full, self.base = folder, state, full, tuple(base)
        self.plan = full
        self.failed: dict[str, str] = {}
        self.executor = executors.Local(workers)
        self._workers = workers
        self._began: tuple[float, float] | None = None

    def measure(self, spaces: Mapping[str, strategies.Space]) -> None:
        """Measures what rounds and runs take, by short runs that the search goes on with.

        Raises:
          Failure: If no run can be played.
        """
        if self.state.pace:
            return
        tell("Measuring the time of a round.")

        def measured(seed: int) -> list[list[Run]]:
            names = self.full.strategies[: planning.MEASURED]
            return [strategies.runs(self.base, name, spaces[name].first, seed, self._workers) for name in names]

        seed = strategies.TUNING_SEED
        # What a killed measurement ran would take no time: others are measured.
        while any((self.folder / "search" / run.name).exists() for some in measured(seed) for run in some):
            seed += self._workers
        first, second = measured(seed)
        rounds = min(_MEASURED_ROUNDS, self.full.rounds)
        self._timed(first, rounds)  # It waits for TensorFlow Federated to be imported.
        new, _ = self._timed(second, rounds)
        old, seconds = self._timed(second, min(2 * rounds, self.full.rounds))
        run = max(old - rounds * seconds, _LEAST_SECONDS)
        self.state.pace = Pace(max(seconds, 1e-4), run, max(new - old, _LEAST_SECONDS), self._workers)
        self.state.save()

    def _timed(self, some: Sequence[Run], rounds: int) -> tuple[float, float]:
        """Executes runs up to a round; returns the seconds that it took, and those of a round."""
        start = time.monotonic()
        played = self.play("search", [run.at_rounds(rounds) for run in some])
        took = time.monotonic() - start
        folders = {name: self.folder / "search" / name for name in played}
        for name, outcome in played.items():
            if outcome.status == outcomes.FAILED:
                raise Failure(f"No run can be executed: {outcome.error} ({folders[name]})")
        return took, statistics.mean(round_seconds(folder, rounds) for folder in folders.values())

    @property
    def pace(self) -> Pace:
        """How fast this machine runs, as `measure` finds."""
        assert self.state.pace, "The pace is not measured yet."
        return self.state.pace

    def begin(self, stage: str, words: str) -> Plan:
        """Begins a stage: decides, by the time that is left, what is run from here on, or as it was decided."""
        left = planning.STAGES[planning.STAGES.index(stage) :]
        is_new = stage not in self.state.stages
        if is_new:
            seconds = 60 * self.state.minutes - self.state.spent - _LAST_SECONDS
            if stage in (planning.SEARCH, planning.COMPARE):
                seconds *= _PLANNED
            # The full plan, but for what stages before have decided.
            before = [name for one in planning.STAGES if one not in left for name in planning.DECIDES[one]]
            from_here = dataclasses.replace(self.full, **{name: getattr(self.plan, name) for name in before})
            plan = planning.fitted(from_here, self.pace, seconds, left)
            if stage == planning.STAGES[0] or plan != self.plan:
                self._tell_plan(plan, left)
            self.state.stages[stage] = plan
            self.state.save()
        self.plan = self.state.stages[stage]
        length = self.plan.seconds(self.pace, [stage])
        if length:
            tell(f"{words}: about {duration(length)}.")
        self._began = (time.monotonic(), length) if is_new else None
        return self.plan

    def _tell_plan(self, plan: Plan, left: Sequence[str]) -> None:
        """Prints what is left to be run, and what is left out."""
        total, spent, most = plan.seconds(self.pace, left), self.state.spent, 60 * self.state.minutes
        tell(
            f"Plan: {duration(total)} more, after {duration(spent)} of {duration(most)}. A "
            f"round takes {self.pace.round_seconds:.2g} s; {planning.at_a_time(self.pace.workers)}."
        )
        for line in planning.described(plan, self.pace, left):
            tell(line)
        if missing := planning.left_out(self.full, plan, strategies.NAMES):
            tell("\n".join(["  left out:", *(f"    - {one}" for one in missing)]))

    def leave_out_noise(self) -> None:
        """Leaves the noise out of the plan: stages that are not begun yet have its time."""
        self.full = dataclasses.replace(self.full, epsilons=0)

    def end(self) -> None:
        """Ends a stage: what it took corrects the pace."""
        if self._began is None:  # A part of it was run before.
            return
        start, planned = self._began
        took = time.monotonic() - start
        least, most = _PACES
        if self.state.earlier:  # With other minutes a part may have been run: that is no higher pace.
            least = 1.0
        if min(took, planned) > _TRUSTED_SECONDS:
            self.state.pace = self.pace.scaled(min(max(took / planned, least), most))
        self.state.save()

    def play(self, where: str, some: Iterable[Run]) -> dict[str, Outcome]:
        """Executes runs to their ends in a folder below the recommendation's; returns what became of them, by name."""
        with self._sweep(where, studies.load(strategies.BINARY).ranked_by) as sweep:
            sweep.run(list(some))
        return sweep.outcomes

    def halve(self, where: str, some: Sequence[Run], metric: Metric) -> list[outcomes.Point]:
        """Runs a search; returns its points, the best first."""
        with self._sweep(where, metric) as sweep:
            seeds = len({run.seed for run in some})
            if len(some) == seeds:
                sweep.run(some)
            else:
                sweep.run_halving(some, planning.FACTOR, max(self._workers, seeds), self.plan.least)
        return [point for points in sweep.ranked().values() for point in points]

    @contextlib.contextmanager
    def _sweep(self, where: str, metric: Metric) -> Iterator[Sweep]:
        """Opens a sweep that saves the time it takes, and keeps the errors of runs that failed."""
        found = Sweep(
            self.folder / where,
            self.executor,
            metric,
            smallest=False,
            write_page=self.state.save,
            page_seconds=_SAVE_SECONDS,
        )
        with contextlib.closing(found) as sweep:
            yield sweep
        for name, outcome in sweep.outcomes.items():
            if outcome.status == outcomes.FAILED:
                self.failed[f"{where}/{name}"] = outcome.error
