"""Federated training by posterior aggregation; see `--help`.

Flags are checked, the data opened and the runs' folders claimed before TensorFlow Federated is imported.
"""

if __name__ == "__main__":  # Before the imports, which take seconds.
    from optimization.study import interruption

    interruption.install()

import sys

import numpy as np

from data import clients, tasks
from data.errors import UsageError
from data.tasks import registry
from optimization.posterior import flags
from optimization.study import cli, files, frame, presets, run_folder, selector_flags, task_flags, worker_flags

_SHOWN_IN_PRESETS = (
    "task_type",
    "model",
    "partition_alpha",
    "client_sampling_alpha",
    "total_rounds",
    "client_learning_rate",
)


def check_against_task(settings: cli.Settings, task: tasks.Task) -> None:
    """Checks flags that depend on the data.

    Raises:
      UsageError: If they do not fit it.
    """
    if task.multi_label:
        raise UsageError(
            f"--task_type={settings.task_type} gives examples several labels; recall and precision need one label each."
        )
    population = len(task.clients) - flags.server_clients(settings)
    if settings.clients_per_round > population:
        of_task = f"the task's {len(task.clients)} clients"
        if population < len(task.clients):
            of_task = f"{of_task} without those of --server_data={settings.server_data}"
        raise UsageError(f"--clients_per_round={settings.clients_per_round} is more than {of_task}.")
    selector_flags.check_population(selector_flags.options(settings), population, settings.clients_per_round)


def server_features(settings: cli.Settings, task: tasks.Task) -> clients.Features | None:
    """Returns the features of `--server_data`, as the model takes them; None without this flag.

    Raises:
      UsageError: If they cannot be read, or are not like the task's.
    """
    if not settings.server_data:
        return None
    if count := flags.server_clients(settings):
        return task.normalise(clients.joined([task.clients.load(index) for index in range(count)]).features)
    flag = f"--server_data={settings.server_data}"
    try:
        with np.load(settings.server_data, allow_pickle=False) as archive:
            features = archive["features"]
    except Exception as error:  # What NumPy and zipfile raise over a damaged archive is almost anything.
        raise UsageError(f"{flag} is not a readable .npz file with the array features ({error}).") from error
    own = task.held_out.load(0).features
    if not isinstance(own, np.ndarray) or features.shape[1:] != own.shape[1:] or not len(features):
        raise UsageError(f"{flag} holds features {features.shape}; --task_type={settings.task_type} has others.")
    if features.dtype.kind not in "iuf" or not np.isfinite(features).all():
        raise UsageError(f"{flag} holds features that are no finite numbers.")
    with np.errstate(over="ignore", invalid="ignore"):
        kept = features.astype(own.dtype)
    if not np.allclose(kept, features, rtol=1e-6):
        raise UsageError(f"{flag} holds features that are no {own.dtype}, which --task_type={settings.task_type} has.")
    return task.normalise(kept)


def play(settings: cli.Settings, task: tasks.Task, computations, folder: run_folder.RunFolder) -> int | None:
    """Plays, or continues, one run; returns the signal that stopped it, if any."""
    import pandas as pd

    from optimization.posterior import experiment, figures, metrics
    from optimization.study import runner

    run = experiment.Run(settings, task, computations, folder.path)
    outcome = runner.run(
        run.experiment(),
        folder,
        frame.Length(settings.total_rounds, 0, settings.rounds_per_checkpoint),
        metrics.COLUMNS,
        headline=metrics.ACCURACY,
        label=settings.algorithm,
    )
    if outcome.round_num:
        title = f"{settings.task_type}: {settings.algorithm}, seed {settings.seed}"
        figures.draw_run(folder.metrics_path, folder.path / "accuracy.png", title)
    if outcome.signum is None:
        folder.save_model(list(run.model.shapes), outcome.state.server.weights)
        rounds = pd.read_csv(folder.metrics_path)
        results = metrics.results(rounds, flags.thresholds(settings))
        files.replace(folder.path / "results.csv", results.to_csv(index=False, float_format="%.6g").encode())
        print(
            f"{settings.algorithm}, seed {settings.seed}: {outcome.round_num} rounds; running means of "
            f"{metrics.WINDOW} rounds:"
        )
        print(results.to_string(index=False, float_format="{:.4f}".format, na_rep="-"))
        print(f"Results in {folder.path}: metrics.csv, results.csv, accuracy.png, config.json, model/weights.npz")
    return outcome.signum


def program(settings: cli.Settings) -> int:
    """Plays `--repeat` runs; returns 0, or 128 + the signal that stopped it."""
    if settings.list_presets:
        print(presets.table(flags.PRESETS, _SHOWN_IN_PRESETS))
        return 0
    settings = flags.resolve(presets.applied(settings, flags.PRESETS))
    task = registry.load(task_flags.options(settings))
    check_against_task(settings, task)
    features = server_features(settings, task)
    runs = []
    for seed in cli.seeds(settings):
        name = settings.experiment_name if settings.repeat == 1 else f"{settings.experiment_name}/seed_{seed}"
        one = settings.replace(seed=seed, experiment_name=name, repeat=1)
        folder = run_folder.RunFolder(f"{settings.root_output_dir}/{name}")
        run_folder.open_for_task(folder, one, task)
        runs.append((one, folder))

    worker_flags.start(settings)
    from optimization.posterior import experiment

    computations = experiment.Computations(settings, task, features)
    for one, folder in runs:
        if signum := play(one, task, computations, folder):
            told = f"Stopped in {folder.path}; what was done is saved. {run_folder.continuing(one)} it."
            print(told, file=sys.stderr)
            return 128 + signum
    return 0


if __name__ == "__main__":
    cli.main(flags.define(), program)
