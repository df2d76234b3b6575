"""Printed text and files of an evaluation: a table, JSON, and a page with a figure."""

import base64
import dataclasses
import html
import io
import json
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bandits.evaluation import betting, estimates
from bandits.evaluation.estimates import Estimate
from bandits.evaluation.estimators import KINDS, Terms
from bandits.results import page, tables
from bandits.results.phrases import capital
from data import files, frames, log_checks, table_report
from data.errors import UsageError
from data.interaction_log import InteractionLog
from data.log_checks import Finding
from data.reward_bounds import RewardBounds
from data.schema import described
from optimization.study import cli
from optimization.study.intervals import Interval

FILES = ("estimates.csv", "evaluation.json", "evaluation.html")
_NOTE = (
    "Intervals are 95% over clients, because a client's rows are dependent. They cover neither the randomness of the "
    "reward model's training nor changes since the log was recorded. Biased estimates have no interval, as their bias "
    "is unknown."
)
_CONFIDENCE = "95% CI "


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """Results of an evaluation.

    Attributes:
      settings: The flags.
      log: The log.
      policy: Description of the policy.
      estimates: Estimates from all estimators, beginning with the mean logged reward.
      rows: Terms of the log's rows.
      findings: Results of the log's checks.
      refusal: The finding that rules out a conclusion; None if there is none.
      has_model: Whether a reward model was trained.
      anytime: The interval after each observation; None without `--anytime`, or if a refusal rules it out.
      reward_bounds: Declared or recognized bounds of the rewards; None if they are unknown.
    """

    settings: cli.Settings
    log: InteractionLog
    policy: str
    estimates: Sequence[Estimate]
    rows: Terms
    findings: Sequence[Finding]
    refusal: Finding | None
    has_model: bool
    anytime: betting.ConfidenceSequence | None = None
    reward_bounds: RewardBounds | None = None


def _shown(interval: Interval, *, signed: bool = False, without: str = "no interval", label: str = "") -> str:
    """A value or a difference as text; `without` replaces a missing interval."""
    if math.isnan(interval.mean):
        return "cannot be estimated"
    if interval.low == interval.high:
        return interval.number(interval.mean, signed=signed)
    return interval.text(signed=signed, label=label) + (f" ({without})" if math.isnan(interval.low) else "")


def _conclusion(evaluation: Evaluation) -> list[str]:
    """The conclusion, such as whether the policy differs from the logging policy, and then the policy's value."""
    policy = evaluation.policy
    if evaluation.refusal:
        values = {each.name: each.value for each in evaluation.estimates}
        lines = [f"No conclusion about {policy}.", evaluation.refusal.text]
        if evaluation.refusal.name == log_checks.COLUMNS and "snips" in values:
            shown = _shown(values["snips"], label=_CONFIDENCE)
            lines.append(f"SNIPS, which needs propensities but no features, gives {shown}.")
        return lines
    headline = estimates.headline(evaluation.estimates)
    if headline is None:
        return [f"The value of {policy} cannot be estimated: {_why_none(evaluation)}."]
    estimate, reason = headline
    name, difference = KINDS[estimate.name].label, estimate.difference
    lines = [
        f"Estimated mean reward of {policy}, by {name}: {_shown(estimate.value, label=_CONFIDENCE)}.",
        f"{capital(name)} {reason}.",
    ]
    assert difference is not None  # Unbiased estimates have a difference.
    if math.isnan(difference.mean):
        (why,) = [finding.text for finding in evaluation.findings if finding.name == betting.FEW_OUTCOMES]
        return [f"The difference between {policy} and the log's policy cannot be estimated. {why}", *lines]
    shown = f"{_shown(difference, signed=True, label=_CONFIDENCE)} per interaction"
    if difference.low > 0 or difference.high < 0:
        return [f"{policy} earns {'more' if difference.low > 0 else 'less'} than the log's policy: {shown}.", *lines]
    return [f"No significant difference between {policy} and the log's policy: {shown}.", *lines]


def _why_none(evaluation: Evaluation) -> str:
    """The reason why no unbiased estimator has a value."""
    if math.isnan(evaluation.estimates[0].value.mean):
        return "no logged reward differs from 0"
    if all(estimate.is_biased for estimate in evaluation.estimates[1:]):
        return "--estimators has none of ips, snips and dr, and the others are biased"
    if not evaluation.rows.weights.any():
        return "the policy chooses none of the logged actions"
    return "no logged action that the policy chooses earned a reward"


def policy_columns(by_action: Mapping[str, str]) -> list[str]:
    """A sentence about the columns with a policy's probability of each action; empty for other policies."""
    return [f"Column with the policy's probability of each action: {described(by_action)}."] if by_action else []


def shown_log(path: str) -> str:
    """The log's path as the user would write it."""
    return "the DataFrame" if path.startswith(frames.PREFIX) else cli.shown_path(path)


def check_new(folder: pathlib.Path) -> None:
    """Rejects a folder that already contains a file to be written, before anything is read.

    Raises:
      UsageError: If the folder contains one of `FILES`.
    """
    if present := [name for name in FILES if (folder / name).exists()]:
        raise UsageError(
            f"--output_dir: {cli.shown_path(str(folder))} already holds {present[0]}, for example from an earlier "
            "evaluation. It is not overwritten: name another folder with --output_dir."
        )


