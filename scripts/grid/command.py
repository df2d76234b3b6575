"""Plays a grid of runs of any experiment binary and ranks them; see `--help`.

Flags of all runs are checked before anything slow is imported. A run lies in a folder that is named by its flags: it is
played once, continued where it was interrupted, and found again by every grid that holds it.
"""

import contextlib
import fcntl
import importlib
import json
import math
import os
import pathlib
import sys
from collections.abc import Iterable, Sequence

import tqdm

from data.errors import Failure, UsageError
from optimization.study import cli, files, run_folder
from scripts import runs
from scripts.grid import halving, plan, player, players, results
from scripts.grid.plan import Run
from scripts.grid.results import Outcome

_USAGE = """
Plays a grid of runs and ranks them: the cross product of the values to sweep, or a published grid.

  grid --sweep=server_learning_rate=0.005,0.01,0.02 --sweep=client_learning_rate=0.05,0.1 --repeat=3
  grid --grid=appendix_a2_emnist --preset=emnist_scratch_softmax --expand_edges
  grid --binary=run_ads --sweep=decision_rule=greedy,ucb --rates=0.05,0.1,0.2

All other flags are passed on to every run; `run_federated --help` lists them. The same command continues a grid.
"""
_ATTEMPTS = 3
_SHOWN = 10  # Points of a configuration, in the terminal.


def define() -> cli.FlagSet:
    """Returns the flags of `grid`; those of its runs are passed on."""
    flags = cli.FlagSet(_USAGE, "run_flags", known_only=True)
    flags.group("What is run")
    flags.choice("binary", None, list(plan.BINARIES), "experiment (default: run_federated, or the grid's)")
    flags.texts("sweep", "flag=value,value: values to try of a run's flag; may be given for several flags")
    known = "; ".join(f"{name}, {grid.about}" for name, grid in plan.published().items())
    flags.text("grid", None, f"a published grid: {known}. Flags and sweeps given beside it win")
    flags.integer("repeat", 1, "runs of every point, with consecutive seeds", low=1)

    flags.group("What is searched")
    flags.text("metric", None, "column of metrics.csv whose value after the last round ranks (default: the binary's)")
    flags.switch("lower_is_better", None, "whether the smallest value of --metric is the best")
    flags.switch("expand_edges", False, "add values where the best point of a configuration lies on an edge, and again")
    flags.integer("expand_steps", 5, "most values that this adds to one side", low=1)
    flags.choice(
        "early_stop",
        None,
        {"asha": "asynchronous successive halving: the best part of the points go on to more rounds"},
        "give up points early",
    )
    flags.integer("reduction_factor", 2, "asha: one of so many points goes on", low=2)

    players.define(flags, slurm_script="write a job array for Slurm, and run nothing")

    flags.group("Output")
    flags.text("root_output_dir", "runs", "folder of all grids")
    flags.folder("experiment_name", "name of this grid's folder (default: grid_, and the grid, preset or binary)")
    return flags


def check(settings: cli.Settings) -> None:
    """Checks the grid's own flags against each other.

    Raises:
      UsageError: On a flag without effect, or flags that do not go together.
    """
    if "reduction_factor" in settings.given and not settings.early_stop:
        raise UsageError("--reduction_factor has an effect only with --early_stop=asha.")
    if "expand_steps" in settings.given and not settings.expand_edges:
        raise UsageError("--expand_steps has an effect only with --expand_edges.")
    if settings.lower_is_better is not None and not settings.metric:
        raise UsageError("--lower_is_better has an effect only with --metric: the binary's own is known.")
    players.check(settings)
    if settings.executor == "slurm_script" and (settings.expand_edges or settings.early_stop):
        raise UsageError(
            "--executor=slurm_script writes all runs beforehand: --expand_edges and --early_stop decide by results."
        )


