"""Evaluates a policy on a log: reads the log, and prints and writes the estimates."""

import dataclasses
import pathlib
import sys
from typing import Any

import numpy as np

from bandits import interactions
from bandits.evaluation import (
    anytime,
    bounds,
    change,
    estimates,
    finite_sample,
    output,
    reward_models,
    target_policies,
    totals,
)
from bandits.evaluation import private as private_lib
from bandits.evaluation.estimators import KINDS, Terms, terms_of_log
from bandits.evaluation.target_policies import Target
from data import files, interaction_log, log_checks, log_time
from data.errors import UsageError
from data.log_checks import Finding
from data.reward_bounds import UNIT
from data.schema import Schema
from optimization.study import cli

MODEL_ESTIMATORS = frozenset(name for name, kind in KINDS.items() if kind.needs_model)
_REQUIRED_COLUMNS = ("client_column", "action_column", "reward_column", "propensity_column")
_SETS = "Each row has its own set of available actions, in column {!r}: 1 / propensity has no expectation to check."
LEARNED = "The policy is a model that was trained on this log, so its estimates are optimistically biased."


def evaluate(settings: cli.Settings, target: Target, private: private_lib.Plan | None) -> list[dict[str, Any]]:
    """Evaluates a policy, and prints, writes and returns the results.

    Args:
      settings: The flags of `evaluate_policy`. Nothing is written without `output_dir`.
      target: The policy.
      private: Settings of a private evaluation; None without `--private`.

    Returns:
      The rows of `estimates.csv`.

    Raises:
      UsageError: If flags conflict with the log or the policy, or the log is invalid.
    """
    asked = estimates.names(settings.estimators)
    has_model = settings.model and target.has_each_probability and (not asked or bool(MODEL_ESTIMATORS & set(asked)))
    has_model = private.needs_model if private else has_model
    of_run = target_policies.options_of_run(target.name) if target.kind == "run" else None
    is_runs = interactions.is_logged(settings.log) or interaction_log.is_log_file(settings.log)
    anytime.check(settings, target, is_runs=is_runs)
    by_models = target.kind == "logged" and private is None  # Propensities alone say the same, of no other client.
    with_contexts = has_model or of_run is not None or by_models or settings.save_log is not None
    log, run = _read(settings, target, is_runs=is_runs, with_contexts=with_contexts)
    if settings.save_log:
        with files.whole(pathlib.Path(settings.save_log), 0o600) as file:
            report = {**log.report, anytime.COHORTS: anytime.cohorts(settings.log)} if is_runs else log.report
            interaction_log.write(dataclasses.replace(log, report=report), file)
    if run and by_models:
        chosen = target_policies.of_each_period(run)
    elif of_run:
        chosen = target_policies.of_final_model(log, target.name, of_run, settings)
    else:
        chosen = target_policies.probabilities(target, log)
    log, reward_bounds = bounds.mapped_rewards(settings, log)
    policy, unit = str(target), reward_bounds or UNIT
    policy += f" with {settings.bandits_type}" if settings.bandits_type else ""
    if private:
        for finding in log_checks.public(log):
            print(f"{'Warning: ' * finding.is_warning}{finding.text}", file=sys.stderr)
        return private_lib.evaluate(settings, private, policy, log, chosen)
    sets = log.report.get("action_sets") if chosen.ndim == 1 else None
    if sets:  # The probability of the logged action is all that is needed.
        log = dataclasses.replace(log, report={**log.report, "action_sets": None})
    weights = terms_of_log(log, chosen).weights
    validity = log_checks.check(log, weights if weights.any() and target.kind != "logged" else None)
    refusal = validity if validity.is_warning and target.kind != "logged" else None
    has_model = has_model and refusal is None
    rows = terms_of_log(log, chosen, reward_models.predictions(settings, log) if has_model else None)
    sequence = None
    if settings.anytime and (not refusal or refusal.name == log_checks.COLUMNS):
        sequence = anytime.of_log(settings, log, rows, unit, is_runs=is_runs)
    asked = None if refusal and asked and MODEL_ESTIMATORS.issuperset(asked) else asked
    paths = estimates.paths(has_model, {name: settings[flag] for flag, name in estimates.FIXED.items()}, asked)
    paths = {} if refusal and refusal.name == log_checks.ACTION_SETS else paths
    layout = estimates.layout(paths)
    sums, drawn = _sums(settings, log, rows, layout)
    few_clients, by_bootstrap = estimates.few_clients(rows, settings.draws)
    few, largest_weight = finite_sample.find(rows, reward_bounds), float(weights.max())
    results = estimates.estimates(
        sums, layout, paths, drawn, largest_weight=largest_weight, by_bootstrap=by_bootstrap, few=few
    )
    inverse = Finding("sets of actions", False, _SETS.format(sets)) if sets else log_checks.mean_inverse_propensity(log)
    findings = [*log_checks.reading(log), validity, inverse, log_checks.duplicates(log)]
    findings += [Finding(*checked)] if (checked := log.report.get("propensity_columns")) else []
    findings += [Finding("policy", True, LEARNED)] if anytime.is_own_model(settings.log, target) else []
    findings += [log_checks.support(log, chosen)] if chosen.ndim == 2 else []
    findings += [*log_checks.overlap(log, weights), *filter(None, [few_clients])]
    findings += [finite_sample.finding(few, reward_bounds)] if few else []
    if headline := estimates.headline(results):
        findings += change.findings(rows, log_time.of_log(log), paths[headline[0].name][0], policy, unit)
    evaluation = output.Evaluation(
        name=output.shown_log(settings.log),
        log=log,
        policy=policy,
        estimates=[one.in_unit_of(unit) for one in results],
        rows=rows,
        findings=findings,
        refusal=refusal,
        has_model=has_model,
        draws=settings.draws,
        anytime=sequence,
        reward_bounds=reward_bounds,
    )
    print(output.text(evaluation))
    if settings.output_dir:
        output.write(evaluation, settings.output_dir)
    return [estimate.row() for estimate in evaluation.estimates]


