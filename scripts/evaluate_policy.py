"""Evaluates a policy on a log that another one wrote: `python -m scripts.evaluate_policy --log=FILE --policy=...`."""

if __name__ == "__main__":  # Before the imports, which take seconds.
    from optimization.study import interruption

    interruption.install()

import dataclasses
import pathlib
import re

import numpy as np

from bandits import interactions, registry
from bandits.evaluation import (
    anytime,
    bootstrap,
    bound_flags,
    estimates,
    output,
    private_evaluation,
    reward_model,
    run_policy,
    target_policies,
    terms,
    totals,
)
from data import files, interaction_log, log_checks, log_table, schema
from data.errors import UsageError
from optimization.study import cli
from optimization.study.settings import declared, names, parameters, setting, title

_USAGE = """
Says what a policy would have earned on a log of another one, with intervals over clients.

  evaluate_policy --log=log.csv --client_column=user --action_column=item --reward_column=click \\
      --propensity_column=p --policy=uniform
  evaluate_policy --log=runs/mine --policy=run:runs/mine --bandits_type=greedy
  evaluate_policy --log=runs/mine --policy=logged

A log that run_federated wrote (--log_interactions), of a run's folder, or what --save_log wrote, needs no column.
"""
_FOLDER = "evaluation"
_MOST_DRAWS = 100_000  # A client keeps a byte for each.
_NEEDED = ("client_column", "action_column", "reward_column", "propensity_column")
_LEARNED = (
    "The policy is a model that was trained on this log, where it looks better than it is; no interval knows of that."
)
_NEEDING = frozenset(("dm", "dr", "switch_dr", "dros"))  # Estimators that read a reward model.


class _Log:
    """Log.

    Attributes:
      log: The log: a CSV or Parquet table, or the folder of a run, or what it wrote.
    """

    log: pathlib.Path = setting(basic=True)


class _Columns:
    """Columns.

    Attributes:
      client_column: Whose row it is; of several, separated by commas, each combination is a client.
      action_column: The action that was taken.
      reward_column: What it earned.
      propensity_column: The probability with which it was taken there, in (0, 1].
      round_column: The round, a whole number, after which --anytime looks.
      period_column: The deployment period, likewise; --anytime then looks after each, where clients act once in one.
      position_column: A feature that is a category, such as the place on a page.
      feature_columns: Features, separated by commas (default: all other columns).
      category_columns: Features that are categories though their values are numbers.
      ignore_columns: Columns that are left out.
      action_names: Actions that could be taken too, though no row shows them.
      missing_values: Texts, separated by commas, that mean a missing value, besides NA, nan, null ....
    """

    client_column: str = setting(basic=True)
    action_column: str = setting(basic=True)
    reward_column: str = setting(basic=True)
    propensity_column: str = setting(basic=True)
    round_column: str = setting()
    period_column: str = setting()
    position_column: str = setting()
    feature_columns: str = setting()
    category_columns: str = setting()
    ignore_columns: str = setting()
    action_names: str = setting()
    missing_values: str = setting()


class _Policy:
    """Policy.

    Attributes:
      policy: What is evaluated.
      bandits_type: Exploration on a run's model (default: the run's).
    """

    policy: str = setting(basic=True)
    bandits_type: str = setting()


class _Estimation:
    """Estimation.

    Attributes:
      estimators: Which, separated by commas, of logged, ips, snips, clipped_ips, dm, dr, switch_dr and dros (default:
        ips, snips, and with a model dm and dr; with --private, ips and snips, and dr with --model_noise_multiplier).
      clip: Largest weight of clipped IPS; without it, --estimators=clipped_ips has SLOPE choose.
      tau: Largest weight at which SWITCH-DR corrects; without it, --estimators=switch_dr has SLOPE choose.
      shrinkage: Lambda of DRos; without it, --estimators=dros has SLOPE choose.
      draws: Draws of the bootstrap over clients, beside the delta method; 0 for none.
      seed: Of the model's training, its folds, and the draws.
      sums: What computes the sums over clients.
    """

    estimators: str = setting(basic=True)
    clip: float = setting()
    tau: float = setting()
    shrinkage: float = setting()
    draws: int = setting(1000, high=_MOST_DRAWS, only={"private": False})
    seed: int = setting(0, basic=True)
    sums: str = setting(
        "numpy",
        {"numpy": "here, quickly", "tff": "by TensorFlow Federated, at clients of which sums alone travel; the same"},
        only={"private": False},
    )


class _Output:
    """Output.

    Attributes:
      save_log: Also write the log, with contexts, as one Parquet file, for --task_type=logged.
      output_dir: Folder for estimates.csv, evaluation.json and evaluation.html; one that holds an evaluation is refused
        (default: evaluation/POLICY).
    """

    save_log: pathlib.Path = setting(only={"private": False}, basic=True)
    output_dir: pathlib.Path = setting(basic=True)


