"""The page about runs: what they gave, their curves and their commands, in one HTML file that needs no network."""

import base64
import html
import json
import pathlib
import string
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bandits import metrics
from data.errors import UsageError
from optimization.study import files
from optimization.study.metrics import SECONDS
from scripts import runs

if TYPE_CHECKING:
    import pandas as pd

_PRIVACY = ("epsilon", "epsilon assumes", "epsilon, proven")
# Flags that say where a run is and how it is executed, not what it computes.
_PLACES = {"experiment_name", "root_output_dir", "repeat"}
_DASHES = ("solid", "dash", "dashdot", "dot")
_CURVE_POINTS = 1000
_PAGE_POINTS = 1_500_000  # 8 MB of base64.


def write(folders: Iterable[pathlib.Path], output: pathlib.Path, title: str = "Runs") -> list[str]:
    """Writes the page about all runs below some folders, whole; also while they are played, and more than once.

    Args:
      folders: Runs, or folders that hold runs at any depth. Runs without a finished round are left out.
      output: Page to write.
      title: Its title.

    Returns:
      What could not be read, a sentence each; the page names it, too.

    Raises:
      Failure: If the page cannot be written.
    """
    groups, problems = read(folders)
    files.replace(output, page(groups, title, problems).encode())
    return problems


def read(folders: Iterable[pathlib.Path]) -> tuple[dict[str, list[runs.Run]], list[str]]:
    """Returns the seeds of each run below some folders, by its label, and what could not be read."""
    found: dict[pathlib.Path, list[pathlib.Path]] = {}
    problems = []
    for folder in folders:
        try:
            for name, paths in runs.find(folder).items():
                together = found.setdefault(name, [])
                together += [path for path in paths if path not in together]
        except UsageError as error:
            problems.append(str(error))
    groups: dict[str, list[runs.Run]] = {}
    for label, paths in zip(runs.labels(found) if found else (), found.values(), strict=True):
        for path in paths:
            try:
                run = runs.read(path)
                groups.setdefault(label, []).append(run)
            except UsageError as error:
                problems.append(str(error))
    return groups, problems


def page(groups: Mapping[str, Sequence[runs.Run]], title: str, problems: Sequence[str] = ()) -> str:
    """Returns the page.

    Args:
      groups: The seeds of each run, by its label.
      title: Title.
      problems: What to say of runs that could not be read.
    """
    from plotly import offline

    panels, notes = _panels(groups)
    count = sum(map(len, groups.values()))
    summary = [f"<p>{count} run{'s' * (count > 1)} in {len(groups)} curve{'s' * (len(groups) > 1)}.</p>"]
    if any(len(seeds) > 1 for seeds in groups.values()):
        summary.append("<p>Line and band: mean and range over the seeds of a run.</p>")
    if problems:
        items = "".join(f"<li>{html.escape(problem)}</li>" for problem in problems)
        summary.append(f'<div class="problems">Left out:<ul>{items}</ul></div>')
    template = string.Template((pathlib.Path(__file__).parent / "template.html").read_text(encoding="utf-8"))
    return template.substitute(
        title=html.escape(title),
        plotly=offline.get_plotlyjs(),
        summary="\n".join(summary),
        notes="\n".join(f"<p>{html.escape(note)}</p>" for note in notes),
        table=_table(groups),
        commands="\n".join(
            f"<div><dt>{html.escape(_name(label, run))}</dt><dd><code>{html.escape(run.command)}</code></dd></div>"
            for label, seeds in groups.items()
            for run in seeds
        ),
        # Within a script element, "<" could end it.
        data=json.dumps({"runs": _styles(groups), "panels": panels}).replace("<", "\\u003c"),
    )


def _name(label: str, run: runs.Run) -> str:
    return f"{label}/{run.folder.name}" if run.folder.name.startswith("seed_") else label


