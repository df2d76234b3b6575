"""Evaluates a policy on a log that another one wrote: `python -m scripts.evaluate_policy --log=FILE --policy=...`."""

import pathlib
import sys

import numpy as np

from bandits import registry
from bandits.evaluation import bootstrap, target_policies, terms, totals
from data import interaction_log, log_checks, log_table
from data.errors import UsageError
from optimization.study import cli, files
from scripts.evaluate_policy import estimates, output, run_policy

_USAGE = """
Says what a policy would have earned on a log of another one, with intervals over clients.

  evaluate_policy --log=log.csv --client_column=user --action_column=item --reward_column=click \\
      --propensity_column=p --policy=uniform
  evaluate_policy --log=interactions.parquet --policy=run:runs/mine --bandits_type=greedy

A log that run_federated wrote needs no column.
"""
_COLUMNS = {
    "client_column": "whose row it is; of several, separated by commas, each combination is a client",
    "action_column": "the action that was played",
    "reward_column": "what it earned",
    "propensity_column": "the probability with which it was played there, in (0, 1]",
    "position_column": "a feature that is a category, such as the place on a page",
    "feature_columns": "features, separated by commas (default: all other columns)",
    "category_columns": "features that are categories though their values are numbers",
    "ignore_columns": "columns that are left out",
    "action_names": "actions that could be played too, though no row shows them",
    "missing_values": "texts, separated by commas, that mean a missing value, besides NA, nan, null ...",
}
_NEEDED = ("client_column", "action_column", "reward_column", "propensity_column")
_FIXED = {"clip": "clipped_ips", "tau": "switch_dr", "shrinkage": "dros"}


def define() -> cli.FlagSet:
    """Returns the flags of `evaluate_policy`."""
    flags = cli.FlagSet(_USAGE)
    flags.group("Log")
    flags.path("log", None, "the log: a CSV or Parquet table, or what run_federated wrote")
    for name, help_text in _COLUMNS.items():
        flags.text(name, None, help_text)
    flags.group("Policy")
    flags.text("policy", None, "; ".join(f"{name}: {told}" for name, told in target_policies.KINDS.items()))
    flags.choice("bandits_type", None, list(registry.POLICIES), "exploration on a run's model (default: the run's)")
    flags.parameters(
        "bandits_", "bandits_type", {name: dict(one.parameters) for name, one in registry.POLICIES.items()}
    )
    flags.group("Reward model of DM, DR, SWITCH-DR and DRos")
    flags.switch("model", True, "train one; without it, only weighted estimators are told")
    flags.integer("model_rounds", 100, "rounds of each of the two folds' federated training", low=1)
    flags.integer("model_clients_per_round", 50, "clients of a round", low=1)
    flags.integer("model_epochs", 1, "passes of a client over its rows in a round", low=1)
    flags.integer("model_batch_size", 32, "rows of a mini-batch", low=1)
    flags.number("model_client_learning_rate", 0.1, "of the clients' SGD", above=True)
    flags.number("model_server_learning_rate", 0.02, "of the server's Adam", above=True)
    flags.group("Estimation")
    flags.number("clip", None, "largest weight of clipped IPS (default: SLOPE chooses)")
    flags.number("tau", None, "largest weight at which SWITCH-DR corrects (default: SLOPE chooses)")
    flags.number("shrinkage", None, "lambda of DRos (default: SLOPE chooses)")
    flags.integer("draws", 1000, "draws of the bootstrap over clients, beside the delta method; 0 for none")
    flags.integer("seed", 0, "of the model's training, its folds, and the draws")
    flags.choice(
        "sums",
        "numpy",
        {"numpy": "here, quickly", "tff": "by TensorFlow Federated, at clients of which sums alone travel; the same"},
        "what computes the sums over clients",
    )
    flags.group("Output")
    flags.path("output_dir", "evaluation", "folder for estimates.csv, evaluation.json and evaluation.html")
    return flags


def program(settings: cli.Settings) -> None:
    """Evaluates the policy that the flags name."""
    target, settings = _checked(settings)
    of_run = run_policy.options(target.name) if target.kind == "run" else None
    log = _log(settings, target)
    if of_run:
        exploration = run_policy.exploration(settings, of_run)
        probabilities = run_policy.probabilities(log, target.name, of_run, exploration)
    else:
        probabilities = target_policies.probabilities(target, log)
    has_model = settings.model and probabilities.ndim == 2
    predictions = _predictions(settings, log) if has_model else None
    rows = terms.of_rows(log.clients, log.actions, log.rewards, log.propensities, probabilities, predictions)

    candidates = estimates.paths(has_model, {name: settings[flag] for flag, name in _FIXED.items()})
    layout = estimates.layout(candidates)
    sums, drawn = _sums(settings, log, rows, layout)
    found = estimates.estimates(sums, layout, candidates, drawn)
    findings = [log_checks.mean_inverse_propensity(log), log_checks.duplicates(log)]
    findings += [log_checks.support(log, probabilities)] if probabilities.ndim == 2 else []
    findings += log_checks.overlap(log, rows.weights)
    overlap = totals.overlap(sums)
    told = output.Evaluation(
        log=cli.shown_path(settings.log),
        policy=str(target) + (f" with {settings.bandits_type}" if settings.bandits_type else ""),
        rows=len(log),
        clients=sums.clients,
        actions=len(log.action_names),
        estimates=found,
        effective_sample_size=overlap.effective_sample_size,
        mean_weight=overlap.mean_weight,
        largest_weight=float(rows.weights.max()),
        findings=findings,
        has_model=has_model,
        draws=settings.draws,
    )
    by_client = np.bincount(log.clients, rows.weights, minlength=len(log.client_ids))
    print(output.text(told))
    folder = pathlib.Path(settings.output_dir)
    output.write(told, folder, rows.weights, by_client)
    print(f"\nWritten to {folder}: estimates.csv, evaluation.json, evaluation.html")


