"""What an evaluation prints and writes: a table, JSON, and a page with a picture."""

import base64
import dataclasses
import html
import io
import json
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bandits.evaluation import estimates, finite_sample
from bandits.evaluation.anytime import ConfidenceSequence
from bandits.evaluation.estimates import Estimate
from bandits.evaluation.estimators import KINDS, Terms
from bandits.results import page, tables
from bandits.results.phrases import capital
from data import files, frames, log_checks, table_report
from data.errors import UsageError
from data.interaction_log import InteractionLog
from data.log_checks import Finding
from data.reward_bounds import UNIT, RewardBounds
from data.schema import described
from optimization.study import cli
from optimization.study.intervals import Interval

if TYPE_CHECKING:
    import matplotlib.figure

FILES = ("estimates.csv", "evaluation.json", "evaluation.html")
_NOTE = (
    "Intervals are 95% over clients, because a client's rows are dependent. They cover neither the randomness of the "
    "reward model's training nor changes after the log. Biased estimates have no interval, as their bias is unknown."
)
_CONFIDENCE = "95% CI "
_HEADS = ("estimator", "parameter", "mean reward", "difference from the log")
_LARGE = 10.0  # Larger weights are plotted on a logarithmic axis.


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """An evaluation's results.

    Attributes:
      name: The log as the user named it.
      log: The log.
      policy: The policy.
      estimates: Estimates by all estimators, the mean logged reward first.
      rows: Terms of the log's rows.
      findings: Results of the log's checks.
      refusal: The check that rules out a conclusion; None without one.
      has_model: Whether a reward model was trained.
      draws: Number of bootstrap samples.
      anytime: The interval after each observation; None without `--anytime`.
      reward_bounds: Declared or recognized bounds of the rewards; None if they are unknown.
    """

    name: str
    log: InteractionLog
    policy: str
    estimates: Sequence[Estimate]
    rows: Terms
    findings: Sequence[Finding]
    refusal: Finding | None
    has_model: bool
    draws: int
    anytime: ConfidenceSequence | None = None
    reward_bounds: RewardBounds | None = None

    @property
    def columns(self) -> list[str]:
        """Lines on the use of each column; none for the log of a run."""
        return list(table_report.lines({"log": self.log.report}))


def _shown(interval: Interval, *, signed: bool = False, without: str = "no interval", label: str = "") -> str:
    """A value or a difference as text; `without` replaces a missing interval."""
    if math.isnan(interval.mean):
        return "cannot be estimated"
    if interval.low == interval.high:
        return interval.number(interval.mean, signed=signed)
    return interval.text(signed=signed, label=label) + (f" ({without})" if math.isnan(interval.low) else "")


def _cell(interval: Interval | None, *, signed: bool = False, is_biased: bool = False) -> tables.Cell | None:
    if interval is None:
        return None
    without = estimates.BIASED if is_biased else "no interval"
    mean, _, below = _shown(interval, signed=signed, without=without).partition(" (")
    number = interval.mean if math.isfinite(interval.mean) else ""
    return tables.Cell(mean, number, [below.removesuffix(")")] if below else [])


def _rows(evaluation: Evaluation) -> list[tables.Row]:
    return [
        [
            KINDS[one.name].label,
            one.parameter,
            _cell(one.value, is_biased=one.is_biased),
            _cell(one.difference, signed=True),
        ]
        for one in evaluation.estimates
    ]


def _conclusion(evaluation: Evaluation) -> list[str]:
    """What the evaluation concludes: first whether the policy differs from the log's, then its value."""
    policy = evaluation.policy
    if evaluation.refusal:
        values = {one.name: one.value for one in evaluation.estimates}
        lines = [f"No conclusion about {policy}.", evaluation.refusal.text]
        if evaluation.refusal.name == log_checks.COLUMNS and "snips" in values:
            shown = _shown(values["snips"], label=_CONFIDENCE)
            lines.append(f"Without any features, by propensities alone, SNIPS gives {shown}.")
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
    if difference is None:
        return [f"{policy} cannot be compared with the log's policy.", *lines]
    if math.isnan(difference.mean):
        (why,) = [finding.text for finding in evaluation.findings if finding.name == finite_sample.NAME]
        return [f"The difference between {policy} and the log's policy cannot be estimated. {why}", *lines]
    shown = f"{_shown(difference, signed=True, label=_CONFIDENCE)} per interaction"
    if difference.low > 0 or difference.high < 0:
        return [f"{policy} earns {'more' if difference.low > 0 else 'less'} than the log's policy: {shown}.", *lines]
    return [f"No significant difference between {policy} and the log's policy: {shown}.", *lines]


