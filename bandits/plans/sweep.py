"""Executes the runs of a plan, either all of them or by successive halving.

Successive halving is synchronous: Jamieson and Talwalkar, "Non-stochastic Best Arm Identification and Hyperparameter
Optimization", 2016. All points run the lowest rung, and the best 1/factor of the points of a rung run the next one.
"""

import contextlib
import dataclasses
import functools
import itertools
import json
import math
import pathlib
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence

import tqdm

from bandits import studies
from bandits.plans import executors, plan
from bandits.plans.plan import Run
from bandits.results import runs
from data import files
from data.errors import Failure, UsageError
from optimization.study import cli, divergence, frame, run_folder
from optimization.study.metrics import Metric

FINISHED, FAILED, STOPPED_EARLY, UNFINISHED = "finished", "failed", "stopped early", "unfinished"
DIVERGED = "diverged"
_ATTEMPTS = 3
_WORKER = (str(pathlib.Path(__file__).resolve().parents[2] / "scripts" / "python"), "-m", "scripts.grid_worker")
_TICK_SECONDS = 1.0  # Time between updates of the progress bar; also the longest delay before a signal is handled.


@dataclasses.dataclass
class Outcome:
    """Outcome of a run.

    Attributes:
      run: The run.
      status: One of the status constants of this module.
      rounds: Number of finished rounds, after which the metric is `value`.
      value: Value of the metric; NaN if it is missing or not finite, or if the run diverged.
      error: Reason for a failure; otherwise empty.
      is_reporting: Whether the seed is fresh. Runs with fresh seeds are neither ranked nor used to select points.
    """

    run: Run
    status: str = UNFINISHED
    rounds: int = 0
    value: float = math.nan
    error: str = ""
    is_reporting: bool = False


def finished_rounds(folder: pathlib.Path) -> int:
    """Number of rounds after which a run's folder was marked as finished; 0 for an unfinished or missing run.

    Raises:
      UsageError: If the folder is damaged, has a different format, or was made with other versions of the packages.
        The message names the folder.
    """
    config = folder / "config.json"
    mark = folder / executors.FINISHED_FILE
    if not config.exists():
        if mark.exists() or (folder / "metrics.csv").exists():
            raise UsageError(f"{folder} is damaged: it has no config.json. Delete the folder, so that it is run again.")
        return 0
    content = runs.read_json(config)
    before = content.get("versions")
    if not isinstance(before, dict):
        raise UsageError(f"{config} is damaged: it records no versions. Delete the folder, so that it is run again.")
    run_folder.check_format(folder, content)
    for name, now in _versions().items():
        if before.get(name) != now and name != "python":
            raise UsageError(
                f"{folder} was made with {name} {before.get(name)}; the current one is {now}. One grid must not mix "
                "versions: delete the folder, or choose another --experiment_name."
            )
    if not mark.exists():
        return 0
    rounds = runs.read_json(mark).get("total_rounds")
    if not isinstance(rounds, int):
        raise UsageError(f"{mark} is damaged. Delete the folder, so that it is run again.")
    return rounds


_versions = functools.cache(run_folder.versions)


def unfinished(planned: Iterable[Run], folder: pathlib.Path) -> list[Run]:
    """Runs that are not yet finished in the folder of all runs; see `finished_rounds`."""
    return [run for run in planned if finished_rounds(folder / run.name) < run.rounds]


def read_value(folder: pathlib.Path, column: str, rounds: int) -> float:
    """Metric of a finished run after `rounds` rounds, or after its last round; NaN if it is not finite.

    A longer run may have no evaluation after exactly that round. Then the value is that of the previous evaluation
    or, if there is none, of the next.

    Raises:
      UsageError: If the metrics are damaged or do not have the column. The message names the file.
    """
    table = runs.read_metrics(folder)
    if column not in table:
        raise UsageError(f"{folder / 'metrics.csv'} has no column {column}.")
    is_past = table["round_num"] <= rounds
    value = float(table[column][is_past].iloc[-1])
    if not math.isfinite(value) and not is_past.all() and getattr(column, "evaluated", False):
        measured = table[column].dropna()
        before = measured[is_past[measured.index]]
        value = float(before.iloc[-1] if len(before) else measured.iloc[0]) if len(measured) else math.nan
    return value if math.isfinite(value) else math.nan


