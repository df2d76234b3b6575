"""Runs a federated contextual bandit; see `--help`.

From flags to results: `bandits.flags` checks the flags, the task's data is opened, the run's folder is claimed, and
only then TensorFlow Federated is imported and the rounds are played.
"""

if __name__ == "__main__":  # Before the imports, which take seconds.
    from optimization.study import interruption

    interruption.install()

import dataclasses
import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bandits import flags, guarantees, metrics, registry
from data import tasks
from data.errors import UsageError
from data.tasks import registry as tasks_registry
from optimization import options
from optimization.study import (
    aggregation_flags,
    cli,
    frame,
    presets,
    run_folder,
    selector_flags,
    server_flags,
    task_flags,
    worker_flags,
)

if TYPE_CHECKING:
    from bandits import experiment

_INIT_FOLDER = "init"
_SHOWN_IN_PRESETS = (
    "server_learning_rate",
    "client_learning_rate",
    "bandits_temperature",
    "bandits_mu",
    "bandits_gamma",
    "bandits_epsilon",
    "clip_norm",
    "noise_multiplier",
)


def check_against_task(settings: cli.Settings, task: tasks.Task) -> None:
    """Checks flags that depend on the data.

    Raises:
      UsageError: If they do not fit it.
    """
    population = len(task.clients)
    selected = flags.population_range(settings.population_client_selection, population)
    available = len(selected)
    if settings.scenario != "scratch":
        available -= settings.init_clients
        if available <= 0:
            raise UsageError(
                f"--init_clients={settings.init_clients} leaves none of the task's {population} clients to the bandits."
            )
    bandit = registry.BANDITS[settings.bandits_type]
    selection = selector_flags.options(settings)
    voided = selector_flags.voids(selection)
    trainings = [(available, settings.clients_per_round, voided, settings.total_rounds if bandit.trains else 0)]
    if settings.scenario != "scratch":
        initial = settings.init_clients
        trainings.insert(0, (initial, min(settings.clients_per_round, initial), "", settings.init_rounds))
    aggregation = aggregation_flags.options(settings)
    warnings: list[str] = []
    for clients, cohort, reason, rounds in trainings:
        cohorts = options.Cohorts(cohort, settings.cohort_sampling)
        mechanism = aggregation_flags.mechanism(aggregation, cohorts, clients, 1, voided=reason)
        warnings += mechanism.warnings(rounds) if rounds else ()
    for warning in dict.fromkeys(warnings):
        print(f"Warning: {warning}", file=sys.stderr)
    selector_flags.check_population(selection, available, settings.clients_per_round)
    shifts = settings.scenario == "init_shift" or settings.dist_shift_type
    if shifts and "init" not in task.rewards:
        raise UsageError(f"--task_type={settings.task_type} has no reward shift to study: its rewards are one matrix.")
    low, high = task.reward_range(_rewards(settings, bandit))
    if bandit.cross_entropy and not 0 <= low <= high <= 1:
        squared = dataclasses.replace(bandit, cross_entropy=False, help="")
        other = next(name for name, entry in registry.BANDITS.items() if dataclasses.replace(entry, help="") == squared)
        raise UsageError(
            f"--bandits_type={settings.bandits_type} takes rewards for probabilities, but here they reach from {low:g} "
            f"to {high:g}: use {other}, which takes any."
        )
    if bandit.policy == "falcon" and settings.bandits_mu < task.num_actions - 1:
        print(
            f"Warning: --bandits_mu={settings.bandits_mu:g} can give the other actions more than probability 1, which "
            f"is then scaled to 1; {task.num_actions - 1} is the smallest mu that never needs this.",
            file=sys.stderr,
        )


def _rewards(settings: cli.Settings, bandit: registry.BanditEntry) -> str:
    """Returns the key of the bandits' rewards in `Task.rewards`."""
    if not bandit.trains and settings.variant == "reference_code":
        return "exact"
    return settings.dist_shift_type or ("bandits" if settings.scenario == "init_shift" else "exact")


def plan(settings: cli.Settings, task: tasks.Task) -> "list[experiment.Phase]":
    """Returns the phases of a run: an initial training, if the scenario has one, and the bandits."""
    from bandits import experiment

    bandit = registry.BANDITS[settings.bandits_type]
    population = flags.population_range(settings.population_client_selection, len(task.clients))
    aggregation, selection = aggregation_flags.options(settings), selector_flags.options(settings)
    phases = []
    if settings.scenario != "scratch":
        initial, population = (
            population[: settings.init_clients],
            population[settings.init_clients :],
        )
        phases.append(
            experiment.Phase(
                bandit=registry.BANDITS["supervised_mse"],
                population=initial,
                rewards="init" if settings.scenario == "init_shift" else "exact",
                total_rounds=settings.init_rounds,
                cohorts=options.Cohorts(min(settings.clients_per_round, len(initial)), settings.cohort_sampling),
                deploy_every=1,
                server_optimizer=options.ServerOptimizer(
                    settings.init_server_optimizer, settings.init_server_learning_rate
                ),
                client_learning_rate=settings.init_client_learning_rate,
                aggregation=aggregation,
            )
        )
    phases.append(
        experiment.Phase(
            bandit=bandit,
            population=population,
            rewards=_rewards(settings, bandit),
            total_rounds=settings.total_rounds,
            cohorts=options.Cohorts(settings.clients_per_round, settings.cohort_sampling),
            deploy_every=settings.bandits_deploy_freq,
            server_optimizer=server_flags.options(settings),
            client_learning_rate=settings.client_learning_rate,
            aggregation=dataclasses.replace(
                aggregation, client_weighting=selection.weighting(aggregation.client_weighting)
            ),
            selection=selection,
            posterior=flags.posterior(settings),
        )
    )
    return phases