def _why_none(evaluation: Evaluation) -> str:
    """Reason why no unbiased estimator has a value."""
    if math.isnan(evaluation.estimates[0].value.mean):
        return "no logged reward differs from 0"
    if all(estimate.is_biased for estimate in evaluation.estimates[1:]):
        return "--estimators names none of ips, snips and dr, and the others are biased"
    if not evaluation.rows.weights.any():
        return "the policy chooses none of the logged actions"
    return "no logged action that the policy chooses earned a reward"


def _log(evaluation: Evaluation) -> str:
    log = evaluation.log
    rows, clients = f"{len(log):,} rows", f"{len(np.unique(log.clients)):,} clients"
    sentence = f"Log: {evaluation.name}, {rows}, {clients}, {len(log.action_names)} actions."
    return " ".join([sentence, *policy_columns(log.report.get("policy_columns", {}))])


def policy_columns(by_action: Mapping[str, str]) -> list[str]:
    """Sentence on the column of a policy's probability of each action; none for other policies."""
    return [f"Column of the policy's probability of each action: {described(by_action)}."] if by_action else []


def shown_log(path: str) -> str:
    """The log's path as the user would write it."""
    return "the DataFrame" if path.startswith(frames.PREFIX) else cli.shown_path(path)


def check_new(folder: pathlib.Path) -> None:
    """Refuses a folder that holds an evaluation or the log, before anything is read.

    Raises:
      UsageError: If one of `FILES` is there.
    """
    if present := [name for name in FILES if (folder / name).exists()]:
        raise UsageError(
            f"--output_dir: {cli.shown_path(str(folder))} holds {present[0]}, such as that of an earlier evaluation. "
            "It is not overwritten: name another folder with --output_dir."
        )


def text(evaluation: Evaluation) -> str:
    """The printed text: the conclusion, the log, all estimates, and what to know about them."""
    lines = [*_conclusion(evaluation), "", _log(evaluation), "", tables.text(_HEADS, _rows(evaluation)), ""]
    shown = [finding for finding in evaluation.findings if finding is not evaluation.refusal]
    lines += [f"{'Warning: ' if finding.is_warning else ''}{finding.text}" for finding in shown]
    sentences = evaluation.anytime.sentences if evaluation.anytime else ()
    return "\n".join([*lines, *sentences, "", *evaluation.columns, "", _NOTE])


def write(evaluation: Evaluation, folder: str) -> None:
    """Writes `estimates.csv`, `evaluation.json` and `evaluation.html`, each whole.

    Raises:
      Failure: If one cannot be written.
    """
    log, weights = evaluation.log, evaluation.rows.weights
    headline = None if evaluation.refusal else estimates.headline(evaluation.estimates)
    description: dict[str, Any] = {
        "log": evaluation.name,
        "policy": evaluation.policy,
        "policy_columns": log.report.get("policy_columns", {}),
        "rows": len(log),
        "clients": len(np.unique(log.clients)),
        "actions": len(log.action_names),
        "has_model": evaluation.has_model,
        "draws": evaluation.draws,
        "headline": {"estimator": headline[0].name, "reason": headline[1]} if headline else None,
        "reward_bounds": evaluation.reward_bounds and dataclasses.astuple(evaluation.reward_bounds),
        "refusal": evaluation.refusal and evaluation.refusal._asdict(),
        "columns": evaluation.columns,
        "overlap": {
            "effective_sample_size": log_checks.effective_sample_size(weights),
            "mean_weight": float(weights.mean()),
            "largest_weight": float(weights.max()),
        },
        "findings": [finding._asdict() for finding in evaluation.findings],
    }
    if sequence := evaluation.anytime:
        description["anytime"] = {name: np.array(values).tolist() for name, values in sequence._asdict().items()}
    write_files(folder, [estimate.row() for estimate in evaluation.estimates], description, _page(evaluation))


def write_files(output_dir: str, rows: Sequence[Mapping[str, Any]], description: Mapping[str, Any], body: str) -> None:
    """Writes `FILES`, and says so: rows, a description with null for numbers that are not finite, and a page.

    Raises:
      Failure: If one cannot be written.
    """
    import pandas as pd

    folder, table = pathlib.Path(output_dir), pd.DataFrame(rows)
    with files.write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    finite = table.replace([math.inf, -math.inf], math.nan).astype(object)
    described = {**description, "estimates": finite.where(finite.notna(), None).to_dict("records")}
    contents = table.to_csv(index=False, na_rep="nan"), json.dumps(described, indent=2) + "\n"
    for name, content in zip(FILES, (*contents, page.document("Off-policy evaluation", body)), strict=True):
        files.replace(folder / name, content.encode())
    print(f"\nWritten to {cli.shown_path(output_dir)}: {', '.join(FILES)}")


