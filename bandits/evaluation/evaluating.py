"""Evaluates a policy on a log: reads the log, then prints and writes the estimates."""

import dataclasses
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

from bandits import interactions
from bandits.evaluation import betting, bounds, estimates, output, reward_models, target_policies
from bandits.evaluation import private as private_lib
from bandits.evaluation.estimators import KINDS, terms_of_log
from bandits.evaluation.target_policies import Target
from data import files, interaction_log, log_checks, log_table, log_time
from data.errors import UsageError
from data.log_checks import Finding
from data.reward_bounds import UNIT
from data.schema import Schema
from optimization.privacy import ledger
from optimization.study import cli

MODEL_ESTIMATORS = frozenset(name for name, kind in KINDS.items() if kind.needs_model)
_REQUIRED_COLUMNS = ("client_column", "action_column", "reward_column", "propensity_column")
_SETS = "Available actions vary by row (column {!r}), so the mean of 1 / propensity is not checked."
LEARNED = "The policy is a model that was trained on this log, so its estimates are optimistically biased."


def evaluate(settings: cli.Settings, target: Target, models: Sequence[ledger.Spent]) -> list[dict[str, Any]]:
    """Evaluates a policy, and prints, writes and returns the results.

    Args:
      settings: The flags of `evaluate_policy`. If set, `output_dir` gets the results, and `save_log` the log.
      target: The policy.
      models: Models whose privacy loss a private evaluation counts; see `private.models`.

    Returns:
      The rows of `estimates.csv`.

    Raises:
      UsageError: If flags conflict with the log or the policy, or the log is invalid.
    """
    asked = estimates.names(settings.estimators)
    has_model = settings.model and target.has_each_probability and not settings.private
    has_model = has_model and (not asked or bool(MODEL_ESTIMATORS & set(asked)))
    of_run = target_policies.options_of_run(target.name) if target.kind == "run" else None
    is_runs = interactions.is_logged(settings.log) or interaction_log.is_log_file(settings.log)
    betting.check(settings, target, is_runs=is_runs)
    with_contexts = has_model or of_run is not None or settings.save_log is not None
    with_contexts = with_contexts or (target.kind == "logged" and not settings.private)  # To check features.
    log = _read(settings, target, is_runs=is_runs, with_contexts=with_contexts)
    if settings.save_log:
        with files.whole(pathlib.Path(settings.save_log), 0o600) as file:
            report = {**log.report, betting.COHORTS: betting.cohorts(settings.log)} if is_runs else log.report
            interaction_log.write(dataclasses.replace(log, report=report), file)
    if of_run:
        probabilities = target_policies.of_final_model(log, target.name, of_run, settings)
    else:
        probabilities = target_policies.probabilities(target, log)
    log, reward_bounds = bounds.mapped_rewards(settings, log)
    policy, unit = str(target), reward_bounds or UNIT
    policy += f" with {settings.bandits_type}" if settings.bandits_type else ""
    if settings.private:
        for finding in log_checks.public(log):
            print(f"{'Warning: ' * finding.is_warning}{finding.text}", file=sys.stderr)
        return private_lib.evaluate(settings, models, policy, log, probabilities)
    sets = log.report.get("action_sets") if probabilities.ndim == 1 else None
    if sets:  # Only the probability of the logged action is needed.
        log = dataclasses.replace(log, report={**log.report, "action_sets": None})
    weights = terms_of_log(log, probabilities).weights
    validity = log_checks.check(log, weights if weights.any() and target.kind != "logged" else None)
    refusal = validity if validity.is_warning and target.kind != "logged" else None
    has_model = has_model and refusal is None
    rows = terms_of_log(log, probabilities, reward_models.predictions(settings, log) if has_model else None)
    sequence = None
    if settings.anytime and (not refusal or refusal.name == log_checks.COLUMNS):
        sequence = betting.of_log(settings, log, rows, unit, is_runs=is_runs)
    asked = None if refusal and asked and MODEL_ESTIMATORS.issuperset(asked) else asked
    parameters = {kind.parameter: settings[kind.parameter] for kind in KINDS.values() if kind.parameter}
    chosen = estimates.chosen(has_model, parameters, asked)
    chosen = [] if refusal and refusal.name == log_checks.ACTION_SETS else chosen
    few_clients, by_bootstrap = estimates.few_clients(rows, settings.draws)
    few, few_outcomes = betting.few_outcomes(rows, reward_bounds) or (None, None)
    sampling = {"seed": settings.seed, "draws": settings.draws, "by_bootstrap": by_bootstrap}
    results = estimates.estimates(rows, chosen, log.client_ids, few=few, **sampling)
    inverse = Finding("sets of actions", False, _SETS.format(sets)) if sets else log_checks.mean_inverse_propensity(log)
    findings = [*log_checks.reading(log), validity, inverse, log_checks.duplicates(log)]
    findings += [Finding(*checked)] if (checked := log.report.get("propensity_columns")) else []
    findings += [Finding("policy", True, LEARNED)] if betting.is_own_model(settings.log, target) else []
    findings += target_policies.where_not_offered(target, log)
    findings += [log_checks.support(log, probabilities)] if probabilities.ndim == 2 else []
    findings += [*log_checks.overlap(log, weights), *filter(None, [few_clients, few_outcomes])]
    if headline := estimates.headline(results):
        (estimator,) = [each for each in chosen if each.name == headline[0].name]
        findings += estimates.findings_on_changes(rows, log_time.of_log(log), estimator, policy, unit)
    evaluation = output.Evaluation(
        settings=settings,
        log=log,
        policy=policy,
        estimates=[each.in_unit_of(unit) for each in results],
        rows=rows,
        findings=findings,
        refusal=refusal,
        has_model=has_model,
        anytime=sequence,
        reward_bounds=reward_bounds,
    )
    print(output.text(evaluation))
    if settings.output_dir:
        output.write(evaluation)
    return [each.row() for each in evaluation.estimates]