class Sweep:
    """A grid that is played in its folder."""

    def __init__(self, grid: plan.Grid, folder: pathlib.Path, executor, metric: str, *, smallest: bool):
        """Takes what is played, where and by whom; `smallest` says whether less of the metric is better."""
        self.grid = grid
        self.metric = metric
        self.smallest = smallest
        self.outcomes: dict[str, Outcome] = {}
        self._folder = folder
        self._executor = executor
        self._waiting: dict[player.Job, Run] = {}
        self._attempts: dict[player.Job, int] = {}
        self._progress = tqdm.tqdm(unit="run", total=0, disable=None, dynamic_ncols=True)

    def submit(self, some: Iterable[Run]) -> None:
        """Has runs played that are not finished yet."""
        for run in some:
            self.outcomes.setdefault(run.name, Outcome(run)).run = run
            self._progress.total += 1
            if self._is_settled(run):
                self._progress.update()
            else:
                self._start(run)
        self._progress.refresh()

    def _is_settled(self, run: Run) -> bool:
        """Returns whether a run needs no playing: it is finished, or its folder cannot be used."""
        outcome = self.outcomes[run.name]
        if outcome.status == results.FAILED:
            return True
        try:
            if results.finished_rounds(self._folder / run.name) < run.settings.total_rounds:
                return False
            self._finish(run)
        except UsageError as error:
            self._fail(run, str(error))
        return True

    def _start(self, run: Run) -> None:
        one = job(self._folder, self.grid, run)
        self._waiting[one] = run
        self._attempts[one] = self._attempts.get(one, 0) + 1
        self._executor.submit(one)

    def _finish(self, run: Run) -> None:
        value = results.read_value(self._folder / run.name, self.metric, run.settings.total_rounds)
        outcome = self.outcomes[run.name]
        outcome.status, outcome.value, outcome.rounds = results.FINISHED, value, run.settings.total_rounds

    def _fail(self, run: Run, error: str) -> None:
        outcome = self.outcomes[run.name]
        outcome.status, outcome.value, outcome.rounds, outcome.error = results.FAILED, math.nan, 0, error

    def finish(self, some: Sequence[Run]) -> None:
        """Waits until these runs are finished or have failed."""
        while not {run.name for run in some}.isdisjoint(run.name for run in self._waiting.values()):
            one, result = self._executor.wait()
            run = self._waiting.pop(one)
            if result.status not in (0, 2) and self._attempts[one] < _ATTEMPTS:
                self._progress.write(f"{run.name}: {result.message} It is tried again.", file=sys.stderr)
                self._start(run)
                continue
            try:
                if result.status:
                    raise Failure(result.message or f"It ended with status {result.status}.")
                self._finish(run)
            except (Failure, UsageError) as error:
                self._fail(run, str(error))
            self._progress.update()

    def score(self, some: Sequence[Run]) -> float:
        """Returns the mean metric of a point's seeds, so that more is better; the worst if one has none."""
        values = [self.outcomes[run.name].value for run in some]
        mean = sum(values) / len(values)
        if math.isnan(mean):
            return -math.inf
        return -mean if self.smallest else mean

    def ranked(self) -> dict[str, list[results.Point]]:
        """Returns the points of each configuration, the best first."""
        return results.rank(list(self.outcomes.values()), smallest=self.smallest)

    def close(self) -> None:
        """Ends the progress bar."""
        self._progress.close()


def job(folder: pathlib.Path, grid: plan.Grid, run: Run) -> player.Job:
    """Returns the job that plays a run of a grid below a folder."""
    return player.Job.of(grid.binary.module, run.arguments, folder, run.name, run.settings.total_rounds)


def play_all(sweep: Sweep, some: Sequence[Run]) -> None:
    """Plays runs to their ends."""
    sweep.submit(some)
    sweep.finish(some)


