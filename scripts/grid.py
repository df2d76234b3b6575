"""Executes a grid of runs of any experiment binary and ranks them; see `--help`.

Flags of all runs are checked before the slow imports. A run's folder is named after its flags, so grids with the same
output folder share runs, and interrupted runs continue.
"""

if __name__ == "__main__":  # Before the imports, which take seconds.
    from optimization.study import interruption

    interruption.install()

import contextlib
import dataclasses
import pathlib
import sys

from bandits import object_flags, studies
from bandits.plans import executors, plan, sweep, verdict
from data.errors import UsageError
from data.settings import declared, no_folder, setting
from optimization.study import cli
from optimization.study.metrics import Metric

_USAGE = """
Executes a grid of runs and ranks them: the cross product of the values to sweep, or a published grid.

  grid --sweep=server_learning_rate=0.005,0.01,0.02 --sweep=client_learning_rate=0.05,0.1 --repeat=3
  grid --grid=appendix_a2_emnist --preset=emnist_scratch_softmax
  grid --binary=run_ads --sweep=decision_rule=greedy,ucb --rates=0.05,0.1,0.2

Other flags are passed on to every run; `run_federated --helpfull` lists them. Repeat a command to continue it.
"""


_NEEDS_RESULTS = {"executor": executors.RUNNING}  # A job array is written before any run.


@dataclasses.dataclass(frozen=True)
class _Runs:
    """Runs."""

    binary: str = setting(None, "Program of the experiment (default: that of the grid, or run_federated)")
    sweep: list = setting(None, "flag=value,value: values to try for a run's flag; can be repeated for other flags")
    grid: str = setting(None, "A published grid; flags and sweeps override its values")
    repeat: int = setting(1, "Runs per point, with consecutive seeds", low=1)


@dataclasses.dataclass(frozen=True)
class _Search:
    """Search."""

    metric: str = setting(
        None, "Column of metrics.csv whose value after the last round ranks the runs (default: the binary's)"
    )
    reporting_repeat: int = setting(
        0,
        "New seeds with which the best point of each configuration is rerun to avoid selection bias; 0 for no reruns",
        only=_NEEDS_RESULTS,
    )
    reference: str = setting(
        None,
        "Configuration with which the others are compared: its name, such as 'greedy, adam', or its strategy "
        "(default: greedy, or the first configuration if there is no greedy)",
        only=_NEEDS_RESULTS,
    )
    early_stop: str = setting(
        None,
        "Stop bad points early",
        {"halving": "successive halving: in each step, the better half of the points continues with more rounds"},
        only=_NEEDS_RESULTS,
    )


@dataclasses.dataclass(frozen=True)
class _Output:
    """Output."""

    root_output_dir: pathlib.Path = setting("runs", "Folder of all grids")
    experiment_name: str = setting(
        None, "Name of this grid's folder (default: grid_ and the grid, preset or binary)", check=no_folder
    )


def define() -> cli.FlagSet:
    """Flags of `grid`; those of its runs are passed on."""
    flags = cli.FlagSet(_USAGE, "run_flags", known_only=True)
    known = "; ".join(f"{name}, {grid['about']}" for name, grid in plan.published().items())
    grids = f"a published grid: {known}. Flags and sweeps override its values"
    flags.group("Runs", *declared(_Runs, binary={"type": list(studies.STUDIES)}, grid={"help": grids}))
    flags.group("Search", _Search)
    flags.group("Execution", executors.Executors)
    flags.group("Output", _Output)
    return flags


def ranked_by(settings: cli.Settings, binary: str) -> Metric:
    """Metric of the ranking.

    Raises:
      UsageError: If the binary does not have the metric; the message lists its metrics.
    """
    own = studies.parse(binary, settings.run_flags).get("metrics") or ()
    columns = [*studies.load(binary).columns, *object_flags.metric_columns(own)]
    name = settings.metric or studies.load(binary).ranked_by
    metric = next((metric for metric in columns if name == metric), None)
    if metric is None:
        raise UsageError(f"--metric={name} is not a column of {binary}: {', '.join(columns)}.")
    return metric


def program(settings: cli.Settings) -> int:
    """Runs the grid; returns 0 for success, 1 if a run failed, or 128 + the signal that stopped it."""
    settings = settings.checked()
    grid = plan.build(
        settings.run_flags, sweeps=settings.sweep, repeat=settings.repeat, binary=settings.binary, grid=settings.grid
    )
    if not settings.sweep and not settings.grid:
        raise UsageError("--sweep is missing: give a flag and the values to try, such as client_learning_rate=0.1,1.")
    metric = ranked_by(settings, grid.binary)
    run_settings = studies.parse(grid.binary, settings.run_flags)
    cores = executors.cores_of_run(settings)
    if "max_concurrent_threads" in run_settings.set_by_user:
        cores = run_settings.max_concurrent_threads or cores
    elif executors.shares_cores(settings) and not run_settings.get("tff_workers"):
        grid = dataclasses.replace(grid, base=(*grid.base, f"--max_concurrent_threads={cores}"))
    default_name = f"grid_{settings.grid or run_settings.get('preset') or settings.binary or 'runs'}"
    folder = pathlib.Path(settings.root_output_dir) / (settings.experiment_name or default_name)
    grid = grid.in_folder(folder / "runs")
    runs = grid.runs()
    grid.fresh_seeds(settings.reporting_repeat)
    if settings.reference:
        verdict.check_reference(settings.reference, runs, has_fresh_seeds=bool(settings.reporting_repeat))
    if settings.early_stop:
        if "total_rounds" in grid.swept:
            raise UsageError("--early_stop=halving sets --total_rounds itself: leave it out of --sweep.")
        for run in runs:
            run.at_rounds(1)
    with sweep.claim(folder, grid.binary, grid.blocks):
        size = f"{len(runs)} runs of {len({run.point for run in runs})} configurations"
        print(f"{folder.name}: {size}; folder {cli.shown_path(str(folder))}", file=sys.stderr, flush=True)
        if settings.executor == "slurm_script":
            return sweep.write_job_array(runs, folder, cores, "the same command with --executor=local ranks them")
        if settings.executor == "local":
            new = [run for run in runs if not (folder / "runs" / run.name).exists()]
            errors = sweep.refused({"": new[:1]})
            if errors and errors == sweep.refused({"": new[-1:]}):  # An error in all runs is raised before any starts.
                raise UsageError(next(iter(errors)))
        executor = executors.build(settings, cores)
        runner = sweep.Sweep(folder / "runs", executor, metric)
        with executors.running(executor, folder), contextlib.closing(runner):
            if settings.early_stop:
                runner.run_halving(runs)
            else:
                runner.run(runs)
            reported = runner.rerun(grid.fresh_seeds(settings.reporting_repeat))
        return verdict.report(runner, grid.swept, folder, reported, settings.reference)


if __name__ == "__main__":
    cli.main(define(), program)