def has_diverged(folder: pathlib.Path, rounds: int) -> bool:
    """Whether a finished run's training had diverged after `rounds` rounds, so that its metric is meaningless.

    Raises:
      UsageError: If a file is damaged. The message names the file.
    """
    run = runs.read(folder, rounds)
    return divergence.is_lost(run.metrics, run.columns, run.flags)


def goodness(values: Sequence[float], *, smallest: bool) -> float:
    """Mean over a point's seeds, negated if smaller is better; -inf if a value is NaN."""
    mean = sum(values) / len(values)
    return -math.inf if math.isnan(mean) else -mean if smallest else mean


Point = Sequence[Outcome]  # One outcome for each seed.


def mean(point: Point) -> float:
    """Mean of the metric over a point's seeds; NaN if a seed has no value."""
    return sum(outcome.value for outcome in point) / len(point)


def rounds_of(point: Point) -> int:
    """Number of rounds that all seeds of a point have finished."""
    return min(outcome.rounds for outcome in point)


def rank(outcomes: Iterable[Outcome], *, smallest: bool, apart: bool = True) -> dict[str, list[Point]]:
    """Points of each configuration (without `apart`, of all configurations together), sorted from best to worst.

    Points are sorted by number of rounds, then by mean. Points without a mean, such as those that diverged or
    failed, are last. Ties keep their order. Fresh seeds are left out.
    """
    tuning = [outcome for outcome in outcomes if not outcome.is_reporting]
    ranked: dict[str, list[Point]] = {}
    for point in runs.grouped(tuning, lambda outcome: outcome.run.point).values():
        ranked.setdefault(point[0].run.configuration if apart else "", []).append(point)
    for points in ranked.values():
        points.sort(
            key=lambda point: (math.isnan(mean(point)), -rounds_of(point), -goodness([mean(point)], smallest=smallest))
        )
    return ranked


def label(name: str) -> str:
    """Name of a point without the key of its flags."""
    return name.rpartition("-")[0]


def claim(folder: pathlib.Path, binary: str, blocks: Sequence[plan.Axes] = ()) -> contextlib.AbstractContextManager:
    """Creates a plan's folder, and returns a lock on it, which is held while the context is open.

    Raises:
      UsageError: If the folder cannot be written or has a different format, or if another grid is running in it.
    """
    about = folder / "grid.json"
    if about.exists():
        run_folder.check_format(folder, runs.read_json(about), "grid")
    with run_folder.claiming(folder, "grid") as lock:
        (folder / "runs").mkdir(exist_ok=True)
    content = {"format": run_folder.FORMAT, "binary": binary, "blocks": blocks, "command": cli.command_line()}
    files.replace(about, json.dumps(content, indent=2).encode() + b"\n")
    return lock


def refused(groups: Mapping[str, Sequence[Run]]) -> dict[str, list[str]]:
    """Opens the data of groups of runs before any run starts; returns the names of invalid groups, by error message."""
    names: dict[str, list[str]] = {}
    for name, runs_of_group in groups.items():
        try:
            for run in runs_of_group:
                frame.checked(studies.load(run.module), [run.settings], warns=False)  # Runs print their own warnings.
        except UsageError as error:
            names.setdefault(str(error), []).append(name)
    return names