def _checked(settings: cli.Settings) -> tuple[target_policies.Target, cli.Settings]:
    """Refuses flags that do not go together, before anything is read."""
    if not settings.log:
        raise UsageError("--log is missing: name the log, a CSV or Parquet file.")
    if not pathlib.Path(settings.log).is_file():
        raise UsageError(f"--log: there is no file {settings.log}.")
    if not settings.policy:
        raise UsageError(f"--policy is missing: give {', '.join(target_policies.KINDS)}.")
    kind, _, name = settings.policy.partition(":")
    target = target_policies.parse(f"run:{cli.user_path(name)}" if kind == "run" and name else settings.policy)
    parameters = [name for name in settings.given if name.startswith("bandits_")]
    if parameters and target.kind != "run":
        raise UsageError(f"--{min(parameters)} is the exploration of a run's model: give --policy=run:FOLDER.")
    if parameters and "bandits_type" not in parameters:
        raise UsageError(f"--{min(parameters)} belongs to an exploration: give --bandits_type as well.")
    folder = pathlib.Path(settings.output_dir)
    files.check_output("output_dir", folder.parent / "evaluation.json" if not folder.exists() else folder / "a.json")
    return target, settings.settled()


def _log(settings: cli.Settings, target: target_policies.Target) -> interaction_log.InteractionLog:
    """Reads the log.

    Raises:
      UsageError: If it is none, or what is wrong with it.
    """
    if interaction_log.is_own(settings.log):
        log = interaction_log.read(settings.log)
        log_checks.check_random(log.propensities, settings.log)
        return log
    if missing := [f"--{name}" for name in _NEEDED if not settings[name]]:
        raise UsageError(f"{' and '.join(missing)}: name these columns of --log, which run_federated did not write.")
    names = [name for name in _COLUMNS if name != "missing_values"]
    wanted = log_table.Wanted(
        **{name: settings[name] for name in names},
        probability_columns=target.name if target.kind == "column" else None,
    )
    known = run_policy.known_statistics(target.name) if target.kind == "run" else None
    reads = settings.model or target.kind == "run"
    return log_table.read(
        settings.log, wanted, missing_values=settings.missing_values, known=known, with_contexts=reads
    )


def _predictions(settings: cli.Settings, log: interaction_log.InteractionLog) -> np.ndarray:
    """Returns what cross-fitted reward models predict, float64 [rows, actions]; imports TensorFlow Federated."""
    from optimization.runtime import worker_process

    with worker_process.importing():
        from bandits.evaluation import reward_models
        from optimization import options
        from optimization.runtime import worker

    worker.start()
    regression = reward_models.Regression(
        seed=settings.seed,
        rounds=settings.model_rounds,
        clients_per_round=settings.model_clients_per_round,
        epochs=settings.model_epochs,
        batch_size=settings.model_batch_size,
        learning_rate=settings.model_client_learning_rate,
        server_optimizer=options.ServerOptimizer("adam", settings.model_server_learning_rate),
    )
    total = 2 * settings.model_rounds

    def tell(done: int) -> None:
        if sys.stderr.isatty():
            print(f"\rReward model: round {done} of {total}", end="\n" if done == total else "", file=sys.stderr)

    return reward_models.cross_fitted(
        log.client_ids,
        log.clients,
        log.contexts,
        log.actions,
        log.rewards,
        len(log.action_names),
        regression,
        on_round=tell,
    )


def _sums(
    settings: cli.Settings, log: interaction_log.InteractionLog, rows: terms.Terms, layout: totals.Layout
) -> tuple[totals.Sums, np.ndarray | None]:
    """Returns the sums over clients, and the totals of the bootstrap's draws, if there are any."""
    if settings.sums == "tff":
        from optimization.runtime import worker_process

        with worker_process.importing():
            from bandits.evaluation import federated
            from optimization.runtime import worker

        worker.start()
        inputs = federated.client_inputs(rows, log.client_ids, seed=settings.seed, draws=settings.draws)
        sums, by_tff = federated.sums(inputs, layout)
        return sums, by_tff if settings.draws else None
    own = totals.of_clients(rows.clients, layout.columns(rows))
    names = totals.present(rows.clients, log.client_ids)
    drawn = bootstrap.drawn_totals(own, names, settings.seed, settings.draws) if settings.draws else None
    return totals.summed(own), drawn