def text(evaluation: Evaluation) -> str:
    """The printed text: the conclusion, the log, all estimates, and notes on them."""
    log = evaluation.log
    rows, clients = f"{len(log):,} rows", f"{len(np.unique(log.clients)):,} clients"
    sentence = f"Log: {shown_log(evaluation.settings.log)}, {rows}, {clients}, {len(log.action_names)} actions."
    heads = ("estimator", "parameter", "mean reward", "difference from the log")
    cells = [
        (
            KINDS[each.name].label,
            each.parameter,
            _shown(each.value, without=estimates.BIASED if each.is_biased else "no interval"),
            _shown(each.difference, signed=True) if each.difference else "",
        )
        for each in evaluation.estimates
    ]
    lines = [*_conclusion(evaluation), "", " ".join([sentence, *policy_columns(log.report.get("policy_columns", {}))])]
    lines += ["", tables.text(heads, cells), ""]
    shown = [finding for finding in evaluation.findings if finding is not evaluation.refusal]
    lines += [f"{'Warning: ' if finding.is_warning else ''}{finding.text}" for finding in shown]
    lines += evaluation.anytime.sentences if evaluation.anytime else ()
    return "\n".join([*lines, "", *table_report.lines({"log": log.report}), "", _NOTE])


def write(evaluation: Evaluation) -> None:
    """Writes `estimates.csv`, `evaluation.json` and `evaluation.html`, each atomically.

    Raises:
      Failure: If a file cannot be written.
    """
    log, weights = evaluation.log, evaluation.rows.weights
    headline = None if evaluation.refusal else estimates.headline(evaluation.estimates)
    description: dict[str, Any] = {
        "log": shown_log(evaluation.settings.log),
        "policy": evaluation.policy,
        "policy_columns": log.report.get("policy_columns", {}),
        "rows": len(log),
        "clients": len(np.unique(log.clients)),
        "actions": len(log.action_names),
        "has_model": evaluation.has_model,
        "draws": evaluation.settings.draws,
        "headline": {"estimator": headline[0].name, "reason": headline[1]} if headline else None,
        "reward_bounds": evaluation.reward_bounds and dataclasses.astuple(evaluation.reward_bounds),
        "refusal": evaluation.refusal and evaluation.refusal._asdict(),
        "columns": list(table_report.lines({"log": log.report})),
        "overlap": {
            "effective_sample_size": log_checks.effective_sample_size(weights),
            "mean_weight": float(weights.mean()),
            "largest_weight": float(weights.max()),
        },
        "findings": [finding._asdict() for finding in evaluation.findings],
    }
    if sequence := evaluation.anytime:
        description["anytime"] = {name: np.array(values).tolist() for name, values in sequence._asdict().items()}
    intervals = {KINDS[each.name].label: each.value for each in evaluation.estimates}
    rows = [each.row() for each in evaluation.estimates]
    write_files(evaluation.settings.output_dir, rows, description, text(evaluation), intervals)


def write_files(
    output_dir: str,
    rows: Sequence[Mapping[str, Any]],
    description: Mapping[str, Any],
    printed: str,
    intervals: Mapping[str, Interval],
) -> None:
    """Writes `FILES`, each atomically, and prints their names.

    Args:
      output_dir: The folder to write to.
      rows: Rows of `estimates.csv`.
      description: Content of `evaluation.json` apart from the rows, in which nonfinite numbers become null.
      printed: The printed text, which the page also contains.
      intervals: Intervals by label, for the figure on the page.

    Raises:
      Failure: If a file cannot be written.
    """
    import pandas as pd

    from optimization.study import curves, panels

    plot, ((axes,),) = panels.grid(1, 1, (8, 1.5 + 0.4 * len(intervals)))
    panels.forest(axes, {label: {"": interval} for label, interval in intervals.items()}, {"": curves.PLAIN})
    panels.label(axes, xlabel="mean reward per interaction, with 95% intervals")
    image = io.BytesIO()
    plot.savefig(image, format="png", dpi=110)
    source = base64.b64encode(image.getvalue()).decode()
    body = f'<pre style="white-space: pre-wrap">{html.escape(printed)}</pre><div class="scroll" tabindex="0">'
    body += f'<img alt="Estimates with intervals" src="data:image/png;base64,{source}"></div>'
    folder, table = pathlib.Path(output_dir), pd.DataFrame(rows)
    with files.write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    finite = table.replace([math.inf, -math.inf], math.nan).astype(object)
    content = {**description, "estimates": finite.where(finite.notna(), None).to_dict("records")}
    contents = table.to_csv(index=False, na_rep="nan"), json.dumps(content, indent=2) + "\n"
    for name, written in zip(FILES, (*contents, page.document("Off-policy evaluation", body)), strict=True):
        files.replace(folder / name, written.encode())
    print(f"\nWritten to {cli.shown_path(output_dir)}: {', '.join(FILES)}")
