"""Pictures: the curves of a figure's runs, and the pictures of the docs, which are drawn from records."""

import functools
import pathlib
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from bandits.papers import page
from bandits.papers.plan import Figure
from bandits.results import runs
from data import files
from data.errors import UsageError
from optimization.study import curves, intervals
from optimization.study.intervals import Interval
from optimization.study.results import Run

OVER_TASKS = "over tasks"  # Replaces a file name: the normalized scores over all tasks.
_SPEC = pathlib.Path(__file__).with_name("docs_pictures.toml")
_LABELS = ("title", "xlabel", "ylabel", "xlim", "ylim", "xscale", "yscale")


def draw(figure: Figure, finished: Mapping[str, Sequence[Run]], folder: pathlib.Path) -> None:
    """Draws a figure's curves as `NAME.png`, or one picture per combination of the label parts after the first.

    Args:
      figure: The figure.
      finished: Finished runs of its configurations, by label.
      folder: Folder to write to; nothing is written if the figure has no curves.
    """
    from optimization.study import panels

    ended = [one for one in figure.configurations if one.label in finished]
    drawn = [one for one in ended if one.is_drawn] or ended
    for words, group in runs.grouped(drawn, lambda one: one.words[1:]).items():
        tables = {one.words[0]: [run.metrics for run in finished[one.label]] for one in group}
        columns = [name for name in figure.curves if any(name in some[0] for some in tables.values())]
        if not columns:
            continue
        metrics = {runs.declared().get(name, name): runs.about(name) for name in columns}
        picture = panels.draw(
            tables,
            metrics,
            title=", ".join((figure.about.partition(";")[0], *words)),
            note=" ".join(filter(None, [f"{figure.text}.", figure.data_note])),
            bounds=[run.bounds for one in group for run in finished[one.label]],
        )
        files.save_picture(picture, folder / f"{'_'.join((figure.name, *words))}.png", dpi=150)


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
    """A picture of the docs, as a Matplotlib figure."""
    from optimization.study import panels

    columns = spec.get("columns", len(spec["panels"]))
    ratios = [panel.get("width", 1) for panel in spec["panels"][:columns]]
    rows = len(spec["panels"]) // columns
    figure, grid = panels.grid(rows, columns, tuple(spec["size"]), spec["title"], width_ratios=ratios)
    every = [values(panel, evidence) for panel in spec["panels"]]
    groups = [group for panel in spec["panels"] for group in (panel, *panel.get("groups", ()))]
    names = list(dict.fromkeys(name for group in groups for name in group.get("series", ())))
    styles = dict(zip(names, curves.styles(names), strict=True))
    for axes, panel, means in zip(grid.flat, spec["panels"], every, strict=True):
        shown = {name: style for name, style in styles.items() if any(name in group for group in means.values())}
        if panel["kind"] == "forest":
            panels.forest(axes, means, shown, panel.get("zero", False))
        else:
            panels.levels(axes, means, shown, numeric=panel["kind"] == "curves")
        panels.label(axes, **{key: panel[key] for key in _LABELS if key in panel})
    if len(names) > 1 and spec.get("legend", True):
        panels.add_legend(figure)
    return figure


def values(panel: Mapping[str, Any], evidence: pathlib.Path) -> dict[str, dict[str, Interval]]:
    """Means with 95% intervals of a panel, by group and strategy."""
    means: dict[str, dict[str, Interval]] = {}
    if panel["kind"] == "curves":
        table = _table(evidence / panel["file"]).set_index("arm").sort_values("x")
        for name, arm in panel["series"].items():
            for x, mean, low, high in table.loc[arm, ["x", "mean", "low", "high"]].to_numpy():
                means.setdefault(f"{x:g}", {})[name] = Interval(mean, low, high, 0)
        return dict(sorted(means.items(), key=lambda group: float(group[0])))
    bounds = panel.get("bounds", intervals.UNBOUNDED)
    for group in panel["groups"]:
        record = {key: group.get(key, panel.get(key, "")) for key in ("file", "measure", "arm", "reference")}
        for name, word in group.get("series", panel.get("series")).items():
            of_record = {key: text.replace("*", word) for key, text in record.items()}
            means.setdefault(group["name"], {})[name] = _interval(evidence, **of_record).within(*bounds)
    return means


def _interval(evidence: pathlib.Path, file: str, measure: str, arm: str, reference: str) -> Interval:
    """Mean over seeds with its interval, for a configuration or its paired difference from another.

    Args:
      evidence: Folder of the records.
      file: CSV file, or OVER_TASKS.
      measure: Column; not used for a file of points.
      arm: Configuration.
      reference: Configuration that is subtracted; empty for none.

    Raises:
      UsageError: If there is no such number.
    """
    try:
        if file == OVER_TASKS:
            return _scores(evidence, measure)[arm]
        table = _table(evidence / file)
        if "mean" in table:
            return Interval._make([*table.set_index("arm").loc[arm, ["mean", "low", "high"]], 0])
        table = table.pivot(index="seed", columns="arm", values=measure)
        shown = table[arm] - table[reference] if reference else table[arm]
        return intervals.of_mean(shown.dropna().tolist())
    except (OSError, KeyError) as error:
        raise UsageError(f"{evidence / file} has no {measure} for {arm} ({error}).") from error


@functools.cache
def _table(path: pathlib.Path) -> Any:
    """Records of a file; for estimates, a column `arm` is made of task, estimator, epsilon and multiple of clients."""
    table = pd.read_csv(path, dtype={"arm": str})
    if "estimator" in table:
        table["arm"] = table[["task", "estimator", "epsilon", "times"]].astype(str).agg(", ".join, axis=1)
    return table


@functools.cache
def _scores(evidence: pathlib.Path, measure: str) -> Mapping[str, Interval]:
    return page.scores_over_tasks(evidence)[measure].scores
