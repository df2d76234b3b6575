"""Figure with a panel for each metric, which notebooks show automatically."""

import io
import math
from collections.abc import Mapping, Sequence

import matplotlib.figure
import pandas as pd

from optimization.study import curves

_COLUMNS = 2


class Figure(matplotlib.figure.Figure):
    """A figure that Jupyter shows with any pyplot backend."""

    def _repr_png_(self) -> bytes:
        file = io.BytesIO()
        self.savefig(file, format="png")
        return file.getvalue()


def draw(tables: Mapping[str, Sequence[pd.DataFrame]], titles: Mapping[str, str], kind: str = "minmax") -> Figure:
    """Plots metrics over rounds, one panel each; several seeds of one run become their mean and a band.

    Args:
      tables: Metrics of each label's seeds.
      titles: By column, the words above its panel.
      kind: The band, one of `curves.BANDS`.
    """
    width = min(_COLUMNS, len(titles))
    height = math.ceil(len(titles) / width)
    figure = Figure(figsize=(4.8 * width, 3.2 * height), layout="constrained")
    grid = list(figure.subplots(height, width, squeeze=False).flat)
    for axes, (column, title) in zip(grid, titles.items(), strict=False):
        for place, (label, seeds) in enumerate(tables.items()):
            if having := [seed for seed in seeds if column in seed]:
                curves.draw(axes, having, column, label, place, kind=kind)
        axes.set(title=title, xlabel="round")
        axes.locator_params(axis="x", integer=True)
        axes.grid(alpha=0.3)
    for axes in grid[len(titles) :]:
        axes.set_visible(False)
    figure.legend(*grid[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure
