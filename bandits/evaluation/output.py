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

from bandits.evaluation import estimates
from bandits.evaluation.confidence_sequence import ConfidenceSequence
from bandits.evaluation.estimates import LABELS, Estimate
from bandits.results import tables
from data import files
from data.errors import UsageError
from data.log_checks import Finding
from optimization.study import cli
from optimization.study.intervals import Interval

if TYPE_CHECKING:
    import matplotlib.figure

FILES = ("estimates.csv", "evaluation.json", "evaluation.html")
_FACTS = ("log", "policy", "rows", "clients", "actions", "has_model", "draws")
_OVERLAP = ("effective_sample_size", "mean_weight", "largest_weight")
_NOTE = (
    "95% intervals over clients, whose own rows are dependent. They ignore the randomness of the reward model's "
    "training, and a future that differs from the log. Where the bias is unknown, there is no interval and no "
    "difference."
)
_LARGE = 10.0  # Weights that reach further are drawn on a logarithmic axis.


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """What there is to tell.

    Attributes:
      log: The log's file.
      policy: The policy.
      rows: Rows of the log.
      clients: Clients of the log.
      actions: Its actions.
      estimates: Of all estimators, the log's own mean first.
      effective_sample_size: Rows of equal weight that would be worth as much.
      mean_weight: Near 1 where propensities are right and the log supports the policy.
      largest_weight: Of any row.
      findings: Of the log's checks.
      has_model: Whether a reward model was trained.
      draws: Of the bootstrap.
      anytime: The interval after each look; None without `--anytime`.
      of_anytime: What is said of it.
    """

    log: str
    policy: str
    rows: int
    clients: int
    actions: int
    estimates: Sequence[Estimate]
    effective_sample_size: float
    mean_weight: float
    largest_weight: float
    findings: Sequence[Finding]
    has_model: bool
    draws: int
    anytime: ConfidenceSequence | None = None
    of_anytime: Sequence[str] = ()


def _shown(interval: Interval | None, *, signed: bool = False, without: str = "no interval") -> str:
    """Returns a value or a difference as text; `without` is what it says instead of an interval."""
    if interval is None:
        return ""
    if math.isnan(interval.mean):
        return "cannot be estimated"
    return interval.text(signed=signed) + (f" ({without})" if math.isnan(interval.low) else "")


def _value(one: Estimate) -> str:
    return _shown(one.value, without=estimates.BIASED if one.is_biased else "no interval")


def _headline(told: Evaluation) -> str:
    found = estimates.headline(told.estimates)
    if found is None:
        return f"Headline: none, because {_why_none(told)}."
    one, reason = found
    less = f"; {_shown(one.difference, signed=True)} against the log's mean reward" if one.difference else ""
    return f"Headline: {_value(one)} by {LABELS[one.name]}{less}. It {reason}."


def _why_none(told: Evaluation) -> str:
    """Returns why no unbiased estimator has a value."""
    if math.isnan(told.estimates[0].value.mean):
        return "no logged reward differs from 0"
    if not any(one.name in estimates.HEADLINES for one in told.estimates):
        return "--estimators names none of ips, snips and dr"
    if not told.mean_weight:
        return "the policy plays none of the logged actions"
    return "no logged action that the policy plays earned a reward"


def _table(told: Evaluation) -> tuple[list[str], list[list[str]]]:
    """Returns the titles of the columns, and a row for each estimator."""
    heads = ["estimator", "parameter", "value", "against the log", f"bootstrap, {told.draws:,} draws"]
    return heads, [
        [LABELS[one.name], one.parameter, _value(one), _shown(one.difference, signed=True), _shown(one.bootstrap)]
        for one in told.estimates
    ]


def _head(told: Evaluation) -> str:
    return f"{told.policy} on {told.log}: {told.rows:,} rows of {told.clients:,} clients, {told.actions} actions"


def _overlap(told: Evaluation) -> str:
    return (
        f"effective sample size {told.effective_sample_size:.6g}, mean weight {told.mean_weight:.6g}, largest weight "
        f"{told.largest_weight:.6g}"
    )


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


def text(told: Evaluation) -> str:
    """Returns what is printed."""
    heads, rows = _table(told)
    lines = [_head(told), "", _headline(told), "", tables.text(heads[:-1], [row[:-1] for row in rows])]
    lines += ["", f"Overlap: {_overlap(told)}."]
    lines += [f"{'Warning: ' if finding.is_warning else ''}{finding.text}" for finding in told.findings]
    return "\n".join([*lines, *told.of_anytime, "", _NOTE])


def write(told: Evaluation, folder: pathlib.Path, weights: np.ndarray, by_client: np.ndarray) -> None:
    """Writes `estimates.csv`, `evaluation.json` and `evaluation.html`, each whole.

    Args:
      told: What there is to tell.
      folder: Where to; made if it is missing.
      weights: float64 [rows], of all rows.
      by_client: float64 [clients], their sums.

    Raises:
      Failure: If one cannot be written.
    """
    rows = [one.row() for one in told.estimates]
    write_files(folder, rows, _as_json(told), page(told, picture(told, weights, by_client)))


