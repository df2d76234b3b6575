"""A recommendation while it runs: its folder, its plan, the time that is left, and the runs.

Runs of searches, comparisons and noise lie in folders of their own, named by their flags, and are never played again.
What was decided by the clock is kept in `plan.json`, so that the same command, after a kill, plays the same runs.
"""

import dataclasses
import json
import math
import pathlib
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bandits import studies
from bandits.advice import arms
from bandits.advice import plan as planning
from bandits.advice.plan import Pace, Plan
from bandits.advice.progress import Progress
from bandits.plans import players, results
from bandits.plans.plan import Run
from bandits.plans.results import Outcome
from bandits.plans.sweep import Sweep
from bandits.results import runs
from data import files
from data.errors import Failure, UsageError
from optimization.study import cli, run_folder
from optimization.study.metrics import SECONDS, Metric

PLAN_FILE, ADVICE_FILE = "plan.json", "advice.json"
_MEASURED_ROUNDS = 6
_LEAST_SECONDS = 0.1
_LAST_SECONDS = 15.0  # For reading runs and writing pages.
_PLANNED = 0.9  # Of the time that is left: where the pace drops, the stages after a comparison still run.
_TRUSTED_SECONDS = 20.0  # What took less says little about the pace.
_PACES = (0.5, 3.0)  # The pace is corrected by no more than that at once.


class State:
    """`plan.json`."""

    def __init__(self, folder: pathlib.Path, identity: Mapping[str, Any], minutes: float):
        """Reads it, if there is one of this advice.

        Args:
          folder: The advice's folder, which is claimed.
          identity: What makes it this advice.
          minutes: What it may take. With other minutes than before it is planned anew; its runs count.

        Raises:
          UsageError: If it is damaged, or another advice's.
        """
        self._path = folder / PLAN_FILE
        self.values: dict[str, Any] = {"stages": {}, "spent": 0.0, "pace": None, "earlier": 0.0}
        if self._path.exists():
            before = _read_plan(self._path)
            check_identity(folder, before["identity"], identity)
            if before.get("minutes") == minutes:
                self.values |= before
            else:
                # What was played already would be measured as if it took no time.
                self.values["pace"] = before.get("pace")
                self.values["earlier"] = float(before.get("earlier", 0.0)) + float(before.get("spent", 0.0))
        self.values |= {
            "format": run_folder.FORMAT,
            "identity": identity,
            "minutes": minutes,
            "command": cli.command_line(),
        }
        self._start = time.monotonic() - float(self.values["spent"])

    @property
    def spent(self) -> float:
        """Seconds that the advice has taken, in all starts with these minutes."""
        return time.monotonic() - self._start

    @property
    def earlier(self) -> float:
        """Seconds that it took before, with other minutes."""
        return float(self.values["earlier"])

    def save(self) -> None:
        """Writes it whole."""
        self.values["spent"] = round(self.spent, 1)
        files.replace(self._path, json.dumps(self.values, indent=2).encode() + b"\n")


def check_no_run(folder: pathlib.Path) -> None:
    """Refuses the folder of a run.

    Raises:
      UsageError: If it is.
    """
    if (folder / "config.json").exists():
        raise UsageError(f"{folder} holds a run, not a recommendation: choose another --experiment_name.")


def _read_plan(path: pathlib.Path) -> Mapping[str, Any]:
    """Returns the content of `plan.json`.

    Raises:
      UsageError: If it is of another format, or not what is written to it.
    """
    damaged = UsageError(f"{path} is damaged: delete it, and the rest is planned again, with the runs that exist.")
    try:
        before = runs.read_json(path)
    except UsageError as error:
        raise damaged from error
    if "format" in before:
        run_folder.check_format(path.parent, before, "plan of a recommendation")
    try:
        for stage in before["stages"].values():
            Plan(**stage | {"strategies": tuple(stage["strategies"])})
        pace = dataclasses.astuple(Pace(**before["pace"])) if before["pace"] else ()
        numbers = (before["minutes"], before["spent"], before.get("earlier", 0.0), *pace)
        is_sound = isinstance(before["identity"], Mapping) and all(map(math.isfinite, numbers))
    except (AttributeError, KeyError, TypeError) as error:
        raise damaged from error
    if not is_sound:
        raise damaged
    return before