def play_halving(sweep: Sweep, some: Sequence[Run], factor: int, at_once: int) -> None:
    """Plays runs by asynchronous successive halving.

    What is played next depends on the results of all but the last `at_once` points begun, in the order in which they
    were begun, not on which happened to finish first: the same command plays the same runs.

    Args:
      sweep: What plays them.
      some: The runs of all points.
      factor: One of so many points goes on.
      at_once: Runs that are played at the same time.
    """
    points: dict[str, list[Run]] = {}
    for run in some:
        points.setdefault(run.point, []).append(run)
    seeds = list(points.values())
    rungs = halving.rungs(some[0].settings.total_rounds, len(seeds), factor)
    search = halving.Halving(len(seeds), len(rungs), factor)
    window = max(1, math.ceil(at_once / len(seeds[0])))
    scores: dict[halving.Item, float] = {}

    def runs_of(item: halving.Item) -> list[Run]:
        point, rung = item
        return [sweep.grid.at_rounds(run, rungs[rung]) if rung < len(rungs) - 1 else run for run in seeds[point]]

    while True:
        item = search.next(scores)
        if item is not None:
            sweep.submit(runs_of(item))
        elif len(scores) == len(search.started):
            break
        if item is None or len(search.started) - len(scores) >= window:
            oldest = search.started[len(scores)]
            sweep.finish(runs_of(oldest))
            scores[oldest] = sweep.score(runs_of(oldest))
    for outcome in sweep.outcomes.values():
        if outcome.status == results.FINISHED and outcome.rounds < rungs[-1]:
            outcome.status = results.STOPPED_EARLY


def expand(sweep: Sweep, most: int) -> None:
    """Adds values where the best point of a configuration lies on an edge, and plays them, until it lies inside."""
    while True:
        told: list[str] = []
        for configuration, points in sweep.ranked().items():
            best = points[0]
            if math.isnan(best.mean):
                continue
            sweep.grid, added = sweep.grid.widened(best.outcomes[0].run, most)
            told += [f"{configuration} {flag}".strip() for flag in added]
        if not told:
            return
        print(f"The best lies on an edge; added: {'; '.join(told)}.", file=sys.stderr)
        play_all(sweep, [run for run in sweep.grid.runs() if run.name not in sweep.outcomes])


def report(sweep: Sweep, folder: pathlib.Path) -> int:
    """Writes and prints what the runs gave; returns the exit status."""
    outcomes, swept = list(sweep.outcomes.values()), sweep.grid.swept
    ranked = sweep.ranked()
    table = results.table(outcomes, swept, sweep.metric, folder / "runs")
    files.replace(folder / "results.csv", table.to_csv(index=False).encode())
    print(results.text(ranked, swept, sweep.metric, smallest=sweep.smallest, shown=_SHOWN))
    written = ["results.csv"]
    if axes := results.learning_rates(swept):
        for configuration, points in ranked.items():
            words = "_".join(word.partition("=")[2] for word in configuration.split())
            name = f"heat_map{f'_{words}' if words else ''}.png".replace("/", "_")
            title = (configuration or folder.name).replace("_", " ")
            if other := set(points[0].outcomes[0].run.numbers) - set(axes):
                title += f"; best over {', '.join(sorted(other))}".replace("_", " ")
            results.heat_map(points, axes, folder / name, metric=sweep.metric, title=title, smallest=sweep.smallest)
            written.append(name)
    if told := results.privacy_told(outcomes, folder / "runs"):
        print(told)
    print(f"Results in {folder}: {', '.join(written)}; each run's folder in {folder / 'runs'}")
    failed = [outcome for outcome in outcomes if outcome.status == results.FAILED]
    if failed:
        print(f"{len(failed)} of {len(outcomes)} runs failed:", file=sys.stderr)
        for outcome in failed:
            print(f"  {folder / 'runs' / outcome.run.name}: {outcome.error}", file=sys.stderr)
    return 1 if failed else 0


def claim(folder: pathlib.Path, grid: plan.Grid):
    """Makes a grid's folder, and returns its lock, which is held while it is open.

    Raises:
      UsageError: If it cannot be written, another grid is running in it, or it is of another format.
    """
    about = folder / "grid.json"
    if about.exists():
        found = runs.read_json(about).get("format", 1)
        if found != run_folder.FORMAT:
            raise UsageError(
                f"{folder} holds a grid of format {found}, and this version of the program continues those of format "
                f"{run_folder.FORMAT} alone, though it reports and plots all: choose another --experiment_name."
            )
    try:
        (folder / "runs").mkdir(parents=True, exist_ok=True)
        lock = open(folder / ".lock", "w")  # noqa: SIM115
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise UsageError(
            f"Another grid is running in {folder}: wait for it, or choose another --experiment_name."
        ) from error
    except OSError as error:
        raise UsageError(
            f"The output folder {folder} cannot be written ({error.strerror}): choose another one with "
            "--root_output_dir or --experiment_name."
        ) from error
    content = {
        "format": run_folder.FORMAT,
        "binary": grid.binary.module,
        "blocks": grid.blocks,
        "command": cli.command_line(),
    }
    files.replace(about, json.dumps(content, indent=2).encode() + b"\n")
    return lock


