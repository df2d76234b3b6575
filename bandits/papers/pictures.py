"""Pictures: the curves of a figure's runs, and the pictures of the docs, which are drawn from records."""

import functools
import pathlib
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from bandits.papers import page
from bandits.papers.plan import Figure
from bandits.results import runs
from data import files
from data.errors import UsageError
from optimization.study import curves, intervals
from optimization.study.intervals import Interval
from optimization.study.results import Run

OVER_TASKS = "over tasks"  # Stands for a file: the normalized scores over all tasks.
_SPEC = pathlib.Path(__file__).with_name("docs_pictures.toml")
_CELL = re.compile(r"([-+\d.]+) \(([-+\d.]+) to ([-+\d.]+)\)")


def draw(figure: Figure, finished: Mapping[str, Sequence[Run]], folder: pathlib.Path) -> None:
    """Draws the curves of a figure as `NAME.png`, or as one picture for each label of its other axes.

    Args:
      figure: The figure.
      finished: Finished runs of its configurations, by label.
      folder: Folder to write to; nothing is written if the figure has no curves.
    """
    from optimization.study import panels

    drawn = [one for one in figure.configurations if one.is_drawn and one.label in finished]
    for words, group in runs.grouped(drawn, lambda one: one.words[1:]).items():
        tables = {one.words[0]: [run.metrics for run in finished[one.label]] for one in group}
        columns = [name for name in figure.curves if any(name in some[0] for some in tables.values())]
        if not columns:
            continue
        metrics = {runs.declared().get(name, name): runs.about(name) for name in columns}
        title = "\n".join(filter(None, [f"{figure.about}. {figure.text}", figure.data_note, ", ".join(words)]))
        path = folder / f"{'_'.join((figure.name, *words))}.png"
        files.save_picture(panels.draw(tables, metrics, title=title), path, dpi=150)


@functools.cache
def specs() -> Mapping[str, Any]:
    """The docs' pictures by name: title, size and panels; see the head of docs_pictures.toml."""
    return tomllib.loads(_SPEC.read_text(encoding="utf-8"))


def write(folder: pathlib.Path, evidence: pathlib.Path) -> list[pathlib.Path]:
    """Draws all pictures of the docs as PNG files.

    Args:
      folder: Folder to write to.
      evidence: Folder of the records.

    Returns:
      The files.

    Raises:
      UsageError: If a record is missing; the message names the file.
    """
    written = []
    for name, spec in specs().items():
        written.append(folder / f"{name}.png")
        files.save_picture(_drawn(spec, evidence), written[-1], 120)
    return written


def _drawn(spec: Mapping[str, Any], evidence: pathlib.Path) -> Any:
    """A picture of the docs, as a Matplotlib figure; one row of panels."""
    from optimization.study import panels

    ratios = [panel.get("width", 1) for panel in spec["panels"]]
    figure, ((*grid,),) = panels.grid(1, len(ratios), tuple(spec["size"]), spec["title"], width_ratios=ratios)
    groups = [(panel, group) for panel in spec["panels"] for group in panel["groups"]]
    names = list(dict.fromkeys(name for panel, group in groups for name in _series(panel, group)))
    styles = dict(zip(names, curves.styles(names), strict=True))
    for axes, panel in zip(grid, spec["panels"], strict=True):
        means = values(panel, evidence)
        shown = {name: style for name, style in styles.items() if any(name in group for group in means.values())}
        if panel["kind"] == "forest":
            panels.forest(axes, means, shown, panel.get("zero", False))
        else:
            panels.levels(axes, means, shown)
        panels.label(axes, **{key: panel[key] for key in ("title", "xlabel", "ylabel", "ylim") if key in panel})
    if len(names) > 1 and spec.get("legend", True):
        panels.add_legend(figure, spec.get("columns", 5))
    return figure


def _series(panel: Mapping[str, Any], group: Mapping[str, Any]) -> Mapping[str, str]:
    """Text that replaces `*` in a group's record, for each strategy, which is named as in the legend."""
    return group.get("series", panel.get("series"))


def values(panel: Mapping[str, Any], evidence: pathlib.Path) -> dict[str, dict[str, Interval]]:
    """Means with 95% intervals of a panel, by group and strategy."""
    means: dict[str, dict[str, Interval]] = {}
    for group in panel["groups"]:
        record = {key: group.get(key, panel.get(key, "")) for key in ("file", "measure", "arm", "reference")}
        for name, word in _series(panel, group).items():
            of_record = {key: text.replace("*", word) for key, text in record.items()}
            means.setdefault(group["name"], {})[name] = _interval(evidence, **of_record)
    return means


def _interval(evidence: pathlib.Path, file: str, measure: str, arm: str, reference: str) -> Interval:
    """Mean over seeds with its interval, for a configuration or its paired difference from another.

    Args:
      evidence: Folder of the records.
      file: CSV file, Markdown file with tables, or OVER_TASKS.
      measure: Column.
      arm: Configuration; in a Markdown table, the start of a row.
      reference: Configuration that is subtracted; empty for none.

    Raises:
      UsageError: If there is no such number.
    """
    try:
        if file == OVER_TASKS:
            return _scores(evidence, measure)[arm]
        if file.endswith(".md"):
            return _of_page((evidence / file).read_text(encoding="utf-8"), measure, arm)
        table = _table(evidence / file).pivot(index="seed", columns="arm", values=measure)
        shown = table[arm] - table[reference] if reference else table[arm]
        return intervals.of_mean(shown.dropna().tolist())
    except (OSError, KeyError) as error:
        raise UsageError(f"{evidence / file} has no {measure} of {arm} ({error}).") from error


@functools.cache
def _table(path: pathlib.Path) -> Any:
    """Records of a file; without a column `arm`, it is made of task, estimator, epsilon and multiple of clients."""
    import pandas as pd

    table = pd.read_csv(path, dtype={"arm": str})
    if "arm" not in table:
        table["arm"] = table[["task", "estimator", "epsilon", "times"]].astype(str).agg(", ".join, axis=1)
    return table


@functools.cache
def _scores(evidence: pathlib.Path, measure: str) -> Mapping[str, Interval]:
    return page.scores_over_tasks(evidence)[measure].scores


def _of_page(text: str, measure: str, arm: str) -> Interval:
    """Interval from a Markdown page's first table with the column `measure` and a row that starts with `arm`."""
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        head, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines())
        for row in rows if measure in head else ():
            if row[0].startswith(arm) and (match := _CELL.fullmatch(row[head.index(measure)])):
                mean, low, high = map(float, match.groups())
                return Interval(mean, low, high, 0)
    raise KeyError(arm)