def paragraphs(sentences: Sequence[str]) -> str:
    """HTML with a paragraph for each sentence."""
    return "".join(f"<p>{html.escape(sentence)}</p>" for sentence in sentences)


def image(plot: "matplotlib.figure.Figure", description: str) -> str:
    """HTML of a picture with its description."""
    content = io.BytesIO()
    plot.savefig(content, format="png", dpi=110)
    source = base64.b64encode(content.getvalue()).decode()
    return f'<div class="scroll" tabindex="0"><img alt="{description}" src="data:image/png;base64,{source}"></div>'


def _page(evaluation: Evaluation) -> str:
    """Body of the page of an evaluation, the conclusion first."""
    conclusion, *reasons = map(html.escape, _conclusion(evaluation))
    items = "".join(
        f"<li>{'<b>Warning</b>: ' if finding.is_warning else ''}{html.escape(finding.text)}</li>"
        for finding in evaluation.findings
    )
    parts = [
        f"<p><b>{conclusion}</b> {' '.join(reasons)}</p>{paragraphs([_log(evaluation)])}",
        tables.html(_HEADS, _rows(evaluation), "main"),
        f"{image(_picture(evaluation), 'Estimates with intervals, overlap, weights by client')}<ul>{items}</ul>",
    ]
    if sequence := evaluation.anytime:
        plot = _sequence_picture(sequence, evaluation.reward_bounds or UNIT)
        parts += [paragraphs(sequence.sentences), image(plot, "The interval after each observation")]
    if resampled := [[KINDS[one.name].label, _cell(one.bootstrap)] for one in evaluation.estimates if one.bootstrap]:
        title = f"Bootstrap intervals ({evaluation.draws:,} resamples of the clients)"
        table = tables.html((_HEADS[0], _HEADS[2]), resampled, "main")
        parts.append(f"<details><summary>{title}</summary>{table}</details>")
    return "".join([*parts, paragraphs([_NOTE])])


def _picture(evaluation: Evaluation) -> "matplotlib.figure.Figure":
    """Draws estimates with intervals, the distribution of weights, and clients' shares of them."""
    from optimization.study import curves, panels

    plot, grid = panels.grid(2, 2, (6.5, 7), height_ratios=(1.2, 1))
    axes, right, of_rows, of_clients = grid.flat
    right.remove()
    axes.set_subplotspec(axes.get_gridspec()[0, :])
    styles = {"logged": curves.Style(curves.BLACK, "-"), estimates.BIASED: curves.Style(curves.GREY, "--")}
    groups = {}
    for one in evaluation.estimates:
        kind = estimates.BIASED if one.is_biased else "logged" if one.name == "logged" else "estimate"
        groups[KINDS[one.name].label] = {kind: one.value}
    panels.forest(axes, groups, styles | {"estimate": curves.PLAIN})
    axes.axvline(evaluation.estimates[0].value.mean, color=curves.GREY, linewidth=0.8, linestyle="--")
    panels.label(axes, xlabel="mean reward per interaction (95% interval)", legend=True)
    ordered = np.sort(evaluation.rows.weights)[::-1]
    of_rows.plot(np.linspace(0, 1, len(ordered)), ordered)
    if len(ordered) and ordered[0] > _LARGE:
        of_rows.set_yscale("symlog", linthresh=0.1)
    panels.label(of_rows, xlabel="fraction of rows, largest first", ylabel="importance weight", title="Overlap")
    by_client = np.bincount(evaluation.log.clients, evaluation.rows.weights, len(evaluation.log.client_ids))
    shares = np.sort(by_client)[::-1] / (by_client.sum() or 1)
    of_clients.plot(np.arange(1, len(shares) + 1), np.cumsum(shares))
    panels.label(of_clients, xlabel="number of clients, largest first", ylabel="fraction of all weight", ylim=(0, 1.02))
    panels.label(of_clients, title="Weights by client")
    return plot


def _sequence_picture(sequence: ConfidenceSequence, bounds: RewardBounds) -> "matplotlib.figure.Figure":
    """Draws a sequence: the estimate and the interval after each observation, within the bounds."""
    from optimization.study import panels

    plot, ((axes,),) = panels.grid(1, 1, (6.5, 3.5))
    axes.fill_between(sequence.looks, sequence.lows, sequence.highs, alpha=0.3, step="mid")
    axes.plot(sequence.looks, sequence.estimates)
    ends = dataclasses.astuple(bounds)
    panels.label(axes, ylim=ends, xlabel="round or deployment period", ylabel="mean reward, 95% confidence sequence")
    return plot