def write_files(
    folder: pathlib.Path, rows: Sequence[Mapping[str, Any]], described: Mapping[str, Any], document: str
) -> None:
    """Writes `FILES`: rows, a description, in whose numbers null stands for what is not finite, and a page.

    Raises:
      Failure: If one cannot be written.
    """
    import pandas as pd

    with files.told(folder):
        folder.mkdir(parents=True, exist_ok=True)
    finite = [
        {name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in row.items()}
        for row in rows
    ]
    described = {**described, "estimates": finite}
    table = pd.DataFrame(rows).to_csv(index=False, na_rep="nan")
    for name, content in zip(FILES, (table, json.dumps(described, indent=2) + "\n", document), strict=True):
        files.replace(folder / name, content.encode())


def _as_json(told: Evaluation) -> dict[str, Any]:
    headline = estimates.headline(told.estimates)
    found = {name: getattr(told, name) for name in _FACTS} | {
        "headline": {"estimator": headline[0].name, "reason": headline[1]} if headline else None,
        "overlap": {name: getattr(told, name) for name in _OVERLAP},
    }
    if told.anytime:
        found["anytime"] = {name: values.tolist() for name, values in told.anytime._asdict().items()}
        found["anytime"]["sentences"] = list(told.of_anytime)
    return found | {"findings": [finding._asdict() for finding in told.findings]}


def picture(told: Evaluation, weights: np.ndarray, by_client: np.ndarray) -> "matplotlib.figure.Figure":
    """Draws estimates with intervals, how weights are distributed, and clients' shares of them."""
    from matplotlib import figure

    drawn = figure.Figure(figsize=(10, 7.5), layout="constrained")
    above, below = drawn.subfigures(2, 1, height_ratios=(1.2, 1))  # type: ignore[misc]
    axes = above.subplots()
    for place, one in enumerate(told.estimates):
        value = one.value
        colour = "black" if one.name == "logged" else "tab:gray" if one.is_biased else "tab:blue"
        axes.plot([value.mean], [place], "x" if one.is_biased else "o", color=colour)
        if math.isfinite(value.low):
            axes.plot([value.low, value.high], [place, place], color=colour)
    axes.axvline(told.estimates[0].value.mean, color="grey", linewidth=0.8, linestyle="--")
    axes.set_yticks(range(len(told.estimates)), [LABELS[one.name] for one in told.estimates])
    axes.invert_yaxis()
    axes.set_xlabel(f"mean reward of an interaction, with 95% intervals over clients (crosses: {estimates.BIASED})")
    of_rows, of_clients = below.subplots(1, 2)
    ordered = np.sort(weights)[::-1]
    of_rows.plot(np.linspace(0, 1, len(ordered)), ordered)
    if len(ordered) and ordered[0] > _LARGE:
        of_rows.set_yscale("symlog", linthresh=0.1)
    of_rows.set_xlabel("share of rows, largest weights first")
    of_rows.set_ylabel("weight")
    of_rows.set_title("Overlap", fontsize=10)
    shares = np.sort(by_client)[::-1] / (by_client.sum() or 1)
    of_clients.plot(np.arange(1, len(shares) + 1), np.cumsum(shares))
    of_clients.set_ylim(0, 1.02)
    of_clients.set_xlabel("clients, those of the most weight first")
    of_clients.set_ylabel("share of all weight")
    of_clients.set_title("Weights by client", fontsize=10)
    return drawn


def sequence_picture(found: ConfidenceSequence) -> "matplotlib.figure.Figure":
    """Draws a sequence: the estimate and the interval after each look."""
    from matplotlib import figure

    drawn = figure.Figure(figsize=(10, 3.5), layout="constrained")
    axes = drawn.subplots()
    axes.fill_between(found.looks, found.lows, found.highs, alpha=0.3, step="mid")
    axes.plot(found.looks, found.estimates)
    axes.set_ylim(0, 1)
    axes.set_xlabel("round, or period, of the look")
    axes.set_ylabel("value, with an interval at every look")
    return drawn


def image(drawn: "matplotlib.figure.Figure", told: str) -> str:
    """Returns a picture as a page holds it, with what it shows in words."""
    content = io.BytesIO()
    drawn.savefig(content, format="png", dpi=110)
    source = base64.b64encode(content.getvalue()).decode()
    return f'<div class="scroll" tabindex="0"><img alt="{told}" src="data:image/png;base64,{source}"></div>'


def document(body: str) -> str:
    """Returns the page of an evaluation, which needs no network."""
    from bandits.results import page

    return page.document("Off-policy evaluation", body)


def page(told: Evaluation, drawn: "matplotlib.figure.Figure") -> str:
    """Returns the page of an evaluation."""
    items = "".join(
        f"<li>{'<b>Warning</b>: ' if finding.is_warning else ''}{html.escape(finding.text)}</li>"
        for finding in told.findings
    )
    anytime = "".join(f"<p>{html.escape(sentence)}</p>" for sentence in told.of_anytime)
    if told.anytime:
        anytime += image(sequence_picture(told.anytime), "The interval after each look")
    heads, rows = _table(told)
    return document(
        f"<p>{html.escape(_head(told))}</p><p><b>{html.escape(_headline(told))}</b></p>"
        f"{tables.html(heads, rows, left=heads)}<p>Overlap: {_overlap(told)}.</p><ul>{items}</ul>"
        f"{image(drawn, 'Estimates with intervals, overlap, weights by client')}{anytime}<p>{_NOTE}</p>"
    )