def _styles(groups: Mapping[str, Sequence[runs.Run]]) -> list[dict[str, str]]:
    """Returns how each run's curves look; `name` is escaped because Plotly reads markup in it."""
    return [
        {
            "label": label,
            "name": html.escape(label),
            "colour": runs.COLOURS[index % len(runs.COLOURS)],
            "dash": _DASHES[index // len(runs.COLOURS) % len(_DASHES)],
        }
        for index, label in enumerate(groups)
    ]


def _panels(groups: Mapping[str, Sequence[runs.Run]]) -> tuple[list[dict[str, Any]], list[str]]:
    """Returns the plots of all metrics that have something to show, and what is to say of them in words."""
    present = [column for seeds in groups.values() for run in seeds for column in run.metrics]
    known = sorted(runs.declared().values(), key=lambda metric: not metric.told)  # As in the table, then the others.
    shown = [metric for metric in known if metric.drawn and metric in present]
    columns = [column for column in dict.fromkeys([*shown, *present]) if column in {*present} - {"round_num"}]
    curves, notes = {}, []
    for column in columns:
        bands = {}
        for index, seeds in enumerate(groups.values()):
            tables = [run.metrics for run in seeds if column in run.metrics]
            if tables and not (band := runs.band(tables, column)).empty:
                bands[index] = band, len(tables) > 1
        values = {value for band, _ in bands.values() for edge in ("low", "high") for value in band[edge].unique()[:2]}
        if not values:
            reason = "infinite: nothing is guaranteed" if column == metrics.EPSILON else "without a finite value"
            notes.append(f"Not drawn: {column}, {reason}.")
        elif len(values) == 1 and column not in shown:
            notes.append(f"Not drawn: {column} is always {values.pop():g}.")
        else:
            curves[column] = bands
    lines = sum(3 if is_band else 1 for bands in curves.values() for _, is_band in bands.values())
    limit = max(2, min(_CURVE_POINTS, _PAGE_POINTS // max(lines, 1)))
    panels, is_thinned = [], False
    for column, bands in curves.items():
        thinned = {index: _thin(band, limit) for index, (band, _) in bands.items()}
        is_thinned |= any(len(thinned[index]) < len(band) for index, (band, _) in bands.items())
        panels.append(
            {
                "column": column,
                "title": f"{runs.about(column)} ({column})" if column in runs.declared() else column,
                "curves": [{"run": index, **_curve(thinned[index], is_band)} for index, (_, is_band) in bands.items()],
            }
        )
    if is_thinned:
        notes.append(f"Of curves with more than {limit:,} rounds, every k-th round is drawn.")
    return panels, notes


def _thin(band: "pd.DataFrame", limit: int) -> "pd.DataFrame":
    """Returns every k-th row, the last one included, so that at most `limit` remain."""
    step = -(-len(band) // limit)
    return band.iloc[(len(band) - 1) % step :: step]


def _curve(band: "pd.DataFrame", is_band: bool) -> dict[str, Any]:
    """Returns a curve's part of Plotly's traces."""
    import numpy as np

    rounds = band.index.to_numpy()
    steps = np.unique(np.diff(rounds))
    place: dict[str, Any] = {"x": _packed(rounds, "i4")}
    if len(steps) <= 1:
        place = {"x0": int(rounds[0]), "dx": int(steps[0]) if len(steps) else 1}
    edges = ("mean", "low", "high") if is_band else ("mean",)
    return {"points": len(band), **place, **{edge: _packed(band[edge].to_numpy(), "f4") for edge in edges}}


def _packed(values, dtype: str) -> dict[str, str]:
    """Returns numbers as Plotly's typed arrays."""
    content = base64.b64encode(values.astype(f"<{dtype}").tobytes())
    return {"dtype": dtype, "bdata": content.decode("ascii")}


def _table(groups: Mapping[str, Sequence[runs.Run]]) -> str:
    """Returns the table of runs: flags that differ among the runs that have them, and outcomes."""
    everything = [run for seeds in groups.values() for run in seeds]
    values: dict[str, set[str]] = {}
    for run in everything:
        for flag, value in run.flags.items():
            values.setdefault(flag, set()).add(json.dumps(value))
    flags = sorted(flag for flag, given in values.items() if len(given) > 1 and flag not in _PLACES)
    told = [metric for metric in runs.declared().values() if metric.told]
    outcomes = [metric for metric in told if any(metric in run.metrics for run in everything)]
    has_privacy = any(run.privacy for run in everything)
    privacy = _PRIVACY if has_privacy else ()
    titles = ["run", *(f"--{flag}" for flag in flags), "rounds", *privacy, *outcomes]
    rows = []
    for label, seeds in groups.items():
        for run in seeds:
            cells = [_name(label, run), *(run.flags.get(flag) for flag in flags)]
            cells.append(int(run.metrics["round_num"].iloc[-1]))
            if has_privacy:
                assumed = "; ".join(run.privacy.get("epsilon_assumes", ())) or None
                cells += [run.privacy.get("epsilon"), assumed, run.privacy.get("epsilon_proven")]
            cells += [_last(run.metrics, column) for column in outcomes]
            cells.append(run.metrics[SECONDS].median() if SECONDS in run.metrics else None)
            rows.append("<tr>" + "".join(map(_cell, cells)) + "</tr>")
    head = "".join(f"<th><button>{html.escape(title)}</button></th>" for title in [*titles, "seconds a round, median"])
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n" + "\n".join(rows) + "\n</tbody></table>"


def _last(table: "pd.DataFrame", column: str) -> float | None:
    if column not in table or not table[column].count():
        return None
    return float(table[column].dropna().iloc[-1])


def _cell(value: Any) -> str:
    if value is None:
        return '<td data-value="">–</td>'
    if isinstance(value, float):
        return f'<td data-value="{value!r}">{value:.5g}</td>'
    return f"<td>{html.escape(str(value))}</td>"
