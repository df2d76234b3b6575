"""A private evaluation: checks of its flags, its cost, its single release, and its output.

If the policy is a run's model that was trained on the same clients, that model counts as a release too, and its
guarantee is composed with the evaluation's. All bounds are fixed in advance. Nothing else about the log may be shown,
so most checks of a log are skipped.
"""

import dataclasses
import hashlib
import math
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from bandits.evaluation import betting, output, private_sums
from bandits.evaluation import bounds as bounds_lib
from bandits.evaluation.estimators import KINDS, terms_of_log
from bandits.evaluation.private_sums import Answer, Value
from bandits.evaluation.target_policies import Target
from data import interaction_log, log_checks, log_time
from data.errors import UsageError
from data.log_checks import Finding
from data.reward_bounds import UNIT
from optimization.privacy import calibration, ledger, mechanisms
from optimization.study import cli, run_folder

_RELEASE = "client sums of a log"
_COVERS = (
    "the values and intervals of these queries, but neither the log itself (--log_interactions), which is as sensitive "
    "as the data, nor anything else that is computed from it"
)
_ASSUMED = (
    "neighbouring logs differ only in the rows of one client: its influence on other clients' rows, through the models "
    "that acted, is covered by the guarantee of the run that wrote the log",
    "the number of clients, and the names and number of the actions, are public",
    "target policies and all bounds were chosen without querying these clients, except for the queries counted above",
    "the generator's output is treated as truly random, and floating-point numbers as real numbers",
)
_ROUNDING = 1.005  # A propensity may be written with few digits.
_ABOVE = (
    "With correct propensities its expectation is at most 1, so the propensities are wrong: they are too small, or "
    "belong to actions other than the chosen ones."
)
_BELOW = (
    "Its expectation is 1 if every action was possible in every row and no weight exceeds --largest_weight. Otherwise, "
    "actions were impossible or rare in some rows, or propensities are too large."
)
_FEW = (
    f"Finite-sample intervals (Hoeffding): the noised sums do not show that at least {betting.FEW} effective clients "
    "have a reward above the smallest possible one, and that as many have a reward below the largest."
)


def models(settings: cli.Settings, target: Target) -> list[ledger.Spent]:
    """Checks the flags of private and anytime-valid values; returns the models that count as releases on the clients.

    Raises:
      UsageError: If a flag is missing, would break privacy, or has no effect.
    """
    bounds_lib.check(settings)
    if not settings.private:
        return []
    if settings.reward_window and not settings.log_until:
        raise UsageError("--private: --reward_window needs --log_until, as the log's latest time reveals one client.")
    run = target.name if target.kind == "run" else target.run
    if not run and "policy_is_public" in settings.set_by_user:
        raise UsageError("--policy_is_public has an effect only with --policy=run:FOLDER.")
    if not run or settings.policy_is_public:
        return []
    # A training run is identified by its model, because its folder may have been renamed or copied.
    digest = hashlib.sha256(run_folder.find_model(run).read_bytes()).hexdigest()[:12]
    what = f"the model {digest} of run {pathlib.Path(run).name}"
    spent = ledger.Spent(what, *mechanisms.load(pathlib.Path(run) / "privacy.json"))
    if reason := spent.mechanism.reason:
        raise UsageError(
            f"--private: {what} was trained on clients without a privacy guarantee, because {reason}: train it with "
            "differential privacy, or declare that none of its clients needs protection (--policy_is_public)."
        )
    return [spent]


def mechanism(clients: int, noise_multiplier: float, **others: Any) -> mechanisms.Mechanism:
    """Privacy accounting of one release.

    Args:
      clients: Number of clients in the log, which is public.
      noise_multiplier: Standard deviation of the noise on each number in the sum, as a multiple of the clip norm.
      **others: Other fields of `mechanisms.Mechanism`: `delta` (default: 1 / clients^1.1) and `accountant`.
    """
    # Every query includes all clients, so nothing is sampled, and removing a client does not change the others.
    return mechanisms.Mechanism("dpsgd", noise_multiplier, clients, clients, "cyclic", **others)


