"""The session of a recommendation: its folder, its plan, the remaining time, and its runs.

Searches, comparisons and runs with noise have separate folders. Each run is named after its flags and executed once.
`plan.json` stores all decisions that depended on time, so that a command that is killed and restarted executes the same
runs.
"""

import contextlib
import dataclasses
import json
import math
import pathlib
import shutil
import statistics
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from bandits import studies
from bandits.advice import plan as planning
from bandits.advice.plan import Plan
from bandits.plans import executors, sweep
from bandits.plans.estimate import Pace, Work, duration, round_seconds
from bandits.plans.plan import Run
from bandits.plans.sweep import Outcome, Sweep
from bandits.results import runs
from data import files
from data.errors import Failure, UsageError, counted
from optimization.study import cli, run_folder
from optimization.study.metrics import Metric

PLAN_FILE, ADVICE_FILE = "plan.json", "advice.json"
_MEASURED_ROUNDS = 6
_MIN_SECONDS = 0.1
_LAST_SECONDS = 15.0  # Reserved for reading runs and writing pages.
# Share of the remaining time that the search and the comparison may plan to use. The rest is a reserve for later
# stages, in case runs become slower.
_PLANNED = 0.9
_TRUSTED_SECONDS = 20.0  # Shorter stages do not measure the pace reliably.
_PACES = (0.5, 3.0)  # Limits of a single correction of the pace.


def print_status(text: str) -> None:
    """Prints a status line while runs are executed."""
    print(text, file=sys.stderr, flush=True)


@dataclasses.dataclass
class State:
    """The content of `plan.json`, which is read if it exists.

    Attributes:
      folder: The recommendation's folder, which this process has claimed.
      identity: Flags and data that identify the recommendation.
      minutes: Time budget. If it differs from the stored budget, a new plan is made that includes the finished runs.
      command: The command that started this session.
      stages: Plan at the beginning of each stage.
      pace: Speed of this machine; None before it is measured.
      earlier: Seconds spent by earlier starts with a different budget.
      finished: Whether all files are written and no run failed.

    Raises:
      UsageError: If the file is damaged, or belongs to another recommendation.
    """

    folder: pathlib.Path
    identity: Mapping[str, Any]
    minutes: float
    command: str = dataclasses.field(default_factory=cli.command_line)
    stages: dict[str, Plan] = dataclasses.field(default_factory=dict)
    pace: Pace | None = None
    earlier: float = 0.0
    finished: bool = False

    def __post_init__(self):
        self._path = self.folder / PLAN_FILE
        self._start = time.monotonic() - (self._read() if self._path.exists() else 0.0)

    def _read(self) -> float:
        """Reads the decisions; returns the seconds spent."""
        before = runs.read_json(self._path)
        run_folder.check_format(self.folder, before, "plan of a recommendation")
        try:
            plans = before["stages"].items()
            stages = {name: Plan(**plan | {"configurations": tuple(plan["configurations"])}) for name, plan in plans}
            self.pace = Pace(**before["pace"]) if before["pace"] else None
            numbers = [float(before[name]) for name in ("minutes", "spent", "earlier")]
            if not all(map(math.isfinite, [*numbers, *(dataclasses.astuple(self.pace) if self.pace else ())])):
                raise ValueError(f"{numbers} are not finite.")
            identity = dict(before["identity"])
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise UsageError(
                f"{self._path} is damaged. Delete it to make a new plan. Finished runs are reused, except those of the "
                "search."
            ) from error
        minutes, spent, self.earlier = numbers
        now = json.loads(json.dumps(self.identity))
        if names := [name for name in sorted({*identity, *now}) if identity.get(name) != now.get(name)]:
            changes = "; ".join(f"{name} was {identity.get(name)}, is {now.get(name)}" for name in names[:3])
            raise UsageError(
                f"{self.folder} holds another recommendation: {changes}. Choose another --experiment_name."
            )
        if minutes == self.minutes:
            self.stages, self.finished = stages, before.get("finished") is True
            return spent
        # The earlier time stays in the reported total, because its finished runs are reused; the budget restarts.
        self.earlier += spent
        return 0.0

    @property
    def spent(self) -> float:
        """Seconds spent by all starts with this budget."""
        return time.monotonic() - self._start

    def save(self) -> None:
        """Writes the file atomically."""
        content = dataclasses.asdict(self) | {"format": run_folder.FORMAT, "spent": round(self.spent, 1)}
        del content["folder"]
        files.replace(self._path, json.dumps(content, indent=2).encode() + b"\n")


