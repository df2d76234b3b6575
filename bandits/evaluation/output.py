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
from bandits.evaluation.estimators import KINDS
from bandits.results import tables
from bandits.results.phrases import capital
from data import files, frames, log_validity
from data.errors import UsageError
from data.log_checks import Finding
from data.reward_bounds import UNIT, RewardBounds
from data.schema import described
from optimization.study import cli
from optimization.study.intervals import Interval

if TYPE_CHECKING:
    import matplotlib.figure

FILES = ("estimates.csv", "evaluation.json", "evaluation.html")
_FACTS = ("log", "policy", "policy_columns", "rows", "clients", "actions", "has_model", "draws")
_OVERLAP = ("effective_sample_size", "mean_weight", "largest_weight")
_NOTE = (
    "Intervals are 95% over clients, because a client's rows are dependent. They cover neither the randomness of the "
    "reward model's training nor changes after the log. Biased estimates have no interval, as their bias is unknown."
)
_CONFIDENCE = "95% CI "
_ESTIMATOR, _VALUE, _DIFFERENCE = "estimator", "mean reward", "difference from the log"
_LARGE = 10.0  # Larger weights are plotted on a logarithmic axis.


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """An evaluation's results.

    Attributes:
      log: The log's file.
      policy: The policy.
      policy_columns: Column of the policy's probability of each action; empty for other policies.
      rows: Rows of the log.
      clients: Clients of the log.
      actions: Its actions.
      estimates: Of all estimators, the mean logged reward first.
      effective_sample_size: Number of equally weighted rows with the same variance.
      mean_weight: Near 1 where propensities are right and the log supports the policy.
      largest_weight: Of any row.
      findings: Of the log's checks.
      refusal: The check that rules out a conclusion; None without one.
      columns: Lines on the use of each column; empty for the log of a run.
      has_model: Whether a reward model was trained.
      draws: Of the bootstrap.
      anytime: The interval after each observation; None without `--anytime`.
      of_anytime: Its sentences.
      reward_bounds: Declared or recognized bounds of the rewards; None if they are unknown.
    """

    log: str
    policy: str
    policy_columns: Mapping[str, str]
    rows: int
    clients: int
    actions: int
    estimates: Sequence[Estimate]
    effective_sample_size: float
    mean_weight: float
    largest_weight: float
    findings: Sequence[Finding]
    refusal: Finding | None
    columns: Sequence[str]
    has_model: bool
    draws: int
    anytime: ConfidenceSequence | None = None
    of_anytime: Sequence[str] = ()
    reward_bounds: RewardBounds | None = None


def _shown(interval: Interval | None, *, signed: bool = False, without: str = "no interval", label: str = "") -> str:
    """A value or a difference as text; `without` replaces a missing interval."""
    if interval is None:
        return ""
    if math.isnan(interval.mean):
        return "cannot be estimated"
    if interval.low == interval.high:
        return f"{interval.mean:{'+' * signed}.3g}"
    return interval.text(signed=signed, label=label) + (f" ({without})" if math.isnan(interval.low) else "")


def _value(estimate: Estimate) -> str:
    return _shown(estimate.value, without=estimates.BIASED if estimate.is_biased else "no interval")


def _conclusion(evaluation: Evaluation) -> list[str]:
    """What the evaluation concludes: first whether the policy differs from the log's, then its value."""
    if evaluation.refusal:
        values = {one.name: one.value for one in evaluation.estimates}
        lines = [f"No conclusion about {evaluation.policy}.", evaluation.refusal.text]
        if evaluation.refusal.name == log_validity.COLUMNS and "snips" in values:
            shown = _shown(values["snips"], label=_CONFIDENCE)
            lines.append(f"Without any features, by propensities alone, SNIPS gives {shown}.")
        return lines
    headline = estimates.headline(evaluation.estimates)
    if headline is None:
        return [f"The value of {evaluation.policy} cannot be estimated: {_why_none(evaluation)}."]
    estimate, reason = headline
    name = KINDS[estimate.name].label
    lines = [
        f"Estimated mean reward of {evaluation.policy}, by {name}: {_shown(estimate.value, label=_CONFIDENCE)}.",
        f"{capital(name)} {reason}.",
    ]
    difference = estimate.difference
    if difference is None:
        return [f"{evaluation.policy} cannot be compared with the log's policy.", *lines]
    if math.isnan(difference.mean):
        (why,) = [finding.text for finding in evaluation.findings if finding.name == finite_sample.NAME]
        return [f"The difference between {evaluation.policy} and the log's policy cannot be estimated. {why}", *lines]
    shown = f"{_shown(difference, signed=True, label=_CONFIDENCE)} per interaction"
    if difference.low > 0:
        return [f"{evaluation.policy} earns more than the log's policy: {shown}.", *lines]
    if difference.high < 0:
        return [f"{evaluation.policy} earns less than the log's policy: {shown}.", *lines]
    return [f"No significant difference between {evaluation.policy} and the log's policy: {shown}.", *lines]