def write_job_array(planned: Iterable[Run], folder: pathlib.Path, cores: int, then: str) -> int:
    """Writes a job array of the unfinished runs for Slurm, and runs nothing; returns the exit status.

    `commands.txt` has one line per run. A restarted task continues its run. A task saves its last round two minutes
    before its time limit.

    Args:
      planned: The runs. Duplicates are counted once.
      folder: The plan's folder.
      cores: CPU cores of each run.
      then: Instructions for the user on what to do after the runs.
    """
    left = {run.name: run for run in unfinished(planned, folder / "runs")}
    if not left:
        print(f"All runs are finished: {then}.")
        return 0
    jobs = [run.job(folder / "runs") for run in left.values()]
    commands = [shlex.join([*_WORKER, job.module, job.folder, str(job.rounds), *job.arguments]) for job in jobs]
    (folder / "commands.txt").write_text("".join(f"{command}\n" for command in commands))
    logs = folder / "slurm"
    logs.mkdir(exist_ok=True)
    lines = [
        "#!/bin/sh",
        f"# {len(left)} runs, one per task. Submit it with sbatch. If a task is submitted again, it continues its run.",
        f"#SBATCH --job-name={re.sub('[^A-Za-z0-9_.-]', '_', folder.name)}",
        f"#SBATCH --array=0-{len(left) - 1}",
        f"#SBATCH --cpus-per-task={cores}",
        f"#SBATCH --output={logs}/%a.txt",
        "#SBATCH --open-mode=append",
        "#SBATCH --requeue",
        "#SBATCH --signal=B:TERM@120",
        "set -eu",
        *(f"export {name}={shlex.quote(value)}" for name, value in executors.environment().items()),
        f'command=$(sed -n "$((SLURM_ARRAY_TASK_ID + 1))p" {shlex.quote(str(folder / "commands.txt"))})',
        'eval "exec $command"',
    ]
    script = folder / "slurm.sh"
    script.write_text("\n".join(lines) + "\n")
    script.chmod(0o755)
    print(f"{len(left)} runs in {script}. When they are done, {then}.")
    return 0


def rungs(total_rounds: int, points: int, factor: int, least: int = 1) -> list[int]:
    """Number of rounds of each rung, up to `total_rounds`, with as many rungs as the number of points allows.

    Args:
      total_rounds: Number of rounds of the last rung.
      points: Number of points.
      factor: Reduction factor.
      least: Minimum number of rounds of the lowest rung, unless it is the only one.
    """
    promotions = 0
    while factor ** (promotions + 1) <= points and total_rounds // factor ** (promotions + 1) >= least:
        promotions += 1
    return [math.ceil(total_rounds / factor**left) for left in range(promotions, -1, -1)]