def _read(
    settings: cli.Settings, target: Target, *, is_runs: bool, with_contexts: bool
) -> interaction_log.InteractionLog:
    """Reads the log.

    Raises:
      UsageError: If the log is invalid.
    """
    if is_runs:
        log_time.check_has_columns(settings, cli.shown_path(settings.log))
    if interactions.is_logged(settings.log):
        run = interactions.read_run(settings.log)
        if run.options.bandit.policy == "linucb":
            raise UsageError(f"{settings.log}: LinUCB is deterministic, so its log says nothing about other actions.")
        log_checks.check_random(run.log.propensities, settings.log)  # Before the run's task is read.
        return run.with_contexts().log if with_contexts or run.log.report.get(interactions.SETS) else run.log
    if is_runs:
        log = interaction_log.read(settings.log)
        log_checks.check_random(log.propensities, settings.log)
        return log
    instead = {"propensity_column": settings.propensity_columns, "action_column": settings.chosen_column}
    if missing := [f"--{name}" for name in _REQUIRED_COLUMNS if not (settings[name] or instead.get(name))]:
        raise UsageError(f"Name the columns of --log, because run_federated did not write it: {' and '.join(missing)}.")
    columns = Schema(
        **{field.name: settings[field.name] for field in dataclasses.fields(Schema) if field.name in settings},
        probability_columns=target.name if target.kind == "column" else None,
        file_flag="--log",
    )
    known = target_policies.known_statistics(target.name) if target.kind == "run" else None
    log = log_table.read(settings.log, columns, known=known, with_contexts=with_contexts)
    if target.run:  # The columns with the predictions do not come from the user.
        columns_of_user = [column for column in log.report["columns"] if column["use"] != "policy"]
        log = dataclasses.replace(log, report={**log.report, "columns": columns_of_user, "policy_columns": {}})
    return log