def _why_none(evaluation: Evaluation) -> str:
    """Reason why no unbiased estimator has a value."""
    if math.isnan(evaluation.estimates[0].value.mean):
        return "no logged reward differs from 0"
    if all(estimate.is_biased for estimate in evaluation.estimates[1:]):
        return "--estimators names none of ips, snips and dr, and the others are biased"
    if not evaluation.mean_weight:
        return "the policy chooses none of the logged actions"
    return "no logged action that the policy chooses earned a reward"


def _log(evaluation: Evaluation) -> str:
    rows, clients = f"{evaluation.rows:,} rows", f"{evaluation.clients:,} clients"
    log = f"Log: {evaluation.log}, {rows}, {clients}, {evaluation.actions} actions."
    return " ".join([log, *policy_columns(evaluation.policy_columns)])


def policy_columns(by_action: Mapping[str, str]) -> list[str]:
    """Sentence on the column of a policy's probability of each action; none for other policies."""
    return [f"Column of the policy's probability of each action: {described(by_action)}."] if by_action else []


def _cell(interval: Interval | None, *, signed: bool = False, without: str = "no interval") -> tables.Cell:
    """A cell with the mean, and its interval in a line below."""
    mean, _, below = _shown(interval, signed=signed, without=without).partition(" (")
    number = interval.mean if interval and math.isfinite(interval.mean) else ""
    return tables.Cell(mean or tables.MISSING, number, [below.removesuffix(")")] if below else [])


def _tables(evaluation: Evaluation) -> tuple[str, str]:
    """HTML of the estimates, and of the bootstrap's intervals; cells are narrow, for small screens."""
    rows, resampled = [], []
    for estimate in evaluation.estimates:
        name = tables.Cell(KINDS[estimate.name].label, notes=[estimate.parameter] if estimate.parameter else [])
        without = estimates.BIASED if estimate.is_biased else "no interval"
        rows.append([name, _cell(estimate.value, without=without), _cell(estimate.difference, signed=True)])
        if estimate.bootstrap:
            resampled.append([KINDS[estimate.name].label, _cell(estimate.bootstrap)])
    shown = tables.html([_ESTIMATOR, _VALUE, _DIFFERENCE], rows, "main")
    return shown, tables.html([_ESTIMATOR, _VALUE], resampled, "main") if resampled else ""


def shown_log(path: str) -> str:
    """The log's path as the user would write it."""
    return "the DataFrame" if path.startswith(frames.PREFIX) else cli.shown_path(path)


def check_new(folder: pathlib.Path) -> None:
    """Refuses a folder that holds an evaluation, before anything is read.

    Raises:
      UsageError: If one of `FILES` is there.
    """
    if any((folder / name).exists() for name in FILES):
        raise UsageError(
            f"--output_dir: {cli.shown_path(str(folder))} holds an earlier evaluation, which is not overwritten: name "
            "another folder with --output_dir, or delete this one."
        )


def text(evaluation: Evaluation) -> str:
    """The printed text: the conclusion, the log, all estimates, and what to know about them."""
    rows = [
        [KINDS[estimate.name].label, estimate.parameter, _value(estimate), _shown(estimate.difference, signed=True)]
        for estimate in evaluation.estimates
    ]
    lines = [*_conclusion(evaluation), "", _log(evaluation), ""]
    lines += [tables.text([_ESTIMATOR, "parameter", _VALUE, _DIFFERENCE], rows), ""]
    shown = [finding for finding in evaluation.findings if finding is not evaluation.refusal]
    lines += [f"{'Warning: ' if finding.is_warning else ''}{finding.text}" for finding in shown]
    return "\n".join([*lines, *evaluation.of_anytime, "", *evaluation.columns, "", _NOTE])


def write(evaluation: Evaluation, folder: str, weights: np.ndarray, by_client: np.ndarray) -> None:
    """Writes `estimates.csv`, `evaluation.json` and `evaluation.html`, each whole.

    Args:
      evaluation: The evaluation.
      folder: Output folder; made if it is missing.
      weights: float64 [rows], of all rows.
      by_client: float64 [clients], their sums.

    Raises:
      Failure: If one cannot be written.
    """
    rows = [estimate.row() for estimate in evaluation.estimates]
    write_files(folder, rows, _as_json(evaluation), page(evaluation, picture(evaluation, weights, by_client)))


def write_files(
    output_dir: str, rows: Sequence[Mapping[str, Any]], described: Mapping[str, Any], document: str
) -> None:
    """Writes `FILES`, and says so: rows, a description with null for numbers that are not finite, and a page.

    Raises:
      Failure: If one cannot be written.
    """
    import pandas as pd

    folder = pathlib.Path(output_dir)
    with files.write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    finite = [
        {name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in row.items()}
        for row in rows
    ]
    described = {**described, "estimates": finite}
    table = pd.DataFrame(rows).to_csv(index=False, na_rep="nan")
    for name, content in zip(FILES, (table, json.dumps(described, indent=2) + "\n", document), strict=True):
        files.replace(folder / name, content.encode())
    print(f"\nWritten to {cli.shown_path(output_dir)}: {', '.join(FILES)}")