class Sweep:
    """Executes runs and keeps their outcomes.

    Attributes:
      metric: Metric by which points are ranked.
      smallest: Whether smaller values of the metric are better.
      outcomes: Outcomes of all runs, by name.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        executor: executors.Executor,
        metric: Metric,
        after_run: Callable[[], object] = lambda: None,
    ):
        """Initializes the sweep.

        Args:
          folder: Folder of all runs.
          executor: Executor of the runs.
          metric: Metric by which points are ranked.
          after_run: Function that is called at the end of each run.
        """
        self.metric = metric
        self.smallest = metric.better == "down"
        self.outcomes: dict[str, Outcome] = {}
        self._folder = folder
        self._executor = executor
        self._after_run = after_run
        self._submitted: dict[executors.Job, Run] = {}
        self._attempts: dict[executors.Job, int] = {}
        self._bar = tqdm.tqdm(unit="round", total=0, disable=None, dynamic_ncols=True)

    def _is_settled(self, run: Run) -> bool:
        """Whether a run needs no executor: it is finished, or its folder cannot be used."""
        outcome = self.outcomes[run.name]
        if outcome.status == FAILED:
            return True
        try:
            if unfinished([run], self._folder):
                return False
            self._finish(run)
        except UsageError as error:
            self._fail(run, str(error))
        return True

    def _start(self, run: Run) -> None:
        job = run.job(self._folder)
        self._submitted[job] = run
        self._attempts[job] = self._attempts.get(job, 0) + 1
        self._executor.submit(job)

    def _finish(self, run: Run) -> None:
        value = read_value(self._folder / run.name, self.metric, run.rounds)
        outcome = self.outcomes[run.name]
        outcome.status, outcome.value, outcome.rounds = FINISHED, value, run.rounds
        if has_diverged(self._folder / run.name, run.rounds):
            outcome.status, outcome.value = DIVERGED, math.nan

    def _fail(self, run: Run, error: str) -> None:
        outcome = self.outcomes[run.name]
        outcome.status, outcome.value, outcome.rounds, outcome.error = FAILED, math.nan, 0, error

    def run(self, planned: Iterable[Run]) -> None:
        """Executes runs until they are finished or have failed; an executor that executes nothing leaves them."""
        for run in planned:
            self.outcomes.setdefault(run.name, Outcome(run)).run = run
            if not self._is_settled(run):
                self._start(run)
        self._show()
        while self._submitted and self._executor.executes:
            ended = self._executor.wait(_TICK_SECONDS)
            if ended is None:
                self._show()
                continue
            job, result = ended
            run = self._submitted.pop(job)
            if result.status not in (0, 2) and self._attempts[job] < _ATTEMPTS:
                self._bar.write(f"{run.name}: {result.message} The run is retried.", file=sys.stderr)
                self._start(run)
                continue
            try:
                if result.status:
                    raise Failure(result.message or f"It ended with status {result.status}.")
                self._finish(run)
            except (Failure, UsageError) as error:
                self._fail(run, str(error))
            self._after_run()
            self._show()

    def run_halving(self, planned: Sequence[Run], factor: int = 2, least: int = 1) -> None:
        """Executes runs by synchronous successive halving, up to the first rung with a run that is not executed.

        Ties keep the order of the points.

        Args:
          planned: The runs of all points.
          factor: Reduction factor: the best 1/factor of the points of a rung run the next one.
          least: Minimum number of rounds of a point that is stopped early.
        """
        points = list(runs.grouped(planned, lambda run: run.point).values())
        *shorter, last = rungs(planned[0].rounds, len(points), factor, least)
        for rounds in shorter:
            self.run([run.at_rounds(rounds) for seeds in points for run in seeds])
            if self.left(itertools.chain.from_iterable(points)):
                return
            values = [[self.outcomes[run.name].value for run in seeds] for seeds in points]
            scores = [goodness(some, smallest=self.smallest) for some in values]
            best = sorted(range(len(points)), key=lambda place: -scores[place])[: len(points) // factor]
            points = [points[place] for place in sorted(best)]
        self.run([run for seeds in points for run in seeds])
        for outcome in (self.outcomes[run.name] for run in planned):
            if outcome.status == FINISHED and outcome.rounds < last:
                outcome.status = STOPPED_EARLY

    def left(self, planned: Iterable[Run] | None = None) -> list[Run]:
        """Unfinished runs: of some planned ones, or of all."""
        some = self.outcomes.values() if planned is None else [self.outcomes[run.name] for run in planned]
        return [outcome.run for outcome in some if outcome.status == UNFINISHED]

    def rerun(self, seeds: Sequence[int]) -> dict[str, list[Outcome]]:
        """Runs the best point of each configuration with fresh seeds; returns their outcomes by configuration.

        A configuration without a value is left out.

        Args:
          seeds: Fresh seeds.
        """
        best = {name: points[0] for name, points in self.ranked().items() if not math.isnan(mean(points[0]))}
        fresh = {name: [point[0].run.with_seed(seed) for seed in seeds] for name, point in best.items()}
        all_runs = [run for some in fresh.values() for run in some]
        for run in all_runs:
            self.outcomes.setdefault(run.name, Outcome(run)).is_reporting = True
        self.run(all_runs)
        return {name: [self.outcomes[run.name] for run in some] for name, some in fresh.items()}

    def ranked(self) -> dict[str, list[Point]]:
        """Points of each configuration, sorted from best to worst."""
        return rank(self.outcomes.values(), smallest=self.smallest)

    def _show(self) -> None:
        """Updates the progress bar with the finished rounds of all runs and the number of finished runs."""
        if self._bar.disable:
            return
        bar, all_runs = self._bar, self.outcomes.values()
        left = [one for one in all_runs if one.status != FAILED and one.rounds < one.run.rounds]
        missing = (one.run.rounds - executors.last_round(self._folder / one.run.name) for one in left)
        total = sum(one.run.rounds for one in all_runs)
        done = total - sum(max(0, rounds) for rounds in missing)
        if not bar.total:  # Rounds of earlier commands are not part of this command's speed.
            bar.initial = done
        bar.total, bar.n = total, done
        bar.set_description_str(f"{len(all_runs) - len(left)}/{len(all_runs)} runs", refresh=False)
        bar.refresh()

    def close(self) -> None:
        """Closes the progress bar."""
        self._bar.close()