class Session:
    """Executes the runs of a recommendation within its time budget.

    Attributes:
      folder: The recommendation's folder.
      state: Decisions of this and of earlier starts.
      full: The plan with nothing omitted.
      base: Flags of all runs.
      plan: The current plan.
      failed: Errors of failed runs, by name.
      executor: Executes the runs.
    """

    def __init__(self, folder: pathlib.Path, state: State, full: Plan, base: Sequence[str], workers: int):
        """Starts with the full plan; `workers` is the number of concurrent runs."""
        self.folder, self.state, self.full, self.base = folder, state, full, tuple(base)
        self.plan = full
        self.failed: dict[str, str] = {}
        self.executor = executors.Local(workers)
        self._workers = workers
        self._began: tuple[float, float] | None = None

    def measure(self, spaces: Mapping[str, planning.Space]) -> None:
        """Measures how long a round and a run take, with short runs. The search continues those with its own seeds.

        Raises:
          Failure: If a run fails.
        """
        if self.state.pace:
            return
        print_status("Measuring the time of a round.")
        # The runs of a measurement that was killed would otherwise be reused, and appear to take no time.
        shutil.rmtree(self.folder / "search", ignore_errors=True)
        points = {name: spaces[name].tried_first[0] for name in self.full.configurations[: planning.MEASURED]}
        first, second = (
            [run for point in points.items() for run in planning.runs(self.base, *point, first_seed, self._workers)]
            for first_seed in (planning.TUNING_SEED, planning.TUNING_SEED + self._workers)
        )
        rounds = min(_MEASURED_ROUNDS, self.full.rounds)
        self._timed(first, rounds)  # Includes the import of TensorFlow Federated.
        new, _ = self._timed(second, rounds)
        old, seconds = self._timed(second, min(2 * rounds, self.full.rounds))
        run = max(old - rounds * seconds, _MIN_SECONDS)
        self.state.pace = Pace(max(seconds, 1e-4), run, max(new - old, _MIN_SECONDS), self._workers)
        self.state.save()

    def _timed(self, planned: Sequence[Run], rounds: int) -> tuple[float, float]:
        """Executes the first rounds of runs; returns the seconds for all runs and the seconds per round."""
        start = time.monotonic()
        executed = self.run("search", [run.at_rounds(rounds) for run in planned])
        took, folder = time.monotonic() - start, self.folder / "search"
        for name, outcome in executed.items():
            if outcome.status == sweep.FAILED:
                raise Failure(f"No run can be executed: {outcome.error} ({folder / name})")
        return took, statistics.mean(round_seconds(folder / name, rounds) for name in executed)

    @property
    def pace(self) -> Pace:
        """Measured speed of this machine."""
        assert self.state.pace, "The pace is not measured yet."
        return self.state.pace

    def begin(self, stage: str) -> Plan:
        """Begins a stage: plans the remaining runs for the remaining time, or reads the stored plan."""
        left = [*planning.STAGES][[*planning.STAGES].index(stage) :]
        is_new = stage not in self.state.stages
        if is_new:
            seconds = self._seconds_left * (_PLANNED if stage in (planning.SEARCH, planning.COMPARE) else 1)
            # Earlier stages have fixed some fields of the plan.
            fixed = [name for before in planning.STAGES if before not in left for name in planning.DECIDES[before]]
            full = dataclasses.replace(self.full, **{name: getattr(self.plan, name) for name in fixed})
            plan = planning.fitted(full, self.pace, seconds, left)
            if stage == planning.SEARCH or plan != self.plan:
                self._print_plan(plan, left)
            self.state.stages[stage] = plan
            self.state.save()
        self.plan = self.state.stages[stage]
        length = self.plan.seconds(self.pace, [stage])
        if length:
            print_status(f"{planning.STAGES[stage]}: about {duration(length)}.")
        self._began = (time.monotonic(), length) if is_new else None
        return self.plan

    def _print_plan(self, plan: Plan, left: Sequence[str]) -> None:
        """Prints the remaining stages and the omitted parts."""
        seconds = plan.seconds(self.pace, left), self.state.spent, 60 * self.state.minutes
        total, spent, budget = map(duration, seconds)
        print_status(
            f"Plan: {total} remaining; {spent} of {budget} used so far. A round takes {self.pace.round_seconds:.2g} s; "
            f"{counted(self.pace.workers, 'run')} at a time."
        )
        for stage in left:
            time_of_stage, size = duration(plan.seconds(self.pace, [stage])), plan.work(stage).runs
            print_status(f"  {stage:<9} {time_of_stage:>12}  {counted(size, 'run') if size else 'left out'}")
        for part in planning.left_out(self.full, plan):
            print_status(f"  left out: {part}")

    def lengthen(self) -> bool:
        """Doubles the rounds if the search, comparison and confirmation then still fit; returns whether they do."""
        plan = dataclasses.replace(self.plan, rounds=2 * self.plan.rounds, doublings=self.plan.doublings + 1)
        num_runs = len(plan.configurations) * plan.tuning_seeds
        seconds = self.pace.seconds(Work(0, num_runs, num_runs * self.plan.rounds))
        seconds += plan.seconds(self.pace, [planning.COMPARE, planning.CONFIRM])
        if seconds > _PLANNED * self._seconds_left:
            return False
        print_status(
            f"A linear model earns more than the strategies, so the number of rounds is doubled to {plan.rounds:,}."
        )
        self.plan = self.state.stages[planning.SEARCH] = plan
        self.state.save()
        return True

    @property
    def _seconds_left(self) -> float:
        """Remaining seconds for runs."""
        return 60 * self.state.minutes - self.state.spent - _LAST_SECONDS

    def leave_out_noise(self) -> None:
        """Removes the runs with noise from the plan; later stages get their time."""
        self.full = dataclasses.replace(self.full, epsilons=0)

    def end(self) -> None:
        """Ends a stage, and corrects the pace according to its duration."""
        if self._began is None:  # Parts of the stage were run earlier.
            return
        start, planned = self._began
        took = time.monotonic() - start
        # Parts may have been run with another budget, so a short duration does not imply a higher pace.
        low, high = max(_PACES[0], float(self.state.earlier > 0)), _PACES[1]
        if min(took, planned) > _TRUSTED_SECONDS:
            self.state.pace = self.pace.scaled(min(max(took / planned, low), high))
        self.state.save()

    def run(self, folder: str, planned: Iterable[Run]) -> dict[str, Outcome]:
        """Executes runs in a subfolder of the recommendation's folder; returns their outcomes by name."""
        with self._sweep(folder, studies.load(planning.BINARY).ranked_by) as runner:
            runner.run(list(planned))
        return runner.outcomes

    def halve(self, folder: str, planned: Sequence[Run], metric: Metric) -> list[sweep.Point]:
        """Runs a search; returns its points, best first."""
        with self._sweep(folder, metric) as runner:
            runner.run_halving(planned, planning.FACTOR, self.plan.least)
        return sweep.rank(runner.outcomes.values(), smallest=False, apart=False)[""]

    @contextlib.contextmanager
    def _sweep(self, folder: str, metric: Metric) -> Iterator[Sweep]:
        """Opens a sweep that saves the elapsed time and collects the errors of failed runs."""
        runner = Sweep(self.folder / folder, self.executor, metric, after_run=self.state.save)
        with contextlib.closing(runner):
            yield runner
        self.state.save()
        for name, outcome in runner.outcomes.items():
            if outcome.status == sweep.FAILED:
                self.failed[f"{folder}/{name}"] = outcome.error