def run(settings: cli.Settings, task: tasks.Task, folder: run_folder.RunFolder) -> int:
    """Plays all phases of one run and returns the exit status."""
    from optimization import task_model

    shapes = task_model.build(task).shapes
    weights = None
    if settings.initial_model_path:
        weights = run_folder.load_model(settings.initial_model_path, shapes)
    dimension = sum(math.prod(shape) for shape in shapes.values())
    phases = plan(settings, task)
    trained = guarantees.of_initial_model(settings)
    for phase in phases[:-1]:
        initial = run_folder.RunFolder(folder.path / _INIT_FOLDER)
        run_folder.open_for_task(initial, settings, task)
        trained = guarantees.of_phase(settings, task, phase, dimension, trained)
        weights, signum = _play(settings, task, phase, trained, initial, None, "Initial training")
        if signum:
            return _stopped(settings, folder, "in the initial training", signum)
    phase = dataclasses.replace(phases[-1], spent_rounds=trained.rounds if trained else 0)
    trained = guarantees.of_phase(settings, task, phase, dimension, trained)
    weights, signum = _play(settings, task, phase, trained, folder, weights, settings.bandits_type)
    if signum:
        return _stopped(settings, folder, "before its last round", signum)
    return 0


def _play(settings, task, phase, trained, folder, weights, label):
    """Plays one phase; returns its final weights and the signal that stopped it, if any."""
    from bandits import experiment
    from optimization import task_model
    from optimization.study import runner

    rounds = experiment.build(settings, task, phase, trained.mechanism, weights)
    outcome = runner.run(
        rounds,
        folder,
        frame.Length(phase.total_rounds, settings.rounds_per_eval, settings.rounds_per_checkpoint),
        metrics.COLUMNS,
        headline=metrics.AVERAGE_REWARD,
        label=label,
    )
    weights = outcome.state.server.weights
    spent = trained.report(phase.accounted(outcome.round_num))
    folder.write_json(run_folder.PRIVACY_FILE, spent)
    if outcome.round_num:
        from bandits import figures

        figures.draw_run(folder.metrics_path, folder.path / "reward.png", f"{settings.task_type}: {label}")
    if outcome.signum is None:
        folder.save_model(list(task_model.build(task).shapes), weights)
        print(_summary(label, folder, spent["summary"]))
    if rounds.secrets:
        held = " and ".join(rounds.secrets)
        print(f"Keep {folder.path}/checkpoints secret: it holds {held}, which protects the clients.")
    if len(outcome.state.cohort_seed):
        print("The cohorts are not drawn from --seed, and so not paired between runs of one seed.")
    return weights, outcome.signum


def _summary(label: str, folder: run_folder.RunFolder, spent: str) -> str:
    import pandas as pd

    last = pd.read_csv(folder.metrics_path).iloc[-1]
    return (
        f"{label}: {int(last['round_num'])} rounds, average reward {last[metrics.AVERAGE_REWARD]:.4f}, "
        f"last round {last[metrics.ROUND_REWARD]:.4f}; "
        f"its greedy policy on held-out data: accuracy {last[metrics.ACCURACY]:.4f}.\n"
        f"{spent}\n"
        f"Results in {folder.path}: metrics.csv, reward.png, config.json, privacy.json, model/weights.npz"
    )


def _stopped(settings: cli.Settings, folder: run_folder.RunFolder, where: str, signum: int) -> int:
    print(
        f"Stopped {where}; what was done is saved. {run_folder.continuing(settings)} {folder.path}.",
        file=sys.stderr,
    )
    return 128 + signum


def program(settings: cli.Settings) -> int:
    """Runs `--repeat` runs after another; returns the first exit status that is not 0."""
    if settings.list_presets:
        print(presets.table(flags.PRESETS, _SHOWN_IN_PRESETS))
        return 0
    settings = flags.resolve(presets.applied(settings, flags.PRESETS))
    task = tasks_registry.load(task_flags.options(settings))
    check_against_task(settings, task)
    if settings.initial_model_path:
        run_folder.read_model(settings.initial_model_path)
    runs: Sequence[tuple[cli.Settings, run_folder.RunFolder]] = []
    for seed in cli.seeds(settings):
        name = settings.experiment_name if settings.repeat == 1 else f"{settings.experiment_name}/seed_{seed}"
        one = settings.replace(seed=seed, experiment_name=name, repeat=1)
        folder = run_folder.RunFolder(f"{settings.root_output_dir}/{name}")
        run_folder.open_for_task(folder, one, task)
        runs.append((one, folder))

    worker_flags.start(settings)
    for one, folder in runs:
        if status := run(one, task, folder):
            return status
    return 0


if __name__ == "__main__":
    cli.main(flags.define(), program)