def define() -> cli.FlagSet:
    """Returns the flags of `evaluate_policy`."""
    flags = cli.FlagSet(_USAGE)
    flags.group(_Log, _Columns)
    # What a schedule makes of epsilon or gamma is a number here: a final model has one policy.
    constant = {name: dict(one.parameters) for name, one in registry.POLICIES.items() if not one.schedule}
    kinds = "; ".join(f"{name}: {told}" for name, told in target_policies.KINDS.items())
    policies = declared(_Policy, policy={"help": kinds}, bandits_type={"type": list(constant)})
    flags.group("Policy", *policies, *parameters("bandits_", "bandits_type", constant))
    model = declared(reward_model.RewardModel, model_noise_multiplier={"only": {"private": True}})
    flags.group(title(reward_model.RewardModel), *model)
    flags.group(_Estimation)
    bound_flags.define(flags)
    flags.group(_Output)
    return flags


def program(settings: cli.Settings) -> None:
    """Evaluates the policy that the flags name."""
    target, settings = _checked(settings)
    private = private_evaluation.plan(settings, target)
    reads_model = private.needs_model if private else _reads_model(settings, target)
    of_run = run_policy.options(target.name) if target.kind == "run" else None
    is_runs = _is_runs(settings)
    anytime.check(settings, target, is_runs=is_runs)
    by_models = target.kind == "logged" and private is None  # Propensities alone say the same, of no other client.
    reads = reads_model or target.kind == "run" or by_models or settings.save_log is not None
    log, logged_run = _log(settings, target, is_runs=is_runs, with_contexts=reads)
    if settings.save_log:
        with files.whole(pathlib.Path(settings.save_log), 0o600) as file:
            report = {**log.report, anytime.COHORTS: anytime.cohorts(settings.log)} if is_runs else log.report
            interaction_log.write(dataclasses.replace(log, report=report), file)
    if logged_run and by_models:
        from bandits.evaluation import run_policies

        probabilities = run_policies.of_periods(logged_run)
    elif of_run:
        exploration = run_policy.exploration(settings, of_run)
        probabilities = run_policy.probabilities(log, target.name, of_run, exploration)
    else:
        probabilities = target_policies.probabilities(target, log)
    policy = str(target) + (f" with {settings.bandits_type}" if settings.bandits_type else "")
    if private:
        private_evaluation.evaluate(settings, private, policy, log, probabilities)
    else:
        _evaluate(settings, target, policy, log, probabilities, has_model=reads_model, is_runs=is_runs)


def _evaluate(
    settings: cli.Settings,
    target: target_policies.Target,
    policy: str,
    log: interaction_log.InteractionLog,
    probabilities: np.ndarray,
    *,
    has_model: bool,
    is_runs: bool,
) -> None:
    """Tells all there is to tell, with nothing held back."""
    predictions = reward_model.predictions(settings, log) if has_model else None
    rows = terms.of_rows(log.clients, log.actions, log.rewards, log.propensities, probabilities, predictions)
    sequence, of_sequence = anytime.sequence(settings, log, rows, is_runs=is_runs) if settings.anytime else (None, ())
    candidates = estimates.paths(has_model, {name: settings[flag] for flag, name in estimates.FIXED.items()})
    asked = estimates.names(settings.estimators)  # Without names, none that SLOPE would have to choose.
    candidates = {
        name: path for name, path in candidates.items() if (len(path) == 1 if asked is None else name in asked)
    }
    layout = estimates.layout(candidates)
    sums, drawn = _sums(settings, log, rows, layout)
    sizes = np.bincount(log.clients, minlength=len(log.client_ids)).astype(float)
    by_client = np.bincount(log.clients, rows.weights, minlength=len(log.client_ids))
    few, by_bootstrap = estimates.few_clients(sizes, by_client, settings.draws)
    largest_weight = float(rows.weights.max())
    found = estimates.estimates(
        sums, layout, candidates, drawn, largest_weight=largest_weight, by_bootstrap=by_bootstrap
    )
    findings = [*log_checks.dropped(log), log_checks.mean_inverse_propensity(log), log_checks.duplicates(log)]
    findings += [log_checks.Finding("policy", True, _LEARNED)] if anytime.is_own_model(settings.log, target) else []
    findings += [log_checks.support(log, probabilities)] if probabilities.ndim == 2 else []
    findings += log_checks.overlap(log, rows.weights)
    findings += [few] if few else []
    overlap = totals.overlap(sums)
    told = output.Evaluation(
        log=cli.shown_path(settings.log),
        policy=policy,
        rows=len(log),
        clients=sums.clients,
        actions=len(log.action_names),
        estimates=found,
        effective_sample_size=overlap.effective_sample_size,
        mean_weight=overlap.mean_weight,
        largest_weight=largest_weight,
        findings=findings,
        has_model=has_model,
        draws=settings.draws,
        anytime=sequence,
        of_anytime=of_sequence,
    )
    print(output.text(told))
    folder = pathlib.Path(settings.output_dir)
    output.write(told, folder, rows.weights, by_client)
    print(f"\nWritten to {cli.shown_path(str(folder))}: {', '.join(output.FILES)}")


def _reads_model(settings: cli.Settings, target: target_policies.Target) -> bool:
    """Returns whether a reward model is trained."""
    asked = estimates.names(settings.estimators)
    return settings.model and _tells_each_action(target) and (asked is None or bool(_NEEDING.intersection(asked)))