def calibrated(
    mechanism: mechanisms.Mechanism, looks: int, target_epsilon: float, models: Sequence[ledger.Spent] = ()
) -> mechanisms.Mechanism:
    """Mechanism with the least noise at which the queries and the models together stay within an epsilon.

    Args:
      mechanism: The mechanism; its noise multiplier is not used.
      looks: Number of queries.
      target_epsilon: Total epsilon of the queries and the models.
      models: Models that were fitted on the same clients.

    Raises:
      UsageError: If no amount of noise is enough.
    """
    queries = ledger.Spent(_RELEASE, dataclasses.replace(mechanism, noise_multiplier=1.0), looks)
    whole, rounds = ledger.composed([*models, queries])
    try:
        noise = calibration.calibrate(whole, rounds, target_epsilon)
    except ValueError as error:
        raise UsageError(f"--target_epsilon={target_epsilon:g} {error}.") from error
    return dataclasses.replace(mechanism, noise_multiplier=noise)


def pay(
    path: pathlib.Path,
    mechanism: mechanisms.Mechanism,
    models: Sequence[ledger.Spent] = (),
    *,
    target_epsilon: float | None = None,
) -> dict[str, Any]:
    """Records a release in the ledger before it is made, and returns the guarantee for everything released so far.

    Args:
      path: The ledger of these clients; created if it does not exist.
      mechanism: The release's mechanism.
      models: Models that were fitted on the same clients. Each counts once, no matter how many queries use it.
      target_epsilon: Total epsilon that may be spent; None for no limit.

    Raises:
      UsageError: If the release would exceed `target_epsilon`; nothing is written in that case.
    """
    with ledger.opened(path) as book:
        new = [*(model for model in models if model not in book.entries), ledger.Spent(_RELEASE, mechanism)]
        whole, rounds = ledger.composed([*book.entries, *new])
        if target_epsilon is not None and (spent := whole.epsilon(rounds)) > target_epsilon * (1 + 1e-9):
            raise UsageError(
                f"--target_epsilon={target_epsilon:g} does not allow this query: with the queries in {path.name} it "
                f"would spend {spent:.4g}. Nothing was released. Plan several queries in advance with --looks."
            )
        book.add(new)
        looks = sum(entry.rounds for entry in book.entries if entry.what == _RELEASE)
        return guarantee(whole, rounds, looks, [entry.what for entry in book.entries if entry.what != _RELEASE])


def guarantee(whole: mechanisms.Mechanism, rounds: int, looks: int, models: Sequence[str]) -> dict[str, Any]:
    """The guarantee as a dict for JSON, with the sentences to print.

    Args:
      whole: Everything spent so far, composed into one mechanism, with the delta of the last release.
      rounds: Number of rounds of that mechanism.
      looks: Number of queries.
      models: Names of the other releases.
    """
    report = whole.report(rounds)
    epsilons = [
        f"epsilon {mechanisms.digits(each['epsilon_rdp'])} by RDP"
        + (f", {mechanisms.digits(each['epsilon_pld'])} by PLD," if each["epsilon_pld"] is not None else "")
        + f" ({each['neighbours']})"
        for each in report["guarantees"]
    ]
    if epsilons:
        of = " and ".join([f"{looks:,} {'queries' if looks > 1 else 'query'}", *models])
        apart = f", apart from {'; '.join(whole.left_out)}" if whole.left_out else ""
        at = f"at delta {report['delta']:.3g}{apart}"
        report["summary"] = f"Privacy: {'; '.join(epsilons)}, {at}, for {of} on these clients together."
    names = ("epsilon", "delta", "unit", "guarantees", "warnings", "mechanism", "summary")
    more = {"looks": looks, "models": list(models), "covers": _COVERS, "apart_from": list(whole.left_out)}
    return {name: report[name] for name in names} | more | {"assumes": list(_ASSUMED)}


