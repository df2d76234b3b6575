"""Compares strategies of client selection; see `--help`.

Flags are checked, the data opened and the runs' folders claimed before TensorFlow Federated is imported. All runs of a
command share one TFF worker and its compiled computations.
"""

if __name__ == "__main__":  # Before the imports, which take seconds.
    from optimization.study import interruption

    interruption.install()

import pathlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bandits.client_selection import flags, metrics
from data import tasks
from data.errors import UsageError
from data.tasks import registry
from data.tasks.options import TaskOptions
from optimization.study import cli, files, frame, presets, run_folder, selector_flags, task_flags, worker_flags

if TYPE_CHECKING:
    from bandits.client_selection import experiment

_SHOWN_IN_PRESETS = ("client_selection", "clients_per_round", "repeat")


def prepare(runs: Sequence[cli.Settings]) -> list[tuple[cli.Settings, tasks.Task, run_folder.RunFolder]]:
    """Opens the data and folders of all runs.

    Raises:
      UsageError: If they are not there, or the flags do not fit the data.
    """
    opened: dict[TaskOptions, tasks.Task] = {}
    for settings in runs:
        options = task_flags.options(settings)
        if options not in opened:
            opened[options] = registry.load(options)
        population = len(opened[options].clients)
        if settings.clients_per_round > population:
            raise UsageError(
                f"--clients_per_round={settings.clients_per_round} is more than the task's {population} clients."
            )
        selector_flags.check_population(selector_flags.options(settings), population, settings.clients_per_round)
    prepared = []
    for settings in runs:
        folder = run_folder.RunFolder(f"{settings.root_output_dir}/{settings.experiment_name}")
        task = opened[task_flags.options(settings)]
        run_folder.open_for_task(folder, settings, task)
        prepared.append((settings, task, folder))
    return prepared


def program(settings: cli.Settings) -> int:
    """Plays all runs; returns 0, or 128 + the signal that stopped it."""
    if settings.list_presets:
        print(presets.table(flags.PRESETS, _SHOWN_IN_PRESETS))
        return 0
    plan = flags.plan(presets.applied(settings, flags.PRESETS))
    runs = prepare(plan.runs)

    worker_flags.start(settings)
    from bandits.client_selection import experiment

    for one, task, folder in runs:
        if signum := play(experiment.Run(one, task, experiment.Computations(one, task)), one, folder):
            told = f"Stopped in {folder.path}; what was done is saved. {run_folder.continuing(one)} it."
            print(told, file=sys.stderr)
            return 128 + signum
    report(plan, [(one, folder.path) for one, _, folder in runs])
    return 0


def play(run: "experiment.Run", settings: cli.Settings, folder: run_folder.RunFolder) -> int | None:
    """Plays, or continues, one run; returns the signal that stopped it, if any."""
    from optimization.study import runner

    outcome = runner.run(
        run.experiment(),
        folder,
        frame.Length(settings.total_rounds, settings.rounds_per_eval, settings.rounds_per_checkpoint),
        metrics.COLUMNS,
        headline=metrics.LOSS,
        label=f"{settings.client_selection}, m = {settings.clients_per_round}, seed {settings.seed}",
    )
    if outcome.signum is None:
        folder.save_model(list(run.model.shapes), outcome.state.server.weights)
        files.replace(folder.path / "clients.csv", run.clients_csv(outcome.state))
    return outcome.signum


def report(plan: flags.Plan, runs: Sequence[tuple[cli.Settings, pathlib.Path]]) -> None:
    """Writes and prints what the runs gave."""
    from bandits.client_selection import figures

    settings, folder = plan.runs[0], pathlib.Path(plan.folder)
    rounds, clients = figures.read(runs)
    title = f"Client selection, {settings.task_type}, {clients['client'].nunique()} clients"
    partition = (settings.partition_clients, settings.synthetic_alpha, settings.synthetic_beta)
    is_published = settings.task_type == "synthetic" and partition == (30, 1.0, 1.0)
    results = figures.table(rounds, with_published=is_published)
    files.replace(folder / "results.csv", results.to_csv(index=False, float_format="%.6g").encode())
    figures.draw_convergence(rounds, folder / "convergence.png", title)
    figures.draw_client_losses(clients, folder / "client_losses.png", title)
    print(results.to_string(index=False, float_format="{:.3f}".format))
    print(f"Results in {folder}: results.csv, convergence.png, client_losses.png; metrics.csv, clients.csv of each run")


if __name__ == "__main__":
    cli.main(flags.define(), program)
