import io

import pandas as pd

from optimization.study import curves, panels
from optimization.study.intervals import Interval


def _table(*scores: float, deployed=()) -> pd.DataFrame:
    rounds = range(1, len(scores) + 1)
    marks = [int(round_num in deployed) for round_num in rounds]
    return pd.DataFrame({"round_num": rounds, "score": scores, "loss": scores, "deployed": marks})


def test_curves_have_a_panel_for_each_metric_and_one_legend():
    tables = {"a": [_table(1.0, 2.0, deployed=[2]), _table(3.0, 4.0)], "b": [_table(0.0, 1.0)]}
    figure = panels.draw(tables, {"score": "Score", "loss": "Loss"}, marks="deployed")
    assert [axes.get_ylabel() for axes in figure.axes] == ["Score", "Loss"]
    assert sorted(text.get_text() for text in figure.legends[0].get_texts()) == ["a", "b", "deployed"]
    assert figure.legends[0].get_title().get_text() == f"Bars: {curves.BANDS['ci']}."
    mean, single = figure.axes[0].get_lines()
    mark = figure.axes[0].collections[-1]
    assert (list(mean.get_ydata()), list(single.get_ydata())) == ([2.0, 3.0], [0.0, 1.0])
    assert [segment[:, 0].tolist() for segment in mark.get_segments()] == [[2, 2]]


def test_a_legend_and_a_note_lie_below_the_panels():
    tables = {f"strategy {number}": [_table(1.0, 2.0)] for number in range(9)}
    note = "These data are stand-ins, not the data of the paper. " * 3
    figure = panels.draw(tables, {"score": "Score"}, title="Scores", note=note)
    figure.savefig(io.BytesIO(), format="png")
    legend, axes = figure.legends[0].get_window_extent(), figure.axes[0].get_tightbbox()
    assert legend.y1 <= axes.y0
    assert legend.x0 >= 0
    assert legend.x1 <= figure.bbox.x1
    assert note.split() == figure.legends[0].get_title().get_text().split()


def test_a_forest_has_a_row_for_each_group_and_a_point_for_each_strategy():
    _, axes = panels.grid(1, 1, (4, 3))
    first, second, third = (Interval(mean, mean - 0.5, mean + 0.5, 3) for mean in (1.0, 2.0, 3.0))
    groups = {"x": {"a": first, "b": second}, "y": {"a": third}}
    panels.forest(axes[0, 0], groups, dict(zip("ab", curves.styles(["a", "b"]), strict=True)))
    assert [tick.get_text() for tick in axes[0, 0].get_yticklabels()] == ["x", "y"]
    points = [line for line in axes[0, 0].get_lines() if line.get_label() in ("a", "b")]
    assert [float(point.get_xdata()[0]) for point in points] == [1.0, 2.0, 3.0]