def check_metric(settings: cli.Settings, binary: plan.Binary) -> None:
    """Refuses a metric that the binary does not have.

    Raises:
      UsageError: Naming those that it has.
    """
    if settings.metric is None:
        return
    columns = importlib.import_module(f"{binary.module.rpartition('.')[0]}.metrics").COLUMNS
    if settings.metric not in columns:
        raise UsageError(f"--metric={settings.metric} is no column of {binary.module}: {', '.join(columns)}.")


def program(settings: cli.Settings) -> int:
    """Plays the grid; returns 0, 1 if a run failed, or 128 + the signal that stopped it."""
    check(settings)
    grid = plan.build(
        settings.run_flags,
        sweeps=settings.sweep,
        repeat=settings.repeat,
        binary=settings.binary,
        grid=settings.grid,
    )
    if not settings.sweep and not settings.grid:
        raise UsageError("--sweep is missing: give a flag and the values to try, as client_learning_rate=0.1,1.")
    check_metric(settings, grid.binary)
    given = plan.parse(grid.binary.module, settings.run_flags)
    cores = len(os.sched_getaffinity(0))
    if "max_concurrent_threads" in given.given:
        cores = given.max_concurrent_threads or cores
    elif settings.executor != "slurm_script" and not settings.ray_address and not given.get("tff_workers"):
        cores = max(1, cores // settings.workers)
        grid = grid.with_base(f"--max_concurrent_threads={cores}")
    some = grid.runs()
    if settings.expand_edges and not any(name in grid.expandable for name in grid.swept):
        raise UsageError("--expand_edges has no effect: no number is swept that could have other values.")
    if settings.early_stop:
        if "total_rounds" in grid.swept:
            raise UsageError("--early_stop=asha sets --total_rounds itself: leave it out of --sweep.")
        for run in some:
            grid.at_rounds(run, 1)
    name = settings.experiment_name or f"grid_{settings.grid or given.get('preset') or settings.binary or 'runs'}"
    folder = pathlib.Path(cli.user_path(settings.root_output_dir)) / name
    with claim(folder, grid):
        grid = grid.in_folder(folder / "runs")
        some = grid.renamed(some)
        if settings.executor == "slurm_script":
            return write_script(grid, some, folder, cores)
        return play(settings, grid, some, folder, cores)


def write_script(grid: plan.Grid, some: Sequence[Run], folder: pathlib.Path, cores: int) -> int:
    """Writes the job array of what is not finished; returns the exit status."""
    left = [run for run in some if results.finished_rounds(folder / "runs" / run.name) < run.settings.total_rounds]
    if not left:
        print(f"All {len(some)} runs are finished: --executor=local ranks them.")
        return 0
    script = players.write_slurm_script(folder, [job(folder / "runs", grid, run) for run in left], cores)
    print(f"{len(left)} runs in {script}. When they are done, the same command with --executor=local ranks them.")
    return 0


def play(settings: cli.Settings, grid: plan.Grid, some: Sequence[Run], folder: pathlib.Path, cores: int) -> int:
    """Plays the runs and reports; returns the exit status."""
    executor = players.build(settings, cores)
    smallest = grid.binary.smallest if settings.metric is None else bool(settings.lower_is_better)
    sweep = Sweep(grid, folder / "runs", executor, settings.metric or grid.binary.metric, smallest=smallest)
    with players.playing(executor, folder), contextlib.closing(sweep):
        if settings.early_stop:
            play_halving(sweep, some, settings.reduction_factor, settings.workers)
        else:
            play_all(sweep, some)
        if settings.expand_edges:
            expand(sweep, settings.expand_steps)
    return report(sweep, folder)