def _tells_each_action(target: target_policies.Target) -> bool:
    """Returns whether a policy tells the probability of each action, which a model's value needs."""
    return target.kind != "logged" and (target.kind != "column" or len(schema.listed(target.name)) > 1)


def _checked(settings: cli.Settings) -> tuple[target_policies.Target, cli.Settings]:
    """Refuses flags that do not go together, before anything is read."""
    if not settings.log:
        raise UsageError("--log is missing: name the log, a CSV or Parquet file.")
    if not pathlib.Path(settings.log).is_file() and not interactions.is_logged(settings.log):
        raise UsageError(f"--log: there is no file {settings.log}, nor is it the folder of a run with a log.")
    if interactions.is_part(settings.log):
        folder = pathlib.Path(settings.log).parent.parent
        raise UsageError(f"--log: {settings.log} is a part of a run's log: give the run's folder, {folder}.")
    if settings.save_log:
        files.check_output("save_log", pathlib.Path(settings.save_log))
        if _is_same(settings.save_log, settings.log) or interactions.is_part(settings.save_log):
            raise UsageError(f"--save_log: {settings.save_log} holds the log that is read: name another file.")
    if not settings.policy:
        raise UsageError(f"--policy is missing: give {', '.join(target_policies.KINDS)}.")
    kind, _, name = settings.policy.partition(":")
    target = target_policies.parse(f"run:{cli.user_path(name)}" if kind == "run" and name else settings.policy)
    parameters = [name for name in settings.given if name.startswith("bandits_")]
    if parameters and target.kind != "run":
        raise UsageError(f"--{min(parameters)} is the exploration of a run's model: give --policy=run:FOLDER.")
    if parameters and "bandits_type" not in parameters:
        raise UsageError(f"--{min(parameters)} belongs to an exploration: give --bandits_type as well.")
    if needing := _NEEDING.intersection(estimates.names(settings.estimators) or ()):
        if not settings.model:
            raise UsageError(f"--estimators: {min(needing)} needs a reward model: leave out --nomodel.")
        if not _tells_each_action(target):
            raise UsageError(
                f"--estimators: {min(needing)} needs the probability of each action, and --policy={target} names one "
                "column: name one of each action."
            )
    folder = pathlib.Path(settings.output_dir or cli.user_path(f"{_FOLDER}/{_name(target, settings)}"))
    there = folder if folder.exists() else folder.parent
    if not settings.output_dir and not there.exists():
        there = there.parent  # Without the flag, both are made.
    files.check_output("output_dir", there / "a.json")
    for name in output.FILES:
        if _is_same(folder / name, settings.log):
            raise UsageError(f"--output_dir: {folder / name} is the log that is read: name another folder.")
    output.check_new(folder)
    return target, settings.settled().replace(output_dir=str(folder))


def _name(target: target_policies.Target, settings: cli.Settings) -> str:
    """Returns the name of a policy's folder, such as `constant_gift` or `uniform_private`."""
    name = pathlib.Path(target.name).name if target.kind == "run" else target.name
    words = (target.kind, name, settings.bandits_type, "private" if settings.private else "")
    return re.sub(r"[^A-Za-z0-9.-]+", "_", "_".join(filter(None, words)))[:100]


def _is_same(first: str | pathlib.Path, second: str | pathlib.Path) -> bool:
    return pathlib.Path(first).resolve() == pathlib.Path(second).resolve()


def _is_runs(settings: cli.Settings) -> bool:
    """Returns whether a run wrote the log."""
    return interactions.is_logged(settings.log) or interaction_log.is_own(settings.log)


def _log(
    settings: cli.Settings, target: target_policies.Target, *, is_runs: bool, with_contexts: bool
) -> tuple[interaction_log.InteractionLog, interactions.LoggedRun | None]:
    """Reads the log, and the run whose folder it is, if it is one's.

    Raises:
      UsageError: If it is none, or what is wrong with it.
    """
    if is_runs:
        if interactions.is_logged(settings.log):
            found = interactions.read_run(settings.log, with_contexts=False)
            log_checks.check_random(found.log.propensities, settings.log)  # Before its task is read.
            found = found.with_contexts() if with_contexts else found
            return found.log, found
        log = interaction_log.read(settings.log)
        log_checks.check_random(log.propensities, settings.log)
        return log, None
    if missing := [f"--{name}" for name in _NEEDED if not settings[name]]:
        raise UsageError(f"{' and '.join(missing)}: name these columns of --log, which run_federated did not write.")
    wanted = schema.Schema(
        **{name: settings[name] for name in names(_Columns)},
        probability_columns=target.name if target.kind == "column" else None,
        file_flag="--log",
    )
    known = run_policy.known_statistics(target.name) if target.kind == "run" else None
    log = log_table.read(settings.log, wanted, known=known, with_contexts=with_contexts)
    return log, None


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
    return totals.summed(own, layout.ratios), drawn


if __name__ == "__main__":
    cli.main(define(), program)