def _read(
    settings: cli.Settings, target: Target, *, is_runs: bool, with_contexts: bool
) -> tuple[interaction_log.InteractionLog, interactions.LoggedRun | None]:
    """Reads the log, and its run if it is the folder of one.

    Raises:
      UsageError: If the log is invalid.
    """
    if is_runs:
        log_time.check_has_columns(settings, cli.shown_path(settings.log))
    if interactions.is_logged(settings.log):
        run = interactions.read_run(settings.log)
        log_checks.check_random(run.log.propensities, settings.log)  # Before its task is read.
        run = run.with_contexts() if with_contexts else run
        return run.log, run
    if is_runs:
        log = interaction_log.read(settings.log)
        log_checks.check_random(log.propensities, settings.log)
        return log, None
    instead = {"propensity_column": settings.propensity_columns}
    if missing := [f"--{name}" for name in _REQUIRED_COLUMNS if not (settings[name] or instead.get(name))]:
        raise UsageError(f"{' and '.join(missing)}: name these columns of --log, which run_federated did not write.")
    columns = Schema(
        **{field.name: settings[field.name] for field in dataclasses.fields(Schema) if field.name in settings},
        probability_columns=target.name if target.kind == "column" else None,
        file_flag="--log",
    )
    known = target_policies.known_statistics(target.name) if target.kind == "run" else None
    log = interaction_log.read_table(settings.log, columns, known=known, with_contexts=with_contexts)
    if target.run:  # The user knows nothing of the columns that hold its predictions.
        columns_of_user = [column for column in log.report["columns"] if column["use"] != "policy"]
        log = dataclasses.replace(log, report={**log.report, "columns": columns_of_user, "policy_columns": {}})
    return log, None


def _sums(
    settings: cli.Settings, log: interaction_log.InteractionLog, rows: Terms, layout: totals.Layout
) -> tuple[totals.Sums, np.ndarray | None]:
    """Sums over clients, and the totals of the bootstrap samples, if there are any."""
    if settings.sums == "tff":
        from optimization.runtime import worker_process

        with worker_process.importing():
            from bandits.evaluation import federated
            from optimization.runtime import worker

        worker.start()
        inputs = federated.client_inputs(rows, log.client_ids, seed=settings.seed, draws=settings.draws)
        sums, by_tff = federated.sums(inputs, layout)
        return sums, by_tff if settings.draws else None
    by_client = totals.of_clients(rows.clients, layout.columns(rows))
    names = totals.present(rows.clients, log.client_ids)
    drawn = totals.drawn_totals(by_client, names, settings.seed, settings.draws) if settings.draws else None
    return totals.summed(by_client, layout.ratios), drawn