def check_identity(folder: pathlib.Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuses the folder of another advice.

    Raises:
      UsageError: If it is; it names the first flag that differs.
    """
    before, here = _flat(before), _flat(json.loads(json.dumps(now)))
    names = [name for name in sorted({*before, *here}) if before.get(name) != here.get(name)]
    if names:
        told = "; ".join(f"{name} was {before.get(name)}, is {here.get(name)}" for name in names[:3])
        raise UsageError(f"{folder} holds another recommendation: {told}. Choose another --experiment_name.")


def _flat(identity: Mapping[str, Any]) -> dict[str, Any]:
    """Returns an identity whose values are no mappings: the keys of these, in words, take the place of their names."""
    found = {name: value for name, value in identity.items() if not isinstance(value, Mapping)}
    for name, value in identity.items():
        if isinstance(value, Mapping):
            found |= {f"{name}, {key.replace('_', ' ')}": one for key, one in value.items()}
    return found


class Session:
    """Runs the stages of a recommendation within its time."""

    def __init__(
        self,
        folder: pathlib.Path,
        state: State,
        full: Plan,
        base: Sequence[str],
        team: players.Team,
        workers: int,
    ):
        """Plays nothing yet.

        Args:
          folder: The advice's folder.
          state: What was decided before.
          full: The plan with nothing left out.
          base: Flags of all runs.
          team: Who plays them.
          workers: Runs at the same time.
        """
        self.folder, self.state, self.full, self.base = folder, state, full, tuple(base)
        self._team, self._workers = team, workers
        self.plan = full
        self.failed: dict[str, str] = {}
        self._began: tuple[float, float] | None = None
        self._progress = Progress(folder, state.save)
        pace = state.values["pace"]
        self._pace = Pace(**pace) if pace else None

    def measure(self, spaces: Mapping[str, arms.Space]) -> None:
        """Measures what rounds and runs take, by short runs that the search goes on with; prints it.

        Raises:
          Failure: If no run can be played.
        """
        if self.state.values["pace"]:
            return
        self._progress.begin("Measuring the time of a round", 0.0, 0.0, 0.0, 1)
        seed = arms.TUNING_SEED
        # What a measurement played that was killed would take no time: others are measured.
        while any(
            (self.folder / "search" / run.name).exists() for some in self._measured(spaces, seed) for run in some
        ):
            seed += self._workers
        first, second = self._measured(spaces, seed)
        rounds = min(_MEASURED_ROUNDS, self.full.rounds)
        self._timed(first, rounds)  # It waits for TensorFlow Federated to be imported.
        new, _ = self._timed(second, rounds)
        old, seconds = self._timed(second, min(2 * rounds, self.full.rounds))
        run = max(old - rounds * seconds, _LEAST_SECONDS)
        self._pace = Pace(max(seconds, 1e-4), run, max(new - old, _LEAST_SECONDS), self._workers)
        self._keep_pace()

    def _measured(self, spaces: Mapping[str, arms.Space], seed: int) -> list[list[Run]]:
        """Returns the runs by which the pace is measured, by strategy, from a seed on."""
        names = self.full.strategies[: planning.MEASURED]
        return [arms.runs(self.base, name, spaces[name].first, seed, self._workers) for name in names]

    def _timed(self, some: Sequence[Run], rounds: int) -> tuple[float, float]:
        """Plays runs up to a round; returns the seconds that it took, and those of a round."""
        some = [run.at_rounds(rounds) for run in some]
        start = time.monotonic()
        outcomes = self.play("search", some)
        took = time.monotonic() - start
        found = []
        for outcome in outcomes.values():
            if outcome.status == results.FAILED:
                raise Failure(f"No run can be executed: {outcome.error} ({self.folder / 'search' / outcome.run.name})")
            table = runs.read_metrics(self.folder / "search" / outcome.run.name, rounds)
            found.append(float(table[SECONDS].iloc[-_MEASURED_ROUNDS:].median()))
        return took, sum(found) / len(found)

    @property
    def pace(self) -> Pace:
        """How fast this machine plays.

        Raises:
          RuntimeError: If it was not measured.
        """
        if self._pace is None:
            raise RuntimeError("The pace is not measured yet.")
        return self._pace

    def _keep_pace(self) -> None:
        self.state.values["pace"] = dataclasses.asdict(self.pace)
        self.state.save()

    def begin(self, stage: str, words: str) -> Plan:
        """Begins a stage: decides, by the time that is left, what is played from here on, or as it was decided."""
        decided = self.state.values["stages"]
        left = planning.STAGES[planning.STAGES.index(stage) :]
        is_new = stage not in decided
        if not is_new:
            plan = {**decided[stage], "strategies": tuple(decided[stage]["strategies"])}
            self.plan = Plan(**plan)
        else:
            seconds = self.seconds - self.state.spent - _LAST_SECONDS
            if stage in (planning.SEARCH, planning.COMPARE):
                seconds *= _PLANNED
            before, self.plan = self.plan, planning.fitted(self._from_here(left), self.pace, seconds, left)
            if stage == planning.STAGES[0] or self.plan != before:
                self._tell_plan(left)
            decided[stage] = dataclasses.asdict(self.plan)
            self.state.save()
        done = self.plan.seconds(self.pace, [one for one in planning.STAGES if one not in left])
        length, total = self.plan.seconds(self.pace, [stage]), self.plan.seconds(self.pace)
        self._progress.begin(words, done, length, total, self.plan.work(stage)[1])
        self._began = (time.monotonic(), length) if is_new else None
        return self.plan

    def _tell_plan(self, left: Sequence[str]) -> None:
        """Prints what is left to be played, and what is left out."""
        pace = self.pace
        spent, total = self.state.spent, self.plan.seconds(self.pace, left)
        self.tell(
            f"Plan: {planning.minutes(total)} more, after {planning.minutes(spent)} of "
            f"{planning.minutes(self.seconds)}. A round takes {pace.round_seconds:.2g} s; "
            f"{planning.at_a_time(pace.workers)}."
        )
        for line in planning.described(self.plan, pace, left):
            self.tell(line)
        if missing := planning.left_out(self.full, self.plan, arms.NAMES):
            self.tell("  left out:")
            for one in missing:
                self.tell(f"    - {one}")

    @property
    def seconds(self) -> float:
        """What the advice may take."""
        return 60.0 * self.state.values["minutes"]

    def _from_here(self, left: Sequence[str]) -> Plan:
        """Returns the full plan, but for what stages before have decided."""
        pinned = [name for name, stage in planning.STAGE_OF.items() if stage not in left]
        return dataclasses.replace(self.full, **{name: getattr(self.plan, name) for name in pinned})

    def leave_out_noise(self) -> None:
        """Leaves the noise out of the plan: stages that are not begun yet have its time."""
        self.full = dataclasses.replace(self.full, epsilons=0)

    def end(self) -> None:
        """Ends a stage: what it took corrects the pace."""
        if self._began is None:  # A part of it was played before.
            return
        start, planned = self._began
        took = time.monotonic() - start
        least, most = _PACES
        if self.state.earlier:  # With other minutes a part may have been played: that is no higher pace.
            least = 1.0
        if min(took, planned) > _TRUSTED_SECONDS:
            self._pace = self.pace.scaled(min(max(took / planned, least), most))
        self._keep_pace()

    def play(self, where: str, some: Iterable[Run]) -> dict[str, Outcome]:
        """Plays runs to their ends in a folder below the advice's; returns what became of them, by their names."""
        sweep = self._sweep(where, studies.load(arms.BINARY).ranked_by)
        sweep.play(list(some))
        return self._ended(where, sweep)

    def halve(self, where: str, some: Sequence[Run], metric: Metric) -> list[results.Point]:
        """Plays a search; returns its points, the best first."""
        sweep = self._sweep(where, metric)
        seeds = len({run.seed for run in some})
        if len(some) == seeds:
            sweep.play(some)
        else:
            sweep.play_halving(some, planning.FACTOR, max(self._workers, seeds), self.plan.least)
        self._ended(where, sweep)
        return [point for points in sweep.ranked().values() for point in points]

    def _sweep(self, where: str, metric: Metric) -> Sweep:
        self._progress.sweep(where)
        return Sweep(self.folder / where, self._team, metric, smallest=False, watch=self._progress)

    def _ended(self, where: str, sweep: Sweep) -> dict[str, Outcome]:
        for name, outcome in sweep.outcomes.items():
            if outcome.status == results.FAILED:
                self.failed[f"{where}/{name}"] = outcome.error
        return sweep.outcomes

    def tell(self, line: str) -> None:
        """Writes a line on stderr, above the bar."""
        self._progress.tell(line)

    def close(self) -> None:
        """Ends the bar, and saves the time."""
        self._progress.close()
        self.state.save()