def _as_json(evaluation: Evaluation) -> dict[str, Any]:
    headline = None if evaluation.refusal else estimates.headline(evaluation.estimates)
    described = {name: getattr(evaluation, name) for name in _FACTS} | {
        "headline": {"estimator": headline[0].name, "reason": headline[1]} if headline else None,
        "reward_bounds": evaluation.reward_bounds and dataclasses.astuple(evaluation.reward_bounds),
        "refusal": evaluation.refusal and evaluation.refusal._asdict(),
        "columns": list(evaluation.columns),
        "overlap": {name: getattr(evaluation, name) for name in _OVERLAP},
    }
    if evaluation.anytime:
        described["anytime"] = {name: values.tolist() for name, values in evaluation.anytime._asdict().items()}
        described["anytime"]["sentences"] = list(evaluation.of_anytime)
    return described | {"findings": [finding._asdict() for finding in evaluation.findings]}


def picture(evaluation: Evaluation, weights: np.ndarray, by_client: np.ndarray) -> "matplotlib.figure.Figure":
    """Draws estimates with intervals, the distribution of weights, and clients' shares of them."""
    from optimization.study import curves, panels

    plot, grid = panels.grid(2, 2, (6.5, 7), height_ratios=(1.2, 1))
    axes, right, of_rows, of_clients = grid.flat
    right.remove()
    axes.set_subplotspec(axes.get_gridspec()[0, :])
    looks = {"logged": curves.Style(curves.BLACK, "-"), estimates.BIASED: curves.Style(curves.GREY, "--")}
    groups = {}
    for one in evaluation.estimates:
        kind = estimates.BIASED if one.is_biased else "logged" if one.name == "logged" else "estimate"
        groups[KINDS[one.name].label] = {kind: one.value}
    panels.forest(axes, groups, looks | {"estimate": curves.PLAIN})
    axes.axvline(evaluation.estimates[0].value.mean, color=curves.GREY, linewidth=0.8, linestyle="--")
    panels.label(axes, xlabel="mean reward per interaction (95% interval)", legend=True)
    ordered = np.sort(weights)[::-1]
    of_rows.plot(np.linspace(0, 1, len(ordered)), ordered)
    if len(ordered) and ordered[0] > _LARGE:
        of_rows.set_yscale("symlog", linthresh=0.1)
    panels.label(of_rows, xlabel="fraction of rows, largest first", ylabel="importance weight", title="Overlap")
    shares = np.sort(by_client)[::-1] / (by_client.sum() or 1)
    of_clients.plot(np.arange(1, len(shares) + 1), np.cumsum(shares))
    panels.label(of_clients, xlabel="number of clients, largest first", ylabel="fraction of all weight", ylim=(0, 1.02))
    panels.label(of_clients, title="Weights by client")
    return plot


def sequence_picture(sequence: ConfidenceSequence, bounds: RewardBounds) -> "matplotlib.figure.Figure":
    """Draws a sequence: the estimate and the interval after each observation, within the bounds."""
    from optimization.study import panels

    plot, ((axes,),) = panels.grid(1, 1, (6.5, 3.5))
    axes.fill_between(sequence.looks, sequence.lows, sequence.highs, alpha=0.3, step="mid")
    axes.plot(sequence.looks, sequence.estimates)
    ends = dataclasses.astuple(bounds)
    panels.label(axes, ylim=ends, xlabel="round or deployment period", ylabel="mean reward, 95% confidence sequence")
    return plot


def image(plot: "matplotlib.figure.Figure", description: str) -> str:
    """HTML of a picture with its description."""
    content = io.BytesIO()
    plot.savefig(content, format="png", dpi=110)
    source = base64.b64encode(content.getvalue()).decode()
    return f'<div class="scroll" tabindex="0"><img alt="{description}" src="data:image/png;base64,{source}"></div>'


def document(body: str) -> str:
    """Self-contained HTML page of an evaluation."""
    from bandits.results import page

    return page.document("Off-policy evaluation", body)


def page(evaluation: Evaluation, plot: "matplotlib.figure.Figure") -> str:
    """HTML page of an evaluation, the conclusion first."""
    conclusion, *reasons = map(html.escape, _conclusion(evaluation))
    items = "".join(
        f"<li>{'<b>Warning</b>: ' if finding.is_warning else ''}{html.escape(finding.text)}</li>"
        for finding in evaluation.findings
    )
    anytime = "".join(f"<p>{html.escape(sentence)}</p>" for sentence in evaluation.of_anytime)
    if evaluation.anytime:
        plot_of_sequence = sequence_picture(evaluation.anytime, evaluation.reward_bounds or UNIT)
        anytime += image(plot_of_sequence, "The interval after each observation")
    shown, resampled = _tables(evaluation)
    if resampled:
        title = f"Bootstrap intervals ({evaluation.draws:,} resamples of the clients)"
        resampled = f"<details><summary>{title}</summary>{resampled}</details>"
    return document(
        f"<p><b>{conclusion}</b> {' '.join(reasons)}</p><p>{html.escape(_log(evaluation))}</p>{shown}"
        f"{image(plot, 'Estimates with intervals, overlap, weights by client')}<ul>{items}</ul>{anytime}{resampled}"
        f"<p>{_NOTE}</p>"
    )