def evaluate(
    settings: cli.Settings,
    spent: Sequence[ledger.Spent],
    target: str,
    log: interaction_log.InteractionLog,
    probabilities: np.ndarray,
) -> list[dict[str, Any]]:
    """Makes, prints and returns the release, and writes it to `output_dir`; nothing else from the log is released.

    Args:
      settings: The flags.
      spent: Models that were trained on the same clients, see `models`.
      target: Description of the policy.
      log: The log, with rewards in [0, 1].
      probabilities: float64 [rows, actions], or [rows] of the logged actions: the target's probabilities.

    Raises:
      UsageError: If the log violates its bounds, or the budget is used up.
    """
    limits = bounds_lib.of_settings(settings)
    query = private_sums.Query(limits, settings.clip_norm)
    rows, counted = bounds_lib.apply(terms_of_log(log, probabilities), limits, log.client_ids, settings.seed)
    others = {"delta": settings.target_delta, "accountant": settings.accountant}
    released = mechanism(len(log.client_ids), settings.noise_multiplier or 1.0, **others)
    if settings.target_epsilon is not None:
        released = calibrated(released, settings.looks, settings.target_epsilon, spent)
    path = pathlib.Path(settings.privacy_ledger or f"{settings.log}.privacy.jsonl")
    report = pay(path, released, spent, target_epsilon=settings.target_epsilon)
    report |= {"noise_multiplier": released.noise_multiplier, "clip_norm": query.norm}
    vectors = query.vectors(rows, (1 / log.propensities / log.set_sizes)[counted])
    answer = private_sums.values(private_sums.release(vectors, query, released), query, released)
    unit = bounds_lib.reward_bounds(settings) or UNIT
    estimates = [value.in_unit_of(unit) for value in answer.values]
    findings = checks(answer)
    refusal = next((finding for finding in findings if finding.is_warning), None)
    said = [f"{target} on {output.shown_log(settings.log)}, under differential privacy", ""]
    said += [f"No conclusion about {target}. {refusal.text}"] if refusal else []
    said += output.policy_columns(log.report.get("policy_columns", {})) + sentences(estimates, target, limits)
    said += [finding.text for finding in findings if finding is not refusal]
    said += [
        report["summary"],
        f"It covers {report['covers']}.",
        f"It assumes that {'; that '.join(report['assumes'])}.",
    ]
    said += [f"Warning: {warning}" for warning in report["warnings"]] + [not_made(settings)]
    said += [log_time.ASSUMPTION] * (settings.unobserved_rewards == "drop")
    print("\n".join(said))
    columns = ("policy", "estimator", "value", "low", "high", "noise", "bias_low", "bias_high")
    table = [
        dict(zip(columns, (target, value.name, *value.interval[:3], value.noise, *value.bias), strict=True))
        for value in estimates
    ]
    if settings.output_dir:
        described = {
            "private": True,
            "privacy": report,
            "refusal": refusal and refusal._asdict(),
            "sentences": said[2:],
        }
        intervals = {KINDS[value.name].label: value.interval for value in estimates}
        output.write_files(settings.output_dir, table, described, "\n".join(said), intervals)
    return table


def checks(answer: Answer) -> list[Finding]:
    """Findings about the propensities, computed from the release itself. After a warning, no conclusion is drawn."""
    findings = []
    for interval, what in (
        (answer.mean_weight, "The mean of the policy's weights, its probabilities divided by propensities,"),
        (answer.uniform_weight, "The mean of 1 / propensity, divided by the number of offered actions,"),
    ):
        is_wrong = bool(interval.low > _ROUNDING)
        cause = _ABOVE if is_wrong else _BELOW if interval.high * _ROUNDING < 1 else "Its expectation is 1."
        shown = "cannot be estimated" if math.isnan(interval.mean) else f"is {interval.text(label='95% CI ')}"
        findings.append(Finding(log_checks.PROPENSITIES, is_wrong, f"{what} {shown}. {cause}"))
    return findings


def sentences(values: Sequence[Value], policy: str, limits: bounds_lib.Bounds) -> list[str]:
    """Text of private values, each with its interval and bias."""
    said = [
        f"Weights above {limits.largest_weight:g} are clipped, and clients have at most {limits.max_rows:,} rows. "
        "The 95% intervals are for the values without clipping, account for clients and noise, and are conservative."
    ]
    for value in values:
        interval, (low, high) = value.interval, value.bias
        shown = interval.text(label="95% CI ")
        if math.isnan(interval.mean):
            shown = "cannot be estimated, because noise hides the rows"
        elif value.is_vacuous:
            shown = f"{interval.number(interval.mean)} (uninformative interval)"
        omitted = f"; clipping leaves out an estimated {low:+.2g} to {high:+.2g}" if high > low else ""
        said.append(f"{policy}, {value.name}: {shown}; noise {value.noise:.2g}{omitted}.")
    return said + [_FEW] * any(value.is_finite_sample for value in values)


def not_made(settings: cli.Settings) -> str:
    """Sentence that lists the checks skipped for privacy, and says how the data holder can run them."""
    left_out = ["varying sets of actions", "actions without a row", "duplicate and left-out rows", "uneven clients"]
    left_out += ["changes over time"] * bool(settings.time_column)
    flags = [f"--{name}" for name in sorted(settings.set_by_user & bounds_lib.PRIVATE)]
    return (
        f"Not checked, as the results would not be private: {', '.join(left_out)}. The data holder can check them "
        f"with the same command without {', '.join(flags)}, and must keep its output as secret as the log."
    )
