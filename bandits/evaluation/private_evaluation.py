"""A private evaluation: checks of its flags, its single release, and its output."""

import dataclasses
import hashlib
import html
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bandits.evaluation import bound_flags, estimates, estimators, output, private, reward_model, target_policies, terms
from data import interaction_log, log_time
from data.errors import UsageError
from data.reward_bounds import UNIT
from optimization.privacy import ledger, mechanisms
from optimization.study import cli, run_folder

if TYPE_CHECKING:
    import matplotlib.figure

_DEFAULT = ("ips", "snips")
_NOT_TESTED = "Changes over time were not tested, and rows that were left out are not counted: both would be releases."


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is fixed before the log is read.

    Attributes:
      estimators: With their parameters.
      models: What was trained on the same clients before: a run's model.
    """

    estimators: tuple[estimators.Estimator, ...]
    models: tuple[ledger.Spent, ...]

    @property
    def needs_model(self) -> bool:
        """Whether a reward model is trained."""
        return any(each.needs_model for each in self.estimators)


def plan(settings: cli.Settings, target: target_policies.Target) -> Plan | None:
    """Settings of the flags; None without `--private`.

    Raises:
      UsageError: If something would not be private, or has no effect.
    """
    bound_flags.check(settings)
    if not settings.private:
        return None
    if settings.reward_window and not settings.log_until:
        raise UsageError("--private: --reward_window needs --log_until: the latest time in the log is one client's.")
    names = estimates.names(settings.estimators)
    if names is None:
        names = (*_DEFAULT, *["dr"] * (settings.model_noise_multiplier is not None))
    fixed = {name: settings[flag] for flag, name in estimates.FIXED.items()}
    asked = tuple(_estimator(name, fixed) for name in names)
    needing = [each.name for each in asked if each.needs_model]
    noise = settings.model_noise_multiplier
    if noise is None:
        private.check_models(asked, ())
    elif not needing:
        raise UsageError(
            "--model_noise_multiplier trains a reward model, and no estimator of --estimators reads one: leave it out, "
            "or add dr."
        )
    for flag, name in estimates.FIXED.items():
        if settings[flag] is not None and name not in names:
            raise UsageError(f"--{flag} has no effect: with --private, {name} must be named by --estimators.")
    models: tuple[ledger.Spent, ...] = ()
    run = target.name if target.kind == "run" else target.run
    if not run:
        if "policy_is_public" in settings.set_by_user:
            raise UsageError("--policy_is_public has an effect only with --policy=run:FOLDER.")
    elif not settings.policy_is_public:
        models = (of_run(run),)
        private.check_models((), models)
    return Plan(asked, models)


def _estimator(name: str, fixed: dict[str, float | None]) -> estimators.Estimator:
    first, *others = estimates.paths(True, fixed)[name] if name != "logged" else (estimators.Logged(),)
    if others:
        flag = next(flag for flag, known in estimates.FIXED.items() if known == name)
        raise UsageError(
            f"--private: {name} needs --{flag}. SLOPE would choose it by the log, which is a release of its own."
        )
    return first


def of_run(folder: str) -> ledger.Spent:
    """Privacy spent by training a run's model, identified by the model, not by its folder."""
    digest = hashlib.sha256(run_folder.find_model(folder).read_bytes()).hexdigest()[:12]
    what = f"the model {digest} of run {pathlib.Path(folder).name}"
    return ledger.Spent(what, *mechanisms.load(pathlib.Path(folder) / "privacy.json"))


def evaluate(
    settings: cli.Settings, chosen: Plan, target: str, log: interaction_log.InteractionLog, probabilities: np.ndarray
) -> list[dict[str, Any]]:
    """Makes the release, prints it, writes it and returns its rows; nothing else of the log is released.

    Args:
      settings: The flags.
      chosen: What was fixed beforehand.
      target: The policy, in words.
      log: The log, with rewards in [0, 1].
      probabilities: float64 [rows, actions], or [rows] of the logged actions: the target's probabilities.

    Raises:
      UsageError: If the log does not keep its bounds, or the budget is spent.
    """
    rows = terms.of_log(log, probabilities)

    def fit(bounded: Mapping[str, terms.Terms], kept: np.ndarray) -> dict[str, terms.Terms]:
        used = np.flatnonzero(kept)  # A row of each client at least, so that clients keep their numbers.
        counted = dataclasses.replace(log.take(used), rewards=bounded[target].rewards)
        fitted = terms.of_log(counted, probabilities[used], reward_model.predictions(settings, counted))
        return {target: bounded[target]._replace(direct=fitted.direct, predicted=fitted.predicted)}

    values, report = bound_flags.private_values(
        settings,
        {target: rows},
        chosen.estimators,
        log.client_ids,
        chosen.models,
        [reward_model.spent(settings, log)] if chosen.needs_model else (),
        fit if chosen.needs_model else None,
    )
    values = [value.in_unit_of(bound_flags.reward_bounds(settings) or UNIT) for value in values]
    head = f"{target} on {output.shown_log(settings.log)}, under differential privacy"
    said = output.policy_columns(log.report.get("policy_columns", {}))
    said += bound_flags.private_sentences(values, report, bound_flags.bounds(settings))
    said += [log_time.ASSUMPTION] * (settings.unobserved_rewards == "drop")
    said += [_NOT_TESTED] * bool(settings.time_column)
    print("\n".join([head, "", *said]))
    rows_of_values = [_row(value) for value in values]
    if settings.output_dir:
        _write(settings.output_dir, head, said, values, report)
    return rows_of_values


def _row(value: private.Value) -> dict[str, Any]:
    low, high = value.bias
    return {
        "policy": value.candidate,
        "estimator": value.estimator.name,
        "value": value.interval.mean,
        "low": math.nan if value.is_biased else value.interval.low,
        "high": math.nan if value.is_biased else value.interval.high,
        "noise": value.noise,
        "bias_low": low,
        "bias_high": high,
    }


def _write(
    folder: str, head: str, said: Sequence[str], values: Sequence[private.Value], report: dict[str, Any]
) -> None:
    """Writes the files that any evaluation writes, each whole: an earlier one's leave nothing behind."""
    rows = [_row(value) for value in values]
    document = output.document(
        f"<p>{html.escape(head)}</p>"
        + "".join(f"<p>{html.escape(sentence)}</p>" for sentence in said)
        + output.image(_picture(values), "Private values with intervals")
    )
    output.write_files(folder, rows, {"private": True, "privacy": report, "sentences": said}, document)


def _picture(values: Sequence[private.Value]) -> "matplotlib.figure.Figure":
    from optimization.study import curves, panels

    plot, ((axes,),) = panels.grid(1, 1, (10, 1.5 + 0.5 * len(values)))
    found = [one.interval._replace(low=math.nan, high=math.nan) if one.is_biased else one.interval for one in values]
    names = [estimates.LABELS[one.estimator.name] for one in values]
    panels.forest(axes, {name: {"": interval} for name, interval in zip(names, found, strict=True)}, {"": curves.PLAIN})
    panels.label(axes, xlabel="mean reward of an interaction, with 95% intervals over clients and noise")
    return plot
